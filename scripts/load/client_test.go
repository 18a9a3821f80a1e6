// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestJobCountsWhatTheServerAnswered(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]http.HandlerFunc{
		"with a length": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "short") },
		"chunked": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.Repeat("long", 5_000))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var served, refused atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil || r.Header.Get("Authorization") != "Bearer KEY" || string(body) != "content" {
					w.WriteHeader(http.StatusTeapot)
					return
				}
				if r.URL.Path == "/refused" {
					refused.Add(1)
					w.WriteHeader(http.StatusTooManyRequests)
					return
				}
				served.Add(1)
				handler(w, r)
			}))
			defer server.Close()
			address := server.Listener.Addr().String()
			j := job{Address: address, Connections: 3, Duration: 50 * time.Millisecond, Requests: [][]byte{
				post(address, "/", "KEY", []byte("content")),
				post(address, "/refused", "KEY", []byte("content")),
			}}
			total, err := j.run(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			if total.Answered != served.Load() || total.Other != refused.Load() ||
				total.Sent != total.Answered+total.Other {
				t.Errorf("got %d answered, %d other, %d sent; the server saw %d and %d", total.Answered, total.Other,
					total.Sent, served.Load(), refused.Load())
			}
			if total.Answered == 0 || total.Other == 0 || total.Sample != http.StatusTooManyRequests ||
				len(total.Times) != int(total.Answered) {
				t.Errorf("got %+v", total)
			}
		})
	}
}

func TestBrokenAnswerIsNotCounted(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"cut body":         "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
		"cut head":         "HTTP/1.1 200 OK\r\nContent-Le",
		"no length":        "HTTP/1.1 200 OK\r\n\r\n",
		"cut chunk":        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
		"no last chunk":    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
		"something else":   "SSH-2.0-OpenSSH\r\n",
		"not a number":     "HTTP/1.1 abc OK\r\nContent-Length: 0\r\n\r\n",
		"nothing":          "",
		"odd chunk length": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
	} {
		if status, err := skipAnswer(bufio.NewReader(strings.NewReader(answer))); err == nil {
			t.Errorf("%s: got status %d, want an error", name, status)
		}
	}
}

func TestLedgerAllowsOnlyCountsBetweenAcknowledgedAndSent(t *testing.T) {
	t.Parallel()
	l := ledger{Acknowledged: 5, Sent: 7}
	for stored, want := range map[int64]bool{4: false, 5: true, 6: true, 7: true, 8: false} {
		if got := l.holds(stored); got != want {
			t.Errorf("%d: got %v, want %v", stored, got, want)
		}
	}
}
