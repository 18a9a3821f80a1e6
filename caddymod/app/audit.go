// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/audit"
	"github.com/caddy-moderation/caddy-moderation/quota"
)

const (
	// auditKeep is for how long entries of the audit log are kept.
	auditKeep = 400 * 24 * time.Hour
	// auditPatience is how long an answer waits for its entry.
	auditPatience = 5 * time.Second
)

// Audit keeps a record of what people do to the service.
type Audit struct {
	// Log has the entries.
	Log *audit.Log

	logger *zap.Logger
}

// Record adds an entry about something that was done. When it returns the entry is durable, or the log of the server
// has it with the error: what was done cannot be taken back because of that.
func (a *Audit) Record(ctx context.Context, e audit.Entry) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditPatience)
	defer cancel()
	if err := a.Log.Append(ctx, e); err != nil {
		a.logger.Error("the audit log could not be written", zap.String("action", e.Action), zap.String("actor", e.Actor),
			zap.String("via", string(e.Via)), zap.String("account", e.Account), zap.String("target", e.Target), zap.Error(err))
	}
}

// trim removes the entries that are kept no longer.
func (a *Audit) trim(ctx context.Context, now time.Time) {
	total := 0
	for {
		removed, err := a.Log.Trim(ctx, now.Add(-auditKeep))
		total += removed
		if err != nil && ctx.Err() == nil {
			a.logger.Error("old entries of the audit log could not be removed; it is tried again", zap.Error(err))
		}
		if err != nil || removed == 0 {
			break
		}
	}
	if total > 0 {
		a.logger.Info("entries of the audit log were removed that are kept no longer", zap.Int("entries", total))
	}
}

// AccountChanges returns what is different in an account, for an entry of the audit log: by member, "from -> to".
func AccountChanges(before, after *quota.Account) map[string]string {
	changes := map[string]string{}
	overrides := func(a *quota.Account) string {
		few := a.Overrides
		few.Allow, few.Block = nil, nil
		text, err := json.Marshal(few)
		if err != nil || string(text) == "{}" {
			return ""
		}
		return string(text)
	}
	for name, values := range map[string][2]string{
		"name": {before.Name, after.Name}, "tier": {before.Tier, after.Tier},
		"status":     {string(before.Status), string(after.Status)},
		"anchor_day": {strconv.Itoa(before.AnchorDay), strconv.Itoa(after.AnchorDay)},
		"overrides":  {overrides(before), overrides(after)},
	} {
		if values[0] != values[1] {
			changes[name] = values[0] + " -> " + values[1]
		}
	}
	wordChanges(changes, "allow", before.Overrides.Allow, after.Overrides.Allow)
	wordChanges(changes, "block", before.Overrides.Block, after.Overrides.Block)
	return changes
}

// maxToldWords is how many words of a change an entry of the audit log has.
const maxToldWords = 20

// wordChanges adds what is different in a list of words: "+" is before those that are new, and "-" before others.
func wordChanges(changes map[string]string, name string, before, after []string) {
	var told []string
	add := func(sign string, list, other []string) {
		known := make(map[string]bool, len(other))
		for _, word := range other {
			known[word] = true
		}
		for _, word := range list {
			if !known[word] {
				told = append(told, sign+word)
			}
		}
	}
	add("+", after, before)
	add("-", before, after)
	if more := len(told) - maxToldWords; more > 0 {
		told = append(told[:maxToldWords], fmt.Sprintf("and %d more", more))
	}
	if len(told) > 0 {
		changes[name] = strings.Join(told, ", ")
	}
}

// KeyDetails returns what the audit log says of a new key.
func KeyDetails(key *quota.Key) map[string]string {
	details := map[string]string{}
	for name, value := range map[string]string{
		"name": key.Name, "environment": key.Environment, "scopes": strings.Join(key.Scopes, " "),
	} {
		if value != "" {
			details[name] = value
		}
	}
	if key.Expires != nil {
		details["expires"] = key.Expires.UTC().Format(time.RFC3339)
	}
	return details
}
