// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/caddy-moderation/caddy-moderation/documents"
	"github.com/caddy-moderation/caddy-moderation/storage"
)

var (
	//go:embed scripts/documents.lua
	documentsLua string
	//go:embed scripts/collection.lua
	collectionLua string

	documentsScript  = newRepeatable(documentsLua)
	collectionScript = newRepeatable(collectionLua)
)

// documentPage is how many documents are read at once. Where they are small, such as those of an index, a listing reads
// more and more, up to largeDocumentPage; smallDocument is the size in bytes up to which they are small on average.
const (
	documentPage      = 64
	largeDocumentPage = 2048
	smallDocument     = 1 << 10
)

// collections names the set of all collections, those without documents included.
func (n names) collections() string { return n.prefix + "collections" }

// ofCollection begins the names of a collection. All of them are in one slot.
func (n names) ofCollection(collection string) string { return n.prefix + "{d:" + collection + "}:" }

func (n names) documentIndex(collection string) string { return n.ofCollection(collection) + "keys" }

func (n names) document(collection, key string) string {
	return n.ofCollection(collection) + "doc:" + key
}

// openDocument decodes a document. Its revision is what makes each sealed value another one.
func (n names) openDocument(collection, key, value string) (documents.Document, error) {
	_, payload, err := open(n.document(collection, key), value)
	if err != nil {
		return documents.Document{}, fmt.Errorf("%w: a document of %s", errDamaged, collection)
	}
	revision := binary.BigEndian.Uint64([]byte(value[sealNonce:sealTag]))
	return documents.Document{Key: key, Value: payload, Revision: revision}, nil
}

// condition returns a condition in the words of the script.
func condition(c documents.Condition) string {
	switch {
	case !c.Checked:
		return ""
	case c.Revision == 0:
		return "a"
	}
	return string(binary.BigEndian.AppendUint64([]byte("r"), c.Revision))
}

// ChangeDocuments implements [documents.Store].
func (s *Store) ChangeDocuments(ctx context.Context, collection string, changes ...documents.Change) error {
	if err := documents.Validate(collection, changes); err != nil {
		return err
	}
	ctx, cancel, err := s.beginChange(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	if len(changes) == 0 {
		return nil
	}
	if err := s.noteCollection(ctx, collection); err != nil {
		return err
	}
	keys := []string{s.names.documentIndex(collection), s.names.ofCollection(collection) + "made:" + rand.Text()}
	args := make([]string, 0, 3*len(changes)+1)
	for _, c := range changes {
		name, value := s.names.document(collection, c.Key), ""
		if !c.Delete {
			value = seal(name, "", c.Value)
		}
		keys, args = append(keys, name), append(args, c.Key, condition(c.If), value)
	}
	for {
		with := append(args[:len(args):len(args)], s.link.until(ctx))
		outcome, _, err := s.evalAcknowledged(ctx, documentsScript, keys, with)
		switch {
		case err != nil:
			return err
		case outcome == late && ctx.Err() != nil:
			return fmt.Errorf("%w: %w", storage.ErrUnavailable, errTimeout)
		case outcome == other:
			return fmt.Errorf("a document of %s: %w", collection, documents.ErrConflict)
		case outcome == done:
			return nil
		case outcome != late:
			return errAnswer
		}
		// The server's clock is ahead of what was known of it. Now it is known.
	}
}

// notedFor is for how long a collection is not noted again. A failover may lose the note, which is in another slot than
// the documents.
const notedFor = time.Minute

// noteCollection adds a collection to the set of all, so that a backup finds it.
func (s *Store) noteCollection(ctx context.Context, collection string) error {
	now := monotonic()
	if at, ok := s.noted.Load(collection); ok && now-at.(time.Duration) < notedFor {
		return nil
	}
	outcome, _, err := s.evalAcknowledged(ctx, collectionScript, []string{s.names.collections()}, []string{collection})
	switch {
	case err != nil:
		return err
	case outcome != done:
		return errAnswer
	}
	s.noted.Store(collection, now)
	return nil
}

// Documents implements [documents.Store].
func (s *Store) Documents(ctx context.Context, collection string, keys ...string) ([]documents.Document, error) {
	if err := documents.ValidateCollection(collection); err != nil {
		return nil, err
	}
	ctx, cancel, err := s.beginRead(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	return s.documentsOf(ctx, collection, keys)
}

// documentsOf reads documents, without a revision where there is none.
func (s *Store) documentsOf(ctx context.Context, collection string, keys []string) ([]documents.Document, error) {
	b, err := s.link.b()
	if err != nil {
		return nil, err
	}
	cmds := make([]rueidis.Completed, len(keys))
	for i, key := range keys {
		cmds[i] = b.Get().Key(s.names.document(collection, key)).Build()
	}
	answers, err := s.link.many(ctx, cmds...)
	if err != nil {
		return nil, err
	}
	all := make([]documents.Document, len(keys))
	for i, m := range answers {
		all[i].Key = keys[i]
		value, _ := m.ToString() // nothing if there is none
		if value == "" {
			continue
		}
		if all[i], err = s.names.openDocument(collection, keys[i], value); err != nil {
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
		size := int64(documentPage)
		for from := lexFrom(r); from != ""; {
			keys, values, err := s.documentPage(ctx, collection, from, lexTo(r), size)
			if err != nil {
				yield(documents.Document{}, err)
				return
			}
			whole, bytes := int64(len(keys)) == size, 0
			for i, key := range keys {
				bytes += len(values[i])
				if values[i] == "" {
					continue // deleted meanwhile
				}
				d, err := s.names.openDocument(collection, key, values[i])
				if err == nil {
					err = s.ready(ctx)
				}
				if err != nil {
					d = documents.Document{}
				}
				if !yield(d, err) || err != nil && !errors.Is(err, errDamaged) {
					return
				}
			}
			if from = ""; whole {
				from = "(" + keys[len(keys)-1]
			}
			if size = documentPage; bytes <= smallDocument*len(keys) {
				size = min(4*int64(len(keys)), largeDocumentPage)
			}
		}
	}
}

// lexFrom and lexTo are the ends of a range in the words of ZRANGE BYLEX.
func lexFrom(r documents.Range) string {
	if r.From == "" {
		return "-"
	}
	return "[" + r.From
}

func lexTo(r documents.Range) string {
	if r.To == "" {
		return "+"
	}
	return "(" + r.To
}

// documentPage reads some keys of a range and their documents, an empty value for those that are gone.
func (s *Store) documentPage(
	ctx context.Context, collection, from, to string, size int64,
) (keys, values []string, err error) {
	ctx, cancel, err := s.beginRead(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer cancel()
	b, err := s.link.b()
	if err != nil {
		return nil, nil, err
	}
	m, err := s.link.do(ctx, b.Zrange().Key(s.names.documentIndex(collection)).Min(from).Max(to).Bylex().
		Limit(0, size).Build())
	if err != nil {
		return nil, nil, err
	}
	if keys, err = m.AsStrSlice(); err != nil {
		return nil, nil, errAnswer
	}
	cmds := make([]rueidis.Completed, len(keys))
	for i, key := range keys {
		cmds[i] = b.Get().Key(s.names.document(collection, key)).Build()
	}
	answers, err := s.link.many(ctx, cmds...)
	if err != nil {
		return nil, nil, err
	}
	values = make([]string, len(keys))
	for i, m := range answers {
		values[i], _ = m.ToString() // nothing if there is none
	}
	return keys, values, nil
}

// splitDocument returns the collection and the key in what [names.kindOf] says of a document.
func splitDocument(of string) (collection, key string) {
	collection, key, _ = strings.Cut(of, "\x00")
	return collection, key
}
