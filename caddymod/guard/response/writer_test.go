// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package response_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/content"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/extract"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/response"
)

// wordDecider rejects texts with the word "vile", and cannot moderate those with "odd". It notes what it is told.
type wordDecider struct {
	shadow bool
	notes  []string
}

func (d *wordDecider) note(format string, args ...any) {
	d.notes = append(d.notes, fmt.Sprintf(format, args...))
}

func (d *wordDecider) Skip() { d.note("skip") }

func (d *wordDecider) Decide(w *response.Writer, found *extract.Result) {
	vile := false
	for _, p := range found.Pieces {
		vile = vile || strings.Contains(p.Text, "vile")
	}
	d.note("decide vile=%v refuse=%v coverage=%d", vile, found.Refuse != nil, found.Coverage)
	switch {
	case d.shadow:
		w.Pass()
	case vile, found.Refuse != nil:
		w.Replace(refusal)
	default:
		w.Release()
	}
}

func (d *wordDecider) BeginStream() { d.note("begin") }

func (d *wordDecider) Unreadable(w *response.Writer, _ error) {
	d.note("unreadable")
	w.Replace(refusal)
}

func (d *wordDecider) Moderate(text string, _ bool) (bool, error) {
	if strings.Contains(text, "odd") {
		return false, errors.New("odd")
	}
	return !strings.Contains(text, "vile"), nil
}

func (d *wordDecider) Judged([]byte) {}

func (d *wordDecider) EndStream(w *response.Writer, ending response.Ending) {
	d.note("end %d", ending)
	if ending == response.Rejected || ending == response.Unjudged {
		w.Replace(refusal)
	}
}

func (d *wordDecider) SetHeader(header http.Header) { header.Set("X-Decided", "yes") }

var refusal = caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
	w.WriteHeader(http.StatusUnprocessableEntity)
	_, err := io.WriteString(w, "refused")
	return err
})

// step is what an app does to answer.
type step func(w http.ResponseWriter)

func head(name, value string) step {
	return func(w http.ResponseWriter) { w.Header().Set(name, value) }
}
func status(code int) step { return func(w http.ResponseWriter) { w.WriteHeader(code) } }
func say(text string) step { return func(w http.ResponseWriter) { _, _ = io.WriteString(w, text) } }
func copied(text string) step {
	return func(w http.ResponseWriter) { _, _ = io.Copy(w, strings.NewReader(text)) }
}
func flush(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }
func abort(http.ResponseWriter)   { panic(http.ErrAbortHandler) }

// zipped writes a text under gzip.
func zipped(text string) step {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = io.WriteString(z, text)
	_ = z.Close()
	return say(b.String())
}

// recorder is a client that tells informational statuses from the final one.
type recorder struct{ *httptest.ResponseRecorder }

func (r recorder) WriteHeader(status int) {
	if status >= 200 {
		r.ResponseRecorder.WriteHeader(status)
	}
}

// serve lets an app answer a request, and returns what the client sees. aborted says that the answer breaks off.
func serve(
	t *testing.T, o response.Options, d response.Decider, app ...step,
) (got *httptest.ResponseRecorder, aborted bool, err error) {
	t.Helper()
	if err := o.Limits.SetAnswerDefaults(); err != nil {
		t.Fatalf("limits: %v", err)
	}
	o.Selection.Trusted = true
	got = httptest.NewRecorder()
	defer func() {
		if reason := recover(); reason == http.ErrAbortHandler {
			aborted = true
		} else if reason != nil {
			panic(reason)
		}
	}()
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	err = response.Serve(recorder{got}, r, caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
		for _, do := range app {
			do(w)
		}
		return nil
	}), &o, d)
	return got, aborted, err
}

// event is a server-sent event with a text.
func event(text string) string { return "data: {\"text\":\"" + text + "\"}\n\n" }

func TestWriter(t *testing.T) {
	plain, html := head("Content-Type", "text/plain"), head("Content-Type", "text/html")
	events := head("Content-Type", "text/event-stream")
	const decided = "decide vile=%v refuse=%v coverage=%d"
	isFine, isVile := fmt.Sprintf(decided, false, false, 0), fmt.Sprintf(decided, true, false, 0)
	isPartial, isTooLarge := fmt.Sprintf(decided, false, false, 1), fmt.Sprintf(decided, false, true, 0)
	small := response.Options{Limits: extract.Limits{MaxBody: 10}}
	limited := func(overflow extract.Overflow) response.Options {
		return response.Options{Limits: extract.Limits{MaxBody: 10, MaxBodyOverflow: overflow}}
	}
	for _, test := range []struct {
		name    string
		options response.Options
		app     []step
		status  int
		body    string
		notes   string
	}{
		{"fine", small, []step{html, status(201), say("fine")}, 201, "fine", isFine},
		{"vile", small, []step{html, say("vi"), say("le")}, 422, "refused", isVile},
		{"vile, copied", small, []step{html, copied("vile")}, 422, "refused", isVile},
		{"a picture", small, []step{head("Content-Type", "image/png"), say("vile")}, 200, "vile", ""},
		{"a file", small, []step{plain, head("Content-Disposition", "attachment"), say("vile")}, 200, "vile", ""},
		{"a script", small, []step{head("Content-Type", "text/javascript"), say("vile")}, 200, "vile", ""},
		{"no body", small, []step{html, status(204)}, 204, "", ""},
		{"an informational status", small, []step{html, status(103), say("fine")}, 200, "fine", isFine},
		{"a prefix", small, []step{html, say("1234567890vile")}, 200, "1234567890vile", isPartial},
		{"a prefix, in pieces", small, []step{html, say("12345"), say("67890v"), say("ile")}, 200, "1234567890vile", isPartial},
		{"too large to pass", limited(extract.OverflowReject), []step{html, say("1234567890more")}, 422, "refused", isTooLarge},
		{"announced as too large", limited(extract.OverflowPass), []step{html, head("Content-Length", "14"), say("1234567890vile")}, 200, "1234567890vile", "skip"},
		{"compressed", response.Options{}, []step{html, head("Content-Encoding", "gzip"), zipped("vile")}, 422, "refused", isVile},
		{"events", small, []step{events, say(event("One.")), flush, say(event("Two."))}, 200, event("One.") + event("Two."), "begin; end 0"},
		{"vile events", small, []step{events, say(event("One.")), flush, say(event("vile."))}, 200, event("One."), "begin; end 2"},
		{"odd events", small, []step{events, say(event("One.")), flush, say(event("odd."))}, 200, event("One."), "begin; end 2"},
		{"vile text that flows", small, []step{plain, say("vile. "), flush}, 422, "refused", "begin; end 3"},
		{"odd text that flows", small, []step{plain, say("odd. "), flush}, 422, "refused", "begin; end 4"},
		{"compressed events", small, []step{events, head("Content-Encoding", "gzip"), zipped(event("One."))}, 200, event("One."), "begin; end 0"},
		{"events in an unknown encoding", small, []step{events, head("Content-Encoding", "rot13"), say("x")}, 422, "refused", "begin; unreadable"},
		{"text that flows", small, []step{plain, say("One. "), flush, say("Two.")}, 200, "One. Two.", "begin; end 0"},
		{"shadow", response.Options{Shadow: true}, []step{html, say("vile")}, 200, "vile", isVile},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := &wordDecider{shadow: test.options.Shadow}
			got, aborted, err := serve(t, test.options, d, test.app...)
			if err != nil || aborted {
				t.Fatalf("serving: %v, aborted %v", err, aborted)
			}
			if body := got.Body.String(); got.Code != test.status ||
				body != test.body && !strings.HasPrefix(body, test.body) {
				t.Errorf("the client sees %d %q, want %d %q", got.Code, body, test.status, test.body)
			}
			if strings.Contains(got.Body.String(), "vile") && !strings.Contains(test.body, "vile") {
				t.Errorf("the client reads the vile text: %q", got.Body)
			}
			if notes := strings.Join(d.notes, "; "); notes != test.notes {
				t.Errorf("the decider is told %q, want %q", notes, test.notes)
			}
		})
	}
}

// TestWriterHeader sees what is about the app's body go, and what is about its answer stay.
func TestWriterHeader(t *testing.T) {
	app := []step{head("Content-Type", "text/html"), head("Etag", `"x"`), head("Set-Cookie", "a=b"), head("Cache-Control", "max-age=60")}
	got, _, err := serve(t, response.Options{}, new(wordDecider), append(app, say("vile"))...)
	if err != nil || got.Header().Get("Etag") != "" || got.Header().Get("Cache-Control") != "" || got.Header().Get("Set-Cookie") != "a=b" {
		t.Errorf("in place of an answer: %v, %v, want the cookie alone", err, got.Header())
	}
	got, _, err = serve(t, response.Options{}, new(wordDecider), append(app, say("fine"))...)
	if err != nil || got.Header().Get("Etag") != `"x"` || got.Header().Get("X-Decided") != "yes" {
		t.Errorf("of an answer that goes on: %v, %v, want all fields and the decider's", err, got.Header())
	}
}

// TestWriterTrailers sees trailers behind a body that was held, and none in the header.
func TestWriterTrailers(t *testing.T) {
	got, _, err := serve(t, response.Options{}, new(wordDecider),
		head("Content-Type", "text/html"), head("Trailer", "X-Sum"), say("fine"), head("X-Sum", "7"))
	result := got.Result()
	defer result.Body.Close()
	if err != nil || result.Header.Get("X-Sum") != "" || result.Trailer.Get("X-Sum") != "7" {
		t.Errorf("%v: header %v, trailer %v, want X-Sum behind the body only", err, result.Header, result.Trailer)
	}
}

// TestWriterAborts sees an answer break off for the client as it does for the guard.
func TestWriterAborts(t *testing.T) {
	got, aborted, err := serve(t, response.Options{}, new(wordDecider), head("Content-Type", "text/html"), say("fine"), abort)
	var failed caddyhttp.HandlerError
	if aborted || !errors.As(err, &failed) || failed.StatusCode != http.StatusBadGateway || got.Body.Len() > 0 {
		t.Errorf("an answer that was held: aborted %v, %v, %q, want an error with 502", aborted, err, got.Body)
	}
	got, aborted, err = serve(t, response.Options{}, new(wordDecider),
		head("Content-Type", "text/event-stream"), say(event("One.")), flush, abort)
	if !aborted || err != nil || !strings.HasPrefix(got.Body.String(), event("One.")) {
		t.Errorf("a stream: aborted %v, %v, %q, want what came before and an abort", aborted, err, got.Body)
	}
}

// TestWriterAsksForTheWhole sees an app asked again for the whole of what it answers a part of.
func TestWriterAsksForTheWhole(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Range", "bytes=0-3")
	asked := 0
	o := response.Options{Selection: content.Selection{Trusted: true}}
	if err := o.Limits.SetAnswerDefaults(); err != nil {
		t.Fatal(err)
	}
	got := httptest.NewRecorder()
	err := response.Serve(got, r, caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		asked++
		w.Header().Set("Content-Type", "text/html")
		if r.Header.Get("Range") != "" {
			w.Header().Set("Content-Range", "bytes 0-3/7")
			w.WriteHeader(http.StatusPartialContent)
			_, err := io.WriteString(w, "fine")
			return err
		}
		_, err := io.WriteString(w, "fine, or")
		return err
	}), &o, new(wordDecider))
	if err != nil || asked != 2 || got.Code != http.StatusOK || got.Body.String() != "fine, or" || got.Header().Get("Content-Range") != "" {
		t.Errorf("%v: asked %d times, %d %q %v, want the whole", err, asked, got.Code, got.Body, got.Header())
	}
}

// TestForward sees an answer untouched, and the app asked for one without encoding.
func TestForward(t *testing.T) {
	for _, shadow := range []bool{false, true} {
		got, encoding := httptest.NewRecorder(), ""
		r := httptest.NewRequest(http.MethodHead, "/", nil)
		r.Header.Set("Accept-Encoding", "gzip")
		err := response.Forward(got, r, caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
			encoding = r.Header.Get("Accept-Encoding")
			w.Header().Set("Content-Length", "1234")
			return nil
		}), shadow)
		want := map[bool]string{false: "identity", true: "gzip"}[shadow]
		if err != nil || got.Header().Get("Content-Length") != "1234" || encoding != want {
			t.Errorf("shadow %v: %v, %v, the app is asked for %q, want %q", shadow, err, got.Header(), encoding, want)
		}
	}
}
