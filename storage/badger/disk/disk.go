// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package disk keeps records in a Badger database in a directory, and notices when what it kept is no longer there.
//
// It knows nothing of accounts and counts: a record is a key and a value. It adds to Badger what Badger does not do:
//
//   - Every value is kept with a checksum of its key and itself, so that a changed record is recognized (checksum.go).
//   - Every write is numbered. The numbers of the last write and of the last synced one are noted beside the database
//     in the file PROGRESS, so that missing records are noticed (progress.go).
//   - A directory is read and compared before Badger opens it, because Badger removes what it does not know
//     (inspect.go).
//   - A sync checks that the directory that is synced is still the one that is open (sync.go).
//   - Tables are merged in a copy, which takes their place if every record is found in it (merge.go).
//   - Nothing is written to a disk that is almost full (space.go).
//
// Badger maps files into memory and asserts much of what it reads and does: a disk that fails can end the process
// that a DB lives in. Package process gives a DB a process of its own.
package disk

import (
	"errors"
	"fmt"
)

// Errors of this package. Errors that wrap them name the directory and say what an operator can do.
var (
	// ErrLocked says that another process, or another DB in this process, has the directory open.
	ErrLocked = errors.New("the database is in use")
	// ErrSchema says that a newer version of this software wrote the database, or that it is a database of something
	// else.
	ErrSchema = errors.New("the database cannot be read by this version")
	// ErrDamaged says that files of the database are missing or changed. Nothing was touched.
	ErrDamaged = errors.New("the database is damaged")
	// ErrReplaced says that the directory is not, or no longer, the one that was expected.
	ErrReplaced = errors.New("the database has been removed or replaced")
	// ErrFull says that the disk has too little room, or that the database must be compacted first. Nothing was
	// written, and a later call may succeed.
	ErrFull = errors.New("the disk is full")
	// ErrClosed says that the DB is closed or has been abandoned.
	ErrClosed = errors.New("the database is closed")
)

// Errors returns the sentinel errors of this package, in an order that does not change: an error is sent from one
// process to another as a set of positions in this list.
func Errors() []error {
	return []error{ErrLocked, ErrSchema, ErrDamaged, ErrReplaced, ErrFull, ErrClosed}
}

// notCompactedError is an [ErrFull] of a disk that may have room, with a text of its own.
type notCompactedError struct{ dir string }

func (e notCompactedError) Error() string {
	return fmt.Sprintf("the database in %s must be compacted first; the log says what hinders it", e.dir)
}

func (notCompactedError) Unwrap() error { return ErrFull }

// Database is what a [DB] does. A database in another process does the same; see package process.
type Database interface {
	// Get returns the records with these keys as they were at one moment, in the order of the keys. A record that
	// does not exist has a nil Value and is not Damaged.
	Get(keys ...[]byte) ([]Record, error)
	// Scan returns the first records of a range in the order of their keys, and the key to go on from, nil at the
	// end. Records that are written between two calls may or may not be found.
	Scan(r Range) (records []Record, next []byte, err error)
	// Write makes changes in their order: all or none, if they fit into one transaction of about 1 MB. When it
	// returns nil, they survive the death of the process, but not yet the loss of power. Concurrent writes are made
	// one after the other.
	Write(entries []Entry) error
	// Sync makes everything that was written before survive the loss of power. After an error nobody knows what does.
	Sync() error
	// Check checks, without writing, whether the database can be written.
	Check() error
	// Snapshot returns the database as it is now.
	Snapshot() (Snapshot, error)
	// Identity tells this database from others.
	Identity() Identity
	// Close syncs what is written, and releases the directory.
	Close() error
}

// Snapshot is a database as it was at one moment. It must be closed; closing the database closes it too.
type Snapshot interface {
	// Next returns the next records in the order of their keys, none at the end.
	Next() ([]Record, error)
	// Close ends the snapshot. It may be called more than once.
	Close() error
}

// Record is the result of reading a key.
type Record struct {
	Key []byte
	// Value is nil if there is no such record, if it is damaged, and if only keys were asked for.
	Value []byte
	// Damaged says that there is a record and its checksum is wrong.
	Damaged bool
}

// Entry is a change: it writes a record or, if Delete is set, deletes it.
type Entry struct {
	Key, Value []byte
	Delete     bool
}

// Range says which records [Database.Scan] returns.
type Range struct {
	// Prefix is the prefix of their keys.
	Prefix []byte
	// From is the first key that is wanted. Default: the first one with the prefix.
	From []byte
	// Records is the maximum number of records. Fewer are returned if their size reaches about 1 MiB. Default: 256.
	Records int
	// KeysOnly leaves out the values, and with them the check whether they are damaged.
	KeysOnly bool
}

// Identity tells databases apart: random bytes that are made with a database and kept in it.
type Identity [16]byte
