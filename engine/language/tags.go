// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package language

import (
	"fmt"
	"slices"
	"strings"
)

// Surely is the probability from which a text is taken to be in a language that it should not be in.
const Surely = 0.9

// CheckTag checks the form of a language tag (RFC 5646).
func CheckTag(tag string) error {
	first, _, _ := strings.Cut(tag, "-")
	if len(first) < 2 || len(first) > 8 || len(tag) > 35 || strings.ContainsFunc(tag, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-')
	}) {
		return fmt.Errorf("%q is not a language tag such as en or pt-BR", tag)
	}
	return nil
}

// Is reports whether a language, by its BCP 47 tag, is a wanted one: pt-BR wants pt, and hi wants hi-Latn, too.
func Is(tag, wanted string) bool {
	return strings.EqualFold(tag, wanted) || strings.EqualFold(primary(tag), primary(wanted))
}

// IsOther reports whether a text is clearly in another language than those that are expected, by their BCP 47 tags. It
// is not if its language is so close to one of them that it may be taken for it, and not if none are expected.
func IsOther(tag string, probability float64, expected []string) bool {
	if tag == "" || tag == Undetermined || probability < Surely || len(expected) == 0 {
		return false
	}
	return !slices.ContainsFunc(expected, func(one string) bool { return Is(tag, one) || Related(tag, primary(one)) })
}

// primary returns the first part of a tag.
func primary(tag string) string {
	first, _, _ := strings.Cut(strings.ToLower(tag), "-")
	return first
}
