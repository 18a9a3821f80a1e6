// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package language guesses in which language a comment is written: from its script, from letters that only some
// languages have and from the words that sentences are held together with.
//
// Comments are short and misspelt. A guess that needs long texts would take "lol ok" for Dutch, so English is what
// every text in Latin script is, until there is evidence for another language.
package language

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Undetermined is the tag (BCP 47) for a text without letters.
const Undetermined = "und"

const (
	// maxBytes is how much of a text is looked at: more does not change the guess.
	maxBytes = 2048
	// maxGuesses is how many languages are named.
	maxGuesses = 3
	// enough is the evidence, in words, that it takes to leave English.
	enough = 1.5
	// enoughOfFew is the same for texts of at most fewWords words.
	enoughOfFew = 1
	fewWords    = 4
)

// Detect returns the languages that a text may be written in, the likeliest first, as lower-case BCP 47 tags ("hi-Latn"
// for Hindi in Latin script). It always returns one at least: [Undetermined] for a text without letters.
func Detect(text string) []string {
	if len(text) > maxBytes {
		cut := maxBytes
		for !utf8.RuneStart(text[cut]) {
			cut--
		}
		text = text[:cut]
	}
	if strings.Contains(text, "@") || strings.Contains(text, "://") {
		text = withoutAddresses(text)
	}
	var seen [numScripts]int
	letters := 0
	for _, r := range text {
		if r < utf8.RuneSelf {
			if r|0x20 >= 'a' && r|0x20 <= 'z' {
				seen[latin]++
				letters++
			}
			continue
		}
		if unicode.IsLetter(r) {
			seen[scriptOf(r)]++
			letters++
		}
	}
	if letters == 0 {
		return []string{Undetermined}
	}
	// Names and addresses are written in Latin letters in every script, and one of these characters says what takes a
	// word there.
	best, most := latin, seen[latin]
	for script, count := range seen {
		if scripts[script].dense {
			count *= 3
		}
		if script != int(latin) && count*2 > most {
			best, most = scriptID(script), count*2
		}
	}
	switch best {
	case latin:
		return byWords(text)
	case han:
		// Chinese has no kana, and Japanese is not written without.
		if seen[kana] > 0 {
			return []string{"ja", "zh"}
		}
	case cyrillic, arabic:
		if tag := byLetter(best, text); tag != "" {
			return []string{tag, scripts[best].tag}
		}
	}
	return []string{scripts[best].tag}
}

// withoutAddresses leaves out names of users and addresses of pages: they are of no language.
func withoutAddresses(text string) string {
	var kept strings.Builder
	for field := range strings.FieldsSeq(text) {
		if field[0] != '@' && !strings.Contains(field, "://") {
			kept.WriteString(field)
			kept.WriteByte(' ')
		}
	}
	return kept.String()
}

// byLetter finds a language by letters that others in the same script do not have; empty when there are none.
func byLetter(script scriptID, text string) string {
	for _, own := range ownLetters {
		if own.script == script && strings.ContainsAny(text, own.letters) {
			return own.tag
		}
	}
	return ""
}

// byWords guesses the language of a text in Latin script.
func byWords(text string) []string {
	var found evidence
	var current word
	for i, r := range text {
		if r < utf8.RuneSelf {
			if lower := byte(r) | 0x20; lower >= 'a' && lower <= 'z' {
				current.addLetter(lower)
				continue
			}
			// An apostrophe is left out: "don't" is "dont".
			if text[i] == '\'' && current.letters > 0 {
				continue
			}
		} else if unicode.IsLetter(r) || unicode.Is(unicode.Mn, r) && current.letters > 0 {
			current.addMarked(unicode.ToLower(r))
			continue
		} else if r == '’' && current.letters > 0 {
			continue
		}
		if current.letters > 0 {
			found.add(&current)
			current = word{}
		}
	}
	if current.letters > 0 {
		found.add(&current)
	}
	return found.guesses()
}

// word is a word while it is read: its letters in lower case, without apostrophes.
type word struct {
	text    [24]byte
	length  int // of the text in bytes; more than fits when the word is longer than any that is known
	letters int
	marked  [8]rune // the first letters that are not plain Latin ones
	marks   int
}

func (w *word) addLetter(lower byte) {
	if w.length < len(w.text) {
		w.text[w.length] = lower
	}
	w.length++
	w.letters++
}

func (w *word) addMarked(r rune) {
	if size := utf8.RuneLen(r); w.length+size <= len(w.text) {
		utf8.EncodeRune(w.text[w.length:], r)
	}
	w.length += utf8.RuneLen(r)
	w.letters++
	if w.marks < len(w.marked) {
		w.marked[w.marks] = r
		w.marks++
	}
}

// evidence sums up what the words of a text say, in words for each language.
type evidence struct {
	sums  [len(latinTags)]float64
	words int
}

func (e *evidence) add(w *word) {
	e.words++
	// A plain letter alone stands for anything.
	if w.letters == 1 && w.marks == 0 {
		return
	}
	if w.length <= len(w.text) {
		if in := wordLanguages[string(w.text[:w.length])]; len(in) > 0 {
			for _, tag := range in {
				e.sums[tag] += 1 / float64(len(in))
			}
			return
		}
	}
	for _, mark := range w.marked[:w.marks] {
		in := markLanguages[mark]
		for _, tag := range in {
			e.sums[tag] += 0.75 / float64(len(in))
		}
	}
}

// guesses names the languages that there is enough evidence for, and English where there is not.
func (e *evidence) guesses() []string {
	need := float64(enough)
	if e.words <= fewWords {
		need = enoughOfFew
	}
	found := make([]int, 0, len(e.sums))
	for tag, sum := range e.sums {
		if tag == english || sum >= need {
			found = append(found, tag)
		}
	}
	// English stands first where nothing is likelier.
	slices.SortStableFunc(found, func(a, b int) int { return cmp.Compare(e.sums[b], e.sums[a]) })
	tags := make([]string, 0, maxGuesses)
	for _, tag := range found[:min(maxGuesses, len(found))] {
		if tag != english || e.sums[english] > 0 || len(found) == 1 {
			tags = append(tags, latinTags[tag])
		}
	}
	return tags
}
