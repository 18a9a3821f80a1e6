// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"bytes"
	"fmt"
	"math/bits"

	"github.com/go-json-experiment/json/jsontext"
)

// final returns the events that end the stream well-formed. next is the first event that does not go on.
func (e *Events) final(next *event) []byte {
	var out bytes.Buffer
	switch m := next.meta; {
	case e.state.done:
		// Its reader knows already that it has ended.
	case len(e.o.Final) > 0:
		for _, data := range e.o.Final {
			writeEvent(&out, "", data)
		}
	case m.messages:
		e.finalMessages(&out)
	case m.response != "":
		e.finalResponse(&out, m)
	case m.contents:
		for open := e.state.open | next.changes.seen&^e.state.finished; open != 0; open &= open - 1 {
			writeEvent(&out, "", fmt.Appendf(nil,
				`{"candidates":[{"content":{"role":"model","parts":[]},"finishReason":"SAFETY","index":%d}]}`, bits.TrailingZeros64(open)))
		}
	default:
		e.finalChoices(&out, m, e.state.open|next.changes.seen&^e.state.finished)
	}
	return out.Bytes()
}

// writeEvent writes an event; name may be empty.
func writeEvent(out *bytes.Buffer, name string, data []byte) {
	if name != "" {
		out.WriteString("event: " + name + "\n")
	}
	for line := range bytes.Lines(append(data[:len(data):len(data)], '\n')) {
		out.WriteString("data: ")
		out.Write(bytes.TrimRight(line, "\r\n"))
		out.WriteByte('\n')
	}
	out.WriteByte('\n')
}

// finalChoices ends chat completions and completions: each alternative that is open, and the stream.
func (e *Events) finalChoices(out *bytes.Buffer, m *meta, open uint64) {
	if open == 0 {
		open = 1
	}
	object, delta := or(m.object, `"chat.completion.chunk"`), `"delta":{}`
	if object == `"text_completion"` {
		delta = `"text":""`
	}
	for ; open != 0; open &= open - 1 {
		writeEvent(out, "", fmt.Appendf(nil,
			`{"id":%s,"object":%s,"created":%s,"model":%s,"choices":[{"index":%d,%s,"logprobs":null,"finish_reason":"content_filter"}]}`,
			or(m.id, `""`), object, or(m.created, "0"), or(m.model, `""`), bits.TrailingZeros64(open), delta))
	}
	writeEvent(out, "", []byte("[DONE]"))
}

// finalMessages ends Anthropic's messages: the content block that is open, and the message.
func (e *Events) finalMessages(out *bytes.Buffer) {
	if e.state.block >= 0 {
		writeEvent(out, "content_block_stop", fmt.Appendf(nil, `{"type":"content_block_stop","index":%d}`, e.state.block))
	}
	writeEvent(out, "message_delta",
		[]byte(`{"type":"message_delta","delta":{"stop_reason":"refusal","stop_sequence":null},"usage":{"output_tokens":0}}`))
	writeEvent(out, "message_stop", []byte(`{"type":"message_stop"}`))
}

// finalResponse ends a stream of responses with the answer as it began, and why it is incomplete.
func (e *Events) finalResponse(out *bytes.Buffer, m *meta) {
	var response bytes.Buffer
	copyMembers(&response, []byte(m.response), func(name string) bool { return name != "status" && name != "incomplete_details" })
	writeEvent(out, "response.incomplete", fmt.Appendf(nil,
		`{"type":"response.incomplete","sequence_number":%d,"response":{%s"status":"incomplete","incomplete_details":{"reason":"content_filter"}}}`,
		e.state.sequence+1, response.Bytes()))
}

// copyMembers writes the members of an object whose names are wanted, each followed by a comma.
func copyMembers(out *bytes.Buffer, object []byte, wanted func(name string) bool) {
	decoder := jsontext.NewDecoder(bytes.NewReader(object), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if _, err := decoder.ReadToken(); err != nil {
		return
	}
	for decoder.PeekKind() == '"' {
		name, err := decoder.ReadValue()
		if err != nil {
			return
		}
		name = name.Clone()
		value, err := decoder.ReadValue()
		if err != nil {
			return
		}
		if wanted(unquote(name)) {
			fmt.Fprintf(out, "%s:%s,", name, value)
		}
	}
}

// or returns value, or other if it is empty.
func or(value, other string) string {
	if value == "" {
		return other
	}
	return value
}
