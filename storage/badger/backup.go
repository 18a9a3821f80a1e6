// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package badger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/caddy-moderation/caddy-moderation/storage/badger/backup"
)

// unfinished is a file that stands in a directory while a backup is restored into it.
const unfinished = "RESTORE-UNFINISHED"

// ErrBackup says that what was to be restored is not a whole backup.
var ErrBackup = backup.ErrNotWhole

// Backup implements [storage.Store]. The store does not wait for w: closing it ends a backup that is under way with an error.
func (s *Store) Backup(ctx context.Context, w io.Writer) error {
	// What was acknowledged is committed already. This adds what was charged and is not settled yet.
	if err := s.flush(ctx); err != nil {
		return err
	}
	from, to := io.Pipe()
	if err := s.enter(); err != nil {
		return err
	}
	go func() {
		defer s.leave()
		to.CloseWithError(s.db.View(func(txn *badger.Txn) error { return writeBackup(ctx, txn, to) }))
	}()
	// The writer above must not outlive this call, and must not keep the store from closing while w is slow.
	defer from.CloseWithError(context.Canceled)
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-s.closing:
			to.CloseWithError(errClosed)
		case <-ctx.Done():
			to.CloseWithError(ctx.Err())
		case <-stop:
		}
	}()
	_, err := io.Copy(w, from)
	return err
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
	c.poke()
	c.mu.Unlock()
	return b.wait(ctx)
}

// writeBackup writes all records. They are those of the layout, so that a backup can be restored by every version that reads
// the schema.
func writeBackup(ctx context.Context, txn *badger.Txn, to io.Writer) error {
	it := txn.NewIterator(badger.DefaultIteratorOptions)
	defer it.Close()
	w := backup.NewWriter(to)
	for it.Rewind(); it.Valid(); it.Next() {
		if err := ctx.Err(); err != nil {
			return err
		}
		item := it.Item()
		if err := item.Value(func(v []byte) error { return w.Record(item.Key(), v, item.ExpiresAt()) }); err != nil {
			return err
		}
	}
	return w.Close()
}

// Restore makes a database in dir from a backup. The directory must be missing or empty. Until the whole backup has been
// read, checked and synced, the directory cannot be opened; after an error it is as empty as before. Errors wrap [ErrBackup]
// when the backup is not one, or not a whole one.
func Restore(ctx context.Context, dir string, r io.Reader) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	found, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	for _, f := range found {
		// A new file system of its own is not quite empty.
		if f.Name() != "lost+found" {
			return fmt.Errorf("restore: the directory %s is not empty", dir)
		}
	}
	mark := filepath.Join(dir, unfinished)
	if err := os.WriteFile(mark, []byte("A backup is being restored into this directory.\n"), 0o600); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	if err := errors.Join(syncFile(dir), load(ctx, dir, r)); err != nil {
		return errors.Join(fmt.Errorf("restore into %s: %w", dir, err), empty(dir))
	}
	return errors.Join(os.Remove(mark), syncFile(dir))
}

// empty removes what a restore has made; the mark last.
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
	s, err := open(dir, Options{Dir: dir})
	if err != nil {
		return err
	}
	if err := s.loadRecords(ctx, r); err != nil {
		return errors.Join(err, s.Close())
	}
	err = s.checkSchema()
	return errors.Join(err, s.sync(), s.Close())
}

// loadRecords writes what a backup holds. What it wrote before an error stays.
func (s *Store) loadRecords(ctx context.Context, r io.Reader) error {
	now := uint64(time.Now().Unix())
	var entries []*badger.Entry
	size := 0
	err := backup.Read(r, func(key, value []byte, expires uint64) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if expires != 0 && expires <= now {
			return nil
		}
		entries = append(entries, &badger.Entry{Key: key, Value: value, ExpiresAt: expires})
		if size += len(key) + len(value); size <= 256<<10 {
			return nil
		}
		full := entries
		entries, size = nil, 0
		return s.writeEntries(full)
	})
	if err != nil {
		return err
	}
	return s.writeEntries(entries)
}
