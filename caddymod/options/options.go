// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package options parses Caddyfile blocks strictly. Options and arguments that are unknown, missing, repeated or too
// many are errors, which name the file, the line, the mistake and what is allowed. If a mistyped option were ignored,
// something that its author relies on would be switched off.
//
// [Block] parses a block by a map of its options. [Flag], [Text], [Choice], [Several], [Switch], [Duration], [Whole],
// [Characters] and [Size] return options for the usual kinds of values.
package options

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/dustin/go-humanize"

	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/placeholder"
)

// Option is an option of a block.
type Option struct {
	// Parse is called with the dispenser on the option's name. It consumes all arguments and the block of the option.
	Parse func(d *caddyfile.Dispenser) error
	// Repeat allows the option to be given more than once.
	Repeat bool
}

// Block parses the block that follows, if there is one. Arguments before it are an error. In errors, what is the name
// of the directive or option that the block belongs to.
func Block(d *caddyfile.Dispenser, what string, allowed map[string]Option) error {
	if d.NextArg() {
		return d.Errf("%s: unexpected argument '%s'", what, Shown(d.Val()))
	}
	placeholder.Parsed(d.File())
	seen := map[string]bool{}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		name := d.Val()
		option, ok := allowed[name]
		if !ok && len(allowed) == 0 {
			return d.Errf("%s takes no options, but has '%s'", what, Shown(name))
		}
		if !ok {
			names := List(slices.Sorted(maps.Keys(allowed)))
			return d.Errf("%s: unknown option '%s'; the options are %s", what, Shown(name), names)
		}
		if seen[name] && !option.Repeat {
			return d.Errf("%s: option '%s' is given twice", what, name)
		}
		seen[name] = true
		if err := option.Parse(d); err != nil {
			return err
		}
	}
	return nil
}

// Shown returns a word for an error: only the scheme of a URL is left, because the rest may hold a password.
func Shown(word string) string {
	if scheme, _, isURL := strings.Cut(word, "://"); isURL {
		return scheme + "://..."
	}
	return word
}

// Args returns the arguments of an option without a block. Their number must be that of the words in syntax, such as
// "<category> <value>", which is quoted in errors.
func Args(d *caddyfile.Dispenser, syntax string) ([]string, error) {
	name := d.Val()
	args, err := ArgsBeforeBlock(d, syntax)
	if err != nil {
		return nil, err
	}
	if d.NextBlock(d.Nesting()) {
		return nil, d.Errf("'%s' takes no block", name)
	}
	return args, nil
}

// ArgsBeforeBlock is [Args] for an option that may have a block.
func ArgsBeforeBlock(d *caddyfile.Dispenser, syntax string) ([]string, error) {
	name := d.Val()
	want := len(strings.Fields(syntax))
	if got := d.CountRemainingArgs(); got != want {
		if want == 0 {
			return nil, d.Errf("'%s' takes no argument, but has %d", name, got)
		}
		hint := ""
		if got < want {
			hint = Unset(d)
		}
		return nil, d.Errf("'%s' needs %s, but has %d: %s %s%s", name, count(want), got, name, syntax, hint)
	}
	return d.RemainingArgs(), nil
}

// Unset says, for errors about a missing argument, which variables {$NAME} of the line yield nothing; "" if none does.
// Caddy replaces them before a directive sees its arguments.
func Unset(d *caddyfile.Dispenser) string {
	hint, _ := placeholder.Unset(d.File(), d.Line())
	return hint
}

// Empty says why an argument is empty: which variables {$NAME} of its line yield nothing, or that one is the usual
// reason if the line cannot be read, such as that of a Caddyfile which was sent to the admin endpoint.
func Empty(d *caddyfile.Dispenser) string {
	hint, ok := placeholder.Unset(d.File(), d.Line())
	if !ok {
		return "; a {$NAME} whose environment variable is not set yields nothing"
	}
	return hint
}

// count returns a number of arguments in words.
func count(n int) string {
	if n == 1 {
		return "1 argument"
	}
	return strconv.Itoa(n) + " arguments"
}

// Text is an option with one argument.
func Text(dst *string, syntax string) Option {
	return Option{Parse: func(d *caddyfile.Dispenser) error {
		args, err := Args(d, syntax)
		if err != nil {
			return err
		}
		if args[0] == "" {
			return d.Errf("%s is empty%s", syntax, Empty(d))
		}
		*dst = args[0]
		return nil
	}}
}

// Flag is an option without an argument, which switches something on.
func Flag(dst *bool) Option {
	return Option{Parse: func(d *caddyfile.Dispenser) error {
		_, err := Args(d, "")
		*dst = true
		return err
	}}
}

// Switch is an option that is "on" or "off".
func Switch(dst **bool) Option {
	return Option{Parse: func(d *caddyfile.Dispenser) error {
		name := d.Val()
		args, err := Args(d, "on|off")
		if err != nil {
			return err
		}
		on := args[0] == "on"
		if !on && args[0] != "off" {
			return d.Errf("%s is '%s'; it must be on or off", name, args[0])
		}
		*dst = &on
		return nil
	}}
}

// Duration is an option with a duration greater than 0, such as 30s or 1d.
func Duration(dst *caddy.Duration) Option {
	return Option{Parse: func(d *caddyfile.Dispenser) error {
		name := d.Val()
		args, err := Args(d, "<duration>")
		if err != nil {
			return err
		}
		duration, err := caddy.ParseDuration(args[0])
		if err != nil || duration <= 0 {
			return d.Errf("%s is '%s'; it must be a duration greater than 0, such as 30s", name, args[0])
		}
		*dst = caddy.Duration(duration)
		return nil
	}}
}

// Whole is an option with a whole number of 0 or more.
func Whole(dst **int64, syntax string) Option {
	return Option{Parse: func(d *caddyfile.Dispenser) error {
		name := d.Val()
		args, err := Args(d, syntax)
		if err != nil {
			return err
		}
		n, err := ParseWhole(d, name, args[0])
		*dst = &n
		return err
	}}
}

// Size is an option with a number of bytes, such as 64MiB.
func Size(dst **int64) Option {
	return Option{Parse: func(d *caddyfile.Dispenser) error {
		name := d.Val()
		args, err := Args(d, "<size>")
		if err != nil {
			return err
		}
		size, err := humanize.ParseBytes(args[0])
		if err != nil || size > math.MaxInt64 {
			return d.Errf("%s is '%s'; it must be a size such as 64MiB, or 0 for no limit", name, args[0])
		}
		n := int64(size)
		*dst = &n
		return nil
	}}
}

// Characters is an option with a number of characters from 1 to maximum. Errors show an example.
func Characters(dst *int, maximum, example int) Option {
	return Option{Parse: func(d *caddyfile.Dispenser) error {
		name := d.Val()
		args, err := Args(d, "<characters>")
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(args[0])
		if err != nil || n < 1 || n > maximum {
			return d.Errf("%s is '%s'; it must be a number of characters from 1 to %d, such as %d",
				name, args[0], maximum, example)
		}
		*dst = n
		return nil
	}}
}

// ParseWhole parses a whole number of 0 or more; name is that of the option, for the error.
func ParseWhole(d *caddyfile.Dispenser, name, text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, d.Errf("%s is '%s'; it must be a whole number of 0 or more", name, text)
	}
	return n, nil
}

// List joins names for an error.
func List(names []string) string { return strings.Join(names, ", ") }
