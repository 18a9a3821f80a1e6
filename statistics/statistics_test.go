// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package statistics_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/documents"
	"github.com/caddy-moderation/caddy-moderation/statistics"
	"github.com/caddy-moderation/caddy-moderation/storage/storagetest"
)

var now = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// today returns the figures of the account acme today.
func today(t testing.TB, r *statistics.Recorder) statistics.Day {
	t.Helper()
	days, err := r.Days(t.Context(), "acme", now, 1)
	must(t, err)
	return days[0]
}

// TestNodesAddUp guards against counts that are lost when two nodes write one day at the same time, and against those
// that are counted twice because they are in memory and in the store.
func TestNodesAddUp(t *testing.T) {
	t.Parallel()
	store := storagetest.NewMemory()
	const nodes, rounds, each = 4, 20, 5
	recorders := make([]*statistics.Recorder, nodes)
	var group sync.WaitGroup
	for i := range recorders {
		recorders[i] = statistics.NewRecorder(store)
		group.Go(func() {
			for range rounds {
				for range each {
					recorders[i].Answered(now, "acme")
					recorders[i].Text(now, "acme", "reject", []string{"hate"}, []float64{0.75, 0})
				}
				recorders[i].Refused(now, "acme", "rate_limit_exceeded")
				if err := recorders[i].Flush(t.Context()); err != nil && !errors.Is(err, documents.ErrConflict) {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	for _, r := range recorders {
		must(t, r.Flush(t.Context()))
	}
	recorders[0].Answered(now, "acme") // in memory only
	got := today(t, recorders[0])
	const want = nodes * rounds * each
	if got.Answered != want+1 || got.Texts["reject"] != want || got.Flagged["hate"] != want ||
		got.Refused["rate_limit_exceeded"] != nodes*rounds || got.Date != "2026-11-24" {
		t.Errorf("got %+v, want %d", got, want)
	}
	samples, err := recorders[1].Samples(t.Context(), "acme", now, statistics.KeepSampleDays)
	must(t, err)
	if len(samples) != statistics.KeepSampleDays || len(samples[0].Texts) != statistics.SampleSize {
		t.Fatalf("got %d days, %d texts today", len(samples), len(samples[0].Texts))
	}
	if p := samples[0].Texts[0]; len(p) != 2 || math.Abs(p[0]-0.75) > 1e-4 || p[1] != 0 {
		t.Errorf("got the probabilities %v", p)
	}
	if got := today(t, statistics.NewRecorder(storagetest.NewMemory())); got.Answered != 0 {
		t.Errorf("an empty store: got %+v", got)
	}
}

// TestSampleIsFair guards against a sample that prefers the first texts of a day, or those of one node.
func TestSampleIsFair(t *testing.T) {
	t.Parallel()
	store := storagetest.NewMemory()
	const texts = 20_000
	for node := range 2 {
		r := statistics.NewRecorder(store)
		for i := range texts / 2 {
			r.Text(now, "acme", "approve", nil, []float64{float64(node*texts/2+i) / texts})
			if i%1000 == 0 {
				must(t, r.Flush(t.Context()))
			}
		}
		must(t, r.Flush(t.Context()))
	}
	samples, err := statistics.NewRecorder(store).Samples(t.Context(), "acme", now, 1)
	must(t, err)
	sum := 0.0
	for _, text := range samples[0].Texts {
		sum += text[0]
	}
	// The mean of 200 of a uniform distribution has a standard deviation of 0.0204. Six of them do not happen.
	mean := sum / statistics.SampleSize
	if n := len(samples[0].Texts); n != statistics.SampleSize || math.Abs(mean-0.5) > 0.123 {
		t.Errorf("got the mean %.3f of %d texts", mean, n)
	}
}

// failing is a store that can be switched off.
type failing struct {
	documents.Store
	off bool
}

var errOff = errors.New("off")

func (f *failing) ChangeDocuments(ctx context.Context, collection string, changes ...documents.Change) error {
	if f.off {
		return errOff
	}
	return f.Store.ChangeDocuments(ctx, collection, changes...)
}

// TestStoreGone guards against counts that are lost while the store is away.
func TestStoreGone(t *testing.T) {
	t.Parallel()
	store := &failing{Store: storagetest.NewMemory(), off: true}
	r := statistics.NewRecorder(store)
	for i := range 3 {
		r.Answered(now, "acme")
		r.Text(now, "acme", "approve", nil, []float64{0.25})
		if err := r.Flush(t.Context()); !errors.Is(err, errOff) {
			t.Fatalf("got %v", err)
		}
		if got := today(t, r); got.Answered != int64(i+1) {
			t.Errorf("while the store is away: got %+v, want %d", got, i+1)
		}
	}
	store.off = false
	must(t, r.Flush(t.Context()))
	other := statistics.NewRecorder(store)
	if got := today(t, other); got.Answered != 3 || got.Texts["approve"] != 3 {
		t.Errorf("got %+v", got)
	}
	samples, err := other.Samples(t.Context(), "acme", now, 1)
	must(t, err)
	if len(samples[0].Texts) != 3 {
		t.Errorf("got a sample of %d", len(samples[0].Texts))
	}
}

// damaged is a store that cannot read what an account has.
type damaged struct {
	documents.Store
	account string
}

func (d *damaged) Documents(ctx context.Context, collection string, keys ...string) ([]documents.Document, error) {
	for _, key := range keys {
		if strings.HasSuffix(key, "/"+d.account) {
			return nil, errOff
		}
	}
	return d.Store.Documents(ctx, collection, keys...)
}

// TestADamagedRecordStopsNoOthers guards against the figures of all accounts standing still because of one.
func TestADamagedRecordStopsNoOthers(t *testing.T) {
	t.Parallel()
	memory := storagetest.NewMemory()
	r := statistics.NewRecorder(&damaged{memory, "bad"})
	const accounts = 500
	for i := range accounts {
		r.Answered(now, fmt.Sprint("good", i))
	}
	r.Answered(now, "bad")
	if err := r.Flush(t.Context()); !errors.Is(err, errOff) {
		t.Fatalf("got %v", err)
	}
	read := statistics.NewRecorder(memory)
	written := 0
	for i := range accounts {
		days, err := read.Days(t.Context(), fmt.Sprint("good", i), now, 1)
		must(t, err)
		written += int(days[0].Answered)
	}
	if written != accounts {
		t.Errorf("got the figures of %d accounts, want %d", written, accounts)
	}
}

// TestForgetAndTrim guards against figures of a deleted account, or of another one that is deleted with it, and against
// figures that are kept for too long or not for long enough.
// TestWhatIsNotUnderstoodStays guards against figures of a newer version that an older one overwrites, and against one
// day that hides all others.
func TestWhatIsNotUnderstoodStays(t *testing.T) {
	t.Parallel()
	memory := storagetest.NewMemory()
	r := statistics.NewRecorder(memory)
	date := now.Format(time.DateOnly)
	for key, value := range map[string]string{"d/" + date + "/a": "[7]", "s/" + date + "/a": "\x02abc"} {
		must(t, memory.ChangeDocuments(t.Context(), "statistics", documents.Change{Key: key, Value: []byte(value)}))
	}
	yesterday := now.AddDate(0, 0, -1)
	for _, at := range []time.Time{now, yesterday} {
		r.Answered(at, "a")
		r.Text(at, "a", "approve", nil, []float64{0.5})
	}
	must(t, r.Flush(t.Context()))
	days, err := r.Days(t.Context(), "a", now, 2)
	must(t, err)
	if !days[0].Unreadable || days[0].Answered != 0 || days[1].Unreadable || days[1].Answered != 1 {
		t.Errorf("got %+v", days)
	}
	samples, err := r.Samples(t.Context(), "a", now, 2)
	must(t, err)
	if len(samples[0].Texts) != 0 || len(samples[1].Texts) != 1 {
		t.Errorf("got %+v", samples)
	}
	found, err := memory.Documents(t.Context(), "statistics", "d/"+date+"/a", "s/"+date+"/a")
	must(t, err)
	if string(found[0].Value) != "[7]" || string(found[1].Value) != "\x02abc" {
		t.Errorf("got %q and %q", found[0].Value, found[1].Value)
	}
}

func TestForgetAndTrim(t *testing.T) {
	t.Parallel()
	store := storagetest.NewMemory()
	r := statistics.NewRecorder(store)
	for _, account := range []string{"acme", "acme2"} {
		for _, age := range []int{0, statistics.KeepSampleDays - 1, statistics.KeepSampleDays, 399, 400, 500} {
			at := now.AddDate(0, 0, -age)
			r.Answered(at, account)
			r.Text(at, account, "approve", nil, []float64{0.5})
		}
	}
	must(t, r.Flush(t.Context()))
	count := func() (days, samples int) {
		for d, err := range store.ListDocuments(t.Context(), "statistics", documents.Range{}) {
			must(t, err)
			if d.Key[0] == 'd' {
				days++
			} else {
				samples++
			}
		}
		return days, samples
	}
	if days, samples := count(); days != 12 || samples != 12 {
		t.Fatalf("got %d days, %d samples", days, samples)
	}
	deleted, err := r.Trim(t.Context(), now)
	must(t, err)
	if days, samples := count(); days != 8 || samples != 4 || deleted != 12 {
		t.Errorf("after a trim: got %d days, %d samples, %d deleted", days, samples, deleted)
	}
	r.Answered(now, "acme")
	must(t, r.Forget(t.Context(), "acme", now))
	must(t, r.Flush(t.Context()))
	if days, samples := count(); days != 4 || samples != 2 {
		t.Errorf("after an account is forgotten: got %d days, %d samples", days, samples)
	}
	if days, err := r.Days(t.Context(), "acme2", now, 10_000); err != nil || len(days) != statistics.KeepDays ||
		days[399].Answered != 1 || days[0].Answered != 1 {
		t.Errorf("the other account: got %d days, %v", len(days), err)
	}
}

// TestNamesAreBounded guards against a document that grows with the names that somebody makes up.
func TestNamesAreBounded(t *testing.T) {
	t.Parallel()
	r := statistics.NewRecorder(storagetest.NewMemory())
	for i := range 1000 {
		r.Refused(now, "acme", "reason"+string(rune('a'+i%26))+string(rune('a'+i/26)))
	}
	must(t, r.Flush(t.Context()))
	if got := today(t, r).Refused; len(got) > 41 || got.Total() != 1000 || got["other"] == 0 {
		t.Errorf("got %d names, %d in all", len(got), got.Total())
	}
}

// BenchmarkText measures what a judged text costs.
func BenchmarkText(b *testing.B) {
	r := statistics.NewRecorder(storagetest.NewMemory())
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		flagged, probabilities := []string{"hate"}, []float64{0.9, 0.1, 0.1, 0.1, 0.1}
		for p.Next() {
			r.Text(now, "acme", "reject", flagged, probabilities)
		}
	})
}
