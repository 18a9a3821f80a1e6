// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package storage says what a store must do: keep accounts, keys, counts, feedback and documents. Its sub-packages
// implement it. Package storagetest tests it, and has the simplest store that does it.
//
// # Writing a store
//
// Read [Store], then [quota.Store] with the rules for all methods, then [feedback.Store] and [documents.Store]. The
// simplest store is storagetest.Memory: everything in maps under one lock. A new store passes storagetest.Run,
// RunProperties and RunFailing, and RunBackup if it can be backed up; storage/badger/badger_test.go shows the calls. In
// Caddy a store is opened by a guest module of the namespace moderation.storage: the documentation of package
// caddymod/app says how.
//
// A store from which everything can be moved is a contents.Source, and package storagetest has RunMove for it and for
// the contents.Target with which its place is filled; its module then is an app.Movable. The format of a backup is the
// store's own: that of package contents is one that every such store can restore. The command check is that of Badger's
// directories.
package storage

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/caddy-moderation/caddy-moderation/documents"
	"github.com/caddy-moderation/caddy-moderation/feedback"
	"github.com/caddy-moderation/caddy-moderation/quota"
)

// ErrUnavailable is wrapped by every error that says that the store cannot answer now: it is closed, the disk is
// full, the server is down. Callers answer 503.
var ErrUnavailable = errors.New("storage unavailable")

// ErrReadOnly is wrapped by the errors of calls that would change something while everything is moved to another store.
// It is an [ErrUnavailable].
var ErrReadOnly = fmt.Errorf("%w: the store is read-only", ErrUnavailable)

// ErrDamaged is wrapped by every error that says that a record is not what was written. The error names what kind of
// record it is and its account, where that is known. Other records can be read: a listing goes on after it if the
// consumer does. It is [documents.ErrDamaged].
var ErrDamaged = documents.ErrDamaged

// LeavesOut is a writer that takes a backup without the records that are damaged. See [Store.Backup].
type LeavesOut interface {
	io.Writer
	// LeaveOut is called for each record that is left out, with the words of [ErrDamaged] for it, such as "account
	// acme".
	LeaveOut(what string)
}

// Store keeps accounts, keys, counts, feedback and documents. The rules of [quota.Store] for all methods hold for all
// of these.
type Store interface {
	quota.Store
	feedback.Store
	documents.Store

	// Seeded reports whether [Store.MarkSeeded] was ever called on this database. A new database is not seeded.
	Seeded(ctx context.Context) (bool, error)
	// MarkSeeded notes that the first account was made. When it returns nil, the note survives the loss of power. It
	// may be called again.
	MarkSeeded(ctx context.Context) error

	// Health returns nil while everything that must be kept can be kept. Otherwise its error wraps [ErrUnavailable]
	// and says what the obstacle is, until it is gone; then the store goes on by itself. A store may find out that it
	// cannot keep something only when it is used. From the call on that was refused, Health returns the error. Health
	// is called often and returns at once.
	Health() error
	// Backup writes a consistent copy of everything, while the store is in use: the state of one moment after the
	// call began. It holds everything that was acknowledged before the call, and charges that are not settled yet. Of
	// changes that are made during the call, a later one is not in it without the earlier ones.
	//
	// A damaged record is an error that wraps [ErrDamaged], unless w is a [LeavesOut]. An error of w is wrapped. When
	// ctx ends, or the store is closed, Backup ends with an error. What was written before an error is no backup. A
	// closed store writes nothing. A store that cannot be backed up returns an error that wraps
	// [errors.ErrUnsupported].
	Backup(ctx context.Context, w io.Writer) error
	// Close makes durable whatever was charged and recorded, whether it is waited for or not, and releases the store.
	// Calls under way end, with or without an error that wraps [ErrUnavailable]; later ones, including Health, return
	// such an error. Close may be called more than once.
	Close() error
}
