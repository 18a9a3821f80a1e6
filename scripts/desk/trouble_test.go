// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package desk

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/caddy-moderation/caddy-moderation/documents"
	"github.com/caddy-moderation/caddy-moderation/storage"
)

// gone says that the stores with documents do not answer.
var gone atomic.Bool

// fragile is a store whose documents can be gone.
type fragile struct{ storage.Store }

func (f *fragile) err() error {
	if gone.Load() {
		return fmt.Errorf("a test has taken it: %w", storage.ErrUnavailable)
	}
	return nil
}

// ChangeDocuments makes changes, unless the store is gone.
func (f *fragile) ChangeDocuments(ctx context.Context, collection string, changes ...documents.Change) error {
	if err := f.err(); err != nil {
		return err
	}
	return f.Store.ChangeDocuments(ctx, collection, changes...)
}

// Documents returns documents, unless the store is gone.
func (f *fragile) Documents(ctx context.Context, collection string, keys ...string) ([]documents.Document, error) {
	if err := f.err(); err != nil {
		return nil, err
	}
	return f.Store.Documents(ctx, collection, keys...)
}

// ListDocuments yields documents, unless the store is gone.
func (f *fragile) ListDocuments(
	ctx context.Context, collection string, r documents.Range,
) iter.Seq2[documents.Document, error] {
	if err := f.err(); err != nil {
		return func(yield func(documents.Document, error) bool) { yield(documents.Document{}, err) }
	}
	return f.Store.ListDocuments(ctx, collection, r)
}

// note types a note about the item that is served.
func (b *browser) note(text string) {
	b.t.Helper()
	b.do(chromedp.Click(chromedp.CSS("details.more > summary")), chromedp.Click(chromedp.CSS("#note")),
		chromedp.KeyEvent(text), chromedp.KeyEvent(kb.Tab))
}

const typedNote = `document.querySelector("#note").value`

// TestStoreGoneAndBack guards against a page that hides that a decision was not kept, loses the note, or does not
// recover by itself.
func TestStoreGoneAndBack(t *testing.T) {
	b := open(t, serveQueue(t), "erin")
	t.Cleanup(func() { gone.Store(false) })
	b.visit("/desk/review")
	item := evaluate[string](b, `document.querySelector("[data-decide]").getAttribute("action")`)
	b.note("Ask the mayor first.")
	evaluate[bool](b, "document.activeElement.blur() ?? true")
	gone.Store(true)
	b.do(chromedp.KeyEvent("a"))
	b.await("the page about the store",
		`document.querySelector("h1")?.textContent === "The store is unavailable" &&
			document.querySelector("main").textContent.includes("not certain whether this was kept")`)
	b.usable(t, "the store is gone")
	b.visit("/desk/review")
	if told := b.text("main"); !strings.Contains(told, "tries again by itself") {
		t.Errorf("got %q", told)
	}
	gone.Store(false)
	b.await("the queue to come back", `document.querySelector("[data-decide]") !== null`)
	if again := evaluate[string](b, `document.querySelector("[data-decide]").getAttribute("action")`); again != item {
		t.Errorf("got the item %s, want %s, which was not decided", again, item)
	}
	if note := evaluate[string](b, typedNote); note != "Ask the mayor first." {
		t.Errorf("got the note %q", note)
	}
	b.press("a", "was approved")
	if note := evaluate[string](b, typedNote); note != "" {
		t.Errorf("the next item has the note %q", note)
	}
	b.mu.Lock()
	b.troubles = nil // the answers 503
	b.mu.Unlock()
}

// TestReloadWithThePageOpen reloads Caddy while somebody decides.
func TestReloadWithThePageOpen(t *testing.T) {
	site := serveQueue(t)
	b := open(t, site, "erin")
	b.visit("/desk/review")
	b.note("Half a ")
	loadQueue(t, site, "respond /other 200")
	b.do(chromedp.Click(chromedp.CSS("#note")), chromedp.KeyEvent(kb.End), chromedp.KeyEvent("sentence."))
	if note := evaluate[string](b, typedNote); note != "Half a sentence." {
		t.Errorf("got the note %q", note)
	}
	evaluate[bool](b, "document.activeElement.blur() ?? true")
	item := evaluate[string](b, `document.querySelector("[data-decide]").getAttribute("action").split("/").at(-2)`)
	b.calm()
	b.press("a", "was approved")
	loadQueue(t, site, "")
	b.press("u", "taken back")
	b.press("a", "was approved")
	b.visit("/desk/review/items/" + item)
	if history := b.text(".history"); !strings.Contains(history, "Half a sentence.") {
		t.Errorf("got the history %q", history)
	}
	b.calm()

	// The gauge goes on after a reload.
	site = serve(t)
	b = open(t, site, "carol")
	b.visit("/desk/accounts/acme")
	live := `document.querySelector("[data-live]")`
	b.await("the live gauge", "!"+live+`.hidden && `+live+`.textContent.includes("live")`)
	evaluate[bool](b, `(window.moved = 0, new MutationObserver(() => window.moved++).observe(`+live+`,
		{childList: true}), true)`)
	loadDesk(t, site, "respond /other 200")
	b.await("the gauge to find the new configuration", `window.moved > 0 && `+live+`.textContent === "· live"`)
}
