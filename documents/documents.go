// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package documents defines a store for documents: what rooms such as the review queue keep beside accounts, counts and
// feedback, without the store knowing what it is.
//
// A document is a value under a key in a collection. Keys are sorted, so that a room makes its own indexes: documents
// whose keys begin with what they are sorted by. All changes of one call are made together or not at all, and each may
// ask that its document is still the one that the caller has read. That is all it takes to keep a queue that several
// nodes share.
package documents

import (
	"context"
	"errors"
	"fmt"
	"iter"
)

// Errors of a [Store].
var (
	// ErrConflict says that a condition of a change is not fulfilled: somebody else has changed the document since it
	// was read. Nothing was changed. The caller reads it again and decides anew.
	ErrConflict = errors.New("changed by somebody else")
	// ErrInvalid says that a name, a key, a value or the number of changes breaks a rule. Nothing was changed.
	ErrInvalid = errors.New("invalid document")
	// ErrDamaged is wrapped by every error that says that a document is not what was written. A listing goes on after
	// it if the consumer does.
	ErrDamaged = errors.New("a record is damaged")
)

// Limits of a [Store].
const (
	// MaxKey is the length of the longest key, in bytes.
	MaxKey = 256
	// MaxValue is the length of the longest value, in bytes: 128 KiB.
	MaxValue = 128 << 10
	// MaxChanges is how many documents one call changes at most.
	MaxChanges = 256
	// MaxChangeBytes is how many bytes the keys and values of one call have at most: 512 KiB.
	MaxChangeBytes = 512 << 10
	// maxCollection is the length of the longest name of a collection.
	maxCollection = 32
)

// Document is a value under a key.
type Document struct {
	// Key is 1 to [MaxKey] bytes of printable ASCII without spaces.
	Key string
	// Value is up to [MaxValue] bytes, which may be empty. Nobody writes to it.
	Value []byte
	// Revision is another one after each change of the document. 0 means that there is no document.
	Revision uint64
}

// Change is what happens to one document.
type Change struct {
	// Key is that of the document.
	Key string
	// Value is the new value, which is not used for a deletion.
	Value []byte
	// Delete deletes the document. It is no error if there is none.
	Delete bool
	// Erase asks the store to leave nothing on its disks of what the deleted document was, older values included, once
	// that can be: a store says when. It is more work than a deletion. Default: what is left goes with time.
	Erase bool
	// If is a condition. Default: none.
	If Condition
}

// Condition is what must hold of a document when it is changed. The zero value holds always.
type Condition struct {
	// Checked says that there is a condition at all.
	Checked bool
	// Revision is what the document's must be, 0 for a document that must not exist.
	Revision uint64
}

// Absent is the condition that there is no document.
func Absent() Condition { return Condition{Checked: true} }

// Unchanged is the condition that a document is the one that was read.
func (d Document) Unchanged() Condition { return Condition{Checked: true, Revision: d.Revision} }

// Range is a part of the keys of a collection: those from From on and before To, compared as bytes. An empty From is
// the beginning, an empty To the end.
type Range struct{ From, To string }

// Prefix returns the range of the keys that begin with a text.
func Prefix(text string) Range {
	if text == "" {
		return Range{}
	}
	// No key has a byte above 0x7e.
	return Range{From: text, To: text + "\x7f"}
}

// Store keeps documents. The rules for all methods are those of quota.Store: concurrency, order, contexts, unavailable
// stores, damaged records, values and sequences; except that a change whose error wraps storage.ErrUnavailable may be
// found made or not made, whole in both cases. Conditions make it safe to repeat.
type Store interface {
	// ChangeDocuments makes up to [MaxChanges] changes in a collection, all of them or none. When it returns nil, they
	// survive the loss of power. Otherwise the error wraps [ErrConflict] if a condition does not hold, and [ErrInvalid]
	// if a rule is broken, which is that of [Validate].
	ChangeDocuments(ctx context.Context, collection string, changes ...Change) error
	// Documents returns the documents with these keys, up to [MaxChanges], in their order. Revision is 0 where there is
	// none.
	Documents(ctx context.Context, collection string, keys ...string) ([]Document, error)
	// ListDocuments yields the documents of a range in the order of their keys. It does not hold all of them in memory.
	ListDocuments(ctx context.Context, collection string, r Range) iter.Seq2[Document, error]
}

// Validate returns an error that wraps [ErrInvalid] unless the changes keep the rules: a collection is 1 to 32
// characters of a-z, 0-9, '_' and '-'; keys and values are as [Document] says; no key occurs twice; and there are at
// most [MaxChanges] changes with [MaxChangeBytes] in all.
func Validate(collection string, changes []Change) error {
	if err := ValidateCollection(collection); err != nil {
		return err
	}
	if len(changes) > MaxChanges {
		return fmt.Errorf("%w: %d changes at once, more than %d", ErrInvalid, len(changes), MaxChanges)
	}
	seen := make(map[string]bool, len(changes))
	size := 0
	for _, c := range changes {
		if err := ValidateKey(c.Key); err != nil {
			return err
		}
		if seen[c.Key] {
			return fmt.Errorf("%w: two changes of one document", ErrInvalid)
		}
		seen[c.Key] = true
		if len(c.Value) > MaxValue {
			return fmt.Errorf("%w: a value of %d bytes, more than %d", ErrInvalid, len(c.Value), MaxValue)
		}
		size += len(c.Key) + len(c.Value)
	}
	if size > MaxChangeBytes {
		return fmt.Errorf("%w: changes of %d bytes at once, more than %d", ErrInvalid, size, MaxChangeBytes)
	}
	return nil
}

// ValidateCollection returns an error that wraps [ErrInvalid] unless the name of a collection keeps the rule of
// [Validate].
func ValidateCollection(name string) error {
	ok := name != "" && len(name) <= maxCollection
	for i := range len(name) {
		c := name[i]
		ok = ok && ('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '_' || c == '-')
	}
	if !ok {
		return fmt.Errorf("%w: the name of a collection is 1 to %d characters of a-z, 0-9, '_' and '-'", ErrInvalid,
			maxCollection)
	}
	return nil
}

// ValidateKey returns an error that wraps [ErrInvalid] unless a key is as [Document] says. The error does not tell the
// key.
func ValidateKey(key string) error {
	ok := key != "" && len(key) <= MaxKey
	for i := range len(key) {
		ok = ok && '!' <= key[i] && key[i] <= '~'
	}
	if !ok {
		return fmt.Errorf("%w: a key is 1 to %d characters of printable ASCII without spaces", ErrInvalid, MaxKey)
	}
	return nil
}
