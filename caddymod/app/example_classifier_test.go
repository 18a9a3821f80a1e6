// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/engine"
)

func init() {
	caddy.RegisterModule(new(Shouting))
}

// Shouting is a classifier module that takes capitals for harassment. A module of your own is a Go package like this
// one, with the service in its go.mod, and is built into Caddy beside the service:
//
//	xcaddy build --with github.com/caddy-moderation/caddy-moderation/caddymod --with example.com/shouting
//
// Syntax:
//
//	shouting [<share>]
type Shouting struct {
	// The share of capitals among the letters of a text that counts as shouting: greater than 0 and at most 1.
	// Default: 0.5.
	Share float64 `json:"share,omitempty"`
}

// CaddyModule returns the Caddy module information. The last part of the ID is the name in the configuration.
func (*Shouting) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "moderation.classifiers.shouting",
		New: func() caddy.Module { return new(Shouting) },
	}
}

// Provision sets the defaults. This is where a classifier loads its weights or connects to its server.
func (s *Shouting) Provision(caddy.Context) error {
	if s.Share == 0 {
		s.Share = 0.5
	}
	return nil
}

// Validate checks the configuration.
func (s *Shouting) Validate() error {
	if s.Share <= 0 || s.Share > 1 {
		return errors.New("the share of capitals must be above 0 and at most 1")
	}
	return nil
}

// Classify implements [engine.Classifier]. What it leaves out of the scores is 0.
func (s *Shouting) Classify(_ context.Context, text string) (scores engine.Scores, err error) {
	capitals, letters := 0, 0
	for _, r := range text {
		switch {
		case 'A' <= r && r <= 'Z':
			capitals++
			letters++
		case 'a' <= r && r <= 'z':
			letters++
		}
	}
	if letters > 0 && float64(capitals) >= s.Share*float64(letters) {
		scores.Categories[engine.Harassment] = 0.9
		scores.Attributes[engine.Toxicity] = 0.9
	}
	return scores, nil
}

// Version implements [engine.Classifier].
func (s *Shouting) Version() string { return fmt.Sprintf("shouting-1-%v", s.Share) }

// UnmarshalCaddyfile sets up the classifier from Caddyfile tokens.
func (s *Shouting) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the module's name
	if !d.NextArg() {
		return nil
	}
	if _, err := fmt.Sscan(d.Val(), &s.Share); err != nil {
		return d.Errf("'%s' is not a number", d.Val())
	}
	if d.NextArg() {
		return d.ArgErr()
	}
	return nil
}

// Interface guards.
var (
	_ caddy.Provisioner     = (*Shouting)(nil)
	_ caddy.Validator       = (*Shouting)(nil)
	_ caddyfile.Unmarshaler = (*Shouting)(nil)
	_ engine.Classifier     = (*Shouting)(nil)
)

// A classifier of your own is a module of the namespace moderation.classifiers. In the Caddyfile it is chosen by name.
func Example_classifier() {
	configuration := `{
		moderation {
			classifier shouting 0.7
		}
	}`
	ctx, err := provision(configuration)
	if err != nil {
		log.Fatal(err)
	}
	moderation, err := app.Load(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, text := range []string{"See you at nine.", strings.ToUpper("Give me my bicycle back!")} {
		result, err := moderation.Engine().Moderate(context.Background(), engine.Request{Content: text})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(result.Flagged, result.Recommendation)
	}
	fmt.Println(moderation.Engine().Version())
	// Output:
	// false approve
	// true reject
	// shouting-1-0.7
}
