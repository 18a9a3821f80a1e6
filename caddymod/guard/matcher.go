// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/caddymod/metrics"
	"github.com/caddy-moderation/caddy-moderation/engine"
)

func init() {
	caddy.RegisterModule(new(Matcher))
}

// Matcher matches requests by what the judge says about their text. All conditions that are given must hold; of the values
// of one condition any will do.
//
// When moderate has judged the request before, the matcher goes by that verdict, unless it says itself what is to be read.
// Else it judges the request, of which nothing is taken away: the body can still be read by others. A request is judged
// once however many matchers and handlers ask. One that cannot be read or judged matches only by its status.
type Matcher struct {
	Reading

	// Flagged matches requests of which something is flagged.
	Flagged bool `json:"flagged,omitempty"`
	// Recommendations match requests with one of these recommendations: approve, review, reject.
	Recommendations []engine.Recommendation `json:"recommendations,omitempty"`
	// Statuses match requests that were judged so far: judged, nothing, partial, skipped, error. With "error" and "partial" it
	// matches what the matcher could not read, or not wholly.
	Statuses []Status `json:"statuses,omitempty"`
	// Categories match requests in which one of these categories has at least the given probability; 0 means that it is
	// flagged.
	Categories map[string]float64 `json:"categories,omitempty"`

	app    *app.App
	reader *reader
	judge  *judge
	key    string
	levels map[engine.Category]float64
}

// CaddyModule returns the Caddy module information.
func (*Matcher) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.matchers.moderation",
		New: func() caddy.Module { return new(Matcher) },
	}
}

// Provision prepares the matcher.
func (m *Matcher) Provision(ctx caddy.Context) (err error) {
	if m.app, err = app.Load(ctx); err != nil {
		return err
	}
	if m.empty() {
		return errNoCondition
	}
	for _, s := range m.Statuses {
		if !slices.Contains(statuses, s) {
			return fmt.Errorf("there is no status %q; there are judged, nothing, partial, skipped and error", string(s))
		}
	}
	for _, r := range m.Recommendations {
		if !slices.Contains(recommendations, r) {
			return fmt.Errorf("there is no recommendation %q; there are approve, review and reject", string(r))
		}
	}
	m.levels = map[engine.Category]float64{}
	for name, level := range m.Categories {
		category, err := engine.ParseCategory(name)
		if err != nil {
			return err
		}
		if !(level >= 0 && level <= 1) {
			return fmt.Errorf("category %s: %v is not a probability", name, level)
		}
		m.levels[category] = level
	}
	if err := m.Reading.check(); err != nil {
		return err
	}
	var limits Limits
	if err := limits.provision(); err != nil {
		return err
	}
	if m.reader, err = newReader(&m.Reading, limits, defaultTimeout); err != nil {
		return err
	}
	var policy Policy
	m.key = m.reader.key + policy.key()
	m.judge, err = policy.provision(ctx, m.app, metrics.Inbound)
	return err
}

// errNoCondition says that a matcher would match everything.
var errNoCondition = errors.New("nothing is given that a request could match; there are flagged, recommendation, category and status")

// empty reports whether there is no condition.
func (m *Matcher) empty() bool {
	return !m.Flagged && len(m.Recommendations)+len(m.Categories)+len(m.Statuses) == 0
}

// statuses are all that there are.
var statuses = []Status{Judged, Nothing, Partial, Skipped, Failed}

// recommendations are all that there are.
var recommendations = []engine.Recommendation{engine.Approve, engine.Review, engine.Reject}

// MatchWithError reports whether the request matches. It never fails.
func (m *Matcher) MatchWithError(r *http.Request) (bool, error) {
	x := exchangeOf(r, m.app)
	v := x.request
	if v == nil || m.narrow() {
		known := x.request
		began := time.Now()
		v, _, _ = evaluate(r, nil, x, m.reader, m.judge, m.key) // a matcher counts for no account
		if known != nil {
			x.request = known // placeholders tell what the handler found, not what a matcher asked
		} else {
			m.app.Metrics().Guard(metrics.Inbound, outcome(v), v.flagged(), time.Since(began))
		}
	}
	return m.matches(v), nil
}

// Match is [Matcher.MatchWithError] for callers that know only it.
func (m *Matcher) Match(r *http.Request) bool {
	match, _ := m.MatchWithError(r)
	return match
}

// matches reports whether all conditions hold.
func (m *Matcher) matches(v *Verdict) bool {
	if len(m.Statuses) > 0 && !slices.Contains(m.Statuses, v.Status) {
		return false
	}
	if m.Flagged && !v.Flagged {
		return false
	}
	if len(m.Recommendations) > 0 && !slices.Contains(m.Recommendations, v.Recommendation) {
		return false
	}
	if len(m.levels) == 0 {
		return true
	}
	for category, level := range m.levels {
		result := v.Categories[category]
		if level == 0 && result.Flagged || level > 0 && result.Probability >= level {
			return true
		}
	}
	return false
}

// Interface guards
var (
	_ caddy.Provisioner                 = (*Matcher)(nil)
	_ caddyhttp.RequestMatcherWithError = (*Matcher)(nil)
)
