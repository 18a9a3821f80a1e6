// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestTwoGuards end a stream once.
func TestTwoGuards(t *testing.T) {
	app := newStreaming(t, "Content-Type", "text/event-stream")
	load(t, guardConfig(t, "route {\nmoderate_response {\nblock zorkmid\n}\nmoderate_response\n"+app.proxy()+"\n}"))
	got := read(t, client)
	app.parts <- chunkOf(fine)
	got.expect(chunkOf(fine))
	app.parts <- chunkOf(vile)
	got.expect(filteredEvents)
	got.end()
	app.gone(t)

	app = newStreaming(t, "Content-Type", "text/event-stream")
	reload(t, guardConfig(t, "route {\nmoderate_response {\nblock zorkmid\n}\nmoderate_response\n"+app.proxy()+"\n}"))
	got = read(t, client)
	app.parts <- chunkOf("A zorkmid.")
	got.expect(filteredEvents)
	got.end()
	app.gone(t)
}

// chunkOf is an event of a chat completion.
func chunkOf(text string) string {
	encoded, _ := json.Marshal(text)
	return `data: {"id":"c1","object":"chat.completion.chunk","created":7,"model":"m","choices":[{"index":0,"delta":{"content":` + string(encoded) + `},"finish_reason":null}]}` + "\n\n"
}

const doneEvent = "data: [DONE]\n\n"

// filteredEvents end a rejected stream of chunkOf.
const filteredEvents = `data: {"id":"c1","object":"chat.completion.chunk","created":7,"model":"m","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"content_filter"}]}` + "\n\n" + doneEvent

// streaming is an app that sends what a test tells it to, part by part.
type streaming struct {
	*backend
	parts chan string   // what to send; closed for the end, "!" for an end in the middle
	left  chan struct{} // closed when the guard or the client is gone
}

func newStreaming(t testing.TB, header ...string) *streaming {
	s := &streaming{parts: make(chan string), left: make(chan struct{})}
	s.backend = newBackend(t, func(w http.ResponseWriter, r *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		var out io.Writer = w
		if encode, ok := encoders[w.Header().Get("Content-Encoding")]; ok {
			out = encode(w)
		}
		_ = http.NewResponseController(w).Flush()
		for {
			select {
			case part, ok := <-s.parts:
				if part == "!" {
					panic(http.ErrAbortHandler)
				}
				if !ok {
					if closer, ok := out.(io.Closer); ok {
						_ = closer.Close()
					}
					return
				}
				_, _ = io.WriteString(out, part)
				if flusher, ok := out.(interface{ Flush() error }); ok {
					_ = flusher.Flush()
				}
				_ = http.NewResponseController(w).Flush()
			case <-r.Context().Done():
				close(s.left)
				return
			}
		}
	})
	return s
}

// gone waits until the app has noticed that nobody listens any more.
func (s *streaming) gone(t testing.TB) {
	t.Helper()
	select {
	case <-s.left:
	case <-time.After(20 * time.Second):
		t.Fatal("the request to the app goes on")
	}
}

// streamClient is a client that reads a stream.
type streamClient struct {
	t testing.TB
	*http.Response
	buffered *bufio.Reader
}

func read(t testing.TB, c *http.Client, headers ...string) *streamClient {
	t.Helper()
	request, err := http.NewRequest(http.MethodGet, base+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := c.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	return &streamClient{t, response, bufio.NewReader(response.Body)}
}

// expect reads exactly what is wanted next.
func (r *streamClient) expect(want string) {
	r.t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(r.buffered, got); err != nil || string(got) != want {
		r.t.Fatalf("%v: %q, want %q", err, got[:n], want)
	}
}

// end expects the end of a well-formed answer.
func (r *streamClient) end() {
	r.t.Helper()
	if rest, err := io.ReadAll(r.buffered); err != nil || len(rest) > 0 {
		r.t.Fatalf("the answer ends with %v, %q, want its end", err, rest)
	}
}

// protocols are the clients that read streams.
func protocols() map[string]*http.Client {
	clear := new(http.Protocols)
	clear.SetUnencryptedHTTP2(true)
	return map[string]*http.Client{
		"HTTP/1.1": {Transport: &http.Transport{}},
		"h2c":      {Transport: &http.Transport{Protocols: clear}},
	}
}

// streamConfig is a configuration whose server speaks HTTP/2 without TLS, too.
func streamConfig(t testing.TB, site string) string {
	return strings.Replace(guardConfig(t, site+"\nlog {\noutput discard\n}"), "persist_config off", "persist_config off\nservers {\nprotocols h1 h2 h2c\n}", 1)
}

// TestStreamIsModeratedAsItFlows sends events one by one. Each expectation is met while the app waits for the next
// part.
func TestStreamIsModeratedAsItFlows(t *testing.T) {
	for name, site := range map[string]string{
		"alone":          "moderate_response\n",
		"encode outside": "encode gzip\nmoderate_response\n",
		"encode inside":  "route {\nmoderate_response\nencode gzip\n",
	} {
		for protocol, client := range protocols() {
			for _, encoding := range []string{"", "gzip", "zstd"} {
				t.Run(name+"/"+protocol+"/"+encoding, func(t *testing.T) {
					app := newStreaming(t, "Content-Type", "text/event-stream", "Content-Encoding", encoding)
					site := site + app.proxy()
					if strings.HasPrefix(site, "route") {
						site += "\n}"
					}
					load(t, streamConfig(t, site))
					defer client.CloseIdleConnections()
					got := read(t, client) // the header comes before any event
					if got.StatusCode != 200 || got.Header.Get("Content-Type") != "text/event-stream" || got.Header.Get("Content-Encoding") != "" {
						t.Fatalf("got %d %v, want 200 and the header of events without encoding", got.StatusCode, got.Header)
					}
					app.parts <- ": ping\n\n"
					got.expect(": ping\n\n")
					app.parts <- chunkOf("The bakery")
					app.parts <- chunkOf(" is nice") + chunkOf(". Go")
					got.expect(chunkOf("The bakery") + chunkOf(" is nice"))
					app.parts <- chunkOf(" early!")[:20]
					app.parts <- chunkOf(" early!")[20:]
					got.expect(chunkOf(". Go") + chunkOf(" early!"))
					for _, word := range strings.SplitAfter(vile, " ") {
						app.parts <- chunkOf(word)
					}
					got.expect(filteredEvents)
					got.end()
					app.gone(t)
				})
			}
		}
	}
}

// TestStreamOfFineEvents goes through to its end.
func TestStreamOfFineEvents(t *testing.T) {
	app := newStreaming(t, "Content-Type", "text/event-stream; charset=utf-8", "Content-Length", "")
	load(t, streamConfig(t, "moderate_response\n"+app.proxy()))
	for _, client := range protocols() {
		app.parts = make(chan string)
		defer client.CloseIdleConnections()
		got := read(t, client)
		app.parts <- chunkOf(fine)
		app.parts <- chunkOf(" Without an end")
		close(app.parts)
		got.expect(chunkOf(fine) + chunkOf(" Without an end"))
		got.end()
	}
}

// TestStreamOptions are those of the Caddyfile.
func TestStreamOptions(t *testing.T) {
	app := newStreaming(t, "Content-Type", "text/event-stream")
	load(t, guardConfig(t, `
	moderate_response {
		stream {
			delta /token/text
			hold 10
			final "{\"stop\":\"moderation\"}" "[END]"
		}
	}
	`+app.proxy()))
	got := read(t, client)
	app.parts <- `data: {"token":{"text":"The bakery on"}}` + "\n\n"
	got.expect(`data: {"token":{"text":"The bakery on"}}` + "\n\n")
	app.parts <- `data: {"text":"` + vile + `"}` + "\n\n"
	got.expect(`data: {"text":"` + vile + `"}` + "\n\n")
	app.parts <- `data: {"token":{"text":"` + vile + `"}}` + "\n\n"
	got.expect("data: {\"stop\":\"moderation\"}\n\ndata: [END]\n\n")
	got.end()
	app.gone(t)
}

// TestTextIsModeratedAsItFlows when the app sends it without telling how long it is.
func TestTextIsModeratedAsItFlows(t *testing.T) {
	for protocol, client := range protocols() {
		t.Run(protocol, func(t *testing.T) {
			app := newStreaming(t, "Content-Type", "text/plain; charset=utf-8", "Etag", `"x"`)
			load(t, streamConfig(t, "moderate_response\n"+app.proxy()))
			defer client.CloseIdleConnections()
			go func() { app.parts <- fine + " And" }()
			got := read(t, client)
			got.expect(fine + " ")
			if got.Header.Get("Etag") != "" {
				t.Errorf("the header is %v, want no Etag", got.Header)
			}
			app.parts <- " then. "
			got.expect("And then. ")
			app.parts <- vile[:20]
			app.parts <- vile[20:]
			got.end()
			app.gone(t)
		})
	}
}

// TestTextThatBeginsVile is refused as a whole: nothing of it was sent.
func TestTextThatBeginsVile(t *testing.T) {
	app := newStreaming(t, "Content-Type", "text/plain")
	load(t, guardConfig(t, "moderate_response {\non reject {\nheader X-Why {http.moderation.response.categories}\n}\n}\n"+app.proxy()))
	go func() { app.parts <- vile + " And more." }()
	got := read(t, client)
	body, err := io.ReadAll(got.buffered)
	if err != nil || got.StatusCode != http.StatusUnprocessableEntity || !bytes.Contains(body, []byte("response_rejected")) || got.Header.Get("X-Why") == "" {
		t.Errorf("got the error %v, %d %s %v, want 422 response_rejected with X-Why", err, got.StatusCode, body, got.Header)
	}
	app.gone(t)
}

// TestAppThatBreaksOff is told to the client, who also gets what came before.
func TestAppThatBreaksOff(t *testing.T) {
	t.Run("events", func(t *testing.T) {
		app := newStreaming(t, "Content-Type", "text/event-stream")
		load(t, guardConfig(t, "moderate_response\n"+app.proxy()))
		got := read(t, client)
		app.parts <- chunkOf("The bakery")
		app.parts <- "!"
		got.expect(chunkOf("The bakery"))
		if rest, err := io.ReadAll(got.buffered); err == nil || len(rest) > 0 {
			t.Errorf("the stream ends with %v, %q, want an error and nothing more", err, rest)
		}
	})
	t.Run("vile events", func(t *testing.T) {
		app := newStreaming(t, "Content-Type", "text/event-stream")
		load(t, guardConfig(t, "moderate_response\n"+app.proxy()))
		got := read(t, client)
		app.parts <- chunkOf(strings.TrimSuffix(vile, "."))
		app.parts <- "!"
		got.expect(filteredEvents)
		got.end()
	})
	t.Run("held", func(t *testing.T) {
		app := newStreaming(t, "Content-Type", "text/html", "Etag", `"x"`)
		load(t, guardConfig(t, "moderate_response\n"+app.proxy()))
		go func() { app.parts <- fine; app.parts <- "!" }()
		got := get(t)
		if got.status != http.StatusBadGateway || len(got.body) > 0 || got.header.Get("Etag") != "" {
			t.Errorf("got %d %q %v, want 502 without a body or an Etag", got.status, got.body, got.header)
		}
	})
	t.Run("not judged", func(t *testing.T) {
		app := newStreaming(t, "Content-Type", "image/png")
		load(t, guardConfig(t, "moderate_response\n"+app.proxy()))
		got := read(t, client)
		app.parts <- "x"
		app.parts <- "!"
		if rest, err := io.ReadAll(got.buffered); err == nil || string(rest) != "x" {
			t.Errorf("the answer ends with %v, %q, want an error behind \"x\"", err, rest)
		}
	})
}

// TestClientThatLeaves ends the request to the app, whatever is done with the answer.
func TestClientThatLeaves(t *testing.T) {
	for _, media := range []string{"text/event-stream", "text/plain", "text/html", "image/png"} {
		t.Run(media, func(t *testing.T) {
			app := newStreaming(t, "Content-Type", media)
			load(t, guardConfig(t, "moderate_response\n"+app.proxy()))
			ctx, leave := context.WithCancel(context.Background())
			request, _ := http.NewRequestWithContext(ctx, http.MethodGet, base+"/", nil)
			ended := make(chan error)
			go func() {
				response, err := client.Do(request)
				if err == nil {
					_, err = io.ReadAll(response.Body)
					response.Body.Close()
				}
				ended <- err
			}()
			app.parts <- chunkOf("The bakery")
			leave()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			app.gone(t)
		})
	}
}

// TestNothingLeaks after many answers that were left, broken off, rejected and compressed.
func TestNothingLeaks(t *testing.T) {
	app := newBackend(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		var out io.Writer = w
		if r.URL.Query().Has("gzip") {
			w.Header().Set("Content-Encoding", "gzip")
			out = gzip.NewWriter(w)
		}
		for range 1000 {
			_, err := io.WriteString(out, chunkOf("The bakery"))
			if flusher, ok := out.(interface{ Flush() error }); ok {
				_ = flusher.Flush()
			}
			_ = http.NewResponseController(w).Flush()
			if err != nil || r.Context().Err() != nil {
				return
			}
			if r.URL.Query().Has("break") {
				panic(http.ErrAbortHandler)
			}
			if r.URL.Query().Has("vile") {
				_, _ = io.WriteString(out, chunkOf(vile))
			}
		}
	})
	load(t, guardConfig(t, "moderate_response\n"+app.proxy()))
	run := func(n int) {
		for i := range n {
			ctx, leave := context.WithCancel(context.Background())
			request, _ := http.NewRequestWithContext(ctx, http.MethodGet, base+"/?"+[]string{"", "break", "vile", "gzip", "gzip&vile"}[i%5], nil)
			if response, err := client.Do(request); err == nil {
				_, _ = io.CopyN(io.Discard, response.Body, 100)
				leave()
				response.Body.Close()
			}
			leave()
		}
	}
	run(50)
	settled := func() (n int) {
		client.CloseIdleConnections()
		for steady, ticks := 0, 0; steady < 30 && ticks < 500; steady, ticks = steady+1, ticks+1 {
			time.Sleep(10 * time.Millisecond)
			if now := runtime.NumGoroutine(); now != n {
				n, steady = now, 0
			}
		}
		return n
	}
	before := settled()
	run(300)
	if after := settled(); after > before+20 {
		t.Errorf("%d goroutines, then %d", before, after)
	}
}

// TestWebSocketGoesThrough both ways.
func TestWebSocketGoesThrough(t *testing.T) {
	app := newBackend(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "websocket" {
			t.Errorf("the app is asked with %v, want an upgrade", r.Header)
			return
		}
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n")
		_, _ = io.Copy(conn, rw)
	})
	load(t, guardConfig(t, "moderate\nencode gzip\nmoderate_response\nlog {\noutput discard\n}\n"+app.proxy()))
	conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "GET /chat HTTP/1.1\r\nHost: localhost:9080\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n")
	reader := bufio.NewReader(conn)
	response, err := http.ReadResponse(reader, nil)
	if err != nil || response.StatusCode != http.StatusSwitchingProtocols {
		t.Fatal(err, response)
	}
	for _, frame := range []string{"\x81\x85\x00\x00\x00\x00Hello", "\x81\x80" + vile} {
		_, _ = io.WriteString(conn, frame)
		echo := make([]byte, len(frame))
		if _, err := io.ReadFull(reader, echo); err != nil || string(echo) != frame {
			t.Fatalf("the echo ends with %v: got %q, want %q", err, echo, frame)
		}
	}
}

// TestUpgradeIsNoWayAround the guard: an app that does not switch protocols answers as ever.
func TestUpgradeIsNoWayAround(t *testing.T) {
	app := answers(t, map[string]string{"Content-Type": "application/json"}, 200, `{"text":"`+vile+`"}`)
	load(t, guardConfig(t, "moderate_response\n"+app.proxy()))
	if got := get(t, "Connection", "Upgrade", "Upgrade", "websocket"); got.status != http.StatusUnprocessableEntity {
		t.Errorf("got %d %s, want 422", got.status, got.body)
	}
}
