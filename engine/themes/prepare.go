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

// prepare makes the plan of a theme.
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
	list := themeWords(theme, tokens)
	if onlyStop(list) {
		b.wordRun(list)
	} else {
		groups := b.resolveAnd(split(trimFiller(list)))
		for _, g := range groups {
			for _, words := range g.choices {
				b.words += len(words)
			}
		}
		for _, g := range groups {
			b.addPart(g)
		}
	}
	if len(p.parts) == 0 {
		b.wordRun(list)
	}
	b.finish()
	return p
}

// evidence says that a word or phrase is evidence for a slot. It is packed for fast sorting: the key, the slot, and 255
// minus the weight.
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
	scratch  []evidence       // to sort the evidence in
	whole    []float32        // sum of the vectors of the slots
	visited  []uint64         // a bit for each synset, for hyponyms
	queue    []lexicon.Synset // for hyponyms
	join     []byte
	word     string         // the argument of the last call of bases
	found    []lexicon.Term // its result
	words    int            // the words of the theme that are looked up
	budget   int            // the number of synsets that may still be visited
}

var builders = sync.Pool{New: func() any { return new(builder) }}

// getBuilder returns a builder for p. Builders keep their memory between plans.
func getBuilder(lex *knowledge, p *plan) *builder {
	b := builders.Get().(*builder)
	b.lexicon, b.lex, b.plan, b.words, b.budget = lex, lex.Lexicon, p, 0, maxSynsets
	b.evidence, b.whole, b.word, b.found = b.evidence[:0], nil, "", b.found[:0]
	if n := lex.Synsets()/64 + 1; len(b.visited) != n {
		b.visited = make([]uint64, n)
	}
	return b
}

// putBuilder returns a builder to the pool.
func putBuilder(b *builder) {
	b.plan, b.whole = nil, nil
	builders.Put(b)
}

// bases returns the terms that a word may be a form of. They are valid until the next call.
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

// minSharedCosine is the cosine from which "A and B" names two sides of one thing ("unions and strikes"), so that
// either is enough. Below it both are needed ("guns and children").
const minSharedCosine = 0.08

// resolveAnd decides whether the choices that "and" joins are alternatives or parts that are all needed.
func (b *builder) resolveAnd(groups []group) []group {
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

// apart reports whether the meanings of two choices are so distant that a theme of both needs both.
func (b *builder) apart(one, other []string) bool {
	u, v := b.direction(one), b.direction(other)
	if u == nil || v == nil {
		return false
	}
	var sum float32
	for i := range u {
		sum += u[i] * v[i]
	}
	return sum < minSharedCosine
}

// direction returns the unit vector along the mean of the words' vectors, or nil if none has a vector.
func (b *builder) direction(words []string) []float32 {
	sum := make([]float32, b.lex.Dims())
	found := false
	for _, w := range words {
		bases := b.bases(w)
		if len(bases) == 0 || optionalWords[w] {
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

// addPart adds a part to the plan.
func (b *builder) addPart(g group) {
	var out part
	for _, words := range g.choices {
		if len(b.plan.slots)+len(words) > maxSlots {
			break
		}
		if len(words) > 1 && b.foreign(words) {
			b.addRun(&out, words)
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

// foreign reports whether the lexicon knows none of the words, because they are of another language or nonsense.
func (b *builder) foreign(words []string) bool {
	for _, w := range words {
		if len(b.bases(w)) > 0 {
			return false
		}
	}
	return true
}

// wordRun makes a plan of one run of words, for a theme whose words mean nothing by themselves.
func (b *builder) wordRun(list []themeWord) {
	words := make([]string, len(list))
	for i, p := range list {
		words[i] = p.form
	}
	var out part
	b.addRun(&out, words)
	b.plan.parts = append(b.plan.parts, out)
}

// addRun adds a choice that needs the words in this order.
func (b *builder) addRun(out *part, words []string) {
	s := b.slot(1, nil)
	b.plan.slots[s].rarity = lexicon.NeverSeen
	keys := make([]key, len(words))
	for i, w := range words {
		keys[i] = unknownKey([]byte(w))
		if bases := b.bases(w); len(bases) > 0 {
			keys[i] = key(bases[0])
		}
	}
	b.plan.runs = append(b.plan.runs, run{s, keys})
	b.plan.rarity = lexicon.NeverSeen
	b.plan.entries = append(b.plan.entries, entry{slot: s, weight: 255})
	out.choices = append(out.choices, choice{[]uint8{s}})
}

// phrase makes a choice of one slot if the words together are a known phrase.
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
			b.expand(s, term)
			return choice{[]uint8{s}}, true
		}
	}
	return choice{}, false
}

// choice makes a choice with a slot for each word.
func (b *builder) choice(words []string) choice {
	var c choice
	required := false
	for _, w := range words {
		required = required || !optionalWords[w]
	}
	for _, w := range words {
		weight := float32(1)
		if required && optionalWords[w] {
			weight = optionalWeight
		}
		bases := b.bases(w)
		if len(bases) == 0 {
			s := b.slot(weight, nil)
			b.add(unknownKey([]byte(w)), s, 1)
			b.plan.rarity = lexicon.NeverSeen
			b.plan.slots[s].rarity = lexicon.NeverSeen
			c.slots = append(c.slots, s)
			continue
		}
		rarity := float32(b.lex.Rarity(bases[0]))
		s := b.slot(weight*rarity, b.direction([]string{w}))
		b.plan.slots[s].weight = weight
		b.plan.slots[s].optional = optionalWords[w]
		b.plan.slots[s].rarity = rarity
		b.expand(s, bases[0])
		// A word that the lexicon lacks may still be a form of this one, as "homeschool" of "homeschooling".
		b.add(unknownKey([]byte(w)), s, 0.9)
		for _, other := range bases[1:] {
			b.add(key(other), s, derivedWeight)
			b.derivatives(s, other, derivedWeight)
		}
		if weight == 1 {
			b.plan.rarity = max(b.plan.rarity, float32(b.lex.Rarity(bases[0])))
		}
		c.slots = append(c.slots, s)
	}
	b.expressions(words, c.slots)
	return c
}

// expressions makes the known phrases within a theme evidence for their words: the theme "river bank erosion" means the
// bank in "river bank".
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

// finish builds the hash table of the evidence, and the vector of the whole theme.
func (b *builder) finish() {
	p := b.plan
	if b.whole != nil {
		v := b.broaden(normalise(b.whole))
		p.vector, p.scale, p.signs = pack(v)
		p.spread = b.lex.Spread(v)
	}
	// Of several entries for a word and a slot, the one of the largest weight comes first and is kept.
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

// sort is a radix sort of the evidence, which is much faster than comparing when there are thousands of words.
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
	b.scratch = slices.Grow(b.scratch[:0], n)[:n]
	for shift := 0; shift < 48; shift += 8 {
		if all>>shift&0xff == 0 {
			continue // all share this byte
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
			b.scratch[at[i]] = e
			at[i]++
		}
		b.evidence, b.scratch = b.scratch, b.evidence
	}
}

// How the vector of a theme is broadened by its evidence.
const (
	broadenShare     = 0.5 // the length of what is added, relative to the theme's own vector
	broadenMinWeight = 0.4 // of the words that are added
	broadenMaxWords  = 150 // of these, the first ones
)

// broaden turns the vector of a theme towards those of the words that are evidence for it, so that "animals" is close
// to a text about sloths, though the word "animals" itself is used in other contexts.
func (b *builder) broaden(v []float32) []float32 {
	wide := make([]float32, len(v))
	n := 0
	for _, e := range b.evidence {
		w := float32(e.weight()) / 255
		if e.key()&unknown != 0 || w < broadenMinWeight {
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
		if n++; n == broadenMaxWords {
			break
		}
	}
	normalise(wide)
	for i := range v {
		v[i] += broadenShare * wide[i]
	}
	return normalise(v)
}

// normalise scales a vector to the length 1.
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

// pack rounds a unit vector to bytes. It returns these, the factor that makes them a unit vector again, and a bit for
// the sign of each of the first 64 dimensions.
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
