// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package guard_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-moderation/caddy-moderation/caddymod/guard"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/policy"
)

// body is a body that can be read again.
type body struct{ *bytes.Reader }

func (body) Close() error { return nil }

// BenchmarkModerate is the guard's part of a request that is approved: reading a JSON post of three members, judging
// it, and giving the body on. The connection is not in it. "same" is one post again and again, which the guard
// remembers; of "different" each has another comment.
func BenchmarkModerate(b *testing.B) {
	ctx, err := caddy.ProvisionContext(&caddy.Config{})
	if err != nil {
		b.Fatal(err)
	}
	handler := new(guard.Moderate)
	if err := handler.Provision(ctx); err != nil {
		b.Fatal(err)
	}
	next := caddyhttp.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) error {
		_, err := io.Copy(io.Discard, r.Body)
		return err
	})
	sentence := "The committee met on Tuesday to talk about the new playground, and nobody could agree on the colour. "
	for _, length := range []int{200, 2_000} {
		comment := strings.Repeat(sentence, length/len(sentence)+1)[:length-70]
		encoded, err := json.Marshal(map[string]string{"author": "Margaret Lane", "title": "The playground", "comment": comment})
		if err != nil {
			b.Fatal(err)
		}
		for _, same := range []bool{true, false} {
			name := map[bool]string{true: "same", false: "different"}[same]
			b.Run(fmt.Sprint(name, "/", length), func(b *testing.B) {
				b.ReportAllocs()
				number := bytes.Index(encoded, []byte("Tuesday"))
				reader := bytes.NewReader(encoded)
				request := httptest.NewRequest(http.MethodPost, "/comments", nil)
				request.Header.Set("Content-Type", "application/json")
				request.ContentLength = int64(len(encoded))
				w := httptest.NewRecorder()
				for i := 0; b.Loop(); i++ {
					if !same {
						copy(encoded[number:], fmt.Sprintf("%07d", i))
					}
					_, _ = reader.Seek(0, io.SeekStart)
					request.Body = body{reader}
					ctx := context.WithValue(context.Background(), caddyhttp.VarsCtxKey, map[string]any{})
					if err := handler.ServeHTTP(w, request.WithContext(ctx), next); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkModerateCounted is [BenchmarkModerate] for an account, by many clients at once: each post waits for its
// count before its answer.
func BenchmarkModerateCounted(b *testing.B) {
	dir, err := json.Marshal(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	ctx, err := caddy.ProvisionContext(&caddy.Config{AppsRaw: caddy.ModuleMap{
		"moderation": json.RawMessage(`{"storage":{"module":"badger","dir":` + string(dir) + `},"accounts":[{"id":"acme","tier":"free"}]}`),
	}})
	if err != nil {
		b.Fatal(err)
	}
	handler := &guard.Moderate{Policy: policy.Policy{Account: "acme"}}
	if err := handler.Provision(ctx); err != nil {
		b.Fatal(err)
	}
	loaded, err := ctx.App("moderation")
	if err != nil {
		b.Fatal(err)
	}
	if err := loaded.(caddy.App).Start(); err != nil {
		b.Fatal(err)
	}
	defer loaded.(caddy.CleanerUpper).Cleanup()
	next := caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		_, err := io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusOK)
		return err
	})
	encoded := []byte(`{"author":"Margaret Lane","comment":"The committee met on Tuesday to talk about the new playground."}`)
	b.ReportAllocs()
	b.SetParallelism(32)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		request := httptest.NewRequest(http.MethodPost, "/comments", nil)
		request.Header.Set("Content-Type", "application/json")
		request.ContentLength = int64(len(encoded))
		for pb.Next() {
			request.Body = body{bytes.NewReader(encoded)}
			ctx := context.WithValue(context.Background(), caddyhttp.VarsCtxKey, map[string]any{})
			if err := handler.ServeHTTP(httptest.NewRecorder(), request.WithContext(ctx), next); err != nil {
				b.Error(err)
			}
		}
	})
}
