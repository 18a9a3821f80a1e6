// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"bytes"
	"fmt"
	"math/bits"

	"github.com/go-json-experiment/json/jsontext"
)

// stoppedMessage ends a stream of no known protocol, and is the error in those that have no better end.
const stoppedMessage = "The answer was stopped."

// finalEvents returns the events that end the stream well-formed. next is the first event that is not sent.
func (e *Events) finalEvents(next *event) []byte {
	out := ending{array: e.state.array, began: e.state.began, lines: e.frame.lines()}
	if e.state.raw && !out.lines {
		out.WriteString("\n\n") // in the middle of an event
	}
	open := e.state.open | next.changes.seen&^e.state.finished
	switch m := next.meta; {
	case e.state.done:
		// The client knows already that the stream has ended.
	case len(e.o.Final) > 0:
		for _, data := range e.o.Final {
			out.event("", data)
		}
	case m.protocol == geminiProtocol:
		// If the stream is an array, that ends, too.
		out.array = out.array || next.changes.array
		for open = max(open, 1); open != 0; open &= open - 1 {
			out.event("", fmt.Appendf(nil,
				`{"candidates":[{"content":{"role":"model","parts":[]},"finishReason":"SAFETY","index":%d}]}`,
				bits.TrailingZeros64(open)))
		}
	case m.protocol == completionsProtocol:
		finalChoices(&out, m, open)
	case m.protocol == ollamaProtocol:
		finalOllama(&out, m)
	case out.lines && m.protocol == aiSDKDataProtocol:
		const usage = `"usage":{"promptTokens":0,"completionTokens":0}`
		out.WriteString(`e:{"finishReason":"content-filter",` + usage + `,"isContinued":false}` + "\n")
		out.WriteString(`d:{"finishReason":"content-filter",` + usage + "}\n")
	case m.protocol == cohereV1Protocol:
		out.event("", []byte(`{"is_finished":true,"event_type":"stream-end","finish_reason":"ERROR_TOXIC","response":{"text":"","finish_reason":"ERROR_TOXIC"}}`))
	case out.lines:
		// Nothing is known that a client would understand.
	case m.protocol == messagesProtocol:
		e.finalMessages(&out)
	case m.protocol == responsesProtocol && m.response != "":
		e.finalResponse(&out, m)
	case m.protocol == cohereProtocol:
		out.event("message-end", []byte(`{"type":"message-end","delta":{"finish_reason":"ERROR","error":"`+stoppedMessage+`"}}`))
	case m.protocol == aiSDKMessagesProtocol:
		out.event("", []byte(`{"type":"error","errorText":"`+stoppedMessage+`"}`))
		out.event("", []byte("[DONE]"))
	case m.protocol == difyProtocol:
		out.event("", []byte(`{"event":"error","status":422,"code":"content_filter","message":"`+stoppedMessage+`"}`))
	case m.protocol == textGenerationProtocol:
		out.event("", []byte(`{"error":"`+stoppedMessage+`","error_type":"content_filter"}`))
	case m.protocol == llamaProtocol:
		out.event("", []byte(`{"content":"","stop":true,"stop_type":"content_filter"}`))
	case m.protocol == langServeProtocol:
		out.event("error", []byte(`{"status_code":422,"message":"`+stoppedMessage+`"}`))
		out.event("end", nil)
	default:
		out.event("error", []byte(`{"error":{"code":"content_filter","message":"`+stoppedMessage+`"}}`))
		if m.protocol == assistantsProtocol {
			out.event("done", []byte("[DONE]"))
		}
	}
	if out.lines && out.array {
		out.close()
	}
	return out.Bytes()
}

// ending writes the end of a stream.
type ending struct {
	bytes.Buffer
	lines bool
	array bool // the events are elements of an array
	began bool // there are some before
}

// event writes an event. The name may be empty.
func (out *ending) event(name string, data []byte) {
	switch {
	case !out.lines:
		writeEvent(&out.Buffer, name, data)
		return
	case out.array && out.began:
		out.WriteString(",\n")
	case out.array:
		out.WriteByte('[')
	}
	out.began = true
	out.Write(data)
	if !out.array {
		out.WriteByte('\n')
	}
}

// close ends the array.
func (out *ending) close() {
	if out.began {
		out.WriteString("]\n")
	}
}

// writeEvent writes a server-sent event. The name may be empty.
func writeEvent(out *bytes.Buffer, name string, data []byte) {
	if name != "" {
		out.WriteString("event: " + name + "\n")
	}
	if len(data) > 0 || name == "" {
		for line := range bytes.Lines(append(data[:len(data):len(data)], '\n')) {
			out.WriteString("data: ")
			out.Write(bytes.TrimRight(line, "\r\n"))
			out.WriteByte('\n')
		}
	}
	out.WriteByte('\n')
}

// finalOllama ends an answer of Ollama.
func finalOllama(out *ending, m *meta) {
	text := `"response":""`
	if m.chat {
		text = `"message":{"role":"assistant","content":""}`
	}
	out.event("", fmt.Appendf(nil, `{"model":%s,"created_at":%s,%s,"done":true,"done_reason":"content_filter"}`,
		or(m.model, `""`), or(m.createdAt, `"1970-01-01T00:00:00Z"`), text))
}

// finalChoices ends chat completions and completions: each open alternative, and the stream.
func finalChoices(out *ending, m *meta, open uint64) {
	if open == 0 {
		open = 1
	}
	object, delta := or(m.object, `"chat.completion.chunk"`), `"delta":{}`
	if object == `"text_completion"` {
		delta = `"text":""`
	}
	for ; open != 0; open &= open - 1 {
		out.event("", fmt.Appendf(nil,
			`{"id":%s,"object":%s,"created":%s,"model":%s,"choices":[{"index":%d,%s,"logprobs":null,"finish_reason":"content_filter"}]}`,
			or(m.id, `""`), object, or(m.created, "0"), or(m.model, `""`), bits.TrailingZeros64(open), delta))
	}
	if !out.lines {
		out.event("", []byte("[DONE]"))
	}
}

// finalMessages ends Anthropic's messages: the open content block, and the message.
func (e *Events) finalMessages(out *ending) {
	if e.state.block >= 0 {
		out.event("content_block_stop", fmt.Appendf(nil, `{"type":"content_block_stop","index":%d}`, e.state.block))
	}
	out.event("message_delta",
		[]byte(`{"type":"message_delta","delta":{"stop_reason":"refusal","stop_sequence":null},"usage":{"output_tokens":0}}`))
	out.event("message_stop", []byte(`{"type":"message_stop"}`))
}

// finalResponse ends OpenAI's responses with the response as it began, and the reason why it is incomplete.
func (e *Events) finalResponse(out *ending, m *meta) {
	var response bytes.Buffer
	copyMembers(&response, []byte(m.response), func(name string) bool {
		return name != "status" &&
			name != "incomplete_details"
	})
	out.event("response.incomplete", fmt.Appendf(nil,
		`{"type":"response.incomplete","sequence_number":%d,"response":{%s"status":"incomplete","incomplete_details":{"reason":"content_filter"}}}`,
		e.state.sequence+1, response.Bytes()))
}

// copyMembers writes the wanted members of an object, each followed by a comma.
func copyMembers(out *bytes.Buffer, object []byte, wanted func(name string) bool) {
	decoder := jsontext.NewDecoder(bytes.NewReader(object), jsontext.AllowDuplicateNames(true),
		jsontext.AllowInvalidUTF8(true))
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
