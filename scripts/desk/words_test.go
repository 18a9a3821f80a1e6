// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package desk

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestWords types words with a mistake and without, looks at what they would have done, saves them and meets them in
// the playground.
func TestWords(t *testing.T) {
	b := open(t, serveQueue(t), "alice")
	const path = "/desk/accounts/acme/words"
	trial, save := chromedp.CSS("button[name=try]"), chromedp.CSS("main form button:not([name])")
	b.visit(path)
	b.do(chromedp.SetValue(chromedp.CSS("#block"), "recipe\n***"), chromedp.Click(save), chromedp.WaitVisible(chromedp.CSS("#problem")))
	if typed := evaluate[string](b, `document.getElementById("block").value`); typed != "recipe\n***" {
		t.Errorf("what was typed is lost: got %q", typed)
	}
	if focused := evaluate[string](b, "document.activeElement.id"); focused != "block" {
		t.Errorf("the focus is at %q", focused)
	}
	b.usable(t, "words with a mistake")
	b.mu.Lock()
	b.troubles = nil // the browser complains of the answer 400
	b.mu.Unlock()
	b.do(chromedp.SetValue(chromedp.CSS("#block"), "recipe\nbuy followers"),
		chromedp.SetValue(chromedp.CSS("#allow"), "stupid"), chromedp.SetValue(chromedp.CSS("#languages"), "en"),
		chromedp.SetValue(chromedp.CSS("#other_language"), "review"),
		chromedp.Click(trial), chromedp.WaitVisible(chromedp.CSS("#tried")))
	if told := b.text("[role=status]"); !strings.Contains(told, "Judged more strictly") {
		t.Errorf("got %q", told)
	}
	for _, width := range []int64{360, 1000} {
		b.size(width, 700, false)
		b.usable(t, "what words would have done")
	}
	if *update {
		picture := smaller(t, get(b, chromedp.FullScreenshot(100)))
		if err := os.WriteFile(filepath.Join(pictures, "words.png"), picture, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b.visit(path)
	if saved := evaluate[string](b, `document.getElementById("block").value`); saved != "" {
		t.Errorf("trying has saved %q", saved)
	}
	b.do(chromedp.SetValue(chromedp.CSS("#block"), "recipe\nbuy followers"), chromedp.Click(save),
		chromedp.WaitVisible(chromedp.CSS("p.note.good")))
	b.visit("/desk/accounts/acme/playground")
	b.do(chromedp.SetValue(chromedp.CSS("#content"), "A fine r3cipe for bread."), chromedp.Click(chromedp.CSS(submit)),
		chromedp.WaitVisible(chromedp.CSS("[data-verdict]")))
	if marked := b.text("mark"); !strings.Contains(marked, "r3cipe") || !strings.Contains(marked, "blocked word") {
		t.Errorf("got the mark %q", marked)
	}
	// Thresholds do not undo it.
	evaluate[bool](b, `[...document.querySelectorAll("input[type=range]")].every(s => {
		s.value = 990; return s.dispatchEvent(new Event("input")) })`)
	if outcome := b.text("[data-outcome]"); !strings.Contains(outcome, "reject") {
		t.Errorf("with other thresholds: got %q", outcome)
	}
	b.usable(t, "a blocked word")
	b.calm()
}
