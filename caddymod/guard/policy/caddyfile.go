// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"strconv"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/caddymod/options"
	"github.com/caddy-moderation/caddy-moderation/engine"
	"github.com/caddy-moderation/caddy-moderation/engine/language"
	"github.com/caddy-moderation/caddy-moderation/engine/words"
	"github.com/caddy-moderation/caddy-moderation/quota"
)

// Options adds the Caddyfile options of a policy.
func (p *Policy) Options(allowed map[string]options.Option) {
	allowed["categories"] = options.Several(&p.Categories, "<category>", func(name string) error {
		_, err := engine.ParseCategory(name)
		return err
	})
	allowed["threshold"] = probabilities(&p.Thresholds, "threshold")
	allowed["reject_level"] = probabilities(&p.RejectLevels, "reject_level")
	allowed["harm_share"] = app.HarmShareOption(&p.HarmShare)
	allowed["languages"] = options.Several(&p.Languages, "<tag>", language.CheckTag)
	allowed["other_language"] = options.Option{Parse: p.parseOtherLanguage}
	allowed["themes"] = options.Several(&p.Themes, "<text>", nil)
	allowed["allow"] = options.Several(&p.Allow, "<expression>", checkExpression)
	allowed["allow_file"] = options.Several(&p.AllowFiles, "<file>", nil)
	allowed["block"] = options.Several(&p.Block, "<expression>", checkExpression)
	allowed["block_file"] = options.Several(&p.BlockFiles, "<file>", nil)
	allowed["account"] = options.Option{Parse: p.parseAccount}
	allowed["enforce_quota"] = options.Flag(&p.EnforceQuota)
}

// CheckOptions checks what depends on several options.
func (p *Policy) CheckOptions() error {
	if p.EnforceQuota && p.Account == "" {
		return fmt.Errorf("'enforce_quota' needs 'account <id>'")
	}
	if err := p.checkThemes(); err != nil {
		return err
	}
	if p.OtherLanguage != "" && p.OtherLanguage != otherPass && len(p.Languages) == 0 {
		return fmt.Errorf("'other_language %s' needs 'languages <tag>...'", p.OtherLanguage)
	}
	for name, level := range p.RejectLevels {
		if threshold, ok := p.Thresholds[name]; ok && level < threshold {
			return fmt.Errorf("reject_level %s is %v; it must be at least the threshold, %v", name, level, threshold)
		}
	}
	return nil
}

func (p *Policy) parseOtherLanguage(d *caddyfile.Dispenser) error {
	args, err := options.Args(d, "pass|review|reject")
	if err != nil {
		return err
	}
	switch args[0] {
	case otherPass, otherReview, otherReject:
		p.OtherLanguage = args[0]
		return nil
	}
	return d.Errf("other_language is '%s'; it must be pass, review or reject", args[0])
}

func checkExpression(text string) error {
	_, err := words.Parse([]string{text})
	return err
}

func (p *Policy) parseAccount(d *caddyfile.Dispenser) error {
	if err := options.Text(&p.Account, "<id>").Parse(d); err != nil {
		return err
	}
	if err := quota.ValidateID(p.Account); err != nil {
		return d.Errf("account: %v", err)
	}
	return nil
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
