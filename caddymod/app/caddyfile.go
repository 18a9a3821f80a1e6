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
	"github.com/caddy-moderation/caddy-moderation/quota"
)

func init() {
	httpcaddyfile.RegisterGlobalOption("moderation", parseGlobalOption)
}

// parseGlobalOption reads the global option "moderation".
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

// UnmarshalCaddyfile reads the global option. Everything in it is optional. Syntax:
//
//	moderation {
//		storage <module> ...                          # default: badger <Caddy's data directory>/moderation
//		classifier <module> ...                       # default: embedded
//		key_prefix <prefix>                           # default: mod
//		tier <name> <per month> <per minute>          # 0 = unlimited; any tier replaces all default ones
//		threshold <category> <probability>
//		reject_level <category> <probability>
//		feedback {
//			max_records_per_day <number>              # for each account; default 10000, 0 = no limit
//			max_bytes_per_day <size>                  # for each account; default 64MiB, 0 = no limit
//		}
//		demo on|off                                   # default on
//		start_timeout <duration>                      # default 10s
//		account <id> {
//			name <text>
//			tier <name>
//			status <status>
//			anchor_day <day>
//			threshold <category> <probability>
//			requests_per_month <number>
//			requests_per_minute <number>
//			key {env.NAME} | {file.PATH} | sha256:<hex> {
//				name <text>
//				environment <text>
//				expires <date or instant>
//			}
//		}
//	}
func (a *App) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the option's name
	r := blockParser{App: a}
	if err := options.Block(d, "moderation", map[string]options.Option{
		"storage":       {Parse: a.readStorage},
		"classifier":    {Parse: a.readClassifier},
		"key_prefix":    {Parse: a.readKeyPrefix},
		"tier":          {Parse: a.readTier, Repeat: true},
		"threshold":     r.probabilities(&a.Thresholds, false),
		"reject_level":  r.probabilities(&a.RejectLevels, true),
		"feedback":      {Parse: a.Feedback.read},
		"demo":          options.Switch(&a.Demo),
		"start_timeout": options.Duration(&a.StartTimeout),
		"account":       {Parse: r.readAccount, Repeat: true},
	}); err != nil {
		return err
	}
	for _, check := range r.checks {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// blockParser reads options that can only be checked when all others are read, too.
type blockParser struct {
	*App
	checks []func() error
}

// later checks something when the block is read; an error names the place where the dispenser is now.
func (r *blockParser) later(d *caddyfile.Dispenser, check func() error) {
	here := *d
	r.checks = append(r.checks, func() error {
		if err := check(); err != nil {
			return here.Err(plain(err))
		}
		return nil
	})
}

// plain is the text of an error without the gate's mark of invalid arguments.
func plain(err error) string {
	return strings.ReplaceAll(err.Error(), quota.ErrInvalid.Error()+": ", "")
}

func (a *App) readKeyPrefix(d *caddyfile.Dispenser) error {
	if err := options.Text(&a.KeyPrefix, "<prefix>").Parse(d); err != nil {
		return err
	}
	if err := quota.ValidatePrefix(a.KeyPrefix); err != nil {
		return d.Err(plain(err))
	}
	return nil
}

func (a *App) readStorage(d *caddyfile.Dispenser) error {
	name, module, err := guest(d, "moderation.storage.", "storage")
	if err != nil {
		return err
	}
	if _, ok := module.(Storage); !ok {
		return d.Errf("the module moderation.storage.%s is not a storage for moderation", name)
	}
	a.StorageRaw = caddyconfig.JSONModuleObject(module, "module", name, nil)
	return nil
}

func (a *App) readClassifier(d *caddyfile.Dispenser) error {
	name, module, err := guest(d, "moderation.classifiers.", "classifier")
	if err != nil {
		return err
	}
	if _, ok := module.(engine.Classifier); !ok {
		return d.Errf("the module moderation.classifiers.%s is not a classifier for moderation", name)
	}
	a.ClassifierRaw = caddyconfig.JSONModuleObject(module, "module", name, nil)
	return nil
}

// guest reads the guest module that is named by the next argument.
func guest(d *caddyfile.Dispenser, namespace, option string) (string, caddyfile.Unmarshaler, error) {
	if !d.NextArg() {
		return "", nil, d.Errf("'%s' needs the name of a module; there are %s", option, options.List(guests(namespace)))
	}
	name := d.Val()
	if _, err := caddy.GetModule(namespace + name); err != nil {
		return "", nil, d.Errf("%s: there is no module '%s'; there are %s", option, name, options.List(guests(namespace)))
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

func (a *App) readTier(d *caddyfile.Dispenser) error {
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

// probabilities is an option "<category> <probability>". One may be allowed, as the largest.
func (r *blockParser) probabilities(dst *map[string]float64, one bool) options.Option {
	return options.Option{Repeat: true, Parse: func(d *caddyfile.Dispenser) error {
		option := d.Val()
		args, err := options.Args(d, "<category> <probability>")
		if err != nil {
			return err
		}
		if _, err := engine.ParseCategory(args[0]); err != nil {
			return d.Errf("%s: %v", option, err)
		}
		if _, ok := (*dst)[args[0]]; ok {
			return d.Errf("%s: category '%s' is given twice", option, args[0])
		}
		value, err := strconv.ParseFloat(args[1], 64)
		switch {
		case one && (err != nil || !(value > 0 && value <= 1)):
			return d.Errf("%s %s is '%s'; it must be a number greater than 0 and at most 1", option, args[0], args[1])
		case !one && (err != nil || !(value > 0 && value < 1)):
			return d.Errf("%s %s is '%s'; it must be a number greater than 0 and less than 1", option, args[0], args[1])
		}
		if *dst == nil {
			*dst = map[string]float64{}
		}
		(*dst)[args[0]] = value
		r.later(d, func() error {
			_, err := r.policy()
			return err
		})
		return nil
	}}
}

func (f *FeedbackBounds) read(d *caddyfile.Dispenser) error {
	return options.Block(d, "feedback", map[string]options.Option{
		"max_records_per_day": options.Whole(&f.MaxRecordsPerDay, "<number>"),
		"max_bytes_per_day":   options.Size(&f.MaxBytesPerDay),
	})
}

func (r *blockParser) readAccount(d *caddyfile.Dispenser) error {
	args, err := options.ArgsBeforeBlock(d, "<id>")
	if err != nil {
		return err
	}
	account := Account{ID: args[0]}
	for _, other := range r.Accounts {
		if other.ID == account.ID {
			return d.Errf("account '%s' is declared twice", account.ID)
		}
	}
	here := *d
	r.later(d, func() error { return r.checkTier(account.ID, account.Tier) })
	status := ""
	if err := options.Block(d, "account "+account.ID, map[string]options.Option{
		"name":                options.Text(&account.Name, "<text>"),
		"tier":                options.Text(&account.Tier, "<name>"),
		"status":              options.Text(&status, "<status>"),
		"anchor_day":          {Parse: account.readAnchorDay},
		"threshold":           r.probabilities(&account.Thresholds, false),
		"requests_per_month":  options.Whole(&account.RequestsPerMonth, "<number>"),
		"requests_per_minute": options.Whole(&account.RequestsPerMinute, "<number>"),
		"key":                 {Parse: account.readKey, Repeat: true},
	}); err != nil {
		return err
	}
	account.Status = quota.Status(status)
	if err := account.check(); err != nil {
		return here.Err(plain(err))
	}
	r.Accounts = append(r.Accounts, account)
	return nil
}

func (a *Account) readAnchorDay(d *caddyfile.Dispenser) error {
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

func (a *Account) readKey(d *caddyfile.Dispenser) error {
	args, err := options.ArgsBeforeBlock(d, "<key>")
	if err != nil {
		return err
	}
	key := Key{Key: args[0]}
	if err := key.check(); err != nil {
		// The argument may be a key: it must not be repeated in the error.
		return d.Errf("account %s: %v", a.ID, err)
	}
	if err := options.Block(d, "key", map[string]options.Option{
		"name":        options.Text(&key.Name, "<text>"),
		"environment": options.Text(&key.Environment, "<text>"),
		"expires":     {Parse: key.readExpires},
	}); err != nil {
		return err
	}
	a.Keys = append(a.Keys, key)
	return nil
}

func (k *Key) readExpires(d *caddyfile.Dispenser) error {
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
