// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package desk

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-moderation/caddy-moderation/engine"
	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/review"
)

// aDesk is a desk without an app: a request that gets past the checks of a route that it must not get past panics.
func aDesk() *Desk {
	const placeholder = "{http.request.header.X-User}"
	return &Desk{
		base:      "/desk",
		Operators: []People{{placeholder, []string{"alice"}}},
		Members:   []Members{{placeholder, map[string][]string{"acme": {"carol"}, "gone": {"carol"}}}},
		Reviewers: []People{{placeholder, []string{"erin"}}},
	}
}

// ask sends a request of a person to a desk.
func ask(
	t *testing.T, d *Desk, user, method, path string, headers ...map[string]string,
) (w *httptest.ResponseRecorder, passed bool) {
	t.Helper()
	r := httptest.NewRequest(method, "http://desk.example"+path, strings.NewReader("id=x"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for _, more := range headers {
		for name, value := range more {
			r.Header.Set(name, value)
		}
	}
	replacer := caddy.NewEmptyReplacer()
	replacer.Set("http.request.header.X-User", user)
	r = r.WithContext(context.WithValue(r.Context(), caddy.ReplacerCtxKey, replacer))
	w = httptest.NewRecorder()
	defer func() { passed = recover() != nil }()
	d.serve(w, r, strings.TrimPrefix(path, "/desk"))
	return w, false
}

// TestRoutesKeepAccountsApart goes through all routes: nobody gets past the check of a route without its role, and
// nobody at all to another account.
func TestRoutesKeepAccountsApart(t *testing.T) {
	t.Parallel()
	d := aDesk()
	for _, r := range routes() {
		name := r.method + " " + r.pattern
		ofAccount := strings.Contains(r.pattern, "{account}")
		if ofAccount != strings.HasPrefix(r.pattern, "/accounts/") || ofAccount && r.needs != member && r.needs != operator {
			t.Errorf("%s: a route of an account needs its member or an operator", name)
		}
		if strings.Contains(r.pattern, "{key}") && !ofAccount {
			t.Errorf("%s: a key is looked for in an account", name)
		}
		if r.needs == anyone && !strings.HasPrefix(r.pattern, "/assets/") && r.pattern != signInPath {
			t.Errorf("%s is open to anyone", name)
		}
		if (r.method == http.MethodPost) != (r.limit > 0) {
			t.Errorf("%s: got the limit %d", name, r.limit)
		}
		for _, user := range []string{"", "mallory", "erin", "carol"} {
			path := "/desk" + strings.NewReplacer("{account}", "beta", "{key}", "key_0123456789abcdef").Replace(r.pattern)
			allowed := r.needs == anyone || r.needs == somebody && (user == "erin" || user == "carol") ||
				r.needs == reviewer && user == "erin"
			if allowed {
				continue
			}
			w, passed := ask(t, d, user, r.method, path)
			want := http.StatusForbidden
			if r.needs == member && (user == "erin" || user == "carol") {
				want = http.StatusNotFound
			}
			if passed || w.Code != want {
				t.Errorf("%s as %q: got %d (passed the check: %v), want %d", name, user, w.Code, passed, want)
			}
		}
		// The other way round: those who may get past the check. Without an app, they panic.
		if strings.Contains(r.pattern, "{account}") && r.needs == member {
			for _, user := range []string{"alice", "carol"} {
				path := "/desk" + strings.NewReplacer("{account}", "acme", "{key}", "key_0123456789abcdef").Replace(r.pattern)
				if w, passed := ask(t, d, user, r.method, path); !passed {
					t.Errorf("%s as %q: got %d, want it to be served", name, user, w.Code)
				}
			}
		}
	}
}

// TestReviewersFindTheirQueueOnceItExists guards against a navigation that leads to a page that is not there.
func TestReviewersFindTheirQueueOnceItExists(t *testing.T) {
	t.Parallel()
	_, _, allowed := find(http.MethodPost, "/review")
	queue, _, _ := find(http.MethodGet, "/review")
	p := &page{call: &call{words: wordsFor(nil), person: person{reviewer: true}}}
	links := p.Navigation()
	if (queue != nil || allowed != nil) != slices.ContainsFunc(links, func(l link) bool { return l.URL == "/review" }) {
		t.Errorf("got the links %v, and the route %v", links, queue)
	}
}

// TestNobodyIsNotSomebody guards against a placeholder that yields nothing and a user that is nothing.
func TestNobodyIsNotSomebody(t *testing.T) {
	t.Parallel()
	d := &Desk{Operators: []People{{"{no.such}", []string{""}}}}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r = r.WithContext(context.WithValue(r.Context(), caddy.ReplacerCtxKey, caddy.NewEmptyReplacer()))
	if p := d.person(r); p.has(somebody, "") {
		t.Errorf("got %+v, want nobody", p)
	}
	if p := d.person(httptest.NewRequest(http.MethodGet, "/", nil)); p.has(somebody, "") {
		t.Errorf("without placeholders: got %+v, want nobody", p)
	}
}

// TestTextsAreComplete guards against a text that is missing in a language, or that nothing says.
func TestTextsAreComplete(t *testing.T) {
	t.Parallel()
	hole := regexp.MustCompile(`\{\d\}`)
	for key, all := range texts() {
		for i, text := range all {
			if strings.TrimSpace(text) == "" {
				t.Errorf("%s has no text in %s", key, languages[i])
			}
			got, want := sorted(hole.FindAllString(text, -1)), sorted(hole.FindAllString(all[0], -1))
			if !slices.Equal(got, want) {
				t.Errorf("%s in %s: got the places %v, want %v", key, languages[i], got, want)
			}
		}
	}
	used := map[string]bool{}
	// Keys that are put together from a value.
	for i := range engine.NumCategories {
		used["category."+engine.Category(i).String()] = true
	}
	for _, passage := range []string{review.BlockedPassage, review.ThemePassage} {
		used["category."+passage] = true
	}
	for _, status := range quota.Statuses() {
		used["status."+string(status)] = true
	}
	for _, state := range []string{"valid", "replaced", "expired", "revoked", "removed"} {
		used["state."+state] = true
	}
	for _, verdict := range []engine.Recommendation{engine.Approve, engine.Review, engine.Reject} {
		used["verdict."+string(verdict)] = true
	}
	for _, overlap := range overlaps {
		used["overlap."+overlap.Value] = true
	}
	literal := regexp.MustCompile(`"([a-z][a-z.-]+)"`)
	done := regexp.MustCompile(`c\.done\("([a-z]+)"`)
	for _, pattern := range []string{"*.go", "templates/*.html"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range literal.FindAllStringSubmatch(string(content), -1) {
				used[match[1]] = true
			}
			for _, match := range done.FindAllStringSubmatch(string(content), -1) {
				used["done."+match[1]] = true
			}
			for _, match := range regexp.MustCompile(`\.T "([^"]+)"`).FindAllStringSubmatch(string(content), -1) {
				if _, ok := texts()[match[1]]; !ok {
					t.Errorf("%s: there is no text %q", file, match[1])
				}
			}
		}
	}
	for key := range texts() {
		title, isTitle := strings.CutSuffix(key, ".title")
		if !used[key] && !(isTitle && used[title]) {
			t.Errorf("nothing says %s", key)
		}
	}
	for key := range used {
		_, known := texts()[key]
		// All pages about errors have a title, except where the error is shown beside the form.
		if strings.HasPrefix(key, "error.") && !strings.HasSuffix(key, ".html") && !known ||
			(strings.HasPrefix(key, "done.") || strings.HasPrefix(key, "status.")) && !strings.HasSuffix(key, ".") && !known {
			t.Errorf("there is no text %q", key)
		}
		if _, titled := texts()[key+".title"]; strings.HasPrefix(key, "error.") && known && !titled &&
			!slices.Contains([]string{"error.date", "error.blank", "error.long", "error.themes", "error.again", "error.back"}, key) {
			t.Errorf("the page about %s has no title", key)
		}
	}
}

func sorted(words []string) []string {
	slices.Sort(words)
	return words
}

// TestPartsLoseNothing guards against a marked text that is not the text, whatever overlaps.
func TestPartsLoseNothing(t *testing.T) {
	t.Parallel()
	const text = "héllo 😀 wörld\u2028end"
	var explanation engine.Explanation
	explanation[0] = engine.CategoryExplanation{
		Evidence: []engine.Evidence{{Span: engine.Span{Begin: 2, End: 7}, Weight: 1}},
		Passage:  engine.Span{Begin: 0, End: 14},
	}
	explanation[1] = engine.CategoryExplanation{
		Evidence: []engine.Evidence{{Span: engine.Span{Begin: 5, End: 99}, Weight: 1}},
	}
	result := engine.Result{Themes: []engine.ThemeResult{{Theme: "x", Matches: []engine.Span{{Begin: 6, End: 8}}}}}
	var whole strings.Builder
	both := false
	for _, p := range partsOf(text, &result, &explanation) {
		whole.WriteString(p.Text)
		both = both || len(p.Categories) == 1 && len(p.Themes) == 1
	}
	if whole.String() != text || !both {
		t.Errorf("got %q, and parts with a category and a theme: %v", whole.String(), both)
	}
}

// TestNumbersInLanguages guards against numbers that people read as others.
func TestNumbersInLanguages(t *testing.T) {
	t.Parallel()
	for tag, want := range map[string][3]string{
		"en": {"1,234,567", "12.3%", "-1,000"}, "de": {"1.234.567", "12,3\u00a0%", "-1.000"},
		"fr": {"1\u202f234\u202f567", "12,3\u00a0%", "-1\u202f000"},
	} {
		w := wordsFor([]string{tag})
		if got := [3]string{w.number(1234567), w.percent(0.1234), w.number(-1000)}; got != want {
			t.Errorf("%s: got %q, want %q", tag, got, want)
		}
	}
	if got := [2]string{wordsFor(nil).percent(0.9999), wordsFor(nil).percent(1)}; got != [2]string{">99.9%", "100.0%"} {
		t.Errorf("nearly certain and certain: got %q", got)
	}
	if got := wordsFor([]string{strings.Repeat("de,", 400)}); got.tag != "en" {
		t.Errorf("a very long Accept-Language: got %s", got.tag)
	}
}

// TestNoPostFromElsewhere goes through all routes: a form of another site, or of a page without an origin, is refused
// before anything is looked up, and no answer can be framed or read by another site.
func TestNoPostFromElsewhere(t *testing.T) {
	t.Parallel()
	d := aDesk()
	d.Reviewers[0].Users = append(d.Reviewers[0].Users, "alice")
	for _, r := range routes() {
		for _, headers := range []map[string]string{
			{"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": "https://evil.example"},
			{"Origin": "null"}, {"Origin": "http://desk.example:8080"}, {"Origin": "http://desk.example.evil.example"},
		} {
			path := "/desk" + strings.NewReplacer("{account}", "acme", "{key}", "key_0123456789abcdef", "{item}", "rev_x").
				Replace(r.pattern)
			w, passed := ask(t, d, "alice", r.method, path, headers)
			if r.method == http.MethodPost && (passed || w.Code != http.StatusForbidden) {
				t.Errorf("%s with %v: got %d (passed the check: %v), want 403", r.pattern, headers, w.Code, passed)
			}
			if policy := w.Header().Get("Content-Security-Policy"); !strings.Contains(policy, "frame-ancestors 'none'") ||
				w.Header().Get("Cross-Origin-Resource-Policy") != "same-origin" ||
				strings.Contains(policy, "unsafe") || len(w.Header().Values("Access-Control-Allow-Origin")) > 0 {
				t.Errorf("%s %s: got the header %v", r.method, r.pattern, w.Header())
			}
		}
	}
}
