// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package contents moves everything that a store keeps to another store, or into a file and back, whatever the stores
// are.
//
// What a store keeps is a sequence of items: see [Item]. A store that gives its items is a [Source], a place that is
// filled with items is a [Target]. [Move] copies from one to the other while the source is in use, and compares.
// [Writer] and [Read] are the file.
package contents

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/caddy-moderation/caddy-moderation/feedback"
	"github.com/caddy-moderation/caddy-moderation/quota"
)

// Errors of a [Target], which packages of stores wrap.
var (
	// ErrNotEmpty says that something is kept in the place that was to be filled. Nothing was touched.
	ErrNotEmpty = errors.New("it is not empty")
	// ErrUnfinished says that a place was filled with a part only.
	ErrUnfinished = errors.New("a restore or a migration into it did not finish")
	// ErrMoved says that everything was moved to another place, so that what is there is no longer the truth.
	ErrMoved = errors.New("everything in it was moved to another store")
)

// Item is one thing that a store keeps. One field is set.
//
// Later items replace earlier ones: an item with [Item.Forget] takes back what came before it, and others repeat or
// correct it. So the copy of a store that changes meanwhile need not begin again.
type Item struct {
	// Seeded is the mark that the first account was made.
	Seeded bool
	// Owner is what is kept under the id of one account, or a part of it.
	Owner *Owner
	// Feedback is a record of feedback. Its encoded form comes back as it was.
	Feedback *feedback.Record
	// Document is a document of a collection.
	Document *Document
	// Forget takes back items that came before.
	Forget *Forget
}

// Forget names what is taken back: everything of one owner, the documents of one collection or one of them, or the
// feedback records of one day.
type Forget struct {
	// Owner is the id of an account, or empty.
	Owner string `json:"owner,omitempty"`
	// Collection is the name of a collection of documents, or empty.
	Collection string `json:"collection,omitempty"`
	// Document is the key of a document of the collection. Default: all of them.
	Document string `json:"document,omitempty"`
	// Day is the UTC day of the times of feedback records, as a number of days since 1970. It holds without an Owner
	// and a Collection.
	Day int64 `json:"day,omitempty"`
}

// Document is a document without its revision, which is another one in each store.
type Document struct {
	Collection string `json:"collection"`
	Key        string `json:"key"`
	Value      []byte `json:"value,omitempty"`
}

// Owner is what is kept under the id of one account, or a part of it: the same id may follow in another item with
// more. The account need not be stored: a declared one owns counts, and keys.
type Owner struct {
	ID string
	// Account is the stored account with its incarnation, nil without one.
	Account *quota.Account
	// Keys are its keys, each with its hash and the day of its last use.
	Keys []quota.Key
	// Minutes and Days are numbered since 1970, in UTC.
	Minutes, Days []Count
	Periods       []Period
	Bounds        []Bound
}

// Count is the number of requests in a window.
type Count struct {
	At       int64 `json:"at"`
	Requests int64 `json:"requests"`
}

// Period is what was counted in a billing period.
type Period struct {
	// Start is the Unix time of its start, in seconds and nanoseconds.
	Start    int64 `json:"start"`
	StartNS  int64 `json:"start_ns,omitempty"`
	Requests int64 `json:"requests"`
	// More says that the period came before, and that this adds categories and keys to it and no requests.
	More bool `json:"more,omitempty"`
	// Flagged and Keys count by category and by key id, without zeros.
	Flagged map[string]int64 `json:"flagged,omitempty"`
	Keys    map[string]int64 `json:"keys,omitempty"`
}

// Bound is what an account has used of its feedback bounds on a UTC day, numbered since 1970.
type Bound struct {
	Day     int64 `json:"day"`
	Records int64 `json:"records"`
	Bytes   int64 `json:"bytes"`
}

// Selection is a part of the contents of a store: some owners, the feedback of some days and the documents of some
// collections. Everything is a nil Selection.
type Selection struct {
	Owners      []string
	Days        []int64
	Collections []string
}

// Empty reports whether nothing is selected.
func (s *Selection) Empty() bool { return s != nil && s.size() == 0 }

// size is how many owners, days and collections are selected.
func (s *Selection) size() int { return len(s.Owners) + len(s.Days) + len(s.Collections) }

// Items are items in a sequence.
type Items = iter.Seq2[Item, error]

// Source gives what a store keeps.
type Source interface {
	// Contents yields everything, or what is selected. The parts of an owner follow each other. What is changed
	// meanwhile may be in it or not; what was acknowledged before the first item is asked for and not changed since is
	// in it. The mark [Item.Seeded] is there only without a selection.
	//
	// An error ends the sequence, except one that wraps storage.ErrDamaged: after that it goes on with the next
	// record if the consumer does.
	Contents(ctx context.Context, only *Selection) Items
}

// Target is a place that is being filled. Nothing else uses it, and until [Target.Finish] it is refused wherever a
// store is opened.
type Target interface {
	Source
	// Put keeps items. What the sequence yields as an error ends it, and is returned.
	Put(ctx context.Context, items Items) error
	// Finish makes everything survive the loss of power and the place one that can be opened.
	Finish(ctx context.Context) error
	// Close ends the use of the place. What is not finished stays unfinished.
	Close() error
	// Void makes a finished place an unfinished one again, because it is not the truth any more. It may be called
	// after Close.
	Void(ctx context.Context) error
}

// DayOf returns the number of the UTC day of an instant.
func DayOf(t time.Time) int64 {
	seconds := t.Unix()
	day := seconds / secondsPerDay
	if seconds%secondsPerDay < 0 {
		day--
	}
	return day
}

const secondsPerDay = 24 * 60 * 60
