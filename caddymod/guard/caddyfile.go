// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/dustin/go-humanize"

	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/content"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/cors"
	"github.com/caddy-moderation/caddy-moderation/caddymod/options"
	"github.com/caddy-moderation/caddy-moderation/engine"
	"github.com/caddy-moderation/caddy-moderation/engine/words"
	"github.com/caddy-moderation/caddy-moderation/quota"
)

func init() {
	httpcaddyfile.RegisterHandlerDirective("moderate", parseModerate)
	// Behind what says who sends and how large a body may be, before what answers.
	httpcaddyfile.RegisterDirectiveOrder("moderate", httpcaddyfile.After, "forward_auth")
}

func parseModerate(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	m := new(Moderate)
	on := reactionOptions{to: &m.On, selfHarm: true}
	if err := m.read(h.Dispenser, &on); err != nil {
		return nil, err
	}
	return m, on.finish(h)
}

// UnmarshalCaddyfile reads the directive. Everything in it is optional. Syntax:
//
//	moderate [<matcher>] {
//		json <pointer>...                             # of JSON bodies only these, such as /comment or /posts/*/text
//		form <field>...                               # of forms only these
//		roles <role>...                               # of chats with language models only messages of these: user
//		text                                          # read every body as plain text
//		credentials                                   # read passwords and tokens, too
//		query <parameter>...                          # also these parameters of the address
//		header <name>...                              # also these header fields
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
//		on reject|review|approve|self-harm {
//			<directives>
//		}
//		shadow                                        # judge and log, but never act
//		max_body <size> [stream|reject|pass|prefix]   # default 1MiB stream
//		max_text <characters> [reject|pass|prefix|suffix|both]   # default: no limit
//		timeout <duration>                            # default 30s
//		on_error pass|reject                          # default pass
//		cors <origin>...                              # pages of these, or *, may read refusals
//	}
//
// The blocks of "on" hold directives, so that they are read in a Caddyfile's site only, not here.
func (m *Moderate) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return m.read(d, nil)
}

func (m *Moderate) read(d *caddyfile.Dispenser, on *reactionOptions) error {
	d.Next() // the directive's name
	allowed := map[string]options.Option{
		"shadow":   options.Flag(&m.Shadow),
		"max_body": m.Limits.maxBodyOption(pastBody),
		"max_text": m.Limits.maxTextOption(),
		"timeout":  options.Duration(&m.Timeout),
		"cors":     cors.Option(&m.CORS),
		"on_error": choice(&m.OnError, errorPass, errorReject),
	}
	m.Reading.options(allowed, true)
	m.Policy.options(allowed)
	if on != nil {
		allowed["on"] = on.option()
	}
	if err := options.Block(d, "moderate", allowed); err != nil {
		return err
	}
	if err := m.Policy.checkOptions(); err != nil {
		return d.Errf("moderate: %v", err)
	}
	return nil
}

// options adds the options of a reading; addressed says that requests are read, which have an address and a header.
func (r *Reading) options(allowed map[string]options.Option, addressed bool) {
	allowed["json"] = several(&r.JSON, "<pointer>", func(text string) error {
		_, err := content.ParsePointer(text)
		return err
	})
	allowed["text"] = options.Flag(&r.Text)
	if addressed {
		allowed["form"] = several(&r.Form, "<field>", nil)
		allowed["roles"] = several(&r.Roles, "<role>", content.CheckRole)
		allowed["query"] = several(&r.Query, "<parameter>", nil)
		allowed["header"] = several(&r.Header, "<name>", nil)
		allowed["credentials"] = options.Flag(&r.Credentials)
	}
}

// options adds the options of a policy.
func (p *Policy) options(allowed map[string]options.Option) {
	allowed["categories"] = several(&p.Categories, "<category>", func(name string) error {
		_, err := engine.ParseCategory(name)
		return err
	})
	allowed["threshold"] = probabilities(&p.Thresholds, "threshold")
	allowed["reject_level"] = probabilities(&p.RejectLevels, "reject_level")
	allowed["themes"] = several(&p.Themes, "<text>", nil)
	expression := func(text string) error {
		_, err := words.Parse([]string{text})
		return err
	}
	allowed["allow"] = several(&p.Allow, "<expression>", expression)
	allowed["allow_file"] = several(&p.AllowFiles, "<file>", nil)
	allowed["block"] = several(&p.Block, "<expression>", expression)
	allowed["block_file"] = several(&p.BlockFiles, "<file>", nil)
	allowed["account"] = options.Option{Parse: func(d *caddyfile.Dispenser) error {
		if err := options.Text(&p.Account, "<id>").Parse(d); err != nil {
			return err
		}
		if err := quota.ValidateID(p.Account); err != nil {
			return d.Errf("account: %v", err)
		}
		return nil
	}}
	allowed["enforce_quota"] = options.Flag(&p.EnforceQuota)
}

// checkOptions checks what depends on several options.
func (p *Policy) checkOptions() error {
	if p.EnforceQuota && p.Account == "" {
		return fmt.Errorf("'enforce_quota' needs 'account <id>'")
	}
	if err := p.checkThemes(); err != nil {
		return err
	}
	for name, level := range p.RejectLevels {
		if threshold, ok := p.Thresholds[name]; ok && level < threshold {
			return fmt.Errorf("reject_level %s is %v; it must be at least the threshold, %v", name, level, threshold)
		}
	}
	return nil
}

// several is an option with one or more arguments that can be given repeatedly; check may refuse an argument.
func several(dst *[]string, syntax string, check func(string) error) options.Option {
	return options.Option{Repeat: true, Parse: func(d *caddyfile.Dispenser) error {
		name := d.Val()
		args := d.RemainingArgs()
		if len(args) == 0 {
			return d.Errf("'%s' needs at least 1 argument: %s %s...", name, name, syntax)
		}
		for _, arg := range args {
			if arg == "" {
				return d.Errf("%s: %s is empty", name, syntax)
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

// probabilities is an option "<category> <probability>".
func probabilities(dst *map[string]float64, option string) options.Option {
	return options.Option{Repeat: true, Parse: func(d *caddyfile.Dispenser) error {
		args, err := options.Args(d, "<category> <probability>")
		if err != nil {
			return err
		}
		if _, ok := (*dst)[args[0]]; ok {
			return d.Errf("%s: category '%s' is given twice", option, args[0])
		}
		value, err := strconv.ParseFloat(args[1], 64)
		if err != nil {
			return d.Errf("%s %s is '%s'; it must be a number", option, args[0], args[1])
		}
		one := map[string]float64{args[0]: value}
		if option == "threshold" {
			_, err = app.Levels(one, nil)
		} else {
			_, err = app.Levels(nil, one)
		}
		if err != nil {
			return d.Err(err.Error())
		}
		if *dst == nil {
			*dst = map[string]float64{}
		}
		(*dst)[args[0]] = value
		return nil
	}}
}

// choice is an option with one of some words.
func choice(dst *string, words ...string) options.Option {
	return options.Option{Parse: func(d *caddyfile.Dispenser) error {
		name := d.Val()
		args, err := options.Args(d, words[0]+"|"+words[1])
		if err != nil {
			return err
		}
		if !slices.Contains(words, args[0]) {
			return d.Errf("%s is '%s'; it must be one of %s", name, args[0], options.List(words))
		}
		*dst = args[0]
		return nil
	}}
}

// maxBodyOption is max_body; possible is what may happen past it.
func (l *Limits) maxBodyOption(possible []Overflow) options.Option {
	return limit(&l.PastMaxBody, possible, "<size>", func(text string) error {
		size, err := humanize.ParseBytes(text)
		if err != nil || size == 0 || size > math.MaxInt64>>1 {
			return fmt.Errorf("'%s' is no size; it must be one such as 1MiB", text)
		}
		l.MaxBody = int64(size)
		return nil
	})
}

func (l *Limits) maxTextOption() options.Option {
	return limit(&l.PastMaxText, pastText, "<characters>", func(text string) error {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return fmt.Errorf("'%s' is no number of characters; it must be a whole number of 1 or more", text)
		}
		l.MaxText = n
		return nil
	})
}

// limit is an option with a number and what happens past it.
func limit(past *Overflow, possible []Overflow, syntax string, parse func(string) error) options.Option {
	return options.Option{Parse: func(d *caddyfile.Dispenser) error {
		name := d.Val()
		args := d.RemainingArgs()
		if len(args) < 1 || len(args) > 2 {
			return d.Errf("'%s' needs 1 or 2 arguments, but has %d: %s %s [%s]", name, len(args), name, syntax, strings.Join(namesOf(possible), "|"))
		}
		if err := parse(args[0]); err != nil {
			return d.Errf("%s: %v", name, err)
		}
		if len(args) == 2 {
			if *past = Overflow(args[1]); !slices.Contains(possible, *past) {
				return d.Errf("%s: '%s' is not possible past a limit; it must be one of %s", name, args[1], options.List(namesOf(possible)))
			}
		}
		if d.NextBlock(d.Nesting()) {
			return d.Errf("'%s' takes no block", name)
		}
		return nil
	}}
}

// namesOf are the names of what may happen past a limit.
func namesOf(possible []Overflow) (names []string) {
	for _, past := range possible {
		names = append(names, string(past))
	}
	return names
}

// reactionOptions are the blocks of "on". They are read when all else is, because only a site's helper can read directives.
type reactionOptions struct {
	selfHarm bool // self-harm is one of them
	to       **Reactions
	segments []*caddyfile.Dispenser
	names    []string
}

func (o *reactionOptions) option() options.Option {
	return options.Option{Repeat: true, Parse: func(d *caddyfile.Dispenser) error {
		if !d.NextArg() {
			return d.Err("'on' needs a recommendation and a block: on reject|review|approve { ... }")
		}
		name := d.Val()
		if !slices.Contains(recommendations, engine.Recommendation(name)) && (name != selfHarm || !o.selfHarm) {
			return d.Errf("on: there is no recommendation '%s'; there are reject, review and approve%s", name, o.more())
		}
		if slices.Contains(o.names, name) {
			return d.Errf("'on %s' is given twice", name)
		}
		o.names = append(o.names, name)
		// The segment begins with the recommendation, as if that were a directive.
		o.segments = append(o.segments, d.NewFromNextSegment())
		return nil
	}}
}

// more names what there is beside recommendations.
func (o *reactionOptions) more() string {
	if o.selfHarm {
		return ", and self-harm for the page that helps"
	}
	return ""
}

// finish reads the directives of the blocks.
func (o *reactionOptions) finish(h httpcaddyfile.Helper) error {
	for i, d := range o.segments {
		handler, err := httpcaddyfile.ParseSegmentAsSubroute(h.WithDispenser(d))
		if err != nil {
			return err
		}
		subroute, ok := handler.(*caddyhttp.Subroute)
		if !ok || len(subroute.Routes) == 0 {
			return d.Errf("'on %s' needs a block with directives", o.names[i])
		}
		if *o.to == nil {
			*o.to = new(Reactions)
		}
		switch engine.Recommendation(o.names[i]) {
		case engine.Reject:
			(*o.to).Reject = subroute.Routes
		case engine.Review:
			(*o.to).Review = subroute.Routes
		case engine.Approve:
			(*o.to).Approve = subroute.Routes
		default:
			(*o.to).SelfHarm = subroute.Routes
		}
	}
	return nil
}

// UnmarshalCaddyfile reads the matcher. Syntax:
//
//	moderation [approve|review|reject...] {
//		flagged
//		recommendation approve|review|reject...
//		category <category> [<probability>]
//		status judged|nothing|partial|skipped|error...
//		json|form|query|header <name>...
//		text
//		credentials
//	}
func (m *Matcher) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	recommend := func(d *caddyfile.Dispenser, args []string) error {
		for _, arg := range args {
			r := engine.Recommendation(arg)
			if !slices.Contains(recommendations, r) {
				return d.Errf("there is no recommendation '%s'; there are approve, review and reject", arg)
			}
			if !slices.Contains(m.Recommendations, r) {
				m.Recommendations = append(m.Recommendations, r)
			}
		}
		return nil
	}
	for d.Next() { // the matcher's name
		if err := recommend(d, d.RemainingArgs()); err != nil {
			return err
		}
		allowed := map[string]options.Option{
			"flagged": options.Flag(&m.Flagged),
			"recommendation": {Repeat: true, Parse: func(d *caddyfile.Dispenser) error {
				args := d.RemainingArgs()
				if len(args) == 0 {
					return d.Err("'recommendation' needs at least 1 argument: recommendation approve|review|reject...")
				}
				return recommend(d, args)
			}},
			"category": {Repeat: true, Parse: m.readCategory},
			"status":   m.statusOption(),
		}
		m.Reading.options(allowed, true)
		if err := options.Block(d, "moderation", allowed); err != nil {
			return err
		}
	}
	if m.empty() {
		return d.Errf("moderation: %v", errNoCondition)
	}
	return nil
}

func (m *Matcher) statusOption() options.Option {
	return options.Option{Repeat: true, Parse: func(d *caddyfile.Dispenser) error {
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
	}}
}

func (m *Matcher) readCategory(d *caddyfile.Dispenser) error {
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
	_ caddyfile.Unmarshaler = (*Matcher)(nil)
)
