// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"
)

// job is a load: connections that each send one request after the other, the next when the answer to the last is read.
//
// The client writes and reads HTTP/1.1 by hand. net/http's client costs more CPU than the server under test, and on a
// machine with few cores that would hide differences between handlers.
type job struct {
	Address     string
	Requests    [][]byte // complete requests, sent in turn; each connection begins at another one
	Connections int
	Duration    time.Duration
	Pause       time.Duration // of each connection, between an answer and the next request
}

// tally holds the results of a load.
type tally struct {
	Sent     int64 // requests that were sent, or begun to be
	Answered int64 // answers with status 200 that were read to the end
	Other    int64 // complete answers with another status
	Sample   int   // a status among Other
	Elapsed  time.Duration
	Times    []time.Duration // how long each answered request took, sorted
}

// Rate is answers per second.
func (t tally) Rate() float64 {
	return float64(t.Answered) / t.Elapsed.Seconds()
}

// Percentile is the time within which p percent of the requests were answered.
func (t tally) Percentile(p float64) time.Duration {
	if len(t.Times) == 0 {
		return 0
	}
	return t.Times[min(len(t.Times)-1, int(p/100*float64(len(t.Times))))]
}

// run loads the server until the duration is over or ctx is done. Each connection sends at least once. A connection
// that breaks ends its share without an error, because the server may have been killed.
func (j job) run(ctx context.Context) (tally, error) {
	conns := make([]net.Conn, j.Connections)
	for i := range conns {
		conn, err := net.DialTimeout("tcp", j.Address, 5*time.Second)
		if err != nil {
			return tally{}, err
		}
		defer conn.Close()
		conns[i] = conn
	}
	begin := time.Now()
	deadline := begin.Add(j.Duration)
	shares := make([]tally, len(conns))
	var wg sync.WaitGroup
	for i, conn := range conns {
		wg.Go(func() { shares[i] = j.share(ctx, conn, i*len(j.Requests)/len(conns), deadline) })
	}
	wg.Wait()
	total := tally{Elapsed: time.Since(begin)}
	for _, s := range shares {
		total.Sent += s.Sent
		total.Answered += s.Answered
		total.Other += s.Other
		total.Sample = max(total.Sample, s.Sample)
		total.Times = append(total.Times, s.Times...)
	}
	slices.Sort(total.Times)
	return total, nil
}

// share runs the load of one connection.
func (j job) share(ctx context.Context, conn net.Conn, offset int, deadline time.Time) tally {
	var t tally
	_ = conn.SetDeadline(deadline.Add(10 * time.Second))
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
	defer stop()
	reader := bufio.NewReaderSize(conn, 64<<10)
	last := time.Now()
	for i := offset; ; i++ {
		if i > offset && !last.Before(deadline) || ctx.Err() != nil {
			return t
		}
		t.Sent++
		if _, err := conn.Write(j.Requests[i%len(j.Requests)]); err != nil {
			return t
		}
		status, err := skipAnswer(reader)
		if err != nil {
			return t
		}
		now := time.Now()
		if status == 200 {
			t.Answered++
			t.Times = append(t.Times, now.Sub(last))
		} else {
			t.Other++
			t.Sample = status
		}
		last = now
		if j.Pause > 0 {
			time.Sleep(j.Pause)
			last = time.Now()
		}
	}
}

var errAnswer = errors.New("not an HTTP/1.1 answer with a length")

// skipAnswer reads one answer to its end and returns its status.
func skipAnswer(r *bufio.Reader) (int, error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
		return 0, errAnswer
	}
	status, err := strconv.Atoi(string(line[9:12]))
	if err != nil {
		return 0, errAnswer
	}
	length, chunked := -1, false
	for {
		line, err = r.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return 0, errAnswer
			}
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			chunked = true
		}
	}
	if chunked {
		return status, skipChunks(r)
	}
	if length < 0 {
		return 0, errAnswer
	}
	_, err = r.Discard(length)
	return status, err
}

// skipChunks reads a chunked body to its end. The handlers under test send no trailers.
func skipChunks(r *bufio.Reader) error {
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		size, err := strconv.ParseInt(string(bytes.TrimRight(line, "\r\n")), 16, 32)
		if err != nil {
			return errAnswer
		}
		if _, err := io.CopyN(io.Discard, r, size+2); err != nil { // the chunk and its line end
			return err
		}
		if size == 0 {
			return nil
		}
	}
}

// post returns a complete request.
func post(host, path, key string, body []byte) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", path, host, key, len(body))
	b.Write(body)
	return b.Bytes()
}
