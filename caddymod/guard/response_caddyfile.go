// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"strconv"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/content"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/stream"
	"github.com/caddy-moderation/caddy-moderation/caddymod/options"
)

func init() {
	httpcaddyfile.RegisterHandlerDirective("moderate_response", parseModerateResponse)
	// Inside what compresses, so that it need not be undone.
	httpcaddyfile.RegisterDirectiveOrder("moderate_response", httpcaddyfile.After, "encode")
}

func parseModerateResponse(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	m := new(ModerateResponse)
	on := reactionOptions{to: &m.On}
	if err := m.read(h.Dispenser, &on); err != nil {
		return nil, err
	}
	return m, on.finish(h)
}

// UnmarshalCaddyfile reads the directive. Everything in it is optional. Syntax:
//
//	moderate_response [<matcher>] {
//		json <pointer>...                             # of JSON answers only these, such as /choices/*/message/content
//		text                                          # judge every answer as plain text
//		categories <category>...                      # only these can flag
//		threshold <category> <probability>
//		reject_level <category> <probability>
//		themes <text>...
//		allow <expression>...                         # does not count
//		allow_file <file>
//		block <expression>...                         # rejects
//		block_file <file>
//		account <id>                                  # count in its usage
//		enforce_quota                                 # and hold its limits
//		on reject|review|approve {
//			<directives>
//		}
//		shadow                                        # judge and log, but never act
//		max_body <size> [reject|pass|prefix]          # default 1MiB prefix
//		max_text <characters> [reject|pass|prefix|suffix|both]    # default 100000 prefix
//		on_error pass|reject                          # default pass
//		stream {
//			delta <pointer>...                        # where the text of an event stands
//			hold <characters>                         # default 200
//			context <characters>                      # default 2000
//			final <data>...                           # of the events that end a rejected stream
//		}
//	}
//
// The blocks of "on" hold directives, so that they are read in a Caddyfile's site only, not here.
func (m *ModerateResponse) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return m.read(d, nil)
}

func (m *ModerateResponse) read(d *caddyfile.Dispenser, on *reactionOptions) error {
	d.Next() // the directive's name
	allowed := map[string]options.Option{
		"shadow":   options.Flag(&m.Shadow),
		"max_body": m.Limits.maxBodyOption(pastAnswer),
		"max_text": m.Limits.maxTextOption(),
		"on_error": choice(&m.OnError, errorPass, errorReject),
		"stream": {Parse: func(d *caddyfile.Dispenser) error {
			m.Stream = new(Stream)
			return m.Stream.read(d)
		}},
	}
	var reading Reading
	reading.options(allowed, false)
	m.Policy.options(allowed)
	if on != nil {
		allowed["on"] = on.option()
	}
	if err := options.Block(d, "moderate_response", allowed); err != nil {
		return err
	}
	m.JSON, m.Text = reading.JSON, reading.Text
	if err := m.Policy.checkOptions(); err != nil {
		return d.Errf("moderate_response: %v", err)
	}
	return nil
}

func (s *Stream) read(d *caddyfile.Dispenser) error {
	return options.Block(d, "stream", map[string]options.Option{
		"delta": several(&s.Delta, "<pointer>", func(text string) error {
			_, err := content.ParsePointer(text)
			return err
		}),
		"hold":    characters(&s.Hold, stream.DefaultHold, maxHold),
		"context": characters(&s.Context, stream.DefaultContext, maxContext),
		"final":   {Parse: s.readFinal},
	})
}

func (s *Stream) readFinal(d *caddyfile.Dispenser) error {
	s.Final = d.RemainingArgs()
	if len(s.Final) == 0 {
		return d.Err("'final' needs at least 1 argument: final <data>...")
	}
	if d.NextBlock(d.Nesting()) {
		return d.Err("'final' takes no block")
	}
	return nil
}

// characters is an option with a number of characters.
func characters(dst *int, usual, most int) options.Option {
	return options.Option{Parse: func(d *caddyfile.Dispenser) error {
		name := d.Val()
		args, err := options.Args(d, "<characters>")
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(args[0])
		if err != nil || n < 1 || n > most {
			return d.Errf("%s is '%s'; it must be a number of characters from 1 to %d, such as %d", name, args[0], most, usual)
		}
		*dst = n
		return nil
	}}
}

// Interface guard
var _ caddyfile.Unmarshaler = (*ModerateResponse)(nil)
