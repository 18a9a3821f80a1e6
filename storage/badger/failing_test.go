// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package badger

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/storage"
	"github.com/caddy-moderation/caddy-moderation/storage/badger/disk"
	"github.com/caddy-moderation/caddy-moderation/storage/storagetest"
)

// brokenDisk is a database on a disk that cannot be written while broken is set. It can be abandoned like one in a
// process of its own.
type brokenDisk struct {
	database
	broken *atomic.Bool
}

var errBroken = errors.New("input/output error")

func (b brokenDisk) Write(entries []disk.Entry) error {
	if b.broken.Load() {
		return errBroken
	}
	return b.database.Write(entries)
}

func (b brokenDisk) Sync() error {
	if b.broken.Load() {
		return errBroken
	}
	return b.database.Sync()
}

func (b brokenDisk) Abandon() bool {
	_ = b.database.Close()
	return true
}

func (b brokenDisk) Released() <-chan struct{} {
	gone := make(chan struct{})
	close(gone)
	return gone
}

// openUnlocked opens a directory that was closed a moment ago. A process that another test starts in that moment holds
// the lock, too, between its fork and its exec.
func openUnlocked(o Options) (*Store, error) {
	for attempt := 0; ; attempt++ {
		s, err := Open(o)
		if !errors.Is(err, ErrLocked) || attempt == 1000 {
			return s, err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestBadgerGivesBack runs the suite for failing stores with a full disk and with one that returns errors.
func TestBadgerGivesBack(t *testing.T) {
	t.Parallel()
	for name, wrap := range map[string]func(database, *atomic.Bool) (database, error){
		"full": func(db database, failing *atomic.Bool) (database, error) { return fullDisk{db, failing}, nil },
		"broken": func(db database, failing *atomic.Bool) (database, error) {
			if failing.Load() {
				return nil, errors.Join(errBroken, db.Close())
			}
			return brokenDisk{db, failing}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storagetest.RunFailing(t, func(t *testing.T) (storage.Store, func(bool), func() storage.Store) {
				dir := t.TempDir()
				failing := new(atomic.Bool)
				var s *Store
				reopen := func() storage.Store {
					if s != nil {
						if err := s.Close(); err != nil {
							t.Fatal(err)
						}
					}
					open := func(ctx context.Context, o disk.Options) (database, error) {
						db, err := openInProcess(ctx, o)
						if err != nil {
							return nil, err
						}
						return wrap(db, failing)
					}
					opened, err := openUnlocked(Options{Dir: dir, open: open})
					if err != nil {
						t.Fatal(err)
					}
					s = opened
					return s
				}
				t.Cleanup(func() {
					failing.Store(false)
					if s != nil {
						_ = s.Close()
					}
				})
				return reopen(), failing.Store, reopen
			})
		})
	}
}
