// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"
)

// longName is the length in bytes at which the name of a member or a field is text, whatever it is made of.
const longName = 48

// isText reports whether the name of a member or a field says something: developers write names in ASCII and without white
// space between their letters, and whatever else stands there may be somebody's words.
func isText(name string) bool {
	if len(name) >= longName {
		return HasLetters(name)
	}
	letter, gap := false, false
	for i := 0; i < len(name); i++ {
		c := name[i]
		switch {
		case isLetter(c):
			if gap {
				return true
			}
			letter = true
		case c <= ' ' || c == '+':
			gap = letter
		case c >= utf8.RuneSelf:
			return HasLetters(name)
		}
	}
	return false
}

// blob is the length in bytes at which a string without white space may be data and not language.
const blob = 256

// isIdentifier reports whether a text is a UUID or a time, which say nothing.
func isIdentifier(s string) bool {
	return len(s) <= 36 && (isDigit(s[0]) && isTime(s) || len(s) == 36 && isUUID(s))
}

// encodedRun returns the next run of encoded bytes in a text, from offset at on, and false where there is none. Spaces and
// all other characters than those of base64 end a run, and so does a line break that is not within long lines.
func encodedRun(s string, at int) (span, bool) {
	for at+blob <= len(s) {
		// Most texts have another character in the last few places where a run that begins here would not have ended yet.
		last := at + blob - 1
		for last >= at && classes[s[last]] != 0 {
			last--
		}
		if last >= at {
			at = last + 1
			continue
		}
		run := span{at, at + blob}
		for run.to < len(s) && classes[s[run.to]] != 0 {
			run.to++
		}
		at = run.to
		if run = inLongLines(s, run); run.to-run.from >= blob && isEncoded(s[run.from:run.to]) {
			return run, true
		}
	}
	return span{}, false
}

// inLongLines cuts short lines from both ends of a run: encoders fill lines, up to the last, and words stand in short ones.
func inLongLines(s string, run span) span {
	for {
		i := strings.IndexAny(s[run.from:run.to], "\r\n")
		if i < 0 || i >= longName {
			break
		}
		run.from += i + 1
	}
	for {
		i := strings.LastIndexAny(s[run.from:run.to], "\r\n")
		if i < 0 || run.to-run.from-i > longName {
			break
		}
		run.to = run.from + i
	}
	return run
}

// appendLong appends a long text without the runs of encoded bytes in it. Of these what may be language is read.
func appendLong(dst []Piece, name, text string) []Piece {
	run, found := encodedRun(text, 0)
	if !found {
		return add(dst, Piece{Name: name, Text: text})
	}
	var around []byte
	var hidden []Piece
	for at := 0; ; {
		if !found {
			run = span{len(text), len(text)}
		}
		if before := withoutDataURL(text[at:run.from], found); strings.TrimSpace(before) != "" {
			if around = append(around, before...); found && before == text[at:run.from] {
				around = append(around, text[run.from:run.from+blob/16]...) // a word may begin or end there
			}
			around = append(around, '\n')
		}
		if !found {
			break
		}
		if encoded := text[run.from:run.to]; !isHex(encoded) {
			hidden = appendNoise(hidden, name, bytesOf(encoded), false)
		}
		if at = run.to; strings.TrimSpace(text[at:]) != "" {
			around = append(around, text[run.to-blob/16:run.to]...)
		}
		run, found = encodedRun(text, at)
	}
	if around = bytes.TrimSpace(around); HasLetters(view(around)) {
		dst = add(dst, Piece{Name: name, Text: view(around)})
	}
	return again(dst, hidden, noise)
}

// withoutDataURL returns what stands before encoded bytes without the beginning of their data: URL, if it is one of those
// that everybody knows.
func withoutDataURL(before string, encoded bool) string {
	i := strings.LastIndex(before, "data:")
	if !encoded || i < 0 {
		return before
	}
	media, is := strings.CutSuffix(before[i+len("data:"):], ";base64,")
	if is && slices.Contains(dataTypes, strings.ToLower(media)) {
		return before[:i]
	}
	return before
}

// dataTypes are the media types of most data: URLs.
var dataTypes = []string{
	"image/png", "image/jpeg", "image/jpg", "image/gif", "image/webp", "image/avif", "image/heic", "image/bmp", "image/svg+xml",
	"image/x-icon", "audio/mpeg", "audio/mp3", "audio/wav", "audio/ogg", "audio/webm", "video/mp4", "video/webm", "application/pdf",
	"application/octet-stream", "application/zip", "font/woff2", "font/woff", "",
}

func cutPrefixFold(s, prefix string) (string, bool) {
	if len(s) < len(prefix) || !strings.EqualFold(s[:len(prefix)], prefix) {
		return s, false
	}
	return s[len(prefix):], true
}

// isTime reports whether a text is a date or a time as in RFC 3339.
func isTime(s string) bool {
	digits := 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case isDigit(c):
			digits++
		case c == '-' || c == ':' || c == '.' || c == '+' || c == 'T' || c == 'Z' || c == ' ':
		default:
			return false
		}
	}
	return digits >= 8
}

func isUUID(s string) bool {
	for i := 0; i < len(s); i++ {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if s[i] != '-' {
				return false
			}
			continue
		}
		if _, ok := hexValue(s[i]); !ok {
			return false
		}
	}
	return true
}

// isEncoded reports whether a long text is bytes in base64 or in hexadecimal, and neither a text in base64 nor words that are
// run together in camel case or with underscores: its letters are not those of a language. In English, two of
// five letters are vowels; in random base64 it is one of six (without the A, of which zeros are made), and nothing else has so
// many digits and changes of case.
func isEncoded(s string) bool {
	var digits, letters, vowels, changes int
	var last byte
	hex := true
	for i := 0; i < len(s); i++ {
		c := s[i]
		class := classes[c]
		switch class & classMask {
		case 0:
			return false
		case classDigit:
			digits++
		case classSmall, classCapital:
			letters++
			vowels += int(class >> 7)
			hex = hex && c|0x20 <= 'f'
		case classLine:
			continue
		default:
			hex = false
		}
		if class &= classMask; class != last {
			changes++
			last = class
		}
	}
	if hex {
		return digits*5 >= len(s)*2
	}
	if vowels*10 >= letters*3 {
		return false
	}
	return digits*20 >= len(s) && changes*9 >= len(s)*4 || isMedia(s)
}

// The classes of the characters of base64.
const (
	classDigit = 1 + iota
	classSmall
	classCapital
	classSymbol
	classLine
	classMask  = 0x7f
	classVowel = 0x80
)

var classes = func() (t [256]byte) {
	for c := '0'; c <= '9'; c++ {
		t[c] = classDigit
	}
	for c := 'a'; c <= 'z'; c++ {
		t[c], t[c-'a'+'A'] = classSmall, classCapital
	}
	for _, c := range "aeiouEIOU" {
		t[c] |= classVowel
	}
	for _, c := range "+/-_=" {
		t[c] = classSymbol
	}
	t['\r'], t['\n'] = classLine, classLine
	return t
}()

// isHex reports whether encoded bytes are in hexadecimal, in which there are no words.
func isHex(s string) bool {
	for i := 0; i < len(s); i++ {
		if _, ok := hexValue(s[i]); !ok {
			return false
		}
	}
	return true
}

// isMedia reports whether base64 begins like a picture, a sound, a film, a font or an archive.
func isMedia(s string) bool {
	var head [48]byte
	n, err := base64.StdEncoding.Decode(head[:], bytesOf(s[:64]))
	if err != nil {
		return false
	}
	media := http.DetectContentType(head[:n])
	return media != "application/octet-stream" && !strings.HasPrefix(media, "text/")
}
