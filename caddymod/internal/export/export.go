// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package export writes the items of the review queue as JSON Lines, for the command and for the desk.
package export

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/caddy-moderation/caddy-moderation/engine"
	"github.com/caddy-moderation/caddy-moderation/review"
	"github.com/caddy-moderation/caddy-moderation/storage"
)

// FlushEvery is how many lines are buffered at most before they are sent.
const FlushEvery = 256

// Options say what is written.
type Options struct {
	// Account is whose items are written. Default: those of all accounts.
	Account string
	// Labelled says that of each decided item a labelled text is written, which evaluate and the trainer read, and
	// nothing of the others. Default: all items as they are.
	Labelled bool
	// Flush sends what was written so far. Default: nothing is done.
	Flush func()
}

// Reviews writes the items of a queue, the oldest first. Items that cannot be read are left out; unreadable is their
// number. On an error, what was written is a part of the whole.
func Reviews(ctx context.Context, w io.Writer, queue *review.Queue, o Options) (unreadable int, err error) {
	buffered := bufio.NewWriterSize(w, 32<<10)
	encoder := json.NewEncoder(buffered)
	encoder.SetEscapeHTML(false) // nothing here ends up in a web page
	written := 0
	for item, err := range queue.All(ctx, o.Account) {
		if errors.Is(err, review.ErrKey) || errors.Is(err, review.ErrDamaged) || errors.Is(err, storage.ErrDamaged) {
			unreadable++
			continue
		}
		if err != nil {
			return unreadable, err
		}
		var line any = item
		if o.Labelled {
			labelled, ok := labelledRow(&item)
			if !ok {
				continue
			}
			line = labelled
		}
		if err := encoder.Encode(line); err != nil {
			return unreadable, err
		}
		if written++; written%FlushEvery != 0 || o.Flush == nil {
			continue
		}
		if err := buffered.Flush(); err != nil {
			return unreadable, err
		}
		o.Flush()
	}
	return unreadable, buffered.Flush()
}

// row is a decided item as a labelled text: a line that evaluate and the trainer read.
type row struct {
	Text     string         `json:"text"`
	Kind     string         `json:"kind"`
	Language string         `json:"language,omitempty"`
	Labels   map[string]int `json:"labels"`
}

// labelledRow returns the row of an item, and whether it has one: people have said something about a category, see
// [review.Item.Labels].
func labelledRow(item *review.Item) (row, bool) {
	labels := item.Labels(engine.CategoryNames())
	r := row{Kind: string(item.Cause), Language: item.Language, Labels: make(map[string]int, len(labels))}
	for name, is := range labels {
		r.Labels[name] = 0
		if is {
			r.Labels[name] = 1
		}
	}
	texts := make([]string, len(item.Texts))
	for i, t := range item.Texts {
		texts[i] = t.Text
	}
	r.Text = strings.Join(texts, "\n")
	return r, len(labels) > 0
}
