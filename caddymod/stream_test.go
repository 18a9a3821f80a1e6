// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// wordsOf cuts a text in pieces of three letters.
func wordsOf(text string) (words []string) {
	for len(text) > 3 {
		words = append(words, text[:3])
		text = text[3:]
	}
	return append(words, text)
}

// inLines writes a text in pieces, each in a template where § is.
func inLines(template, text string) string {
	var b strings.Builder
	for _, word := range wordsOf(text) {
		quoted, _ := json.Marshal(word)
		b.WriteString(strings.ReplaceAll(template, "§", string(quoted)))
	}
	return b.String()
}

const (
	ollama = `{"model":"m","created_at":"2023-08-04T08:52:19Z","message":{"role":"assistant","content":§},"done":false}` + "\n"
	gemini = `,{"candidates":[{"content":{"parts":[{"text":§}],"role":"model"},"index":0}]}` + "\n"
)

// TestStreamsOfJSON are moderated line by line or element by element, with what their clients understand at the end.
func TestStreamsOfJSON(t *testing.T) {
	for _, test := range []struct{ name, media, begin, template, end string }{
		{"Ollama", "application/x-ndjson", "", ollama, `"done":true,"done_reason":"content_filter"}` + "\n"},
		{"lines", "application/jsonl", "", `{"x":§}` + "\n", ""},
		{"Gemini", "application/json", "[{}\n", gemini, `"finishReason":"SAFETY","index":0}]}]` + "\n"},
		{"values as JSON", "application/json; charset=utf-8", "{\"a\":1}\n{\"a\":2}\n", `{"x":§}` + "\n", ""},
		{"AI SDK", "text/plain; charset=utf-8", "f:{\"messageId\":\"m1\"}\n", "0:§\n", `d:{"finishReason":"content-filter","usage":{"promptTokens":0,"completionTokens":0}}` + "\n"},
		{"events as text", "text/plain", "event: ping\n\n", "data: {\"content\":§}\n\n", "The answer was stopped.\"}}\n\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			app := newStreaming(t, "Content-Type", test.media)
			load(t, streamConfig(t, "moderate_response\n"+app.proxy()))
			go func() {
				if test.begin != "" {
					app.parts <- test.begin
				}
				app.parts <- inLines(test.template, fine+" ")
			}()
			got := read(t, client)
			got.expect(test.begin + inLines(test.template, fine+" "))
			go func() {
				for _, word := range wordsOf(vile + " ") {
					quoted, _ := json.Marshal(word)
					select {
					case app.parts <- strings.ReplaceAll(test.template, "§", string(quoted)):
					case <-app.left:
						return
					}
				}
			}()
			rest, err := io.ReadAll(got.buffered)
			if err != nil || !strings.HasSuffix(string(rest), test.end) ||
				bytes.Contains(rest, []byte(vile[len(vile)-7:len(vile)-3])) {
				t.Errorf("the stream ends with %v, %q, want %q and no vile word", err, rest, test.end)
			}
			app.gone(t)
		})
	}
}

// TestStreamsThatComeAtOnce are moderated as their clients read them: with the words put together.
func TestStreamsThatComeAtOnce(t *testing.T) {
	app := newBackend(t, func(w http.ResponseWriter, r *http.Request) {
		body := r.URL.Query().Get("body")
		w.Header().Set("Content-Type", r.URL.Query().Get("type"))
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		_, _ = io.WriteString(w, body)
	})
	load(t, guardConfig(t, "moderate_response\n"+app.proxy()))
	for _, test := range []struct{ media, template, begin, end string }{
		{"application/json", gemini[1:len(gemini)-1] + ",", "[", "{}]"},
		{"application/json", ollama, "", ""},
		{"application/x-ndjson", ollama, "", ""},
		{"application/x-ndjson", `{"x":§}` + "\n", "", ""},
		{"text/plain", "0:§\n", "", ""},
	} {
		for text, status := range map[string]int{fine: 200, vile: 422} {
			body := test.begin + inLines(test.template, text) + test.end
			got := get2(t, test.media, body)
			if status == 200 && (got.status != 200 || string(got.body) != body) {
				t.Errorf("%s: got %d %s, want 200 as it is", body, got.status, got.body)
			}
			// An answer whose kind is known ends as its clients understand; of another the first words may be out.
			if status != 200 && got.status != status && bytes.Contains(got.body, []byte(`"hit"`)) {
				t.Errorf("%s: got %d %s, want %d", body, got.status, got.body, status)
			}
		}
	}
}

// TestOrdinaryArraysAreHeld though they are sent in pieces: an array whose first elements come whole may be a stream,
// but one that is cut anywhere is not.
func TestOrdinaryArraysAreHeld(t *testing.T) {
	app := newStreaming(t, "Content-Type", "application/json", "Etag", `"x"`)
	load(t, guardConfig(t, "moderate_response\n"+app.proxy()))
	go func() {
		app.parts <- `[{"text":"` + fine + `"},{"te`
		app.parts <- `xt":"` + vile + `"}]`
		close(app.parts)
	}()
	if got := get(t); got.status != http.StatusUnprocessableEntity {
		t.Errorf("got %d %s, want 422", got.status, got.body)
	}
}

// TestRanges of text are answered with all of it, moderated.
func TestRanges(t *testing.T) {
	dir := t.TempDir()
	page := "<!doctype html><p>" + fine + "</p>"
	for name, text := range map[string]string{
		"vile.html": "<p>" + fine + "<p>" + vile, "fine.html": page, "vile.txt": fine + vile, "vile.json": `{"a":"` + vile + `"}`,
		"film.mp4": "\x00\x00\x00\x18ftypmp42" + vile, "code.js": "var x = '" + vile + "'", "sub/fine.html": page, "untyped": vile,
	} {
		_ = os.MkdirAll(filepath.Join(dir, "sub"), 0o755)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	site := "header X-Site 1\nmoderate_response\nroot " + dir + "\nhandle_path /files/* {\nheader +X-Seen {http.request.orig_uri.path}\nrewrite /sub{uri}\nfile_server\n}\nhandle {\nfile_server\n}"
	load(t, guardConfig(t, site))
	for _, test := range []struct {
		path, ranges string
		status       int
		body         string
	}{
		{"/vile.html", "bytes=0-", 422, ""},
		{"/vile.html", "bytes=0-9", 422, ""},
		{"/vile.html", "bytes=0-3,5-9", 422, ""},
		{"/vile.txt", "bytes=-5", 422, ""},
		{"/vile.json", "bytes=2-", 422, ""},
		{"/fine.html", "bytes=0-4", 200, page},
		{"/files/fine.html", "bytes=0-4", 200, page},
		{"/film.mp4", "bytes=4-7", 206, "ftyp"},
		{"/code.js", "bytes=0-2", 206, "var"},
		{"/fine.html", "bytes=9999-", 416, "-"},
	} {
		got := get2path(t, test.path, "Range", test.ranges)
		if got.status != test.status || test.body != "" && test.body != "-" && string(got.body) != test.body || bytes.Contains(got.body, []byte("worthless")) {
			t.Errorf("%s %s: got %d %q, want %d %q", test.path, test.ranges, got.status, got.body, test.status, test.body)
		}
		if seen := got.header.Values("X-Seen"); strings.HasPrefix(test.path, "/files/") && len(seen) != 1 || got.header.Get("X-Site") != "1" {
			t.Errorf("%s: the header is %v, want each field once", test.path, got.header)
		}
		if test.status == 200 && (got.header.Get("Content-Range") != "" || got.header.Get("Content-Length") != fmt.Sprint(len(page))) {
			t.Errorf("%s: the header is %v, want that of the whole", test.path, got.header)
		}
	}
}

// TestRangesOfApps that answer a part whatever they are asked are judged by that part.
func TestRangesOfApps(t *testing.T) {
	asked := 0
	app := newBackend(t, func(w http.ResponseWriter, r *http.Request) {
		asked++
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Content-Range", "bytes 0-99/1000")
		w.WriteHeader(http.StatusPartialContent)
		text, _ := url.QueryUnescape(r.URL.RawQuery)
		_, _ = io.WriteString(w, text)
	})
	load(t, guardConfig(t, "moderate_response\n"+app.proxy()))
	for text, status := range map[string]int{fine: 206, vile: 422} {
		asked = 0
		if got := get2path(t, "/?"+url.QueryEscape(text), "Range", "bytes=0-99"); got.status != status || asked != 2 {
			t.Errorf("%d %q, asked %d times", got.status, got.body, asked)
		}
		asked = 0
		if got := call(t, http.MethodPost, base+"/?"+url.QueryEscape(text), "text/plain", strings.NewReader("x"), "Range", "bytes=0-99"); got.status != status || asked != 1 {
			t.Errorf("%d %q, asked %d times", got.status, got.body, asked)
		}
	}
}

// get2path asks for a path.
func get2path(t testing.TB, path string, headers ...string) reply {
	t.Helper()
	return call(t, http.MethodGet, base+path, "", nil, append([]string{"Accept-Encoding", "identity"}, headers...)...)
}

// TestStreamCountsOnce for an account that several guards count it for.
func TestStreamCountsOnce(t *testing.T) {
	app := newBackend(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, chunkOf(fine)+doneEvent)
	})
	load(t, guardConfig(t, `
	handle /stream {
		route {
			moderate_response {
				account small
				block zorkmid
			}
			moderate_response {
				account small
			}
			`+app.proxy()+`
		}
	}
	handle {
		moderate {
			account small
			enforce_quota
			on_error reject
		}
		respond ok
	}
	moderation_api`))
	inOneMinute()
	// Three a minute are allowed.
	for range 2 {
		if got := call(t, http.MethodGet, base+"/stream", "", nil); got.status != 200 || string(got.body) != chunkOf(fine)+doneEvent {
			t.Fatalf("got %d %s, want 200 and the events", got.status, got.body)
		}
	}
	for _, want := range []int{200, 503} {
		if got := call(t, http.MethodPost, base+"/", "", strings.NewReader(fine), "Content-Type", "text/plain"); got.status != want {
			t.Errorf("%d %s, want %d", got.status, got.body, want)
		}
	}
}
