// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package desk

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	browserdomain "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/chromedp"

	"github.com/caddy-moderation/caddy-moderation/documents"
	"github.com/caddy-moderation/caddy-moderation/review"
)

// keepDecided adds items of the account kiosk that two people have decided in the last four weeks: a part of them
// sampled, a part decided by both, and one in six otherwise than the service would.
func keepDecided(ctx context.Context, store documents.Store) error {
	clock := time.Now().Add(-27 * 24 * time.Hour)
	queue, err := review.New(review.Options{Store: store, Twice: 0.3, Now: func() time.Time { return clock }})
	if err != nil {
		return err
	}
	for n := range 130 {
		w := written[n%len(written)]
		clock = clock.Add(285 * time.Minute)
		item := review.Item{
			Origin: review.Guard, Cause: review.Reviewed, Account: "kiosk", Site: "kiosk.example", Path: "/",
			Texts: []review.Text{{Name: w.name, Text: fmt.Sprintf("%s (%d)", w.text, n)}}, Language: "en",
			Recommendation: "reject", Flagged: []string{w.category}, Confidence: w.probability, Model: "cascade-1-26800b17",
			Probabilities: map[string]float64{w.category: 0.6 + float64(n%40)/100},
		}
		harmful := n%6 != 0
		if n%3 == 0 {
			item.Cause, item.Recommendation, item.Flagged = review.Sampled, "approve", []string{}
			probability := float64(n*37%100) / 100
			item.Probabilities = map[string]float64{w.category: probability}
			if harmful = probability > 0.65 || n%24 == 0; probability > 0.7 {
				item.Recommendation, item.Flagged = "reject", []string{w.category}
				harmful = n%5 != 0
			}
		}
		id, err := queue.Add(ctx, item)
		if err != nil {
			return err
		}
		action := review.Approve
		if harmful {
			action = review.Reject
		}
		d := review.Decision{Reviewer: "ann", Action: action, Categories: map[string]bool{w.category: harmful}}
		decided, err := queue.Decide(ctx, id, d)
		if err == nil && decided.Status == review.Pending {
			if d.Reviewer = "ben"; n%10 == 1 {
				d.Action = review.Approve
			}
			_, err = queue.Decide(ctx, id, d)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// TestQualityPagesAreUsable looks at the pages at 360 and 1200 pixels, light and dark, and takes their picture anew with
// -update.
func TestQualityPagesAreUsable(t *testing.T) {
	b := open(t, serveQueue(t), "erin")
	const path = "/desk/review/quality?account=kiosk&category=harassment"
	for _, path := range []string{
		path, "/desk/review/quality?account=none", "/desk/review/quality/differences?account=kiosk",
		"/desk/review/quality/differences?account=none",
	} {
		for _, width := range []int64{360, 1200} {
			for _, dark := range []bool{false, true} {
				b.size(width, 800, dark)
				b.visit(path)
				b.usable(t, fmt.Sprintf("%s at %d, dark: %v", path, width, dark))
			}
		}
	}
	b.size(360, 800, false)
	b.visit(path)
	// The threshold that is looked at is chosen by a form, and stays in the address.
	b.do(chromedp.SetValue(chromedp.CSS("#category"), "violence"),
		chromedp.Click(chromedp.CSS("#steps ~ form button")))
	b.await("the other category", `location.search.includes("category=violence") && location.search.includes("kiosk")`)
	b.calm()
	if !*update {
		return
	}
	b = open(t, b.site, "alice")
	b.size(1200, 700, false)
	b.visit(path)
	b.do(chromedp.Sleep(300 * time.Millisecond))
	if err := os.WriteFile(pictures+"/quality.png", smaller(t, get(b, chromedp.FullScreenshot(100))), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestDownloadOfWhatWasDecided downloads the decided texts with a progress, and guards against a file that is a part of
// them.
func TestDownloadOfWhatWasDecided(t *testing.T) {
	site := serveQueue(t)
	t.Cleanup(func() { gone.Store(false) })
	b := open(t, site, "alice")
	folder := t.TempDir()
	send(b, browserdomain.SetDownloadBehavior, browserdomain.SetDownloadBehaviorParams{
		Behavior: browserdomain.SetDownloadBehaviorBehaviorAllow, DownloadPath: folder,
	})
	const path = "/desk/review/quality?account=kiosk"
	for _, width := range []int64{360, 1200} {
		for _, dark := range []bool{false, true} {
			b.size(width, 800, dark)
			b.visit(path)
			evaluate[bool](b, `(document.querySelector("[data-progress]").hidden = false, true)`)
			b.usable(t, fmt.Sprintf("%s of an operator at %d, dark: %v", path, width, dark))
		}
	}
	b.visit(path)
	b.do(chromedp.Click(chromedp.CSS("[data-download]")))
	said := `document.querySelector("[data-said]").textContent`
	b.await("the download", said+`.includes("Rows saved")`)
	rows := evaluate[int](b, `document.querySelector("[data-progress] progress").max`)
	if told := evaluate[string](b, said); rows < 100 || told != fmt.Sprintf("Rows saved: %d.", rows) {
		t.Errorf("got %q, want %d rows", told, rows)
	}
	var content []byte
	for range 50 {
		if content, _ = os.ReadFile(folder + "/decided.jsonl"); len(content) > 0 {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if got := bytes.Count(content, []byte("\n")); got != rows {
		t.Errorf("the file has %d rows, want %d: %.200s", got, rows, content)
	}
	b.calm()
	// The answer breaks off, or there is none.
	gone.Store(true)
	b.do(chromedp.Click(chromedp.CSS("[data-download]")))
	b.await("the failure", said+`.includes("broke off")`)
	b.usable(t, "a download that broke off")
	gone.Store(false)
	if files, err := os.ReadDir(folder); err != nil || len(files) != 1 {
		t.Errorf("got the files %v, %v, want one", files, err)
	}
}
