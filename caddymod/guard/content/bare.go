// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"html"
	"strings"
	"unicode/utf8"
)

// Deobfuscate returns what is left of a text when all is taken away that an app may not show, or that a person reads over, and false
// when that is the text itself or what [Visible] returned for it, which must be given. It is a view that only says more:
//
//   - what a browser hides (comments, `hidden`, display:none) is not in it, and what it turns round (<bdo>) is;
//   - marks of Markdown, BBCode, wikis and LaTeX are gone, and so are the addresses of their links;
//   - symbols, emoji and brackets inside of words are gone: k😀ill, k(i)ll;
//   - letters that are upside down, mirrored, in Braille or in invisible characters are read.
//
// A text without any of this costs no allocation.
func Deobfuscate(text, visible string) (string, bool) {
	found := findDress(text)
	bare := text
	if visible != text {
		bare = unescaped(bare)
		if hasTag(bare) {
			bare = rendered(bare)
		}
		if strings.IndexByte(bare, '&') >= 0 {
			bare = html.UnescapeString(bare)
		}
		found = findDress(bare)
	}
	if found.odd {
		bare = legible(bare)
	}
	if found.marks && strings.Contains(bare, "[/") {
		bare = withoutCodes(bare)
	}
	if found.marks || found.odd {
		bare = withoutMarks(bare)
	}
	if found.turned {
		bare = upright(bare)
	}
	return bare, bare != text && bare != visible && HasLetters(bare)
}

// dress says what a text may have that [Deobfuscate] takes away.
type dress struct {
	marks  bool // in words, or of links
	odd    bool // characters that [legible] reads
	turned bool // letters that are upside down or mirrored
}

// findDress looks for what may have to be taken away. It is quick, and is mistaken about some texts.
func findDress(s string) (found dress) {
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch bareClass[c] {
		case bareText:
			continue
		case bareMark:
			found.marks = found.marks || i+1 < len(s) && s[i+1] > ' ' && i > 0 && isWordEnd(s[i-1])
		case bareOpening:
			found.marks = true
		case bareLead: // a symbol or a letter
			found.marks = found.marks || i > 0 && isWordEnd(s[i-1])
			if i+2 < len(s) {
				found.odd = found.odd || c == 0xf3 || c == 0xe2 && s[i+1] >= 0xa0 && s[i+1] <= 0xa3 || c == 0xef && s[i+1] == 0xb8
			}
		case bareTurned:
			found.turned = true
		}
	}
	return found
}

func isWordEnd(c byte) bool { return isLetter(c) || c >= utf8.RuneSelf }

// The classes of bytes for findDress and marks.read.
const (
	bareText    uint8 = iota // of a letter, a digit, white space, a later byte of a character
	bareMark                 // a mark of ASCII
	bareOpening              // a mark that may stand at the beginning of a word
	bareLead                 // begins characters that are marks
	bareTurned               // begins letters that may be turned, and no marks
)

var bareClass = func() (class [256]uint8) {
	for _, c := range "<>](){}*_~`^=:\"&.-/,;+#!" {
		class[c] = bareMark
	}
	for _, c := range "[\\|" {
		class[c] = bareOpening
	}
	for _, c := range []byte{0xc2, 0xe2, 0xef, 0xf0, 0xf3} {
		class[c] = bareLead
	}
	for _, c := range []byte{0xc6, 0xc7, 0xc8, 0xc9, 0xca, 0xcb, 0xe1, 0xea} {
		class[c] = bareTurned
	}
	return class
}()

// rendered returns what a browser shows of markup.
func rendered(s string) string {
	out := make([]byte, 0, len(s))
	in := tagsOf(s)
	var hidden string // name of the element that is not shown
	depth := 0        // elements of that name
	var turned []turn
	for s != "" {
		i := strings.IndexByte(s, '<')
		if i < 0 {
			break
		}
		if hidden == "" {
			out = append(out, s[:i]...)
		}
		s = s[i:]
		if inside, size, cdata := declaration(s); size > 0 {
			if cdata && hidden == "" {
				out = append(out, inside...)
			}
			s = s[size:]
			continue
		}
		t, size := in.parse(s)
		if size == 0 {
			if hidden == "" {
				out = append(out, '<')
			}
			s = s[1:]
			continue
		}
		whole := s[:size]
		s = s[size:]
		switch {
		case hidden != "":
			if strings.EqualFold(t.name, hidden) {
				if depth++; t.end {
					depth -= 2
				}
				if depth == 0 {
					hidden = ""
				}
			}
		case t.end:
			if n := len(turned); n > 0 && strings.EqualFold(turned[n-1].name, t.name) {
				reverse(out[turned[n-1].from:])
				turned = turned[:n-1]
			}
			if t.class == block {
				out = append(out, '\n')
			}
		case t.class == unknown && (strings.HasSuffix(t.name, ":") || strings.Contains(t.name, "@")):
			out = append(out, linked(whole[1:len(whole)-1])...)
		case t.class == raw || t.class == hiding:
			s = s[endOf(s, t.name):]
		case !t.empty() && (t.annotates() || t.hides()):
			hidden, depth = t.name, 1
		default:
			if t.class == block {
				out = append(out, '\n')
			}
			// More within each other would take long to turn, and no browser's reader follows.
			if len(turned) < 3 && t.turns() {
				turned = append(turned, turn{name: t.name, from: len(out)})
			}
		}
	}
	if hidden == "" {
		out = append(out, s...)
	}
	for i := len(turned) - 1; i >= 0; i-- {
		reverse(out[turned[i].from:])
	}
	return view(out)
}

// turn is an element whose text is shown from right to left.
type turn struct {
	name string
	from int
}

// reverse turns a text round in place, character by character.
func reverse(text []byte) {
	for begin := 0; begin < len(text); { // the bytes of each first, so that they come out right
		_, size := utf8.DecodeRune(text[begin:])
		reverseBytes(text[begin : begin+size])
		begin += size
	}
	reverseBytes(text)
}

func reverseBytes(b []byte) {
	for i, j := 0, len(b)-1; i < j; i, j = i+1, j-1 {
		b[i], b[j] = b[j], b[i]
	}
}

// linked returns what is shown of an address in angle brackets: its label, or itself without the scheme.
func linked(s string) string {
	if _, label, found := strings.Cut(s, "|"); found {
		return label
	}
	_, rest, _ := strings.Cut(s, ":")
	return strings.TrimLeft(rest, "/")
}

// legible returns a text with what is written in characters that are not seen, or that not everybody reads, in letters. What was invisible
// stands at the end.
func legible(s string) string {
	out := make([]byte, 0, len(s))
	var unseen []byte
	braille := isBraille(s)
	flag := false // a flag's tags follow
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch b, is := invisibleByte(r); {
		case is && flag:
		case is:
			unseen = append(unseen, b)
		case braille && r >= 0x2800 && r <= 0x28ff:
			out = append(out, brailleLetter(r))
		default:
			if n := len(unseen); n > 0 && unseen[n-1] != 0 {
				unseen = append(unseen, 0) // ends a run
			}
			out = append(out, s[i:i+size]...)
			flag = r == 0x1f3f4
		}
		i += size
	}
	for run := range strings.SplitSeq(string(unseen), "\x00") {
		// A single one is what emoji have, or noise.
		if len(run) > 2 && utf8.ValidString(run) && HasLetters(run) {
			out = append(append(out, '\n'), run...)
		}
	}
	return view(out)
}

// invisibleByte returns the byte that a tag character or a variation selector stands for.
func invisibleByte(r rune) (byte, bool) {
	switch {
	case r >= 0xe0020 && r < 0xe007f:
		return byte(r), true
	case r >= 0xfe00 && r <= 0xfe0f:
		return byte(r - 0xfe00), true
	case r >= 0xe0100 && r <= 0xe01ef:
		return byte(r - 0xe0100 + 16), true
	}
	return 0, false
}

// isBraille reports whether the Braille characters of a text are letters and not a picture.
func isBraille(s string) bool {
	letters, all := 0, 0
	for _, r := range s {
		if r > 0x2800 && r <= 0x28ff {
			all++
			if brailleLetter(r) != '?' {
				letters++
			}
		}
	}
	return all > 0 && letters*10 >= all*9
}

// brailleLetter returns the character of English Braille, '?' where there is none.
func brailleLetter(r rune) byte {
	const (
		letters = "⠁⠃⠉⠙⠑⠋⠛⠓⠊⠚⠅⠇⠍⠝⠕⠏⠟⠗⠎⠞⠥⠧⠺⠭⠽⠵⠂⠆⠲⠦⠖⠄⠤⠠⠼⠀"
		reading = "abcdefghijklmnopqrstuvwxyz,;.?!'-   "
	)
	if i := strings.IndexRune(letters, r); i >= 0 {
		return reading[i/3]
	}
	return '?'
}

// upright returns a text with its letters as they are read when it is turned: by half a turn, or by a mirror. Both orders of its
// letters are read.
func upright(s string) string {
	var count [len(turns)]int
	letters := 0
	for i := 0; i < len(s); {
		if s[i] < 0xc0 {
			if isLetter(s[i]) {
				letters++
			}
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		i += size
		letters++
		for k := range turns {
			if turns[k].read(r) != r {
				count[k]++
			}
		}
	}
	k := 0
	if count[1] > count[0] {
		k = 1
	}
	// Half of the letters of a turned text look like no other, where it is turned with care.
	if count[k] < 3 || count[k]*8 < letters {
		return s
	}
	out := make([]byte, 0, 2*len(s)+1)
	for _, r := range s {
		out = utf8.AppendRune(out, turns[k].read(r))
	}
	n := len(out)
	out = append(append(out, '\n'), out...)
	reverse(out[n+1:])
	return view(out)
}

// turns are half a turn and a mirror.
var turns = [...]turnedLetters{
	newTurned("ɐǝɟƃɓᴉɾʞʃɯɹʇʌʍʎ˙ɥɔɘ⅂∀Ⅎ┴unpdbq,'6", "aefggijklmrtvwy.hceLAFTnudpqb',9"),
	newTurned("ɒɔɘʇꟻǫꞁʞɿƨƚʜbdpq", "aceffglkrsthdbqp"),
}

// Between these there is no turned letter, and most of the letters of the world.
const lowTurned, highTurned = 0x2e0, 0x1d00

// turnedLetters says what letters are when they are turned.
type turnedLetters struct {
	low  [lowTurned]rune
	high map[rune]rune
}

func newTurned(letters, are string) (t turnedLetters) {
	t.high = make(map[rune]rune)
	for _, r := range letters {
		to, size := utf8.DecodeRuneInString(are)
		are = are[size:]
		if r < lowTurned {
			t.low[r] = to
		} else {
			t.high[r] = to
		}
	}
	return t
}

// read returns what a letter is when it is turned.
func (t *turnedLetters) read(r rune) rune {
	var to rune
	if r < lowTurned {
		to = t.low[r]
	} else if r >= highTurned && r < 0xb000 {
		to = t.high[r]
	}
	if to == 0 {
		return r
	}
	return to
}
