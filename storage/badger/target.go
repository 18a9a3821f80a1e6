// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package badger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/caddy-moderation/caddy-moderation/storage/badger/disk"
	"github.com/caddy-moderation/caddy-moderation/storage/contents"
)

// moved is a file that stands in a directory whose contents were moved to another store.
const moved = "MOVED"

// Target is a directory that is being filled.
type Target struct {
	store *Store
	dir   string

	entries []disk.Entry
	size    int
}

// NewTarget begins to fill a directory. It must be missing or empty, or one that was filled with a part only: such a
// directory is emptied. Otherwise the error wraps [contents.ErrNotEmpty]. If somebody fills it now, it wraps
// [ErrLocked].
func NewTarget(dir string) (*Target, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if _, err := os.Lstat(filepath.Join(dir, unfinished)); err == nil {
		if err := emptyUnfinished(dir); err != nil {
			return nil, fmt.Errorf("emptying %s, which was filled with a part only: %w", dir, err)
		}
	}
	if err := beginFilling(dir); err != nil {
		return nil, err
	}
	s, err := open(dir, Options{Dir: dir, InProcess: true})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("filling %s: %w", dir, err), empty(dir))
	}
	return &Target{store: s, dir: dir}, nil
}

// beginFilling makes a directory or takes an empty one, and marks it as one that cannot be opened yet.
func beginFilling(dir string) error {
	if err := disk.MakeDirectory(dir); err != nil {
		return err
	}
	found, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range found {
		// A new file system has this directory.
		if f.Name() != "lost+found" {
			return notEmptyError{dir}
		}
	}
	return markUnfinished(dir)
}

// notEmptyError is a [contents.ErrNotEmpty].
type notEmptyError struct{ dir string }

func (e notEmptyError) Error() string { return fmt.Sprintf("the directory %s is not empty", e.dir) }

func (notEmptyError) Unwrap() error { return contents.ErrNotEmpty }

// markUnfinished marks a directory as one that cannot be opened.
func markUnfinished(dir string) error {
	mark := filepath.Join(dir, unfinished)
	if err := os.WriteFile(mark, []byte("Everything is being copied into this directory.\n"), 0o600); err != nil {
		return err
	}
	return disk.SyncFile(dir)
}

// emptyUnfinished empties a directory whose filling did not finish, if nobody is at it.
func emptyUnfinished(dir string) error {
	lock, err := disk.Lock(dir)
	if err != nil {
		return err
	}
	return errors.Join(empty(dir), lock.Close())
}

// Contents implements [contents.Source].
func (t *Target) Contents(ctx context.Context, only *contents.Selection) contents.Items {
	return t.store.Contents(ctx, only)
}

// Put implements [contents.Target].
func (t *Target) Put(ctx context.Context, items contents.Items) error {
	for item, err := range items {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = t.put(item)
		}
		if err == nil && t.size > 256<<10 {
			err = t.flush()
		}
		if err != nil {
			return err
		}
	}
	return t.flush()
}

// flush writes what is collected.
func (t *Target) flush() error {
	if len(t.entries) == 0 {
		return nil
	}
	full := t.entries
	t.entries, t.size = nil, 0
	_, _, err := t.store.supervisor.write(full)
	return err
}

func (t *Target) add(key, value []byte) {
	t.entries = append(t.entries, disk.Entry{Key: key, Value: value})
	t.size += len(key) + len(value)
}

// put collects the records of an item.
func (t *Target) put(item contents.Item) error {
	switch {
	case item.Seeded:
		t.add(seededKey, []byte{})
	case item.Owner != nil:
		return t.putOwner(item.Owner)
	case item.Feedback != nil:
		value, err := encodeJSON(item.Feedback)
		if err != nil {
			return err
		}
		t.add(feedbackKey(item.Feedback.Ref()), value)
	case item.Document != nil:
		t.add(documentKey(item.Document.Collection, item.Document.Key), encodeDocument(item.Document.Value))
	case item.Forget != nil:
		return t.forget(item.Forget)
	}
	return nil
}

func (t *Target) putOwner(o *contents.Owner) error {
	if o.Account != nil {
		e, err := setAccount(*o.Account)
		if err != nil {
			return err
		}
		t.add(e.Key, e.Value)
	}
	for _, k := range o.Keys {
		if k.LastUsed != "" {
			day, err := time.Parse(time.DateOnly, k.LastUsed)
			if err != nil {
				return fmt.Errorf("the last use of key %s is no day", k.ID)
			}
			t.add(lastUsedKey(k.ID), appendCounts(nil, dayOf(day)))
		}
		k.LastUsed = ""
		value, err := encodeJSON(k)
		if err != nil {
			return err
		}
		t.add(hashKey(k.Hash), value)
		t.add(keyIDKey(k.ID), k.Hash[:])
		t.add(keyOfAccount(k), k.Hash[:])
	}
	for _, c := range o.Minutes {
		t.add(appendWindow(nil, 'm', o.ID, c.At), appendCounts(nil, c.Requests))
	}
	for _, c := range o.Days {
		t.add(appendWindow(nil, 'd', o.ID, c.At), appendCounts(nil, c.Requests))
	}
	for _, p := range o.Periods {
		if !p.More {
			t.add(appendWindow(nil, 'p', o.ID, p.Start), appendPeriod(nil, p.Requests, p.Flagged))
		}
		for key, n := range p.Keys {
			t.add(append(appendWindow(nil, 'q', o.ID, p.Start), key...), appendCounts(nil, n))
		}
	}
	for _, b := range o.Bounds {
		t.add(appendWindow(nil, 'b', o.ID, b.Day), appendCounts(nil, b.Records, b.Bytes))
	}
	return nil
}

// forget deletes what came before.
func (t *Target) forget(f *contents.Forget) error {
	if err := t.flush(); err != nil {
		return err
	}
	if f.Owner != "" {
		entries, err := t.store.deletions(f.Owner)
		t.entries = entries
		return errors.Join(err, t.flush())
	}
	if f.Document != "" {
		t.entries = append(t.entries, disk.Entry{Key: documentKey(f.Collection, f.Document), Delete: true})
		return t.flush()
	}
	if f.Collection != "" {
		for r, err := range t.store.scanFrom(ownedPrefix('c', f.Collection), nil, exportRecords) {
			if err != nil {
				return err
			}
			t.entries = append(t.entries, disk.Entry{Key: r.Key, Delete: true})
		}
		return t.flush()
	}
	end := dayOfFeedback(f.Day + 1)
	for r, err := range t.store.scanFrom([]byte("f/"), dayOfFeedback(f.Day), exportRecords) {
		if err != nil {
			return err
		}
		if bytes.Compare(r.Key, end) >= 0 {
			break
		}
		t.entries = append(t.entries, disk.Entry{Key: r.Key, Delete: true})
	}
	return t.flush()
}

// Finish implements [contents.Target].
func (t *Target) Finish(context.Context) error {
	if err := errors.Join(t.flush(), t.store.syncer.join().wait(), t.store.Close()); err != nil {
		return err
	}
	return errors.Join(os.Remove(filepath.Join(t.dir, unfinished)), disk.SyncFile(t.dir))
}

// Close implements [contents.Target].
func (t *Target) Close() error { return t.store.Close() }

// Void implements [contents.Target].
func (t *Target) Void(context.Context) error { return markUnfinished(t.dir) }

// InUse reports whether somebody has the database in a directory open.
func InUse(dir string) (bool, error) {
	lock, err := disk.Lock(dir)
	if errors.Is(err, ErrLocked) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return false, lock.Close()
}

// MarkMoved notes in the directory of a store that everything in it was moved to another store, so that nobody opens it
// as the truth. Text says where to, and when.
func (s *Store) MarkMoved(_ context.Context, text string) error {
	if err := os.WriteFile(filepath.Join(s.dir, moved), []byte(text+"\n"), 0o600); err != nil {
		return err
	}
	return disk.SyncFile(s.dir)
}

// UnmarkMoved takes the note of [Store.MarkMoved] back.
func (s *Store) UnmarkMoved(context.Context) error {
	err := os.Remove(filepath.Join(s.dir, moved))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, disk.SyncFile(s.dir))
}

// Reopen takes back that everything was moved from a directory, which nobody has open.
func Reopen(dir string) error {
	lock, err := disk.Lock(dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	err = os.Remove(filepath.Join(dir, moved))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("nothing was moved from %s", dir)
	}
	return errors.Join(err, disk.SyncFile(dir))
}

// movedError is the refusal to open a directory whose contents were moved.
func movedError(dir string, text []byte) error {
	return fmt.Errorf("badger storage: %s: %w: %s. What was counted since is not in it. Load the configuration with the "+
		"other storage, or, to go on with this state, run: caddy moderation migrate --undo badger %s", dir,
		contents.ErrMoved, bytes.TrimSpace(text), dir)
}

// Interface guards
var (
	_ contents.Source = (*Store)(nil)
	_ contents.Target = (*Target)(nil)
)
