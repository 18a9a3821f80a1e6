// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"errors"
	"iter"
	"math"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/content"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/tracing"
	"github.com/caddy-moderation/caddy-moderation/caddymod/metrics"
	"github.com/caddy-moderation/caddy-moderation/engine"
)

// Moderator moderates texts by a policy. It is safe for concurrent use.
type Moderator struct {
	app       *app.App
	logger    *zap.Logger
	direction metrics.Direction
	key       string

	levels       engine.Policy
	ignored      [engine.NumCategories]bool // categories that cannot flag
	reviewCrisis bool                       // text of a person in a crisis is reviewed instead of rejected
	// harmShare has the bits of the share of harm that decides; 0 stands for the classifier's own. Unless the guard has
	// a share of its own, it changes with that of the account.
	harmShare    atomic.Uint64
	ownHarmShare bool
	// languages are those that texts are expected to be in, and otherLanguage what is recommended for others.
	languages     []string
	otherLanguage engine.Recommendation
	themes        []string
	allow         wordLists
	block         wordLists
	results       *cache

	account      string
	enforceQuota bool
	failClosed   bool // a message that cannot be counted because the store fails must not go on
}

// Key is the same for moderators that classify texts alike. They may decide differently.
func (m *Moderator) Key() string { return m.key }

// Classification is what the classifier says about one text.
type Classification struct {
	// Name is the place of the text in the message.
	Name string
	// Result has the probabilities and themes, before they are moved to a share of harm and the policy decides. Thus
	// guards with other shares can use it, too.
	Result engine.Result
	// Blocked says that a blocked word stands in the text.
	Blocked bool
	// RejectOnly says that the text is another view of one that is moderated, too: its source text, a paragraph of it,
	// or short fields read as one. It counts only when it is rejected and nothing else is.
	RejectOnly bool
}

// Moderate charges a message, classifies its texts, and decides. known are the classifications of an earlier call for
// the same texts; if it is not nil, nothing is classified. charged has the accounts that the message is charged to
// already. The charge that is returned is on its way to the store, see [Charge.Wait]; it is nil if nothing was charged.
func (m *Moderator) Moderate(
	ctx context.Context, charged *Charged, pieces []content.Piece, short *Joiner, known []Classification,
) (Verdict, []Classification, *Charge, error) {
	if len(pieces)+len(known) == 0 {
		return m.Decide(nil), nil, nil, nil
	}
	ctx, span := tracing.Start(ctx, tracing.Moderate)
	span.Direction(string(m.direction))
	defer span.End()
	charge, err := m.Charge(ctx, charged)
	if err != nil {
		return Verdict{}, nil, nil, endSpan(span, err)
	}
	if known == nil {
		if known, err = m.classify(ctx, pieces, short); err != nil {
			charge.refund()
			return Verdict{}, nil, nil, endSpan(span, err)
		}
	}
	_, deciding := tracing.Start(ctx, tracing.Decide)
	v := m.Decide(known)
	deciding.Verdict(v.Flagged, v.Recommendation)
	deciding.End()
	charge.Judged(&v)
	charge.Settle(v.Flags())
	return v, known, charge, nil
}

// endSpan notes in a span why a step has failed, and returns the error.
func endSpan(span tracing.Span, err error) error {
	reason := Reason(err)
	span.Refuse(reason, reason != ReasonQuota && reason != ReasonCanceled)
	return err
}

// classify is [Moderator.Classify] as a step in the trace of the request. A message that flows is classified in many
// steps, and its trace has none of them.
func (m *Moderator) classify(
	ctx context.Context, pieces []content.Piece, short *Joiner,
) (results []Classification, err error) {
	ctx, span := tracing.Start(ctx, tracing.Classify)
	defer span.End()
	tracing.Texts(span, pieces, func(piece *content.Piece) string { return piece.Text })
	if results, err = m.Classify(ctx, pieces, short); err != nil {
		return nil, endSpan(span, err)
	}
	return results, nil
}

// Classify classifies texts, in all views of them. Short texts are also classified together with those in the joiner.
func (m *Moderator) Classify(ctx context.Context, pieces []content.Piece, short *Joiner) ([]Classification, error) {
	results := make([]Classification, 0, len(pieces)+3) // and a few views of them
	var err error
	for i := range pieces {
		piece := &pieces[i]
		further := piece.Further()
		text, changed := content.Visible(piece.Text)
		if results, err = m.classifyText(ctx, results, piece.Name, text, further); err != nil {
			return nil, err
		}
		if changed {
			if results, err = m.classifyText(ctx, results, piece.Name, piece.Text, true); err != nil {
				return nil, err
			}
		}
		if bare, dressed := content.Deobfuscate(piece.Text, text); dressed {
			if results, err = m.classifyText(ctx, results, piece.Name, bare, true); err != nil {
				return nil, err
			}
		}
		if further {
			continue
		}
		if results, err = m.classifyNext(ctx, results, piece.Name, text, short); err != nil {
			return nil, err
		}
	}
	if results, err = m.classifyGroup(ctx, results, short); err != nil {
		return nil, err
	}
	// Short texts are also classified together in each further reading of the message.
	for _, list := range content.ByReading(pieces)[1:] {
		var other Joiner
		for i := range list {
			text, _ := content.Visible(list[i].Text)
			if results, err = m.classifyNext(ctx, results, list[i].Name, text, &other); err != nil {
				return nil, err
			}
		}
		if results, err = m.classifyGroup(ctx, results, &other); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// classifyText classifies a text, and its paragraphs if it is long. rejectOnly says that the text is another view of
// one that is classified, too. Of a long view the paragraphs are enough.
func (m *Moderator) classifyText(
	ctx context.Context, results []Classification, name, text string, rejectOnly bool,
) ([]Classification, error) {
	var err error
	if !rejectOnly {
		if results, err = m.classifyOne(ctx, results, name, text, false); err != nil {
			return nil, err
		}
	}
	divided := false
	if len(text) > longText {
		for part := range paragraphs(text) {
			divided = true
			if results, err = m.classifyOne(ctx, results, name, part, true); err != nil {
				return nil, err
			}
		}
	}
	if rejectOnly && !divided {
		return m.classifyOne(ctx, results, name, text, true)
	}
	return results, nil
}

// A text with more bytes than longText is also classified by paragraphs, because a sentence in a long text moves its
// probabilities little. Paragraphs with fewer bytes than minParagraph are taken together.
const (
	longText     = 2000
	minParagraph = 400
)

// paragraphs yields the parts of a text: as many lines as make up a paragraph.
func paragraphs(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		begin := 0
		for end := range text {
			if text[end] != '\n' || end-begin < minParagraph {
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

// classifyNext classifies the border between a text and the one before it, and puts a short text into the joiner. If
// there is no room for it, the texts that are there are classified first.
func (m *Moderator) classifyNext(
	ctx context.Context, results []Classification, name, text string, short *Joiner,
) ([]Classification, error) {
	var err error
	if names, border := short.border(name, text); border != "" {
		if results, err = m.classifyOne(ctx, results, names, border, true); err != nil {
			return nil, err
		}
	}
	if text == "" || len(text) >= shortText {
		return results, nil
	}
	if short.full(text) {
		if results, err = m.classifyGroup(ctx, results, short); err != nil {
			return nil, err
		}
		short.nextGroup()
	}
	short.add(name, text)
	return results, nil
}

// classifyGroup classifies the short texts in the joiner as one text, if one of them is new.
func (m *Moderator) classifyGroup(
	ctx context.Context, results []Classification, short *Joiner,
) ([]Classification, error) {
	if !short.fresh || len(short.members) < 2 {
		return results, nil
	}
	short.fresh = false
	return m.classifyOne(ctx, results, short.names(), short.text(), true)
}

// classifyOne classifies one text, without its allowed expressions, unless the cache has the result.
func (m *Moderator) classifyOne(
	ctx context.Context, results []Classification, name, text string, rejectOnly bool,
) ([]Classification, error) {
	text = m.allow.cut(text)
	if !content.HasLetters(text) {
		return results, nil
	}
	hash := m.results.hash(text)
	result, known := m.results.get(hash)
	if !known {
		var err error
		if result, err = m.app.Engine().Moderate(ctx, engine.Request{
			Content: text, Themes: m.themes, Languages: m.languages,
		}); err != nil {
			return nil, err
		}
		m.results.set(hash, result)
	}
	return append(results, Classification{
		Name: name, Result: result, Blocked: m.block.has(text), RejectOnly: rejectOnly,
	}), nil
}

// setHarmShare sets the share of harm that decides, to that of an account or a guard, or else to that of the app.
func (m *Moderator) setHarmShare(own *float64) {
	m.harmShare.Store(math.Float64bits(m.app.HarmShareOf(own)))
}

// learnHarmShare notes the share of harm of the account, unless the guard has one of its own. While the store cannot be
// asked for the account, the last one counts.
func (m *Moderator) learnHarmShare(account *float64) {
	if !m.ownHarmShare {
		m.setHarmShare(account)
	}
}

// shift returns what moves probabilities to the share of harm.
func (m *Moderator) shift() engine.Shift {
	return m.app.Engine().Shift(math.Float64frombits(m.harmShare.Load()))
}

// Reasons why a message was not moderated. They are values in logs, metrics and placeholders.
const (
	ReasonClassifier = "classifier"
	ReasonQuota      = "quota"
	ReasonAccount    = "account"
	ReasonCanceled   = "canceled"
)

// Reason returns the reason for an error of [Moderator.Moderate].
func Reason(err error) string {
	switch {
	case errors.Is(err, errQuota):
		return ReasonQuota
	case errors.Is(err, ErrUncounted):
		return ReasonAccount
	case errors.Is(err, context.Canceled):
		return ReasonCanceled
	}
	return ReasonClassifier
}
