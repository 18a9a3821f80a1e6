// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package desk

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/caddy-moderation/caddy-moderation/caddymod/metrics"
	"github.com/caddy-moderation/caddy-moderation/engine"
)

// sitesRoutes are the pages about what this server does. They need no store: they are looked at when it is gone.
func sitesRoutes() []route {
	const get, post = http.MethodGet, http.MethodPost
	return []route{
		{method: get, pattern: "/guards", needs: operator, serve: showGuards},
		{method: get, pattern: "/guards/counts", needs: operator, serve: streamGuards},
		{method: get, pattern: "/node", needs: operator, serve: showNode},
		{method: get, pattern: "/node/traffic", needs: operator, serve: streamTraffic},
		{method: get, pattern: "/accounts/{account}/settings", needs: operator, serve: showSettings},
		{method: post, pattern: "/accounts/{account}/settings", needs: operator, limit: smallForm,
			serve: changeSettings},
		{method: get, pattern: "/accounts/{account}/delete", needs: operator, serve: askDelete},
		{method: post, pattern: "/accounts/{account}/delete", needs: operator, limit: smallForm, serve: deleteAccount},
	}
}

// hostRow is what a guard has done with the messages to a host, or to all of them.
type hostRow struct {
	metrics.HostCounts
	// ID finds the row in a page that is open: it is the same as long as the guard is at its place.
	ID string
	// Other says that the row stands for all hosts without one of their own.
	Other bool
	// Marked is how many messages were marked for review, or would have been by a guard in shadow mode.
	Approved, Marked, Passed int64
	Flagged, Errors          []metrics.Named
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

// guardSums are the sums over all guards.
type guardSums struct {
	Seen        int64 `json:"seen"`
	Refused     int64 `json:"refused"`
	Review      int64 `json:"review"`
	WouldRefuse int64 `json:"would"`
}

// guardsBody is what the page of the guards shows.
type guardsBody struct {
	Guards []guardCard
	guardSums
	// Stream is where the page finds what changes, and Names are the names of the categories, as JSON, in their order.
	Stream, Names string
}

// guards returns the guards of the configuration and what they have done on each host.
func (d *Desk) guards() (shown guardsBody) {
	for _, guard := range d.app.Guards() {
		counts, ok := guard.Counts()
		if !ok {
			continue
		}
		card := guardCard{SiteCounts: counts, Directive: "moderate", Total: rowOf(&counts, &counts.Total)}
		if counts.Direction == metrics.Outbound {
			card.Directive = "moderate_response"
		}
		card.Total.ID = rowID(counts.Place)
		for i := range counts.Hosts {
			card.Rows = append(card.Rows, rowOf(&counts, &counts.Hosts[i]))
		}
		shown.Seen += counts.Total.Seen
		shown.Refused += counts.Total.Refused()
		shown.WouldRefuse += counts.Total.ShadowReject()
		shown.Review += counts.Total.Review()
		shown.Guards = append(shown.Guards, card)
	}
	slices.SortStableFunc(shown.Guards, func(a, b guardCard) int { return cmp.Compare(a.Place, b.Place) })
	return shown
}

// showGuards shows the guards of the configuration and what they have done on each host.
func showGuards(c *call) error {
	shown := c.desk.guards()
	shown.Stream = c.url("guards", "counts")
	names := make([]string, engine.NumCategories)
	for i := range names {
		names[i] = c.words.must("category." + engine.Category(i).String())
	}
	encoded, err := json.Marshal(names)
	if err != nil {
		return err
	}
	shown.Names = string(encoded)
	answer := page{Template: "guards.html", Title: "guards.title", Body: shown}
	if len(shown.Guards) > 0 {
		answer.Scripts = []string{"live.mjs"}
	}
	c.render(http.StatusOK, answer)
	return nil
}

// rowNumbers are the numbers of a row.
type rowNumbers struct {
	Seen     int64 `json:"seen"`
	Approved int64 `json:"approved"`
	Review   int64 `json:"review"`
	Refused  int64 `json:"refused"`
	Would    int64 `json:"would"`
	Unjudged int64 `json:"unjudged"`
	// Share is the share of the messages that a guard in shadow mode would have refused.
	Share float64 `json:"share"`
	// Flagged are in the order of the categories, and Errors by reason.
	Flagged [engine.NumCategories]int64 `json:"flagged"`
	Errors  map[string]int64            `json:"errors,omitempty"`
}

// numbersOf returns the numbers of a row.
func numbersOf(row *hostRow) rowNumbers {
	n := rowNumbers{
		Seen: row.Seen, Approved: row.Approved, Review: row.Marked, Refused: row.Refused(), Would: row.ShadowReject(),
		Unjudged: row.Passed, Share: row.WouldShare, Errors: row.HostCounts.Errors,
	}
	for i := range n.Flagged {
		n.Flagged[i] = row.HostCounts.Flagged[engine.Category(i).String()]
	}
	return n
}

// guardsEvent is what a stream tells about the guards: the sums, and the rows that have changed, by their ids. The
// first one has all rows, and says so.
type guardsEvent struct {
	Whole bool                  `json:"whole,omitempty"`
	Sums  guardSums             `json:"sums"`
	Rows  map[string]rowNumbers `json:"rows"`
}

// streamGuards answers with the counts of the guards as server-sent events.
func streamGuards(c *call) error {
	var told map[string]rowNumbers
	return c.stream(func(context.Context) []byte {
		now := c.desk.guards()
		event := guardsEvent{Whole: told == nil, Sums: now.guardSums, Rows: map[string]rowNumbers{}}
		if told == nil {
			told = map[string]rowNumbers{}
		}
		tell := func(row *hostRow) {
			// A row that has seen as much as before, with as many errors, has the same numbers.
			numbers := numbersOf(row)
			last, known := told[row.ID]
			if known && last.Seen == numbers.Seen && maps.Equal(last.Errors, numbers.Errors) {
				return
			}
			told[row.ID], event.Rows[row.ID] = numbers, numbers
		}
		for i := range now.Guards {
			guard := &now.Guards[i]
			tell(&guard.Total)
			for j := range guard.Rows {
				tell(&guard.Rows[j])
			}
		}
		if !event.Whole && len(event.Rows) == 0 {
			return nil
		}
		data, err := json.Marshal(event)
		if err != nil {
			return []byte("event: unknown\ndata: {}\n\n")
		}
		return append(append([]byte("data: "), data...), '\n', '\n')
	})
}

// rowID returns the id of a row. It says nothing of what clients write, and is the same after a reload of Caddy.
func rowID(names ...string) string {
	hash := sha256.Sum256([]byte(strings.Join(names, "\x00")))
	return hex.EncodeToString(hash[:8])
}

// rowOf returns the row of a host.
func rowOf(guard *metrics.SiteCounts, counts *metrics.HostCounts) hostRow {
	row := hostRow{
		HostCounts: *counts, ID: rowID(guard.Place, counts.Host), Other: counts.Host == metrics.OtherHosts,
		Approved: counts.Outcomes[metrics.GuardApprove] + counts.Outcomes[metrics.GuardNothing],
		Marked:   counts.Review(),
		Passed:   counts.Outcomes[metrics.GuardErrorPassed] + counts.Outcomes[metrics.GuardSkipped],
	}
	if guard.Shadow {
		row.Marked = counts.ShadowReview()
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
