// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package directive registers Caddyfile directives.
package directive

import (
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// Handler registers the directive of the HTTP handler M, which parses its own tokens.
func Handler[M any, P interface {
	*M
	caddyhttp.MiddlewareHandler
	caddyfile.Unmarshaler
}](name string) {
	httpcaddyfile.RegisterHandlerDirective(name, func(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		handler := P(new(M))
		return handler, handler.UnmarshalCaddyfile(h.Dispenser)
	})
}
