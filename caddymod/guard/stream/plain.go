// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"bytes"
	"io"
	"slices"
	"strings"
)

// Plain judges what is said to be plain text as it flows. Some services send lines of JSON or server-sent events as such,
// which tell themselves by their first bytes.
type Plain struct {
	dst  io.Writer
	o    Options
	head []byte
	flow io.WriteCloser
}

// NewPlain returns a Plain that writes to dst.
func NewPlain(dst io.Writer, o Options) *Plain { return &Plain{dst: dst, o: o} }

// Write takes the next bytes, cut anywhere. It returns len(p) and nil unless the stream has ended.
func (t *Plain) Write(p []byte) (int, error) {
	if t.flow != nil {
		return t.flow.Write(p)
	}
	t.head = append(t.head, p...)
	if !t.decide(false) {
		return len(p), nil
	}
	if _, err := t.flow.Write(t.head); err != nil {
		return 0, err
	}
	t.head = nil
	return len(p), nil
}

// Close says that the text has ended: the rest is judged and goes on.
func (t *Plain) Close() error {
	if t.flow == nil {
		t.decide(true)
		if _, err := t.flow.Write(t.head); err != nil {
			return err
		}
		t.head = nil
	}
	return t.flow.Close()
}

// decide chooses what to take the text for. It reports false if too little has come. ended says that there is no more.
func (t *Plain) decide(ended bool) bool {
	switch looksLike(t.head, ended) {
	case looksUnknown:
		return false
	case looksLines:
		t.flow = NewLines(t.dst, t.o)
	case looksEvents:
		// What events leave out, such as comments, is judged as well.
		text := NewText(t.dst, t.o)
		t.flow = &both{NewEvents(text, t.o), text}
	default:
		t.flow = NewText(t.dst, t.o)
	}
	return true
}

// both judges a stream as events and as text.
type both struct {
	*Events
	text *Text
}

// Write takes the next bytes.
func (b *both) Write(p []byte) (int, error) {
	n, err := b.Events.Write(p)
	if err != nil {
		_ = b.text.Close() // the final events; the error is that of the stream
	}
	return n, err
}

// Close ends both.
func (b *both) Close() error {
	err := b.Events.Close()
	if end := b.text.Close(); err == nil {
		err = end
	}
	return err
}

// look is what a text looks like.
type look uint8

const (
	looksUnknown look = iota
	looksText
	looksLines
	looksEvents
)

// maxLook is how much is looked at, in bytes.
const maxLook = 512

// looksLike tells what a text is by its first bytes.
func looksLike(head []byte, ended bool) look {
	ended = ended || len(head) > maxLook
	head = bytes.TrimLeft(bytes.TrimPrefix(head, byteOrderMark), " \t\r\n")
	for _, name := range []string{"data:", "event:", "id:", "retry:"} {
		if bytes.HasPrefix(head, []byte(name)) {
			return looksEvents
		}
		if !ended && strings.HasPrefix(name, string(head[:min(len(head), len(name))])) {
			return looksUnknown
		}
	}
	compact := bytes.Join(bytes.Fields(head[:min(len(head), 64)]), nil)
	for _, begin := range []string{`{"`, `[{"`, `?:"`, `?:{`, `?:[`} {
		matches := 0
		for matches < min(len(begin), len(compact)) && (compact[matches] == begin[matches] || begin[matches] == '?' && isCode(compact[matches])) {
			matches++
		}
		if matches == len(begin) {
			return looksLines
		}
		if matches == len(compact) && !ended && len(head) < 64 {
			return looksUnknown
		}
	}
	return looksText
}

// Detector tells whether JSON is a stream of values, by where it stands when it is flushed. The zero value is ready.
type Detector struct {
	frame  values
	begun  bool
	events int
	other  bool // something that is no value begins there
}

// Add takes the next bytes.
func (g *Detector) Add(p []byte) {
	if !g.begun {
		g.frame.first, g.begun = true, true
	}
	for len(p) > 0 {
		n, complete := g.frame.advance(p)
		if blank := len(bytes.Trim(p[:n], " \t\r\n,]")) == 0; complete && !blank {
			g.events++
		}
		g.other = g.other || g.frame.in == inLine
		p = p[n:]
	}
}

// Streams reports whether what has come ends between two of several values, or behind an element of an array that goes on.
func (g *Detector) Streams() bool {
	if g.other || g.frame.in != between {
		return false
	}
	return g.frame.array && g.events > 0 || g.events > 1 && !g.frame.closed
}

// ExtractTexts returns the texts of a stream of a known kind that is there as a whole: what its readers put together. It returns
// nil for anything else.
func ExtractTexts(body []byte) (texts []string) {
	var framing framing
	switch looksLike(body, true) {
	case looksEvents:
		framing = &frame{first: true, blank: true}
	case looksLines:
		framing = &values{first: true}
	default:
		return nil
	}
	e := newEvents(io.Discard, Options{}, framing)
	for events := 0; len(body) > 0; events++ {
		n, _ := e.frame.advance(body)
		record, ok := e.frame.record(body[:n])
		if body = body[n:]; !ok {
			continue
		}
		if events == 0 && len(bytes.TrimSpace(body)) == 0 {
			return nil // a single value
		}
		e.reader.read(&record, e.meta)
		changed := e.reader.meta
		e.meta = &changed
		for i := range e.reader.texts {
			e.grow(new(event), &e.reader.texts[i])
		}
	}
	if e.meta.kind == unknownKind {
		return nil
	}
	for k, text := range e.texts {
		if k.where != nil && k.where.standing == running {
			texts = append(texts, string(text.data))
		}
	}
	slices.Sort(texts)
	return texts
}

// Interface guards.
var (
	_ io.WriteCloser = (*Plain)(nil)
	_ io.WriteCloser = (*both)(nil)
)
