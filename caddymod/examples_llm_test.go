// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

func exampleGateway(t *testing.T) {
	stopped := make(chan struct{}, 1)
	model := newUpstream(t, "the model", func(w http.ResponseWriter, r *http.Request) {
		var ask struct {
			Stream   bool
			Messages []struct{ Content string }
		}
		if err := json.NewDecoder(r.Body).Decode(&ask); err != nil || r.Header.Get("Authorization") != "Bearer secret" {
			http.Error(w, "what?", http.StatusBadRequest)
			return
		}
		text := "Bread needs flour, water, salt and time. Mix them in the evening and bake in the morning."
		villain := strings.Contains(ask.Messages[0].Content, "villain")
		if villain {
			text = "Of course. " + nasty
		}
		if !ask.Stream {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}]}`, text)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		event := func(delta, reason string) {
			fmt.Fprintf(w, `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":%s,"finish_reason":%s}]}`+"\n\n", delta, reason)
			w.(http.Flusher).Flush()
		}
		for _, word := range strings.SplitAfter(text, " ") {
			event(fmt.Sprintf(`{"content":%q}`, word), "null")
		}
		// A villain goes on until somebody stops him.
		for end := time.Now().Add(20 * time.Second); villain && time.Now().Before(end); time.Sleep(time.Millisecond) {
			if r.Context().Err() != nil {
				stopped <- struct{}{}
				return
			}
			event(`{"content":" Ha!"}`, "null")
		}
		event("{}", `"stop"`)
		fmt.Fprint(w, "data: [DONE]\n\n")
	})
	runExample(t, "llm-gateway", "localhost:11434", model.address())
	ask := func(stream bool, text string) reply {
		t.Helper()
		got, _ := postJSON(t, "/v1/chat/completions", map[string]any{
			"model": "m", "stream": stream, "messages": []any{map[string]any{"role": "user", "content": text}},
		}, "Authorization", "Bearer secret")
		return got
	}

	for _, stream := range []bool{false, true} {
		got := ask(stream, nasty)
		got.wantStatus(t, http.StatusBadRequest, `"type":"invalid_request_error","param":null,"code":"content_filter"`)
		if id := got.header.Get("X-Request-Id"); !strings.HasPrefix(id, "mod_") ||
			bytes.Contains(got.body, []byte("worthless")) {
			t.Errorf("a refused question: got the id %q and %s, want an id mod_ and not the text", id, got.body)
		}
	}
	got, _ := postJSON(t, "/api/chat", map[string]any{"messages": []any{}})
	got.wantStatus(t, http.StatusNotFound, "")
	model.wantNothing(t)

	// In one piece.
	ask(false, "Please tell me how to bake bread.").wantStatus(t, http.StatusOK, "bake in the morning.")
	got = ask(false, "Please play the villain.")
	got.wantStatus(t, http.StatusOK, `"content_filter"`)
	if bytes.Contains(got.body, []byte("worthless")) {
		t.Errorf("an answer: got %s, want it without the rejected text", got.body)
	}

	// Word by word.
	text, reason := streamed(t, ask(true, "Please tell me how to bake bread."))
	if text != "Bread needs flour, water, salt and time. Mix them in the evening and bake in the morning." ||
		reason != "stop" {
		t.Errorf("a fine stream: got %q and the reason %q, want the whole text and stop", text, reason)
	}
	text, reason = streamed(t, ask(true, "Please play the villain."))
	if strings.TrimSpace(text) != "Of course." || reason != "content_filter" {
		t.Errorf("a rejected stream: got %q and the reason %q, want the first sentence and content_filter",
			text, reason)
	}
	select {
	case <-stopped:
	case <-time.After(10 * time.Second):
		t.Error("the model was not stopped")
	}
}

// streamed reads the text and the finish_reason of a streamed chat completion, as a client does.
func streamed(t *testing.T, got reply) (text, reason string) {
	t.Helper()
	if got.status != http.StatusOK || !strings.HasPrefix(got.header.Get("Content-Type"), "text/event-stream") {
		t.Fatalf("got %d %s, want %d", got.status, got.body, http.StatusOK)
	}
	done := false
	for event := range strings.SplitSeq(strings.TrimSpace(string(got.body)), "\n\n") {
		data, ok := strings.CutPrefix(event, "data: ")
		if !ok || done {
			t.Errorf("an odd event: %q", event)
		}
		if data == "[DONE]" {
			done = true
			continue
		}
		var chunk struct {
			Object  string
			Choices []struct {
				Delta        struct{ Content string }
				FinishReason string `json:"finish_reason"`
			}
		}
		if err := json.Unmarshal([]byte(data), &chunk); err != nil || chunk.Object != "chat.completion.chunk" ||
			len(chunk.Choices) != 1 {
			t.Fatalf("the event %q: got %+v (%v), want a chunk with one choice", data, chunk, err)
		}
		text += chunk.Choices[0].Delta.Content
		reason = chunk.Choices[0].FinishReason
	}
	if !done {
		t.Errorf("no [DONE]: %s", got.body)
	}
	return text, reason
}
