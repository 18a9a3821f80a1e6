// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"bytes"
	"slices"
)

// sseFraming is the framing of server-sent events.
type sseFraming struct {
	first bool // nothing has come yet, so there may be a byte order mark
	blank bool // nothing has come since the last end of a line
	cr    bool // the last byte was a carriage return
	begun bool // the event has a byte other than that of an end of line before it
}

// advance returns how many bytes of p belong to the current event, and whether they complete it.
func (f *sseFraming) advance(p []byte) (n int, complete bool) {
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

// open reports false: server-sent events are no elements of an array.
func (*sseFraming) open() bool { return false }

// lines reports false.
func (*sseFraming) lines() bool { return false }

// record returns the data of an event, and false if it has none.
func (f *sseFraming) record(raw []byte) (in record, ok bool) {
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
		value, space := bytes.CutPrefix(value, []byte(" "))
		if string(name) == "event" {
			in.name = string(value)
		}
		if string(name) != "data" {
			continue
		}
		switch lines++; lines {
		case 1:
			in.data, in.space = value, space
		case 2: // the first line is part of the buffer, which must stay as it is
			in.data = slices.Concat(in.data, []byte{'\n'}, value)
		default:
			in.data = append(append(in.data, '\n'), value...)
		}
	}
	return in, lines > 0
}

// jsonFraming is the framing of JSON values: one in each line, one behind the other, or as elements of an array. What
// does not begin like a value is an event up to the end of its line.
type jsonFraming struct {
	first bool
	array bool      // an array is open whose elements are the events
	in    jsonState // what the event is, as far as it has come
	comma bool      // a comma is before it
	// closed says that the array has ended.
	closed bool
	depth  int
	// quoted says that a string is open. escaped says that a backslash precedes what comes next.
	quoted, escaped bool
}

// jsonState is how far an event has come.
type jsonState uint8

const (
	between jsonState = iota // nothing has come but what divides events
	opened                   // an array has begun: its elements are events if they are objects
	inValue
	inLine
)

func (f *jsonFraming) open() bool { return f.array }

func (*jsonFraming) lines() bool { return true }

func (f *jsonFraming) advance(p []byte) (n int, complete bool) {
	for n < len(p) {
		switch f.in {
		case between:
			if complete = f.between(p[n]); complete {
				return n + 1, true
			}
			if f.in != inLine {
				n++ // a line has its first byte yet to come
			}
		case opened:
			switch p[n] {
			case ' ', '\t', '\r', '\n':
				n++
			case '{':
				f.array, f.in = true, between
			default:
				f.in, f.depth = inValue, 1
			}
		case inValue:
			end := f.value(p[n:])
			if n += end; end > 0 && f.in == between {
				return n + lineEnd(p[n:]), true
			}
		case inLine:
			ends := "\n"
			if f.array {
				ends = "\n,]"
			}
			end := bytes.IndexAny(p[n:], ends)
			if end < 0 {
				return len(p), false
			}
			f.in, f.comma = between, false
			if p[n+end] == '\n' {
				end++
			}
			return n + end, true
		}
	}
	return n, false
}

// lineEnd returns the length of the line end that text begins with.
func lineEnd(text []byte) int {
	switch {
	case bytes.HasPrefix(text, []byte("\n")):
		return 1
	case bytes.HasPrefix(text, []byte("\r\n")):
		return 2
	}
	return 0
}

// between takes in a byte before an event. It reports whether the byte is an event of its own: a line end goes out at
// once. A comma does not, so that a stream can end before it.
func (f *jsonFraming) between(c byte) (complete bool) {
	first := f.first
	f.first = first && (c == 0xef || c == 0xbb || c == 0xbf)
	switch c {
	case ' ', '\t', '\r', 0x1e:
	case '\n':
		return !f.comma
	case ',':
		f.comma = true
	case ']':
		f.closed, f.array = f.array, false
	case '[':
		f.in = opened
		if f.array {
			f.in, f.depth = inValue, 1
		}
	case '{':
		f.in, f.depth = inValue, 1
	case '"':
		f.in, f.depth, f.quoted = inValue, 0, true
	default:
		if !f.first {
			f.in = inLine
		}
	}
	return false
}

// value takes in bytes of a value, up to its end or that of p. A line end within a string also ends the value, which
// is broken.
func (f *jsonFraming) value(p []byte) (n int) {
	for ; n < len(p); n++ {
		switch c := p[n]; {
		case c == '\n' && f.quoted:
			f.quoted, f.depth = false, 0
		case f.escaped:
			f.escaped = false
			continue
		case f.quoted:
			if f.escaped = c == '\\'; c != '"' {
				continue
			}
			f.quoted = false
		case c == '"':
			f.quoted = true
			continue
		case c == '{' || c == '[':
			f.depth++
			continue
		case c == '}' || c == ']':
			f.depth--
		default:
			continue
		}
		if f.depth == 0 {
			f.in, f.comma, f.escaped = between, false, false
			return n + 1
		}
	}
	return n
}

// record returns the content of an event, without what separates it from others.
func (f *jsonFraming) record(raw []byte) (in record, ok bool) {
	data := bytes.TrimLeft(bytes.TrimPrefix(raw, byteOrderMark), " \t\r\n,]\x1e")
	if inner := bytes.TrimLeft(bytes.TrimPrefix(data, []byte("[")), " \t\r\n"); len(inner) > 0 && inner[0] == '{' &&
		f.array {
		data = inner
	}
	return record{data: data, line: true}, len(data) > 0
}
