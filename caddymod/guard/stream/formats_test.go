// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package stream_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/stream"
)

func newLines(w io.Writer, o stream.Options) io.WriteCloser { return stream.NewLines(w, o) }

// format is a way in which services stream text, written by hand from its documentation.
type format struct {
	name string
	make newWriter
	head []string // events before the text
	// event is a template: § is a fragment of the text as a JSON string, and a second one may follow in other events.
	event string
	tail  []string // events behind it
	final string   // what ends it when it is rejected
}

const (
	neutral  = "event: error\ndata: {\"error\":{\"code\":\"content_filter\",\"message\":\"The answer was stopped.\"}}\n\n"
	filtered = `data: {"id":"c1","object":"chat.completion.chunk","created":0,"model":"m","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"content_filter"}]}` + "\n\n" + end
)

// formats are those that docs/guard.md names, and some that are invented.
var formats = []format{
	{"OpenAI chat", newEvents, nil, `data: {"id":"c1","object":"chat.completion.chunk","model":"m","obfuscation":"x1Y","choices":[{"index":0,"delta":{"content":§}}]}` + "\n\n", []string{end}, filtered},
	// Mistral's reasoning models and some gateways send the content in parts.
	{"OpenAI content parts", newEvents, nil, `data: {"id":"c1","model":"m","choices":[{"index":0,"delta":{"content":[{"type":"text","text":§}]}}]}` + "\n\n", []string{end}, filtered},
	{"Mistral thinking", newEvents, nil, `data: {"id":"c1","model":"m","choices":[{"index":0,"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":§}]}]}}]}` + "\n\n", nil, filtered},
	{"Azure", newEvents, []string{`data: {"choices":[],"created":0,"id":"","model":"","object":"","prompt_filter_results":[{"prompt_index":0,"content_filter_results":{"hate":{"filtered":false,"severity":"safe"}}}]}` + "\n\n"},
		`data: {"choices":[{"content_filter_results":{"hate":{"filtered":false,"severity":"safe"}},"delta":{"content":§},"finish_reason":null,"index":0}],"id":"c1","model":"m","object":"chat.completion.chunk"}` + "\n\n", []string{end}, filtered},
	{"an unknown member of a chat", newEvents, nil, `data: {"id":"c1","model":"m","choices":[{"index":0,"delta":{"content":"","inner_voice":§}}]}` + "\n\n", []string{end}, filtered},
	{"OpenAI chat as lines", newLines, nil, `{"id":"c1","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":§}}]}` + "\n", nil,
		`{"id":"c1","object":"chat.completion.chunk","created":0,"model":"m","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"content_filter"}]}` + "\n"},
	{"OpenAI assistants", newEvents, []string{"event: thread.run.created\ndata: {\"id\":\"run_1\",\"object\":\"thread.run\"}\n\n"},
		"event: thread.message.delta\ndata: {\"id\":\"msg_1\",\"object\":\"thread.message.delta\",\"delta\":{\"content\":[{\"index\":0,\"type\":\"text\",\"text\":{\"value\":§,\"annotations\":[]}}]}}\n\n",
		[]string{"event: done\ndata: [DONE]\n\n"}, neutral + "event: done\ndata: [DONE]\n\n"},
	// https://docs.ollama.com/api/streaming
	{"Ollama chat", newLines, nil, `{"model":"m","created_at":"2023-08-04T08:52:19.385406455-07:00","message":{"role":"assistant","content":§},"done":false}` + "\n",
		[]string{`{"model":"m","created_at":"2023-08-04T08:52:20.385406455-07:00","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop"}` + "\n"},
		`{"model":"m","created_at":"2023-08-04T08:52:19.385406455-07:00","message":{"role":"assistant","content":""},"done":true,"done_reason":"content_filter"}` + "\n"},
	{"Ollama thinking", newLines, nil, `{"model":"m","created_at":"2023-08-04T08:52:19Z","message":{"role":"assistant","content":"","thinking":§},"done":false}` + "\n", nil,
		`{"model":"m","created_at":"2023-08-04T08:52:19Z","message":{"role":"assistant","content":""},"done":true,"done_reason":"content_filter"}` + "\n"},
	{"Ollama generate", newLines, nil, `{"model":"m","created_at":"2023-08-04T08:52:19Z","response":§,"done":false}` + "\n", nil,
		`{"model":"m","created_at":"2023-08-04T08:52:19Z","response":"","done":true,"done_reason":"content_filter"}` + "\n"},
	// https://ai.google.dev/api/generate-content without alt=sse
	{"Gemini array", newLines, []string{"["}, "{\n  \"candidates\": [\n    {\n      \"content\": {\n        \"parts\": [{\"text\": §}],\n        \"role\": \"model\"\n      },\n      \"index\": 0\n    }\n  ],\n  \"modelVersion\": \"gemini-x\"\n}\n,\r\n",
		[]string{"{\"candidates\":[{\"finishReason\":\"STOP\"}]}", "\n]"},
		`{"candidates":[{"content":{"role":"model","parts":[]},"finishReason":"SAFETY","index":0}]}]` + "\n"},
	// https://ai-sdk.dev/docs/ai-sdk-ui/stream-protocol, version 4 of the AI SDK
	{"AI SDK data stream", newLines, []string{`f:{"messageId":"step_123"}` + "\n"}, "0:§\n", []string{`e:{"finishReason":"stop"}` + "\n"},
		`e:{"finishReason":"content-filter","usage":{"promptTokens":0,"completionTokens":0},"isContinued":false}` + "\n" + `d:{"finishReason":"content-filter","usage":{"promptTokens":0,"completionTokens":0}}` + "\n"},
	{"AI SDK data stream, reasoning", newLines, nil, "g:§\n", nil,
		`e:{"finishReason":"content-filter","usage":{"promptTokens":0,"completionTokens":0},"isContinued":false}` + "\n" + `d:{"finishReason":"content-filter","usage":{"promptTokens":0,"completionTokens":0}}` + "\n"},
	// The same, from version 5 on.
	{"AI SDK messages", newEvents, []string{`data: {"type":"start","messageId":"m1"}` + "\n\n", `data: {"type":"text-start","id":"msg_68679a45"}` + "\n\n"},
		`data: {"type":"text-delta","id":"msg_68679a45","delta":§}` + "\n\n", []string{`data: {"type":"text-end","id":"msg_68679a45"}` + "\n\n", `data: {"type":"finish"}` + "\n\n", end},
		`data: {"type":"error","errorText":"The answer was stopped."}` + "\n\n" + end},
	// https://docs.cohere.com/v2/docs/streaming
	{"Cohere", newEvents, []string{"event: message-start\ndata: {\"id\":\"29f14a5a\",\"type\":\"message-start\",\"delta\":{\"message\":{\"role\":\"assistant\",\"content\":[],\"tool_plan\":\"\"}}}\n\n"},
		"event: content-delta\ndata: {\"type\":\"content-delta\",\"index\":0,\"delta\":{\"message\":{\"content\":{\"text\":§}}}}\n\n",
		[]string{"event: message-end\ndata: {\"type\":\"message-end\",\"delta\":{\"finish_reason\":\"COMPLETE\"}}\n\n"},
		"event: message-end\ndata: {\"type\":\"message-end\",\"delta\":{\"finish_reason\":\"ERROR\",\"error\":\"The answer was stopped.\"}}\n\n"},
	{"Cohere version 1", newLines, []string{`{"is_finished":false,"event_type":"stream-start","generation_id":"3f41d0ea-0d9c"}` + "\n"}, `{"is_finished":false,"event_type":"text-generation","text":§}` + "\n",
		[]string{`{"is_finished":true,"event_type":"stream-end","finish_reason":"COMPLETE"}` + "\n"},
		`{"is_finished":true,"event_type":"stream-end","finish_reason":"ERROR_TOXIC","response":{"text":"","finish_reason":"ERROR_TOXIC"}}` + "\n"},
	// https://docs.dify.ai, "Send Chat Message"
	{"Dify", newEvents, nil, `data: {"event":"message","message_id":"5ad4cb98-f0c7-4085-b384-88c403be6290","conversation_id":"45701982-8118-4bc5-8e9b-64562b4555f2","task_id":"900bbd43-dc0b-4383-a372-aa6e6c414227","answer":§,"created_at":1679586595}` + "\n\n",
		[]string{`data: {"event":"message_end","id":"5e52ce04-874b-4d27-9045-b3bc80def685"}` + "\n\n"},
		`data: {"event":"error","status":422,"code":"content_filter","message":"The answer was stopped."}` + "\n\n"},
	{"Dify workflow", newEvents, []string{`data: {"event":"workflow_started","task_id":"5ad4cb98-f0c7-4085-b384-88c403be6290","data":{"id":"5ad498-f0c7-4085-b384-88cbe6290","workflow_id":"dfjasklfjdslag"}}` + "\n\n"},
		`data: {"event":"text_chunk","task_id":"5ad4cb98-f0c7-4085-b384-88c403be6290","data":{"text":§,"from_variable_selector":["1721365917005","text"]}}` + "\n\n", nil,
		`data: {"event":"error","status":422,"code":"content_filter","message":"The answer was stopped."}` + "\n\n"},
	// LangServe's /stream and /stream_events, LangGraph's messages mode
	{"LangServe", newEvents, []string{"event: metadata\ndata: {\"run_id\": \"aa3f8e3c-1f7c-4d47-9a0b-1d9f0b5b5d1e\"}\n\n"}, "event: data\ndata: §\n\n", []string{"event: end\n\n"},
		"event: error\ndata: {\"status_code\":422,\"message\":\"The answer was stopped.\"}\n\nevent: end\n\n"},
	{"LangServe messages", newEvents, nil, "event: data\ndata: {\"content\":§,\"additional_kwargs\":{},\"type\":\"AIMessageChunk\",\"name\":null}\r\n\r\n", []string{"event: end\r\n\r\n"},
		"event: error\ndata: {\"status_code\":422,\"message\":\"The answer was stopped.\"}\n\nevent: end\n\n"},
	{"LangChain events", newEvents, []string{`data: {"event":"on_chat_model_start","name":"ChatOpenAI","run_id":"1f2e","tags":["seq:step:2"],"data":{}}` + "\n\n"},
		`data: {"event":"on_chat_model_stream","run_id":"1f2e","name":"ChatOpenAI","tags":["seq:step:2"],"metadata":{"a":"b"},"data":{"chunk":{"content":§,"id":"run-1f2e"}}}` + "\n\n", nil, neutral},
	{"LangGraph messages", newEvents, []string{"event: metadata\ndata: {\"run_id\":\"1ef3\",\"attempt\":1}\n\n"},
		"event: messages\ndata: [{\"content\":§,\"type\":\"AIMessageChunk\",\"id\":\"run-7\",\"tool_calls\":[]},{\"langgraph_node\":\"agent\",\"thread_id\":\"t1\",\"tags\":[]}]\n\n", nil, neutral},
	// https://huggingface.co/docs/text-generation-inference/conceptual/streaming
	{"TGI", newEvents, nil, `data:{"index":1,"token":{"id":11,"text":§,"logprob":-0.5,"special":false},"generated_text":null,"details":null}` + "\n\n", nil,
		`data: {"error":"The answer was stopped.","error_type":"content_filter"}` + "\n\n"},
	// llama.cpp, tools/server/README.md
	{"llama.cpp", newEvents, nil, `data: {"index":0,"content":§,"tokens":[1],"stop":false,"id_slot":-1}` + "\n\n", []string{`data: {"content":"","stop":true,"stop_type":"eos"}` + "\n\n"},
		`data: {"content":"","stop":true,"stop_type":"content_filter"}` + "\n\n"},
	// https://replicate.com/docs/topics/predictions/streaming
	{"Replicate", newEvents, nil, "event: output\nid: 1690212292:0\ndata: ¶\n\n", []string{"event: done\ndata: {}\n\n"}, neutral},
	{"bare words with the space of the format", newEvents, nil, "data:¶\n\n", nil, neutral},
	{"type and content", newEvents, nil, `data: {"type":"token","content":§}` + "\n\n", []string{`data: {"type":"end"}` + "\n\n"}, neutral},
	{"type and token", newLines, nil, `{"type":"token","token":§}` + "\n", nil, ""},
	{"type and data", newEvents, nil, `data: {"type":"token","data":§}` + "\n\n", nil, neutral},
	{"an unknown place", newEvents, nil, `data: {"at":"2024-01-01T00:00:00Z","who":"bot","zorb":{"grault":§}}` + "\n\n", nil, neutral},
	{"lines of an unknown kind", newLines, nil, `{"n":1,"zorb":§}` + "\r\n", nil, ""},
	{"values without lines", newLines, nil, `{"n":1,"zorb":§}`, nil, ""},
	{"JSON text sequence", newLines, nil, "\x1e" + `{"zorb":§}` + "\n", nil, ""},
	{"strings in lines", newLines, nil, "§\n", nil, ""},
	{"an array of an unknown kind", newLines, []string{"[\n"}, `{"zorb":§},` + "\n", []string{"{}]\n"}, "]\n"},
	{"tuples in lines", newLines, nil, `["token",§]` + "\n", nil, ""},
	{"tokens that are lists", newEvents, nil, `data: {"zorb":["",§]}` + "\n\n", nil, neutral},
	{"operations", newEvents, nil, `data: {"ops":[{"op":"add","path":"/streamed_output/-","value":§},{"op":"add","path":"/final","value":""}]}` + "\n\n", nil, neutral},
	{"members that are numbers", newLines, nil, `{"17":{"t":§}}` + "\n", nil, ""},
	{"not quite JSON", newEvents, nil, `data: {"text":§,"score":NaN}` + "\n\n", nil, neutral},
	{"events of other types between", newEvents, nil, `data: {"type":"token","content":§}` + "\n\n" + `data: {"type":"status","content":"."}` + "\n\n", nil, neutral},
	{"heartbeats between", newLines, nil, `{"text":§}` + "\n" + `{"heartbeat":true}` + "\n\n", nil, ""},
}

// write returns the events of a stream of the format that says these fragments.
func (f *format) write(text ...string) (events []string) {
	events = append(events, f.head...)
	for _, piece := range text {
		quoted, _ := json.Marshal(piece)
		events = append(events, strings.NewReplacer("§", string(quoted), "¶", piece).Replace(f.event))
	}
	return append(events, f.tail...)
}

// TestFormats checks in every format that what is vile is cut off, however its words are cut, and that the rest goes
// out in time.
func TestFormats(t *testing.T) {
	t.Parallel()
	for _, f := range formats {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			f.testFine(t)
			f.testVile(t)
		})
	}
}

// testFine checks that fine text goes out unchanged, and each sentence when it has ended.
func (f *format) testFine(t *testing.T) {
	events := f.write("Hello", " th", "ere.", " How", " are you")
	all := strings.Join(events, "")
	o := stream.Options{Moderate: moderate}
	everyCut(all, func(chunks []string) {
		if got, err := pass(t, f.make, o, chunks...); err != nil || got != all {
			t.Fatalf("in %d chunks: got error %v and\n%s\nwant\n%s", len(chunks), err, got, all)
		}
	})
	var out bytes.Buffer
	w := f.make(&out, o)
	sentence := len(f.head) + 3
	for _, event := range events[:sentence] {
		_, _ = io.WriteString(w, event)
	}
	if want := strings.TrimRight(strings.Join(events[:sentence], ""), ",\r\n"); !strings.HasPrefix(out.String(), want) {
		t.Errorf("after the first sentence: got %q, want %q", out.String(), want)
	}
}

// testVile checks that the stream ends with the final events, whatever the chunks, and says nothing of the sentence.
func (f *format) testVile(t *testing.T) {
	begin := strings.Join(f.write("Hello there.")[:len(f.head)+1], "")
	all := strings.Join(f.write("Hello there.", " I", " ki", "l", "l yo", "u.", " Bye."), "")
	o := stream.Options{Moderate: moderate}
	want, err := pass(t, f.make, o, all)
	if !errors.Is(err, stream.ErrRejected) {
		t.Fatalf("got error %v and\n%s\nwant %v", err, want, stream.ErrRejected)
	}
	if got, expected := strings.NewReplacer("\r", "", "\n", "").Replace(want),
		strings.NewReplacer("\r", "", "\n", "").Replace(begin+f.final); got != expected &&
		got != strings.Replace(expected, ",]", "]", 1) {
		t.Errorf("got\n%s\nwant\n%s", want, begin+f.final)
	}
	if f.make != nil && strings.HasPrefix(all, "[") && !json.Valid([]byte(want)) {
		t.Errorf("got %s, want valid JSON", want)
	}
	everyCut(all, func(chunks []string) {
		if got, err := pass(t, f.make, o, chunks...); !errors.Is(err, stream.ErrRejected) || got != want {
			t.Fatalf("in %d chunks, the first of %d bytes: got error %v and\n%s\nwant\n%s", len(chunks),
				len(chunks[0]), err, got, want)
		}
	})
	// Letter by letter, and all at once.
	letters := strings.Split("We like bread. I kill you. Bye.", "")
	for _, text := range [][]string{letters, {strings.Join(letters, "")}} {
		if got, err := pass(t, f.make, o, f.write(text...)...); !errors.Is(err, stream.ErrRejected) {
			t.Errorf("got error %v and\n%s\nwant %v", err, got, stream.ErrRejected)
		}
	}
}
