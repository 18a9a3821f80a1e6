// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"errors"
	"iter"

	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/content"
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
	themes       []string
	allow        wordLists
	block        wordLists
	results      *cache

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
	// Result has the probabilities and themes, before the policy decides.
	Result engine.Result
	// Blocked says that a blocked word stands in the text.
	Blocked bool
	// RejectOnly says that the text is another view of one that is moderated, too: its source text, a paragraph of it,
	// or short fields read as one. It counts only when it is rejected and nothing else is.
	RejectOnly bool
}

// Moderate charges a message, classifies its texts unless it is known what the classifier says, and decides. The charge
// is on its way to the store then; it is nil where nothing was charged. charged tells what the message is charged for
// already.
func (m *Moderator) Moderate(
	ctx context.Context, charged *Charged, pieces []content.Piece, short *Joiner, known []Classification,
) (Verdict, []Classification, *Charge, error) {
	if len(pieces)+len(known) == 0 {
		return m.Decide(nil), nil, nil, nil
	}
	charge, err := m.Charge(ctx, charged)
	if err != nil {
		return Verdict{}, nil, nil, err
	}
	if known == nil {
		if known, err = m.Classify(ctx, pieces, short); err != nil {
			charge.refund()
			return Verdict{}, nil, nil, err
		}
	}
	v := m.Decide(known)
	charge.Settle(v.Flags())
	return v, known, charge, nil
}

// Words for why a message was not moderated. They are values of logs, metrics and placeholders.
const (
	ReasonClassifier = "classifier"
	ReasonQuota      = "quota"
	ReasonAccount    = "account"
	ReasonCanceled   = "canceled"
)

// Reason returns the word for an error of [Moderator.Moderate].
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

// Classify asks the classifier about texts, and about short ones together with what is in the joiner.
func (m *Moderator) Classify(ctx context.Context, pieces []content.Piece, short *Joiner) ([]Classification, error) {
	results := make([]Classification, 0, len(pieces)+3) // and a few views of them
	var err error
	for i := range pieces {
		piece := &pieces[i]
		further := piece.Further()
		text, changed := content.Visible(piece.Text)
		if results, err = m.parts(ctx, results, piece.Name, text, further); err != nil {
			return nil, err
		}
		if changed {
			if results, err = m.parts(ctx, results, piece.Name, piece.Text, true); err != nil {
				return nil, err
			}
		}
		if bare, dressed := content.Deobfuscate(piece.Text, text); dressed {
			if results, err = m.parts(ctx, results, piece.Name, bare, true); err != nil {
				return nil, err
			}
		}
		if further {
			continue
		}
		if results, err = m.join(ctx, results, piece.Name, text, short); err != nil {
			return nil, err
		}
	}
	if results, err = m.joined(ctx, results, short); err != nil {
		return nil, err
	}
	// Texts that belong together are also classified together as programs see them that read in another way.
	for _, list := range content.ByReading(pieces)[1:] {
		var other Joiner
		for i := range list {
			text, _ := content.Visible(list[i].Text)
			if results, err = m.join(ctx, results, list[i].Name, text, &other); err != nil {
				return nil, err
			}
		}
		if results, err = m.joined(ctx, results, &other); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// parts classifies a text, and its paragraphs where it is long. Of another view of a text, paragraphs are enough: what
// only a long text as a whole says is found in the text itself.
func (m *Moderator) parts(
	ctx context.Context, results []Classification, name, text string, rejectOnly bool,
) ([]Classification, error) {
	var err error
	if !rejectOnly {
		if results, err = m.one(ctx, results, name, text, false); err != nil {
			return nil, err
		}
	}
	divided := false
	if len(text) > longText {
		for part := range paragraphs(text) {
			divided = true
			if results, err = m.one(ctx, results, name, part, true); err != nil {
				return nil, err
			}
		}
	}
	if rejectOnly && !divided {
		return m.one(ctx, results, name, text, true)
	}
	return results, nil
}

// join classifies the border between a text and the one before it, and the short ones before it when there is no room
// for this one.
func (m *Moderator) join(
	ctx context.Context, results []Classification, name, text string, short *Joiner,
) ([]Classification, error) {
	var err error
	if names, border := short.border(name, text); border != "" {
		if results, err = m.view(ctx, results, names, border); err != nil {
			return nil, err
		}
	}
	if text == "" || len(text) >= shortText {
		return results, nil
	}
	if short.full(text) {
		if results, err = m.joined(ctx, results, short); err != nil {
			return nil, err
		}
		short.turn()
	}
	short.add(name, text)
	return results, nil
}

// joined classifies short texts as if they were one, if one of them is new.
func (m *Moderator) joined(ctx context.Context, results []Classification, short *Joiner) ([]Classification, error) {
	if !short.fresh || len(short.members) < 2 {
		return results, nil
	}
	short.fresh = false
	return m.view(ctx, results, short.names, short.text())
}

// view classifies several texts as one. Their names are only asked for when they are needed.
func (m *Moderator) view(
	ctx context.Context, results []Classification, names func() string, text string,
) ([]Classification, error) {
	before := len(results)
	results, err := m.one(ctx, results, "", text, true)
	if err != nil || len(results) == before {
		return results, err
	}
	if v := m.Decide(results[before:]); v.Recommendation != engine.Approve {
		results[before].Name = names()
	}
	return results, nil
}

// one classifies one text.
func (m *Moderator) one(
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
		if result, err = m.app.Engine().Moderate(ctx, engine.Request{Content: text, Themes: m.themes}); err != nil {
			return nil, err
		}
		m.results.set(hash, result)
	}
	return append(results, Classification{
		Name: name, Result: result, Blocked: m.block.has(text), RejectOnly: rejectOnly,
	}), nil
}
