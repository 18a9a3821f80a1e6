// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package desk

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// post sends a text to a host of a server. While Caddy takes over a configuration, a connection may be refused.
func post(t *testing.T, site, host, path, media, body string) {
	t.Helper()
	for attempt := 0; ; attempt++ {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, site+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Host = host
		request.Header.Set("Content-Type", media)
		answer, err := http.DefaultClient.Do(request)
		if err == nil {
			answer.Body.Close()
			return
		}
		if attempt == 20 {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// serveGuarded runs a server with a desk, guards that have seen messages, and a comparison with another service.
func serveGuarded(t *testing.T) string {
	t.Helper()
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scores := `{"flagged":true,"category_scores":{"harassment":0.9,"violence":0.6}}`
		if body, _ := io.ReadAll(r.Body); strings.Contains(string(body), "bakery") {
			scores = `{"flagged":false,"category_scores":{"harassment":0.01,"violence":0.02}}`
		}
		_, _ = io.WriteString(w, `{"id":"modr-1","results":[`+scores+`]}`)
	}))
	t.Cleanup(other.Close)
	site := freeSite(t)
	loadGuarded(t, site, other.URL, "")
	for i := range 40 {
		text := "The bakery on the corner has wonderful rye bread."
		if i%7 == 0 {
			text = vile
		}
		post(t, site, "shop.example", "/reviews", "text/plain", text)
		post(t, site, "forum.example", "/posts", "text/plain", text)
		if i%3 == 0 {
			post(t, site, "www.shop.example", "/reviews", "text/plain", text)
			post(t, site, "", "/v1/moderations", "application/json", fmt.Sprintf(`{"input":[%q]}`, text))
		}
		post(t, site, "", "/v1/moderate/text", "application/json", `{"content":"hello"}`)
	}
	return site
}

// loadGuarded loads the configuration of a server with a desk, guards, and a comparison with another service. more goes
// into the site.
func loadGuarded(t *testing.T, site, other, more string) {
	t.Helper()
	loadConfig(t, fmt.Sprintf(`{
	admin off
	persist_config off
	log {
		output discard
	}
	moderation {
		storage past
		demo off
	}
}
http://:%s {
	moderation_desk /desk {
		operator {http.request.header.X-User} alice
	}
	@shop {
		host shop.example www.shop.example
		path /reviews
	}
	handle @shop {
		moderate
		respond shop
	}
	@forum host forum.example
	handle @forum {
		moderate {
			shadow
		}
		respond forum
	}
	%s
	handle /v1/moderations {
		moderation_compare %s
	}
	handle {
		moderation_api
	}
}
`, strings.TrimPrefix(site, "http://localhost:"), more, other))
}

// sitesPaths are the pages for operators with the names of their pictures.
var sitesPaths = map[string]string{
	"/desk/guards": "guards", "/desk/node": "node", "/desk/accounts/acme/settings": "settings",
	"/desk/accounts/acme/delete": "delete",
}

// TestSitesPagesAreUsable looks at the pages for operators at 360 and 1200 pixels, light and dark, and without scripts.
func TestSitesPagesAreUsable(t *testing.T) {
	b := open(t, serveGuarded(t), "alice")
	for path, name := range sitesPaths {
		for _, width := range []int64{360, 1200} {
			for _, dark := range []bool{false, true} {
				b.size(width, 800, dark)
				b.visit(path)
				b.usable(t, fmt.Sprintf("%s at %d, dark: %v", path, width, dark))
				if folder := os.Getenv("SHOTS"); folder != "" {
					picture := smaller(t, get(b, chromedp.FullScreenshot(100)))
					file := filepath.Join(folder, fmt.Sprintf("%s-%d-%v.png", name, width, dark))
					if err := os.WriteFile(file, picture, 0o644); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
	b.visit("/desk/node")
	b.await("live throughput", `document.querySelector("[data-live]").textContent.includes("live")`)
	b.calm()
	send(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	b.visit("/desk/node")
	if body := b.text("main"); !strings.Contains(body, "Messages at guards") {
		t.Errorf("without scripts: got %s", body)
	}
}

// TestGuardsAreLive posts through guards while their page is open: the counts move, over a reload of Caddy, and a host
// that the page does not have is told of.
func TestGuardsAreLive(t *testing.T) {
	site := serveGuarded(t)
	b := open(t, site, "alice")
	b.visit("/desk/guards")
	live := `document.querySelector("[data-live]")`
	isLive := "!" + live + `.hidden && ` + live + `.textContent === "· live"`
	b.await("live counts", isLive)
	cell := func(host, name string) string {
		return fmt.Sprintf(`[...document.querySelectorAll("tr")].find(r => r.querySelector("bdi")?.textContent === %q)
			.querySelector("[data-%s]").textContent`, host, name)
	}
	before := evaluate[string](b, `fetch(location).then(r => r.text()).then(text =>
		new DOMParser().parseFromString(text, "text/html").querySelector("main").textContent)`)
	before = strings.Replace(before, "All guards ", "All guards · live ", 1)
	for what, want := range map[string]string{
		cell("shop.example", "n=refused"): "6", cell("forum.example", "n=seen"): "40",
		cell("forum.example", "n=would"): "6", `document.querySelector("[data-sum=seen]").textContent`: "94",
	} {
		if got := evaluate[string](b, what); got != want {
			t.Errorf("%s: got %s, want %s", what, got, want)
		}
	}
	// The script writes what the server does.
	b.do(chromedp.Sleep(1500 * time.Millisecond))
	spaces := func(text string) string { return strings.Join(strings.Fields(text), " ") }
	if now := evaluate[string](b, `document.querySelector("main").textContent`); spaces(now) != spaces(before) {
		t.Errorf("without a message: got\n%s\nwas\n%s", spaces(now), spaces(before))
	}
	post(t, site, "shop.example", "/reviews", "text/plain", vile)
	post(t, site, "forum.example", "/posts", "text/plain", vile)
	b.await("the counts to move", cell("shop.example", "n=refused")+` === "7" && `+cell("forum.example", "n=would")+
		` === "7" && document.querySelector("[data-sum=seen]").textContent === "96" && `+
		`document.querySelector("[data-compare]").textContent.includes("refused so many messages: 7 of 41 (17.1%)") && `+
		cell("shop.example", "flagged")+`.includes("Harassment 7")`)
	more := `document.querySelector("[data-more]")`
	if !evaluate[bool](b, more+".hidden") {
		t.Error("the page says that it lacks a host")
	}
	b.usable(t, "live counts of guards")
	evaluate[bool](b, `(window.moved = 0, new MutationObserver(() => window.moved++).observe(`+live+`,
		{childList: true}), true)`)
	loadGuarded(t, site, "http://127.0.0.1:9", "respond /other 200")
	b.await("the page to find the new configuration", `window.moved > 0 && `+isLive)
	post(t, site, "shop.example", "/reviews", "text/plain", vile)
	b.await("the counts to move after a reload", cell("shop.example", "n=refused")+` === "8"`)
	b.mu.Lock()
	b.troubles = nil // the connection that the reload has ended
	b.mu.Unlock()
	loadGuarded(t, site, "http://127.0.0.1:9", "handle /new {\nmoderate\nrespond new\n}")
	post(t, site, "localhost", "/new", "text/plain", vile)
	b.await("the page to tell of a guard that it lacks", "!"+more+".hidden")
	b.usable(t, "a page of guards that lacks one")
	b.do(chromedp.Click(chromedp.CSS("[data-more] a")), chromedp.WaitVisible(`//code[text()="/new"]`))
}

// TestSitesScreenshots takes the pictures of the pages for operators anew with -update.
func TestSitesScreenshots(t *testing.T) {
	if !*update {
		t.Skip("without -update")
	}
	b := open(t, serveGuarded(t), "alice")
	b.size(1000, 700, false)
	for path, name := range sitesPaths {
		if name == "delete" {
			continue
		}
		b.visit(path)
		time.Sleep(1500 * time.Millisecond) // the throughput is live
		picture := smaller(t, get(b, chromedp.FullScreenshot(100)))
		if len(picture) > maxPicture {
			t.Errorf("%s has %d bytes, want at most %d", name, len(picture), maxPicture)
		}
		if err := os.WriteFile(filepath.Join(pictures, name+".png"), picture, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
