// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func exampleShadow(t *testing.T) {
	app := newUpstream(t, "the app", nil)
	log := filepath.Join(t.TempDir(), "access.log")
	runExample(t, "shadow-mode", "localhost:3000", app.address(), "output file access.log", "output file "+log)

	before := count(t, `caddy_moderation_guard_total{direction="request",outcome="shadow_reject"}`)
	got, body := postJSON(t, "/messages", map[string]any{"text": nasty})
	got.wantStatus(t, http.StatusOK, "kept by the app")
	header := app.want(t, body)
	if header.Get("X-Moderation-Id") != "" {
		t.Errorf("in shadow mode: got the header %v, want no X-Moderation-Id", header)
	}
	id := header.Get("X-Request-Id")
	got, body = postJSON(t, "/messages", map[string]any{"text": friendly})
	got.wantStatus(t, http.StatusOK, "kept by the app")
	app.want(t, body)

	if after := count(t, `caddy_moderation_guard_total{direction="request",outcome="shadow_reject"}`); after != before+1 {
		t.Errorf("counted %v, then %v", before, after)
	}
	var seen []string
	for _, line := range logged(t, log, 2) {
		var entry struct {
			ID             string `json:"moderation_id"`
			Recommendation string `json:"moderation_recommendation"`
			Action         string `json:"moderation_action"`
			Status         int    `json:"status"`
		}
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(line, "worthless") {
			t.Errorf("the log quotes the text: %s", line)
		}
		if entry.Recommendation == "reject" && entry.ID != id {
			t.Errorf("the app knows %q, the log %q", id, entry.ID)
		}
		seen = append(seen, fmt.Sprint(entry.Status, " ", entry.Recommendation, " ", entry.Action))
	}
	if want := []string{"200 reject shadowed", "200 approve shadowed"}; !slices.Equal(seen, want) {
		t.Errorf("the log: got %q, want %q", seen, want)
	}
}

// count is the value of a metric, 0 when it is not there.
func count(t *testing.T, metric string) (value float64) {
	t.Helper()
	metrics := call(t, http.MethodGet, "http://"+adminAddr+"/metrics", "", nil)
	for line := range strings.Lines(string(metrics.body)) {
		if rest, ok := strings.CutPrefix(line, metric+" "); ok {
			if _, err := fmt.Sscan(rest, &value); err != nil {
				t.Fatal(err)
			}
		}
	}
	return value
}

// logged waits for lines of an access log: a line is written after its answer was sent.
func logged(t *testing.T, file string, lines int) []string {
	t.Helper()
	var got []string
	for range 1000 {
		text, _ := os.ReadFile(file)
		if got = strings.Split(strings.TrimSpace(string(text)), "\n"); len(text) > 0 && len(got) >= lines {
			return got
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("the log: got %d lines, want %d", len(got), lines)
	return nil
}

func exampleRoutes(t *testing.T) {
	app := newUpstream(t, "the app", nil)
	runExample(t, "per-route", "localhost:3000", app.address())
	for _, test := range []struct {
		path, text, refusedFor string
	}{
		{"/kids/talk", nasty, "harassment"},
		{"/kids/talk", mocking, "harassment"},
		{"/kids/talk", erotic, "sexual"},
		{"/kids/talk", friendly, ""},
		{"/adults/talk", nasty, "harassment"},
		{"/adults/talk", mocking, ""},
		{"/adults/talk", erotic, ""},
		{"/admin/talk", nasty, ""},
		{"/talk", nasty, "harassment"},
		{"/talk", erotic, "sexual"},
		{"/talk", mocking, ""},
	} {
		got, body := postJSON(t, test.path, map[string]any{"text": test.text})
		if test.refusedFor != "" {
			got.wantRefused(t, test.refusedFor, "/text")
			app.wantNothing(t)
			continue
		}
		got.wantStatus(t, http.StatusOK, "kept by the app")
		app.want(t, body)
	}
}

func exampleTwoSites(t *testing.T) {
	family, pub := newUpstream(t, "the family", nil), newUpstream(t, "the pub", nil)
	runExample(t, "two-sites", "localhost:3000", family.address(), "localhost:3001", pub.address())
	atFamily, atPub := "http://family.localhost:"+port+"/talk", "http://pub.localhost:"+port+"/talk"

	got, _ := postJSON(t, atFamily, map[string]any{"text": mocking})
	got.wantRefused(t, "harassment", "/text")
	got, _ = postJSON(t, atPub, map[string]any{"text": nasty})
	got.wantRefused(t, "violence", "/text")
	family.wantNothing(t)
	pub.wantNothing(t)

	got, body := postJSON(t, atFamily, map[string]any{"text": friendly})
	got.wantStatus(t, http.StatusOK, "kept by the family")
	family.want(t, body)
	got, body = postJSON(t, atPub, map[string]any{"text": insult})
	got.wantStatus(t, http.StatusOK, "kept by the pub")
	pub.want(t, body)
	family.wantNothing(t)
}

func exampleWords(t *testing.T) {
	app := newUpstream(t, "the app", nil)
	runExample(t, "word-lists", "localhost:3000", app.address(), "examples/words/", "../examples/words/")

	got, _ := postForm(t, "/talk", "text", nasty)
	got.wantRefused(t, "harassment", "text")
	for _, text := range []string{"Join our online casino tonight.", "Our C.A.S.I.N.O is open.", "Get free followers now!"} {
		got, _ = postForm(t, "/talk", "text", text)
		got.wantStatus(t, http.StatusUnprocessableEntity, "content_rejected")
	}
	app.wantNothing(t)

	for _, text := range []string{friendly, "Pathetic Idiots, you are the best band ever!", "Can I have your spotted dick tonight?", "We met in Casinos."} {
		got, body := postForm(t, "/talk", "text", text)
		got.wantStatus(t, http.StatusOK, "kept by the app")
		app.want(t, body)
	}
	// Allowed words excuse nothing else.
	got, _ = postForm(t, "/talk", "text", "Pathetic Idiots? "+nasty)
	got.wantRefused(t, "harassment", "text")
}
