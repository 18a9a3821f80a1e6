// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package routing finds handlers in the routes of a configuration: where they stand, and whether a request gets to
// them.
package routing

import (
	"net/http"
	"net/url"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/rewrite"
)

// Place is where a handler stands.
type Place struct {
	// Hosts and Paths are what the matchers around the handler say: the hosts of the innermost that name some, and the
	// paths of all of them, the outermost first.
	Hosts, Paths []string
	// Stripped is what is taken from the beginning of a path before it gets to the handler, as handle_path does.
	Stripped string
}

// Walk goes through routes, and the routes inside of them, and calls visit for each handler with its place.
func Walk(routes caddyhttp.RouteList, above Place, visit func(Place, caddyhttp.MiddlewareHandler)) {
	for i := range routes {
		place := below(above, routes[i].MatcherSets)
		for _, handler := range routes[i].Handlers {
			switch handler := handler.(type) {
			case *caddyhttp.Subroute:
				Walk(handler.Routes, place, visit)
			case *rewrite.Rewrite:
				// The routes after this one have the path that it leaves, too.
				place.Stripped += handler.StripPathPrefix
				above.Stripped += handler.StripPathPrefix
			default:
				visit(place, handler)
			}
		}
	}
}

// below returns a place with what the matchers of a route below it say.
func below(above Place, sets caddyhttp.MatcherSets) Place {
	var hosts, paths []string
	for _, set := range sets {
		for _, matcher := range set {
			switch matcher := matcher.(type) {
			case *caddyhttp.MatchHost:
				hosts = append(hosts, *matcher...)
			case *caddyhttp.MatchPath:
				paths = append(paths, *matcher...)
			case caddyhttp.MatchPath: // of a directive that takes a path
				paths = append(paths, matcher...)
			}
		}
	}
	if len(hosts) > 0 {
		above.Hosts = hosts
	}
	above.Paths = slices.Concat(above.Paths, paths)
	return above
}

// Answer is what a handler does with a request.
type Answer int

// The answers.
const (
	Passes Answer = iota // leaves the request to the next handler
	Stops                // answers it
	Found                // is the handler that is looked for
)

// Reaches reports whether a POST for a path of a host gets to a handler that look finds. It goes through the routes of
// the server as Caddy does, and calls no handler. Matchers that look at anything but the method, the host and the path
// are taken for ones that may match. Which handlers answer all requests is known only of some of Caddy's own, and from
// look.
func Reaches(
	server *caddyhttp.Server, host, path string, look func(handler caddyhttp.MiddlewareHandler, path string) Answer,
) bool {
	request := &http.Request{
		Method: http.MethodPost, Host: host, URL: &url.URL{Path: path}, Header: http.Header{}, Proto: "HTTP/1.1",
		ProtoMajor: 1, ProtoMinor: 1, Body: http.NoBody,
	}
	request.RequestURI = request.URL.RequestURI()
	replacer := caddy.NewReplacer()
	t := tour{
		server: server, replacer: replacer, look: look, taken: map[string]bool{},
		request: caddyhttp.PrepareRequest(request, replacer, nil, server),
	}
	return t.routes(server.Routes) == Found
}

// tour is the way of a request.
type tour struct {
	server   *caddyhttp.Server
	request  *http.Request
	replacer *caddy.Replacer
	look     func(caddyhttp.MiddlewareHandler, string) Answer
	taken    map[string]bool // the groups of which a route was taken
	invoked  int
}

// maxInvoked is how often named routes are followed, which can lead to each other.
const maxInvoked = 32

// routes takes the request through routes.
func (t *tour) routes(routes caddyhttp.RouteList) Answer {
	for i := range routes {
		route := &routes[i]
		if t.taken[route.Group] {
			continue
		}
		may, must := t.matches(route.MatcherSets)
		if !may {
			continue
		}
		before := *t.request.URL
		if must && route.Group != "" {
			t.taken[route.Group] = true
		}
		answer := t.handlers(route.Handlers)
		if answer == Found {
			return Found
		}
		if must && (answer == Stops || route.Terminal) {
			return Stops
		}
		if !must {
			*t.request.URL = before
		}
	}
	return Passes
}

// handlers takes the request through the handlers of a route.
func (t *tour) handlers(handlers []caddyhttp.MiddlewareHandler) Answer {
	for _, handler := range handlers {
		answer := Passes
		switch handler := handler.(type) {
		case *caddyhttp.Subroute:
			answer = t.routes(handler.Routes)
		case *caddyhttp.Invoke:
			if t.invoked++; t.invoked > maxInvoked || t.server.NamedRoutes[handler.Name] == nil {
				return Stops
			}
			answer = t.routes(caddyhttp.RouteList{*t.server.NamedRoutes[handler.Name]})
		case *rewrite.Rewrite:
			handler.Rewrite(t.request, t.replacer)
		default:
			if answer = t.look(handler, t.request.URL.Path); answer == Passes && ends(handler) {
				answer = Stops
			}
		}
		if answer != Passes {
			return answer
		}
	}
	return Passes
}

// ends reports whether a handler is one of Caddy's that answer all requests.
func ends(handler caddyhttp.MiddlewareHandler) bool {
	module, ok := handler.(caddy.Module)
	if !ok {
		return false
	}
	switch module.CaddyModule().ID {
	case "http.handlers.static_response", "http.handlers.error", "http.handlers.reverse_proxy",
		"http.handlers.file_server":
		return true
	}
	return false
}

// matches reports whether the request may match sets of matchers, and whether it must.
func (t *tour) matches(sets caddyhttp.MatcherSets) (may, must bool) {
	if len(sets) == 0 {
		return true, true
	}
	for _, set := range sets {
		mayAll, mustAll := true, true
		for _, matcher := range set {
			if !known(matcher) {
				mustAll = false
				continue
			}
			matched, err := matcher.(caddyhttp.RequestMatcherWithError).MatchWithError(t.request)
			mayAll = mayAll && matched && err == nil
		}
		may = may || mayAll
		must = must || mayAll && mustAll
	}
	return may, must
}

// known reports whether a matcher looks at nothing but the method, the host and the path.
func known(matcher any) bool {
	switch matcher := matcher.(type) {
	case *caddyhttp.MatchHost, *caddyhttp.MatchPath, caddyhttp.MatchPath, *caddyhttp.MatchPathRE,
		*caddyhttp.MatchMethod:
		return true
	case *caddyhttp.MatchNot:
		for _, set := range matcher.MatcherSets {
			if slices.ContainsFunc(set, func(inner any) bool { return !known(inner) }) {
				return false
			}
		}
		return true
	}
	return false
}
