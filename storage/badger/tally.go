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

// tally is what is known in memory of one account's counts. While it is in the table of tallies it is the authority: the
// database holds what it held when it was last committed. Windows are read from the database when they are first asked
// for and dropped when they are committed and nobody asks for them.
type tally struct {
	account string

	mu sync.Mutex
	// gone says that the tally is no longer in the table: who finds it looks again.
	gone bool
	// dirty says that something changed since the writer last took the tally over; the tally is then on the writer's list.
	dirty bool
	// batch is the one that took the tally over last, nil when the tally is as it was read.
	batch *batch
	// used is when the tally was last asked for, in sweeps.
	used int64
	// epoch is how often the database had come back when the tally was last asked for.
	epoch int64

	// incarnation is that of the stored account; empty when it is not known.
	incarnation            string
	minutes, days, periods windows
	keys                   map[string]keyUse
}

func newTally(account string) *tally {
	return &tally{
		account: account,
		minutes: windows{table: 'm', keep: quota.KeptMinutes},
		days:    windows{table: 'd', keep: quota.KeptDays},
		periods: windows{table: 'p', keep: quota.KeptPeriods},
	}
}

// kinds are all windows of the tally.
func (t *tally) kinds() [3]*windows { return [3]*windows{&t.minutes, &t.days, &t.periods} }

// windows are those of one kind.
type windows struct {
	table byte
	keep  int // see [quota.KeptDays]
	// listed says that all has been read: the windows that there are, the oldest first, in the database or only in memory.
	listed bool
	all    []int64
	// hand are the windows in memory.
	hand []window
	// forgotten are windows that the database may still hold.
	forgotten []forgotten
}

// window counts the requests of a minute, a day or a billing period. It is at a number of minutes or days since 1970, or at the
// Unix time at which the period begins.
type window struct {
	at, count int64
	flagged   map[string]int64 // only of a period
	// there says that the window is in the list: something was counted in it.
	there bool
	// asked says that somebody asked for the window since the last sweep.
	asked bool
	dirty bool
}

// forgotten is a window that is to be removed with the next commit, if it is dirty, or was with one before.
type forgotten struct {
	at    int64
	dirty bool
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

// window returns a window of a kind, read from the database when it is not in memory. The pointer holds until the next window of
// this kind is asked for.
func (s *Store) window(account string, of *windows, at int64) (*window, error) {
	for i := range of.hand {
		if w := &of.hand[i]; w.at == at {
			w.asked = true
			return w, nil
		}
	}
	w := window{at: at, asked: true}
	if !of.listed {
		if err := s.list(account, of, &w); err != nil {
			return nil, err
		}
	} else if _, w.there = slices.BinarySearch(of.all, at); w.there {
		if err := s.readCounter(appendWindow(nil, of.table, account, at), w.decode); err != nil {
			return nil, err
		}
	}
	of.hand = append(of.hand, w)
	return &of.hand[len(of.hand)-1], nil
}

func (w *window) decode(v []byte) (err error) {
	w.count, w.flagged, err = decodePeriod(v)
	return err
}

// list reads which windows there are, and one of them if it is among them. That is done once in the life of a tally.
func (s *Store) list(account string, of *windows, wanted *window) error {
	prefix := ownedPrefix(of.table, account)
	var all []int64
	for r, err := range s.scan(prefix, nil) {
		if err != nil {
			return err
		}
		at := sortable(r.Key[len(prefix):])
		all = append(all, at)
		if wanted == nil || at != wanted.at {
			continue
		}
		wanted.there = true
		if err := r.decode(wanted.decode); err != nil {
			return err
		}
	}
	of.all, of.listed = all, true
	return nil
}

// count counts in a window. When it is the first time, windows that are not kept beside this one are forgotten.
func (of *windows) count(w *window, n int64) {
	if !w.there {
		w.there = true
		of.forgotten = slices.DeleteFunc(of.forgotten, func(f forgotten) bool { return f.at == w.at })
		i, _ := slices.BinarySearch(of.all, w.at)
		of.all = slices.Insert(of.all, i, w.at)
		older, newer := crowdedOut(len(of.all), i, of.keep)
		of.forget(i+1, newer)
		of.forget(0, older)
	}
	w.count += n
	w.dirty = true
}

// crowdedOut returns for how many of the oldest windows before one at an index, and of the oldest after it, there is no room
// beside it.
func crowdedOut(windows, i, keep int) (older, newer int) {
	return max(i-keep, 0), max(windows-i-1-keep, 0)
}

// forget forgets some windows. They stay in their places in memory: others are pointed to.
func (of *windows) forget(from, n int) {
	for _, at := range of.all[from : from+n] {
		of.forgotten = append(of.forgotten, forgotten{at, true})
		for i := range of.hand {
			if w := &of.hand[i]; w.at == at {
				*w = window{at: at}
			}
		}
	}
	of.all = slices.Delete(of.all, from, from+n)
}

// readCounter decodes a record if there is one.
func (s *Store) readCounter(key []byte, decode func([]byte) error) error {
	records, err := s.keeper.get(key)
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
}

// redirty marks everything as changed, after a commit failed. Values are absolute: writing one again does no harm.
func (t *tally) redirty() {
	for _, of := range t.kinds() {
		for i := range of.hand {
			of.hand[i].dirty = of.hand[i].there
		}
		for i := range of.forgotten {
			of.forgotten[i].dirty = true
		}
	}
	for id, u := range t.keys {
		t.keys[id] = keyUse{u.day, true}
	}
}

// entries are the records that changed, and the tally is clean again. buf is appended to and returned: keys and values stand
// in it.
func (t *tally) entries(to []disk.Entry, buf []byte) ([]disk.Entry, []byte) {
	for _, of := range t.kinds() {
		for i := range of.forgotten {
			if f := &of.forgotten[i]; f.dirty {
				f.dirty = false
				to = append(to, disk.Entry{Key: appendWindow(nil, of.table, t.account, f.at), Delete: true})
			}
		}
		for i := range of.hand {
			if w := &of.hand[i]; w.dirty {
				w.dirty = false
				from := len(buf)
				buf = appendWindow(buf, of.table, t.account, w.at)
				value := len(buf)
				buf = appendPeriod(buf, w.count, w.flagged)
				to = append(to, disk.Entry{Key: buf[from:value:value], Value: buf[value:len(buf):len(buf)]})
			}
		}
	}
	for id, u := range t.keys {
		if u.dirty {
			t.keys[id] = keyUse{day: u.day}
			to = append(to, disk.Entry{Key: lastUsedKey(id), Value: appendCounts(nil, u.day)})
		}
	}
	t.dirty = false
	return to, buf
}

// trim drops the windows that nobody asked for since the last time. It is called when nothing is dirty or on its way to the disk.
func (t *tally) trim() {
	for _, of := range t.kinds() {
		of.hand = slices.DeleteFunc(of.hand, func(w window) bool { return !w.asked })
		for i := range of.hand {
			of.hand[i].asked = false
		}
		of.forgotten = nil
	}
}

// reread makes the tally read again what it has read, if it holds nothing that the database does not: the database has come back,
// and changes of the directory may have been taken back.
func (t *tally) reread() {
	t.incarnation = ""
	if t.dirty || t.batch != nil && !t.batch.committed() {
		return
	}
	for _, of := range t.kinds() {
		of.listed, of.all, of.hand, of.forgotten = false, nil, nil, nil
	}
	t.keys = nil
}

// lives reports whether the account of a charge is still the stored one.
func (s *Store) lives(t *tally, charge quota.Charge) (bool, error) {
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

// lastUsed returns the day on which a key was last used, as it is shown, or nothing.
func (s *Store) lastUsed(k quota.Key) (string, error) {
	day := int64(-1)
	if t, ok := s.counters.find(k.Account); ok {
		t.mu.Lock()
		if u, ok := t.keys[k.ID]; ok && !t.gone {
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
	return time.Unix(day*secondsPerDay, 0).UTC().Format(time.DateOnly), nil
}
