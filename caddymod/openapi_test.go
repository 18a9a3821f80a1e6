// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"bytes"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/caddy-moderation/caddy-moderation/caddymod/problem"
)

// contract is the OpenAPI document, ready to check requests and answers against. OpenAPI 3.1 schemas are JSON Schema.
type contract struct {
	document map[string]any
	compiler *jsonschema.Compiler
	schemas  map[string]*jsonschema.Schema
	mu       sync.Mutex
}

var theContract = sync.OnceValue(func() *contract {
	written, err := os.ReadFile("api/openapi.json")
	if err != nil {
		panic(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(written))
	if err != nil {
		panic(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource("https://moderation.example/openapi.json", document); err != nil {
		panic(err)
	}
	return &contract{document: document.(map[string]any), compiler: compiler, schemas: map[string]*jsonschema.Schema{}}
})

// at returns what is at a path of names in the document, with references followed; nil when there is nothing.
func (c *contract) at(names ...string) (found any, pointer string) {
	found, pointer = c.document, ""
	for i, name := range names {
		object, ok := found.(map[string]any)
		if !ok {
			return nil, ""
		}
		found = object[name]
		pointer += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
		for {
			object, ok := found.(map[string]any)
			if !ok {
				break
			}
			reference, ok := object["$ref"].(string)
			if !ok {
				break
			}
			return c.at(append(strings.Split(strings.TrimPrefix(reference, "#/"), "/"), names[i+1:]...)...)
		}
	}
	return found, pointer
}

// validate checks JSON against the schema at a pointer of the document.
func (c *contract) validate(pointer string, body []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	schema := c.schemas[pointer]
	if schema == nil {
		// In a fragment the escapes of a JSON pointer stand in an address.
		compiled, err := c.compiler.Compile("https://moderation.example/openapi.json#" + strings.ReplaceAll(pointer, "+", "%2B"))
		if err != nil {
			return err
		}
		schema = compiled
		c.schemas[pointer] = schema
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

// operations are the addresses of the operations; more lead to the same one.
func operationOf(path string) string {
	if rest, ok := strings.CutPrefix(path, "/v1/reviews/rev_"); ok {
		_, action, _ := strings.Cut(rest, "/")
		return strings.TrimSuffix("/v1/reviews/{id}/"+action, "/")
	}
	if strings.HasSuffix(path, "/v1alpha1/comments:suggestscore") {
		return "/v1alpha1/comments:suggestscore"
	}
	return path
}

// checkAnswer fails the test unless the answer is one that the document allows for the operation.
func checkAnswer(t testing.TB, method, path string, got reply) {
	t.Helper()
	c := theContract()
	method = strings.ToLower(method)
	if method == "head" {
		return
	}
	item, _ := c.at("paths", operationOf(path))
	if item == nil {
		return
	}
	if operation, _ := c.at("paths", operationOf(path), method); operation == nil {
		// Another method: its refusal is described with the method that there is.
		for other := range item.(map[string]any) {
			method = other
		}
	}
	status := strconv.Itoa(got.status)
	answer, _ := c.at("paths", operationOf(path), method, "responses", status)
	if answer == nil {
		t.Errorf("%s %s: got the status %s with %s, want one that is described", method, path, status, got.body)
		return
	}
	described := answer.(map[string]any)
	if described["content"] == nil && len(got.body) == 0 {
		return // such as a 204
	}
	media, _, _ := strings.Cut(got.header.Get("Content-Type"), ";")
	schema, pointer := c.at("paths", operationOf(path), method, "responses", status, "content", media, "schema")
	if schema == nil {
		t.Errorf("%s %s %s: got the content type %q, want one that is described", method, path, status, media)
		return
	}
	if err := c.validate(pointer, got.body); err != nil {
		t.Errorf("%s %s %s: got a body that is not as described: %v\n%s", method, path, status, err, got.body)
	}
	headers, _ := described["headers"].(map[string]any)
	for name := range headers {
		checkHeader(t, c, name, got.header)
	}
	for _, name := range []string{"Ratelimit", "Ratelimit-Policy", "X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset", "X-Ratelimit-Status"} {
		checkHeader(t, c, name, got.header)
	}
}

// headerSchemas are the schemas of header fields that are worth checking, by their lower-case names.
var headerSchemas = map[string]string{
	"x-request-id": "RequestId", "ratelimit": "RateLimit", "ratelimit-policy": "RateLimitPolicy", "x-ratelimit-limit": "MinuteLimit",
	"x-ratelimit-remaining": "MinuteRemaining", "x-ratelimit-reset": "MinuteReset", "x-ratelimit-status": "CountsStatus", "retry-after": "RetryAfter",
}

var isNumber = regexp.MustCompile(`^[0-9]+$`)

func checkHeader(t testing.TB, c *contract, name string, header http.Header) {
	t.Helper()
	value := header.Get(name)
	if value == "" {
		return
	}
	component, ok := headerSchemas[strings.ToLower(name)]
	if !ok {
		return
	}
	literal := strconv.Quote(value)
	if isNumber.MatchString(value) {
		literal = value
	}
	_, pointer := c.at("components", "headers", component, "schema")
	if err := c.validate(pointer, []byte(literal)); err != nil {
		t.Errorf("header %s %q is not as described: %v", name, value, err)
	}
}

// TestDocumentListsEveryCode keeps the document and the table of codes together.
func TestDocumentListsEveryCode(t *testing.T) {
	listed, _ := theContract().at("components", "schemas", "Problem", "properties", "code", "enum")
	for _, code := range problem.Codes() {
		if !slices.Contains(listed.([]any), any(string(code))) {
			t.Errorf("code %s is not listed", code)
		}
	}
	if len(listed.([]any)) != len(problem.Codes()) {
		t.Errorf("the document lists %d codes, there are %d", len(listed.([]any)), len(problem.Codes()))
	}
}
