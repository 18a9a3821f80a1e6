// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package badger

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage/badger/disk"
)

// tally holds the counts of one account in memory. While it is in the table of tallies it is authoritative: the
// database holds the counts as of the last commit. Windows are read from the database when they are first used, and
// dropped from memory when they are committed and no longer used.
type tally struct {
	account string

	mu sync.Mutex
	// removed says that the tally is no longer in the table: a caller that has found it looks again.
	removed bool
	// dirty says that something changed since the last batch took the tally over. The tally is on the open batch then.
	dirty bool
	// batch is the batch that took the tally over last, nil if none did.
	batch *batch
	// lastUsed is the number of sweeps before the tally was last used.
	lastUsed int64
	// generation is the generation of the database in which the tally was last used.
	generation int64

	// incarnation is that of the stored account, empty if it is not known.
	incarnation            string
	minutes, days, periods windowSet
	keys                   map[string]keyUse
	// keysDirty says that some of keys are dirty.
	keysDirty bool
}

func newTally(account string) *tally {
	return &tally{
		account: account,
		minutes: windowSet{table: 'm', keep: quota.KeptMinutes},
		days:    windowSet{table: 'd', keep: quota.KeptDays},
		periods: windowSet{table: 'p', keep: quota.KeptPeriods},
	}
}

// windowSets returns all windows of the tally.
func (t *tally) windowSets() [3]*windowSet { return [3]*windowSet{&t.minutes, &t.days, &t.periods} }

// windowSet holds the windows of one length.
type windowSet struct {
	table byte
	keep  int // see [quota.KeptDays]
	// listed says that starts is filled in.
	listed bool
	// starts are the windows that exist, in the database or only in memory, the oldest first.
	starts []int64
	// cached are the windows in memory, existing or not.
	cached []window
	// evicted are windows that the database may still hold.
	evicted []evictedWindow
}

// window counts the requests of a minute, a day or a billing period.
type window struct {
	// start is a number of minutes or days since 1970, or the Unix time at which a period begins.
	start   int64
	count   int64
	flagged map[string]int64 // only of a period
	// keys are the counts of keys in a period, of those that were used since the window is in memory.
	keys map[string]*keyCount
	// changed are the dirty ones of keys.
	changed []*keyCount
	// begun says that the window began since it is in memory: keys holds all that there are, and what the database
	// may hold is of an evicted window.
	begun bool
	// exists says that something was counted in the window: it is among the starts.
	exists bool
	// recent says that the window was used since the last sweep.
	recent bool
	dirty  bool
}

// keyCount counts the requests of one key in a billing period.
type keyCount struct {
	id    string
	count int64
	dirty bool
}

// evictedWindow is a window that the next commit deletes, if it is dirty, or that an earlier one has deleted.
type evictedWindow struct {
	start int64
	dirty bool
	// again says that the window has begun again since, so that only the counts of its keys are deleted.
	again bool
}

// keyUse is the last day on which a key was used.
type keyUse struct {
	day   int64
	dirty bool
}

const (
	secondsPerMinute = 60
	secondsPerDay    = 24 * 60 * 60
)

func minuteOf(t time.Time) int64 { return floorDiv(t.Unix(), secondsPerMinute) }
func dayOf(t time.Time) int64    { return floorDiv(t.Unix(), secondsPerDay) }

func floorDiv(n, by int64) int64 {
	q := n / by
	if n%by < 0 {
		q--
	}
	return q
}

// window returns a window, and reads it from the database if it is not in memory. The pointer is valid until the next
// window of the set is asked for.
func (s *Store) window(account string, set *windowSet, start int64) (*window, error) {
	for i := range set.cached {
		if w := &set.cached[i]; w.start == start {
			w.recent = true
			return w, nil
		}
	}
	w := window{start: start, recent: true}
	if !set.listed {
		if err := s.listWindows(account, set, &w); err != nil {
			return nil, err
		}
	} else if _, w.exists = slices.BinarySearch(set.starts, start); w.exists {
		if err := s.readCounter(appendWindow(nil, set.table, account, start), w.decode); err != nil {
			return nil, err
		}
	}
	set.cached = append(set.cached, w)
	return &set.cached[len(set.cached)-1], nil
}

func (w *window) decode(v []byte) (err error) {
	w.count, w.flagged, err = decodePeriod(v)
	return err
}

// listWindows reads which windows exist, and decodes the wanted one if it is among them. It is called once for each
// tally and generation of the database.
func (s *Store) listWindows(account string, set *windowSet, wanted *window) error {
	prefix := ownedPrefix(set.table, account)
	var starts []int64
	for r, err := range s.scan(prefix, nil) {
		if err != nil {
			return err
		}
		start := sortable(r.Key[len(prefix):])
		starts = append(starts, start)
		if wanted == nil || start != wanted.start {
			continue
		}
		wanted.exists = true
		if err := r.decode(wanted.decode); err != nil {
			return err
		}
	}
	set.starts, set.listed = starts, true
	return nil
}

// keyCount returns the count of a key in a period, and reads it from the database if it is not in memory. Without a
// key it returns nil. It is valid as long as the window is.
func (s *Store) keyCount(account string, w *window, key string) (*keyCount, error) {
	if key == "" {
		return nil, nil
	}
	if k, ok := w.keys[key]; ok {
		return k, nil
	}
	k := &keyCount{id: key}
	if w.exists && !w.begun {
		err := s.readCounter(append(appendWindow(nil, 'q', account, w.start), key...), func(v []byte) error {
			_, err := decodeCounts(v, &k.count)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if w.keys == nil {
		w.keys = make(map[string]*keyCount, 1)
	}
	w.keys[key] = k
	return k, nil
}

// add adds n, which may be negative, to the count of a key in a window that exists. K is nil for a call without a key.
func (w *window) add(k *keyCount, n int64) {
	if k == nil || !w.exists {
		return
	}
	k.count = max(k.count+n, 0)
	w.change(k)
}

func (w *window) change(k *keyCount) {
	if !k.dirty {
		k.dirty = true
		w.changed = append(w.changed, k)
	}
}

// count counts n requests in a window. The first count in a window evicts those that are not kept beside it.
func (set *windowSet) count(w *window, n int64) {
	if !w.exists {
		w.exists, w.begun = true, true
		for i := range set.evicted {
			if e := &set.evicted[i]; e.start == w.start {
				e.again = true
			}
		}
		i, _ := slices.BinarySearch(set.starts, w.start)
		set.starts = slices.Insert(set.starts, i, w.start)
		older, newer := evictions(len(set.starts), i, set.keep)
		set.evict(i+1, newer)
		set.evict(0, older)
	}
	w.count += n
	w.dirty = true
}

// evictions returns how many windows are not kept beside the one at index i: how many of the oldest before it, and
// how many of the oldest after it.
func evictions(windows, i, keep int) (older, newer int) {
	return max(i-keep, 0), max(windows-i-1-keep, 0)
}

// evict evicts n windows from an index on. They keep their places in memory, because pointers to others are in use.
func (set *windowSet) evict(from, n int) {
	for _, start := range set.starts[from : from+n] {
		set.evicted = append(set.evicted, evictedWindow{start: start, dirty: true})
		for i := range set.cached {
			if w := &set.cached[i]; w.start == start {
				*w = window{start: start}
			}
		}
	}
	set.starts = slices.Delete(set.starts, from, from+n)
}

// readCounter decodes a record if there is one.
func (s *Store) readCounter(key []byte, decode func([]byte) error) error {
	records, err := s.supervisor.get(key)
	if err != nil || absent(records[0]) {
		return err
	}
	return record(records[0]).decode(decode)
}

// use notes that a key was used on a day.
func (t *tally) use(key string, day int64) {
	if u, ok := t.keys[key]; ok && u.day == day {
		return
	}
	if t.keys == nil {
		t.keys = make(map[string]keyUse, 1)
	}
	t.keys[key] = keyUse{day: day, dirty: true}
	t.keysDirty = true
}

// markAllDirty marks everything as changed, after a commit failed. Values are absolute: writing one again does no harm.
func (t *tally) markAllDirty() {
	for _, set := range t.windowSets() {
		for i := range set.cached {
			w := &set.cached[i]
			if w.dirty = w.exists; !w.exists {
				continue
			}
			for _, k := range w.keys {
				w.change(k)
			}
		}
		for i := range set.evicted {
			set.evicted[i].dirty = true
		}
	}
	for id, u := range t.keys {
		t.keys[id] = keyUse{u.day, true}
		t.keysDirty = true
	}
}

// changes is [tally.entries] with the deletion of what the database holds of the keys of evicted periods. After an
// error nothing is appended, and the tally is as dirty as before. The caller holds committing, so that the database
// holds all that is not in memory.
func (s *Store) changes(t *tally, to []disk.Entry, buf []byte) ([]disk.Entry, []byte, error) {
	before := len(to)
	for _, e := range t.periods.evicted {
		if !e.dirty {
			continue
		}
		for r, err := range s.scan(appendWindow(nil, 'q', t.account, e.start), nil) {
			if err != nil {
				return to[:before], buf, err
			}
			to = append(to, disk.Entry{Key: r.Key, Delete: true})
		}
	}
	to, buf = t.entries(to, buf)
	return to, buf, nil
}

// entries appends the changed records to to, and marks the tally as clean. Their keys and values are appended to buf.
func (t *tally) entries(to []disk.Entry, buf []byte) ([]disk.Entry, []byte) {
	for _, set := range t.windowSets() {
		for i := range set.evicted {
			if e := &set.evicted[i]; e.dirty {
				e.dirty = false
				if !e.again {
					to = append(to, disk.Entry{Key: appendWindow(nil, set.table, t.account, e.start), Delete: true})
				}
			}
		}
		for i := range set.cached {
			if w := &set.cached[i]; w.dirty {
				w.dirty = false
				from := len(buf)
				buf = appendWindow(buf, set.table, t.account, w.start)
				value := len(buf)
				buf = appendPeriod(buf, w.count, w.flagged)
				to = append(to, disk.Entry{Key: buf[from:value:value], Value: buf[value:len(buf):len(buf)]})
				to, buf = w.keyEntries(to, buf, t.account)
			}
		}
	}
	if t.keysDirty {
		for id, u := range t.keys {
			if u.dirty {
				t.keys[id] = keyUse{day: u.day}
				to = append(to, disk.Entry{Key: lastUsedKey(id), Value: appendCounts(nil, u.day)})
			}
		}
	}
	t.dirty, t.keysDirty = false, false
	return to, buf
}

// keyEntries appends the changed counts of keys, as entries does.
func (w *window) keyEntries(to []disk.Entry, buf []byte, account string) ([]disk.Entry, []byte) {
	for i, k := range w.changed {
		k.dirty, w.changed[i] = false, nil
		from := len(buf)
		buf = append(appendWindow(buf, 'q', account, w.start), k.id...)
		value := len(buf)
		buf = appendCounts(buf, k.count)
		to = append(to, disk.Entry{Key: buf[from:value:value], Value: buf[value:len(buf):len(buf)]})
	}
	w.changed = w.changed[:0]
	return to, buf
}

// trim drops the windows from memory that were not used since the last sweep. It is called when the tally is clean
// and no batch with it is under way.
func (t *tally) trim() {
	for _, set := range t.windowSets() {
		set.cached = slices.DeleteFunc(set.cached, func(w window) bool { return !w.recent })
		for i := range set.cached {
			set.cached[i].recent = false
		}
		set.evicted = nil
	}
}

// reset makes the tally read everything again, unless it holds counts that the database does not. The database was
// reopened, and changes of the directory may have been undone.
func (t *tally) reset() {
	t.incarnation = ""
	if t.dirty || t.batch != nil && !t.batch.committed() {
		return
	}
	for _, set := range t.windowSets() {
		set.listed, set.starts, set.cached, set.evicted = false, nil, nil, nil
	}
	t.keys, t.keysDirty = nil, false
}

// isCurrent reports whether the account of a charge is still the stored one.
func (s *Store) isCurrent(t *tally, charge quota.Charge) (bool, error) {
	if charge.Incarnation == "" || charge.Incarnation == t.incarnation {
		return true, nil
	}
	if t.incarnation != "" {
		return false, nil // a tally does not outlive its account
	}
	var a quota.Account
	err := s.readAccount(charge.Account, &a)
	if errors.Is(err, quota.ErrNotFound) {
		return false, nil
	}
	t.incarnation = a.Incarnation
	return err == nil && charge.Incarnation == a.Incarnation, err
}

// lastUsed returns the day on which a key was last used, such as "2026-01-02", or nothing.
func (s *Store) lastUsed(k quota.Key) (string, error) {
	day := int64(-1)
	if t, ok := s.counters.find(k.Account); ok {
		t.mu.Lock()
		if u, ok := t.keys[k.ID]; ok && !t.removed {
			day = u.day
		}
		t.mu.Unlock()
	}
	if day < 0 {
		err := s.readCounter(lastUsedKey(k.ID), func(v []byte) error {
			_, err := decodeCounts(v, &day)
			return err
		})
		if err != nil {
			return "", fmt.Errorf("key %s: %w", k.ID, err)
		}
	}
	if day < 0 {
		return "", nil
	}
	return dayText(day), nil
}

// dayText returns a day as quota.Key has it.
func dayText(day int64) string { return time.Unix(day*secondsPerDay, 0).UTC().Format(time.DateOnly) }
