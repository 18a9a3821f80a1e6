// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package model is the classifier that is embedded in the binary: a hashed linear model over words, parts of words and
// who-does-what-to-whom frames, with a head for each of the five categories and of the eight Perspective attributes.
//
// A text is tokenised ([text.Scratch]), its features are hashed ([Features]), the int8 weights of the features that the
// training met are added up for every token, and overlapping windows of tokens are judged by prefix sums. The best
// window decides. Everything up to the final sigmoid is integer arithmetic, so a text gets the same probabilities on
// every machine.
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
	header  Header
	table   table
	version string
	pool    sync.Pool
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
	return m.Judge(tokens.Tokenize(content)), tokens.Words()
}

// Probabilities judges content.
func (m *Model) Probabilities(content string) Probabilities {
	p, _ := m.Classify(content)
	return p
}

// Logits returns what calibration starts from: the pooled logit of each head.
func (m *Model) Logits(content string) [Heads]float64 {
	tokens := text.Get()
	defer text.Put(tokens)
	return m.pooled(tokens.Tokenize(content))
}

// WindowsOf returns the number of windows that content is judged in.
func (m *Model) WindowsOf(content string) int {
	tokens := text.Get()
	defer text.Put(tokens)
	count := 0
	Windows(len(tokens.Tokenize(content)), func(Window) bool { count++; return true })
	return count
}

// Judge judges a text that is tokenised already.
func (m *Model) Judge(tokens []text.Token) Probabilities {
	var p Probabilities
	pooled := m.pooled(tokens)
	for h, c := range m.header.Calibration {
		p[h] = sigmoid(c.Slope*pooled[h] + c.Offset)
	}
	return p
}

// pooled returns the logit of the whole text for each head, before calibration.
func (m *Model) pooled(tokens []text.Token) (best [Heads]float64) {
	s, _ := m.pool.Get().(*scratch)
	if s == nil {
		s = new(scratch)
	}
	defer m.pool.Put(s)

	hashes, ends := s.features.Compute(tokens)
	prefix := append(s.prefix[:0], sums{})
	from := int32(0)
	for _, end := range ends {
		next := prefix[len(prefix)-1]
		row := m.table.sum(hashes[from:end])
		for h := range next.weights {
			next.weights[h] += row[h]
		}
		next.features = end
		prefix = append(prefix, next)
		from = end
	}
	s.prefix = prefix

	for h := range best {
		best[h] = math.Inf(-1)
	}
	windows := 0
	for w := range func(yield func(Window) bool) { Windows(len(tokens), yield) } {
		windows++
		a, b := &prefix[w.FirstToken], &prefix[w.EndToken]
		norm := 1 / Norm(int(b.features-a.features))
		for h := range best {
			z := float64(b.weights[h]-a.weights[h]) * norm * m.header.Calibration[h].Scale
			best[h] = max(best[h], z)
		}
	}
	spread := math.Log(float64(windows))
	for h, c := range m.header.Calibration {
		best[h] += c.Bias - c.Spread*spread
	}
	return best
}

func sigmoid(z float64) float64 { return 1 / (1 + math.Exp(-z)) }
