// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package badger

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"

	"github.com/caddy-moderation/caddy-moderation/documents"
	"github.com/caddy-moderation/caddy-moderation/storage/badger/disk"
)

// documentKey returns the key of a document. Neither name holds a zero byte.
func documentKey(collection, key string) []byte {
	return append(ownedPrefix('c', collection), key...)
}

// encodeDocument returns a document as it is stored: under a new revision.
func encodeDocument(value []byte) []byte {
	b := make([]byte, 0, 1+8+len(value))
	b = append(b, encoding)
	b = binary.BigEndian.AppendUint64(b, newRevision())
	return append(b, value...)
}

// newRevision returns a number that is not 0 and that no other revision has. A counter would need a record of its own.
func newRevision() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return binary.BigEndian.Uint64(b[:]) | 1
}

// decodeDocument decodes what encodeDocument has returned.
func decodeDocument(b []byte, d *documents.Document) error {
	if len(b) < 1+8 || b[0] != encoding {
		return errDamaged
	}
	d.Revision, d.Value = binary.BigEndian.Uint64(b[1:]), b[1+8:]
	return nil
}

// ChangeDocuments implements [documents.Store]. Of a document that is erased nothing is left in the files of the
// database some seconds later; see [disk.Erase].
func (s *Store) ChangeDocuments(ctx context.Context, collection string, changes ...documents.Change) error {
	if err := documents.Validate(collection, changes); err != nil {
		return err
	}
	if err := s.ready(ctx); err != nil {
		return err
	}
	if len(changes) == 0 {
		return nil
	}
	c, err := s.changeDocuments(collection, changes)
	if err != nil {
		return err
	}
	return c.wait()
}

func (s *Store) changeDocuments(collection string, changes []documents.Change) (*change, error) {
	s.appending.Lock()
	defer s.appending.Unlock()
	return s.apply(func() ([]disk.Entry, error) { return s.documentEntries(collection, changes) })
}

// documentEntries returns the entries that make changes, if their conditions hold.
func (s *Store) documentEntries(collection string, changes []documents.Change) ([]disk.Entry, error) {
	entries := make([]disk.Entry, len(changes))
	var checked [][]byte
	var conditions []documents.Condition
	erase := false
	for i, c := range changes {
		entries[i] = disk.Entry{Key: documentKey(collection, c.Key), Delete: c.Delete}
		if !c.Delete {
			entries[i].Value = encodeDocument(c.Value)
		}
		erase = erase || c.Delete && c.Erase
		if c.If.Checked {
			checked, conditions = append(checked, entries[i].Key), append(conditions, c.If)
		}
	}
	found, err := s.supervisor.get(checked...)
	if err != nil {
		return nil, err
	}
	for i, r := range found {
		var d documents.Document
		if !absent(r) {
			if err := record(r).decode(func(v []byte) error { return decodeDocument(v, &d) }); err != nil {
				return nil, err
			}
		}
		if d.Revision != conditions[i].Revision {
			return nil, fmt.Errorf("a document of %s: %w", collection, documents.ErrConflict)
		}
	}
	if erase {
		entries = append(entries, disk.Erase())
	}
	return entries, nil
}

// Documents implements [documents.Store].
func (s *Store) Documents(ctx context.Context, collection string, keys ...string) ([]documents.Document, error) {
	if err := documents.ValidateCollection(collection); err != nil {
		return nil, err
	}
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	names := make([][]byte, len(keys))
	for i, key := range keys {
		names[i] = documentKey(collection, key)
	}
	found, err := s.supervisor.get(names...)
	if err != nil {
		return nil, err
	}
	all := make([]documents.Document, len(keys))
	for i, r := range found {
		all[i].Key = keys[i]
		if absent(r) {
			continue
		}
		if err := record(r).decode(func(v []byte) error { return decodeDocument(v, &all[i]) }); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// ListDocuments implements [documents.Store].
func (s *Store) ListDocuments(
	ctx context.Context, collection string, r documents.Range,
) iter.Seq2[documents.Document, error] {
	return func(yield func(documents.Document, error) bool) {
		if err := documents.ValidateCollection(collection); err != nil {
			yield(documents.Document{}, err)
			return
		}
		if err := s.ready(ctx); err != nil {
			yield(documents.Document{}, err)
			return
		}
		prefix := ownedPrefix('c', collection)
		for stored, err := range s.scan(prefix, documentKey(collection, r.From)) {
			if err == nil {
				err = s.ready(ctx)
			}
			var d documents.Document
			if err == nil {
				d.Key = string(stored.Key[len(prefix):])
				if r.To != "" && d.Key >= r.To {
					return
				}
				err = stored.decode(func(v []byte) error { return decodeDocument(v, &d) })
			}
			if err != nil {
				d = documents.Document{}
			}
			if !yield(d, err) || err != nil && !errors.Is(err, errDamaged) {
				return
			}
		}
	}
}

// splitDocumentKey returns the collection and the key of a document's record.
func splitDocumentKey(key []byte) (collection, name string, ok bool) {
	if len(key) < 2 {
		return "", "", false
	}
	before, after, ok := bytes.Cut(key[2:], []byte{0})
	return string(before), string(after), ok
}
