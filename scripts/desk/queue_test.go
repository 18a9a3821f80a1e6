// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package desk

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/review"
	"github.com/caddy-moderation/caddy-moderation/storage"
	"github.com/caddy-moderation/caddy-moderation/storage/storagetest"
)

// Waiting is a storage module with a store in memory that has a review queue.
type Waiting struct{}

// CaddyModule returns the Caddy module information.
func (*Waiting) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "moderation.storage.waiting", New: func() caddy.Module { return new(Waiting) }}
}

// UnmarshalCaddyfile sets up the module from Caddyfile tokens; it has no options.
func (*Waiting) UnmarshalCaddyfile(*caddyfile.Dispenser) error { return nil }

// Identity names the place.
func (*Waiting) Identity() (string, error) { return "waiting:", nil }

// written are texts of the queue.
var written = []struct {
	name, text, category string
	begin, end           int
	probability          float64
}{
	{"/comment", "Your jokes are stupid and so are you. The recipe was good, though.", "harassment", 0, 37, 0.79},
	{"/comment", "Wer sein Brot so backt, dem gehört der Ofen weggenommen, ehrlich.", "harassment", 0, 55, 0.41},
	{"/title", "If the mayor shows up at our fair again, I will set his tent on fire.", "violence", 42, 69, 0.72},
	{"/message", "I do not know how I am to get through this week. Nobody would notice.", "self-harm", 0, 48, 0.55},
}

// signed make texts differ that would be alike.
var signed = [...]string{
	"Ada", "Ben", "Cleo", "Dov", "Edda", "Finn", "Greta", "Hugo", "Ida", "Jon", "Kaya", "Levi", "Mona", "Nils", "Olga",
}

// longItem is the item of which the passage that counts stands after much else.
const longItem = 7

// Open returns a store in which items wait: the newest is sampled, the others have a verdict.
func (*Waiting) Open(ctx context.Context, _ *zap.Logger) (storage.Store, error) {
	store := storagetest.NewMemory()
	clock := time.Now().Add(-26 * time.Hour)
	queue, err := review.New(review.Options{Store: store, Now: func() time.Time { return clock }})
	if err != nil {
		return nil, err
	}
	gate, err := quota.New(quota.Options{Store: store, Tiers: tiers, Now: time.Now})
	if err != nil {
		return nil, err
	}
	if _, err := gate.CreateAccount(ctx, quota.Account{ID: "acme", Name: "Acme Corporation", Tier: "growth"}); err != nil {
		return nil, err
	}
	author, err := queue.HashAuthor(ctx, "carol")
	if err != nil {
		return nil, err
	}
	const items = 60
	for n := range items {
		w := written[n%len(written)]
		clock = clock.Add(25 * time.Minute)
		item := review.Item{
			Origin: review.Guard, Cause: review.Reviewed, Account: "acme", Site: "blog.example", Path: "/posts",
			Author: author,
			Texts: []review.Text{{
				Name: w.name, Text: w.text + " Yours, " + signed[n/len(written)],
				Passages: []review.Passage{{Category: w.category, Begin: w.begin, End: w.end}},
			}},
			Language: "en", Recommendation: "review", Flagged: []string{w.category}, Confidence: w.probability,
			Model: "cascade-1-26800b17", Probabilities: map[string]float64{
				"hate": 0.04, "harassment": 0.08, "sexual": 0.01, "self-harm": 0.02, "violence": 0.03,
				w.category: w.probability,
			},
		}
		if n == items-1 {
			item.Cause = review.Sampled
		}
		if n < 2 {
			item.Texts[0].Text = w.text // and once more at the end
		}
		if n == longItem {
			before := strings.Repeat("We had bread, and soup, and more bread. ", 100)
			item.Texts[0].Text = before + w.text
			item.Texts[0].Passages[0].Begin += len(before)
			item.Texts[0].Passages[0].End += len(before)
		}
		if _, err := queue.Add(ctx, item); err != nil {
			return nil, err
		}
		if n < 1 {
			if _, err := queue.Add(ctx, item); err != nil {
				return nil, err
			}
		}
	}
	return &fragile{store}, keepDecided(ctx, store)
}

func init() { caddy.RegisterModule(new(Waiting)) }

// serveQueue runs a server with a desk and a review queue until the test ends, and returns its address.
func serveQueue(t *testing.T) string {
	t.Helper()
	site := freeSite(t)
	loadQueue(t, site, "")
	return site
}

// loadQueue loads the configuration of a server with a desk and a review queue, with more in its site.
func loadQueue(t *testing.T, site, more string) {
	t.Helper()
	loadConfig(t, `{
	admin off
	persist_config off
	log {
		output discard
	}
	moderation {
		storage waiting
		demo off
		review {
			twice 0
		}
	}
}
`+site+` {
	moderation_desk /desk {
		operator {http.request.header.X-User} alice
		reviewer {http.request.header.X-User} erin frank
	}
	`+more+`
}
`)
}

// press presses a key, and waits until the page says what was decided by it.
func (b *browser) press(key, expected string) {
	b.t.Helper()
	before := evaluate[float64](b, "performance.timeOrigin")
	b.do(chromedp.KeyEvent(key))
	b.await("the page after "+key, fmt.Sprintf(`document.readyState === "complete" && performance.timeOrigin !== %f &&
		(document.querySelector("[data-say]")?.textContent ?? "").includes(%q)`, before, expected))
}

// tap presses a key as a person does: its character is typed by the same event that the page may prevent.
func (b *browser) tap(key string) {
	b.t.Helper()
	send(b, input.DispatchKeyEvent, input.DispatchKeyEventParams{
		Type: input.DispatchKeyEventTypeKeyDown, Key: key, Text: key,
	})
	send(b, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeKeyUp, Key: key})
}

// wasDecided is the number of items that were decided in the visit.
const wasDecided = `Number((document.querySelector("[data-count]:not([hidden])")?.textContent ?? "0")
	.replace(/[^0-9]/g, ""))`

// TestQueueByKeyboard decides fifty items without a mouse, with an undo in between.
func TestQueueByKeyboard(t *testing.T) {
	b := open(t, serveQueue(t), "erin")
	b.visit("/desk/")
	if at := evaluate[string](b, "location.pathname"); at != "/desk/review" {
		t.Errorf("a reviewer begins at %s", at)
	}
	blurred := `getComputedStyle(document.querySelector("[data-blur]")).filter`
	if filter := evaluate[string](b, blurred); !strings.HasPrefix(filter, "blur") {
		t.Errorf("the text is shown before it is asked for: %q", filter)
	}
	b.usable(t, "an item, blurred")
	b.do(chromedp.KeyEvent("v"))
	if filter := evaluate[string](b, blurred); filter != "none" {
		t.Errorf("after v: got %q", filter)
	}
	b.do(chromedp.KeyEvent("?"))
	b.await("the guide", `document.getElementById("keys").open`)
	b.do(chromedp.KeyEvent("a")) // nothing is decided while a dialog is open
	b.usable(t, "the guide")
	b.do(chromedp.KeyEvent(kb.Escape))
	b.await("the guide to close", `!document.getElementById("keys").open`)
	// Nothing is decided while somebody types.
	evaluate[bool](b, `document.querySelector(".more").open = true`)
	b.do(chromedp.Focus(chromedp.CSS("#note")), chromedp.KeyEvent("a rather sad note"))
	if note := evaluate[string](b, `document.getElementById("note").value`); note != "a rather sad note" {
		t.Errorf("got the note %q", note)
	}
	evaluate[bool](b, `document.activeElement.blur() ?? true`)

	b.press("a", "was approved")
	undone := evaluate[string](b, `document.querySelector("[data-last]").dataset.last`)
	if filter := evaluate[string](b, blurred); filter != "none" {
		t.Errorf("the choice is forgotten: got %q", filter)
	}
	b.await("what is said", `document.querySelector("[data-live]").textContent === "The item was approved."`)
	b.usable(t, "an item after a decision")
	b.press("u", "taken back")
	form := evaluate[string](b, `document.querySelector("[data-decide]").getAttribute("action")`)
	if !strings.Contains(form, undone) {
		t.Errorf("after undo: got the form to %s, want %s", form, undone)
	}
	for n := range 50 {
		switch n % 5 {
		case 3:
			b.do(chromedp.KeyEvent("r"))
			b.await("the reasons", `document.getElementById("why").open`)
			if n == 3 {
				b.usable(t, "the reasons")
				b.tap("0")
				b.do(chromedp.KeyEvent("rude, and asked twice"))
				b.press(kb.Enter, "was rejected")
				continue
			}
			b.press("1", "was rejected")
		case 4:
			b.tap("e")
			b.await("the note", `document.getElementById("pass").open`)
			if n == 4 {
				b.usable(t, "the note with which an item is passed on")
			}
			b.do(chromedp.KeyEvent("Is this a joke?"))
			before := evaluate[float64](b, "performance.timeOrigin")
			b.do(chromedp.KeyEvent(kb.Enter, chromedp.KeyModifiers(2)))
			b.await("the page after a note", fmt.Sprintf(
				`document.readyState === "complete" && performance.timeOrigin !== %f`, before))
		default:
			b.press("a", "was approved")
		}
	}
	if n := evaluate[int](b, wasDecided); n != 50 {
		t.Errorf("got %d decided, want 50", n)
	}
	b.press("s", "left to others")
	b.visit("/desk/review/items?status=escalated")
	b.visit(evaluate[string](b, `document.querySelector("tbody a").getAttribute("href")`))
	b.usable(t, "an item that was passed on")
	history := b.text(".history li")
	if !strings.HasSuffix(history, "Is this a joke?") || strings.Contains(history, "eIs") {
		t.Errorf("got the history %q", history)
	}
	b.visit("/desk/review/items?status=rejected&account=acme")
	b.usable(t, "the rejected items")
	if body := b.text("main"); !strings.Contains(body, "(rude, and asked twice)") {
		t.Errorf("the list has no typed reason: %s", body)
	}
	b.calm()
}

// TestQueuePagesAreUsable looks at the pages of the queue at 360 and 1200 pixels, light and dark.
func TestQueuePagesAreUsable(t *testing.T) {
	b := open(t, serveQueue(t), "erin")
	b.visit("/desk/review")
	alike := evaluate[string](b, `document.querySelector(".alike a").getAttribute("href")`)
	b.visit("/desk/review/items")
	item := evaluate[string](b, `document.querySelector("tbody a").getAttribute("href")`)
	for _, path := range []string{
		"/desk/review", alike, "/desk/review/items", item, "/desk/review?account=none",
		"/desk/review/items?status=escalated",
		"/desk/review/items/rev_none",
	} {
		for _, width := range []int64{360, 1200} {
			for _, dark := range []bool{false, true} {
				b.size(width, 800, dark)
				b.visit(path)
				b.usable(t, fmt.Sprintf("%s at %d, dark: %v", path, width, dark))
			}
		}
	}
	b.mu.Lock()
	b.troubles = nil // the page that is not there
	b.mu.Unlock()
	// Without JavaScript the text is in a details element, and the reasons are in the form.
	send(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	b.size(360, 800, false)
	b.visit("/desk/review")
	b.do(chromedp.Click(chromedp.CSS("[data-veil] > summary")), chromedp.WaitVisible(chromedp.CSS("[data-blur] .text")),
		chromedp.WaitVisible(chromedp.CSS("#reason")), chromedp.Click(chromedp.CSS("button[value=approve]")),
		chromedp.WaitVisible(chromedp.CSS("[data-undo] button")))
	b.calm()
}

// TestQueueBlindItem guards against a verdict that is shown where it would spoil the measurement.
func TestQueueBlindItem(t *testing.T) {
	b := open(t, serveQueue(t), "frank")
	b.visit("/desk/review/items")
	b.do(chromedp.Click(chromedp.CSS("a[rel=next]")), chromedp.WaitReady(chromedp.CSS("tbody")))
	b.await("the second page", `location.search.includes("after")`)
	b.visit(evaluate[string](b, `[...document.querySelectorAll("tbody a")].at(-1).getAttribute("href")`))
	if n := evaluate[int](b, `document.querySelectorAll("mark, .verdict .meter, .author").length`); n > 0 {
		t.Errorf("got %d marks and bars of a sampled item", n)
	}
	b.usable(t, "a sampled item")
}

// TestQueueScreenshots takes the pictures of the queue anew with -update, and others into the folder SHOTS.
func TestQueueScreenshots(t *testing.T) {
	folder := os.Getenv("SHOTS")
	if !*update && folder == "" {
		t.Skip("without -update and SHOTS")
	}
	b := open(t, serveQueue(t), "erin")
	take := func(path string) {
		b.do(chromedp.Sleep(300 * time.Millisecond))
		picture := smaller(t, get(b, chromedp.FullScreenshot(100)))
		if err := os.WriteFile(path, picture, 0o644); err != nil {
			t.Fatal(err)
		}
		if len(picture) > maxPicture && strings.HasPrefix(path, pictures) {
			t.Errorf("%s has %d bytes, want at most %d", path, len(picture), maxPicture)
		}
	}
	b.size(1200, 700, false)
	b.visit("/desk/review")
	alike := evaluate[string](b, `document.querySelector(".alike a").getAttribute("href")`)
	if folder != "" {
		take(folder + "/blurred.png")
		b.visit(alike)
		take(folder + "/alike.png")
		b.visit("/desk/review")
	}
	b.do(chromedp.KeyEvent("v"))
	if folder != "" {
		for _, dark := range []bool{false, true} {
			for _, width := range []int64{360, 1200} {
				b.size(width, 700, dark)
				b.visit("/desk/review")
				take(fmt.Sprintf("%s/next-%d-%v.png", folder, width, dark))
				b.visit("/desk/review/items")
				take(fmt.Sprintf("%s/items-%d-%v.png", folder, width, dark))
			}
		}
		b.size(1200, 700, false)
		b.visit("/desk/review")
		b.do(chromedp.KeyEvent("r"))
		take(folder + "/why.png")
		b.do(chromedp.KeyEvent(kb.Escape), chromedp.KeyEvent("?"))
		take(folder + "/keys.png")
		b.do(chromedp.KeyEvent(kb.Escape))
	}
	b.press("a", "was approved")
	b.do(chromedp.KeyEvent("r"), chromedp.Sleep(100*time.Millisecond))
	b.press("3", "was rejected")
	b.tap("e")
	b.do(chromedp.Sleep(100*time.Millisecond), chromedp.KeyEvent("Is this about the real mayor?"),
		chromedp.Click(chromedp.CSS("[data-told]")), chromedp.Sleep(400*time.Millisecond))
	if folder != "" {
		take(folder + "/said.png")
		b.visit("/desk/review/items?status=escalated")
		b.visit(evaluate[string](b, `document.querySelector("tbody a").getAttribute("href")`))
		take(folder + "/item.png")
		b.visit("/desk/review?account=none")
		take(folder + "/empty.png")
	}
	if *update {
		b.visit("/desk/review")
		take(pictures + "/queue.png")
		b.visit("/desk/review/items?status=rejected&account=acme")
		take(pictures + "/queue-items.png")
	}
}

// TestQueueSecondThoughts guards against a note that is lost with its dialog, a reason of an earlier decision that is
// sent again after going back, and items left to others that are counted as decided.
func TestQueueSecondThoughts(t *testing.T) {
	b := open(t, serveQueue(t), "erin")
	b.visit("/desk/review")
	b.press("s", "left to others")
	if n := evaluate[int](b, wasDecided); n != 0 {
		t.Errorf("after leaving an item to others: got %d decided", n)
	}
	b.press("u", "taken back")
	told := `document.getElementById("told").value`
	b.tap("e")
	b.await("the note", `document.getElementById("pass").open`)
	b.do(chromedp.KeyEvent("not sure"), chromedp.KeyEvent(kb.Escape))
	b.await("the note to close", `!document.getElementById("pass").open`)
	b.tap("e")
	b.await("the note again", `document.getElementById("pass").open`)
	if note := evaluate[string](b, told); note != "not sure" {
		t.Errorf("got the note %q", note)
	}
	b.do(chromedp.KeyEvent(kb.Escape))
	b.await("the note to close again", `!document.getElementById("pass").open`)
	b.do(chromedp.KeyEvent("r"))
	b.await("the reasons", `document.getElementById("why").open`)
	b.press("1", "was rejected")
	evaluate[bool](b, `history.back() ?? true`)
	b.await("the page before", `!document.querySelector("[data-say]")?.textContent.includes("was rejected")`)
	if evaluate[bool](b, `document.querySelector("dialog[open]") !== null`) {
		t.Error("after going back a dialog is open")
	}
	b.do(chromedp.KeyEvent("r"))
	b.await("the reasons after going back", `document.getElementById("why").open`)
	b.do(chromedp.KeyEvent(kb.Escape))
	b.await("the reasons to close", `!document.getElementById("why").open`)
	b.press("a", "") // the browser may have kept the page, or have loaded it anew with the next item
	// Enter is the key of the button, not of the first reason.
	b.do(chromedp.KeyEvent("r"))
	b.await("the reasons of the next item", `document.getElementById("why").open`)
	b.press(kb.Enter, "was rejected")
	item := evaluate[string](b, `document.querySelector("[data-last]").dataset.last`)
	b.visit("/desk/review/items/" + item)
	if history := b.text(".history li"); strings.Contains(history, "insult") {
		t.Errorf("got the history %q, want no reason", history)
	}
	b.calm()
}

// TestQueueShowsWhatCounts guards against a long text of which only what does not matter is seen.
func TestQueueShowsWhatCounts(t *testing.T) {
	b := open(t, serveQueue(t), "erin")
	b.visit("/desk/review/items")
	b.visit(evaluate[string](b, `[...document.querySelectorAll("tbody a")].find((a) => a.textContent.includes("bread")).
		getAttribute("href")`))
	b.do(chromedp.KeyEvent("v"))
	if !evaluate[bool](b, `(() => {
		const box = document.querySelector(".box").getBoundingClientRect();
		const mark = document.querySelector("mark").getBoundingClientRect();
		return box.height < 500 && mark.top >= box.top && mark.top < box.bottom;
	})()`) {
		t.Error("the passage is not in sight")
	}
	b.usable(t, "a long text")
	b.calm()
}
