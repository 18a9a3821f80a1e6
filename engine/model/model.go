// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package model is the classifier that is embedded in the binary. It has a head for each of the five categories and
// for each of the eight Perspective attributes, and two stages: a hashed linear model over words, sub-words and
// frames of who does what to whom, which looks at every text, and the convolutional network of package cnn, which
// classifies the windows that the linear model is not sure of.
//
// A text is tokenized ([text.Scratch]) and its features are hashed ([Features]). The int8 weights of the features
// that the training met are added up token by token, so that the sums over any window of tokens are the difference of
// two prefix sums. The windows with the largest logits, a large and a small one, decide; where one of them might be
// harmful, the network classifies it as well. The linear model sums integers and the network rounds alike everywhere,
// so a text gets the same probabilities on every machine, but for the last digits of exponentials and square roots.
//
// # Adding a head
//
// A new attribute is one line in each of these places. After the first, the compiler and the tests name the others.
//
//  1. [HeadNames] in heads.go: its name, at the end. [Heads] follows. More than 15 heads need a wider row of the table,
//     more than 32 a wider output layer of the network: the build says so.
//  2. Package engine: a constant of type Attribute in categories.go, at the end, and NumAttributes. The names of
//     categories and attributes come from HeadNames. The build fails there until the numbers agree.
//  3. Package train: a constant in sources.go, at the end, and a threshold in report.go. The build and
//     TestEveryHeadHasItsPlaceInTheReport fail until they are there.
//  4. Labels, without which the head has nothing to learn: in the functions of the public sources in sources.go, and in
//     setCorpusLabels for the corpus, whose rows have labels of the categories alone. An attribute that follows from
//     the categories is set there; for another one, read a label of its own name from the rows that have it. The
//     method benign labels every head as no.
//  5. The weights: a file is trained for the heads of its build, and [Load] refuses any other with [ErrSchema]. Until
//     there is a new one, all tests that need the embedded model fail, and the server does not start. Train one as
//     docs/training.md says, replace default.model, and run the tests of this package with -update.
//  6. The documents: TestHeadsAreDocumented of package engine names those that list the heads and lack it.
//     docs/model-card.md is written by train/cmd/card. The help of the command evaluate and the comments in
//     caddymod/commentanalyzer list the attributes too, and scale.go there maps them to the Perspective API's scale.
//     Names and answers follow by themselves: they are made of the names in package engine.
//
// A new category goes after the last category and not at the end, and needs more than a line: [NumCategories], a
// constant and a default threshold in package engine, a definition in the model card, and labels for every row of the
// corpus.
package model

import (
	_ "embed"
	"math"
	"slices"
	"sync"

	"github.com/caddy-moderation/caddy-moderation/engine/cnn"
	"github.com/caddy-moderation/caddy-moderation/engine/internal/kernel"
	"github.com/caddy-moderation/caddy-moderation/engine/internal/offheap"
	"github.com/caddy-moderation/caddy-moderation/engine/text"
)

// Probabilities are calibrated, each from 0 to 1, in the order of [HeadNames].
type Probabilities [Heads]float64

// Model is a trained classifier. It is immutable and safe for concurrent use.
type Model struct {
	header     Header
	table      table
	clusters   Clusters
	vocabulary vocabulary
	cnn        *cnn.Model // nil without a second stage
	dictionary *text.Dictionary
	ownScript  bool // see isOwn
	version    string
	pool       sync.Pool // of *scratch
}

//go:embed default.model
var embedded []byte

// Default returns the embedded model. It is decoded once, on first use.
var Default = sync.OnceValues(func() (*Model, error) { return decode(embedded) })

// moveOffHeap moves the tables of a model that is not in use yet, and that is never dropped, out of the heap.
func (m *Model) moveOffHeap() {
	var a offheap.Arena
	m.moveTo(&a)
	a.Reserve()
	m.moveTo(&a)
}

// moveTo moves the tables of the model.
func (m *Model) moveTo(a *offheap.Arena) {
	t, c, v := &m.table, &m.clusters, &m.vocabulary
	t.tags, t.rows, t.firsts = offheap.Move(a, t.tags), offheap.Move(a, t.rows), offheap.Move(a, t.firsts)
	c.hashes, c.numbers = offheap.Move(a, c.hashes), offheap.Move(a, c.numbers)
	c.starts, c.filter = offheap.Move(a, c.starts), offheap.Move(a, c.filter)
	v.words, v.index = offheap.Move(a, v.words), offheap.Move(a, v.index)
	if m.cnn != nil {
		m.cnn.MoveTo(a)
	}
	if m.dictionary != nil {
		m.dictionary.MoveTo(a)
	}
}

// Version names the model and its exact weights: "cascade-1-" and the first 8 hexadecimal digits of the file's SHA-256.
func (m *Model) Version() string { return m.version }

// Cluster returns the cluster of a folded word, or false for a word without one.
func (m *Model) Cluster(folded []byte) (uint16, bool) {
	return m.clusters.find(WordHash(folded))
}

// Header returns the header of the weights file.
func (m *Model) Header() Header { return m.header }

// HarmShare returns the share of harmful texts, greater than 0 and less than 1, in the traffic that the probabilities
// are calibrated for.
func (m *Model) HarmShare() float64 {
	if m.header.HarmShare == 0 {
		return DefaultHarmShare
	}
	return m.header.HarmShare
}

// scratch is the memory of one classification.
type scratch struct {
	features   Features
	prefix     []kernel.Sums // over the tokens before one; see [Model.sums]
	large      []Window
	small      []Window
	hashes     []uint64
	ends       []int32
	found      []uint32
	own        [blockTokens][lanes]int16
	places     [blockTokens]uint32
	network    cnn.Scratch
	kept       []text.Token // those that the network sees: all but repetitions
	keptHashes []uint64
	keptBefore []int32 // how many tokens before the i-th are kept
	candidates []candidate
	// chosenLarge and chosenSmall are the windows that the network classifies.
	chosenLarge, chosenSmall []Window
	logits                   Logits
	classified               []networkWindow // in the order in which the network classified them
	// evidence is the evidence for another language at the current token, and foreign the most that there was.
	evidence, foreign int
	// known and unknown are the numbers of words that are in the dictionary, and that are not.
	known, unknown int
}

// Classify returns the probabilities of content and its number of word tokens. It takes any string.
func (m *Model) Classify(content string) (p Probabilities, words int) {
	r := m.Read(content)
	return r.Probabilities, r.Words
}

// Reading is what a model says of a text.
type Reading struct {
	Probabilities Probabilities
	// Words is the number of word tokens.
	Words int
	// Foreign says that several words in a row, or most words of a part, are not in the dictionary of the model: a part
	// of the text may be in another language than the model's. It is always false without a dictionary.
	Foreign bool
	// Known and Unknown are the numbers of words that are in the dictionary of the model, and that are not, without
	// those of one or two Latin letters. Both are 0 without a dictionary.
	Known, Unknown int
}

// Read classifies content. It takes any string.
func (m *Model) Read(content string) Reading {
	tokens := text.Get()
	defer text.Put(tokens)
	s := m.scratch()
	defer m.release(s)
	p := m.classify(s, m.Tokenize(tokens, content))
	return Reading{Probabilities: p, Words: tokens.Words(), Foreign: s.foreign >= enoughForeign,
		Known: s.known, Unknown: s.unknown}
}

// What a word that is not in the dictionary adds to the evidence for another language, what a known one takes away, and
// how much is enough (a cumulative sum, Page 1954): four unknown words in a row, or five of ten.
const (
	unknownAdds, knownTakes = 3, 1
	enoughForeign           = 10
)

// noteForeign notes whether a word is in the dictionary, and whether it is in the script of the language.
func (s *scratch) noteForeign(word []byte, known, own bool) {
	const short = 2 // bytes: a letter or two are words in many languages, and in noise
	if len(word) > short {
		if known {
			s.known++
		} else {
			s.unknown++
		}
	}
	if known || own {
		s.evidence = max(0, s.evidence-knownTakes)
		return
	}
	s.evidence += unknownAdds
	s.foreign = max(s.foreign, s.evidence)
}

// Probabilities returns the probabilities of content.
func (m *Model) Probabilities(content string) Probabilities {
	p, _ := m.Classify(content)
	return p
}

// Tokenize splits content into the tokens that [Model.ClassifyTokens] takes: those of [text.Scratch.TokenizeWith] with
// the dictionary of the weights file. They are valid until s is used again.
func (m *Model) Tokenize(s *text.Scratch, content string) []text.Token {
	return s.TokenizeWith(content, m.dictionary)
}

// ClassifyTokens returns the probabilities of a text that [Model.Tokenize] has tokenized.
func (m *Model) ClassifyTokens(tokens []text.Token) Probabilities {
	s := m.scratch()
	defer m.release(s)
	return m.classify(s, tokens)
}

func (m *Model) classify(s *scratch, tokens []text.Token) Probabilities {
	l := &s.logits
	m.bothStages(s, l, tokens, m.header.CNNThreshold)
	var p Probabilities
	for h := range m.header.Calibration {
		p[h] = m.probability(l, h)
	}
	return p
}

// probability calibrates the logits of a head.
func (m *Model) probability(l *Logits, h int) float64 {
	c := &m.header.Calibration[h]
	curve := &c.Alone
	if len(l.LargeCNN) > 0 {
		curve = &c.Both
	}
	if len(l.SmallCNN) > 0 {
		x, long := l.LongTerms(h, curve), &c.Long
		return sigmoid(long.Window*x[0] + long.Sentence*x[1] + long.Max*x[2] + long.Length*x[3] + long.Offset)
	}
	x := l.Terms(h, curve)
	return sigmoid(curve.Large*x[0] + curve.CNN*x[1] + curve.Small*x[2] + curve.Length*x[3] + curve.Offset)
}

// Logits are what calibration makes probabilities of.
type Logits struct {
	// Large and Small are the largest logits of a large and of a small window, by the linear model.
	Large, Small [Heads]float64
	// LargeCNN and SmallCNN hold the windows that the network classified.
	LargeCNN, SmallCNN []WindowLogits
	// Length is the natural logarithm of the number of small windows.
	Length float64
	// Max is the largest logit of a category in any window, by the linear model alone. Of longer texts it is less: the
	// largest of many logits is always high. Above [Header.CNNThreshold] the network classifies windows of the text.
	Max float64
}

// WindowLogits are the logits of one window by both stages.
type WindowLogits struct {
	Linear, CNN [Heads]float64
}

// Terms returns what the terms of a curve weigh: l, r, s, n and 1, in the letters of [Curve].
func (l *Logits) Terms(h int, c *Curve) [5]float64 {
	x := [5]float64{l.Large[h], 0, l.Small[h], l.Length, 1}
	if len(l.LargeCNN) > 0 {
		var linear float64
		linear, x[1] = largestOf(l.LargeCNN, h, c)
		if h < NumCategories {
			x[0] = linear
		}
	}
	return x
}

// LongTerms returns what the terms of [LongCurve] weigh: u, v, the larger of them, n and 1. both is [Calibration.Both].
// The network must have classified windows of both sizes.
func (l *Logits) LongTerms(h int, both *Curve) [5]float64 {
	large, largeCNN := largestOf(l.LargeCNN, h, both)
	small, smallCNN := largestOf(l.SmallCNN, h, both)
	u, v := both.Large*large+both.CNN*largeCNN, both.Large*small+both.CNN*smallCNN
	return [5]float64{u, v, max(u, v), l.Length, 1}
}

// largestOf returns the logits of the window where both stages together give the largest logit.
func largestOf(windows []WindowLogits, h int, c *Curve) (linear, network float64) {
	largest := math.Inf(-1)
	for i := range windows {
		w := &windows[i]
		if z := c.Large*w.Linear[h] + c.CNN*w.CNN[h]; z > largest {
			largest, linear, network = z, w.Linear[h], w.CNN[h]
		}
	}
	return linear, network
}

// minSmallLength is the natural logarithm of the number of small windows from which the network classifies small
// windows too: five, a text of three sentences. In shorter texts the large window says it all.
const minSmallLength = 1.6

// lengthPenalty is what a unit of [Logits.Length] adds to the threshold of longer texts.
const lengthPenalty = 0.3

// maxLarge and maxSmall are the maximum numbers of windows that the network classifies, beside the one with the largest
// logit of each category.
const maxLarge, maxSmall = 3, 6

// maxPooledTokens is the maximum number of tokens that a pooled scratch has room for, so that one huge text does not
// hold memory for ever.
const maxPooledTokens = 1 << 16

// candidate is a window that the network may classify.
type candidate struct {
	Window
	// score is the largest logit of a category by the linear model, or -Inf once the window is chosen for the network.
	score float64
}

// topWindow is the window with the largest logit of a category.
type topWindow struct {
	score float64
	index int
}

// Logits returns what calibration makes probabilities of. The network classifies the windows with the largest logits
// even where the linear model is sure of them.
func (m *Model) Logits(content string) (l Logits) {
	tokens := text.Get()
	defer text.Put(tokens)
	s := m.scratch()
	defer m.release(s)
	m.bothStages(s, &l, m.Tokenize(tokens, content), math.Inf(-1))
	return l
}

func (m *Model) scratch() *scratch {
	s, _ := m.pool.Get().(*scratch)
	if s == nil {
		s = m.newScratch()
	}
	return s
}

func (m *Model) release(s *scratch) {
	if cap(s.prefix) <= maxPooledTokens {
		m.pool.Put(s)
	}
}

// bothStages fills in the logits of a text. Where [Logits.Max] exceeds the threshold, the network classifies the
// windows in which a category's logit exceeds it, and at least one of each size.
func (m *Model) bothStages(s *scratch, l *Logits, tokens []text.Token, threshold float64) {
	l.LargeCNN, l.SmallCNN, s.classified = l.LargeCNN[:0], l.SmallCNN[:0], s.classified[:0]
	prefix := m.sums(s, tokens)
	s.large = AppendLargeWindows(s.large[:0], len(tokens))
	s.small = appendSmallWindows(s.small[:0], tokens)
	l.Length = math.Log(float64(len(s.small)))
	s.candidates = s.candidates[:0]
	var large, small [NumCategories]topWindow
	largest := m.linearMaxima(s, &l.Large, &large, prefix, s.large)
	l.Max = max(largest, m.linearMaxima(s, &l.Small, &small, prefix, s.small))
	penalty := 0.0
	if l.Length >= minSmallLength {
		penalty = lengthPenalty * l.Length
		l.Max -= penalty
	}
	if l.Max <= threshold || m.cnn == nil || len(tokens) == 0 {
		return
	}
	threshold += penalty
	s.keep(tokens)
	s.network.Begin(s.kept, s.keptHashes)
	s.chosenLarge = s.choose(s.chosenLarge[:0], s.candidates[:len(s.large)], &large, maxLarge, threshold)
	s.chosenSmall = s.chosenSmall[:0]
	if l.Length >= minSmallLength {
		s.chosenSmall = s.choose(s.chosenSmall, s.candidates[len(s.large):], &small, maxSmall, threshold)
	}
	l.LargeCNN = m.classifyWindows(s, l.LargeCNN, prefix, s.chosenLarge)
	l.SmallCNN = m.classifyWindows(s, l.SmallCNN, prefix, s.chosenSmall)
}

// maxCNNLogit is the maximum absolute value that a logit of the network counts as: beyond it nothing was seen in
// training.
const maxCNNLogit = 8

// clampCNN limits a logit of the network to [maxCNNLogit].
func clampCNN(logit float32) float64 { return min(max(float64(logit), -maxCNNLogit), maxCNNLogit) }

// keep chooses the tokens that the network sees. Like the features, it leaves out repetitions.
func (s *scratch) keep(tokens []text.Token) {
	s.kept, s.keptHashes, s.keptBefore = s.kept[:0], s.keptHashes[:0], append(s.keptBefore[:0], 0)
	for i := range tokens {
		if !s.features.Repeats(i) {
			s.kept = append(s.kept, tokens[i])
			s.keptHashes = append(s.keptHashes, s.features.words[i].hash)
		}
		s.keptBefore = append(s.keptBefore, int32(len(s.kept)))
	}
}

// choose appends the windows that the network classifies: the top window of each category whose logit exceeds the
// threshold; then, up to limit windows in all, others that exceed it, the largest scores first; and one window in any
// case.
func (s *scratch) choose(
	out []Window, windows []candidate, tops *[NumCategories]topWindow, limit int, threshold float64,
) []Window {
	for h := range tops {
		if t := &tops[h]; t.score > threshold {
			out = s.chooseWindow(out, &windows[t.index])
		}
	}
	for len(out) < limit {
		next := &windows[0]
		for i := range windows {
			if windows[i].score > next.score {
				next = &windows[i]
			}
		}
		if math.IsInf(next.score, -1) || len(out) > 0 && next.score <= threshold {
			break
		}
		out = s.chooseWindow(out, next)
	}
	return out
}

// chooseWindow appends a window, unless it is chosen already.
func (s *scratch) chooseWindow(out []Window, w *candidate) []Window {
	if math.IsInf(w.score, -1) {
		return out
	}
	w.score = math.Inf(-1)
	s.network.Want(int(s.keptBefore[w.First]), int(s.keptBefore[w.End]))
	return append(out, w.Window)
}

// classifyWindows has the network classify windows.
func (m *Model) classifyWindows(s *scratch, out []WindowLogits, prefix []kernel.Sums, windows []Window) []WindowLogits {
	for _, w := range windows {
		logits := m.cnn.WindowLogits(&s.network, int(s.keptBefore[w.First]), int(s.keptBefore[w.End]))
		s.classified = append(s.classified, networkWindow{Window: w, logits: *logits})
		var both WindowLogits
		m.linearLogits(&both.Linear, prefix, w)
		for h := range both.CNN {
			both.CNN[h] = clampCNN(logits[h])
		}
		out = append(out, both)
	}
	return out
}

func (m *Model) newScratch() *scratch {
	return &scratch{features: Features{
		Clusters: m.clusters, vocabulary: m.vocabulary, Foreign: m.header.Language != "",
	}}
}

// blockTokens is the number of tokens whose features are looked up at once.
const blockTokens = 64

// isOwn reports whether a word is of the model's language by its letters alone. The dictionary has only some of the
// words of languages that join them or bend them in many ways, and those are known by their script.
func (m *Model) isOwn(word []byte) bool { return m.ownScript && word[0] >= firstOtherScript }

// firstOtherScript is the first byte, in UTF-8, of letters beyond Latin: from U+0370 on.
const firstOtherScript = 0xCD

// otherScripts are the languages that are not written in Latin letters.
var otherScripts = []string{"ru", "uk", "bg", "el", "ar", "fa", "he", "hi", "zh", "ja", "ko", "th"}

// notWords returns the flags of tokens that are of no language. Disguised words count with the models of other
// languages than English: letters of another script may have been put into an English text to steer it away from the
// model of English.
func (m *Model) notWords() text.Flags {
	const flags = text.Emoji | text.Number | text.Mention | text.Hashtag
	if m.header.Language == "" {
		return flags | text.Recovered | text.Obfuscated
	}
	return flags
}

// sums returns the sums over the first n tokens, for each n from 0 to all of them: of the weights, by head, and the
// number of features. It goes through the text in blocks, so that all that a block needs of the large tables can be on
// its way from memory at once.
func (m *Model) sums(s *scratch, tokens []text.Token) []kernel.Sums {
	f := &s.features
	f.begin(tokens)
	s.prefix = slices.Grow(s.prefix[:0], len(tokens)+1)[:len(tokens)+1]
	s.prefix[0] = kernel.Sums{}
	s.evidence, s.foreign, s.known, s.unknown = 0, 0, 0, 0
	for first := 0; first < len(tokens); first += blockTokens {
		end := min(first+blockTokens, len(tokens))
		m.vocabulary.prefetch(tokens[first:end], s.places[:])
		hashes, ends := s.hashes[:0], s.ends[:0]
		for i := first; i < end; i++ {
			own := &s.own[i-first]
			*own = [lanes]int16{}
			known := f.addToken(i)
			if m.dictionary != nil && tokens[i].Flags&m.notWords() == 0 {
				inDictionary := known != nil || m.dictionary.Knows(f.words[i].hash)
				s.noteForeign(tokens[i].Folded, inDictionary, m.isOwn(tokens[i].Folded))
			}
			if !f.Repeats(i) {
				before := len(hashes)
				if known == nil {
					hashes = f.appendWord(hashes, i)
				} else {
					*own = known.sums
				}
				hashes = f.appendContext(hashes, i)
				own[featuresLane] += int16(len(hashes) - before)
				kernel.PrefetchMasked(m.table.tags, hashes[before:])
			}
			ends = append(ends, int32(len(hashes)))
		}
		s.found = m.table.lookup(s.found, hashes, ends)
		kernel.PrefixSums(s.prefix[first:end+1], s.own[:], m.table.rows, s.found, ends)
		s.hashes, s.ends = hashes, ends
	}
	return s.prefix
}

// linearMaxima sets maxima to the largest logit of each head in any of the windows and tops to the window with the
// largest logit of each category, appends the windows to the candidates, and returns the largest score of one.
func (m *Model) linearMaxima(
	s *scratch, maxima *[Heads]float64, tops *[NumCategories]topWindow, prefix []kernel.Sums, windows []Window,
) float64 {
	for h := range maxima {
		maxima[h] = math.Inf(-1)
	}
	for h := range tops {
		tops[h].score = math.Inf(-1)
	}
	largest := math.Inf(-1)
	for i, w := range windows {
		var z [Heads]float64
		m.linearLogits(&z, prefix, w)
		for h := range maxima {
			maxima[h] = max(maxima[h], z[h])
		}
		score := math.Inf(-1)
		for h := range tops {
			c := &m.header.Calibration[h].Alone
			z := (c.Large+c.Small)*z[h] + c.Offset
			if z > tops[h].score {
				tops[h] = topWindow{z, i}
			}
			score = max(score, z)
		}
		largest = max(largest, score)
		s.candidates = append(s.candidates, candidate{w, score})
	}
	return largest
}

// linearLogits computes the logits of a window by the linear model.
func (m *Model) linearLogits(z *[Heads]float64, prefix []kernel.Sums, w Window) {
	a, b := &prefix[w.First], &prefix[w.End]
	norm := 1 / Norm(int(b[featuresLane]-a[featuresLane]))
	for h := range z {
		c := &m.header.Calibration[h]
		z[h] = float64(b[h]-a[h])*norm*c.Scale + c.Bias
	}
}

func sigmoid(z float64) float64 { return 1 / (1 + math.Exp(-z)) }
