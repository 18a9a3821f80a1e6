// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package directive registers Caddyfile directives.
package directive

import (
	"fmt"
	"strings"

	"github.com/caddyserver/caddy/v2"
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

// HandlerWithPath is [Handler] for a directive whose argument may be a base path. An argument that begins with a slash
// is that path and not a path matcher, which could match only one of the handler's routes.
func HandlerWithPath[M any, P interface {
	*M
	caddyhttp.MiddlewareHandler
	caddyfile.Unmarshaler
}](name string) {
	httpcaddyfile.RegisterDirective(name, func(h httpcaddyfile.Helper) ([]httpcaddyfile.ConfigValue, error) {
		h.Next() // the directive's name
		named := h.NextArg() && (strings.HasPrefix(h.Val(), "@") || h.Val() == "*")
		h.Reset()
		matcher := caddy.ModuleMap(nil)
		if named {
			h.Next() // the directive's name
			var err error
			if matcher, err = h.ExtractMatcherSet(); err != nil {
				return nil, h.Errf("%s: %v", name, err)
			}
		}
		handler := P(new(M))
		if err := handler.UnmarshalCaddyfile(h.Dispenser); err != nil {
			return nil, err
		}
		return h.NewRoute(matcher, handler), nil
	})
}

// CheckBasePath returns an error unless base can be a base path. The empty one means none.
func CheckBasePath(base string) error {
	if base == "" {
		return nil
	}
	if !strings.HasPrefix(base, "/") || strings.ContainsAny(base, "*{}?#%") || strings.Contains(base, "//") {
		return fmt.Errorf("the base path is %q; it must begin with a slash and be a plain path such as /moderation",
			base)
	}
	return nil
}
