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

// fragment is a fragment of text in an event.
type fragment struct {
	where   *node
	variant variant
	text    string
	// tail is the first half of a surrogate pair at the end of text, head the second half at its beginning, 0 for
	// none.
	head, tail rune
}

// Choices of the variants that are views of others.
const (
	combined = -1       // all variants at a place, in order
	messages = -1 << 20 // each fragment by itself
	spaced   = -2       // barewords with the space of the format, for clients that keep it
)

// meta is what the events of a stream have in common, as they write it. It is never changed, only replaced.
type meta struct {
	id, object, created, model, createdAt string
	response                              string // OpenAI's responses: its latest value
	protocol                              protocol
	chat                                  bool // Ollama: the text is that of a message
	familiar                              bool // the places of the protocol are known
}

// parsedEvent is what was parsed of an event.
type parsedEvent struct {
	texts    []fragment
	meta     meta
	typ      string
	index    int
	sequence int
	finish   bool
	done     bool
	seen     uint64 // alternatives, by their index
	finished uint64 // alternatives that have a finish_reason
	nested   []byte // OpenAI's responses: the response in the event
}

// record is the content of an event, as its framing has it.
type record struct {
	name  string // of the event
	data  []byte
	space bool // data followed a space
	line  bool // a line, or an element of an array
}

// eventParser parses the data of events.
type eventParser struct {
	*tree
	decoder *jsontext.Decoder
	source  bytes.Reader
	choice  int  // of the current element
	ended   bool // the current element has a finish_reason
	bare    bool // there were words that are no JSON
	spaced  bool // barewords follow a space
	parsedEvent
}

// Limits of what is kept of an event, in bytes.
const (
	maxResponse   = 64 << 10
	maxIdentifier = 256
)

// errTrailing says that something follows the value.
var errTrailing = errors.New("more than one value")

func newEventParser(o *Options) *eventParser {
	return &eventParser{tree: newTree(o), decoder: jsontext.NewDecoder(new(bytes.Reader))}
}

// parse parses an event, given what is known from those before it.
func (r *eventParser) parse(in *record, before *meta) {
	r.parsedEvent = parsedEvent{texts: r.texts[:0], meta: *before, index: -1, sequence: -1, typ: in.name}
	data := bytes.TrimSpace(in.data)
	switch {
	case len(data) == 0:
		if r.bare {
			r.parseBarewords(in) // a space between words
		}
		return
	case string(data) == "[DONE]":
		r.finish, r.done = true, true
		return
	}
	if in.name == "data" && r.meta.protocol == unknownProtocol {
		r.meta.protocol = langServeProtocol
	}
	from := r.root
	if in.line && len(data) > 2 && data[1] == ':' && isCode(data[0]) {
		// A part of the AI SDK's data stream: its code and its value.
		from = r.child(r.root, string(data[:2]))
		data = bytes.TrimSpace(data[2:])
		r.meta.protocol = aiSDKDataProtocol
	}
	structured := data[0] == '{' || data[0] == '[' || data[0] == '"'
	switch err := r.parseValue(data, from); {
	case err == nil && !structured && r.bare:
		r.parseBarewords(in) // a number among words
	case err == nil:
	case !structured || !r.parseLenient(data, from):
		r.parseBarewords(in)
	}
	if len(r.nested) > 0 {
		if protocolOfType(r.typ) == responsesProtocol {
			r.markFamiliar()
		}
		_ = r.parseValue(r.nested, r.child(r.root, "response"))
	}
	r.dropNonText()
}

// isCode reports whether c is the code of a part of the AI SDK's data stream.
func isCode(c byte) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' }

// parseValue parses data that is a single value.
func (r *eventParser) parseValue(data []byte, from *node) error {
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

// parseBarewords takes data for words: some services send no JSON.
func (r *eventParser) parseBarewords(in *record) {
	if r.named {
		return
	}
	r.bare, r.spaced = true, r.spaced || in.space
	if r.spaced {
		text := string(in.data)
		if in.space {
			text = " " + text
		}
		r.texts = append(r.texts, fragment{where: r.root, variant: variant{choice: spaced}, text: text})
	}
	r.texts = append(r.texts, fragment{where: r.root, text: string(in.data)})
}

// parseLenient parses data that is nearly JSON as lenient parsers do. It reports whether that was all of the data.
func (r *eventParser) parseLenient(data []byte, from *node) bool {
	r.texts, r.nested = r.texts[:0], nil
	fixed, ok := strictJSON(data)
	return r.parseValue(fixed, from) == nil && ok
}

// maxDepth is the maximum depth of places that are told apart.
const maxDepth = 64

// markFamiliar notes that the stream is of a protocol whose places are known.
func (r *eventParser) markFamiliar() { r.meta.familiar = true }

// dropNonText drops fragments that are no text by the type of their event, and notes what the type says.
func (r *eventParser) dropNonText() {
	r.finish = r.finish || endsText(r.typ)
	if known := protocolOfType(r.typ); known != unknownProtocol {
		r.meta.protocol = known
	}
	if isFamiliarType(r.typ) {
		r.markFamiliar()
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
		r.noteVariant(&r.texts[i])
	}
}

// noteVariant notes the variants of the text at a place. Clients that do not tell them apart see one text.
func (r *eventParser) noteVariant(f *fragment) {
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

// carriesText reports whether the delta of an event of this type is text. An event without a known type is from
// another protocol, where it is.
func carriesText(typ string) bool {
	if !strings.HasPrefix(typ, "response.") {
		return true
	}
	return strings.Contains(typ, "text") || strings.Contains(typ, "refusal") || strings.Contains(typ, "transcript")
}

// isFamiliarType reports whether the type of an event is one of OpenAI's responses or Anthropic's messages, whose
// texts stand at known places.
func isFamiliarType(typ string) bool {
	switch typ {
	case "message_start", "message_delta", "message_stop", "ping":
		return true
	}
	return strings.HasPrefix(typ, "response.") || strings.HasPrefix(typ, "content_block_")
}

// protocolOfType returns the protocol that has events of this type.
func protocolOfType(typ string) protocol {
	switch typ {
	case "message_start":
		return messagesProtocol
	case "start", "start-step", "text-start", "text-delta", "reasoning-start", "reasoning-delta":
		return aiSDKMessagesProtocol
	case "message-start", "content-start", "content-delta":
		return cohereProtocol
	}
	switch {
	case strings.HasPrefix(typ, "content_block_"):
		return messagesProtocol
	case strings.HasPrefix(typ, "response."):
		return responsesProtocol
	case strings.HasPrefix(typ, "thread."):
		return assistantsProtocol
	}
	return unknownProtocol
}

// endsText reports whether the type of an event says that a text has ended.
func endsText(typ string) bool {
	switch typ {
	case "content_block_stop", "message_stop", "error", "response.completed", "response.incomplete",
		"response.failed", "text-end", "reasoning-end", "finish", "finish-step", "content-end", "message-end",
		"message_end", "stream-end", "thread.message.completed", "thread.run.completed", "done", "end":
		return true
	}
	return strings.HasPrefix(typ, "response.") && strings.HasSuffix(typ, ".done")
}

// value parses a value. element is the depth of the alternative that it is in, or 0.
func (r *eventParser) value(n *node, element int) error {
	if n.meaning&isIgnored != 0 || r.named && len(n.places) == 0 || n.depth > maxDepth {
		return r.decoder.SkipValue()
	}
	kind := r.decoder.PeekKind()
	if kind != 'n' && n.meaning&isFinish != 0 || kind == 't' && n.meaning&isEnd != 0 {
		r.finish = true
		r.ended = r.ended || element > 0
	}
	if n.protocol != unknownProtocol && r.meta.protocol == unknownProtocol &&
		(n.meaning&isEnd == 0 || kind == 't' || kind == 'f') {
		r.meta.protocol = n.protocol
	}
	if n.meaning&isFamiliar != 0 {
		r.markFamiliar()
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

// object parses the members of an object.
func (r *eventParser) object(n *node, element int) error {
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
			// A name of several words may be a message.
			r.texts = append(r.texts, fragment{where: r.child(n, "#name"), text: name + "\n"})
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

// array parses the elements of an array. Those of the outermost array are alternatives, which may state their index.
func (r *eventParser) array(n *node, element int) error {
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

// isAny reports whether an option's pointer selects all elements or members of the node.
func isAny(n *node) bool {
	for _, way := range n.places {
		if len(way.parts) > n.depth && way.parts[n.depth] == "*" {
			return true
		}
	}
	return false
}

// choiceBit returns the bit of an alternative. All from the 64th on share one.
func choiceBit(choice int) uint64 { return 1 << min(choice, 63) }

// scalar takes in a value that is neither an object nor an array.
func (r *eventParser) scalar(value jsontext.Value, n *node) {
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
		r.done = n.protocol == ollamaProtocol
	}
	switch {
	case !isString:
	case r.named:
		for _, way := range n.places {
			if way.meaning&isText != 0 && len(way.parts) <= n.depth {
				r.texts = append(r.texts, newFragment(way.text, value))
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
		r.texts = append(r.texts, newFragment(n, value))
	}
}

// number parses a whole number.
func number(dst *int, value jsontext.Value) {
	if n, err := strconv.Atoi(string(value)); err == nil {
		*dst = n
	}
}

// identify notes a member that the events of a stream have in common.
func (r *eventParser) identify(name string, value jsontext.Value) {
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

// newFragment returns the fragment in a JSON string. A lone half of a surrogate pair at either end is kept apart,
// because the other half may be in the event before or after.
func newFragment(where *node, value jsontext.Value) fragment {
	f := fragment{where: where}
	inner := value[1 : len(value)-1]
	if half := surrogate(inner, 0); half >= 0xdc00 {
		f.head, inner = half, inner[escapeSize:]
	}
	if at := len(inner) - escapeSize; at >= 0 && !escaped(inner[:at]) {
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

// escapeSize is the length of \uXXXX.
const escapeSize = 6

// surrogate returns the half of a surrogate pair that is escaped at this position, or -1.
func surrogate(text []byte, at int) rune {
	if len(text) < at+escapeSize || text[at] != '\\' || text[at+1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(text[at+2:at+escapeSize]), 16, 16)
	if err != nil || !utf16.IsSurrogate(rune(n)) {
		return -1
	}
	return rune(n)
}

// escaped reports whether a backslash at the end of text escapes what follows.
func escaped(text []byte) bool {
	return (len(text)-len(bytes.TrimRight(text, `\`)))%2 == 1
}

// unquote returns the content of a JSON string. Halves of surrogate pairs and broken UTF-8 become U+FFFD.
func unquote(value []byte) string {
	text, _ := jsontext.AppendUnquote(nil, value) // an error is one of UTF-8
	return string(text)
}

// unescape undoes the escapes of JSON. What is no escape stays.
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
		if len(text) >= escapeSize && text[1] == 'u' {
			size = escapeSize
			if half := surrogate(text, 0); half >= 0 && half < 0xdc00 && surrogate(text, escapeSize) >= 0xdc00 {
				size = 2 * escapeSize
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
