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

// textBuffer is a text that grows at its end and is moderated from its beginning. Positions count its bytes from its
// very beginning.
type textBuffer struct {
	data    []byte // moderated text as far as it is context, and the rest
	base    int    // position of data
	done    int    // up to here it is moderated
	scanned int    // up to here it was searched for ends of sentences
	cuts    []int  // ends of sentences behind done, ascending
	told    int    // up to here [Options.Judged] was told
	want    int    // up to here events wait for it
	// suspect is the end of sentences that were rejected together: the text is rejected there at the latest.
	suspect int
	// ended says that scanned is behind the end of a sentence, and before the beginning of the next.
	ended bool
	// separate says that what follows does not continue the text.
	separate bool
	// halfRune is the first half of a surrogate pair whose other half is to come.
	halfRune rune
	// sinceCut counts the characters since the last cut.
	sinceCut int

	// view says that this is another view of what other texts say.
	view bool
	// flows says that the values are fragments of a text, so that they wait for the end of their sentence.
	flows  bool
	pieces int
	short  bool // all of them are short
	// labels says that all values so far were names, numbers or identifiers, and not fragments of a text.
	labels bool
	// value is the only value so far. repeats is how often it came again.
	value   string
	repeats int
	varied  bool
}

// maxSentence is the number of characters after which the next word ends a sentence that goes on. At twice that
// number, the sentence is cut within a word.
const maxSentence = 2000

// labelContext is the number of characters before a label that are moderated with it.
const labelContext = 100

// end returns the position behind the text.
func (t *textBuffer) end() int { return t.base + len(t.data) }

// cut adds a cut at the position.
func (t *textBuffer) cut(position int) {
	if position > t.done && (len(t.cuts) == 0 || t.cuts[len(t.cuts)-1] < position) {
		t.cuts = append(t.cuts, position)
		t.sinceCut = 0
	}
}

// lastCut returns the position up to which the text can be moderated.
func (t *textBuffer) lastCut() int {
	if len(t.cuts) == 0 {
		return t.done
	}
	return t.cuts[len(t.cuts)-1]
}

// next takes in the character at scanned, which must be there.
func (t *textBuffer) next() (char rune) {
	char, size := utf8.DecodeRune(t.data[t.scanned-t.base:])
	t.scanned += size
	switch {
	case t.ended && (endsSentence(char) || follows(char)):
		// It belongs to the sentence before, whether that is moderated already or not.
		if len(t.cuts) == 0 {
			t.done = t.scanned
		} else {
			t.cuts[len(t.cuts)-1] = t.scanned
		}
	case endsSentence(char):
		t.ended = true
		t.cut(t.scanned)
	default:
		t.ended = false
		if t.sinceCut++; t.sinceCut >= maxSentence && (char == ' ' || t.sinceCut >= 2*maxSentence) {
			t.cut(t.scanned)
		}
	}
	return char
}

// scan finds the ends of sentences in the rest of the text.
func (t *textBuffer) scan() {
	for t.scanned < t.end() {
		t.next()
	}
}

// add appends a fragment, and completes the character that it may share with the fragment before it.
func (t *textBuffer) add(f *fragment) {
	if t.separate && len(t.data) > 0 && !isSpace(t.data[len(t.data)-1]) {
		t.data = append(t.data, '\n')
	}
	t.separate = false
	switch {
	case t.halfRune != 0:
		t.data = utf8.AppendRune(t.data, utf16.DecodeRune(t.halfRune, f.head)) // U+FFFD if they make no pair
	case f.head != 0:
		t.data = utf8.AppendRune(t.data, utf8.RuneError)
	}
	t.halfRune = f.tail
	t.data = append(t.data, f.text...)
	t.scan()
}

// addValue appends a value that may or may not be a fragment of a text. A name, a number, an identifier, or a value
// that is the same in every event is none, and goes out as soon as it is moderated; addValue then returns false. If
// it turns out to be a fragment after all, it is moderated again with the rest.
func (t *textBuffer) addValue(f *fragment, o *Options) bool {
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

// detectFlow tells from the values whether they are fragments of a text: models begin words with the space before
// them, or send single characters. Whole messages of people and programs do neither.
func (t *textBuffer) detectFlow(piece string) {
	t.pieces++
	t.short = (t.short || t.pieces == 1) && len(piece) <= 6 && utf8.RuneCountInString(piece) <= 3
	if t.pieces > 1 && (isSpace(piece[0]) || isSpace(piece[len(piece)-1])) || t.short && t.pieces > 3 {
		t.flows, t.view = true, false
	}
}

// isLabel reports whether a value is a word and no fragment of a text, by the name of its place or by its looks.
func isLabel(f *fragment) bool {
	if len(f.text) > 128 {
		return false
	}
	odd := f.where.hold == holdLabel
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

// isNumber reports whether a label is a date, a number or an identifier in hexadecimal digits, which carry no
// meaning.
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

// finish ends the sentence, and separates it from what may follow.
func (t *textBuffer) finish() {
	if t.halfRune != 0 {
		t.data = utf8.AppendRune(t.data, utf8.RuneError)
		t.halfRune = 0
		t.scan()
	}
	t.cut(t.end())
	t.ended, t.separate = true, true
}

// moderate moderates at least up to the first cut, and up to the first cut at or behind want if that is not too much
// at once.
func (t *textBuffer) moderate(o *Options, want int) error {
	if t.labels || t.view {
		rejectOnly := *o
		if rejectOnly.Moderate = o.RejectOnly; t.labels {
			rejectOnly.Context = min(o.Context, labelContext)
		}
		o = &rejectOnly
	}
	if t.done < t.suspect {
		return t.moderateSuspect(o)
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
	err := o.moderate(t.inContext(target, o.Context))
	if err == nil {
		t.tell(o, target)
		t.markDone(target)
		return nil
	}
	if target == t.cuts[0] {
		t.tell(o, target)
		return err
	}
	// What is fine before the rejected sentence still goes out, as if the sentences had come one by one.
	t.suspect = target
	return t.moderateSuspect(o)
}

// moderateSuspect moderates a single one of the sentences that were rejected together.
func (t *textBuffer) moderateSuspect(o *Options) error {
	defer t.tell(o, t.cuts[0])
	if t.cuts[0] >= t.suspect {
		return ErrRejected
	}
	if err := o.moderate(t.inContext(t.cuts[0], o.Context)); err != nil {
		return err
	}
	t.markDone(t.cuts[0])
	return nil
}

// tell tells [Options.Judged] what is new up to the position. What is no text, and other views, are not told.
func (t *textBuffer) tell(o *Options, position int) {
	from := max(t.told, t.base)
	if o.Judged == nil || t.labels || t.view || position <= from {
		return
	}
	o.Judged(t.data[from-t.base : position-t.base])
	t.told = position
}

// inContext returns the text that is not moderated yet, up to the position, behind its context.
func (t *textBuffer) inContext(position, context int) []byte {
	return t.data[t.contextAt(t.done, context)-t.base : position-t.base]
}

// contextAt returns where the context of a position begins, which is this many characters before it. A word that is
// cut there is left out, unless it is so long that hardly any context would remain.
func (t *textBuffer) contextAt(position, context int) int {
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

// markDone notes that the text is fine up to the position.
func (t *textBuffer) markDone(position int) {
	t.done = position
	keep := 0
	for keep < len(t.cuts) && t.cuts[keep] <= position {
		keep++
	}
	t.cuts = append(t.cuts[:0], t.cuts[keep:]...)
}

// forget drops what is no longer context.
func (t *textBuffer) forget(context int) {
	// To move what remains costs less than it cost to receive what is dropped.
	if from := t.contextAt(t.done, context); from-t.base > len(t.data)/2 {
		t.data = append(t.data[:0], t.data[from-t.base:]...)
		t.base = from
	}
}

// isSpace reports whether b is white space.
func isSpace(b byte) bool { return b == ' ' || b == '\n' || b == '\t' || b == '\r' }

// endsSentence reports whether a sentence ends with the character.
func endsSentence(char rune) bool {
	if char < utf8.RuneSelf {
		return char == '.' || char == '!' || char == '?' || char == '\n'
	}
	return strings.ContainsRune("…。！？．｡‼⁇⁈⁉؟۔।॥։።፧\u2028\u2029", char)
}

// follows reports whether the character still belongs to a sentence that has ended: closing quotes and brackets, and
// space.
func follows(char rune) bool {
	if char < utf8.RuneSelf {
		return strings.ContainsRune(" \t\r\"')]}*_", char)
	}
	return unicode.In(char, unicode.Pe, unicode.Pf, unicode.Zs)
}
