// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package desk

import (
	"cmp"
	"maps"
	"net/http"
	"slices"

	"github.com/caddy-moderation/caddy-moderation/caddymod/metrics"
	"github.com/caddy-moderation/caddy-moderation/engine"
)

// sitesRoutes are the pages about what this server does. They need no store: they are looked at when it is gone.
func sitesRoutes() []route {
	const get, post = http.MethodGet, http.MethodPost
	return []route{
		{method: get, pattern: "/guards", needs: operator, serve: showGuards},
		{method: get, pattern: "/node", needs: operator, serve: showNode},
		{method: get, pattern: "/node/traffic", needs: operator, serve: streamTraffic},
		{method: get, pattern: "/accounts/{account}/settings", needs: operator, serve: showSettings},
		{method: post, pattern: "/accounts/{account}/settings", needs: operator, limit: smallForm,
			serve: changeSettings},
		{method: get, pattern: "/accounts/{account}/delete", needs: operator, serve: askDelete},
		{method: post, pattern: "/accounts/{account}/delete", needs: operator, limit: smallForm, serve: deleteAccount},
	}
}

// hostRow is what a guard has done with the messages to a host.
type hostRow struct {
	metrics.HostCounts
	// Other says that the row stands for all hosts without one of their own.
	Other            bool
	Approved, Passed int64
	Flagged, Errors  []metrics.Named
	// WouldShare is the share of the messages that a guard in shadow mode would have refused.
	WouldShare float64
}

// guardCard is a guard.
type guardCard struct {
	metrics.SiteCounts
	Directive string
	Total     hostRow
	Rows      []hostRow
}

// guardsBody is what the page of the guards shows.
type guardsBody struct {
	Guards []guardCard
	// The sums over all guards.
	Seen, Refused, WouldRefuse, Review int64
}

// showGuards shows the guards of the configuration and what they have done on each host.
func showGuards(c *call) error {
	var shown guardsBody
	for _, guard := range c.desk.app.Guards() {
		counts, ok := guard.Counts()
		if !ok {
			continue
		}
		card := guardCard{SiteCounts: counts, Directive: "moderate", Total: rowOf(&counts.Total)}
		if counts.Direction == metrics.Outbound {
			card.Directive = "moderate_response"
		}
		for i := range counts.Hosts {
			card.Rows = append(card.Rows, rowOf(&counts.Hosts[i]))
		}
		shown.Seen += counts.Total.Seen
		shown.Refused += counts.Total.Refused()
		shown.WouldRefuse += counts.Total.ShadowReject()
		shown.Review += counts.Total.Review()
		shown.Guards = append(shown.Guards, card)
	}
	slices.SortStableFunc(shown.Guards, func(a, b guardCard) int { return cmp.Compare(a.Place, b.Place) })
	c.render(http.StatusOK, page{Template: "guards.html", Title: "guards.title", Body: shown})
	return nil
}

// rowOf returns the row of a host.
func rowOf(counts *metrics.HostCounts) hostRow {
	row := hostRow{
		HostCounts: *counts, Other: counts.Host == metrics.OtherHosts,
		Approved: counts.Outcomes[metrics.GuardApprove] + counts.Outcomes[metrics.GuardNothing],
		Passed:   counts.Outcomes[metrics.GuardErrorPassed] + counts.Outcomes[metrics.GuardSkipped],
	}
	for i := range engine.NumCategories {
		name := engine.Category(i).String()
		if n := counts.Flagged[name]; n > 0 {
			row.Flagged = append(row.Flagged, metrics.Named{Name: name, Count: n})
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(counts.Errors)) {
		row.Errors = append(row.Errors, metrics.Named{Name: reason, Count: counts.Errors[reason]})
	}
	if counts.Seen > 0 {
		row.WouldShare = float64(counts.ShadowReject()) / float64(counts.Seen)
	}
	return row
}
