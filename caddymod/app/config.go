// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/placeholder"
	"github.com/caddy-moderation/caddy-moderation/engine"
	"github.com/caddy-moderation/caddy-moderation/feedback"
	"github.com/caddy-moderation/caddy-moderation/quota"
)

// Account is an account that is declared in the configuration.
type Account struct {
	// The id: 1 to 64 characters of a-z, A-Z, 0-9, '.', '_' and '-', the first of them a letter or a digit. Required.
	ID string `json:"id"`

	// A name to show to people, at most 200 characters.
	Name string `json:"name,omitempty"`

	// One of the configured tiers. Default: "free" if that tier is configured; required otherwise.
	Tier string `json:"tier,omitempty"`

	// The subscription status. Accounts that are "active", "trialing" or "past_due" are served, those that are
	// "canceled" or "paused" are refused. Others are errors. Default: "active".
	Status quota.Status `json:"status,omitempty"`

	// The day of the month on which the billing period starts, 1 to 31. 0 means the calendar month. Default: 0.
	AnchorDay int `json:"anchor_day,omitempty"`

	// The thresholds that replace the service's for this account, by category.
	Thresholds map[string]float64 `json:"thresholds,omitempty"`

	// The share of this account's texts that are harmful, from 0.0001 to 0.99. Default: that of the app.
	HarmShare *float64 `json:"harm_share,omitempty"`

	// Words, or expressions of several words, that do not count in this account's texts: these are judged without them.
	// At most 1,000 of at most 100 characters. Default: none.
	Allow []string `json:"allow,omitempty"`

	// Words or expressions that reject a text of this account in which they stand. At most 1,000. Default: none.
	Block []string `json:"block,omitempty"`

	// The languages that this account's texts are expected to be in, as BCP 47 tags, the likeliest first: en, es,
	// pt-BR. At most 20. Default: none.
	Languages []string `json:"languages,omitempty"`

	// What is recommended at least for a text that is clearly in another language than those: pass, review or reject.
	// It needs languages. Default: pass.
	OtherLanguage string `json:"other_language,omitempty"`

	// The maximum number of requests in a billing period. 0 means unlimited. Default: the tier's.
	RequestsPerMonth *int64 `json:"requests_per_month,omitempty"`

	// The maximum number of requests in a minute. 0 means unlimited. Default: the tier's.
	RequestsPerMinute *int64 `json:"requests_per_minute,omitempty"`

	// The account's keys. More can be created while the server runs.
	Keys []Key `json:"keys,omitempty"`
}

// Key is an API key of an account that is declared in the configuration.
type Key struct {
	// A placeholder that yields the key, such as {env.ACME_KEY} or {file./run/secrets/acme}, or "sha256:" and the 64
	// hexadecimal digits of the key's SHA-256. The key itself is refused, because the configuration can be read through
	// Caddy's admin endpoint. A placeholder is replaced when the configuration is loaded, and only in memory. Required.
	Key string `json:"key"`

	// A name to show to people, at most 200 characters.
	Name string `json:"name,omitempty"`

	// A label for people, such as "production", at most 64 characters.
	Environment string `json:"environment,omitempty"`

	// What the key may do beside moderating texts and reporting usage: "review", to read and decide the account's items
	// in the review queue. Default: nothing.
	Scopes []string `json:"scopes,omitempty"`

	// The date ("2027-01-31", midnight UTC) or instant (RFC 3339) from which the key is refused. Default: never.
	Expires string `json:"expires,omitempty"`
}

// declarations are the accounts and keys of the configuration, as the gate takes them.
type declarations struct {
	accounts []quota.Account
	keys     []quota.Key
}

// hashPrefix begins a key that is given by its hash.
const hashPrefix = "sha256:"

// Validate checks the values that Provision did not need: the times, the bounds, the tiers and the key prefix.
// Provision has already checked the policy and the accounts, because it makes the engine and the declarations of
// them.
func (a *App) Validate() error {
	if a.StartTimeout < 0 {
		return fmt.Errorf("start_timeout is %s; it must not be negative", time.Duration(a.StartTimeout))
	}
	if bound := a.feedbackBound(); bound.Records < 0 || bound.Bytes < 0 {
		return fmt.Errorf("feedback: a bound is negative; 0 means no limit")
	}
	if a.Review != nil {
		if err := a.Review.check(); err != nil {
			return err
		}
	}
	if err := a.Feedback.check(); err != nil {
		return err
	}
	if err := CheckHarmShare(a.HarmShare); err != nil {
		return err
	}
	// A gate checks what the configuration declares without touching its store.
	_, err := a.newGate(noStore{}, a.now)
	return err
}

// noStore is the store of a gate that is only made to check its options. Its methods must not be called.
type noStore struct{ quota.Store }

// defaultTier returns the tier of accounts that name none: "free" where it is configured, else the first by name.
func (a *App) defaultTier() string {
	if _, ok := a.Tiers[quota.DefaultTier]; ok {
		return quota.DefaultTier
	}
	return slices.Min(slices.Collect(maps.Keys(a.Tiers)))
}

// feedbackBound returns the bound of feedback, with its defaults.
func (a *App) feedbackBound() feedback.Bound {
	bound := feedback.Bound{Records: 10_000, Bytes: 64 << 20}
	if records := a.Feedback.MaxRecordsPerDay; records != nil {
		bound.Records = *records
	}
	if bytes := a.Feedback.MaxBytesPerDay; bytes != nil {
		bound.Bytes = *bytes
	}
	return bound
}

// policy returns the configured policy; what is not configured is the engine's default.
func (a *App) policy() (engine.Policy, error) {
	policy, err := Levels(a.Thresholds, a.RejectLevels)
	if err != nil {
		return policy, err
	}
	return policy, policy.Validate()
}

// Levels returns a policy with these thresholds and reject levels, which are given by the names of categories. Those
// that are not given are 0. An error names the option and the category.
func Levels(thresholds, rejectLevels map[string]float64) (engine.Policy, error) {
	var policy engine.Policy
	if err := thresholdOption.fill(policy.Thresholds[:], thresholds); err != nil {
		return policy, err
	}
	return policy, rejectLevelOption.fill(policy.RejectLevels[:], rejectLevels)
}

// levelOption is an option that sets a probability for each category.
type levelOption struct {
	name string
	// allowed says for errors which probabilities are.
	allowed string
	// includesOne tells whether 1 is allowed.
	includesOne bool
}

var (
	thresholdOption   = levelOption{"threshold", "greater than 0 and less than 1", false}
	rejectLevelOption = levelOption{"reject_level", "greater than 0 and at most 1", true}
)

// allows reports whether the option may be set to p, which may be NaN.
func (o *levelOption) allows(p float64) bool { return p > 0 && p < 1 || o.includesOne && p == 1 }

// fill puts probabilities, which are given by the names of categories, where the engine has them.
func (o *levelOption) fill(dst []float64, probabilities map[string]float64) error {
	for name, probability := range probabilities {
		category, err := engine.ParseCategory(name)
		if err != nil {
			return fmt.Errorf("%s: %w", o.name, err)
		}
		if !o.allows(probability) {
			return fmt.Errorf("%s %s: %v is out of range; it must be %s", o.name, name, probability, o.allowed)
		}
		dst[category] = probability
	}
	return nil
}

// resolveAccounts turns the declared accounts into what the gate takes. Placeholders of keys are replaced here, in
// memory alone.
func (a *App) resolveAccounts() (declarations, error) {
	var all declarations
	seen := map[string]bool{}
	hashes := map[quota.Hash]bool{}
	now := a.now().UTC()
	for _, account := range a.Accounts {
		if seen[account.ID] {
			return all, fmt.Errorf("account %q is declared twice", account.ID)
		}
		seen[account.ID] = true
		if err := a.checkTier(account.ID, account.Tier); err != nil {
			return all, err
		}
		if err := account.check(); err != nil {
			return all, err
		}
		resolvedAccount := account.declare()
		resolvedAccount.Created, resolvedAccount.Updated = now, now
		all.accounts = append(all.accounts, resolvedAccount)
		for i, key := range account.Keys {
			resolved, err := key.resolve()
			if err != nil {
				return all, fmt.Errorf("account %q: key %d: %w", account.ID, i+1, err)
			}
			if hashes[resolved.Hash] {
				return all, fmt.Errorf("account %q: key %d is declared twice", account.ID, i+1)
			}
			hashes[resolved.Hash] = true
			resolved.Account, resolved.Created = account.ID, now
			all.keys = append(all.keys, resolved)
		}
	}
	return all, nil
}

// checkTier returns an error when an account cannot be on a tier; empty is the default one.
func (a *App) checkTier(account, tier string) error {
	tiers := a.Tiers
	if len(tiers) == 0 {
		tiers = quota.DefaultTiers()
	}
	if _, ok := tiers[cmp.Or(tier, quota.DefaultTier)]; ok {
		return nil
	}
	names := strings.Join(slices.Sorted(maps.Keys(tiers)), ", ")
	if tier == "" {
		return fmt.Errorf("account %s: it names no tier, and the default tier %s is not configured; the tiers are %s",
			account, quota.DefaultTier, names)
	}
	return fmt.Errorf("account %s: tier %s is not configured; the tiers are %s", account, tier, names)
}

// declare returns the account as the gate takes it.
func (a Account) declare() quota.Account {
	return quota.Account{
		ID: a.ID, Name: a.Name, Tier: cmp.Or(a.Tier, quota.DefaultTier), Status: cmp.Or(a.Status, quota.Active),
		AnchorDay: a.AnchorDay,
		Overrides: quota.Overrides{
			RequestsPerMonth: a.RequestsPerMonth, RequestsPerMinute: a.RequestsPerMinute, Thresholds: a.Thresholds,
			HarmShare: a.HarmShare, Allow: a.Allow, Block: a.Block, Languages: a.Languages,
			OtherLanguage: a.OtherLanguage,
		},
		Declared: true,
	}
}

// check returns an error when the account cannot be declared. It does not look at its tier and its keys.
func (a Account) check() error {
	account := a.declare()
	if err := CheckOverrides(&account.Overrides); err != nil {
		return fmt.Errorf("account %s: %w", a.ID, err)
	}
	if err := quota.ValidateStatus(account.Status); err != nil {
		return fmt.Errorf("account %s: %w", a.ID, err)
	}
	_, err := quota.New(quota.Options{
		Store: noStore{}, Accounts: []quota.Account{account}, Tiers: map[string]quota.Limits{account.Tier: {}},
	})
	return err
}

// resolve returns the key as the gate takes it, by its hash. No error carries the key.
func (k Key) resolve() (quota.Key, error) {
	key := quota.Key{Name: k.Name, Environment: k.Environment, Scopes: k.Scopes, Declared: true}
	if err := quota.ValidateScopes(k.Scopes); err != nil {
		return key, err
	}
	expires, err := parseExpiry(k.Expires)
	if err != nil {
		return key, err
	}
	key.Expires = expires
	if err := k.check(); err != nil {
		return key, err
	}
	if digits, ok := strings.CutPrefix(k.Key, hashPrefix); ok {
		_, err := hex.Decode(key.Hash[:], []byte(digits))
		if err != nil {
			return key, errKeyForm
		}
	} else {
		secret, err := placeholder.Expand(k.Key)
		if err != nil {
			return key, err
		}
		secret = strings.TrimSpace(secret) // files end with a newline
		if err := quota.ValidateKey(secret); err != nil {
			return key, fmt.Errorf("%s yields what cannot be a key: %s%s", k.Key, plain(err), placeholder.At(k.Key))
		}
		key.Hash = quota.HashKey(secret)
	}
	// The id of a declared key must be the same at each start and on each node, and must not reveal the key: it is
	// the hash of its hash.
	id := sha256.Sum256(key.Hash[:])
	key.ID = "key_" + hex.EncodeToString(id[:8])
	return key, nil
}

// errKeyForm means that a key in the configuration is neither a placeholder nor a hash.
var errKeyForm = fmt.Errorf("a key must be a placeholder such as {env.NAME} or {file.PATH}, not {$NAME}, "+
	"or %s and 64 hexadecimal digits; the key itself must not stand in the configuration", hashPrefix)

// check returns an error when the key is given in neither of the two allowed ways.
func (k Key) check() error {
	if digits, ok := strings.CutPrefix(k.Key, hashPrefix); ok {
		if decoded, err := hex.DecodeString(digits); err != nil || len(decoded) != sha256.Size {
			return errKeyForm
		}
		return nil
	}
	// One placeholder, and nothing else.
	inner, ok := strings.CutPrefix(k.Key, "{")
	inner, closed := strings.CutSuffix(inner, "}")
	if !ok || !closed || inner == "" || strings.Contains(inner, "{") {
		return errKeyForm
	}
	return nil
}

// parseExpiry parses a date or an instant; empty means never.
func parseExpiry(text string) (*time.Time, error) {
	if text == "" {
		return nil, nil
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if instant, err := time.Parse(layout, text); err == nil {
			instant = instant.UTC()
			return &instant, nil
		}
	}
	return nil, fmt.Errorf("expires is %q; it must be a date like 2027-01-31 or an instant like 2027-01-31T12:00:00Z",
		text)
}

// Interface guard
var _ caddy.Validator = (*App)(nil)
