// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
)

// TestNotReadyWhileStarting guards against traffic for a service whose store is not open yet, and against a restart of
// one that only starts slowly. The next configuration is ready at once, because the store is open.
func TestNotReadyWhileStarting(t *testing.T) {
	// Not in parallel: making a context of Caddy writes to a variable of its package.
	raw, err := json.Marshal(map[string]any{"storage": map[string]string{"module": "badger", "dir": t.TempDir()}, "demo": false})
	if err != nil {
		t.Fatal(err)
	}
	ctx, err := caddy.ProvisionContext(&caddy.Config{AppsRaw: caddy.ModuleMap{"moderation": raw}})
	if err != nil {
		t.Fatal(err)
	}
	owner, err := app.LoadWithStore(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := owner.Cleanup(); err != nil {
			t.Error(err)
		}
	})
	for _, started := range []bool{false, true} {
		h := new(Health)
		if err := errors.Join(h.Provision(ctx), h.Validate()); err != nil {
			t.Fatal(err)
		}
		if started {
			if err := owner.Start(); err != nil {
				t.Fatal(err)
			}
		}
		for path, up := range map[string]bool{"/health/live": true, "/health/ready": started} {
			w := httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodGet, path, nil)
			if err := h.ServeHTTP(w, r, caddyhttp.HandlerFunc(nil)); err != nil {
				t.Fatal(err)
			}
			if up != (w.Code == http.StatusOK) || up != (w.Header().Get("Retry-After") == "") || !up && w.Code != http.StatusServiceUnavailable {
				t.Errorf("started %v, %s: got %d %v %s", started, path, w.Code, w.Header(), w.Body)
			}
		}
	}
}

// TestOneProbeAsks guards against probes that load the store, against probes that all wait when it hangs, and against
// an answer from long ago, which the first two probes of a load balancer that was away would get.
func TestOneProbeAsks(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	hang, asking := make(chan struct{}), make(chan struct{}, 1)
	failure := errors.New("sick")
	var sick atomic.Bool
	r := readiness{freshFor: time.Hour, staleFor: 3 * time.Hour, ask: func(context.Context) (app.Readiness, error) {
		if asked.Add(1) > 1 {
			asking <- struct{}{}
			<-hang
		}
		if sick.Load() {
			return app.Readiness{}, failure
		}
		return app.Readiness{Mode: app.Local}, nil
	}}
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() {
			for range 100 {
				if !r.now().ready {
					t.Error("got not ready, want ready")
				}
			}
		})
	}
	group.Wait()
	if asked.Load() != 1 {
		t.Errorf("the service was asked %d times, want once", asked.Load())
	}
	// The answer is old now, and the one who asks gets no answer for a while. The others do not wait.
	sick.Store(true)
	r.latest.Store(&answer{ready: true, at: time.Now().Add(-2 * time.Hour)})
	group.Go(func() {
		if r.now().ready {
			t.Error("the one who asked got ready, want not ready")
		}
	})
	<-asking
	if !r.now().ready {
		t.Error("another one got not ready, want the answer before")
	}
	// Now the answer is too old: others wait for the one who asks.
	r.latest.Store(&answer{ready: true, at: time.Now().Add(-4 * time.Hour)})
	for range 50 {
		group.Go(func() {
			if r.now().ready {
				t.Error("got an answer of hours ago")
			}
		})
	}
	runtime.Gosched() // most of them have come before there is an answer
	close(hang)
	group.Wait()
	if r.now().ready {
		t.Error("got ready after not ready")
	}
}
