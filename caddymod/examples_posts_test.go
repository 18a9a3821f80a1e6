// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"
)

func exampleBlog(t *testing.T) {
	app := newUpstream(t, "the blog", nil)
	runExample(t, "blog-comments", "localhost:3000", app.address())

	got, _ := postForm(t, "/comments", "name", "Ann", "comment", nasty)
	got.wantRefused(t, "violence", "comment")
	got, _ = postForm(t, "/comments", "name", insult, "comment", "Nice.")
	got.wantRefused(t, "harassment", "name")
	app.wantNothing(t)

	got, body := postForm(t, "/comments", "name", "Ann", "comment", friendly, "email", "ann@example.com")
	got.wantStatus(t, http.StatusOK, "kept by the blog")
	header := app.want(t, body)
	if header.Get("X-Moderation-Flagged") != "false" || header.Get("X-Moderation-Recommendation") != "approve" ||
		!strings.HasPrefix(header.Get("X-Moderation-Id"), "mod_") {
		t.Errorf("a fine comment: got the header %v, want an approval with an id", header)
	}

	// What is between arrives, and the app can see that somebody should look at it.
	_, body = postForm(t, "/comments", "name", "Ann", "comment", borderline)
	header = app.want(t, body)
	if header.Get("X-Moderation-Recommendation") != "review" ||
		header.Get("X-Moderation-Categories") != "harassment" || header.Get("X-Moderation-Fields") != "comment" {
		t.Errorf("a borderline comment: got the header %v, want a review for harassment in comment", header)
	}
	// A field that nobody else will read is not moderated.
	got, body = postForm(t, "/comments", "token", insult, "comment", "Nice.")
	got.wantStatus(t, http.StatusOK, "")
	app.want(t, body)
}

func exampleChat(t *testing.T) {
	app := newUpstream(t, "the chat", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "websocket" {
			fmt.Fprint(w, "kept by the chat")
			return
		}
		echo(t, w)
	})
	runExample(t, "chat", "localhost:3000", app.address())

	got, _ := postJSON(t, "/messages", map[string]any{"room": 7, "text": nasty})
	got.wantRefused(t, "harassment", "/text")
	got, _ = postJSON(t, "/messages", map[string]any{"poll": map[string]any{"options": []string{"yes", insult}}})
	got.wantRefused(t, "harassment", "/poll/options/1")
	got, _ = postJSON(t, "/messages", map[string]any{"text": strings.Repeat("Bread. ", 2000)})
	got.wantStatus(t, http.StatusRequestEntityTooLarge, "")
	app.wantNothing(t)

	got, body := postJSON(t, "/messages", map[string]any{"id": insult, "room": 7, "text": friendly})
	got.wantStatus(t, http.StatusOK, "kept by the chat")
	app.want(t, body)

	if heard := say(t, "/live", nasty); heard != nasty {
		t.Errorf("the WebSocket answered %q", heard)
	}
}

func exampleContact(t *testing.T) {
	app := newUpstream(t, "the office", nil)
	runExample(t, "contact-form", "localhost:3000", app.address())

	got, _ := postForm(t, "/contact", "name", "Ann", "message", nasty)
	got.wantRefused(t, "violence", "message")
	got, _ = postForm(t, "/contact", "name", "Ann", "message", strings.Repeat("Bread. ", 20_000))
	got.wantStatus(t, http.StatusRequestEntityTooLarge, "")
	app.wantNothing(t)

	for _, message := range []string{friendly, distress, mocking} {
		got, body := postForm(t, "/contact", "name", "Ann", "message", message)
		got.wantStatus(t, http.StatusOK, "kept by the office")
		app.want(t, body)
	}
	// Another page is not moderated.
	got, body := postForm(t, "/search", "q", nasty)
	got.wantStatus(t, http.StatusOK, "kept by the office")
	if header := app.want(t, body); header.Get("X-Moderation-Id") != "" {
		t.Errorf("another page: got the header %v, want no X-Moderation-Id", header)
	}
}

func exampleCrisis(t *testing.T) {
	app := newUpstream(t, "the forum", nil)
	runExample(t, "crisis", "localhost:3000", app.address())

	got, _ := postForm(t, "/posts", "text", distress)
	got.wantStatus(t, http.StatusSeeOther, "")
	if to := got.header.Get("Location"); to != "/you-are-not-alone" {
		t.Errorf("to %q", to)
	}
	response, err := browser.Get("http://" + exampleAddr + "/you-are-not-alone")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	page, _ := io.ReadAll(response.Body)
	if !bytes.Contains(page, []byte("116 123")) || !bytes.HasPrefix(page, []byte("<!doctype html>")) {
		t.Errorf("the page that helps: got %s, want HTML with a telephone number", page)
	}
	for _, text := range []string{"You should kill yourself.", nasty} {
		got, _ = postForm(t, "/posts", "text", text)
		got.wantStatus(t, http.StatusUnprocessableEntity, "content_rejected")
	}
	app.wantNothing(t)

	got, body := postForm(t, "/posts", "text", friendly)
	got.wantStatus(t, http.StatusOK, "kept by the forum")
	app.want(t, body)
}

func exampleUpload(t *testing.T) {
	photo := make([]byte, 3<<20)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(photo)
	// upload is a form with a caption before the photo, or behind it.
	upload := func(caption string, before bool, file string) (body, contentType string) {
		var form bytes.Buffer
		parts := multipart.NewWriter(&form)
		if before {
			_ = parts.WriteField("caption", caption)
		}
		part, err := parts.CreateFormFile("photo", file)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = part.Write(photo)
		if !before {
			_ = parts.WriteField("caption", caption)
		}
		_ = parts.Close()
		return form.String(), parts.FormDataContentType()
	}
	app := newUpstream(t, "the gallery", nil)
	runExample(t, "photo-upload", "localhost:3000", app.address())

	for _, before := range []bool{true, false} {
		body, contentType := upload("A sunset over the harbour.", before, "sunset.jpg")
		post(t, "/photos", contentType, body).wantStatus(t, http.StatusOK, "kept by the gallery")
		app.want(t, body)
	}
	body, contentType := upload(nasty, true, "sunset.jpg")
	post(t, "/photos", contentType, body).wantRefused(t, "harassment", "caption")
	body, contentType = upload("A sunset.", true, insult+".jpg")
	post(t, "/photos", contentType, body).wantRefused(t, "harassment", "photo.filename")
	app.wantNothing(t)

	// The photo has gone on before the caption is known: the app sees a request that breaks.
	body, contentType = upload(nasty, false, "sunset.jpg")
	post(t, "/photos", contentType, body).wantRefused(t, "harassment", "caption")
	app.Close() // waits for what the app is doing
	for _, got := range app.taken() {
		if got.err == nil || bytes.Contains(got.body, []byte("worthless")) {
			t.Errorf("the app received %d bytes, %v", len(got.body), got.err)
		}
	}
}
