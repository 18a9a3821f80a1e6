// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package model is the classifier that is embedded in the binary, with a head for each of the five categories and of the
// eight Perspective attributes. It has two stages: a hashed linear model over words, parts of words and
// who-does-what-to-whom frames reads everything; package reader reads again what the first stage is not sure of.
//
// A text is tokenised ([text.Scratch]), its features are hashed ([Features]), the int8 weights of the features that the
// training met are added up for every token, and overlapping windows of tokens are judged by prefix sums. The worst
// windows, a large and a small one, decide; those that might be harmful go to the reader first. The sums are integer
// arithmetic and the reader rounds alike everywhere, so a text gets the same probabilities on every machine, but for the
// last digits of exponentials and square roots.
package model

import (
	_ "embed"
	"math"
	"sync"

	"github.com/caddy-moderation/caddy-moderation/engine/cnn"
	"github.com/caddy-moderation/caddy-moderation/engine/text"
)

// Probabilities are calibrated and stand in the order of [HeadNames].
type Probabilities [Heads]float64

// Model is a trained classifier. It is immutable and safe for concurrent use.
type Model struct {
	header     Header
	table      table
	clusters   map[uint64]uint16
	clustered  filter // of clusters
	vocabulary vocabulary
	cnn        *cnn.Model // nil without a second stage
	dictionary *text.Dictionary
	version    string
	pool       sync.Pool
}

//go:embed default.model
var embedded []byte

// Default returns the embedded model. It is decoded once, on first use.
var Default = sync.OnceValues(func() (*Model, error) { return decode(embedded) })

// Version names the model and its exact weights: "cascade-1-" and the first 8 hexadecimal digits of the file's SHA-256.
func (m *Model) Version() string { return m.version }

// Header describes how the model was made.
func (m *Model) Header() Header { return m.header }

// scratch is the memory of one classification.
type scratch struct {
	features Features
	prefix   []sums
	large    []Window
	small    []Window
	hashes   []uint64
	ends     []int32
	found    []uint32
	read     cnn.Scratch
	kept     []text.Token // those that do not repeat what stood before them, for the reader
	words    []uint64     // their hashes
	keptTo   []int32      // how many of the tokens up to one are kept
	wanted   []unsure
	evidence Logits
	readings []reading // what the reader said, in the order in which it read
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
	return m.ClassifyTokens(m.Tokenize(tokens, content)), tokens.Words()
}

// Probabilities judges content.
func (m *Model) Probabilities(content string) Probabilities {
	p, _ := m.Classify(content)
	return p
}

// Tokenize splits content into the tokens that [Model.ClassifyTokens] takes: those of [text.Scratch.TokenizeWith] with the dictionary of
// the weights file. They are valid until s is used again.
func (m *Model) Tokenize(s *text.Scratch, content string) []text.Token {
	return s.TokenizeWith(content, m.dictionary)
}

// ClassifyTokens judges a text that is tokenised already, by [Model.Tokenize].
func (m *Model) ClassifyTokens(tokens []text.Token) Probabilities {
	s := m.scratch()
	defer m.release(s)
	return m.classify(s, tokens)
}

func (m *Model) classify(s *scratch, tokens []text.Token) Probabilities {
	e := &s.evidence
	m.gather(s, e, tokens, m.header.CNNThreshold)
	var p Probabilities
	for h := range m.header.Calibration {
		p[h] = m.probability(e, h)
	}
	return p
}

// probability turns the evidence of a head into a probability.
func (m *Model) probability(e *Logits, h int) float64 {
	c := &m.header.Calibration[h]
	curve := &c.Alone
	if len(e.LargeCNN) > 0 {
		curve = &c.Both
	}
	if len(e.SmallCNN) > 0 {
		x, long := e.LongTerms(h, curve), &c.Long
		return sigmoid(long.Window*x[0] + long.Sentence*x[1] + long.Max*x[2] + long.Length*x[3] + long.Offset)
	}
	x := e.Terms(h, curve)
	return sigmoid(curve.Large*x[0] + curve.CNN*x[1] + curve.Small*x[2] + curve.Length*x[3] + curve.Offset)
}

// Terms returns what a curve weighs: l, r, s, n and 1, in the terms of [Curve].
func (e *Logits) Terms(h int, c *Curve) [5]float64 {
	x := [5]float64{e.Large[h], 0, e.Small[h], e.Length, 1}
	if len(e.LargeCNN) > 0 {
		var l float64
		l, x[1] = worstOf(e.LargeCNN, h, c)
		if h < categories {
			x[0] = l
		}
	}
	return x
}

// LongTerms returns what the curve of longer texts weighs: u, v, the larger of them, n and 1, in the terms of [LongCurve];
// read is [Calibration.Read]. The reader must have read windows of both sizes.
func (e *Logits) LongTerms(h int, read *Curve) [5]float64 {
	l, r := worstOf(e.LargeCNN, h, read)
	s, q := worstOf(e.SmallCNN, h, read)
	u, v := read.Large*l+read.CNN*r, read.Large*s+read.CNN*q
	return [5]float64{u, v, max(u, v), e.Length, 1}
}

// worstOf returns the logits of the window that looks worst to both stages together.
func worstOf(windows []WindowLogits, h int, c *Curve) (l, r float64) {
	most := math.Inf(-1)
	for i := range windows {
		w := &windows[i]
		if z := c.Large*w.Linear[h] + c.CNN*w.CNN[h]; z > most {
			most, l, r = z, w.Linear[h], w.CNN[h]
		}
	}
	return l, r
}

// categories is the number of heads that are categories; they come first. What they say decides what is read again.
const categories = 5

// minSentences is the natural logarithm of the number of small windows from which the reader reads sentences by
// themselves: five, a text of three sentences. Shorter ones are read as a whole.
const minSentences = 1.6

// manyWindows is what a unit of [Logits.Length] adds to the gate of longer texts.
const manyWindows = 0.3

// mostLarge and mostSmall bound the windows of a text that are read again, beside the worst one of each category.
const mostLarge, mostSmall = 3, 6

// keepTokens bounds what a pooled scratch keeps, so that one huge text does not hold memory for ever.
const keepTokens = 1 << 16

// Logits is what calibration starts from.
type Logits struct {
	// Large and Small are the largest logits of a large and of a small window, by the linear model.
	Large, Small [Heads]float64
	// LargeCNN and SmallCNN are the windows that the reader read.
	LargeCNN, SmallCNN []WindowLogits
	// Length is the natural logarithm of the number of small windows.
	Length float64
	// Max is the largest logit of a category, by the linear model alone, of any window; less in longer texts, where the
	// worst of many windows always looks bad. Above the gate the text is read again.
	Max float64
}

// WindowLogits is what both stages say of a window.
type WindowLogits struct {
	Linear, CNN [Heads]float64
}

// top is the worst window of a category.
type top struct {
	score  float64
	window int
}

// unsure is a window that may be read again.
type unsure struct {
	Window
	score float64
}

// Logits returns what calibration starts from. The reader reads the worst windows even if the linear model is sure of
// them.
func (m *Model) Logits(content string) (e Logits) {
	tokens := text.Get()
	defer text.Put(tokens)
	s := m.scratch()
	defer m.release(s)
	m.gather(s, &e, m.Tokenize(tokens, content), math.Inf(-1))
	return e
}

func (m *Model) scratch() *scratch {
	s, _ := m.pool.Get().(*scratch)
	if s == nil {
		s = m.newScratch()
	}
	return s
}

func (m *Model) release(s *scratch) {
	if cap(s.prefix) <= keepTokens {
		m.pool.Put(s)
	}
}

// gather collects the evidence of a text. The reader reads those windows of which a category's logit is above from, and at
// least one of each size when there is one.
func (m *Model) gather(s *scratch, e *Logits, tokens []text.Token, from float64) {
	e.LargeCNN, e.SmallCNN, s.readings = e.LargeCNN[:0], e.SmallCNN[:0], s.readings[:0]
	prefix := m.sums(s, tokens)
	s.large = AppendLargeWindows(s.large[:0], len(tokens))
	s.small = appendSmallWindows(s.small[:0], tokens)
	e.Length = math.Log(float64(len(s.small)))
	s.wanted = s.wanted[:0]
	var large, small [categories]top
	worst := m.worst(s, &e.Large, &large, prefix, s.large)
	e.Max = max(worst, m.worst(s, &e.Small, &small, prefix, s.small))
	more := 0.0
	if e.Length >= minSentences {
		more = manyWindows * e.Length
		e.Max -= more
	}
	if e.Max <= from || m.cnn == nil || len(tokens) == 0 {
		return
	}
	from += more
	s.keep(tokens)
	s.read.Begin(s.kept, s.words)
	e.LargeCNN = m.reread(s, e.LargeCNN, prefix, s.wanted[:len(s.large)], &large, mostLarge, from)
	if e.Length >= minSentences {
		e.SmallCNN = m.reread(s, e.SmallCNN, prefix, s.wanted[len(s.large):], &small, mostSmall, from)
	}
}

// mostReader bounds a logit of the reader: beyond it nothing was seen in training.
const mostReader = 8

// keep chooses the tokens that the reader reads: like the features, it passes over what only repeats.
func (s *scratch) keep(tokens []text.Token) {
	s.kept, s.words, s.keptTo = s.kept[:0], s.words[:0], append(s.keptTo[:0], 0)
	for i := range tokens {
		if !s.features.Repeats(i) {
			s.kept = append(s.kept, tokens[i])
			s.words = append(s.words, s.features.words[i].hash)
		}
		s.keptTo = append(s.keptTo, int32(len(s.kept)))
	}
}

// reread has the reader read the worst of the windows: for each category the worst window of all, where its logit is above
// from, then others that are above from in the order of their scores, and one window in any case.
func (m *Model) reread(s *scratch, out []WindowLogits, prefix []sums, windows []unsure, tops *[categories]top, most int, from float64) []WindowLogits {
	for h := range tops {
		if t := &tops[h]; t.score > from {
			out = m.readWindow(s, out, prefix, &windows[t.window])
		}
	}
	for len(out) < most {
		worst := &windows[0]
		for i := range windows {
			if windows[i].score > worst.score {
				worst = &windows[i]
			}
		}
		if math.IsInf(worst.score, -1) || len(out) > 0 && worst.score <= from {
			break
		}
		out = m.readWindow(s, out, prefix, worst)
	}
	return out
}

// readWindow has the reader read a window that it has not read yet.
func (m *Model) readWindow(s *scratch, out []WindowLogits, prefix []sums, w *unsure) []WindowLogits {
	if math.IsInf(w.score, -1) {
		return out
	}
	w.score = math.Inf(-1)
	logits := m.cnn.WindowLogits(&s.read, int(s.keptTo[w.First]), int(s.keptTo[w.End]))
	s.readings = append(s.readings, reading{Window: w.Window, logits: *logits})
	var p WindowLogits
	m.linearLogits(&p.Linear, prefix, w.Window)
	for h := range p.CNN {
		p.CNN[h] = min(max(float64(logits[h]), -mostReader), mostReader)
	}
	return append(out, p)
}

func (m *Model) newScratch() *scratch {
	return &scratch{features: Features{Clusters: m.clusters, clustered: m.clustered, vocabulary: m.vocabulary}}
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

// worst finds the largest logit of a window for each head and the worst window of each category, appends the windows to
// those that may be read again, and returns the largest score of one: the largest logit of a category.
func (m *Model) worst(s *scratch, best *[Heads]float64, tops *[categories]top, prefix []sums, windows []Window) float64 {
	for h := range best {
		best[h] = math.Inf(-1)
	}
	for h := range tops {
		tops[h].score = math.Inf(-1)
	}
	worst := math.Inf(-1)
	for i, w := range windows {
		var z [Heads]float64
		m.linearLogits(&z, prefix, w)
		for h := range best {
			best[h] = max(best[h], z[h])
		}
		score := math.Inf(-1)
		for h := range tops {
			c := &m.header.Calibration[h].Alone
			z := (c.Large+c.Small)*z[h] + c.Offset
			if z > tops[h].score {
				tops[h] = top{z, i}
			}
			score = max(score, z)
		}
		worst = max(worst, score)
		s.wanted = append(s.wanted, unsure{w, score})
	}
	return worst
}

// linearLogits computes what the linear model says of a window.
func (m *Model) linearLogits(z *[Heads]float64, prefix []sums, w Window) {
	a, b := &prefix[w.First], &prefix[w.End]
	norm := 1 / Norm(int(b.features-a.features))
	for h := range z {
		c := &m.header.Calibration[h]
		z[h] = float64(b.weights[h]-a.weights[h])*norm*c.Scale + c.Bias
	}
}

func sigmoid(z float64) float64 { return 1 / (1 + math.Exp(-z)) }
