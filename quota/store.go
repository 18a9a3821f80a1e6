// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"context"
	"iter"
	"time"
)

// Store keeps what the gate knows. It is implemented by the packages under storage and tested by storage/storagetest.
//
// What a method returns may be shared with other callers: maps and pointers in it are read, never written.
//
// Methods return errors that wrap [ErrNotFound] and [ErrExists] where they apply, and the store's own "unavailable"
// error otherwise.
type Store interface {
	Directory
	Counters
}

// Directory keeps accounts and keys. When a method that changes something returns nil, the change survives power loss
// and is seen by every later call.
type Directory interface {
	// CreateAccount adds an account. [ErrExists] when the id is taken.
	CreateAccount(ctx context.Context, account Account) error
	// Account returns an account. [ErrNotFound] when there is none.
	Account(ctx context.Context, id string) (Account, error)
	// UpdateAccount applies change to the stored account, atomically, and returns what is stored then. An error from
	// change is returned as it is and nothing is stored. The id and the incarnation cannot be changed.
	UpdateAccount(ctx context.Context, id string, change func(*Account) error) (Account, error)
	// DeleteAccount removes an account, its keys and its counters, durably; also what it has used of its feedback bounds.
	// Feedback is kept.
	DeleteAccount(ctx context.Context, id string) error
	// Accounts yields the accounts in the order of their ids.
	Accounts(ctx context.Context) iter.Seq2[Account, error]

	// CreateKey adds a key. [ErrExists] when its id or hash is taken. Whether the account exists is the gate's concern,
	// because it may stand in the configuration.
	CreateKey(ctx context.Context, key Key) error
	// KeyByHash returns the key with this hash, with its hash filled in and without LastUsed. It is called once for each
	// request and must be fast.
	KeyByHash(ctx context.Context, hash Hash) (Key, error)
	// Key returns the key with this id.
	Key(ctx context.Context, id string) (Key, error)
	// UpdateKey applies change to the stored key like UpdateAccount. The id, the account and the hash cannot be changed.
	UpdateKey(ctx context.Context, id string, change func(*Key) error) (Key, error)
	// Keys yields the keys of an account, or all keys when account is empty, in the order of creation within an account.
	Keys(ctx context.Context, account string) iter.Seq2[Key, error]
}

// Charge names the counters that one call moves, and the limits that hold for them.
type Charge struct {
	// Account and Key are ids. The key's last-used day becomes the day of Now. Key is empty for a call without a key.
	Account, Key string
	// Incarnation is that of the account. A charge counts only while the account with this incarnation is stored. Empty for a
	// declared account, which is not looked for.
	Incarnation string
	// Requests is what the call counts, 1 or more. 0 in a charge that is settled adds what was flagged in a call that is settled
	// already.
	Requests int64
	// Now is the instant of the call in UTC. The minute window is its UTC clock minute, the day its UTC day.
	Now time.Time
	// Period is the billing period that holds Now.
	Period Period
	// Limits hold for the minute and the period.
	Limits Limits
}

// Counts are the numbers of admitted requests in the windows of a charge.
type Counts struct {
	Minute, Day, Period int64
}

// Window names a limit.
type Window string

// The windows. No window is the empty string.
const (
	NoWindow     Window = ""
	MinuteWindow Window = "minute"
	MonthWindow  Window = "month"
)

// Outcome is how an admitted call ended.
type Outcome struct {
	// Refund gives the day and period counts back, because the call ended in an error. The minute keeps its count.
	Refund bool
	// Flagged are the names of the categories that were flagged. A name counts as often as it stands here: a call with several
	// texts names a category once for each.
	Flagged []string
}

// Settlement is the outcome of an admitted call on its way to the disk.
type Settlement interface {
	// Wait returns nil when the charge and the outcome survive the death of the process. It is called once, or not at all by
	// who does not care: ctx only ends the wait, and the outcome is recorded whether anybody waits or not. When the store
	// fails, Wait gives the call back like one that is refunded, as far as the store can: its caller is told that it failed.
	Wait(ctx context.Context) error
}

// How many windows of an account are kept. They are forgotten by what is counted and never by what a clock says: when the
// first request of a window is counted, those windows of the same kind are kept that are the newest before it, this many at
// most, and the newest after it, as many again. A clock that is ahead for a while leaves windows behind that seem to be in
// the future; they neither push out those of the right time nor gather without end. A clock that is wrong for some time
// makes no more windows than there are in that time, so what is asked for afterwards is still there.
const (
	KeptMinutes = 2
	// KeptDays is more than the 40 days that can be asked for.
	KeptDays    = 60
	KeptPeriods = 14
)

// Counters keep the counts. Limits hold exactly: with a limit of N, N are admitted under any concurrency. Nothing is kept by
// time alone: see [KeptDays].
type Counters interface {
	// Take charges the call to the minute, the day and the period if both limits leave room for it, and to nothing otherwise. It
	// returns the counts after the charge and [NoWindow], or the unchanged counts and the window that refused: the
	// month if both would. Take does not wait for the charge to be durable. When ctx is done nothing is charged. It returns
	// [ErrNotFound] when the account was deleted, even if it was made again.
	Take(ctx context.Context, charge Charge) (Counts, Window, error)
	// Record notes how an admitted call ended, and does not wait: what it returns tells when charge and outcome survive the death
	// of the process. Every admitted call is recorded once, and waited for before its caller is answered. What an account
	// that was deleted did is not recorded, nor what is to be recorded in a window that is forgotten; neither is an error.
	Record(charge Charge, outcome Outcome) Settlement
	// Settle records how an admitted call ended, and waits: [Counters.Record] and [Settlement.Wait] in one.
	Settle(ctx context.Context, charge Charge, outcome Outcome) error
	// Counts returns the counts in the windows that hold now.
	Counts(ctx context.Context, account string, now time.Time, period Period) (Counts, error)
	// Days returns the requests of the n days up to and including the UTC day of now, newest first, zeros included. n is at most 40.
	Days(ctx context.Context, account string, now time.Time, n int) ([]int64, error)
	// Flagged returns how often each category was flagged in the period that begins at start. Categories without a count are absent.
	Flagged(ctx context.Context, account string, period Period) (map[string]int64, error)
}
