// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Texts that are shorter than shortField, in bytes, are also judged as one, so that nothing is said in pieces: as many
// together as have maxJoined bytes. Texts of overlap bytes belong to two such groups.
const (
	shortField = 200
	maxJoined  = 600
	overlap    = 100
)

// joiner puts short texts together that follow each other in a message, also when they come one by one, and the ends of
// long texts with what is before and behind them. The zero value has none.
type joiner struct {
	members []member
	size    int  // of their texts together, in bytes
	fresh   bool // there is a text that was in no group which was judged
	// last is the text before, and long says that it was no short one.
	last member
	long bool
}

// member is one of the texts.
type member struct{ name, text string }

// full reports whether there is no room for another text.
func (n *joiner) full(text string) bool {
	return len(n.members) > 0 && n.size+len(text) > maxJoined
}

// add takes another text.
func (n *joiner) add(name, text string) {
	n.members = append(n.members, member{name, text})
	n.size += len(text) + 1
	n.fresh = true
}

// turn begins the next group with the last texts of this one.
func (n *joiner) turn() {
	first, size := len(n.members), 0
	for first > 0 && size+len(n.members[first-1].text) <= overlap {
		first--
		size += len(n.members[first].text) + 1
	}
	n.members = append(n.members[:0], n.members[first:]...)
	n.size, n.fresh = size, false
}

// border returns the last sentence of the text before and the first of this one, where they are not both short, and what
// names them; nothing where there is no text before.
func (n *joiner) border(name, text string) (names func() string, border string) {
	if text == "" {
		return nil, ""
	}
	before, long := n.last, len(text) >= shortField
	if before.text != "" && (long || n.long) {
		border = before.text + " " + firstSentence(text)
	}
	n.last, n.long = member{name, lastSentence(text)}, long
	return func() string { return before.name + "+" + name }, border
}

// firstSentence is the first sentence of a text, or so much of it as is shorter than a short text.
func firstSentence(text string) string {
	text = strings.TrimLeft(text, " \t\r\n")
	if end := strings.IndexAny(text[:min(len(text), shortField)], ".!?\n"); end > 0 {
		return text[:end+1]
	}
	end := min(len(text), shortField-1)
	for end > 0 && end < len(text) && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

// lastSentence is the last sentence of a text, or so much of it as is shorter than a short text.
func lastSentence(text string) string {
	text = strings.TrimRight(text, " \t\r\n")
	tail := text[max(0, len(text)-shortField+1):]
	if begin := strings.LastIndexAny(strings.TrimRight(tail, ".!?"), ".!?\n"); begin >= 0 {
		return strings.TrimLeft(tail[begin+1:], " ")
	}
	for len(tail) > 0 && !utf8.RuneStart(tail[0]) {
		tail = tail[1:]
	}
	return tail
}

// text is all of them, with a blank between two.
func (n *joiner) text() string {
	joined := make([]byte, 0, n.size)
	for i := range n.members {
		if i > 0 {
			joined = append(joined, ' ')
		}
		joined = append(joined, n.members[i].text...)
	}
	return string(joined)
}

// names are those of the texts, with plus signs between them.
func (n *joiner) names() string {
	names := make([]string, 0, len(n.members))
	for _, m := range n.members {
		names = append(names, m.name)
	}
	return strings.Join(slices.Compact(names), "+")
}

// clone makes one that shares nothing with the message that its texts were read from.
func (n *joiner) clone() joiner {
	c := *n
	c.members = nil
	for _, m := range n.members {
		c.members = append(c.members, m.clone())
	}
	c.last = n.last.clone()
	return c
}

func (m member) clone() member { return member{strings.Clone(m.name), strings.Clone(m.text)} }
