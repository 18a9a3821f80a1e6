// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// Editors keep a text as many strings: one for each stretch of bold, for each link, and, where somebody likes, for each
// letter. A person reads them as one, without anything between. They are read so, too: as a view ([Piece.View]) of texts that
// are pieces by themselves already.
//
// No editor is known by name. The strings of a block are those that stand in the objects of one array, in members of a name
// that texts have; types, identifiers and addresses beside them do not matter. An array within a block, such as the children
// of a link, goes on in it. The blocks of an array of blocks are apart.

// passage is a block of rich text: the texts of the objects of an array.
type passage struct {
	depth  int    // of the array
	member string // name of the members that hold the text
	text   []byte
	stretches
	direct bool // there is text in the array itself, and not only in arrays within it
	levels int  // of arrays within it that go on in it
	inner  []innerPassage
}

// innerPassage is the part of a passage that stands in an array within it.
type innerPassage struct {
	place      string
	begin, end int
	stretches
}

// stretches count what a text is made of.
type stretches struct {
	pieces int
	seams  int // places where a piece ends and another begins within a word
}

const (
	// farthest is how many objects may stand around a text, or an inner array, in the array that it is a part of.
	farthest = 3
	// Blocks of only such arrays as have one short piece each are one block: a link for each word.
	shortPiece = 24
	// Longer pieces than this are read well by themselves, unless a word goes on from one to another.
	longPiece = 64
	// viewSize is where a view may be cut, at the end of a line.
	viewSize = 600
)

// holdsText reports whether members of a name hold what is shown.
func holdsText(name string) bool {
	switch len(name) {
	case 1:
		return strings.Contains("tsvcw_", strings.ToLower(name))
	case 3:
		return strings.EqualFold(name, "raw") || strings.EqualFold(name, "str")
	case 4:
		return strings.EqualFold(name, "text") || strings.EqualFold(name, "body") || strings.EqualFold(name, "word") || strings.EqualFold(name, "html")
	case 5:
		return strings.EqualFold(name, "value") || strings.EqualFold(name, "#text") || strings.EqualFold(name, "chars")
	case 6:
		return strings.EqualFold(name, "insert") || strings.EqualFold(name, "string")
	case 7:
		return strings.EqualFold(name, "content") || strings.EqualFold(name, "literal")
	case 8:
		return strings.EqualFold(name, "markdown")
	case 9:
		return strings.EqualFold(name, "plainText")
	case 10:
		return strings.EqualFold(name, "plain_text") || strings.EqualFold(name, "characters")
	}
	return false
}

// stretch takes note of a string that may be a part of a block.
func (s *scanner) stretch(text string) {
	f := s.top()
	if f == nil || !f.object || !holdsText(f.key) {
		return
	}
	array := s.arrayAround(s.depth - 1)
	if array < 0 || !s.wanted() || len(text) > longPiece && looksJSON(text) {
		return
	}
	b := s.blockOf(array, f.key)
	b.append(text, stretches{pieces: 1})
	b.direct = true
}

// isNodeName reports whether a string is the name that editors have for a list with bullets, in the member that says what a block
// is. By itself such a name sounds violent, and it is in every text with a list.
func (s *scanner) isNodeName(text string) bool {
	if len(text) < len("bullet") || len(text) > len("bulleted_list_item") || text[0]|0x20 != 'b' && text[0]|0x20 != 'l' {
		return false
	}
	f := s.top()
	if f == nil || !f.object {
		return false
	}
	switch f.key {
	case "type", "_type", "nodeType", "kind", "list", "listItem", "listType", "list_type", "style":
	default:
		return false
	}
	switch strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(text)) {
	case "bullet", "bulletlist", "bulletlistitem", "bulletedlist", "bulletedlistitem", "listbullet":
		return true
	}
	return false
}

// arrayAround returns the depth of the array around a frame, -1 where there is none near.
func (s *scanner) arrayAround(frame int) int {
	for i := frame - 1; i >= s.base && i >= frame-farthest; i-- {
		if !s.frames[i].object {
			return i
		}
	}
	return -1
}

// blockOf returns the block of an array.
func (s *scanner) blockOf(array int, member string) *passage {
	for i := len(s.blocks) - 1; i >= 0 && s.blocks[i].depth >= array; i-- {
		if b := &s.blocks[i]; b.depth == array && b.member == member {
			return b
		}
	}
	s.blocks = append(s.blocks, passage{depth: array, member: member})
	return &s.blocks[len(s.blocks)-1]
}

// append adds a text.
func (b *passage) append(text string, of stretches) {
	if len(b.text) > 0 && text != "" {
		last, _ := utf8.DecodeLastRune(b.text)
		first, _ := utf8.DecodeRuneInString(text)
		if inWord(last) && inWord(first) {
			b.seams++
		}
	}
	b.text = append(b.text, text...)
	b.pieces += of.pieces
	b.seams += of.seams
}

func inWord(r rune) bool { return r >= utf8.RuneSelf || isLetter(byte(r)) }

// endBlocks ends the blocks of the arrays from a depth on.
func (s *scanner) endBlocks(depth int) {
	first := len(s.blocks)
	for first > 0 && s.blocks[first-1].depth >= depth {
		first--
	}
	ended := s.blocks[first:]
	s.blocks = s.blocks[:first]
	for _, b := range ended { // a copy: where it goes on in another, that takes its place
		s.endBlock(&b)
	}
}

func (s *scanner) endBlock(b *passage) {
	if !b.direct && !b.isOneOfShort() {
		for i := range b.inner {
			if in := &b.inner[i]; in.worth(in.end - in.begin) {
				s.addView(in.place, b.text[in.begin:in.end])
			}
		}
		return
	}
	array := s.arrayAround(b.depth)
	if array < 0 || b.levels > 1 || !b.direct {
		if b.worth(len(b.text)) {
			s.addView(s.pointer(), b.text)
		}
		return
	}
	place := ""
	if b.pieces > 1 {
		place = s.pointer()
	}
	around := s.blockOf(array, b.member)
	begin := len(around.text)
	around.append(view(b.text), b.stretches)
	around.levels = max(around.levels, b.levels+1)
	around.inner = append(around.inner, innerPassage{place: place, begin: begin, end: len(around.text), stretches: b.stretches})
}

// isOneOfShort reports whether the inner blocks are short pieces of one block.
func (b *passage) isOneOfShort() bool {
	return b.pieces > 1 && b.pieces == len(b.inner) && len(b.text) < shortPiece*b.pieces
}

// worth reports whether a text says more than its pieces do.
func (n *stretches) worth(size int) bool {
	return n.pieces > 1 && (n.seams > 0 || size < longPiece*n.pieces)
}

// addView appends a view of what stands in pieces.
func (s *scanner) addView(place string, text []byte) {
	for len(text) > 0 {
		end := len(text)
		if end > viewSize {
			if cut := bytes.IndexByte(text[viewSize:], '\n'); cut >= 0 {
				end = viewSize + cut + 1
			}
		}
		if part := view(text[:end]); mayRead(part) {
			s.dst = add(s.dst, Piece{Name: place, Text: part, RichText: true})
		}
		text = text[end:]
	}
}
