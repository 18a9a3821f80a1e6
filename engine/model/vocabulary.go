// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"

	"github.com/caddy-moderation/caddy-moderation/engine/internal/kernel"
	"github.com/caddy-moderation/caddy-moderation/engine/text"
)

// vocabulary holds the entries of the commonest words, which make up most of every text. It is computed once, when a
// model is loaded, and never changes. The entries of the commonest words are neighbours in memory, so that they stay in
// the processor's cache.
type vocabulary struct {
	words []wordEntry // the first one is no word
	index []uint16    // by hash: the place in words; 0 is free
	mask  uint64
}

// wordEntry is all that a word is worth by itself, wherever it stands. It fills one line of the processor's cache.
type wordEntry struct {
	form uint64 // see word.form
	// sums are the sums of the weights of the features of the word's letters, and their number.
	sums   [lanes]int16
	word   [maxVocabularyWord]byte
	length uint8
	class  wordClass
}

const (
	// maxVocabulary is the maximum number of words in the vocabulary of English, and maxVocabularyWord their maximum
	// length in bytes. Other languages have fewer for the sake of memory: a server may have many.
	maxVocabulary      = 1 << 14
	maxOtherVocabulary = 1 << 12
	maxVocabularyWord  = 22
	// maxProbes is the maximum number of places in the index that are tried for a word. Words without room are left
	// out.
	maxProbes = 8
)

func newVocabulary(size int) vocabulary {
	places := 1 << bits.Len(uint(2*size))
	return vocabulary{words: make([]wordEntry, 1, size+1), index: make([]uint16, places), mask: uint64(places - 1)}
}

// is reports whether the entry is that of a word.
func (e *wordEntry) is(word []byte) bool {
	return int(e.length) == len(word) && string(e.word[:len(word)]) == string(word)
}

// find returns the entry of a word with its hash, or nil where the vocabulary lacks it.
func (v *vocabulary) find(word []byte, hash uint64) *wordEntry {
	if len(word) > maxVocabularyWord || len(v.words) == 0 {
		return nil
	}
	for at := hash >> 20; at < hash>>20+maxProbes; at++ {
		n := v.index[at&v.mask]
		if n == 0 {
			return nil
		}
		if e := &v.words[n]; e.is(word) {
			return e
		}
	}
	return nil
}

// prefetch has the processor load the entries of tokens.
func (v *vocabulary) prefetch(tokens []text.Token, places []uint32) {
	if len(v.words) == 0 {
		return
	}
	for i := range tokens {
		places[i] = uint32(v.index[tokens[i].Hash()>>20&v.mask])
	}
	kernel.Prefetch(v.words, places[:len(tokens)])
}

// add adds a word, unless it is there already or there is no room for it.
func (v *vocabulary) add(word []byte, hash uint64, entry wordEntry) {
	if v.find(word, hash) != nil || len(v.words) == cap(v.words) {
		return
	}
	for at := hash >> 20; at < hash>>20+maxProbes; at++ {
		if n := &v.index[at&v.mask]; *n == 0 {
			*n = uint16(len(v.words))
			v.words = append(v.words, entry)
			return
		}
	}
}

// makeVocabulary makes the vocabulary of the words of a weights file, the commonest first.
func (m *Model) makeVocabulary(words []text.Word) {
	if len(words) == 0 {
		return
	}
	most := maxVocabulary
	if m.header.Language != "" {
		most = maxOtherVocabulary
	}
	v := newVocabulary(min(len(words), most))
	s := m.newScratch()
	tokens := make([]text.Token, 1)
	for _, w := range words {
		if len(v.words) == cap(v.words) {
			break
		}
		if len(w.Folded) == 0 || len(w.Folded) > maxVocabularyWord {
			continue
		}
		word := []byte(w.Folded)
		tokens[0] = text.Token{Raw: word, Folded: word}
		f := &s.features
		f.Extract(tokens)
		hashes := f.Word(0)
		ends := [1]int32{int32(len(hashes))}
		var all [2]kernel.Sums
		s.found = m.table.lookup(s.found, hashes, ends[:])
		kernel.PrefixSums(all[:], s.own[:], m.table.rows, s.found, ends[:])
		all[1][featuresLane] = int32(len(hashes))
		entry := wordEntry{form: f.words[0].form, class: f.words[0].class, length: uint8(len(word))}
		for lane, sum := range all[1] {
			entry.sums[lane] = int16(sum) // of 255 bytes at most
		}
		copy(entry.word[:], word)
		v.add(word, f.words[0].hash, entry)
	}
	m.vocabulary = v
}

// sortWords puts the commonest words first.
func sortWords(words []text.Word) {
	slices.SortFunc(words, func(a, b text.Word) int {
		return cmp.Or(cmp.Compare(a.Cost, b.Cost), strings.Compare(a.Folded, b.Folded))
	})
}

// marshalWords encodes words in the order of their letters, after the number of bytes that follow: for each word the
// number of letters that it shares with the one before it and of its other letters, then all costs, then all letters.
func marshalWords(words []text.Word) []byte {
	words = slices.Clone(words)
	slices.SortFunc(words, func(a, b text.Word) int { return strings.Compare(a.Folded, b.Folded) })
	words = slices.CompactFunc(words, func(a, b text.Word) bool { return a.Folded == b.Folded })
	var shape, costs, letters []byte
	last := ""
	for _, w := range words {
		w.Folded = w.Folded[:min(len(w.Folded), 255)]
		shared := 0
		for shared < min(len(last), len(w.Folded)) && last[shared] == w.Folded[shared] {
			shared++
		}
		shape = append(shape, byte(shared), byte(len(w.Folded)-shared))
		costs = append(costs, w.Cost)
		letters = append(letters, w.Folded[shared:]...)
		last = w.Folded
	}
	body := slices.Concat(appendLength(nil, len(words)), shape, costs, letters)
	return append(appendLength(nil, len(body)), body...)
}

// unmarshalWords returns the words, the commonest first, and the rest of the body. ok is false where they are cut
// short.
func unmarshalWords(body []byte) (words []text.Word, rest []byte, ok bool) {
	size, body, ok := takeLength(body)
	if !ok || size > len(body) {
		return nil, nil, false
	}
	body, rest = body[:size], body[size:]
	n, body, ok := takeLength(body)
	if !ok || n > len(body)/3 {
		return nil, nil, false
	}
	shape, costs, letters := body[:2*n], body[2*n:3*n], body[3*n:]
	size, last := 0, 0 // of all words and of the last one
	for i := range n {
		shared, own := int(shape[2*i]), int(shape[2*i+1])
		if shared > last {
			return nil, nil, false
		}
		last = shared + own
		size += last
	}
	all := make([]byte, 0, size)
	for i, from := 0, 0; i < n; i++ {
		shared, own := int(shape[2*i]), int(shape[2*i+1])
		if own > len(letters) {
			return nil, nil, false
		}
		all = append(append(all, all[from:from+shared]...), letters[:own]...)
		from, letters = len(all)-shared-own, letters[own:]
	}
	words = make([]text.Word, n)
	rows := string(all) // one for all words: they are used to make the dictionary, and not kept
	for i := range words {
		length := int(shape[2*i]) + int(shape[2*i+1])
		words[i], rows = text.Word{Folded: rows[:length], Cost: costs[i]}, rows[length:]
	}
	sortWords(words)
	return words, rest, len(letters) == 0
}
