// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"cmp"
	"math"
	"slices"

	"github.com/caddy-moderation/caddy-moderation/engine/cnn"
	"github.com/caddy-moderation/caddy-moderation/engine/text"
)

// Evidence is a part of a text that carries a probability.
type Evidence struct {
	// Begin and End are its place in code points; End is exclusive.
	Begin, End int
	// Weight is its share of all that speaks for the probability, above 0 and at most 1.
	Weight float64
}

const (
	// MaxEvidence is how many carriers a head has at most.
	MaxEvidence = 5
	// leastCarried is how much a word, and then a run of words, carries at least, as a part of what the one that carries
	// most does.
	leastCarried = 0.15
	// mostLeftOut bounds how many words the reader leaves out of the windows of a text, one after the other: that is what
	// takes the time. It is enough for two windows of 56 words and their worst sentences. The heads that say most come first;
	// of those for which nothing is left, the linear model alone is explained.
	mostLeftOut = 160
)

// Explain finds the parts of a text that carry the probabilities of the wanted heads: see [Explainable.Explain].
func (m *Model) Explain(content string, wanted [Heads]bool) [Heads][]Evidence {
	x := m.ClassifyExplainable(content)
	defer x.Close()
	return x.Explain(wanted)
}

// Explainable is a text that was judged and can still be explained. It is not safe for concurrent use.
type Explainable struct {
	// Probabilities and Words are what [Model.Classify] returns.
	Probabilities Probabilities
	Words         int

	model   *Model
	scratch *scratch
	text    *text.Scratch
	tokens  []text.Token
	gaps    *cnn.Occlusion
	carried []float64 // what each token carries of a head's logit
	left    int       // how many more words the reader may leave out
}

// ClassifyExplainable judges a text as [Model.Classify] does. Close must be called when nothing is to be explained any more.
func (m *Model) ClassifyExplainable(content string) *Explainable {
	x := &Explainable{model: m, scratch: m.scratch(), text: text.Get()}
	x.tokens = m.Tokenize(x.text, content)
	x.Probabilities, x.Words = m.classify(x.scratch, x.tokens), x.text.Words()
	return x
}

// Close gives the memory back.
func (x *Explainable) Close() {
	clear(x.scratch.readings)
	x.model.release(x.scratch)
	text.Put(x.text)
}

// Explain finds the parts of the text that carry the probabilities of the wanted heads, in the order of the text and without
// overlap: at most [MaxEvidence] for each head, none for a head that is not wanted.
//
// What a word carries is how far the head's logit falls when the word is left out of the windows that decide: the linear
// model loses the word's features, the reader reads the window again without it. Words that stand side by side in a sentence
// are one carrier. A word that only repeats what stands before it counts for nothing with the model, so it carries nothing.
func (x *Explainable) Explain(wanted [Heads]bool) (carriers [Heads][]Evidence) {
	x.carried, x.left = make([]float64, len(x.tokens)), mostLeftOut
	var heads []int
	for h := range wanted {
		if wanted[h] {
			heads = append(heads, h)
		}
	}
	slices.SortStableFunc(heads, func(a, b int) int { return cmp.Compare(x.Probabilities[b], x.Probabilities[a]) })
	for _, h := range heads {
		carriers[h] = x.carriers(h)
	}
	return carriers
}

// reading is what the reader says of a window.
type reading struct {
	Window
	logits [cnn.Outputs]float32
	// without are the logits without each of the window's tokens that the reader reads; nil while nobody asked.
	without [][cnn.Outputs]float32
}

// carriers finds the carriers of a head.
func (x *Explainable) carriers(h int) []Evidence {
	clear(x.carried)
	x.leaveOut(h)
	most, all := 0.0, 0.0
	for _, c := range x.carried {
		if c > 0 {
			most, all = max(most, c), all+c
		}
	}
	if most == 0 {
		return nil
	}
	var out []Evidence
	last := -1 // the token that the last carrier ends with
	for i, c := range x.carried {
		if c < leastCarried*most {
			continue
		}
		begin, end := x.place(i)
		if n := len(out) - 1; n >= 0 && (begin < out[n].End || last == i-1 && x.tokens[last].Flags&text.SentenceEnd == 0) {
			out[n].End = max(out[n].End, end)
			out[n].Weight += c
		} else {
			out = append(out, Evidence{Begin: begin, End: end, Weight: c})
		}
		last = i
	}
	for i := range out {
		out[i].Weight = min(out[i].Weight/all, 1)
	}
	return strongest(out)
}

// strongest keeps the carriers that carry much, in their order.
func strongest(carriers []Evidence) []Evidence {
	byWeight := slices.Clone(carriers)
	slices.SortStableFunc(byWeight, func(a, b Evidence) int { return cmp.Compare(b.Weight, a.Weight) })
	byWeight = byWeight[:min(len(byWeight), MaxEvidence)]
	least := leastCarried * byWeight[0].Weight
	byWeight = slices.DeleteFunc(byWeight, func(c Evidence) bool { return c.Weight < least })
	slices.SortFunc(byWeight, func(a, b Evidence) int { return cmp.Compare(a.Begin, b.Begin) })
	return byWeight
}

// place returns where a token stands in the text. Where the parts of joined words are not known exactly, because the words
// are disguised as well, it is the place of all of them.
func (x *Explainable) place(i int) (begin, end int) {
	t := &x.tokens[i]
	if t.Flags&text.Recovered == 0 {
		return t.Begin, t.End
	}
	joined := func(a, b *text.Token) bool {
		return a.Flags&b.Flags&text.Recovered != 0 && a.End == b.Begin && a.Flags&text.SentenceEnd == 0
	}
	first, last := i, i
	for first > 0 && joined(&x.tokens[first-1], &x.tokens[first]) {
		first--
	}
	for last < len(x.tokens)-1 && joined(&x.tokens[last], &x.tokens[last+1]) {
		last++
	}
	letters := 0
	for k := first; k <= last; k++ {
		letters += len(x.tokens[k].Folded)
	}
	begin, end = x.tokens[first].Begin, x.tokens[last].End
	if letters == end-begin {
		return t.Begin, t.End // letter by letter as it was typed
	}
	return begin, end
}

// leaveOut finds what each token carries of a head's logit: the sum over the terms of its curve. See [Logits.Terms].
func (x *Explainable) leaveOut(h int) {
	s, m := x.scratch, x.model
	e, c := &s.evidence, &m.header.Calibration[h]
	large := x.largest(s.large, h)
	small := x.largest(s.small, h)
	if len(e.LargeCNN) == 0 {
		x.leaveOutOfLinear(large, h, c.Alone.Large)
		x.leaveOutOfLinear(small, h, c.Alone.Small)
		return
	}
	curve := &c.Both
	window, sentence := 1.0, 0.0 // what their logits count
	if len(e.SmallCNN) > 0 {
		terms := e.LongTerms(h, curve)
		window, sentence = c.Long.Window, c.Long.Sentence
		if terms[0] >= terms[1] {
			window += c.Long.Max
		} else {
			sentence += c.Long.Max
		}
	}
	read := x.worst(s.wanted[:len(s.large)], h, curve.Large, curve.CNN)
	x.leaveOutOfReader(read, h, window*curve.CNN)
	if h < categories {
		large = read.Window
	}
	x.leaveOutOfLinear(large, h, window*curve.Large)
	if len(e.SmallCNN) == 0 {
		x.leaveOutOfLinear(small, h, curve.Small)
		return
	}
	read = x.worst(s.wanted[len(s.large):], h, curve.Large, curve.CNN)
	x.leaveOutOfReader(read, h, sentence*curve.CNN)
	x.leaveOutOfLinear(read.Window, h, sentence*curve.Large)
}

// leaveOutOfLinear adds what the tokens of a window carry of its logit by the linear model, times weight.
func (x *Explainable) leaveOutOfLinear(w Window, h int, weight float64) {
	prefix, scale := x.scratch.prefix, x.model.header.Calibration[h].Scale*weight
	sum := prefix[w.End].weights[h] - prefix[w.First].weights[h]
	features := prefix[w.End].features - prefix[w.First].features
	logit := float64(sum) / Norm(int(features))
	for i := w.First; i < w.End; i++ {
		own, ownFeatures := prefix[i+1].weights[h]-prefix[i].weights[h], prefix[i+1].features-prefix[i].features
		if ownFeatures == 0 {
			continue
		}
		carried := logit - float64(sum-own)/Norm(int(features-ownFeatures))
		if own <= 0 {
			// A word that does not speak for the head may still thin out what speaks against it. That is no evidence.
			carried = min(carried, 0)
		}
		x.carried[i] += carried * scale
	}
}

// leaveOutOfReader adds what the tokens of a reading's window carry of its logit, times weight.
func (x *Explainable) leaveOutOfReader(r *reading, h int, weight float64) {
	keptTo := x.scratch.keptTo
	if r.without == nil {
		if x.left < r.End-r.First {
			return
		}
		x.left -= r.End - r.First
		x.readWithout(r)
	}
	for i := r.First; i < r.End; i++ {
		// A token that is not kept makes no difference.
		if k := int(keptTo[i] - keptTo[r.First]); keptTo[i+1] > keptTo[i] && k < len(r.without) {
			x.carried[i] += float64(r.logits[h]-r.without[k][h]) * weight
		}
	}
}

// largest returns the first of the windows with the largest logit by the linear model.
func (x *Explainable) largest(windows []Window, h int) (largest Window) {
	most := math.Inf(-1)
	for _, w := range windows {
		var z [Heads]float64
		if x.model.linearLogits(&z, x.scratch.prefix, w); z[h] > most {
			most, largest = z[h], w
		}
	}
	return largest
}

// worst returns the reading of the window that looks worst to both stages together, among those that the reader read:
// [Model.reread] left no score to them. There is at least one.
func (x *Explainable) worst(windows []unsure, h int, linear, read float64) (worst *reading) {
	most := math.Inf(-1)
	for _, w := range windows {
		if !math.IsInf(w.score, -1) {
			continue
		}
		var z [Heads]float64
		x.model.linearLogits(&z, x.scratch.prefix, w.Window)
		r := x.reading(w.Window)
		if both := linear*z[h] + read*min(max(float64(r.logits[h]), -mostReader), mostReader); both > most {
			most, worst = both, r
		}
	}
	return worst
}

// reading returns what the reader said of a window that it read.
func (x *Explainable) reading(w Window) *reading {
	readings := x.scratch.readings
	return &readings[slices.IndexFunc(readings, func(r reading) bool { return r.Window == w })]
}

// readWithout has the reader read the window of a reading without each of its tokens.
func (x *Explainable) readWithout(r *reading) {
	s := x.scratch
	if x.gaps == nil {
		x.gaps = x.model.cnn.Occlude(&s.read, s.kept, s.words)
	}
	r.without = x.gaps.Logits(int(s.keptTo[r.First]), int(s.keptTo[r.End]))
	if len(r.without) == 1 {
		// Nothing remains that could be read: the word carries all that the reader says for the head.
		for h, logit := range r.logits {
			r.without[0][h] = min(logit, 0)
		}
	}
}
