// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package quota decides who may call and how often: it authenticates keys, enforces limits, and counts what was used.
//
// A [Gate] knows accounts and their keys, tiers, billing periods, minute windows, the daily history and the counts of
// flagged categories. It keeps them in a [Store], and every limit holds exactly. It knows nothing of HTTP, of Caddy
// and of classifiers.
//
// A call passes the gate in three steps: [Gate.Authenticate] finds the account that holds a key, [Gate.Admit] charges
// the call or refuses it, and [Gate.Settle] says how an admitted call ended.
package quota

import (
	"errors"
	"time"
)

// Errors of the gate and of its [Store]. They are matched with errors.Is; what wraps them names the account or the key
// id, never a key.
var (
	// ErrNotFound says that there is no such account or key.
	ErrNotFound = errors.New("not found")
	// ErrExists says that the account or key id is taken.
	ErrExists = errors.New("already exists")
	// ErrInvalid says that an argument breaks a rule; the message names the argument and the rule.
	ErrInvalid = errors.New("invalid")
	// ErrDeclared says that the account or key is declared in the configuration and can only be changed there.
	ErrDeclared = errors.New("declared in the configuration")
	// ErrReplaced says that a key was rotated before, and that the key which replaces it is valid; the message names
	// that one.
	ErrReplaced = errors.New("replaced already")
	// ErrUnauthorized says that a key is unknown, malformed, revoked or expired. It is one error for all four, so
	// that a caller learns nothing about keys that it does not hold.
	ErrUnauthorized = errors.New("unauthorized")
	// ErrInactive says that the account of a valid key is not served, because of its status; see [Status.Served].
	ErrInactive = errors.New("account is not active")
	// ErrUnknownTier says that an account's tier is not configured.
	ErrUnknownTier = errors.New("tier is not configured")
	// ErrOtherMinute says that a store with a clock of its own has another minute than the charge. The gate tries again
	// with the time that its clock says then.
	ErrOtherMinute = errors.New("another minute than that of the store")
)

// Status is the subscription status of an account. The list is open: other statuses are kept, and refused like
// [Canceled].
type Status string

// The statuses. Accounts that are Active, Trialing or PastDue are served.
const (
	Active   Status = "active"
	Trialing Status = "trialing"
	PastDue  Status = "past_due"
	Canceled Status = "canceled"
	Paused   Status = "paused"
)

// Statuses returns the statuses that the service knows, those that are served first.
func Statuses() []Status { return []Status{Active, Trialing, PastDue, Canceled, Paused} }

// Served reports whether requests of an account with this status are served.
func (s Status) Served() bool {
	return s == Active || s == Trialing || s == PastDue
}

// Limits are what a tier allows. 0 means unlimited.
type Limits struct {
	// The maximum number of requests in a billing period.
	RequestsPerMonth int64 `json:"requests_per_month"`
	// The maximum number of requests in a UTC clock minute.
	RequestsPerMinute int64 `json:"requests_per_minute"`
}

// Account is a customer: who is limited and billed. Its JSON form is that of the admin API and of the stored record.
type Account struct {
	// ID is 1 to 64 characters of a-z, A-Z, 0-9, '.', '_' and '-', the first of them a letter or a digit.
	ID string `json:"id"`
	// Name is for people, at most 200 characters.
	Name string `json:"name,omitempty"`
	// Tier names one of the configured tiers.
	Tier string `json:"tier"`
	// Status is the subscription status.
	Status Status `json:"status"`
	// AnchorDay is the day of the month, 1 to 31, on which the billing period starts, clamped to the month's last day.
	// 0 means the calendar month.
	AnchorDay int `json:"anchor_day,omitempty"`
	// Overrides replace parts of the tier and of the policy for this account.
	Overrides Overrides `json:"overrides,omitzero"`
	// Created and Updated are in UTC.
	Created time.Time `json:"created"`
	Updated time.Time `json:"updated"`
	// Declared says that the account is declared in the configuration. It is never stored.
	Declared bool `json:"declared,omitempty"`
	// Incarnation tells an account from a deleted one with the same id. It is random, because clocks may go back. It
	// is stored, left out of the JSON form, and empty for declared accounts.
	Incarnation string `json:"-"`
}

// Overrides replace, for one account, limits of its tier, and thresholds and share of harm of the service, and say what
// else its texts are judged by.
type Overrides struct {
	// RequestsPerMonth and RequestsPerMinute replace the tier's limits. 0 means unlimited. Default: the tier's limit.
	RequestsPerMonth  *int64 `json:"requests_per_month,omitempty"`
	RequestsPerMinute *int64 `json:"requests_per_minute,omitempty"`
	// Thresholds replace flag thresholds by category name, each greater than 0 and less than 1.
	Thresholds map[string]float64 `json:"thresholds,omitempty"`
	// HarmShare replaces the share of harmful texts in the traffic, greater than 0 and less than 1. Default: the
	// service's.
	HarmShare *float64 `json:"harm_share,omitempty"`
	// Allow are words or expressions that do not count: texts are judged without them. Block are those that reject a
	// text in which they stand. Each has at most [MaxExpressions] of at most 100 characters, and both together have at
	// most [MaxExpressionBytes]. Default: none.
	Allow []string `json:"allow,omitempty"`
	Block []string `json:"block,omitempty"`
	// Languages are those that texts are expected to be in, as at most 20 BCP 47 tags, the likeliest first. Default:
	// none.
	Languages []string `json:"languages,omitempty"`
	// OtherLanguage is what is recommended at least for a text that is clearly in another one: "review" or "reject", which
	// need languages, or "pass", which is nothing. Default: "pass".
	OtherLanguage string `json:"other_language,omitempty"`
}

// Bounds of the words and expressions of an account.
const (
	// MaxExpressions is how many each of its lists may have.
	MaxExpressions = 1000
	// MaxExpressionBytes is how many bytes of UTF-8 both may have together.
	MaxExpressionBytes = 64 << 10
)

// Key is what the service knows of an API key. Only its holder knows the key itself; the service keeps its SHA-256.
type Key struct {
	// ID is public: it appears in logs and lists. It consists of "key_" and 16 base62 characters.
	ID string `json:"id"`
	// Account is the id of the account that the key belongs to.
	Account string `json:"account"`
	// Name and Environment are for people, at most 200 and 64 characters.
	Name        string `json:"name,omitempty"`
	Environment string `json:"environment,omitempty"`
	// Scopes are what the key may do beside moderating texts and reporting usage, which every key may. Default:
	// nothing.
	Scopes []string `json:"scopes,omitempty"`
	// Hash is the SHA-256 of the whole key. It is stored, and left out of the JSON form.
	Hash Hash `json:"-"`
	// Created is in UTC.
	Created time.Time `json:"created"`
	// Expires is the instant from which the key is refused. Default: never.
	Expires *time.Time `json:"expires,omitempty"`
	// Revoked is the instant at which the key was revoked, nil if it was not.
	Revoked *time.Time `json:"revoked,omitempty"`
	// Replaced says which key replaces this one since its last rotation, nil if it was not rotated, or was rotated
	// when this was not recorded yet.
	Replaced *Replacement `json:"replaced,omitempty"`
	// LastUsed is the UTC day of the last admitted request, such as "2006-01-02", or empty. It is kept beside the key.
	// [Gate.Keys] and the other operations on keys fill it in, [Gate.Authenticate] does not.
	LastUsed string `json:"last_used,omitempty"`
	// Declared says that the key is declared in the configuration. It is never stored.
	Declared bool `json:"declared,omitempty"`
}

// Replacement is what the rotation of a key leaves in the old one.
type Replacement struct {
	// By is the id of the key that replaces the old one.
	By string `json:"by"`
	// At is the instant of the rotation, in UTC.
	At time.Time `json:"at"`
	// OriginalExpires is the expiry that the old key had before its first rotation, which the keys that replace it
	// inherit. Default: never.
	OriginalExpires *time.Time `json:"original_expires,omitempty"`
}

// ReviewScope is the scope of a key that may read and decide the items of its account in the review queue.
const ReviewScope = "review"

// Scopes returns all scopes that a key can have.
func Scopes() []string { return []string{ReviewScope} }

// Hash is the SHA-256 of a key.
type Hash [32]byte
