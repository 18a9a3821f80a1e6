// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"unicode"
	"unicode/utf8"
)

// Words can hide in binary data: behind the first bytes of an image, in a stored block of a compressed body, run
// together within base64. No proportion of odd bytes rules them out. So language is found where it stands, by its
// bigrams: how much likelier each letter is behind the one before it in language than in noise.
//
// Package multipart has a filter of its own for parts that may be files (its file printable.go). The two are not one,
// because they answer different questions. That one keeps everything printable of a part whose bytes an app may show,
// whatever the language, and runs over uploads of any size. This one finds English in a body of no known type. Put in
// the place of the other, it takes five to eight times as long for each byte of noise, and finds five times as much
// in an image as is acceptable there (TestMemoryDoesNotGrow).

// minEvidence is how much evidence makes a stretch of noise language, in quarters of a bit. In a megabyte of random
// base64, about a hundred stretches of a few letters have as much. "kill yourself" has more.
const minEvidence = 48

// Other evidence for and against language, in quarters of a bit.
const (
	sameCase    = 4  // a letter of the same case as the one right before it
	otherCase   = -4 // a letter of the other case
	beyondASCII = 14 // a letter beyond ASCII, in valid UTF-8
	nonText     = -1 // a byte that is not text
	maxDrop     = 40 // a stretch ends when it falls this far behind its best
	minCleanRun = 20 // this many characters of text in a row are no accident in binary data
	margin      = 3  // bytes around a stretch that are kept: more would hide words that are run together
	wideMargin  = 8  // the same in binary data, where some of the bytes are dropped
	maxStretch  = 400
)

// bigrams is how much likelier a letter follows another in English than in noise, by the letters of the training
// corpus: 4 * log2(frequency / frequency in base64), plus 20, plus '0'.
const bigrams = "" +
	"5AEF0@@;C4BIEO1B0JGI@B?1F3" +
	"J;52M306E00I32L00I=8I060F0" +
	"K0>0I00NB0KF01K10F9DC010;0" +
	"I@?BHA=DJ58BDCI?0EFHA7C0F0" +
	"H@DICB=AB5<FDIAC1LHF9BD<C0" +
	"H9;7GG5>J02D>6M;0J=IE0<0B0" +
	"I>=<JA>LG16C@AJ>0HCEE0@0@0" +
	"K867Q619I007;7I60A:D@080=0" +
	"?8FGBBB<01AHFP?>0EIJ1C@905" +
	"J000J001A09400M10:30S05000" +
	"F<;<O@7@L07@?HB=0<GD>0A0A0" +
	"I==HKA6<I0@M?;H=0;BB@8>0G0" +
	"KA;:N<:<G23:B>HD0;AAC1=0L0" +
	"E:CNI>I>E5@???G;08DK>6?0B0" +
	">>@D;F<<?1AEHMDD0KBGM@G3<0" +
	"J8;:K;3DG03L;7HF0IBDF0=0>0" +
	"<4600602700402400502T64000" +
	"H=AEL?<?H2@@BCH?0AGFA<A0F0" +
	"I?C?HA;IG4@CBBGC5<EKB3D0=0" +
	"F=@=G>8QG15??<H;0CEE@1D0A0" +
	"A>DCA<D;A09IDK6F0NIJ47>0=0" +
	"B000T000I00000C20000000080" +
	"L67;K71MK00<;FI60B?>60>0<0" +
	"G;F;G>7AI07=B;@K08?NE2C9E0" +
	"FCDCEC>CE6<CDAMC2AHF;9F0=0" +
	"I8<;O95?J06A:<H50698D4<0JH"

// letterOf maps a byte to the letter that it is or looks like, 0 if there is none.
var letterOf = func() (t [256]byte) {
	for c := byte('a'); c <= 'z'; c++ {
		t[c], t[c-'a'+'A'] = c, c
	}
	for i, c := range []byte("013457" + "89") {
		t[c] = "oieastbg"[i]
	}
	return t
}()

// byteRange is a range of bytes, the end exclusive.
type byteRange struct{ from, to int }

// candidate is the likeliest stretch of language so far, by one way of counting the evidence.
type candidate struct {
	sum, best int
	byteRange
}

// step adds evidence for the bytes from i to end, and reports whether the stretch may have ended before them.
func (s *candidate) step(score, i, end int) bool {
	if s.sum == 0 {
		s.from = i
	}
	if s.sum += score; s.sum > s.best {
		s.best, s.to = s.sum, end
		return false
	}
	return s.sum <= 0 || s.sum <= s.best-maxDrop
}

// languageFinder finds stretches of language. It counts the evidence in two ways: one heeds the case of letters,
// which rarely changes within a word, and one ignores it, because it may be changed on purpose.
type languageFinder struct {
	size, margin  int // of all bytes, and of what is kept around a stretch
	found         []byteRange
	cased, folded candidate
}

// ended keeps a candidate with enough evidence, and begins a new one.
func (f *languageFinder) ended(s *candidate) {
	switch {
	case s.best >= minEvidence:
		f.keep(s.byteRange)
	case s.sum > 0:
		return
	}
	s.sum, s.best = 0, 0
}

// keep adds a stretch, with the bytes around it, to those found.
func (f *languageFinder) keep(s byteRange) {
	from, to := max(0, s.from-f.margin), min(f.size, s.to+f.margin)
	for n := len(f.found); n > 0 && f.found[n-1].to >= from; n-- {
		from, to = min(from, f.found[n-1].from), max(to, f.found[n-1].to)
		f.found = f.found[:n-1]
	}
	f.found = append(f.found, byteRange{from, to})
}

// findLanguage returns the stretches of b that may be language, in order and without overlaps. In binary data, a run
// of printable characters is enough; in base64, all characters are printable.
func findLanguage(b []byte, binary bool) []byteRange {
	f := languageFinder{size: len(b), margin: margin}
	if binary {
		f.margin = wideMargin
	}
	last, lastClass, lastAt := -1, byte(0), -2
	clean, begin, speaks := 0, 0, false
	for i := 0; i < len(b); {
		c, size := b[i], 1
		fold, cased, text := 0, 0, true
		if letter := letterOf[c]; letter != 0 {
			now, class := int(letter-'a'), classes[c]&classMask
			if last >= 0 {
				fold = int(bigrams[last*26+now]) - '0' - 20
				cased = fold
				switch {
				case lastAt != i-1:
				case class == lastClass && class != classDigit:
					cased += sameCase
				default:
					cased += otherCase
				}
			}
			last, lastClass, lastAt = now, class, i
			speaks = speaks || c > '9'
		} else if c >= utf8.RuneSelf {
			var r rune
			r, size = utf8.DecodeRune(b[i:])
			if text = r != utf8.RuneError && unicode.IsPrint(r); text && unicode.IsLetter(r) {
				fold, cased = beyondASCII, beyondASCII
				speaks, last = true, -1
			}
		} else {
			text = c >= ' ' && c != 0x7f || c == '\t' || c == '\r' || c == '\n'
		}
		if !text {
			fold, cased = nonText, nonText
		}
		if (f.folded.sum != 0 || fold > 0) && f.folded.step(fold, i, i+size) {
			f.ended(&f.folded)
		}
		if (f.cased.sum != 0 || cased > 0) && f.cased.step(cased, i, i+size) {
			f.ended(&f.cased)
		}
		switch {
		case text && clean == 0:
			begin, clean = i, 1
		case text:
			clean++
		default:
			if binary && clean >= minCleanRun && speaks {
				f.keep(byteRange{begin, i})
			}
			clean, speaks = 0, false
		}
		i += size
	}
	if binary && clean >= minCleanRun && speaks {
		f.keep(byteRange{begin, len(b)})
	}
	f.ended(&f.folded)
	f.ended(&f.cased)
	return f.found
}
