// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/caddyconfig"
)

// TestHopListsCannotRemoveTheVerdict guards against clients that have the proxy remove what the guard tells the app.
func TestHopListsCannotRemoveTheVerdict(t *testing.T) {
	app := newBackend(t)
	load(t, guardConfig(t, "moderate\n"+app.proxy()))
	for _, test := range []struct {
		name   string
		header []string
	}{
		{"Connection", []string{"Connection: x-moderation-recommendation"}},
		{"with others", []string{"Connection: close, X-Moderation-Recommendation ,x-moderation-status"}},
		{"with underscores", []string{"Connection: X_Moderation_Recommendation"}},
		{"several lines", []string{"Connection: close", "Connection: x-moderation-recommendation,", "connection: ,X-MODERATION-FLAGGED"}},
		{"other lists", []string{"Connection: keep-alive, Keep-Alive, TE", "Proxy-Connection: x-moderation-recommendation", "Keep-Alive: x-moderation-status",
			"TE: x-moderation-recommendation", "Upgrade: x-moderation-recommendation", "Trailer: x-moderation-recommendation"}},
		{"the type of the body", []string{"Connection: content-type, content-encoding, content_type"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := attempt{header: append(test.header, asJSON...), body: `{"comment":"` + borderlineText + `"}`}
			if status, body := a.raw(t); status != http.StatusOK {
				t.Fatalf("got %d %s, want 200", status, body)
			}
			arrived := app.take()
			if len(arrived) != 1 {
				t.Fatalf("%d requests", len(arrived))
			}
			header := arrived[0].Header
			for name, want := range map[string]string{
				"X-Moderation-Recommendation": "review", "X-Moderation-Status": "judged", "X-Moderation-Flagged": "true", "Content-Type": "application/json",
			} {
				if got := header.Get(name); got != want {
					t.Errorf("%s is %q, want %q", name, got, want)
				}
			}
			for _, name := range []string{"Connection", "Proxy-Connection", "Keep-Alive", "Te", "Upgrade"} {
				if strings.Contains(strings.ToLower(header.Get(name)), "moderation") {
					t.Errorf("the app sees %s: %s, want no name of the guard's", name, header.Get(name))
				}
			}
		})
	}
}

// Two texts of self-harm: of a person in a crisis, and of one who tells others to.
const (
	crisis  = "Sometimes I just want to die. Who can I talk to?"
	goading = "You should kill yourself."
)

// TestCrisisIsReviewed guards against people who ask for help and are told that they are not accepted, and against
// leniency with those who tell others to harm themselves.
func TestCrisisIsReviewed(t *testing.T) {
	app, queue := newBackend(t), newBackend(t)
	load(t, guardConfig(t, `
	handle /strict* {
		moderate {
			reject_level self-harm 0.75
		}
		`+app.proxy()+`
	}
	handle /narrow* {
		moderate {
			categories self-harm
		}
		`+app.proxy()+`
	}
	handle /help* {
		moderate {
			on self-harm {
				respond "There is help." 203
			}
			on review {
				`+queue.proxy()+`
			}
		}
		`+app.proxy()+`
	}
	handle /stricthelp* {
		moderate {
			reject_level self-harm 0.75
			on self-harm {
				header X-Help yes
			}
		}
		`+app.proxy()+`
	}
	handle /matcher* {
		@toxic moderation reject
		respond @toxic "toxic" 403
		`+app.proxy()+`
	}
	handle {
		moderate
		`+app.proxy()+`
	}`))
	long := strings.Repeat("The committee met on Tuesday to talk about the playground, and nobody could agree on the colour of the swings. \n", 30)
	for _, test := range []struct {
		name, path, text string
		status           int
		reviewed         bool // by the app
	}{
		{"a crisis", "/", crisis, 200, true},
		{"clear words", "/", distress, 200, true},
		{"at the end of a long letter", "/", long + distress, 200, true},
		{"said to others", "/", goading, 422, false},
		{"with an insult", "/", distress + " And you, shut up, you pathetic idiot.", 422, false},
		{"with a threat in another field", "/", distress + "\",\"other\":\"" + vile, 422, false},
		{"where a level is given", "/strict", distress, 422, false},
		{"where it is the only category", "/narrow", distress, 200, true},
		{"said to others where it is the only category", "/narrow", goading, 422, false},
		{"with a page that helps", "/help", crisis, 203, false},
		{"said to others, with such a page", "/help", goading, 422, false},
		{"a threat, with such a page", "/help", vile, 422, false},
		{"to be reviewed for another reason, with such a page", "/help", borderlineText, 200, false},
		{"a page that does not answer", "/stricthelp", distress, 422, false},
		{"a matcher", "/matcher", distress, 200, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := try(t, http.MethodPost, base+test.path, "", strings.NewReader(`{"comment":"`+strings.ReplaceAll(test.text, "\n", `\n`)+`"}`), "Content-Type", "application/json")
			if err != nil {
				t.Fatal(err)
			}
			arrived := app.take()
			if got.status != test.status || test.status == 422 && len(arrived) != 0 {
				t.Fatalf("got %d %s, want %d", got.status, got.body, test.status)
			}
			if test.path == "/stricthelp" && got.header.Get("X-Help") != "yes" {
				t.Errorf("the page was not asked: %v", got.header)
			}
			if test.reviewed && (len(arrived) != 1 || arrived[0].Header.Get("X-Moderation-Recommendation") != "review" ||
				arrived[0].Header.Get("X-Moderation-Categories") != "self-harm") {
				t.Errorf("the app saw %v, want one post to be reviewed for self-harm", arrived)
			}
		})
	}
	if n := len(queue.take()); n != 1 {
		t.Errorf("the queue saw %d", n)
	}
}

// TestModelRefusals sees that clients of language models are refused in the words of the interface that they use.
func TestModelRefusals(t *testing.T) {
	app := newBackend(t)
	load(t, guardConfig(t, `
	handle /own/* {
		moderate
		`+app.proxy()+`
	}
	handle_path /stripped/* {
		moderate
		`+app.proxy()+`
	}
	handle /down/* {
		moderate {
			account small
			enforce_quota
			on_error reject
		}
		`+app.proxy()+`
	}
	handle {
		moderate {
			max_body 2KiB reject
			on_error reject
		}
		`+app.proxy()+`
	}
	handle_errors 422 {
		@own path /own/*
		respond @own "the site's own" 422
	}`))
	chat := `{"model":"m","messages":[{"role":"user","content":"` + vile + `"}]}`
	const (
		openAI    = `{"error":{"message":"The text was judged as harassment and violence.","type":"invalid_request_error","param":null,"code":"content_filter"}}`
		anthropic = `{"type":"error","error":{"type":"invalid_request_error","message":"The text was judged as harassment and violence."},"request_id":"ID"}`
		google    = `{"error":{"code":400,"message":"The text was judged as harassment and violence.","status":"INVALID_ARGUMENT"}}`
		ollama    = `{"error":"The text was judged as harassment and violence.","type":"urn:caddy-moderation:problem:content_rejected",`
		ours      = `{"type":"urn:caddy-moderation:problem:content_rejected",`
	)
	for _, test := range []struct {
		path, body string
		header     string
		status     int
		want       string // the answer begins with it
	}{
		{"/v1/chat/completions", chat, "", 400, openAI},
		{"/v1/chat/completions/", chat, "", 400, openAI},
		{"/chat/completions", chat, "", 400, openAI},
		{"/v1/completions", `{"prompt":"` + vile + `"}`, "", 400, openAI},
		{"/v1/responses", `{"input":"` + vile + `"}`, "", 400, openAI},
		{"/api/v1/chat/completions", chat, "", 400, openAI},
		{"/openai/deployments/x/chat/completions?api-version=2024-10-21", chat, "", 400, openAI},
		{"/stripped/v1/chat/completions", chat, "", 400, openAI},
		{"/v1/messages", chat, "Anthropic-Version: 2023-06-01", 400, anthropic},
		{"/v1/messages", chat, "", 422, ours},
		{"/v1beta/models/gemini:streamGenerateContent?alt=sse", chat, "", 400, google},
		{"/v1beta/models/gemini:generateContent", chat, "", 400, google},
		{"/api/chat", chat, "", 422, ollama},
		{"/api/generate", `{"prompt":"` + vile + `"}`, "", 422, ollama},
		{"/api/responses", chat, "", 422, ours},
		{"/comments", chat, "", 422, ours},
		{"/own/v1/chat/completions", chat, "", 422, "the site's own"},

		{"/v1/chat/completions", strings.Repeat(" ", 3000) + chat, "", 413, `{"error":{"message":"The body may have 2048 bytes`},
		{"/v1/messages", strings.Repeat(" ", 3000) + chat, "Anthropic-Version: 2023-06-01", 413, `{"type":"error","error":{"type":"request_too_large",`},
		{"/v1/chat/completions", `{"a":"x"}`, "Content-Encoding: gzip", 400, `{"error":{"message":"The body is not in the Content-Encoding that it says.","type":"invalid_request_error","param":null,"code":"incomplete_body"}}`},
	} {
		t.Run(test.path+test.header, func(t *testing.T) {
			headers := []string{"Content-Type", "application/json"}
			if name, value, found := strings.Cut(test.header, ": "); found {
				headers = append(headers, name, value)
			}
			got, err := try(t, http.MethodPost, base+test.path, "", strings.NewReader(test.body), headers...)
			if err != nil {
				t.Fatal(err)
			}
			id := got.header.Get("X-Request-Id")
			if body := strings.ReplaceAll(string(got.body), id, "ID"); got.status != test.status || !strings.HasPrefix(body, test.want) {
				t.Errorf("%d %s, want %d %s", got.status, body, test.status, test.want)
			}
			if !strings.HasPrefix(id, "mod_") || len(app.take()) != 0 {
				t.Errorf("the header is %v, want an id, and nothing for the app", got.header)
			}
		})
	}
	// What cannot be moderated now may be tried again, and these clients do so after 503.
	inOneMinute()
	for i := range 4 {
		got, err := try(t, http.MethodPost, base+"/down/v1/chat/completions", "", strings.NewReader(`{"messages":[{"content":"`+fine+`"}]}`), "Content-Type", "application/json")
		if err != nil {
			t.Fatal(err)
		}
		if i == 3 && (got.status != 503 || got.header.Get("Retry-After") == "" || !strings.Contains(string(got.body), `"type":"server_error","param":null,"code":"not_judged"`)) {
			t.Errorf("got %d %s, want 503 not_judged with Retry-After", got.status, got.body)
		}
	}
}

// TestRefusalsForOtherOrigins guards against pages that see a failure of the network in the place of a refusal.
func TestRefusalsForOtherOrigins(t *testing.T) {
	app := newBackend(t)
	load(t, guardConfig(t, `
	moderate {
		cors https://www.example.com
	}
	`+app.proxy()+`
	handle_errors 422 {
		@own path /own
		respond @own "the site's own" 422
	}`))
	for _, path := range []string{"/comments", "/own", "/v1/chat/completions"} {
		got, err := try(t, http.MethodPost, base+path, "", strings.NewReader(`{"comment":"`+vile+`"}`), "Content-Type", "application/json", "Origin", "https://www.example.com")
		if err != nil {
			t.Fatal(err)
		}
		if got.status < 400 || got.header.Get("Access-Control-Allow-Origin") != "https://www.example.com" || got.header.Get("Access-Control-Allow-Credentials") != "true" ||
			!strings.Contains(got.header.Get("Access-Control-Expose-Headers"), "X-Request-Id") {
			t.Errorf("%s: got %d %v, want a refusal that the origin may read", path, got.status, got.header)
		}
	}
	// Of another origin, and of what the app answers, the guard says nothing.
	for body, origin := range map[string]string{vile: "https://evil.example", fine: "https://www.example.com"} {
		if got := send(t, "text/plain", body, "Origin", origin); got.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("the header is %v, want no Access-Control-Allow-Origin", got.header)
		}
	}
	got, err := try(t, http.MethodOptions, base+"/comments", "", nil, "Origin", "https://www.example.com", "Access-Control-Request-Method", "POST")
	if err != nil || string(got.body) != "app" {
		t.Errorf("a preflight request did not reach the app: %v %s", err, got.body)
	}
}

// TestMistakenDirectives guards against mistakes in a configuration that nobody hears of: errors and warnings at load.
func TestMistakenDirectives(t *testing.T) {
	adapter := caddyconfig.GetAdapter("caddyfile")
	for _, test := range []struct{ config, want string }{
		{base + " {\nmoderation\n}", "there is no directive 'moderation'; the directive is moderate;"},
		{base + " {\nhandle {\nmoderate_request\n}\n}", "there is no directive 'moderate_request'; the directive is moderate"},
		{base + " {\nmoderate_responses\n}", "the directive is moderate_response"},
		{"{\nmoderate {\nshadow\n}\n}\n" + base + " {\nrespond x\n}", "'moderate' is no global option but a directive"},
		{base + " {\nmoderate {\non selfharm {\nrespond x\n}\n}\n}", "there is no recommendation 'selfharm'; there are reject, review and approve, and self-harm"},
		{base + " {\nmoderate_response {\non self-harm {\nrespond x\n}\n}\n}", "there is no recommendation 'self-harm'"},
		{base + " {\nmoderate {\ncors example.com\n}\n}", `cors: "example.com" is no origin`},
		{base + " {\nmoderate {\nshadows\n}\n}", "unknown option 'shadows'"},
	} {
		_, _, err := adapter.Adapt([]byte(test.config), map[string]any{"filename": "Caddyfile"})
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "Caddyfile:") {
			t.Errorf("%q: got the error %v, want one with %q and the place", test.config, err, test.want)
		}
	}

	const twice, unknown = "requests pass two of the directive moderate", "the account of a guard cannot be used"
	for _, test := range []struct {
		name, site, want string
	}{
		{"two without matchers", "moderate\nmoderate {\nthreshold hate 0.6\n}", twice},
		{"two with the same matcher", "moderate /a*\nmoderate /a* {\nthreshold hate 0.6\n}", twice},
		{"one in a handle, below another", "moderate\nhandle /a* {\nmoderate {\nthreshold hate 0.6\n}\n}", twice},
		{"one for some paths beside one for all", "moderate /a*\nmoderate {\nthreshold hate 0.6\n}", twice},
		{"one for some paths, in shadow mode, and one for all", "moderate /a* {\nshadow\n}\nmoderate", ""},
		{"an answer between the two", "route {\nmoderate /a*\nrespond /a* x\nmoderate\n}", ""},
		{"different paths", "moderate /a*\nmoderate /b*", ""},
		{"handles of their own", "handle /a* {\nmoderate\n}\nhandle {\nmoderate\n}", ""},
		{"another policy in shadow mode", "moderate\nmoderate {\nshadow\nthreshold hate 0.6\n}", ""},
		{"an account that is not there", "moderate {\naccount nosuch\n}", unknown},
		{"an account that is", "moderate {\naccount small\n}", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "caddy.log")
			load(t, strings.Replace(guardConfig(t, test.site+"\nrespond x"), "output discard", "output file "+file, 1))
			var log []byte
			for end := time.Now().Add(2 * time.Second); test.want != "" && !bytes.Contains(log, []byte(test.want)) && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				log, _ = os.ReadFile(file)
			}
			log, _ = os.ReadFile(file)
			for _, warning := range []string{twice, unknown} {
				if bytes.Contains(log, []byte(warning)) != (warning == test.want) {
					t.Errorf("the warning %q: the log is %s, want it there %v", warning, log, warning == test.want)
				}
			}
		})
	}
}

// TestAccessLogHoldsNoText runs the filter that docs/guard.md shows for sites that judge queries and header
// fields.
func TestAccessLogHoldsNoText(t *testing.T) {
	page, err := os.ReadFile("../docs/guard.md")
	if err != nil {
		t.Fatal(err)
	}
	_, config, found := strings.Cut(string(page), "the access log holds moderated text.** Remove it:\n\n```caddyfile\n")
	config, _, ended := strings.Cut(config, "```\n")
	if !found || !ended {
		t.Fatal("docs/guard.md does not show the filter")
	}
	app := newBackend(t)
	dir := t.TempDir()
	for _, file := range []string{"server.log", "access.log"} {
		config = strings.Replace(config, "log {\n\t\tformat", "log {\n\t\toutput file "+filepath.Join(dir, file)+"\n\t\tformat", 1)
		config = strings.Replace(config, "\tlog {\n\t\toutput", "\tLOG {\n\t\toutput", 1)
	}
	config = strings.ReplaceAll(config, "\tLOG {", "\tlog {")
	config = strings.NewReplacer("http://localhost:8080", base, "reverse_proxy localhost:3000", app.proxy()).Replace(config)
	load(t, strings.Replace(config, "{\n", "{\n\tadmin "+adminAddr+"\n\tpersist_config off\n", 1))
	for _, text := range []string{vile, fine} {
		call(t, http.MethodGet, base+"/?q="+strings.ReplaceAll(text, " ", "+"), "", nil, "Subject", text)
	}
	var log []byte
	for end := time.Now().Add(5 * time.Second); bytes.Count(log, []byte("\n")) < 2 && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		log, _ = os.ReadFile(filepath.Join(dir, "access.log"))
	}
	server, _ := os.ReadFile(filepath.Join(dir, "server.log"))
	if !bytes.Contains(log, []byte("q=REDACTED")) {
		t.Errorf("the access log is %s, want q=REDACTED", log)
	}
	for _, word := range []string{"worthless", "bakery"} {
		if bytes.Contains(append(log, server...), []byte(word)) {
			t.Errorf("the logs tell %q: %s", word, log)
		}
	}
}
