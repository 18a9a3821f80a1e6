// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/directive"
	"github.com/caddy-moderation/caddy-moderation/caddymod/options"
)

func init() {
	caddy.RegisterModule(new(KeyAuth))
	caddy.RegisterModule(new(RateLimit))
	directive.Handler[KeyAuth]("moderation_key_auth")
	directive.Handler[RateLimit]("moderation_rate_limit")
	// Each goes directly behind basic_auth, so that the last one comes first: moderation_key_auth, then
	// moderation_rate_limit.
	httpcaddyfile.RegisterDirectiveOrder("moderation_rate_limit", httpcaddyfile.After, "basic_auth")
	httpcaddyfile.RegisterDirectiveOrder("moderation_key_auth", httpcaddyfile.After, "basic_auth")
}

// KeyAuth is a middleware that lets only requests with a valid API key of the moderation service pass to the next
// handler. Others are answered with problem details (RFC 9457) and a challenge (RFC 6750).
//
// After it, `{http.auth.user.id}` is the account. It also sets `{http.moderation.id}`, `{http.moderation.account}`,
// `{http.moderation.key}` (the key's public id) and `{http.moderation.tier}`.
type KeyAuth struct {
	// If true, the key is also accepted in the query parameter "key". Addresses end up in logs, on screens and in the
	// Referer header, so leave this off unless clients cannot send a header. Default: false.
	Query bool `json:"query,omitempty"`
	// If true, the key is also accepted in the header X-Goog-Api-Key. Caddy's access log does not redact that header.
	// Default: false.
	GoogleHeader bool `json:"google_header,omitempty"`

	access Middleware
}

// CaddyModule returns the Caddy module information.
func (*KeyAuth) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.moderation_key_auth",
		New: func() caddy.Module { return new(KeyAuth) },
	}
}

// Provision finds the app.
func (k *KeyAuth) Provision(ctx caddy.Context) error {
	owner, err := app.LoadWithStore(ctx)
	k.access = Middleware{App: owner, Free: true, Sources: Sources{Query: k.Query, GoogleHeader: k.GoogleHeader}}
	return err
}

// ServeHTTP passes the request on or refuses it.
func (k *KeyAuth) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	return k.access.Serve(w, r, passTo(next))
}

// passTo returns a handler that passes an admitted call on.
func passTo(next caddyhttp.Handler) Handler {
	return func(w http.ResponseWriter, r *http.Request, _ *Call) error { return next.ServeHTTP(w, r) }
}

// UnmarshalCaddyfile sets up the module from Caddyfile tokens. Syntax:
//
//	moderation_key_auth [<matcher>] {
//		query
//		google_header
//	}
func (k *KeyAuth) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the directive's name
	return options.Block(d, "moderation_key_auth", map[string]options.Option{
		"query":         options.Flag(&k.Query),
		"google_header": options.Flag(&k.GoogleHeader),
	})
}

// Interface guards
var (
	_ caddy.Provisioner           = (*KeyAuth)(nil)
	_ caddyfile.Unmarshaler       = (*KeyAuth)(nil)
	_ caddyhttp.MiddlewareHandler = (*KeyAuth)(nil)
)
