// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-moderation/caddy-moderation/caddymod/api"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/cors"
)

// ask sends one request to the handler. What the handler leaves to the next one is answered 418 when next answers, else
// with nothing.
func ask(t *testing.T, handler *api.API, next bool, method, target, body string,
	headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	request := httptest.NewRequest(method, target, strings.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	ctx := context.WithValue(request.Context(), caddyhttp.VarsCtxKey, map[string]any{})
	w := httptest.NewRecorder()
	other := caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
		if next {
			w.WriteHeader(http.StatusTeapot)
		}
		return nil
	})
	err := handler.ServeHTTP(w, request.WithContext(ctx), other)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestRoutes: every operation is at its addresses, and nothing is anywhere else.
func TestRoutes(t *testing.T) { // not in parallel: making a context of Caddy writes to a variable of its package
	handler := &api.API{BasePath: "/m", ScoringPath: "perspective"}
	key := start(t, t.TempDir(), handler)
	const (
		analyze    = `{"comment":{"text":"hello"},"requestedAttributes":{"TOXICITY":{}}}`
		suggest    = `{"comment":{"text":"hello"},"attributeScores":{"TOXICITY":{"summaryScore":{}}}}`
		google     = `"status":"NOT_FOUND"`
		ours       = `"code":"not_found"`
		documented = `"rootUrl": "http://example.com/m`
	)
	rows := []struct {
		method, path, body string
		status             int
		contains           string
	}{
		{"POST", "/m/v1/moderate/text", `{"content":"hello"}`, 200, `"flagged"`},
		{"GET", "/m/v1/usage", ``, 200, `"current_period"`},
		{"POST", "/m/v1/moderations", `{"input":"hello"}`, 200, `"category_scores"`},
		{"POST", "/m/v1//moderations", `{"input":"hello"}`, 200, `"category_scores"`},
		{"POST", "/m/v1alpha1/comments:analyze", analyze, 200, `"summaryScore"`},
		{"POST", "/m/v1alpha1/comments%3Aanalyze", analyze, 200, `"summaryScore"`},
		{"POST", "/m/api/perspective/v1alpha1/comments:analyze", analyze, 200, `"summaryScore"`},
		{"POST", "/m/v1alpha1/comments:suggestscore", suggest, 200, `{}`},
		{"POST", "/m/api/perspective/v1alpha1/comments:suggestscore", suggest, 200, `{}`},
		{"GET", "/m/$discovery/rest?version=v1alpha1", ``, 200, documented + `/"`},
		{"GET", "/m/api/perspective/$discovery/rest?version=v1alpha1", ``, 200, documented + `/api/perspective/"`},
		{"GET", "/m/$discovery/rest?version=v2", ``, 404, google},
		{"GET", "/m/openapi.json", ``, 200, `"openapi"`},

		{"POST", "/m/v1alpha1/comments:analyse", analyze, 404, google},
		{"GET", "/m/$discovery/apis", ``, 404, google},
		{"POST", "/m/api/perspective/comments:analyze", analyze, 404, google},
		{"POST", "/m/api/v1alpha1/comments:analyze", analyze, 404, google},
		{"POST", "/m/v1/moderate", ``, 404, ours},
		{"POST", "/m/x/v1/moderations", `{"input":"hello"}`, 404, ours},
		{"POST", "/m/moderations", `{"input":"hello"}`, 404, ours},
		{"POST", "/m/comments:analyze", analyze, 404, google},
		{"POST", "/v1alpha1/comments:analyze", analyze, 404, google},
		{"GET", "/$discovery/rest", ``, 200, ``},
		{"POST", "/m/api/other/v1alpha1/comments:analyze", analyze, 404, google},
		{"POST", "/m/api/other/v1alpha1/anything", analyze, 404, ours},
		{"GET", "/m/nothing", ``, 404, "/m/openapi.json says what there is"},
		{"GET", "/m/health", ``, 404, ours},
		{"POST", "/m/", ``, 404, ours},
		{"GET", "/m/", ``, 200, "curl http://example.com/m/v1/moderate/text"},
		{"GET", "/m", ``, 200, "also below /m/api/perspective/"},
		{"HEAD", "/m/", ``, 200, ``},
		{"GET", "/", ``, 200, ``},
		{"GET", "/mm", ``, 200, ``},
		{"GET", "/mm/v1/usage", ``, 200, ``},
	}
	for _, row := range rows {
		t.Run(row.method+" "+row.path, func(t *testing.T) {
			t.Parallel()
			got := ask(t, handler, false, row.method, row.path, row.body, "Authorization", "Bearer "+key)
			if got.Code != row.status || !strings.Contains(got.Body.String(), row.contains) || row.contains == "" && got.Body.Len() > 0 {
				t.Errorf("answered %d %s, want %d with %s", got.Code, got.Body, row.status, row.contains)
			}
		})
	}
	for _, path := range []string{"/m/$discovery/apis", "/m/", "/m", "/m/nothing", "/other"} {
		if got := ask(t, handler, true, "GET", path, ""); got.Code != http.StatusTeapot {
			t.Errorf("%s: the next handler's answer is replaced: %d %s", path, got.Code, got.Body)
		}
	}
}

// TestIndexListsTheRoutes guards against a page that names routes that there are not, and against one that repeats what
// a client sent where a shell would run it.
func TestIndexListsTheRoutes(t *testing.T) {
	// Not in parallel: making a context of Caddy writes to a variable of its package.
	handler := new(api.API)
	key := start(t, t.TempDir(), handler)
	page := ask(t, handler, false, "GET", "/", "")
	named := regexp.MustCompile(`(?m)^(GET|POST) +(\S+)`).FindAllStringSubmatch(page.Body.String(), -1)
	if page.Code != http.StatusOK || page.Header().Get("Cache-Control") != "no-store" || len(named) != 7 {
		t.Fatalf("answered %d %v %s, want the 7 routes", page.Code, page.Header(), page.Body)
	}
	for _, route := range named {
		got := ask(t, handler, false, route[1], route[2], "{}", "Authorization", "Bearer "+key)
		if got.Code == http.StatusNotFound || got.Code == http.StatusMethodNotAllowed {
			t.Errorf("%s %s is on the page and answered %d", route[1], route[2], got.Code)
		}
	}
	got := ask(t, handler, false, "GET", "http://a$(reboot)b/", "").Body.String()
	if strings.Contains(got, "reboot") || !strings.Contains(got, "curl /v1/moderate/text") {
		t.Errorf("for a host that is a command: got %s, want a page without it", got)
	}
}

// TestRoutesCORS: the origins hold for all operations, and for nothing that is not of this service.
func TestRoutesCORS(t *testing.T) {
	handler := &api.API{CORSOrigins: cors.Origins{"https://www.example.com"}}
	start(t, t.TempDir(), handler)
	for _, path := range []string{
		"/v1/moderate/text", "/v1/usage", "/v1/moderations", "/v1alpha1/comments:analyze", "/v1alpha1/comments:suggestscore", "/$discovery/rest", "/openapi.json",
	} {
		got := ask(t, handler, true, "OPTIONS", path, "", "Origin", "https://www.example.com", "Access-Control-Request-Method", "POST")
		if got.Code != http.StatusNoContent || got.Header().Get("Access-Control-Allow-Origin") == "" {
			t.Errorf("%s: preflight is answered %d %v", path, got.Code, got.Header())
		}
	}
	got := ask(t, handler, true, "OPTIONS", "/other", "", "Origin", "https://www.example.com", "Access-Control-Request-Method", "POST")
	if got.Code != http.StatusTeapot || got.Header().Get("Vary") != "" {
		t.Errorf("another path is answered %d %v", got.Code, got.Header())
	}
}
