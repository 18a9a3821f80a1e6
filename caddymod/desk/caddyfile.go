// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package desk

import (
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/directive"
	"github.com/caddy-moderation/caddy-moderation/caddymod/options"
)

// UnmarshalCaddyfile sets up the module from Caddyfile tokens. Syntax:
//
//	moderation_desk [@<matcher>] [<base path>] {
//		operator <placeholder> <user>...              # may see and do everything
//		member <placeholder> <account:user>...        # of one account, or of several
//		reviewer <placeholder> <user>...              # of the review queue
//		tokens                                        # people may sign in with links that a command makes
//	}
//
// Each option can be given several times, with other placeholders. The base path is "/" by default.
func (d *Desk) UnmarshalCaddyfile(t *caddyfile.Dispenser) error {
	t.Next() // the directive's name
	if t.NextArg() {
		d.BasePath = t.Val()
		if err := directive.CheckBasePath(d.BasePath); err != nil {
			return t.Err(err.Error())
		}
	}
	return options.Block(t, "moderation_desk", map[string]options.Option{
		"operator": {Repeat: true, Parse: func(t *caddyfile.Dispenser) error { return parsePeople(t, &d.Operators) }},
		"reviewer": {Repeat: true, Parse: func(t *caddyfile.Dispenser) error { return parsePeople(t, &d.Reviewers) }},
		"tokens":   options.Flag(&d.Tokens),
		"member":   {Repeat: true, Parse: d.parseMembers},
	})
}

// parsePeople parses the option operator or reviewer.
func parsePeople(t *caddyfile.Dispenser, into *[]People) error {
	name := t.Val()
	words, err := placeholderAnd(t, "<user>")
	if err != nil {
		return err
	}
	people := People{Placeholder: words[0], Users: words[1:]}
	if err := people.check(name); err != nil {
		return t.Errf("%v%s", err, options.Unset(t))
	}
	*into = append(*into, people)
	return nil
}

// parseMembers parses the option member.
func (d *Desk) parseMembers(t *caddyfile.Dispenser) error {
	words, err := placeholderAnd(t, "<account:user>")
	if err != nil {
		return err
	}
	members := Members{Placeholder: words[0], Accounts: map[string][]string{}}
	for _, word := range words[1:] {
		account, user, found := strings.Cut(word, ":")
		if !found {
			return t.Errf("member: '%s' must be an account and a user, such as acme:carol%s", word, options.Unset(t))
		}
		members.Accounts[account] = append(members.Accounts[account], user)
	}
	if err := members.check(); err != nil {
		return t.Errf("%v%s", err, options.Unset(t))
	}
	d.Members = append(d.Members, members)
	return nil
}

// placeholderAnd returns the arguments of an option: a placeholder and one or more others.
func placeholderAnd(t *caddyfile.Dispenser, others string) ([]string, error) {
	name := t.Val()
	words := t.RemainingArgs()
	if len(words) < 2 {
		return nil, t.Errf("'%s' needs 2 or more arguments, but has %d: %s <placeholder> %s...%s",
			name, len(words), name, others, options.Unset(t))
	}
	if t.NextBlock(t.Nesting()) {
		return nil, t.Errf("'%s' takes no block", name)
	}
	return words, nil
}

// Interface guard
var _ caddyfile.Unmarshaler = (*Desk)(nil)
