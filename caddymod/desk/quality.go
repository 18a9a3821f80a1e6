// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package desk

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/engine"
	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/review"
	"github.com/caddy-moderation/caddy-moderation/review/quality"
	"github.com/caddy-moderation/caddy-moderation/storage"
)

// qualityRoutes returns what a request may do with the pages about how good the service and the reviewers are.
func qualityRoutes() []route {
	const get = http.MethodGet
	return []route{
		{method: get, pattern: "/review/quality", needs: reviewer, store: true, serve: ofQueue(showQuality)},
		{method: get, pattern: "/review/decided.jsonl", needs: operator, store: true, serve: ofQueue(exportDecided)},
		{method: get, pattern: "/review/quality/differences", needs: reviewer, store: true, serve: ofQueue(listDifferences)},
	}
}

// Bounds of what the pages cost.
const (
	// qualityAge is for how long a report is shown before it is made anew.
	qualityAge = time.Minute
	// maxQualityItems is how many decided items with one status a report reads: the latest.
	maxQualityItems = 20_000
	// maxQualityReports is how many reports are kept: one for each account and period that somebody looks at.
	maxQualityReports = 16
	// qualityTime is how long a report may take.
	qualityTime = 30 * time.Second
	// maxDifferences is how many examples a page lists, and maxExamined how many items are read for them.
	maxDifferences = 50
	maxExamined    = 5_000
	// enough is how many items of the sample must have been decided before its figures say something.
	enough = 30
)

// qualityPeriods are the periods of the reports, in days.
var qualityPeriods = [...]int{30, 7, 90, 365}

// qualityView is what a report is about. It stays in the address.
type qualityView struct {
	Account string
	Days    int
}

func qualityViewOf(values url.Values) qualityView {
	v := qualityView{Account: strings.TrimSpace(values.Get("account")), Days: qualityPeriods[0]}
	if quota.ValidateID(v.Account) != nil {
		v.Account = ""
	}
	if days, err := strconv.Atoi(values.Get("days")); err == nil && slices.Contains(qualityPeriods[:], days) {
		v.Days = days
	}
	return v
}

// qualityReport is a report with what it rests on.
type qualityReport struct {
	*quality.Report
	At time.Time
	// Partial says that there are more decided items than were read, and Unreadable how many could not be read.
	Partial    bool
	Unreadable int
}

// qualityReports are the reports of the last minute. A report is made once, however many ask for it.
type qualityReports struct {
	mu    sync.Mutex
	known map[qualityView]*qualityEntry
}

type qualityEntry struct {
	made   chan struct{} // closed when the report is there
	at     time.Time
	report qualityReport
	err    error
}

// get returns a report.
func (q *qualityReports) get(
	ctx context.Context, view qualityView, now time.Time, count func() (qualityReport, error),
) (qualityReport, error) {
	q.mu.Lock()
	entry, ok := q.known[view]
	if ok && now.Sub(entry.at) >= qualityAge {
		select {
		case <-entry.made:
			ok = false
		default: // it is being made
		}
	}
	if !ok {
		if q.known == nil {
			q.known = map[qualityView]*qualityEntry{}
		}
		q.forget(now)
		entry = &qualityEntry{made: make(chan struct{}), at: now}
		q.known[view] = entry
	}
	q.mu.Unlock()
	if !ok {
		q.make(view, entry, count)
	}
	select {
	case <-entry.made:
		return entry.report, entry.err
	case <-ctx.Done():
		return qualityReport{}, ctx.Err()
	}
}

// make makes a report. Whatever happens, nobody goes on waiting for it, and one that failed is not kept.
func (q *qualityReports) make(view qualityView, entry *qualityEntry, count func() (qualityReport, error)) {
	entry.err = errReport
	defer func() {
		if entry.err != nil {
			q.mu.Lock()
			delete(q.known, view)
			q.mu.Unlock()
		}
		close(entry.made)
	}()
	entry.report, entry.err = count()
}

// errReport is the error of a report that has ended in a panic.
var errReport = errors.New("the report could not be made")

// forget makes room for a report: old ones go, and if there are too many all do.
func (q *qualityReports) forget(now time.Time) {
	for view, entry := range q.known {
		if now.Sub(entry.at) >= qualityAge {
			delete(q.known, view)
		}
	}
	if len(q.known) >= maxQualityReports {
		clear(q.known)
	}
}

// report returns the report of a view.
func (c *call) report(queue *review.Queue, view qualityView) (qualityReport, error) {
	now := c.desk.now()
	return c.desk.reports.get(c.r.Context(), view, now, func() (qualityReport, error) {
		// Others may wait for it when this visitor has left.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(c.r.Context()), qualityTime)
		defer cancel()
		counter := quality.NewCounter(engine.CategoryNames())
		report := qualityReport{At: now}
		since := now.AddDate(0, 0, -view.Days)
		for _, status := range []review.Status{review.Approved, review.Refused, review.Escalated} {
			read := 0
			for item, err := range queue.Decided(ctx, status, view.Account, since) {
				if read++; read > maxQualityItems {
					report.Partial = true
					break
				}
				switch {
				case err == nil:
					counter.Add(&item)
				case unreadable(err):
					report.Unreadable++
				default:
					return qualityReport{}, err
				}
			}
		}
		report.Report = counter.Report()
		return report, nil
	})
}

// unreadable reports whether an error concerns one item, so that others can be read.
func unreadable(err error) bool {
	return errors.Is(err, review.ErrKey) || errors.Is(err, review.ErrDamaged) || errors.Is(err, storage.ErrDamaged)
}

// estimate is a share as it is shown.
type estimate struct {
	quality.Share
	// Known says that there is anything to estimate from.
	Known     bool
	Low, High float64
	// X and Width are the place of the interval, in percent, and Mark is that of the value.
	X, Width, Mark string
}

func estimateOf(s quality.Share) estimate {
	low, high := s.Interval()
	percent := func(x float64) string { return strconv.FormatFloat(100*x, 'f', 1, 64) }
	return estimate{
		Share: s, Known: s.Total > 0, Low: low, High: high, X: percent(low), Width: percent(max(high-low, 0.01)),
		Mark: percent(min(max(s.Value()-0.005, 0), 0.99)),
	}
}

// qualityCategory is a category as it is shown.
type qualityCategory struct {
	Name                         string
	Agreement, Precision, Recall estimate
}

// qualityWeek is a week as it is shown. Its place is in units of the SVG.
type qualityWeek struct {
	Begin             time.Time
	Estimate          estimate
	Value             float64
	X, Y, Top, Bottom string
}

// qualityStep is what another threshold would do.
type qualityStep struct {
	Threshold                  float64
	Flagged, Precision, Recall estimate
	// Alarms and Misses are of all decided items.
	Alarms, Misses int
	Current        bool
}

// qualityBody is what the page shows.
type qualityBody struct {
	qualityView
	Report     qualityReport
	Periods    []int
	Verdict    estimate
	Precision  estimate
	Recall     estimate
	Harmful    estimate
	Enough     bool
	Missing    int
	Categories []qualityCategory
	Weeks      []qualityWeek
	WeeksWidth int
	Both       estimate
	Kappa      string

	// What other thresholds would do.
	Names     []string
	Category  string
	Threshold float64
	Steps     []qualityStep

	Differences string
	// Decided is how many items of all accounts were approved or rejected: at most as many rows has an export. It is 0
	// for those who may not have one.
	Decided int
	Export  string
}

// weekStep is the distance of two weeks in the chart, in units of the SVG.
const weekStep = 24

// showQuality shows how good the service and the reviewers are.
func showQuality(c *call, queue *review.Queue) error {
	query := c.r.URL.Query()
	view := qualityViewOf(query)
	report, err := c.report(queue, view)
	if err != nil {
		return err
	}
	kappa := ""
	if value, known := report.Pairs.Kappa(); known {
		kappa = strconv.FormatFloat(value, 'f', 2, 64)
	}
	body := qualityBody{
		qualityView: view, Report: report, Periods: slices.Sorted(slices.Values(qualityPeriods[:])),
		Verdict: estimateOf(report.Verdict.Agreement()), Precision: estimateOf(report.Sample.Precision()),
		Recall: estimateOf(report.Sample.Recall()), Both: estimateOf(report.Pairs.Both), Kappa: kappa,
		Harmful: estimateOf(quality.Share{
			Count: report.Sample.TruePositives + report.Sample.FalseNegatives, Total: report.Sample.Total(),
		}),
		Enough: report.Sampled >= enough, Missing: max(enough-report.Sampled, 0), Names: engine.CategoryNames(),
		Differences: c.differencesURL(view, ""),
	}
	for i := range report.Categories {
		category := &report.Categories[i]
		body.Categories = append(body.Categories, qualityCategory{
			Name: category.Name, Agreement: estimateOf(category.All.Agreement()),
			Precision: estimateOf(category.Sample.Precision()), Recall: estimateOf(category.Sample.Recall()),
		})
	}
	body.addWeeks(report.Weeks)
	body.addSteps(c.services.Engine.Policy(), &report, query)
	answer := page{Template: "quality.html", Title: "quality.title"}
	if c.person.operator {
		counts, err := c.services.Reviews.Stats(c.r.Context(), "")
		if err != nil {
			return err
		}
		body.Decided = counts.Items[review.Approved] + counts.Items[review.Refused]
		body.Export = c.url("review", "decided.jsonl")
	}
	if body.Decided > 0 {
		answer.Scripts = []string{"download.mjs"}
	}
	answer.Body = body
	c.render(http.StatusOK, answer)
	return nil
}

func (b *qualityBody) addWeeks(weeks []quality.Week) {
	for i, week := range weeks {
		e := estimateOf(week.Agreement)
		at := func(share float64) string { return strconv.FormatFloat(chartHeight*(1-share), 'f', 1, 64) }
		b.Weeks = append(b.Weeks, qualityWeek{
			Begin: week.Begin, Estimate: e, Value: e.Value(), X: strconv.Itoa(i*weekStep + weekStep/2),
			Y: at(e.Value()), Top: at(e.High), Bottom: at(e.Low),
		})
	}
	b.WeeksWidth = max(len(weeks), 1) * weekStep
}

// addSteps adds what other thresholds of one category would do.
func (b *qualityBody) addSteps(policy engine.Policy, report *qualityReport, query url.Values) {
	chosen := max(slices.Index(b.Names, query.Get("category")), 0)
	b.Category, b.Threshold = b.Names[chosen], policy.Thresholds[chosen]
	// What was decided may be judged by other thresholds, of an account or of an earlier configuration.
	category := &report.Categories[chosen]
	thresholds := []float64{b.Threshold}
	for n := 1; n < 20; n++ {
		if threshold := float64(n) / 20; threshold != b.Threshold {
			thresholds = append(thresholds, threshold)
		}
	}
	slices.Sort(thresholds)
	for _, threshold := range thresholds {
		all, sample := category.At(threshold)
		b.Steps = append(b.Steps, qualityStep{
			Threshold: threshold, Flagged: estimateOf(sample.Flagged()), Precision: estimateOf(sample.Precision()),
			Recall: estimateOf(sample.Recall()), Alarms: all.FalsePositives, Misses: all.FalseNegatives,
			Current: threshold == b.Threshold,
		})
	}
}

func (c *call) differencesURL(view qualityView, category string) string {
	values := url.Values{"days": {strconv.Itoa(view.Days)}}
	if view.Account != "" {
		values.Set("account", view.Account)
	}
	if category != "" {
		values.Set("category", category)
	}
	return c.url("review", "quality", "differences") + "?" + values.Encode()
}

// difference is an item about which people and the service differ.
type difference struct {
	queueRow
	About   []string
	Verdict bool
	Says    string // what the service said
}

type differencesBody struct {
	qualityView
	Category string
	Filters  []link
	Rows     []difference
}

// listDifferences lists the latest items about which people and the service differ.
func listDifferences(c *call, queue *review.Queue) error {
	query := c.r.URL.Query()
	body := differencesBody{qualityView: qualityViewOf(query)}
	names := engine.CategoryNames()
	if slices.Contains(names, query.Get("category")) {
		body.Category = query.Get("category")
	}
	body.Filters = []link{{c.differencesURL(body.qualityView, ""), c.words.must("quality.any"), body.Category == ""}}
	for _, name := range names {
		body.Filters = append(body.Filters, link{
			c.differencesURL(body.qualityView, name), c.words.must("category." + name), body.Category == name,
		})
	}
	since := c.desk.now().AddDate(0, 0, -body.Days)
	for _, status := range []review.Status{review.Approved, review.Refused} {
		found, read := 0, 0
		for item, err := range queue.Decided(c.r.Context(), status, body.Account, since) {
			if read++; read > maxExamined || found == maxDifferences/2 {
				break
			}
			if err != nil && unreadable(err) {
				c.desk.app.Logger().Error("a review item cannot be read", zap.Error(err))
				continue
			}
			if err != nil {
				return err
			}
			about, verdict := quality.Differs(&item, names)
			if body.Category != "" && !slices.Contains(about, body.Category) || len(about) == 0 && !verdict {
				continue
			}
			found++
			body.Rows = append(body.Rows, difference{
				queueRow: c.row(&item), About: about, Verdict: verdict, Says: c.words.must("verdict." + item.Recommendation),
			})
		}
	}
	slices.SortStableFunc(body.Rows, func(a, b difference) int {
		return b.Final().Time.Compare(a.Final().Time)
	})
	c.render(http.StatusOK, page{
		Template: "quality_differences.html", Title: "quality.differences", Body: body, Scripts: []string{"queue.mjs"},
	})
	return nil
}
