// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package text

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"unicode"
)

// Hazard: words that are looked at eight letters at once have other tokens than those at the end of a text, which are
// looked at letter by letter.
func TestShortWordsAreTheSameAtTheEndOfAText(t *testing.T) {
	t.Parallel()
	tokensOf := func(content string) (out []string) {
		var s Scratch
		for _, t := range s.Tokenize(content) {
			out = append(out, fmt.Sprintf("%s %s %d %d %b", t.Raw, t.Folded, t.Begin, t.End, t.Flags))
		}
		return out
	}
	compare := func(content string) {
		t.Helper()
		if got, want := tokensOf(content+"        "), tokensOf(content); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%q: got %q before more text, want %q", content, got, want)
		}
	}
	// Each byte where a letter may stand, and behind letters.
	for b := range 256 {
		for _, around := range [][2]string{{"", ""}, {"a", ""}, {"", "z"}, {"zoo", "ooA"}, {"@", "a"}, {"ZZZ", "ZZZ"}} {
			compare(around[0] + string([]byte{byte(b)}) + around[1])
		}
	}
	const letters = "aaaabbzzAAABZZ@[`{'.# \x00\x1a\x7f\x80\xc3\xa9\xff1"
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		var word []byte
		for range 1 + r.IntN(7) {
			word = append(word, letters[r.IntN(1+r.IntN(len(letters)))])
		}
		compare(string(word))
	}
}

// Hazard: the table of code points forgets bits of what is computed, or goroutines that fill it in disturb each other.
func TestPropertiesAreThoseThatAreComputed(t *testing.T) {
	t.Parallel()
	var wait sync.WaitGroup
	for range 2 {
		wait.Go(func() {
			for r := range rune(remembered + 0x100) {
				p := propertiesOf(r)
				class := asciiClass[r&0x7f]
				if r >= 0x80 {
					class = computeClass(r)
				}
				to, folding := computeFold(r)
				gotTo, gotFolding := p.fold()
				if p.class() != class || gotTo != to || gotFolding != folding || p.lower() != unicode.ToLower(r) ||
					p.isLetter() != unicode.IsLetter(r) || propertiesOf(r) != p {
					t.Errorf("%U: got class %d, %U as %d, lower case %U, letter %v; want %d, %U as %d, %U, %v",
						r, p.class(), gotTo, gotFolding, p.lower(), p.isLetter(),
						class, to, folding, unicode.ToLower(r), unicode.IsLetter(r))
				}
			}
		})
	}
	wait.Wait()
}

// Hazard: a masked word that is compared eight letters at once is another one than letter by letter, or the last words
// of the dictionary are read beyond its end.
func TestMaskedWordsAreComparedWhole(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	var words []Word
	for range 3000 {
		var w []byte
		for range 3 + r.IntN(maxWord-2) {
			w = append(w, "aez"[r.IntN(3)])
		}
		words = append(words, Word{Folded: string(w), Cost: uint8(r.IntN(200))})
	}
	d := NewDictionary(words)
	found := 0
	for range 3000 {
		pattern := []byte(words[r.IntN(len(words))].Folded)
		for i := 1; i < len(pattern); i++ {
			if r.IntN(3) == 0 {
				pattern[i] = '*'
			}
		}
		if r.IntN(4) == 0 {
			pattern[len(pattern)-1] = 'e'
		}
		var want []byte
		n := len(pattern)
		column := &d.columns[pattern[0]-'a']
		for at := int(column[n]); at < int(column[n+1]) && want == nil; at += n {
			if fits(pattern, string(d.letters[at:at+n])) {
				want = d.letters[at : at+n]
			}
		}
		comparisons := len(words)
		if got := d.unmask(pattern, &comparisons); !bytes.Equal(got, want) {
			t.Fatalf("%s: got %s, want %s", pattern, got, want)
		}
		if want != nil {
			found++
		}
	}
	if found < 1000 {
		t.Errorf("%d of 3,000 patterns fit a word, want most", found)
	}
}
