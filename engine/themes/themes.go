// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package themes judges whether a text touches a theme that somebody described in a few words: "fireworks", "theft of
// bicycles", "posts that mention layoffs at tech companies".
//
// A theme hits when the text contains, references, depicts or celebrates it. Presence counts, not opinion: "I hate
// fireworks" hits "fireworks". A theme of several parts needs its parts near each other: "bicycle" alone does not hit
// "theft of bicycles".
//
// A theme is taken apart once (theme.go, prepare.go) and its words are widened by what the lexicon knows about them (expand.go). A
// text is read once for all themes (content.go). Then each window of 30 words is scored (score.go): by the words of the
// theme that it holds, by synonyms and kinds of them, and by how close in use its words are to those of the theme.
package themes

import (
	_ "embed"
	"errors"
	"fmt"
	"sync"

	"github.com/maypok86/otter/v2"

	"github.com/caddy-moderation/caddy-moderation/engine/text"
	"github.com/caddy-moderation/caddy-moderation/engine/themes/lexicon"
)

//go:embed lexicon.bin
var embedded []byte

// Options configure a [Screener]. The zero value stands for the defaults.
type Options struct {
	// CacheBytes bounds the memory that prepared themes take, about 1 to 20 KB each. Default 8 MiB. Preparing a theme
	// again costs about 0.2 ms.
	CacheBytes uint64
	// Threshold is the probability from which a theme is flagged, above 0 and up to 1. Default 0.5, the point at which
	// at most one in two hundred unrelated texts was flagged when the judge was measured. A higher one misses more.
	Threshold float64
	// Tokenize splits content into words, with the memory of the scratch. Default [text.Scratch.Tokenize]; one that reads
	// disguised words as the words they hide finds themes in them.
	Tokenize func(s *text.Scratch, content string) []text.Token
	// Weights replace those of the scorer, for engine/train/cmd/themes. Default nil, the ones that this package holds.
	Weights *Weights
}

// DefaultCacheBytes is the default of [Options.CacheBytes].
const DefaultCacheBytes = 8 << 20

// DefaultThreshold is the default of [Options.Threshold].
const DefaultThreshold = 0.5

// Hit is the verdict on one theme.
type Hit struct {
	// Theme is the theme as it was sent.
	Theme string
	// Flagged says that Probability reaches the threshold.
	Flagged bool
	// Probability that the text touches the theme, from 0 to 1. See docs/themes.md on how it is calibrated.
	Probability float64
	// Matches are the places that carry the hit, in order and without overlap; never empty when Flagged is true and
	// always empty otherwise.
	Matches []Span
	// Tokens is the number of word tokens in the theme.
	Tokens int
}

// Span is a part of the text in code points; End is exclusive.
type Span struct{ Begin, End int }

// Screener judges texts. It is safe for concurrent use.
type Screener struct {
	threshold float64
	logit     float64 // threshold as a logit
	weights   *Weights
	tokenize  func(*text.Scratch, string) []text.Token
	plans     *otter.Cache[string, *plan]
	load      func() *knowledge
}

// New makes a judge. The lexicon is unpacked when the first theme arrives, so a service that never sees one does not pay
// for it (about 18 MB and 0.1 s). New reports options out of range.
func New(o Options) (*Screener, error) {
	if o.CacheBytes == 0 {
		o.CacheBytes = DefaultCacheBytes
	}
	if o.Threshold == 0 {
		o.Threshold = DefaultThreshold
	}
	if !(o.Threshold > 0 && o.Threshold <= 1) {
		return nil, errors.New("themes: the threshold must be above 0 and at most 1")
	}
	if o.Weights == nil {
		o.Weights = &shipped
	}
	if o.Tokenize == nil {
		o.Tokenize = (*text.Scratch).Tokenize
	}
	plans, err := otter.New(&otter.Options[string, *plan]{
		MaximumWeight: o.CacheBytes,
		Weigher:       func(theme string, p *plan) uint32 { return p.size() + uint32(len(theme)) },
	})
	if err != nil {
		return nil, fmt.Errorf("themes: %w", err)
	}
	return &Screener{threshold: o.Threshold, logit: logit(o.Threshold), weights: o.Weights, tokenize: o.Tokenize, plans: plans, load: words}, nil
}

// words unpacks the embedded lexicon once. That cannot fail unless the binary was built from a damaged file, which the
// tests of this package notice.
var words = sync.OnceValue(func() *knowledge {
	l, err := lexicon.Open(embedded)
	if err != nil {
		panic(err)
	}
	return &knowledge{l, membersOf(l)}
})

// Screen judges content against the wanted themes: one [Hit] for each distinct theme, in order of first appearance. It
// returns nil when no themes are wanted. Any string is judged, as content and as theme.
func (j *Screener) Screen(content string, wanted []string) []Hit {
	if len(wanted) == 0 {
		return nil
	}
	lex := j.load()
	r := getReading()
	defer putReading(r)
	r.read(lex.Lexicon, j.tokenize, content)
	hits := make([]Hit, 0, len(wanted))
	seen := make(map[string]struct{}, len(wanted))
	for _, theme := range wanted {
		if _, ok := seen[theme]; ok {
			continue
		}
		seen[theme] = struct{}{}
		hits = append(hits, j.judgeOne(lex, r, theme))
	}
	return hits
}

// plan returns the theme taken apart, from the cache when it is there.
func (j *Screener) plan(lex *knowledge, theme string) *plan {
	p, ok := j.plans.GetIfPresent(theme)
	if !ok {
		p = prepare(lex, theme)
		j.plans.Set(theme, p)
	}
	return p
}

func (j *Screener) judgeOne(lex *knowledge, r *reading, theme string) Hit {
	p := j.plan(lex, theme)
	hit := Hit{Theme: theme, Tokens: p.tokens}
	score, matches := r.score(p, j.weights, j.logit)
	hit.Probability = sigmoid(score)
	if hit.Probability >= j.threshold && len(matches) > 0 {
		hit.Flagged, hit.Matches = true, matches
	}
	return hit
}

// Inputs returns, for each theme, what the scorer weighs for the best window of content; nil where no word of it says
// anything for the theme. It exists for engine/train/cmd/themes, which finds the weights; the number and the meaning of the
// inputs change between versions.
func (j *Screener) Inputs(content string, wanted []string) [][]float32 {
	lex := j.load()
	r := getReading()
	defer putReading(r)
	r.read(lex.Lexicon, j.tokenize, content)
	all := make([][]float32, len(wanted))
	for i, theme := range wanted {
		p := j.plan(lex, theme)
		if score, _ := r.score(p, j.weights, j.logit); score != noEvidence && len(p.slots) > 0 && len(r.tokens) > 0 {
			all[i] = append([]float32(nil), r.input[:]...)
		}
	}
	return all
}
