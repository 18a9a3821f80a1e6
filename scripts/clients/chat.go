// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// The texts of the stories and of the language model. The vile one continues for long after the vile sentence, so that
// a check can see that the app stopped early.
const (
	fineStory = "The harbour lies in the morning sun. Two boats leave for the island. A gull waits on the pier for the fishermen. " +
		"In the evening they come home with full nets. Everybody helps to carry the boxes."
	vileStory = "The harbour lies in the morning sun. Two boats leave for the island. " + vile
)

// storyPieces returns a story in the pieces of a language model, each a word and the space before it, and the index of
// the piece before which the app waits at a gate: in the middle of the second sentence.
func storyPieces(kind string) (pieces []string, gate int) {
	story := fineStory
	if kind == "vile" {
		story = vileStory + strings.Repeat(" In the evening they come home with full nets.", 100)
	}
	for i, word := range strings.Split(story, " ") {
		if i > 0 {
			word = " " + word
		}
		if gate == 0 && i > 0 && strings.HasSuffix(pieces[i-1], ".") {
			gate = i + 3
		}
		pieces = append(pieces, word)
	}
	return pieces, gate
}

// writeStory calls write with each piece, slowly. Unless the name is empty it waits at the gate of that name.
func (a *app) writeStory(r *http.Request, kind, name string, write func(string) error) error {
	pieces, gate := storyPieces(kind)
	for i, piece := range pieces {
		if i == gate && name != "" && !a.pass(r.Context(), name) {
			return fmt.Errorf("nobody read the first sentence")
		}
		select {
		case <-r.Context().Done():
			return r.Context().Err()
		case <-time.After(2 * time.Millisecond):
		}
		if err := write(piece); err != nil {
			return err
		}
	}
	return nil
}

// story serves a story as chunked plain text. ?gate= names the gate at which it waits.
func (a *app) story(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_ = a.writeStory(r, r.PathValue("kind"), r.URL.Query().Get("gate"), func(piece string) error {
		fmt.Fprint(w, piece)
		return http.NewResponseController(w).Flush()
	})
}

type (
	message struct {
		Role    string `json:"role,omitempty"`
		Content string `json:"content"`
	}
	choice struct {
		Index   int      `json:"index"`
		Message *message `json:"message,omitempty"`
		Delta   *message `json:"delta,omitempty"`
		// FinishReason is null until the end.
		FinishReason *string `json:"finish_reason"`
	}
	completion struct {
		ID      string   `json:"id"`
		Object  string   `json:"object"`
		Created int64    `json:"created"`
		Model   string   `json:"model"`
		Choices []choice `json:"choices"`
	}
)

// chat answers as an OpenAI-compatible service does. The model "fine" writes the fine story, "vile" the vile one. A
// stream waits at the gate that the header X-Gate names.
func (a *app) chat(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Model    string    `json:"model"`
		Messages []message `json:"messages"`
		Stream   bool      `json:"stream"`
	}
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	stop := "stop"
	answer := completion{ID: "chatcmpl-1", Object: "chat.completion", Created: 1_700_000_000, Model: request.Model}
	if !request.Stream {
		pieces, _ := storyPieces(request.Model)
		answer.Choices = []choice{{Message: &message{Role: "assistant", Content: strings.Join(pieces, "")},
			FinishReason: &stop}}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	answer.Object = "chat.completion.chunk"
	send := func(c choice) error {
		answer.Choices = []choice{c}
		data, err := json.Marshal(answer)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "data: %s\n\n", data)
		return http.NewResponseController(w).Flush()
	}
	if send(choice{Delta: &message{Role: "assistant"}}) != nil {
		return
	}
	err := a.writeStory(r, request.Model, r.Header.Get("X-Gate"), func(piece string) error {
		return send(choice{Delta: &message{Content: piece}})
	})
	if err != nil {
		return
	}
	_ = send(choice{Delta: &message{}, FinishReason: &stop})
	fmt.Fprint(w, "data: [DONE]\n\n")
}
