// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/caddymod/options"
	"github.com/caddy-moderation/caddy-moderation/engine"
)

// HarmShareOf returns the share of harm for an account or a guard whose own share is given: its own, else that of the
// app, else 0, which stands for the share that the classifier is calibrated for.
func (a *App) HarmShareOf(own *float64) float64 {
	switch {
	case own != nil:
		// A store may hold what no operator could set, which must not make every text fail.
		return min(max(*own, engine.MinHarmShare), engine.MaxHarmShare)
	case a.HarmShare != nil:
		return *a.HarmShare
	}
	return 0
}

// HarmShareOption is the Caddyfile option "harm_share <share>".
func HarmShareOption(dst **float64) options.Option {
	return options.Option{Parse: func(d *caddyfile.Dispenser) error {
		args, err := options.Args(d, "<share>")
		if err != nil {
			return err
		}
		share, err := engine.ParseHarmShare(args[0])
		if err != nil {
			return d.Errf("harm_share is '%s'; %v", args[0], err)
		}
		*dst = &share
		return nil
	}}
}

// CheckHarmShare returns an error that names the option unless a share of harm is in range, or nil.
func CheckHarmShare(share *float64) error {
	if share == nil {
		return nil
	}
	if err := engine.ValidateHarmShare(*share); err != nil {
		return fmt.Errorf("harm_share is %v; %w", *share, err)
	}
	return nil
}

// warnOfHarmShare warns of a share that nothing uses.
func (a *App) warnOfHarmShare() {
	if a.HarmShare != nil && a.engine.HarmShare() == 0 {
		a.logger.Warn("harm_share has no effect: it is for the embedded classifier only",
			zap.String("classifier", a.engine.Version()))
	}
}
