// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"

	"github.com/caddy-moderation/caddy-moderation/engine"
)

// loadEngine loads the classifier module, by default the embedded model, and makes the engine.
func (a *App) loadEngine(ctx caddy.Context) error {
	if a.ClassifierRaw == nil {
		a.ClassifierRaw = caddyconfig.JSONModuleObject(new(Embedded), "module", "embedded", nil)
	}
	module, err := ctx.LoadModule(a, "ClassifierRaw")
	if err != nil {
		return fmt.Errorf("loading the classifier: %w", err)
	}
	a.classifier = module
	classifier, ok := module.(engine.Classifier)
	if !ok {
		return fmt.Errorf("the module %T is not a classifier for moderation", module)
	}
	if wrapped, ok := module.(interface{ Classifier() engine.Classifier }); ok {
		classifier = wrapped.Classifier()
	}
	policy, err := a.policy()
	if err != nil {
		return err
	}
	a.engine, err = engine.New(engine.Options{Classifier: classifier, Policy: policy})
	return err
}
