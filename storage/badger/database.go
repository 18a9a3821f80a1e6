// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package badger

import (
	"context"

	"github.com/caddy-moderation/caddy-moderation/storage/badger/disk"
)

// database keeps records; see [disk.DB] for what the methods promise. An error that does not wrap [disk.ErrFull] means that
// the database must be given up and opened again.
type database interface {
	Get(keys ...[]byte) ([]disk.Record, error)
	Scan(r disk.Range) (records []disk.Record, next []byte, err error)
	Write(entries []disk.Entry) error
	Sync() error
	Check() error
	Snapshot() (snapshot, error)
	Identity() disk.Identity
	Close() error
	// Abandon gives the database up at once: calls that wait end with an error. It reports false when that cannot be done, and the
	// directory stays taken until the process ends.
	Abandon() bool
}

// snapshot is a database as it was at one moment.
type snapshot interface {
	// Next returns the next records in the order of their keys, none at the end.
	Next() ([]disk.Record, error)
	Close() error
}

// opener opens the database. When ctx ends it need not go on.
type opener func(ctx context.Context, o disk.Options) (database, error)

// inProcess is a database that lives in this process.
type inProcess struct{ *disk.DB }

// openInProcess opens a database in this process.
func openInProcess(_ context.Context, o disk.Options) (database, error) {
	db, err := disk.Open(o)
	if err != nil {
		return nil, err
	}
	return inProcess{db}, nil
}

// Snapshot returns the database as it is now.
func (p inProcess) Snapshot() (snapshot, error) {
	s, err := p.DB.Snapshot()
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Abandon cannot be done: Badger's goroutines would go on.
func (inProcess) Abandon() bool { return false }

// Interface guards
var (
	_ database = inProcess{}
	_ snapshot = (*disk.Snapshot)(nil)
)
