// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package desk

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/review"
	"github.com/caddy-moderation/caddy-moderation/storage"
	"github.com/caddy-moderation/caddy-moderation/storage/storagetest"
)

// zoo are texts that run a script, load something or leave their place where they are not escaped.
var zoo = []string{
	`<script>pwned()</script>`,
	`"><script>pwned()</script>`,
	`'><img src=x onerror=pwned()>`,
	`"><img src=x onerror="pwned()">`,
	`</textarea><svg onload=pwned()>`,
	`</title><script>pwned()</script>`,
	`</script><script>pwned()</script>`,
	`</svg><img src=x onerror=pwned()>`,
	`--><img src=x onerror=pwned()><!--`,
	`]]><img src=x onerror=pwned()>`,
	`" autofocus onfocus="pwned()" x="`,
	`' autofocus onfocus='pwned()' x='`,
	` onmouseover=pwned() x=`,
	`javascript:pwned()`,
	`data:text/html,<script>parent.pwned()</script>`,
	`<a href="javascript:pwned()" id=evil>here</a>`,
	`<iframe srcdoc="<script>parent.pwned()</script>"></iframe>`,
	`<details open ontoggle=pwned()>`,
	`<base href="//evil.invalid/">`,
	`<meta http-equiv=refresh content="0;url=//evil.invalid/">`,
	`<link rel=stylesheet href="//evil.invalid/a.css">`,
	`<style>*{background:url(//evil.invalid/)}</style>`,
	`<form action="//evil.invalid/"><button id=evil>`,
	`<math><mtext><table><mglyph><style><!--</style><img title="--><img src=x onerror=pwned()>">`,
	`<template shadowrootmode=open><script>pwned()</script></template>`,
	`{{constructor.constructor("pwned()")()}}${pwned()}`,
	`\u003cimg src=x onerror=pwned()\u003e`,
	`%3Cscript%3Epwned()%3C/script%3E`,
	`&lt;script&gt;pwned()&lt;/script&gt;`,
	"\u202e>tpircs/<)(denwp>tpircs<\u2066",
	"<scr\u0000ipt>pwned()</scr\u0000ipt>",
	`＜script＞pwned()＜/script＞`,
}

// Caged is a storage module with a store in memory whose records have the zoo in every text.
type Caged struct{}

// CaddyModule returns the Caddy module information.
func (*Caged) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "moderation.storage.caged", New: func() caddy.Module { return new(Caged) }}
}

// UnmarshalCaddyfile sets up the module from Caddyfile tokens; it has no options.
func (*Caged) UnmarshalCaddyfile(*caddyfile.Dispenser) error { return nil }

// Identity names the place.
func (*Caged) Identity() (string, error) { return "caged:", nil }

// Open returns the store.
func (*Caged) Open(ctx context.Context, _ *zap.Logger) (storage.Store, error) {
	store := storagetest.NewMemory()
	gate, err := quota.New(quota.Options{Store: store, Tiers: tiers, Now: time.Now})
	if err != nil {
		return nil, err
	}
	queue, err := review.New(review.Options{Store: store, Now: time.Now})
	if err != nil {
		return nil, err
	}
	for i, animal := range zoo {
		printable := strings.ReplaceAll(animal, "\u0000", "")
		account := quota.Account{ID: fmt.Sprintf("zoo-%02d", i), Name: printable, Tier: "free"}
		if _, err := gate.CreateAccount(ctx, account); err != nil {
			return nil, err
		}
		if _, err := gate.ChangeOverrides(ctx, account.ID, func(o *quota.Overrides) {
			o.Block, o.Allow, o.Languages = []string{printable}, []string{"bread", printable}, []string{printable}
		}); err != nil {
			return nil, err
		}
		key := quota.KeySpec{Account: account.ID, Name: printable}
		if len(printable) <= 64 {
			key.Environment = printable
		}
		if _, _, err := gate.CreateKey(ctx, key); err != nil {
			return nil, fmt.Errorf("a key named %q: %w", printable, err)
		}
		id, err := queue.Add(ctx, review.Item{
			Origin: review.Guard, Cause: review.Reviewed, Account: account.ID, Site: animal, Path: animal, Author: animal,
			Texts: []review.Text{
				{Name: animal, Text: animal, Passages: []review.Passage{{Category: "hate", Begin: 1, End: 4}}},
				{Name: "/second", Text: "Before " + animal + " and after"},
			},
			Context: []string{animal}, Themes: []string{animal}, Blocked: true, OtherLanguage: true, Language: animal, Recommendation: "review", Flagged: []string{animal},
			Model: animal, Probabilities: map[string]float64{animal: 0.5, "hate": 0.7},
		})
		if err != nil {
			return nil, err
		}
		if i%2 == 1 {
			decision := review.Decision{Reviewer: animal, Action: review.Escalate, Reason: animal, Note: animal}
			if _, err := queue.Decide(ctx, id, decision); err != nil {
				return nil, err
			}
		}
	}
	return store, nil
}

func init() { caddy.RegisterModule(new(Caged)) }

// serveZoo runs a server with the zoo.
func serveZoo(t *testing.T) string {
	t.Helper()
	site := freeSite(t)
	loadConfig(t, `{
	admin off
	persist_config off
	log {
		output discard
	}
	moderation {
		storage caged
		demo off
		review {
			twice 0
		}
	}
}
`+site+` {
	moderation_desk /desk {
		operator {http.request.header.X-User} alice
		reviewer {http.request.header.X-User} alice
	}
}
`)
	return site
}

// alarm makes a page tell when something of the zoo runs, before anything of the page does.
const alarm = `window.ran = []; window.pwned = (...all) => window.ran.push("pwned");
	for (const name of ["alert", "confirm", "prompt", "print"]) { window[name] = () => window.ran.push(name); }
	document.addEventListener("securitypolicyviolation", e => window.ran.push("policy: " + e.violatedDirective + " " + e.blockedURI));`

// broken yields what of the zoo runs in a page or is an element there. What would only run when it is touched is
// touched.
const broken = `(async () => {
	const found = [];
	for (const e of document.querySelectorAll("*")) {
		for (const a of e.attributes) {
			if (/^on/i.test(a.name) || /^\s*(javascript|data):/i.test(a.value) && ["href", "src", "action", "formaction"].includes(a.name)) {
				found.push(e.tagName + " with " + a.name);
			}
		}
		if (["IFRAME", "BASE", "STYLE", "MATH", "OBJECT", "EMBED", "TEMPLATE"].includes(e.tagName) || e.id === "evil" || e.shadowRoot) {
			found.push(e.tagName);
		}
		if (e.tagName === "META" && e.httpEquiv === "refresh" && !/^\d+$/.test(e.content)) { found.push("a refresh"); }
		if (e.tagName === "SCRIPT" && e.textContent) { found.push("an inline script"); }
		for (const name of ["src", "href", "action"]) {
			if (e.hasAttribute(name) && typeof e[name] === "string" && new URL(e[name], location).origin !== location.origin) {
				found.push(e.tagName + " to " + e[name]);
			}
		}
	}
	for (const e of document.querySelectorAll("details")) { e.open = true; }
	for (const e of document.querySelectorAll("main *")) { e.dispatchEvent(new MouseEvent("mouseover", {bubbles: true})); }
	await new Promise(done => setTimeout(done, 20));
	return found.concat(window.ran);
})()`

// TestZoo guards against texts of strangers that run in the browser of a moderator or an operator.
func TestZoo(t *testing.T) {
	raw := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprintf(w, "<!doctype html><main>%s</main>", r.URL.Query().Get("text"))
	}))
	defer raw.Close()
	site := serveZoo(t)
	b := open(t, site, "alice")
	send(b, page.Enable, page.EnableParams{})
	send(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: alarm})
	// The alarm works: a page that escapes nothing sets it off.
	for _, animal := range zoo[:9] {
		b.do(chromedp.Navigate(raw.URL+"/?text="+url.QueryEscape(animal)), chromedp.WaitReady(chromedp.CSS("main")))
		if got := evaluate[[]string](b, broken); len(got) == 0 {
			t.Errorf("the alarm does not hear %q", animal)
		}
	}
	b.mu.Lock()
	b.troubles = nil
	b.mu.Unlock()

	paths := []string{"/desk/accounts", "/desk/audit", "/desk/config", "/desk/review", "/desk/review/quality"}
	for _, status := range []string{"pending", "escalated", "approved"} {
		for after := "/desk/review/items?status=" + status; after != ""; {
			b.visit(after)
			if got := evaluate[[]string](b, broken); len(got) > 0 {
				t.Errorf("%s: got %q", after, got)
			}
			paths = append(paths, evaluate[[]string](b, `[...document.querySelectorAll("tbody a")].map(a => a.getAttribute("href"))`)...)
			after = evaluate[string](b, `document.querySelector("a[rel=next]")?.getAttribute("href") ?? ""`)
		}
	}
	if len(paths) < len(zoo) {
		t.Errorf("the lists lead to %d pages only", len(paths))
	}
	for i, animal := range zoo {
		account, text := fmt.Sprintf("/desk/accounts/zoo-%02d", i), url.QueryEscape(animal)
		paths = append(paths, account, account+"/keys", account+"/words", account+"/thresholds?threshold.hate="+text,
			account+"/history?days="+text, account+"?done="+text, "/desk/accounts?q="+text,
			"/desk/review?account="+text+"&last="+text+"&order="+text, "/desk/audit?account="+text+"&action="+text)
	}
	for _, path := range paths {
		b.do(chromedp.Navigate(site+path), chromedp.WaitReady(chromedp.CSS("main")))
		if got := evaluate[[]string](b, broken); len(got) > 0 {
			t.Errorf("%s: got %q", path, got)
		}
	}
	for _, animal := range zoo {
		b.visit("/desk/accounts/zoo-00/playground")
		b.do(chromedp.SetValue(chromedp.CSS("#content"), vile+animal), chromedp.SetValue(chromedp.CSS("#themes"), "bread"),
			chromedp.Click(chromedp.CSS(submit)), chromedp.WaitVisible(chromedp.CSS("[data-verdict]")))
		if got := evaluate[[]string](b, broken); len(got) > 0 {
			t.Errorf("the playground with %q: got %q", animal, got)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, trouble := range b.troubles {
		if !strings.Contains(trouble, "status of 40") { // what was typed into addresses is refused
			t.Error(trouble)
		}
	}
}

// TestForeignPages guards against a page of another site that sends forms, reads answers or frames the desk while
// somebody is signed in.
func TestForeignPages(t *testing.T) {
	site := serve(t)
	var body string
	foreign := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprintf(w, "<!doctype html><title>evil</title><main>%s</main>", body)
	}))
	defer foreign.Close()
	b := open(t, site, "alice")
	accounts := func() string {
		b.visit("/desk/accounts")
		return b.text("main")
	}
	key := func() string {
		b.visit("/desk/accounts/acme/keys")
		return b.text("main table")
	}
	accountsBefore, keysBefore := accounts(), key()
	id := evaluate[string](b, `document.querySelector("a[href$=revoke]").getAttribute("href").split("/").at(-2)`)
	for path, fields := range map[string]map[string]string{
		"/accounts":                             {"id": "evil", "tier": "free"},
		"/accounts/acme":                        {"status": "paused"},
		"/accounts/acme/keys":                   {"name": "evil"},
		"/accounts/acme/keys/" + id + "/rotate": {"overlap": "0s"},
		"/accounts/acme/keys/" + id + "/revoke": {},
		"/accounts/acme/settings":               {"threshold.hate": "0.99"},
		"/accounts/beta/delete":                 {"confirm": "beta"},
		"/accounts/acme/playground":             {"content": "evil"},
	} {
		for _, target := range []string{"_self", "frame"} {
			form := fmt.Sprintf(`<iframe name=frame></iframe><form method=post target=%s action="%s">`, target, site+"/desk"+path)
			for name, value := range fields {
				form += fmt.Sprintf(`<input name="%s" value="%s">`, html.EscapeString(name), html.EscapeString(value))
			}
			body = form + `</form><script>document.forms[0].submit()</script>`
			b.do(chromedp.Navigate(foreign.URL))
			if target == "_self" {
				b.await("the answer to "+path, fmt.Sprintf(`location.origin === %q && document.readyState === "complete"`, site))
				status := evaluate[int](b, `performance.getEntriesByType("navigation")[0].responseStatus`)
				if status != http.StatusForbidden {
					t.Errorf("%s from another site: got %d, want 403", path, status)
				}
			} else {
				b.await("the frame of "+path, `(() => { try { return !frames[0].document } catch { return true } })()`)
			}
		}
	}
	if now := accounts(); now != accountsBefore {
		t.Errorf("the accounts were changed by another site:\n%s\nwas\n%s", now, accountsBefore)
	}
	if now := key(); now != keysBefore {
		t.Errorf("the keys were changed by another site:\n%s\nwas\n%s", now, keysBefore)
	}

	// Neither a script nor a frame of another site gets to see a page.
	for _, path := range []string{"/desk/", "/desk/accounts/acme/keys", "/desk/config"} {
		body = fmt.Sprintf(`<iframe src="%s" onload="window.framed = true"></iframe>`, site+path)
		b.do(chromedp.Navigate(foreign.URL), chromedp.WaitReady(chromedp.CSS("iframe")))
		b.await("the frame", `window.framed === true`)
		read := fmt.Sprintf(`fetch(%q, {credentials: "include"}).then(r => r.text()).catch(() => "refused")`, site+path)
		if got := evaluate[string](b, read); got != "refused" {
			t.Errorf("another site reads %s: %s", path, got)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	framing := 0
	for _, trouble := range b.troubles {
		if strings.Contains(trouble, "frame-ancestors") {
			framing++
		}
	}
	if framing < 3 {
		t.Errorf("the browser has refused %d frames, want 3: %q", framing, b.troubles)
	}
}

// TestTwoBrowsers guards against an item that two people get, and against one that is lost between them.
func TestTwoBrowsers(t *testing.T) {
	site := serveQueue(t)
	const each = 20
	var mu sync.Mutex
	seen := map[string]string{}
	var group sync.WaitGroup
	for _, user := range []string{"erin", "frank"} {
		b := open(t, site, user)
		b.visit("/desk/review")
		group.Go(func() {
			for range each {
				id := evaluate[string](b, `document.querySelector("[data-decide]").getAttribute("action").split("/").at(-2)`)
				mu.Lock()
				if other, taken := seen[id]; taken {
					t.Errorf("%s gets the item of %s", user, other)
				}
				seen[id] = user
				mu.Unlock()
				b.press("a", "was approved")
			}
			b.calm()
		})
	}
	group.Wait()
	b := open(t, site, "erin")
	approved := map[string]bool{}
	for at := "/desk/review/items?status=approved&account=acme"; at != ""; {
		b.visit(at)
		for _, link := range evaluate[[]string](b, `[...document.querySelectorAll("tbody a")].map(a => a.getAttribute("href"))`) {
			approved[link[strings.LastIndex(link, "/")+1:]] = true
		}
		at = evaluate[string](b, `document.querySelector("a[rel=next]")?.getAttribute("href") ?? ""`)
	}
	for id := range seen {
		if !approved[id] {
			t.Errorf("%s was decided by %s and is not there", id, seen[id])
		}
	}
	if len(seen) != 2*each || len(approved) != len(seen) {
		t.Errorf("got %d items served and %d approved, want %d", len(seen), len(approved), 2*each)
	}
}

// TestBreakReminder guards against a reminder that never comes, and against one that does not go.
func TestBreakReminder(t *testing.T) {
	b := open(t, serveQueue(t), "erin")
	send(b, page.Enable, page.EnableParams{})
	ahead := func(minutes int) {
		script, err := json.Marshal(minutes * 60_000)
		if err != nil {
			t.Fatal(err)
		}
		send(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
			Source: fmt.Sprintf(`{ const real = Date.now.bind(Date); window.clock ??= real; Date.now = () => window.clock() + %s; }`, script),
		})
	}
	const shown = `!document.querySelector("[data-break]").hidden`
	b.visit("/desk/review")
	b.press("a", "was approved")
	if evaluate[bool](b, shown) {
		t.Error("a reminder at the beginning")
	}
	for minutes := 9; minutes < 60; minutes += 9 {
		ahead(minutes)
		b.press("a", "was approved")
		if got, want := evaluate[bool](b, shown), minutes >= 50; got != want {
			t.Errorf("after %d minutes: got a reminder: %v, want %v", minutes, got, want)
		}
	}
	b.usable(t, "the reminder")
	b.do(chromedp.Click(chromedp.CSS("[data-dismiss]")))
	b.await("the reminder to go", "!("+shown+")")
	b.press("a", "was approved")
	if evaluate[bool](b, shown) {
		t.Error("a reminder again, at once")
	}
	b.calm()
}
