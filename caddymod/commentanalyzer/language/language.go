// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package language guesses in which language a comment is written: from its script, from letters that only some languages
// have and from the words that sentences are held together with.
//
// Comments are short and misspelt. A guess that needs long texts would take "lol ok" for Dutch, so English is what every
// text in Latin script is, until there is evidence for another language.
package language

import (
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
	// Names and addresses are written in Latin letters in every script, and one of these characters says what takes a word there.
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
	var evidence [len(latinTags)]float64
	words := 0
	for rest := text; rest != ""; {
		word, marks, after := nextWord(rest)
		rest = after
		if word == "" {
			continue
		}
		words++
		// Letters stand alone for anything.
		if len(word) == 1 {
			continue
		}
		found := wordLanguages[word]
		for _, tag := range found {
			evidence[tag] += 1 / float64(len(found))
		}
		if len(found) > 0 {
			continue
		}
		for _, mark := range marks {
			of := markLanguages[mark]
			for _, tag := range of {
				evidence[tag] += 0.75 / float64(len(of))
			}
		}
	}
	need := float64(enough)
	if words <= fewWords {
		need = enoughOfFew
	}
	guesses := make([]int, 0, len(evidence))
	for tag, sum := range evidence {
		if tag == english || sum >= need {
			guesses = append(guesses, tag)
		}
	}
	slices.SortStableFunc(guesses, func(a, b int) int {
		switch {
		case evidence[a] > evidence[b]:
			return -1
		case evidence[a] < evidence[b]:
			return 1
		}
		return 0 // English stands first
	})
	tags := make([]string, 0, maxGuesses)
	for _, guess := range guesses[:min(maxGuesses, len(guesses))] {
		if guess != english || evidence[english] > 0 || len(guesses) == 1 {
			tags = append(tags, latinTags[guess])
		}
	}
	return tags
}

// nextWord cuts the next word off a text: its letters in lower case, without apostrophes, and those of them that are not
// plain Latin ones.
func nextWord(text string) (word string, marks []rune, rest string) {
	begin := strings.IndexFunc(text, unicode.IsLetter)
	if begin < 0 {
		return "", nil, ""
	}
	text = text[begin:]
	end := strings.IndexFunc(text, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.Is(unicode.Mn, r) && r != '\'' && r != '’'
	})
	if end < 0 {
		end = len(text)
	}
	word = strings.ToLower(text[:end])
	if strings.ContainsAny(word, "'’") {
		word = strings.NewReplacer("'", "", "’", "").Replace(word)
	}
	for _, r := range word {
		if r >= utf8.RuneSelf {
			marks = append(marks, r)
		}
	}
	return word, marks, text[end:]
}
