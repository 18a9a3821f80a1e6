// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Texts with fewer bytes than shortText are also classified together, so that nothing can be said in pieces. A group
// has at most maxJoined bytes. The last overlap bytes of a group also begin the next one.
const (
	shortText = 200
	maxJoined = 600
	overlap   = 100
)

// Joiner joins short texts that follow each other in a message, also when they come one by one, and the borders of long
// texts with the texts before and behind them. The zero value is empty.
type Joiner struct {
	members []member
	size    int  // of their texts together, in bytes
	fresh   bool // a text was added since the group was classified
	// last is the text before, and long says that it was not a short one.
	last member
	long bool
}

// member is one of the texts.
type member struct{ name, text string }

// full reports whether there is no room for another text.
func (j *Joiner) full(text string) bool {
	return len(j.members) > 0 && j.size+len(text) > maxJoined
}

// add takes another text.
func (j *Joiner) add(name, text string) {
	j.members = append(j.members, member{name, text})
	j.size += len(text) + 1
	j.fresh = true
}

// nextGroup begins the next group with the last texts of this one.
func (j *Joiner) nextGroup() {
	first, size := len(j.members), 0
	for first > 0 && size+len(j.members[first-1].text) <= overlap {
		first--
		size += len(j.members[first].text) + 1
	}
	j.members = append(j.members[:0], j.members[first:]...)
	j.size, j.fresh = size, false
}

// border returns the last sentence of the text before and the first of this one, and their names. It returns nothing if
// both are short or there is no text before.
func (j *Joiner) border(name, text string) (names, border string) {
	if text == "" {
		return "", ""
	}
	before, long := j.last, len(text) >= shortText
	if before.text != "" && (long || j.long) {
		names, border = before.name+"+"+name, before.text+" "+firstSentence(text)
	}
	j.last, j.long = member{name, lastSentence(text)}, long
	return names, border
}

// firstSentence returns the first sentence of a text, or as much of it as is shorter than a short text.
func firstSentence(text string) string {
	text = strings.TrimLeft(text, " \t\r\n")
	if end := strings.IndexAny(text[:min(len(text), shortText)], ".!?\n"); end > 0 {
		return text[:end+1]
	}
	end := min(len(text), shortText-1)
	for end > 0 && end < len(text) && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

// lastSentence returns the last sentence of a text, or as much of it as is shorter than a short text.
func lastSentence(text string) string {
	text = strings.TrimRight(text, " \t\r\n")
	tail := text[max(0, len(text)-shortText+1):]
	if begin := strings.LastIndexAny(strings.TrimRight(tail, ".!?"), ".!?\n"); begin >= 0 {
		return strings.TrimLeft(tail[begin+1:], " ")
	}
	for len(tail) > 0 && !utf8.RuneStart(tail[0]) {
		tail = tail[1:]
	}
	return tail
}

// text returns all texts, with a blank between two.
func (j *Joiner) text() string {
	joined := make([]byte, 0, j.size)
	for i := range j.members {
		if i > 0 {
			joined = append(joined, ' ')
		}
		joined = append(joined, j.members[i].text...)
	}
	return string(joined)
}

// names returns the names of the texts, with plus signs between them.
func (j *Joiner) names() string {
	names := make([]string, 0, len(j.members))
	for _, m := range j.members {
		names = append(names, m.name)
	}
	return strings.Join(slices.Compact(names), "+")
}

// Clone returns a copy that shares nothing with the message from which its texts come.
func (j *Joiner) Clone() Joiner {
	c := *j
	c.members = nil
	for _, m := range j.members {
		c.members = append(c.members, m.clone())
	}
	c.last = j.last.clone()
	return c
}

func (m member) clone() member { return member{strings.Clone(m.name), strings.Clone(m.text)} }
