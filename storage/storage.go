// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package storage joins what a place for the service's records must offer. Its sub-packages implement it; storagetest
// says in tests what that means.
package storage

import (
	"context"
	"errors"
	"io"

	"github.com/caddy-moderation/caddy-moderation/feedback"
	"github.com/caddy-moderation/caddy-moderation/quota"
)

// ErrUnavailable is wrapped by every error that says that the store cannot answer now: it is closed, the disk is full,
// the server is down. Callers answer 503.
var ErrUnavailable = errors.New("storage unavailable")

// ErrDamaged is wrapped by every error that says that a record is not what was written. It names the kind of the record and the
// account, where that is known. Other records may be read: what yields records goes on behind one that is damaged when the
// consumer does.
var ErrDamaged = errors.New("a record is damaged")

// LeavesOut is implemented by what a backup is written to that takes one without the records that are damaged.
type LeavesOut interface {
	io.Writer
	// LeaveOut is told what a record is that is left out.
	LeaveOut(what string)
}

// Store keeps accounts, keys, counters and feedback. It is safe for concurrent use.
type Store interface {
	quota.Store
	feedback.Store

	// Seeded reports whether [Store.MarkSeeded] was ever called on this database. A new database is not seeded.
	Seeded(ctx context.Context) (bool, error)
	// MarkSeeded notes, durably, that the first account was made.
	MarkSeeded(ctx context.Context) error

	// Health returns nil while everything that must be kept can be kept. Otherwise its error wraps [ErrUnavailable] and says what
	// hinders it, until nothing does. It is asked often and answers at once.
	Health() error
	// Backup writes a consistent copy of everything acknowledged before the call, while the store is in use. A damaged record is
	// an error that wraps [ErrDamaged] unless w is a [LeavesOut].
	Backup(ctx context.Context, w io.Writer) error
	// Close makes everything durable and releases the store. Calls after Close return [ErrUnavailable].
	Close() error
}
