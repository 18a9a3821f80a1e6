// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package badger

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
	"time"

	"github.com/caddy-moderation/caddy-moderation/feedback"
	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage"
	"github.com/caddy-moderation/caddy-moderation/storage/internal/stored"
)

// schema is the version of the layout below. Backups hold it. The format of the database is versioned by package disk.
//
//	meta/seeded                         nothing
//	a/ account                          account, JSON
//	k/ hash                             key, JSON
//	i/ key id                           hash
//	u/ account 0 creation time key id   hash
//	l/ key id                           day on which the key was last used
//	m/ account 0 minute                 requests; see quota.KeptMinutes
//	d/ account 0 day                    requests; see quota.KeptDays
//	p/ account 0 start of the period    requests and flagged categories; see quota.KeptPeriods
//	q/ account 0 start of the period key id
//	                                    requests of a key; they go with the period
//	b/ account 0 day                    feedback records and their bytes; see feedback.KeptDays
//	f/ time id                          feedback record, JSON
//	c/ collection 0 key                 revision and value of a document
//
// Numbers in keys are big-endian, so that keys sort like what they name. Ids contain no zero byte. A value whose
// format may change begins with a byte that says how the rest is encoded.
//
// A version that does not know a table leaves its records alone, and backups hold them. So a table can be added
// without a new schema if the other tables need not agree with it: versions without the table q count less by key than
// by period, and leave the counts of keys behind when they evict a period or delete an account.
const schema = 1

// encoding is the first byte of values.
const encoding = 1

var (
	schemaKey = []byte("meta/schema")
	seededKey = []byte("meta/seeded")
)

var errDamaged = storage.ErrDamaged

// describe says what a record is about, without text that people wrote.
func describe(key []byte) string {
	table, rest, ok := bytes.Cut(key, []byte("/"))
	if !ok || len(table) != 1 {
		return "a record of no known kind"
	}
	owner, _, _ := bytes.Cut(rest, []byte{0})
	switch table[0] {
	case 'a':
		return "account " + string(rest)
	case 'k':
		return "a key"
	case 'i':
		return "key " + string(rest)
	case 'l':
		return "the last use of key " + string(rest)
	case 'u':
		return "the keys of account " + string(owner)
	case 'm':
		return "the count of a minute of account " + string(owner)
	case 'd':
		return "the count of a day of account " + string(owner)
	case 'p':
		return "the count of a period of account " + string(owner)
	case 'q':
		return "the requests of a key of account " + string(owner)
	case 'b':
		return "the feedback of a day of account " + string(owner)
	case 'f':
		return "a record of feedback"
	case 'c':
		return "a document of " + string(owner)
	}
	return "a record of no known kind"
}

func encodeSchema(version uint32) []byte { return binary.BigEndian.AppendUint32(nil, version) }

func decodeSchema(v []byte) (uint32, error) {
	if len(v) != 4 {
		return 0, errDamaged
	}
	return binary.BigEndian.Uint32(v), nil
}

func accountKey(id string) []byte { return append([]byte("a/"), id...) }

func hashKey(hash quota.Hash) []byte { return append([]byte("k/"), hash[:]...) }

func keyIDKey(id string) []byte { return append([]byte("i/"), id...) }

func lastUsedKey(id string) []byte { return append([]byte("l/"), id...) }

// ownedPrefix begins the keys of one table that belong to an account.
func ownedPrefix(table byte, account string) []byte {
	return appendOwned(nil, table, account)
}

func appendOwned(b []byte, table byte, account string) []byte {
	b = append(b, table, '/')
	b = append(b, account...)
	return append(b, 0)
}

func appendWindow(b []byte, table byte, account string, at int64) []byte {
	return appendSortable(appendOwned(b, table, account), at)
}

func keyOfAccount(k quota.Key) []byte {
	return append(appendTime(ownedPrefix('u', k.Account), k.Created), k.ID...)
}

func feedbackKey(r feedback.Ref) []byte {
	return append(appendTime([]byte("f/"), r.Time), r.ID...)
}

// appendSortable appends a number in such a way that negative numbers sort before positive ones.
func appendSortable(b []byte, n int64) []byte {
	return binary.BigEndian.AppendUint64(b, uint64(n)^1<<63)
}

func sortable(b []byte) int64 { return int64(binary.BigEndian.Uint64(b) ^ 1<<63) }

// timeSize is the length of what appendTime appends.
const timeSize = 12

func appendTime(b []byte, t time.Time) []byte {
	return binary.BigEndian.AppendUint32(appendSortable(b, t.Unix()), uint32(t.Nanosecond()))
}

// encodeJSON returns v as JSON behind the encoding byte.
func encodeJSON(v any) ([]byte, error) { return stored.Append([]byte{encoding}, v) }

func decodeJSON(b []byte, v any) error {
	if len(b) == 0 || b[0] != encoding {
		return errDamaged
	}
	return stored.Decode(b[1:], v)
}

// decodeAccount decodes an account. For an account that was stored before there were incarnations, the time of its
// creation stands in; the incarnations of later accounts never look like one.
func decodeAccount(b []byte, into *quota.Account) error {
	var a stored.Account
	if err := decodeJSON(b, &a); err != nil {
		return err
	}
	*into = a.Account
	into.Incarnation = cmp.Or(a.Incarnation, a.Created.Format(time.RFC3339Nano))
	return nil
}

// appendCounts encodes numbers.
func appendCounts(b []byte, counts ...int64) []byte {
	b = append(b, encoding)
	for _, n := range counts {
		b = binary.AppendVarint(b, n)
	}
	return b
}

// decodeCounts decodes len(into) numbers and returns what follows them.
func decodeCounts(b []byte, into ...*int64) (rest []byte, err error) {
	if len(b) == 0 || b[0] != encoding {
		return nil, errDamaged
	}
	b = b[1:]
	for _, n := range into {
		var size int
		if *n, size = binary.Varint(b); size <= 0 {
			return nil, errDamaged
		}
		b = b[size:]
	}
	return b, nil
}

// appendPeriod encodes the requests of a period and its flagged categories.
func appendPeriod(b []byte, requests int64, flagged map[string]int64) []byte {
	b = appendCounts(b, requests)
	for _, category := range slices.Sorted(maps.Keys(flagged)) {
		b = binary.AppendUvarint(b, uint64(len(category)))
		b = append(b, category...)
		b = binary.AppendVarint(b, flagged[category])
	}
	return b
}

func decodePeriod(b []byte) (requests int64, flagged map[string]int64, err error) {
	if b, err = decodeCounts(b, &requests); err != nil {
		return 0, nil, err
	}
	for len(b) > 0 {
		length, size := binary.Uvarint(b)
		if size <= 0 || length > uint64(len(b)-size) {
			return 0, nil, errDamaged
		}
		category := string(b[size : size+int(length)])
		b = b[size+int(length):]
		count, size := binary.Varint(b)
		if size <= 0 {
			return 0, nil, errDamaged
		}
		b = b[size:]
		if flagged == nil {
			flagged = make(map[string]int64)
		}
		flagged[category] = count
	}
	return requests, flagged, nil
}

func decodeHash(b []byte, into *quota.Hash) error {
	if len(b) != len(into) {
		return errDamaged
	}
	copy(into[:], b)
	return nil
}
