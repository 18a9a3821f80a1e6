// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"io"
	"unicode/utf8"
)

// Text moderates plain text in UTF-8 as it streams. Bytes that are not UTF-8 pass through unchanged.
type Text struct {
	dst  io.Writer
	o    Options
	text textBuffer
	sent int // position up to which the text went on

	held    int // characters since the last cut
	space   int // position behind the last space since the last cut, or 0
	atSpace int // held at space
	err     error
}

// NewText returns a Text that writes to dst.
func NewText(dst io.Writer, o Options) *Text { return &Text{dst: dst, o: o.withDefaults()} }

// Write takes the next bytes, however they are cut. It returns len(p) and nil unless the stream has ended.
func (t *Text) Write(p []byte) (int, error) {
	written := 0
	for written < len(p) && t.err == nil {
		part := p[written:min(written+maxSlice, len(p))]
		t.text.data = append(t.text.data, part...)
		t.split()
		t.moderate()
		written += len(part)
	}
	if t.err != nil {
		return 0, t.err
	}
	return written, nil
}

// Close ends the text: the rest is moderated and goes out.
func (t *Text) Close() error {
	if t.err != nil {
		return t.err
	}
	t.text.cut(t.text.end())
	t.moderate()
	return t.err
}

// split cuts the new text. The beginning of a character waits for the rest of it.
func (t *Text) split() {
	text := &t.text
	for utf8.FullRune(text.data[text.scanned-text.base:]) {
		last := text.lastCut()
		char := text.next()
		if text.lastCut() > last {
			t.held, t.space = 0, 0
			continue
		}
		t.held++
		if char < utf8.RuneSelf && isSpace(byte(char)) {
			t.space, t.atSpace = text.scanned, t.held
		}
		if t.held < t.o.Hold {
			continue
		}
		if t.space == 0 { // a single word
			t.space, t.atSpace = text.scanned, t.held
		}
		text.cut(t.space)
		t.held, t.space = t.held-t.atSpace, 0
	}
}

// moderate moderates the text up to its last cut, and sends each part as soon as it is moderated.
func (t *Text) moderate() {
	for t.release(); t.err == nil && len(t.text.cuts) > 0; t.release() {
		if err := t.text.moderate(&t.o, t.text.lastCut()); err != nil {
			t.err = err
			return
		}
	}
}

// release sends what is moderated.
func (t *Text) release() {
	text := &t.text
	if t.sent == text.done {
		return
	}
	t.err = t.o.send(t.dst, text.data[t.sent-text.base:text.done-text.base])
	t.sent = text.done
	text.forget(t.o.Context)
}

// Interface guard.
var _ io.WriteCloser = (*Text)(nil)
