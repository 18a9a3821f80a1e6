// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// tokenEvery is the time between two tokens of a streamed answer.
const tokenEvery = 20 * time.Millisecond

// upstream is the app behind the proxy. It does next to nothing, so that the proxy is what is measured.
type upstream struct {
	Address string
	Text    []string // tokens of streamed answers

	server  http.Server
	streams sync.Map // *sent by the value of X-Load-Stream
}

// sent is when the tokens of a stream were sent.
type sent struct {
	mu    sync.Mutex
	times []time.Time
}

// newUpstream starts an upstream.
func newUpstream() (*upstream, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	u := &upstream{Address: listener.Addr().String()}
	mux := http.NewServeMux()
	mux.HandleFunc("/", u.post)
	mux.HandleFunc("/slow", u.slow)
	mux.HandleFunc("/long", u.long)
	mux.HandleFunc("/broken", u.broken)
	mux.HandleFunc("/stream", u.stream)
	u.server.Handler = mux
	go func() { _ = u.server.Serve(listener) }() // ends with Close
	return u, nil
}

// Close stops it.
func (u *upstream) Close() { _ = u.server.Close() }

var accepted = []byte(`{"ok":true}`)

// post reads the body and answers with its length.
func (u *upstream) post(w http.ResponseWriter, r *http.Request) {
	n, err := io.Copy(io.Discard, r.Body)
	if err != nil {
		return
	}
	w.Header()["Content-Type"] = []string{"application/json"}
	w.Header().Set("X-Load-Read", strconv.FormatInt(n, 10))
	_, _ = w.Write(accepted)
}

// slow answers after a while, unless the client disconnects.
func (u *upstream) slow(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	select {
	case <-time.After(300 * time.Millisecond):
	case <-r.Context().Done():
	}
	_, _ = w.Write(accepted)
}

// long answers with a megabyte of text, more than the buffers on its way hold.
func (u *upstream) long(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	line := []byte(strings.Repeat("The train to the coast leaves at nine. ", 26) + "\n")
	for range 1 << 10 {
		if _, err := w.Write(line); err != nil {
			return
		}
	}
}

// broken breaks the connection in the middle of its answer.
func (u *upstream) broken(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", "1000")
	_, _ = io.WriteString(w, `{"text":"The train to`)
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// stream sends a chat completion, a token at a time.
func (u *upstream) stream(w http.ResponseWriter, r *http.Request) {
	log := &sent{}
	if id := r.Header.Get("X-Load-Stream"); id != "" {
		u.streams.Store(id, log)
	}
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	ticker := time.NewTicker(tokenEvery)
	defer ticker.Stop()
	for _, token := range u.Text {
		content, _ := json.Marshal(token) // a string never fails
		log.mu.Lock()
		log.times = append(log.times, time.Now())
		log.mu.Unlock()
		_, err := fmt.Fprintf(w, "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":%s},\"finish_reason\":null}]}\n\n", content)
		if err != nil || control.Flush() != nil {
			return
		}
		select {
		case <-ticker.C:
		case <-r.Context().Done():
			return
		}
	}
	_, _ = io.WriteString(w, "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
}

// sentTimes is when the tokens of a stream were sent.
func (u *upstream) sentTimes(id string) []time.Time {
	value, ok := u.streams.LoadAndDelete(id)
	if !ok {
		return nil
	}
	log := value.(*sent)
	log.mu.Lock()
	defer log.mu.Unlock()
	return log.times
}
