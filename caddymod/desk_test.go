// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"golang.org/x/net/html"

	"github.com/caddy-moderation/caddy-moderation/internal/freeport"
	"github.com/caddy-moderation/caddy-moderation/storage"
)

// deskBlock gives roles by a header, which stands for what basic_auth or forward_auth would say.
const deskBlock = ` {
	operator {http.request.header.X-User} alice
	member {http.request.header.X-User} acme:carol small:dan acme:eve small:eve
	reviewer {http.request.header.X-User} erin
}
`

// visit asks for a page as a person. A form makes it a POST of a browser on that page.
func visit(t testing.TB, user, path string, form url.Values, headers ...string) reply {
	t.Helper()
	if user != "" {
		headers = append(headers, "X-User", user)
	}
	if form == nil {
		return call(t, http.MethodGet, base+path, "", nil, headers...)
	}
	headers = append([]string{"Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "same-origin"}, headers...)
	return call(t, http.MethodPost, base+path, "", strings.NewReader(form.Encode()), headers...)
}

// stayPut makes the client of a test show redirects.
func stayPut(t testing.TB) {
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	t.Cleanup(func() { client.CheckRedirect = nil })
}

// deskPaths are pages with the persons who may see them; alice may see all.
var deskPaths = map[string][]string{
	"/desk/accounts/acme":            {"carol", "eve"},
	"/desk/accounts/acme/keys":       {"carol", "eve"},
	"/desk/accounts/acme/playground": {"carol", "eve"},
	"/desk/accounts/acme/history":    {"carol", "eve"},
	"/desk/accounts/acme/thresholds": {"carol", "eve"},
	"/desk/accounts/acme/words":      {"carol", "eve"},
	"/desk/accounts/small":           {"dan", "eve"},
	"/desk/accounts":                 {},
	"/desk/config":                   {},
}

// TestDeskRoles guards against a page that somebody sees without the role, and against one that says which accounts
// there are.
func TestDeskRoles(t *testing.T) {
	stayPut(t)
	load(t, guardConfig(t, "moderation_desk /desk"+deskBlock+"respond next"))
	for path, allowed := range deskPaths {
		for _, user := range []string{"alice", "carol", "dan", "eve", "erin", "mallory", ""} {
			got := visit(t, user, path, nil)
			want := http.StatusForbidden
			switch {
			case user == "alice" || strings.Contains(strings.Join(allowed, " "), user) && user != "":
				want = http.StatusOK
			case user != "mallory" && user != "" && strings.HasPrefix(path, "/desk/accounts/"):
				want = http.StatusNotFound
			}
			if got.status != want {
				t.Errorf("%q at %s: got %d, want %d", user, path, got.status, want)
			}
			if want == http.StatusNotFound {
				none := visit(t, user, strings.Replace(strings.Replace(path, "acme", "no-such", 1), "small", "no-such", 1), nil)
				if string(none.body) != string(got.body) {
					t.Errorf("%q at %s: the answer differs from that about an account that is not there", user, path)
				}
			}
		}
	}
	for user, want := range map[string]string{"carol": "/desk/accounts/acme", "dan": "/desk/accounts/small"} {
		if got := visit(t, user, "/desk/", nil); got.status != http.StatusSeeOther || got.header.Get("Location") != want {
			t.Errorf("%s at the first page: got %d to %q, want %q", user, got.status, got.header.Get("Location"), want)
		}
	}
	if got := visit(t, "eve", "/desk/", nil); !strings.Contains(string(got.body), `href="/desk/accounts/small"`) {
		t.Errorf("a member of two accounts cannot choose: %s", got.body)
	}
	for user, want := range map[string]string{"": "does not know who you are", "mallory": "<code>mallory</code>"} {
		got := string(visit(t, user, "/desk/", nil).body)
		if !strings.Contains(got, want) || !strings.Contains(got, "operator {http.auth.user.id}") {
			t.Errorf("%q: the page does not say how roles are given: %s", user, got)
		}
	}
	// What is not below the path is the next handler's, also where it only begins like it.
	for _, path := range []string{"/", "/desktop", "/des"} {
		if got := visit(t, "alice", path, nil); string(got.body) != "next" {
			t.Errorf("%s: got %.100s, want the next handler", path, got.body)
		}
	}
	if got := visit(t, "alice", "/desk", nil); got.status != http.StatusSeeOther || got.header.Get("Location") != "/desk/" {
		t.Errorf("without the slash: got %d to %q", got.status, got.header.Get("Location"))
	}
}

// TestDeskHeaders guards against pages that are framed, cached or read by others, and against assets that are not kept.
func TestDeskHeaders(t *testing.T) {
	stayPut(t)
	load(t, guardConfig(t, "moderation_desk"+deskBlock))
	for _, path := range []string{"/", "/accounts/acme", "/no/such", "/config"} {
		got := visit(t, "alice", path, nil)
		for name, want := range map[string]string{
			"X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin",
			"Cross-Origin-Opener-Policy": "same-origin", "Cache-Control": "no-store",
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; " +
				"connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
		} {
			if got.header.Get(name) != want {
				t.Errorf("%s: %s is %q, want %q", path, name, got.header.Get(name), want)
			}
		}
		for _, never := range []string{"<style", " style=", " onclick", "http://", "https://"} {
			if strings.Contains(string(got.body), never) {
				t.Errorf("%s: the page has %q", path, never)
			}
		}
		head := call(t, http.MethodHead, base+path, "", nil, "X-User", "alice")
		if head.status != got.status || len(head.body) > 0 || head.header.Get("Content-Length") == "" {
			t.Errorf("HEAD %s: got %d with %d bytes, want %d without", path, head.status, len(head.body), got.status)
		}
	}
	page := visit(t, "alice", "/accounts/acme", nil)
	found := regexp.MustCompile(`(?:href|src)="(/assets/[^"]+)"`).FindAllSubmatch(page.body, -1)
	seen := map[string]bool{}
	for _, match := range found {
		if seen[string(match[1])] {
			continue
		}
		seen[string(match[1])] = true
		asset := visit(t, "", string(match[1]), nil)
		if asset.status != http.StatusOK || !strings.Contains(asset.header.Get("Cache-Control"), "immutable") {
			t.Errorf("%s: got %d %s", match[1], asset.status, asset.header.Get("Cache-Control"))
		}
	}
	if len(seen) != 3 {
		t.Errorf("the overview: got %d assets, want 3", len(seen))
	}
	if got := visit(t, "", "/assets/desk.css", nil); got.status != http.StatusNotFound {
		t.Errorf("an asset without its hash: got %d", got.status)
	}
	for path, allow := range map[string]string{"/accounts": "GET, HEAD, POST", "/config": "GET, HEAD", "/": "GET, HEAD"} {
		got := call(t, http.MethodDelete, base+path, "", nil, "X-User", "alice")
		if got.status != http.StatusMethodNotAllowed || got.header.Get("Allow") != allow {
			t.Errorf("DELETE %s: got %d, Allow %q, want %q", path, got.status, got.header.Get("Allow"), allow)
		}
	}
}

// TestDeskKeys guards against a key that does not work, is shown again, or goes on after it was revoked; and against
// the key of one account in the hands of another.
func TestDeskKeys(t *testing.T) {
	stayPut(t)
	load(t, guardConfig(t, "moderation_desk /desk"+deskBlock+"moderation_api"))
	made := visit(t, "carol", "/desk/accounts/acme/keys", url.Values{"name": {"site"}, "environment": {"test"}})
	secret := regexp.MustCompile(`mod_sk_[0-9A-Za-z]{32}`).FindString(string(made.body))
	if made.status != http.StatusCreated || secret == "" || made.header.Get("Cache-Control") != "no-store" {
		t.Fatalf("making a key: got %d %s", made.status, made.body)
	}
	if !strings.Contains(string(made.body), "curl "+base+"/v1/moderate/text") {
		t.Errorf("no command for this server: %s", made.body)
	}
	if got := moderate(t, secret, `{"content":"hello"}`); got.status != http.StatusOK {
		t.Errorf("with the new key: got %d %s", got.status, got.body)
	}
	list := string(visit(t, "carol", "/desk/accounts/acme/keys", nil).body)
	id := regexp.MustCompile(`keys/(key_[0-9A-Za-z]{16})/revoke`).FindStringSubmatch(list)
	if id == nil || strings.Contains(list, secret) || !strings.Contains(list, "can only be changed there") {
		t.Fatalf("the list: %s", list)
	}
	keyPath := "/keys/" + id[1]
	for _, attempt := range []struct{ user, path string }{
		{"dan", "/desk/accounts/small" + keyPath}, {"dan", "/desk/accounts/acme" + keyPath},
		{"eve", "/desk/accounts/small" + keyPath}, {"alice", "/desk/accounts/small" + keyPath},
	} {
		for _, action := range []string{"/revoke", "/rotate"} {
			for _, form := range []url.Values{nil, {"overlap": {"0"}}} {
				if got := visit(t, attempt.user, attempt.path+action, form); got.status != http.StatusNotFound {
					t.Errorf("%s at %s: got %d, want 404", attempt.user, attempt.path+action, got.status)
				}
			}
		}
	}
	rotated := visit(t, "carol", "/desk/accounts/acme"+keyPath+"/rotate", url.Values{"overlap": {"1h"}})
	second := regexp.MustCompile(`mod_sk_[0-9A-Za-z]{32}`).FindString(string(rotated.body))
	for name, key := range map[string]string{"the old": secret, "the new": second} {
		if got := moderate(t, key, `{"content":"hello"}`); got.status != http.StatusOK {
			t.Errorf("%s key after the rotation: got %d", name, got.status)
		}
	}
	if got := visit(t, "carol", "/desk/accounts/acme"+keyPath+"/rotate", url.Values{"overlap": {"1h"}}); got.status != http.StatusConflict {
		t.Errorf("rotating twice: got %d, want 409", got.status)
	}
	got := visit(t, "carol", "/desk/accounts/acme"+keyPath+"/revoke", url.Values{})
	if got.status != http.StatusSeeOther || got.header.Get("Location") != "/desk/accounts/acme/keys?done=revoked" {
		t.Errorf("revoking: got %d to %q", got.status, got.header.Get("Location"))
	}
	if got := moderate(t, secret, `{"content":"hello"}`); got.status != http.StatusUnauthorized {
		t.Errorf("with the revoked key: got %d, want 401", got.status)
	}
	// Declared keys cannot be changed, whatever is sent.
	declared := regexp.MustCompile(`key_[0-9a-f]{16}`).FindString(list)
	for _, action := range []string{"/revoke", "/rotate"} {
		if got := visit(t, "carol", "/desk/accounts/acme/keys/"+declared+action, url.Values{"overlap": {"0"}}); got.status != http.StatusConflict {
			t.Errorf("a declared key %s: got %d, want 409", action, got.status)
		}
	}
	for _, bad := range []url.Values{
		{"name": {strings.Repeat("a", 201)}}, {"name": {"a\x00b"}}, {"expires": {"soon"}}, {"expires": {"2001-01-01"}}, {"name": {"\xff"}},
	} {
		if got := visit(t, "carol", "/desk/accounts/acme/keys", bad); got.status != http.StatusBadRequest || strings.Contains(string(got.body), "mod_sk_") {
			t.Errorf("%v: got %d, want 400", bad, got.status)
		}
	}
	if got := visit(t, "carol", "/desk/accounts/acme/keys", url.Values{"name": {strings.Repeat("a", 20_000)}}); got.status != http.StatusRequestEntityTooLarge {
		t.Errorf("a large form: got %d, want 413", got.status)
	}
}

// TestDeskKeyCommands runs the command that is shown with a new key, wherever the API stands, and guards against a
// command where there is no API, or none whose address is known.
func TestDeskKeyCommands(t *testing.T) {
	other := freeport.Port()
	for name, test := range map[string]struct {
		// The address of the site, if it is not base; what it has; and other sites.
		at, site, more string
		want           string // the address, empty for none
	}{
		"at the root":         {site: desk + "moderation_api", want: base + "/v1/moderate/text"},
		"with a base path":    {site: desk + "moderation_api /moderation", want: base + "/moderation/v1/moderate/text"},
		"inside handle_path":  {site: desk + "handle_path /api/* {\nmoderation_api\n}", want: base + "/api/v1/moderate/text"},
		"stripped":            {site: desk + "uri /api/* strip_prefix /api\nmoderation_api", want: base + "/api/v1/moderate/text"},
		"both inside":         {site: "handle_path /in/* {\n" + desk + "moderation_api /b\n}", want: base + "/in/b/v1/moderate/text"},
		"inside, with a base": {site: desk + "handle_path /a/* {\nhandle_path /b/* {\nmoderation_api /c\n}\n}", want: base + "/a/b/c/v1/moderate/text"},
		"behind a rewrite":    {site: desk + "handle /check {\nrewrite * /v1/moderate/text\nmoderation_api\n}", want: base + "/check"},
		"of a path":           {site: desk + "@api path /v1/*\nhandle @api {\nmoderation_api\n}\nhandle {\nrespond other\n}", want: base + "/v1/moderate/text"},
		"not the desk's":      {site: desk + "@api not path /desk*\nhandle @api {\nmoderation_api\n}", want: base + "/v1/moderate/text"},
		"invoked": {at: "&(api) {\nmoderation_api\n}\n" + base,
			site: desk + "handle_path /named/* {\ninvoke api\n}", want: base + "/named/v1/moderate/text"},
		"the text alone":     {site: desk + "moderation_text /check", want: base + "/check"},
		"the text, below":    {site: desk + "handle_path /judge/* {\nmoderation_text\n}", want: base + "/judge/v1/moderate/text"},
		"a strange path":     {site: desk + "moderation_api /a&it's", want: "'" + base + "/a&it%27s/v1/moderate/text'"},
		"on another host":    {site: desk, more: "http://api.example:" + port + " {\nmoderation_api /m\n}", want: "http://api.example:" + port + "/m/v1/moderate/text"},
		"on any host":        {at: "http://:" + port, site: desk + "moderation_api", want: base + "/v1/moderate/text"},
		"of this host":       {site: desk + "moderation_api", more: "http://api.example:" + port + " {\nmoderation_api /m\n}", want: base + "/v1/moderate/text"},
		"on another port":    {site: desk, more: "http://:" + other + " {\nmoderation_api\n}", want: "http://localhost:" + other + "/v1/moderate/text"},
		"nowhere":            {site: desk},
		"hidden by others":   {site: desk + "handle /v1/* {\nrespond other\n}\nhandle {\nmoderation_api\n}"},
		"hidden by the desk": {site: "moderation_desk" + deskBlock + "moderation_api"},
		"at no path":         {site: desk + "handle /api/* {\nmoderation_api\n}"},
		"on some host":       {site: desk, more: "http://*.example:" + port + " {\nmoderation_api\n}"},
		"on a socket":        {site: desk, more: "http://api.example {\nbind unix/" + t.TempDir() + "/s\nmoderation_api\n}"},
	} {
		t.Run(name, func(t *testing.T) {
			config := guardConfig(t, test.site) + test.more
			if test.at != "" {
				config = strings.Replace(config, base+" {", test.at+" {", 1)
			}
			load(t, config)
			path := "/desk/accounts/acme/keys"
			if strings.HasPrefix(test.site, "handle_path") {
				path = "/in" + path
			} else if !strings.HasPrefix(test.site, desk) {
				path = "/accounts/acme/keys"
			}
			made := visit(t, "carol", path, url.Values{})
			if made.status != http.StatusCreated {
				t.Fatalf("got %d %s", made.status, made.body)
			}
			text := html.UnescapeString(string(made.body))
			command := regexp.MustCompile(`curl (\S+) \\\n +-H 'Authorization: Bearer (\S+)'`).FindStringSubmatch(text)
			if test.want == "" {
				if command != nil || !strings.Contains(text, "does not tell at which address") ||
					!strings.Contains(text, "mod_sk_") {
					t.Errorf("got %v, want no command: %s", command, text)
				}
				return
			}
			if command == nil || command[1] != test.want {
				t.Fatalf("got %q, want %s", command, test.want)
			}
			at, err := url.Parse(strings.Trim(command[1], "'"))
			if err != nil {
				t.Fatal(err)
			}
			request, err := http.NewRequest(http.MethodPost, at.String(), strings.NewReader(`{"content":"Hello, world"}`))
			if err != nil {
				t.Fatal(err)
			}
			request.Host, request.URL.Host = at.Host, "localhost:"+at.Port()
			request.Header.Set("Authorization", "Bearer "+command[2])
			request.Header.Set("Content-Type", "application/json")
			answer, err := client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
			if answer.StatusCode != http.StatusOK {
				t.Errorf("the command: got %d, want 200", answer.StatusCode)
			}
		})
	}
}

// desk is the directive of a desk below /desk.
const desk = "moderation_desk /desk" + deskBlock

// TestDeskCrossSite guards against forms of other sites that change something with the person's sign-in.
func TestDeskCrossSite(t *testing.T) {
	load(t, guardConfig(t, "moderation_desk"+deskBlock))
	for _, headers := range [][]string{
		{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"},
		{"Sec-Fetch-Site", "", "Origin", "https://evil.example"}, {"Sec-Fetch-Site", "", "Origin", "null"},
		{"Sec-Fetch-Site", "cross-site", "Origin", base},
	} {
		for _, path := range []string{"/accounts", "/accounts/acme", "/accounts/acme/keys", "/accounts/acme/playground"} {
			got := visit(t, "alice", path, url.Values{"id": {"evil"}, "content": {"a"}}, headers...)
			if got.status != http.StatusForbidden || strings.Contains(string(got.body), "mod_sk_") {
				t.Errorf("%s with %v: got %d, want 403", path, headers, got.status)
			}
		}
	}
	if got := visit(t, "alice", "/accounts/evil", nil); got.status != http.StatusNotFound {
		t.Errorf("the account of another site's form: got %d, want 404", got.status)
	}
	got := call(t, http.MethodPost, base+"/accounts", "", strings.NewReader(`{"id":"evil"}`), "X-User", "alice", "Content-Type", "text/plain")
	if got.status != http.StatusUnsupportedMediaType {
		t.Errorf("a form of another type: got %d, want 415", got.status)
	}
	// GET changes nothing, whatever it asks.
	for _, path := range []string{"/accounts?id=evil", "/accounts/acme/keys?name=evil"} {
		if got := visit(t, "alice", path, nil); got.status != http.StatusOK || strings.Contains(string(got.body), "evil</bdi>") {
			t.Errorf("%s: got %d %s", path, got.status, got.body)
		}
	}
}

// zoo are texts that would be markup, scripts or a spoof, if they were not escaped.
var zoo = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onmouseover='alert(1)`, `javascript:alert(1)`,
	"line\u2028and\u2029paragraph", "\u202etxt.exe\u2066", `{{.T "desk"}}${7*7}`, `</textarea></title><svg/onload=alert(1)>`, `&lt;b&gt;`,
}

// strangeMarkup says what an element has that no page has.
func strangeMarkup(node *html.Node) string {
	for _, attribute := range node.Attr {
		switch value := attribute.Val; {
		case strings.HasPrefix(attribute.Key, "on"), attribute.Key == "style":
			return node.Data + " with " + attribute.Key
		case attribute.Key == "src" && !strings.HasPrefix(value, "/assets/"):
			return node.Data + " from " + value
		case (attribute.Key == "href" || attribute.Key == "action") && !strings.HasPrefix(value, "#") &&
			(!strings.HasPrefix(value, "/") || strings.HasPrefix(value, "//")):
			return node.Data + " to " + value
		}
	}
	if node.Data == "script" && node.FirstChild != nil || node.Data == "style" || node.Data == "b" {
		return "an inline " + node.Data
	}
	return ""
}

// TestDeskEscapes guards against names and texts that become markup, wherever they are shown.
func TestDeskEscapes(t *testing.T) {
	load(t, guardConfig(t, "moderation_desk"+deskBlock))
	check := func(what string, got reply, text string) {
		t.Helper()
		document, err := html.Parse(bytes.NewReader(got.body))
		if err != nil {
			t.Fatal(err)
		}
		for node := range document.Descendants() {
			if node.Type == html.ElementNode {
				if strange := strangeMarkup(node); strange != "" {
					t.Errorf("%s: %q becomes %s", what, text, strange)
				}
			}
		}
	}
	for i, text := range zoo {
		id := fmt.Sprint("zoo-", i)
		made := visit(t, "alice", "/accounts", url.Values{"id": {id}, "name": {text}, "tier": {"free"}})
		if made.status != http.StatusOK { // after the redirect
			t.Fatalf("%q: got %d %s", text, made.status, made.body)
		}
		check("the account", made, text)
		check("a new key", visit(t, "alice", "/accounts/"+id+"/keys", url.Values{"name": {text}, "environment": {text}}), text)
		keys := visit(t, "alice", "/accounts/"+id+"/keys", nil)
		check("the keys", keys, text)
		key := regexp.MustCompile(`key_[0-9A-Za-z]{16}`).FindString(string(keys.body))
		check("rotating", visit(t, "alice", "/accounts/"+id+"/keys/"+key+"/rotate", nil), text)
		check("revoking", visit(t, "alice", "/accounts/"+id+"/keys/"+key+"/revoke", nil), text)
		check("a refused key", visit(t, "alice", "/accounts/"+id+"/keys", url.Values{"name": {text}, "environment": {text}, "expires": {text}}), text)
		check("a refused account", visit(t, "alice", "/accounts", url.Values{"id": {text}, "name": {text}, "tier": {text}}), text)
		check("a search", visit(t, "alice", "/accounts?q="+url.QueryEscape(text), nil), text)
		check("what is done", visit(t, "alice", "/accounts/acme?done="+url.QueryEscape(text), nil), text)
		check("a path", visit(t, "alice", "/accounts/"+url.PathEscape(text), nil), text)
		check("a person", visit(t, strings.Map(func(r rune) rune {
			if r > 0x7f {
				return -1
			}
			return r
		}, text), "/", nil), text)
		for _, content := range []string{text, "I will kill you, you idiot. " + text, text + " kill yourself"} {
			got := visit(t, "alice", "/accounts/acme/playground", url.Values{"content": {content}, "themes": {text}})
			check("the playground", got, content)
			if got.status != http.StatusOK {
				t.Errorf("the playground with %q: got %d", content, got.status)
			}
		}
	}
}

// TestDeskPlayground guards against a verdict that is not the API's, and against one that is counted.
func TestDeskPlayground(t *testing.T) {
	load(t, guardConfig(t, "moderation_desk /desk"+deskBlock+"moderation_api"))
	text := "I will find you and kill you, you worthless piece of shit."
	got := visit(t, "carol", "/desk/accounts/acme/playground", url.Values{"content": {text}, "themes": {"bread\r\ncats"}})
	page := string(got.body)
	for _, want := range []string{`badge large reject`, `<mark>`, `data-category="violence"`, "<bdi>bread</bdi>", "not counted and not stored"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q: %s", want, page)
		}
	}
	var verdict struct {
		Result struct {
			Categories map[string]struct{ Probability float64 }
		}
	}
	moderate(t, acmeKey, `{"content":"`+text+`"}`).decodeJSON(t, &verdict)
	want := fmt.Sprintf(`%.1f%%`, 100*verdict.Result.Categories["violence"].Probability)
	if !strings.Contains(page, want) {
		t.Errorf("the API says %s of violence, the page something else", want)
	}
	overview := string(visit(t, "carol", "/desk/accounts/acme", nil).body)
	if !strings.Contains(overview, `<span data-used="period">1</span>`) {
		t.Errorf("after one request of the API and one text in the playground, one must be counted: %s", overview)
	}
	for name, form := range map[string]url.Values{
		"blank": {"content": {" \n"}}, "long": {"content": {strings.Repeat("é", 10_001)}},
		"themes": {"content": {"a"}, "themes": {strings.Repeat("a\n", 11)}}, "a long theme": {"content": {"a"}, "themes": {strings.Repeat("a", 101)}},
	} {
		if got := visit(t, "carol", "/desk/accounts/acme/playground", form); got.status != http.StatusBadRequest {
			t.Errorf("%s: got %d, want 400", name, got.status)
		}
	}
	longest := url.Values{"content": {strings.Repeat("😀", 10_000)}, "themes": {strings.Repeat(strings.Repeat("😀", 100)+"\n", 10)}}
	if got := visit(t, "carol", "/desk/accounts/acme/playground", longest); got.status != http.StatusOK {
		t.Errorf("the longest text: got %d, want 200", got.status)
	}
}

// TestDeskAccounts is what an operator does with accounts.
func TestDeskAccounts(t *testing.T) {
	load(t, guardConfig(t, "moderation_desk /desk"+deskBlock+"moderation_api"))
	if got := visit(t, "alice", "/desk/accounts", url.Values{"id": {"new"}, "name": {"New & Söhne"}, "tier": {"free"}}); !strings.Contains(string(got.body), "New &amp; Söhne") {
		t.Fatalf("creating: got %d %s", got.status, got.body)
	}
	if got := visit(t, "alice", "/desk/accounts", url.Values{"id": {"new"}, "tier": {"free"}}); got.status != http.StatusConflict {
		t.Errorf("creating it again: got %d, want 409", got.status)
	}
	if got := visit(t, "alice", "/desk/accounts?q=S%C3%96H", nil); !strings.Contains(string(got.body), "accounts/new") || strings.Contains(string(got.body), "accounts/acme") {
		t.Errorf("searching: got %s", got.body)
	}
	made := visit(t, "alice", "/desk/accounts/new/keys", url.Values{})
	key := regexp.MustCompile(`mod_sk_[0-9A-Za-z]{32}`).FindString(string(made.body))
	for _, step := range []struct {
		status string
		want   int
	}{{"paused", http.StatusForbidden}, {"active", http.StatusOK}} {
		if got := visit(t, "alice", "/desk/accounts/new", url.Values{"status": {step.status}}); got.status != http.StatusOK {
			t.Errorf("%s: got %d %s", step.status, got.status, got.body)
		}
		if got := moderate(t, key, `{"content":"hello"}`); got.status != step.want {
			t.Errorf("while %s: got %d, want %d", step.status, got.status, step.want)
		}
	}
	visit(t, "alice", "/desk/accounts/new", url.Values{"name": {"Renamed"}, "tier": {"unlimited"}, "status": {"active"}})
	if got := string(visit(t, "alice", "/desk/accounts/new", nil).body); !strings.Contains(got, "Renamed") || !strings.Contains(got, "<bdi>unlimited</bdi>") {
		t.Errorf("after the change: %s", got)
	}
	for what, form := range map[string]url.Values{"a status": {"status": {"sleeping"}}, "a tier": {"tier": {"gold"}}} {
		if got := visit(t, "alice", "/desk/accounts/new", form); got.status != http.StatusBadRequest {
			t.Errorf("%s that is not known: got %d, want 400", what, got.status)
		}
	}
	if got := visit(t, "alice", "/desk/accounts/acme", url.Values{"name": {"x"}}); got.status != http.StatusConflict {
		t.Errorf("a declared account: got %d, want 409", got.status)
	}
	// The list has pages, and each account is on one of them.
	listed := map[string]int{}
	for i := range 60 {
		visit(t, "alice", "/desk/accounts", url.Values{"id": {fmt.Sprintf("many-%02d", i)}, "tier": {"free"}})
	}
	for path, pages := "/desk/accounts?q=many", 0; path != "" && pages < 5; pages++ {
		page := string(visit(t, "alice", path, nil).body)
		for _, match := range regexp.MustCompile(`accounts/(many-\d\d)"`).FindAllStringSubmatch(page, -1) {
			listed[match[1]]++
		}
		next := regexp.MustCompile(`href="([^"]*after=[^"]*)"`).FindStringSubmatch(page)
		if path = ""; next != nil {
			path = strings.ReplaceAll(next[1], "&amp;", "&")
		}
	}
	if len(listed) != 60 || listed["many-49"] != 1 || listed["many-50"] != 1 {
		t.Errorf("the pages list %v", listed)
	}
	home := string(visit(t, "alice", "/desk/", nil).body)
	if !strings.Contains(home, "<dt>Accounts</dt><dd>63</dd>") {
		t.Errorf("the totals: %s", home)
	}
}

// TestDeskTellsNoSecrets guards against keys and hashes in any page.
func TestDeskTellsNoSecrets(t *testing.T) {
	load(t, guardConfig(t, "moderation_desk"+deskBlock))
	for _, path := range []string{"/", "/accounts", "/config", "/accounts/acme", "/accounts/acme/keys", "/accounts/acme/playground"} {
		got := visit(t, "alice", path, nil)
		if got.status != http.StatusOK {
			t.Errorf("%s: got %d", path, got.status)
		}
		for _, secret := range []string{acmeKey, smallKey, hashOf(acmeKey)[len("sha256:"):], hashOf(smallKey)[len("sha256:"):]} {
			if strings.Contains(string(got.body), secret) {
				t.Errorf("%s shows a secret", path)
			}
		}
	}
	if got := string(visit(t, "alice", "/config", nil).body); !strings.Contains(got, "&#34;key&#34;: &#34;***&#34;") || !strings.Contains(got, "&#34;module&#34;: &#34;badger&#34;") {
		t.Errorf("the configuration: %s", got)
	}
}

// TestDeskWithoutStore guards against pages that hang, blame the person or tell strangers why, while the store is gone.
func TestDeskWithoutStore(t *testing.T) {
	load(t, onWaiting(t, "moderation_desk"+deskBlock))
	if got := visit(t, "alice", "/accounts", url.Values{"id": {"stored"}, "tier": {"free"}}); got.status != http.StatusOK {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	gone := fmt.Errorf("%w: the disk of /var/lib/secret is full", storage.ErrUnavailable)
	disk.health.Store(&gone)
	disk.unread.Store(true)
	got := visit(t, "alice", "/accounts/stored", nil)
	if got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" || !strings.Contains(string(got.body), `http-equiv="refresh"`) ||
		strings.Contains(string(got.body), "/var/lib") {
		t.Errorf("the account: got %d %v %s", got.status, got.header, got.body)
	}
	if got := visit(t, "alice", "/accounts/stored/keys", url.Values{}); got.status != http.StatusServiceUnavailable || strings.Contains(string(got.body), "refresh") {
		t.Errorf("a form: got %d %s", got.status, got.body)
	}
	if got := visit(t, "alice", "/", nil); got.status != http.StatusServiceUnavailable || !strings.Contains(string(got.body), "/var/lib/secret is full") {
		t.Errorf("the operator: got %d %s, want the reason", got.status, got.body)
	}
	disk.health.Store(nil)
	disk.unread.Store(false)
	if got := visit(t, "alice", "/", nil); got.status != http.StatusOK {
		t.Errorf("afterwards: got %d", got.status)
	}
}

// TestDeskGauge guards against a gauge that does not move, and against streams that outlive their configuration.
func TestDeskGauge(t *testing.T) {
	config := guardConfig(t, "moderation_desk /desk"+deskBlock+"moderation_api")
	load(t, config)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	request, _ := http.NewRequestWithContext(ctx, http.MethodGet, base+"/desk/accounts/small/gauge", nil)
	request.Header.Set("X-User", "dan")
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.Header.Get("Content-Type") != "text/event-stream" || response.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("got %d %v", response.StatusCode, response.Header)
	}
	lines := bufio.NewScanner(response.Body)
	await := func(want string) {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), want) {
				return
			}
		}
		t.Fatalf("the stream ended before %q: %v", want, lines.Err())
	}
	await(`"period":{"used":0,"limit":1000`)
	moderate(t, smallKey, `{"content":"hello"}`)
	await(`"period":{"used":1,`)
	reload(t, config)
	for lines.Scan() {
	}
	if err := lines.Err(); err != nil && ctx.Err() != nil {
		t.Errorf("the stream goes on after the reload: %v", err)
	}
	if got := call(t, http.MethodGet, base+"/desk/accounts/small/gauge", "", nil, "X-User", "carol"); got.status != http.StatusNotFound {
		t.Errorf("the gauge of another account: got %d, want 404", got.status)
	}
}

// TestDeskStreamsAreBounded guards against pages that take all connections and never give them back, and against a
// person whose pages take those of all others.
func TestDeskStreamsAreBounded(t *testing.T) {
	load(t, guardConfig(t, "moderation_desk"+strings.Replace(deskBlock, " alice", " alice bob", 1)))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	open := func(user, account string) int {
		request, _ := http.NewRequestWithContext(ctx, http.MethodGet, base+"/accounts/"+account+"/gauge", nil)
		request.Header.Set("X-User", user)
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { response.Body.Close() })
		return response.StatusCode
	}
	for user, account := range map[string]string{"dan": "small", "carol": "acme", "eve": "small", "alice": "acme"} {
		for i := range 16 {
			if got := open(user, account); got != http.StatusOK {
				t.Fatalf("stream %d of %s: got %d", i+1, user, got)
			}
		}
		if got := open(user, account); got != http.StatusServiceUnavailable {
			t.Errorf("one stream of %s too many: got %d, want 503", user, got)
		}
	}
	if got := open("bob", "small"); got != http.StatusServiceUnavailable {
		t.Errorf("one stream too many: got %d, want 503", got)
	}
	cancel()
	ctx = t.Context()
	for range 100 {
		if open("dan", "small") == http.StatusOK && open("bob", "small") == http.StatusOK {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Error("streams that are closed still count")
}

// TestDeskInHandlePath guards against links that miss what handle_path has stripped, and against redirects to other
// hosts.
func TestDeskInHandlePath(t *testing.T) {
	stayPut(t)
	load(t, guardConfig(t, "handle_path /internal/desk* {\nmoderation_desk"+deskBlock+"}\nhandle {\nmoderation_desk"+deskBlock+"}"))
	for path, want := range map[string]string{
		"/internal/desk/accounts/acme": `action="/internal/desk/accounts/acme"`, "/internal/desk": `href="/internal/desk/accounts"`,
		"/internal/desk/": `href="/internal/desk/accounts"`, "/accounts/acme/keys": `action="/accounts/acme/keys"`,
	} {
		got := visit(t, "alice", path, nil)
		if path == "/internal/desk/accounts/acme" {
			want = `data-stream="/internal/desk/accounts/acme/gauge"`
		}
		if !strings.Contains(string(got.body), want) {
			t.Errorf("%s: got %d, without %s: %s", path, got.status, want, got.body)
		}
	}
	for _, path := range []string{"//evil.example/", "//evil.example", "/\\evil.example"} {
		request, _ := http.NewRequest(http.MethodGet, base, nil)
		request.URL.Opaque = path
		request.Header.Set("X-User", "carol")
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		received, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if to := response.Header.Get("Location"); strings.HasPrefix(to, "//") || strings.Contains(string(received), `="//`) {
			t.Errorf("%s leads to %q: %s", path, to, received)
		}
	}
}

// TestDeskBehindBasicAuth guards against an order of directives in which nobody is known yet, or a guard of the site
// judges the playground.
func TestDeskBehindBasicAuth(t *testing.T) {
	const hash = "$2a$04$T2UedbKbU2HwXZzgyry9PO4YzMOkkse2MuwVVnE7ZY.PIw0S1oJeC" // of "password"
	load(t, guardConfig(t, "moderate\nbasic_auth {\nalice "+hash+"\n}\nmoderation_desk {\noperator {http.auth.user.id} alice\n}"))
	if got := call(t, http.MethodGet, base+"/", "", nil); got.status != http.StatusUnauthorized {
		t.Errorf("a stranger: got %d, want 401", got.status)
	}
	request, _ := http.NewRequest(http.MethodPost, base+"/accounts/acme/playground",
		strings.NewReader(url.Values{"content": {"I will find you and kill you, you worthless piece of shit."}}.Encode()))
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.SetBasicAuth("alice", "password")
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	received, _ := io.ReadAll(response.Body)
	if response.StatusCode != http.StatusOK || !strings.Contains(string(received), "badge large reject") {
		t.Errorf("alice: got %d %s", response.StatusCode, received)
	}
}

// TestDeskLanguages guards against pages in a language that nobody asked for.
func TestDeskLanguages(t *testing.T) {
	load(t, guardConfig(t, "moderation_desk"+deskBlock))
	for accept, want := range map[string][2]string{
		"": {"en", "Playground"}, "de-AT,de;q=0.9,en;q=0.5": {"de", "Ausprobieren"}, "es": {"es", "Pruebas"},
		"fr-CA": {"fr", "Essais"}, "ja,ko": {"en", "Playground"}, "*": {"en", "Playground"},
	} {
		got := visit(t, "carol", "/accounts/acme/playground", nil, "Accept-Language", accept)
		if !strings.Contains(string(got.body), `<html lang="`+want[0]+`">`) || !strings.Contains(string(got.body), "<h1>"+want[1]+"</h1>") {
			t.Errorf("%q: got %.300s, want %v", accept, got.body, want)
		}
	}
}

// TestDeskNeedsSomebody guards against a desk that anybody or nobody can use.
func TestDeskNeedsSomebody(t *testing.T) {
	adapted, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(guardConfig(t, "moderation_desk")), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := caddy.Load(adapted, true); err == nil || !strings.Contains(err.Error(), "nobody could use it") {
		_ = caddy.Stop()
		t.Errorf("got %v, want an error that names the options", err)
	}
}
