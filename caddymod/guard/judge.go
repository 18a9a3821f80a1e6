// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/content"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/sampled"
	"github.com/caddy-moderation/caddy-moderation/caddymod/metrics"
	"github.com/caddy-moderation/caddy-moderation/engine"
	"github.com/caddy-moderation/caddy-moderation/quota"
)

// Policy says what is let through.
type Policy struct {
	// Categories are the only ones that can flag: hate, harassment, self-harm, sexual and violence. Default: all.
	Categories []string `json:"categories,omitempty"`
	// Thresholds are the probabilities above which a category is flagged, greater than 0 and less than 1. Default: those of
	// the moderation app.
	Thresholds map[string]float64 `json:"thresholds,omitempty"`
	// RejectLevels are the probabilities from which a flagged category is rejected and not only reviewed: at least the
	// threshold and at most 1. Default: half-way from a threshold that is given here to 1, else those of the moderation app.
	// What people send is not rejected for self-harm alone unless a level is given for it, here or in the moderation app: a
	// person in a crisis is not to be turned away. Text that tells others to harm themselves is.
	RejectLevels map[string]float64 `json:"reject_levels,omitempty"`
	// Themes are free-text themes, at most 10 of at most 100 characters. Text with any of them is rejected.
	Themes []string `json:"themes,omitempty"`
	// Allow are words, or expressions of several words, that do not count: they are taken out of the text before it is judged.
	// They match whole words in any case and any disguise that the judge sees through.
	Allow []string `json:"allow,omitempty"`
	// AllowFiles are files with one such expression a line; lines that begin with # are comments. A file that changes is read
	// again within seconds.
	AllowFiles []string `json:"allow_files,omitempty"`
	// Block are words or expressions that reject the text in which they stand.
	Block []string `json:"block,omitempty"`
	// BlockFiles are files with one such expression a line, like AllowFiles.
	BlockFiles []string `json:"block_files,omitempty"`
	// Account is the id of the account in whose usage each judged message counts one. Default: none.
	Account string `json:"account,omitempty"`
	// EnforceQuota also holds the account's limits: what goes beyond them cannot be judged, and OnError says what follows.
	EnforceQuota bool `json:"enforce_quota,omitempty"`
}

// judge judges texts by a policy.
type judge struct {
	app       *app.App
	logger    *zap.Logger
	direction metrics.Direction

	levels  engine.Policy
	ignored [engine.NumCategories]bool
	themes  []string
	allow   lists
	block   lists
	account string
	enforce bool
	recent  *recent
	// closed says that a message which cannot be counted because the store fails is refused.
	closed bool
	// kind says that text of a person in a crisis is reviewed instead of rejected.
	kind bool
}

// maxThemes and maxTheme are the limits of the interface.
const (
	maxThemes = 10
	maxTheme  = 100
)

// provision checks the policy and prepares what judges by it. Word lists are followed until ctx ends.
func (p *Policy) provision(ctx caddy.Context, owner *app.App, direction metrics.Direction) (*judge, error) {
	j := &judge{
		app: owner, logger: sampled.Logger(ctx.Logger()), direction: direction,
		themes: p.Themes, account: p.Account, enforce: p.EnforceQuota, recent: newRecent(),
	}
	if err := p.checkThemes(); err != nil {
		return nil, err
	}
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
		owner.AtStart(fmt.Sprint("account ", p.EnforceQuota, p.Account), j.checkAccount)
	}
	for c := range j.ignored {
		j.ignored[c] = len(p.Categories) > 0
	}
	for _, name := range p.Categories {
		category, err := engine.ParseCategory(name)
		if err != nil {
			return nil, fmt.Errorf("categories: %w", err)
		}
		j.ignored[category] = false
	}
	override, err := app.Levels(p.Thresholds, p.RejectLevels)
	if err != nil {
		return nil, err
	}
	j.levels = owner.Engine().Policy().With(&override)
	if err := j.levels.Validate(); err != nil {
		return nil, err
	}
	j.kind = direction == metrics.Inbound && p.RejectLevels[selfHarm] == 0 && owner.RejectLevels[selfHarm] == 0
	if j.allow, err = newLists(ctx, "allow", p.Allow, p.AllowFiles); err != nil {
		return nil, err
	}
	j.block, err = newLists(ctx, "block", p.Block, p.BlockFiles)
	return j, err
}

func (p *Policy) checkThemes() error {
	if len(p.Themes) > maxThemes {
		return fmt.Errorf("themes: %d are given; at most %d are possible", len(p.Themes), maxThemes)
	}
	for _, theme := range p.Themes {
		if strings.TrimSpace(theme) == "" {
			return errors.New("themes: a theme is blank")
		}
		if utf8.RuneCountInString(theme) > maxTheme {
			return fmt.Errorf("themes: a theme has more than %d characters", maxTheme)
		}
	}
	return nil
}

// key names what the results of the classifier depend on besides the text.
func (p *Policy) key() string {
	return strings.Join(slices.Concat(p.Themes, []string{"\x00"}, p.Allow, []string{"\x00"}, p.AllowFiles, []string{"\x00"}, p.Block, []string{"\x00"}, p.BlockFiles), "\x01")
}

// judged is what the classifier said about one text.
type judged struct {
	name    string
	result  engine.Result
	blocked bool
	// strict says that the text is another view of one that is judged, too: its source text, a paragraph of it, or short
	// fields read as one. It counts only when it is to be rejected and nothing else is.
	strict bool
}

// Fields that are longer than this, in bytes, are also judged by paragraphs, because a sentence in a long text moves its
// probabilities little. Paragraphs that are shorter than the second are taken together.
const (
	longField = 2000
	paragraph = 400
)

// paragraphs yields the parts of a text: one or several lines of it, as many as make up a paragraph.
func paragraphs(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		begin := 0
		for end := range text {
			if text[end] != '\n' || end-begin < paragraph {
				continue
			}
			if !yield(text[begin:end]) {
				return
			}
			begin = end + 1
		}
		if begin > 0 {
			yield(text[begin:])
		}
	}
}

// classify asks the classifier about texts, and about the short ones of them together with what is in the joiner.
func (j *judge) classify(ctx context.Context, pieces []content.Piece, short *joiner) ([]judged, error) {
	results := make([]judged, 0, len(pieces)+3) // and a few views of them
	var err error
	for i := range pieces {
		piece := &pieces[i]
		further := piece.Further()
		text, changed := content.Visible(piece.Text)
		if results, err = j.parts(ctx, results, piece.Name, text, further); err != nil {
			return nil, err
		}
		if changed {
			if results, err = j.parts(ctx, results, piece.Name, piece.Text, true); err != nil {
				return nil, err
			}
		}
		if bare, dressed := content.Deobfuscate(piece.Text, text); dressed {
			if results, err = j.parts(ctx, results, piece.Name, bare, true); err != nil {
				return nil, err
			}
		}
		if further {
			continue
		}
		if results, err = j.join(ctx, results, piece.Name, text, short); err != nil {
			return nil, err
		}
	}
	if results, err = j.together(ctx, results, short); err != nil {
		return nil, err
	}
	// What belongs together is also judged together as programs see it that read in another way.
	for _, list := range content.ByReading(pieces)[1:] {
		var other joiner
		for i := range list {
			text, _ := content.Visible(list[i].Text)
			if results, err = j.join(ctx, results, list[i].Name, text, &other); err != nil {
				return nil, err
			}
		}
		if results, err = j.together(ctx, results, &other); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// parts asks the classifier about a text, and about its paragraphs where it is long. Of another view of a text that is judged
// the paragraphs say all: what only a long text as a whole says is found in the text itself.
func (j *judge) parts(ctx context.Context, results []judged, name, text string, strict bool) ([]judged, error) {
	var err error
	if !strict {
		if results, err = j.one(ctx, results, name, text, false); err != nil {
			return nil, err
		}
	}
	divided := false
	if len(text) > longField {
		for part := range paragraphs(text) {
			divided = true
			if results, err = j.one(ctx, results, name, part, true); err != nil {
				return nil, err
			}
		}
	}
	if strict && !divided {
		return j.one(ctx, results, name, text, true)
	}
	return results, nil
}

// join asks the classifier about the border between a text and the one before it, and about the short ones before it when
// there is no room for this one.
func (j *judge) join(ctx context.Context, results []judged, name, text string, short *joiner) ([]judged, error) {
	var err error
	if names, border := short.border(name, text); border != "" {
		if results, err = j.view(ctx, results, names, border); err != nil {
			return nil, err
		}
	}
	if text == "" || len(text) >= shortField {
		return results, nil
	}
	if short.full(text) {
		if results, err = j.together(ctx, results, short); err != nil {
			return nil, err
		}
		short.turn()
	}
	short.add(name, text)
	return results, nil
}

// together asks the classifier about short texts as if they were one, if one of them is new.
func (j *judge) together(ctx context.Context, results []judged, short *joiner) ([]judged, error) {
	if !short.fresh || len(short.members) < 2 {
		return results, nil
	}
	short.fresh = false
	return j.view(ctx, results, short.names, short.text())
}

// view asks the classifier about several texts as one. Their names are asked for only when they are needed.
func (j *judge) view(ctx context.Context, results []judged, names func() string, text string) ([]judged, error) {
	before := len(results)
	results, err := j.one(ctx, results, "", text, true)
	if err == nil && len(results) > before && j.decide(results[before:]).Recommendation != engine.Approve {
		results[before].name = names()
	}
	return results, err
}

// one asks the classifier about one text.
func (j *judge) one(ctx context.Context, results []judged, name, text string, strict bool) ([]judged, error) {
	text = j.allow.cut(text)
	if !content.HasLetters(text) {
		return results, nil
	}
	hash := j.recent.hash(text)
	result, known := j.recent.find(hash)
	if !known {
		var err error
		if result, err = j.app.Engine().Moderate(ctx, engine.Request{Content: text, Themes: j.themes}); err != nil {
			return nil, err
		}
		j.recent.keep(hash, result)
	}
	return append(results, judged{name: name, result: result, blocked: j.block.has(text), strict: strict}), nil
}

// decide makes a verdict of what the classifier said.
func (j *judge) decide(results []judged) *Verdict {
	v := &Verdict{Status: Judged, Recommendation: engine.Approve, Confidence: 1}
	if len(results) == 0 {
		v.Status = Nothing
	}
	for i := range results {
		j.add(v, &results[i])
	}
	return v
}

// add puts the result of one text into a verdict.
func (j *judge) add(v *Verdict, text *judged) {
	result := text.result
	for c := range result.Categories {
		if j.ignored[c] {
			result.Categories[c].Probability = 0
		}
	}
	j.levels.Decide(&result)
	if text.blocked {
		result.Flagged, result.Recommendation, result.Confidence = true, engine.Reject, 1
	}
	rejected := result.Recommendation == engine.Reject
	switch {
	case !rejected:
	case !j.crisis(text, &result):
		v.hostile = true
	case j.kind:
		result.Recommendation = engine.Review
	}
	if text.strict && (!rejected || v.Recommendation == engine.Reject) {
		return
	}
	for c := range result.Categories {
		worst := &v.Categories[c]
		worst.Probability = max(worst.Probability, text.result.Categories[c].Probability)
		worst.Flagged = worst.Flagged || result.Categories[c].Flagged
	}
	switch {
	case severity(result.Recommendation) > severity(v.Recommendation):
		v.Recommendation, v.Confidence = result.Recommendation, result.Confidence
	case result.Recommendation != v.Recommendation:
	case result.Flagged:
		v.Confidence = max(v.Confidence, result.Confidence)
	default:
		v.Confidence = min(v.Confidence, result.Confidence)
	}
	v.Flagged = v.Flagged || result.Flagged
	v.Blocked = v.Blocked || text.blocked
	for i := range result.Themes {
		if theme := &result.Themes[i]; theme.Flagged && !slices.Contains(v.Themes, theme.Theme) {
			v.Themes = append(v.Themes, theme.Theme)
		}
	}
	if result.Recommendation == engine.Approve {
		return
	}
	// The name may share memory with the body, and outlives it.
	finding := Finding{Name: strings.Clone(text.name), Recommendation: result.Recommendation}
	for c := range result.Categories {
		if result.Categories[c].Flagged {
			finding.Categories = append(finding.Categories, engine.Category(c).String())
		}
	}
	v.Fields = append(v.Fields, finding)
}

// goading is the part of the thresholds of hate and harassment from which text that is rejected for self-harm is taken to be
// said to somebody else: "kill yourself". What people say about themselves stays far below it.
const goading = 0.5

// crisis reports whether a text is rejected for self-harm, for nothing else, and is not said to somebody else.
func (j *judge) crisis(text *judged, result *engine.Result) bool {
	if text.blocked || slices.ContainsFunc(result.Themes, func(t engine.ThemeResult) bool { return t.Flagged }) {
		return false
	}
	for c := range result.Categories {
		rejected := result.Categories[c].Flagged && result.Categories[c].Probability >= j.levels.RejectLevels[c]
		if rejected != (engine.Category(c) == engine.SelfHarm) {
			return false
		}
	}
	for _, c := range [...]engine.Category{engine.Hate, engine.Harassment} {
		if text.result.Categories[c].Probability >= goading*j.levels.Thresholds[c] {
			return false
		}
	}
	return true
}

// severity orders recommendations.
func severity(r engine.Recommendation) int {
	switch r {
	case engine.Reject:
		return 2
	case engine.Review:
		return 1
	}
	return 0
}

// judge counts the message, asks the classifier about its texts unless it is known what that says, and decides. The charge is
// on its way to the store then; it is nil where nothing was charged.
func (j *judge) judge(ctx context.Context, x *exchange, pieces []content.Piece, short *joiner, known []judged) (*Verdict, []judged, *charge, error) {
	if len(pieces)+len(known) == 0 {
		return j.decide(nil), nil, nil, nil
	}
	c, err := j.countOnce(ctx, x)
	if err != nil {
		return nil, nil, nil, err
	}
	if known == nil {
		if known, err = j.classify(ctx, pieces, short); err != nil {
			c.giveBack()
			return nil, nil, nil, err
		}
	}
	v := j.decide(known)
	c.settle(v.flagged())
	return v, known, c, nil
}
