// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package model is the classifier that is embedded in the binary: a hashed linear model over words, parts of words and
// who-does-what-to-whom frames, with a head for each of the five categories and of the eight Perspective attributes.
//
// A text is tokenised ([text.Scratch]), its features are hashed ([Features]), the int8 weights of the features that the
// training met are added up for every token, and overlapping windows of tokens are judged by prefix sums. The worst
// windows, a large and a small one, decide. The sums are integer arithmetic, so a text gets the same probabilities on every
// machine, but for the last digits of the floating-point steps behind them.
package model

import (
	_ "embed"
	"math"
	"sync"

	"github.com/caddy-moderation/caddy-moderation/engine/text"
)

// Probabilities are calibrated and stand in the order of [HeadNames].
type Probabilities [Heads]float64

// Model is a trained classifier. It is immutable and safe for concurrent use.
type Model struct {
	header     Header
	table      table
	clusters   map[uint64]uint16
	vocabulary vocabulary
	dictionary *text.Dictionary
	version    string
	pool       sync.Pool
}

//go:embed default.model
var embedded []byte

// Default returns the embedded model. It is decoded once, on first use.
var Default = sync.OnceValues(func() (*Model, error) { return decode(embedded) })

// Version names the model and its exact weights: "linear-1-" and the first 8 hexadecimal digits of the file's SHA-256.
func (m *Model) Version() string { return m.version }

// Header describes how the model was made.
func (m *Model) Header() Header { return m.header }

// scratch is the memory of one classification.
type scratch struct {
	features Features
	prefix   []sums
	windows  []Window
	hashes   []uint64
	ends     []int32
	found    []uint32
}

// sums are the sums over all tokens up to one.
type sums struct {
	weights  [Heads]int32
	features int32
}

// Classify judges content and returns the number of word tokens that it read. Any string is judged.
func (m *Model) Classify(content string) (p Probabilities, words int) {
	tokens := text.Get()
	defer text.Put(tokens)
	return m.Judge(m.Tokenize(tokens, content)), tokens.Words()
}

// Probabilities judges content.
func (m *Model) Probabilities(content string) Probabilities {
	p, _ := m.Classify(content)
	return p
}

// Tokenize splits content into the tokens that [Model.Judge] takes: those of [text.Scratch.Read] with the dictionary of
// the weights file. They are valid until s is used again.
func (m *Model) Tokenize(s *text.Scratch, content string) []text.Token {
	return s.Read(content, m.dictionary)
}

// Judge judges a text that is tokenised already, by [Model.Tokenize].
func (m *Model) Judge(tokens []text.Token) Probabilities {
	var p Probabilities
	e := m.evidence(tokens)
	for h, c := range m.header.Calibration {
		z := c.Large*e.Large[h] + c.Small*e.Small[h] + c.Length*e.Length + c.Offset
		if e.Length >= minSentences {
			z = max(z, c.Sentence*e.Small[h]+c.SentenceLength*e.Length+c.SentenceOffset)
		}
		p[h] = sigmoid(z)
	}
	return p
}

// minSentences is the natural logarithm of the number of small windows from which one sentence may decide: 20, a text
// of about a thousand characters. Shorter ones are read as a whole.
const minSentences = 3.0

// keepTokens bounds what a pooled scratch keeps, so that one huge text does not hold memory for ever.
const keepTokens = 1 << 16

// Evidence is what calibration starts from.
type Evidence struct {
	// Large and Small are the largest logits of a large and of a small window.
	Large, Small [Heads]float64
	// Length is the natural logarithm of the number of small windows.
	Length float64
}

// Evidence returns what calibration starts from.
func (m *Model) Evidence(content string) Evidence {
	tokens := text.Get()
	defer text.Put(tokens)
	return m.evidence(m.Tokenize(tokens, content))
}

func (m *Model) evidence(tokens []text.Token) (e Evidence) {
	s, _ := m.pool.Get().(*scratch)
	if s == nil {
		s = m.newScratch()
	}
	defer func() {
		if cap(s.prefix) <= keepTokens {
			m.pool.Put(s)
		}
	}()

	prefix := m.sums(s, tokens)

	s.windows = AppendLarge(s.windows[:0], len(tokens))
	m.worst(&e.Large, prefix, s.windows)
	s.windows = AppendSmall(s.windows[:0], tokens)
	m.worst(&e.Small, prefix, s.windows)
	e.Length = math.Log(float64(len(s.windows)))
	return e
}

func (m *Model) newScratch() *scratch {
	return &scratch{features: Features{Clusters: m.clusters, vocabulary: m.vocabulary}}
}

// blockTokens is how many tokens are looked up at once.
const blockTokens = 64

// sums returns the sums of the weights over the first n tokens, for each n.
func (m *Model) sums(s *scratch, tokens []text.Token) []sums {
	f := &s.features
	f.begin(tokens)
	prefix := append(s.prefix[:0], sums{})
	for first := 0; first < len(tokens); first += blockTokens {
		hashes, ends := s.hashes[:0], s.ends[:0]
		for i := first; i < min(first+blockTokens, len(tokens)); i++ {
			var own sums
			known := f.read(i)
			if !f.Repeats(i) {
				if known.features == 0 {
					m.letters(s, known, i)
				}
				before := len(hashes)
				hashes = f.appendContext(hashes, i)
				own.weights, own.features = known.weights, known.features+int32(len(hashes)-before)
			}
			prefix, ends = append(prefix, own), append(ends, int32(len(hashes)))
		}
		s.found = m.table.lookup(s.found, hashes, ends)
		from := int32(0)
		for k, end := range ends {
			last, next := &prefix[first+k], &prefix[first+k+1]
			m.table.add(&next.weights, s.found[from:end])
			for h := range next.weights {
				next.weights[h] += last.weights[h]
			}
			next.features += last.features
			from = end
		}
		s.hashes, s.ends = hashes, ends
	}
	s.prefix = prefix
	return prefix
}

// letters finds out what the letters of token i weigh.
func (m *Model) letters(s *scratch, known *known, i int) {
	hashes := s.features.Word(i)
	one := [1]int32{int32(len(hashes))}
	s.found = m.table.lookup(s.found, hashes, one[:])
	known.weights, known.features = [Heads]int32{}, int32(len(hashes))
	m.table.add(&known.weights, s.found)
}

// worst finds the largest logit of a window for each head.
func (m *Model) worst(best *[Heads]float64, prefix []sums, windows []Window) {
	for h := range best {
		best[h] = math.Inf(-1)
	}
	for _, w := range windows {
		a, b := &prefix[w.First], &prefix[w.End]
		norm := 1 / Norm(int(b.features-a.features))
		for h := range best {
			best[h] = max(best[h], float64(b.weights[h]-a.weights[h])*norm)
		}
	}
	for h, c := range m.header.Calibration {
		best[h] = best[h]*c.Scale + c.Bias
	}
}

func sigmoid(z float64) float64 { return 1 / (1 + math.Exp(-z)) }
