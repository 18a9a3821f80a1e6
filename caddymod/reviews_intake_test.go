// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/review"
	"github.com/caddy-moderation/caddy-moderation/storage"
)

// posted sends a JSON body with the key of acme.
func posted(t *testing.T, path, body string) reply {
	t.Helper()
	return call(t, http.MethodPost, base+path, acmeKey, strings.NewReader(body), "Content-Type", "application/json")
}

// texts returns the texts of the waiting items, the oldest first, each with the names of its places.
func waitingTexts(t *testing.T) (texts []string) {
	t.Helper()
	for _, item := range listReviews(t, "?limit=100").Items {
		for _, text := range item.Texts {
			texts = append(texts, strings.TrimLeft(text.Name+" "+text.Text, " "))
		}
	}
	return texts
}

// TestReviewQueueOfOpenAI keeps those texts of a batch that have a cause, and tells them apart.
func TestReviewQueueOfOpenAI(t *testing.T) {
	load(t, withReviewer(reviewConfig(t, t.TempDir(), "of review reject\ntwice 0", newBackend(t))))
	quoted := func(texts ...string) string {
		encoded, _ := json.Marshal(map[string]any{"input": texts})
		return string(encoded)
	}
	var many, places []string
	for i := range 100 {
		many = append(many, doubtful)
		places = append(places, fmt.Sprintf("/input/%d %s", i, doubtful))
	}
	for name, test := range map[string]struct {
		body string
		want []string // texts of the items
	}{
		"one text":          {`{"input":"` + doubtful + `"}`, []string{doubtful}},
		"a list of one":     {quoted(doubtful), []string{doubtful}},
		"nothing to review": {quoted(fine, fine+" Two."), nil},
		"several": {quoted(fine, doubtful, vile, doubtful, fine),
			[]string{"/input/1 " + doubtful, "/input/2 " + vile, "/input/3 " + doubtful}},
		"parts": {`{"input":[{"type":"text","text":"Hello."},{"type":"text","text":"` + doubtful + `"}]}`,
			[]string{"Hello.\n" + doubtful}},
		"more than one write takes": {quoted(many...), places},
	} {
		got := posted(t, "/v1/moderations", test.body)
		if got.status != http.StatusOK {
			t.Fatalf("%s: got %d %s, want 200", name, got.status, got.body)
		}
		id := got.header.Get("X-Request-Id")
		if !strings.Contains(string(got.body), `"id":"modr-`+strings.TrimPrefix(id, "mod_")+`"`) {
			t.Errorf("%s: the answer %.60s is not that of %s", name, got.body, id)
		}
		items := listReviews(t, "?request_id="+id).Items
		var texts []string
		for _, item := range items {
			texts = append(texts, strings.TrimLeft(item.Texts[0].Name+" "+item.Texts[0].Text, " "))
			if item.Origin != review.API || item.Account != "acme" || item.RequestID != id || item.Language != "en" ||
				len(item.Flagged) == 0 && item.Cause == review.Rejected || string(item.Cause) != item.Recommendation ||
				item.Author != "" || len(item.Texts[0].Passages) == 0 {
				t.Errorf("%s: got the item %+v", name, item)
			}
		}
		slices.Sort(texts) // those of one moment have no order
		slices.Sort(test.want)
		if strings.Join(texts, "|") != strings.Join(test.want, "|") {
			t.Errorf("%s: got the items %q, want %q", name, texts, test.want)
		}
	}
}

// TestReviewQueueOfManyBlockedWords guards against a post that is too large to be kept because of the words that are
// marked in it: as many fields as are kept, each with as many blocked words as are marked.
func TestReviewQueueOfManyBlockedWords(t *testing.T) {
	config := reviewConfig(t, t.TempDir(), "of review reject\ntwice 0", newBackend(t))
	load(t, withReviewer(strings.Replace(config, "account acme\n", "account acme\n		block zorp\n", 1)))
	fields := map[string]string{}
	for n := range 64 {
		fields[fmt.Sprintf("field%02d", n)] = strings.Repeat("zorp ", 100)
	}
	body, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	got := send(t, "application/json", string(body))
	items := listReviews(t, "").Items
	if got.status != http.StatusUnprocessableEntity || len(items) != 1 || len(items[0].Texts) != 64 ||
		!items[0].Blocked || len(items[0].Texts[0].Passages) < 100 {
		t.Errorf("got %d and %d items, want 422 and one item", got.status, len(items))
	}
}

// TestReviewQueueOfPerspective keeps comments with what they answer, and never one that the client forbids to keep.
func TestReviewQueueOfPerspective(t *testing.T) {
	load(t, withReviewer(reviewConfig(t, t.TempDir(), "of review reject correction\ntwice 0", newBackend(t))))
	entries := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`{"text":" The post %d. "}`, i))
		}
		return strings.Join(all, ",")
	}
	for name, test := range map[string]struct {
		members string // after the comment and the attributes
		status  int
		kept    bool
		context []string
	}{
		"nothing more":             {"", 200, true, nil},
		"may be stored":            {`,"doNotStore":false`, 200, true, nil},
		"null":                     {`,"doNotStore":null`, 200, true, nil},
		"must not be stored":       {`,"doNotStore":true`, 200, false, nil},
		"in snake_case":            {`,"do_not_store":true,"context":{"entries":[{"text":"Before."}]}`, 200, false, nil},
		"a string":                 {`,"doNotStore":"true"`, 200, false, nil},
		"a number":                 {`,"doNotStore":1`, 200, false, nil},
		"yes and no":               {`,"doNotStore":true,"do_not_store":false`, 400, false, nil},
		"a context":                {`,"context":{"entries":[{"text":"Is this a good cake?"}]}`, 200, true, []string{"Is this a good cake?"}},
		"odd entries":              {`,"context":{"entries":[{"text":""},{"text":5},{},{"text":"\ud83d"},{"text":"Last."}]}`, 200, true, []string{"\uFFFD", "Last."}},
		"as many as are kept":      {`,"context":{"entries":[` + entries(10) + `]}`, 200, true, nil},
		"more than are kept":       {`,"context":{"entries":[` + entries(25) + `]}`, 200, true, nil},
		"an article and a comment": {`,"context":{"articleAndParentComment":{"article":{"text":"A."}}}`, 200, true, nil},
	} {
		got := posted(t, "/v1alpha1/comments:analyze",
			`{"comment":{"text":"`+doubtful+`"},"requestedAttributes":{"TOXICITY":{}}`+test.members+`}`)
		items := listReviews(t, "?request_id="+got.header.Get("X-Request-Id")).Items
		if got.status != test.status || len(items) > 1 || (len(items) == 1) != test.kept {
			t.Errorf("%s: got %d %s and the items %+v, want %d and an item: %t", name, got.status, got.body, items, test.status, test.kept)
		}
		if len(items) != 1 {
			continue
		}
		item := items[0]
		if item.Origin != review.API || item.Cause != review.Reviewed || item.Recommendation != "review" ||
			item.Account != "acme" || item.Texts[0].Text != doubtful || item.Language != "en" {
			t.Errorf("%s: got the item %+v", name, item)
		}
		want := test.context
		switch name {
		case "as many as are kept":
			want = strings.Split("The post 0.|The post 1.|The post 2.|The post 3.|The post 4.|The post 5.|The post 6.|The post 7.|The post 8.|The post 9.", "|")
		case "more than are kept":
			want = strings.Split("The post 15.|The post 16.|The post 17.|The post 18.|The post 19.|The post 20.|The post 21.|The post 22.|The post 23.|The post 24.", "|")
		}
		if strings.Join(item.Context, "|") != strings.Join(want, "|") {
			t.Errorf("%s: got the context %q, want %q", name, item.Context, want)
		}
	}
	got := posted(t, "/v1alpha1/comments:analyze", `{"comment":{"text":"`+fine+`"},"requestedAttributes":{"TOXICITY":{}}}`)
	if items := listReviews(t, "?request_id="+got.header.Get("X-Request-Id")).Items; len(items) != 0 {
		t.Errorf("a fine comment: got the items %+v, want none", items)
	}
}

// TestReviewQueueOfAnswers keeps what the app answers, once, and apart from what people post.
func TestReviewQueueOfAnswers(t *testing.T) {
	chat := func(text string) string {
		return `{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"` + text + `"},"finish_reason":"stop"}]}`
	}
	json, html := map[string]string{"Content-Type": "application/json"}, map[string]string{"Content-Type": "text/html"}
	for name, test := range map[string]struct {
		options string // of the queue
		guards  string
		header  map[string]string
		body    string
		status  int
		times   int // the app is asked
		want    string
		items   int
		cause   review.Cause
	}{
		"doubtful":            {"", "moderate_response {\naccount acme\n}", json, chat(doubtful), 200, 1, doubtful, 1, review.Reviewed},
		"rejected":            {"of reject", "moderate_response {\naccount acme\n}", json, chat(vile), 200, 1, vile, 1, review.Rejected},
		"a rejected page":     {"of reject", "moderate_response {\naccount acme\n}", html, "<p>" + vile + "</p>", 422, 1, vile, 1, review.Rejected},
		"in shadow mode":      {"of reject", "moderate_response {\naccount acme\nshadow\n}", html, "<p>" + vile + "</p>", 200, 1, vile, 1, review.Rejected},
		"not asked for":       {"", "moderate_response {\naccount acme\n}", html, "<p>" + vile + "</p>", 422, 1, "", 0, ""},
		"fine":                {"of review reject", "moderate_response {\naccount acme\n}", html, "<p>" + fine + "</p>", 200, 1, "", 0, ""},
		"the same to many":    {"", "moderate_response {\naccount acme\n}", json, chat(doubtful), 200, 3, doubtful, 1, review.Reviewed},
		"a sample":            {"sample 100%", "moderate_response {\naccount acme\n}", json, chat(fine), 200, 2, fine, 2, review.Sampled},
		"two guards":          {"", "moderate_response {\naccount acme\n}\nmoderate_response {\naccount acme\n}", json, chat(doubtful), 200, 1, doubtful, 1, review.Reviewed},
		"handled by the site": {"", "moderate_response {\naccount acme\non review {\nrespond held 202\n}\n}", json, chat(doubtful), 202, 1, doubtful, 1, review.Reviewed},
	} {
		t.Run(name, func(t *testing.T) {
			app := answers(t, test.header, 200, test.body)
			config := withReviewer(reviewConfig(t, t.TempDir(), test.options+"\ntwice 0", app))
			// What stands inside may rewrite the address.
			load(t, strings.Replace(config, "	"+app.proxy(), "	route /page {\n"+test.guards+"\nrewrite /page /secret\n"+app.proxy()+"\n}", 1))
			var got reply
			for range test.times {
				got = call(t, http.MethodGet, base+"/page", "", nil)
			}
			items := listReviews(t, "").Items
			if got.status != test.status || len(items) != test.items {
				t.Fatalf("got %d %s and the items %+v, want %d and %d items", got.status, got.body, items, test.status, test.items)
			}
			for _, item := range items {
				all := ""
				for _, text := range item.Texts {
					all += text.Text + "\n"
				}
				if item.Origin != review.Answer || item.Cause != test.cause || item.Account != "acme" || item.Site != "localhost" ||
					item.Path != "/page" || item.Author != "" || !strings.HasPrefix(item.RequestID, "mod_") || item.Language != "en" ||
					test.cause != review.Sampled && !strings.HasPrefix(all, test.want) ||
					!strings.Contains(all, test.want) {
					t.Errorf("got the item %+v, want %q", item, test.want)
				}
			}
		})
	}
}

// TestReviewEventsTellAnswersFromPosts guards against an app that removes a post because the answer to it was rejected:
// both have the same id.
func TestReviewEventsTellAnswersFromPosts(t *testing.T) {
	app := answers(t, map[string]string{"Content-Type": "text/plain"}, 200, doubtful+" It says.")
	config := withReviewer(reviewConfig(t, t.TempDir(), "twice 0", app))
	load(t, strings.Replace(config, "	moderate /comments", "	moderate_response /comments {\naccount acme\n}\n	moderate /comments", 1))
	postComment(t, doubtful, "carol")
	items := listReviews(t, "").Items
	if len(items) != 2 || items[0].Origin != review.Guard || items[1].Origin != review.Answer ||
		items[0].RequestID != items[1].RequestID || items[1].Author != "" || items[1].Path != "/comments" {
		t.Fatalf("got the items %+v, want the post and the answer", items)
	}
	for i, action := range []string{"approve", "reject"} {
		reviews(t, http.MethodPost, "/"+items[i].ID+"/decision", reviewerKey, `{"action":"`+action+`"}`)
	}
	var events struct{ Events []review.Event }
	reviews(t, http.MethodGet, "/events", reviewerKey, "").decodeJSON(t, &events)
	if len(events.Events) != 2 || events.Events[0].Origin != review.Guard || events.Events[1].Origin != review.Answer {
		t.Errorf("got the events %+v, want one of the post and one of the answer", events.Events)
	}
}

// TestReviewQueueOfStreams keeps what a stream says from its beginning, and the part that the verdict rests on where a
// reviewer would not find it.
func TestReviewQueueOfStreams(t *testing.T) {
	long := strings.Repeat("The bakery on the corner sells fresh bread. ", 200)
	events := map[string]string{"Content-Type": "text/event-stream"}
	plain := map[string]string{"Content-Type": "text/plain"}
	for name, test := range map[string]struct {
		options string
		header  map[string]string
		parts   []string
		want    []string // beginnings and ends of the texts, with "…" between them
		cause   review.Cause
	}{
		"events":     {"", events, []string{"The bakery", " is nice. ", "Go early! ", doubtful, " Bye", "."}, []string{"The bakery is nice. Go early! " + doubtful + " Bye."}, review.Reviewed},
		"rejected":   {"of reject", events, []string{"The bakery", " is nice. ", vile, " Never read."}, []string{"The bakery is nice. " + vile}, review.Rejected},
		"at once":    {"of reject", events, []string{vile}, []string{vile}, review.Rejected},
		"plain text": {"of reject", plain, []string{"Go early! ", vile + ".", " Never read."}, []string{"Go early! " + vile}, review.Rejected},
		"a sample":   {"sample 100%", events, []string{"The bakery", " is", " nice", "."}, []string{"The bakery is nice."}, review.Sampled},
		"fine":       {"", events, []string{"The bakery", " is nice."}, nil, ""},
		"a long one": {"of reject", events, []string{long, vile}, []string{"…" + vile, "The bakery…" + vile}, review.Rejected},
		"a very long one": {"of reject", events, []string{long, long, long, long, long, vile}, []string{"…" + vile, "The bakery…"},
			review.Rejected},
	} {
		t.Run(name, func(t *testing.T) {
			app := newStreaming(t, "Content-Type", test.header["Content-Type"])
			config := withReviewer(reviewConfig(t, t.TempDir(), test.options+"\ntwice 0", app.backend))
			load(t, strings.Replace(config, "	reverse_proxy", "	moderate_response / {\naccount acme\n}\n	reverse_proxy", 1))
			go func() {
				defer close(app.parts)
				for _, part := range test.parts {
					if test.header["Content-Type"] == "text/event-stream" {
						part = chunkOf(part)
					}
					select {
					case app.parts <- part:
					case <-app.left:
					}
				}
			}()
			if _, err := io.Copy(io.Discard, read(t, client).Body); err != nil {
				t.Fatal(err)
			}
			items := listReviews(t, "").Items
			if len(items) != min(len(test.want), 1) {
				t.Fatalf("got the items %+v, want %q", items, test.want)
			}
			for _, item := range items {
				if item.Origin != review.Answer || item.Cause != test.cause || item.Account != "acme" || len(item.Texts) != len(test.want) {
					t.Fatalf("got the item %+v, want the texts %q", item, test.want)
				}
				for i, want := range test.want {
					begin, end, shortened := strings.Cut(want, "…")
					text := item.Texts[i].Text
					if !strings.HasPrefix(text, begin) || !strings.HasSuffix(strings.TrimRight(text, ". "), strings.TrimRight(end, ". ")) ||
						!shortened && strings.TrimRight(text, ". ") != strings.TrimRight(want, ". ") || len(text) > 33<<10 {
						t.Errorf("text %d: got %q, want %q", i, text, want)
					}
				}
				if test.cause == review.Rejected && len(item.Texts[0].Passages) == 0 {
					t.Error("the first text has no passage")
				}
			}
		})
	}
}

// TestReviewMember lets a client say who wrote a text and what it answers.
func TestReviewMember(t *testing.T) {
	app := newBackend(t)
	config := withReviewer(reviewConfig(t, t.TempDir(), "twice 0", app))
	load(t, config)
	list := func(n int, text string) string {
		return "[" + strings.TrimSuffix(strings.Repeat(`"`+text+`",`, n), ",") + "]"
	}
	send := func(member string) reply {
		t.Helper()
		return moderate(t, acmeKey, `{"content":"`+doubtful+`","review":`+member+`}`)
	}
	odd := map[string]struct{ member, pointer, detail string }{
		"no object":          {`"ann"`, "/review", "review must be an object."},
		"null":               {`null`, "/review", "review must be an object."},
		"a list":             {`[]`, "/review", "review must be an object."},
		"a number as author": {`{"author":5}`, "/review/author", "author must be a string."},
		"a long author":      {`{"author":"` + strings.Repeat("é", 201) + `"}`, "/review/author", "author has 201 characters; at most 200 are allowed."},
		"a text as context":  {`{"context":"before"}`, "/review/context", "context must be an array of strings."},
		"a number in it":     {`{"context":["a",5]}`, "/review/context/1", "A text of the context must be a string."},
		"a long text in it":  {`{"context":["a","` + strings.Repeat("x", 10_001) + `"]}`, "/review/context/1", "A text of the context has 10001 characters; at most 10000 are allowed."},
		"too many texts":     {`{"context":` + list(11, "a") + `}`, "/review/context", "context has 11 entries; at most 10 are allowed."},
	}
	for name, test := range odd {
		var p struct {
			Code   string
			Errors []struct{ Pointer, Detail string }
		}
		got := send(test.member)
		got.decodeJSON(t, &p)
		if got.status != 400 || p.Code != "invalid_request" || len(p.Errors) != 1 || p.Errors[0].Pointer != test.pointer || p.Errors[0].Detail != test.detail {
			t.Errorf("%s: got %d %s, want 400 with %s: %s", name, got.status, got.body, test.pointer, test.detail)
		}
	}
	for name, body := range map[string]string{"a broken one": `{"content":"a","review":{"author":"a"`, "an author given twice": `{"content":"a","review":{"author":"a","author":"b"}}`} {
		if got := moderate(t, acmeKey, body); got.status != 400 || !strings.Contains(string(got.body), "malformed_json") {
			t.Errorf("%s: got %d %s, want 400 malformed_json", name, got.status, got.body)
		}
	}
	postComment(t, doubtful, "carol")
	author := listReviews(t, "").Items[0].Author
	for name, test := range map[string]struct {
		member  string
		author  string
		context string
	}{
		"nothing":                 {`{}`, "", ""},
		"unknown members":         {`{"thread":5,"author":"carol"}`, author, ""},
		"an author":               {`{"author":"carol"}`, author, ""},
		"a name in escapes":       {`{"author":"\u0063arol"}`, author, ""},
		"nobody":                  {`{"author":""}`, "", ""},
		"the longest author":      {`{"author":"` + strings.Repeat("é", 200) + `"}`, "?", ""},
		"another's hash":          {`{"author":"` + author + `"}`, "?", ""},
		"a context":               {`{"context":["Is it good?"," ","It\u0020is."]}`, "", "Is it good?|It is."},
		"the longest, in escapes": {`{"context":` + list(10, strings.Repeat(`\ud83d\ude00`, 10_000)) + `}`, "", "😀"},
	} {
		got := send(test.member)
		items := listReviews(t, "?request_id="+got.header.Get("X-Request-Id")).Items
		if got.status != 200 || len(items) != 1 {
			t.Fatalf("%s: got %d %.300s and %d items, want 200 and one", name, got.status, got.body, len(items))
		}
		item, context := items[0], strings.Join(items[0].Context, "|")
		if test.context == "😀" {
			context = context[:len("😀")]
		}
		if context != test.context || item.Author != test.author && test.author != "?" || test.author == "?" &&
			(!strings.HasPrefix(item.Author, review.AuthorPrefix) || item.Author == author) {
			t.Errorf("%s: got the author %q and the context %.100q, want %q and %q", name, item.Author, context, test.author, test.context)
		}
	}
	// Without a queue the member is one of those that are ignored.
	reload(t, strings.Replace(config, "		review {\n			twice 0\n		}\n", "", 1))
	for name, test := range odd {
		if got := send(test.member); got.status != 200 {
			t.Errorf("%s, without a queue: got %d %s, want 200", name, got.status, got.body)
		}
	}
}

// TestReviewStatsAreShared guards against a program that asks over and over, with an entry read for each item.
func TestReviewStatsAreShared(t *testing.T) {
	load(t, withReviewer(reviewConfig(t, t.TempDir(), "twice 0", newBackend(t))))
	waiting := func(key string) int {
		t.Helper()
		var stats review.Stats
		reviews(t, http.MethodGet, "/stats", key, "").decodeJSON(t, &stats)
		if len(stats.Items) != len(review.Statuses()) {
			t.Errorf("got %+v, want all statuses", stats)
		}
		return stats.Items[review.Pending]
	}
	moderate(t, acmeKey, `{"content":"`+doubtful+`"}`)
	if a, b := waiting(reviewerKey), waiting(strangerKey); a != 1 || b != 0 {
		t.Errorf("got %d of acme and %d of another account, want 1 and 0", a, b)
	}
	moderate(t, acmeKey, `{"content":"`+doubtful+` Two."}`)
	moderate(t, strangerKey, `{"content":"`+doubtful+` Three."}`)
	if a, b := waiting(reviewerKey), waiting(strangerKey); a != 1 || b != 0 {
		t.Errorf("at once: got %d and %d, want what is known", a, b)
	}
	comesAbout(t, "it is counted anew", func() bool { return waiting(reviewerKey) == 2 && waiting(strangerKey) == 1 })
}

// TestReviewsOfAFailingStore guards against posts and answers that a store holds up or stops, and against items that
// are lost without a word: what cannot be kept is logged and counted, and what was kept before stays.
func TestReviewsOfAFailingStore(t *testing.T) {
	app := answers(t, map[string]string{"Content-Type": "text/plain"}, 200, doubtful+" It says.")
	config := withReviewer(reviewConfig(t, t.TempDir(), "of review reject correction\ntwice 0", app))
	config = strings.Replace(config, "	moderate /comments", "	moderate_response /answers {\naccount acme\n}\n	moderate /comments", 1)
	load(t, strings.Replace(config, "storage badger", "storage waiting", 1))
	t.Cleanup(func() { disk.documents.Store(nil) })
	requests := []struct {
		name   string
		send   func(number int) reply
		status int
		items  int
	}{
		{"a post", func(n int) reply { return postComment(t, fmt.Sprint(doubtful, n), "carol") }, 200, 1},
		{"a rejected post", func(n int) reply { return postComment(t, fmt.Sprint(vile, n), "carol") }, 422, 1},
		{"a text", func(n int) reply { return moderate(t, acmeKey, fmt.Sprintf(`{"content":"%s %d"}`, doubtful, n)) }, 200, 1},
		{"a batch", func(n int) reply {
			return posted(t, "/v1/moderations", fmt.Sprintf(`{"input":["%[1]s %[2]d","%[1]s %[2]d","%[3]s"]}`, doubtful, n, fine))
		}, 200, 2},
		{"a comment", func(n int) reply {
			return posted(t, "/v1alpha1/comments:analyze", fmt.Sprintf(`{"comment":{"text":"%s %d"},"requestedAttributes":{"TOXICITY":{}}}`, doubtful, n))
		}, 200, 1},
		{"a correction", func(n int) reply {
			return posted(t, "/v1alpha1/comments:suggestscore", fmt.Sprintf(`{"comment":{"text":"%s %d"},"attributeScores":{"TOXICITY":{"summaryScore":{"value":0}}}}`, doubtful, n))
		}, 200, 1},
		{"an answer", func(n int) reply { return call(t, http.MethodGet, fmt.Sprint(base, "/answers?", n), "", nil) }, 200, 1},
	}
	counted := func(outcome string) (n int) {
		for _, line := range series(t, "caddy_moderation_review_items_total") {
			if strings.Contains(line, `outcome="`+outcome+`"`) {
				value, err := strconv.Atoi(line[strings.LastIndexByte(line, ' ')+1:])
				if err != nil {
					t.Fatal(err)
				}
				n += value
			}
		}
		return n
	}
	kept, failed, number := 0, 0, 0
	all := func(name string, fails bool) {
		t.Helper()
		for _, request := range requests {
			number++
			began := time.Now()
			if got := request.send(number); got.status != request.status {
				t.Errorf("%s, %s: got %d %s, want %d", name, request.name, got.status, got.body, request.status)
			}
			if took := time.Since(began); took > 8*time.Second {
				t.Errorf("%s, %s: it took %s", name, request.name, took)
			}
			switch {
			case fails:
				failed += request.items
			case request.name == "an answer" && kept >= 8: // it is known
			default:
				kept += request.items
			}
			if k, f := counted("kept"), counted("failed"); k != kept || f != failed {
				t.Fatalf("%s, %s: %d are counted as kept and %d as failed, want %d and %d", name, request.name, k, f, kept, failed)
			}
		}
	}
	all("a store that works", false)
	before := waitingTexts(t)
	full := func(context.Context) error { return fmt.Errorf("%w: the disk is full", storage.ErrUnavailable) }
	disk.documents.Store(&full)
	requests = requests[:len(requests)-1] // the answer is known
	all("a full disk", true)
	var tries atomic.Int64
	hangs := func(ctx context.Context) error { tries.Add(1); <-ctx.Done(); return ctx.Err() }
	disk.documents.Store(&hangs)
	requests = requests[3:4] // each takes as long as the patience
	all("a store that hangs", true)
	if tries.Load() != 1 {
		t.Errorf("a batch was tried %d times, want once", tries.Load())
	}
	disk.documents.Store(nil)
	if after := waitingTexts(t); strings.Join(after, "|") != strings.Join(before, "|") || len(after) < kept {
		t.Errorf("afterwards: got the items %q, want those from before, %q", after, before)
	}
	all("a store that works again", false)
	if after := waitingTexts(t); len(after) != len(before)+2 {
		t.Errorf("in the end: got %d texts, want %d and two more", len(after), len(before))
	}
}

// TestReviewItemsSayWhatHasDecided guards against items that are rejected for no reason that a reviewer could see.
func TestReviewItemsSayWhatHasDecided(t *testing.T) {
	config := withReviewer(reviewConfig(t, t.TempDir(), "of review reject\ntwice 0", newBackend(t)))
	config = strings.Replace(config, "author {http", "block \"buy followers\"\nthemes \"bicycle theft\"\nlanguages en\nother_language review\nauthor {http", 1)
	config = strings.Replace(config, "account acme {", "account acme {\nblock \"buy followers\"", 1)
	config = strings.Replace(config, "moderation_api", "moderation_api\nmoderation_desk /desk"+deskBlock, 1)
	load(t, config)
	postComment(t, "Buy followers here!", "ann")
	postComment(t, "I love to steal bicycles, and I stole one again today.", "ann")
	postComment(t, "Dieser Text ist ganz und gar auf Deutsch geschrieben und völlig harmlos.", "ann")
	posted(t, "/v1/moderate/text", `{"content": "You can buy followers there."}`)
	want := []string{
		"true [] false Buy followers", "false [bicycle theft] false", "false [] true", "true [] false buy followers",
	}
	var got []string
	items := listReviews(t, "").Items
	for i := range items {
		got = append(got, fmt.Sprintf("%v %v %v", items[i].Blocked, items[i].Themes, items[i].OtherLanguage))
		text := items[i].Texts[0]
		for _, passage := range text.Passages {
			if part := text.Text[passage.Begin:passage.End]; passage.Category == "blocked" {
				got[i] += " " + part
			}
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	for i, say := range []string{"Buy followers Blocked word here!", "theme: bicycle theft", "another language than expected"} {
		says(t, say, visit(t, "erin", "/desk/review/items/"+items[i].ID, nil), say)
	}
}
