// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"bytes"
	"math/bits"

	"github.com/caddy-moderation/caddy-moderation/engine/text"
)

// vocabulary holds what is known of the commonest words, which make most of every text: it is worked out once, when a
// model is loaded, and never changes.
type vocabulary struct {
	entries []known // open addressing; an entry of length 0 is free
	mask    uint64
}

// vocabularyReach is how far from its place a word may stand. Words without room are left out.
const vocabularyReach = 8

// find returns the entry of a word with its hash, or nil.
func (v *vocabulary) find(word []byte, hash uint64) *known {
	if len(word) > cacheLetter || v.entries == nil {
		return nil
	}
	at := hash >> 20
	for i := range uint64(vocabularyReach) {
		e := &v.entries[(at+i)&v.mask]
		if e.is(word) {
			return e
		}
		if e.length == 0 {
			return nil
		}
	}
	return nil
}

// place returns the free entry that a word goes to, or nil.
func (v *vocabulary) place(hash uint64) *known {
	at := hash >> 20
	for i := range uint64(vocabularyReach) {
		if e := &v.entries[(at+i)&v.mask]; e.length == 0 {
			return e
		}
	}
	return nil
}

// learn makes the vocabulary of the words of a weights file.
func (m *Model) learn(words [][]byte) {
	if len(words) == 0 {
		return
	}
	size := 1 << bits.Len(uint(2*len(words)))
	v := vocabulary{entries: make([]known, size), mask: uint64(size - 1)}
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
		if e := v.place(s.features.words[0].hash); e != nil && v.find(word, s.features.words[0].hash) == nil {
			*e = *found
		}
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
