// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"bytes"
	"slices"
	"unicode"
	"unicode/utf8"
)

// Words can hide among bytes that are no text: behind a picture's first bytes, in a stored block of a compressed body, run
// together within base64. No share of odd bytes says that there are none, so that what may be language is looked for
// where it stands: by how much likelier each letter is behind the one before it in a language than in noise.

// evidence is how much speaks for a stretch of noise to be language, in quarters of a bit. Of a megabyte of random base64 about
// a hundred stretches of some letters have as much; "kill yourself" has more.
const evidence = 48

// What else speaks for and against language, in quarters of a bit.
const (
	sameCase   = 4  // a letter of the same case as the one right before it
	otherCase  = -4 // a letter of the other case
	otherChar  = 14 // a letter beyond ASCII, in valid UTF-8
	oddByte    = -1 // a byte that is no character of text
	letGo      = 40 // how far a stretch may fall behind its best before it ends
	cleanRun   = 20 // this many characters of text in a row are no chance in binary data
	margin     = 3  // bytes around a stretch that are read with it: more would hide words that are run together
	wideMargin = 8  // the same in binary data, where bytes that are left out stand between them
	maxStretch = 400
)

// pairs is how much likelier a letter is behind another in English than in noise, by the letters that texts of the training
// corpus are made of: 4 * log2(share / share in base64), plus 20, plus '0'.
const pairs = "" +
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

// letters are the letters that a byte stands for: itself, or one that looks like it. 0 is none.
var letters = func() (t [256]byte) {
	for c := byte('a'); c <= 'z'; c++ {
		t[c], t[c-'a'+'A'] = c, c
	}
	for i, c := range []byte("013457" + "89") {
		t[c] = "oieastbg"[i]
	}
	return t
}()

// span is a stretch of bytes.
type span struct{ from, to int }

// stretch is the likeliest stretch of language so far, as one way to count the evidence has it.
type stretch struct {
	sum, best int
	span
}

// step adds evidence for the bytes from i to end, and reports whether the stretch may end before them.
func (s *stretch) step(score, i, end int) bool {
	if s.sum == 0 {
		s.from = i
	}
	if s.sum += score; s.sum > s.best {
		s.best, s.to = s.sum, end
		return false
	}
	return s.sum <= 0 || s.sum <= s.best-letGo
}

// finder finds stretches of language. Two ways to count the evidence find them: one heeds the case of letters, which hardly
// changes within words, and one does not, because it may change on purpose.
type finder struct {
	size, margin  int // of all bytes, and of what is read around a stretch
	found         []span
	cased, folded stretch
}

// ended takes note of a stretch that may have ended.
func (f *finder) ended(s *stretch) {
	switch {
	case s.best >= evidence:
		f.keep(s.span)
	case s.sum > 0:
		return
	}
	s.sum, s.best = 0, 0
}

// keep adds a stretch to those found, with what is around it.
func (f *finder) keep(s span) {
	from, to := max(0, s.from-f.margin), min(f.size, s.to+f.margin)
	for n := len(f.found); n > 0 && f.found[n-1].to >= from; n-- {
		from, to = min(from, f.found[n-1].from), max(to, f.found[n-1].to)
		f.found = f.found[:n-1]
	}
	f.found = append(f.found, span{from, to})
}

// language returns the stretches of b that may be language, in order and apart from each other. In binary data what is text
// for a while may be, in base64 all is.
func language(b []byte, binary bool) []span {
	f := finder{size: len(b), margin: margin}
	if binary {
		f.margin = wideMargin
	}
	last, lastClass, lastAt := -1, byte(0), -2
	clean, begin, speaks := 0, 0, false
	for i := 0; i < len(b); {
		c, size := b[i], 1
		fold, cased, text := 0, 0, true
		if letter := letters[c]; letter != 0 {
			now, class := int(letter-'a'), classes[c]&classMask
			if last >= 0 {
				fold = int(pairs[last*26+now]) - '0' - 20
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
				fold, cased = otherChar, otherChar
				speaks, last = true, -1
			}
		} else {
			text = c >= ' ' && c != 0x7f || c == '\t' || c == '\r' || c == '\n'
		}
		if !text {
			fold, cased = oddByte, oddByte
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
			if binary && clean >= cleanRun && speaks {
				f.keep(span{begin, i})
			}
			clean, speaks = 0, false
		}
		i += size
	}
	if binary && clean >= cleanRun && speaks {
		f.keep(span{begin, len(b)})
	}
	f.ended(&f.folded)
	f.ended(&f.cased)
	return f.found
}

// appendNoise appends what may be language in bytes that are no text.
func appendNoise(dst []Piece, name string, b []byte, binary bool) []Piece {
	var text []byte
	flush := func() {
		if len(text) > 0 {
			dst = add(dst, Piece{Name: name, Text: view(text), Reading: noise})
		}
		text = nil
	}
	for _, s := range language(b, binary) {
		// Without the bytes that break words, and with them where they may be letters of another charset.
		part := bytes.Map(func(r rune) rune {
			if r == utf8.RuneError || unicode.IsControl(r) && r != '\n' && r != '\t' {
				return -1
			}
			return r
		}, b[s.from:s.to])
		if !HasLetters(view(part)) {
			continue
		}
		if !binary && len(part) > 2*margin {
			// Base64 has no spaces. Once more without what is around it: words that are run together are found when they end where others do.
			part = bytes.ReplaceAll(part, []byte("+"), []byte(" "))
			part = slices.Concat(part, []byte("\n"), part[margin:len(part)-margin])
		}
		if len(text)+len(part) > maxStretch {
			flush()
		}
		if len(text) > 0 {
			text = append(text, '\n')
		}
		text = append(text, part...)
	}
	flush()
	return dst
}

// mostlyText reports whether what stands where a text may stand, among bytes that are none, is one itself.
func mostlyText(b []byte) bool {
	good, speaks := 0, 0
	for i := 0; i < len(b); {
		size := textSize(b[i:])
		if size > 0 {
			good += size
			if isLetter(b[i]) || size > 1 {
				speaks++
			}
		}
		i += max(size, 1)
	}
	return speaks >= 3 && good*10 >= len(b)*7
}

// readMixed appends what may be text in a body of no known type that does not look like one: strings of JSON and the
// values of forms, and wherever else there is language. All of it is noise for the judge, who rejects or does not mind.
func (s *Selection) readMixed(dst []Piece, t Type, body []byte) []Piece {
	var found versions
	decodings(&found, t.charsets(), body)
	for _, reading := range found.all() {
		if textual(reading) && isWritten(reading) {
			dst = again(dst, everything.readAs(nil, Text, t, reading), noise)
		}
	}
	if dense := bytes.ReplaceAll(body, []byte{0}, nil); len(dense) < len(body) {
		if textual(dense) {
			dst = again(dst, everything.readAs(nil, Text, t, repair(dense)), noise)
		}
		dst = appendNoise(dst, "", dense, true)
	}
	dst = appendNoise(dst, "", body, true)
	if bytes.IndexByte(body, '"') >= 0 {
		in := scanner{sel: &everything, dst: dst, src: body, noisy: true}
		in.scan()
		dst = in.dst
	}
	if bytes.IndexByte(body, '=') >= 0 {
		for pair := range bytes.SplitSeq(body, []byte("&")) {
			name, value, _ := bytes.Cut(pair, []byte("="))
			for _, part := range [][]byte{name, value} {
				dst = appendMaybe(dst, "", unescapeQuery(view(part)))
			}
		}
	}
	return dst
}

// appendMaybe appends the text of a place where one may stand, among bytes that are none.
func appendMaybe(dst []Piece, name, text string) []Piece {
	if len(text) < 3 {
		return dst
	}
	if !mostlyText(bytesOf(text)) {
		if len(text) >= cleanRun {
			dst = appendNoise(dst, name, bytesOf(text), true)
		}
		return dst
	}
	versions := readings(nil, bytesOf(text))
	for _, reading := range versions.all() {
		dst = again(dst, appendText(nil, name, view(reading)), noise)
	}
	return dst
}

// isWritten reports whether a text that was decoded by a guess may have been written: its characters are such as are shown.
func isWritten(b []byte) bool {
	b = b[:min(len(b), 4*sniffed)]
	odd, all := 0, 0
	for _, r := range view(b) {
		all++
		if r == utf8.RuneError || !unicode.IsPrint(r) && !unicode.IsSpace(r) {
			odd++
		}
	}
	return odd*8 <= all
}

// ExtractEncoded appends what may be text in a body as it was sent, under a Content-Encoding: an app that does not look at
// that reads the bytes as what their type says. In honest bodies there is nothing of that kind.
func (s *Selection) ExtractEncoded(dst []Piece, t Type, body []byte) []Piece {
	if textual(body) {
		return again(dst, s.Extract(nil, t, body), noise)
	}
	return s.readMixed(dst, t, body)
}
