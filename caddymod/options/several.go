// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// Several is an option with one or more arguments, which can be given repeatedly. check may refuse an argument; nil
// accepts all.
func Several(dst *[]string, syntax string, check func(string) error) Option {
	return Option{Repeat: true, Parse: func(d *caddyfile.Dispenser) error {
		name := d.Val()
		args := d.RemainingArgs()
		if len(args) == 0 {
			return d.Errf("'%s' needs at least 1 argument: %s %s...%s", name, name, syntax, Unset(d))
		}
		for _, arg := range args {
			if arg == "" {
				return d.Errf("%s: %s is empty%s", name, syntax, Empty(d))
			}
			if slices.Contains(*dst, arg) {
				return d.Errf("%s: '%s' is given twice", name, arg)
			}
			if check != nil {
				if err := check(arg); err != nil {
					return d.Errf("%s '%s': %v", name, arg, err)
				}
			}
			*dst = append(*dst, arg)
		}
		if d.NextBlock(d.Nesting()) {
			return d.Errf("'%s' takes no block", name)
		}
		return nil
	}}
}

// Choice is an option with one argument, which must be one of words.
func Choice(dst *string, words ...string) Option {
	return Option{Parse: func(d *caddyfile.Dispenser) error {
		name := d.Val()
		args, err := Args(d, strings.Join(words, "|"))
		if err != nil {
			return err
		}
		if !slices.Contains(words, args[0]) {
			return d.Errf("%s is '%s'; it must be one of %s", name, args[0], List(words))
		}
		*dst = args[0]
		return nil
	}}
}
