// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package themes screens texts for themes that a caller describes in a few words: "fireworks", "theft of bicycles",
// "posts that mention layoffs at tech companies".
//
// A theme hits when the text contains, references, depicts or celebrates it. Presence counts, not opinion: "I hate
// fireworks" hits "fireworks". A theme of several parts needs its parts near each other: "bicycle" alone does not hit
// "theft of bicycles".
//
// A theme is parsed once into a plan (plan.go, prepare.go), and its words are expanded by what the lexicon knows
// about them (expand.go). A text is analyzed once for all themes (document.go). Then each window of 30 words is
// scored (score.go, scorer.go) by the words of the theme in it, by their synonyms and hyponyms, and by how close in
// use its words are to those of the theme.
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
	// CacheBytes is the maximum memory that prepared themes take, about 1 to 20 KB each. Default: 8 MiB. Preparing a
	// theme again costs about 0.2 ms.
	CacheBytes uint64
	// Threshold is the probability from which a theme is flagged, above 0 and up to 1. At the default, at most one in
	// two hundred unrelated texts was flagged when the screener was measured. A higher threshold misses more.
	// Default: 0.5.
	Threshold float64
	// Tokenize splits content into words, in the memory of the scratch. A tokenizer that recovers disguised words finds
	// themes in them. Default: [text.Scratch.Tokenize].
	Tokenize func(s *text.Scratch, content string) []text.Token
	// Weights replace the scorer's, for engine/train/cmd/themes. Default: those that this package embeds.
	Weights *Weights
}

// DefaultCacheBytes is the default of [Options.CacheBytes].
const DefaultCacheBytes = 8 << 20

// DefaultThreshold is the default of [Options.Threshold].
const DefaultThreshold = 0.5

// Hit is the result for one theme, whether the text touches it or not.
type Hit struct {
	// Theme is the theme as the caller spelled it.
	Theme string
	// Flagged reports whether Probability reaches the threshold.
	Flagged bool
	// Probability is the probability that the text touches the theme, from 0 to 1. docs/themes.md says how it is
	// calibrated.
	Probability float64
	// Matches are the spans that carry the hit, in order and without overlap. There is at least one if Flagged is true,
	// and none otherwise.
	Matches []Span
	// Tokens is the number of word tokens in the theme.
	Tokens int
}

// Span is a part of the text, in code points. End is exclusive.
type Span struct{ Begin, End int }

// Screener screens texts for themes. It is safe for concurrent use.
type Screener struct {
	threshold float64
	logit     float64 // threshold as a logit
	weights   *Weights
	tokenize  func(*text.Scratch, string) []text.Token
	plans     *otter.Cache[string, *plan]
	load      func() *knowledge
}

// New makes a screener. The lexicon is unpacked when the first theme arrives, so that a service which never sees one
// does not pay for it (about 18 MB and 0.1 s). New returns an error if the threshold is out of range.
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
	return &Screener{
		threshold: o.Threshold,
		logit:     logit(o.Threshold),
		weights:   o.Weights,
		tokenize:  o.Tokenize,
		plans:     plans,
		load:      embeddedLexicon,
	}, nil
}

// embeddedLexicon unpacks the embedded lexicon once. That fails only if the binary was built from a damaged file, which
// the tests of this package detect.
var embeddedLexicon = sync.OnceValue(func() *knowledge {
	l, err := lexicon.Open(embedded)
	if err != nil {
		panic(err)
	}
	return &knowledge{l, membersOf(l)}
})

// Screen looks for the wanted themes in content and returns one [Hit] for each distinct theme, in order of first
// appearance, or nil if no themes are wanted. Any string is a valid content and a valid theme.
func (s *Screener) Screen(content string, wanted []string) []Hit {
	if len(wanted) == 0 {
		return nil
	}
	lex := s.load()
	doc := getDocument()
	defer putDocument(doc)
	doc.analyze(lex.Lexicon, s.tokenize, content)
	hits := make([]Hit, 0, len(wanted))
	seen := make(map[string]struct{}, len(wanted))
	for _, theme := range wanted {
		if _, ok := seen[theme]; ok {
			continue
		}
		seen[theme] = struct{}{}
		hits = append(hits, s.screenTheme(lex, doc, theme))
	}
	return hits
}

// plan returns the plan of a theme, from the cache if it is there.
func (s *Screener) plan(lex *knowledge, theme string) *plan {
	p, ok := s.plans.GetIfPresent(theme)
	if !ok {
		p = prepare(lex, theme)
		s.plans.Set(theme, p)
	}
	return p
}

func (s *Screener) screenTheme(lex *knowledge, doc *document, theme string) Hit {
	p := s.plan(lex, theme)
	hit := Hit{Theme: theme, Tokens: p.tokens}
	score, matches := doc.score(p, s.weights, s.logit)
	hit.Probability = sigmoid(score)
	if hit.Probability >= s.threshold && len(matches) > 0 {
		hit.Flagged, hit.Matches = true, matches
	}
	return hit
}

// Inputs returns, for each theme, the inputs of the scorer for the best window of content, or nil if no word of it is
// evidence for the theme. It exists for engine/train/cmd/themes, which fits the weights. The number and meaning of the
// inputs change between versions.
func (s *Screener) Inputs(content string, wanted []string) [][]float32 {
	lex := s.load()
	doc := getDocument()
	defer putDocument(doc)
	doc.analyze(lex.Lexicon, s.tokenize, content)
	all := make([][]float32, len(wanted))
	for i, theme := range wanted {
		p := s.plan(lex, theme)
		score, _ := doc.score(p, s.weights, s.logit)
		if score != noEvidence && len(p.slots) > 0 && len(doc.tokens) > 0 {
			all[i] = append([]float32(nil), doc.input[:]...)
		}
	}
	return all
}
