// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package api_test

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

	"github.com/caddy-moderation/caddy-moderation/caddymod/api"
	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/quota"
)

// discarding is a ResponseWriter that keeps the status alone.
type discarding struct {
	header http.Header
	status int
}

func (d *discarding) Header() http.Header         { return d.header }
func (d *discarding) WriteHeader(status int)      { d.status = status }
func (d *discarding) Write(p []byte) (int, error) { return len(p), nil }

// body is the body of a request that can be sent again.
type body struct{ *bytes.Reader }

func (body) Close() error { return nil }

// started returns a handler of a started app with the Badger store, and a key of an account without limits.
func started(b testing.TB, dir string) (*api.API, string) {
	b.Helper()
	handler := new(api.API)
	return handler, start(b, dir, handler)
}

// start provisions a handler of a started app, and returns a key.
func start(b testing.TB, dir string, handler *api.API) (key string) {
	b.Helper()
	raw := fmt.Sprintf(`{"storage":{"module":"badger","dir":%q},"tiers":{"large":{"requests_per_month":1000000000,"requests_per_minute":100000000}},"demo":false}`, dir)
	ctx, err := caddy.ProvisionContext(&caddy.Config{AppsRaw: caddy.ModuleMap{"moderation": json.RawMessage(raw)}})
	if err != nil {
		b.Fatal(err)
	}
	owner, err := app.LoadWithStore(ctx)
	if err != nil {
		b.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := owner.Cleanup(); err != nil {
			b.Error(err)
		}
	})
	services, err := owner.Services(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	if _, err := services.Gate.CreateAccount(b.Context(), quota.Account{ID: "bench", Tier: "large"}); err != nil {
		b.Fatal(err)
	}
	key, _, err = services.Gate.CreateKey(b.Context(), quota.KeySpec{Account: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	if err := handler.Provision(ctx); err != nil {
		b.Fatal(err)
	}
	if err := handler.Validate(); err != nil {
		b.Fatal(err)
	}
	return key
}

// BenchmarkModerate measures a whole request through the handler: authentication, limits, decoding, moderating,
// durable counting and encoding, but not the connection. Requests run in parallel, so that they share commits as they
// do on a server.
func BenchmarkModerate(b *testing.B) {
	handler, key := started(b, b.TempDir())
	for _, length := range []int{200, 2_000, 10_000} {
		content := strings.Repeat(sentence, length/len(sentence)+1)[:length]
		encoded, err := json.Marshal(map[string]string{"content": content})
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprint(length), func(b *testing.B) { send(b, handler, "/v1/moderate/text", key, encoded) })
	}
}

// BenchmarkAnalyze measures the same with a comment of 500 characters for clients of the Perspective API: one
// attribute, all that are scored, and these for every sentence.
func BenchmarkAnalyze(b *testing.B) {
	handler, key := started(b, b.TempDir())
	text := strings.Repeat(sentence, 5)[:500]
	const all = `"TOXICITY":{},"SEVERE_TOXICITY":{},"IDENTITY_ATTACK":{},"INSULT":{},"PROFANITY":{},"THREAT":{},"SEXUALLY_EXPLICIT":{},"SPAM":{}`
	for name, rest := range map[string]string{"one": `"TOXICITY":{}}`, "all": all + "}", "spans": all + `},"spanAnnotations":true`} {
		b.Run(name, func(b *testing.B) {
			send(b, handler, "/v1alpha1/comments:analyze", key, []byte(`{"comment":{"text":"`+text+`"},"languages":["en"],"doNotStore":true,"requestedAttributes":{`+rest+`}`))
		})
	}
}

// sentence is repeated in the texts of the benchmarks.
const sentence = "The committee met on Tuesday to talk about the new playground, and nobody could agree on the colour. "

// send sends a body over and over.
func send(b *testing.B, handler *api.API, path, key string, encoded []byte) {
	b.Helper()
	b.ReportAllocs()
	b.SetParallelism(16)
	b.RunParallel(func(pb *testing.PB) {
		reader := bytes.NewReader(encoded)
		request := httptest.NewRequest(http.MethodPost, path, nil)
		request.Header.Set("Authorization", "Bearer "+key)
		request.Header.Set("Content-Type", "application/json")
		request.ContentLength = int64(len(encoded))
		next := caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error { return nil })
		for pb.Next() {
			_, _ = reader.Seek(0, io.SeekStart)
			request.Body = body{reader}
			// What Caddy's server makes for each request is not measured, but for the maps that the handler writes to.
			ctx := context.WithValue(context.Background(), caddyhttp.VarsCtxKey, map[string]any{})
			w := &discarding{header: http.Header{}}
			if err := handler.ServeHTTP(w, request.WithContext(ctx), next); err != nil || w.status != http.StatusOK {
				b.Errorf("got status %d and error %v, want 200", w.status, err)
				return
			}
		}
	})
}
