// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"
)

// usageDays is the number of days in [Usage].
const usageDays = 30

// Usage is what an account has used.
type Usage struct {
	Account Account
	// Limits are those of the account: its overrides, else its tier's.
	Limits Limits
	// Counts are those of the windows that hold Now.
	Counts Counts
	// Now is the instant of the answer, in UTC. The minute window ends at MinuteReset.
	Now         time.Time
	MinuteReset time.Time
	// Period is the billing period that holds Now.
	Period Period
	// Days are the last 30 days, newest first, zeros included.
	Days []DayCount
	// Flagged is how often each category was flagged in the period.
	Flagged map[string]int64
}

// DayCount is the number of requests of one UTC day.
type DayCount struct {
	// Date is "2006-01-02".
	Date     string `json:"date"`
	Requests int64  `json:"requests"`
}

// Usage returns what an account has used. It returns [ErrNotFound] if there is no such account. With [ErrUnknownTier]
// everything except the limits is filled in.
func (g *Gate) Usage(ctx context.Context, account string) (Usage, error) {
	a, err := g.account(ctx, account)
	if err != nil {
		return Usage{}, err
	}
	now := g.now().UTC()
	u := Usage{Account: a, Now: now, MinuteReset: minuteReset(now), Period: PeriodOf(a.AnchorDay, now)}
	if u.Counts, err = g.store.Counts(ctx, a.ID, now, u.Period); err != nil {
		return Usage{}, err
	}
	if u.Flagged, err = g.store.Flagged(ctx, a.ID, u.Period); err != nil {
		return Usage{}, err
	}
	days, err := g.store.Days(ctx, a.ID, now, usageDays)
	if err != nil {
		return Usage{}, err
	}
	u.Days = make([]DayCount, len(days))
	for i, requests := range days {
		u.Days[i] = DayCount{Date: now.AddDate(0, 0, -i).Format(time.DateOnly), Requests: requests}
	}
	u.Limits, err = g.limits(a)
	return u, err
}

// KeyUsage is what one key of an account has used.
type KeyUsage struct {
	// Key is the key as [Gate.Keys] yields it. Of a removed key only ID and Account are known. LastUsed is known of
	// stored keys only.
	Key Key
	// Removed says that the account has no such key any more: it was declared in a former configuration.
	Removed bool
	// Requests is how many requests were admitted with the key in the period, less those that were given back.
	Requests int64
}

// KeyUsage returns what each key of an account has used in a billing period: all keys that the account has, in the
// order of [Gate.Keys], then the removed ones that were used, in the order of their ids. Requests without a key are in
// none of them, and so are those that were counted before the store counted by key.
//
// The account need not exist: it has no keys then. A damaged key is an error that wraps storage.ErrDamaged.
func (g *Gate) KeyUsage(ctx context.Context, account string, period Period) ([]KeyUsage, error) {
	requests, err := g.store.KeyRequests(ctx, account, period)
	if err != nil {
		return nil, err
	}
	used := []KeyUsage{}
	for k, err := range g.Keys(ctx, account) {
		if err != nil {
			return nil, err
		}
		used = append(used, KeyUsage{Key: k, Requests: requests[k.ID]})
		delete(requests, k.ID)
	}
	for _, id := range slices.Sorted(maps.Keys(requests)) {
		// It may have been made after the keys were listed, or belong to another account by now.
		k, err := g.Key(ctx, id)
		switch {
		case errors.Is(err, ErrNotFound) || err == nil && k.Account != account:
			used = append(used, KeyUsage{Key: Key{ID: id, Account: account}, Removed: true, Requests: requests[id]})
		case err != nil:
			return nil, err
		default:
			used = append(used, KeyUsage{Key: k, Requests: requests[id]})
		}
	}
	return used, nil
}
