// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"

	"github.com/caddy-moderation/caddy-moderation/audit"
	"github.com/caddy-moderation/caddy-moderation/review"
)

// doubtful is a text that a person should decide.
const doubtful = "Your jokes are stupid and so are you."

// A key of the account acme that may decide its items, and one of another account.
const (
	reviewerKey = "mod_sk_reviewer789abcdefghijklmnopqrs"
	strangerKey = "mod_sk_stranger789abcdefghijklmnopqrs"
)

// reviewConfig is a configuration with a review queue, a guard in front of an app, and the API.
func reviewConfig(t *testing.T, dir, options string, app *backend) string {
	t.Helper()
	config := siteConfig(dir, "", `moderation_api
	moderate /comments {
		account acme
		author {http.request.header.X-User}
	}
	`+app.proxy())
	return strings.Replace(config, "		account small {", `		review {
			`+options+`
		}
		account other {
			tier unlimited
			key `+hashOf(strangerKey)+` {
				scope review
			}
		}
		account small {`, 1) + ""
}

// withReviewer adds the key of a reviewer to the account acme.
func withReviewer(config string) string {
	return strings.Replace(config, "			key "+hashOf(acmeKey), "			key "+hashOf(acmeKey)+`
			key `+hashOf(reviewerKey)+` {
				name reviewers
				scope review
			}`, 1)
}

func postComment(t *testing.T, text, user string) reply {
	t.Helper()
	return call(t, http.MethodPost, base+"/comments", "", strings.NewReader(text), "Content-Type", "text/plain",
		"X-User", user)
}

// reviews calls the queue.
func reviews(t *testing.T, method, path, key, body string) reply {
	t.Helper()
	if body == "" {
		return call(t, method, base+"/v1/reviews"+path, key, nil)
	}
	return call(t, method, base+"/v1/reviews"+path, key, strings.NewReader(body), "Content-Type", "application/json")
}

type reviewPage struct {
	Items []review.Item `json:"items"`
	Next  string        `json:"next"`
}

func listReviews(t *testing.T, query string) reviewPage {
	t.Helper()
	got := reviews(t, http.MethodGet, query, reviewerKey, "")
	if got.status != http.StatusOK {
		t.Fatalf("GET /v1/reviews%s: got %d %s, want 200", query, got.status, got.body)
	}
	var page reviewPage
	got.decodeJSON(t, &page)
	return page
}

// TestReviewQueue keeps what the guard and the API are not sure of, and has people decide it.
func TestReviewQueue(t *testing.T) {
	app := newBackend(t)
	dir := t.TempDir()
	config := withReviewer(reviewConfig(t, dir, "keep 7d\ntwice 0", app))
	load(t, config)
	if got := postComment(t, doubtful, "carol"); got.status != http.StatusOK {
		t.Fatalf("a doubtful comment: got %d, want 200", got.status)
	}
	postComment(t, fine, "carol")
	if got := postComment(t, vile, "carol"); got.status != http.StatusUnprocessableEntity {
		t.Fatalf("a vile comment: got %d, want 422", got.status)
	}
	moderate(t, acmeKey, `{"content": "`+doubtful+` Really."}`)
	moderate(t, strangerKey, `{"content": "`+doubtful+` Others."}`)

	page := listReviews(t, "")
	if len(page.Items) != 2 {
		t.Fatalf("got %d items, want the two doubtful ones of the account: %+v", len(page.Items), page.Items)
	}
	first, second := page.Items[0], page.Items[1]
	if first.Origin != review.Guard || first.Site != "localhost" || first.Path != "/comments" || first.Account != "acme" ||
		first.Texts[0].Text != doubtful || first.Cause != review.Reviewed || first.Recommendation != "review" ||
		len(first.Texts[0].Passages) == 0 || first.Language != "en" || first.Model == "" ||
		!strings.HasPrefix(first.RequestID, "mod_") || !strings.HasPrefix(first.Author, "author_") ||
		strings.Contains(first.Author, "carol") || first.Status != review.Pending {
		t.Errorf("the item of the guard: got %+v", first)
	}
	if second.Origin != review.API || second.Texts[0].Text != doubtful+" Really." || second.Author != "" {
		t.Errorf("the item of the API: got %+v", second)
	}

	got := reviews(t, http.MethodPost, "/next", reviewerKey, `{"reviewer": "ann", "order": "age"}`)
	var served review.Item
	got.decodeJSON(t, &served)
	if got.status != http.StatusOK || served.ID != first.ID {
		t.Errorf("next: got %d %s, want the first item", got.status, got.body)
	}
	for name, test := range map[string]struct {
		method, path, key, body string
		status                  int
		want                    string
	}{
		"no key":                {"GET", "", "", "", 401, "missing_key"},
		"a key without scope":   {"GET", "", acmeKey, "", 403, "missing_scope"},
		"another's item":        {"GET", "/" + first.ID, strangerKey, "", 404, "not_found"},
		"another's decision":    {"POST", "/" + first.ID + "/decision", strangerKey, `{"action":"approve"}`, 404, "not_found"},
		"another's erasure":     {"DELETE", "/" + first.ID, strangerKey, "", 404, "not_found"},
		"no such item":          {"GET", "/rev_x", reviewerKey, "", 404, "not_found"},
		"a served item":         {"POST", "/" + first.ID + "/decision", reviewerKey, `{"action":"approve","reviewer":"bob"}`, 409, "review_taken"},
		"an unknown action":     {"POST", "/" + first.ID + "/decision", reviewerKey, `{"action":"burn"}`, 400, "Action is approve"},
		"an unknown member":     {"POST", "/" + first.ID + "/decision", reviewerKey, `{"action":"approve","raeson":"x"}`, 400, "/raeson"},
		"a member of no use":    {"POST", "/" + first.ID + "/decision", reviewerKey, `{"action":1}`, 400, "/action"},
		"no JSON":               {"POST", "/" + first.ID + "/decision", reviewerKey, `{"action"`, 400, "malformed_json"},
		"a wrong method":        {"PUT", "/" + first.ID, reviewerKey, "", 405, "Use DELETE or GET."},
		"an unknown status":     {"GET", "?status=odd", reviewerKey, "", 400, "Status is pending"},
		"too large a limit":     {"GET", "?limit=1000", reviewerKey, "", 400, "limit"},
		"an address below":      {"GET", "/" + first.ID + "/odd", reviewerKey, "", 404, "not_found"},
		"a decision of nothing": {"POST", "/" + first.ID + "/decision", reviewerKey, "", 400, "Action is approve"},
	} {
		got := reviews(t, test.method, test.path, test.key, test.body)
		if got.status != test.status || !strings.Contains(string(got.body), test.want) {
			t.Errorf("%s: got %d %s, want %d with %q", name, got.status, got.body, test.status, test.want)
		}
		if strings.Contains(string(got.body), "jokes") {
			t.Errorf("%s: the error has content: %s", name, got.body)
		}
	}
	got = reviews(t, http.MethodPost, "/"+first.ID+"/decision", reviewerKey,
		`{"reviewer": "ann", "action": "reject", "reason": "insult", "categories": {"harassment": true}}`)
	if got.status != http.StatusOK || !strings.Contains(string(got.body), `"status":"rejected"`) {
		t.Errorf("a decision: got %d %s, want 200 and a rejected item", got.status, got.body)
	}
	// A decision survives a reload and another start.
	reload(t, config)
	if page := listReviews(t, "?status=rejected"); len(page.Items) != 1 || page.Items[0].Decisions[0].Reason != "insult" {
		t.Errorf("rejected after a reload: got %+v, want the decided item", page.Items)
	}
	var events struct {
		Events []review.Event `json:"events"`
	}
	reviews(t, http.MethodGet, "/events", reviewerKey, "").decodeJSON(t, &events)
	if len(events.Events) != 1 || events.Events[0].Item != first.ID || events.Events[0].Status != review.Refused ||
		events.Events[0].RequestID != first.RequestID {
		t.Errorf("events: got %+v, want the decision", events)
	}
	var stats review.Stats
	reviews(t, http.MethodGet, "/stats", reviewerKey, "").decodeJSON(t, &stats)
	if stats.Items[review.Pending] != 1 || stats.Items[review.Refused] != 1 || stats.Oldest == nil {
		t.Errorf("stats: got %+v, want one waiting and one rejected item", stats)
	}
	if got := reviews(t, http.MethodDelete, "/"+first.ID, reviewerKey, ""); got.status != http.StatusNoContent {
		t.Errorf("erasing: got %d, want 204", got.status)
	}
	if log := auditEntries(t); len(log) != 1 || log[0].Action != "review.erase" || log[0].Via != audit.API ||
		log[0].Target != first.ID || log[0].Actor == "" {
		t.Errorf("got the audit log %+v", log)
	}
	reviews(t, http.MethodPost, "/"+second.ID+"/decision", reviewerKey, `{"action": "approve"}`)
	if got := reviews(t, http.MethodPost, "/next", reviewerKey, ""); got.status != http.StatusNoContent {
		t.Errorf("next of nothing: got %d %s, want 204", got.status, got.body)
	}
	if kept := series(t, "caddy_moderation_review_items_total"); len(kept) != 1 || !strings.HasSuffix(kept[0], " 3") {
		t.Errorf("metrics: got %q, want 3 kept items", kept)
	}
}

// TestReviewWebhook tells an app what was decided, after a reload, too.
func TestReviewWebhook(t *testing.T) {
	t.Setenv("HOOK_SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	hook := newBackend(t)
	app := newBackend(t)
	options := "twice 0\nwebhook " + hook.URL + "/hook {\nsecret {env.HOOK_SECRET}\n}"
	config := withReviewer(reviewConfig(t, t.TempDir(), options, app))
	load(t, config)
	time.Sleep(3 * time.Second) // an endpoint is told what is decided once the server has begun
	decideOne := func(text, action string) {
		t.Helper()
		postComment(t, text, "carol")
		item := listReviews(t, "").Items[0]
		got := reviews(t, http.MethodPost, "/"+item.ID+"/decision", reviewerKey, `{"action":"`+action+`"}`)
		if got.status != http.StatusOK {
			t.Fatalf("deciding: got %d %s", got.status, got.body)
		}
	}
	await := func(what, status string) {
		t.Helper()
		var got []received
		comesAbout(t, what, func() bool { got = append(got, hook.take()...); return len(got) > 0 })
		if len(got) != 1 || !strings.Contains(string(got[0].body), `"status":"`+status+`"`) ||
			got[0].Header.Get("Webhook-Signature") == "" || strings.Contains(string(got[0].body), "jokes") {
			t.Errorf("%s: got %d requests, the first %s; want one signed of status %s", what, len(got), got[0].body, status)
		}
	}
	decideOne(doubtful, "reject")
	await("the app is told", "rejected")
	decideOne(doubtful+" Two.", "approve")
	reload(t, strings.Replace(config, "twice 0", "twice 0\nkeep 9d", 1))
	await("the app is told by the next configuration", "approved")
	for body, status := range map[string]int{
		`{}`: 400, `{"since":"2999-01-01T00:00:00Z"}`: 400, `{"since":"2026-01-01T00:00:00Z","webhook":2}`: 404,
		`{"since":"2026-01-01T00:00:00Z","webhook":-1}`: 404, `{"since":"yesterday"}`: 400,
	} {
		adminCall(t, http.MethodPost, "/moderation/reviews/replay", body, status)
	}
	again := adminCall(t, http.MethodPost, "/moderation/reviews/replay", `{"since":"2026-01-01T00:00:00Z"}`, http.StatusOK)
	if string(again.body) != `{"events":2,"webhooks":1}`+"\n" {
		t.Errorf("a replay: got %s", again.body)
	}
	var repeated []received
	comesAbout(t, "the app is told once more", func() bool { repeated = append(repeated, hook.take()...); return len(repeated) >= 2 })
	if !strings.Contains(string(repeated[0].body), `"status":"rejected"`) || !strings.Contains(string(repeated[1].body), `"status":"approved"`) {
		t.Errorf("a replay: got %s and %s", repeated[0].body, repeated[1].body)
	}
	log := adminCall(t, http.MethodGet, "/moderation/audit?action=review.replay", "", http.StatusOK)
	if strings.Count(string(log.body), "\n") != 1 || !strings.Contains(string(log.body), `"events":"2"`) {
		t.Errorf("the audit log: got %s", log.body)
	}
	if got := series(t, "caddy_moderation_review_webhooks_total"); len(got) != 1 || !strings.Contains(got[0], "delivered") {
		t.Errorf("metrics: got %q, want delivered ones", got)
	}
}

// TestReviewsOfOperators exports and erases items as the command does.
func TestReviewsOfOperators(t *testing.T) {
	app := newBackend(t)
	load(t, withReviewer(reviewConfig(t, t.TempDir(), "of review reject\ntwice 0", app)))
	admin := func(method, path, body string) reply {
		return call(t, method, "http://"+adminAddr+"/moderation/reviews"+path, "", strings.NewReader(body),
			"Content-Type", "application/json")
	}
	for _, text := range []string{doubtful, doubtful + " You, too.", vile} {
		postComment(t, text, map[bool]string{true: "carol", false: "dan"}[text == doubtful])
	}
	page := listReviews(t, "")
	if len(page.Items) != 3 {
		t.Fatalf("got %d items, want 3", len(page.Items))
	}
	reviews(t, http.MethodPost, "/"+page.Items[0].ID+"/decision", reviewerKey, `{"action":"approve","categories":{"harassment":true}}`)
	reviews(t, http.MethodPost, "/"+page.Items[1].ID+"/decision", reviewerKey, `{"action":"reject"}`)
	reviews(t, http.MethodPost, "/"+page.Items[2].ID+"/decision", reviewerKey, `{"action":"reject","categories":{"violence":true,"hate":false}}`)
	if got := admin(http.MethodGet, "/export", ""); got.status != 200 || strings.Count(string(got.body), "\n") != 3 ||
		!strings.Contains(string(got.body), `"status":"approved"`) {
		t.Errorf("export: got %d %s, want three items", got.status, got.body)
	}
	want := `{"text":"Your jokes are stupid and so are you.","kind":"review","language":"en","labels":{"harassment":1,"hate":0,"self-harm":0,"sexual":0,"violence":0}}
{"text":"` + vile + `","kind":"reject","language":"en","labels":{"hate":0,"violence":1}}
`
	if got := admin(http.MethodGet, "/export?labelled=true", ""); string(got.body) != want {
		t.Errorf("labelled: got\n%s, want\n%s", got.body, want)
	}
	for name, test := range map[string]struct {
		body   string
		status int
		want   string
	}{
		"no condition": {`{}`, 400, "at least one condition"}, "a bad hash": {`{"text_sha256":"x"}`, 400, "text_sha256"},
		"a bad account": {`{"account":"!"}`, 400, "id"}, "an unknown member": {`{"writer":"x"}`, 400, "writer"},
		"nobody":  {`{"author":"nobody"}`, 200, `"deleted":0`},
		"counted": {`{"author":"carol","dry_run":true}`, 200, `"selected":1`},
		"by time": {`{"before":"2020-01-01T00:00:00Z","dry_run":true}`, 200, `"selected":0`},
		"all":     {`{"before":"2100-01-01T00:00:00Z","dry_run":true}`, 200, `"selected":3`},
	} {
		if got := admin(http.MethodPost, "/delete", test.body); got.status != test.status || !strings.Contains(string(got.body), test.want) {
			t.Errorf("%s: got %d %s, want %d with %q", name, got.status, got.body, test.status, test.want)
		}
	}
	if got := admin(http.MethodPost, "/delete", `{"author":"carol"}`); !strings.Contains(string(got.body), `"deleted":1`) {
		t.Errorf("erasing by author: got %d %s, want 1", got.status, got.body)
	}
	hash := review.TextHash([]review.Text{{Text: vile}})
	if got := admin(http.MethodPost, "/delete", `{"text_sha256":"`+hash+`"}`); !strings.Contains(string(got.body), `"deleted":1`) {
		t.Errorf("erasing by text: got %d %s, want 1", got.status, got.body)
	}
	if got := admin(http.MethodGet, "/export", ""); strings.Count(string(got.body), "\n") != 1 {
		t.Errorf("afterwards: got %s, want one item", got.body)
	}
}

// TestReviewQueueKeepsWhatItIsTold keeps rejected texts and samples, and names authors.
func TestReviewQueueKeepsWhatItIsTold(t *testing.T) {
	for name, test := range map[string]struct {
		options string
		want    int
	}{
		"rejected ones": {"of reject\nplain_authors", 1},
		"both":          {"of review reject\nplain_authors", 2},
		"all":           {"sample 100%\nplain_authors", 3},
	} {
		t.Run(name, func(t *testing.T) {
			app := newBackend(t)
			load(t, withReviewer(reviewConfig(t, t.TempDir(), test.options, app)))
			for _, text := range []string{doubtful, fine, vile} {
				postComment(t, text, "carol")
			}
			page := listReviews(t, "")
			if len(page.Items) != test.want {
				t.Errorf("got %d items, want %d", len(page.Items), test.want)
			}
			for _, i := range page.Items {
				if i.Author != "carol" {
					t.Errorf("the author: got %q, want carol", i.Author)
				}
				if sampled := test.want == 3; sampled != (i.Cause == review.Sampled) {
					t.Errorf("the cause: got %q", i.Cause)
				}
			}
		})
	}
}

// TestNobodyHidesFromReviewers guards against harm behind many harmless fields, and against posts that are never kept
// because they are too large in JSON, or come with a long host or path.
func TestNobodyHidesFromReviewers(t *testing.T) {
	app := newBackend(t)
	load(t, withReviewer(reviewConfig(t, t.TempDir(), "of review reject", app)))
	form := strings.Repeat("a=What+a+nice+garden&", 70) + "last=" + strings.ReplaceAll(vile, " ", "+")
	call(t, http.MethodPost, base+"/comments?"+strings.Repeat("x", 2000), "", strings.NewReader(form),
		"Content-Type", "application/x-www-form-urlencoded")
	call(t, http.MethodPost, base+"/comments", "", strings.NewReader(vile+strings.Repeat(" \x01\"", 60_000)),
		"Content-Type", "text/plain")
	items := listReviews(t, "").Items
	if len(items) != 2 {
		t.Fatalf("got %d items, want both", len(items))
	}
	if first := items[0].Texts[0]; first.Text != vile || items[0].LeftOut == 0 {
		t.Errorf("the first text: got %q, with %d left out; want the harmful one, with some left out", first.Text, items[0].LeftOut)
	}
	if first := items[1].Texts[0]; !strings.HasPrefix(first.Text, vile) || !first.Cut {
		t.Errorf("the long text: got %q, cut %t; want its beginning, cut", first.Text[:50], first.Cut)
	}
}

// TestAFloodIsTrimmed guards against a flood that fills the store until the next sweep, which may be an hour away.
func TestAFloodIsTrimmed(t *testing.T) {
	app := newBackend(t)
	load(t, withReviewer(reviewConfig(t, t.TempDir(), "max 40", app)))
	for range 100 {
		moderate(t, acmeKey, `{"content": "`+doubtful+`"}`)
	}
	comesAbout(t, "what is too much is erased", func() bool {
		var stats review.Stats
		reviews(t, http.MethodGet, "/stats", reviewerKey, "").decodeJSON(t, &stats)
		return stats.Items[review.Pending] <= 42
	})
}

// TestWithoutAReviewQueue guards against texts that are kept although nobody asked for it.
func TestWithoutAReviewQueue(t *testing.T) {
	app := newBackend(t)
	config := withReviewer(reviewConfig(t, t.TempDir(), "", app))
	config = strings.Replace(config, "		review {\n			\n		}\n", "", 1)
	load(t, config)
	postComment(t, doubtful, "carol")
	// The app answers below the path, too.
	if got := reviews(t, http.MethodGet, "/x/y", reviewerKey, ""); got.status != http.StatusOK || string(got.body) != "app" {
		t.Errorf("got %d %s, want the app's answer", got.status, got.body)
	}
	if kept := series(t, "caddy_moderation_review_items_total"); len(kept) != 0 {
		t.Errorf("metrics: got %q, want none", kept)
	}
}

// TestEncryptedReviewQueue reads what it has kept with the key, and says what is wrong without it.
func TestEncryptedReviewQueue(t *testing.T) {
	t.Setenv("REVIEW_KEY", strings.Repeat("0f", 32))
	app, dir := newBackend(t), t.TempDir()
	load(t, withReviewer(reviewConfig(t, dir, "key {env.REVIEW_KEY}", app)))
	postComment(t, doubtful, "carol")
	page := listReviews(t, "")
	if len(page.Items) != 1 || page.Items[0].Texts[0].Text != doubtful {
		t.Fatalf("got %+v, want the item", page.Items)
	}
	t.Setenv("OTHER_KEY", strings.Repeat("f0", 32))
	reload(t, withReviewer(reviewConfig(t, dir, "key {env.OTHER_KEY} {env.REVIEW_KEY}", app)))
	if page := listReviews(t, ""); len(page.Items) != 1 || page.Items[0].Texts[0].Text != doubtful {
		t.Errorf("with a former key: got %+v, want the item", page.Items)
	}
	for options, want := range map[string]string{
		"key {env.OTHER_KEY} plain": "must be a placeholder", "key {env.OTHER_KEY} {env.OTHER_KEY}": "key 2 is the same",
		"key": "at least 1 argument", `key {env.OTHER_KEY} ""`: "none that is empty",
	} {
		config := withReviewer(reviewConfig(t, dir, options, app))
		adapted, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(config), map[string]any{"filename": "Caddyfile"})
		if err == nil {
			var whole caddy.Config
			if err = json.Unmarshal(adapted, &whole); err == nil {
				err = caddy.Validate(&whole)
			}
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "f0f0") {
			t.Errorf("%s: got the error %v, want one that says %q", options, err, want)
		}
	}
	reload(t, withReviewer(reviewConfig(t, dir, "", app)))
	got := reviews(t, http.MethodGet, "/"+page.Items[0].ID, reviewerKey, "")
	if got.status != http.StatusInternalServerError || !strings.Contains(string(got.body), "another key") {
		t.Errorf("without the key: got %d %s, want 500 that says so", got.status, got.body)
	}
	// The post goes on although it cannot be kept.
	if got := postComment(t, doubtful, "carol"); got.status != http.StatusOK {
		t.Errorf("a post that cannot be kept: got %d, want 200", got.status)
	}
	began := time.Now()
	postComment(t, fine, "carol")
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("a post took %s", took)
	}
}

// events reads a stream of events in the background until the test ends; the channel is closed when the stream ends.
func eventsOf(t *testing.T, key, lastID string) <-chan string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/v1/reviews/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Accept", "text/event-stream")
	if lastID != "" {
		r.Header.Set("Last-Event-ID", lastID)
	}
	answer, err := new(http.Transport).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = answer.Body.Close() })
	if answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("got %d %s", answer.StatusCode, answer.Header.Get("Content-Type"))
	}
	lines := make(chan string, 100)
	begun := make(chan struct{})
	go func() {
		defer close(lines)
		scanner := bufio.NewScanner(answer.Body)
		for scanner.Scan() {
			if strings.HasPrefix(scanner.Text(), "retry: ") {
				close(begun)
			} else if data, ok := strings.CutPrefix(scanner.Text(), "data: "); ok {
				lines <- data
			}
		}
	}()
	<-begun
	return lines
}

// TestReviewStream guards against decisions that a client is told late, twice or not at all, over a reload, too.
func TestReviewStream(t *testing.T) {
	app := newBackend(t)
	config := withReviewer(reviewConfig(t, t.TempDir(), "twice 0", app))
	load(t, config)
	for n := range 4 {
		postComment(t, strings.Repeat("So ", n)+doubtful, "carol")
	}
	items := listReviews(t, "").Items
	if len(items) != 4 {
		t.Fatalf("got %d items", len(items))
	}
	decide := func(n int) {
		t.Helper()
		got := reviews(t, http.MethodPost, "/"+items[n].ID+"/decision", reviewerKey, `{"action":"approve","reviewer":"ann"}`)
		if got.status != http.StatusOK {
			t.Fatalf("got %d %s", got.status, got.body)
		}
	}
	next := func(lines <-chan string) (e review.Event) {
		t.Helper()
		select {
		case line, ok := <-lines:
			if err := json.Unmarshal([]byte(line), &e); err != nil || !ok {
				t.Fatalf("got %q, %v", line, err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("no event")
		}
		return e
	}
	decide(0) // before anybody listens
	time.Sleep(2 * time.Millisecond)
	lines, others := eventsOf(t, reviewerKey, ""), eventsOf(t, strangerKey, "")
	decide(1)
	first := next(lines)
	if first.Item != items[1].ID || first.Status != review.Approved || strings.Contains(first.RequestID, "jokes") {
		t.Errorf("got %+v", first)
	}
	decide(2)
	second := next(lines)
	if second.Item != items[2].ID {
		t.Errorf("got %+v", second)
	}
	// A reload ends the stream; what is decided meanwhile is told by the next one.
	reload(t, strings.Replace(config, "twice 0", "twice 0\n			keep 40d", 1))
	for range lines {
		t.Error("an event was told twice")
	}
	for range others {
		t.Error("another account was told of a decision")
	}
	decide(3)
	again := eventsOf(t, reviewerKey, first.ID)
	for _, want := range []string{items[2].ID, items[3].ID} {
		if got := next(again); got.Item != want {
			t.Errorf("got the event of %s, want %s", got.Item, want)
		}
	}
	select {
	case line := <-again:
		t.Errorf("got once more %s", line)
	case <-time.After(2500 * time.Millisecond): // two looks at the queue
	}
	// Another account finds room when one has all that it may.
	for range 15 {
		eventsOf(t, reviewerKey, "")
	}
	if got := call(t, http.MethodGet, base+"/v1/reviews/events", reviewerKey, nil, "Accept", "text/event-stream"); got.status != 429 {
		t.Errorf("one stream too many: got %d", got.status)
	}
	eventsOf(t, strangerKey, "")
	wrong := call(t, http.MethodGet, base+"/v1/reviews/events?after=x", reviewerKey, nil, "Accept", "text/event-stream")
	if wrong.status != http.StatusBadRequest {
		t.Errorf("an id that is none: got %d %s", wrong.status, wrong.body)
	}
	if got := call(t, http.MethodGet, base+"/v1/reviews/events", acmeKey, nil, "Accept", "text/event-stream"); got.status != 403 {
		t.Errorf("a key without the scope: got %d", got.status)
	}
}

// TestCorrectionsAreReviewed guards against a correction that no person sees, that is kept although nobody asked for
// it, or that is changed by what a reviewer decides.
func TestCorrectionsAreReviewed(t *testing.T) {
	app := newBackend(t)
	correct := func(text, context string) {
		t.Helper()
		got := call(t, http.MethodPost, base+"/v1alpha1/comments:suggestscore", reviewerKey, strings.NewReader(
			`{"comment":{"text":"`+text+`"},`+context+`"attributeScores":{"TOXICITY":{"summaryScore":{"value":0.25}},`+
				`"INSULT":{"summaryScore":{"value":1}}}}`), "Content-Type", "application/json")
		if got.status != http.StatusOK {
			t.Fatalf("got %d %s", got.status, got.body)
		}
	}
	load(t, withReviewer(reviewConfig(t, t.TempDir(), "of review", app)))
	correct("What a fine day.", "")
	if items := listReviews(t, "").Items; len(items) != 0 {
		t.Errorf("got %d items of corrections, which nobody wants", len(items))
	}
	load(t, withReviewer(reviewConfig(t, t.TempDir(), "of correction\ntwice 0", app)))
	client.CloseIdleConnections()
	postComment(t, doubtful, "carol") // of review, which is not wanted now
	var entries []string
	for n := range 12 {
		entries = append(entries, `{"text":"before `+strings.Repeat("x", n)+`"}`)
	}
	correct("What a fine day.", `"context":{"entries":[`+strings.Join(entries, ",")+`]},`)
	correct("Nothing before.", `"context":{"articleAndParentComment":{"article":{"text":"news"}}},`)
	items := listReviews(t, "").Items
	if len(items) != 2 {
		t.Fatalf("got %d items, want 2", len(items))
	}
	first := items[0]
	if first.Cause != review.Corrected || first.Texts[0].Text != "What a fine day." || first.Recommendation != "approve" ||
		first.Suggested["TOXICITY"] != 0.25 || first.Suggested["INSULT"] != 1 || len(first.Suggested) != 2 ||
		len(first.Context) != 10 || first.Context[0] != "before xx" || len(items[1].Context) != 0 {
		t.Errorf("got %+v", first)
	}
	reviews(t, http.MethodPost, "/"+first.ID+"/decision", reviewerKey, `{"action":"reject"}`)
	stored := string(adminCall(t, http.MethodGet, "/moderation/feedback/export?account=acme", "", http.StatusOK).body)
	if strings.Count(stored, "\n") != 2 || !strings.Contains(stored, `"value":0.25`) {
		t.Errorf("got the corrections %s", stored)
	}
}
