// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package badger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/caddy-moderation/caddy-moderation/storage"
	"github.com/caddy-moderation/caddy-moderation/storage/badger/backup"
	"github.com/caddy-moderation/caddy-moderation/storage/badger/disk"
)

// unfinished is a file that stands in a directory while a backup is restored into it.
const unfinished = "RESTORE-UNFINISHED"

// ErrBackup says that [Restore] was not given a whole backup.
var ErrBackup = backup.ErrNotWhole

// Backup implements [storage.Store]. The store does not wait for w: closing the store ends a backup that is under way
// with an error.
func (s *Store) Backup(ctx context.Context, w io.Writer) error {
	// Everything acknowledged is committed already. This adds what was charged and is not settled yet.
	if err := s.flush(ctx); err != nil {
		return err
	}
	snapshot, err := s.supervisor.snapshot()
	if err != nil {
		return err
	}
	defer snapshot.Close()
	return writeBackup(ctx, snapshot, w, s.closing)
}

// flush commits the counts as they are.
func (s *Store) flush(ctx context.Context) error {
	c := &s.counters
	c.mu.Lock()
	if c.stopped {
		c.mu.Unlock()
		return errClosed
	}
	b := c.open
	c.wakeWriter()
	c.mu.Unlock()
	return b.wait(ctx)
}

// writeBackup writes all records in the layout of layout.go, so that every version that reads the schema can restore
// them.
func writeBackup(ctx context.Context, from disk.Snapshot, to io.Writer, closing <-chan struct{}) error {
	w := backup.NewWriter(to)
	if err := w.Record(schemaKey, encodeSchema(schema), 0); err != nil {
		return err
	}
	for {
		part, err := from.Next()
		if err != nil {
			return unavailable(err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-closing:
			return errClosed
		default:
		}
		if len(part) == 0 {
			return w.Close()
		}
		for _, r := range part {
			if leaves, ok := to.(storage.LeavesOut); ok && r.Damaged {
				leaves.LeaveOut(describe(r.Key))
				continue
			}
			if r.Damaged {
				return unavailable(fmt.Errorf("%w: %s", errDamaged, describe(r.Key)))
			}
			if err := w.Record(r.Key, r.Value, 0); err != nil {
				return err
			}
		}
	}
}

// Restore makes a database in dir from a backup. The directory must be missing or empty. Until the whole backup has
// been read, checked and synced, the directory cannot be opened. After an error it is as empty as before. An error
// wraps [ErrBackup] if r does not hold a whole backup.
func Restore(ctx context.Context, dir string, r io.Reader) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	if err := beginFilling(dir); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	if err := load(ctx, dir, r); err != nil {
		return errors.Join(fmt.Errorf("restore into %s: %w", dir, err), empty(dir))
	}
	return errors.Join(os.Remove(filepath.Join(dir, unfinished)), disk.SyncFile(dir))
}

// empty removes the files that a restore has made, its mark last.
func empty(dir string) error {
	found, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range found {
		if !f.IsDir() && f.Name() != unfinished {
			err = errors.Join(err, os.Remove(filepath.Join(dir, f.Name())))
		}
	}
	if err != nil {
		return err
	}
	return os.Remove(filepath.Join(dir, unfinished))
}

// load opens a database, fills it and closes it.
func load(ctx context.Context, dir string, r io.Reader) error {
	s, err := open(dir, Options{Dir: dir, InProcess: true})
	if err != nil {
		return err
	}
	if err := s.loadRecords(ctx, r); err != nil {
		return errors.Join(err, s.Close())
	}
	return errors.Join(s.syncer.join().wait(), s.Close())
}

// loadRecords writes the records of a backup. After an error those that were written stay.
//
// Earlier versions wrote the time at which a record expires. It is ignored, because clocks may be wrong: windows that
// are not kept any more are deleted when their account is used.
func (s *Store) loadRecords(ctx context.Context, r io.Reader) error {
	var entries []disk.Entry
	size := 0
	err := backup.Read(r, func(key, value []byte, _ uint64) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if bytes.Equal(key, schemaKey) {
			return checkSchema(value) // the database has its own
		}
		entries = append(entries, disk.Entry{Key: key, Value: value})
		if size += len(key) + len(value); size <= 256<<10 {
			return nil
		}
		full := entries
		entries, size = nil, 0
		_, _, err := s.supervisor.write(full)
		return err
	})
	if err != nil {
		return err
	}
	_, _, err = s.supervisor.write(entries)
	return err
}

// checkSchema refuses records of a layout that this version does not know.
func checkSchema(value []byte) error {
	version, err := decodeSchema(value)
	if err != nil || version > schema {
		return fmt.Errorf("%w that this version can read: its records have schema %d", ErrBackup, version)
	}
	return nil
}
