// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"fmt"
	"time"

	"github.com/caddy-moderation/caddy-moderation/feedback"
	"github.com/caddy-moderation/caddy-moderation/quota"
)

// newAccount is the body of a request that creates an account. Fields and defaults are those of [quota.Account].
type newAccount struct {
	ID        string          `json:"id"`
	Name      string          `json:"name,omitempty"`
	Tier      string          `json:"tier,omitempty"`
	Status    quota.Status    `json:"status,omitempty"`
	AnchorDay int             `json:"anchor_day,omitempty"`
	Overrides quota.Overrides `json:"overrides,omitzero"`
	// Force allows a status that is none of [quota.Statuses]: the account is refused then.
	Force bool `json:"force,omitempty"`
}

// accountChange is the body of a request that changes an account.
type accountChange struct {
	quota.AccountChange
	// Force is that of [newAccount].
	Force bool `json:"force,omitempty"`
}

// newKey is the body of a request that creates a key.
type newKey struct {
	Account     string     `json:"account"`
	Name        string     `json:"name,omitempty"`
	Environment string     `json:"environment,omitempty"`
	Expires     *time.Time `json:"expires,omitempty"`
	Scopes      []string   `json:"scopes,omitempty"`
}

// rotation is the body of a request that rotates a key.
type rotation struct {
	// Overlap is how long the old key stays valid, as a duration such as "24h" or "7d". Default "0s": not at all.
	Overlap string `json:"overlap,omitempty"`
}

// madeKey answers the creation and the rotation of a key. No other answer holds a secret.
type madeKey struct {
	// Secret is the key itself, which is never shown again.
	Secret string `json:"secret"`
	// Key is what the server keeps of it.
	Key quota.Key `json:"key"`
	// Old is the key that was rotated, with its new expiry; absent after a creation.
	Old *quota.Key `json:"old,omitempty"`
}

// feedbackDeletion is the body of a request that deletes the records of feedback which fulfil all of its conditions.
type feedbackDeletion struct {
	Account string     `json:"account,omitempty"`
	Before  *time.Time `json:"before,omitempty"`
	// TextSHA256 is the SHA-256 of the text, in hexadecimal digits.
	TextSHA256 string `json:"text_sha256,omitempty"`
	// DryRun counts the records and deletes none.
	DryRun bool `json:"dry_run,omitempty"`
}

// selection returns the records that are to be deleted. An error names the member that is wrong.
func (d *feedbackDeletion) selection() (which feedback.Selection, err error) {
	if d.Account != "" {
		if err := quota.ValidateID(d.Account); err != nil {
			return which, err
		}
		which.Account = d.Account
	}
	if d.Before != nil {
		which.Before = *d.Before
	}
	if d.TextSHA256 != "" {
		hash, err := feedback.ParseTextHash(d.TextSHA256)
		if err != nil {
			return which, fmt.Errorf("text_sha256: %w", err)
		}
		which.TextHash = &hash
	}
	return which, which.Validate()
}

// deletedFeedback answers the deletion of feedback.
type deletedFeedback struct {
	// Deleted is how many records were deleted, Selected how many would be. One of them is there.
	Deleted  *int64 `json:"deleted,omitempty"`
	Selected *int64 `json:"selected,omitempty"`
	// Damaged is how many records cannot be read, so that nobody knows whether they fulfil the conditions. They stay.
	Damaged int64 `json:"damaged,omitempty"`
}

// usageReport is what an account has used.
type usageReport struct {
	Account quota.Account `json:"account"`
	// Limits are those of the account, null when its tier is not configured. 0 means unlimited.
	Limits *quota.Limits `json:"limits"`
	Period struct {
		Start    time.Time `json:"start"`
		End      time.Time `json:"end"`
		Requests int64     `json:"requests"`
	} `json:"period"`
	Minute struct {
		Reset    time.Time `json:"reset"`
		Requests int64     `json:"requests"`
	} `json:"minute"`
	// Days are the last 30 days, newest first.
	Days []quota.DayCount `json:"days"`
	// Flagged is how often each category was flagged in the period.
	Flagged map[string]int64 `json:"flagged"`
	// Keys are the account's keys: declared ones, stored ones, and removed ones that were used in the period.
	Keys []keyUsage `json:"keys"`
}

// keyUsage is what one key has used in the billing period.
type keyUsage struct {
	ID          string `json:"id"`
	Name        string `json:"name,omitempty"`
	Environment string `json:"environment,omitempty"`
	// Requests are those of the period.
	Requests int64 `json:"requests"`
	// LastUsed is the UTC day of the last request, absent when there was none. It is known of stored keys only.
	LastUsed string `json:"last_used,omitempty"`
	// Declared says that the key is declared in the configuration, Removed that it was and is no longer.
	Declared bool `json:"declared,omitempty"`
	Removed  bool `json:"removed,omitempty"`
}

// report returns the usage report of an account.
func report(u quota.Usage, keys []quota.KeyUsage, limits *quota.Limits) usageReport {
	report := usageReport{
		Account: u.Account, Limits: limits, Days: u.Days, Flagged: u.Flagged, Keys: make([]keyUsage, len(keys)),
	}
	for i, k := range keys {
		report.Keys[i] = keyUsage{
			ID: k.Key.ID, Name: k.Key.Name, Environment: k.Key.Environment, Requests: k.Requests,
			LastUsed: k.Key.LastUsed, Declared: k.Key.Declared, Removed: k.Removed,
		}
	}
	report.Period.Start, report.Period.End, report.Period.Requests = u.Period.Start, u.Period.End, u.Counts.Period
	report.Minute.Reset, report.Minute.Requests = u.MinuteReset, u.Counts.Minute
	return report
}

// health answers the health routes.
type health struct {
	// Status is "live", "ready" or "not ready".
	Status string `json:"status"`
	// Mode is how a store that several nodes share works now: "normal", or "local", "deny" or "allow" while its server
	// cannot be reached. Absent for other stores.
	Mode string `json:"mode,omitempty"`
	// Reason says why the service is not ready, or why the mode is not "normal".
	Reason string `json:"reason,omitempty"`
	// Version is the version of this project.
	Version string `json:"version,omitempty"`
	// Model is the version of the classifier.
	Model string `json:"model,omitempty"`
	// CalibratedFor is the share of harmful texts that the classifier is calibrated for, absent where it is not known.
	// HarmShare is the share that its probabilities are moved to for guards and accounts without one of their own.
	CalibratedFor float64 `json:"calibrated_for,omitempty"`
	HarmShare     float64 `json:"harm_share,omitempty"`
}

// batchTaken is the body of POST /moderation/feedback/consumers/{name}.
type batchTaken struct {
	// Batch is what the header Moderation-Batch of the batch said.
	Batch string `json:"batch"`
}

// takenFeedback is its answer: how many records the consumer has taken, and how many were passed over.
type takenFeedback struct {
	Taken   int `json:"taken"`
	Damaged int `json:"damaged,omitempty"`
}
