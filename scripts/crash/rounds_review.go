// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// reviewOptions is the review queue of the configuration, in the rounds that have one.
const reviewOptions = `
		review {
			sample 100%
			twice 0
		}
		account reviewed {
			tier load
			key {env.CRASH_REVIEW_KEY} {
				scope review
			}
		}`

// reviewLedger is what the clients of the review queue know.
type reviewLedger struct {
	mu sync.Mutex
	// kept are the texts whose answer has come.
	kept map[string]bool
	// served is to whom an item was served, and decided what was acknowledged about it.
	served  map[string]string
	decided map[string]reviewDecision
}

type reviewDecision struct{ reviewer, action string }

// reviewed is an item as the export and the queue tell it.
type reviewed struct {
	ID      string `json:"id"`
	Account string `json:"account"`
	Status  string `json:"status"`
	Texts   []struct {
		Text string `json:"text"`
	} `json:"texts"`
	Decisions []struct {
		Reviewer string `json:"reviewer"`
		Action   string `json:"action"`
	} `json:"decisions"`
}

// killReview kills the server while texts are kept for review and while reviewers decide them. What was acknowledged
// must be there, once, and no item may have been served or decided twice. A backup has all of it, too.
func killReview(ctx context.Context, w *world, _ *rig) error {
	w.reviewSecret = "mod_sk_" + w.letters(32)
	l := &reviewLedger{kept: map[string]bool{}, served: map[string]string{}, decided: map[string]reviewDecision{}}
	for round := range 2 {
		w.kill(true)
		if err := w.begin(ctx, writers); err != nil {
			return err
		}
		working, stop := context.WithCancel(ctx)
		var clients sync.WaitGroup
		for n := range 4 {
			clients.Go(func() { w.postForReview(working, l, fmt.Sprintf("%d %d", round, n)) })
		}
		for _, reviewer := range []string{"ann", "bob", "cyd"} {
			clients.Go(func() { w.decideReviews(working, l, reviewer) })
		}
		pause(ctx, w.between(500*time.Millisecond, 1500*time.Millisecond))
		w.kill(true)
		stop()
		clients.Wait()
		w.rest()
		if err := w.compare(ctx); err != nil {
			return err
		}
		if err := w.compareReviews(ctx, l); err != nil {
			return err
		}
	}
	w.note("%d items, %d decided", len(l.kept), len(l.decided))
	file := filepath.Join(w.folder, "reviews.backup")
	if _, err := w.command(ctx, "backup", file); err != nil {
		return err
	}
	w.kill(true)
	dir := filepath.Join(w.folder, "restored")
	if _, err := w.command(ctx, "restore", file, "--dir", dir); err != nil {
		return err
	}
	if out, err := w.command(ctx, "check", dir); err != nil || !strings.Contains(out, "The database is whole.") {
		w.violate("a restored backup with review items is not whole: %s %v", out, err)
	}
	w.dir = dir
	if err := w.start(ctx); err != nil {
		return err
	}
	return w.compareReviews(ctx, l)
}

// postForReview sends texts that the service is not sure of, until the context ends.
func (w *world) postForReview(ctx context.Context, l *reviewLedger, name string) {
	for n := 0; ctx.Err() == nil; n++ {
		text := fmt.Sprintf("Your jokes are stupid and so are you, %s %d.", name, n)
		body, err := json.Marshal(map[string]string{"content": text})
		if err != nil {
			panic(err)
		}
		status, _, err := w.do(http.MethodPost, "http://"+w.site+"/v1/moderate/text", w.reviewSecret, "application/json", body)
		if err == nil && status == http.StatusOK {
			l.mu.Lock()
			l.kept[text] = true
			l.mu.Unlock()
		}
	}
}

// decideReviews decides items as a reviewer, until the context ends.
func (w *world) decideReviews(ctx context.Context, l *reviewLedger, reviewer string) {
	queue := "http://" + w.site + "/v1/reviews"
	for n := 0; ctx.Err() == nil; n++ {
		status, answer, err := w.do(http.MethodPost, queue+"/next", w.reviewSecret, "application/json",
			[]byte(`{"reviewer":"`+reviewer+`"}`))
		var item reviewed
		if err != nil || status != http.StatusOK || json.Unmarshal(answer, &item) != nil {
			pause(ctx, 10*time.Millisecond)
			continue
		}
		l.mu.Lock()
		if other, served := l.served[item.ID]; served && other != reviewer {
			w.violate("an item was served to %s and to %s", other, reviewer)
		}
		if _, decided := l.decided[item.ID]; decided {
			w.violate("an item that is decided was served again")
		}
		l.served[item.ID] = reviewer
		l.mu.Unlock()
		action := []string{"approve", "reject"}[n%2]
		status, _, err = w.do(http.MethodPost, queue+"/"+item.ID+"/decision", w.reviewSecret, "application/json",
			[]byte(`{"reviewer":"`+reviewer+`","action":"`+action+`"}`))
		if err == nil && status == http.StatusOK {
			l.mu.Lock()
			l.decided[item.ID] = reviewDecision{reviewer, action}
			l.mu.Unlock()
		}
	}
}

// compareReviews wants everything that was acknowledged in the running server, and a whole audit log.
func (w *world) compareReviews(ctx context.Context, l *reviewLedger) error {
	if _, err := w.command(ctx, "audit", "verify"); err != nil {
		w.violate("the audit log is broken: %v", err)
	}
	out, err := w.command(ctx, "review", "export")
	if err != nil {
		return err
	}
	times, items := map[string]int{}, map[string]reviewed{}
	for line := range strings.Lines(out) {
		var item reviewed
		if err := json.Unmarshal([]byte(line), &item); err != nil || len(item.Texts) == 0 {
			return errors.New("an item cannot be read: " + cut(line, 200))
		}
		if item.Account != "reviewed" {
			continue // of the other clients
		}
		times[item.Texts[0].Text]++
		items[item.ID] = item
	}
	for text := range l.kept {
		if times[text] != 1 {
			w.violate("a text that was acknowledged is %d times in the review queue", times[text])
		}
	}
	events, err := w.reviewEvents()
	if err != nil {
		return err
	}
	for id, made := range l.decided {
		item := items[id]
		want := map[string]string{"approve": "approved", "reject": "rejected"}[made.action]
		if len(item.Decisions) != 1 || item.Decisions[0].Reviewer != made.reviewer ||
			item.Decisions[0].Action != made.action || item.Status != want {
			w.violate("an item that %s was acknowledged to %s has the status %q and the decisions %v", made.reviewer,
				made.action, item.Status, item.Decisions)
		}
		if events[id] != want {
			w.violate("the event of an acknowledged decision says %q, want %q", events[id], want)
		}
	}
	for _, item := range items {
		if len(item.Decisions) > 1 {
			w.violate("an item has %d decisions", len(item.Decisions))
		}
	}
	return nil
}

// reviewEvents returns the statuses that events tell, by item.
func (w *world) reviewEvents() (map[string]string, error) {
	found, after := map[string]string{}, ""
	for {
		status, answer, err := w.do(http.MethodGet,
			"http://"+w.site+"/v1/reviews/events?limit=1000&after="+after, w.reviewSecret, "", nil)
		if err != nil || status != http.StatusOK {
			return nil, errors.New("the events cannot be read: " + brief(status, answer, err))
		}
		var page struct {
			Events []struct {
				ID     string `json:"id"`
				Item   string `json:"item"`
				Status string `json:"status"`
			} `json:"events"`
		}
		if err := json.NewDecoder(bytes.NewReader(answer)).Decode(&page); err != nil {
			return nil, err
		}
		if len(page.Events) == 0 {
			return found, nil
		}
		for _, e := range page.Events {
			if _, twice := found[e.Item]; twice {
				w.violate("an item that was decided once has two events")
			}
			found[e.Item], after = e.Status, e.ID
		}
	}
}
