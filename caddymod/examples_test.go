// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// What people say in these tests. The verdicts have a distance from the levels that decide: see what the model says with
// POST /v1/moderate/text.
const (
	insult     = "Shut up, you pathetic idiot."                                  // harassment 0.999: reject
	borderline = "Your jokes are lame and so are you."                           // harassment 0.744, between 0.7 and 0.85: review
	mocking    = "Nobody wants to read your boring nonsense."                    // harassment 0.523: approve
	distress   = "I can't go on, I want to end my life."                         // self-harm 0.998: reject
	erotic     = "I want to have sex with you all night long."                   // sexual 0.998: reject
	hateful    = "All immigrants are vermin and should be exterminated."         // hate 0.998: reject
	friendly   = "The bread was excellent, thank you! ¡Qué rico! \u00e9 e\u0301" // approve
)

// exampleAddr is where the examples listen in these tests.
var exampleAddr = "localhost:" + port

// arrival is a request as an app received it.
type arrival struct {
	method, uri, host string
	header            http.Header
	body              []byte
	err               error // of reading the body, when the request broke
}

// exampleApp is an app behind an example: it keeps what arrives, and answers with its name.
type exampleApp struct {
	*httptest.Server
	mu       sync.Mutex
	arrivals []arrival
}

// newApp starts an app. An answer may be given for what the app has kept; by default the app answers "kept by <name>".
func newApp(t *testing.T, name string, answer http.HandlerFunc) *exampleApp {
	t.Helper()
	if answer == nil {
		answer = func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "kept by ", name) }
	}
	app := new(exampleApp)
	app.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		app.mu.Lock()
		app.arrivals = append(app.arrivals, arrival{r.Method, r.RequestURI, r.Host, r.Header.Clone(), body, err})
		app.mu.Unlock()
		r.Body = io.NopCloser(bytes.NewReader(body))
		answer(w, r)
	}))
	t.Cleanup(app.Close)
	return app
}

// address is host and port.
func (a *exampleApp) address() string { return a.Listener.Addr().String() }

// taken returns what arrived since the last call.
func (a *exampleApp) taken() []arrival {
	a.mu.Lock()
	defer a.mu.Unlock()
	taken := a.arrivals
	a.arrivals = nil
	return taken
}

// wantNothing fails when something arrived.
func (a *exampleApp) wantNothing(t *testing.T) {
	t.Helper()
	for _, got := range a.taken() {
		t.Errorf("the app received %s %s: %q", got.method, got.uri, clip(got.body))
	}
}

// want fails unless exactly this body arrived, byte for byte, and returns the header fields it came with.
func (a *exampleApp) want(t *testing.T, body string) http.Header {
	t.Helper()
	got := a.taken()
	if len(got) != 1 {
		t.Fatalf("the app received %d requests, want 1", len(got))
	}
	if got[0].err != nil || string(got[0].body) != body {
		t.Errorf("the app received %q, %v; want %q", clip(got[0].body), got[0].err, clip([]byte(body)))
	}
	return got[0].header
}

func clip(b []byte) []byte { return b[:min(len(b), 300)] }

// runExample runs an example until the test ends. Pairs say what stands in it and what to put there: addresses of apps and
// names of files.
func runExample(t *testing.T, name string, pairs ...string) {
	t.Helper()
	text, err := os.ReadFile("../examples/" + name + ".caddyfile")
	if err != nil {
		t.Fatal(err)
	}
	config := string(text)
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(config, pairs[i]) {
			t.Fatalf("%q is not in the example", pairs[i])
		}
		config = strings.ReplaceAll(config, pairs[i], pairs[i+1])
	}
	config = strings.ReplaceAll(config, "localhost:8080", exampleAddr)
	load(t, `{
	admin `+adminAddr+`
	persist_config off
	log {
		output discard
	}
	moderation {
		storage badger `+filepath.Join(t.TempDir(), "data")+`
		demo off
	}
}
`+config)
}

// browser sends requests to the examples, whatever the name of the site, and follows no redirects.
var browser = &http.Client{
	Timeout: 60 * time.Second,
	Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, exampleAddr)
		},
	},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// post sends a body; headers are pairs of names and values.
func post(t *testing.T, url, contentType, body string, headers ...string) reply {
	t.Helper()
	if !strings.Contains(url, "://") {
		url = "http://" + exampleAddr + url
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", contentType)
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := browser.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	received, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{response.StatusCode, response.Header, received}
}

const formType = "application/x-www-form-urlencoded"

// postForm sends a form, pairs of names and values, and returns its body.
func postForm(t *testing.T, path string, pairs ...string) (reply, string) {
	t.Helper()
	values := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		values.Add(pairs[i], pairs[i+1])
	}
	body := values.Encode()
	return post(t, path, formType, body), body
}

// postJSON sends a value, and returns its body.
func postJSON(t *testing.T, path string, value any, headers ...string) (reply, string) {
	t.Helper()
	body, err := json.MarshalIndent(value, "", "   ")
	if err != nil {
		t.Fatal(err)
	}
	return post(t, path, "application/json", string(body), headers...), string(body)
}

// wantRefused fails unless the answer is the default refusal that names a category and a field, and quotes nothing.
func (r reply) wantRefused(t *testing.T, category, field string) {
	t.Helper()
	if r.status != http.StatusUnprocessableEntity || !strings.HasPrefix(r.header.Get("Content-Type"), "application/problem+json") {
		t.Fatalf("%d %s: %s", r.status, r.header.Get("Content-Type"), r.body)
	}
	var problem struct {
		Status         int
		Code, Instance string
		Categories     []string
		Fields         []struct {
			Name       string
			Categories []string
		}
	}
	r.decodeJSON(t, &problem)
	if problem.Status != r.status || problem.Code != "content_rejected" || !strings.HasPrefix(problem.Instance, "mod_") || !slices.Contains(problem.Categories, category) {
		t.Errorf("%s", r.body)
	}
	found := false
	for _, f := range problem.Fields {
		found = found || f.Name == field && slices.Contains(f.Categories, category)
	}
	if !found {
		t.Errorf("want %s in the field %q: %s", category, field, r.body)
	}
	if bytes.Contains(r.body, []byte("idiot")) || bytes.Contains(r.body, []byte("worthless")) {
		t.Errorf("the text is quoted: %s", r.body)
	}
}

// wantStatus fails unless the answer has this status and holds this text.
func (r reply) wantStatus(t *testing.T, status int, holds string) {
	t.Helper()
	if r.status != status || !bytes.Contains(r.body, []byte(holds)) {
		t.Errorf("%d %s; want %d with %q", r.status, clip(r.body), status, holds)
	}
}

// examples are the tests of the files in ../examples, by name.
var examples = map[string]func(t *testing.T){
	"blog-comments": exampleBlog,
	"chat":          exampleChat,
	"contact-form":  exampleContact,
	"crisis":        exampleCrisis,
	"photo-upload":  exampleUpload,
	"llm-gateway":   exampleGateway,
	"shadow-mode":   exampleShadow,
	"per-route":     exampleRoutes,
	"error-page":    exampleErrorPage,
	"review-queue":  exampleQueue,
	"two-sites":     exampleTwoSites,
	"matcher":       exampleMatcher,
	"word-lists":    exampleWords,
}

// TestExamples runs every file of examples, with an app behind it. To each something vile is posted and something fine.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../examples/*.caddyfile")
	if err != nil || len(files) != len(examples) {
		t.Errorf("%d examples, %d are tested: %v", len(files), len(examples), err)
	}
	page, err := os.ReadFile("../docs/recipes.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(examples)) {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile("../examples/" + name + ".caddyfile")
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(caddyfile.Format(text), text) {
				t.Error("it is not formatted as caddy fmt does")
			}
			if !bytes.Contains(page, []byte("(../examples/"+name+".caddyfile)")) {
				t.Error("docs/recipes.md has no link to it")
			}
			examples[name](t)
		})
	}
}

func exampleBlog(t *testing.T) {
	app := newApp(t, "the blog", nil)
	runExample(t, "blog-comments", "localhost:3000", app.address())

	got, _ := postForm(t, "/comments", "name", "Ann", "comment", nasty)
	got.wantRefused(t, "violence", "comment")
	got, _ = postForm(t, "/comments", "name", insult, "comment", "Nice.")
	got.wantRefused(t, "harassment", "name")
	app.wantNothing(t)

	got, body := postForm(t, "/comments", "name", "Ann", "comment", friendly, "email", "ann@example.com")
	got.wantStatus(t, http.StatusOK, "kept by the blog")
	header := app.want(t, body)
	if header.Get("X-Moderation-Flagged") != "false" || header.Get("X-Moderation-Recommendation") != "approve" || !strings.HasPrefix(header.Get("X-Moderation-Id"), "mod_") {
		t.Errorf("%v", header)
	}

	// What is between arrives, and the app can see that somebody should look at it.
	_, body = postForm(t, "/comments", "name", "Ann", "comment", borderline)
	header = app.want(t, body)
	if header.Get("X-Moderation-Recommendation") != "review" || header.Get("X-Moderation-Categories") != "harassment" || header.Get("X-Moderation-Fields") != "comment" {
		t.Errorf("%v", header)
	}
	// A field that nobody else reads is not judged.
	got, body = postForm(t, "/comments", "token", insult, "comment", "Nice.")
	got.wantStatus(t, http.StatusOK, "")
	app.want(t, body)
}

func exampleChat(t *testing.T) {
	app := newApp(t, "the chat", func(w http.ResponseWriter, r *http.Request) {
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
	app := newApp(t, "the office", nil)
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
	// Another page is not judged.
	got, body := postForm(t, "/search", "q", nasty)
	got.wantStatus(t, http.StatusOK, "kept by the office")
	if header := app.want(t, body); header.Get("X-Moderation-Id") != "" {
		t.Errorf("%v", header)
	}
}

func exampleCrisis(t *testing.T) {
	app := newApp(t, "the forum", nil)
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
		t.Errorf("%s", page)
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
	app := newApp(t, "the gallery", nil)
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

func exampleGateway(t *testing.T) {
	stopped := make(chan struct{}, 1)
	model := newApp(t, "the model", func(w http.ResponseWriter, r *http.Request) {
		var ask struct {
			Stream   bool
			Messages []struct{ Content string }
		}
		if err := json.NewDecoder(r.Body).Decode(&ask); err != nil || r.Header.Get("Authorization") != "Bearer secret" {
			http.Error(w, "what?", http.StatusBadRequest)
			return
		}
		text := "Bread needs flour, water, salt and time. Mix them in the evening and bake in the morning."
		villain := strings.Contains(ask.Messages[0].Content, "villain")
		if villain {
			text = "Of course. " + nasty
		}
		if !ask.Stream {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}]}`, text)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		event := func(delta, reason string) {
			fmt.Fprintf(w, `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":%s,"finish_reason":%s}]}`+"\n\n", delta, reason)
			w.(http.Flusher).Flush()
		}
		for _, word := range strings.SplitAfter(text, " ") {
			event(fmt.Sprintf(`{"content":%q}`, word), "null")
		}
		// A villain goes on until somebody stops him.
		for end := time.Now().Add(20 * time.Second); villain && time.Now().Before(end); time.Sleep(time.Millisecond) {
			if r.Context().Err() != nil {
				stopped <- struct{}{}
				return
			}
			event(`{"content":" Ha!"}`, "null")
		}
		event("{}", `"stop"`)
		fmt.Fprint(w, "data: [DONE]\n\n")
	})
	runExample(t, "llm-gateway", "localhost:11434", model.address())
	ask := func(stream bool, text string) reply {
		t.Helper()
		got, _ := postJSON(t, "/v1/chat/completions", map[string]any{
			"model": "m", "stream": stream, "messages": []any{map[string]any{"role": "user", "content": text}},
		}, "Authorization", "Bearer secret")
		return got
	}

	for _, stream := range []bool{false, true} {
		got := ask(stream, nasty)
		got.wantStatus(t, http.StatusBadRequest, `"type":"invalid_request_error","param":null,"code":"content_filter"`)
		if id := got.header.Get("X-Request-Id"); !strings.HasPrefix(id, "mod_") || bytes.Contains(got.body, []byte("worthless")) {
			t.Errorf("%s %s", id, got.body)
		}
	}
	got, _ := postJSON(t, "/api/chat", map[string]any{"messages": []any{}})
	got.wantStatus(t, http.StatusNotFound, "")
	model.wantNothing(t)

	// In one piece.
	ask(false, "Please tell me how to bake bread.").wantStatus(t, http.StatusOK, "bake in the morning.")
	got = ask(false, "Please play the villain.")
	got.wantStatus(t, http.StatusOK, `"content_filter"`)
	if bytes.Contains(got.body, []byte("worthless")) {
		t.Errorf("%s", got.body)
	}

	// Word by word.
	text, reason := streamed(t, ask(true, "Please tell me how to bake bread."))
	if text != "Bread needs flour, water, salt and time. Mix them in the evening and bake in the morning." || reason != "stop" {
		t.Errorf("%q, %s", text, reason)
	}
	text, reason = streamed(t, ask(true, "Please play the villain."))
	if strings.TrimSpace(text) != "Of course." || reason != "content_filter" {
		t.Errorf("%q, %s", text, reason)
	}
	select {
	case <-stopped:
	case <-time.After(10 * time.Second):
		t.Error("the model was not stopped")
	}
}

// streamed reads the text and the finish_reason of a streamed chat completion, as a client does.
func streamed(t *testing.T, got reply) (text, reason string) {
	t.Helper()
	if got.status != http.StatusOK || !strings.HasPrefix(got.header.Get("Content-Type"), "text/event-stream") {
		t.Fatalf("%d %s", got.status, got.body)
	}
	done := false
	for event := range strings.SplitSeq(strings.TrimSpace(string(got.body)), "\n\n") {
		data, ok := strings.CutPrefix(event, "data: ")
		if !ok || done {
			t.Errorf("an odd event: %q", event)
		}
		if data == "[DONE]" {
			done = true
			continue
		}
		var chunk struct {
			Object  string
			Choices []struct {
				Delta        struct{ Content string }
				FinishReason string `json:"finish_reason"`
			}
		}
		if err := json.Unmarshal([]byte(data), &chunk); err != nil || chunk.Object != "chat.completion.chunk" || len(chunk.Choices) != 1 {
			t.Fatalf("%q: %v", data, err)
		}
		text += chunk.Choices[0].Delta.Content
		reason = chunk.Choices[0].FinishReason
	}
	if !done {
		t.Errorf("no [DONE]: %s", got.body)
	}
	return text, reason
}

func exampleShadow(t *testing.T) {
	app := newApp(t, "the app", nil)
	log := filepath.Join(t.TempDir(), "access.log")
	runExample(t, "shadow-mode", "localhost:3000", app.address(), "output file access.log", "output file "+log)

	before := count(t, `caddy_moderation_guard_total{direction="request",outcome="shadow_reject"}`)
	got, body := postJSON(t, "/messages", map[string]any{"text": nasty})
	got.wantStatus(t, http.StatusOK, "kept by the app")
	header := app.want(t, body)
	if header.Get("X-Moderation-Id") != "" {
		t.Errorf("%v", header)
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
		t.Errorf("%q, want %q", seen, want)
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
	t.Fatalf("%d lines in the log, want %d", len(got), lines)
	return nil
}

func exampleRoutes(t *testing.T) {
	app := newApp(t, "the app", nil)
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

func exampleErrorPage(t *testing.T) {
	app := newApp(t, "the app", nil)
	runExample(t, "error-page", "localhost:3000", app.address())
	body := url.Values{"comment": {nasty}}.Encode()

	got := post(t, "/comments", formType, body, "Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	got.wantStatus(t, http.StatusUnprocessableEntity, "<h1>Please say it in other words</h1>")
	got.wantStatus(t, http.StatusUnprocessableEntity, "The text was judged as harassment and violence.")
	if !strings.HasPrefix(got.header.Get("Content-Type"), "text/html") || bytes.Contains(got.body, []byte("{http.")) || !bytes.Contains(got.body, []byte("mod_")) {
		t.Errorf("%v %s", got.header, got.body)
	}

	got = post(t, "/comments", formType, body, "Accept", "application/json")
	var answer struct{ Error, Reason, ID string }
	got.decodeJSON(t, &answer)
	if got.status != http.StatusUnprocessableEntity || answer.Error != "rejected" || !strings.Contains(answer.Reason, "harassment") || !strings.HasPrefix(answer.ID, "mod_") {
		t.Errorf("%d %s", got.status, got.body)
	}
	app.wantNothing(t)

	got, body = postForm(t, "/comments", "comment", friendly)
	got.wantStatus(t, http.StatusOK, "kept by the app")
	app.want(t, body)
}

func exampleQueue(t *testing.T) {
	app := newApp(t, "the app", nil)
	queue := newApp(t, "the queue", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprint(w, "Somebody will look at it.")
	})
	runExample(t, "review-queue", "localhost:3000", app.address(), "localhost:3001", queue.address())

	got, _ := postForm(t, "/comments", "comment", nasty)
	got.wantRefused(t, "harassment", "comment")
	app.wantNothing(t)
	queue.wantNothing(t)

	got, body := postForm(t, "/comments", "comment", borderline)
	got.wantStatus(t, http.StatusAccepted, "Somebody will look at it.")
	app.wantNothing(t)
	header := queue.want(t, body)
	if header.Get("X-Moderation-Recommendation") != "review" || header.Get("X-Moderation-Categories") != "harassment" || header.Get("X-Moderation-Fields") != "comment" || header.Get("X-Moderation-Id") == "" {
		t.Errorf("%v", header)
	}

	got, body = postForm(t, "/comments", "comment", friendly)
	got.wantStatus(t, http.StatusOK, "kept by the app")
	app.want(t, body)
	queue.wantNothing(t)
}

func exampleTwoSites(t *testing.T) {
	family, pub := newApp(t, "the family", nil), newApp(t, "the pub", nil)
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

func exampleMatcher(t *testing.T) {
	app := newApp(t, "the app", nil)
	runExample(t, "matcher", "localhost:3000", app.address())

	got, _ := postForm(t, "/talk", "text", nasty)
	got.wantStatus(t, http.StatusUnprocessableEntity, "Please say it in other words.")
	got, _ = postForm(t, "/talk", "text", distress)
	got.wantStatus(t, http.StatusUnprocessableEntity, "You are not alone.")
	response, err := browser.PostForm("http://"+exampleAddr+"/talk", url.Values{"text": {hateful}})
	if err == nil {
		response.Body.Close()
		t.Errorf("%s", response.Status)
	}
	// Caddy may close the connection before all of a large body was sent, so that there is no answer.
	response, err = browser.PostForm("http://"+exampleAddr+"/talk", url.Values{"padding": {strings.Repeat("Bread. ", 200_000)}, "text": {nasty}})
	if err == nil {
		response.Body.Close()
		if response.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("%s", response.Status)
		}
	}
	got = post(t, "/talk", formType, "text="+url.QueryEscape(nasty), "Content-Encoding", "compress")
	if got.status == http.StatusOK {
		t.Errorf("%s", got.body)
	}
	app.wantNothing(t)

	got, body := postForm(t, "/talk", "text", friendly)
	got.wantStatus(t, http.StatusOK, "kept by the app")
	app.want(t, body)
}

func exampleWords(t *testing.T) {
	app := newApp(t, "the app", nil)
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

// echo answers a WebSocket handshake, sends the first message back and ends.
func echo(t *testing.T, w http.ResponseWriter) {
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	fmt.Fprint(rw, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n")
	_ = rw.Flush()
	message, err := readFrame(rw.Reader)
	if err != nil {
		t.Error(err)
		return
	}
	_, _ = rw.Write(append([]byte{0x81, byte(len(message))}, message...))
	_ = rw.Flush()
}

// say opens a WebSocket, sends a message of at most 125 bytes and returns the answer.
func say(t *testing.T, path, message string) string {
	t.Helper()
	conn, err := net.Dial("tcp", exampleAddr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", path, exampleAddr)
	reader := bufio.NewReader(conn)
	response, err := http.ReadResponse(reader, nil)
	if err != nil || response.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%v %v", response, err)
	}
	frame := []byte{0x81, 0x80 | byte(len(message)), 1, 2, 3, 4}
	for i := range len(message) {
		frame = append(frame, message[i]^frame[2+i%4])
	}
	if _, err := conn.Write(frame); err != nil {
		t.Fatal(err)
	}
	answer, err := readFrame(reader)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}

// readFrame reads one short frame of a WebSocket (RFC 6455, section 5.2).
func readFrame(r io.Reader) ([]byte, error) {
	head := make([]byte, 2)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	mask := make([]byte, 4)
	if head[1]&0x80 != 0 {
		if _, err := io.ReadFull(r, mask); err != nil {
			return nil, err
		}
	}
	payload := make([]byte, head[1]&0x7f)
	_, err := io.ReadFull(r, payload)
	for i := range payload {
		payload[i] ^= mask[i%4]
	}
	return payload, err
}

// TestGuardPageConfigures provisions every piece of a Caddyfile that stands in docs/guard.md.
func TestGuardPageConfigures(t *testing.T) {
	page, err := os.ReadFile("../docs/guard.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(page), "```caddyfile\n")[1:]
	if len(blocks) < 4 {
		t.Errorf("only %d pieces", len(blocks))
	}
	for i, block := range blocks {
		block, _, _ = strings.Cut(block, "```\n")
		t.Run(fmt.Sprint(i+1), func(t *testing.T) {
			if !strings.Contains(block, "localhost:8080 {") && !strings.Contains(block, "example.com {") {
				block = "http://" + exampleAddr + " {\n" + block + "}\n"
			}
			config := new(caddy.Config)
			if err := json.Unmarshal(adapt(t, block), config); err != nil {
				t.Fatal(err)
			}
			if err := caddy.Validate(config); err != nil {
				t.Errorf("%v in:\n%s", err, block)
			}
		})
	}
}
