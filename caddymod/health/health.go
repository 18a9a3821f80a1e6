// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package health answers probes on a site's own port, where a load balancer asks: whether the process lives, and
// whether the service can do its work. Unlike the same routes of the admin endpoint, it tells strangers nothing else.
package health

import (
	"net/http"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-moderation/caddy-moderation/caddymod/access"
	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/directive"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/response"
	"github.com/caddy-moderation/caddy-moderation/caddymod/options"
	"github.com/caddy-moderation/caddy-moderation/caddymod/problem"
)

func init() {
	caddy.RegisterModule(new(Health))
	directive.HandlerWithPath[Health]("moderation_health")
	// Nothing that redirects, rewrites or authenticates may stand between a probe and its answer.
	httpcaddyfile.RegisterDirectiveOrder("moderation_health", httpcaddyfile.Before, "redir")
}

// defaultBasePath is the default of [Health.BasePath].
const defaultBasePath = "/health"

// Health is a handler for the probes of load balancers and orchestrators, on the port of a site:
//
//	GET /health/live     200 while the process answers
//	GET /health/ready    200 while the service can do its work, else 503 with Retry-After
//
// The service is ready when it has started and its store can be read and keeps what it must. Without a store (a guard
// without account) it is ready when it has started. With a store that several nodes share, the answer 200 has a "mode":
// "normal" while its server answers; "local" or "allow" while it cannot be reached and the service goes on without it,
// as its option outage says. From the moment at which Caddy begins to shut down it is not ready,
// so that a load balancer sends nothing more; the global option shutdown_delay gives it the time to notice.
//
// Probes need no key and are not counted. HEAD works like GET, and other methods are answered 405. The body is
// {"status":"live"}, {"status":"ready"} or {"status":"not ready"}; the reason is in the log and at
// /moderation/health/ready of the admin endpoint. The answer may be up to two seconds old, because however many probes
// ask, the store is asked at most once a second. Requests for other paths go to the next handler.
//
// In a Caddyfile the directive stands before all that redirect, rewrite, authenticate or answer. A matcher can say who
// may ask.
type Health struct {
	// The path below which the two routes are, such as "/internal/health"; "/" stands for the routes /live and /ready.
	// Default: "/health".
	BasePath string `json:"base_path,omitempty"`

	app         *app.App
	live, ready string // paths
	readiness   readiness
}

// CaddyModule returns the Caddy module information.
func (*Health) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.moderation_health",
		New: func() caddy.Module { return new(Health) },
	}
}

// Provision finds the app. A probe is no reason to open a store.
func (h *Health) Provision(ctx caddy.Context) error {
	owner, err := app.Load(ctx)
	if err != nil {
		return err
	}
	h.app = owner
	h.readiness.ask, h.readiness.freshFor, h.readiness.staleFor = owner.Ready, time.Second, 2*time.Second
	if h.BasePath == "" {
		h.BasePath = defaultBasePath
	}
	base := strings.TrimSuffix(h.BasePath, "/")
	h.live, h.ready = base+"/live", base+"/ready"
	return nil
}

// Validate checks the configuration.
func (h *Health) Validate() error { return directive.CheckBasePath(h.BasePath) }

// The bodies of the answers.
var (
	liveBody     = []byte(`{"status":"live"}` + "\n")
	readyBody    = []byte(`{"status":"ready"}` + "\n")
	notReadyBody = []byte(`{"status":"not ready"}` + "\n")
)

// ServeHTTP answers the probes and leaves all other paths to the next handler.
func (h *Health) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if r.URL.Path != h.live && r.URL.Path != h.ready {
		return next.ServeHTTP(w, r)
	}
	header := w.Header()
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		problem.Write(w, r, access.NewID(h.app), problem.New(problem.MethodNotAllowed, "Use GET."))
		return nil
	}
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	if r.URL.Path == h.live {
		response.SendJSON(w, r, http.StatusOK, liveBody)
		return nil
	}
	now := h.readiness.now()
	if stopping(r) || !now.ready {
		header.Set("Retry-After", "1")
		response.SendJSON(w, r, http.StatusServiceUnavailable, notReadyBody)
		return nil
	}
	body := readyBody
	if now.mode != "" {
		body = []byte(`{"status":"ready","mode":"` + string(now.mode) + `"}` + "\n")
	}
	response.SendJSON(w, r, http.StatusOK, body)
	return nil
}

// stopping reports whether the process or the server that received the request is shutting down.
func stopping(r *http.Request) bool {
	if caddy.Exiting() {
		return true
	}
	// With shutdown_delay a server tells it before it closes its listeners, also when a reload gives its address up.
	replacer, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return false
	}
	value, _ := replacer.Get("http.shutting_down")
	shutting, _ := value.(bool)
	return shutting
}

// UnmarshalCaddyfile sets up the module from Caddyfile tokens. Syntax:
//
//	moderation_health [@<matcher>] [<base path>]
func (h *Health) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the directive's name
	if d.NextArg() {
		h.BasePath = d.Val()
		if err := directive.CheckBasePath(h.BasePath); err != nil {
			return d.Err(err.Error())
		}
	}
	return options.Block(d, "moderation_health", nil)
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Health)(nil)
	_ caddy.Validator             = (*Health)(nil)
	_ caddyfile.Unmarshaler       = (*Health)(nil)
	_ caddyhttp.MiddlewareHandler = (*Health)(nil)
)
