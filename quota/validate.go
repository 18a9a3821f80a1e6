// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// The maximum lengths of texts, in characters, and the maximum number of overridden thresholds.
const (
	maxID          = 64
	maxName        = 200
	maxEnvironment = 64
	maxStatus      = 32
	maxPrefix      = 20
	maxOverrides   = 64
	maxExpression  = 100
	maxLanguages   = 20
)

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

// ValidateID returns an error that wraps [ErrInvalid] unless id can be the id of an account or of a declared key.
func ValidateID(id string) error {
	if len(id) == 0 || len(id) > maxID {
		return invalid("id must be 1 to %d characters long", maxID)
	}
	for i := range len(id) {
		if c := id[i]; !alphanumeric(c) && (i == 0 || !strings.ContainsRune("._-", rune(c))) {
			return invalid("id may contain a-z, A-Z, 0-9, '.', '_' and '-', and must begin with a letter or a digit")
		}
	}
	return nil
}

// ValidatePrefix returns an error that wraps [ErrInvalid] unless keys may begin with prefix.
func ValidatePrefix(prefix string) error {
	if len(prefix) == 0 || len(prefix) > maxPrefix {
		return invalid("key prefix must be 1 to %d characters long", maxPrefix)
	}
	for i := range len(prefix) {
		if !alphanumeric(prefix[i]) {
			return invalid("key prefix may contain only letters a-z, A-Z and digits")
		}
	}
	return nil
}

// ValidateStatus returns an error that wraps [ErrInvalid], and lists them, unless status is one of [Statuses]. A [Gate]
// takes others, too, and refuses the account then. A status that a person has written is checked first: a mistyped one
// would lock a customer out.
func ValidateStatus(status Status) error {
	var served, refused []string
	for _, known := range Statuses() {
		if known == status {
			return nil
		}
		if known.Served() {
			served = append(served, string(known))
		} else {
			refused = append(refused, string(known))
		}
	}
	return invalid("status %q is not known; accounts that are %s are served, those that are %s are refused",
		string(status), orList(served), orList(refused))
}

// orList joins words as in "a, b or c".
func orList(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// ValidateTiers returns an error that wraps [ErrInvalid] and names the tier unless the tiers can be configured.
func ValidateTiers(tiers map[string]Limits) error {
	for _, name := range slices.Sorted(maps.Keys(tiers)) {
		if !word(name, maxID) {
			return invalid("tier %q: a name is 1 to %d characters of a-z, 0-9 and '_', the first of them a letter",
				name, maxID)
		}
		if tiers[name].RequestsPerMonth < 0 || tiers[name].RequestsPerMinute < 0 {
			return invalid("tier %q: limits must be 0 (unlimited) or more", name)
		}
	}
	return nil
}

// validate checks everything in an account except its tier.
func (a Account) validate() error {
	if err := ValidateID(a.ID); err != nil {
		return err
	}
	if err := validateText("name", a.Name, maxName); err != nil {
		return err
	}
	if err := a.Status.validate(); err != nil {
		return err
	}
	if err := validateAnchor(a.AnchorDay); err != nil {
		return err
	}
	return a.Overrides.validate()
}

func (s Status) validate() error {
	if !word(string(s), maxStatus) {
		var known []string
		for _, s := range Statuses() {
			known = append(known, string(s))
		}
		return invalid("status must be a word of 1 to %d characters of a-z, 0-9 and '_', such as %s",
			maxStatus, orList(known))
	}
	return nil
}

// ValidateOverrides returns an error that wraps [ErrInvalid] and names the member unless an account can have the
// overrides.
func ValidateOverrides(o Overrides) error { return o.validate() }

func (o Overrides) validate() error {
	if o.RequestsPerMonth != nil && *o.RequestsPerMonth < 0 {
		return invalid("overrides.requests_per_month must be 0 (unlimited) or more")
	}
	if o.RequestsPerMinute != nil && *o.RequestsPerMinute < 0 {
		return invalid("overrides.requests_per_minute must be 0 (unlimited) or more")
	}
	if len(o.Thresholds) > maxOverrides {
		return invalid("overrides.thresholds may name at most %d categories", maxOverrides)
	}
	for _, name := range slices.Sorted(maps.Keys(o.Thresholds)) {
		if len(name) == 0 || len(name) > maxID {
			return invalid("overrides.thresholds: a category name is 1 to %d characters long", maxID)
		}
		// The negated form refuses NaN too.
		if t := o.Thresholds[name]; !(t > 0 && t < 1) {
			return invalid("overrides.thresholds.%s must be greater than 0 and less than 1", name)
		}
	}
	if s := o.HarmShare; s != nil && !(*s > 0 && *s < 1) {
		return invalid("overrides.harm_share must be greater than 0 and less than 1")
	}
	return o.validateWords()
}

// validateWords checks the words and the languages. What is a word, and what a tag, the gate does not know.
func (o Overrides) validateWords() error {
	size := 0
	for _, list := range []struct {
		name  string
		texts []string
		most  int
	}{
		{"allow", o.Allow, MaxExpressions}, {"block", o.Block, MaxExpressions}, {"languages", o.Languages, maxLanguages},
	} {
		if len(list.texts) > list.most {
			return invalid("overrides.%s may have at most %d entries", list.name, list.most)
		}
		for i, text := range list.texts {
			if list.name != "languages" {
				size += len(text)
			}
			if strings.TrimSpace(text) == "" {
				return invalid("overrides.%s: entry %d is empty", list.name, i+1)
			}
			if err := validateText(fmt.Sprintf("overrides.%s: entry %d", list.name, i+1), text, maxExpression); err != nil {
				return err
			}
		}
	}
	if size > MaxExpressionBytes {
		return invalid("overrides: allow and block may have at most %d bytes together", MaxExpressionBytes)
	}
	switch o.OtherLanguage {
	case "", "pass":
	case "review", "reject":
		if len(o.Languages) == 0 {
			return invalid("overrides.other_language needs languages")
		}
	default:
		return invalid("overrides.other_language must be pass, review or reject")
	}
	return nil
}

func validateAnchor(day int) error {
	if day < 0 || day > 31 {
		return invalid("anchor_day must be 1 to 31, or 0 for the calendar month")
	}
	return nil
}

// validate checks the name and the environment of a key.
func (k Key) validate() error {
	if err := validateText("name", k.Name, maxName); err != nil {
		return err
	}
	if err := ValidateScopes(k.Scopes); err != nil {
		return err
	}
	return validateText("environment", k.Environment, maxEnvironment)
}

// ValidateScopes returns an error that wraps [ErrInvalid] unless all scopes are known, and each is given once.
func ValidateScopes(scopes []string) error {
	for i, scope := range scopes {
		if !slices.Contains(Scopes(), scope) {
			return invalid("there is no scope %q; there is %s", scope, strings.Join(Scopes(), ", "))
		}
		if slices.Contains(scopes[:i], scope) {
			return invalid("the scope %s is given twice", scope)
		}
	}
	return nil
}

func validateExpiry(expires *time.Time, now time.Time) error {
	if expires != nil && !expires.After(now) {
		return invalid("expires must be in the future")
	}
	return nil
}

func validateText(field, text string, limit int) error {
	if !utf8.ValidString(text) {
		return invalid("%s must be valid UTF-8", field)
	}
	if utf8.RuneCountInString(text) > limit {
		return invalid("%s must be at most %d characters long", field, limit)
	}
	// Names end up in terminals and in logs.
	if strings.ContainsFunc(text, unicode.IsControl) {
		return invalid("%s must not contain control characters", field)
	}
	return nil
}

// validateTier checks that a tier is configured. The message lists those that are.
func (g *Gate) validateTier(tier string) error {
	if _, ok := g.tiers[tier]; !ok {
		configured := strings.Join(slices.Sorted(maps.Keys(g.tiers)), ", ")
		return invalid("tier %q is not configured; configured are %s", tier, configured)
	}
	return nil
}

// word reports whether s is a snake_case word of at most limit characters.
func word(s string, limit int) bool {
	if len(s) == 0 || len(s) > limit {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z':
		case i > 0 && (c >= '0' && c <= '9' || c == '_'):
		default:
			return false
		}
	}
	return true
}

func alphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}
