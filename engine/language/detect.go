// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package language finds out in which language a text is written. Scripts that one language is mostly written in decide
// at once. Languages that share a script are told apart by a hashed linear model over runs of two to four letters and
// whole words, with a softmax, which is trained by engine/train/cmd/language and embedded. It does not allocate.
package language

import (
	_ "embed"
	"math"
	"sync"
	"unicode/utf8"
)

// Guess is what the detector says of a text.
type Guess struct {
	// Tag is the BCP 47 tag of the language, one of [Tags], or [Undetermined].
	Tag string
	// Probability is from 0 to 1, and that of the language and its close relatives ([Related]) together. It is 0 for
	// [Undetermined].
	Probability float64
	// Likeliest is the language that is likeliest even where that is too little to name it, or [Undetermined] for a
	// text without letters. English is the likeliest language of single letters.
	Likeliest string
	// Chance is the probability of that, from 0 to 1.
	Chance float64
	// English is the probability, from 0 to 1, that the text is English.
	English float64
}

// Detector tells languages apart. It is immutable and safe for concurrent use.
type Detector struct {
	tables [numGroups]table
}

//go:embed languages.weights
var weights []byte

// Default returns the embedded detector. It is decoded once, on first use.
var Default = sync.OnceValues(func() (*Detector, error) { return decode(weights) })

const (
	// maxLetters is how many letters of a text are looked at: more do not change the guess.
	maxLetters = 600
	// sampled is about how many letters of these the features are made of, in words spread evenly over the text. Where
	// these leave doubt, with a probability below clear, they are made of all.
	sampled, clear = 112, 0.95
	// maxFeatures is an upper bound of the features of so many letters.
	maxFeatures = 4 * maxLetters
	// enough is the probability from which a language is named.
	enough = 0.5
	// fewLetters is the number of letters of a text in an alphabet up to which it takes more than enough.
	fewLetters, enoughOfFew = 8, 0.75
)

// scratch is the memory of one detection.
type scratch struct {
	counts   [numScripts]int
	odd      int // digits and symbols that stand among letters, as in disguises
	features [numGroups][]uint64
	logits   [maxLanes]float32
}

var pool = sync.Pool{New: func() any {
	s := new(scratch)
	for g := range s.features {
		s.features[g] = make([]uint64, 0, maxFeatures)
	}
	return s
}}

// Detect guesses the language of most letters of a text. Addresses of pages, names of users (@name), hashtags and
// e-mail addresses are of no language.
func (d *Detector) Detect(text string) Guess {
	s := pool.Get().(*scratch)
	defer pool.Put(s)
	s.read(text, maxLetters, sampled)
	guess := d.guess(s)
	if guess.Chance < clear && len(text) > sampled {
		s.read(text, maxLetters, maxLetters)
		guess = d.guess(s)
	}
	return guess
}

// groupOf returns the group of a script of many languages.
func groupOf(s script) group { return group(s - scriptLatin) }

// read counts up to most letters of a text by script, and makes the features of about so many of them.
func (s *scratch) read(text string, most, sampled int) {
	s.counts, s.odd = [numScripts]int{}, 0
	for g := range s.features {
		s.features[g] = s.features[g][:0]
	}
	var n ngrams
	var in script // of the word so far
	total := 0
	odd, lettersBefore := 0, 0 // of the run between two spaces, and letters before it
	length := min(len(text), most)
	kept, skip := 0, false // letters that features are made of, and whether none are of this word
	inWord := false
	for i := 0; i < len(text) && total < most; {
		r, size := rune(text[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRuneInString(text[i:])
		}
		sc, letter := letterOf(r)
		if sc == noScript {
			switch {
			case r >= utf8.RuneSelf:
			case isOdd[r]:
				odd++
			case r <= ' ':
				if total > lettersBefore {
					s.odd += odd
				}
				odd, lettersBefore = 0, total
			}
			if n.size > 0 && (r != '\'' && r != '’') {
				s.endWord(&n, in)
			}
			inWord, skip = false, kept*length > sampled*total
			if end := skipAddress(text, i); end > i {
				i = end
				continue
			}
			i += size
			continue
		}
		if sc != in && n.size > 0 {
			s.endWord(&n, in)
		}
		if !inWord {
			if end := skipURL(text, i); end > i {
				i = end
				continue
			}
			inWord = true
		}
		in = sc
		if skip && sc == scriptLatin {
			end := i + size
			for end < len(text) && text[end]|0x20 >= 'a' && text[end]|0x20 <= 'z' {
				end++
			}
			s.counts[sc] += 1 + end - i - size
			total += 1 + end - i - size
			i = end
			continue
		}
		s.counts[sc]++
		total++
		if sc < firstAlone && !skip {
			kept++
			g := groupOf(sc)
			s.features[g] = n.add(s.features[g], letter)
			if sc == scriptHan && n.size >= 4 {
				n.size = 1 // no words to end: the runs go on
			}
		}
		i += size
	}
	if n.size > 0 {
		s.endWord(&n, in)
	}
	if total > lettersBefore {
		s.odd += odd
	}
}

// isOdd holds the code points that scratch.odd counts.
var isOdd = func() (odd [utf8.RuneSelf]bool) {
	for _, c := range "0123456789|!@$+*#=<>{}[]/\\_" {
		odd[c] = true
	}
	return odd
}()

func (s *scratch) endWord(n *ngrams, in script) {
	if in < firstAlone {
		g := groupOf(in)
		s.features[g] = n.end(s.features[g])
	}
	n.size = 0
}

// skipAddress returns the end of a name of a user or a hashtag that begins at i, or i.
func skipAddress(text string, i int) int {
	if text[i] != '@' && text[i] != '#' {
		return i
	}
	end := i + 1
	for end < len(text) && (text[end] >= utf8.RuneSelf || text[end] == '_' || text[end] == '.' || isAlnum(text[end])) {
		end++
	}
	return end
}

func isAlnum(b byte) bool { return b|0x20 >= 'a' && b|0x20 <= 'z' || b >= '0' && b <= '9' }

// skipURL returns the end of the address of a page that begins at i, or i.
func skipURL(text string, i int) int {
	if text[i] != 'h' && text[i] != 'w' {
		return i
	}
	rest := text[i:]
	if !hasPrefix(rest, "http://") && !hasPrefix(rest, "https://") && !hasPrefix(rest, "www.") {
		return i
	}
	end := i
	for end < len(text) && text[end] > ' ' {
		end++
	}
	return end
}

func hasPrefix(s, prefix string) bool { return len(s) >= len(prefix) && s[:len(prefix)] == prefix }

// dense scripts say in one letter what takes others several.
func letterWeight(s script) int {
	switch s {
	case scriptHan, firstAlone + 2, firstAlone + 3:
		return 3
	}
	return 1
}

// guess decides.
func (d *Detector) guess(s *scratch) Guess {
	main, most, total := noScript, 0, 0
	for sc := scriptLatin; int(sc) < numScripts; sc++ {
		n := s.counts[sc] * letterWeight(sc)
		total += n
		// Names and borrowed words are written in Latin letters everywhere.
		if sc != scriptLatin {
			n *= 2
		}
		if n > most {
			main, most = sc, n
		}
	}
	// Words that are full of digits and symbols are in no language, whatever the letters between them say.
	if main == noScript || 2*s.odd > total {
		return Guess{Tag: Undetermined, Likeliest: Undetermined}
	}
	kana := firstAlone + 3
	if main == scriptHan && s.counts[kana] > 0 || main == kana {
		// Chinese has no kana.
		return named("ja", 0.99)
	}
	if main >= firstAlone {
		return named(scriptTags[main-firstAlone], 0.99)
	}
	g := groupOf(main)
	best, p, english := d.tables[g].classify(s.features[g], g, &s.logits)
	if best < 0 {
		return Guess{Tag: Undetermined, Likeliest: Undetermined}
	}
	guess := Guess{Tag: groupTags[g][best], Probability: p, Likeliest: groupTags[g][best], Chance: p, English: english}
	wanted := enough
	if g != han && s.counts[main] <= fewLetters {
		wanted = enoughOfFew
	}
	if p < wanted || g != han && s.counts[main] < 3 {
		guess.Tag, guess.Probability = Undetermined, 0
	}
	return guess
}

func named(tag string, p float64) Guess {
	return Guess{Tag: tag, Probability: p, Likeliest: tag, Chance: p}
}

// relatives holds, for each group and lane, the lanes of close relatives.
var relatives = func() (out [numGroups][][]int) {
	for g, tags := range groupTags {
		out[g] = make([][]int, len(tags))
		for i := range tags {
			for j := range tags {
				if i != j && Related(tags[i], tags[j]) {
					out[g][i] = append(out[g][i], j)
				}
			}
		}
	}
	return out
}()

// classify returns the likeliest lane, the probability of it and its relatives, and that of English.
func (t *table) classify(features []uint64, g group, logits *[maxLanes]float32) (best int, p, english float64) {
	if len(features) == 0 || t.lanes == 0 {
		return -1, 0, 0
	}
	n := len(groupTags[g])
	t.logits(features, logits)
	best = 0
	for i := range n {
		if logits[i] > logits[best] {
			best = i
		}
	}
	var sum float64
	largest := logits[best]
	for i := range n {
		e := math.Exp(float64(logits[i] - largest))
		logits[i] = float32(e)
		sum += e
	}
	p = float64(logits[best])
	for _, r := range relatives[g][best] {
		p += float64(logits[r])
	}
	if g == latin {
		english = float64(logits[0]) / sum
	}
	return best, p / sum, english
}
