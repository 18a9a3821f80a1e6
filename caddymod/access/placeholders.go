// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"strings"

	"go.uber.org/zap/zapcore"

	"github.com/caddy-moderation/caddy-moderation/engine"
)

// String returns the call's id, so that nothing else of a call is ever printed.
func (c *Call) String() string { return c.ID }

// MarshalLogObject adds the call's fields to a line of the access log.
func (c *Call) MarshalLogObject(log zapcore.ObjectEncoder) error {
	log.AddString("moderation_id", c.ID)
	if c.Who.Account.ID != "" {
		log.AddString("moderation_account", c.Who.Account.ID)
		log.AddString("moderation_key", c.Who.Key.ID)
	}
	if c.verdict != nil {
		log.AddString("moderation_recommendation", string(c.verdict.Recommendation))
	}
	return nil
}

// placeholder returns the value of {http.auth.user.id} and of {http.moderation.*}. The placeholders of the verdict are
// unknown until there is one.
func (c *Call) placeholder(key string) (any, bool) {
	if key == "http.auth.user.id" {
		return c.Who.Account.ID, c.authenticated
	}
	name, ok := strings.CutPrefix(key, "http.moderation.")
	if !ok {
		return nil, false
	}
	switch name {
	case "id":
		return c.ID, true
	case "account":
		return c.Who.Account.ID, true
	case "key":
		return c.Who.Key.ID, true
	case "tier":
		return c.Who.Account.Tier, true
	}
	if c.verdict == nil {
		return nil, false
	}
	switch name {
	case "flagged":
		return c.verdict.Flagged, true
	case "recommendation":
		return string(c.verdict.Recommendation), true
	case "confidence":
		return c.verdict.Confidence, true
	case "categories":
		return strings.Join(c.flagged(), ","), true
	}
	for i := range c.verdict.Categories {
		if engine.Category(i).String() == name {
			return c.verdict.Categories[i].Probability, true
		}
	}
	return nil, false
}

// Interface guards
var _ zapcore.ObjectMarshaler = (*Call)(nil)
