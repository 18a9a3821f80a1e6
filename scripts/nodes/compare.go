// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// recovered waits until all nodes that run say that their store works, without a mode of outage.
func (w *world) recovered(ctx context.Context, why string) bool {
	began := time.Now()
	last, slow := "", ""
	for time.Since(began) < timeout && ctx.Err() == nil {
		last = ""
		for _, n := range w.nodes {
			if n.process == nil {
				continue
			}
			status, body, up, err := n.health()
			if err != nil || status != 200 || !up {
				last = fmt.Sprintf("node %d: ready %d, store_up %t, %v, %s", n.n, status, up, err, cut(body, 200))
			}
		}
		if last == "" {
			if slow != "" {
				w.note("after 2 s: %s", slow)
			}
			return true
		}
		if slow == "" && time.Since(began) > 2*time.Second {
			slow = last
		}
		pause(ctx, 20*time.Millisecond)
	}
	w.violate("%s: not recovered after %s: %s", why, timeout, last)
	return false
}

// alarmed waits until a node says that its store does not work.
func (w *world) alarmed(ctx context.Context, n *node, why string) bool {
	began := time.Now()
	last := ""
	for time.Since(began) < timeout && ctx.Err() == nil {
		status, body, up, err := n.health()
		if err == nil && !up {
			// Nodes that go on without the store are ready, and say how they go on.
			deny := w.setup.outage == "deny"
			if deny && status != 503 || !deny && status != 200 {
				w.violate("%s: node %d: ready is %d with outage %q: %s", why, n.n, status, w.setup.outage,
					cut(body, 200))
			}
			return true
		}
		last = fmt.Sprintf("ready %d, store_up %t, %v, %s", status, up, err, cut(body, 200))
		pause(ctx, 10*time.Millisecond)
	}
	w.violate("%s: node %d raises no alarm within %s: %s", why, n.n, timeout, last)
	return false
}

// tolerance is what may differ from the ledger.
type tolerance struct {
	// Acknowledged requests may be lost that were answered after from and not after to.
	from, to time.Time
	// at is the instant of what they may be lost for.
	at time.Time
	// decisions says that acknowledged corrections, keys and revocations of that time may be lost, too.
	decisions bool
}

// excuses reports whether a decision of an operator may be lost.
func (t tolerance) excuses(at time.Time) bool {
	return t.decisions && at.After(t.from) && !at.After(t.to)
}

// compare compares what all nodes tell with the ledger. The clients rest.
func (w *world) compare(ctx context.Context, t tolerance) {
	for _, account := range w.ledger.accounts() {
		w.compareCounts(ctx, account, t)
	}
	w.compareFeedback(ctx, t)
	w.compareKeys(t)
}

// compareCounts waits until the counts of an account reach what was acknowledged, and compares them on all nodes.
func (w *world) compareCounts(ctx context.Context, account string, t tolerance) {
	held := w.ledger.get(account)
	want := held.requests
	want.low -= w.ledger.ackedBetween(account, t.from, t.to)
	running := w.running()
	problem := "the round is over"
	// What was admitted or taken back without the store is brought to it within moments.
	for began := time.Now(); time.Since(began) < 15*time.Second && ctx.Err() == nil; pause(ctx, 50*time.Millisecond) {
		u, err := running[0].usage(account)
		if err != nil {
			problem = err.Error()
			continue
		}
		if problem = want.difference(u.Period.Requests); problem == "" {
			break
		}
	}
	if problem != "" {
		w.violate("account %s: %s", account, problem)
		return
	}
	for _, n := range running {
		u, err := n.usageWhenReady(ctx, account)
		if err != nil {
			w.violate("account %s: node %d: %v", account, n.n, err)
			continue
		}
		if d := want.difference(u.Period.Requests); d != "" {
			w.violate("account %s: node %d: period: %s", account, n.n, d)
		}
		days := int64(0)
		for _, day := range u.Days {
			days += day.Requests
		}
		if days != u.Period.Requests {
			w.violate("account %s: node %d: %d requests in days, %d in the period", account, n.n, days,
				u.Period.Requests)
		}
		minute := u.Minute.Reset.Unix()/60 - 1
		if b := held.minutes[minute]; b != nil && t.to.IsZero() {
			if u.Minute.Requests > b.high {
				w.violate("account %s: node %d: minute: %s", account, n.n, b.difference(u.Minute.Requests))
			}
		}
		if u.Period.Requests < held.requests.low && n == running[0] {
			lost := held.requests.low - u.Period.Requests
			w.note("%s: %d of %d lost, answered up to %s before", account, lost, held.requests.low,
				w.ledger.lossAge(account, t.at, lost).Round(100*time.Microsecond))
		}
	}
}

// usageWhenReady is usage, again for a while if the node cannot tell at once.
func (n *node) usageWhenReady(ctx context.Context, account string) (u usage, err error) {
	for began := time.Now(); time.Since(began) < 5*time.Second && ctx.Err() == nil; pause(ctx, 50*time.Millisecond) {
		if u, err = n.usage(account); err == nil {
			break
		}
	}
	return u, err
}

func (w *world) running() (all []*node) {
	for _, n := range w.nodes {
		if n.process != nil {
			all = append(all, n)
		}
	}
	return all
}

func (w *world) compareFeedback(_ context.Context, t tolerance) {
	held := w.ledger.feedback
	if len(held) == 0 {
		return
	}
	all, err := w.running()[0].export()
	if err != nil {
		w.violate("%v", err)
		return
	}
	found := map[string]int{}
	altered, extra := 0, 0
	for _, r := range all {
		sent := held[r.Token]
		switch {
		case sent == nil:
			extra++
		case sent.sum != sha256.Sum256([]byte(r.Text)) || sent.account != r.Account:
			altered++
		}
		found[r.Token]++
	}
	missing, excused, twice, denied := 0, 0, 0, 0
	for token, s := range held {
		switch n := found[token]; {
		case s.acked && n == 0 && t.excuses(s.at):
			excused++
		case s.acked && n == 0:
			missing++
		case n > 1:
			twice++
		case s.unsent && n > 0:
			denied++
		}
	}
	for what, n := range map[string]int{
		"acknowledged records are missing": missing, "records are there more than once": twice,
		"records are there that were refused": denied, "records are changed": altered,
		"records are there that nobody sent": extra,
	} {
		if n > 0 {
			w.violate("feedback: %d of %d %s", n, len(held), what)
		}
	}
	if excused > 0 {
		w.note("corrections: %d lost", excused)
	}
}

// compareKeys compares the lists of keys, and tries the keys, on all nodes.
func (w *world) compareKeys(t tolerance) {
	held := w.ledger.keys
	if len(held) == 0 {
		return
	}
	for _, n := range w.running() {
		all, err := n.list(keysAccount)
		if err != nil {
			w.violate("node %d: %v", n.n, err)
			continue
		}
		listedKeys := map[string]listed{}
		for _, k := range all {
			listedKeys[k.ID] = k
		}
		missing, alive, dead, lost := 0, 0, 0, 0
		for id, k := range held {
			got, found := listedKeys[id]
			switch {
			case !found && !t.excuses(k.created):
				missing++
			case !found:
				lost++
			case k.revoked && got.Revoked == nil && t.excuses(k.revokedAt):
				lost++
			case k.revoked && got.Revoked == nil:
				alive++
			case !k.revoking && got.Revoked != nil:
				dead++
			}
		}
		if lost > 0 && n == w.running()[0] {
			w.note("keys: %d lost, or their revocation", lost)
		}
		for what, count := range map[string]int{
			"are missing": missing, "that were revoked are valid": alive, "are not valid that nobody revoked": dead,
		} {
			if count > 0 {
				w.violate("node %d: %d of %d keys %s", n.n, count, len(held), what)
			}
		}
	}
	c := newClient(2)
	defer c.CloseIdleConnections()
	tried := 0
	for _, k := range held {
		if tried++; tried > 30 {
			break
		}
		if t.excuses(k.created) || t.excuses(k.revokedAt) {
			continue
		}
		for _, n := range w.running() {
			status, _, answer, err := send(context.Background(), c, http.MethodGet, "http://"+n.site+"/v1/usage",
				k.secret, "", nil)
			switch {
			case err != nil || status != 200 && status != 401:
				w.violate("node %d: a key cannot be used: %s", n.n, brief(status, answer, err))
			case status == 401 && !k.revoking:
				w.violate("node %d: a key is refused that nobody revoked", n.n)
			case status == 200 && k.revoked:
				w.violate("node %d: a key is taken whose revocation was acknowledged", n.n)
			}
		}
	}
}

// conclude stops the clients, waits until all nodes are well, and compares what they tell with the ledger.
func (w *world) conclude(ctx context.Context) {
	w.rest()
	if !w.recovered(ctx, "at the end") {
		return
	}
	w.compare(ctx, tolerance{})
}

// summary says what the clients saw.
func (w *world) summary() string {
	all := w.ledger.total()
	parts := []string{fmt.Sprintf("%d answers", w.answers.Load())}
	if n := len(w.ledger.keys); n > 0 {
		parts = append(parts, fmt.Sprintf("%d keys", n))
	}
	if n := len(w.ledger.feedback); n > 0 {
		parts = append(parts, fmt.Sprintf("%d corrections", n))
	}
	if all.limited > 0 {
		parts = append(parts, fmt.Sprintf("%d limited", all.limited))
	}
	if all.refused > 0 {
		parts = append(parts, fmt.Sprintf("%d refused", all.refused))
	}
	for mark, n := range all.marked {
		parts = append(parts, fmt.Sprintf("%d marked %s", n, mark))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(append(parts, w.notes...), "; ")
}
