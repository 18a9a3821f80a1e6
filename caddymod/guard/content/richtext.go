// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// Editors keep a text as many strings: one for each bold stretch, one for each link, and, if the author likes, one
// for each letter. A person reads them as one. So they are also extracted as one ([Piece.RichText]), in addition to
// the strings themselves.
//
// No editor is known by name. The strings of a block are those in the objects of one array, in members that are named
// like texts. Types, identifiers and addresses beside them do not matter. An array within a block, such as the
// children of a link, continues the block. In an array of blocks, each block is separate.

// textBlock is a block of rich text: the strings in the objects of an array.
type textBlock struct {
	depth  int    // of the array
	member string // name of the members that hold the text
	text   []byte
	blockStats
	direct bool // there is text in the array itself, and not only in arrays within it
	levels int  // of arrays within it that continue the block
	inner  []innerBlock
}

// innerBlock is the part of a block in an array within it.
type innerBlock struct {
	place      string
	begin, end int
	blockStats
}

// blockStats counts the strings of a block.
type blockStats struct {
	pieces int
	seams  int // places where one string ends and another begins within a word
}

const (
	// maxWrappers is the maximum number of objects between a text, or an inner array, and the array that it belongs
	// to.
	maxWrappers = 3
	// Arrays that all have a single short string make one block: a link for each word.
	shortPiece = 24
	// Strings longer than this make sense by themselves, unless a word continues from one to another.
	longPiece = 64
	// richTextSize is the size, in bytes, from which a joined text may be cut at the end of a line.
	richTextSize = 600
)

// holdsText reports whether members of a name hold text to show.
func holdsText(name string) bool {
	switch len(name) {
	case 1:
		return strings.Contains("tsvcw_", strings.ToLower(name))
	case 3:
		return strings.EqualFold(name, "raw") || strings.EqualFold(name, "str")
	case 4:
		return strings.EqualFold(name, "text") || strings.EqualFold(name, "body") ||
			strings.EqualFold(name, "word") || strings.EqualFold(name, "html")
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

// addToBlock adds a string that may be a part of a block.
func (s *jsonScanner) addToBlock(text string) {
	f := s.top()
	if f == nil || !f.object || !holdsText(f.key) {
		return
	}
	array := s.arrayAround(s.depth - 1)
	if array < 0 || !s.wanted() || len(text) > longPiece && looksJSON(text) {
		return
	}
	b := s.blockOf(array, f.key)
	b.append(text, blockStats{pieces: 1})
	b.direct = true
}

// isNodeName reports whether a string is an editor's name of a bulleted list, in a member that holds the type of a
// block. By itself such a name sounds violent, and every text with a list has one.
func (s *jsonScanner) isNodeName(text string) bool {
	if len(text) < len("bullet") || len(text) > len("bulleted_list_item") ||
		text[0]|0x20 != 'b' && text[0]|0x20 != 'l' {
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

// arrayAround returns the depth of the array around a frame, -1 if there is none near.
func (s *jsonScanner) arrayAround(frame int) int {
	for i := frame - 1; i >= s.base && i >= frame-maxWrappers; i-- {
		if !s.frames[i].object {
			return i
		}
	}
	return -1
}

// blockOf returns the block of an array, which it begins if there is none.
func (s *jsonScanner) blockOf(array int, member string) *textBlock {
	for i := len(s.blocks) - 1; i >= 0 && s.blocks[i].depth >= array; i-- {
		if b := &s.blocks[i]; b.depth == array && b.member == member {
			return b
		}
	}
	s.blocks = append(s.blocks, textBlock{depth: array, member: member})
	return &s.blocks[len(s.blocks)-1]
}

// append adds a text to the block.
func (b *textBlock) append(text string, of blockStats) {
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
func (s *jsonScanner) endBlocks(depth int) {
	first := len(s.blocks)
	for first > 0 && s.blocks[first-1].depth >= depth {
		first--
	}
	ended := s.blocks[first:]
	s.blocks = s.blocks[:first]
	for _, b := range ended { // a copy: a block that it continues in may take its place
		s.endBlock(&b)
	}
}

func (s *jsonScanner) endBlock(b *textBlock) {
	if !b.direct && !b.isOneOfShort() {
		for i := range b.inner {
			if in := &b.inner[i]; in.worthJoining(in.end - in.begin) {
				s.addRichText(in.place, b.text[in.begin:in.end])
			}
		}
		return
	}
	array := s.arrayAround(b.depth)
	if array < 0 || b.levels > 1 || !b.direct {
		if b.worthJoining(len(b.text)) {
			s.addRichText(s.pointer(), b.text)
		}
		return
	}
	place := ""
	if b.pieces > 1 {
		place = s.pointer()
	}
	around := s.blockOf(array, b.member)
	begin := len(around.text)
	around.append(stringOf(b.text), b.blockStats)
	around.levels = max(around.levels, b.levels+1)
	around.inner = append(around.inner, innerBlock{place: place, begin: begin, end: len(around.text),
		blockStats: b.blockStats})
}

// isOneOfShort reports whether the inner blocks are short strings of one block.
func (b *textBlock) isOneOfShort() bool {
	return b.pieces > 1 && b.pieces == len(b.inner) && len(b.text) < shortPiece*b.pieces
}

// worthJoining reports whether the joined text says more than its strings do.
func (n *blockStats) worthJoining(size int) bool {
	return n.pieces > 1 && (n.seams > 0 || size < longPiece*n.pieces)
}

// addRichText appends the joined text of a block.
func (s *jsonScanner) addRichText(place string, text []byte) {
	for len(text) > 0 {
		end := len(text)
		if end > richTextSize {
			if cut := bytes.IndexByte(text[richTextSize:], '\n'); cut >= 0 {
				end = richTextSize + cut + 1
			}
		}
		if part := stringOf(text[:end]); mayHaveText(part) {
			s.dst = appendPiece(s.dst, Piece{Name: place, Text: part, RichText: true})
		}
		text = text[end:]
	}
}
