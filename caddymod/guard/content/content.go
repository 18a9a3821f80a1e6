// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package content reads the texts of an HTTP message: where they stand, and what a person would read there.
//
// It is written for messages of people who do not want their texts to be found. What a body says it is ([TypeOf]) is the
// first way to read it; what it looks like and what other programs may take it for are further ones, which take none away
// ([Piece.Reading]). Nothing that may be language is left out because a parser gives up:
//
//   - JSON is scanned by a parser that never fails. Whatever a lenient parser of an app may take for a value (comments,
//     single quotes, several values, broken nesting) is read; what stands outside of values is read as plain text;
//   - of a body that is a form and looks like JSON both readings are taken;
//   - all duplicates are read, names are compared in any case, and texts in another charset are decoded.
//
// The pieces that are found share memory with the body where nothing had to be decoded, so that an ordinary text is never
// copied.
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
	// Name is the place: a JSON Pointer ("/comment", "/a/0/b"), the name of a form's field, "query:q", "header:Subject",
	// or "" for a whole body. "/a b#name" is the member's name "a b" itself. Names are cut after a few hundred bytes.
	Name string
	// Text is what is there, decoded. It may share memory with the body that it was read from. Of a body with thousands of
	// tiny texts it may be several of them.
	Text string
	// RichText says that the text joins the strings of a block of rich text, each of which is a piece of its own, too.
	RichText bool
	// Reading is 0 for the likeliest reading of the bytes. Other numbers are further readings of bytes that have been read
	// already: in another charset, by another parser, or as language among noise. They exist so that nothing is hidden
	// from a program that reads differently. Pieces with the same number belong together.
	//
	// RichText is a field of its own and not one more number, because it is independent of the reading: each reading of a
	// body may have rich text, its joined texts belong to that reading, and they count towards the length of a text of the
	// likeliest one. Where the difference does not matter, ask [Piece.Further].
	Reading uint8
	// UnknownCharset says that the text is in a charset that is not known, and may be another than this.
	UnknownCharset bool
	// Excess says that the body says more than is read of it, see [Further].
	Excess bool
}

// Further reports whether the piece says once more, read differently, what other pieces say. What only such a piece says
// counts only where it is to be rejected.
func (p *Piece) Further() bool { return p.RichText || p.Reading > 0 }

// alike reports whether two texts may be taken together.
func (p *Piece) alike(other *Piece) bool {
	return p.RichText == other.RichText && p.Reading == other.Reading && p.UnknownCharset == other.UnknownCharset && p.Excess == other.Excess
}

// group is a number that alike pieces have in common.
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

// Readings of other parsers than the first, beside those of other charsets, which count from 1.
const (
	asPairs  = 8 + iota // as a form, what is something else
	asText              // as plain text, what is markup
	expanded            // with the entities of XML expanded
	expandedLast
	joinedLines // as programs read that join lines, see [unfolded]
	noise
)

// again appends the texts of a further reading.
func again(dst, found []Piece, reading int) []Piece {
	for _, p := range found {
		if reading > 0 {
			p.Reading = uint8(reading)
		}
		dst = add(dst, p)
	}
	return dst
}

// How long further readings of a body may be together: so many times as long as it, and a few more bytes. Honest text in UTF-16
// that does not say in which order its bytes are takes three and a half times its length.
const (
	maxFurther  = 4
	moreFurther = 64 << 10
)

// Ambiguity adds up how much a body says in further readings. The zero value has none.
type Ambiguity struct {
	size   int
	excess bool
}

// Add takes the texts that follow in the body.
func (f *Ambiguity) Add(pieces []Piece) {
	for i := range pieces {
		if pieces[i].Reading > 0 {
			f.size += len(pieces[i].Text)
		}
		f.excess = f.excess || pieces[i].Excess
	}
}

// Excessive reports whether a body of so many bytes can be read in so many ways, or to such lengths, that nobody honest has
// written it so: whoever judged them all would be kept busy, and whoever left some out could be deceived.
func (f *Ambiguity) Excessive(bytes int) bool {
	return f.excess || f.size > maxFurther*bytes+moreFurther
}

// ByReading returns the texts as each reader sees them, for those who look at several texts together: first what is read in
// the likeliest way, then, for each further reading, its texts and those of the likeliest that it has no other for. A further
// reading of a text must follow it.
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
				if reading > 0 && len(list) > 0 && list[len(list)-1].Reading == 0 && list[len(list)-1].Name == pieces[i].Name {
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

// A body of many tiny texts would take many times its size in memory. From manyPieces on, and whenever there are twice as
// many, texts that follow each other are joined, with spaces between them, to such of up to joined bytes, those of each reading by
// themselves. Bodies of people have far fewer.
const (
	manyPieces = 4096
	joined     = 1000
)

// add appends a piece.
func add(dst []Piece, p Piece) []Piece {
	if n := len(dst); n >= manyPieces && n&(n-1) == 0 {
		dst = join(dst)
	}
	return append(dst, p)
}

// join joins short pieces, in place. What they are joined to has the name of the first of them.
func join(pieces []Piece) []Piece {
	// Where each text has several readings, those of one reading do not stand side by side.
	if slices.ContainsFunc(pieces, func(p Piece) bool { return !p.alike(&pieces[0]) }) {
		slices.SortStableFunc(pieces, func(a, b Piece) int { return cmp.Compare(a.group(), b.group()) })
	}
	kept := 0
	for i := 0; i < len(pieces); {
		end, size := i+1, len(pieces[i].Text)
		for end < len(pieces) && size+len(pieces[end].Text) < joined && pieces[end].alike(&pieces[i]) {
			size += 1 + len(pieces[end].Text)
			end++
		}
		p := pieces[i]
		if end > i+1 {
			text := append(make([]byte, 0, size), p.Text...)
			for _, next := range pieces[i+1 : end] {
				text = append(append(text, ' '), next.Text...)
			}
			p.Text = view(text)
		}
		pieces[kept] = p
		kept++
		i = end
	}
	clear(pieces[kept:])
	return pieces[:kept]
}

// HasLetters reports whether a text has at least one letter. Texts without are not judged.
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

// lettersBeyondASCII is the slow path of [HasLetters]. Emoji and other symbols speak, too, and count, and so do characters that are
// not seen and may stand for letters (tags, variation selectors).
func lettersBeyondASCII(s string) bool {
	for _, r := range s {
		if unicode.IsLetter(r) || unicode.Is(unicode.So, r) || unicode.Is(unicode.Regional_Indicator, r) || r >= 0xe0020 && r <= 0xe01ef {
			return true
		}
	}
	return false
}

// mayRead reports whether a text is worth to be read: it has letters, or escapes that may be some.
func mayRead(s string) bool {
	return HasLetters(s) || strings.Contains(s, "&#") || strings.Count(s, "%") > 1
}

// view returns the bytes as a string that shares their memory.
func view(b []byte) string {
	return unsafe.String(unsafe.SliceData(b), len(b))
}

// bytesOf returns the bytes of a string, which must not be changed.
func bytesOf(s string) []byte {
	return unsafe.Slice(unsafe.StringData(s), len(s))
}
