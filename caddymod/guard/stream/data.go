// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"bytes"
	"errors"
	"math/bits"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/go-json-experiment/json/jsontext"
)

// What a value at a place in an event's data is.
type meaning uint8

const (
	isText       meaning = iota
	isOutput             // text only if the event's type says so: arguments of tools and sound stand at the same place
	isFinish             // anything but null ends the text
	isType               // the type of an event of responses and messages
	isIndex              // of a content block
	isSequence           // the number of an event of responses
	isResponse           // of responses: what the answer is so far
	isIdentifier         // one of meta's
	isFamiliar           // only the streams have it whose other places are known
)

// place is a JSON Pointer in parts and what stands there.
type place struct {
	parts   []string
	meaning meaning
}

// known are the places whose meaning is the same in every stream.
var known = []place{
	{[]string{"choices"}, isFamiliar},
	{[]string{"candidates"}, isFamiliar},
	{[]string{"choices", "*", "finish_reason"}, isFinish},
	{[]string{"candidates", "*", "finishReason"}, isFinish},
	{[]string{"delta", "stop_reason"}, isFinish},
	{[]string{"error"}, isFinish},
	{[]string{"type"}, isType},
	{[]string{"index"}, isIndex},
	{[]string{"sequence_number"}, isSequence},
	{[]string{"response"}, isResponse},
	{[]string{"id"}, isIdentifier},
	{[]string{"object"}, isIdentifier},
	{[]string{"created"}, isIdentifier},
	{[]string{"model"}, isIdentifier},
}

// usual are the places of text that are read when no others are named.
var usual = []place{
	// Chat completions, and what services that speak like them add.
	{[]string{"choices", "*", "delta", "content"}, isText},
	{[]string{"choices", "*", "delta", "refusal"}, isText},
	{[]string{"choices", "*", "message", "content"}, isText},
	{[]string{"choices", "*", "delta", "reasoning_content"}, isText},
	{[]string{"choices", "*", "delta", "reasoning"}, isText},
	{[]string{"choices", "*", "delta", "audio", "transcript"}, isText},
	// Completions.
	{[]string{"choices", "*", "text"}, isText},
	// Responses.
	{[]string{"delta"}, isOutput},
	// Messages, and the completions that they replaced.
	{[]string{"content_block", "text"}, isText},
	{[]string{"delta", "text"}, isText},
	{[]string{"delta", "thinking"}, isText},
	{[]string{"completion"}, isText},
	// Gemini's own interface.
	{[]string{"candidates", "*", "content", "parts", "*", "text"}, isText},
}

// places returns where to look for what.
func places(delta [][]string) []place {
	all := append([]place(nil), known...)
	if len(delta) == 0 {
		return append(all, usual...)
	}
	for _, parts := range delta[:min(len(delta), MaxDelta)] {
		all = append(all, place{parts, isText})
	}
	return all
}

// found is a piece of text in an event.
type found struct {
	where  int // the place, or noPlace; texts of different places are different texts
	choice int // the alternative that it belongs to
	text   string
	// tail is the first half of a surrogate pair at the end of text, head the second half at its beginning; 0 for none.
	head, tail rune
}

// noPlace is where data stands that is text as a whole.
const noPlace = -1

// meta is what the events of a stream have in common, as they write it. It is never changed, only replaced.
type meta struct {
	id, object, created, model string
	response                   string // of responses: the value that the last events showed
	messages                   bool   // a stream of Anthropic's messages
	contents                   bool   // a stream of Gemini's contents
}

// reading is what was read in an event.
type reading struct {
	texts    []found
	meta     meta
	typ      string
	index    int
	sequence int
	finish   bool
	familiar bool   // the event is of a kind whose places are known
	seen     uint64 // choices, by their index
	finished uint64 // those of them that have a finish_reason
}

// reader reads the data of events.
type reader struct {
	places  []place
	usual   bool
	decoder *jsontext.Decoder
	source  bytes.Reader
	choice  int  // of the element that is read
	ended   bool // the element that is read has a reason to finish
	reading
}

// Limits of what is kept of an event, in bytes.
const (
	maxResponse   = 64 << 10
	maxIdentifier = 256
)

// errTrailing says that something follows the value.
var errTrailing = errors.New("more than one value")

func newReader(o *Options) *reader {
	return &reader{places: places(o.Delta), usual: len(o.Delta) == 0, decoder: jsontext.NewDecoder(new(bytes.Reader))}
}

// read reads the data of an event, on the base of what is known from those before.
func (r *reader) read(data []byte, before *meta) {
	r.reading = reading{texts: r.texts[:0], meta: *before, index: -1, sequence: -1}
	trimmed := bytes.TrimSpace(data)
	switch {
	case len(trimmed) == 0:
		return
	case string(trimmed) == "[DONE]":
		r.finish = true
		return
	}
	r.begin(trimmed)
	var live uint64 = 1<<len(r.places) - 1
	err := r.value(live, 0, 0)
	if err == nil && int(r.decoder.InputOffset()) < len(trimmed) {
		err = errTrailing
	}
	switch {
	case !r.usual:
		// It is known where the text stands.
	case err != nil: // some services send bare words
		r.texts = append(r.texts[:0], found{where: noPlace, text: string(data)})
	case trimmed[0] == '"':
		r.texts = append(r.texts[:0], newFound(noPlace, trimmed))
	case len(r.texts) == 0 && !r.familiar && !r.finish && !isFamiliarType(r.typ):
		r.readAll(trimmed)
	}
	r.sort()
}

// begin makes the decoder read data.
func (r *reader) begin(data []byte) {
	r.source.Reset(data)
	r.decoder.Reset(&r.source, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// readAll takes all strings of an event for text whose kind is not known, but for the names of members. Each of them, and each
// event, is a paragraph of its own.
func (r *reader) readAll(data []byte) {
	r.begin(data)
	var text []byte
	for {
		value, isName := r.decoder.PeekKind(), false
		if kind, n := r.decoder.StackIndex(r.decoder.StackDepth()); kind == '{' {
			isName = n%2 == 0
		}
		token, err := r.decoder.ReadToken()
		if err != nil {
			break
		}
		if value == '"' && !isName {
			text = append(append(text, token.String()...), '\n')
		}
	}
	if len(text) > 0 {
		r.texts = append(r.texts, found{where: noPlace, text: string(text)})
	}
}

// sort drops text that is none by the type of its event, and notes what the type says.
func (r *reader) sort() {
	r.finish = r.finish || endsText(r.typ)
	r.meta.messages = r.meta.messages || r.typ == "message_start" || strings.HasPrefix(r.typ, "content_block_")
	kept := r.texts[:0]
	for _, f := range r.texts {
		if f.where == noPlace || r.places[f.where].meaning != isOutput || carriesText(r.typ) {
			kept = append(kept, f)
		}
		if r.usual && f.where != noPlace && r.places[f.where].parts[0] == "candidates" {
			r.meta.contents = true
		}
	}
	r.texts = kept
}

// carriesText reports whether the delta of an event of this type is text. No type is that of somebody else's stream.
func carriesText(typ string) bool {
	if !strings.HasPrefix(typ, "response.") {
		return true
	}
	return strings.Contains(typ, "text") || strings.Contains(typ, "refusal") || strings.Contains(typ, "transcript")
}

// isFamiliarType reports whether the type of an event is one of responses or messages, whose texts stand at known places.
func isFamiliarType(typ string) bool {
	switch typ {
	case "message_start", "message_delta", "message_stop", "ping", "error":
		return true
	}
	return strings.HasPrefix(typ, "response.") || strings.HasPrefix(typ, "content_block_")
}

// endsText reports whether the type of an event says that a text has ended.
func endsText(typ string) bool {
	switch typ {
	case "content_block_stop", "message_stop", "error",
		"response.completed", "response.incomplete", "response.failed":
		return true
	}
	return strings.HasPrefix(typ, "response.") && strings.HasSuffix(typ, ".done")
}

// value reads a value. live has a bit for each place that the way to here leads to or may lead to, depth is the length of
// that way, and element that of the way to the alternative that it goes through, or 0.
func (r *reader) value(live uint64, depth, element int) error {
	if live == 0 {
		return r.decoder.SkipValue()
	}
	kind := r.decoder.PeekKind()
	if kind != 'n' && r.is(isFinish, live, depth) {
		r.finish = true
		r.ended = r.ended || element > 0
	}
	r.familiar = r.familiar || r.is(isFamiliar, live, depth)
	switch {
	case kind == '{' && r.is(isResponse, live, depth):
		value, err := r.decoder.ReadValue()
		if err == nil && len(value) <= maxResponse {
			r.meta.response = string(value)
		}
		return err
	case kind == '{':
		return r.object(live, depth, element)
	case kind == '[':
		return r.array(live, depth, element)
	}
	value, err := r.decoder.ReadValue()
	if err != nil {
		return err
	}
	r.scalar(value, live, depth)
	return nil
}

// object reads the members of an object.
func (r *reader) object(live uint64, depth, element int) error {
	if _, err := r.decoder.ReadToken(); err != nil {
		return err
	}
	for r.decoder.PeekKind() != '}' {
		token, err := r.decoder.ReadToken()
		if err != nil {
			return err
		}
		name := token.String()
		next := r.step(live, depth, name)
		if name != "index" || depth != element || depth == 0 || r.decoder.PeekKind() != '0' {
			if err := r.value(next, depth+1, element); err != nil {
				return err
			}
			continue
		}
		value, err := r.decoder.ReadValue()
		if err != nil {
			return err
		}
		if n, err := strconv.Atoi(string(value)); err == nil && n >= 0 {
			r.choice = n
		}
	}
	_, err := r.decoder.ReadToken()
	return err
}

// array reads the elements of an array. Those of the outermost array that a place asks all elements of are alternatives, which
// may tell their index.
func (r *reader) array(live uint64, depth, element int) error {
	if _, err := r.decoder.ReadToken(); err != nil {
		return err
	}
	for i := 0; r.decoder.PeekKind() != ']'; i++ {
		next := r.step(live, depth, strconv.Itoa(i))
		if element > 0 || !r.isAny(live, depth) {
			if err := r.value(next, depth+1, element); err != nil {
				return err
			}
			continue
		}
		first := len(r.texts)
		r.choice, r.ended = i, false
		if err := r.value(next, depth+1, depth+1); err != nil {
			return err
		}
		if next == 0 {
			continue
		}
		for f := range r.texts[first:] {
			r.texts[first+f].choice = r.choice
		}
		r.seen |= choiceBit(r.choice)
		if r.ended {
			r.finished |= choiceBit(r.choice)
		}
	}
	_, err := r.decoder.ReadToken()
	return err
}

// isAny reports whether a place asks for all elements or members of what is at the end of the way.
func (r *reader) isAny(live uint64, depth int) bool {
	for rest := live; rest != 0; rest &= rest - 1 {
		if parts := r.places[bits.TrailingZeros64(rest)].parts; len(parts) > depth && parts[depth] == "*" {
			return true
		}
	}
	return false
}

// choiceBit is the bit of an alternative. Those that nobody asks for share one.
func choiceBit(choice int) uint64 { return 1 << min(choice, 63) }

// step returns the places that the way can lead to with one more part. What leads to a text leads to all that is in it.
func (r *reader) step(live uint64, depth int, name string) (next uint64) {
	for rest := live; rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros64(rest)
		place := &r.places[i]
		within := depth >= len(place.parts)
		if within && place.meaning == isText || !within && (place.parts[depth] == "*" || place.parts[depth] == name) {
			next |= 1 << i
		}
	}
	return next
}

// is reports whether the way leads to a place of the meaning.
func (r *reader) is(meaning meaning, live uint64, depth int) bool {
	for rest := live; rest != 0; rest &= rest - 1 {
		place := &r.places[bits.TrailingZeros64(rest)]
		if place.meaning == meaning && len(place.parts) == depth {
			return true
		}
	}
	return false
}

// scalar takes in a value that is neither an object nor an array.
func (r *reader) scalar(value jsontext.Value, live uint64, depth int) {
	taken := false
	for rest := live; rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros64(rest)
		place := &r.places[i]
		if len(place.parts) > depth {
			continue
		}
		switch place.meaning {
		case isText, isOutput:
			if value.Kind() == '"' && !taken {
				r.texts = append(r.texts, newFound(i, value))
				taken = true // however many places it stands at
			}
		case isType:
			if value.Kind() == '"' {
				r.typ = unquote(value)
			}
		case isIndex:
			r.number(&r.index, value)
		case isSequence:
			r.number(&r.sequence, value)
		case isIdentifier:
			if len(value) <= maxIdentifier {
				r.identify(place.parts[0], value)
			}
		}
	}
}

// number reads a whole number.
func (r *reader) number(dst *int, value jsontext.Value) {
	if n, err := strconv.Atoi(string(value)); err == nil {
		*dst = n
	}
}

// identify notes a member that the events of a stream have in common.
func (r *reader) identify(name string, value jsontext.Value) {
	dst := map[string]*string{"id": &r.meta.id, "object": &r.meta.object, "created": &r.meta.created, "model": &r.meta.model}[name]
	if *dst != string(value) {
		*dst = string(value)
	}
}

// newFound makes a piece of text of a JSON string. A lone half of a surrogate pair at either end is kept apart, because the
// other half may be in the event before or after.
func newFound(where int, value jsontext.Value) found {
	f := found{where: where}
	inner := value[1 : len(value)-1]
	if half := surrogate(inner, 0); half >= 0xdc00 {
		f.head, inner = half, inner[escape:]
	}
	if at := len(inner) - escape; at >= 0 && !escaped(inner[:at]) {
		if half := surrogate(inner, at); half >= 0 && half < 0xdc00 {
			f.tail, inner = half, inner[:at]
		}
	}
	f.text = unquote(append(append([]byte{'"'}, inner...), '"'))
	return f
}

// escape is the length of \uXXXX.
const escape = 6

// surrogate returns the half of a surrogate pair that is escaped at the position, or -1.
func surrogate(text []byte, at int) rune {
	if len(text) < at+escape || text[at] != '\\' || text[at+1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(text[at+2:at+escape]), 16, 16)
	if err != nil || !utf16.IsSurrogate(rune(n)) {
		return -1
	}
	return rune(n)
}

// escaped reports whether a backslash at the end of text takes what follows its meaning.
func escaped(text []byte) bool {
	return (len(text)-len(bytes.TrimRight(text, `\`)))%2 == 1
}

// unquote returns what a JSON string says; halves of surrogate pairs and broken UTF-8 become U+FFFD.
func unquote(value []byte) string {
	text, _ := jsontext.AppendUnquote(nil, value) // an error is one of UTF-8
	return string(text)
}
