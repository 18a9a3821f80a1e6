// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-moderation/caddy-moderation/caddymod/access"
	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/quota"
)

// provisioning lets one test at a time make an app: Caddy notes in a variable of its own that it did.
var provisioning sync.Mutex

// started returns a started app and a key of the account "acme", which may make 1,000 requests a month.
func started(t *testing.T) (*app.App, string) {
	t.Helper()
	raw := fmt.Sprintf(`{"storage":{"module":"badger","dir":%q},"tiers":{"free":{"requests_per_month":1000,"requests_per_minute":0}},"demo":false}`, t.TempDir())
	provisioning.Lock()
	ctx, err := caddy.ProvisionContext(&caddy.Config{AppsRaw: caddy.ModuleMap{"moderation": json.RawMessage(raw)}})
	provisioning.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	owner, err := app.LoadWithStore(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := owner.Cleanup(); err != nil {
			t.Errorf("cleaning up the app: %v", err)
		}
	})
	services, err := owner.Services(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := services.Gate.CreateAccount(t.Context(), quota.Account{ID: "acme"}); err != nil {
		t.Fatal(err)
	}
	key, _, err := services.Gate.CreateKey(t.Context(), quota.KeySpec{Account: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	return owner, key
}

// leave is the key of a function that ends a request's context, as a client does that leaves.
type leave struct{}

// TestEveryEndIsSettledOnce lets requests end in every way that a handler can end in, and looks at what is counted.
func TestEveryEndIsSettledOnce(t *testing.T) {
	t.Parallel()
	owner, key := started(t)
	services, err := owner.Services(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name    string
		handle  access.Handler
		status  int // 0: no answer
		body    string
		counted int64
	}{
		{"a status and a body", func(w http.ResponseWriter, _ *http.Request, _ *access.Call) error {
			w.WriteHeader(http.StatusCreated)
			_, err := io.WriteString(w, "made")
			return err
		}, 201, "made", 1},
		{"a body alone", func(w http.ResponseWriter, _ *http.Request, _ *access.Call) error {
			_, err := io.WriteString(w, "hello")
			return err
		}, 200, "hello", 1},
		{"nothing", func(http.ResponseWriter, *http.Request, *access.Call) error { return nil }, 200, "", 1},
		{"a redirect", func(w http.ResponseWriter, _ *http.Request, _ *access.Call) error {
			w.WriteHeader(http.StatusSeeOther)
			return nil
		}, 303, "", 1},
		{"a client error", func(w http.ResponseWriter, _ *http.Request, _ *access.Call) error {
			w.WriteHeader(http.StatusNotFound)
			return nil
		}, 404, "", 0},
		{"a server error", func(w http.ResponseWriter, _ *http.Request, _ *access.Call) error {
			w.WriteHeader(http.StatusBadGateway)
			return nil
		}, 502, "", 0},
		{"two statuses", func(w http.ResponseWriter, _ *http.Request, _ *access.Call) error {
			w.WriteHeader(http.StatusOK)
			w.WriteHeader(http.StatusInternalServerError)
			return nil
		}, 200, "", 1},
		{"early hints, then an error", func(w http.ResponseWriter, _ *http.Request, _ *access.Call) error {
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusForbidden)
			return nil
		}, 403, "", 0},
		{"a flush before anything", func(w http.ResponseWriter, _ *http.Request, _ *access.Call) error {
			if err := http.NewResponseController(w).Flush(); err != nil {
				return err
			}
			_, err := io.WriteString(w, "streamed")
			return err
		}, 200, "streamed", 1},
		{"a flush, then a returned error", func(w http.ResponseWriter, _ *http.Request, _ *access.Call) error {
			if err := http.NewResponseController(w).Flush(); err != nil {
				return err
			}
			return errors.New("the backend went away")
		}, 200, "", 1},
		{"a copied body", func(w http.ResponseWriter, _ *http.Request, _ *access.Call) error {
			_, err := io.Copy(w, struct{ io.Reader }{strings.NewReader("copied")})
			return err
		}, 200, "copied", 1},
		{"a returned error", func(http.ResponseWriter, *http.Request, *access.Call) error {
			return caddyhttp.Error(http.StatusTeapot, errors.New("no coffee"))
		}, 418, "", 0},
		{"an error after the status", func(w http.ResponseWriter, _ *http.Request, _ *access.Call) error {
			w.WriteHeader(http.StatusOK)
			return errors.New("the backend went away")
		}, 200, "", 1},
		{"a panic", func(http.ResponseWriter, *http.Request, *access.Call) error { panic(http.ErrAbortHandler) }, 0, "", 0},
		{"a connection that is taken over", func(w http.ResponseWriter, _ *http.Request, _ *access.Call) error {
			conn, buffered, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return err
			}
			defer conn.Close()
			_, _ = io.WriteString(buffered, "HTTP/1.1 202 Accepted\r\nContent-Length: 5\r\n\r\ntaken")
			return buffered.Flush()
		}, 202, "taken", 1},
		{"a client that leaves", func(w http.ResponseWriter, r *http.Request, _ *access.Call) error {
			r.Context().Value(leave{}).(context.CancelFunc)()
			w.WriteHeader(http.StatusOK)
			return nil
		}, 200, "", 1},
		{"a nested middleware", func(w http.ResponseWriter, r *http.Request, _ *access.Call) error {
			inner := access.Middleware{App: owner}
			return inner.Serve(w, r, func(w http.ResponseWriter, _ *http.Request, _ *access.Call) error {
				_, err := io.WriteString(w, "inner")
				return err
			})
		}, 200, "inner", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			middleware := access.Middleware{App: owner}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				ctx := context.WithValue(r.Context(), caddyhttp.VarsCtxKey, map[string]any{})
				ctx, cancel := context.WithCancel(ctx)
				defer cancel()
				ctx = context.WithValue(ctx, leave{}, cancel)
				err := middleware.Serve(w, r.WithContext(ctx), test.handle)
				var failure caddyhttp.HandlerError
				if errors.As(err, &failure) {
					w.WriteHeader(failure.StatusCode) // as Caddy's server does
				}
			}))
			defer server.Close()
			server.Config.ErrorLog = nil
			before, err := services.Gate.Usage(t.Context(), "acme")
			if err != nil {
				t.Fatal(err)
			}
			request, err := http.NewRequest(http.MethodGet, server.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Authorization", "Bearer "+key)
			request.Close = true
			status, body := 0, ""
			if response, err := http.DefaultTransport.RoundTrip(request); err == nil {
				received, _ := io.ReadAll(bufio.NewReader(response.Body))
				_ = response.Body.Close()
				status, body = response.StatusCode, string(received)
			}
			if status != test.status || body != test.body {
				t.Errorf("got %d %q, want %d %q", status, body, test.status, test.body)
			}
			after, err := services.Gate.Usage(t.Context(), "acme")
			if err != nil {
				t.Fatal(err)
			}
			if counted := after.Counts.Period - before.Counts.Period; counted != test.counted {
				t.Errorf("counted %d, want %d", counted, test.counted)
			}
		})
	}
}
