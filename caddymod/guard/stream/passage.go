// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// passage is a text that grows at its end and is judged from its beginning. Positions count its bytes from its very beginning.
type passage struct {
	data []byte // what was judged, as far as it is still context, and what was not
	base int    // the position of data
	done int    // up to here it is judged
	read int    // up to here ends of sentences were looked for
	cuts []int  // ends of pieces after done, ascending
	want int    // up to here events wait for it
	// suspect is the end of pieces that were rejected together: at the latest there the text is rejected.
	suspect int
	// ended says that read is behind the end of a sentence, and before the next one begins.
	ended bool
	// parted says that what comes next is no continuation of the text.
	parted bool
	// broken is the first half of a surrogate pair whose other half has not come yet.
	broken rune
	// long counts the characters since the last end of a piece.
	long int

	// view says that it is another view of what other texts say.
	view bool
	// flows says that what comes are pieces of a text, so that they wait for the end of their sentence.
	flows  bool
	pieces int
	short  bool // they are all short
	// labels says that nothing came but words that are no pieces of a text: names, numbers, identifiers.
	labels bool
	// value is all that came so far, repeats says how often it came again.
	value   string
	repeats int
	varied  bool
}

// maxPiece is the number of characters after which a piece ends even if no sentence does. At twice that a word ends, too.
const maxPiece = 2000

// labelContext is the number of characters before a label that are judged with it.
const labelContext = 100

// end is the position behind the text.
func (t *passage) end() int { return t.base + len(t.data) }

// cut makes an end of a piece of the position.
func (t *passage) cut(position int) {
	if position > t.done && (len(t.cuts) == 0 || t.cuts[len(t.cuts)-1] < position) {
		t.cuts = append(t.cuts, position)
		t.long = 0
	}
}

// lastCut is the position up to which the text will be judged.
func (t *passage) lastCut() int {
	if len(t.cuts) == 0 {
		return t.done
	}
	return t.cuts[len(t.cuts)-1]
}

// next takes in the character at read, which must be there.
func (t *passage) next() (char rune) {
	char, size := utf8.DecodeRune(t.data[t.read-t.base:])
	t.read += size
	switch {
	case t.ended && (endsSentence(char) || follows(char)):
		// It belongs to the sentence before, whether that is judged already or not.
		if len(t.cuts) == 0 {
			t.done = t.read
		} else {
			t.cuts[len(t.cuts)-1] = t.read
		}
	case endsSentence(char):
		t.ended = true
		t.cut(t.read)
	default:
		t.ended = false
		if t.long++; t.long >= maxPiece && (char == ' ' || t.long >= 2*maxPiece) {
			t.cut(t.read)
		}
	}
	return char
}

// scan looks for ends of sentences in all of the text.
func (t *passage) scan() {
	for t.read < t.end() {
		t.next()
	}
}

// add appends a piece of text, and puts together the character that it may share with the piece before.
func (t *passage) add(f *found) {
	if t.parted && len(t.data) > 0 && !isSpace(t.data[len(t.data)-1]) {
		t.data = append(t.data, '\n')
	}
	t.parted = false
	switch {
	case t.broken != 0:
		t.data = utf8.AppendRune(t.data, utf16.DecodeRune(t.broken, f.head)) // U+FFFD if they make no pair
	case f.head != 0:
		t.data = utf8.AppendRune(t.data, utf8.RuneError)
	}
	t.broken = f.tail
	t.data = append(t.data, f.text...)
	t.scan()
}

// take appends a value that may be a piece of a text or not. What is none goes on as soon as it is judged: a name, a number or
// an identifier, and a value that is the same in every event. Should it turn out to be a piece of a text after all, it is
// judged again with the rest. It reports false for what goes on like that.
func (t *passage) take(f *found, o *Options) bool {
	whole := f.head == 0 && f.tail == 0
	if !t.varied && whole && f.text == t.value {
		t.repeats++
		t.cut(t.end())
		return false
	}
	if t.value != "" {
		t.varied = true
	}
	for range min(t.repeats, 1+o.Context/max(len(t.value), 1)) {
		t.data = append(t.data, t.value...)
	}
	t.repeats = 0
	t.scan()
	if t.value == "" {
		t.value = f.text
	}
	t.labels = t.labels && whole && isLabel(f)
	if t.labels && isNumber(f.text) {
		return false
	}
	t.add(f)
	if t.labels {
		t.cut(t.end())
	}
	return !t.labels
}

// flow tells by the pieces of a text whether they are such: models begin their words with the space before them, or send
// single characters. What people or programs say as a whole does neither.
func (t *passage) flow(piece string) {
	t.pieces++
	t.short = (t.short || t.pieces == 1) && len(piece) <= 6 && utf8.RuneCountInString(piece) <= 3
	if t.pieces > 1 && (isSpace(piece[0]) || isSpace(piece[len(piece)-1])) || t.short && t.pieces > 3 {
		t.flows, t.view = true, false
	}
}

// isLabel reports whether a value is a word that is no piece of a text, by the name of its place or by its looks.
func isLabel(f *found) bool {
	if len(f.text) > 128 {
		return false
	}
	odd := f.where.standing == label
	for _, c := range []byte(f.text) {
		switch {
		case c <= ' ' || c >= utf8.RuneSelf || c == '\'' || c == ',' || c == '!' || c == '?':
			return false
		case c >= '0' && c <= '9' || c == '_' || c == ':' || c == '/':
			odd = true
		}
	}
	return odd
}

// isNumber reports whether a label is a date, a number or an identifier in hexadecimal digits: no language.
func isNumber(text string) bool {
	letters, digits, others := 0, 0, 0
	for _, c := range []byte(text) {
		switch {
		case c >= '0' && c <= '9':
			digits++
		case c|0x20 >= 'a' && c|0x20 <= 'f':
		case c|0x20 >= 'g' && c|0x20 <= 'z':
			letters++
		case c == '-' || c == ':' || c == '.' || c == '+':
			others++
		default:
			return false
		}
	}
	return digits >= 8 && letters <= 2 && letters*4 <= digits && others <= digits
}

// finish ends the sentence, and separates it from what may still come.
func (t *passage) finish() {
	if t.broken != 0 {
		t.data = utf8.AppendRune(t.data, utf8.RuneError)
		t.broken = 0
		t.scan()
	}
	t.cut(t.end())
	t.ended, t.parted = true, true
}

// judge judges at least one piece, and as many as end at or before the first cut at or behind want.
func (t *passage) judge(o *Options, want int) error {
	if t.labels || t.view {
		strict := *o
		if strict.Moderate = o.Strict; t.labels {
			strict.Context = min(o.Context, labelContext)
		}
		o = &strict
	}
	if t.done < t.suspect {
		return t.judgeSuspect(o)
	}
	limit := max(o.Context, o.Hold)
	target, chars := t.done, 0
	for _, cut := range t.cuts {
		chars += utf8.RuneCount(t.data[max(target, t.done)-t.base : cut-t.base])
		if target > t.done && (target >= want || chars > limit) {
			break
		}
		target = cut
	}
	err := o.judge(t.inContext(target, o.Context))
	if err == nil {
		t.judged(target)
		return nil
	}
	if target == t.cuts[0] {
		return err
	}
	// What is fine before the sentence that is not still goes on, as if the sentences had come one by one.
	t.suspect = target
	return t.judgeSuspect(o)
}

// judgeSuspect judges a single piece of those that were rejected together.
func (t *passage) judgeSuspect(o *Options) error {
	if t.cuts[0] >= t.suspect {
		return ErrRejected
	}
	if err := o.judge(t.inContext(t.cuts[0], o.Context)); err != nil {
		return err
	}
	t.judged(t.cuts[0])
	return nil
}

// inContext returns the text up to the position, with as much of what is judged as counts.
func (t *passage) inContext(position, context int) []byte {
	return t.data[t.contextAt(t.done, context)-t.base : position-t.base]
}

// contextAt returns where the context of the position begins: so many characters before it. A word that is cut there is left
// out, unless it is so long that hardly any context would remain.
func (t *passage) contextAt(position, context int) int {
	before := t.data[:position-t.base]
	from := len(before)
	for ; from > 0 && context > 0; context-- {
		_, size := utf8.DecodeLastRune(before[:from])
		from -= size
	}
	if from > 0 {
		first := before[from:][:(len(before)-from)/4]
		from += slices.IndexFunc(first, isSpace) + 1
	}
	return t.base + from
}

// judged notes that the text is fine up to the position.
func (t *passage) judged(position int) {
	t.done = position
	keep := 0
	for keep < len(t.cuts) && t.cuts[keep] <= position {
		keep++
	}
	t.cuts = append(t.cuts[:0], t.cuts[keep:]...)
}

// forget drops what is context no more.
func (t *passage) forget(context int) {
	// Moving what is left costs less than what is dropped has cost.
	if from := t.contextAt(t.done, context); from-t.base > len(t.data)/2 {
		t.data = append(t.data[:0], t.data[from-t.base:]...)
		t.base = from
	}
}

// isSpace reports whether words end at b.
func isSpace(b byte) bool { return b == ' ' || b == '\n' || b == '\t' || b == '\r' }

// endsSentence reports whether a sentence ends with the character.
func endsSentence(char rune) bool {
	if char < utf8.RuneSelf {
		return char == '.' || char == '!' || char == '?' || char == '\n'
	}
	return strings.ContainsRune("…。！？．｡‼⁇⁈⁉؟۔।॥։።፧\u2028\u2029", char)
}

// follows reports whether the character still belongs to a sentence that has ended: what closes quotes and brackets, and
// space.
func follows(char rune) bool {
	if char < utf8.RuneSelf {
		return strings.ContainsRune(" \t\r\"')]}*_", char)
	}
	return unicode.In(char, unicode.Pe, unicode.Pf, unicode.Zs)
}
