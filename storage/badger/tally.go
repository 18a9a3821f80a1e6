// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package badger

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage/badger/disk"
)

// tally is what is known in memory of one account's counts. While it is in the table of tallies it is the authority: the
// database holds what it held when it was last committed. Windows are read from the database when they are first asked
// for and dropped when they are committed and old.
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

	minutes []window
	days    []window
	periods []period
	keys    map[string]keyUse
}

// window counts the requests of a minute or a day, which at numbers since 1970.
type window struct {
	at, count int64
	dirty     bool
}

// period counts the requests of a billing period, which begins at a Unix time, and what was flagged in it.
type period struct {
	window
	flagged map[string]int64
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

// minute returns the window of a minute, read from the database when it is not in memory. The pointer holds until the next call.
func (t *tally) minute(s *Store, at int64) (*window, error) {
	return s.window(&t.minutes, 'm', t.account, at)
}

func (t *tally) day(s *Store, at int64) (*window, error) {
	return s.window(&t.days, 'd', t.account, at)
}

func (s *Store) window(windows *[]window, table byte, account string, at int64) (*window, error) {
	for i := range *windows {
		if (*windows)[i].at == at {
			return &(*windows)[i], nil
		}
	}
	w := window{at: at}
	err := s.readCounter(appendWindow(nil, table, account, at), func(v []byte) error {
		_, err := decodeCounts(v, &w.count)
		return err
	})
	if err != nil {
		return nil, err
	}
	*windows = append(*windows, w)
	return &(*windows)[len(*windows)-1], nil
}

func (t *tally) period(s *Store, start time.Time) (*period, error) {
	at := start.Unix()
	for i := range t.periods {
		if t.periods[i].at == at {
			return &t.periods[i], nil
		}
	}
	p := period{window: window{at: at}}
	err := s.readCounter(appendWindow(nil, 'p', t.account, at), func(v []byte) (err error) {
		p.count, p.flagged, err = decodePeriod(v)
		return err
	})
	if err != nil {
		return nil, err
	}
	t.periods = append(t.periods, p)
	return &t.periods[len(t.periods)-1], nil
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
	for i := range t.minutes {
		t.minutes[i].dirty = true
	}
	for i := range t.days {
		t.days[i].dirty = true
	}
	for i := range t.periods {
		t.periods[i].dirty = true
	}
	for id, u := range t.keys {
		t.keys[id] = keyUse{u.day, true}
	}
}

// entries are the records that changed, and the tally is clean again. buf is appended to and returned: keys and values stand
// in it.
func (t *tally) entries(to []disk.Entry, buf []byte) ([]disk.Entry, []byte) {
	add := func(key, value []byte) { to = append(to, disk.Entry{Key: key, Value: value}) }
	windows := func(of []window, table byte) {
		for i := range of {
			if w := &of[i]; w.dirty {
				w.dirty = false
				from := len(buf)
				buf = appendWindow(buf, table, t.account, w.at)
				value := len(buf)
				buf = appendCounts(buf, w.count)
				add(buf[from:value:value], buf[value:len(buf):len(buf)])
			}
		}
	}
	windows(t.minutes, 'm')
	windows(t.days, 'd')
	for i := range t.periods {
		if p := &t.periods[i]; p.dirty {
			p.dirty = false
			from := len(buf)
			buf = appendWindow(buf, 'p', t.account, p.at)
			value := len(buf)
			buf = appendPeriod(buf, p.count, p.flagged)
			add(buf[from:value:value], buf[value:len(buf):len(buf)])
		}
	}
	for id, u := range t.keys {
		if u.dirty {
			t.keys[id] = keyUse{day: u.day}
			add(lastUsedKey(id), appendCounts(nil, u.day))
		}
	}
	t.dirty = false
	return to, buf
}

// trim drops all but the newest two windows of each kind. It is called when nothing is dirty or on its way to the disk.
func (t *tally) trim() {
	byTime := func(a, b window) int { return cmp.Compare(a.at, b.at) }
	t.minutes = newest(t.minutes, byTime)
	t.days = newest(t.days, byTime)
	t.periods = newest(t.periods, func(a, b period) int { return byTime(a.window, b.window) })
}

func newest[W any](windows []W, byTime func(a, b W) int) []W {
	if len(windows) <= 2 {
		return windows
	}
	slices.SortFunc(windows, byTime)
	return slices.Clone(windows[len(windows)-2:])
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
