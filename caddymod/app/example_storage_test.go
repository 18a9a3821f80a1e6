// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage"
	"github.com/caddy-moderation/caddy-moderation/storage/storagetest"
)

func init() {
	caddy.RegisterModule(new(Forgetful))
}

// Forgetful is a storage module that keeps everything in memory, until the process ends. A module of your own opens a
// store of its own, which passes the tests of package storagetest.
//
// Syntax:
//
//	forgetful [<name>]
type Forgetful struct {
	// The name of the store. Default: empty.
	Name string `json:"name,omitempty"`
}

// CaddyModule returns the Caddy module information. The last part of the ID is the name in the configuration.
func (*Forgetful) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "moderation.storage.forgetful",
		New: func() caddy.Module { return new(Forgetful) },
	}
}

// Identity implements [app.Storage]. It begins with the module's name, so that it is not that of another module's
// store.
func (f *Forgetful) Identity() (string, error) { return "forgetful:" + f.Name, nil }

// Open implements [app.Storage].
func (f *Forgetful) Open(context.Context, *zap.Logger) (storage.Store, error) {
	return storagetest.NewMemory(), nil
}

// UnmarshalCaddyfile sets up the storage from Caddyfile tokens.
func (f *Forgetful) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the module's name
	if d.NextArg() {
		f.Name = d.Val()
	}
	if d.NextArg() {
		return d.ArgErr()
	}
	return nil
}

// Interface guards.
var (
	_ caddyfile.Unmarshaler = (*Forgetful)(nil)
	_ app.Storage           = (*Forgetful)(nil)
)

// A store of your own is opened by a module of the namespace moderation.storage. In the Caddyfile it is chosen by name.
// The app opens the store when the configuration starts, not when it is provisioned.
func Example_storage() {
	configuration := `{
		moderation {
			storage forgetful "of the example"
			demo off
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
	if err := moderation.Start(); err != nil {
		log.Fatal(err)
	}
	defer moderation.Cleanup()
	services, err := moderation.Acquire(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	defer services.Release()
	account, err := services.Gate.CreateAccount(context.Background(), quota.Account{ID: "acme", Tier: "free"})
	if err != nil {
		log.Fatal(err)
	}
	stored, err := services.Store.Account(context.Background(), account.ID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(stored.ID, stored.Tier, services.Store.Health())
	// Output:
	// acme free <nil>
}

// provision provisions a Caddyfile without starting it, as caddy validate does.
func provision(configuration string) (caddy.Context, error) {
	adapted, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(configuration), nil)
	if err != nil {
		return caddy.Context{}, err
	}
	config := new(caddy.Config)
	if err := json.Unmarshal(adapted, config); err != nil {
		return caddy.Context{}, err
	}
	return caddy.ProvisionContext(config)
}
