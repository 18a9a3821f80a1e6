// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/routing"
	"github.com/caddy-moderation/caddy-moderation/caddymod/metrics"
)

// count registers a guard with the app, so that operators see what it does on each host.
func count(ctx caddy.Context, a *app.App, direction metrics.Direction, shadow bool) *metrics.Guarded {
	a.AtStart("places of guards", func() { placeGuards(ctx, a) })
	return a.AddGuard(direction, shadow)
}

// placing looks for the places of guards.
type placing struct {
	app   *app.App
	found map[*metrics.Guarded]bool
	used  map[string]int // how many guards have a place so far
}

// placeGuards says where the guards of a configuration stand. It is called when all of it is provisioned. Guards inside
// of handlers that are not known here have no place but a number.
func placeGuards(ctx caddy.Context, a *app.App) {
	p := placing{app: a, found: map[*metrics.Guarded]bool{}, used: map[string]int{}}
	if loaded, err := ctx.AppIfConfigured("http"); err == nil {
		if servers, ok := loaded.(*caddyhttp.App); ok {
			p.servers(servers.Servers)
		}
	}
	for _, guarded := range a.Guards() {
		if !p.found[guarded.Guarded] {
			p.join(guarded.Guarded, metrics.Site{Direction: guarded.Direction, Shadow: guarded.Shadow})
		}
	}
}

// servers goes through the routes of all servers.
func (p *placing) servers(servers map[string]*caddyhttp.Server) {
	// In order, so that two guards whose places say the same keep their numbers.
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		server := servers[name]
		site := metrics.Site{Server: strings.Join(server.Listen, " ")}
		p.routes(server.Routes, site)
		if server.Errors != nil {
			p.routes(server.Errors.Routes, site)
		}
		for _, named := range slices.Sorted(maps.Keys(server.NamedRoutes)) {
			p.routes(caddyhttp.RouteList{*server.NamedRoutes[named]}, site)
		}
	}
}

// routes goes through the routes of a server.
func (p *placing) routes(routes caddyhttp.RouteList, server metrics.Site) {
	routing.Walk(routes, routing.Place{}, func(place routing.Place, handler caddyhttp.MiddlewareHandler) {
		site := server
		site.Hosts, site.Paths = place.Hosts, place.Paths
		switch handler := handler.(type) {
		case *Moderate:
			site.Direction, site.Shadow = metrics.Inbound, handler.Shadow
			p.join(handler.counts, site)
		case *ModerateResponse:
			site.Direction, site.Shadow = metrics.Outbound, handler.Shadow
			p.join(handler.counts, site)
		}
	})
}

// join gives a guard its place, once.
func (p *placing) join(guarded *metrics.Guarded, site metrics.Site) {
	if guarded == nil || p.found[guarded] {
		return
	}
	p.found[guarded] = true
	place := strings.Join([]string{
		string(site.Direction), site.Server, strings.Join(site.Hosts, " "), strings.Join(site.Paths, " "),
	}, "|")
	p.used[place]++
	site.Place = place + "|" + strconv.Itoa(p.used[place])
	p.app.Metrics().Sites().Join(guarded, site)
}
