// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"slices"
	"strconv"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/content"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/request"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/stream"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/cors"
	"github.com/caddy-moderation/caddy-moderation/caddymod/options"
	"github.com/caddy-moderation/caddy-moderation/engine"
	"github.com/caddy-moderation/caddy-moderation/engine/language"
)

func init() {
	httpcaddyfile.RegisterHandlerDirective("moderate", parseModerate)
	// After authentication and limits of the body's size, before handlers that answer.
	httpcaddyfile.RegisterDirectiveOrder("moderate", httpcaddyfile.After, "forward_auth")

	httpcaddyfile.RegisterHandlerDirective("moderate_response", parseModerateResponse)
	// Inside compression, so that it need not be undone.
	httpcaddyfile.RegisterDirectiveOrder("moderate_response", httpcaddyfile.After, "encode")
}

func parseModerate(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	m := new(Moderate)
	on := reactionOptions{to: &m.On, selfHarm: true}
	if err := m.unmarshal(h.Dispenser, &on); err != nil {
		return nil, err
	}
	return m, on.finish(h)
}

// UnmarshalCaddyfile parses the directive. Everything in it is optional. Syntax:
//
//	moderate [<matcher>] {
//		json <pointer>...                             # of JSON bodies only these, such as /comment or /posts/*/text
//		form <field>...                               # of forms only these
//		roles <role>...                               # of chats with language models only messages of these: user
//		text                                          # read every body as plain text
//		credentials                                   # passwords and tokens, too
//		query <parameter>...                          # also these parameters of the address
//		header <name>...                              # also these header fields
//		categories <category>...                      # only these can flag
//		threshold <category> <probability>
//		reject_level <category> <probability>
//		languages <tag>...                            # that texts are expected to be in, such as en, es or pt-BR
//		other_language pass|review|reject             # default pass; for text that is clearly in another language
//		harm_share <share>                            # of the texts that are harmful, such as 2% or 0.02
//		themes <text>...
//		allow <expression>...                         # does not count
//		allow_file <file>
//		block <expression>...                         # rejects
//		block_file <file>
//		account <id>                                  # count in its usage
//		enforce_quota                                 # and hold its limits
//		on reject|review|approve|self-harm {
//			<directives>
//		}
//		shadow                                        # moderate and log, but never act
//		max_body <size> [stream|reject|pass|prefix]   # default 1MiB stream
//		max_text <characters> [reject|pass|prefix|suffix|both]   # default: no limit
//		timeout <duration>                            # default 30s
//		on_error pass|reject                          # default pass
//		author <placeholder>                          # who has sent it, for reviewers
//		cors <origin>...                              # pages of these, or *, may read refusals
//	}
//
// The blocks of "on" hold directives, which can be parsed in a site only. UnmarshalCaddyfile refuses them.
func (m *Moderate) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return m.unmarshal(d, nil)
}

func (m *Moderate) unmarshal(d *caddyfile.Dispenser, on *reactionOptions) error {
	d.Next() // the directive's name
	allowed := map[string]options.Option{
		"shadow":   options.Flag(&m.Shadow),
		"timeout":  options.Duration(&m.Timeout),
		"cors":     cors.Option(&m.CORS),
		"on_error": options.Choice(&m.OnError, onErrorPass, onErrorReject),
		"author":   options.Text(&m.Author, "<placeholder>"),
	}
	m.Fields.Options(allowed)
	m.Policy.Options(allowed)
	m.Limits.RequestOptions(allowed)
	if on != nil {
		allowed["on"] = on.option()
	}
	if err := options.Block(d, "moderate", allowed); err != nil {
		return err
	}
	if err := m.Policy.CheckOptions(); err != nil {
		return d.Errf("moderate: %v", err)
	}
	return nil
}

func parseModerateResponse(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	m := new(ModerateResponse)
	on := reactionOptions{to: &m.On}
	if err := m.unmarshal(h.Dispenser, &on); err != nil {
		return nil, err
	}
	return m, on.finish(h)
}

// UnmarshalCaddyfile parses the directive. Everything in it is optional. Syntax:
//
//	moderate_response [<matcher>] {
//		json <pointer>...                             # of JSON answers only these, such as /choices/*/message/content
//		text                                          # moderate every answer as plain text
//		categories <category>...                      # only these can flag
//		threshold <category> <probability>
//		reject_level <category> <probability>
//		languages <tag>...                            # that texts are expected to be in, such as en, es or pt-BR
//		other_language pass|review|reject             # default pass; for text that is clearly in another language
//		harm_share <share>                            # of the texts that are harmful, such as 2% or 0.02
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
//		shadow                                        # moderate and log, but never act
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
// The blocks of "on" hold directives, which can be parsed in a site only. UnmarshalCaddyfile refuses them.
func (m *ModerateResponse) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return m.unmarshal(d, nil)
}

func (m *ModerateResponse) unmarshal(d *caddyfile.Dispenser, on *reactionOptions) error {
	d.Next() // the directive's name
	allowed := map[string]options.Option{
		"shadow":   options.Flag(&m.Shadow),
		"on_error": options.Choice(&m.OnError, onErrorPass, onErrorReject),
		"stream": {Parse: func(d *caddyfile.Dispenser) error {
			m.Stream = new(Stream)
			return m.Stream.unmarshal(d)
		}},
	}
	var fields request.Fields
	fields.BodyOptions(allowed)
	m.Policy.Options(allowed)
	m.Limits.AnswerOptions(allowed)
	if on != nil {
		allowed["on"] = on.option()
	}
	if err := options.Block(d, "moderate_response", allowed); err != nil {
		return err
	}
	m.JSON, m.Text = fields.JSON, fields.Text
	if err := m.Policy.CheckOptions(); err != nil {
		return d.Errf("moderate_response: %v", err)
	}
	return nil
}

func (s *Stream) unmarshal(d *caddyfile.Dispenser) error {
	return options.Block(d, "stream", map[string]options.Option{
		"delta": options.Several(&s.Delta, "<pointer>", func(text string) error {
			_, err := content.ParsePointer(text)
			return err
		}),
		"hold":    options.Characters(&s.Hold, maxHold, stream.DefaultHold),
		"context": options.Characters(&s.Context, maxContext, stream.DefaultContext),
		"final":   {Parse: s.unmarshalFinal},
	})
}

func (s *Stream) unmarshalFinal(d *caddyfile.Dispenser) error {
	s.Final = d.RemainingArgs()
	if len(s.Final) == 0 {
		return d.Err("'final' needs at least 1 argument: final <data>...")
	}
	if d.NextBlock(d.Nesting()) {
		return d.Err("'final' takes no block")
	}
	return nil
}

// UnmarshalCaddyfile parses the matcher. Syntax:
//
//	moderation [approve|review|reject...] {
//		flagged
//		recommendation approve|review|reject...
//		category <category> [<probability>]
//		language <tag>...
//		status judged|nothing|partial|skipped|error...
//		json|form|roles|query|header <name>...
//		text
//		credentials
//	}
func (m *Matcher) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	for d.Next() { // the matcher's name
		if err := m.addRecommendations(d, d.RemainingArgs()); err != nil {
			return err
		}
		allowed := map[string]options.Option{
			"flagged": options.Flag(&m.Flagged),
			"recommendation": {Repeat: true, Parse: func(d *caddyfile.Dispenser) error {
				args := d.RemainingArgs()
				if len(args) == 0 {
					return d.Err("'recommendation' needs at least 1 argument: recommendation approve|review|reject...")
				}
				return m.addRecommendations(d, args)
			}},
			"category": {Repeat: true, Parse: m.unmarshalCategory},
			"language": options.Several(&m.Languages, "<tag>", language.CheckTag),
			"status":   {Repeat: true, Parse: m.unmarshalStatus},
		}
		m.Fields.Options(allowed)
		if err := options.Block(d, "moderation", allowed); err != nil {
			return err
		}
	}
	if m.empty() {
		return d.Errf("moderation: %v", errNoCondition)
	}
	return nil
}

func (m *Matcher) addRecommendations(d *caddyfile.Dispenser, names []string) error {
	for _, name := range names {
		r := engine.Recommendation(name)
		if !slices.Contains(recommendations, r) {
			return d.Errf("there is no recommendation '%s'; there are approve, review and reject", name)
		}
		if !slices.Contains(m.Recommendations, r) {
			m.Recommendations = append(m.Recommendations, r)
		}
	}
	return nil
}

func (m *Matcher) unmarshalStatus(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) == 0 {
		return d.Err("'status' needs at least 1 argument: status judged|nothing|partial|skipped|error...")
	}
	for _, arg := range args {
		if !slices.Contains(statuses, Status(arg)) {
			return d.Errf("there is no status '%s'; there are judged, nothing, partial, skipped and error", arg)
		}
		m.Statuses = append(m.Statuses, Status(arg))
	}
	return nil
}

func (m *Matcher) unmarshalCategory(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) < 1 || len(args) > 2 {
		return d.Errf("'category' needs 1 or 2 arguments, but has %d: category <category> [<probability>]", len(args))
	}
	if _, err := engine.ParseCategory(args[0]); err != nil {
		return d.Errf("category: %v", err)
	}
	if _, ok := m.Categories[args[0]]; ok {
		return d.Errf("category: '%s' is given twice", args[0])
	}
	level := 0.0
	if len(args) == 2 {
		var err error
		if level, err = strconv.ParseFloat(args[1], 64); err != nil || !(level > 0 && level <= 1) {
			return d.Errf("category %s is '%s'; it must be a number greater than 0 and at most 1", args[0], args[1])
		}
	}
	if m.Categories == nil {
		m.Categories = map[string]float64{}
	}
	m.Categories[args[0]] = level
	return nil
}

// Interface guards
var (
	_ caddyfile.Unmarshaler = (*Moderate)(nil)
	_ caddyfile.Unmarshaler = (*ModerateResponse)(nil)
	_ caddyfile.Unmarshaler = (*Matcher)(nil)
)
