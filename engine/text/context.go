// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package text

// openQuote is a quotation mark that waits for its partner.
type openQuote struct {
	open  bool
	close rune
	from  int // index of the first token inside
}

// maxQuoted is the longest quotation in tokens. A mark whose partner does not come within it quotes nothing, so that
// one stray mark does not turn the rest of a text into a quotation.
const maxQuoted = 40

// reach is the number of tokens that a negator reaches over.
const reach = 3

// punctuation takes note of a code point between words: ends of sentences and quotation marks.
func (s *Scratch) punctuation(r rune, in *cursor) {
	switch r {
	case '.', ';', '…', '。', '\n', '\r', '\u2028', '\u2029':
		s.mark(SentenceEnd)
	case '!', '！':
		s.mark(SentenceEnd | Exclaimed)
	case '?', '？':
		s.mark(SentenceEnd | Asked)
	case '"', '“', '”', '„', '«', '»', '「', '」':
		s.quotation(r)
	case '\'', '‘', '’':
		// A single mark is a quotation mark only when it does not stand between letters.
		if r == '‘' || s.quote.open && (s.quote.close == '\'' || s.quote.close == '’') || !isLetter(in.last) && isLetter(in.peek(1)) {
			s.quotation(r)
		}
	}
}

func (s *Scratch) mark(f Flags) {
	if n := len(s.tokens); n > 0 {
		s.tokens[n-1].Flags |= f
	}
}

func (s *Scratch) quotation(r rune) {
	s.joinSingles()
	if s.quote.open && (r == s.quote.close || r == '"' || r == '”') {
		if len(s.tokens)-s.quote.from <= maxQuoted {
			for i := s.quote.from; i < len(s.tokens); i++ {
				s.tokens[i].Flags |= Quoted
			}
			s.quote.open = false
			return
		}
	}
	s.quote = openQuote{open: true, close: partner(r), from: len(s.tokens)}
}

func partner(r rune) rune {
	switch r {
	case '“', '„':
		return '”'
	case '«':
		return '»'
	case '「':
		return '」'
	case '‘':
		return '’'
	}
	return r
}

// negate flags the tokens that a negator reaches.
func (s *Scratch) negate() {
	left := 0
	for i := range s.tokens {
		t := &s.tokens[i]
		if left > 0 {
			t.Flags |= Negated
			left--
		}
		if isNegator(t.Folded) {
			left = reach
		}
		if t.Flags&SentenceEnd != 0 {
			left = 0
		}
	}
}

func isNegator(word []byte) bool {
	// All begin with n or end in t: most words are told by a look at two letters.
	if word[0] != 'n' && word[len(word)-1] != 't' {
		return false
	}
	switch string(word) {
	case "no", "not", "never", "nobody", "none", "nothing", "without", "cannot", "cant", "dont", "doesnt", "didnt",
		"isnt", "arent", "wasnt", "werent", "wont", "wouldnt", "shouldnt", "couldnt", "aint", "hasnt", "havent",
		"hadnt", "neither", "nor":
		return true
	}
	return false
}
