// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package badger

import (
	"context"
	"errors"
	"io/fs"

	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/storage/badger/disk"
	"github.com/caddy-moderation/caddy-moderation/storage/badger/process"
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
	// Done is closed when the database has ended by itself, and Err says why then.
	Done() <-chan struct{}
	Err() error
	// Gone is closed when a database that was given up has let go of its directory. That may never be.
	Gone() <-chan struct{}
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

// Done is never closed: the database ends with the process.
func (inProcess) Done() <-chan struct{} { return nil }

// Err is nil.
func (inProcess) Err() error { return nil }

// Gone is never closed: the database cannot be given up.
func (inProcess) Gone() <-chan struct{} { return nil }

// ownProcess is a database in a process of its own.
type ownProcess struct{ *process.Client }

// openOwnProcess returns how a database is opened in a process of its own. Where the system does not let a program start
// another one, the database is opened in this process, which is better than none.
func openOwnProcess(reserve *process.Reserve, logger *zap.Logger) opener {
	return func(ctx context.Context, o disk.Options) (database, error) {
		client, err := reserve.Start(ctx, o)
		if err == nil {
			return ownProcess{client}, nil
		}
		first := o.Expect == nil
		if first && errors.Is(err, process.ErrStart) && (errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, errors.ErrUnsupported)) {
			logger.Warn("the database cannot have a process of its own and shares that of the server: a disk that fails may end both", zap.Error(err))
			return openInProcess(ctx, o)
		}
		return nil, err
	}
}

// Snapshot returns the database as it is now.
func (p ownProcess) Snapshot() (snapshot, error) {
	s, err := p.Client.Snapshot()
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Abandon ends the process.
func (p ownProcess) Abandon() bool {
	p.Client.Abandon()
	return true
}

// Interface guards
var (
	_ database = inProcess{}
	_ database = ownProcess{}
	_ snapshot = (*disk.Snapshot)(nil)
)
