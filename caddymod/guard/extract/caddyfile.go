// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package extract

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/dustin/go-humanize"

	"github.com/caddy-moderation/caddy-moderation/caddymod/options"
)

// RequestOptions adds the Caddyfile options of a request's limits.
func (l *Limits) RequestOptions(allowed map[string]options.Option) {
	l.options(allowed, requestOverflows)
}

// AnswerOptions adds the Caddyfile options of an answer's limits.
func (l *Limits) AnswerOptions(allowed map[string]options.Option) {
	l.options(allowed, answerOverflows)
}

func (l *Limits) options(allowed map[string]options.Option, overflows []Overflow) {
	allowed["max_body"] = limit(&l.MaxBodyOverflow, overflows, "<size>", func(text string) error {
		size, err := humanize.ParseBytes(text)
		if err != nil || size == 0 || size > math.MaxInt64>>1 {
			return fmt.Errorf("'%s' is no size; it must be one such as 1MiB", text)
		}
		l.MaxBody = int64(size)
		return nil
	})
	allowed["max_text"] = limit(&l.MaxTextOverflow, textOverflows, "<characters>", func(text string) error {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return fmt.Errorf("'%s' is no number of characters; it must be a whole number of 1 or more", text)
		}
		l.MaxText = n
		return nil
	})
}

// limit is an option with a number and, if wanted, what happens to a message that exceeds it.
func limit(dst *Overflow, possible []Overflow, syntax string, parse func(string) error) options.Option {
	names := make([]string, len(possible))
	for i := range possible {
		names[i] = string(possible[i])
	}
	return options.Option{Parse: func(d *caddyfile.Dispenser) error {
		name := d.Val()
		args := d.RemainingArgs()
		if len(args) < 1 || len(args) > 2 {
			return d.Errf("'%s' needs 1 or 2 arguments, but has %d: %s %s [%s]",
				name, len(args), name, syntax, strings.Join(names, "|"))
		}
		if err := parse(args[0]); err != nil {
			return d.Errf("%s: %v", name, err)
		}
		if len(args) == 2 {
			if *dst = Overflow(args[1]); !slices.Contains(possible, *dst) {
				return d.Errf("%s: '%s' is not possible past a limit; it must be one of %s",
					name, args[1], options.List(names))
			}
		}
		if d.NextBlock(d.Nesting()) {
			return d.Errf("'%s' takes no block", name)
		}
		return nil
	}}
}
