// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/review"
	"github.com/caddy-moderation/caddy-moderation/storage/redis"
	"github.com/caddy-moderation/caddy-moderation/storage/redis/redistest"
)

// TestDeskQuality decides items of each kind, and reads the figures that follow from them.
func TestDeskQuality(t *testing.T) {
	stayPut(t)
	dir := t.TempDir()
	items := numbered(5)
	items[3].Cause, items[4].Cause = review.Sampled, review.Sampled
	items[3].Recommendation, items[3].Flagged = "approve", []string{}
	items[3].Probabilities = map[string]float64{"harassment": 0.2}
	items[4].Account = "small"
	ids := keepReviews(t, dir, review.Options{}, items...)
	load(t, queueConfig(dir, "twice 0"))

	empty := visit(t, "erin", "/review/quality", nil)
	contains(t, "nothing decided", empty, "Decided items: 0", "Decided items in the sample: 0. With 30 more", "Nothing was decided")

	decideAs(t, "erin", ids[0], "reject", "is-harassment", "yes")
	decideAs(t, "erin", ids[1], "approve")
	decideAs(t, "erin", ids[2], "reject", "is-harassment", "yes")
	decideAs(t, "erin", ids[3], "reject", "is-harassment", "yes")
	decideAs(t, "erin", ids[4], "approve")

	// The figures are those of a minute ago, so another period is asked for.
	page := visit(t, "erin", "/review/quality?days=7", nil)
	contains(t, "the figures", page, "Decided items: 5", "Decided items in the sample: 2. With 28 more",
		// Of the two of the sample one is a miss, and the other is a false alarm.
		`<tr><th scope="row">Precision <span class="quiet">how much of what the service would review or reject people `+
			`reject</span></th><td class="n">0.0%</td><td class="n">0.0% – 79.3%`,
		`<tr><th scope="row">Harassment</th><td class="n">40.0%</td><td class="n">11.8% – 76.9%`,
	)
	other := visit(t, "erin", "/review/quality?days=7&account=small&category=harassment", nil)
	contains(t, "of an account", other, "Decided items: 1", `value="small"`, `<option value="harassment" selected>`)

	differ := visit(t, "erin", "/review/quality/differences", nil)
	contains(t, "the differences", differ, "/review/items/"+ids[1], "/review/items/"+ids[3], "/review/items/"+ids[4])
	lacks(t, "the differences", differ, "/review/items/"+ids[0], "/review/items/"+ids[2])
	none := visit(t, "erin", "/review/quality/differences?category=violence", nil)
	contains(t, "of another category", none, "There are none")
	for _, query := range []string{"?days=-1&account=..%2F&category=%3Cb%3E", "?days=99999999999999999999", "?account=" + strings.Repeat("x", 5000)} {
		if got := visit(t, "erin", "/review/quality"+query, nil); got.status != http.StatusOK {
			t.Errorf("%s: got %d", query, got.status)
		}
	}
	for _, path := range []string{"/review/quality", "/review/quality/differences"} {
		if got := visit(t, "carol", path, nil); got.status != http.StatusForbidden {
			t.Errorf("a member at %s: got %d", path, got.status)
		}
	}
}

// TestDeskDecided guards against an export of the desk that is not the command's, that somebody gets who may not read
// the texts of all accounts, and that leaves no entry in the audit log.
func TestDeskDecided(t *testing.T) {
	stayPut(t)
	dir := t.TempDir()
	items := numbered(6)
	items[2].Account = "small"
	items[4].Texts[0].Text = "A <b>bold</b> & \"quoted\" text\nof two lines"
	ids := keepReviews(t, dir, review.Options{}, items...)
	load(t, queueConfig(dir, "twice 0"))
	lacks(t, "nothing decided", visit(t, "alice", "/review/quality", nil), "decided.jsonl")
	if got := visit(t, "alice", "/review/decided.jsonl", nil); got.status != http.StatusOK || len(got.body) > 0 {
		t.Errorf("nothing decided: got %d %q, want nothing", got.status, got.body)
	}
	decideAs(t, "erin", ids[0], "reject", "is-harassment", "yes")
	decideAs(t, "erin", ids[1], "reject") // without a word about a category: no row
	decideAs(t, "erin", ids[2], "approve")
	decideAs(t, "erin", ids[3], "escalate", "note", "Which?")
	decideAs(t, "erin", ids[4], "approve", "is-harassment", "no")

	got := visit(t, "alice", "/review/decided.jsonl", nil)
	command := adminCall(t, http.MethodGet, "/moderation/reviews/export?labelled=true", "", http.StatusOK)
	if string(got.body) != string(command.body) || strings.Count(string(got.body), "\n") != 3 {
		t.Errorf("got\n%s\nand from the command\n%s", got.body, command.body)
	}
	for name, want := range map[string]string{
		"Content-Type": "application/jsonl", "Content-Disposition": `attachment; filename="decided.jsonl"`,
		"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
	} {
		if got.header.Get(name) != want {
			t.Errorf("%s is %q, want %q", name, got.header.Get(name), want)
		}
	}
	if head := call(t, http.MethodHead, base+"/review/decided.jsonl", "", nil, "X-User", "alice"); head.status !=
		http.StatusOK || head.header.Get("Content-Disposition") == "" {
		t.Errorf("HEAD: got %d %v", head.status, head.header)
	}
	for _, user := range []string{"erin", "carol", ""} {
		if got := visit(t, user, "/review/decided.jsonl", nil); got.status != http.StatusForbidden ||
			strings.Contains(string(got.body), "Rude words") {
			t.Errorf("%q: got %d, want 403", user, got.status)
		}
	}
	var exports []string
	for _, entry := range auditEntries(t) {
		if entry.Action == "review.export" {
			exports = append(exports, entry.Actor)
		}
	}
	if want := []string{"alice", "alice", "root"}; !slices.Equal(exports, want) {
		t.Errorf("the audit log has exports of %v, want %v", exports, want)
	}
	// The counts of the queue are some seconds old.
	comesAbout(t, "the link", func() bool {
		return strings.Contains(string(visit(t, "alice", "/review/quality?days=7", nil).body), "at most 4.")
	})
	contains(t, "an operator", visit(t, "alice", "/review/quality?days=7", nil), `href="/review/decided.jsonl"`)
	lacks(t, "a reviewer", visit(t, "erin", "/review/quality?days=7", nil), "decided.jsonl")
}

// TestDeskDecidedBreaksOff lets the store die while an export is read. What was sent must not pass for the whole.
func TestDeskDecidedBreaksOff(t *testing.T) {
	server := redistest.Run(t, redistest.Options{})
	store, err := redis.Open(redis.Options{Addresses: []string{server.Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	queue, err := review.New(review.Options{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	// More than what the buffers on the way hold.
	const items, size = 600, 40_000
	for i := range items {
		id, err := queue.Add(t.Context(), aReviewItem(fmt.Sprint(i, strings.Repeat(" word", size/5))))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := queue.Decide(t.Context(), id, review.Decision{
			Reviewer: "ann", Action: review.Reject, Categories: map[string]bool{"harassment": true},
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	site := strings.SplitN(queueConfig("DIR", "twice 0"), "storage badger DIR", 2)
	load(t, site[0]+"storage redis "+server.Addr()+site[1])

	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/review/decided.jsonl", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-User", "alice")
	got, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	if got.StatusCode != http.StatusOK {
		t.Fatalf("got %d", got.StatusCode)
	}
	server.Kill()
	n, err := io.Copy(io.Discard, got.Body)
	if err == nil || n == 0 || n >= items*size {
		t.Errorf("got %d bytes and the error %v, want a part and an error", n, err)
	}
	// Nothing was sent yet: the visitor is told what is wrong.
	if got := visit(t, "alice", "/review/decided.jsonl", nil); got.status != http.StatusServiceUnavailable ||
		got.header.Get("Content-Disposition") != "" {
		t.Errorf("without the store: got %d %v, want 503 and a page", got.status, got.header)
	}
}
