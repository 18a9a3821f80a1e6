// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"reflect"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
)

// Mistaken names get an error that names the right one. Otherwise Caddy would only say that the directive is unknown.
func init() {
	for wrong, right := range map[string]string{
		"moderation":          "moderate; 'moderation' is the name of the global option and of the matcher",
		"moderat":             "moderate",
		"moderator":           "moderate",
		"moderate_request":    "moderate",
		"moderate_requests":   "moderate",
		"moderate_responses":  "moderate_response",
		"moderation_response": "moderate_response",
	} {
		httpcaddyfile.RegisterDirective(wrong, func(h httpcaddyfile.Helper) ([]httpcaddyfile.ConfigValue, error) {
			h.Next()
			return nil, h.Errf("there is no directive '%s'; the directive is %s", wrong, right)
		})
	}
	httpcaddyfile.RegisterGlobalOption("moderate", func(d *caddyfile.Dispenser, _ any) (any, error) {
		d.Next()
		return nil, d.Err("'moderate' is no global option but a directive, which stands in a site; " +
			"the global option is 'moderation'")
	})
}

// warnOfTwoGuards warns of requests that pass two guards, because the second does not replace the first. It is called
// when all of the configuration is provisioned.
func warnOfTwoGuards(ctx caddy.Context, logger *zap.Logger) {
	loaded, err := ctx.AppIfConfigured("http")
	if err != nil {
		return
	}
	server, ok := loaded.(*caddyhttp.App)
	if !ok {
		return
	}
	for name, server := range server.Servers {
		if hasTwoGuards(server.Routes, false) {
			logger.Warn("requests pass two of the directive moderate: both judge them, each by its own policy, "+
				"and the app gets the header fields of the last; one of several takes effect where each stands in a handle of its own", zap.String("server", name))
		}
	}
}

// hasTwoGuards reports whether requests may pass two guards that act. guarded says that all have passed one before.
func hasTwoGuards(routes caddyhttp.RouteList, guarded bool) bool {
	var before []caddyhttp.MatcherSets
	// follows says that only guards stand between this one and the last one before it: nothing answers in between.
	follows := false
	for i := range routes {
		route := &routes[i]
		for _, handler := range route.Handlers {
			_, isGuard := handler.(*Moderate)
			after := follows
			follows = isGuard
			switch handler := handler.(type) {
			case *Moderate:
				if handler.Shadow {
					follows = after
					continue // it tries a policy beside the one in force
				}
				// Caddy sorts one for some paths before one for all.
				guarded = guarded || after && len(route.MatcherSets) == 0
				for _, matchers := range before {
					guarded = guarded || reflect.DeepEqual(matchers, route.MatcherSets)
				}
				if guarded {
					return true
				}
				guarded = len(route.MatcherSets) == 0
				before = append(before, route.MatcherSets)
			case *caddyhttp.Subroute:
				if hasTwoGuards(handler.Routes, guarded) {
					return true
				}
			}
		}
	}
	return false
}
