// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"fmt"
	"slices"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/coop"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/placeholder"
	"github.com/caddy-moderation/caddy-moderation/caddymod/options"
	"github.com/caddy-moderation/caddy-moderation/review"
)

// ReviewCoop says how decisions of ROOST Coop, a review console, are taken in: its actions call /v1/reviews/coop with
// a key of the account that has the scope "review", and sign each request.
type ReviewCoop struct {
	// The key that signatures are checked with, which Coop shows in its settings as the webhook signature verification
	// key: RSA in PEM, or a placeholder such as {env.NAME} or {file.PATH} that yields it. Required.
	PublicKey string `json:"public_key"`

	// The ids of the actions in Coop that approve an item. One of the three lists must have an action, and no action
	// may be in two.
	Approve []string `json:"approve,omitempty"`
	// The ids of the actions in Coop that reject an item.
	Reject []string `json:"reject,omitempty"`
	// The ids of the actions in Coop that escalate an item.
	Escalate []string `json:"escalate,omitempty"`
}

// Coop takes decisions of Coop in.
type Coop struct {
	// Key checks signatures.
	Key     coop.Key
	actions map[string]review.Action
}

// Action returns what an action of Coop's decides, and whether it is one that decides anything.
func (c *Coop) Action(id string) (review.Action, bool) {
	action, ok := c.actions[id]
	return action, ok
}

// coop returns what the options describe, nil without them. No error tells the key.
func (o *ReviewCoop) coop() (*Coop, error) {
	if o == nil {
		return nil, nil
	}
	text, err := placeholder.Expand(o.PublicKey)
	if err != nil {
		return nil, fmt.Errorf("review: coop: public_key: %w", err)
	}
	c := &Coop{actions: map[string]review.Action{}}
	if c.Key, err = coop.ParseKey(text); err != nil {
		return nil, fmt.Errorf("review: coop: %w", err)
	}
	for _, list := range []struct {
		action review.Action
		ids    []string
	}{{review.Approve, o.Approve}, {review.Reject, o.Reject}, {review.Escalate, o.Escalate}} {
		for _, id := range list.ids {
			if known, twice := c.actions[id]; twice && known != list.action {
				return nil, fmt.Errorf("review: coop: the action %s is to %s and to %s", id, known, list.action)
			}
			c.actions[id] = list.action
		}
	}
	if len(c.actions) == 0 {
		return nil, errors.New("review: coop: no action is named; say with approve, reject or escalate what the ids of " +
			"Coop's actions stand for")
	}
	if slices.Contains(o.Approve, "") || slices.Contains(o.Reject, "") || slices.Contains(o.Escalate, "") {
		return nil, errors.New("review: coop: the id of an action is empty")
	}
	return c, nil
}

// parseCoop parses the Caddyfile option.
func (o *ReviewOptions) parseCoop(d *caddyfile.Dispenser) error {
	c := new(ReviewCoop)
	actions := func(into *[]string) options.Option {
		return options.Option{Repeat: true, Parse: func(d *caddyfile.Dispenser) error {
			name := d.Val()
			ids := d.RemainingArgs()
			if len(ids) == 0 {
				return d.Errf("'%s' needs at least 1 argument: %s <action>...%s", name, name, options.Unset(d))
			}
			*into = append(*into, ids...)
			return nil
		}}
	}
	if err := options.Block(d, "coop", map[string]options.Option{
		"public_key": options.Text(&c.PublicKey, "<key>"),
		"approve":    actions(&c.Approve),
		"reject":     actions(&c.Reject),
		"escalate":   actions(&c.Escalate),
	}); err != nil {
		return err
	}
	o.Coop = c
	return nil
}
