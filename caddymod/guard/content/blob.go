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

// longNameSize is the length, in bytes, from which the name of a member or field is text, whatever its characters.
const longNameSize = 48

// nameSpeaks reports whether the name of a member or field may be a message. Developers name things in ASCII, without
// white space between letters; any other name may be somebody's words.
func nameSpeaks(name string) bool {
	if len(name) >= longNameSize {
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

// minBlob is the length, in bytes, from which a string without white space may be data and not language.
const minBlob = 256

// isIdentifier reports whether a text is a UUID or a time, which carry no meaning.
func isIdentifier(s string) bool {
	return len(s) <= 36 && (isDigit(s[0]) && isTime(s) || len(s) == 36 && isUUID(s))
}

// findBlob returns the next run of encoded bytes in a text from the offset on, and false if there is none. A run ends
// at a space or any other character outside of base64, and at a line break unless it is among long lines.
func findBlob(s string, at int) (byteRange, bool) {
	for at+minBlob <= len(s) {
		// In most texts, one of the last bytes of a possible run is not base64, and the search can skip to it.
		last := at + minBlob - 1
		for last >= at && classes[s[last]] != 0 {
			last--
		}
		if last >= at {
			at = last + 1
			continue
		}
		run := byteRange{at, at + minBlob}
		for run.to < len(s) && classes[s[run.to]] != 0 {
			run.to++
		}
		at = run.to
		if run = inLongLines(s, run); run.to-run.from >= minBlob && isBlob(s[run.from:run.to]) {
			return run, true
		}
	}
	return byteRange{}, false
}

// inLongLines cuts short lines from both ends of a run: encoders fill their lines, and words stand in short ones.
func inLongLines(s string, run byteRange) byteRange {
	for {
		i := strings.IndexAny(s[run.from:run.to], "\r\n")
		if i < 0 || i >= longNameSize {
			break
		}
		run.from += i + 1
	}
	for {
		i := strings.LastIndexAny(s[run.from:run.to], "\r\n")
		if i < 0 || run.to-run.from-i > longNameSize {
			break
		}
		run.to = run.from + i
	}
	return run
}

// appendLong appends a long text without its runs of encoded bytes, and what may be language in those.
func appendLong(dst []Piece, name, text string) []Piece {
	run, found := findBlob(text, 0)
	if !found {
		return appendPiece(dst, Piece{Name: name, Text: text})
	}
	var around []byte
	var hidden []Piece
	for at := 0; ; {
		if !found {
			run = byteRange{len(text), len(text)}
		}
		if before := withoutDataURL(text[at:run.from], found); strings.TrimSpace(before) != "" {
			if around = append(around, before...); found && before == text[at:run.from] {
				around = append(around, text[run.from:run.from+minBlob/16]...) // a word may begin or end there
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
			around = append(around, text[run.to-minBlob/16:run.to]...)
		}
		run, found = findBlob(text, at)
	}
	if around = bytes.TrimSpace(around); HasLetters(stringOf(around)) {
		dst = appendPiece(dst, Piece{Name: name, Text: stringOf(around)})
	}
	return appendReading(dst, hidden, readingNoise)
}

// withoutDataURL returns the text before encoded bytes without the prefix of their data: URL, if its type is a common
// one.
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
	"image/png", "image/jpeg", "image/jpg", "image/gif", "image/webp", "image/avif", "image/heic", "image/bmp",
	"image/svg+xml",
	"image/x-icon", "audio/mpeg", "audio/mp3", "audio/wav", "audio/ogg", "audio/webm", "video/mp4", "video/webm",
	"application/pdf",
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

// isBlob reports whether a long text is bytes in base64 or hexadecimal, and not text in base64 or words that are run
// together in camel case or with underscores. Its letters are not those of a language: in English, two of five
// letters are vowels; in random base64, one of six (without the A, of which zeros are made), and nothing else has so
// many digits and changes of case.
func isBlob(s string) bool {
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

// isHex reports whether encoded bytes are in hexadecimal, which spells no words.
func isHex(s string) bool {
	for i := 0; i < len(s); i++ {
		if _, ok := hexValue(s[i]); !ok {
			return false
		}
	}
	return true
}

// isMedia reports whether base64 begins like an image, a sound, a video, a font or an archive.
func isMedia(s string) bool {
	var head [48]byte
	n, err := base64.StdEncoding.Decode(head[:], bytesOf(s[:64]))
	if err != nil {
		return false
	}
	media := http.DetectContentType(head[:n])
	return media != "application/octet-stream" && !strings.HasPrefix(media, "text/")
}
