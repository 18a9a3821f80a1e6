// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/routing"
)

// TextEndpoint is implemented by handlers that moderate text, so that people can be shown an address that works.
type TextEndpoint interface {
	// TextPath returns the path at which the handler moderates text, or "" if it answers any path.
	TextPath() string
}

// PathHolder is implemented by handlers that answer all requests for some paths, so that no handler after them gets
// these.
type PathHolder interface {
	// Holds reports whether the handler answers all requests for a path.
	Holds(path string) bool
}

// defaultTextPath is where text is moderated unless the configuration says something else.
const defaultTextPath = "/v1/moderate/text"

// firstURL returns the address of the first start: that of a common configuration if there is none in this one.
func (a *App) firstURL() string {
	if found, ok := a.TextURL(nil, nil); ok {
		return found
	}
	return "http://localhost:8080" + defaultTextPath
}

// TextURL returns an address at which this configuration moderates text, and whether there is one that can be told from
// its routes. For somebody who has asked for a page of a server at an origin, it is on the same host if possible.
// Without them, it is one for clients on this machine.
func (a *App) TextURL(own *caddyhttp.Server, origin *url.URL) (address string, ok bool) {
	loaded, err := a.ctx.AppIfConfigured("http")
	if err != nil {
		return "", false
	}
	servers := loaded.(*caddyhttp.App).Servers
	names := slices.Sorted(maps.Keys(servers))
	slices.SortStableFunc(names, func(a, b string) int {
		switch {
		case servers[a] == own && servers[b] != own:
			return -1
		case servers[b] == own && servers[a] != own:
			return 1
		}
		return 0
	})
	for _, name := range names {
		server := servers[name]
		if server == own && origin != nil {
			address, ok = findText(server, *origin)
		} else if at, known := clientOrigin(server, origin); known {
			address, ok = findText(server, at)
		}
		if ok {
			return address, true
		}
	}
	return "", false
}

// findText looks for an address of a server at which text is moderated. origin is how clients get to the server; its
// host is the first that is tried.
func findText(server *caddyhttp.Server, origin url.URL) (string, bool) {
	hosts, paths := []string{origin.Hostname()}, []string{}
	invoked := map[string]bool{}
	var visit func(place routing.Place, handler caddyhttp.MiddlewareHandler)
	visit = func(place routing.Place, handler caddyhttp.MiddlewareHandler) {
		switch h := handler.(type) {
		case TextEndpoint:
			hosts = append(hosts, place.Hosts...)
			paths = append(paths, textPaths(place, h.TextPath())...)
		case *caddyhttp.Invoke:
			named := server.NamedRoutes[h.Name]
			if named == nil || invoked[h.Name] {
				return // named routes can lead to each other
			}
			invoked[h.Name] = true
			routing.Walk(caddyhttp.RouteList{*named}, place, visit)
			invoked[h.Name] = false
		}
	}
	routing.Walk(server.Routes, routing.Place{}, visit)
	for _, host := range hosts {
		if !isExact(host) {
			continue
		}
		for _, path := range paths {
			if routing.Reaches(server, host, path, moderates) {
				at := url.URL{Scheme: origin.Scheme, Host: joinPort(host, origin.Port()), Path: path}
				return at.String(), true
			}
		}
	}
	return "", false
}

// moderates tells a handler that moderates the text of a POST to a path.
func moderates(handler caddyhttp.MiddlewareHandler, path string) routing.Answer {
	switch h := handler.(type) {
	case TextEndpoint:
		if at := h.TextPath(); at == "" || at == path {
			return routing.Found
		}
	case PathHolder:
		if h.Holds(path) {
			return routing.Stops
		}
	}
	return routing.Passes
}

// textPaths returns the paths by which a handler might be asked that moderates text at own, or at any path. Which of
// them lead there is seen by trying.
func textPaths(place routing.Place, own string) (paths []string) {
	if own != "" {
		paths = append(paths, place.Stripped+own, own)
	}
	// The innermost path is the most exact.
	for _, path := range slices.Backward(place.Paths) {
		switch {
		case isExact(path):
			paths = append(paths, place.Stripped+path, path)
		case own == "" && strings.HasSuffix(path, "*") && isExact(strings.TrimSuffix(path, "*")):
			paths = append(paths, strings.TrimRight(path, "/*")+defaultTextPath)
		}
	}
	return append(paths, place.Stripped+defaultTextPath, defaultTextPath)
}

// isExact reports whether a pattern of a matcher matches only itself.
func isExact(pattern string) bool { return !strings.ContainsAny(pattern, "*{") }

// clientOrigin returns how clients get to a server: those on this machine, or on the host of an origin. A server that
// listens on no port has none.
func clientOrigin(server *caddyhttp.Server, origin *url.URL) (url.URL, bool) {
	if len(server.Listen) == 0 {
		return url.URL{}, false
	}
	at := url.URL{Scheme: "http", Host: "localhost"}
	if origin != nil {
		at.Host = joinPort(origin.Hostname(), "")
	}
	defaultPort := uint(80)
	if len(server.TLSConnPolicies) > 0 {
		at.Scheme, defaultPort = "https", 443
	}
	listen, err := caddy.ParseNetworkAddress(server.Listen[0])
	if err != nil || listen.IsUnixNetwork() || listen.IsFdNetwork() {
		return at, origin == nil
	}
	host := at.Hostname()
	if listen.Host != "" && !isUnspecified(listen.Host) {
		host = listen.Host
	}
	port := ""
	if listen.StartPort != defaultPort {
		port = strconv.FormatUint(uint64(listen.StartPort), 10)
	}
	at.Host = joinPort(host, port)
	return at, true
}

// joinPort returns a host with a port, which may be empty.
func joinPort(host, port string) string {
	switch {
	case port != "":
		return net.JoinHostPort(host, port)
	case strings.Contains(host, ":"):
		return "[" + host + "]"
	}
	return host
}

// isUnspecified reports whether host stands for all addresses of the machine.
func isUnspecified(host string) bool {
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return ip != nil && ip.IsUnspecified()
}
