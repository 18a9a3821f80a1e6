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
	"github.com/caddy-moderation/caddy-moderation/caddymod/options"
)

func init() {
	caddy.RegisterModule(new(KeyAuth))
	caddy.RegisterModule(new(RateLimit))
	httpcaddyfile.RegisterHandlerDirective("moderation_key_auth", func(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		handler := new(KeyAuth)
		return handler, handler.UnmarshalCaddyfile(h.Dispenser)
	})
	httpcaddyfile.RegisterHandlerDirective("moderation_rate_limit", func(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		handler := new(RateLimit)
		return handler, handler.UnmarshalCaddyfile(h.Dispenser)
	})
	// Each goes right behind basic_auth, so the last one is the first: moderation_key_auth, then moderation_rate_limit.
	httpcaddyfile.RegisterDirectiveOrder("moderation_rate_limit", httpcaddyfile.After, "basic_auth")
	httpcaddyfile.RegisterDirectiveOrder("moderation_key_auth", httpcaddyfile.After, "basic_auth")
}

// KeyAuth is a middleware that lets only requests with a valid API key of the moderation service through, to whatever
// stands behind it. Others are answered with a problem (RFC 9457) and a challenge (RFC 6750).
//
// Behind it {http.auth.user.id} is the account, and {http.moderation.id}, {http.moderation.account}, {http.moderation.key}
// (the key's public id) and {http.moderation.tier} say more.
type KeyAuth struct {
	// Query also accepts the key as the query parameter "key". Addresses end up in logs, on screens and in referrers:
	// leave it off unless clients cannot send a header. Default false.
	Query bool `json:"query,omitempty"`
	// GoogleHeader also accepts the key in the header X-Goog-Api-Key. Caddy's access log does not redact that header.
	// Default false.
	GoogleHeader bool `json:"google_header,omitempty"`

	door Middleware
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
	k.door = Middleware{App: owner, Free: true, Sources: Sources{Query: k.Query, GoogleHeader: k.GoogleHeader}}
	return err
}

// ServeHTTP lets the request through or refuses it.
func (k *KeyAuth) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	return k.door.Serve(w, r, func(w http.ResponseWriter, r *http.Request, _ *Call) error { return next.ServeHTTP(w, r) })
}

// UnmarshalCaddyfile reads the directive. Syntax:
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

// RateLimit is a middleware that charges each request to the limits of its account, and refuses it with 429 or 402
// when they are used up. A request that nothing before has authenticated (moderation_key_auth, or an authentication handler
// with the provider moderation_key) must carry its key in the Authorization header.
//
// One request counts one. A request that ends in an error keeps its minute count and gives its month count back. Answers
// carry the RateLimit fields.
type RateLimit struct {
	door Middleware
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
	l.door = Middleware{App: owner}
	return err
}

// ServeHTTP lets the request through or refuses it.
func (l *RateLimit) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	return l.door.Serve(w, r, func(w http.ResponseWriter, r *http.Request, _ *Call) error { return next.ServeHTTP(w, r) })
}

// UnmarshalCaddyfile reads the directive. Syntax:
//
//	moderation_rate_limit [<matcher>]
func (l *RateLimit) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the directive's name
	return options.Block(d, "moderation_rate_limit", nil)
}

// Interface guards
var (
	_ caddy.Provisioner           = (*KeyAuth)(nil)
	_ caddyfile.Unmarshaler       = (*KeyAuth)(nil)
	_ caddyhttp.MiddlewareHandler = (*KeyAuth)(nil)
	_ caddy.Provisioner           = (*RateLimit)(nil)
	_ caddyfile.Unmarshaler       = (*RateLimit)(nil)
	_ caddyhttp.MiddlewareHandler = (*RateLimit)(nil)
)
