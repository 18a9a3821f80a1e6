// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
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

// upstream is a stand-in for an app behind Caddy: it keeps what arrives, and answers with its name.
type upstream struct {
	*httptest.Server
	mu       sync.Mutex
	arrivals []arrival
}

// newUpstream starts an app. An answer may be given for what the app has kept; by default the app answers "kept by
// <name>".
func newUpstream(t *testing.T, name string, answer http.HandlerFunc) *upstream {
	t.Helper()
	if answer == nil {
		answer = func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "kept by ", name) }
	}
	app := new(upstream)
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
func (a *upstream) address() string { return a.Listener.Addr().String() }

// taken returns what arrived since the last call.
func (a *upstream) taken() []arrival {
	a.mu.Lock()
	defer a.mu.Unlock()
	taken := a.arrivals
	a.arrivals = nil
	return taken
}

// wantNothing fails when something arrived.
func (a *upstream) wantNothing(t *testing.T) {
	t.Helper()
	for _, got := range a.taken() {
		t.Errorf("the app received %s %s: %q", got.method, got.uri, clip(got.body))
	}
}

// want fails unless exactly this body arrived, byte for byte, and returns the header fields it came with.
func (a *upstream) want(t *testing.T, body string) http.Header {
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
	return postWith(t, browser, url, contentType, body, headers...)
}

// postWith posts a body with a client of the test's choice.
func postWith(t *testing.T, client *http.Client, url, contentType, body string, headers ...string) reply {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", contentType)
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := client.Do(request)
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
	if r.status != http.StatusUnprocessableEntity ||
		!strings.HasPrefix(r.header.Get("Content-Type"), "application/problem+json") {
		t.Fatalf("got %d %s %s, want %d and a problem",
			r.status, r.header.Get("Content-Type"), r.body, http.StatusUnprocessableEntity)
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
	if problem.Status != r.status || problem.Code != "content_rejected" ||
		!strings.HasPrefix(problem.Instance, "mod_") || !slices.Contains(problem.Categories, category) {
		t.Errorf("got the problem %s, want content_rejected with an id, for %s", r.body, category)
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
		t.Errorf("got %d %s, want %d with %q", r.status, clip(r.body), status, holds)
	}
}
