// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package contents

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/caddy-moderation/caddy-moderation/storage"
)

// Phase is how far a [Move] is.
type Phase string

// The phases of a move, in their order.
const (
	// Copying copies while the source is in use.
	Copying Phase = "copying"
	// Reading reads the copy back, while the source is in use.
	Reading Phase = "reading the copy"
	// ReadOnly copies what was changed meanwhile, and compares. The source takes no changes.
	ReadOnly Phase = "read-only"
	// Finished says that everything is in the target.
	Finished Phase = "finished"
)

// ErrDiffers says that what arrived is not what was sent.
var ErrDiffers = errors.New("the copy differs from the source")

// Move copies everything from a source to a target.
type Move struct {
	From Source
	To   Target
	// Freeze begins the read-only phase: when it returns, everything acknowledged is in the source, and nothing of it
	// changes any more. Nil if nobody uses the source.
	Freeze func(ctx context.Context) error
	// Changes returns what has been changed since its last call, or since before Run, at least. An error says that this
	// is not known. Nil, or after an error: everything is read again in the read-only phase.
	Changes func(ctx context.Context) (*Selection, error)
	// LeaveOut is called for each damaged record that is left out. Nil: a damaged record ends the move.
	LeaveOut func(err error)
	// Progress is called now and then. Nil: nobody is told.
	Progress func(phase Phase, items int64)
}

// Report is what a move has done.
type Report struct {
	// Source and Target are what each of them keeps; they are equal.
	Source Totals `json:"source"`
	Target Totals `json:"target"`
	// Again is how many owners, days of feedback and collections of documents were changed during the copy and copied
	// once more.
	Again int `json:"copied_again"`
	// ReadOnly is how long the source has been read-only when Run returned, in seconds.
	ReadOnly float64 `json:"read_only_seconds"`
}

// How much may have changed at the last look before the source is frozen, and how often that is waited for.
const (
	fewChanges   = 100
	changeRounds = 5
)

// Run copies, compares and finishes the target. After an error the target is unfinished, and whoever froze the source
// thaws it.
func (m *Move) Run(ctx context.Context) (report Report, err error) {
	c := &comparison{Move: m, here: newDigest(), there: newDigest()}
	if err := m.To.Put(ctx, m.read(ctx, m.From, nil, c.here, Copying)); err != nil {
		return report, err
	}
	if err := m.digest(ctx, m.To, nil, c.there, Reading); err != nil {
		return report, err
	}
	if m.Freeze != nil {
		known, err := c.catchUp(ctx)
		if err != nil {
			return report, err
		}
		began := time.Now()
		if err := m.Freeze(ctx); err != nil {
			return report, err
		}
		defer func() { report.ReadOnly = time.Since(began).Seconds() }()
		if err := c.last(ctx, known); err != nil {
			return report, err
		}
	}
	report.Again = c.again
	report.Source, report.Target = c.here.totals(), c.there.totals()
	if left := c.there.difference(c.here); !left.Empty() || report.Source != report.Target {
		return report, fmt.Errorf("%w: the source has %v; the copy has %v%s", ErrDiffers, report.Source, report.Target,
			example(left))
	}
	if err := m.To.Finish(ctx); err != nil {
		return report, err
	}
	m.progress(Finished, 0)
	return report, nil
}

// comparison is what is known of both sides of a move.
type comparison struct {
	*Move
	here, there *digest
	// again is how many owners, days and collections were copied more than once.
	again int
}

// catchUp copies what was changed until that is little. It reports whether it is known what has changed.
func (c *comparison) catchUp(ctx context.Context) (known bool, err error) {
	if c.Changes == nil {
		return false, nil
	}
	for range changeRounds {
		changed, err := c.Changes(ctx)
		if err != nil {
			return false, ctx.Err()
		}
		if err := c.replace(ctx, changed, Copying); err != nil {
			return false, err
		}
		if changed.size() <= fewChanges {
			break
		}
	}
	return true, nil
}

// last copies what differs once nothing changes any more.
func (c *comparison) last(ctx context.Context, known bool) error {
	if known {
		changed, err := c.Changes(ctx)
		if err == nil {
			return c.replace(ctx, changed, ReadOnly)
		}
	}
	c.here = newDigest()
	if err := c.digest(ctx, c.From, nil, c.here, ReadOnly); err != nil {
		return err
	}
	if c.here.seeded && !c.there.seeded {
		c.there.seeded = true
		if err := c.To.Put(ctx, func(yield func(Item, error) bool) { yield(Item{Seeded: true}, nil) }); err != nil {
			return err
		}
	}
	return c.replace(ctx, c.there.difference(c.here), ReadOnly)
}

// replace copies what is selected once more, and reads it back.
func (c *comparison) replace(ctx context.Context, again *Selection, phase Phase) error {
	if again.Empty() {
		return nil
	}
	c.again += again.size()
	sent, arrived := newDigest(), newDigest()
	err := c.To.Put(ctx, func(yield func(Item, error) bool) {
		for _, id := range again.Owners {
			if !yield(Item{Forget: &Forget{Owner: id}}, nil) {
				return
			}
		}
		for _, day := range again.Days {
			if !yield(Item{Forget: &Forget{Day: day}}, nil) {
				return
			}
		}
		for _, name := range again.Collections {
			if !yield(Item{Forget: &Forget{Collection: name}}, nil) {
				return
			}
		}
		for item, err := range c.read(ctx, c.From, again, sent, phase) {
			if !yield(item, err) {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	if err := c.digest(ctx, c.To, again, arrived, phase); err != nil {
		return err
	}
	c.here.replace(again, sent)
	c.there.replace(again, arrived)
	return nil
}

// digest reads what is selected into a digest.
func (m *Move) digest(ctx context.Context, from Source, only *Selection, into *digest, phase Phase) error {
	for _, err := range m.read(ctx, from, only, into, phase) {
		if err != nil {
			return err
		}
	}
	return nil
}

// read yields the items of a source and adds them to a digest. Damaged records of the source are left out if the move
// leaves them out.
func (m *Move) read(ctx context.Context, from Source, only *Selection, into *digest, phase Phase) Items {
	return func(yield func(Item, error) bool) {
		count := int64(0)
		for item, err := range from.Contents(ctx, only) {
			if err != nil && errors.Is(err, storage.ErrDamaged) && m.LeaveOut != nil && from == m.From {
				m.LeaveOut(err)
				continue
			}
			if err == nil {
				err = into.add(item)
			}
			if !yield(item, err) || err != nil {
				return
			}
			if count++; count%progressEvery == 0 {
				m.progress(phase, count)
			}
		}
		m.progress(phase, count)
	}
}

// progressEvery is how many items are between two calls of Progress.
const progressEvery = 1000

func (m *Move) progress(phase Phase, items int64) {
	if m.Progress != nil {
		m.Progress(phase, items)
	}
}

// example names one of the differences.
func example(left *Selection) string {
	switch {
	case len(left.Owners) > 0:
		return fmt.Sprintf("; account %s differs, and %d others", left.Owners[0], len(left.Owners)-1)
	case len(left.Days) > 0:
		return fmt.Sprintf("; the feedback of day %d since 1970 differs, and that of %d others", left.Days[0],
			len(left.Days)-1)
	case len(left.Collections) > 0:
		return fmt.Sprintf("; the documents of %s differ, and those of %d other collections", left.Collections[0],
			len(left.Collections)-1)
	}
	return ""
}

// Save writes everything of a source that nobody changes into a file.
func Save(ctx context.Context, from Source, to io.Writer) error {
	w := NewWriter(to)
	for item, err := range from.Contents(ctx, nil) {
		if err != nil {
			return err
		}
		if err := w.Write(item); err != nil {
			return err
		}
	}
	return w.Close()
}

// Load fills a target with a file, and finishes it.
func Load(ctx context.Context, to Target, from io.Reader) error {
	if err := to.Put(ctx, Read(from)); err != nil {
		return err
	}
	return to.Finish(ctx)
}
