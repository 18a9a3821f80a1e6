// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"bytes"
	"io"
	"strings"
)

// Plain moderates what is declared to be plain text as it streams. Some services send lines of JSON or server-sent
// events as plain text. It recognizes these by their first bytes.
type Plain struct {
	dst  io.Writer
	o    Options
	head []byte
	flow io.WriteCloser
}

// NewPlain returns a Plain that writes to dst.
func NewPlain(dst io.Writer, o Options) *Plain { return &Plain{dst: dst, o: o} }

// Write takes the next bytes, however they are cut. It returns len(p) and nil unless the stream has ended.
func (t *Plain) Write(p []byte) (int, error) {
	if t.flow != nil {
		return t.flow.Write(p)
	}
	t.head = append(t.head, p...)
	if !t.chooseFormat(false) {
		return len(p), nil
	}
	if _, err := t.flow.Write(t.head); err != nil {
		return 0, err
	}
	t.head = nil
	return len(p), nil
}

// Close ends the text: the rest is moderated and goes out.
func (t *Plain) Close() error {
	if t.flow == nil {
		t.chooseFormat(true)
		if _, err := t.flow.Write(t.head); err != nil {
			return err
		}
		t.head = nil
	}
	return t.flow.Close()
}

// chooseFormat decides what to take the text for. It returns false if there is too little to decide. ended says that
// there is no more.
func (t *Plain) chooseFormat(ended bool) bool {
	switch sniff(t.head, ended) {
	case formatUnknown:
		return false
	case formatLines:
		t.flow = NewLines(t.dst, t.o)
	case formatEvents:
		// What events leave out, such as comments, is moderated as well.
		raw := t.o
		raw.Judged = nil // the events tell what they say
		text := NewText(t.dst, raw)
		t.flow = &eventsAndText{NewEvents(text, t.o), text}
	default:
		t.flow = NewText(t.dst, t.o)
	}
	return true
}

// eventsAndText moderates a stream as events and as text.
type eventsAndText struct {
	*Events
	text *Text
}

// Write takes the next bytes.
func (b *eventsAndText) Write(p []byte) (int, error) {
	n, err := b.Events.Write(p)
	if err != nil {
		_ = b.text.Close() // the final events; the error is that of the stream
	}
	return n, err
}

// Close ends both.
func (b *eventsAndText) Close() error {
	err := b.Events.Close()
	if end := b.text.Close(); err == nil {
		err = end
	}
	return err
}

// format is what a text looks like.
type format uint8

const (
	formatUnknown format = iota
	formatText
	formatLines
	formatEvents
)

// sniffSize is how much of a text is looked at, in bytes.
const sniffSize = 512

// sniff recognizes the format of a text by its first bytes.
func sniff(head []byte, ended bool) format {
	ended = ended || len(head) > sniffSize
	head = bytes.TrimLeft(bytes.TrimPrefix(head, byteOrderMark), " \t\r\n")
	for _, name := range []string{"data:", "event:", "id:", "retry:"} {
		if bytes.HasPrefix(head, []byte(name)) {
			return formatEvents
		}
		if !ended && strings.HasPrefix(name, string(head[:min(len(head), len(name))])) {
			return formatUnknown
		}
	}
	compact := bytes.Join(bytes.Fields(head[:min(len(head), 64)]), nil)
	for _, begin := range []string{`{"`, `[{"`, `?:"`, `?:{`, `?:[`} {
		matches := 0
		for matches < min(len(begin), len(compact)) && (compact[matches] == begin[matches] ||
			begin[matches] == '?' && isCode(compact[matches])) {
			matches++
		}
		if matches == len(begin) {
			return formatLines
		}
		if matches == len(compact) && !ended && len(head) < 64 {
			return formatUnknown
		}
	}
	return formatText
}

// Interface guards.
var (
	_ io.WriteCloser = (*Plain)(nil)
	_ io.WriteCloser = (*eventsAndText)(nil)
)
