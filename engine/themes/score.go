// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package themes

import (
	"math"
	"math/bits"
	"strings"
	"unicode/utf8"
)

// mark is what one distinct word says about one theme.
type mark struct {
	known bool
	first uint16  // its first entry in the plan + 1: lexical evidence
	whole float32 // closeness in use to the theme as a whole, in standard deviations
	share float32 // what it adds to the direction of a window along that of the theme, where it is lexical evidence
	slots [maxSlots]float32
	near  bool   // some closeness was found
	names uint16 // the slots that it names, a bit for each
}

// event is a token, or a phrase, that is evidence.
type event struct {
	from, to int32
	mark     int32 // word, -1 for a phrase
	first    uint16
	covered  bool
}

// Closeness in use counts from here on, in standard deviations over the lexicon, and is cut off above.
const (
	leastClose = 1.8
	mostClose  = 7
)

// maxApart is the number of different signs from which two vectors are not worth comparing: a cosine of 0.45 gives 22
// on average with a standard deviation of 4, unrelated words 32.
const maxApart = 25

// coveredWorth is what a word is worth in a phrase in which it means something else: "dog" in "hot dog".
const coveredWorth = 0.15

// score returns the logit of the best window, and the places that carry it in all windows that reach the threshold.
func (r *reading) score(p *plan, weights *Weights, threshold float64) (float64, []Span) {
	if len(p.slots) == 0 || len(r.tokens) == 0 {
		return r.literal(p)
	}
	r.gather(p)
	best := math.Inf(-1)
	r.input = [numInputs]float32{}
	r.chosen = grow(r.chosen, len(r.tokens))
	hit, from, windows := false, 0, r.windowCount()
	f := features{windows: windows}
	empty := features{windows: windows, context: -1}
	for w := range windows {
		begin, end := int32(w*blockWords), int32(w*blockWords+windowWords)
		if w == windows-1 {
			end = int32(len(r.tokens))
		}
		for from < len(r.events) && r.events[from].to <= begin {
			from++
		}
		if from == len(r.events) || r.events[from].from >= end {
			// Of the windows without any evidence only the one that is closest as a whole can be the best.
			if context := r.context(p, w); context > empty.context {
				empty.context, empty.rest, empty.filled = context, context, int(r.filled[w])
			}
			continue
		}
		f = features{windows: windows}
		to := from
		for to < len(r.events) && r.events[to].from < end {
			r.collect(&f, p, &r.events[to])
			to++
		}
		f.context, f.filled = r.context(p, w), int(r.filled[w])
		f.rest = f.context
		if r.lengths[w] > 0 {
			f.rest -= f.share / r.lengths[w]
		}
		x := f.inputs(p)
		s := weights.weigh(&x)
		if s > best {
			best, r.input = s, x
		}
		if s >= threshold {
			hit = true
			r.choose(&f, p, from, to)
		}
	}
	if empty.context > -1 {
		x := empty.inputs(p)
		if s := weights.weigh(&x); s > best {
			best, r.input = s, x
		}
	}
	if !hit {
		return best, nil
	}
	spans := r.spans()
	if len(spans) == 0 {
		// What cannot be shown is not a hit: all evidence stands in idioms.
		best = min(best, threshold-0.1)
	}
	return best, spans
}

// noEvidence is the logit of a text in which a theme without words does not stand.
const noEvidence = -7

// gather lists the words and phrases of the text that are evidence for the theme, in order.
func (r *reading) gather(p *plan) {
	r.marks = grow(r.marks, len(r.words))
	r.events = r.events[:0]
	next := 0
	for i, id := range r.ids {
		for next < len(r.phrases) && int(r.phrases[next].from) <= i {
			ph := &r.phrases[next]
			next++
			if first := p.find(ph.key); first != 0 {
				r.events = append(r.events, event{ph.from, ph.to, -1, first, false})
			}
		}
		for n := range p.runs {
			if to := r.follows(&p.runs[n], i); to > 0 {
				// The entries of the runs are the first ones of a plan, in the same order.
				r.events = append(r.events, event{int32(i), int32(to), -1, uint16(n + 1), false})
			}
		}
		m := &r.marks[id]
		if !m.known {
			r.weigh(p, &r.words[id], m)
		}
		if m.first != 0 || m.near {
			r.events = append(r.events, event{int32(i), int32(i + 1), int32(id), m.first, r.covered[i]})
		}
	}
}

// follows returns the token after a run that starts at token i, 0 when it does not start there.
func (r *reading) follows(run *run, i int) int {
	if i+len(run.keys) > len(r.ids) {
		return 0
	}
	for n, k := range run.keys {
		if w := &r.words[r.ids[i+n]]; w.nkeys == 0 || w.keys[0] != k {
			return 0
		}
	}
	return i + len(run.keys)
}

// weigh compares a word with the theme.
func (r *reading) weigh(p *plan, w *word, m *mark) {
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
	if p.vector != nil && bits.OnesCount64(w.signs^p.signs) <= maxApart {
		m.whole = closeness(w, p.vector, p.scale, p.spread)
		m.near = m.near || m.whole > 0
	}
	for i := range p.slots {
		s := &p.slots[i]
		if s.vector != nil && bits.OnesCount64(w.signs^s.signs) <= maxApart {
			m.slots[i] = closeness(w, s.vector, s.scale, s.spread)
			m.near = m.near || m.slots[i] > 0
		}
	}
}

// closeness is the cosine of a word and a vector in standard deviations, 0 below leastClose.
func closeness(w *word, v []int8, scale, spread float32) float32 {
	z := float32(dot(w.vector, v)) * w.scale * scale / max(spread, 0.02)
	if z < leastClose {
		return 0
	}
	return min(z, mostClose)
}

func dot(a, b []int8) int32 {
	var even, odd int32 // two sums do not wait for each other
	for ; len(a) >= 4 && len(b) >= 4; a, b = a[4:], b[4:] {
		even += int32(a[0])*int32(b[0]) + int32(a[2])*int32(b[2])
		odd += int32(a[1])*int32(b[1]) + int32(a[3])*int32(b[3])
	}
	return even + odd
}

// features are what a window says about a theme.
type features struct {
	lexical [maxSlots]float32
	close   [maxSlots]float32
	top     [4]float32 // the largest closenesses to the theme, of distinct words
	words   int        // distinct words and phrases that are lexical evidence
	seen    [12]int32  // the first of them
	context float32    // closeness of the whole window to the theme
	rest    float32    // the same without the words that are lexical evidence
	share   float32    // what those words add
	filled  int        // content words in the window
	windows int
}

// collect adds a word or phrase to the features of a window.
func (r *reading) collect(f *features, p *plan, e *event) {
	if e.first != 0 {
		worth := float32(1)
		if e.covered && e.mark >= 0 {
			worth = coveredWorth
		}
		best := float32(0)
		for n := e.first; n != 0; n = p.entries[n-1].next {
			entry := &p.entries[n-1]
			w := worth * float32(entry.weight) / 255
			f.lexical[entry.slot] = max(f.lexical[entry.slot], w)
			best = max(best, w)
		}
		if best > 0.3 {
			f.countWord(e.mark)
		}
	}
	if e.mark < 0 || e.covered {
		return
	}
	m := &r.marks[e.mark]
	f.share += m.share
	for i := range p.slots {
		// A word that names one part of a theme is no evidence for another, however close the two are: "nuclear" is close
		// to "weapons".
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

// rank puts a closeness in its place among the largest ones. A word that repeats gives the same figure and is not
// ranked twice.
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
	// naming is the evidence, of 255, from which a word names a part of a theme.
	naming = 216
	// maxNamed is the number of words up to which each part of a theme needs a word of its own. A longer theme describes
	// rather than names, and few words of a text cover it.
	maxNamed = 3
)

// context is the closeness of a window as a whole to the theme, 0 when one of them has no direction.
func (r *reading) context(p *plan, w int) float32 {
	if p.vector == nil || r.lengths[w] == 0 {
		return 0
	}
	// Four sums, because one would wait for each addition.
	dims := len(p.vector)
	window := r.windows[w*dims : (w+1)*dims]
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

// choose marks the tokens of a window that carry the hit: the lexical evidence, and without any the words closest in
// use.
func (r *reading) choose(f *features, p *plan, from, to int) {
	least := f.top[0]
	if least > 3 {
		least = 3
	}
	lexical := false
	for _, l := range f.lexical[:len(p.slots)] {
		lexical = lexical || l >= 0.3
	}
	for i := from; i < to; i++ {
		e := &r.events[i]
		carries := false
		if lexical {
			for n := e.first; n != 0 && !e.covered; n = p.entries[n-1].next {
				carries = carries || float32(p.entries[n-1].weight) >= 0.3*255
			}
		}
		if !carries && e.mark >= 0 && !e.covered && !lexical {
			m := &r.marks[e.mark]
			carries = m.whole > 0 && m.whole >= least
			for s := range p.slots {
				carries = carries || m.slots[s] > 0 && m.slots[s] >= f.close[s]
			}
		}
		if carries {
			for t := e.from; t < e.to; t++ {
				r.chosen[t] = true
			}
		}
	}
}

// spans turns the marked tokens into places.
func (r *reading) spans() []Span {
	var spans []Span
	for i, on := range r.chosen {
		if !on {
			continue
		}
		t := &r.tokens[i]
		if n := len(spans); n > 0 && i > 0 && r.chosen[i-1] {
			spans[n-1].End = max(spans[n-1].End, t.End)
			continue
		}
		spans = append(spans, Span{t.Begin, t.End})
	}
	return spans
}

// literal looks for a theme without words, such as ":-(", as it stands.
func (r *reading) literal(p *plan) (float64, []Span) {
	// Broken bytes could match inside a character.
	if p.literal == "" || !utf8.ValidString(p.literal) {
		return noEvidence, nil
	}
	var spans []Span
	points, at := 0, 0
	for {
		i := strings.Index(r.content[at:], p.literal)
		if i < 0 {
			break
		}
		points += utf8.RuneCountInString(r.content[at : at+i])
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

// literalLogit is the logit of a theme without words that stands in the text as it is.
const literalLogit = 4

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

func logit(p float64) float64 {
	if p >= 1 {
		return math.Inf(1)
	}
	return math.Log(p / (1 - p))
}
