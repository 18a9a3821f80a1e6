// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"strings"
	"unicode/utf8"
)

// readableGlyphs returns a text with letters in place of invisible characters and Braille. What was invisible stands
// at the end.
func readableGlyphs(s string) string {
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
		// Emoji have single ones.
		if len(run) > 2 && utf8.ValidString(run) && HasLetters(run) {
			out = append(append(out, '\n'), run...)
		}
	}
	return stringOf(out)
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

// brailleLetter returns the character of English Braille, '?' if there is none.
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

// upright returns a text with turned letters (upside down or mirrored) replaced, in both orders of its letters.
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
			if turns[k].upright(r) != r {
				count[k]++
			}
		}
	}
	k := 0
	if count[1] > count[0] {
		k = 1
	}
	// In a carefully turned text, half of the letters can be no other letters.
	if count[k] < 3 || count[k]*8 < letters {
		return s
	}
	out := make([]byte, 0, 2*len(s)+1)
	for _, r := range s {
		out = utf8.AppendRune(out, turns[k].upright(r))
	}
	n := len(out)
	out = append(append(out, '\n'), out...)
	reverse(out[n+1:])
	return stringOf(out)
}

// turns are the two ways of turning letters: upside down, and mirrored.
var turns = [...]turnedLetters{
	newTurned("ɐǝɟƃɓᴉɾʞʃɯɹʇʌʍʎ˙ɥɔɘ⅂∀Ⅎ┴unpdbq,'6", "aefggijklmrtvwy.hceLAFTnudpqb',9"),
	newTurned("ɒɔɘʇꟻǫꞁʞɿƨƚʜbdpq", "aceffglkrsthdbqp"),
}

// There are no turned letters between these, but most of the world's scripts.
const lowTurned, highTurned = 0x2e0, 0x1d00

// turnedLetters maps turned letters to the letters that they stand for.
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

// upright returns the letter that a turned letter stands for.
func (t *turnedLetters) upright(r rune) rune {
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
