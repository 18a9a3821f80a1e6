// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package storagetest is the conformance suite for stores, and has the simplest store that passes it.
//
// A store passes [Run], [RunProperties] and [RunFailing], and [RunBackup] if it can be backed up. What they test is
// said in storage.Store, quota.Store, feedback.Store and documents.Store. [Memory] is the reference: everything in maps
// under one lock.
package storagetest

import (
	"context"
	"errors"
	"iter"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage"
)

// Open returns an empty store, and a function that closes it and opens it again with what it held, nil if the store
// forgets everything. The implementation closes the store, and those that reopen has returned, when the test ends.
type Open func(t *testing.T) (store storage.Store, reopen func() storage.Store)

// Run runs the conformance suite against a store.
func Run(t *testing.T, open Open) {
	for name, test := range map[string]func(*testing.T, Open){
		"accounts are kept as they are":              accountsAreKept,
		"accounts are listed by id":                  accountsAreListed,
		"updates are atomic":                         updatesAreAtomic,
		"a failed update changes nothing":            failedUpdate,
		"keys are kept as they are":                  keysAreKept,
		"keys are listed by account and age":         keysAreListed,
		"key ids and hashes are taken once":          keysAreUnique,
		"a change is seen at once":                   changesAreSeen,
		"a deleted account leaves nothing behind":    deletion,
		"an incarnation never changes":               incarnations,
		"calls of a deleted account count nothing":   deletedInFlight,
		"deletion races with calls":                  deletionRaces,
		"bounds go with the account":                 deletedBounds,
		"ids are sorted as bytes":                    idOrder,
		"everything survives reopening":              everythingSurvives,
		"large records are kept":                     largeRecords,
		"a batch counts whole":                       batches,
		"a refund never goes below nothing":          refundClamp,
		"days before 1970 are days":                  beforeTheEpoch,
		"a wrong clock passes":                       wrongClock,
		"windows are evicted by number":              eviction,
		"bounds are evicted by number":               boundEviction,
		"an evicted window does not come back":       evictedSettle,
		"windows are charged together or not at all": charging,
		"the month refuses before the minute":        refusalOrder,
		"zero is unlimited":                          unlimited,
		"windows are kept apart":                     windowsApart,
		"limits hold exactly under concurrency":      exactLimits,
		"a refund spares the minute":                 refunds,
		"flagged categories are counted":             flaggedCounts,
		"more is flagged after a call is settled":    lateFlags,
		"requests are counted by key":                keyRequests,
		"many keys are counted":                      manyKeys,
		"requests by key go with their period":       keyEviction,
		"days are listed newest first":               daysListed,
		"the last day of use is noted":               lastUsed,
		"a slow call settles in its own windows":     lateSettle,
		"counts survive reopening":                   countsSurvive,
		"feedback is kept as it is":                  feedbackIsKept,
		"feedback is listed oldest first":            feedbackOrder,
		"feedback has a largest size":                feedbackSize,
		"the feedback bound is exact":                feedbackBound,
		"feedback is deleted":                        feedbackIsDeleted,
		"feedback is deleted by conditions":          feedbackSelections,
		"a deleted record counts once":               deletionCountsOnce,
		"feedback is deleted under load":             deletionUnderLoad,
		"documents are kept as they are":             documentsAreKept,
		"documents change on conditions":             documentConditions,
		"documents keep the rules":                   documentRules,
		"no change of a document is lost":            documentsUnderLoad,
		"many documents are listed":                  manyDocuments,
		"the mark of the first account is kept":      seeding,
		"a done context changes nothing":             doneContext,
		"a settled outcome outlives its context":     settleDoneContext,
		"a closed store answers unavailable":         closing,
		"closing under load hangs nobody":            closingUnderLoad,
		"listings may be broken off":                 brokenListings,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open)
		})
	}
}

// noon is an instant in the middle of a minute, a day and a month.
var noon = time.Date(2026, 3, 15, 12, 0, 30, 123, time.UTC)

var march = quota.PeriodOf(0, noon)

func charge(account string, requests int64, limits quota.Limits) quota.Charge {
	return quota.Charge{Account: account, Key: "key_" + account, Requests: requests, Now: noon, Period: march,
		Limits: limits}
}

func opened(t *testing.T, open Open) storage.Store {
	t.Helper()
	s, _ := open(t)
	return s
}

// reopened returns the store after it was closed and opened again, or the same store if it forgets everything.
func reopened(s storage.Store, reopen func() storage.Store) storage.Store {
	if reopen == nil {
		return s
	}
	return reopen()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got the error %v, want none", err)
	}
}

func wantErr(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got the error %v, want one that wraps %q", err, want)
	}
}

func collect[T any](t *testing.T, seq iter.Seq2[T, error]) []T {
	t.Helper()
	var all []T
	for v, err := range seq {
		must(t, err)
		all = append(all, v)
	}
	return all
}

func take(t *testing.T, s storage.Store, c quota.Charge) (quota.Counts, quota.Window) {
	t.Helper()
	counts, refused, err := s.Take(context.Background(), c)
	must(t, err)
	return counts, refused
}

func settle(t *testing.T, s storage.Store, c quota.Charge, o quota.Outcome) {
	t.Helper()
	must(t, s.Record(c, o).Wait(context.Background()))
}

func counts(t *testing.T, s storage.Store, account string) quota.Counts {
	t.Helper()
	c, err := s.Counts(context.Background(), account, noon, march)
	must(t, err)
	return c
}
