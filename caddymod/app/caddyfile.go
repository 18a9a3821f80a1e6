// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/caddy-moderation/caddy-moderation/caddymod/options"
	"github.com/caddy-moderation/caddy-moderation/engine"
	"github.com/caddy-moderation/caddy-moderation/engine/language"
	"github.com/caddy-moderation/caddy-moderation/quota"
)

func init() {
	httpcaddyfile.RegisterGlobalOption("moderation", parseGlobalOption)
}

// parseGlobalOption parses the global option "moderation".
func parseGlobalOption(d *caddyfile.Dispenser, existing any) (any, error) {
	if existing != nil {
		d.Next()
		return nil, d.Err("the global option moderation is given twice; put everything into one block")
	}
	app := new(App)
	if err := app.UnmarshalCaddyfile(d); err != nil {
		return nil, err
	}
	return httpcaddyfile.App{Name: "moderation", Value: caddyconfig.JSON(app, nil)}, nil
}

// UnmarshalCaddyfile sets up the app from Caddyfile tokens. See [App] for the syntax.
func (a *App) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the option's name
	p := blockParser{App: a}
	if err := options.Block(d, "moderation", map[string]options.Option{
		"storage":       {Parse: a.parseStorage},
		"classifier":    {Parse: a.parseClassifier},
		"key_prefix":    {Parse: a.parseKeyPrefix},
		"tier":          {Parse: a.parseTier, Repeat: true},
		"threshold":     p.probabilities(&thresholdOption, &a.Thresholds),
		"reject_level":  p.probabilities(&rejectLevelOption, &a.RejectLevels),
		"harm_share":    HarmShareOption(&a.HarmShare),
		"feedback":      {Parse: a.Feedback.parse},
		"review":        {Parse: a.parseReview},
		"demo":          options.Switch(&a.Demo),
		"start_timeout": options.Duration(&a.StartTimeout),
		"account":       {Parse: p.parseAccount, Repeat: true},
	}); err != nil {
		return err
	}
	for _, check := range p.checks {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// blockParser parses the options that can only be checked once all others are parsed, too.
type blockParser struct {
	*App
	checks []func() error
}

// later checks something at the end of the block; an error names the place where the dispenser is now.
func (p *blockParser) later(d *caddyfile.Dispenser, check func() error) {
	here := *d
	p.checks = append(p.checks, func() error {
		if err := check(); err != nil {
			return here.Err(plain(err))
		}
		return nil
	})
}

// plain returns the text of an error without the gate's mark of invalid arguments.
func plain(err error) string {
	return strings.ReplaceAll(err.Error(), quota.ErrInvalid.Error()+": ", "")
}

func (a *App) parseKeyPrefix(d *caddyfile.Dispenser) error {
	if err := options.Text(&a.KeyPrefix, "<prefix>").Parse(d); err != nil {
		return err
	}
	if err := quota.ValidatePrefix(a.KeyPrefix); err != nil {
		return d.Err(plain(err))
	}
	return nil
}

func (a *App) parseStorage(d *caddyfile.Dispenser) error {
	name, module, err := parseGuest(d, "moderation.storage.", "storage")
	if err != nil {
		return err
	}
	if _, ok := module.(Storage); !ok {
		return d.Errf("the module moderation.storage.%s is not a storage for moderation", name)
	}
	a.StorageRaw = caddyconfig.JSONModuleObject(module, "module", name, nil)
	return nil
}

func (a *App) parseClassifier(d *caddyfile.Dispenser) error {
	name, module, err := parseGuest(d, "moderation.classifiers.", "classifier")
	if err != nil {
		return err
	}
	if _, ok := module.(engine.Classifier); !ok {
		return d.Errf("the module moderation.classifiers.%s is not a classifier for moderation", name)
	}
	a.ClassifierRaw = caddyconfig.JSONModuleObject(module, "module", name, nil)
	return nil
}

// parseGuest parses the guest module that the next argument names.
func parseGuest(d *caddyfile.Dispenser, namespace, option string) (string, caddyfile.Unmarshaler, error) {
	if !d.NextArg() {
		return "", nil, d.Errf("'%s' needs the name of a module; there are %s%s",
			option, options.List(guests(namespace)), options.Unset(d))
	}
	name := d.Val()
	if _, err := caddy.GetModule(namespace + name); err != nil {
		hint := ""
		if options.Shown(name) != name {
			hint = "; an address stands after the name of its module"
		}
		return "", nil, d.Errf("%s: there is no module '%s'; there are %s%s",
			option, options.Shown(name), options.List(guests(namespace)), hint)
	}
	module, err := caddyfile.UnmarshalModule(d, namespace+name)
	return name, module, err
}

// guests lists the modules of a namespace that are built in.
func guests(namespace string) []string {
	var names []string
	for _, info := range caddy.GetModules(namespace[:len(namespace)-1]) {
		names = append(names, info.ID.Name())
	}
	return names
}

func (a *App) parseTier(d *caddyfile.Dispenser) error {
	args, err := options.Args(d, "<name> <per_month> <per_minute>")
	if err != nil {
		return err
	}
	name := args[0]
	if _, ok := a.Tiers[name]; ok {
		return d.Errf("tier '%s' is given twice", name)
	}
	var limits quota.Limits
	if limits.RequestsPerMonth, err = options.ParseWhole(d, "tier "+name+": per_month", args[1]); err != nil {
		return err
	}
	if limits.RequestsPerMinute, err = options.ParseWhole(d, "tier "+name+": per_minute", args[2]); err != nil {
		return err
	}
	if err := quota.ValidateTiers(map[string]quota.Limits{name: limits}); err != nil {
		return d.Err(plain(err))
	}
	if a.Tiers == nil {
		a.Tiers = map[string]quota.Limits{}
	}
	a.Tiers[name] = limits
	return nil
}

// probabilities parses an option "<category> <probability>".
func (p *blockParser) probabilities(option *levelOption, dst *map[string]float64) options.Option {
	return options.Option{Repeat: true, Parse: func(d *caddyfile.Dispenser) error {
		args, err := options.Args(d, "<category> <probability>")
		if err != nil {
			return err
		}
		if _, err := engine.ParseCategory(args[0]); err != nil {
			return d.Errf("%s: %v", option.name, err)
		}
		if _, ok := (*dst)[args[0]]; ok {
			return d.Errf("%s: category '%s' is given twice", option.name, args[0])
		}
		value, err := strconv.ParseFloat(args[1], 64)
		if err != nil || !option.allows(value) {
			return d.Errf("%s %s is '%s'; it must be a number %s", option.name, args[0], args[1], option.allowed)
		}
		if *dst == nil {
			*dst = map[string]float64{}
		}
		(*dst)[args[0]] = value
		p.later(d, func() error {
			_, err := p.policy()
			return err
		})
		return nil
	}}
}

func (f *FeedbackOptions) parse(d *caddyfile.Dispenser) error {
	keep := options.Duration(&f.Keep)
	return options.Block(d, "feedback", map[string]options.Option{
		"keep": {Parse: func(d *caddyfile.Dispenser) error {
			if err := keep.Parse(d); err != nil {
				return err
			}
			if err := f.check(); err != nil {
				return d.Err(err.Error())
			}
			return nil
		}},
		"max_records_per_day": options.Whole(&f.MaxRecordsPerDay, "<number>"),
		"max_bytes_per_day":   options.Size(&f.MaxBytesPerDay),
	})
}

func (p *blockParser) parseAccount(d *caddyfile.Dispenser) error {
	args, err := options.ArgsBeforeBlock(d, "<id>")
	if err != nil {
		return err
	}
	account := Account{ID: args[0]}
	for _, other := range p.Accounts {
		if other.ID == account.ID {
			return d.Errf("account '%s' is declared twice", account.ID)
		}
	}
	here := *d
	p.later(d, func() error { return p.checkTier(account.ID, account.Tier) })
	if err := options.Block(d, "account "+account.ID, map[string]options.Option{
		"name":                options.Text(&account.Name, "<text>"),
		"tier":                options.Text(&account.Tier, "<name>"),
		"status":              {Parse: account.parseStatus},
		"anchor_day":          {Parse: account.parseAnchorDay},
		"threshold":           p.probabilities(&thresholdOption, &account.Thresholds),
		"harm_share":          HarmShareOption(&account.HarmShare),
		"allow":               options.Several(&account.Allow, "<expression>", checkExpression),
		"block":               options.Several(&account.Block, "<expression>", checkExpression),
		"languages":           options.Several(&account.Languages, "<tag>", language.CheckTag),
		"other_language":      options.Choice(&account.OtherLanguage, "pass", "review", "reject"),
		"requests_per_month":  options.Whole(&account.RequestsPerMonth, "<number>"),
		"requests_per_minute": options.Whole(&account.RequestsPerMinute, "<number>"),
		"key":                 {Parse: account.parseKey, Repeat: true},
	}); err != nil {
		return err
	}
	if err := account.check(); err != nil {
		return here.Err(plain(err))
	}
	p.Accounts = append(p.Accounts, account)
	return nil
}

func (a *Account) parseStatus(d *caddyfile.Dispenser) error {
	args, err := options.Args(d, "<status>")
	if err != nil {
		return err
	}
	a.Status = quota.Status(args[0])
	if err := quota.ValidateStatus(a.Status); err != nil {
		return d.Errf("account %s: %s", a.ID, plain(err))
	}
	return nil
}

func (k *Key) parseScope(d *caddyfile.Dispenser) error {
	k.Scopes = d.RemainingArgs()
	if len(k.Scopes) == 0 {
		return d.Errf("'scope' needs at least 1 argument; there is %s", strings.Join(quota.Scopes(), ", "))
	}
	if err := quota.ValidateScopes(k.Scopes); err != nil {
		return d.Err(plain(err))
	}
	return nil
}

func (a *Account) parseAnchorDay(d *caddyfile.Dispenser) error {
	args, err := options.Args(d, "<day>")
	if err != nil {
		return err
	}
	day, err := strconv.Atoi(args[0])
	if err != nil || day < 1 || day > 31 {
		return d.Errf("anchor_day is '%s'; it must be a day of the month, 1 to 31", args[0])
	}
	a.AnchorDay = day
	return nil
}

func (a *Account) parseKey(d *caddyfile.Dispenser) error {
	args, err := options.ArgsBeforeBlock(d, "<key>")
	if err != nil {
		return err
	}
	key := Key{Key: args[0]}
	if key.Key == "" {
		return d.Errf("account %s: the key is empty%s", a.ID, options.Empty(d))
	}
	if err := key.check(); err != nil {
		// The argument may be a key: it must not be repeated in the error.
		return d.Errf("account %s: %v%s", a.ID, err, options.Unset(d))
	}
	if err := options.Block(d, "key", map[string]options.Option{
		"name":        options.Text(&key.Name, "<text>"),
		"environment": options.Text(&key.Environment, "<text>"),
		"expires":     {Parse: key.parseExpires},
		"scope":       {Parse: key.parseScope},
	}); err != nil {
		return err
	}
	a.Keys = append(a.Keys, key)
	return nil
}

func (k *Key) parseExpires(d *caddyfile.Dispenser) error {
	args, err := options.Args(d, "<date>")
	if err != nil {
		return err
	}
	if _, err := parseExpiry(args[0]); err != nil {
		return d.Err(err.Error())
	}
	k.Expires = args[0]
	return nil
}

// Interface guard
var _ caddyfile.Unmarshaler = (*App)(nil)
