// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"bytes"
	"math/bits"

	"github.com/caddy-moderation/caddy-moderation/engine/text"
)

// vocabulary holds what is known of the commonest words, which make most of every text: it is worked out once, when a
// model is loaded, and never changes. The commonest words stand side by side, so that they stay in the processor's cache.
type vocabulary struct {
	words []known
	index []uint16 // by hash: where in words, plus one; 0 is free
	mask  uint64
}

// maxVocabulary is the largest number of words that is used of a weights file.
const maxVocabulary = 1<<16 - 1

// vocabularyReach is how far from its place in the index a word may stand. Words without room are left out.
const vocabularyReach = 8

func newVocabulary(size int) vocabulary {
	places := 1 << bits.Len(uint(2*size))
	return vocabulary{words: make([]known, 0, size), index: make([]uint16, places), mask: uint64(places - 1)}
}

// find returns the entry of a word with its hash, or nil.
func (v *vocabulary) find(word []byte, hash uint64) *known {
	if len(word) > cacheLetter || len(v.words) == 0 {
		return nil
	}
	for at := hash >> 20; at < hash>>20+vocabularyReach; at++ {
		n := v.index[at&v.mask]
		if n == 0 {
			return nil
		}
		if e := &v.words[n-1]; e.is(word) {
			return e
		}
	}
	return nil
}

// add adds a word, where there is room for it and it is not there yet.
func (v *vocabulary) add(word []byte, hash uint64, entry *known) {
	if v.find(word, hash) != nil || len(v.words) == cap(v.words) {
		return
	}
	for at := hash >> 20; at < hash>>20+vocabularyReach; at++ {
		if n := &v.index[at&v.mask]; *n == 0 {
			v.words = append(v.words, *entry)
			*n = uint16(len(v.words))
			return
		}
	}
}

// learn makes the vocabulary of the words of a weights file.
func (m *Model) learn(words [][]byte) {
	if len(words) == 0 {
		return
	}
	words = words[:min(len(words), maxVocabulary)]
	v := newVocabulary(len(words))
	s := m.newScratch()
	tokens := make([]text.Token, 1)
	for _, word := range words {
		if len(word) == 0 || len(word) > cacheLetter {
			continue
		}
		tokens[0] = text.Token{Raw: word, Folded: word}
		s.features.begin(tokens)
		found := s.features.read(0)
		m.letters(s, found, 0)
		v.add(word, s.features.words[0].hash, found)
	}
	m.vocabulary = v
}

// marshalWords lays words out, one after the other, each with a line feed behind it, and the number of bytes before them.
func marshalWords(words []string) []byte {
	var lines []byte
	for _, word := range words {
		lines = append(append(lines, word...), '\n')
	}
	return append(appendLength(nil, len(lines)), lines...)
}

// unmarshalWords returns the words and what follows them; ok is false where they are cut short.
func unmarshalWords(body []byte) (words [][]byte, rest []byte, ok bool) {
	n, body, ok := takeLength(body)
	if !ok || n > len(body) {
		return nil, nil, false
	}
	words = bytes.Split(body[:n], []byte{'\n'})
	return words[:len(words)-1], body[n:], true
}
