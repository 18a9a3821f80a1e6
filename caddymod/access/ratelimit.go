// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/caddymod/options"
)

// RateLimit is a middleware that charges each request to the limits of its account, and refuses it with 429 or 402 when
// they are used up. A request that no earlier handler has authenticated (moderation_key_auth, or Caddy's authentication
// handler with the provider moderation_key) must have its key in the Authorization header.
//
// Each request counts once. A request that ends in an error keeps its minute count and gets its month count back.
// Answers carry the RateLimit header fields.
type RateLimit struct {
	access Middleware
}

// CaddyModule returns the Caddy module information.
func (*RateLimit) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.moderation_rate_limit",
		New: func() caddy.Module { return new(RateLimit) },
	}
}

// Provision finds the app.
func (l *RateLimit) Provision(ctx caddy.Context) error {
	owner, err := app.LoadWithStore(ctx)
	l.access = Middleware{App: owner}
	return err
}

// ServeHTTP passes the request on or refuses it.
func (l *RateLimit) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	return l.access.Serve(w, r, passTo(next))
}

// UnmarshalCaddyfile sets up the module from Caddyfile tokens. Syntax:
//
//	moderation_rate_limit [<matcher>]
func (l *RateLimit) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the directive's name
	return options.Block(d, "moderation_rate_limit", nil)
}

// Interface guards
var (
	_ caddy.Provisioner           = (*RateLimit)(nil)
	_ caddyfile.Unmarshaler       = (*RateLimit)(nil)
	_ caddyhttp.MiddlewareHandler = (*RateLimit)(nil)
)
