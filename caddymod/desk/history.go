// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package desk

import (
	"cmp"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-moderation/caddy-moderation/audit"
	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/engine"
	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/statistics"
)

// historyRoutes are the pages about what was decided for an account.
func historyRoutes() []route {
	return []route{
		{method: http.MethodGet, pattern: "/accounts/{account}/history", needs: member, serve: showHistory},
		{method: http.MethodGet, pattern: "/accounts/{account}/thresholds", needs: member, serve: showThresholds},
		{
			method: http.MethodPost, pattern: "/accounts/{account}/thresholds", needs: member, limit: smallForm,
			serve: changeThresholds,
		},
	}
}

// historyPeriods are the days that a history has, each with the days of one bar.
var historyPeriods = []struct{ Days, Step int }{{30, 1}, {90, 1}, {364, 7}}

// recommendations are what a verdict suggests, the mildest first.
var recommendations = []string{string(engine.Approve), string(engine.Review), string(engine.Reject)}

// stackPart is a part of a bar, in units of the SVG.
type stackPart struct {
	Name, Y, Height string
}

// stackBar is the bar of a day, or of some days.
type stackBar struct {
	Date   string // the first
	X      string
	Total  int64
	Counts statistics.Counts
	Parts  []stackPart // from below
}

// stackTotal is how often something happened in all.
type stackTotal struct {
	Name  string
	Count int64
	Share float64
}

// stack is a chart of what happened over time.
type stack struct {
	ID, Title      string
	Names          []string // what is counted, from below
	Bars           []stackBar
	Totals         []stackTotal
	Total, Maximum int64
	Busiest        string
	First, Last    string
	Width, Height  int
}

// stackOf returns the chart of days that are oldest first.
func stackOf(id string, days []statistics.Day, names []string, of func(*statistics.Day) statistics.Counts) stack {
	s := stack{ID: id, Names: names, Width: barStep * len(days), Height: chartHeight}
	totals := statistics.Counts{}
	for i := range days {
		bar := stackBar{Date: days[i].Date, X: strconv.Itoa(i*barStep + 1), Counts: of(&days[i])}
		for _, name := range names {
			bar.Total += bar.Counts[name]
			totals[name] += bar.Counts[name]
		}
		if bar.Total > s.Maximum {
			s.Maximum, s.Busiest = bar.Total, bar.Date
		}
		s.Total += bar.Total
		s.Bars = append(s.Bars, bar)
	}
	for i := range s.Bars {
		bar, top := &s.Bars[i], float64(chartHeight)
		for _, name := range names {
			n := bar.Counts[name]
			if n == 0 {
				continue
			}
			// What happened at all is seen.
			height := max(1, chartHeight*float64(n)/float64(s.Maximum))
			top = max(0, top-height)
			bar.Parts = append(bar.Parts, stackPart{Name: name, Y: units(top), Height: units(height)})
		}
	}
	for _, name := range names {
		total := stackTotal{Name: name, Count: totals[name]}
		if s.Total > 0 {
			total.Share = float64(total.Count) / float64(s.Total)
		}
		s.Totals = append(s.Totals, total)
	}
	if len(s.Bars) > 0 {
		s.First, s.Last = s.Bars[0].Date, s.Bars[len(s.Bars)-1].Date
	}
	return s
}

func units(n float64) string { return strconv.FormatFloat(n, 'f', 1, 64) }

// stepsOf adds days up, which are newest first. The result is oldest first; its last step ends today.
func stepsOf(days []statistics.Day, step int) []statistics.Day {
	var all []statistics.Day
	for part := range slices.Chunk(days, step) {
		sum := statistics.Day{Date: part[len(part)-1].Date}
		for i := range part {
			sum.Add(&part[i])
		}
		all = append(all, sum)
	}
	slices.Reverse(all)
	return all
}

// historyBody is what the page of the history shows.
type historyBody struct {
	Days, Step int
	Periods    []int
	Answered   int64
	// Unreadable is how many days have figures that cannot be read.
	Unreadable int64
	// Since is the first day of which something is known, empty if nothing is.
	Since      string
	Texts      stack
	Categories []stack
	Refused    stack
}

// showHistory shows what was decided for an account over time.
func showHistory(c *call) error {
	shown := historyBody{Days: historyPeriods[0].Days, Step: historyPeriods[0].Step}
	for _, period := range historyPeriods {
		shown.Periods = append(shown.Periods, period.Days)
		if c.r.URL.Query().Get("days") == strconv.Itoa(period.Days) {
			shown.Days, shown.Step = period.Days, period.Step
		}
	}
	days, err := c.services.Statistics.Days(c.r.Context(), c.account.ID, c.services.Now(), shown.Days)
	if err != nil {
		return err
	}
	reasons := statistics.Counts{}
	for i := range days {
		day := &days[i]
		shown.Answered += day.Answered
		if day.Unreadable {
			shown.Unreadable++
		}
		for reason, n := range day.Refused {
			reasons[reason] += n
		}
		if day.Answered+day.Refused.Total() > 0 {
			shown.Since = day.Date
		}
	}
	steps := stepsOf(days, shown.Step)
	shown.Texts = stackOf("texts", steps, recommendations, func(d *statistics.Day) statistics.Counts { return d.Texts })
	for i := range engine.NumCategories {
		name := engine.Category(i).String()
		shown.Categories = append(shown.Categories, stackOf("flagged-"+name, steps, []string{name},
			func(d *statistics.Day) statistics.Counts { return d.Flagged }))
	}
	shown.Refused = stackOf("refused", steps, slices.SortedFunc(maps.Keys(reasons), func(a, b string) int {
		return cmp.Or(cmp.Compare(reasons[b], reasons[a]), cmp.Compare(a, b))
	}), func(d *statistics.Day) statistics.Counts { return d.Refused })
	c.render(http.StatusOK, page{Template: "history.html", Title: "history.title", Tab: "history", Body: shown})
	return nil
}

// whatIf says how often something is so, now and with other thresholds.
type whatIf struct {
	Name      string
	Now, Then int64
	// NowShare and ThenShare are the shares of the texts.
	NowShare, ThenShare float64
	// Field is set for a category.
	Field setting
}

// count counts a text, which stands for some.
func (w *whatIf) count(now, then bool, weight float64) {
	if now {
		w.NowShare += weight
	}
	if then {
		w.ThenShare += weight
	}
}

// finish makes counts and shares of sums.
func (w *whatIf) finish(total float64) {
	w.Now, w.Then = int64(math.Round(w.NowShare)), int64(math.Round(w.ThenShare))
	if total > 0 {
		w.NowShare, w.ThenShare = w.NowShare/total, w.ThenShare/total
	}
}

// thresholdsBody is what the page of the thresholds shows.
type thresholdsBody struct {
	Categories, Recommendations []whatIf
	// Texts is how many were judged, and Sampled how many of them the figures are from.
	Texts   int64
	Sampled int
	// Compared says that other thresholds were typed than those in force.
	Compared bool
	Problem  *fieldProblem
	// Changeable says that the thresholds of the account may be changed here.
	Changeable bool
}

// showThresholds shows the thresholds of an account, and what others would have done to the texts of the last month.
func showThresholds(c *call) error { return c.renderThresholds(c.r.URL.Query()) }

// renderThresholds shows the page for thresholds that were typed.
func (c *call) renderThresholds(query url.Values) error {
	shown := thresholdsBody{Changeable: !c.account.Declared}
	now := c.services.Engine.Policy().With(app.LevelsOf(&c.account))
	typed, problem := typedThresholds(query)
	then := now
	if problem == nil && typed != nil {
		then = c.services.Engine.Policy().With(typed)
		shown.Compared = then != now
	}
	shown.Problem = problem
	standard := c.services.Engine.Policy()
	for i := range engine.NumCategories {
		name := engine.Category(i).String()
		field := setting{
			Name: thresholdField + name, Category: name,
			Default: strconv.FormatFloat(standard.Thresholds[i], 'g', 4, 64),
		}
		field.Wrong = problem != nil && problem.Field == field.Name
		if own, ok := c.account.Overrides.Thresholds[name]; ok {
			field.Value = strconv.FormatFloat(own, 'f', -1, 64)
		}
		if query.Has(field.Name) {
			field.Value = strings.TrimSpace(query.Get(field.Name))
		}
		shown.Categories = append(shown.Categories, whatIf{Name: name, Field: field})
	}
	for _, name := range recommendations {
		shown.Recommendations = append(shown.Recommendations, whatIf{Name: name})
	}
	if err := c.compare(&shown, now, then); err != nil {
		return err
	}
	status := http.StatusOK
	if problem != nil {
		status = http.StatusBadRequest
	}
	c.render(status, page{Template: "thresholds.html", Title: "thresholds.title", Tab: "thresholds", Body: shown})
	return nil
}

// changeThresholds replaces the thresholds of an account.
func changeThresholds(c *call) error {
	typed, problem := typedThresholds(c.form)
	if problem != nil {
		return c.renderThresholds(c.form)
	}
	changed, err := c.services.Gate.ChangeOverrides(c.r.Context(), c.account.ID, func(o *quota.Overrides) {
		own := map[string]float64{}
		for i := range engine.NumCategories {
			name := engine.Category(i).String()
			switch {
			case !c.form.Has(thresholdField + name):
				if threshold, has := o.Thresholds[name]; has {
					own[name] = threshold
				}
			case typed.Thresholds[i] != 0:
				own[name] = typed.Thresholds[i]
			}
		}
		if o.Thresholds = own; len(own) == 0 {
			o.Thresholds = nil
		}
	})
	if err != nil {
		return err
	}
	c.record(audit.Entry{
		Action: "account.update", Account: changed.ID, Details: app.AccountChanges(&c.account, &changed),
	})
	return c.done("changed", "accounts", c.account.ID, "thresholds")
}

// typedThresholds reads the thresholds of an address or a form; nil if it has none.
func typedThresholds(query url.Values) (own *engine.Policy, problem *fieldProblem) {
	for i := range engine.NumCategories {
		name := engine.Category(i).String()
		if !query.Has(thresholdField + name) {
			continue
		}
		if own == nil {
			own = new(engine.Policy)
		}
		text := strings.TrimSpace(query.Get(thresholdField + name))
		if text == "" {
			continue
		}
		threshold, err := decimalOf(text)
		if err != nil || !(threshold > 0 && threshold < 1) {
			return nil, &fieldProblem{Field: thresholdField + name, Category: name, Text: "settings.threshold"}
		}
		own.Thresholds[i] = threshold
	}
	return own, nil
}

// compare decides the sampled texts of the last month by two policies.
func (c *call) compare(shown *thresholdsBody, now, then engine.Policy) error {
	ctx, at := c.r.Context(), c.services.Now()
	days, err := c.services.Statistics.Days(ctx, c.account.ID, at, statistics.KeepSampleDays)
	if err != nil {
		return err
	}
	samples, err := c.services.Statistics.Samples(ctx, c.account.ID, at, statistics.KeepSampleDays)
	if err != nil {
		return err
	}
	total := 0.0
	for i := range samples {
		texts := samples[i].Texts
		if len(texts) == 0 {
			continue
		}
		// The sample of a busy day stands for more texts than that of a quiet one.
		n := max(days[i].Texts.Total(), int64(len(texts)))
		weight := float64(n) / float64(len(texts))
		total += float64(n)
		shown.Sampled += len(texts)
		for _, probabilities := range texts {
			shown.decide(probabilities, now, then, weight)
		}
	}
	shown.Texts = int64(math.Round(total))
	for _, all := range [][]whatIf{shown.Categories, shown.Recommendations} {
		for i := range all {
			all[i].finish(total)
		}
	}
	return nil
}

// decide counts a text.
func (b *thresholdsBody) decide(probabilities []float64, now, then engine.Policy, weight float64) {
	var before engine.Result
	for i := range min(len(probabilities), len(before.Categories)) {
		before.Categories[i].Probability = probabilities[i]
	}
	after := before
	now.Decide(&before)
	then.Decide(&after)
	for i := range b.Categories {
		b.Categories[i].count(before.Categories[i].Flagged, after.Categories[i].Flagged, weight)
	}
	for i := range b.Recommendations {
		name := engine.Recommendation(b.Recommendations[i].Name)
		b.Recommendations[i].count(before.Recommendation == name, after.Recommendation == name, weight)
	}
}
