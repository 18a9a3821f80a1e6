// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package openai_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-moderation/caddy-moderation/caddymod/openai"
)

// discarding is a ResponseWriter that keeps the status alone.
type discarding struct {
	header http.Header
	status int
}

func (d *discarding) Header() http.Header         { return d.header }
func (d *discarding) WriteHeader(status int)      { d.status = status }
func (d *discarding) Write(p []byte) (int, error) { return len(p), nil }

// send sends a body through the handler: authentication, limits, decoding, moderating by the embedded model, durable
// counting and encoding, but not the connection.
func send(b *testing.B, handler *openai.Moderations, key string, body []byte) {
	request := httptest.NewRequest(http.MethodPost, "/v1/moderations", bytes.NewReader(body))
	request.Header.Set("Authorization", "Bearer "+key)
	request.Header.Set("Content-Type", "application/json")
	w := &discarding{header: http.Header{}}
	ctx := context.WithValue(context.Background(), caddyhttp.VarsCtxKey, map[string]any{})
	if err := handler.ServeHTTP(w, request.WithContext(ctx), nil); err != nil || w.status != http.StatusOK {
		b.Errorf("got status %d and error %v, want 200", w.status, err)
	}
}

// ordinary returns a harmless text of this many characters.
func ordinary(length int) string {
	const sentence = "The committee met on Tuesday to talk about the new playground, and nobody could agree on the colour. "
	return strings.Repeat(sentence, length/len(sentence)+1)[:length]
}

// BenchmarkModerations measures whole requests, in parallel, so that they share commits as they do on a server.
func BenchmarkModerations(b *testing.B) {
	s, handler, _ := start(b, "embedded", 0, 0, "")
	for _, test := range []struct{ inputs, length int }{{1, 500}, {1, 10_000}, {1, 100_000}, {10, 500}, {256, 500}} {
		body := []byte(inputs(test.inputs, ordinary(test.length)))
		b.Run(fmt.Sprintf("%dx%d", test.inputs, test.length), func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(16)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					send(b, handler, s.key, body)
				}
			})
		})
	}
}

// BenchmarkBatchAlone measures one large batch at a time, which idle processors share.
func BenchmarkBatchAlone(b *testing.B) {
	s, handler, _ := start(b, "embedded", 0, 0, "")
	body := []byte(inputs(256, ordinary(500)))
	for b.Loop() {
		send(b, handler, s.key, body)
	}
}

// BenchmarkBesideBatches measures small requests, one after another, while other clients send large batches all the
// time.
func BenchmarkBesideBatches(b *testing.B) {
	s, handler, _ := start(b, "embedded", 0, 0, "")
	batch, small := []byte(inputs(256, ordinary(500))), []byte(inputs(1, ordinary(500)))
	for _, batches := range []int{0, 1, 8} {
		b.Run(fmt.Sprint(batches), func(b *testing.B) {
			stop, stopped := make(chan struct{}), make(chan struct{})
			for range batches {
				go func() {
					defer func() { stopped <- struct{}{} }()
					for {
						select {
						case <-stop:
							return
						default:
							send(b, handler, s.key, batch)
						}
					}
				}()
			}
			took := make([]time.Duration, 0, 10_000)
			for b.Loop() {
				began := time.Now()
				send(b, handler, s.key, small)
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
			close(stop)
			for range batches {
				<-stopped
			}
		})
	}
}
