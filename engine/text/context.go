// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package text

// openQuote is the last opening quotation mark.
type openQuote struct {
	open  bool
	close rune // the mark that closes it
	from  int  // index of the first token inside
}

// maxQuoted is the maximum length of a quotation in tokens. A mark that is not closed within it quotes nothing, so that
// one stray mark does not turn the rest of a text into a quotation.
const maxQuoted = 40

// negatedTokens is the number of tokens after a negator that it negates.
const negatedTokens = 3

// punctuation handles a code point between words: ends of sentences and quotation marks.
func (s *Scratch) punctuation(r rune, in *cursor) {
	switch r {
	case '.', ';', '…', '。', '\n', '\r', '\u2028', '\u2029':
		s.flagLast(SentenceEnd)
	case '!', '！':
		s.flagLast(SentenceEnd | Exclaimed)
	case '?', '？':
		s.flagLast(SentenceEnd | Asked)
	case '"', '“', '”', '„', '«', '»', '「', '」':
		s.quotation(r)
	case '\'', '‘', '’':
		// A single mark is a quotation mark only when it does not stand between letters.
		closes := s.quote.open && (s.quote.close == '\'' || s.quote.close == '’')
		if r == '‘' || closes || !isLetter(in.last) && isLetter(in.peek(1)) {
			s.quotation(r)
		}
	}
}

// flagLast adds a flag to the last token.
func (s *Scratch) flagLast(f Flags) {
	if n := len(s.tokens); n > 0 {
		s.tokens[n-1].Flags |= f
	}
}

// quotation handles a quotation mark: it closes the open quotation or opens another.
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

// partner returns the mark that closes a quotation that r opens.
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

// negate flags the tokens that a negator negates.
func (s *Scratch) negate() {
	left := 0
	for i := range s.tokens {
		t := &s.tokens[i]
		if left > 0 {
			t.Flags |= Negated
			left--
		}
		if s.negates(t.Folded) {
			left = negatedTokens
		}
		if t.Flags&SentenceEnd != 0 {
			left = 0
		}
	}
}

// negates reports whether a word negates those after it, in the language of the dictionary.
func (s *Scratch) negates(word []byte) bool {
	if s.dictionary == nil || s.dictionary.negators == nil {
		return isNegator(word)
	}
	_, ok := s.dictionary.negators[string(word)]
	return ok
}

func isNegator(word []byte) bool {
	// All of them begin with n or end in t, which rules out most words at once.
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
