// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package audit keeps a record of what people do to the service: who made, changed or revoked what, and when.
//
// A [Log] only grows. Its entries are numbered without gaps, and each has the hash of the entry before, so that an
// entry that somebody has changed or taken out is found by [Log.Verify]. Only the oldest entries go, by [Log.Trim],
// which leaves the hash of the last of them. Several nodes with one store write one log.
package audit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/caddy-moderation/caddy-moderation/documents"
)

// collection is the collection of all documents of the log:
//
//	e/ number     entry, as JSON
//	m/head        the number and the hash of the last entry
//	m/tail        the number and the hash of the last entry that was trimmed
const collection = "audit"

// ErrBroken says that the log is not what was written. The message names the entry.
var ErrBroken = errors.New("the audit log is broken")

// Via says by which way something was done.
type Via string

// The ways.
const (
	// Desk is a page of the desk. The actor is the person as the desk knows it.
	Desk Via = "desk"
	// Admin is Caddy's admin endpoint. The actor is whom the caller has named, which nobody has checked: the user of
	// the operating system who has called the command.
	Admin Via = "admin"
	// API is a call with a key. The actor is the id of the key.
	API Via = "api"
)

// Entry is something that was done.
type Entry struct {
	// Number counts the entries, from 1 on. It is set by the log.
	Number uint64 `json:"number"`
	// Time is in UTC. It is set by the log.
	Time time.Time `json:"time"`
	// Actor is who did it. Default: nobody knows.
	Actor string `json:"actor,omitempty"`
	Via   Via    `json:"via"`
	// Operator says that it was done by the right of an operator, and not by that of a member of the account.
	Operator bool `json:"operator,omitempty"`
	// Action is what was done, such as "key.revoke".
	Action string `json:"action"`
	// Account is the id of the account that it was done to, if it was.
	Account string `json:"account,omitempty"`
	// Target is the id of what it was done to, such as that of a key, unless that is the account.
	Target string `json:"target,omitempty"`
	// Details say more, such as from what to what a member was changed. They have no secrets and no content.
	Details map[string]string `json:"details,omitempty"`
	// Previous is the SHA-256 of the entry before as the store has it, in hexadecimal digits; for the first it is
	// empty.
	Previous string `json:"previous,omitempty"`
}

// place is where the log ends or begins.
type place struct {
	Number uint64 `json:"number"`
	Hash   string `json:"hash"`
}

// Log is the record. Its methods can be called at the same time, on several nodes, too.
type Log struct {
	// Store keeps the documents. Required.
	Store documents.Store
	// Now is the clock. Required.
	Now func() time.Time
}

// Limits of an entry. What is longer is cut; where that is a detail, it ends with an ellipsis, so that nobody takes it
// for all that was changed.
const (
	maxName    = 200 // bytes
	maxDetails = 32
	// maxValue is the length of a detail, and maxAllDetails that of all of them with their names, in bytes. As JSON
	// they are at most six times as long, and an entry fits a document.
	maxValue      = 8 << 10
	maxAllDetails = 20 << 10
)

// appendTries is how often an entry is added again after another one was added at the same time.
const appendTries = 50

const (
	headKey = "m/head"
	tailKey = "m/tail"
)

func entryKey(number uint64) string { return fmt.Sprintf("e/%016x", number) }

func hashOf(value []byte) string {
	sum := sha256.Sum256(value)
	return hex.EncodeToString(sum[:])
}

// read returns the head or the tail with its document.
func (l *Log) read(ctx context.Context, key string) (p place, found documents.Document, err error) {
	all, err := l.Store.Documents(ctx, collection, key)
	if err != nil {
		return p, found, err
	}
	if found = all[0]; found.Revision == 0 {
		return p, found, nil
	}
	if err := json.Unmarshal(found.Value, &p); err != nil {
		return p, found, fmt.Errorf("%w: %s cannot be read", ErrBroken, key)
	}
	return p, found, nil
}

// Append adds an entry. When it returns nil the entry survives the loss of power.
func (l *Log) Append(ctx context.Context, e Entry) error {
	e.Actor, e.Target = cut(e.Actor), cut(e.Target)
	e.Details = fitting(e.Details)
	for try := 1; ; try++ {
		err := l.appendOnce(ctx, e)
		if !errors.Is(err, documents.ErrConflict) || try == appendTries {
			return err
		}
	}
}

func (l *Log) appendOnce(ctx context.Context, e Entry) error {
	head, document, err := l.read(ctx, headKey)
	if err != nil {
		return err
	}
	e.Number, e.Previous, e.Time = head.Number+1, head.Hash, l.Now().UTC()
	value, err := json.Marshal(e)
	if err != nil {
		return err
	}
	newHead, err := json.Marshal(place{e.Number, hashOf(value)})
	if err != nil {
		return err
	}
	return l.Store.ChangeDocuments(ctx, collection,
		documents.Change{Key: entryKey(e.Number), Value: value, If: documents.Absent()},
		documents.Change{Key: headKey, Value: newHead, If: document.Unchanged()},
	)
}

// cut returns the beginning of a name that an entry has room for.
func cut(name string) string {
	if len(name) > maxName {
		name = name[:maxName]
	}
	return strings.ToValidUTF8(name, "\uFFFD")
}

// fitting returns the details that an entry has room for.
func fitting(all map[string]string) map[string]string {
	details, left := make(map[string]string, min(len(all), maxDetails)), maxAllDetails
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if len(details) == maxDetails {
			break
		}
		value := all[name]
		name = cut(name)
		left -= len(name)
		if limit := min(maxValue, max(left, len(ellipsis))); len(value) > limit {
			value = value[:limit-len(ellipsis)] + ellipsis
		}
		details[name] = strings.ToValidUTF8(value, "\uFFFD")
		left -= len(details[name])
	}
	return details
}

const ellipsis = "…"

// stored is an entry with its hash.
type stored struct {
	Entry
	hash string
}

// entries yields the entries with some numbers that there are.
func (l *Log) entries(ctx context.Context, numbers []uint64) ([]stored, error) {
	keys := make([]string, len(numbers))
	for i, number := range numbers {
		keys[i] = entryKey(number)
	}
	found, err := l.Store.Documents(ctx, collection, keys...)
	if err != nil {
		return nil, err
	}
	all := make([]stored, 0, len(found))
	for i, d := range found {
		if d.Revision == 0 {
			continue
		}
		s := stored{hash: hashOf(d.Value)}
		if err := json.Unmarshal(d.Value, &s.Entry); err != nil || s.Number != numbers[i] {
			return nil, fmt.Errorf("%w: entry %d cannot be read", ErrBroken, numbers[i])
		}
		all = append(all, s)
	}
	return all, nil
}

// Query says which entries are wanted. Empty members are fulfilled by all of them.
type Query struct {
	Account, Actor, Action string
	// Since is the time of the earliest.
	Since time.Time
	// Before is the number that they are below. Default: all.
	Before uint64
}

func (q *Query) selects(e *Entry) bool {
	return (q.Account == "" || q.Account == e.Account) && (q.Actor == "" || q.Actor == e.Actor) &&
		(q.Action == "" || q.Action == e.Action || strings.HasPrefix(e.Action, q.Action+".")) &&
		!e.Time.Before(q.Since)
}

// Latest yields entries, the latest first. The sequence ends at the first error.
func (l *Log) Latest(ctx context.Context, q Query) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		head, _, err := l.read(ctx, headKey)
		if err != nil {
			yield(Entry{}, err)
			return
		}
		next := head.Number
		if q.Before > 0 {
			next = min(next, q.Before-1)
		}
		for next > 0 {
			var numbers []uint64
			for ; next > 0 && len(numbers) < documents.MaxChanges/2; next-- {
				numbers = append(numbers, next)
			}
			all, err := l.entries(ctx, numbers)
			if err != nil {
				yield(Entry{}, err)
				return
			}
			for i := range all {
				if q.selects(&all[i].Entry) && !yield(all[i].Entry, nil) {
					return
				}
			}
			if len(all) < len(numbers) || !q.Since.IsZero() && all[len(all)-1].Time.Before(q.Since) {
				return // what is before was trimmed, or is too old
			}
		}
	}
}

// All yields entries, the earliest first. The sequence ends at the first error, which wraps [ErrBroken] if an entry is
// missing or was changed. It reads them all, also those that are not selected.
func (l *Log) All(ctx context.Context, q Query) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		head, _, err := l.read(ctx, headKey)
		var tail place
		if err == nil {
			tail, _, err = l.read(ctx, tailKey)
		}
		if err != nil {
			yield(Entry{}, err)
			return
		}
		previous := tail.Hash
		for next := tail.Number + 1; next <= head.Number; {
			var numbers []uint64
			for ; next <= head.Number && len(numbers) < documents.MaxChanges/2; next++ {
				numbers = append(numbers, next)
			}
			all, err := l.entries(ctx, numbers)
			if err == nil && len(all) < len(numbers) {
				if now, _, err := l.read(ctx, tailKey); err == nil && now.Number >= numbers[0] {
					// It was trimmed meanwhile.
					next, previous = now.Number+1, now.Hash
					continue
				}
				err = fmt.Errorf("%w: an entry from %d to %d is missing", ErrBroken, numbers[0], numbers[len(numbers)-1])
			}
			if err != nil {
				yield(Entry{}, err)
				return
			}
			for i := range all {
				e := &all[i]
				if e.Previous != previous {
					yield(Entry{}, fmt.Errorf("%w: entry %d does not follow the one before it", ErrBroken, e.Number))
					return
				}
				if previous = e.hash; q.selects(&e.Entry) && !yield(e.Entry, nil) {
					return
				}
			}
		}
		if previous != head.Hash {
			yield(Entry{}, fmt.Errorf("%w: the last entry is not the one that was written", ErrBroken))
		}
	}
}

// Verify reads the whole log and returns how many entries there are. The error wraps [ErrBroken] if an entry is missing
// or was changed. Who can write to the store can write another log from the beginning: keep the number and the hash of
// the last entry elsewhere to notice that, or an export.
func (l *Log) Verify(ctx context.Context) (entries uint64, err error) {
	for _, err := range l.All(ctx, Query{}) {
		if err != nil {
			return entries, err
		}
		entries++
	}
	return entries, nil
}

// Trim removes the entries from before a point in time, up to some hundred at once, and returns how many. The last
// entry stays.
func (l *Log) Trim(ctx context.Context, before time.Time) (removed int, err error) {
	head, _, err := l.read(ctx, headKey)
	if err != nil {
		return 0, err
	}
	tail, document, err := l.read(ctx, tailKey)
	if err != nil {
		return 0, err
	}
	var numbers []uint64
	for next := tail.Number + 1; next < head.Number && len(numbers) < documents.MaxChanges-1; next++ {
		numbers = append(numbers, next)
	}
	if len(numbers) == 0 {
		return 0, nil
	}
	all, err := l.entries(ctx, numbers[:1])
	if err != nil || len(all) == 0 || !all[0].Time.Before(before) {
		return 0, err // most often there is nothing to do
	}
	if all, err = l.entries(ctx, numbers); err != nil {
		return 0, err
	}
	var changes []documents.Change
	for i := range all {
		if !all[i].Time.Before(before) {
			break
		}
		changes = append(changes, documents.Change{Key: entryKey(all[i].Number), Delete: true})
		tail = place{all[i].Number, all[i].hash}
	}
	value, err := json.Marshal(tail)
	if err != nil {
		return 0, err
	}
	removed = len(changes)
	changes = append(changes, documents.Change{Key: tailKey, Value: value, If: document.Unchanged()})
	if err := l.Store.ChangeDocuments(ctx, collection, changes...); err != nil {
		if errors.Is(err, documents.ErrConflict) {
			return 0, nil // another node does it
		}
		return 0, err
	}
	return removed, nil
}
