// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package themes

import (
	"math"
	"math/bits"
	"strings"
	"unicode/utf8"
)

// wordScore is what one distinct word says about one theme.
type wordScore struct {
	known bool    // whether the other fields are filled in
	first uint16  // its first entry in the plan + 1: lexical evidence
	whole float32 // closeness in use to the theme as a whole, in standard deviations
	share float32 // what it adds to the window's vector along the theme's, if it is lexical evidence
	slots [maxSlots]float32
	near  bool   // some closeness was found
	names uint16 // the slots that it names, a bit for each
}

// occurrence is a token or a phrase of the text that is evidence for the theme.
type occurrence struct {
	from, to int32
	word     int32 // word, -1 for a phrase
	first    uint16
	covered  bool
}

// Closeness in use, in standard deviations over the lexicon, is 0 below minCloseness and clipped at maxCloseness.
const (
	minCloseness = 1.8
	maxCloseness = 7
)

// maxSignDifference is the maximum number of different signs at which two vectors are compared. A cosine of 0.45
// gives 22 different signs on average with a standard deviation of 4; unrelated words give 32.
const maxSignDifference = 25

// idiomWeight multiplies the evidence of a word in a phrase in which it means something else, as "dog" in "hot dog".
const idiomWeight = 0.15

// score returns the logit of the best window, and the spans that carry the hit in all windows that reach the threshold,
// which is a logit.
func (doc *document) score(p *plan, weights *Weights, threshold float64) (float64, []Span) {
	if len(p.slots) == 0 || len(doc.tokens) == 0 {
		return doc.literal(p)
	}
	doc.collectOccurrences(p)
	best := math.Inf(-1)
	doc.input = [numInputs]float32{}
	doc.chosen = grow(doc.chosen, len(doc.tokens))
	hit, from, windows := false, 0, doc.windowCount()
	f := features{windows: windows}
	empty := features{windows: windows, context: -1}
	for w := range windows {
		begin, end := int32(w*blockWords), int32(w*blockWords+windowWords)
		if w == windows-1 {
			end = int32(len(doc.tokens))
		}
		for from < len(doc.occurrences) && doc.occurrences[from].to <= begin {
			from++
		}
		if from == len(doc.occurrences) || doc.occurrences[from].from >= end {
			// Of the windows without evidence, only the one that is closest as a whole can be the best.
			if context := doc.context(p, w); context > empty.context {
				empty.context, empty.rest, empty.filled = context, context, int(doc.filled[w])
			}
			continue
		}
		f = features{windows: windows}
		to := from
		for to < len(doc.occurrences) && doc.occurrences[to].from < end {
			doc.addOccurrence(&f, p, &doc.occurrences[to])
			to++
		}
		f.context, f.filled = doc.context(p, w), int(doc.filled[w])
		f.rest = f.context
		if doc.lengths[w] > 0 {
			f.rest -= f.share / doc.lengths[w]
		}
		x := f.inputs(p)
		s := weights.logit(&x)
		if s > best {
			best, doc.input = s, x
		}
		if s >= threshold {
			hit = true
			doc.choose(&f, p, from, to)
		}
	}
	if empty.context > -1 {
		x := empty.inputs(p)
		if s := weights.logit(&x); s > best {
			best, doc.input = s, x
		}
	}
	if !hit {
		return best, nil
	}
	spans := doc.spans()
	if len(spans) == 0 {
		// All evidence stands in idioms. A hit without spans to show would break the promise of Hit.Matches.
		best = min(best, threshold-0.1)
	}
	return best, spans
}

// noEvidence is the logit of a text that does not contain a theme without words.
const noEvidence = -7

// collectOccurrences lists the words and phrases of the text that are evidence for the theme, in order.
func (doc *document) collectOccurrences(p *plan) {
	doc.scores = grow(doc.scores, len(doc.words))
	doc.occurrences = doc.occurrences[:0]
	next := 0
	for i, id := range doc.ids {
		for next < len(doc.phrases) && int(doc.phrases[next].from) <= i {
			ph := &doc.phrases[next]
			next++
			if first := p.find(ph.key); first != 0 {
				doc.occurrences = append(doc.occurrences, occurrence{ph.from, ph.to, -1, first, false})
			}
		}
		for n := range p.runs {
			if to := doc.follows(&p.runs[n], i); to > 0 {
				// The entries of the runs are the first ones of a plan, in the same order.
				doc.occurrences = append(doc.occurrences, occurrence{int32(i), int32(to), -1, uint16(n + 1), false})
			}
		}
		m := &doc.scores[id]
		if !m.known {
			doc.compare(p, &doc.words[id], m)
		}
		if m.first != 0 || m.near {
			token := occurrence{int32(i), int32(i + 1), int32(id), m.first, doc.covered[i]}
			doc.occurrences = append(doc.occurrences, token)
		}
	}
}

// follows returns the token after a run that starts at token i, or 0 if none starts there.
func (doc *document) follows(run *run, i int) int {
	if i+len(run.keys) > len(doc.ids) {
		return 0
	}
	for n, k := range run.keys {
		if w := &doc.words[doc.ids[i+n]]; w.nkeys == 0 || w.keys[0] != k {
			return 0
		}
	}
	return i + len(run.keys)
}

// compare fills in what a word says about the theme.
func (doc *document) compare(p *plan, w *word, m *wordScore) {
	m.known = true
	for _, k := range w.keys[:w.nkeys] {
		if m.first = p.find(k); m.first != 0 {
			break
		}
	}
	for n := m.first; n != 0; n = p.entries[n-1].next {
		if p.entries[n-1].weight >= naming {
			m.names |= 1 << p.entries[n-1].slot
		}
	}
	if w.vector == nil {
		return
	}
	if m.first != 0 && p.vector != nil {
		m.share = w.weight() * float32(dot(w.vector, p.vector)) * p.scale
	}
	if p.vector != nil && bits.OnesCount64(w.signs^p.signs) <= maxSignDifference {
		m.whole = closeness(w, p.vector, p.scale, p.spread)
		m.near = m.near || m.whole > 0
	}
	for i := range p.slots {
		s := &p.slots[i]
		if s.vector != nil && bits.OnesCount64(w.signs^s.signs) <= maxSignDifference {
			m.slots[i] = closeness(w, s.vector, s.scale, s.spread)
			m.near = m.near || m.slots[i] > 0
		}
	}
}

// closeness returns the cosine of a word and a vector in standard deviations, or 0 below minCloseness.
func closeness(w *word, v []int8, scale, spread float32) float32 {
	z := float32(dot(w.vector, v)) * w.scale * scale / max(spread, 0.02)
	if z < minCloseness {
		return 0
	}
	return min(z, maxCloseness)
}

func dot(a, b []int8) int32 {
	var even, odd int32 // two sums that the processor adds up in parallel
	for ; len(a) >= 4 && len(b) >= 4; a, b = a[4:], b[4:] {
		even += int32(a[0])*int32(b[0]) + int32(a[2])*int32(b[2])
		odd += int32(a[1])*int32(b[1]) + int32(a[3])*int32(b[3])
	}
	return even + odd
}

// features are what one window says about a theme. The scorer's inputs are made of them.
type features struct {
	lexical [maxSlots]float32
	close   [maxSlots]float32
	top     [4]float32 // the largest values of closeness to the theme, of distinct words
	words   int        // distinct words and phrases that are lexical evidence
	seen    [12]int32  // the first of them
	context float32    // closeness of the whole window to the theme
	rest    float32    // context without the words that are lexical evidence
	share   float32    // what those words add to it
	filled  int        // content words in the window
	windows int
}

// addOccurrence adds a word or phrase to the features of a window.
func (doc *document) addOccurrence(f *features, p *plan, e *occurrence) {
	if e.first != 0 {
		multiplier := float32(1)
		if e.covered && e.word >= 0 {
			multiplier = idiomWeight
		}
		best := float32(0)
		for n := e.first; n != 0; n = p.entries[n-1].next {
			entry := &p.entries[n-1]
			w := multiplier * float32(entry.weight) / 255
			f.lexical[entry.slot] = max(f.lexical[entry.slot], w)
			best = max(best, w)
		}
		if best > 0.3 {
			f.countWord(e.word)
		}
	}
	if e.word < 0 || e.covered {
		return
	}
	m := &doc.scores[e.word]
	f.share += m.share
	for i := range p.slots {
		// A word that names one part of a theme is no evidence for another part, however close the two are in use, as
		// "nuclear" and "weapons".
		if m.names == 0 || m.names>>i&1 == 1 || len(p.slots) > maxNamed {
			f.close[i] = max(f.close[i], m.slots[i])
		}
	}
	if m.whole > f.top[3] {
		f.rank(m.whole)
	}
}

func (f *features) countWord(id int32) {
	for _, s := range f.seen[:min(f.words, len(f.seen))] {
		if s == id {
			return
		}
	}
	if f.words < len(f.seen) {
		f.seen[f.words] = id
	}
	f.words++
}

// rank inserts a closeness into f.top. A repeated word gives the same value and is not inserted twice.
func (f *features) rank(z float32) {
	for i, t := range f.top {
		if z == t {
			return
		}
		if z > t {
			copy(f.top[i+1:], f.top[i:])
			f.top[i] = z
			return
		}
	}
}

const (
	// naming is the minimum evidence, of 255, with which a word names a part of a theme.
	naming = 216
	// maxNamed is the maximum number of words in a theme of which each part needs a word of its own. A longer theme
	// describes rather than names, and a text covers it with few words.
	maxNamed = 3
)

// context returns the cosine of a whole window and the theme, or 0 if one of them has no vector.
func (doc *document) context(p *plan, w int) float32 {
	if p.vector == nil || doc.lengths[w] == 0 {
		return 0
	}
	// Four sums, because the additions of a single one would wait for each other.
	dims := len(p.vector)
	window := doc.windows[w*dims : (w+1)*dims]
	var sums [4]float32
	for i := 0; i+3 < dims; i += 4 {
		v, x := p.vector[i:i+4:i+4], window[i:i+4:i+4]
		sums[0] += x[0] * float32(v[0])
		sums[1] += x[1] * float32(v[1])
		sums[2] += x[2] * float32(v[2])
		sums[3] += x[3] * float32(v[3])
	}
	sum := (sums[0] + sums[1]) + (sums[2] + sums[3])
	return sum * p.scale
}

// choose marks the tokens of a window that carry the hit: the lexical evidence or, if there is none, the words
// closest in use.
func (doc *document) choose(f *features, p *plan, from, to int) {
	least := min(f.top[0], 3)
	lexical := false
	for _, l := range f.lexical[:len(p.slots)] {
		lexical = lexical || l >= 0.3
	}
	for i := from; i < to; i++ {
		e := &doc.occurrences[i]
		carries := false
		if lexical {
			for n := e.first; n != 0 && !e.covered; n = p.entries[n-1].next {
				carries = carries || float32(p.entries[n-1].weight) >= 0.3*255
			}
		}
		if !carries && e.word >= 0 && !e.covered && !lexical {
			m := &doc.scores[e.word]
			carries = m.whole > 0 && m.whole >= least
			for s := range p.slots {
				carries = carries || m.slots[s] > 0 && m.slots[s] >= f.close[s]
			}
		}
		if carries {
			for t := e.from; t < e.to; t++ {
				doc.chosen[t] = true
			}
		}
	}
}

// spans joins the marked tokens into spans.
func (doc *document) spans() []Span {
	var spans []Span
	for i, on := range doc.chosen {
		if !on {
			continue
		}
		t := &doc.tokens[i]
		if n := len(spans); n > 0 && i > 0 && doc.chosen[i-1] {
			spans[n-1].End = max(spans[n-1].End, t.End)
			continue
		}
		spans = append(spans, Span{t.Begin, t.End})
	}
	return spans
}

// literal searches the text for a theme without words, such as ":-(", byte by byte.
func (doc *document) literal(p *plan) (float64, []Span) {
	// Invalid UTF-8 could match inside a character.
	if p.literal == "" || !utf8.ValidString(p.literal) {
		return noEvidence, nil
	}
	var spans []Span
	points, at := 0, 0
	for {
		i := strings.Index(doc.content[at:], p.literal)
		if i < 0 {
			break
		}
		points += utf8.RuneCountInString(doc.content[at : at+i])
		n := utf8.RuneCountInString(p.literal)
		spans = append(spans, Span{points, points + n})
		points += n
		at += i + len(p.literal)
	}
	if spans == nil {
		return noEvidence, nil
	}
	return literalLogit, spans
}

// literalLogit is the logit of a text that contains a theme without words.
const literalLogit = 4

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

func logit(p float64) float64 {
	if p >= 1 {
		return math.Inf(1)
	}
	return math.Log(p / (1 - p))
}
