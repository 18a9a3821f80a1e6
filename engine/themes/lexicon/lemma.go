// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package lexicon

import "bytes"

// maxWord is the maximum length in bytes of a word whose inflection is undone. Longer ones are not English words.
const maxWord = 40

// detachments undo regular English inflection. They are tried in order, and a result counts only if it is a known word.
// This prevents over-stemming: "his" does not become "hi", nor "thing" "th".
var detachments = [...]struct{ ending, with string }{
	{"ies", "y"}, {"ied", "y"}, {"ier", "y"}, {"iest", "y"}, {"ying", "ie"},
	{"ves", "f"}, {"ves", "fe"},
	{"men", "man"},
	{"s", ""}, {"es", ""},
	{"ed", "e"}, {"ed", ""}, {"ing", "e"}, {"ing", ""},
}

// comparisons undo comparatives and superlatives. They are tried on unknown words only, because most words in -er are
// nouns of their own.
var comparisons = [...]struct{ ending, with string }{{"er", ""}, {"er", "e"}, {"est", ""}, {"est", "e"}}

// Bases appends to dst the terms that a word may be a form of: first the word itself if it is known, then the words it
// is an inflection of. "shooting" is "shooting" and "shoot", "leaves" is "leave" and "leaf". The word is in lower case.
func (l *Lexicon) Bases(word []byte, dst []Term) []Term {
	n := len(dst)
	if t, ok := l.Find(word); ok {
		dst = append(dst, t)
	}
	if len(word) < 3 || len(word) > maxWord || IsStop(word) {
		return dst
	}
	known := len(dst) > n
	if known && len(word) <= 4 && word[len(word)-1] == 's' {
		return dst // "gas" and "bus" are not plurals
	}
	var buf [maxWord + 2]byte
	try := func(stem []byte, with string) bool {
		if len(stem)+len(with) < 2 {
			return false
		}
		candidate := append(append(buf[:0], stem...), with...)
		t, ok := l.Find(candidate)
		if !ok {
			return false
		}
		for _, have := range dst[n:] {
			if have == t {
				return true
			}
		}
		dst = append(dst, t)
		return true
	}
	if base, ok := irregular[string(word)]; ok {
		try([]byte(base), "")
		return dst
	}
	undo := func(ending, with string) {
		if !bytes.HasSuffix(word, []byte(ending)) || ending == "s" && bytes.HasSuffix(word, []byte("ss")) {
			return
		}
		stem := word[:len(word)-len(ending)]
		if !hasVowel(stem) && with != "ie" {
			return
		}
		// "stopped" is a form of "stop": undo the doubling unless the doubled form is a word.
		if with == "" && ending != "s" && ending != "es" && doubled(stem) {
			if !try(stem, "") {
				try(stem[:len(stem)-1], "")
			}
			return
		}
		try(stem, with)
	}
	for _, d := range detachments {
		if len(dst)-n >= 3 {
			return dst
		}
		undo(d.ending, d.with)
	}
	if !known && len(dst) == n {
		for _, d := range comparisons {
			undo(d.ending, d.with)
		}
	}
	return dst
}

// UnknownKey returns a key for a word that the lexicon does not know. Its regular inflections have the same key
// ("deepfake", "deepfakes", "deepfaked"). A key never equals a [Term].
func UnknownKey(word []byte) uint64 {
	for _, ending := range [...]string{"ing", "ed", "es", "s"} {
		if len(word) < len(ending)+5 || !bytes.HasSuffix(word, []byte(ending)) {
			continue
		}
		if ending != "s" || word[len(word)-2] != 's' {
			word = word[:len(word)-len(ending)]
			break
		}
	}
	if len(word) >= 6 && word[len(word)-1] == 'e' {
		word = word[:len(word)-1]
	}
	return hash(word) | 1<<63
}

func hasVowel(b []byte) bool { return bytes.ContainsAny(b, "aeiouy") }

// doubled reports whether a stem ends in a doubled letter that may stand for a single one.
func doubled(b []byte) bool {
	n := len(b)
	return n >= 3 && b[n-1] == b[n-2] && b[n-1] != 's' && b[n-1] != 'e' && b[n-1] != 'o'
}
