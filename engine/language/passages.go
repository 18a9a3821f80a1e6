// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package language

import (
	"strings"
	"unicode/utf8"
)

// Passage is a part of a text in one language.
type Passage struct {
	Guess
	// Begin and End are its place in bytes; End is exclusive.
	Begin, End int
}

const (
	// minPassage is how many bytes a part of a text must have to be guessed at by itself. Shorter sentences are taken
	// together with the next ones.
	minPassage = 24
	// passageLetters is how many letters of it are looked at.
	passageLetters = 80
	// maxPassage is the length in bytes at which a sentence is cut.
	maxPassage = 240
)

// AppendPassages appends the passages of a text, which together are all of it. Neighbours in one language are one
// passage, and so are sentences whose language cannot be known with those before them.
func (d *Detector) AppendPassages(out []Passage, text string) []Passage {
	s := pool.Get().(*scratch)
	defer pool.Put(s)
	first := len(out)
	for begin := 0; begin < len(text); {
		end := begin + sentence(text[begin:])
		p := Passage{Guess: clearlyEnglish, Begin: begin, End: end}
		if !BeginsEnglish(text[begin:end]) {
			s.read(text[begin:end], passageLetters, passageLetters)
			p.Guess = d.guess(s)
		}
		begin = end
		if n := len(out); n > first {
			last := &out[n-1]
			if p.Tag == last.Tag || p.Tag == Undetermined {
				last.End = p.End
				continue
			}
			if last.Tag == Undetermined {
				p.Begin = last.Begin
				out[n-1] = p
				continue
			}
		}
		out = append(out, p)
	}
	return out
}

// clearlyEnglish is the guess for what [BeginsEnglish].
var clearlyEnglish = Guess{Tag: "en", Probability: 0.99, Likeliest: "en", Chance: 0.99, English: 0.99}

// sentence returns the length in bytes of the sentences at the beginning of a text that are guessed at together.
func sentence(text string) int {
	for i := 0; i < len(text); {
		r, size := rune(text[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRuneInString(text[i:])
		}
		i += size
		switch r {
		case '.', '!', '?', ';', ':':
			if i >= minPassage && (i == len(text) || text[i] <= ' ') {
				return i
			}
		case '\n', '。', '！', '？', '…', '।', '؟':
			if i >= minPassage {
				return i
			}
		case ' ', ',':
			if i >= maxPassage {
				return i
			}
		default:
			if i >= maxPassage+maxWord {
				return i
			}
		}
	}
	return len(text)
}

// maxWord is the length in bytes of a word that is not cut.
const maxWord = 120

// BeginsEnglish reports whether the first words of a text are so clearly English that there is nothing to guess: among
// the first twelve are at least two that only English has, and they are a quarter of them. It costs a tenth of
// [Detector.Detect].
func BeginsEnglish(text string) bool {
	words, hits := 0, 0
	var word uint64
	n := 0
	for i := 0; i <= len(text); i++ {
		b := byte(' ')
		if i < len(text) {
			b = text[i]
		}
		if b >= utf8.RuneSelf {
			return false
		}
		if lower := b | 0x20; lower >= 'a' && lower <= 'z' {
			word = word<<8 | uint64(lower)
			n++
			continue
		}
		if b == '\'' {
			continue
		}
		if n == 0 {
			continue
		}
		words++
		if n < 8 {
			if _, ok := englishWords[word]; ok {
				hits++
			}
		}
		word, n = 0, 0
		if words == 12 {
			break
		}
	}
	return hits >= 2 && 4*hits >= words
}

// englishWords are common words of English that no other language of [Tags] has, packed into numbers.
var englishWords = func() map[uint64]struct{} {
	set := map[uint64]struct{}{}
	for w := range strings.FieldsSeq(`the and you is that it of with are this have not your they what from just like would there their
		about which when who been has had were how because should could don im its youre dont cant doesnt
		didnt isnt wasnt thats ive my we she his her our them than then some very really good know think
		people want going get got make need never always every only much many more most other after before
		back where why here out up over into them these those did does being thank thanks please any if by`) {
		var word uint64
		for i := range len(w) {
			word = word<<8 | uint64(w[i])
		}
		set[word] = struct{}{}
	}
	return set
}()
