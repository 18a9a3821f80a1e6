// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package statistics keeps what was decided for each account on each day: how many texts got which recommendation, what
// was flagged, why requests were refused, and a small sample of the probabilities. It keeps no text.
//
// The figures are for people who want to see how things go. They are not what limits are enforced by: that is package
// quota. A [Recorder] counts in memory and adds its counts to the store from time to time, so that a process that is
// killed loses the last of them. Several nodes with one store add to the same figures.
package statistics

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/caddy-moderation/caddy-moderation/documents"
)

// collection is the collection of all documents:
//
//	d/ date / account     the counts of a day, as JSON
//	s/ date / account     the sample of a day
//
// The date comes first, so that what is kept no longer is one range.
const collection = "statistics"

// Kept days. Today is one of them.
const (
	// KeepDays is for how many days counts are kept.
	KeepDays = 400
	// KeepSampleDays is for how many days samples are kept.
	KeepSampleDays = 31
	// SampleSize is how many texts of a day the sample has at most.
	SampleSize = 200
)

// maxNames is how many different names a count has at most. What has another name counts as "other".
const maxNames = 40

// Counts says how often something happened, by its name.
type Counts map[string]int64

// add adds n to a name.
func (c *Counts) add(name string, n int64) {
	if *c == nil {
		*c = Counts{}
	}
	if _, known := (*c)[name]; !known && len(*c) >= maxNames {
		name = "other"
	}
	(*c)[name] += n
}

func (c *Counts) addAll(other Counts) {
	// In order, so that two nodes agree on which names are too many.
	for _, name := range slices.Sorted(maps.Keys(other)) {
		c.add(name, other[name])
	}
}

// Total is the sum.
func (c Counts) Total() (sum int64) {
	for _, n := range c {
		sum += n
	}
	return sum
}

// Day is what happened for an account on one UTC day.
type Day struct {
	// Date has the form 2006-01-02.
	Date string `json:"-"`
	// Unreadable says that the store has figures that this version cannot read. They stay as they are, and nothing is
	// added to them.
	Unreadable bool `json:"-"`
	// Answered are the requests that were done.
	Answered int64 `json:"answered,omitempty"`
	// Refused are those that were not, by the reason: the code of the problem that was answered.
	Refused Counts `json:"refused,omitempty"`
	// Texts are the texts that were judged, by the recommendation.
	Texts Counts `json:"texts,omitempty"`
	// Flagged are the texts in which a category was flagged, by the category.
	Flagged Counts `json:"flagged,omitempty"`
}

// Add adds the counts of another day.
func (d *Day) Add(other *Day) {
	d.Answered += other.Answered
	d.Refused.addAll(other.Refused)
	d.Texts.addAll(other.Texts)
	d.Flagged.addAll(other.Flagged)
}

func dayKey(date, account string) string    { return "d/" + date + "/" + account }
func sampleKey(date, account string) string { return "s/" + date + "/" + account }

// dateOf returns the UTC day of an instant.
func dateOf(at time.Time) string { return at.UTC().Format(time.DateOnly) }

// dates returns the last n days, newest first.
func dates(now time.Time, n int) []string {
	all := make([]string, n)
	today := now.UTC()
	for i := range all {
		all[i] = dateOf(today.AddDate(0, 0, -i))
	}
	return all
}

// Days returns the figures of an account on the last n days, newest first, with what this node has not added to the
// store yet. There is one for each day, up to [KeepDays].
func (r *Recorder) Days(ctx context.Context, account string, now time.Time, n int) ([]Day, error) {
	wanted := dates(now, min(max(n, 1), KeepDays))
	days := make([]Day, 0, len(wanted))
	today := dayOf(now)
	for part := range slices.Chunk(wanted, documents.MaxChanges) {
		found, err := r.documents(ctx, part, account, dayKey)
		if err != nil {
			return nil, err
		}
		for i, date := range part {
			day := Day{}
			if decodeDay(found[i], &day) != nil {
				day = Day{Unreadable: true}
			}
			day.Date = date
			r.each(today-int64(len(days)), account, func(p *pending) { day.Add(&p.Day) })
			days = append(days, day)
		}
	}
	return days, nil
}

func (r *Recorder) documents(
	ctx context.Context, dates []string, account string, key func(date, account string) string,
) ([]documents.Document, error) {
	keys := make([]string, len(dates))
	for i, date := range dates {
		keys[i] = key(date, account)
	}
	return r.store.Documents(ctx, collection, keys...)
}

func decodeDay(d documents.Document, day *Day) error {
	if d.Revision == 0 {
		return nil
	}
	if err := json.Unmarshal(d.Value, day); err != nil {
		return fmt.Errorf("the statistics of a day cannot be read: %w", err)
	}
	return nil
}

// SampleOf is the sample of a day.
type SampleOf struct {
	// Date has the form 2006-01-02.
	Date string
	// Texts are the probabilities of the categories, in the order in which they were recorded, for each text of the
	// sample: a random one of all texts of the day, of up to [SampleSize].
	Texts [][]float64
}

// Samples returns the samples of an account of the last n days, newest first, up to [KeepSampleDays].
func (r *Recorder) Samples(ctx context.Context, account string, now time.Time, n int) ([]SampleOf, error) {
	wanted := dates(now, min(max(n, 1), KeepSampleDays))
	found, err := r.documents(ctx, wanted, account, sampleKey)
	if err != nil {
		return nil, err
	}
	samples := make([]SampleOf, 0, len(wanted))
	for i, date := range wanted {
		var all sample
		if all.decode(found[i].Value) != nil {
			all = sample{} // of another version, or damaged
		}
		r.each(dayOf(now)-int64(i), account, func(p *pending) { all.addAll(p.sample) })
		samples = append(samples, SampleOf{Date: date, Texts: all.probabilities()})
	}
	return samples, nil
}

// Forget deletes all figures of an account, those that are not in the store yet among them.
func (r *Recorder) Forget(ctx context.Context, account string, now time.Time) error {
	r.flushing.Lock()
	defer r.flushing.Unlock()
	r.drop(account)
	var keys []string
	// Tomorrow is another node's today if its clock is ahead.
	for i, date := range dates(now.AddDate(0, 0, 1), KeepDays+2) {
		keys = append(keys, dayKey(date, account))
		if i < KeepSampleDays+2 {
			keys = append(keys, sampleKey(date, account))
		}
	}
	for part := range slices.Chunk(keys, documents.MaxChanges) {
		changes := make([]documents.Change, len(part))
		for i, key := range part {
			changes[i] = documents.Change{Key: key, Delete: true}
		}
		if err := r.store.ChangeDocuments(ctx, collection, changes...); err != nil {
			return err
		}
	}
	return nil
}

// Trim deletes the figures that are kept no longer. It returns how many documents it has deleted.
func (r *Recorder) Trim(ctx context.Context, now time.Time) (deleted int, err error) {
	for prefix, days := range map[string]int{"d/": KeepDays, "s/": KeepSampleDays} {
		old := documents.Range{From: prefix, To: prefix + dateOf(now.UTC().AddDate(0, 0, 1-days))}
		var changes []documents.Change
		remove := func() error {
			if err := r.store.ChangeDocuments(ctx, collection, changes...); err != nil {
				return err
			}
			deleted += len(changes)
			changes = changes[:0]
			return nil
		}
		for d, err := range r.store.ListDocuments(ctx, collection, old) {
			if err != nil {
				return deleted, err
			}
			changes = append(changes, documents.Change{Key: d.Key, Delete: true})
			if len(changes) == documents.MaxChanges {
				if err := remove(); err != nil {
					return deleted, err
				}
			}
		}
		if len(changes) > 0 {
			if err := remove(); err != nil {
				return deleted, err
			}
		}
	}
	return deleted, nil
}
