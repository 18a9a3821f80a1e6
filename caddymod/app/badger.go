// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/placeholder"
	"github.com/caddy-moderation/caddy-moderation/caddymod/options"
	"github.com/caddy-moderation/caddy-moderation/storage"
	"github.com/caddy-moderation/caddy-moderation/storage/badger"
	"github.com/caddy-moderation/caddy-moderation/storage/contents"
)

func init() {
	caddy.RegisterModule(new(Badger))
}

// Badger is a storage module that keeps everything in an embedded database in a local directory. Nothing has to be
// installed. The directory belongs to one Caddy process at a time and must not be on a network file system.
//
// The database runs in a process of its own, so that a failing disk takes no site down: the server starts its own
// program under the name caddy-moderation-store, and starts it again when it dies. A reload does not touch that
// process; it ends with the server. Where the server may not start programs, the database shares the server's
// process, and the log warns of it.
//
// Syntax:
//
//	badger [<dir>]
type Badger struct {
	// The directory, which is made when it is missing. A relative one is relative to the directory that Caddy was
	// started in. Global placeholders such as {env.DATA} are replaced. Default: the folder "moderation" in Caddy's
	// data directory.
	Dir string `json:"dir,omitempty"`

	dir string // absolute, placeholders replaced
}

// CaddyModule returns the Caddy module information.
func (*Badger) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "moderation.storage.badger",
		New: func() caddy.Module { return new(Badger) },
	}
}

// Provision resolves the name of the directory. It does not touch the directory.
func (b *Badger) Provision(caddy.Context) error {
	dir := filepath.Join(caddy.AppDataDir(), "moderation")
	if b.Dir != "" {
		var err error
		if dir, err = placeholder.Expand(b.Dir); err != nil {
			return fmt.Errorf("the directory of the badger storage: %w", err)
		}
	}
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("the directory of the badger storage: %w", err)
	}
	b.dir = absolute
	return nil
}

// Identity returns the directory, absolute and without symbolic links: all ways to write it name the same store.
func (b *Badger) Identity() (string, error) {
	// The directory and some of its parents may not exist yet: only links in the existing part can be resolved.
	existing, rest := b.dir, ""
	for {
		resolved, err := filepath.EvalSymlinks(existing)
		if err == nil {
			return "badger:" + filepath.Join(resolved, rest), nil
		}
		parent := filepath.Dir(existing)
		if parent == existing {
			return "", err
		}
		existing, rest = parent, filepath.Join(filepath.Base(existing), rest)
	}
}

// Open opens the database. The error wraps [ErrLocked] when another process has it open.
func (b *Badger) Open(_ context.Context, logger *zap.Logger) (storage.Store, error) {
	store, err := badger.Open(badger.Options{Dir: b.dir, Logger: logger.Named("badger")})
	if errors.Is(err, badger.ErrLocked) {
		return nil, locked{err}
	}
	if err != nil {
		return nil, err
	}
	return store, nil
}

// Place implements [Movable].
func (b *Badger) Place() string { return "badger " + b.dir }

// SamePlace implements [Movable].
func (b *Badger) SamePlace(other Storage) bool {
	if _, ok := other.(*Badger); !ok {
		return false
	}
	mine, err1 := b.Identity()
	its, err2 := other.Identity()
	return err1 == nil && err2 == nil && mine == its
}

// Named implements [Movable].
func (b *Badger) Named(by Storage) bool { return b.SamePlace(by) }

// Reopen implements [Movable].
func (b *Badger) Reopen(context.Context) error { return badger.Reopen(b.dir) }

// Fill implements [Movable].
func (b *Badger) Fill(context.Context, *zap.Logger) (contents.Target, error) {
	target, err := badger.NewTarget(b.dir)
	if err != nil {
		return nil, err
	}
	return target, nil
}

// locked makes an error match [ErrLocked] without repeating its text.
type locked struct{ error }

// Is reports whether target is ErrLocked.
func (locked) Is(target error) bool { return target == ErrLocked }

// Unwrap returns the marked error.
func (l locked) Unwrap() error { return l.error }

// UnmarshalCaddyfile sets up the storage from Caddyfile tokens. See [Badger] for the syntax.
func (b *Badger) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the module's name
	if d.NextArg() {
		b.Dir = d.Val()
		if b.Dir == "" {
			return d.Errf("the directory of the badger storage is empty%s", options.Empty(d))
		}
	} else if hint := options.Unset(d); hint != "" {
		// The default directory is another one than the author wants: the service would start without its data.
		return d.Errf("the badger storage has no directory%s", hint)
	}
	return options.Block(d, "badger", nil)
}

// Interface guards
var (
	_ caddy.Provisioner     = (*Badger)(nil)
	_ caddyfile.Unmarshaler = (*Badger)(nil)
	_ Movable               = (*Badger)(nil)
)
