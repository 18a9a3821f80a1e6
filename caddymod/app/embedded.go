// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"os"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-moderation/caddy-moderation/caddymod/options"
	"github.com/caddy-moderation/caddy-moderation/engine"
	"github.com/caddy-moderation/caddy-moderation/engine/model"
)

func init() {
	caddy.RegisterModule(new(Embedded))
}

// Embedded is the classifier of this project: a model that was trained by it and is embedded in the binary. It needs
// no network. A model that was trained anew can be read from a file instead.
type Embedded struct {
	// Model is a file with weights, as the trainer writes it. It is read when the configuration is loaded: after the
	// file changed, reload with --force. Global placeholders are replaced. Default: the weights in the binary.
	Model string `json:"model,omitempty"`

	classifier engine.Classifier
}

// CaddyModule returns the Caddy module information.
func (*Embedded) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "moderation.classifiers.embedded",
		New: func() caddy.Module { return new(Embedded) },
	}
}

// Provision reads the weights.
func (e *Embedded) Provision(caddy.Context) error {
	weights, err := e.load()
	if err != nil {
		return err
	}
	e.classifier = engine.NewEmbedded(weights)
	return nil
}

func (e *Embedded) load() (*model.Model, error) {
	if e.Model == "" {
		return model.Default()
	}
	name, err := caddy.NewReplacer().ReplaceOrErr(e.Model, true, true)
	if err != nil {
		return nil, fmt.Errorf("the file of the model: %w", err)
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("opening the model: %w", err)
	}
	defer file.Close()
	weights, err := model.Load(file)
	if err != nil {
		return nil, fmt.Errorf("the model %s: %w", name, err)
	}
	return weights, nil
}

// Classify scores text. It never fails.
func (e *Embedded) Classify(ctx context.Context, text string) (engine.Scores, error) {
	return e.classifier.Classify(ctx, text)
}

// Version names the weights.
func (e *Embedded) Version() string { return e.classifier.Version() }

// Classifier returns the classifier itself: the engine spares work for its own kind.
func (e *Embedded) Classifier() engine.Classifier { return e.classifier }

// UnmarshalCaddyfile reads the classifier from a Caddyfile. Syntax:
//
//	embedded {
//		model <file>
//	}
func (e *Embedded) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the module's name
	return options.Block(d, "embedded", map[string]options.Option{"model": options.Text(&e.Model, "<file>")})
}

// Interface guards
var (
	_ caddy.Provisioner     = (*Embedded)(nil)
	_ caddyfile.Unmarshaler = (*Embedded)(nil)
	_ engine.Classifier     = (*Embedded)(nil)
)
