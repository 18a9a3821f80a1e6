// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"bytes"
	"io"
	"slices"
	"unicode/utf8"
)

// Events judges server-sent events as they flow.
//
// An event goes on when all of its text and everything before it is judged. Events without text (roles, calls of tools,
// counts, pings, comments) go on at once if nothing waits before them. Alternative answers in one stream are different texts.
// A finish_reason or a stop_reason, [DONE] and the end of the stream end a sentence.
type Events struct {
	dst    io.Writer
	o      Options
	reader *reader
	texts  map[key]*passage
	last   *passage // the one to use when there are too many
	err    error

	buffer []byte // events that wait, and the beginning of the next one
	frame  frame
	queue  []event
	ready  int // number of events in queue whose text ends before a cut
	held   int // characters in the events after that
	meta   *meta
	state  state // of what went on
}

// key tells texts apart.
type key struct{ where, choice int }

// event is what is known of an event that waits.
type event struct {
	end     int // in buffer
	parts   []part
	chars   int
	meta    *meta
	changes changes
}

// part is the part of a text that an event carries.
type part struct {
	text *passage
	end  int
}

// changes say what an event does to the stream.
type changes struct {
	seen, finished uint64 // alternatives
	opens, closes  int    // index of a content block, or -1
	sequence       int    // number of the event, or -1
	ends           bool   // the texts so far have ended
	done           bool   // there is nothing more to come
}

// state is how far the reader of the stream has come.
type state struct {
	open     uint64 // alternatives that have begun and not ended
	finished uint64 // alternatives that have ended
	block    int    // open content block, or -1
	sequence int    // number of the last event
	done     bool
	passing  bool // in the middle of an event that is too large to be read
}

// NewEvents returns an Events that writes to dst.
func NewEvents(dst io.Writer, o Options) *Events {
	o = o.normal()
	return &Events{
		dst: dst, o: o, reader: newReader(&o), texts: map[key]*passage{}, frame: frame{first: true, blank: true},
		meta: new(meta), state: state{block: -1, sequence: -1},
	}
}

// Write takes the next bytes, cut anywhere. It returns len(p) and nil unless the stream has ended.
func (e *Events) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0 && e.err == nil; {
		n := min(len(rest), slice)
		e.take(rest[:n])
		if e.err == nil {
			e.settle()
		}
		rest = rest[n:]
	}
	if e.err != nil {
		return 0, e.err
	}
	return len(p), nil
}

// Close says that the stream has ended: the rest is judged and goes on.
func (e *Events) Close() error {
	if e.err != nil {
		return e.err
	}
	if !e.state.passing && len(e.buffer) > e.begin() {
		e.add(len(e.buffer)) // no reader of the standard takes an event without its blank line, but others do
	}
	e.endTexts()
	e.settle()
	return e.err
}

// take adds what is new to the buffer, and the events that are complete with it to the queue.
func (e *Events) take(p []byte) {
	for len(p) > 0 && e.err == nil {
		n, complete := e.frame.advance(p)
		e.buffer = append(e.buffer, p[:n]...)
		p = p[n:]
		switch {
		case e.state.passing:
			e.pass(complete)
		case complete:
			e.add(len(e.buffer))
		case len(e.buffer)-e.begin() > MaxEvent:
			e.oversize()
		}
		if len(e.buffer) > MaxEvent && len(e.queue) > 0 && e.err == nil {
			e.endTexts()
			e.settle()
		}
	}
}

// begin is where the event begins in buffer that is not complete yet.
func (e *Events) begin() int {
	if len(e.queue) == 0 {
		return 0
	}
	return e.queue[len(e.queue)-1].end
}

// oversize deals with an event that is too large to be read, after all that is before it.
func (e *Events) oversize() {
	e.endTexts()
	if e.settle(); e.err != nil {
		return
	}
	if !e.o.FailOpen {
		e.reject(ErrUnjudged, &event{meta: e.meta})
		return
	}
	e.state.passing = true
	e.pass(false)
}

// pass lets an event that is too large go on as it comes.
func (e *Events) pass(complete bool) {
	e.err = e.o.send(e.dst, e.buffer)
	e.buffer = e.buffer[:0]
	e.state.passing = !complete
}

// add puts the event that ends at the position in buffer into the queue.
func (e *Events) add(end int) {
	raw := e.buffer[e.begin():end]
	next := event{end: end, changes: changes{opens: -1, closes: -1, sequence: -1}}
	if data, ok := e.frame.data(raw); ok {
		e.reader.read(data, e.meta)
		next.changes = e.reader.changes(data)
		if e.reader.meta != *e.meta {
			changed := e.reader.meta
			e.meta = &changed
		}
		for i := range e.reader.texts {
			e.grow(&next, &e.reader.texts[i])
		}
	}
	next.meta = e.meta
	e.queue = append(e.queue, next)
	e.held += next.chars
	if next.changes.ends {
		e.endTexts()
	}
	e.advance()
	for e.held >= e.o.Hold && e.force() {
		e.advance()
	}
}

// grow adds a piece of text of an event to the text that it continues.
func (e *Events) grow(next *event, f *found) {
	if f.text == "" && f.head == 0 && f.tail == 0 {
		return
	}
	text := e.texts[key{f.where, f.choice}]
	if text == nil {
		text = e.last
		if len(e.texts) < maxTexts {
			text = new(passage)
			e.texts[key{f.where, f.choice}], e.last = text, text
		}
	}
	text.add(f)
	end := text.end()
	if f.tail != 0 {
		end++ // it ends within a character that is not there yet
	}
	next.parts = append(next.parts, part{text, end})
	next.chars += utf8.RuneCountInString(f.text)
}

// advance counts the events at the head of the queue whose texts end before a cut as ready.
func (e *Events) advance() {
	for ; e.ready < len(e.queue); e.ready++ {
		next := &e.queue[e.ready]
		for _, part := range next.parts {
			if part.end > part.text.lastCut() {
				return
			}
		}
		for _, part := range next.parts {
			part.text.want = part.end
		}
		e.held -= next.chars
	}
}

// force cuts the texts that keep the first event waiting where they end now. It reports whether that helps.
func (e *Events) force() bool {
	if e.ready == len(e.queue) {
		return false
	}
	for _, part := range e.queue[e.ready].parts {
		if part.end > part.text.end() {
			return false // the other half of a character is to come
		}
		part.text.cut(part.text.end())
	}
	return true
}

// endTexts ends the sentences of all texts.
func (e *Events) endTexts() {
	for _, text := range e.texts {
		text.finish()
	}
	e.advance()
}

// settle judges the events that are ready, and lets them go on in their order, each as soon as it is judged.
func (e *Events) settle() {
	sent, fine := 0, 0
	for i := range e.queue[:e.ready] {
		next := &e.queue[i]
		for _, part := range next.parts {
			for part.text.done < part.end {
				// What is fine goes out before the judge takes its time.
				if e.err = e.o.send(e.dst, e.buffer[sent:fine]); e.err != nil {
					return
				}
				sent = fine
				if err := part.text.judge(&e.o, part.text.want); err != nil {
					e.reject(err, next)
					return
				}
				part.text.forget(e.o.Context)
			}
		}
		fine = next.end
		e.state.note(&next.changes)
	}
	e.err = e.o.send(e.dst, e.buffer[sent:fine])
	e.drop(fine)
}

// drop forgets the events that went on, which end at the position in buffer.
func (e *Events) drop(position int) {
	if e.ready == 0 {
		return
	}
	e.buffer = append(e.buffer[:0], e.buffer[position:]...)
	rest := e.queue[e.ready:]
	for i := range rest {
		rest[i].end -= position
	}
	n := copy(e.queue, rest)
	clear(e.queue[n:])
	e.queue, e.ready = e.queue[:n], 0
}

// reject ends the stream with its final events. next is the first event that does not go on.
func (e *Events) reject(reason error, next *event) {
	e.err = reason
	e.buffer, e.queue, e.texts = nil, nil, nil
	if err := e.o.send(e.dst, e.final(next)); err != nil {
		e.err = err
	}
}

// note notes what an event that goes on does to the stream.
func (s *state) note(c *changes) {
	s.finished |= c.finished
	s.open = (s.open | c.seen) &^ s.finished
	if c.opens >= 0 {
		s.block = c.opens
	}
	if c.closes == s.block && c.closes >= 0 {
		s.block = -1
	}
	if c.sequence >= 0 {
		s.sequence = c.sequence
	}
	s.done = s.done || c.done
}

// changes returns what the event that was read does to the stream.
func (r *reader) changes(data []byte) changes {
	c := changes{seen: r.seen, finished: r.finished, opens: -1, closes: -1, sequence: r.sequence, ends: r.finish}
	switch r.typ {
	case "content_block_start":
		c.opens = r.index
	case "content_block_stop":
		c.closes = r.index
	case "message_stop", "response.completed", "response.incomplete", "response.failed":
		c.done = true
	}
	c.done = c.done || string(bytes.TrimSpace(data)) == "[DONE]"
	return c
}

// frame finds events in a stream.
type frame struct {
	first bool // nothing has come yet, so there may be a byte order mark
	blank bool // nothing has come since the last end of a line
	cr    bool // the last byte was a carriage return
	begun bool // the event has a byte other than that of an end of line before it
}

// advance returns how many bytes of p belong to the event that has begun, and whether it is complete with them.
func (f *frame) advance(p []byte) (n int, complete bool) {
	for n < len(p) {
		char := p[n]
		switch {
		case f.cr && char == '\n': // the second half of an end of line
			n++
			f.cr = false
			if !f.begun {
				return n, true // of the event before, which is complete without it
			}
		case char == '\n' || char == '\r':
			n++
			f.cr = char == '\r'
			if f.blank {
				f.begun = false
				return n, true
			}
			f.blank = true
		default:
			f.cr, f.blank, f.begun = false, false, true
			end := bytes.IndexAny(p[n:], "\r\n")
			if end < 0 {
				return len(p), false
			}
			n += end
		}
	}
	return n, false
}

// byteOrderMark may stand at the beginning of a stream.
var byteOrderMark = []byte("\ufeff")

// data returns the data of an event, and false if it has none.
func (f *frame) data(raw []byte) (data []byte, ok bool) {
	lines := 0
	if f.first {
		raw = bytes.TrimPrefix(raw, byteOrderMark)
		f.first = false
	}
	for len(raw) > 0 {
		line := raw
		if end := bytes.IndexAny(raw, "\r\n"); end >= 0 {
			line, raw = raw[:end], raw[end+1:]
		} else {
			raw = nil
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		if string(name) != "data" {
			continue
		}
		value = bytes.TrimPrefix(value, []byte(" "))
		switch lines++; lines {
		case 1:
			data = value
		case 2: // the first line is part of the buffer, which must stay as it is
			data = slices.Concat(data, []byte{'\n'}, value)
		default:
			data = append(append(data, '\n'), value...)
		}
	}
	return data, lines > 0
}

// Interface guard.
var _ io.WriteCloser = (*Events)(nil)
