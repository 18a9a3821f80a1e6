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
	handle /v1/moderations {
		moderation_compare %s
	}
	handle {
		moderation_api
	}
}
`, strings.TrimPrefix(site, "http://localhost:"), other.URL))
	post := func(host, path, media, body string) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, site+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Host = host
		request.Header.Set("Content-Type", media)
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
	}
	for i := range 40 {
		text := "The bakery on the corner has wonderful rye bread."
		if i%7 == 0 {
			text = vile
		}
		post("shop.example", "/reviews", "text/plain", text)
		post("forum.example", "/posts", "text/plain", text)
		if i%3 == 0 {
			post("www.shop.example", "/reviews", "text/plain", text)
			post("", "/v1/moderations", "application/json", fmt.Sprintf(`{"input":[%q]}`, text))
		}
		post("", "/v1/moderate/text", "application/json", `{"content":"hello"}`)
	}
	return site
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
