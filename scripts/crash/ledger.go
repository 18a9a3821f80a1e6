// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package main

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"
)

// bounds are the bounds of a number: what was acknowledged, and what was sent.
type bounds struct{ Low, High int64 }

func (s bounds) holds(n int64) bool { return s.Low <= n && n <= s.High }

// ledger holds what the clients know: what was acknowledged, and what may have been done because it was sent.
type ledger struct {
	mu       sync.Mutex
	counts   map[string]*counts
	feedback map[string]*suggestion
	keys     map[string]*heldKey
	accounts map[string]*heldAccount
	// lostKeys are the names of keys whose creation was not answered.
	lostKeys map[string]bool
	now      func() time.Time
}

// counts are those of one account.
type counts struct {
	Requests bounds
	Minutes  map[int64]*bounds
	Flagged  map[string]*bounds
	// Excused are requests that were answered although the server said, in its metrics, that they could not be counted.
	Excused int64
}

// suggestion is a record of feedback.
type suggestion struct {
	Account string
	Sum     [sha256.Size]byte
	Acked   bool
	At      time.Time // of the acknowledgement
	Status  int       // of the answer; 0 without one
}

// Stages of a key and of an account. Neither ever goes back.
const (
	absent = iota
	present
	changed // a key that is revoked or rotated, an account with another name
	deleted // an account
)

// stages are the bounds of a stage: at least Acked, at most Sent.
type stages struct{ Acked, Sent int }

// heldKey is a key whose creation was acknowledged.
type heldKey struct {
	stages
	Secret string
}

// heldAccount is an account that was, or may have been, made.
type heldAccount struct{ stages }

func newLedger() *ledger {
	return &ledger{
		counts: map[string]*counts{}, feedback: map[string]*suggestion{}, keys: map[string]*heldKey{},
		accounts: map[string]*heldAccount{}, lostKeys: map[string]bool{}, now: time.Now,
	}
}

// clone returns what the ledger holds at this instant.
func (l *ledger) clone() *ledger {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := newLedger()
	for id, held := range l.counts {
		c.counts[id] = held.clone()
	}
	for id, f := range l.feedback {
		f := *f
		c.feedback[id] = &f
	}
	for id, k := range l.keys {
		k := *k
		c.keys[id] = &k
	}
	for id, a := range l.accounts {
		a := *a
		c.accounts[id] = &a
	}
	maps.Copy(c.lostKeys, l.lostKeys)
	return c
}

// cloneCounts returns the counts at this instant.
func (l *ledger) cloneCounts() map[string]*counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := map[string]*counts{}
	for id, held := range l.counts {
		all[id] = held.clone()
	}
	return all
}

func (c *counts) clone() *counts {
	d := &counts{Requests: c.Requests, Minutes: map[int64]*bounds{}, Flagged: map[string]*bounds{}, Excused: c.Excused}
	for m, s := range c.Minutes {
		s := *s
		d.Minutes[m] = &s
	}
	for f, s := range c.Flagged {
		s := *s
		d.Flagged[f] = &s
	}
	return d
}

func (l *ledger) of(account string) *counts {
	c := l.counts[account]
	if c == nil {
		c = &counts{Minutes: map[int64]*bounds{}, Flagged: map[string]*bounds{}}
		l.counts[account] = c
	}
	return c
}

func at[K comparable](m map[K]*bounds, key K) *bounds {
	if m[key] == nil {
		m[key] = new(bounds)
	}
	return m[key]
}

// outcome is the result of a request that counts.
type outcome int

const (
	counted  outcome = iota // it was answered, and counts
	refunded                // it was answered with an error of the caller, and counts in the minute only
	unknown                 // nobody knows
	unsent                  // it never left the client
)

// request is a request under way.
type request struct {
	ledger  *ledger
	account string
	flags   []string
	minute  int64
}

func (l *ledger) minute() int64 { return l.now().Unix() / 60 }

// sending notes that a request is about to be sent whose text will be flagged for these categories.
func (l *ledger) sending(account string, flags []string) *request {
	r := &request{ledger: l, account: account, flags: flags, minute: l.minute()}
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.of(account)
	c.Requests.High++
	at(c.Minutes, r.minute).High++
	for _, f := range flags {
		at(c.Flagged, f).High++
	}
	return r
}

// ended notes the outcome of a request.
func (r *request) ended(o outcome) {
	now := r.ledger.minute()
	r.ledger.mu.Lock()
	defer r.ledger.mu.Unlock()
	c := r.ledger.of(r.account)
	if o != unsent {
		// It may have been counted in a minute that began after it was sent.
		for m := r.minute + 1; m <= now; m++ {
			at(c.Minutes, m).High++
		}
	}
	switch o {
	case counted:
		c.Requests.Low++
		for _, f := range r.flags {
			at(c.Flagged, f).Low++
		}
	case refunded, unsent:
		c.Requests.High--
		for _, f := range r.flags {
			at(c.Flagged, f).High--
		}
	}
	if (o == counted || o == refunded) && r.minute == now {
		at(c.Minutes, now).Low++
	}
	if o == unsent {
		at(c.Minutes, r.minute).High--
	}
}

// with calls change with the ledger locked.
func (l *ledger) with(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

// stored is what a server says that it has stored.
type stored struct {
	usage    map[string]usage
	feedback []record
	keys     map[string]key
	accounts map[string]account
	// errs are the errors of what the server could not tell.
	errs map[string]string
}

type usage struct {
	Period struct {
		Start    time.Time `json:"start"`
		Requests int64     `json:"requests"`
	} `json:"period"`
	Minute struct {
		Reset    time.Time `json:"reset"`
		Requests int64     `json:"requests"`
	} `json:"minute"`
	Days []struct {
		Requests int64 `json:"requests"`
	} `json:"days"`
	Flagged map[string]int64 `json:"flagged"`
	Keys    []struct {
		Requests int64 `json:"requests"`
	} `json:"keys"`
}

type record struct {
	Account string `json:"account"`
	Text    string `json:"text"`
	Token   string `json:"client_token"`
}

type key struct {
	ID      string     `json:"id"`
	Account string     `json:"account"`
	Name    string     `json:"name"`
	Revoked *time.Time `json:"revoked"`
	Expires *time.Time `json:"expires"`
}

// ended reports whether a key is no longer valid.
func (k key) ended() bool {
	return k.Revoked != nil || k.Expires != nil && !time.Now().Before(*k.Expires)
}

type account struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Declared bool   `json:"declared"`
}

// differences compares what is stored with what must be: everything that was acknowledged in before, and nothing that
// was not sent in after. The two are the same ledger, unless something was stored in between, such as a backup.
func differences(before, after *ledger, s *stored) (all []string) {
	note := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	for _, id := range slices.Sorted(maps.Keys(after.counts)) {
		high := after.counts[id]
		low := before.counts[id]
		if low == nil {
			low = &counts{}
		}
		u, ok := s.usage[id]
		if !ok {
			if s.errs["usage "+id] == "" {
				note("account %s: no usage is told", id)
			}
			continue
		}
		compare := func(what string, low, high bounds, got int64) (held bool) {
			want := bounds{max(0, low.Low-after.counts[id].Excused), high.High}
			if want.holds(got) {
				return true
			}
			var lost string
			if got < want.Low {
				lost = fmt.Sprintf(" (%d lost)", want.Low-got)
			} else {
				lost = fmt.Sprintf(" (%d too many)", got-want.High)
			}
			note("account %s: %s: acknowledged %d, stored %d, sent %d%s", id, what, want.Low, got, want.High, lost)
			return false
		}
		days := int64(0)
		for _, d := range u.Days {
			days += d.Requests
		}
		if held := compare("period", low.Requests, high.Requests, u.Period.Requests); held ||
			days != u.Period.Requests {
			compare("days", low.Requests, high.Requests, days)
		}
		// The requests of the API have a key, those of guards have none.
		byKey, lowByKey, highByKey := int64(0), bounds{}, bounds{}
		for _, k := range u.Keys {
			byKey += k.Requests
		}
		if id == apiAccount {
			lowByKey, highByKey = low.Requests, high.Requests
		}
		compare("by key", lowByKey, highByKey, byKey)
		minute := u.Minute.Reset.Unix()/60 - 1
		compare("minute", value(low.Minutes, minute), value(high.Minutes, minute), u.Minute.Requests)
		for _, f := range slices.Sorted(maps.Keys(u.Flagged)) {
			if high.Flagged[f] == nil {
				note("account %s: %d flagged for %s, which nothing was", id, u.Flagged[f], f)
			}
		}
		for _, f := range slices.Sorted(maps.Keys(high.Flagged)) {
			compare("flagged "+f, value(low.Flagged, f), value(high.Flagged, f), u.Flagged[f])
		}
	}
	all = append(all, feedbackDifferences(before, after, s)...)
	all = append(all, keyDifferences(before, after, s)...)
	return append(all, accountDifferences(before, after, s)...)
}

func value[K comparable](m map[K]*bounds, key K) bounds {
	if m[key] == nil {
		return bounds{}
	}
	return *m[key]
}

func feedbackDifferences(before, after *ledger, s *stored) (all []string) {
	if len(after.feedback) == 0 {
		return nil
	}
	found := map[string]int{}
	altered, extra := 0, 0
	for _, r := range s.feedback {
		sent := after.feedback[r.Token]
		switch {
		case sent == nil:
			extra++
		case sent.Sum != sha256.Sum256([]byte(r.Text)) || sent.Account != r.Account:
			altered++
		}
		found[r.Token]++
	}
	acked, missing, twice, refused := 0, 0, 0, 0
	for token := range after.feedback {
		if was := before.feedback[token]; was != nil && was.Acked {
			acked++
			if found[token] == 0 {
				missing++
			}
		}
		if found[token] > 1 {
			twice++
		}
		if was := before.feedback[token]; found[token] > 0 && was != nil &&
			was.Status == http.StatusServiceUnavailable {
			refused++ // its client will send it again
		}
	}
	if missing > 0 && s.errs["feedback"] == "" {
		all = append(all, fmt.Sprintf("feedback: %d of %d acknowledged records are missing", missing, acked))
	}
	if twice > 0 {
		all = append(all, fmt.Sprintf("feedback: %d records are there more than once", twice))
	}
	if refused > 0 {
		all = append(all, fmt.Sprintf("feedback: %d records are there that were answered 503", refused))
	}
	if altered > 0 {
		all = append(all, fmt.Sprintf("feedback: %d records are changed", altered))
	}
	if extra > 0 {
		all = append(all, fmt.Sprintf("feedback: %d records are there that nobody sent", extra))
	}
	return all
}

func keyDifferences(before, after *ledger, s *stored) (all []string) {
	if s.errs["keys"] != "" {
		return nil
	}
	missing, alive, dead := 0, 0, 0
	for id, last := range after.keys {
		first := before.keys[id]
		got, ok := s.keys[id]
		switch {
		case !ok:
			if first != nil && first.Acked >= present {
				missing++
			}
		case got.ended() && last.Sent < changed:
			dead++
		case !got.ended() && first != nil && first.Acked >= changed:
			alive++
		}
	}
	extra := 0
	for id, k := range s.keys {
		if k.Account == keysAccount && after.keys[id] == nil && !after.lostKeys[k.Name] {
			extra++
		}
	}
	if missing > 0 {
		all = append(all, fmt.Sprintf("keys: %d of %d acknowledged ones are missing", missing, len(after.keys)))
	}
	if alive > 0 {
		all = append(all, fmt.Sprintf("keys: %d that were revoked or rotated are valid", alive))
	}
	if dead > 0 {
		all = append(all, fmt.Sprintf("keys: %d are not valid that nobody revoked", dead))
	}
	if extra > 0 {
		all = append(all, fmt.Sprintf("keys: %d are there that nobody made", extra))
	}
	return all
}

func accountDifferences(before, after *ledger, s *stored) (all []string) {
	if s.errs["accounts"] != "" {
		return nil
	}
	for _, id := range slices.Sorted(maps.Keys(after.accounts)) {
		high, low := after.accounts[id].Sent, absent
		if first := before.accounts[id]; first != nil {
			low = first.Acked
		}
		got := absent
		if a, ok := s.accounts[id]; ok {
			got = present
			if a.Name != id {
				got = changed
			}
		}
		// A deleted account looks like one that has never existed.
		if got == absent && (low == absent || high == deleted) || got != absent && low <= got && got <= high {
			continue
		}
		all = append(all, fmt.Sprintf("account %s: %s, but it must be %s to %s", id, stageNames[got], stageNames[low],
			stageNames[high]))
		if len(all) == 5 {
			return append(all, "accounts: and more")
		}
	}
	return all
}

var stageNames = [...]string{"absent", "as it was made", "as it was changed", "deleted"}
