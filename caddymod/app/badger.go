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

	"github.com/caddy-moderation/caddy-moderation/caddymod/options"
	"github.com/caddy-moderation/caddy-moderation/storage"
	"github.com/caddy-moderation/caddy-moderation/storage/badger"
)

func init() {
	caddy.RegisterModule(new(Badger))
}

// Badger keeps everything in an embedded database in a local directory. Nothing has to be installed. The directory
// belongs to one Caddy process at a time and must not be on a network file system.
//
// The database runs in a process of its own, so that a disk that fails takes no site down: the server starts its own program
// again, under the name caddy-moderation-store, and again when that process dies. It ends with the server, and a reload
// does not touch it. Where the server may not start programs, the database shares the server's process, and the log warns of it.
type Badger struct {
	// Dir is the directory, made when it is missing. A relative one is relative to the directory that Caddy was started
	// in. Global placeholders such as {env.DATA} are replaced. Default: "moderation" in Caddy's data directory.
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

// Provision finds out which directory is meant. It does not touch it.
func (b *Badger) Provision(caddy.Context) error {
	dir := filepath.Join(caddy.AppDataDir(), "moderation")
	if b.Dir != "" {
		var err error
		if dir, err = caddy.NewReplacer().ReplaceOrErr(b.Dir, true, true); err != nil {
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

// Identity is the directory, absolute and without symbolic links, so that every way to write it means the same store.
func (b *Badger) Identity() (string, error) {
	// The directory, and some above it, may not exist yet: links are resolved in the part that does.
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

// Open opens the database.
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

// locked marks an error as an [ErrLocked], whose text would say the same again.
type locked struct{ error }

// Is reports whether target is ErrLocked.
func (locked) Is(target error) bool { return target == ErrLocked }

// Unwrap returns the marked error.
func (l locked) Unwrap() error { return l.error }

// UnmarshalCaddyfile reads the storage from a Caddyfile. Syntax:
//
//	badger [<dir>]
func (b *Badger) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the module's name
	if d.NextArg() {
		b.Dir = d.Val()
		if b.Dir == "" {
			return d.Err("the directory of the badger storage is empty")
		}
	}
	return options.Block(d, "badger", nil)
}

// Interface guards
var (
	_ caddy.Provisioner     = (*Badger)(nil)
	_ caddyfile.Unmarshaler = (*Badger)(nil)
	_ Storage               = (*Badger)(nil)
)
