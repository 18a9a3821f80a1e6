// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"bytes"
	"io"
	"slices"
	"unicode/utf8"
)

// Events moderates server-sent events as they stream, or lines of JSON, which are events as well.
//
// An event goes out when all of its text and everything before it is moderated. Events without text (roles, tool
// calls, counts, pings, comments) go out at once if nothing waits before them. Alternative answers in one stream are
// different texts. A finish_reason, a stop_reason, [DONE] and the end of the stream end a sentence.
type Events struct {
	dst    io.Writer
	o      Options
	parser *eventParser
	texts  map[key]*textBuffer
	last   *textBuffer // collects the texts beyond maxTexts
	err    error

	buffer []byte // events that wait, and the beginning of the next
	frame  framing
	queue  []event
	ready  int // events in queue whose texts end before a cut
	held   int // characters in the other events of queue
	meta   *meta
	state  state // of what was sent
}

// framing cuts a stream into events.
type framing interface {
	// advance returns how many bytes of p belong to the current event, and whether they complete it.
	advance(p []byte) (n int, complete bool)
	// record returns the content of an event, and false if there is none.
	record(raw []byte) (record, bool)
	// open reports whether an array is open whose elements are the events.
	open() bool
	// lines reports whether the events are lines.
	lines() bool
}

// key identifies a text.
type key struct {
	where   *node
	variant variant
}

// event is an event that waits.
type event struct {
	end     int // in buffer
	parts   []textPart
	chars   int
	meta    *meta
	changes changes
}

// textPart is the part of a text that an event carries.
type textPart struct {
	text *textBuffer
	end  int
}

// changes is what an event does to the stream.
type changes struct {
	seen, finished uint64 // alternatives
	opens, closes  int    // index of a content block, or -1
	sequence       int    // number of the event, or -1
	ends           bool   // the texts so far have ended
	array          bool   // an array is open
	done           bool   // there is nothing more to come
}

// state is what the client of the stream has seen so far.
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
	return newEvents(dst, o, &sseFraming{first: true, blank: true})
}

// NewLines returns an Events for lines of JSON (NDJSON, JSON text sequences), for values that follow each other, for
// an array of objects, and for the AI SDK's data stream protocol. Lines that are not JSON are text.
func NewLines(dst io.Writer, o Options) *Events { return newEvents(dst, o, &jsonFraming{first: true}) }

func newEvents(dst io.Writer, o Options, frame framing) *Events {
	o = o.withDefaults()
	return &Events{
		dst: dst, o: o, parser: newEventParser(&o), texts: map[key]*textBuffer{}, frame: frame, meta: new(meta),
		state: state{block: -1, sequence: -1},
	}
}

// Write takes the next bytes, however they are cut. It returns len(p) and nil unless the stream has ended.
func (e *Events) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0 && e.err == nil; {
		n := min(len(rest), maxSlice)
		e.take(rest[:n])
		if e.err == nil {
			e.release()
		}
		rest = rest[n:]
	}
	if e.err != nil {
		return 0, e.err
	}
	return len(p), nil
}

// Close ends the stream: the rest is moderated and goes out.
func (e *Events) Close() error {
	if e.err != nil {
		return e.err
	}
	switch {
	case e.state.raw:
		e.addRaw(true)
	case len(e.buffer) > e.begin():
		e.add(len(e.buffer)) // not an event by the standard, without its blank line, but some clients take it
	}
	e.endTexts()
	if last := len(e.queue) - 1; last >= 0 {
		for _, text := range e.texts {
			if text.view {
				e.queue[last].parts = append(e.queue[last].parts, textPart{text, text.lastCut()})
			}
		}
	}
	e.release()
	return e.err
}

// take appends bytes to the buffer, and the events that they complete to the queue.
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
			e.release()
		}
	}
}

// begin returns where the incomplete event begins in buffer.
func (e *Events) begin() int {
	if len(e.queue) == 0 {
		return 0
	}
	return e.queue[len(e.queue)-1].end
}

// addRaw queues what there is of an event that is too large to be parsed. It is moderated as one plain text, with the
// escapes of JSON undone.
func (e *Events) addRaw(complete bool) {
	raw := e.buffer[e.begin():]
	if !complete {
		// An escape that is cut waits for its rest.
		tail := max(0, len(raw)-2*escapeSize)
		if at := bytes.IndexByte(raw[tail:], '\\'); at >= 0 {
			raw = raw[:tail+at]
		}
	}
	for len(raw) > 0 {
		part := raw[:min(len(raw), maxSlice)]
		if at := bytes.LastIndexByte(part, ' '); at > 0 && len(part) < len(raw) {
			part = part[:at]
		}
		raw = raw[len(part):]
		next := event{end: e.begin() + len(part), meta: e.meta, changes: changes{opens: -1, closes: -1, sequence: -1,
			array: e.frame.open()}}
		e.addFragment(&next, &fragment{where: e.parser.raw, text: unescape(part)})
		e.enqueue(next)
	}
	if e.state.raw = !complete; complete {
		e.endTexts()
	}
	e.release()
}

// add queues the event that ends at this position in buffer.
func (e *Events) add(end int) {
	raw := e.buffer[e.begin():end]
	next := event{end: end, changes: changes{opens: -1, closes: -1, sequence: -1}}
	if record, ok := e.frame.record(raw); ok {
		e.parser.parse(&record, e.meta)
		next.changes = e.parser.changes()
		if e.parser.meta != *e.meta {
			changed := e.parser.meta
			e.meta = &changed
		}
		for i := range e.parser.texts {
			e.addFragment(&next, &e.parser.texts[i])
		}
	}
	next.changes.array = e.frame.open()
	next.meta = e.meta
	e.enqueue(next)
}

// enqueue queues an event.
func (e *Events) enqueue(next event) {
	e.queue = append(e.queue, next)
	e.held += next.chars
	if next.changes.ends {
		e.endTexts()
	}
	e.advance()
	for e.held >= e.o.Hold && e.forceCut() {
		e.advance()
	}
}

// addFragment adds a fragment of text in an event to the text that it continues.
func (e *Events) addFragment(next *event, f *fragment) {
	if f.text == "" && f.head == 0 && f.tail == 0 {
		return
	}
	if f.variant.choice == spaced {
		e.addView(next, f, variant{})
		return
	}
	if f.where.mixed {
		first := f.where.first
		if f.where.branch {
			first.choice = f.variant.choice
		}
		e.addView(next, f, first)
	}
	text, fresh := e.bufferOf(f)
	if fresh {
		text.labels = true
	}
	certain := f.where == e.parser.root || f.where == e.parser.raw || f.where.certain || e.parser.named ||
		f.where.hold == holdText && e.meta.protocol != unknownProtocol
	switch {
	case certain:
		text.flows, text.view, text.labels = true, false, false
		text.add(f)
	case text.addValue(f, &e.o):
		if text.detectFlow(f.text); !text.flows {
			e.addMessage(next, f, text)
		}
	}
	end := text.end()
	if f.tail != 0 {
		end++ // it ends within a character that is not there yet
	}
	next.parts = append(next.parts, textPart{text, end})
	if text.flows {
		next.chars += utf8.RuneCountInString(f.text)
	}
}

// addMessage adds a fragment that may be a whole message: nothing waits for more of it, and what follows is moderated
// apart from it. The text of which it may be a fragment is another view.
func (e *Events) addMessage(next *event, f *fragment, text *textBuffer) {
	text.cut(text.end())
	text.view = true
	alone := *f
	alone.variant = variant{choice: messages - f.variant.choice, typ: f.variant.typ}
	whole, _ := e.bufferOf(&alone)
	whole.separate = true
	whole.add(f)
	whole.finish()
	next.parts = append(next.parts, textPart{whole, whole.end()})
}

// bufferOf returns the text that a fragment continues, and whether it is a new one.
func (e *Events) bufferOf(f *fragment) (text *textBuffer, fresh bool) {
	k := key{f.where, f.variant}
	if text = e.texts[k]; text != nil {
		return text, false
	}
	if len(e.texts) < maxTexts {
		text = new(textBuffer)
		e.texts[k] = text
		return text, true
	}
	if e.last == nil {
		e.last = new(textBuffer)
		e.texts[key{}] = e.last
	}
	e.last.separate = true
	return e.last, false
}

// addView adds a fragment to another view of its text, in which several variants are one. No event waits for more of
// it: a sentence is moderated with the event in which it ends. first is the variant that it begins with.
func (e *Events) addView(next *event, f *fragment, first variant) {
	seed := e.texts[key{f.where, first}]
	if f.variant.choice == spaced && seed == nil {
		return // there is nothing yet that a space could divide
	}
	of := *f
	of.variant = variant{choice: min(f.variant.choice, combined)}
	if f.where.branch {
		of.variant = variant{choice: combined - 1 - f.variant.choice, typ: "combined"}
	}
	text, fresh := e.bufferOf(&of)
	if fresh && seed != nil {
		*text = textBuffer{data: slices.Clone(seed.data), base: seed.base, done: seed.end(), scanned: seed.end(),
			ended: seed.ended, halfRune: seed.halfRune}
	}
	text.view = true
	text.add(f)
	if text.end()-text.lastCut() >= e.o.Hold {
		text.cut(text.end())
	}
	if cut := text.lastCut(); cut > text.done {
		next.parts = append(next.parts, textPart{text, cut})
	}
}

// advance marks the events at the head of the queue as ready whose texts end before a cut.
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

// forceCut cuts the texts that keep the first event waiting at their current end. It reports whether that helps.
func (e *Events) forceCut() bool {
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

// release moderates the events that are ready and sends them in order, each as soon as it is moderated.
func (e *Events) release() {
	sent, fine := 0, 0
	for i := range e.queue[:e.ready] {
		next := &e.queue[i]
		for _, part := range next.parts {
			for part.text.done < part.end {
				// What is fine goes out before the next moderation, which takes time.
				if e.err = e.o.send(e.dst, e.buffer[sent:fine]); e.err != nil {
					return
				}
				sent = fine
				if err := part.text.moderate(&e.o, part.text.want); err != nil {
					e.reject(err, next)
					return
				}
				part.text.forget(e.o.Context)
			}
		}
		fine = next.end
		e.state.began = true
		e.state.apply(&next.changes)
	}
	e.err = e.o.send(e.dst, e.buffer[sent:fine])
	e.drop(fine)
}

// drop removes the events that were sent, which end at this position in buffer.
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

// reject ends the stream with its final events. next is the first event that is not sent.
func (e *Events) reject(reason error, next *event) {
	e.err = reason
	e.buffer, e.queue, e.texts = nil, nil, nil
	if err := e.o.send(e.dst, e.finalEvents(next)); err != nil {
		e.err = err
	}
}

// apply takes in what an event that is sent does to the stream.
func (s *state) apply(c *changes) {
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

// changes returns what the parsed event does to the stream.
func (r *eventParser) changes() changes {
	c := changes{done: r.done, seen: r.seen, finished: r.finished, opens: -1, closes: -1, sequence: r.sequence,
		ends: r.finish}
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
