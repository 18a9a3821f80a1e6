// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/go-json-experiment/json/jsontext"
)

// found is a piece of text in an event.
type found struct {
	where   *node
	variant variant
	text    string
	// tail is the first half of a surrogate pair at the end of text, head the second half at its beginning; 0 for none.
	head, tail rune
}

// Variants of texts that are views of others.
const (
	combined = -1       // all variants at a place in their order
	messages = -1 << 20 // each piece for itself
	spaced   = -2       // bare words with the space that belongs to the format, for readers that leave it there
)

// meta is what the events of a stream have in common, as they write it. It is never changed, only replaced.
type meta struct {
	id, object, created, model, createdAt string
	response                              string // of responses: the value that the last events showed
	kind                                  kind
	chat                                  bool // of Ollama: the text is that of a message
	familiar                              bool // its places are known
}

// reading is what was read in an event.
type reading struct {
	texts    []found
	meta     meta
	typ      string
	index    int
	sequence int
	finish   bool
	done     bool
	seen     uint64 // choices, by their index
	finished uint64 // those of them that have a finish_reason
	nested   []byte // the answer that an event of responses shows
}

// record is what the framing of a stream says about an event.
type record struct {
	name  string // of the event
	data  []byte
	space bool // data followed a space
	line  bool // it is a line, or an element of an array
}

// reader reads the data of events.
type reader struct {
	*tree
	decoder *jsontext.Decoder
	source  bytes.Reader
	choice  int  // of the element that is read
	ended   bool // the element that is read has a reason to finish
	bare    bool // words came that are no JSON
	spaced  bool // after a space
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
	return &reader{tree: newTree(o), decoder: jsontext.NewDecoder(new(bytes.Reader))}
}

// read reads an event, on the base of what is known from those before.
func (r *reader) read(in *record, before *meta) {
	r.reading = reading{texts: r.texts[:0], meta: *before, index: -1, sequence: -1, typ: in.name}
	data := bytes.TrimSpace(in.data)
	switch {
	case len(data) == 0:
		if r.bare {
			r.readBare(in) // a space between words
		}
		return
	case string(data) == "[DONE]":
		r.finish, r.done = true, true
		return
	}
	if in.name == "data" && r.meta.kind == unknownKind {
		r.meta.kind = langServeKind
	}
	from := r.root
	if in.line && len(data) > 2 && data[1] == ':' && isCode(data[0]) {
		// A part of the AI SDK's data stream: its code and its value.
		from = r.child(r.root, string(data[:2]))
		data = bytes.TrimSpace(data[2:])
		r.meta.kind = dataKind
	}
	structured := data[0] == '{' || data[0] == '[' || data[0] == '"'
	switch err := r.readValue(data, from); {
	case err == nil && !structured && r.bare:
		r.readBare(in) // a number among words
	case err == nil:
	case !structured || !r.readLoosely(data, from):
		r.readBare(in)
	}
	if len(r.nested) > 0 {
		if kindOfType(r.typ) == responsesKind {
			r.familiar()
		}
		_ = r.readValue(r.nested, r.child(r.root, "response"))
	}
	r.sort()
}

// isCode reports whether c is the code of a part of the AI SDK's data stream.
func isCode(c byte) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' }

// readValue reads a value that is all of data.
func (r *reader) readValue(data []byte, from *node) error {
	r.source.Reset(data)
	r.decoder.Reset(&r.source, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if err := r.value(from, 0); err != nil {
		return err
	}
	if int(r.decoder.InputOffset()) < len(data) {
		return errTrailing
	}
	return nil
}

// readBare takes data for words: some services send no JSON.
func (r *reader) readBare(in *record) {
	if r.named {
		return
	}
	r.bare, r.spaced = true, r.spaced || in.space
	if r.spaced {
		text := string(in.data)
		if in.space {
			text = " " + text
		}
		r.texts = append(r.texts, found{where: r.root, variant: variant{choice: spaced}, text: text})
	}
	r.texts = append(r.texts, found{where: r.root, text: string(in.data)})
}

// readLoosely reads data that is nearly JSON as lenient parsers do. It reports whether that was all there is to read.
func (r *reader) readLoosely(data []byte, from *node) bool {
	r.texts, r.nested = r.texts[:0], nil
	fixed, ok := strict(data)
	return r.readValue(fixed, from) == nil && ok
}

// maxDepth is how deep the places are that are told apart.
const maxDepth = 64

// familiar notes that the stream is of a kind whose places are known.
func (r *reader) familiar() { r.meta.familiar = true }

// sort drops text that is none by the type of its event, and notes what the type says.
func (r *reader) sort() {
	r.finish = r.finish || endsText(r.typ)
	if known := kindOfType(r.typ); known != unknownKind {
		r.meta.kind = known
	}
	if isFamiliarType(r.typ) {
		r.familiar()
	}
	typ := r.typ
	if r.meta.familiar {
		typ = ""
	}
	kept := r.texts[:0]
	for _, f := range r.texts {
		if r.meta.familiar && f.where.meaning&isUsual != 0 || f.where.meaning&isOutput != 0 && !carriesText(r.typ) {
			continue
		}
		if f.variant.choice >= 0 && f.where != r.root && !r.named {
			f.variant.typ = typ
		}
		kept = append(kept, f)
	}
	r.texts = kept
	if r.named {
		return
	}
	for i := range r.texts {
		r.mix(&r.texts[i])
	}
}

// mix notes variants of the text at a place. Readers that do not tell them apart see one text.
func (r *reader) mix(f *found) {
	n := f.where
	v := f.variant
	if n.branch {
		v.choice = 0 // alternatives are never one text
	}
	switch {
	case v.choice < 0 || n == r.rest:
	case !n.begun:
		n.first, n.begun = v, true
	case v != n.first:
		n.mixed = true
	}
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
	case "message_start", "message_delta", "message_stop", "ping":
		return true
	}
	return strings.HasPrefix(typ, "response.") || strings.HasPrefix(typ, "content_block_")
}

// kindOfType is the interface that has events of this type.
func kindOfType(typ string) kind {
	switch typ {
	case "message_start":
		return messagesKind
	case "start", "start-step", "text-start", "text-delta", "reasoning-start", "reasoning-delta":
		return uiKind
	case "message-start", "content-start", "content-delta":
		return cohereKind
	}
	switch {
	case strings.HasPrefix(typ, "content_block_"):
		return messagesKind
	case strings.HasPrefix(typ, "response."):
		return responsesKind
	case strings.HasPrefix(typ, "thread."):
		return assistantsKind
	}
	return unknownKind
}

// endsText reports whether the type of an event says that a text has ended.
func endsText(typ string) bool {
	switch typ {
	case "content_block_stop", "message_stop", "error",
		"response.completed", "response.incomplete", "response.failed",
		"text-end", "reasoning-end", "finish", "finish-step", "content-end", "message-end", "message_end", "stream-end",
		"thread.message.completed", "thread.run.completed", "done", "end":
		return true
	}
	return strings.HasPrefix(typ, "response.") && strings.HasSuffix(typ, ".done")
}

// value reads a value. element is the depth of the alternative that it is in, or 0.
func (r *reader) value(n *node, element int) error {
	if n.meaning&isIgnored != 0 || r.named && len(n.ways) == 0 || n.depth > maxDepth {
		return r.decoder.SkipValue()
	}
	kind := r.decoder.PeekKind()
	if kind != 'n' && n.meaning&isFinish != 0 || kind == 't' && n.meaning&isEnd != 0 {
		r.finish = true
		r.ended = r.ended || element > 0
	}
	if n.kind != unknownKind && r.meta.kind == unknownKind && (n.meaning&isEnd == 0 || kind == 't' || kind == 'f') {
		r.meta.kind = n.kind
	}
	if n.meaning&isFamiliar != 0 {
		r.familiar()
	}
	switch {
	case kind == '{' && n.meaning&isResponse != 0 && n.depth == 1 && len(r.nested) == 0:
		value, err := r.decoder.ReadValue()
		if err != nil {
			return err
		}
		if len(value) <= maxResponse {
			r.meta.response = string(value)
		}
		r.nested = value.Clone()
		return nil
	case kind == '{':
		return r.object(n, element)
	case kind == '[':
		return r.array(n, element)
	}
	value, err := r.decoder.ReadValue()
	if err != nil {
		return err
	}
	r.scalar(value, n)
	return nil
}

// object reads the members of an object.
func (r *reader) object(n *node, element int) error {
	if _, err := r.decoder.ReadToken(); err != nil {
		return err
	}
	for r.decoder.PeekKind() != '}' {
		token, err := r.decoder.ReadToken()
		if err != nil {
			return err
		}
		name := token.String()
		if !r.named && len(name) > 1 && strings.IndexByte(name, ' ') > 0 {
			// A name of several words may be what somebody says.
			r.texts = append(r.texts, found{where: r.child(n, "#name"), text: name + "\n"})
		}
		next := r.child(n, r.memberOf(name))
		if name != "index" || n.depth != element || n.depth == 0 || r.decoder.PeekKind() != '0' {
			if err := r.value(next, element); err != nil {
				return err
			}
			continue
		}
		value, err := r.decoder.ReadValue()
		if err != nil {
			return err
		}
		if i, err := strconv.Atoi(string(value)); err == nil && i >= 0 {
			r.choice = i
		}
	}
	_, err := r.decoder.ReadToken()
	return err
}

// array reads the elements of an array. Those of the outermost array are alternatives, which may tell their index.
func (r *reader) array(n *node, element int) error {
	if _, err := r.decoder.ReadToken(); err != nil {
		return err
	}
	for i := 0; r.decoder.PeekKind() != ']'; i++ {
		name := "*"
		if r.named {
			name = strconv.Itoa(i)
		}
		next := r.child(n, name)
		if element > 0 || r.named && !isAny(n) {
			if err := r.value(next, element); err != nil {
				return err
			}
			continue
		}
		first := len(r.texts)
		r.choice, r.ended = i, false
		if err := r.value(next, n.depth+1); err != nil {
			return err
		}
		for f := range r.texts[first:] {
			r.texts[first+f].variant.choice = r.choice
		}
		if !next.branch {
			continue
		}
		r.seen |= choiceBit(r.choice)
		if r.ended {
			r.finished |= choiceBit(r.choice)
		}
	}
	_, err := r.decoder.ReadToken()
	return err
}

// isAny reports whether a place asks for all elements or members of the node.
func isAny(n *node) bool {
	for _, way := range n.ways {
		if len(way.parts) > n.depth && way.parts[n.depth] == "*" {
			return true
		}
	}
	return false
}

// choiceBit is the bit of an alternative. Those that nobody asks for share one.
func choiceBit(choice int) uint64 { return 1 << min(choice, 63) }

// scalar takes in a value that is neither an object nor an array.
func (r *reader) scalar(value jsontext.Value, n *node) {
	isString := value.Kind() == '"'
	if n.meaning&isType != 0 && isString {
		r.typ = unquote(value)
	}
	if n.meaning&isIndex != 0 {
		number(&r.index, value)
	}
	if n.meaning&isSequence != 0 {
		number(&r.sequence, value)
	}
	if n.meaning&isIdentifier != 0 && len(value) <= maxIdentifier {
		r.identify(n.name, value)
	}
	if n.meaning&isEnd != 0 && value.Kind() == 't' {
		r.done = n.kind == ollamaKind
	}
	switch {
	case !isString:
	case r.named:
		for _, way := range n.ways {
			if way.meaning&isText != 0 && len(way.parts) <= n.depth {
				r.texts = append(r.texts, newFound(way.text, value))
				return // however many places it stands at
			}
		}
	case n.depth == 1 && n.name == "event" && r.typ == "":
		r.typ = unquote(value)
		fallthrough
	case !r.meta.familiar || n.meaning&isUsual == 0:
		if n.depth == 2 && n.name == "content" {
			r.meta.chat = true
		}
		r.texts = append(r.texts, newFound(n, value))
	}
}

// number reads a whole number.
func number(dst *int, value jsontext.Value) {
	if n, err := strconv.Atoi(string(value)); err == nil {
		*dst = n
	}
}

// identify notes a member that the events of a stream have in common.
func (r *reader) identify(name string, value jsontext.Value) {
	var dst *string
	switch name {
	case "id":
		dst = &r.meta.id
	case "object":
		dst = &r.meta.object
	case "created":
		dst = &r.meta.created
	case "created_at":
		dst = &r.meta.createdAt
	default:
		dst = &r.meta.model
	}
	if *dst != string(value) {
		*dst = string(value)
	}
}

// newFound makes a piece of text of a JSON string. A lone half of a surrogate pair at either end is kept apart, because the
// other half may be in the event before or after.
func newFound(where *node, value jsontext.Value) found {
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
	if f.head == 0 && f.tail == 0 {
		f.text = unquote(value)
		return f
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

// unescape returns text of JSON without its escapes. What is none stays.
func unescape(text []byte) string {
	at := bytes.IndexByte(text, '\\')
	if at < 0 {
		return string(text)
	}
	out := make([]byte, 0, len(text))
	for ; at >= 0; at = bytes.IndexByte(text, '\\') {
		out = append(out, text[:at]...)
		text = text[at:]
		size := min(2, len(text))
		if len(text) >= escape && text[1] == 'u' {
			size = escape
			if half := surrogate(text, 0); half >= 0 && half < 0xdc00 && surrogate(text, escape) >= 0xdc00 {
				size = 2 * escape
			}
		}
		plain, err := jsontext.AppendUnquote(nil, append(append([]byte{'"'}, text[:size]...), '"'))
		if err != nil {
			plain = text[:size]
		}
		out, text = append(out, plain...), text[size:]
	}
	return string(append(out, text...))
}
