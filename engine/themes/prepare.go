// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package themes

import (
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/caddy-moderation/caddy-moderation/engine/text"
	"github.com/caddy-moderation/caddy-moderation/engine/themes/lexicon"
)

// prepare takes a theme apart.
func prepare(lex *knowledge, theme string) *plan {
	scratch := text.Get()
	defer text.Put(scratch)
	tokens := scratch.Tokenize(theme)
	p := &plan{tokens: scratch.Words()}
	if len(tokens) == 0 {
		p.literal = strings.TrimSpace(theme)
		return p
	}
	b := getBuilder(lex, p)
	defer putBuilder(b)
	list := pieces(theme, tokens)
	if onlyStop(list) {
		b.run(list)
	} else {
		groups := b.regroup(split(unwrap(list)))
		for _, g := range groups {
			for _, words := range g.choices {
				b.words += len(words)
			}
		}
		for _, g := range groups {
			b.part(g)
		}
	}
	if len(p.parts) == 0 {
		b.run(list)
	}
	b.finish()
	return p
}

// evidence says that a word or phrase is evidence for a slot. It is packed so that it sorts fast: the key, the slot and
// 255 less the weight.
type evidence uint64

func newEvidence(k key, slot, weight uint8) evidence {
	return evidence(k)<<16 | evidence(slot)<<8 | evidence(255-weight)
}

func (e evidence) key() key      { return key(e >> 16) }
func (e evidence) slot() uint8   { return uint8(e >> 8) }
func (e evidence) weight() uint8 { return 255 - uint8(e) }

// builder fills a plan.
type builder struct {
	lexicon  *knowledge
	lex      *lexicon.Lexicon // that of lexicon
	plan     *plan
	evidence []evidence
	spare    []evidence       // to sort the evidence in
	whole    []float32        // sum of the vectors of the slots
	visited  []uint64         // a bit for each synset, for kinds
	kin      []lexicon.Synset // of kinds
	join     []byte
	word     string // the last one that bases was asked for, and what it said
	found    []lexicon.Term
	words    int // of the theme that are looked up
	budget   int // synsets that may still be looked at
}

var builders = sync.Pool{New: func() any { return new(builder) }}

// getBuilder returns a builder of a plan. It keeps its memory between plans.
func getBuilder(lex *knowledge, p *plan) *builder {
	b := builders.Get().(*builder)
	b.lexicon, b.lex, b.plan, b.words, b.budget = lex, lex.Lexicon, p, 0, maxSynsets
	b.evidence, b.whole, b.word, b.found = b.evidence[:0], nil, "", b.found[:0]
	if n := lex.Synsets()/64 + 1; len(b.visited) != n {
		b.visited = make([]uint64, n)
	}
	return b
}

// putBuilder gives a builder back.
func putBuilder(b *builder) {
	b.plan, b.whole = nil, nil
	builders.Put(b)
}

// bases returns what a word may be a form of, until the next call.
func (b *builder) bases(word string) []lexicon.Term {
	if word != b.word {
		b.word, b.join = word, append(b.join[:0], word...)
		b.found = b.lex.Bases(b.join, b.found[:0])
	}
	return b.found
}

// knowledge is the lexicon with what is derived from it.
type knowledge struct {
	*lexicon.Lexicon
	members *members
}

// related is the cosine from which "A and B" names two sides of one thing (unions and strikes), so that either is enough;
// below it both are needed (guns and children).
const related = 0.08

// regroup decides what "and" means and drops groups of which nothing is left.
func (b *builder) regroup(groups []group) []group {
	var out []group
	for _, g := range groups {
		if g.and && b.apart(g.choices[0], g.choices[1]) {
			out = append(out, group{choices: g.choices[:1]}, group{choices: g.choices[1:]})
			continue
		}
		out = append(out, g)
	}
	return out
}

func (b *builder) apart(one, other []string) bool {
	u, v := b.direction(one), b.direction(other)
	if u == nil || v == nil {
		return false
	}
	var sum float32
	for i := range u {
		sum += u[i] * v[i]
	}
	return sum < related
}

// direction is the unit vector of the mean of some words; nil when none has a vector.
func (b *builder) direction(words []string) []float32 {
	sum := make([]float32, b.lex.Dims())
	found := false
	for _, w := range words {
		bases := b.bases(w)
		if len(bases) == 0 || light[w] {
			continue
		}
		if v, scale := b.lex.Vector(bases[0]); v != nil {
			found = true
			for i, x := range v {
				sum[i] += float32(x) * scale
			}
		}
	}
	if !found {
		return nil
	}
	return normalise(sum)
}

// part adds a part to the plan.
func (b *builder) part(g group) {
	var out part
	for _, words := range g.choices {
		if len(b.plan.slots)+len(words) > maxSlots {
			break
		}
		if len(words) > 1 && b.foreign(words) {
			b.evidenceRun(&out, words)
			continue
		}
		if whole, ok := b.phrase(words); ok {
			out.choices = append(out.choices, whole)
		}
		out.choices = append(out.choices, b.choice(words))
	}
	if len(out.choices) > 0 {
		b.plan.parts = append(b.plan.parts, out)
	}
}

// foreign reports whether the lexicon knows none of the words: another language, another script, or nonsense.
func (b *builder) foreign(words []string) bool {
	for _, w := range words {
		if len(b.bases(w)) > 0 {
			return false
		}
	}
	return true
}

// run makes a plan of one run of words: themes of words that say nothing by themselves.
func (b *builder) run(list []piece) {
	words := make([]string, len(list))
	for i, p := range list {
		words[i] = p.form
	}
	var out part
	b.evidenceRun(&out, words)
	b.plan.parts = append(b.plan.parts, out)
}

// evidenceRun adds a choice that needs the words as they stand.
func (b *builder) evidenceRun(out *part, words []string) {
	s := b.slot(1, nil)
	b.plan.slots[s].rarity = lexicon.NeverSeen
	keys := make([]key, len(words))
	for i, w := range words {
		keys[i] = strangeKey([]byte(w))
		if bases := b.bases(w); len(bases) > 0 {
			keys[i] = key(bases[0])
		}
	}
	b.plan.runs = append(b.plan.runs, run{s, keys})
	b.plan.rarity = lexicon.NeverSeen
	b.plan.entries = append(b.plan.entries, entry{slot: s, weight: 255})
	out.choices = append(out.choices, choice{[]uint8{s}})
}

// phrase makes a choice of one slot of words that are a known phrase together.
func (b *builder) phrase(words []string) (choice, bool) {
	if len(words) < 2 || len(words) > lexicon.MaxPhrase {
		return choice{}, false
	}
	head := strings.Join(words[:len(words)-1], " ") + " "
	last := words[len(words)-1]
	forms := []string{last}
	for _, t := range b.bases(last) {
		forms = append(forms, b.lex.String(t))
	}
	for _, form := range forms {
		if term, ok := b.lex.Find([]byte(head + form)); ok {
			s := b.slot(1, nil)
			b.plan.slots[s].rarity = lexicon.NeverSeen
			b.widen(s, term)
			return choice{[]uint8{s}}, true
		}
	}
	return choice{}, false
}

// choice makes a choice of a slot for each word.
func (b *builder) choice(words []string) choice {
	var c choice
	heavy := false
	for _, w := range words {
		heavy = heavy || !light[w]
	}
	for _, w := range words {
		weight := float32(1)
		if heavy && light[w] {
			weight = lightWeight
		}
		bases := b.bases(w)
		if len(bases) == 0 {
			s := b.slot(weight, nil)
			b.add(strangeKey([]byte(w)), s, 1)
			b.plan.rarity = lexicon.NeverSeen
			b.plan.slots[s].rarity = lexicon.NeverSeen
			c.slots = append(c.slots, s)
			continue
		}
		rarity := float32(b.lex.Rarity(bases[0]))
		s := b.slot(weight*rarity, b.direction([]string{w}))
		b.plan.slots[s].weight = weight
		b.plan.slots[s].optional = light[w]
		b.plan.slots[s].rarity = rarity
		b.widen(s, bases[0])
		// What the lexicon lacks may still be a form of the word: "homeschool" beside "homeschooling".
		b.add(strangeKey([]byte(w)), s, 0.9)
		for _, other := range bases[1:] {
			b.add(key(other), s, derivedWorth)
			b.derivatives(s, other, derivedWorth)
		}
		if weight == 1 {
			b.plan.rarity = max(b.plan.rarity, float32(b.lex.Rarity(bases[0])))
		}
		c.slots = append(c.slots, s)
	}
	b.expressions(words, c.slots)
	return c
}

// expressions makes the known expressions that stand in a theme evidence for their words: in a theme "river bank erosion"
// the bank of a "river bank" is meant.
func (b *builder) expressions(words []string, slots []uint8) {
	for from := range words {
		for to := from + 2; to <= min(len(words), from+lexicon.MaxPhrase); to++ {
			b.join = append(b.join[:0], words[from]...)
			for _, w := range words[from+1 : to] {
				b.join = append(append(b.join, ' '), w...)
			}
			t, ok := b.lex.Find(b.join)
			for _, s := range slots[from:to] {
				if ok {
					b.add(key(t), s, 1)
				}
			}
		}
	}
}

// slot adds a slot to the plan.
func (b *builder) slot(weight float32, v []float32) uint8 {
	s := slot{weight: weight}
	if v != nil {
		s.vector, s.scale, s.signs = pack(v)
		s.spread = b.lex.Spread(v)
		if b.whole == nil {
			b.whole = make([]float32, len(v))
		}
		for i, x := range v {
			b.whole[i] += weight * x
		}
	}
	b.plan.slots = append(b.plan.slots, s)
	return uint8(len(b.plan.slots) - 1)
}

// add notes that a word is evidence for a slot.
func (b *builder) add(k key, s uint8, weight float64) {
	w := uint8(math.Round(255 * weight))
	if w == 0 {
		return
	}
	if len(b.evidence) < maxEvidence {
		b.evidence = append(b.evidence, newEvidence(k, s, w))
	}
}

// finish lays the evidence out in a flat table.
func (b *builder) finish() {
	p := b.plan
	if b.whole != nil {
		v := b.broaden(normalise(b.whole))
		p.vector, p.scale, p.signs = pack(v)
		p.spread = b.lex.Spread(v)
	}
	// The best of what was said about a word and a slot stands.
	b.sort()
	b.evidence = slices.CompactFunc(b.evidence, func(x, y evidence) bool { return x>>8 == y>>8 })
	size := 4
	for size < 2*len(b.evidence) {
		size *= 2
	}
	p.table, p.first = make([]key, size), make([]uint16, size)
	p.entries = slices.Grow(p.entries, len(b.evidence))
	for _, e := range b.evidence {
		i := e.key().place() & uint32(size-1)
		for p.first[i] != 0 && p.table[i] != e.key() {
			i = (i + 1) & uint32(size-1)
		}
		p.table[i] = e.key()
		p.entries = append(p.entries, entry{slot: e.slot(), weight: e.weight(), next: p.first[i]})
		p.first[i] = uint16(len(p.entries))
	}
}

// sort sorts the evidence by its bytes, the last first: of thousands of words that is much faster than comparing them.
func (b *builder) sort() {
	n := len(b.evidence)
	if n < 256 {
		slices.Sort(b.evidence)
		return
	}
	all := evidence(0)
	for _, e := range b.evidence {
		all |= e ^ b.evidence[0]
	}
	b.spare = slices.Grow(b.spare[:0], n)[:n]
	for shift := 0; shift < 48; shift += 8 {
		if all>>shift&0xff == 0 {
			continue // a byte that all have
		}
		var at [256]int
		for _, e := range b.evidence {
			at[uint8(e>>shift)]++
		}
		sum := 0
		for i, count := range at {
			at[i], sum = sum, sum+count
		}
		for _, e := range b.evidence {
			i := uint8(e >> shift)
			b.spare[at[i]] = e
			at[i]++
		}
		b.evidence, b.spare = b.spare, b.evidence
	}
}

// How the direction of a theme is broadened: by how much, and by which evidence, the nearest first.
const (
	broadShare = 0.5
	broadLeast = 0.4
	broadMost  = 150
)

// broaden turns the direction of a theme towards that of the words which are evidence for it, so that "animals" is close
// to a text about sloths though the word itself keeps other company.
func (b *builder) broaden(v []float32) []float32 {
	wide := make([]float32, len(v))
	n := 0
	for _, e := range b.evidence {
		w := float32(e.weight()) / 255
		if e.key()&strange != 0 || w < broadLeast {
			continue
		}
		u, scale := b.lex.Vector(lexicon.Term(e.key()))
		if u == nil {
			continue
		}
		scale *= w * w
		for sums := wide; len(u) >= 8 && len(sums) >= 8; u, sums = u[8:], sums[8:] {
			sums[0] += scale * float32(u[0])
			sums[1] += scale * float32(u[1])
			sums[2] += scale * float32(u[2])
			sums[3] += scale * float32(u[3])
			sums[4] += scale * float32(u[4])
			sums[5] += scale * float32(u[5])
			sums[6] += scale * float32(u[6])
			sums[7] += scale * float32(u[7])
		}
		if n++; n == broadMost {
			break
		}
	}
	normalise(wide)
	for i := range v {
		v[i] += broadShare * wide[i]
	}
	return normalise(v)
}

func normalise(v []float32) []float32 {
	var square float32
	for _, x := range v {
		square += x * x
	}
	if square > 0 {
		f := float32(1 / math.Sqrt(float64(square)))
		for i := range v {
			v[i] *= f
		}
	}
	return v
}

// pack turns a unit vector into bytes, the factor that makes them a unit vector, and its signs.
func pack(v []float32) (packed []int8, scale float32, signs uint64) {
	var top float32
	for _, x := range v {
		top = max(top, float32(math.Abs(float64(x))))
	}
	packed = make([]int8, len(v))
	var square int32
	for i, x := range v {
		q := int32(math.Round(float64(x / max(top, 1e-6) * 127)))
		packed[i] = int8(q)
		square += q * q
		if q > 0 && i < 64 {
			signs |= 1 << i
		}
	}
	return packed, float32(1 / math.Sqrt(float64(max(square, 1)))), signs
}
