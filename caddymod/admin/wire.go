// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"time"

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
}

// newKey is the body of a request that creates a key.
type newKey struct {
	Account     string     `json:"account"`
	Name        string     `json:"name,omitempty"`
	Environment string     `json:"environment,omitempty"`
	Expires     *time.Time `json:"expires,omitempty"`
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
}

// report returns the usage report of an account.
func report(u quota.Usage, limits *quota.Limits) usageReport {
	report := usageReport{Account: u.Account, Limits: limits, Days: u.Days, Flagged: u.Flagged}
	report.Period.Start, report.Period.End, report.Period.Requests = u.Period.Start, u.Period.End, u.Counts.Period
	report.Minute.Reset, report.Minute.Requests = u.MinuteReset, u.Counts.Minute
	return report
}

// health answers the health routes.
type health struct {
	// Status is "live", "ready" or "not ready".
	Status string `json:"status"`
	// Reason says why the service is not ready.
	Reason string `json:"reason,omitempty"`
	// Model is the version of the classifier.
	Model string `json:"model,omitempty"`
}
