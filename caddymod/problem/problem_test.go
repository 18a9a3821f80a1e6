// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package problem_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/caddymod/problem"
)

// TestWire is the golden test of the body and the header fields.
func TestWire(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		problem problem.Problem
		status  int
		want    string
	}{
		{"a code alone", problem.Problem{Code: problem.Starting}, 503,
			`{"type":"urn:caddy-moderation:problem:starting","title":"The service is starting","status":503,"detail":"The service is starting","instance":"mod_x","code":"starting"}`},
		{"with members", problem.Problem{Code: problem.InvalidRequest, Detail: "2 members break rules.", Errors: []problem.FieldError{{Pointer: "/content", Detail: "a"}, {Pointer: "/themes/0", Detail: "b"}}}, 400,
			`{"type":"urn:caddy-moderation:problem:invalid_request","title":"The request breaks a rule","status":400,"detail":"2 members break rules.","instance":"mod_x","code":"invalid_request","errors":[{"pointer":"/content","detail":"a"},{"pointer":"/themes/0","detail":"b"}]}`},
		{"of the registry", problem.Problem{Code: problem.RateLimitExceeded, Detail: "Slow down.", Violated: []string{"minute"}}, 429,
			`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"The rate limit is used up","status":429,"detail":"Slow down.","instance":"mod_x","code":"rate_limit_exceeded","violated-policies":["minute"]}`},
		{"with broken UTF-8", problem.Problem{Code: problem.MalformedJSON, Detail: "a\xffb"}, 400,
			`{"type":"urn:caddy-moderation:problem:malformed_json","title":"The body is not a well-formed JSON object","status":400,"detail":"a` + "\ufffd" + `b","instance":"mod_x","code":"malformed_json"}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := httptest.NewRecorder()
			problem.Write(w, httptest.NewRequest(http.MethodPost, "/", nil), "mod_x", &test.problem)
			if w.Code != test.status || w.Body.String() != test.want {
				t.Errorf("got %d %s, want %d %s", w.Code, w.Body, test.status, test.want)
			}
			for name, want := range map[string]string{
				"Content-Type": "application/problem+json", "Content-Length": strconv.Itoa(len(test.want)), "Cache-Control": "no-store",
				"X-Content-Type-Options": "nosniff", "X-Request-Id": "mod_x",
			} {
				if got := w.Header().Get(name); got != want {
					t.Errorf("%s is %q, want %q", name, got, want)
				}
			}
		})
	}
}

// TestHeadHasNoBody keeps the length.
func TestHeadHasNoBody(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	problem.Write(w, httptest.NewRequest(http.MethodHead, "/", nil), "mod_x", problem.New(problem.NotFound, ""))
	if w.Body.Len() != 0 || w.Header().Get("Content-Length") == "0" {
		t.Errorf("got header %v and body %q, want the length of a body, and none", w.Header(), w.Body)
	}
}

// TestEveryCodeIsDocumented compares the table with docs/api.md.
func TestEveryCodeIsDocumented(t *testing.T) {
	t.Parallel()
	docs, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	snake := regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)
	for _, code := range problem.Codes() {
		row := "| " + strconv.Itoa(code.Status()) + " | `" + string(code) + "` |"
		if !strings.Contains(string(docs), row) {
			t.Errorf("docs/api.md has no row %q", row)
		}
		if code.Title() == "" || !snake.MatchString(string(code)) || code.Status() < 400 {
			t.Errorf("%s: got title %q and status %d, want a title, a status of 400 or more, and a name in snake_case", code, code.Title(), code.Status())
		}
	}
	if rows := strings.Count(string(docs), "\n| 4") + strings.Count(string(docs), "\n| 5"); rows != len(problem.Codes()) {
		t.Errorf("docs/api.md lists %d codes, there are %d", rows, len(problem.Codes()))
	}
}
