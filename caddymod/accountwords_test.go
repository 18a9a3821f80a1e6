// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/quota"
)

// wordsVerdict is what a test reads of a moderation result.
type wordsVerdict struct {
	Content string
	Result  struct {
		Flagged        bool
		Recommendation string
		Confidence     float64
		Categories     map[string]struct {
			Flagged     bool
			Probability float64
			Spans       []struct{ Begin, End int }
		}
		Blocked       []struct{ Begin, End int }
		OtherLanguage bool `json:"other_language"`
	}
}

// wordsVerdictOf moderates a text.
func wordsVerdictOf(t *testing.T, key, content string) (v wordsVerdict) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"content": content, "explain": true})
	if err != nil {
		t.Fatal(err)
	}
	got := moderate(t, key, string(body))
	if got.status != http.StatusOK {
		t.Fatalf("%q: got %d %s", content, got.status, got.body)
	}
	got.decodeJSON(t, &v)
	if v.Content != content {
		t.Errorf("%q: got the content %q", content, v.Content)
	}
	return v
}

// TestAccountWords guards against words of an account that do not count for its texts, count for others', or shift the
// places that an explanation names.
func TestAccountWords(t *testing.T) {
	declaredKey := "mod_sk_declared89abcdefghijklmnopqrstuv"
	load(t, siteConfig(t.TempDir(), `account declared {
		tier unlimited
		block "buy followers" viagra
		allow scunthorpe fuck
		languages en
		other_language reject
		key `+hashOf(declaredKey)+`
	}
	demo off`, "moderation_api"))
	stored := newKey(t, quota.Account{ID: "stored", Tier: "unlimited", Overrides: quota.Overrides{
		Block: []string{"buy followers", "viagra"}, Allow: []string{"scunthorpe", "fuck"}, Languages: []string{"en"},
		OtherLanguage: "reject",
	}})
	// What no operator could set, but a store may hold, must not make texts fail.
	odd := newKey(t, quota.Account{ID: "odd", Tier: "unlimited", Overrides: quota.Overrides{Block: []string{"***", "viagra"}}})
	for name, key := range map[string]string{"declared": declaredKey, "stored": stored} {
		v := wordsVerdictOf(t, key, "Grüße! Buy  FOLLOWERS here, or v1agra.")
		if !v.Result.Flagged || v.Result.Recommendation != "reject" || v.Result.Confidence != 1 ||
			fmt.Sprint(v.Result.Blocked) != "[{7 21} {31 37}]" {
			t.Errorf("%s: blocked words: got %+v", name, v.Result)
		}
		if v := wordsVerdictOf(t, key, "The followers buy class tickets."); v.Result.Flagged || v.Result.Blocked != nil {
			t.Errorf("%s: no blocked words: got %+v", name, v.Result)
		}
		v = wordsVerdictOf(t, key, "Fuck, what a goal! What a f.u.c.k match!")
		if v.Result.Recommendation != "approve" {
			t.Errorf("%s: allowed words: got %+v", name, v.Result)
		}
		// The places are those in the content as it was sent.
		const text = "Fuck: you are a stupid worthless idiot."
		v = wordsVerdictOf(t, key, text)
		harassment := v.Result.Categories["harassment"]
		if !harassment.Flagged || len(harassment.Spans) == 0 {
			t.Fatalf("%s: got %+v", name, v.Result)
		}
		for _, span := range harassment.Spans {
			if part := text[span.Begin:span.End]; strings.TrimSpace(part) != part || strings.Contains(part, "Fuck") {
				t.Errorf("%s: a span at %q", name, part)
			}
		}
		v = wordsVerdictOf(t, key, "Dieser Text ist ganz und gar auf Deutsch geschrieben und völlig harmlos.")
		if v.Result.Flagged || v.Result.Recommendation != "reject" || !v.Result.OtherLanguage {
			t.Errorf("%s: another language: got %+v", name, v.Result)
		}
		batch := call(t, http.MethodPost, base+"/v1/moderations", key,
			strings.NewReader(`{"input": ["A lovely day.", "Cheap viagra!"]}`), "Content-Type", "application/json")
		var answer struct{ Results []struct{ Flagged bool } }
		batch.decodeJSON(t, &answer)
		if fmt.Sprint(answer.Results) != "[{false} {true}]" {
			t.Errorf("%s: a batch: got %s", name, batch.body)
		}
		analyzed := call(t, http.MethodPost, base+"/v1alpha1/comments:analyze", key,
			strings.NewReader(`{"comment": {"text": "Fuck, what a goal!"}, "requestedAttributes": {"PROFANITY": {}}}`),
			"Content-Type", "application/json")
		var scores struct {
			AttributeScores map[string]struct{ SummaryScore struct{ Value float64 } }
		}
		analyzed.decodeJSON(t, &scores)
		if p := scores.AttributeScores["PROFANITY"].SummaryScore.Value; !(p < 0.5) {
			t.Errorf("%s: an allowed word has the score %v", name, p)
		}
	}
	if v := wordsVerdictOf(t, acmeKey, "Buy followers here, or v1agra."); v.Result.Blocked != nil {
		t.Errorf("another account: got %+v", v.Result)
	}
	if v := wordsVerdictOf(t, odd, "Cheap viagra!"); len(v.Result.Blocked) != 1 {
		t.Errorf("an account with an expression without a word: got %+v", v.Result)
	}
	// A change holds from the next request on.
	if _, err := services(t).Gate.ChangeOverrides(t.Context(), "stored", func(o *quota.Overrides) {
		o.Block, o.OtherLanguage = []string{"Grüße"}, ""
	}); err != nil {
		t.Fatal(err)
	}
	if v := wordsVerdictOf(t, stored, "Buy followers here, or v1agra."); v.Result.Blocked != nil {
		t.Errorf("after the change: got %+v", v.Result)
	}
	if v := wordsVerdictOf(t, stored, "Viele GRÜßE!"); fmt.Sprint(v.Result.Blocked) != "[{6 11}]" {
		t.Errorf("after the change: got %+v", v.Result)
	}
}

// TestDeskWords guards against a page that changes words before somebody wants it, loses what was typed with a mistake,
// or lets a member change what is not the account's.
func TestDeskWords(t *testing.T) {
	stayPut(t)
	load(t, guardConfig(t, "moderation_desk /desk {\noperator {http.request.header.X-User} alice\n"+
		"member {http.request.header.X-User} beta:carol acme:carol\n}\nmoderation_api"))
	visit(t, "alice", "/desk/accounts", url.Values{"id": {"beta"}, "tier": {"unlimited"}})
	const path = "/desk/accounts/beta/words"
	form := func() url.Values {
		return url.Values{
			"block": {"buy followers\r\n  viagra \r\n\r\nviagra"}, "allow": {"scunthorpe"}, "languages": {"en, pt-BR"},
			"other_language": {"review"},
		}
	}
	for field, bad := range map[string]string{
		"block": "good\n***", "allow": strings.Repeat("x", 101), "languages": "e", "other_language": "maybe",
	} {
		wrong := form()
		wrong.Set(field, bad)
		got := visit(t, "carol", path, wrong)
		at := strings.Index(string(got.body), `id="`+field+`"`)
		if got.status != http.StatusBadRequest || at < 0 {
			t.Fatalf("%s of %q: got %d %s", field, bad, got.status, got.body)
		}
		tag, _, _ := strings.Cut(string(got.body)[at:], ">")
		if !strings.Contains(tag, `aria-invalid="true"`) || strings.Count(string(got.body), "aria-invalid") != 1 {
			t.Errorf("%s of %q: the field is not named: %s", field, bad, got.body)
		}
		if field != "block" && !strings.Contains(string(got.body), "buy followers") {
			t.Errorf("%s of %q: what was typed is lost: %s", field, bad, got.body)
		}
	}
	many := form()
	many.Set("block", strings.Repeat("a b\nc\n", 20)+strings.Join(strings.Split(strings.Repeat("😀", 1001), ""), " \n"))
	if got := visit(t, "carol", path, many); got.status != http.StatusSeeOther {
		// The same line counts once.
		t.Errorf("many times the same: got %d %s", got.status, plain(got))
	}
	tried := form()
	tried.Set("try", "yes")
	says(t, "a try without a queue", visit(t, "carol", path, tried), "has no texts of this account")
	if got, err := services(t).Gate.Account(t.Context(), "beta"); err != nil || len(got.Overrides.Allow) != 1 ||
		got.Overrides.Block[0] != "a b" {
		t.Errorf("a try has changed something: %+v, %v", got.Overrides, err)
	}
	if got := visit(t, "carol", path, form()); got.status != http.StatusSeeOther {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	got, err := services(t).Gate.Account(t.Context(), "beta")
	if want := (quota.Overrides{
		Block: []string{"buy followers", "viagra"}, Allow: []string{"scunthorpe"}, Languages: []string{"en", "pt-BR"},
		OtherLanguage: "review",
	}); err != nil || fmt.Sprint(got.Overrides) != fmt.Sprint(want) {
		t.Errorf("got %+v, %v", got.Overrides, err)
	}
	page := visit(t, "carol", path, nil)
	if text := string(page.body); !strings.Contains(text, "\nbuy followers\nviagra</textarea>") ||
		!strings.Contains(text, `value="en pt-BR"`) || !strings.Contains(text, `value="review" selected`) {
		t.Errorf("got %s", page.body)
	}
	says(t, "the audit log", visit(t, "carol", "/desk/accounts/beta/audit", nil), "&#43;buy followers, &#43;viagra")
	verdict := visit(t, "carol", "/desk/accounts/beta/playground", url.Values{"content": {"Cheap v1agra!"}})
	says(t, "the playground", verdict, "reject", "blocked word")
	thresholds := url.Values{"threshold.hate": {"0.9"}, "threshold.sexual": {""}}
	if got := visit(t, "carol", "/desk/accounts/beta/thresholds", thresholds); got.status != http.StatusSeeOther {
		t.Errorf("a member's thresholds: got %d %s", got.status, got.body)
	}
	if got, err := services(t).Gate.Account(t.Context(), "beta"); err != nil || got.Overrides.Thresholds["hate"] != 0.9 ||
		len(got.Overrides.Thresholds) != 1 || len(got.Overrides.Block) != 2 {
		t.Errorf("got %+v, %v", got.Overrides, err)
	}
	bad := visit(t, "carol", "/desk/accounts/beta/thresholds", url.Values{"threshold.hate": {"2"}})
	if bad.status != http.StatusBadRequest || strings.Count(string(bad.body), "aria-invalid") != 1 {
		t.Errorf("a bad threshold: got %d %s", bad.status, bad.body)
	}
	if got := visit(t, "carol", "/desk/accounts/beta/settings", url.Values{"requests_per_month": {"0"}}); got.status != http.StatusForbidden {
		t.Errorf("a member's limits: got %d", got.status)
	}
	for _, path := range []string{"words", "thresholds"} {
		if got := visit(t, "carol", "/desk/accounts/acme/"+path, form()); got.status != http.StatusConflict {
			t.Errorf("%s of a declared account: got %d, want 409", path, got.status)
		}
		if got := visit(t, "carol", "/desk/accounts/small/"+path, form()); got.status != http.StatusNotFound {
			t.Errorf("%s of another account: got %d, want 404", path, got.status)
		}
	}
}

// TestDeskTriesWords guards against a forecast that is not what happens then.
func TestDeskTriesWords(t *testing.T) {
	stayPut(t)
	load(t, siteConfig(t.TempDir(), "demo off\nreview {\nof review reject\nsample 100%\n}", "moderation_desk /desk"+deskBlock+"moderation_api"))
	visit(t, "alice", "/desk/accounts", url.Values{"id": {"beta"}, "tier": {"unlimited"}})
	_, key := func() (string, string) {
		secret, k, err := services(t).Gate.CreateKey(t.Context(), quota.KeySpec{Account: "beta"})
		if err != nil {
			t.Fatal(err)
		}
		return k.ID, secret
	}()
	for _, content := range []string{"What a lovely day.", "Buy followers here.", "I will kill you, you worthless piece of shit."} {
		wordsVerdictOf(t, key, content)
	}
	wordsVerdictOf(t, acmeKey, "Buy followers there.")
	const path = "/desk/accounts/beta/words"
	page := visit(t, "alice", path, url.Values{"block": {"followers"}, "try": {"yes"}})
	says(t, "a blocked word", page, "that were tried: 3. Judged more strictly: 1; more mildly: 0.",
		"approve 2 66.7% 1 33.3%", "reject 1 33.3% 2 66.7%")
	page = visit(t, "alice", path, url.Values{"allow": {"kill\nworthless\nshit\npiece of shit"}, "try": {"yes"}})
	says(t, "allowed words", page, "that were tried: 3. Judged more strictly: 0; more mildly: 1.")
}
