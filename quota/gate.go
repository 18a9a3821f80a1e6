// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"context"
	"io"
	"iter"
	"time"
)

// Options configure a [Gate].
type Options struct {
	// Store keeps accounts, keys and counters. Required.
	Store Store
	// KeyPrefix is what keys begin with, before _sk_. 1 to 20 letters and digits, default "mod".
	KeyPrefix string
	// Tiers are the configured tiers by name. Default: [DefaultTiers].
	Tiers map[string]Limits
	// Accounts and Keys are those that the configuration declares. They are never stored; a stored account or key with the
	// same id or hash is hidden while they are declared.
	Accounts []Account
	Keys     []Key
	// Now is the clock. Default: time.Now.
	Now func() time.Time
	// Rand is the source of keys and ids. Default: crypto/rand.Reader.
	Rand io.Reader
}

// Identity is who calls: the account and the key that were authenticated, and the limits that hold for them.
type Identity struct {
	Account Account
	Key     Key
	Limits  Limits
}

// Decision is the gate's answer to a call that asks to be admitted.
type Decision struct {
	// Refused names the window that is used up; [NoWindow] when the call is admitted.
	Refused Window
	// Limits and Counts are those after the decision. Minute and month windows are what the RateLimit fields report.
	Limits Limits
	Counts Counts
	// Now is the instant of the decision, MinuteReset and Period.End are when the windows reset.
	Now         time.Time
	MinuteReset time.Time
	Period      Period

	charge Charge
}

// Usage is what an account has used, for the usage operation and the operator.
type Usage struct {
	Account     Account
	Limits      Limits
	Counts      Counts
	Now         time.Time
	MinuteReset time.Time
	Period      Period
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

// NewKey is what is asked for when a key is made.
type NewKey struct {
	Account, Name, Environment string
	// Expires is the instant from which the key is refused; nil means never.
	Expires *time.Time
}

// AccountChange is a change of an account. A nil field is left as it is.
type AccountChange struct {
	Name      *string    `json:"name,omitempty"`
	Tier      *string    `json:"tier,omitempty"`
	Status    *Status    `json:"status,omitempty"`
	AnchorDay *int       `json:"anchor_day,omitempty"`
	Overrides *Overrides `json:"overrides,omitempty"`
}

// Keeper is the face of a [Gate]: written down as an interface to be read in one place.
type Keeper interface {
	// Authenticate returns who holds the key. It returns [ErrUnauthorized] for a key that is not valid now, [ErrInactive] for an
	// account that is not served and [ErrUnknownTier] for a tier that is not configured. With ErrInactive and ErrUnknownTier the
	// identity's account and key are filled in.
	Authenticate(ctx context.Context, key string) (Identity, error)
	// Admit charges n requests, or refuses and charges nothing. A refusal is a Decision, not an error.
	Admit(ctx context.Context, who Identity, n int64) (Decision, error)
	// Settle records the outcome of an admitted call; when it returns nil, charge and outcome survive the death of the process.
	Settle(ctx context.Context, admitted Decision, outcome Outcome) error
	// Usage returns what an account has used.
	Usage(ctx context.Context, account string) (Usage, error)

	CreateAccount(ctx context.Context, account Account) (Account, error)
	Account(ctx context.Context, id string) (Account, error)
	UpdateAccount(ctx context.Context, id string, change AccountChange) (Account, error)
	DeleteAccount(ctx context.Context, id string) error
	Accounts(ctx context.Context) iter.Seq2[Account, error]

	// CreateKey makes a key and returns it. This is the only time that it is seen.
	CreateKey(ctx context.Context, wanted NewKey) (secret string, key Key, err error)
	// RevokeKey refuses the key from the next request on.
	RevokeKey(ctx context.Context, id string) (Key, error)
	// RotateKey makes a new key with the same account, name and environment; the old one expires after overlap.
	RotateKey(ctx context.Context, id string, overlap time.Duration) (secret string, key Key, err error)
	Keys(ctx context.Context, account string) iter.Seq2[Key, error]
}
