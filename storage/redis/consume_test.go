// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/feedback"
	"github.com/caddy-moderation/caddy-moderation/quota"
)

// next takes a batch and returns the ids in it.
func next(t *testing.T, s feedback.Consumers, consumer string, n int) (ids string, batch feedback.Batch) {
	t.Helper()
	batch, err := s.NextFeedback(background, consumer, n)
	must(t, err)
	var all []string
	for _, r := range batch.Records {
		all = append(all, r.ID)
	}
	if (batch.Acknowledge == nil) != (len(all)+batch.Damaged == 0) {
		t.Errorf("a batch of %d: got something to acknowledge: %t", len(all), batch.Acknowledge != nil)
	}
	return strings.Join(all, " "), batch
}

// TestConsumers guards against records that a consumer never gets, or gets again after it has taken them.
func TestConsumers(t *testing.T) {
	t.Parallel()
	o := standalone(t)
	s := openTest(t, o)
	add := func(id string, days int) {
		t.Helper()
		must(t, s.AppendFeedback(background, testRecord(id, noon.AddDate(0, 0, days)), feedback.Bound{}))
	}
	want := func(consumer string, n int, want string) feedback.Batch {
		t.Helper()
		got, batch := next(t, s, consumer, n)
		if got != want {
			t.Errorf("a batch of %d for %s: got %q, want %q", n, consumer, got, want)
		}
		return batch
	}
	want("x", 10, "")
	for i := range 3 {
		for day := range 2 {
			add(fmt.Sprintf("d%d-%d", day, i), day)
		}
	}
	want("x", 2, "d0-0 d0-1")
	first := want("x", 2, "d0-0 d0-1") // it was not acknowledged
	must(t, first.Acknowledge(background))
	must(t, first.Acknowledge(background))
	must(t, want("x", 2, "d0-2 d1-0").Acknowledge(background))
	want("y", 4, "d0-0 d0-1 d0-2 d1-0") // another consumer begins at the beginning
	want("x", 10, "d1-1 d1-2")
	// One of what it was given is deleted, and one comes late.
	n, err := s.DeleteFeedback(background, testRecord("d1-1", noon.AddDate(0, 0, 1)).Ref())
	if err != nil || n != 1 {
		t.Fatalf("DeleteFeedback: got %d, %v; want 1", n, err)
	}
	add("late", -1)
	must(t, want("x", 10, "late d1-2").Acknowledge(background))
	want("x", 10, "")
	// The store is another one, the consumer is the same.
	o.Prefix = s.options.Prefix
	must(t, s.Close())
	s = openTest(t, o)
	want("x", 10, "")
	add("new", 1)
	must(t, want("x", 10, "new").Acknowledge(background))
	must(t, s.ForgetConsumer(background, "x"))
	must(t, s.ForgetConsumer(background, "nobody"))
	want("x", 10, "late d0-0 d0-1 d0-2 d1-0 d1-2 new")
	for _, name := range []string{"", "a b", strings.Repeat("x", 65), "ü"} {
		_, err := s.NextFeedback(background, name, 1)
		if !errors.Is(err, quota.ErrInvalid) || !errors.Is(s.ForgetConsumer(background, name), quota.ErrInvalid) {
			t.Errorf("a consumer named %q: got the error %v, want %v", name, err, quota.ErrInvalid)
		}
	}
}

// TestConsumersOfManyDays takes everything in small batches.
func TestConsumersOfManyDays(t *testing.T) {
	t.Parallel()
	s := openTest(t, standalone(t))
	var added, taken []string
	for i := range 200 {
		id := fmt.Sprintf("%03d", i)
		must(t, s.AppendFeedback(background, testRecord(id, noon.AddDate(0, 0, i/10-10)), feedback.Bound{}))
		added = append(added, id)
	}
	for {
		batch, err := s.NextFeedback(background, "x", 7)
		must(t, err)
		if batch.Acknowledge == nil {
			break
		}
		for _, r := range batch.Records {
			taken = append(taken, r.ID)
		}
		must(t, batch.Acknowledge(background))
	}
	if !slices.Equal(taken, added) {
		t.Errorf("taken: got %v, want %v", taken, added)
	}
}
