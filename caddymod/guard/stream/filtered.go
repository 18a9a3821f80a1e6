// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Filtered returns what the API of a language model answers when a content filter took out the answer: the same
// answer without its text, and with the reason why there is none. It knows chat completions and completions
// (finish_reason "content_filter"), responses (status "incomplete"), Anthropic's messages (stop_reason "refusal"),
// Gemini's contents (finishReason "SAFETY"), Ollama's chat and generate (done_reason "content_filter"), Cohere's chat
// (finish_reason "ERROR") and the text of Hugging Face's text generation, which has no such reason. It returns nil
// for anything else.
func Filtered(answer []byte) []byte {
	var members map[string]jsontext.Value
	if json.Unmarshal(answer, &members, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) != nil {
		return nil
	}
	var out bytes.Buffer
	out.WriteByte('{')
	switch {
	case string(members["object"]) == `"chat.completion"`:
		keep(&out, answer, "id", "object", "created", "model", "system_fingerprint", "service_tier", "usage")
		filterChoices(&out, members["choices"], `"message":{"role":"assistant","content":"","refusal":null}`)
	case string(members["object"]) == `"text_completion"`:
		keep(&out, answer, "id", "object", "created", "model", "system_fingerprint", "usage")
		filterChoices(&out, members["choices"], `"text":""`)
	case string(members["object"]) == `"response"`:
		keep(&out, answer, "id", "object", "created_at", "model", "service_tier", "usage")
		out.WriteString(`"status":"incomplete","incomplete_details":{"reason":"content_filter"},"error":null,"output":[]`)
	case string(members["type"]) == `"message"` && string(members["role"]) == `"assistant"`:
		keep(&out, answer, "id", "type", "role", "model", "usage")
		out.WriteString(`"content":[],"stop_reason":"refusal","stop_sequence":null`)
	case members["candidates"] != nil:
		keep(&out, answer, "usageMetadata", "modelVersion", "responseId", "createTime")
		filterElements(&out, "candidates", members["candidates"],
			`"content":{"role":"model","parts":[]},"finishReason":"SAFETY"`)
	case members["done"] != nil && (members["message"] != nil || members["response"] != nil):
		keep(&out, answer, "model", "created_at", "total_duration", "load_duration", "prompt_eval_count",
			"prompt_eval_duration", "eval_count", "eval_duration")
		text := `"response":""`
		if members["message"] != nil {
			text = `"message":{"role":"assistant","content":""}`
		}
		out.WriteString(text + `,"done":true,"done_reason":"content_filter"`)
	case members["finish_reason"] != nil && members["message"] != nil:
		keep(&out, answer, "id", "usage")
		out.WriteString(`"finish_reason":"ERROR","message":{"role":"assistant","content":[]}`)
	case members["generated_text"] != nil:
		out.WriteString(`"generated_text":""`)
	default:
		return nil
	}
	out.WriteByte('}')
	return out.Bytes()
}

// keep writes the members of an object that have these names, each followed by a comma. The other members may hold
// text.
func keep(out *bytes.Buffer, object []byte, names ...string) {
	copyMembers(out, object, func(name string) bool { return slices.Contains(names, name) })
}

// filterChoices writes as many choices as there were, without their text.
func filterChoices(out *bytes.Buffer, choices jsontext.Value, empty string) {
	filterElements(out, "choices", choices, empty+`,"logprobs":null,"finish_reason":"content_filter"`)
}

// filterElements writes as many alternatives as there were, without their text.
func filterElements(out *bytes.Buffer, name string, choices jsontext.Value, empty string) {
	var each []struct {
		Index int `json:"index"`
	}
	if json.Unmarshal(choices, &each, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) != nil ||
		len(each) == 0 {
		each = append(each[:0], struct {
			Index int `json:"index"`
		}{})
	}
	out.WriteString(`"` + name + `":[`)
	for i, choice := range each {
		if i > 0 {
			out.WriteByte(',')
		}
		fmt.Fprintf(out, `{"index":%d,%s}`, choice.Index, empty)
	}
	out.WriteByte(']')
}
