// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"bytes"
	"io"
	"slices"
	"unicode/utf8"
)

// Events judges server-sent events as they flow, or lines of JSON, which are events as well.
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
	frame  framing
	queue  []event
	ready  int // number of events in queue whose text ends before a cut
	held   int // characters in the events after that
	meta   *meta
	state  state // of what went on
}

// framing finds events in a stream.
type framing interface {
	// advance returns how many bytes of p belong to the event that has begun, and whether it is complete with them.
	advance(p []byte) (n int, complete bool)
	// record returns what an event says, and false if that is nothing.
	record(raw []byte) (record, bool)
	// open reports whether an array is open whose elements are the events.
	open() bool
	// lines reports whether the events are lines.
	lines() bool
}

// key tells texts apart.
type key struct {
	where   *node
	variant variant
}

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
	array          bool   // an array is open
	done           bool   // there is nothing more to come
}

// state is how far the reader of the stream has come.
type state struct {
	open     uint64 // alternatives that have begun and not ended
	finished uint64 // alternatives that have ended
	block    int    // open content block, or -1
	sequence int    // number of the last event
	done     bool
	began    bool // something was sent
	array    bool // an array is open
	raw      bool // in the middle of an event that is too large to be read
}

// NewEvents returns an Events for server-sent events that writes to dst.
func NewEvents(dst io.Writer, o Options) *Events {
	return newEvents(dst, o, &frame{first: true, blank: true})
}

// NewLines returns an Events for lines of JSON (NDJSON, JSON text sequences), for values that follow each other, for an array
// whose elements are objects, and for the AI SDK's data stream protocol. Lines that are no JSON are text.
func NewLines(dst io.Writer, o Options) *Events { return newEvents(dst, o, &values{first: true}) }

func newEvents(dst io.Writer, o Options, frame framing) *Events {
	o = o.normal()
	return &Events{
		dst: dst, o: o, reader: newReader(&o), texts: map[key]*passage{}, frame: frame, meta: new(meta), state: state{block: -1, sequence: -1},
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
	switch {
	case e.state.raw:
		e.addRaw(true)
	case len(e.buffer) > e.begin():
		e.add(len(e.buffer)) // no reader of the standard takes an event without its blank line, but others do
	}
	e.endTexts()
	if last := len(e.queue) - 1; last >= 0 {
		for _, text := range e.texts {
			if text.view {
				e.queue[last].parts = append(e.queue[last].parts, part{text, text.lastCut()})
			}
		}
	}
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
		case e.state.raw:
			e.addRaw(complete)
		case complete:
			e.add(len(e.buffer))
		case len(e.buffer)-e.begin() > MaxEvent:
			e.endTexts()
			e.state.raw = true
			e.addRaw(false)
		}
		if len(e.buffer) > maxHeld && len(e.queue) > 0 && e.err == nil {
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

// addRaw puts what there is of an event that is too large to be read into the queue. It is judged as one plain text, with
// the escapes of JSON undone.
func (e *Events) addRaw(complete bool) {
	raw := e.buffer[e.begin():]
	if !complete {
		// An escape that is cut waits for its rest.
		tail := max(0, len(raw)-2*escape)
		if at := bytes.IndexByte(raw[tail:], '\\'); at >= 0 {
			raw = raw[:tail+at]
		}
	}
	for len(raw) > 0 {
		part := raw[:min(len(raw), slice)]
		if at := bytes.LastIndexByte(part, ' '); at > 0 && len(part) < len(raw) {
			part = part[:at]
		}
		raw = raw[len(part):]
		next := event{end: e.begin() + len(part), meta: e.meta, changes: changes{opens: -1, closes: -1, sequence: -1, array: e.frame.open()}}
		e.grow(&next, &found{where: e.reader.raw, text: unescape(part)})
		e.enqueue(next)
	}
	if e.state.raw = !complete; complete {
		e.endTexts()
	}
	e.settle()
}

// add puts the event that ends at the position in buffer into the queue.
func (e *Events) add(end int) {
	raw := e.buffer[e.begin():end]
	next := event{end: end, changes: changes{opens: -1, closes: -1, sequence: -1}}
	if record, ok := e.frame.record(raw); ok {
		e.reader.read(&record, e.meta)
		next.changes = e.reader.changes()
		if e.reader.meta != *e.meta {
			changed := e.reader.meta
			e.meta = &changed
		}
		for i := range e.reader.texts {
			e.grow(&next, &e.reader.texts[i])
		}
	}
	next.changes.array = e.frame.open()
	next.meta = e.meta
	e.enqueue(next)
}

// enqueue puts an event into the queue.
func (e *Events) enqueue(next event) {
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
	if f.variant.choice == spaced {
		e.view(next, f, variant{})
		return
	}
	if f.where.mixed {
		first := f.where.first
		if f.where.branch {
			first.choice = f.variant.choice
		}
		e.view(next, f, first)
	}
	text, fresh := e.text(f)
	if fresh {
		text.labels = true
	}
	certain := f.where == e.reader.root || f.where == e.reader.raw || f.where.certain || e.reader.named ||
		f.where.standing == running && e.meta.kind != unknownKind
	switch {
	case certain:
		text.flows, text.view = true, false
		text.add(f)
	case text.take(f, &e.o):
		if text.flow(f.text); !text.flows {
			e.message(next, f, text)
		}
	}
	end := text.end()
	if f.tail != 0 {
		end++ // it ends within a character that is not there yet
	}
	next.parts = append(next.parts, part{text, end})
	if text.flows {
		next.chars += utf8.RuneCountInString(f.text)
	}
}

// message adds a piece that may be all that somebody says: nothing waits for more, and what comes next is judged apart from it.
// That it may be a piece of a text is another view.
func (e *Events) message(next *event, f *found, text *passage) {
	text.cut(text.end())
	text.view = true
	alone := *f
	alone.variant = variant{choice: messages - f.variant.choice, typ: f.variant.typ}
	whole, _ := e.text(&alone)
	whole.parted = true
	whole.add(f)
	whole.finish()
	next.parts = append(next.parts, part{whole, whole.end()})
}

// text returns the text that a piece continues, and whether that has just begun.
func (e *Events) text(f *found) (text *passage, fresh bool) {
	k := key{f.where, f.variant}
	if text = e.texts[k]; text != nil {
		return text, false
	}
	if len(e.texts) < maxTexts {
		text = new(passage)
		e.texts[k] = text
		return text, true
	}
	if e.last == nil {
		e.last = new(passage)
		e.texts[key{}] = e.last
	}
	e.last.parted = true
	return e.last, false
}

// view adds a piece to another view of its text, in which several variants are one. No event waits for more of it: a sentence
// is judged with the event in which it ends. first is the variant that it begins with.
func (e *Events) view(next *event, f *found, first variant) {
	seed := e.texts[key{f.where, first}]
	if f.variant.choice == spaced && seed == nil {
		return // there is nothing yet that a space could divide
	}
	of := *f
	of.variant = variant{choice: min(f.variant.choice, combined)}
	if f.where.branch {
		of.variant = variant{choice: combined - 1 - f.variant.choice, typ: "combined"}
	}
	text, fresh := e.text(&of)
	if fresh && seed != nil {
		*text = passage{data: slices.Clone(seed.data), base: seed.base, done: seed.end(), read: seed.end(), ended: seed.ended, broken: seed.broken}
	}
	text.view = true
	text.add(f)
	if text.end()-text.lastCut() >= e.o.Hold {
		text.cut(text.end())
	}
	if cut := text.lastCut(); cut > text.done {
		next.parts = append(next.parts, part{text, cut})
	}
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
		e.state.began = true
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
	s.array = c.array
}

// changes returns what the event that was read does to the stream.
func (r *reader) changes() changes {
	c := changes{done: r.done, seen: r.seen, finished: r.finished, opens: -1, closes: -1, sequence: r.sequence, ends: r.finish}
	switch r.typ {
	case "content_block_start":
		c.opens = r.index
	case "content_block_stop":
		c.closes = r.index
	case "message_stop", "response.completed", "response.incomplete", "response.failed":
		c.done = true
	}
	return c
}

// Interface guard.
var _ io.WriteCloser = (*Events)(nil)
