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
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/extract"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/policy"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/request"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/sampled"
	"github.com/caddy-moderation/caddy-moderation/caddymod/metrics"
	"github.com/caddy-moderation/caddy-moderation/engine"
	"github.com/caddy-moderation/caddy-moderation/engine/language"
)

func init() {
	caddy.RegisterModule(new(Matcher))
}

// Matcher matches requests by the verdict on their text. All conditions that are given must hold; a condition holds if
// one of its values does.
//
// If moderate has moderated the request before, the matcher uses its verdict, unless the matcher itself says where the
// texts stand. Otherwise it moderates the request; the body can still be read by others. A request is moderated only
// once, however many matchers and handlers need the verdict. A request that cannot be read or moderated matches only by
// its status.
type Matcher struct {
	request.Fields

	// Whether to match requests in which something is flagged. Default: false.
	Flagged bool `json:"flagged,omitempty"`
	// The recommendations to match: approve, review, reject. Default: any.
	Recommendations []engine.Recommendation `json:"recommendations,omitempty"`
	// The statuses to match: judged, nothing, partial, skipped, error. "error" matches requests that could not be
	// moderated, "partial" those of which only a part could be. Default: any.
	Statuses []Status `json:"statuses,omitempty"`
	// The categories to match, one of which must have at least the given probability; 0 means that it is flagged.
	// Default: any.
	Categories map[string]float64 `json:"categories,omitempty"`
	// The languages to match, as BCP 47 tags: that of the first text whose language is known. "und" matches requests
	// with text in none that is known. Default: any.
	Languages []string `json:"languages,omitempty"`

	app      *app.App
	pipeline *pipeline
	levels   map[engine.Category]float64
}

// CaddyModule returns the Caddy module information.
func (*Matcher) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.matchers.moderation",
		New: func() caddy.Module { return new(Matcher) },
	}
}

// Provision checks the configuration and prepares the matcher.
func (m *Matcher) Provision(ctx caddy.Context) (err error) {
	if m.app, err = app.Load(ctx); err != nil {
		return err
	}
	if err := m.provisionConditions(); err != nil {
		return err
	}
	var limits extract.Limits
	if err := limits.SetRequestDefaults(); err != nil {
		return err
	}
	extractor, err := request.New(&m.Fields, limits, defaultTimeout)
	if err != nil {
		return err
	}
	moderator, err := policy.New(ctx, m.app, new(policy.Policy), metrics.Inbound, false)
	if err != nil {
		return err
	}
	m.pipeline = newPipeline(m.app, sampled.Logger(ctx.Logger()), extractor, moderator)
	return nil
}

func (m *Matcher) provisionConditions() error {
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
	for _, tag := range m.Languages {
		if err := language.CheckTag(tag); err != nil {
			return fmt.Errorf("languages: %w", err)
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
	return nil
}

// errNoCondition is the error of a matcher that would match everything.
var errNoCondition = errors.New("nothing is given that a request could match; " +
	"there are flagged, recommendation, category, language and status")

// empty reports whether there is no condition.
func (m *Matcher) empty() bool {
	return !m.Flagged && len(m.Recommendations)+len(m.Categories)+len(m.Statuses)+len(m.Languages) == 0
}

// MatchWithError reports whether the request matches. It never fails.
func (m *Matcher) MatchWithError(r *http.Request) (bool, error) {
	x := exchangeOf(r, m.app)
	v := x.request
	if v == nil || m.pipeline.extractor.Narrow() {
		known := x.request
		began := time.Now()
		v, _, _ = x.moderate(nil, r, m.pipeline) // a matcher charges no account
		if known != nil {
			x.request = known // placeholders keep the verdict of the handler
		} else {
			m.app.Metrics().Guard(metrics.Inbound, outcomeOf(v), v.Flags(), time.Since(began))
		}
	}
	return m.matches(v), nil
}

// Match implements [caddyhttp.RequestMatcher].
func (m *Matcher) Match(r *http.Request) bool {
	match, _ := m.MatchWithError(r)
	return match
}

// matches reports whether all conditions hold.
func (m *Matcher) matches(v *verdict) bool {
	if len(m.Statuses) > 0 && !slices.Contains(m.Statuses, v.status) {
		return false
	}
	if m.Flagged && !v.Flagged {
		return false
	}
	if len(m.Recommendations) > 0 && !slices.Contains(m.Recommendations, v.Recommendation) {
		return false
	}
	if len(m.Languages) > 0 && !m.matchesLanguage(v) {
		return false
	}
	if len(m.levels) == 0 {
		return true
	}
	for category, level := range m.levels {
		result := v.Verdict.Categories[category]
		if level == 0 && result.Flagged || level > 0 && result.Probability >= level {
			return true
		}
	}
	return false
}

// matchesLanguage reports whether the language of the request is one of those to match.
func (m *Matcher) matchesLanguage(v *verdict) bool {
	if v.status != Judged && v.status != Partial {
		return false
	}
	return slices.ContainsFunc(m.Languages, func(wanted string) bool {
		if wanted == language.Undetermined {
			return v.Language == ""
		}
		return v.Language != "" && language.Is(v.Language, wanted)
	})
}

// Interface guards
var (
	_ caddy.Provisioner                 = (*Matcher)(nil)
	_ caddyhttp.RequestMatcherWithError = (*Matcher)(nil)
)
