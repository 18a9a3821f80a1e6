// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package desk

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// moderate asks the API for a verdict and returns the status.
func moderate(t *testing.T, site, key string) int {
	t.Helper()
	request, err := http.NewRequest(http.MethodPost, site+"/v1/moderate/text", strings.NewReader(`{"content":"hello"}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+key)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode
}

const (
	submit = "main form button"
	vile   = "You are a worthless idiot, and I will find you and kill you.\nThe bread was good, though."
)

// TestKeysAndGauge makes a key by keyboard alone, uses it, sees the gauge move, and revokes the key.
func TestKeysAndGauge(t *testing.T) {
	site := serve(t)
	b := open(t, site, "carol")
	b.visit("/desk/accounts/acme/keys")
	b.do(chromedp.Focus(chromedp.CSS("#name")), chromedp.KeyEvent("browser key"), chromedp.KeyEvent(kb.Tab),
		chromedp.KeyEvent("test"), chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible(chromedp.CSS("#secret")))
	key := b.text("#secret")
	if !regexp.MustCompile(`^mod_sk_[0-9A-Za-z]{32}$`).MatchString(key) {
		t.Fatalf("got the key %q", key)
	}
	if command := b.text("#curl"); !strings.Contains(command, "curl "+site+"/v1/moderate/text") || !strings.Contains(command, key) {
		t.Errorf("got the command %q", command)
	}
	if at := evaluate[string](b, "location.href"); strings.Contains(at, key) {
		t.Errorf("the key is in the address %s", at)
	}
	b.await("the copy button", `!document.querySelector("[data-copy=secret]").hidden`)
	b.do(chromedp.Click(chromedp.CSS("[data-copy=secret]")))
	if selected := evaluate[string](b, "getSelection().toString()"); selected != key {
		t.Errorf("copying selects %q", selected)
	}
	b.usable(t, "the new key")
	b.calm()

	b.visit("/desk/accounts/acme")
	b.await("the live gauge", `!document.querySelector("[data-live]").hidden`)
	used := `document.querySelector("[data-used=minute]").textContent`
	period := evaluate[string](b, `document.querySelector("[data-used=period]").textContent`)
	if second := time.Now().Second(); second > 45 {
		time.Sleep(time.Duration(60-second) * time.Second) // a minute that ends takes its count along
	}
	for range 3 {
		if status := moderate(t, site, key); status != http.StatusOK {
			t.Fatalf("with the key: got %d", status)
		}
	}
	b.await("the gauge to move", used+` !== "0" && document.querySelector("[data-used=period]").textContent !== "`+period+`"`)
	b.calm()

	b.visit("/desk/accounts/acme/keys")
	b.do(chromedp.SetValue(chromedp.CSS("#expires"), "2001-01-01"), chromedp.Click(chromedp.CSS(submit)),
		chromedp.WaitVisible(chromedp.CSS("#problem")))
	b.usable(t, "a refused key")
	b.mu.Lock()
	b.troubles = nil // the answer 400
	b.mu.Unlock()
	b.visit("/desk/accounts/acme/keys")
	b.do(chromedp.Click(`//tr[contains(., "browser key")]//a[contains(@href, "rotate")]`),
		chromedp.WaitVisible(chromedp.CSS("#overlap")))
	b.usable(t, "the question before a key is rotated")
	b.visit("/desk/accounts/acme/keys")
	b.do(chromedp.Click(`//tr[contains(., "browser key")]//a[contains(@class, "danger")]`),
		chromedp.WaitVisible(chromedp.CSS("button.danger")))
	b.usable(t, "the question before a key is revoked")
	b.do(chromedp.Click(chromedp.CSS("button.danger")), chromedp.WaitVisible(chromedp.CSS("p.note.good")))
	if status := moderate(t, site, key); status != http.StatusUnauthorized {
		t.Errorf("with the revoked key: got %d, want 401", status)
	}
	if body := b.text("main"); strings.Contains(body, key) {
		t.Error("the list shows the key")
	}
	b.calm()
}

// TestPlayground judges a text and moves a slider.
func TestPlayground(t *testing.T) {
	b := open(t, serve(t), "carol")
	b.visit("/desk/accounts/beta/playground")
	b.do(chromedp.SetValue(chromedp.CSS("#content"), vile), chromedp.SetValue(chromedp.CSS("#themes"), "bread"),
		chromedp.Click(chromedp.CSS(submit)), chromedp.WaitVisible(chromedp.CSS("[data-verdict]")))
	if verdict := b.text("[data-verdict] .badge.large"); verdict != "reject" {
		t.Errorf("got the verdict %q", verdict)
	}
	if marks := evaluate[int](b, `document.querySelectorAll("mark").length`); marks == 0 {
		t.Error("nothing is marked")
	}
	slider := `document.querySelector("[data-category=violence] input")`
	b.await("the sliders", "!"+slider+".hidden")
	// By keyboard: End is the highest threshold.
	evaluate[bool](b, slider+".focus() ?? true")
	b.do(chromedp.KeyEvent(kb.End))
	if value := evaluate[string](b, slider+".value"); value != "990" {
		t.Errorf("the slider is at %s", value)
	}
	if outcome := b.text("[data-outcome]"); !strings.Contains(outcome, "With these thresholds") {
		t.Errorf("got the outcome %q", outcome)
	}
	if !evaluate[bool](b, `document.querySelector("[data-category=violence] [data-flag]").hidden`) {
		t.Error("violence is still flagged")
	}
	b.do(chromedp.Click(chromedp.CSS("[data-reset]")))
	if evaluate[bool](b, `document.querySelector("[data-category=violence] [data-flag]").hidden`) {
		t.Error("violence is not flagged with the account's threshold")
	}
	b.usable(t, "a verdict")
	b.calm()
}

// TestEveryPageIsUsable looks at each page at 360 and 1280 pixels, light and dark, for an operator, a member and
// somebody without a role.
func TestEveryPageIsUsable(t *testing.T) {
	site := serve(t)
	for user, paths := range map[string][]string{
		"alice": {
			"/desk/", "/desk/accounts", "/desk/accounts?q=beta", "/desk/accounts/acme", "/desk/accounts/acme/keys",
			"/desk/accounts/declared", "/desk/accounts/declared/keys", "/desk/accounts/acme/playground", "/desk/config",
			"/desk/audit", "/desk/accounts/acme/audit",
			"/desk/accounts/acme/history", "/desk/accounts/acme/history?days=364", "/desk/accounts/blog/history",
			"/desk/accounts/acme/thresholds?threshold.hate=0.9", "/desk/accounts/blog/thresholds",
			"/desk/accounts/acme/words", "/desk/accounts/declared/words",
			"/desk/accounts/blog?done=changed", "/desk/accounts/acme/settings", "/desk/accounts/acme/delete",
			"/desk/guards", "/desk/node",
		},
		"carol": {"/desk/", "/desk/accounts/beta"},
	} {
		b := open(t, site, user)
		for _, path := range paths {
			for _, dark := range []bool{false, true} {
				for _, width := range []int64{360, 1280} {
					b.size(width, 800, dark)
					b.visit(path)
					scheme := map[bool]string{false: "light", true: "dark"}[dark]
					b.usable(t, user+" at "+path+", "+scheme+", "+map[bool]string{true: "narrow", false: "wide"}[width == 360])
				}
			}
			b.calm()
		}
	}
	for user, path := range map[string]string{"": "/desk/", "mallory": "/desk/config", "dan": "/desk/accounts/acme"} {
		b := open(t, site, user)
		b.size(360, 800, false)
		b.visit(path)
		b.usable(t, "without a role: "+path)
	}
}

// TestDarkIsDark guards against a style sheet that does not know the dark.
func TestDarkIsDark(t *testing.T) {
	b := open(t, serve(t), "carol")
	ground := `getComputedStyle(document.body).backgroundColor`
	var grounds []string
	for _, dark := range []bool{false, true} {
		b.size(800, 600, dark)
		b.visit("/desk/accounts/acme")
		grounds = append(grounds, evaluate[string](b, ground))
	}
	if grounds[0] == grounds[1] {
		t.Errorf("got %v", grounds)
	}
	// The live gauge begins and nothing moves.
	if shifts := evaluate[[]string](b, `new Promise(done => {
		const all = [];
		new PerformanceObserver(list => list.getEntries().forEach(e => all.push("the layout shifts by " + e.value)))
			.observe({type: "layout-shift", buffered: true});
		setTimeout(() => done(all), 1500);
	})`); len(shifts) > 0 {
		t.Error(shifts)
	}
}

// TestWithoutScripts makes a key and judges a text in a browser that runs no JavaScript.
func TestWithoutScripts(t *testing.T) {
	site := serve(t)
	b := open(t, site, "carol")
	send(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	b.visit("/desk/accounts/acme/keys")
	b.do(chromedp.Click(chromedp.CSS(submit)), chromedp.WaitReady(chromedp.CSS("#secret")))
	key := strings.TrimSpace(get(b, chromedp.TextContent(chromedp.CSS("#secret"))))
	if status := moderate(t, site, key); status != http.StatusOK {
		t.Errorf("with the key %q: got %d", key, status)
	}
	b.visit("/desk/accounts/acme/playground")
	b.do(chromedp.Focus(chromedp.CSS("#content")), chromedp.KeyEvent("I will find you and kill you"),
		chromedp.Click(chromedp.CSS(submit)), chromedp.WaitReady(chromedp.CSS("[data-verdict]")))
	if verdict := get(b, chromedp.TextContent(chromedp.CSS("[data-verdict] .badge.large"))); verdict != "reject" {
		t.Errorf("got the verdict %q", verdict)
	}
	b.calm()
}
