// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package badger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/caddy-moderation/caddy-moderation/documents"
	"github.com/caddy-moderation/caddy-moderation/feedback"
	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage/badger/disk"
	"github.com/caddy-moderation/caddy-moderation/storage/contents"
)

const (
	// ownerTables are the tables whose keys begin with an owner, in the order in which an owner is read. The counts of
	// keys come after the periods that they belong to.
	ownerTables = "aumdpqb"
	// maxPart is how many elements a part of an owner has.
	maxPart = 500
	// exportRecords is how many records are read at once.
	exportRecords = 2000
)

// Contents implements [contents.Source].
func (s *Store) Contents(ctx context.Context, only *contents.Selection) contents.Items {
	return func(yield func(contents.Item, error) bool) {
		if err := s.ready(ctx); err != nil {
			yield(contents.Item{}, err)
			return
		}
		// Counts in memory reach the database first.
		if err := s.flush(ctx); err != nil {
			yield(contents.Item{}, err)
			return
		}
		e := &exporter{store: s, ctx: ctx, yield: yield, periods: make(map[int64]bool)}
		if only == nil {
			_ = e.seeded() && e.owners(e.all()) && e.feedback([]byte("f/"), nil) && e.documents([]byte("c/"))
			return
		}
		for _, id := range only.Owners {
			if !e.owners(e.one(id)) {
				return
			}
		}
		for _, day := range only.Days {
			if !e.feedback(dayOfFeedback(day), dayOfFeedback(day+1)) {
				return
			}
		}
		for _, collection := range only.Collections {
			if !e.documents(ownedPrefix('c', collection)) {
				return
			}
		}
	}
}

// dayOfFeedback begins the keys of the feedback of a day.
func dayOfFeedback(day int64) []byte { return appendSortable([]byte("f/"), day*secondsPerDay) }

// exporter yields items. Its methods return false when the consumer wants no more, or after an error that ends the
// sequence.
type exporter struct {
	store *Store
	ctx   context.Context
	yield func(contents.Item, error) bool

	// part is what is not yielded yet of the present owner, and size how many elements it has.
	part contents.Owner
	size int
	// hashes are those of the owner's keys that are not read yet, with their ids.
	hashes []quota.Hash
	ids    []string
	// periods are those of the owner that there are.
	periods map[int64]bool
}

// fail yields an error, and reports whether the sequence goes on.
func (e *exporter) fail(err error) bool {
	return e.yield(contents.Item{}, err) && errors.Is(err, errDamaged)
}

func (e *exporter) seeded() bool {
	seeded, err := e.store.Seeded(e.ctx)
	if err != nil {
		return e.fail(err)
	}
	return !seeded || e.yield(contents.Item{Seeded: true}, nil)
}

// feedback yields the records whose keys are in a range; a nil end is none.
func (e *exporter) feedback(from, end []byte) bool {
	for r, err := range e.store.scanFrom([]byte("f/"), from, exportRecords) {
		if err == nil {
			err = e.store.ready(e.ctx)
		}
		if err == nil && end != nil && bytes.Compare(r.Key, end) >= 0 {
			return true
		}
		var f feedback.Record
		if err == nil {
			err = r.decode(func(v []byte) error { return decodeJSON(v, &f) })
		}
		if err != nil {
			if !e.fail(err) {
				return false
			}
			continue
		}
		if !e.yield(contents.Item{Feedback: &f}, nil) {
			return false
		}
	}
	return true
}

// documents yields the documents whose keys begin with a prefix.
func (e *exporter) documents(prefix []byte) bool {
	for r, err := range e.store.scanFrom(prefix, nil, exportRecords) {
		if err == nil {
			err = e.store.ready(e.ctx)
		}
		var d documents.Document
		var collection string
		if err == nil {
			err = r.decode(func(v []byte) error {
				var ok bool
				if collection, d.Key, ok = splitDocumentKey(r.Key); !ok {
					return errDamaged
				}
				return decodeDocument(v, &d)
			})
		}
		if err != nil {
			if !e.fail(err) {
				return false
			}
			continue
		}
		item := contents.Item{Document: &contents.Document{Collection: collection, Key: d.Key, Value: d.Value}}
		if !e.yield(item, nil) {
			return false
		}
	}
	return true
}

// cursor is a table that is being read, in the order of its owners.
type cursor struct {
	table  byte
	next   func() (record, error, bool)
	stop   func()
	record record
	owner  []byte
	ended  bool
}

// all returns a cursor for each table of owners.
func (e *exporter) all() []*cursor {
	var cursors []*cursor
	for _, table := range []byte(ownerTables) {
		cursors = append(cursors, newCursor(table, e.store.scanFrom([]byte{table, '/'}, nil, exportRecords)))
	}
	return cursors
}

// one is all for one owner.
func (e *exporter) one(id string) []*cursor {
	cursors := []*cursor{newCursor('a', func(yield func(record, error) bool) {
		records, err := e.store.supervisor.get(accountKey(id))
		switch {
		case err != nil:
			yield(record{}, err)
		case !absent(records[0]):
			yield(record{Key: accountKey(id), Value: records[0].Value, Damaged: records[0].Damaged}, nil)
		}
	})}
	for _, table := range []byte(ownerTables[1:]) {
		cursors = append(cursors, newCursor(table, e.store.scanFrom(ownedPrefix(table, id), nil, exportRecords)))
	}
	return cursors
}

func newCursor(table byte, records iter.Seq2[record, error]) *cursor {
	next, stop := iter.Pull2(records)
	return &cursor{table: table, next: next, stop: stop}
}

// advance reads the next record.
func (c *cursor) advance() error {
	r, err, ok := c.next()
	if err != nil || !ok {
		c.ended = true
		return err
	}
	c.record = r
	c.owner = r.Key[2:]
	if c.table != 'a' {
		c.owner, _, _ = bytes.Cut(c.owner, []byte{0})
	}
	return nil
}

// owners yields what the cursors hold, owner by owner. Ids hold no zero byte, so that all tables have the owners in one
// order.
func (e *exporter) owners(cursors []*cursor) bool {
	for _, c := range cursors {
		defer c.stop()
		if err := c.advance(); err != nil {
			return e.fail(err)
		}
	}
	for {
		var owner []byte
		for _, c := range cursors {
			if !c.ended && (owner == nil || bytes.Compare(c.owner, owner) < 0) {
				owner = c.owner
			}
		}
		if owner == nil {
			return true
		}
		if !e.owner(string(owner), cursors) {
			return false
		}
	}
}

// owner yields one owner.
func (e *exporter) owner(id string, cursors []*cursor) bool {
	if err := e.store.ready(e.ctx); err != nil {
		return e.fail(err)
	}
	clear(e.periods)
	e.part, e.size = contents.Owner{ID: id}, 0
	for _, c := range cursors {
		for !c.ended && string(c.owner) == id {
			err := e.add(c.record)
			if err != nil && !e.fail(err) {
				return false
			}
			if e.size >= maxPart && !e.flush() {
				return false
			}
			if err := c.advance(); err != nil {
				return e.fail(err)
			}
		}
		if c.table == 'u' && !e.keys() {
			return false
		}
	}
	return e.flush()
}

// flush yields what is collected.
func (e *exporter) flush() bool {
	if !e.keys() {
		return false
	}
	if e.size == 0 {
		return true
	}
	part := e.part
	e.part, e.size = contents.Owner{ID: part.ID}, 0
	return e.yield(contents.Item{Owner: &part}, nil)
}

// add adds a record to the part.
func (e *exporter) add(r record) error {
	rest := r.Key[min(len(r.Key), len(e.part.ID)+3):]
	e.size++
	switch r.Key[0] {
	case 'a':
		return r.decode(func(v []byte) error {
			e.part.Account = new(quota.Account)
			return decodeAccount(v, e.part.Account)
		})
	case 'u':
		if len(rest) < timeSize {
			return r.decode(func([]byte) error { return errDamaged })
		}
		var hash quota.Hash
		err := r.decode(func(v []byte) error { return decodeHash(v, &hash) })
		if err == nil {
			e.hashes, e.ids = append(e.hashes, hash), append(e.ids, string(rest[timeSize:]))
		}
		return err
	}
	if len(rest) < 8 {
		return r.decode(func([]byte) error { return errDamaged })
	}
	at, rest := sortable(rest), rest[8:]
	switch r.Key[0] {
	case 'm', 'd':
		c := contents.Count{At: at}
		err := r.decode(func(v []byte) (err error) {
			_, err = decodeCounts(v, &c.Requests)
			return err
		})
		if err != nil {
			return err
		}
		if r.Key[0] == 'm' {
			e.part.Minutes = append(e.part.Minutes, c)
		} else {
			e.part.Days = append(e.part.Days, c)
		}
	case 'p':
		p := contents.Period{Start: at}
		err := r.decode(func(v []byte) (err error) {
			p.Requests, p.Flagged, err = decodePeriod(v)
			return err
		})
		if err != nil {
			return err
		}
		for category, n := range p.Flagged {
			if n == 0 {
				delete(p.Flagged, category)
			}
		}
		e.periods[at] = true
		e.part.Periods = append(e.part.Periods, p)
	case 'q':
		return e.addKeyCount(r, at, string(rest))
	case 'b':
		b := contents.Bound{Day: at}
		err := r.decode(func(v []byte) (err error) {
			_, err = decodeCounts(v, &b.Records, &b.Bytes)
			return err
		})
		if err != nil {
			return err
		}
		e.part.Bounds = append(e.part.Bounds, b)
	}
	return nil
}

// addKeyCount adds the requests of a key to its period. An older version has left some behind without a period.
func (e *exporter) addKeyCount(r record, start int64, key string) error {
	var n int64
	err := r.decode(func(v []byte) (err error) {
		_, err = decodeCounts(v, &n)
		return err
	})
	if err != nil || n == 0 || !e.periods[start] {
		return err
	}
	var period *contents.Period
	for i := range e.part.Periods {
		if e.part.Periods[i].Start == start {
			period = &e.part.Periods[i]
		}
	}
	if period == nil {
		e.part.Periods = append(e.part.Periods, contents.Period{Start: start, More: true})
		period = &e.part.Periods[len(e.part.Periods)-1]
	}
	if period.Keys == nil {
		period.Keys = make(map[string]int64)
	}
	period.Keys[key] = n
	return nil
}

// keys reads the keys that are listed, and adds them to the part.
func (e *exporter) keys() bool {
	if len(e.hashes) == 0 {
		return true
	}
	names := make([][]byte, 0, 2*len(e.hashes))
	for i, hash := range e.hashes {
		names = append(names, hashKey(hash), lastUsedKey(e.ids[i]))
	}
	records, err := e.store.supervisor.get(names...)
	if err != nil {
		return e.fail(err)
	}
	for i, hash := range e.hashes {
		stored, used := records[2*i], records[2*i+1]
		if absent(stored) {
			continue // deleted meanwhile
		}
		var k quota.Key
		err := record(stored).decode(func(v []byte) error { return decodeJSON(v, &k) })
		if err != nil {
			// The record has the hash as its key, which tells nobody which key it is.
			err = unavailable(fmt.Errorf("%w: %s", errDamaged, describe(keyIDKey(e.ids[i]))))
		}
		if err == nil && !absent(used) {
			k.LastUsed, err = decodeLastUsed(used)
		}
		if err != nil {
			if !e.fail(err) {
				return false
			}
			continue
		}
		k.Hash = hash
		e.part.Keys = append(e.part.Keys, k)
	}
	e.hashes, e.ids = e.hashes[:0], e.ids[:0]
	return true
}

func decodeLastUsed(r disk.Record) (day string, err error) {
	err = record(r).decode(func(v []byte) error {
		var n int64
		if _, err := decodeCounts(v, &n); err != nil {
			return err
		}
		day = dayText(n)
		return nil
	})
	return day, err
}
