// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

func exampleErrorPage(t *testing.T) {
	app := newUpstream(t, "the app", nil)
	runExample(t, "error-page", "localhost:3000", app.address())
	body := url.Values{"comment": {nasty}}.Encode()

	got := post(t, "/comments", formType, body, "Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	got.wantStatus(t, http.StatusUnprocessableEntity, "<h1>Please say it in other words</h1>")
	got.wantStatus(t, http.StatusUnprocessableEntity, "The text was judged as harassment and violence.")
	if !strings.HasPrefix(got.header.Get("Content-Type"), "text/html") ||
		bytes.Contains(got.body, []byte("{http.")) || !bytes.Contains(got.body, []byte("mod_")) {
		t.Errorf("for people: got %v %s, want HTML with an id and no placeholder", got.header, got.body)
	}

	got = post(t, "/comments", formType, body, "Accept", "application/json")
	var answer struct{ Error, Reason, ID string }
	got.decodeJSON(t, &answer)
	if got.status != http.StatusUnprocessableEntity || answer.Error != "rejected" ||
		!strings.Contains(answer.Reason, "harassment") || !strings.HasPrefix(answer.ID, "mod_") {
		t.Errorf("got %d %s, want %d", got.status, got.body, http.StatusUnprocessableEntity)
	}
	app.wantNothing(t)

	got, body = postForm(t, "/comments", "comment", friendly)
	got.wantStatus(t, http.StatusOK, "kept by the app")
	app.want(t, body)
}

func exampleQueue(t *testing.T) {
	app := newUpstream(t, "the app", nil)
	queue := newUpstream(t, "the queue", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprint(w, "Somebody will look at it.")
	})
	runExample(t, "review-queue", "localhost:3000", app.address(), "localhost:3001", queue.address())

	got, _ := postForm(t, "/comments", "comment", nasty)
	got.wantRefused(t, "harassment", "comment")
	app.wantNothing(t)
	queue.wantNothing(t)

	got, body := postForm(t, "/comments", "comment", borderline)
	got.wantStatus(t, http.StatusAccepted, "Somebody will look at it.")
	app.wantNothing(t)
	header := queue.want(t, body)
	if header.Get("X-Moderation-Recommendation") != "review" ||
		header.Get("X-Moderation-Categories") != "harassment" || header.Get("X-Moderation-Fields") != "comment" ||
		header.Get("X-Moderation-Id") == "" {
		t.Errorf("the queue: got the header %v, want a review for harassment in comment, and an id", header)
	}

	got, body = postForm(t, "/comments", "comment", friendly)
	got.wantStatus(t, http.StatusOK, "kept by the app")
	app.want(t, body)
	queue.wantNothing(t)
}

func exampleMatcher(t *testing.T) {
	app := newUpstream(t, "the app", nil)
	runExample(t, "matcher", "localhost:3000", app.address())

	got, _ := postForm(t, "/talk", "text", nasty)
	got.wantStatus(t, http.StatusUnprocessableEntity, "Please say it in other words.")
	got, _ = postForm(t, "/talk", "text", distress)
	got.wantStatus(t, http.StatusUnprocessableEntity, "You are not alone.")
	response, err := browser.PostForm("http://"+exampleAddr+"/talk", url.Values{"text": {hateful}})
	if err == nil {
		response.Body.Close()
		t.Errorf("hatred: got %s, want a closed connection", response.Status)
	}
	// Caddy may close the connection before all of a large body was sent, so that there is no answer.
	response, err = browser.PostForm("http://"+exampleAddr+"/talk", url.Values{"padding": {strings.Repeat("Bread. ", 200_000)}, "text": {nasty}})
	if err == nil {
		response.Body.Close()
		if response.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("a large body: got %s, want %d or a closed connection",
				response.Status, http.StatusRequestEntityTooLarge)
		}
	}
	got = post(t, "/talk", formType, "text="+url.QueryEscape(nasty), "Content-Encoding", "compress")
	if got.status == http.StatusOK {
		t.Errorf("an unknown encoding: got %d %s, want a refusal", got.status, got.body)
	}
	app.wantNothing(t)

	got, body := postForm(t, "/talk", "text", friendly)
	got.wantStatus(t, http.StatusOK, "kept by the app")
	app.want(t, body)
}
