// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/review"
	"github.com/caddy-moderation/caddy-moderation/storage/badger"
)

// queueConfig is a configuration with a desk and a review queue with options, whose store is in dir.
func queueConfig(dir, options string) string {
	return siteConfig(dir, "demo off\nreview {\n"+options+"\n}", `moderation_desk {
		operator {http.request.header.X-User} alice
		member {http.request.header.X-User} acme:carol
		reviewer {http.request.header.X-User} erin frank
	}`)
}

// aReviewItem is an item whose text is flagged as harassment.
func aReviewItem(text string) review.Item {
	return review.Item{
		Origin: review.Guard, Cause: review.Reviewed, Account: "acme", Site: "blog.example", Path: "/comments",
		Author: "author_1", Texts: []review.Text{{Name: "/comment", Text: text, Passages: []review.Passage{
			{Category: "harassment", Begin: 0, End: 4},
		}}},
		Language: "en", Recommendation: "review", Flagged: []string{"harassment"}, Confidence: 0.8125, Model: "model-1",
		Probabilities: map[string]float64{"harassment": 0.8125},
	}
}

// keepReviews keeps items in the store of a directory that no server has open, and returns their ids.
func keepReviews(t testing.TB, dir string, o review.Options, items ...review.Item) (ids []string) {
	t.Helper()
	store, err := badger.Open(badger.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	o.Store = store
	queue, err := review.New(o)
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range items {
		id, err := queue.Add(t.Context(), item)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
		time.Sleep(2 * time.Millisecond) // ids of one millisecond are in no order
	}
	return ids
}

// numbered returns n items that are not alike.
func numbered(n int) (items []review.Item) {
	for i := range n {
		items = append(items, aReviewItem("Rude words of "+strings.Repeat("x", i+1)))
	}
	return items
}

var servedItem = regexp.MustCompile(`action="/review/(rev_[0-9a-v]{26})/decision" data-decide`)

// served returns the id of the item that a page lets its reader decide.
func served(t testing.TB, got reply) string {
	t.Helper()
	found := servedItem.FindSubmatch(got.body)
	if got.status != http.StatusOK || found == nil {
		t.Fatalf("got %d without an item: %s", got.status, got.body)
	}
	return string(found[1])
}

// decideAs sends the form that decides an item, and returns where it leads.
func decideAs(t testing.TB, user, id, action string, more ...string) string {
	t.Helper()
	form := url.Values{"action": {action}}
	for i := 0; i+1 < len(more); i += 2 {
		form.Set(more[i], more[i+1])
	}
	got := visit(t, user, "/review/"+id+"/decision", form)
	if got.status != http.StatusSeeOther {
		t.Fatalf("%s of %s: got %d %s, want 303", action, id, got.status, got.body)
	}
	return got.header.Get("Location")
}

func contains(t testing.TB, what string, got reply, wanted ...string) {
	t.Helper()
	for _, want := range wanted {
		if !strings.Contains(string(got.body), want) {
			t.Errorf("%s: the page does not have %q: %s", what, want, got.body)
		}
	}
}

func lacks(t testing.TB, what string, got reply, unwanted ...string) {
	t.Helper()
	for _, never := range unwanted {
		if strings.Contains(string(got.body), never) {
			t.Errorf("%s: the page has %q: %s", what, never, got.body)
		}
	}
}

// TestDeskQueue decides items by forms: approve, reject with a reason and categories, undo, skip and escalate.
func TestDeskQueue(t *testing.T) {
	stayPut(t)
	dir := t.TempDir()
	ids := keepReviews(t, dir, review.Options{}, numbered(4)...)
	load(t, queueConfig(dir, "twice 0"))

	first := visit(t, "erin", "/review?order=age&account=acme", nil)
	if id := served(t, first); id != ids[0] {
		t.Fatalf("got %s, want the oldest, %s", id, ids[0])
	}
	contains(t, "the oldest", first, "<mark>Rude<", "81.2%", "Harassment", "/comment", "blog.example/comments",
		"model-1", "4 waiting", `class="badge review"`, "Items of this author: 4")
	// Whoever asks again has the same item; another has another one.
	if id := served(t, visit(t, "erin", "/review", nil)); id != ids[0] {
		t.Errorf("asked again: got %s, want %s", id, ids[0])
	}
	if id := served(t, visit(t, "frank", "/review", nil)); id != ids[1] {
		t.Errorf("another reviewer: got %s, want %s", id, ids[1])
	}
	if to := decideAs(t, "frank", ids[0], "reject"); to != "/review?taken=1" {
		t.Errorf("what another has: got %s", to)
	}
	contains(t, "what another has", visit(t, "frank", "/review?taken=1", nil), "Somebody else has that item")
	if to := decideAs(t, "frank", ids[0], "approve", "back", "item"); to != "/review/items/"+ids[0]+"?taken=1" {
		t.Errorf("of what another has, from its own page: got %s", to)
	}
	contains(t, "the page of what another has", visit(t, "frank", "/review/items/"+ids[0]+"?taken=1", nil),
		"Somebody else has that item", "Nothing was decided yet.")

	to := decideAs(t, "erin", ids[0], "reject", "reason", "insult", "note", "Really.",
		"is-harassment", "yes", "is-hate", "no", "order", "harm", "account", "acme")
	if want := "/review?account=acme&did=reject&last=" + ids[0] + "&order=harm"; to != want {
		t.Errorf("after a decision: got %s, want %s", to, want)
	}
	next := visit(t, "erin", to, nil)
	if id := served(t, next); id == ids[0] || id == ids[1] {
		t.Errorf("the next item is %s, which was decided or is another's", id)
	}
	contains(t, "the next item", next, "The item was rejected.", "/review/"+ids[0]+"/decision", `value="undo"`)
	if again := decideAs(t, "erin", ids[0], "reject"); !strings.Contains(again, "did=reject") {
		t.Errorf("the same form again: got %s", again)
	}
	// Another tab decides otherwise.
	to = decideAs(t, "erin", ids[0], "approve")
	contains(t, "what the person has decided already", visit(t, "erin", to, nil),
		"You have decided that item already", `href="/review/items/`+ids[0]+`"`)
	contains(t, "the address of what the person has decided", visit(t, "erin", "/review?item="+ids[0], nil),
		"You have decided that item already")
	contains(t, "the history", visit(t, "erin", "/review/items/"+ids[0], nil), "<bdi>insult</bdi>", "Really.",
		"<bdi>Harassment</bdi>: right", "<bdi>Hate</bdi>: wrong", "<bdi>erin</bdi>", "Undo my last decision")
	lacks(t, "the history for another", visit(t, "frank", "/review/items/"+ids[0], nil), "Undo my last decision")

	to = decideAs(t, "erin", ids[0], "undo")
	back := visit(t, "erin", to, nil)
	contains(t, "after undo", back, "was taken back")
	if id := served(t, back); id != ids[0] {
		t.Errorf("after undo at %s: got %s", to, id)
	}
	if id := served(t, visit(t, "frank", "/review?item="+ids[0], nil)); id == ids[0] {
		t.Error("what was taken back is served to two reviewers")
	}
	decideAs(t, "erin", ids[0], "skip")
	if id := served(t, visit(t, "erin", "/review", nil)); id == ids[0] {
		t.Error("a skipped item is served again")
	}
	contains(t, "after skipping", visit(t, "erin", "/review?did=skip&last="+ids[0], nil), "data-skipped")
	decideAs(t, "frank", ids[0], "escalate", "note", "For the boss.")
	escalated := visit(t, "alice", "/review/items?status=escalated", nil)
	contains(t, "the escalated items", escalated, "Rude words of x", "frank", "Pass on")
	page := visit(t, "alice", "/review/items/"+ids[0], nil)
	contains(t, "the escalated item", page, "For the boss.", `<a href="/review" aria-current="page">`)
	contains(t, "nothing of an account", visit(t, "erin", "/review?account=none", nil), "0 waiting",
		"Only shown are items of the account", "Show those of all accounts")
	to = decideAs(t, "alice", served(t, page), "approve", "back", "item")
	if to != "/review/items/"+ids[0]+"?did=approve" {
		t.Errorf("after the decision of an escalated item: got %s", to)
	}
	contains(t, "the approved items", visit(t, "alice", "/review/items?status=approved", nil), "Rude words of x")
	for name, form := range map[string]url.Values{
		"no action": {}, "another action": {"action": {"erase"}},
		"a long note":     {"action": {"reject"}, "note": {strings.Repeat("n", 3000)}},
		"nothing to undo": {"action": {"undo"}},
	} {
		if got := visit(t, "erin", "/review/"+ids[1]+"/decision", form); got.status != http.StatusBadRequest {
			t.Errorf("%s: got %d, want 400", name, got.status)
		}
	}
	for _, id := range []string{"rev_none", strings.Replace(ids[0], "rev_", "rev_v", 1)} {
		path := "/review/items/" + id
		got := visit(t, "erin", path, nil)
		if got.status != http.StatusNotFound {
			t.Errorf("%s: got %d, want 404", path, got.status)
		}
		contains(t, path, got, `<a href="/review">To the next item</a>`)
	}
}

// TestDeskQueueRoles guards against a page of the queue that somebody sees who is no reviewer, and against forms of
// other sites.
func TestDeskQueueRoles(t *testing.T) {
	stayPut(t)
	dir := t.TempDir()
	id := keepReviews(t, dir, review.Options{}, numbered(1)...)[0]
	load(t, queueConfig(dir, "twice 0"))
	gets := []string{"/review", "/review/items", "/review/items/" + id, "/review/" + id + "/alike"}
	posts := []string{"/review/" + id + "/decision", "/review/" + id + "/alike"}
	form := url.Values{"action": {"approve"}, "id": {id}}
	for _, user := range []string{"carol", "mallory", ""} {
		for _, path := range gets {
			got := visit(t, user, path, nil)
			if got.status != http.StatusForbidden {
				t.Errorf("%q at %s: got %d, want 403", user, path, got.status)
			}
			lacks(t, path, got, "Rude")
		}
		for _, path := range posts {
			if got := visit(t, user, path, form); got.status != http.StatusForbidden {
				t.Errorf("%q posts to %s: got %d, want 403", user, path, got.status)
			}
		}
	}
	for _, path := range posts {
		if got := visit(t, "erin", path, form, "Sec-Fetch-Site", "cross-site"); got.status != http.StatusForbidden {
			t.Errorf("a form of another site to %s: got %d, want 403", path, got.status)
		}
	}
	for _, user := range []string{"erin", "alice"} {
		for _, path := range gets {
			if got := visit(t, user, path, nil); got.status != http.StatusOK {
				t.Errorf("%s at %s: got %d, want 200", user, path, got.status)
			}
		}
		decideAs(t, user, id, "skip")
	}
	if got := visit(t, "erin", "/", nil); got.header.Get("Location") != "/review" {
		t.Errorf("a reviewer at the first page: got %d to %q", got.status, got.header.Get("Location"))
	}
	empty := visit(t, "erin", "/review", nil)
	contains(t, "an empty queue", empty, "Nothing to review", `http-equiv="refresh" content="15"`)
}

// TestDeskQueueBlind guards against a verdict that is seen by those whose decision is to measure the service, and
// against a first decision that is seen by the second reviewer.
func TestDeskQueueBlind(t *testing.T) {
	stayPut(t)
	verdict := []string{
		"<mark", "81.2", "flagged", "badge review", "not sure", "model-1", "author_1", "first reason", "first note",
	}
	for name, test := range map[string]struct {
		twice float64
		cause review.Cause
	}{"sampled": {0, review.Sampled}, "decided by two": {1, review.Reviewed}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			items := numbered(2)
			items[0].Cause, items[1].Cause = test.cause, test.cause
			ids := keepReviews(t, dir, review.Options{Twice: test.twice}, items...)
			load(t, queueConfig(dir, fmt.Sprintf("twice %g", test.twice)))
			if test.twice == 1 {
				if id := served(t, visit(t, "frank", "/review", nil)); id != ids[0] {
					t.Fatalf("got %s, want %s", id, ids[0])
				}
				decideAs(t, "frank", ids[0], "reject", "reason", "first reason", "note", "first note")
				contains(t, "the first decision for its reviewer", visit(t, "frank", "/review/items/"+ids[0], nil),
					"It waits for a second reviewer", "first note", "Undo my last decision")
			}
			for _, path := range []string{"", "/items", "/items/" + ids[0], "/" + ids[0] + "/alike"} {
				page := visit(t, "erin", "/review"+path, nil)
				lacks(t, path, page, verdict...)
				lacks(t, path, page, "frank")
			}
			next := visit(t, "erin", "/review", nil)
			contains(t, "the page", next, "Rude words of x", `name="is-hate"`, `name="is-violence"`)
			decideAs(t, "erin", ids[0], "reject")
			contains(t, "the decided item", visit(t, "erin", "/review/items/"+ids[0], nil), "<mark", "81.2%", "model-1")
		})
	}
}

// TestDeskQueueEscapes guards against markup in whatever is shown of an item.
func TestDeskQueueEscapes(t *testing.T) {
	stayPut(t)
	zoo := []string{
		`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' autofocus onfocus=alert(1) x='`,
		`</textarea><svg onload=alert(1)>`,
		`javascript:alert(1)`, `{{.Body}}`, "\u202eevil\u0000", `</title><base href=//evil.example>`, `<!--`, `]]>`,
	}
	dir := t.TempDir()
	var items []review.Item
	for _, animal := range zoo {
		item := aReviewItem(animal)
		item.Texts[0].Name, item.Texts[0].Passages[0].Category, item.Site, item.Path = animal, animal, animal, animal
		item.Author, item.Language, item.Model = animal, animal, animal
		item.Account = strings.Map(func(r rune) rune { // it is part of a key in the store
			if r <= ' ' || r >= 0x7f {
				return '_'
			}
			return r
		}, animal)
		item.Recommendation, item.Flagged, item.Cause = animal, []string{animal}, review.Reviewed
		items = append(items, item)
	}
	ids := keepReviews(t, dir, review.Options{}, items...)
	load(t, queueConfig(dir, "twice 0"))
	harmless := func(path string) {
		t.Helper()
		got := visit(t, "erin", path, nil)
		if got.status != http.StatusOK {
			t.Errorf("%s: got %d", path, got.status)
		}
		page := strings.NewReplacer(`<script type="module" src="/assets/queue.`, "",
			`<script type="module" src="/assets/refresh.`, "").Replace(string(got.body))
		for _, never := range []string{
			"<script", "<img src=x", "<svg onload", "<base", "</title><b", "' autofocus onfocus=", `href="javascript:`,
		} {
			if strings.Contains(page, never) {
				t.Errorf("%s: the page has %s: %s", path, never, page)
			}
		}
	}
	for i, id := range ids {
		harmless("/review?item=" + id)
		harmless("/review/" + id + "/alike")
		decideAs(t, "erin", id, "escalate", "reason", zoo[i], "note", zoo[i])
		harmless("/review/items/" + id)
	}
	harmless("/review/items?status=escalated")
	for _, animal := range zoo {
		q := url.QueryEscape(animal)
		harmless("/review?order=" + q + "&account=" + q + "&last=" + q + "&did=" + q + "&undone=" + q + "&item=" + q)
		harmless("/review/items?status=" + q + "&account=" + q)
	}
}

// TestDeskQueueAlike decides nearly the same texts together, without those that another has, and takes it back.
func TestDeskQueueAlike(t *testing.T) {
	stayPut(t)
	dir := t.TempDir()
	var items []review.Item
	for range 5 {
		items = append(items, aReviewItem("Buy my bread!"))
	}
	items[4].Account = "small" // another account's is not decided with them
	ids := keepReviews(t, dir, review.Options{}, items...)
	load(t, queueConfig(dir, "twice 0"))
	id := served(t, visit(t, "erin", "/review", nil))
	other := served(t, visit(t, "frank", "/review", nil))
	contains(t, "the item", visit(t, "erin", "/review", nil), "nearly the same text: 3.", "/review/"+id+"/alike")
	ask := visit(t, "erin", "/review/"+id+"/alike", nil)
	if n := strings.Count(string(ask.body), `name="id"`); n != 4 || strings.Contains(string(ask.body), ids[4]) {
		t.Errorf("the question: got %d items, want 4 of one account: %s", n, ask.body)
	}
	form := url.Values{"id": ids[:4], "action": {"reject"}, "reason": {"spam"}}
	got := visit(t, "erin", "/review/"+id+"/alike", form)
	contains(t, "the result", got, "Rejected: 3.", "or has decided them: 1.", "Undo all of them")
	if again := visit(t, "erin", "/review/"+id+"/alike", form); !strings.Contains(string(again.body), "Rejected: 0.") {
		t.Errorf("sent again: got %s", again.body)
	}
	rejected := visit(t, "erin", "/review/items?status=rejected", nil)
	lacks(t, "the rejected items", rejected, other)
	if n := strings.Count(string(rejected.body), `<bdi class="inline">spam</bdi>`); n != 3 {
		t.Errorf("the rejected items: got %d, want 3", n)
	}
	form.Set("action", "undo")
	contains(t, "undone", visit(t, "erin", "/review/"+id+"/alike", form), "Taken back: 3.")
	contains(t, "undone", visit(t, "erin", "/review/items?status=rejected", nil), "There are no such items.")
	for name, bad := range map[string]url.Values{
		"no ids": {"action": {"reject"}}, "escalated": {"id": ids[:1], "action": {"escalate"}},
		"too many": {"id": make([]string, 102), "action": {"reject"}},
	} {
		if got := visit(t, "erin", "/review/"+id+"/alike", bad); got.status != http.StatusBadRequest {
			t.Errorf("%s: got %d, want 400", name, got.status)
		}
	}
}

// TestDeskQueuePages guards against items that a list of several pages misses or shows twice.
func TestDeskQueuePages(t *testing.T) {
	dir := t.TempDir()
	ids := keepReviews(t, dir, review.Options{}, numbered(60)...)
	load(t, queueConfig(dir, "twice 0"))
	seen, path := map[string]int{}, "/review/items?account=acme"
	row := regexp.MustCompile(`href="/review/items/(rev_[0-9a-v]{26})"`)
	next := regexp.MustCompile(`href="([^"]+)" rel="next"`)
	pages := 0
	for ; path != "" && pages < 5; pages++ {
		got := visit(t, "erin", path, nil)
		for _, match := range row.FindAllSubmatch(got.body, -1) {
			seen[string(match[1])]++
		}
		path = ""
		if match := next.FindSubmatch(got.body); match != nil {
			path = strings.ReplaceAll(string(match[1]), "&amp;", "&")
		}
	}
	if len(seen) != len(ids) || pages != 2 {
		t.Errorf("got %d items on %d pages, want %d on 2", len(seen), pages, len(ids))
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%s is shown %d times", id, n)
		}
	}
}

// TestDeskWithoutAQueue guards against pages of a queue that nobody has asked for.
func TestDeskWithoutAQueue(t *testing.T) {
	config := strings.Replace(queueConfig(t.TempDir(), ""), "review {\n\n}", "", 1)
	load(t, config)
	for _, path := range []string{"/review", "/review/items", "/review/items/rev_1", "/review/rev_1/alike"} {
		got := visit(t, "erin", path, nil)
		if got.status != http.StatusNotFound {
			t.Errorf("%s: got %d, want 404", path, got.status)
		}
		contains(t, path, got, "with the option review")
		lacks(t, path, got, `href="/review"`)
	}
}

// TestDeskQueueLogsNothing guards against texts, reasons and notes in logs and addresses.
func TestDeskQueueLogsNothing(t *testing.T) {
	stayPut(t)
	dir := t.TempDir()
	log := filepath.Join(t.TempDir(), "all.log")
	ids := keepReviews(t, dir, review.Options{}, numbered(2)...)
	config := strings.Replace(queueConfig(dir, "twice 0"), "output discard", "output file "+log+"\n\t\tlevel DEBUG", 1)
	load(t, strings.Replace(config, base+" {", base+" {\n\tlog", 1))
	addresses := []string{decideAs(t, "erin", ids[0], "reject", "other", "secretreason", "note", "secretnote")}
	visit(t, "erin", addresses[0], nil)
	visit(t, "erin", "/review/items?status=rejected", nil)
	visit(t, "erin", "/review/"+ids[1]+"/alike", nil)
	visit(t, "erin", "/review/"+ids[1]+"/decision", url.Values{"action": {"secretaction"}})
	written, err := os.ReadFile(log)
	if err != nil || !strings.Contains(string(written), "/review/items") {
		t.Fatalf("the log: %v, %s", err, written)
	}
	for _, never := range []string{"secret", "Rude"} {
		if strings.Contains(string(written)+addresses[0], never) {
			t.Errorf("a log or an address has %q", never)
		}
	}
}

// TestDeskShowsCorrections guards against markup in what a client suggests, and against a suggestion that spoils a
// decision of two.
func TestDeskShowsCorrections(t *testing.T) {
	stayPut(t)
	dir := t.TempDir()
	item := aReviewItem("A rude word.")
	item.Cause, item.Suggested = review.Corrected, map[string]float64{"<b>INSULT": 0.25}
	item.Context = []string{"Said <i>before</i>."}
	keepReviews(t, dir, review.Options{}, item)
	load(t, queueConfig(dir, "twice 0"))
	page := visit(t, "erin", "/review", nil)
	contains(t, "a correction", page, "a client suggests other scores", "&lt;b&gt;INSULT", "25.0%",
		"Said &lt;i&gt;before&lt;/i&gt;.")

	dir = t.TempDir()
	keepReviews(t, dir, review.Options{Twice: 1}, item)
	load(t, queueConfig(dir, "twice 0"))
	page = visit(t, "erin", "/review", nil)
	contains(t, "a correction that two decide", page, "Said &lt;i&gt;before")
	lacks(t, "a correction that two decide", page, "INSULT", "suggests other scores")
}
