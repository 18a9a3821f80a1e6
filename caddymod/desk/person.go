// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package desk

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-moderation/caddy-moderation/quota"
)

// role is what a person must have for a route.
type role uint8

const (
	// anyone needs no role. Only what says nothing about the service is open to anyone.
	anyone role = iota
	// somebody has a role, whichever.
	somebody
	// member is a member of the account that the path names, or an operator.
	member
	// reviewer may decide what is in the review queue. Operators may, too.
	reviewer
	// operator may do everything.
	operator
)

// person is who sent a request, and what that one may do.
type person struct {
	// name is the value of the placeholder that gave a role, else the first that has a value. Empty: nobody.
	name               string
	operator, reviewer bool
	// accounts are those that the person is a member of, sorted.
	accounts []string
}

// person returns who sent a request.
func (d *Desk) person(r *http.Request) person {
	replacer, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return person{}
	}
	var p person
	unknown := ""
	// is reports whether the value of a placeholder is one of the users. An empty one is nobody's.
	is := func(placeholder string, users []string) bool {
		value := replacer.ReplaceAll(placeholder, "")
		if value == "" {
			return false
		}
		if unknown == "" {
			unknown = value
		}
		found := slices.Contains(users, value)
		if found && p.name == "" {
			p.name = value
		}
		return found
	}
	for _, people := range d.Operators {
		p.operator = is(people.Placeholder, people.Users) || p.operator
	}
	for _, people := range d.Reviewers {
		p.reviewer = is(people.Placeholder, people.Users) || p.reviewer
	}
	for _, members := range d.Members {
		for _, account := range slices.Sorted(maps.Keys(members.Accounts)) {
			if is(members.Placeholder, members.Accounts[account]) {
				p.accounts = append(p.accounts, account)
			}
		}
	}
	slices.Sort(p.accounts)
	p.accounts = slices.Compact(p.accounts)
	if p.name == "" {
		p.name = unknown
	}
	return p
}

// has reports whether a person has a role; account is the one that the path names, if it names one.
func (p *person) has(needed role, account string) bool {
	switch needed {
	case anyone:
		return true
	case somebody:
		return p.operator || p.reviewer || len(p.accounts) > 0
	case member:
		return account != "" && (p.operator || slices.Contains(p.accounts, account))
	case reviewer:
		return p.operator || p.reviewer
	case operator:
		return p.operator
	}
	return false
}

// onePlaceholder matches a placeholder, and nothing else.
var onePlaceholder = regexp.MustCompile(`^\{[^{}\s]+\}$`)

// check returns an error when nobody could be one of the people; option is the option's name.
func (p *People) check(option string) error {
	if !onePlaceholder.MatchString(p.Placeholder) {
		return fmt.Errorf("%s: '%s' must be a placeholder that says who a person is, such as {http.auth.user.id}",
			option, p.Placeholder)
	}
	if len(p.Users) == 0 {
		return fmt.Errorf("%s: no user is named", option)
	}
	for _, user := range p.Users {
		if user == "" || strings.ContainsAny(user, "{}") {
			return fmt.Errorf("%s: the user is '%s'; it must be what the placeholder yields for one person", option, user)
		}
	}
	return nil
}

// check returns an error when nobody could be one of the members.
func (m *Members) check() error {
	if len(m.Accounts) == 0 {
		return fmt.Errorf("member: no account is named")
	}
	for _, account := range slices.Sorted(maps.Keys(m.Accounts)) {
		if err := quota.ValidateID(account); err != nil {
			return fmt.Errorf("member: account '%s': %w", account, err)
		}
		people := People{Placeholder: m.Placeholder, Users: m.Accounts[account]}
		if err := people.check("member"); err != nil {
			return err
		}
	}
	return nil
}
