// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package contents

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
)

// Totals are how much a store keeps, for people to compare.
type Totals struct {
	Accounts int64 `json:"accounts"`
	Keys     int64 `json:"keys"`
	// Windows is the number of minutes, days and billing periods that have a count.
	Windows int64 `json:"windows"`
	// Requests is the sum of the requests of all billing periods.
	Requests int64 `json:"requests"`
	Feedback int64 `json:"feedback"`
	// Documents are those of all collections.
	Documents int64 `json:"documents,omitempty"`
	// Digest is a checksum of everything, the same for every store that keeps the same.
	Digest string `json:"digest"`
}

// String returns the totals as a line for people.
func (t Totals) String() string {
	return fmt.Sprintf("%d accounts, %d keys, %d counts of %d requests, %d feedback records, %d documents, "+
		"digest %s", t.Accounts, t.Keys, t.Windows, t.Requests, t.Feedback, t.Documents, t.Digest)
}

// unit is what is known of an owner, of a day of feedback, or of a collection, without having its items.
type unit struct {
	// high and low are a checksum that does not depend on the order of the elements: the sum of their hashes.
	high, low                         uint64
	requests                          int64
	accounts, keys, windows, feedback int32
	documents                         int64
}

// add adds the hash of an element.
func (u *unit) add(hash [sha256.Size]byte) {
	low := u.low + binary.BigEndian.Uint64(hash[8:])
	if low < u.low {
		u.high++
	}
	u.low = low
	u.high += binary.BigEndian.Uint64(hash[:])
}

// digest is what is known of contents without having them.
type digest struct {
	seeded bool
	owners map[string]unit
	days   map[int64]unit
	// collections are those of documents.
	collections map[string]unit
	buf         []byte
}

func newDigest() *digest {
	return &digest{
		owners: make(map[string]unit), days: make(map[int64]unit), collections: make(map[string]unit),
	}
}

// add adds an item that is none to forget.
func (d *digest) add(item Item) error {
	switch {
	case item.Seeded:
		d.seeded = true
	case item.Owner != nil:
		return d.addOwner(item.Owner)
	case item.Feedback != nil:
		encoded, err := encodeRecord(item.Feedback)
		if err != nil {
			return err
		}
		day := DayOf(item.Feedback.Time)
		u := d.days[day]
		u.add(d.hash('f', encoded))
		u.feedback++
		d.days[day] = u
	case item.Document != nil:
		u := d.collections[item.Document.Collection]
		u.add(d.hash('o', append([]byte(item.Document.Key+"\x00"), item.Document.Value...)))
		u.documents++
		d.collections[item.Document.Collection] = u
	}
	return nil
}

// addOwner adds an owner, or a part of one: how it is divided makes no difference.
func (d *digest) addOwner(o *Owner) error {
	u := d.owners[o.ID]
	if o.Account != nil {
		encoded, err := encodeAccount(o.Account)
		if err != nil {
			return err
		}
		u.add(d.hash('a', encoded))
		u.accounts++
	}
	for i := range o.Keys {
		encoded, err := encodeKey(&o.Keys[i])
		if err != nil {
			return err
		}
		u.add(d.hash('k', encoded))
		u.keys++
	}
	for _, c := range o.Minutes {
		u.add(d.hash('m', nil, c.At, c.Requests))
		u.windows++
	}
	for _, c := range o.Days {
		u.add(d.hash('d', nil, c.At, c.Requests))
		u.windows++
	}
	for _, b := range o.Bounds {
		u.add(d.hash('b', nil, b.Day, b.Records, b.Bytes))
	}
	for i := range o.Periods {
		d.addPeriod(&u, &o.Periods[i])
	}
	if u != (unit{}) {
		d.owners[o.ID] = u
	}
	return nil
}

func (d *digest) addPeriod(u *unit, p *Period) {
	if !p.More {
		u.add(d.hash('p', nil, p.Start, p.StartNS, p.Requests))
		u.windows++
		u.requests += p.Requests
	}
	for category, n := range p.Flagged {
		u.add(d.hash('c', []byte(category), p.Start, p.StartNS, n))
	}
	for key, n := range p.Keys {
		u.add(d.hash('q', []byte(key), p.Start, p.StartNS, n))
	}
}

// hash returns the hash of an element.
func (d *digest) hash(kind byte, text []byte, numbers ...int64) [sha256.Size]byte {
	d.buf = append(d.buf[:0], kind)
	for _, n := range numbers {
		d.buf = binary.BigEndian.AppendUint64(d.buf, uint64(n))
	}
	d.buf = append(d.buf, text...)
	return sha256.Sum256(d.buf)
}

// replace replaces what is known of some owners and days by what another digest knows of them.
func (d *digest) replace(which *Selection, by *digest) {
	for _, id := range which.Owners {
		delete(d.owners, id)
		if u, ok := by.owners[id]; ok {
			d.owners[id] = u
		}
	}
	for _, day := range which.Days {
		delete(d.days, day)
		if u, ok := by.days[day]; ok {
			d.days[day] = u
		}
	}
	for _, name := range which.Collections {
		delete(d.collections, name)
		if u, ok := by.collections[name]; ok {
			d.collections[name] = u
		}
	}
}

// difference returns what is not the same in two digests.
func (d *digest) difference(other *digest) *Selection {
	return &Selection{
		Owners: differing(d.owners, other.owners), Days: differing(d.days, other.days),
		Collections: differing(d.collections, other.collections),
	}
}

// differing returns the keys whose values are not the same in two maps, in order.
func differing[K cmp.Ordered](a, b map[K]unit) (keys []K) {
	for k, u := range a {
		if b[k] != u {
			keys = append(keys, k)
		}
	}
	for k := range b {
		if _, ok := a[k]; !ok {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

// totals returns the totals with the checksum of everything.
func (d *digest) totals() (t Totals) {
	h := sha256.New()
	fmt.Fprintf(h, "%t\n", d.seeded)
	for _, id := range slices.Sorted(maps.Keys(d.owners)) {
		u := d.owners[id]
		fmt.Fprintf(h, "%q %x %x\n", id, u.high, u.low)
		t.Accounts += int64(u.accounts)
		t.Keys += int64(u.keys)
		t.Windows += int64(u.windows)
		t.Requests += u.requests
	}
	for _, day := range slices.Sorted(maps.Keys(d.days)) {
		u := d.days[day]
		fmt.Fprintf(h, "%d %x %x\n", day, u.high, u.low)
		t.Feedback += int64(u.feedback)
	}
	for _, name := range slices.Sorted(maps.Keys(d.collections)) {
		u := d.collections[name]
		fmt.Fprintf(h, "%q of documents %x %x\n", name, u.high, u.low)
		t.Documents += u.documents
	}
	t.Digest = hex.EncodeToString(h.Sum(nil)[:16])
	return t
}
