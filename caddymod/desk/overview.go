// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package desk

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strconv"

	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/engine"
	"github.com/caddy-moderation/caddy-moderation/quota"
)

// gauge is a window of an account: how much of it is used.
type gauge struct {
	Used  int64 `json:"used"`
	Limit int64 `json:"limit"` // 0 is unlimited
	// Share is the used part of the limit, in percent.
	Share string `json:"share"`
}

// gaugeOf returns a gauge. limited says whether the limit is known.
func gaugeOf(used, limit int64) gauge {
	return gauge{Used: used, Limit: limit, Share: share(used, limit)}
}

// bar is a day of the chart. Its place is in units of the SVG, whose height is chartHeight.
type bar struct {
	quota.DayCount
	X, Y, Height string
}

// chartHeight is the height of the chart, and barStep the distance of two days, in units of the SVG.
const (
	chartHeight = 100
	barStep     = 10
)

// chart is the use of the last days.
type chart struct {
	Bars           []bar // oldest first
	First, Last    string
	Maximum, Total int64
	Busiest        string // the day with the maximum
	Width, Height  int
}

// chartOf returns the chart of days that are newest first.
func chartOf(days []quota.DayCount) chart {
	c := chart{Width: barStep * len(days), Height: chartHeight}
	for _, day := range days {
		c.Total += day.Requests
		if day.Requests > c.Maximum {
			c.Maximum, c.Busiest = day.Requests, day.Date
		}
	}
	for i, day := range slices.Backward(days) {
		height := 0.0
		if c.Maximum > 0 && day.Requests > 0 {
			// A day with any request is seen.
			height = max(2, chartHeight*float64(day.Requests)/float64(c.Maximum))
		}
		c.Bars = append(c.Bars, bar{
			DayCount: day, X: strconv.Itoa((len(days)-1-i)*barStep + 1),
			Y:      strconv.FormatFloat(chartHeight-height, 'f', 1, 64),
			Height: strconv.FormatFloat(height, 'f', 1, 64),
		})
	}
	if len(c.Bars) > 0 {
		c.First, c.Last = c.Bars[0].Date, c.Bars[len(c.Bars)-1].Date
	}
	return c
}

// flaggedCount is how often a category was flagged.
type flaggedCount struct {
	Name  string
	Count int64
	Share string // of the largest count, in percent
}

// level is what the verdict on a category depends on.
type level struct {
	Name              string
	Threshold, Reject float64
	// Own says that the account has replaced the service's threshold.
	Own bool
}

// overviewBody is what the overview of an account shows.
type overviewBody struct {
	Usage   quota.Usage
	Period  gauge
	Minute  gauge
	Chart   chart
	Flagged []flaggedCount
	Levels  []level
	// UnknownTier says that the account's tier is not configured: its limits are not known, and it is refused.
	UnknownTier bool
	Served      bool
	Stream      string

	// What an operator can change.
	Tiers    []string
	Statuses []quota.Status
}

// overview shows an account.
func overview(c *call) error {
	usage, err := c.services.Gate.Usage(c.r.Context(), c.account.ID)
	unknown := errors.Is(err, quota.ErrUnknownTier)
	if err != nil && !unknown {
		return err
	}
	shown := overviewBody{
		Usage: usage, UnknownTier: unknown, Served: usage.Account.Status.Served(),
		Period: gaugeOf(usage.Counts.Period, usage.Limits.RequestsPerMonth),
		Minute: gaugeOf(usage.Counts.Minute, usage.Limits.RequestsPerMinute),
		Chart:  chartOf(usage.Days), Levels: levelsOf(c.services.Engine.Policy(), c.account),
		Stream: c.url("accounts", c.account.ID, "gauge"), Statuses: quota.Statuses(), Tiers: c.tiers(),
	}
	for i := range engine.NumCategories {
		name := engine.Category(i).String()
		shown.Flagged = append(shown.Flagged, flaggedCount{Name: name, Count: usage.Flagged[name]})
	}
	slices.SortStableFunc(shown.Flagged, func(a, b flaggedCount) int { return cmp.Compare(b.Count, a.Count) })
	for i := range shown.Flagged {
		shown.Flagged[i].Share = share(shown.Flagged[i].Count, shown.Flagged[0].Count)
	}
	c.render(http.StatusOK, page{Template: "overview.html", Title: "overview.title", Scripts: []string{"live.mjs"}, Body: shown})
	return nil
}

// levelsOf returns the thresholds and reject levels of an account.
func levelsOf(policy engine.Policy, account quota.Account) (levels []level) {
	policy = policy.With(app.LevelsOf(&account))
	for i := range engine.NumCategories {
		name := engine.Category(i).String()
		_, own := account.Overrides.Thresholds[name]
		levels = append(levels, level{
			Name: name, Threshold: policy.Thresholds[i], Reject: policy.RejectLevels[i], Own: own,
		})
	}
	return levels
}
