// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package policy moderates the texts of a message by the policy of a guard.
//
// A [Policy] is the configuration of a [Moderator]. [Moderator.Moderate] charges a message to the account of the policy
// ([Moderator.Charge]), classifies each text, also in the other ways in which people and programs may read it
// ([Moderator.Classify]), and decides on a [Verdict] ([Moderator.Decide]).
package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/sampled"
	"github.com/caddy-moderation/caddy-moderation/caddymod/metrics"
	"github.com/caddy-moderation/caddy-moderation/engine"
	"github.com/caddy-moderation/caddy-moderation/engine/language"
	"github.com/caddy-moderation/caddy-moderation/quota"
)

// Policy says which texts are let through.
type Policy struct {
	// The only categories that can flag: hate, harassment, self-harm, sexual and violence. Default: all.
	Categories []string `json:"categories,omitempty"`
	// The probabilities above which a category is flagged, by category; greater than 0 and less than 1. Default: those
	// of the moderation app.
	Thresholds map[string]float64 `json:"thresholds,omitempty"`
	// The probabilities from which a flagged category is rejected and not only reviewed, by category; at least the
	// threshold and at most 1. Default: half-way from a threshold that is given here to 1, otherwise those of the
	// moderation app.
	//
	// What people send is not rejected for self-harm alone unless a level is given for it, here or in the moderation
	// app: a person in a crisis must not be turned away. Text that tells others to harm themselves is rejected.
	RejectLevels map[string]float64 `json:"reject_levels,omitempty"`
	// The languages that texts are expected to be in, as BCP 47 tags, the likeliest first: en, es, pt-BR. Text whose
	// language cannot be known, such as a single word, is read as text in the first of them that the classifier knows.
	// Default: none.
	Languages []string `json:"languages,omitempty"`
	// What is recommended for text in another language than those, where it is clear that it is: pass, review or
	// reject. It needs languages. Default: pass.
	OtherLanguage string `json:"other_language,omitempty"`
	// The share of the texts that are harmful, from 0.0001 to 0.99, to which the probabilities of the embedded
	// classifier are moved. Default: that of the account of this guard, otherwise that of the moderation app.
	HarmShare *float64 `json:"harm_share,omitempty"`
	// Free-text themes, at most 10 of at most 100 characters. Text with any of them is rejected. Default: none.
	Themes []string `json:"themes,omitempty"`
	// Words, or expressions of several words, that do not count: they are taken out of the text before it is moderated.
	// They match whole words in any case and in any disguise that the classifier sees through. Default: none.
	Allow []string `json:"allow,omitempty"`
	// Files with one such expression per line. Lines that begin with # are comments. A file that changes is read again
	// within seconds. Default: none.
	AllowFiles []string `json:"allow_files,omitempty"`
	// Words or expressions that reject the text in which they stand. Default: none.
	Block []string `json:"block,omitempty"`
	// Files with one such expression per line, like allow_files. Default: none.
	BlockFiles []string `json:"block_files,omitempty"`
	// The id of the account in whose usage each moderated message counts one. Default: none.
	Account string `json:"account,omitempty"`
	// Whether to enforce the limits of the account, too. A message that exceeds them cannot be moderated, and on_error
	// says what follows. Default: false.
	EnforceQuota bool `json:"enforce_quota,omitempty"`
}

// The maximum number of themes, and of characters in one.
const (
	maxThemes      = 10
	maxThemeLength = 100
)

// New checks a policy and returns a moderator for the messages of one direction. failClosed says that a message must
// not go on if it cannot be counted because the store fails. Files of word lists are watched until ctx ends.
func New(ctx caddy.Context, a *app.App, p *Policy, direction metrics.Direction, failClosed bool) (*Moderator, error) {
	m := &Moderator{
		app: a, logger: sampled.Logger(ctx.Logger()), direction: direction, failClosed: failClosed,
		themes: p.Themes, account: p.Account, enforceQuota: p.EnforceQuota, results: newCache(),
	}
	if err := p.checkThemes(); err != nil {
		return nil, err
	}
	if err := app.CheckHarmShare(p.HarmShare); err != nil {
		return nil, err
	}
	m.setHarmShare(p.HarmShare)
	m.ownHarmShare = p.HarmShare != nil
	if m.ownHarmShare && a.Engine().HarmShare() == 0 {
		m.logger.Warn("harm_share has no effect: it is for the embedded classifier only",
			zap.String("classifier", a.Engine().Version()))
	}
	if err := p.checkLanguages(); err != nil {
		return nil, err
	}
	m.languages, m.otherLanguage = p.Languages, recommendationOf(p.OtherLanguage)
	if p.EnforceQuota && p.Account == "" {
		return nil, errors.New("enforce_quota needs an account")
	}
	if p.Account != "" {
		if err := quota.ValidateID(p.Account); err != nil {
			return nil, fmt.Errorf("account: %w", err)
		}
		if _, err := app.LoadWithStore(ctx); err != nil { // counting needs the store
			return nil, err
		}
		a.AtStart(fmt.Sprint("account ", p.EnforceQuota, p.Account), m.warnOfAccount)
	}
	for c := range m.ignored {
		m.ignored[c] = len(p.Categories) > 0
	}
	for _, name := range p.Categories {
		category, err := engine.ParseCategory(name)
		if err != nil {
			return nil, fmt.Errorf("categories: %w", err)
		}
		m.ignored[category] = false
	}
	override, err := app.Levels(p.Thresholds, p.RejectLevels)
	if err != nil {
		return nil, err
	}
	m.levels = a.Engine().Policy().With(&override)
	if err := m.levels.Validate(); err != nil {
		return nil, err
	}
	selfHarm := engine.SelfHarm.String()
	m.reviewCrisis = direction == metrics.Inbound && p.RejectLevels[selfHarm] == 0 && a.RejectLevels[selfHarm] == 0
	if m.key, err = p.key(); err != nil {
		return nil, err
	}
	if m.allow, err = newWordLists(ctx, "allow", p.Allow, p.AllowFiles); err != nil {
		return nil, err
	}
	m.block, err = newWordLists(ctx, "block", p.Block, p.BlockFiles)
	return m, err
}

// Values of Policy.OtherLanguage.
const (
	otherPass   = "pass"
	otherReview = "review"
	otherReject = "reject"
)

// recommendationOf returns what Policy.OtherLanguage recommends.
func recommendationOf(other string) engine.Recommendation {
	switch other {
	case otherReview:
		return engine.Review
	case otherReject:
		return engine.Reject
	}
	return engine.Approve
}

func (p *Policy) checkLanguages() error {
	for _, tag := range p.Languages {
		if err := language.CheckTag(tag); err != nil {
			return fmt.Errorf("languages: %w", err)
		}
	}
	switch p.OtherLanguage {
	case "", otherPass:
	case otherReview, otherReject:
		if len(p.Languages) == 0 {
			return errors.New("other_language needs languages")
		}
	default:
		return fmt.Errorf("other_language is %q; it must be pass, review or reject", p.OtherLanguage)
	}
	return nil
}

func (p *Policy) checkThemes() error {
	if len(p.Themes) > maxThemes {
		return fmt.Errorf("themes: %d are given; at most %d are possible", len(p.Themes), maxThemes)
	}
	for _, theme := range p.Themes {
		if strings.TrimSpace(theme) == "" {
			return errors.New("themes: a theme is blank")
		}
		if utf8.RuneCountInString(theme) > maxThemeLength {
			return fmt.Errorf("themes: a theme has more than %d characters", maxThemeLength)
		}
	}
	return nil
}

// key is the same for policies that classify texts alike. They may decide differently: the fields that only
// [Moderator.Decide] and [Moderator.Charge] use are left out. All others are part of the key.
func (p Policy) key() (string, error) {
	p.Categories, p.Thresholds, p.RejectLevels = nil, nil, nil
	p.Account, p.EnforceQuota, p.HarmShare, p.OtherLanguage = "", false, nil, ""
	encoded, err := json.Marshal(p)
	return string(encoded), err
}
