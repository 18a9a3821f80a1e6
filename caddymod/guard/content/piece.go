// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
	"unsafe"
)

// Piece is one text and the place where it stands.
type Piece struct {
	// Name is the place: a JSON Pointer ("/comment", "/a/0/b"), the name of a form's field, "query:q",
	// "header:Subject", or "" for a whole body. "/a b#name" is the member's name "a b" itself. Names are cut after a
	// few hundred bytes.
	Name string
	// Text is the decoded text. It may share memory with the body that it was extracted from. In a body with
	// thousands of tiny texts, it may be several of them, joined by spaces.
	Text string
	// RichText says that the text joins the strings of a block of rich text, each of which is also a piece of its
	// own.
	RichText bool
	// Reading is 0 for the likeliest reading of the bytes. Other numbers are further readings of bytes that have been
	// read already: in another charset, by another parser, or as language among noise. They exist so that nothing is
	// hidden from a program that reads differently. Pieces with the same number belong together.
	//
	// RichText is a field of its own and not one more number, because it is independent of the reading: each reading
	// of a body may have rich text, its joined texts belong to that reading, and they count towards the length of a
	// text of the likeliest one. Where the difference does not matter, ask [Piece.Further].
	Reading uint8
	// UnknownCharset says that the charset of the text is not known, so that the text may be another one.
	UnknownCharset bool
	// Excess says that the body has more to read than was extracted, see [Ambiguity].
	Excess bool
}

// Further reports whether the piece repeats, read differently, what other pieces say. What only such a piece says
// counts only where it is to be rejected.
func (p *Piece) Further() bool { return p.RichText || p.Reading > 0 }

// alike reports whether two pieces may be joined.
func (p *Piece) alike(other *Piece) bool {
	return p.RichText == other.RichText && p.Reading == other.Reading && p.UnknownCharset == other.UnknownCharset &&
		p.Excess == other.Excess
}

// group returns a number that is the same for pieces that are alike.
func (p *Piece) group() int {
	group := int(p.Reading) << 2
	if p.RichText {
		group |= 1
	}
	if p.UnknownCharset {
		group |= 2
	}
	return group
}

// Numbers of the readings by other parsers. The readings in other charsets count from 1.
const (
	readingAsForm   = 8 + iota // as a form, what is something else
	readingAsText              // as plain text, what is markup
	readingExpanded            // with the entities of XML expanded
	readingExpandedLast
	readingUnfolded // as programs read that join lines, see [unfolded]
	readingNoise
)

// appendReading appends pieces as a further reading with this number, or as they are if the number is 0.
func appendReading(dst, found []Piece, reading int) []Piece {
	for _, p := range found {
		if reading > 0 {
			p.Reading = uint8(reading)
		}
		dst = appendPiece(dst, p)
	}
	return dst
}

// The maximum size of all further readings of a body: a multiple of the size of the body, plus a constant for small
// bodies. Honest UTF-16 text without a byte order mark takes three and a half times its size.
const (
	maxFurtherRatio = 4
	minFurtherSize  = 64 << 10
)

// Ambiguity adds up how much text the further readings of a body have. The zero value is ready to use.
type Ambiguity struct {
	furtherSize int
	excess      bool
}

// Add counts the next pieces of the body.
func (f *Ambiguity) Add(pieces []Piece) {
	for i := range pieces {
		if pieces[i].Reading > 0 {
			f.furtherSize += len(pieces[i].Text)
		}
		f.excess = f.excess || pieces[i].Excess
	}
}

// Excessive reports whether a body of this many bytes has so many further readings, or such long ones, that nobody
// honest has written it. Moderating all of them would keep the server busy, and leaving some out could let a text
// through.
func (f *Ambiguity) Excessive(bytes int) bool {
	return f.excess || f.furtherSize > maxFurtherRatio*bytes+minFurtherSize
}

// ByReading returns the pieces as different programs see them, for a caller that looks at several pieces together:
// first those of the likeliest reading, then, for each further reading, its pieces and those pieces of the likeliest
// reading that it has no replacement for. A further reading of a text must directly follow the text.
func ByReading(pieces []Piece) [][]Piece {
	var seen [256]bool
	several := false
	for i := range pieces {
		seen[pieces[i].Reading] = true
		several = several || pieces[i].Reading > 0 && !pieces[i].RichText
	}
	if !several {
		return [][]Piece{pieces}
	}
	var all [][]Piece
	for reading, is := range seen {
		if !is && reading > 0 {
			continue
		}
		var list []Piece
		for i := range pieces {
			switch number := int(pieces[i].Reading); {
			case pieces[i].RichText: // its texts are there one by one
			case number == reading:
				if reading > 0 && len(list) > 0 && list[len(list)-1].Reading == 0 &&
					list[len(list)-1].Name == pieces[i].Name {
					list = list[:len(list)-1] // this is what it says instead
				}
				list = append(list, pieces[i])
			case number == 0:
				list = append(list, pieces[i])
			}
		}
		all = append(all, list)
	}
	return all
}

// A body of many tiny texts would take many times its size in memory. When there are manyPieces, and whenever their
// number has doubled, neighbouring texts of the same reading are joined with spaces to texts of up to joinedSize
// bytes. Bodies that people write have far fewer texts.
const (
	manyPieces = 4096
	joinedSize = 1000
)

// appendPiece appends a piece, and joins short ones when there are too many.
func appendPiece(dst []Piece, p Piece) []Piece {
	if n := len(dst); n >= manyPieces && n&(n-1) == 0 {
		dst = joinPieces(dst)
	}
	return append(dst, p)
}

// joinPieces joins short pieces in place. A joined piece has the name of its first.
func joinPieces(pieces []Piece) []Piece {
	// Where each text has several readings, the pieces of one reading are not neighbours.
	if slices.ContainsFunc(pieces, func(p Piece) bool { return !p.alike(&pieces[0]) }) {
		slices.SortStableFunc(pieces, func(a, b Piece) int { return cmp.Compare(a.group(), b.group()) })
	}
	kept := 0
	for i := 0; i < len(pieces); {
		end, size := i+1, len(pieces[i].Text)
		for end < len(pieces) && size+len(pieces[end].Text) < joinedSize && pieces[end].alike(&pieces[i]) {
			size += 1 + len(pieces[end].Text)
			end++
		}
		p := pieces[i]
		if end > i+1 {
			text := append(make([]byte, 0, size), p.Text...)
			for _, next := range pieces[i+1 : end] {
				text = append(append(text, ' '), next.Text...)
			}
			p.Text = stringOf(text)
		}
		pieces[kept] = p
		kept++
		i = end
	}
	clear(pieces[kept:])
	return pieces[:kept]
}

// HasLetters reports whether a text has at least one letter. Texts without letters are not moderated.
func HasLetters(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c|0x20 >= 'a' && c|0x20 <= 'z' {
			return true
		}
		if c >= utf8.RuneSelf {
			return lettersBeyondASCII(s[i:])
		}
	}
	return false
}

// lettersBeyondASCII is the slow path of [HasLetters]. Emoji and other symbols carry meaning and count as letters,
// and so do invisible characters that may stand for letters (tags, variation selectors).
func lettersBeyondASCII(s string) bool {
	for _, r := range s {
		if unicode.IsLetter(r) || unicode.Is(unicode.So, r) || unicode.Is(unicode.Regional_Indicator, r) ||
			r >= 0xe0020 && r <= 0xe01ef {
			return true
		}
	}
	return false
}

// mayHaveText reports whether a text has letters, or escapes that may stand for letters.
func mayHaveText(s string) bool {
	return HasLetters(s) || strings.Contains(s, "&#") || strings.Count(s, "%") > 1
}

// stringOf returns bytes as a string that shares their memory.
func stringOf(b []byte) string {
	return unsafe.String(unsafe.SliceData(b), len(b))
}

// bytesOf returns the bytes of a string. They must not be changed.
func bytesOf(s string) []byte {
	return unsafe.Slice(unsafe.StringData(s), len(s))
}
