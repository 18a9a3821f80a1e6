// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package multipart

import (
	"bytes"
	"unicode/utf8"
)

const (
	// blockSize is the number of bytes that are looked at to tell text from binary data.
	blockSize = 512
	// minRun is the number of printable bytes in a row that are text amid binary data. Random bytes have one such run
	// in 100 KiB.
	minRun = 12
)

// isBinary reports whether one byte in 20 or more is a control character that no charset has in its texts. Compressed
// data has twice as many. NUL, which UTF-16 is full of, counts as one.
func isBinary(b []byte) bool {
	n := 0
	for _, c := range b {
		if controls[c] {
			n++
		}
	}
	return n > 0 && n*20 >= len(b)
}

// controls are the bytes that stand in no text. breaks are those and the bytes that stand in no UTF-8.
var controls, breaks = func() (controls, breaks [256]bool) {
	for c := range 256 {
		controls[c] = c < ' ' && (c < '\t' || c > '\r') && c != 0x1b || c == 0x7f
		breaks[c] = c < ' ' && c != '\t' && c != '\n' && c != '\r' || c == 0x7f || c == 0xc0 || c == 0xc1 || c > 0xf4
	}
	return controls, breaks
}()

// printableRun returns how many bytes at the start of b are printable UTF-8, including a character that b cuts.
func printableRun(b []byte) int {
	for i := 0; i < len(b); {
		c := b[i]
		switch {
		case breaks[c]:
			return i
		case c < utf8.RuneSelf:
			i++
			continue
		}
		r, size := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && size == 1 {
			if !utf8.FullRune(b[i:]) {
				return len(b)
			}
			return i
		}
		i += size
	}
	return len(b)
}

// readableText returns the text of bytes that may be a file's: the bytes themselves, except for blocks of binary
// data. Of those it returns what is printable, on lines of its own.
//
// It is not the finder of language of package content (its file bigrams.go), which explains why there are two.
func readableText(b []byte) []byte {
	if !hasNoise(b) || isUTF16(b) {
		return bytes.Clone(b)
	}
	kept := make([]byte, 0, 512)
	var letters []byte // what is printable in the noise
	for len(b) > 0 {
		n := textBlocks(b)
		if n == 0 {
			n = noiseBlocks(b)
			kept, letters = appendRuns(kept, b[:n], n < len(b)), appendPrintable(letters, b[:n])
		} else {
			kept = append(kept, b[:n]...)
		}
		b = b[n:]
	}
	return appendLanguage(kept, letters)
}

// hasNoise reports whether any block is binary.
func hasNoise(b []byte) bool { return textBlocks(b) < len(b) }

// textBlocks returns how many bytes at the start of b are in blocks of text, and noiseBlocks how many are in blocks
// of binary data.
func textBlocks(b []byte) int  { return blocks(b, false) }
func noiseBlocks(b []byte) int { return blocks(b, true) }

func blocks(b []byte, noise bool) (n int) {
	for n < len(b) {
		end := min(n+blockSize, len(b))
		if isBinary(b[n:end]) != noise {
			return n
		}
		n = end
	}
	return n
}

// appendRuns appends the long enough printable runs of binary data to kept, each on a line. A run at the start
// continues what is before it, and a run at the end is followed by what comes next, if there is more.
func appendRuns(kept, b []byte, more bool) []byte {
	lead := printableRun(b)
	if lead >= minRun || len(kept) > 0 {
		kept = append(kept, b[:lead]...)
	}
	for i := lead; i < len(b); {
		if i+minRun <= len(b) { // most stretches are too short, which the last break in them tells
			last := i + minRun - 1
			for last >= i && !breaks[b[last]] {
				last--
			}
			if last >= i {
				i = last + 1
				continue
			}
		}
		n := printableRun(b[i:])
		if n >= minRun || more && i+n == len(b) {
			kept = appendLine(kept, b[i:i+n])
		}
		i += n + 1
	}
	if more && len(kept) > 0 && breaks[b[len(b)-1]] {
		kept = append(kept, '\n')
	}
	return kept
}

// appendLine appends a text on a line of its own.
func appendLine(kept, text []byte) []byte {
	if len(kept) > 0 {
		kept = append(kept, '\n')
	}
	return append(kept, text...)
}

// appendPrintable appends what is printable in b, which is all that an app would show of it.
func appendPrintable(letters, b []byte) []byte {
	for i := 0; i < len(b); {
		switch c := b[i]; {
		case breaks[c]:
			i++
		case c < utf8.RuneSelf:
			letters = append(letters, c)
			i++
		default:
			r, size := utf8.DecodeRune(b[i:])
			if r != utf8.RuneError || size > 1 {
				letters = append(letters, b[i:i+size]...)
			}
			i += size
		}
	}
	return letters
}

// languageWindow is the number of bytes in which language is told from chance.
const languageWindow = 32

// appendLanguage appends those stretches of letters to kept that are not due to chance. In a text some characters are
// far more frequent than others, however it is spelt; in noise all are equally frequent. In 32 bytes of English,
// about 35 of the 496 pairs are pairs of the same byte; in 32 random printable bytes, 5, and once in 100,000 times 18
// or more.
func appendLanguage(kept, letters []byte) []byte {
	if len(letters) == 0 {
		return kept
	}
	if len(letters) <= languageWindow {
		return appendLine(kept, letters)
	}
	const same = 18
	var count [256]int
	pairs, until := 0, 0 // up to until letters are kept
	for i, c := range letters {
		pairs += count[c]
		count[c]++
		if i >= languageWindow {
			out := letters[i-languageWindow]
			count[out]--
			pairs -= count[out]
		}
		if i < languageWindow-1 || pairs < same {
			continue
		}
		start := max(0, i+1-languageWindow)
		if start > until || until == 0 {
			kept = append(kept, '\n')
		}
		kept = append(kept, letters[max(start, until):i+1]...)
		until = i + 1
	}
	return kept
}

// isUTF16 reports whether a text starts with a byte order mark of UTF-16.
func isUTF16(b []byte) bool {
	return bytes.HasPrefix(b, []byte("\xff\xfe")) || bytes.HasPrefix(b, []byte("\xfe\xff"))
}
