// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/placeholder"
	"github.com/caddy-moderation/caddy-moderation/caddymod/options"
	"github.com/caddy-moderation/caddy-moderation/engine"
	"github.com/caddy-moderation/caddy-moderation/engine/model"
)

func init() {
	caddy.RegisterModule(new(Embedded))
}

// Embedded is a classifier module: the model that this project trains and embeds in the binary. It needs no network.
// It can also load a model from a file, such as one that was trained on other texts.
//
// Syntax:
//
//	embedded {
//		model <file>
//		languages <tag>...
//	}
type Embedded struct {
	// A file with weights, as the trainer writes it. It is loaded with the configuration: after the file has changed,
	// reload with --force. Global placeholders are replaced. Default: the weights in the binary.
	Model string `json:"model,omitempty"`
	// The languages whose texts are read by models of their own, as BCP 47 tags: ar, da, de, el, en, es, fr, hi, id,
	// it, ja, ko, nl, pl, pt, ru, sv, tr, vi, zh. English always is one of them; with en alone, the model of English
	// reads everything. Default: all.
	Languages []string `json:"languages,omitempty"`

	classifier engine.Classifier
}

// CaddyModule returns the Caddy module information.
func (*Embedded) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "moderation.classifiers.embedded",
		New: func() caddy.Module { return new(Embedded) },
	}
}

// Provision loads the weights.
func (e *Embedded) Provision(caddy.Context) error {
	weights, err := e.load()
	if err != nil {
		return err
	}
	e.classifier, err = engine.NewEmbedded(weights, e.Languages...)
	return err
}

func (e *Embedded) load() (*model.Model, error) {
	if e.Model == "" {
		return model.Default()
	}
	name, err := placeholder.Expand(e.Model)
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

// Classify returns the probabilities of text. It never fails.
func (e *Embedded) Classify(ctx context.Context, text string) (engine.Scores, error) {
	return e.classifier.Classify(ctx, text)
}

// Version names the weights.
func (e *Embedded) Version() string { return e.classifier.Version() }

// Classifier returns the engine's own classifier, for which the engine can save work.
func (e *Embedded) Classifier() engine.Classifier { return e.classifier }

// UnmarshalCaddyfile sets up the classifier from Caddyfile tokens. See [Embedded] for the syntax.
func (e *Embedded) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the module's name
	return options.Block(d, "embedded", map[string]options.Option{
		"model":     options.Text(&e.Model, "<file>"),
		"languages": options.Several(&e.Languages, "<tag>", checkModelLanguage),
	})
}

// checkModelLanguage refuses a language without a model.
func checkModelLanguage(tag string) error {
	if !slices.Contains(model.Languages(), tag) {
		return fmt.Errorf("there is no model of it; there are %s", strings.Join(model.Languages(), ", "))
	}
	return nil
}

// Interface guards
var (
	_ caddy.Provisioner     = (*Embedded)(nil)
	_ caddyfile.Unmarshaler = (*Embedded)(nil)
	_ engine.Classifier     = (*Embedded)(nil)
)
