// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/redis/rueidis"

	"github.com/caddy-moderation/caddy-moderation/storage"
	"github.com/caddy-moderation/caddy-moderation/storage/contents"
)

// tracker collects names that change.
type tracker struct {
	mu    sync.Mutex
	names map[string]struct{}
	lost  bool
}

// changed is called for each message of a server, nil when a connection is lost or everything has changed.
func (t *tracker) changed(names []rueidis.RedisMessage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if names == nil {
		t.lost = true
		return
	}
	if t.names == nil {
		t.names = make(map[string]struct{})
	}
	for _, m := range names {
		if name, err := m.ToString(); err == nil {
			t.names[name] = struct{}{}
		}
	}
}

// errTracking says that nobody knows what has changed.
var errTracking = fmt.Errorf("%w: the connection to a server was lost during the backup, or its data: repeat the backup",
	storage.ErrUnavailable)

// take returns the names that have changed since the last time.
func (t *tracker) take() (map[string]struct{}, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	names := t.names
	t.names = nil
	if t.lost {
		return nil, errTracking
	}
	return names, nil
}

// watcher knows what is changed since it began, by any node.
type watcher struct {
	*bulk
	tracker *tracker
	// tracked are connections to the masters, which tell of changes.
	tracked map[string]rueidis.Client
	// stale is what has changed and is not read again yet.
	stale stale
}

// stale is what has changed.
type stale struct {
	owners map[string]bool
	hashes map[string]bool
	days   map[int64]bool
	// whole are the days that are written anew, because records were deleted.
	whole map[int64]bool
	// documents are named as [names.kindOf] does.
	documents map[string]bool
	seeded    bool
}

func newStale() stale {
	return stale{
		owners: map[string]bool{}, hashes: map[string]bool{}, days: map[int64]bool{}, whole: map[int64]bool{},
		documents: map[string]bool{},
	}
}

func (s *stale) size() int { return len(s.owners) + len(s.hashes) + len(s.documents) }

// collections are those of the documents.
func (s *stale) collections() []string {
	found := map[string]bool{}
	for of := range s.documents {
		collection, _ := splitDocument(of)
		found[collection] = true
	}
	return slices.Sorted(maps.Keys(found))
}

// watchChanges begins to watch. The caller closes the watcher.
func (s *Store) watchChanges(ctx context.Context) (*watcher, error) {
	b, err := newBulk(s)
	if err != nil {
		return nil, err
	}
	w := &watcher{bulk: b, tracker: new(tracker), tracked: make(map[string]rueidis.Client), stale: newStale()}
	masters, err := b.masters(ctx)
	if err != nil {
		w.close()
		return nil, err
	}
	for address := range masters {
		client, err := b.track(address, w.tracker.changed)
		if err != nil {
			w.close()
			return nil, err
		}
		w.tracked[address] = client
	}
	return w, nil
}

func (w *watcher) close() {
	for _, client := range w.tracked {
		client.Close()
	}
	w.bulk.close()
}

// check returns an error if somebody else has been a master since the watcher began, or a connection was lost.
func (w *watcher) check(ctx context.Context) error {
	masters, err := w.masters(ctx)
	if err != nil {
		return err
	}
	same := func(rueidis.Client, rueidis.Client) bool { return true }
	if !maps.EqualFunc(masters, w.tracked, same) {
		return fmt.Errorf("%w: the masters have changed meanwhile: repeat it", storage.ErrUnavailable)
	}
	w.tracker.mu.Lock()
	defer w.tracker.mu.Unlock()
	if w.tracker.lost {
		return errTracking
	}
	return nil
}

// learn asks the servers which names have changed.
func (w *watcher) learn(ctx context.Context) error {
	// What was changed before the answer was told before it.
	for _, node := range w.tracked {
		if err := node.Do(ctx, node.B().Ping().Build()).Error(); err != nil {
			return w.failed(ctx, err)
		}
	}
	names, err := w.tracker.take()
	if err != nil {
		return err
	}
	for name := range names {
		switch kind, of := w.names.kindOf(name); kind {
		case nameOfOwner:
			w.stale.owners[of] = true
		case nameOfKey:
			w.stale.hashes[of] = true
		case nameOfDay:
			if day, err := strconv.ParseInt(of, 10, 64); err == nil {
				w.stale.days[day] = true
			}
		case nameOfDocument:
			w.stale.documents[of] = true
		case nameOfStore:
			w.stale.seeded = true
		case nameOfOther:
		}
	}
	return nil
}

// ownersOfKeys adds the owners of the keys that have changed. A key that is gone was deleted with its account.
func (w *watcher) ownersOfKeys(ctx context.Context) error {
	for hashes := range slices.Chunk(slices.Collect(maps.Keys(w.stale.hashes)), 1000) {
		cmds := make([]rueidis.Completed, len(hashes))
		for i, digits := range hashes {
			cmds[i] = w.client.B().Get().Key(w.names.prefix + "key:" + digits).Build()
		}
		answers, err := w.many(ctx, cmds...)
		if err != nil {
			return err
		}
		for i, m := range answers {
			value, _ := m.ToString() // nothing if there is none
			if value = present(value); value == "" {
				continue
			}
			// One that is damaged is met again with its owner.
			if k, err := w.names.openKey(w.names.prefix+"key:"+hashes[i], value); err == nil {
				w.stale.owners[k.Account] = true
			}
		}
	}
	clear(w.stale.hashes)
	return nil
}

// Track tells what is changed from now on, by any node: see [contents.Move].
func (s *Store) Track(
	ctx context.Context,
) (changes func(context.Context) (*contents.Selection, error), stop func(), err error) {
	w, err := s.watchChanges(ctx)
	if err != nil {
		return nil, nil, err
	}
	return w.changes, w.close, nil
}

// errIdentity says that the identity was changed, of which a selection tells nothing.
var errIdentity = errors.New("the identity of the store was changed")

// changes returns what has changed since its last call.
func (w *watcher) changes(ctx context.Context) (*contents.Selection, error) {
	if err := w.check(ctx); err != nil {
		return nil, err
	}
	if err := w.learn(ctx); err != nil {
		return nil, err
	}
	if err := w.ownersOfKeys(ctx); err != nil {
		return nil, err
	}
	now := w.stale
	w.stale = newStale()
	if now.seeded {
		return nil, errIdentity // it may be the mark of the first account
	}
	return &contents.Selection{
		Owners: slices.Sorted(maps.Keys(now.owners)), Days: slices.Sorted(maps.Keys(now.days)),
		Collections: now.collections(),
	}, nil
}
