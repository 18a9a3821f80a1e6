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

// database is a [disk.Database] that can be abandoned. After an error that does not wrap [disk.ErrFull] it must be
// abandoned and reopened.
type database interface {
	disk.Database
	// Abandon ends the database at once: calls that wait return an error. It returns false if that is not possible.
	// Then the directory stays locked until the process ends.
	Abandon() bool
	// Done is closed when the database has ended by itself. Err says why then.
	Done() <-chan struct{}
	Err() error
	// Released is closed when an abandoned database has released its directory. That may never happen.
	Released() <-chan struct{}
}

// opener opens the database. It may give up when ctx ends.
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

// Abandon is not possible: Badger's goroutines would go on.
func (inProcess) Abandon() bool { return false }

// Done is never closed: the database ends with the process.
func (inProcess) Done() <-chan struct{} { return nil }

// Err is nil.
func (inProcess) Err() error { return nil }

// Released is never closed: the database cannot be abandoned.
func (inProcess) Released() <-chan struct{} { return nil }

// ownProcess is a database in a process of its own.
type ownProcess struct{ *process.Client }

// openOwnProcess returns an opener that starts a process for the database. Where the system does not let a program
// start another one, the database is opened in this process, which is better than none.
func openOwnProcess(spare *process.SpareDescriptors, logger *zap.Logger) opener {
	return func(ctx context.Context, o disk.Options) (database, error) {
		client, err := spare.Start(ctx, o)
		if err == nil {
			return ownProcess{client}, nil
		}
		first := o.Expect == nil
		if first && errors.Is(err, process.ErrStart) && notPermitted(err) {
			logger.Warn("the database cannot have a process of its own and shares that of the server: "+
				"a disk that fails may end both", zap.Error(err))
			return openInProcess(ctx, o)
		}
		return nil, err
	}
}

// notPermitted reports whether an error says that the system starts no programs.
func notPermitted(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, errors.ErrUnsupported)
}

// Abandon kills the process.
func (p ownProcess) Abandon() bool {
	p.Client.Abandon()
	return true
}

// Interface guards
var (
	_ database = inProcess{}
	_ database = ownProcess{}
)
