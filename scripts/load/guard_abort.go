// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// abortOutcome compares the state of the server before and after aborted requests.
type abortOutcome struct {
	Requests int            `json:"requests"`
	Ways     map[string]int `json:"ways"`
	Before   state          `json:"before"`
	After    state          `json:"after"`
}

// Growth that is not a leak: pools and maps that had not reached their size.
const (
	heapLeaked  = 8 << 20
	filesLeaked = 5
)

// leaks lists what has grown beyond that.
func (a abortOutcome) leaks() (all []string) {
	if a.After.Goroutines > a.Before.Goroutines+leaked {
		all = append(all, "goroutines leak")
	}
	if a.After.Heap > a.Before.Heap+heapLeaked {
		all = append(all, "memory leaks")
	}
	if a.After.Files > a.Before.Files+filesLeaked {
		all = append(all, "file descriptors leak")
	}
	return all
}

// abortCase is a way to abort a request: what the client sends, and how many bytes of the answer it reads before it
// closes the connection. It waits before it closes, so that the handlers have reached the place to be interrupted.
type abortCase struct {
	Name    string
	Request []byte
	Read    int
	Wait    time.Duration
	// HTTP2 is a request of HTTP/2 instead. Its stream is reset while others on the same connection continue.
	HTTP2 *stream
}

// stream is a request of HTTP/2.
type stream struct {
	Path, Body string
	Missing    bool // the end of the body does not come
}

// abort aborts requests in all ways of abortCases.
func (g *guardBench) abort(ctx context.Context) (*abortOutcome, error) {
	s, err := g.server(ctx)
	if err != nil {
		return nil, err
	}
	defer s.close()
	if len(g.upstream.Text) == 0 {
		g.upstream.Text = tokens(strings.Repeat("The train to the coast leaves at nine. ", 20))
	}
	ways, err := abortCases(s.Address)
	if err != nil {
		return nil, err
	}
	if _, err := g.abortAll(ctx, s, ways, 50*len(ways)); err != nil { // warms up
		return nil, err
	}
	outcome := &abortOutcome{Requests: g.aborted}
	if outcome.Before, err = s.settled(ctx); err != nil {
		return nil, err
	}
	if outcome.Ways, err = g.abortAll(ctx, s, ways, g.aborted); err != nil {
		return nil, err
	}
	// Goroutines that remain may wait for a timeout of half a minute.
	for deadline := time.Now().Add(45 * time.Second); ; {
		if outcome.After, err = s.settled(ctx); err != nil {
			return nil, err
		}
		if len(outcome.leaks()) == 0 && outcome.After.Goroutines <= outcome.Before.Goroutines+2 ||
			time.Now().After(deadline) {
			break
		}
	}
	fmt.Printf("\n%d aborted requests in %d ways\n", g.aborted, len(ways))
	fmt.Println("         goroutines   heap MiB   stacks MiB   open files   resident MiB")
	for _, row := range []struct {
		name string
		state
	}{{"before", outcome.Before}, {"after", outcome.After}} {
		fmt.Printf("%-6s   %10d   %8.2f   %10.2f   %10d   %12.1f\n", row.name, row.Goroutines, mebi(row.Heap),
			mebi(row.Stack), row.Files, mebi(row.Resident))
	}
	// The server still works.
	one := job{Address: s.Address, Connections: 1, Duration: time.Nanosecond,
		Requests: [][]byte{post(s.Address, guardedPath+"/comments", s.Key, []byte(`{"comment":"A fine day."}`))}}
	if t, err := one.run(ctx); err != nil || t.Answered != 1 {
		return nil, fmt.Errorf("a request afterwards was answered with %d\n%s", t.Sample, s.process.Output())
	}
	return outcome, s.process.Stop()
}

// abortCases returns all ways to abort a request.
func abortCases(host string) ([]abortCase, error) {
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	_, _ = zip.Write([]byte(`{"comment":"` + strings.Repeat("The train to the coast leaves at nine. ", 500) + `"}`))
	if err := zip.Close(); err != nil { // to memory; never fails
		return nil, err
	}
	body := `{"thread":"t-1","comment":"` + strings.Repeat("The train to the coast leaves at nine. ", 50) + `"}`
	form := "--b\r\nContent-Disposition: form-data; name=\"title\"\r\n\r\nOur holiday\r\n--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"a.jpg\"\r\n\r\n" +
		strings.Repeat("0123456789abcdef", 8<<10)
	head := func(path string, fields ...string) string {
		return "POST " + path + " HTTP/1.1\r\nHost: " + host + "\r\n" + strings.Join(append(fields, "", ""), "\r\n")
	}
	const asJSON = "Content-Type: application/json"
	length := func(n int) string { return fmt.Sprintf("Content-Length: %d", n) }
	half := body[:len(body)/2]
	chunk := func(data string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(data), data) }
	const soon, later = 2 * time.Millisecond, 30 * time.Millisecond
	http1 := func(name string, request string, read int, wait time.Duration) abortCase {
		return abortCase{Name: name, Request: []byte(request), Read: read, Wait: wait}
	}
	http2 := func(name, path, body string, missing bool, read int, wait time.Duration) abortCase {
		return abortCase{Name: name, HTTP2: &stream{Path: path, Body: body, Missing: missing}, Read: read, Wait: wait}
	}
	return []abortCase{
		http1("in the head", "POST "+guardedPath+"/ HTTP/1.1\r\nHost: ", 0, soon),
		http1("before the body", head(guardedPath+"/", asJSON, length(len(body))), 0, soon),
		http1("in the body", head(guardedPath+"/", asJSON, length(len(body)))+half, 0, soon),
		http1("in the body, which is waited for", head(guardedPath+"/", asJSON, length(len(body)))+half, 0, later),
		http1("in a chunk", head(guardedPath+"/", asJSON, "Transfer-Encoding: chunked")+chunk(half)+"fff\r\n"+half, 0,
			soon),
		http1("between chunks", head(guardedPath+"/", asJSON, "Transfer-Encoding: chunked")+chunk(half), 0, soon),
		http1("in a compressed body",
			head(guardedPath+"/", asJSON, "Content-Encoding: gzip", length(packed.Len()))+
				packed.String()[:packed.Len()/2], 0, soon),
		http1("in a file of a form",
			head(guardedPath+"/", "Content-Type: multipart/form-data; boundary=b", length(1<<20))+form, 0, later),
		http1("in the text behind a file of a form",
			head(guardedPath+"/", "Content-Type: multipart/form-data; boundary=b", length(1<<20))+form+
				"\r\n--b\r\nContent-Disposition: form-data; name=\"comment\"\r\n\r\nThe train", 0, later),
		http1("while it waits for 100 Continue",
			head(guardedPath+"/", asJSON, "Expect: 100-continue", length(len(body))), 1, 0),
		http1("before the answer", head(bothPath+"/slow", asJSON, length(len(body)))+body, 0, later),
		http1("at the beginning of the answer", head(guardedPath+"/", asJSON, length(len(body)))+body, 1, 0),
		http1("in a long answer", head(guardedPath+"/long", asJSON, length(len(body)))+body, 10_000, 0),
		http1("in a long answer that is judged", head(answersPath+"/long", asJSON, length(len(body)))+body, 1, soon),
		http1("before a streamed answer that is judged", head(answersPath+"/stream", asJSON, length(len(body)))+body, 0,
			later),
		http1("in a streamed answer that is judged", head(bothPath+"/stream", asJSON, length(len(body)))+body, 300,
			later),
		http1("by the upstream, in its answer", head(bothPath+"/broken", asJSON, length(len(body)))+body, 100, soon),
		http2("in the body, HTTP/2", guardedPath+"/", half, true, 0, soon),
		http2("in the body, which is waited for, HTTP/2", guardedPath+"/", half, true, 0, later),
		http2("before the answer, HTTP/2", bothPath+"/slow", body, false, 0, later),
		http2("in a long answer, HTTP/2", guardedPath+"/long", body, false, 10_000, 0),
		http2("in a long answer that is judged, HTTP/2", answersPath+"/long", body, false, 1, soon),
		http2("in a streamed answer that is judged, HTTP/2", bothPath+"/stream", body, false, 300, later),
	}, nil
}

// abortAll sends n requests in all ways, as many of each, and returns how many of each were aborted.
func (g *guardBench) abortAll(ctx context.Context, s *subject, ways []abortCase, n int) (map[string]int, error) {
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	var next atomic.Int64
	var mu sync.Mutex
	counts := map[string]int{}
	var failure error
	var wg sync.WaitGroup
	for range g.connections {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n || ctx.Err() != nil {
					return
				}
				way := ways[i%len(ways)]
				var err error
				if way.HTTP2 != nil {
					err = way.reset(ctx, transport, s.Address)
				} else {
					err = way.do(s.Address, i/len(ways)%2 == 0)
				}
				mu.Lock()
				if err != nil && failure == nil {
					failure = fmt.Errorf("aborting %s: %w", way.Name, err)
				}
				counts[way.Name]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if failure == nil {
		failure = ctx.Err()
	}
	return counts, failure
}

// do sends a request and aborts it, by a reset or an orderly end of the connection.
func (a abortCase) do(address string, reset bool) error {
	conn, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	if tcp, ok := conn.(*net.TCPConn); ok && reset {
		_ = tcp.SetLinger(0)
	}
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := conn.Write(a.Request); err != nil {
		return nil // the server was first
	}
	if a.Read > 0 {
		_, _ = io.CopyN(io.Discard, conn, int64(a.Read)) // there may be less
	}
	time.Sleep(a.Wait)
	return nil
}

// reset sends a request of HTTP/2 and resets its stream.
func (a abortCase) reset(ctx context.Context, transport *http.Transport, address string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var body io.Reader = strings.NewReader(a.HTTP2.Body)
	if a.HTTP2.Missing {
		reader, writer := io.Pipe()
		defer writer.Close()
		body = io.MultiReader(body, reader)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+a.HTTP2.Path, body)
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	if a.Read == 0 {
		time.AfterFunc(a.Wait, cancel)
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		if errors.Is(err, context.Canceled) {
			err = nil // as it should be
		}
		return err
	}
	defer response.Body.Close()
	if response.ProtoMajor != 2 {
		return fmt.Errorf("answered by %s", response.Proto)
	}
	_, _ = io.CopyN(io.Discard, response.Body, int64(a.Read)) // there may be less
	time.Sleep(a.Wait)
	return nil
}
