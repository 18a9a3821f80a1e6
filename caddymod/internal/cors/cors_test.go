// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package cors_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/cors"
)

func TestServe(t *testing.T) {
	t.Parallel()
	const own, other = "https://www.example.com", "https://evil.example"
	long := strings.Repeat("x-y, ", 300) + "z"
	rows := []struct {
		name             string
		origins          cors.Origins
		method           string
		headers          []string
		answered         bool
		allowed, granted string
		varied           bool
	}{
		{name: "off", method: "OPTIONS", headers: []string{"Origin", own, "Access-Control-Request-Method", "POST"}},
		{name: "no browser", origins: cors.Origins{own}, method: "POST", varied: true},
		{name: "an allowed page", origins: cors.Origins{own}, method: "POST", headers: []string{"Origin", own}, allowed: own, varied: true},
		{name: "another page", origins: cors.Origins{own}, method: "POST", headers: []string{"Origin", other}, varied: true},
		{name: "any page", origins: cors.Origins{"*"}, method: "POST", headers: []string{"Origin", other}, allowed: other, varied: true},
		{name: "a suffix of a host", origins: cors.Origins{"https://example.com"}, method: "POST", headers: []string{"Origin", "https://badexample.com"}, varied: true},
		{name: "a host that goes on", origins: cors.Origins{"https://example.com"}, method: "POST", headers: []string{"Origin", "https://example.com.evil.example"}, varied: true},
		{name: "another scheme", origins: cors.Origins{own}, method: "POST", headers: []string{"Origin", "http://www.example.com"}, varied: true},
		{name: "a sandboxed page", origins: cors.Origins{own}, method: "POST", headers: []string{"Origin", "null"}, varied: true},
		{name: "preflight", origins: cors.Origins{own}, method: "OPTIONS", answered: true, allowed: own, granted: "authorization,content-type", varied: true,
			headers: []string{"Origin", own, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization,content-type"}},
		{name: "preflight of another page", origins: cors.Origins{own}, method: "OPTIONS", answered: true, varied: true,
			headers: []string{"Origin", other, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization"}},
		{name: "preflight with too many headers", origins: cors.Origins{own}, method: "OPTIONS", answered: true, allowed: own, varied: true,
			headers: []string{"Origin", own, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", long}},
		{name: "OPTIONS that is no preflight", origins: cors.Origins{own}, method: "OPTIONS", headers: []string{"Origin", own}, allowed: own, varied: true},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			request := httptest.NewRequest(row.method, "/", nil)
			for i := 0; i < len(row.headers); i += 2 {
				request.Header.Set(row.headers[i], row.headers[i+1])
			}
			w := httptest.NewRecorder()
			if got := row.origins.Serve(w, request); got != row.answered {
				t.Errorf("answered: %v, want %v", got, row.answered)
			}
			header := w.Result().Header
			if row.answered && w.Code != http.StatusNoContent {
				t.Errorf("status %d", w.Code)
			}
			if got := header.Get("Access-Control-Allow-Origin"); got != row.allowed {
				t.Errorf("allows %q, want %q", got, row.allowed)
			}
			if got := header.Get("Access-Control-Allow-Headers"); got != row.granted {
				t.Errorf("grants %q, want %q", got, row.granted)
			}
			if got := strings.Contains(strings.Join(header.Values("Vary"), ","), "Origin"); got != row.varied {
				t.Errorf("Vary is %q", header.Values("Vary"))
			}
			if exposed := header.Get("Access-Control-Expose-Headers"); (exposed != "") != (row.allowed != "") {
				t.Errorf("exposes %q", exposed)
			}
			if header.Get("Access-Control-Allow-Credentials") != "" {
				t.Error("allows credentials")
			}
		})
	}
}

func TestOption(t *testing.T) {
	t.Parallel()
	rows := []struct{ input, want string }{
		{"cors_origins https://a.example http://localhost:3000 *", ""},
		{"cors_origins", "'cors_origins' needs at least 1 argument: cors_origins <origin>..., at Testfile:1"},
		{"cors_origins a.example", `cors_origins: "a.example" is no origin; an origin is a scheme and a host, such as https://www.example.com, or *, at Testfile:1`},
		{"cors_origins https://a.example/", `cors_origins: "https://a.example/" is no origin; an origin is a scheme and a host, such as https://www.example.com, or *, at Testfile:1`},
		{"cors_origins https://u:p@a.example", `cors_origins: "https://u:p@a.example" is no origin; an origin is a scheme and a host, such as https://www.example.com, or *, at Testfile:1`},
		{"cors_origins https://*.example", `cors_origins: "https://*.example" is no origin; an origin is a scheme and a host, such as https://www.example.com, or *, at Testfile:1`},
		{"cors_origins * {\nx\n}", "'cors_origins' takes no block, at Testfile:2"},
	}
	for _, row := range rows {
		t.Run(row.input, func(t *testing.T) {
			t.Parallel()
			var origins cors.Origins
			d := caddyfile.NewTestDispenser(row.input)
			d.Next()
			err := cors.Option(&origins).Parse(d)
			switch {
			case row.want == "" && err != nil:
				t.Errorf("got error %v, want none", err)
			case row.want != "" && (err == nil || err.Error() != row.want):
				t.Errorf("error %v, want %s", err, row.want)
			}
		})
	}
}

// TestShow checks what a page of another origin may read of an answer that replaces one of the upstream.
func TestShow(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, origin, set  string
		origins            cors.Origins
		allow, credentials string
	}{
		{"named", "https://a.example", "", cors.Origins{"https://a.example"}, "https://a.example", "true"},
		{"another", "https://b.example", "", cors.Origins{"https://a.example"}, "", ""},
		{"any", "https://b.example", "", cors.Origins{"*"}, "*", ""},
		{"named beside any", "https://a.example", "", cors.Origins{"*", "https://a.example"}, "https://a.example", "true"},
		{"no page", "", "", cors.Origins{"*"}, "", ""},
		{"none", "https://a.example", "", nil, "", ""},
		{"set by the site", "https://a.example", "https://c.example", cors.Origins{"*"}, "https://c.example", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", nil)
			if test.origin != "" {
				r.Header.Set("Origin", test.origin)
			}
			if test.set != "" {
				w.Header().Set("Access-Control-Allow-Origin", test.set)
			}
			test.origins.Show(w, r)
			header := w.Header()
			if header.Get("Access-Control-Allow-Origin") != test.allow || header.Get("Access-Control-Allow-Credentials") != test.credentials ||
				(len(test.origins) > 0 && test.set == "") != (header.Get("Vary") == "Origin") {
				t.Errorf("got header %v, want Access-Control-Allow-Origin %q, -Credentials %q, and Vary unless the site has set the origin",
					header, test.allow, test.credentials)
			}
		})
	}
}
