// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/caddymod/problem"
)

// textBody is a request body with the given content and themes.
func textBody(t testing.TB, content string, themes ...string) string {
	t.Helper()
	request := map[string]any{"content": content}
	if themes != nil {
		request["themes"] = themes
	}
	body, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// problemOf reads an answer as a problem and checks what all problems have in common.
func problemOf(t testing.TB, got reply) (p struct {
	Type, Title, Detail, Instance, Code string
	Status                              int
	Errors                              []problem.FieldError
}) {
	t.Helper()
	got.decodeJSON(t, &p)
	if p.Status != got.status || p.Instance != got.header.Get("X-Request-Id") || p.Instance == "" {
		t.Errorf("the problem does not fit its answer: %d %v %s", got.status, got.header, got.body)
	}
	if got.header.Get("Content-Type") != "application/problem+json" || got.header.Get("Cache-Control") != "no-store" ||
		got.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("fields of a problem are missing: %v", got.header)
	}
	return p
}

// themes returns n different themes.
func themes(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("theme %d", i)
	}
	return all
}

// TestOddBodies sends bodies at and beyond the edges of the interface.
func TestOddBodies(t *testing.T) {
	load(t, siteConfig(t.TempDir(), "", "moderation_api"))
	theme100, theme101 := strings.Repeat("𝒳", 100), strings.Repeat("𝒳", 101)
	deep := strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000)
	for _, test := range []struct {
		name, body string
		status     int
		code       problem.Code
		pointers   string // of the problem's errors
	}{
		{"10,000 characters of four bytes", textBody(t, strings.Repeat("😀", 10_000)), 200, "", ""},
		{"10,000 characters, each escaped as a surrogate pair", `{"content":"` + strings.Repeat(`\ud83d\ude00`, 10_000) + `"}`, 200, "", ""},
		{"10,001 characters of four bytes", textBody(t, strings.Repeat("😀", 10_001)), 400, problem.InvalidRequest, "/content"},
		{"10,001 characters of one byte", textBody(t, strings.Repeat("a", 10_001)), 400, problem.InvalidRequest, "/content"},
		{"one character", textBody(t, "a"), 200, "", ""},
		{"10 themes", textBody(t, "text", themes(10)...), 200, "", ""},
		{"11 themes", textBody(t, "text", themes(11)...), 400, problem.InvalidRequest, "/themes"},
		{"no themes", textBody(t, "text", []string{}...), 200, "", ""},
		{"an empty array of themes", `{"content":"text","themes":[]}`, 200, "", ""},
		{"the same theme twice", textBody(t, "text", "war", "war"), 200, "", ""},
		{"a theme of 100 characters", textBody(t, "text", theme100), 200, "", ""},
		{"a theme of 101 characters", textBody(t, "text", "fine", theme101), 400, problem.InvalidRequest, "/themes/1"},
		{"an empty theme", textBody(t, "text", "fine", ""), 400, problem.InvalidRequest, "/themes/1"},
		{"a blank theme", textBody(t, "text", " \u00a0\u2003"), 400, problem.InvalidRequest, "/themes/0"},
		{"a number as theme", `{"content":"text","themes":[1]}`, 400, problem.InvalidRequest, "/themes/0"},
		{"a text as themes", `{"content":"text","themes":"war"}`, 400, problem.InvalidRequest, "/themes"},
		{"null as themes", `{"content":"text","themes":null}`, 400, problem.InvalidRequest, "/themes"},
		{"null as a theme", `{"content":"text","themes":[null]}`, 400, problem.InvalidRequest, "/themes/0"},
		{"an explanation", `{"content":"text","explain":true}`, 200, "", ""},
		{"no explanation", `{"explain":false,"content":"text"}`, 200, "", ""},
		{"null as explain", `{"content":"text","explain":null}`, 400, problem.InvalidRequest, "/explain"},
		{"a text as explain", `{"content":"text","explain":"true"}`, 400, problem.InvalidRequest, "/explain"},
		{"a number as explain", `{"content":"text","explain":1}`, 400, problem.InvalidRequest, "/explain"},
		{"an object as explain, and no content", `{"explain":{"explain":true}}`, 400, problem.InvalidRequest, "/explain /content"},
		{"explain twice", `{"content":"text","explain":true,"explain":true}`, 400, problem.MalformedJSON, "/explain"},
		{"explain cut short", `{"content":"text","explain":tru}`, 400, problem.MalformedJSON, "?"},
		{"empty content", `{"content":""}`, 400, problem.InvalidRequest, "/content"},
		{"blank content", `{"content":" \t\n\u00a0\u3000"}`, 400, problem.InvalidRequest, "/content"},
		{"no content", `{}`, 400, problem.InvalidRequest, "/content"},
		{"null content", `{"content":null}`, 400, problem.InvalidRequest, "/content"},
		{"a number as content", `{"content":5}`, 400, problem.InvalidRequest, "/content"},
		{"an object as content", `{"content":{"content":"text"}}`, 400, problem.InvalidRequest, "/content"},
		{"all rules broken at once", `{"content":7,"themes":["",8]}`, 400, problem.InvalidRequest, "/content /themes/0 /themes/1"},
		{"a name in other case", `{"Content":"text"}`, 400, problem.InvalidRequest, "/content"},
		{"a name with escapes", `{"\u0063ontent":"text"}`, 200, "", ""},
		{"unknown members", `{"model":{"a":[1,2]},"content":"text","x":null}`, 200, "", ""},
		{"an array", `[{"content":"text"}]`, 400, problem.InvalidRequest, ""},
		{"a text", `"text"`, 400, problem.InvalidRequest, ""},
		{"null", `null`, 400, problem.InvalidRequest, ""},
		{"nothing", ``, 400, problem.MalformedJSON, ""},
		{"white space", " \n", 400, problem.MalformedJSON, ""},
		{"a duplicate member", `{"content":"a","content":"b"}`, 400, problem.MalformedJSON, "/content"},
		{"a duplicate member by escapes", `{"content":"a","cont\u0065nt":"b"}`, 400, problem.MalformedJSON, "/content"},
		{"a duplicate unknown member", `{"content":"a","x":{"y":1,"y":2}}`, 400, problem.MalformedJSON, "/x/y"},
		{"broken UTF-8 in the content", "{\"content\":\"a\xffb\"}", 400, problem.MalformedJSON, ""},
		{"broken UTF-8 in an unknown member", "{\"content\":\"a\",\"x\":\"\xc3\"}", 400, problem.MalformedJSON, ""},
		{"a lone surrogate", `{"content":"\ud83d"}`, 400, problem.MalformedJSON, "/content"},
		{"surrogates in the wrong order", `{"content":"\ude00\ud83d"}`, 400, problem.MalformedJSON, "/content"},
		{"a NUL character", `{"content":"a\u0000b"}`, 200, "", ""},
		{"a raw control character", "{\"content\":\"a\x01b\"}", 400, problem.MalformedJSON, "/content"},
		{"something behind the object", `{"content":"a"} x`, 400, problem.MalformedJSON, ""},
		{"two objects", `{"content":"a"}{"content":"b"}`, 400, problem.MalformedJSON, ""},
		{"an object cut short", `{"content":"a"`, 400, problem.MalformedJSON, ""},
		{"a comment", `{"content":"a"/* x */}`, 400, problem.MalformedJSON, ""},
		{"a comma too many", `{"content":"a",}`, 400, problem.MalformedJSON, ""},
		{"a byte order mark", "\ufeff{\"content\":\"a\"}", 400, problem.MalformedJSON, ""},
		{"deep nesting", `{"content":"a","x":` + deep + `}`, 400, problem.MalformedJSON, "?"},
		{"a number out of range in an unknown member", `{"content":"a","x":1e999}`, 200, "", ""},
		{"a body of 256 KiB", `{"content":"a","x":"` + strings.Repeat("x", 256<<10-22) + `"}`, 200, "", ""},
		{"a body of 256 KiB and a byte", `{"content":"a","x":"` + strings.Repeat("x", 256<<10-21) + `"}`, 413, problem.BodyTooLarge, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := moderate(t, acmeKey, test.body)
			if got.status != test.status {
				t.Fatalf("got %d %.300s, want %d", got.status, got.body, test.status)
			}
			// What the service takes and refuses is what the document says.
			_, schema := theContract().at("paths", "/v1/moderate/text", "post", "requestBody", "content", "application/json", "schema")
			described := theContract().validate(schema, []byte(test.body)) == nil
			if wellFormed := test.code != problem.MalformedJSON && test.code != problem.BodyTooLarge; wellFormed &&
				described != (test.status == http.StatusOK) {
				t.Errorf("got %d, valid by the document: %v; want these to agree", got.status, described)
			}
			if test.status == http.StatusOK {
				var sent, result struct {
					ID, Content string
					Usage       struct{ Characters int }
				}
				got.decodeJSON(t, &result)
				if err := json.Unmarshal([]byte(test.body), &sent); err != nil {
					t.Fatal(err)
				}
				if result.Content != sent.Content || result.Usage.Characters != len([]rune(sent.Content)) {
					t.Error("the content is not echoed or not counted as it was sent")
				}
				if result.ID != got.header.Get("X-Request-Id") {
					t.Errorf("id %s, X-Request-Id %s", result.ID, got.header.Get("X-Request-Id"))
				}
				return
			}
			p := problemOf(t, got)
			if p.Code != string(test.code) {
				t.Errorf("code %s, want %s: %s", p.Code, test.code, p.Detail)
			}
			var pointers []string
			for _, e := range p.Errors {
				pointers = append(pointers, e.Pointer)
			}
			if joined := strings.Join(pointers, " "); joined != test.pointers && test.pointers != "?" {
				t.Errorf("pointers %q, want %q", joined, test.pointers)
			}
		})
	}
}

// TestOddRequests sends what is not about the body's JSON.
func TestOddRequests(t *testing.T) {
	load(t, siteConfig(t.TempDir(), "", "moderation_api /mod {\n scoring_path perspective\n }\n moderation_api"))
	body := `{"content":"text"}`
	zipped := func(s string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = io.WriteString(z, s)
		_ = z.Close()
		return b.String()
	}
	wrongKey := "mod_sk_wrong6789abcdefghijklmnopqrstuv"
	for _, test := range []struct {
		name, method, path, key, body string
		headers                       []string
		status                        int
		code                          problem.Code
		want                          string // "Name: value" of a header field, value "" = absent
	}{
		{"plain", "POST", "/v1/moderate/text", acmeKey, body, nil, 200, "", "Cache-Control: no-store"},
		{"below a base path", "POST", "/mod/v1/moderate/text", acmeKey, body, nil, 200, "", ""},
		{"with a charset", "POST", "/v1/moderate/text", acmeKey, body, []string{"Content-Type", "application/json; charset=UTF-8"}, 200, "", ""},
		{"with another charset", "POST", "/v1/moderate/text", acmeKey, body, []string{"Content-Type", "application/json; charset=latin1"}, 415, problem.UnsupportedMediaType, "Accept-Post: application/json"},
		{"as a form", "POST", "/v1/moderate/text", acmeKey, body, []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, problem.UnsupportedMediaType, "Accept-Post: application/json"},
		{"without a type", "POST", "/v1/moderate/text", acmeKey, body, []string{"Content-Type", ""}, 415, problem.UnsupportedMediaType, ""},
		{"gzip", "POST", "/v1/moderate/text", acmeKey, zipped(body), []string{"Content-Encoding", "gzip"}, 200, "", ""},
		{"broken gzip", "POST", "/v1/moderate/text", acmeKey, body, []string{"Content-Encoding", "gzip"}, 400, problem.IncompleteBody, ""},
		{"gzip bomb", "POST", "/v1/moderate/text", acmeKey, zipped(strings.Repeat(" ", 50<<20) + body), []string{"Content-Encoding", "gzip"}, 413, problem.BodyTooLarge, ""},
		{"brotli", "POST", "/v1/moderate/text", acmeKey, body, []string{"Content-Encoding", "br"}, 415, problem.UnsupportedEncoding, "Accept-Encoding: gzip, identity"},
		{"no key", "POST", "/v1/moderate/text", "", body, nil, 401, problem.MissingKey, `WWW-Authenticate: Bearer realm="moderation"`},
		{"a wrong key", "POST", "/v1/moderate/text", wrongKey, body, nil, 401, problem.InvalidKey, `WWW-Authenticate: Bearer realm="moderation", error="invalid_token"`},
		{"a key of another shape", "POST", "/v1/moderate/text", "x", body, nil, 401, problem.InvalidKey, `WWW-Authenticate: Bearer realm="moderation", error="invalid_token"`},
		{"a very long key", "POST", "/v1/moderate/text", strings.Repeat("k", 5000), body, nil, 401, problem.InvalidKey, ""},
		{"a key in the address alone", "POST", "/v1/moderate/text?key=" + acmeKey, "", body, nil, 401, problem.MissingKey, ""},
		{"a key in both places", "POST", "/v1/moderate/text?key=" + wrongKey, acmeKey, body, nil, 200, "", ""},
		{"another scheme", "POST", "/v1/moderate/text", "", body, []string{"Authorization", "Basic eDp5"}, 400, problem.MalformedCredentials, `WWW-Authenticate: Bearer realm="moderation", error="invalid_request"`},
		{"GET on a POST route", "GET", "/v1/moderate/text", acmeKey, "", nil, 405, problem.MethodNotAllowed, "Allow: POST"},
		{"GET on a POST route without a key", "GET", "/v1/moderate/text", "", "", nil, 401, problem.MissingKey, ""},
		{"POST on a GET route", "POST", "/v1/usage", acmeKey, body, nil, 405, problem.MethodNotAllowed, "Allow: GET, HEAD"},
		{"usage", "GET", "/v1/usage", acmeKey, "", nil, 200, "", "RateLimit: "},
		{"usage without a key", "GET", "/v1/usage", "", "", nil, 401, problem.MissingKey, ""},
		{"a trailing slash", "POST", "/v1/moderate/text/", acmeKey, body, nil, 404, problem.NotFound, ""},
		{"an unknown operation", "POST", "/v1/moderate/image", acmeKey, body, nil, 404, problem.NotFound, ""},
		{"an encoded path", "POST", "/v1/moderate/%74ext", acmeKey, body, nil, 200, "", ""},
		{"the description", "GET", "/openapi.json", "", "", nil, 200, "", "Content-Type: application/json"},
		{"the description below the base path", "GET", "/mod/openapi.json", "", "", nil, 200, "", ""},
		{"POST on the description", "POST", "/openapi.json", "", "", nil, 405, problem.MethodNotAllowed, "Allow: GET, HEAD"},
	} {
		t.Run(test.name, func(t *testing.T) {
			headers := append([]string{"Content-Type", "application/json"}, test.headers...)
			got := call(t, test.method, base+test.path, test.key, strings.NewReader(test.body), headers...)
			if got.status != test.status {
				t.Fatalf("got %d %.300s, want %d", got.status, got.body, test.status)
			}
			if name, value, ok := strings.Cut(test.want, ": "); ok && got.header.Get(name) != value {
				t.Errorf("the header field %s: got %q, want %q", name, got.header.Get(name), value)
			}
			if test.code == "" {
				return
			}
			if p := problemOf(t, got); p.Code != string(test.code) {
				t.Errorf("code %s, want %s: %s", p.Code, test.code, p.Detail)
			}
			for _, secret := range []string{acmeKey, wrongKey} {
				if bytes.Contains(got.body, []byte(secret)) {
					t.Errorf("the answer holds a key: %s", got.body)
				}
			}
		})
	}
}

// TestHeadOnUsage has no body, and the length of the one that GET would have.
func TestHeadOnUsage(t *testing.T) {
	load(t, siteConfig(t.TempDir(), "", "moderation_api"))
	got := call(t, http.MethodHead, base+"/v1/usage", acmeKey, nil)
	if got.status != http.StatusOK || len(got.body) != 0 || got.header.Get("Content-Length") == "" {
		t.Errorf("got %d %v %q, want %d without a body and with a length",
			got.status, got.header, got.body, http.StatusOK)
	}
}

// raw sends bytes as they are and returns the answer.
func raw(t *testing.T, send func(net.Conn)) reply {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	send(conn)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	return reply{response.StatusCode, response.Header, body}
}

// head is the head of a raw request.
func head(length string) string {
	return "POST /v1/moderate/text HTTP/1.1\r\nHost: localhost:" + port + "\r\nAuthorization: Bearer " + acmeKey +
		"\r\nContent-Type: application/json\r\n" + length + "\r\n\r\n"
}

// TestHugeBodyIsNotRead announces 50 MB and is refused before sending them.
func TestHugeBodyIsNotRead(t *testing.T) {
	load(t, siteConfig(t.TempDir(), "", "moderation_api"))
	got := raw(t, func(conn net.Conn) { _, _ = io.WriteString(conn, head("Content-Length: 52428800")) })
	if got.status != http.StatusRequestEntityTooLarge {
		t.Errorf("got %d %s, want %d", got.status, got.body, http.StatusRequestEntityTooLarge)
	}
	// Chunked, its length cannot be known before: it is refused when the limit is passed.
	got = raw(t, func(conn net.Conn) {
		_, _ = io.WriteString(conn, head("Transfer-Encoding: chunked"))
		chunk := "10000\r\n" + strings.Repeat(" ", 0x10000) + "\r\n"
		for range 5 {
			_, _ = io.WriteString(conn, chunk)
		}
	})
	if got.status != http.StatusRequestEntityTooLarge {
		t.Errorf("got %d %s, want %d", got.status, got.body, http.StatusRequestEntityTooLarge)
	}
}

// TestSlowDripIsCutOff sends a body a byte at a time.
func TestSlowDripIsCutOff(t *testing.T) {
	load(t, siteConfig(t.TempDir(), "", "moderation_api {\n body_timeout 300ms\n }"))
	stop := make(chan struct{})
	defer close(stop)
	got := raw(t, func(conn net.Conn) {
		_, _ = io.WriteString(conn, head("Content-Length: 1000"))
		go func() {
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-stop:
					return
				case <-tick.C:
					if _, err := io.WriteString(conn, " "); err != nil {
						return
					}
				}
			}
		}()
	})
	if got.status != http.StatusRequestTimeout {
		t.Fatalf("got %d %s, want %d", got.status, got.body, http.StatusRequestTimeout)
	}
	if p := problemOf(t, got); p.Code != string(problem.RequestTimeout) {
		t.Errorf("code %s", p.Code)
	}
}

// TestLyingLengthIsIncomplete announces more than it sends.
func TestLyingLengthIsIncomplete(t *testing.T) {
	load(t, siteConfig(t.TempDir(), "", "moderation_api"))
	got := raw(t, func(conn net.Conn) {
		_, _ = io.WriteString(conn, head("Content-Length: 1000")+`{"content":"text"}`)
		_ = conn.(*net.TCPConn).CloseWrite()
	})
	if got.status != http.StatusBadRequest || problemOf(t, got).Code != string(problem.IncompleteBody) {
		t.Errorf("got %d %s, want %d", got.status, got.body, http.StatusBadRequest)
	}
}
