// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/caddy-moderation/caddy-moderation/documents"
	"github.com/caddy-moderation/caddy-moderation/review"
)

// replayTries is how often a replay is tried again after the sender has noted at the same time how far it has come.
const replayTries = 20

// Replay lets an endpoint be sent the events since an instant once more, with their ids, by whichever node delivers. It
// returns how many these are. Events that the endpoint has not taken yet stay due: a later instant than theirs passes
// none of them.
func Replay(
	ctx context.Context, store documents.Store, queue *review.Queue, endpoint *Endpoint, since time.Time,
) (events int, err error) {
	cursor := review.EventIDAt(since)
	for try := 1; ; try++ {
		err = replayOnce(ctx, store, endpoint, cursor)
		if !errors.Is(err, documents.ErrConflict) {
			break
		}
		if try == replayTries {
			return 0, err
		}
	}
	if err != nil {
		return 0, err
	}
	for {
		part, _, err := queue.Events(ctx, cursor, endpoint.Account, atOnce)
		if err != nil {
			return events, err
		}
		events += len(part)
		if len(part) < atOnce {
			return events, nil
		}
		cursor = part[len(part)-1].ID
	}
}

func replayOnce(ctx context.Context, store documents.Store, endpoint *Endpoint, cursor string) error {
	key := endpoint.id()
	found, err := store.Documents(ctx, collection, key)
	if err != nil {
		return err
	}
	var st state
	if found[0].Revision != 0 {
		if err := json.Unmarshal(found[0].Value, &st); err != nil {
			return fmt.Errorf("the state of a webhook: %w", review.ErrDamaged)
		}
	}
	if st.After == "" || cursor < st.After {
		st.After = cursor
	}
	// What is tried again later is tried at once.
	st.Attempts, st.Since, st.Next = 0, time.Time{}, time.Time{}
	value, err := json.Marshal(st)
	if err != nil {
		return err
	}
	return store.ChangeDocuments(ctx, collection, documents.Change{Key: key, Value: value, If: found[0].Unchanged()})
}
