// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/caddy-moderation/caddy-moderation/documents"
)

// Resealed says what [Queue.Reseal] has done.
type Resealed struct {
	// Done is how many items and events were encrypted with the present key.
	Done int
	// Unreadable is how many cannot be read with any of the keys. They stay as they are.
	Unreadable int
	// Changed is how many were changed meanwhile, which encrypts them, too.
	Changed int
}

// Reseal encrypts with the present key what is encrypted with a former one, or not at all: items, events, and the
// secret of the hashes. After it has returned without an error, and with nothing unreadable, no node that knows the
// present key needs a former one. It may be broken off and called again. What a store's files hold from before goes
// with time.
func (q *Queue) Reseal(ctx context.Context) (done Resealed, err error) {
	if q.sealer.aead == nil {
		return done, nil
	}
	if _, err := q.keyed(ctx); err != nil {
		return done, err
	}
	for _, prefix := range []string{"i/", "e/"} {
		for d, err := range q.store.ListDocuments(ctx, collection, documents.Prefix(prefix)) {
			if err != nil {
				return done, err
			}
			err := q.reseal(ctx, d, prefix == "i/")
			switch {
			case err == nil:
				done.Done++
			case errors.Is(err, errCurrent):
			case errors.Is(err, documents.ErrConflict):
				done.Changed++
			case errors.Is(err, ErrKey), errors.Is(err, ErrDamaged):
				done.Unreadable++
			default:
				return done, err
			}
		}
	}
	return done, nil
}

// errCurrent says that there is nothing to do.
var errCurrent = errors.New("encrypted with the present key already")

// reseal encrypts a document anew. That of an item has names before it.
func (q *Queue) reseal(ctx context.Context, d documents.Document, item bool) (err error) {
	var names []string
	value := d.Value
	if item {
		if names, value, err = unpack(d.Value); err != nil {
			return err
		}
	}
	if q.sealer.current(value) {
		return errCurrent
	}
	var content json.RawMessage
	if err := q.sealer.open(d.Key, value, &content); err != nil {
		return err
	}
	if value, err = q.sealer.seal(d.Key, content); err != nil {
		return err
	}
	if item {
		value = pack(names, value)
	}
	return q.store.ChangeDocuments(ctx, collection, documents.Change{Key: d.Key, Value: value, If: d.Unchanged()})
}
