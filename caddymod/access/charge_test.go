// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-moderation/caddy-moderation/caddymod/access"
	"github.com/caddy-moderation/caddy-moderation/caddymod/problem"
	"github.com/caddy-moderation/caddy-moderation/engine"
	"github.com/caddy-moderation/caddy-moderation/quota"
)

// charging returns a handler that charges these numbers of requests, one after another, and then calls end.
func charging(end func(w http.ResponseWriter) error, wanted ...int64) access.Handler {
	return func(w http.ResponseWriter, r *http.Request, call *access.Call) error {
		for _, n := range wanted {
			if p := call.Charge(w, r, n); p != nil {
				return call.Refuse(w, r, p)
			}
		}
		return end(w)
	}
}

// sent sends a request with a key through a chain of middleware, the outermost first, to a handler behind the last one.
func sent(ctx context.Context, key string, handle access.Handler,
	chain ...*access.Middleware) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	r.Header.Set("Authorization", "Bearer "+key)
	w := httptest.NewRecorder()
	var serve func(w http.ResponseWriter, r *http.Request, chain []*access.Middleware) error
	serve = func(w http.ResponseWriter, r *http.Request, chain []*access.Middleware) error {
		if len(chain) == 1 {
			return chain[0].Serve(w, r, handle)
		}
		return chain[0].Serve(w, r, func(w http.ResponseWriter, r *http.Request, _ *access.Call) error {
			return serve(w, r, chain[1:])
		})
	}
	func() {
		defer func() { _ = recover() }() // as the server does
		_ = serve(w, r.WithContext(context.WithValue(ctx, caddyhttp.VarsCtxKey, map[string]any{})), chain)
	}()
	return w
}

// TestDeferredCharges looks at what is counted when the handler says how much, alone and behind a middleware that has
// charged one.
func TestDeferredCharges(t *testing.T) {
	t.Parallel()
	owner, key := started(t) // 1,000 requests a month
	services, err := owner.Services(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ok := func(w http.ResponseWriter) error {
		w.WriteHeader(http.StatusOK)
		return nil
	}
	bad := func(w http.ResponseWriter) error {
		w.WriteHeader(http.StatusBadRequest)
		return nil
	}
	deferred, plain := &access.Middleware{App: owner, Deferred: true}, &access.Middleware{App: owner}
	for _, test := range []struct {
		name   string
		handle access.Handler
		chain  []*access.Middleware
		status int
		month  int64
	}{
		{"nothing", charging(ok), []*access.Middleware{deferred}, 200, 0},
		{"one", charging(ok, 1), []*access.Middleware{deferred}, 200, 1},
		{"several", charging(ok, 7), []*access.Middleware{deferred}, 200, 7},
		{"more and more", charging(ok, 2, 2, 1, 5, 9), []*access.Middleware{deferred}, 200, 9},
		{"several that fail", charging(bad, 7), []*access.Middleware{deferred}, 400, 0},
		{"more and more that fail", charging(bad, 2, 5, 9), []*access.Middleware{deferred}, 400, 0},
		{"several and an error", charging(func(http.ResponseWriter) error { return errors.New("away") }, 7), []*access.Middleware{deferred}, 200, 0},
		{"several and a panic", charging(func(http.ResponseWriter) error { panic("bug") }, 7), []*access.Middleware{deferred}, 200, 0},
		{"several and no answer", charging(func(http.ResponseWriter) error { return nil }, 7), []*access.Middleware{deferred}, 200, 7},
		{"more than there is", charging(ok, 1001), []*access.Middleware{deferred}, 402, 0},
		{"some and then more than there is", charging(ok, 5, 1001), []*access.Middleware{deferred}, 402, 0},
		{"behind another middleware, nothing", charging(ok), []*access.Middleware{plain, deferred}, 200, 1},
		{"behind another middleware, one", charging(ok, 1), []*access.Middleware{plain, deferred}, 200, 1},
		{"behind another middleware, several", charging(ok, 7), []*access.Middleware{plain, deferred}, 200, 7},
		{"behind another middleware, several that fail", charging(bad, 7), []*access.Middleware{plain, deferred}, 400, 0},
		{"behind another middleware, more than there is", charging(ok, 1001), []*access.Middleware{plain, deferred}, 402, 0},
		{"before another middleware", charging(ok, 7), []*access.Middleware{deferred, plain}, 200, 7},
	} {
		before, err := services.Gate.Usage(t.Context(), "acme")
		if err != nil {
			t.Fatal(err)
		}
		got := sent(t.Context(), key, test.handle, test.chain...)
		after, err := services.Gate.Usage(t.Context(), "acme")
		if err != nil {
			t.Fatal(err)
		}
		if month := after.Counts.Period - before.Counts.Period; got.Code != test.status || month != test.month ||
			after.Counts.Day != after.Counts.Period {
			t.Errorf("%s: got status %d and %d counted in the month (%d in the day), want %d and %d",
				test.name, got.Code, month, after.Counts.Day, test.status, test.month)
		}
	}
}

// TestChargesHoldTheLimit charges different numbers at once: no more than the limit is let in, and what is refused
// counts nowhere.
func TestChargesHoldTheLimit(t *testing.T) {
	t.Parallel()
	owner, key := started(t) // 1,000 requests a month
	services, err := owner.Services(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var admitted, refused atomic.Int64
	var waiting sync.WaitGroup
	for i := range 100 {
		n := int64(i%29 + 1)
		chain := []*access.Middleware{{App: owner, Deferred: true}}
		if i%3 == 0 {
			chain = append([]*access.Middleware{{App: owner}}, chain...)
		}
		waiting.Go(func() {
			switch sent(t.Context(), key, charging(func(http.ResponseWriter) error { return nil }, n), chain...).Code {
			case http.StatusOK:
				admitted.Add(n)
			case http.StatusPaymentRequired:
				refused.Add(1)
			}
		})
	}
	waiting.Wait()
	usage, err := services.Gate.Usage(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	if admitted.Load() != usage.Counts.Period || usage.Counts.Period > 1000 || usage.Counts.Period < 1000-29 ||
		refused.Load() == 0 {
		t.Errorf("admitted %d, refused %d, counted %+v; want as many counted as admitted, 971 to 1,000, and some refused",
			admitted.Load(), refused.Load(), usage.Counts)
	}
}

// TestRefusalsOfSeveral say what does not fit, and when it will.
func TestRefusalsOfSeveral(t *testing.T) {
	t.Parallel()
	owner, key := started(t)
	services, err := owner.Services(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	five := int64(5)
	own := quota.Overrides{RequestsPerMinute: &five}
	if _, err := services.Gate.UpdateAccount(t.Context(), "acme", quota.AccountChange{Overrides: &own}); err != nil {
		t.Fatal(err)
	}
	var last *problem.Problem
	deferred := &access.Middleware{App: owner, Deferred: true}
	deferred.Problem = func(w http.ResponseWriter, r *http.Request, id string, p *problem.Problem) {
		last = p
		problem.Write(w, r, id, p)
	}
	ok := func(http.ResponseWriter) error { return nil }
	got := sent(t.Context(), key, charging(ok, 6), deferred)
	const never = "The request has 6 texts, each of which counts as one request, and the account may make 5 requests a minute. " +
		"It is never admitted, so that waiting does not help: send at most 5 at once."
	if got.Code != http.StatusTooManyRequests || got.Header().Get("Retry-After") != "" || last.Detail != never || last.Quota.RetryAfter != 0 {
		t.Errorf("got %d %v and detail %q, want 429 without Retry-After and detail %q", got.Code, got.Header(), last.Detail, never)
	}
	for got.Code != http.StatusTooManyRequests || last.Detail == never { // the minute may turn meanwhile
		got = sent(t.Context(), key, charging(ok, 4), deferred)
	}
	if got.Header().Get("Retry-After") == "" || last.Quota.RetryAfter < 1 || last.Quota.Limit != 5 || last.Quota.Account != "acme" {
		t.Errorf("got header %v and problem %+v, want Retry-After and the limit 5 of the account acme", got.Header(), last)
	}
}

// TestEachTextIsCounted gives a verdict on several texts.
func TestEachTextIsCounted(t *testing.T) {
	t.Parallel()
	owner, key := started(t)
	services, err := owner.Services(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	texts := make([]engine.Result, 3)
	for _, i := range []int{0, 2} {
		texts[i].Flagged = true
		texts[i].Categories[engine.Hate].Flagged = true
	}
	texts[2].Categories[engine.Violence].Flagged = true
	for _, fails := range []bool{false, true} {
		sent(t.Context(), key, func(w http.ResponseWriter, r *http.Request, call *access.Call) error {
			if p := call.Charge(w, r, 3); p != nil {
				return call.Refuse(w, r, p)
			}
			call.SetVerdicts(&texts[2], texts)
			if fails {
				w.WriteHeader(http.StatusInternalServerError)
			}
			return nil
		}, &access.Middleware{App: owner, Deferred: true})
		usage, err := services.Gate.Usage(t.Context(), "acme")
		if err != nil {
			t.Fatal(err)
		}
		if usage.Counts.Period != 3 || usage.Flagged["hate"] != 2 || usage.Flagged["violence"] != 1 || len(usage.Flagged) != 2 {
			t.Errorf("counted %+v, flagged %v; want 3 in the period, hate twice and violence once", usage.Counts, usage.Flagged)
		}
	}
}

// TestADeletedAccountIsNotCharged deletes an account under a request that has charged, and makes it again. The
// request is that of an unknown key then, and the new account begins with nothing.
func TestADeletedAccountIsNotCharged(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]bool{"deleted": false, "made again": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			owner, key := started(t)
			services, err := owner.Services(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got := sent(t.Context(), key, func(w http.ResponseWriter, r *http.Request, call *access.Call) error {
				if p := call.Charge(w, r, 3); p != nil {
					return call.Refuse(w, r, p)
				}
				err := services.Gate.DeleteAccount(t.Context(), "acme")
				if again {
					_, createErr := services.Gate.CreateAccount(t.Context(), quota.Account{ID: "acme"})
					err = errors.Join(err, createErr)
				}
				if err != nil {
					t.Errorf("deleting the account and making it again: %v", err)
				}
				if p := call.Charge(w, r, 5); p != nil {
					return call.Refuse(w, r, p)
				}
				return nil
			}, &access.Middleware{App: owner, Deferred: true})
			if got.Code != http.StatusUnauthorized || got.Header().Get("WWW-Authenticate") == "" {
				t.Errorf("got %d %v %s, want 401 with a challenge", got.Code, got.Header(), got.Body)
			}
			if !again {
				return
			}
			usage, err := services.Gate.Usage(t.Context(), "acme")
			if err != nil {
				t.Fatal(err)
			}
			if usage.Counts != (quota.Counts{}) || usage.Days[0].Requests != 0 {
				t.Errorf("the new account begins with %+v, want nothing", usage.Counts)
			}
		})
	}
}

// TestNoConnectionIsGivenAwayUncounted guards against what is written to a connection that a handler has taken over:
// nobody sees it go out, so the charge is settled before.
func TestNoConnectionIsGivenAwayUncounted(t *testing.T) {
	t.Parallel()
	owner, key := started(t)
	services, err := owner.Services(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	middleware := access.Middleware{App: owner}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := context.WithValue(r.Context(), caddyhttp.VarsCtxKey, map[string]any{})
		_ = middleware.Serve(w, r.WithContext(ctx), func(w http.ResponseWriter, _ *http.Request, _ *access.Call) error {
			if err := services.Store.Close(); err != nil {
				t.Errorf("closing the store: %v", err)
			}
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_, _ = io.WriteString(conn, "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")
				_ = conn.Close()
			}
			return err
		})
	}))
	defer server.Close()
	request := httptest.NewRequest(http.MethodGet, server.URL, nil)
	request.Header.Set("Authorization", "Bearer "+key)
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("got status %d, want 503: the store could not settle", response.StatusCode)
	}
}
