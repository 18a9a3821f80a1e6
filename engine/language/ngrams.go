// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package language

import "unicode"

// script is the script of a letter, as far as it says something of the language.
type script uint8

const (
	noScript script = iota // no letter
	scriptLatin
	scriptCyrillic
	scriptArabic
	scriptDevanagari
	scriptHan
	firstAlone // the scripts from here on are of one language each, in the order of scriptTags
)

const numScripts = int(firstAlone) + 19 // length of scriptTags

// ranges are the code points of the scripts of one language, in the order of scriptTags.
var ranges = [][]rune{
	{0x370, 0x3FF, 0x1F00, 0x1FFF}, {0x590, 0x5FF}, {0x1100, 0x11FF, 0x3130, 0x318F, 0xAC00, 0xD7A3},
	{0x3041, 0x30FF, 0xFF66, 0xFF9F}, {0xE01, 0xE7F}, {0x531, 0x58F}, {0x10A0, 0x10FF}, {0xB80, 0xBFF}, {0xC00, 0xC7F},
	{0x980, 0x9FF}, {0xD00, 0xD7F}, {0xA80, 0xAFF}, {0xC80, 0xCFF}, {0xA00, 0xA7F}, {0x1780, 0x17FF}, {0x1000, 0x109F},
	{0xE80, 0xEFF}, {0xD80, 0xDFF}, {0x1200, 0x139F},
}

// letterTable says of each code point below tableSize its script, and the letter in lower case.
const tableSize = 0x3100

type letterInfo struct {
	lower  uint16
	script script
}

var letters = func() (t [tableSize]letterInfo) {
	for r := rune(0); r < tableSize; r++ {
		t[r] = letterInfo{lower: uint16(r), script: scriptOf(r)}
		if t[r].script != noScript {
			t[r].lower = uint16(unicode.ToLower(r))
		}
	}
	return t
}()

// scriptOf computes the script of a code point.
func scriptOf(r rune) script {
	switch {
	case r|0x20 >= 'a' && r|0x20 <= 'z':
		return scriptLatin
	case r < 0xAA:
		return noScript
	case r < 0x250 || r >= 0x1E00 && r < 0x1F00:
		if unicode.IsLetter(r) {
			return scriptLatin
		}
	case r >= 0x300 && r < 0x370:
		return scriptLatin // combining marks stay with their letter
	case r >= 0x400 && r < 0x530:
		return scriptCyrillic
	case r == 0x640:
		return noScript // the tatweel only stretches words
	case r >= 0x620 && r < 0x700 && (unicode.IsLetter(r) || unicode.IsMark(r)), r >= 0x750 && r < 0x780,
		r >= 0xFB50 && r < 0xFDFF, r >= 0xFE70 && r < 0xFEFD:
		return scriptArabic
	case r >= 0x900 && r < 0x964 || r > 0x970 && r < 0x980:
		return scriptDevanagari
	case r >= 0x3400 && r < 0xA000, r >= 0xF900 && r < 0xFB00, r >= 0x20000 && r < 0x32000:
		return scriptHan
	}
	for i, bounds := range ranges {
		for ; len(bounds) > 0; bounds = bounds[2:] {
			if r >= bounds[0] && r <= bounds[1] {
				return firstAlone + script(i)
			}
		}
	}
	return noScript
}

// letterOf returns the script of a code point and its lower case, in 16 bits.
func letterOf(r rune) (script, uint64) {
	if uint32(r) < tableSize {
		l := &letters[r]
		return l.script, uint64(l.lower)
	}
	switch {
	case r >= 0x4E00 && r < 0xA000 || r >= 0x3400 && r < 0x4DC0:
		return scriptHan, uint64(r)
	case r >= 0xAC00 && r < 0xD7A4:
		return firstAlone + 2, uint64(r)
	case r >= 0x3400:
		return scriptOf(r), uint64(r) & 0xffff
	}
	return noScript, 0
}

const (
	boundary = 1 // stands before and after a word
	mixer    = 0x9E3779B97F4A7C15
	ofWords  = 0xC2B2AE3D27D4EB4F
)

// ngrams makes the features of a text: the runs of two to four letters of its words, with a boundary before and after
// them, letters beyond ASCII by themselves, and whole words. They are hashes, of which the high bits choose a row.
type ngrams struct {
	last uint64 // the last four letters of the word, 16 bits each
	word uint64 // hash of the word so far
	size int    // letters of the word so far
}

// add appends the features that end with a letter.
func (n *ngrams) add(out []uint64, letter uint64) []uint64 {
	if n.size == 0 {
		n.last, n.word = boundary, ofWords
	}
	n.size++
	n.last = n.last<<16 | letter
	n.word = (n.word ^ letter) * mixer
	if letter >= 0x80 {
		out = append(out, letter*mixer)
	}
	return n.grams(out)
}

// grams appends the runs that end with the last letter.
func (n *ngrams) grams(out []uint64) []uint64 {
	out = append(out, (n.last&0xffff_ffff)*mixer)
	if n.last>>32 != 0 {
		out = append(out, (n.last&0xffff_ffff_ffff)*mixer)
		if n.last>>48 != 0 {
			out = append(out, n.last*mixer)
		}
	}
	return out
}

// end appends the features of the end of a word.
func (n *ngrams) end(out []uint64) []uint64 {
	if n.size == 0 {
		return out
	}
	n.last = n.last<<16 | boundary
	out = n.grams(out)
	if n.size > 1 {
		out = append(out, n.word*ofWords)
	}
	n.size = 0
	return out
}
