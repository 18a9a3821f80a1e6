// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Texts that the classifier has no doubt about.
const (
	vile = "I will find you and kill you, you worthless piece of shit."
	fine = "The bakery on the corner has wonderful rye bread, go early."
)

// backend is an app behind the guard: it keeps what reaches it.
type backend struct {
	*httptest.Server
	mu       sync.Mutex
	requests []received
}

// received is a request as the app sees it.
type received struct {
	*http.Request
	body []byte
	err  error
}

// newBackend starts an app that answers "app". handle may do more.
func newBackend(t testing.TB, handle ...http.HandlerFunc) *backend {
	b := new(backend)
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(handle) > 0 {
			handle[0](w, r)
			return
		}
		body, err := io.ReadAll(r.Body)
		b.mu.Lock()
		b.requests = append(b.requests, received{r, body, err})
		b.mu.Unlock()
		_, _ = io.WriteString(w, "app")
	}))
	t.Cleanup(b.Close)
	return b
}

// take returns what has reached the app since the last time.
func (b *backend) take() []received {
	b.mu.Lock()
	defer b.mu.Unlock()
	taken := b.requests
	b.requests = nil
	return taken
}

// whole returns what has reached the app to its end. Of a large body that was refused in the middle the app may hear
// when the test has gone on.
func (b *backend) whole() []received {
	return slices.DeleteFunc(b.take(), func(r received) bool { return r.err != nil })
}

// proxy is the directive that leads to the app.
func (b *backend) proxy() string {
	return "reverse_proxy " + strings.TrimPrefix(b.URL, "http://")
}

// guardConfig is a configuration with a site in front of an app.
func guardConfig(t testing.TB, site string) string {
	return siteConfig(t.TempDir(), "demo off", site)
}

// send posts a body to the site.
func send(t testing.TB, contentType, body string, headers ...string) reply {
	t.Helper()
	if contentType != "" {
		headers = append(headers, "Content-Type", contentType)
	}
	return call(t, http.MethodPost, base+"/comments", "", strings.NewReader(body), headers...)
}

// refusal is the problem that a guard answers.
type refusal struct {
	Status     int
	Code       string
	Instance   string
	Detail     string
	Categories []string
	Fields     []struct {
		Name       string
		Categories []string
	}
}

func TestGuardRefusesAndPasses(t *testing.T) {
	app := newBackend(t)
	load(t, guardConfig(t, "moderate\n"+app.proxy()))
	form := "multipart/form-data; boundary=xyz"
	part := func(name, text string) string {
		return "--xyz\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + text + "\r\n"
	}
	for _, test := range []struct {
		name, contentType, body string
		field                   string // of the refusal; "-" when it passes
	}{
		{"JSON", "application/json", `{"author":{"name":"Ann"},"comment":"` + vile + `"}`, "/comment"},
		{"JSON in an array", "application/json", `[{"text":"hello"},{"text":"` + vile + `"}]`, "/1/text"},
		{"form", "application/x-www-form-urlencoded", "title=Hi&comment=" + strings.ReplaceAll(vile, " ", "+"), "comment"},
		{"multipart", form, part("title", "Hi") + part("comment", vile) + "--xyz--\r\n", "comment"},
		{"plain text", "text/plain", vile, ""},
		{"no type", "", `{"comment":"` + vile + `"}`, "/comment"},
		{"fine JSON", "application/json", `{"comment":"` + fine + `"}`, "-"},
		{"fine form", "application/x-www-form-urlencoded", "comment=" + strings.ReplaceAll(fine, " ", "+"), "-"},
		{"fine multipart", form, part("comment", fine) + "--xyz--\r\n", "-"},
		{"a picture", "image/png", "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + strings.Repeat("\x00\xff\x13", 1000), "-"},
		{"nothing", "application/json", "", "-"},
		{"broken JSON", "application/json", `{"comment": fine`, "-"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := send(t, test.contentType, test.body)
			arrived := app.take()
			if test.field == "-" {
				if got.status != http.StatusOK || string(got.body) != "app" || len(arrived) != 1 || string(arrived[0].body) != test.body {
					t.Fatalf("%d %s, the app saw %d", got.status, got.body, len(arrived))
				}
				return
			}
			var problem refusal
			got.decodeJSON(t, &problem)
			if got.status != http.StatusUnprocessableEntity || got.header.Get("Content-Type") != "application/problem+json" || len(arrived) != 0 {
				t.Fatalf("%d %s, the app saw %d", got.status, got.body, len(arrived))
			}
			if problem.Code != "content_rejected" || len(problem.Categories) == 0 || len(problem.Fields) == 0 || problem.Fields[0].Name != test.field ||
				!strings.HasPrefix(problem.Instance, "mod_") {
				t.Errorf("the refusal is %s, want content_rejected with categories, an id, and the field %s", got.body, test.field)
			}
			if bytes.Contains(got.body, []byte("worthless")) {
				t.Errorf("the refusal tells the text: %s", got.body)
			}
		})
	}
}

// TestRefusalsSayWhy guards against a refusal that gives a category as the reason, which was flagged beside the theme
// or the word that decided.
func TestRefusalsSayWhy(t *testing.T) {
	const flagged = "threshold violence 0.000001\nreject_level violence 0.999999\n"
	for _, test := range []struct{ name, options, text, want string }{
		{"a category", "", vile, "The text was judged as harassment and violence."},
		{"another language", "languages en\nother_language reject", "Morgen fahren wir mit den Kindern an den See, wenn das Wetter hält.", "The text is in a language that is not expected here."},
		{"a word in another language", "languages en\nother_language reject\nblock Kindern", "Morgen fahren wir mit den Kindern an den See, wenn das Wetter hält.", "The text holds words that are not allowed here."},
		{"a word", "block zebra", "A zebra walks.", "The text holds words that are not allowed here."},
		{"a word beside a category", flagged + "block zebra", "A zebra walks.", "The text holds words that are not allowed here."},
		{"a theme beside a category", flagged + "themes fireworks", "Fireworks are on sale today.", "The text is about something that is not allowed here."},
		{"a category beside a word", "block worthless", vile, "The text was judged as harassment and violence."},
	} {
		t.Run(test.name, func(t *testing.T) {
			load(t, guardConfig(t, "moderate {\n"+test.options+"\n}\nrespond x"))
			var problem refusal
			got := send(t, "text/plain", test.text)
			got.decodeJSON(t, &problem)
			if problem.Detail != test.want {
				t.Errorf("the refusal is %s, want the detail %q", got.body, test.want)
			}
		})
	}
}

// TestLogOfWordLists guards against a line about a list of words that names another module than the guard.
func TestLogOfWordLists(t *testing.T) {
	file, list := filepath.Join(t.TempDir(), "caddy.log"), filepath.Join(t.TempDir(), "words.txt")
	if err := os.WriteFile(list, []byte("zebra\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	load(t, strings.Replace(guardConfig(t, "moderate {\nblock_file "+list+"\n}\nrespond x"), "output discard", "output file "+file, 1))
	if err := os.Remove(list); err != nil {
		t.Fatal(err)
	}
	const message = "a word list cannot be read"
	var line string
	for end := time.Now().Add(20 * time.Second); line == "" && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		log, _ := os.ReadFile(file)
		for one := range strings.Lines(string(log)) {
			if strings.Contains(one, message) {
				line = one
			}
		}
	}
	if !strings.Contains(line, `"logger":"http.handlers.moderate"`) || !strings.Contains(line, list) {
		t.Errorf("the line is %q, want one of http.handlers.moderate that names %s", line, list)
	}
}

func TestGuardTellsTheApp(t *testing.T) {
	app := newBackend(t)
	load(t, guardConfig(t, "moderate\n"+app.proxy()))
	send(t, "application/json", `{"comment":"`+fine+`"}`, "X-Moderation-Recommendation", "approve-me", "X_Moderation_Id", "forged", "X-Moderation-Extra", "forged")
	arrived := app.take()
	if len(arrived) != 1 {
		t.Fatalf("the app saw %d requests", len(arrived))
	}
	header := arrived[0].Header
	for name, want := range map[string]string{
		"X-Moderation-Status": "judged", "X-Moderation-Flagged": "false", "X-Moderation-Recommendation": "approve", "X-Moderation-Extra": "", "X_moderation_id": "",
	} {
		if got := header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if !strings.HasPrefix(header.Get("X-Moderation-Id"), "mod_") || !strings.HasPrefix(header.Get("X-Moderation-Scores"), "hate=0.") {
		t.Errorf("the app sees the header %v, want an id and scores", header)
	}
	// Nobody may claim a verdict on what is not moderated either.
	call(t, http.MethodGet, base+"/", "", nil, "X-Moderation-Flagged", "false")
	arrived = app.take()
	if got := arrived[0].Header.Get("X-Moderation-Flagged"); got != "false" && got != "" || arrived[0].Header.Get("X-Moderation-Status") != "nothing" {
		t.Errorf("of a request without text the app sees %v, want the status nothing", arrived[0].Header)
	}
}

func TestGuardReactions(t *testing.T) {
	app, queue := newBackend(t), newBackend(t)
	load(t, guardConfig(t, `
	moderate {
		threshold harassment 0.5
		reject_level violence 0.95
		on reject {
			header X-Reason {http.moderation.categories}
			respond "no: {http.moderation.field}" 403
		}
		on approve {
			header X-Fine yes
		}
		block "purple elephant"
		on review {
			`+queue.proxy()+`
		}
	}
	`+app.proxy()))
	got := send(t, "application/json", `{"comment":"`+vile+`"}`)
	if got.status != http.StatusForbidden || string(got.body) != "no: /comment" || got.header.Get("X-Reason") == "" {
		t.Errorf("got %d %s %v, want 403 \"no: /comment\" with X-Reason", got.status, got.body, got.header)
	}
	got = send(t, "application/json", `{"comment":"I saw a Purple  ELEPHANT!"}`)
	if got.status != http.StatusForbidden || string(got.body) != "no: /comment" {
		t.Errorf("got %d %s, want 403 \"no: /comment\"", got.status, got.body)
	}
	got = send(t, "application/json", `{"comment":"`+fine+`"}`)
	if got.status != http.StatusOK || got.header.Get("X-Fine") != "yes" || len(app.take()) != 1 {
		t.Errorf("got %d %s %v, want 200 from the app, with X-Fine", got.status, got.body, got.header)
	}
	if n := len(queue.take()); n != 0 {
		t.Errorf("the queue saw %d", n)
	}
}

func TestGuardShadow(t *testing.T) {
	app := newBackend(t)
	load(t, guardConfig(t, "moderate {\nshadow\n}\nheader X-Would {http.moderation.recommendation}\n"+app.proxy()))
	got := send(t, "application/json", `{"comment":"`+vile+`"}`)
	arrived := app.take()
	if got.status != http.StatusOK || len(arrived) != 1 || arrived[0].Header.Get("X-Moderation-Flagged") != "" {
		t.Errorf("got %d %s, want 200, and no verdict in the app's header", got.status, got.body)
	}
}

func TestGuardUsesTheSitesErrorPage(t *testing.T) {
	app := newBackend(t)
	load(t, guardConfig(t, "moderate\n"+app.proxy()+`
	handle_errors 422 {
		respond "sorry: {http.moderation.categories}" {http.error.status_code}
	}`))
	got := send(t, "application/json", `{"comment":"`+vile+`"}`)
	if got.status != http.StatusUnprocessableEntity || !strings.HasPrefix(string(got.body), "sorry: ") || len(got.body) < 12 {
		t.Errorf("got %d %s, want 422 and the site's page", got.status, got.body)
	}
}

func TestGuardRefusesWithAPage(t *testing.T) {
	app := newBackend(t)
	// Error routes that do not answer this status leave the answer to the guard.
	load(t, guardConfig(t, "moderate\n"+app.proxy()+"\nhandle_errors 404 {\nrespond other\n}"))
	got := send(t, "application/x-www-form-urlencoded", "comment="+strings.ReplaceAll(vile, " ", "+"),
		"Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8")
	if got.status != http.StatusUnprocessableEntity || !strings.Contains(string(got.body), "Your message was not accepted") ||
		got.header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("got %d %s %v, want 422 and the guard's page", got.status, got.body, got.header)
	}
	// In the visitor's language, with the direction in which it is written.
	for accept, want := range map[string]string{
		"de-AT,de;q=0.9,en;q=0.5": `<html lang="de" dir="ltr">`, "ar": `<html lang="ar" dir="rtl">`, "fi": `<html lang="en" dir="ltr">`,
	} {
		got := send(t, "application/x-www-form-urlencoded", "comment="+strings.ReplaceAll(vile, " ", "+"),
			"Accept", "text/html", "Accept-Language", accept)
		if !strings.Contains(string(got.body), want) || strings.Contains(string(got.body), "{}") ||
			got.header.Get("Content-Language") != want[12:14] || got.header.Get("Vary") != "Accept-Language" {
			t.Errorf("Accept-Language %s: got %v %s, want a page with %s", accept, got.header, got.body, want)
		}
	}
}

func TestGuardSelectsTexts(t *testing.T) {
	app := newBackend(t)
	load(t, guardConfig(t, `
	moderate {
		json /comment /posts/*/text
		form comment
		query q
		header X-Subject
	}
	`+app.proxy()))
	for _, test := range []struct {
		name, contentType, body, query, subject string
		refused                                 bool
	}{
		{"a member that is named", "application/json", `{"comment":"` + vile + `"}`, "", "", true},
		{"in another case", "application/json", `{"Comment":"` + vile + `"}`, "", "", true},
		{"an element", "application/json", `{"posts":[{"text":"x"},{"text":"` + vile + `"}]}`, "", "", true},
		{"a member that is not", "application/json", `{"secret":"` + vile + `"}`, "", "", false},
		{"a field that is not", "application/x-www-form-urlencoded", "other=" + strings.ReplaceAll(vile, " ", "+"), "", "", false},
		{"a field that is", "application/x-www-form-urlencoded", "comment=" + strings.ReplaceAll(vile, " ", "+"), "", "", true},
		{"a parameter", "", "", "q=" + strings.ReplaceAll(vile, " ", "+"), "", true},
		{"a header field", "", "", "", vile, true},
		{"another kind of body", "text/plain", vile, "", "", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			headers := []string{"X-Subject", test.subject}
			if test.contentType != "" {
				headers = append(headers, "Content-Type", test.contentType)
			}
			got := call(t, http.MethodPost, base+"/?"+test.query, "", strings.NewReader(test.body), headers...)
			if refused := got.status == http.StatusUnprocessableEntity; refused != test.refused ||
				refused != (len(app.take()) == 0) {
				t.Errorf("got %d %s, want refused %v", got.status, got.body, test.refused)
			}
		})
	}
}

func TestGuardLimits(t *testing.T) {
	app := newBackend(t)
	load(t, guardConfig(t, `
	handle /reject {
		moderate {
			max_body 1KiB
			max_text 500
		}
		`+app.proxy()+`
	}
	handle /closed {
		moderate {
			max_body 1KiB reject
		}
		`+app.proxy()+`
	}
	handle /pass {
		moderate {
			max_body 1KiB pass
			max_text 500 pass
		}
		`+app.proxy()+`
	}
	handle /suffix {
		moderate {
			max_text 500 suffix
		}
		`+app.proxy()+`
	}
	handle /both {
		moderate {
			max_text 500 both
		}
		`+app.proxy()+`
	}
	handle /flow {
		moderate {
			max_body 1KiB
		}
		`+app.proxy()+`
	}
	handle /prefix {
		moderate {
			max_body 1KiB prefix
			max_text 500 prefix
		}
		`+app.proxy()+`
	}`))
	pad := func(n int) string { return strings.Repeat("bread ", n/6+1)[:n] }
	for _, test := range []struct {
		name, path, body string
		status           int
		seen             string
	}{
		{"reject a long text in a large body", "/reject", pad(2000), 413, ""},
		{"reject a large body", "/closed", pad(2000), 413, ""},
		{"let a large body flow", "/flow", pad(200_000), 200, "partial"},
		{"vile end of a large body", "/flow", pad(200_000) + vile, 422, ""},
		{"vile middle of a large body", "/flow", pad(200_000) + "\n" + vile + "\n" + pad(200_000), 422, ""},
		{"suffix of a long text", "/suffix", vile + "\n" + pad(600), 200, "partial"},
		{"vile suffix of a long text", "/suffix", pad(600) + "\n" + vile, 422, ""},
		{"both ends of a long text", "/both", pad(1000) + vile + pad(1000), 200, "partial"},
		{"vile beginning of a long text, of which both ends are judged", "/both", vile + "\n" + pad(1000), 422, ""},
		{"vile end of a long text, of which both ends are judged", "/both", pad(1000) + "\n" + vile, 422, ""},
		{"reject a long text", "/reject", pad(600), 413, ""},
		{"within", "/reject", pad(400), 200, "judged"},
		{"pass a large body", "/pass", vile + pad(2000), 200, "skipped"},
		{"pass a long text", "/pass", vile + pad(600), 200, "skipped"},
		{"prefix of a large body", "/prefix", pad(300) + pad(2000), 200, "partial"},
		{"vile prefix of a large body", "/prefix", vile + " " + pad(2000), 422, ""},
		{"vile prefix of a long text", "/prefix", vile + " " + pad(600), 422, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, chunked := range []bool{false, true} {
				var body io.Reader = strings.NewReader(test.body)
				if chunked {
					body = io.MultiReader(body)
				}
				got := call(t, http.MethodPost, base+test.path, "", body, "Content-Type", "text/plain")
				arrived := app.whole()
				if got.status != test.status {
					t.Fatalf("chunked %v: %d %s", chunked, got.status, got.body)
				}
				if test.status == 200 && (len(arrived) != 1 || string(arrived[0].body) != test.body || arrived[0].Header.Get("X-Moderation-Status") != test.seen) {
					t.Errorf("chunked %v: the app saw %d, %v", chunked, len(arrived), arrived[0].Header)
				}
			}
		})
	}
}

// borderlineText is one that a person should look at.
const borderlineText = "Your jokes are stupid and so are you."

func TestGuardPassesReviews(t *testing.T) {
	app, queue := newBackend(t), newBackend(t)
	load(t, guardConfig(t, `
	handle /queue {
		moderate {
			on review {
				`+queue.proxy()+`
			}
		}
		`+app.proxy()+`
	}
	handle {
		moderate
		`+app.proxy()+`
	}`))
	body := `{"comment":"` + borderlineText + `"}`
	got := call(t, http.MethodPost, base+"/", "", strings.NewReader(body), "Content-Type", "application/json")
	arrived := app.take()
	if got.status != http.StatusOK || len(arrived) != 1 || arrived[0].Header.Get("X-Moderation-Recommendation") != "review" || string(arrived[0].body) != body {
		t.Fatalf("got %d, and the app saw %v, want 200 and a post to be reviewed", got.status, arrived)
	}
	got = call(t, http.MethodPost, base+"/queue", "", strings.NewReader(body), "Content-Type", "application/json")
	if arrived := queue.take(); got.status != http.StatusOK || len(arrived) != 1 || string(arrived[0].body) != body ||
		len(app.take()) != 0 {
		t.Errorf("%d, the queue saw %d", got.status, len(arrived))
	}
}

// TestGuardFailsAsConfigured is the contract of on_error.
func TestGuardFailsAsConfigured(t *testing.T) {
	app := newBackend(t)
	load(t, guardConfig(t, `
	handle /open {
		moderate
		`+app.proxy()+`
	}
	handle /closed {
		moderate {
			on_error reject
		}
		`+app.proxy()+`
	}
	handle /shadow {
		moderate {
			shadow
			on_error reject
		}
		`+app.proxy()+`
	}`))
	for _, test := range []struct {
		name, contentType, encoding, body, code string
		closed                                  int
	}{
		{"an unknown encoding", "text/plain", "rot13", fine, "unsupported_encoding", 415},
		{"a broken encoding", "text/plain", "gzip", fine, "incomplete_body", 400},
		{"an unknown charset", "text/plain; charset=nothing-such", "", fine, "unsupported_media_type", 415},
	} {
		for path, want := range map[string]int{"/open": 200, "/closed": test.closed, "/shadow": 200} {
			t.Run(test.name+path, func(t *testing.T) {
				got := call(t, http.MethodPost, base+path, "", strings.NewReader(test.body), "Content-Type", test.contentType, "Content-Encoding", test.encoding)
				arrived := app.take()
				if got.status != want || (want == 200) != (len(arrived) == 1) {
					t.Fatalf("%d %s, the app saw %d", got.status, got.body, len(arrived))
				}
				if want != 200 && !strings.Contains(string(got.body), test.code) {
					t.Errorf("the refusal is %s, want the code %s", got.body, test.code)
				}
				if path == "/open" && (arrived[0].Header.Get("X-Moderation-Status") != "error" || arrived[0].Header.Get("X-Moderation-Recommendation") != "" || string(arrived[0].body) != test.body) {
					t.Errorf("the app sees %v, want the status error, no recommendation, and the body", arrived[0].Header)
				}
			})
		}
	}
	call(t, http.MethodPost, base+"/open", "", strings.NewReader(vile), "Content-Type", "text/plain")
	metrics := string(call(t, http.MethodGet, "http://"+adminAddr+"/metrics", "", nil).body)
	for _, line := range []string{
		`caddy_moderation_guard_errors_total{direction="request",reason="unknown_encoding"} 3`,
		`caddy_moderation_guard_errors_total{direction="request",reason="unknown_charset"} 3`,
		`caddy_moderation_guard_total{direction="request",outcome="error_refused"} 3`,
		`caddy_moderation_guard_flagged_total{category="violence",direction="request"} 1`,
		`caddy_moderation_guard_total{direction="request",outcome="error_passed"} 6`,
	} {
		if !strings.Contains(metrics, line) {
			t.Errorf("the metrics have no %s", line)
		}
	}
}

// TestGuardLogsNoContent guards against text, names that are text, and addresses with text in logs.
func TestGuardLogsNoContent(t *testing.T) {
	app := newBackend(t)
	dir := t.TempDir()
	config := strings.Replace(guardConfig(t, "log {\noutput file "+dir+"/access.log\n}\nmoderate {\nquery q\n}\n"+app.proxy()),
		"log {\n\t\toutput discard\n\t}", "log {\n\t\toutput file "+dir+"/caddy.log\n\t}", 1)
	load(t, config)
	send(t, "application/json", `{"comment":"`+vile+`"}`)
	send(t, "application/json", `{"you worthless piece of shit":"`+vile+`"}`)
	send(t, "application/json", `{"comment":"`+borderlineText+`"}`)
	send(t, "application/json", `{"comment":"`+fine+`"}`)
	var access, server []byte
	for end := time.Now().Add(10 * time.Second); bytes.Count(access, []byte("\n")) < 4 && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		access, _ = os.ReadFile(filepath.Join(dir, "access.log"))
	}
	server, _ = os.ReadFile(filepath.Join(dir, "caddy.log"))
	lines := bytes.Split(bytes.TrimSpace(access), []byte("\n"))
	if len(lines) != 4 {
		t.Fatalf("%d lines: %s", len(lines), access)
	}
	for i, want := range []map[string]any{
		{"moderation_status": "judged", "moderation_action": "refused", "moderation_recommendation": "reject", "moderation_fields": "/comment"},
		{"moderation_status": "judged", "moderation_action": "refused", "moderation_recommendation": "reject"},
		{"moderation_status": "judged", "moderation_action": "passed", "moderation_recommendation": "review", "moderation_categories": "harassment"},
		{"moderation_status": "judged", "moderation_action": "passed", "moderation_recommendation": "approve"},
	} {
		var line map[string]any
		if err := json.Unmarshal(lines[i], &line); err != nil {
			t.Fatal(err)
		}
		for name, value := range want {
			if line[name] != value {
				t.Errorf("line %d: %s is %v, want %v", i, name, line[name], value)
			}
		}
	}
	if !bytes.Contains(server, []byte(`"rejected a request"`)) || !bytes.Contains(server, []byte(`"a request should be reviewed"`)) {
		t.Errorf("the server's log does not tell of verdicts: %s", server)
	}
	for name, log := range map[string][]byte{"access": access, "server": server} {
		for _, word := range []string{"worthless", "sucks", "bakery"} {
			if bytes.Contains(log, []byte(word)) {
				t.Errorf("the %s log tells %q", name, word)
			}
		}
	}
}

// TestGuardUnderLoadAndReloads guards against verdicts and bodies that get mixed up, and requests that a reload loses.
func TestGuardUnderLoadAndReloads(t *testing.T) {
	app := newBackend(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = w.Write(body)
	})
	config := guardConfig(t, "moderate\n"+app.proxy())
	load(t, config)
	stop := make(chan struct{})
	var wait sync.WaitGroup
	for worker := range 8 {
		wait.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				text, status := fine, http.StatusOK
				if (worker+i)%3 == 0 {
					text, status = vile, http.StatusUnprocessableEntity
				}
				body, _ := json.Marshal(map[string]any{"worker": worker, "number": i, "padding": strings.Repeat("bread ", i%300), "comment": text})
				got, err := try(t, http.MethodPost, base+"/", "", bytes.NewReader(body), "Content-Type", "application/json")
				if err != nil {
					continue // a connection that a reload has closed
				}
				if got.status != status || status == http.StatusOK && !bytes.Equal(got.body, body) {
					t.Errorf("%d %.80s for %.80s", got.status, got.body, body)
					return
				}
			}
		})
	}
	for range 5 {
		time.Sleep(100 * time.Millisecond)
		reload(t, config)
	}
	close(stop)
	wait.Wait()
}

// TestGuardNamesEachFieldOnce guards against refusals that also name what is only found together with a field that is
// refused by itself.
func TestGuardNamesEachFieldOnce(t *testing.T) {
	app, rejected := newBackend(t), newBackend(t)
	load(t, guardConfig(t, `
	handle /queue {
		moderate {
			on reject {
				`+rejected.proxy()+`
			}
		}
	}
	handle {
		moderate
		`+app.proxy()+`
	}`))
	for body, want := range map[string]string{
		`{"name":"Ann","comment":"` + vile + `"}`:   "/comment",
		`{"a":"I","b":"will","c":"kill","d":"you"}`: "/a+/b+/c+/d",
	} {
		var problem refusal
		got := send(t, "application/json", body)
		got.decodeJSON(t, &problem)
		if len(problem.Fields) != 1 || problem.Fields[0].Name != want {
			t.Errorf("the refusal is %s, want one field, %s", got.body, want)
		}
		call(t, http.MethodPost, base+"/queue", "", strings.NewReader(body), "Content-Type", "application/json")
		arrived := rejected.take()
		if len(arrived) != 1 || !strings.HasSuffix(arrived[0].Header.Get("X-Moderation-Fields"), want) || string(arrived[0].body) != body {
			t.Errorf("the queue of rejected posts saw %d: %v", len(arrived), arrived[0].Header)
		}
	}
}
