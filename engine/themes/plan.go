// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package themes

import (
	"strings"

	"github.com/caddy-moderation/caddy-moderation/engine/text"
	"github.com/caddy-moderation/caddy-moderation/engine/themes/lexicon"
)

// plan is a theme prepared for scoring: a conjunction of parts, each a disjunction of choices, each a conjunction of
// slots. All parts must be near each other in a text.
//
//	"theft of bicycles or electric scooters"  =  {theft} and ({bicycle} or {electric} {scooter})
type plan struct {
	tokens  int    // the number of words in the theme
	literal string // the theme itself if it has no words; no other field is set then
	parts   []part
	slots   []slot
	runs    []run
	rarity  float32 // that of its rarest word

	table   []key    // hash table of the words and phrases that are evidence
	first   []uint16 // for each key of table, its first entry + 1
	entries []entry

	vector []int8 // the direction of the whole theme
	scale  float32
	spread float32
	signs  uint64
}

// part is a set of choices, of which a text needs one.
type part struct{ choices []choice }

// choice is a set of slots, of which a text needs all.
type choice struct{ slots []uint8 }

// slot is a word or a known phrase of the theme.
type slot struct {
	weight   float32 // 1, or less for a word that a text may leave out
	rarity   float32 // that of the word
	optional bool    // whether texts on the theme often leave the word out
	vector   []int8
	scale    float32
	spread   float32
	signs    uint64
}

// entry says that a word is evidence for a slot.
type entry struct {
	slot   uint8
	weight uint8  // of 255
	next   uint16 // the next entry of the same key + 1, or 0
}

// run is a slot whose words are evidence only in this order, with nothing between them.
type run struct {
	slot uint8
	keys []key
}

// Bounds of what any theme of 100 characters can cost.
const (
	maxSlots    = 16
	maxEvidence = 8000
)

// optionalWeight is the weight of a slot that a text may leave out.
const optionalWeight = 0.3

// themeWord is a word of a theme that is being parsed.
type themeWord struct {
	form  string
	comma bool // whether a comma, slash or the like stands before it
}

// themeWords lists the words of a theme and notes the punctuation that separates alternatives.
func themeWords(theme string, tokens []text.Token) []themeWord {
	points := []rune(theme)
	list := make([]themeWord, 0, len(tokens))
	end := 0
	for i := range tokens {
		t := &tokens[i]
		p := themeWord{form: string(t.Folded)}
		for _, r := range points[min(end, t.Begin):t.Begin] {
			p.comma = p.comma || strings.ContainsRune(",;/|()[]:", r)
		}
		end = t.End
		list = append(list, p)
	}
	return list
}

// trimFiller drops the words around a theme that speak of posts and not of the theme: "content about", "any mention
// of". A theme of nothing but such words stays as it is.
func trimFiller(list []themeWord) []themeWord {
	from, to := 0, len(list)
	for ; from < to; from++ {
		form := list[from].form
		stop := from > 0 && form != "or" && lexicon.IsStop([]byte(form))
		if !leadingFiller[form] && !stop {
			break
		}
	}
	for to > from && trailingFiller[list[to-1].form] {
		to--
	}
	if from == to || onlyStop(list[from:to]) {
		return list
	}
	return list[from:to]
}

func onlyStop(list []themeWord) bool {
	for _, p := range list {
		if !lexicon.IsStop([]byte(p.form)) {
			return false
		}
	}
	return true
}

// group is a part that is being parsed: its choices as lists of words.
type group struct {
	choices [][]string
	and     bool // whether two choices are joined by "and" alone, which may mean either or both
}

// split cuts a theme at the connectives between parts (of, with, by, who ...), and each part at those between choices
// (or, and, a comma, such as).
func split(list []themeWord) []group {
	var groups []group
	current := group{}
	var words []string
	ors, ands := 0, 0
	endChoice := func() {
		if len(words) > 0 {
			current.choices = append(current.choices, words)
			words = nil
		}
	}
	endGroup := func() {
		endChoice()
		if len(current.choices) > 0 {
			current.and = ands == 1 && ors == 0 && len(current.choices) == 2
			groups = append(groups, current)
		}
		current, ors, ands = group{}, 0, 0
	}
	content := false
	for _, p := range list {
		content = content || !lexicon.IsStop([]byte(p.form))
	}
	for i, p := range list {
		if p.comma {
			endChoice()
			ors++
		}
		switch {
		case p.form == "or" || p.form == "including" || p.form == "versus" || p.form == "vs":
			endChoice()
			ors++
		case p.form == "such" || p.form == "other" || p.form == "like" && i > 0:
			// "such as", "and other"
			if p.form != "other" || i > 0 && list[i-1].form == "and" {
				endChoice()
				ors++
			}
		case p.form == "and":
			endChoice()
			ands++
		case connectives[p.form]:
			endGroup()
		case content && lexicon.IsStop([]byte(p.form)):
		default:
			words = append(words, p.form)
		}
	}
	endGroup()
	return groups
}

// find returns the number of the first entry of a key plus 1, or 0 if there is none.
func (p *plan) find(k key) uint16 {
	mask := uint32(len(p.first) - 1)
	for i := k.place() & mask; p.first[i] != 0; i = (i + 1) & mask {
		if p.table[i] == k {
			return p.first[i]
		}
	}
	return 0
}

// size returns the memory that a plan takes, in bytes.
func (p *plan) size() uint32 {
	return uint32(256 + len(p.literal) + 6*len(p.table) + 4*len(p.entries) + 160*len(p.slots) +
		32*len(p.runs) + 64*len(p.parts))
}

func (k key) place() uint32 { return uint32(k) * 0x9E3779B1 >> 7 }
