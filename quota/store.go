// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"context"
	"iter"
	"time"
)

// Store keeps accounts, keys and counts for a [Gate]. The packages under storage implement it; package storage adds
// what else a store must do. Package storage/storagetest tests everything that is said here.
//
// Rules for all methods:
//
//   - Concurrency: every method may be called at any time, by any number of goroutines. If several processes share a
//     store, the rules hold across them.
//   - Order: a call that begins after another one has returned sees what that one has changed. Caches must not break
//     this: a revoked key is refused from the next request on.
//   - Context: a method whose context is done when it is called changes nothing and returns the context's error.
//   - Unavailable: a method that cannot do its work now returns an error that wraps storage.ErrUnavailable. After
//     Close every method does. What such a method was to change is not changed once the store answers again. A store
//     that finds out too late undoes the change first. Only the death of the process may come in between and leave
//     the change made.
//   - Damage: a record that is not what was written is an error that wraps storage.ErrDamaged, never a wrong value.
//   - Sharing: maps and pointers in arguments and results may be shared with other callers. Nobody writes to them,
//     except where a method says that its result is the caller's.
//   - Values: what is stored comes back equal. Times keep their nanoseconds and are in UTC, texts are any valid
//     UTF-8, floating point numbers are exact, nil stays nil. Nothing is validated: the gate has done that.
//   - Sequences: a listing may be broken off, and its consumer may take its time and may call any method of the
//     store, even delete what it was given. What is added or deleted during a listing may be in it or not. An error
//     ends the listing, except one that wraps storage.ErrDamaged: after that the listing goes on with the next record
//     if the consumer does.
type Store interface {
	Directory
	Counters
}

// Directory keeps accounts and keys. When a method that changes something returns nil, the change survives the loss
// of power. See [Store] for the rules that hold for all methods.
type Directory interface {
	// CreateAccount adds an account as it is, with its incarnation and without Declared. It returns [ErrExists] if
	// the id is taken. Of concurrent calls with one id exactly one succeeds.
	CreateAccount(ctx context.Context, account Account) error
	// Account returns an account, with its incarnation. It returns [ErrNotFound] if there is none.
	Account(ctx context.Context, id string) (Account, error)
	// UpdateAccount replaces an account by what change makes of it, and returns what is stored then. Updates of one
	// account are atomic: concurrent ones are made one after the other, and none is lost.
	//
	// Change gets a copy, and replaces maps and pointers in it instead of writing to them. It may be called more than
	// once, each time with a new copy, and must not call the store. The error of change is returned as it is, not
	// wrapped, and nothing is stored. ID, Incarnation and Declared are not changed, whatever change does.
	//
	// It returns [ErrNotFound] if there is no account; then change is not called.
	UpdateAccount(ctx context.Context, id string, change func(*Account) error) (Account, error)
	// DeleteAccount deletes an account, all of its keys with the days of their last use, all of its counts, and what
	// it has used of its feedback bounds. Feedback records stay. An account that is made with the same id afterwards
	// begins with nothing, and charges with the deleted incarnation no longer count; see [Charge].
	//
	// It returns [ErrNotFound] if there is no account. A deletion that is interrupted by the death of the process may
	// have deleted a part. The account itself is deleted last, so that the deletion can be repeated.
	DeleteAccount(ctx context.Context, id string) error
	// Accounts yields all accounts in the order of their ids, compared as bytes.
	Accounts(ctx context.Context) iter.Seq2[Account, error]

	// CreateKey adds a key, without Declared and LastUsed. It returns [ErrExists] if its id or its hash is taken, be
	// it by a key of another account. It does not look for the account, which may be declared in the configuration.
	CreateKey(ctx context.Context, key Key) error
	// KeyByHash returns the key with a hash. Hash is filled in and LastUsed is not. It returns [ErrNotFound] if there
	// is none; the error does not tell the hash. It is called for each request, up to twice, and must be fast.
	KeyByHash(ctx context.Context, hash Hash) (Key, error)
	// Key returns the key with an id. Hash and LastUsed are filled in. It returns [ErrNotFound] if there is none.
	Key(ctx context.Context, id string) (Key, error)
	// UpdateKey is to a key what UpdateAccount is to an account. ID, Account, Hash, Created, LastUsed and Declared
	// are not changed, whatever change does. The result has Hash and LastUsed filled in.
	UpdateKey(ctx context.Context, id string, change func(*Key) error) (Key, error)
	// Keys yields the keys of an account, or all keys if account is empty. They are in the order of their accounts'
	// ids, compared as bytes, then of their creation, then of their ids. Hash and LastUsed are filled in. An account
	// without keys, or that does not exist, yields nothing.
	Keys(ctx context.Context, account string) iter.Seq2[Key, error]
}

// Charge names the counters that one call charges, and the limits that hold for them.
type Charge struct {
	// Account and Key are ids. The key's last-used day becomes the day of Now. Key is empty for a call without a key.
	// A key that is not stored, such as a declared one, is no error. It is counted like others, without a last-used
	// day.
	Account, Key string
	// Incarnation is that of the account. The charge counts only while the account is stored with this incarnation.
	// It is empty for a declared account, which the store does not look for.
	Incarnation string
	// Requests is how many requests the call counts, 1 or more. For [Counters.Record] alone it may be 0: that adds
	// what was flagged in a call that is settled already.
	Requests int64
	// Now is the instant of the call. The minute window is its UTC clock minute, the day window its UTC day. It may
	// be before 1970.
	Now time.Time
	// Period is the billing period that holds Now. The period window is known by Period.Start alone.
	Period Period
	// Limits hold for the minute and the period. The day has no limit.
	Limits Limits
}

// Counts are the numbers of admitted requests in the windows of a charge. They are exact up to 1<<62, beyond what a
// floating point number can hold.
type Counts struct {
	Minute, Day, Period int64
	// Basis says what the numbers rest on. A store that counts by itself leaves it at [ExactCounts].
	Basis Basis `json:",omitempty"`
}

// Basis says what [Counts] rest on.
type Basis string

// The bases of counts. A store that several nodes share has counts other than exact ones while its server cannot be
// reached, if its policy admits calls then; see package storage/redis.
const (
	// ExactCounts are those of the store: with a limit of N, N are admitted.
	ExactCounts Basis = ""
	// LocalCounts are the last ones that this node knows and what it has admitted since then. Against these the node's
	// share of what was left is admitted.
	LocalCounts Basis = "local"
	// UnknownCounts say little: limits do not hold now.
	UnknownCounts Basis = "unknown"
)

// Window names a limit.
type Window string

// The windows that can refuse. NoWindow is none of them.
const (
	NoWindow     Window = ""
	MinuteWindow Window = "minute"
	MonthWindow  Window = "month"
)

// Outcome is how an admitted call ended.
type Outcome struct {
	// Refund gives the day and period counts back, because the call ended in an error. The minute keeps its count.
	Refund bool
	// Flagged are the names of the flagged categories. A name counts as often as it occurs: a call with several texts
	// names a category once for each of them.
	Flagged []string
}

// Settlement is the outcome of an admitted call on its way to the disk.
type Settlement interface {
	// Wait returns nil when the charge and the outcome survive the death of the process. The loss of power may take
	// them for up to a second. Wait is called at most once; a caller that does not care does not call it. The outcome
	// is recorded in any case: ctx only ends the wait, with the context's error.
	//
	// If the store cannot keep the outcome, Wait returns an error that wraps storage.ErrUnavailable and rolls the
	// call back, because the caller will say that it failed: the charge is given back as with [Outcome.Refund], and
	// what was flagged is not counted. Once the store answers again, every acknowledged call is counted. One that was
	// rolled back stays counted only if the store fails once more in that moment.
	Wait(ctx context.Context) error
}

// How many windows of an account are kept beside a new one. Windows are never forgotten because a clock says so. The
// first count in a window evicts others of the same kind: those before it but the newest KeptX, and those after it
// but the newest KeptX.
//
// So a clock that is ahead for a while leaves windows in the future. They neither evict those of the right time nor
// accumulate. And a clock that is wrong for some time makes no more windows than that time has, so that the right
// ones are still there when it is right again.
const (
	// KeptMinutes is how many minutes are kept.
	KeptMinutes = 2
	// KeptDays is how many days are kept, more than the 40 that can be asked for.
	KeptDays = 60
	// KeptPeriods is how many billing periods are kept.
	KeptPeriods = 14
)

// Counters counts requests and flagged categories in windows: minutes, days and billing periods. See [Store] for the
// rules that hold for all methods.
//
// A window exists from its first count until it is evicted ([KeptDays]) or its account is deleted. Reading a window
// does not make it exist. An account that the store does not know has no windows; it is no error to ask for them.
type Counters interface {
	// Take charges a call to the minute, the day and the period if both limits leave room for all of its requests,
	// and to nothing otherwise. It returns the counts after the charge and [NoWindow], or the unchanged counts and
	// the window that refused: the month if both would. A limit of 0 is unlimited.
	//
	// Take is atomic: with a limit of N exactly N requests are admitted, under any concurrency and across restarts.
	// Later calls see the charge at once. Take does not wait until the charge is durable: until it is settled, the
	// death of the process may take it or not.
	//
	// It returns [ErrNotFound] if the account is not stored with the charge's incarnation, and charges nothing then. A
	// store with a clock of its own, which nodes share, returns [ErrOtherMinute] if it is another minute there than
	// that of the charge, and charges nothing; the gate's clock must follow that of such a store.
	Take(ctx context.Context, charge Charge) (Counts, Window, error)
	// Record notes how an admitted call ended, in the windows of its charge, whatever the time is by now. It does not
	// wait and has no context: [Settlement.Wait] tells when charge and outcome are durable. Later calls see the
	// outcome at once. Each admitted call is recorded once, and waited for before its caller is answered.
	//
	// A refund never makes a count negative. An outcome without a refund and flagged categories changes nothing, but
	// is waited for like any other. What belongs to a window that is evicted by now is dropped: Record does not make
	// windows. So is everything of an account that is not stored with the charge's incarnation any more. Neither is
	// an error.
	Record(charge Charge, outcome Outcome) Settlement
	// Settle is [Counters.Record] and [Settlement.Wait] in one. If ctx is done, the outcome is recorded all the same,
	// and Settle returns nil or the context's error.
	Settle(ctx context.Context, charge Charge, outcome Outcome) error
	// Counts returns the counts in the minute and the day of now and in the period, 0 for windows that do not exist.
	Counts(ctx context.Context, account string, now time.Time, period Period) (Counts, error)
	// Days returns the requests of the n days up to and including the UTC day of now, newest first, 0 for windows
	// that do not exist. N is clamped to 0 to 40.
	Days(ctx context.Context, account string, now time.Time, n int) ([]int64, error)
	// Flagged returns how often each category was flagged in a period. Categories without a count are absent. The map
	// is the caller's, and never nil.
	Flagged(ctx context.Context, account string, period Period) (map[string]int64, error)
	// KeyRequests returns how many requests each key has in a period, by the id of the key: the part of the period's
	// count that calls with this key were charged. It is charged, given back, kept, evicted and deleted together with
	// the period's count, and is as exact and as durable. So the sum over the keys is the period's count, less the
	// requests without a key, and less those that were counted before the store counted by key.
	//
	// Keys count whether they are stored or not, revoked and expired ones like all others. A count stays with the
	// account that was charged. Keys without a count are absent, and so are those whose requests were all given back.
	// The map is the caller's, and never nil.
	KeyRequests(ctx context.Context, account string, period Period) (map[string]int64, error)
}
