// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestOpenAIThroughCaddy sends one request for each status through a real server. [call] holds the answers against the
// OpenAPI document.
func TestOpenAIThroughCaddy(t *testing.T) {
	load(t, siteConfig(t.TempDir(), "", "moderation_api /base {\n\t\topenai {\n\t\t\tmax_inputs 4\n\t\t\tmax_body 4KiB\n\t\t}\n\t}"))
	post := func(key, path, body string, headers ...string) reply {
		return call(t, http.MethodPost, base+"/base"+path, key, strings.NewReader(body), append([]string{"Content-Type", "application/json"}, headers...)...)
	}
	for _, test := range []struct {
		name   string
		got    reply
		status int
		has    string
	}{
		{"one", post(acmeKey, "/v1/moderations", `{"input":"I will find you and kill you, you worthless piece of shit."}`), 200, `{"flagged":true,`},
		{"several", post(acmeKey, "/v1/moderations", `{"input":["Good morning!","I will find you and kill you."]}`), 200, `"results":[{"flagged":false,`},
		{"a trailing slash", post(acmeKey, "/v1/moderations/", `{"input":"Good morning!"}`), 200, `"flagged":false`},
		{"doubled slashes", post(acmeKey, "/v1//moderations", `{"input":"Good morning!"}`), 200, `"flagged":false`},
		{"too many", post(acmeKey, "/v1/moderations", `{"input":["1","2","3","4","5"]}`), 400, `"array_above_max_length"`},
		{"no key", post("", "/v1/moderations", `{"input":"Good morning!"}`), 401, `"invalid_api_key"`},
		{"another method", call(t, http.MethodGet, base+"/base/v1/moderations", acmeKey, nil), 405, `"method_not_allowed"`},
		{"too large", post(acmeKey, "/v1/moderations", `{"input":"`+strings.Repeat("a", 4096)+`"}`), 413, `"body_too_large"`},
		{"another type", post(acmeKey, "/v1/moderations", `{}`, "Content-Type", "text/plain"), 415, `"unsupported_media_type"`},
		{"more than any minute has room for", post(smallKey, "/v1/moderations", `{"input":["1","2","3","4"]}`), 400, `"array_above_max_length"`},
		{"another address", post(acmeKey, "/v1/moderation", `{"input":"Good morning!"}`), 404, `"not_found"`},
	} {
		if test.got.status != test.status || !bytes.Contains(test.got.body, []byte(test.has)) {
			t.Errorf("%s: got %d %s, want %d with %q", test.name, test.got.status, test.got.body, test.status, test.has)
		}
	}
	got := post(smallKey, "/v1/moderations", `{"input":["1","2"]}`)
	if got.header.Get("X-Ratelimit-Limit-Requests") != "3" ||
		got.header.Get("X-Ratelimit-Remaining-Requests") != "1" ||
		!strings.HasPrefix(got.header.Get("X-Moderation-Model"), "cascade-") {
		t.Errorf("got the header %v, want a limit of 3 with 1 left, and a model", got.header)
	}
	for range 2 { // the second one is for a minute that ends here
		if got = post(smallKey, "/v1/moderations", `{"input":["1","2"]}`); got.status != 200 {
			break
		}
	}
	if got.status != 429 || !bytes.Contains(got.body, []byte(`"rate_limit_exceeded"`)) {
		t.Errorf("more than the minute has left: got %d %s, want 429 with rate_limit_exceeded", got.status, got.body)
	}
}

// TestOpenAIAnswersAreAsDescribed holds the golden exchanges, which come from another classifier, against the document.
func TestOpenAIAnswersAreAsDescribed(t *testing.T) {
	files, err := os.ReadDir("../testdata/openai")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		golden, err := os.ReadFile("../testdata/openai/" + file.Name())
		if err != nil {
			t.Fatal(err)
		}
		_, answer, _ := strings.Cut(string(golden), "\n----------\n")
		head, body, _ := strings.Cut(answer, "\n\n")
		status, fields, _ := strings.Cut(head, "\n")
		schema := "OpenAIError"
		if status == "200" {
			schema = "OpenAIModeration"
			body = strings.ReplaceAll(body, `"modr-..."`, `"modr-000000000000000000000000"`)
		}
		if err := theContract().validate("/components/schemas/"+schema, []byte(body)); err != nil {
			t.Errorf("the reply %s: %v, want it as described", file.Name(), err)
		}
		if described, _ := theContract().at("paths", "/v1/moderations", "post", "responses", status); described == nil || !strings.Contains(fields, "Content-Type: application/json") {
			t.Errorf("the reply %s: got the status %s with %s, want it described", file.Name(), status, fields)
		}
	}
}

// TestOpenAIDocument compares the table of categories in the documentation with what is served.
func TestOpenAIDocument(t *testing.T) {
	load(t, siteConfig(t.TempDir(), "", "moderation_openai\n\trespond app"))
	got := call(t, http.MethodPost, base+"/v1/moderations", acmeKey, strings.NewReader(`{"input":"Good morning!"}`))
	var answer struct {
		Results []struct {
			Applied map[string][]string `json:"category_applied_input_types"`
		}
	}
	got.decodeJSON(t, &answer)
	document, err := os.ReadFile("../docs/openai.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(document), "\n| Category |")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := regexp.MustCompile("(?m)^\\| `([a-z/-]+)` \\| (.*?) \\|").FindAllStringSubmatch(table, -1)
	if len(rows) != 13 || len(answer.Results) != 1 {
		t.Fatalf("got %d rows in the document and the answer %s, want 13 rows and one result", len(rows), got.body)
	}
	for _, row := range rows {
		applied, ok := answer.Results[0].Applied[row[1]]
		if judged := row[2] != "–"; !ok || judged != (len(applied) > 0) {
			t.Errorf("the category %s: got the inputs %v, want what the document says: %q", row[1], applied, row[2])
		}
	}
	if passed := call(t, http.MethodPost, base+"/comments", "", io.NopCloser(strings.NewReader("x"))); string(passed.body) != "app" {
		t.Errorf("another path: got %d %s, want the app's answer", passed.status, passed.body)
	}
}
