// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage"
)

// Restore returns a store that was restored from a backup. The implementation closes it when the test ends.
type Restore func(t *testing.T, backup []byte) storage.Store

// RunBackup runs the tests of a store that can be backed up.
func RunBackup(t *testing.T, open Open, restore Restore) {
	for name, test := range map[string]func(*testing.T, Open, Restore){
		"a backup holds everything":          backupHoldsEverything,
		"a backup under load is of one time": backupUnderLoad,
		"a backup reports its writer":        backupReportsItsWriter,
		"a backup ends with its context":     backupEndsWithItsContext,
		"a closed store makes no backup":     backupAfterClose,
		"restoring twice makes the same":     backupOfABackup,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open, restore)
		})
	}
}

func backup(t *testing.T, s storage.Store) []byte {
	t.Helper()
	var b bytes.Buffer
	must(t, s.Backup(context.Background(), &b))
	return b.Bytes()
}

func backupHoldsEverything(t *testing.T, open Open, restore Restore) {
	s := opened(t, open)
	fill(t, s)
	// A charge that is not settled yet is in it too.
	unsettled := charge("b", 5, quota.Limits{})
	take(t, s, unsettled)
	saved := backup(t, s)
	before := read(t, s)
	restored := restore(t, saved)
	if after := read(t, restored); !reflect.DeepEqual(after, before) {
		t.Errorf("the restored store: got\n%+v, want\n%+v", after, before)
	}
	settle(t, restored, unsettled, quota.Outcome{Refund: true})
	read(t, restored).checkGivenBack(t)
}

// checkGivenBack is check for a store in which account "b" had 5 more requests that were given back.
func (c contents) checkGivenBack(t *testing.T) {
	t.Helper()
	b := c.Usage["b"]
	b.Counts.Minute -= 5
	c.Usage["b"] = b
	c.check(t)
}

func backupOfABackup(t *testing.T, open Open, restore Restore) {
	s := opened(t, open)
	fill(t, s)
	want := read(t, s)
	for range 2 {
		s = restore(t, backup(t, s))
		if got := read(t, s); !reflect.DeepEqual(got, want) {
			t.Fatalf("the restored store: got\n%+v, want\n%+v", got, want)
		}
	}
}

// backupUnderLoad compares a backup with what was acknowledged before it began and what was tried until it ended.
// What was acknowledged one after the other must be in it up to some point and not beyond.
func backupUnderLoad(t *testing.T, open Open, restore Restore) {
	ctx := context.Background()
	s := opened(t, open)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	// work does something over and over, and counts how often it was tried and acknowledged.
	type progress struct{ tried, acknowledged atomic.Int64 }
	work := func(p *progress, do func(i int) error) {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				p.tried.Add(1)
				if err := do(i); err != nil {
					t.Errorf("a call: got the error %v, want none", err)
					return
				}
				p.acknowledged.Add(1)
			}
		})
	}
	var calls, accounts, feedbacks progress
	for range 4 {
		work(&calls, func(int) error {
			c := charge("a", 1, quota.Limits{})
			_, _, err := s.Take(ctx, c)
			return errors.Join(err, s.Settle(ctx, c, quota.Outcome{Flagged: []string{"hate"}}))
		})
	}
	work(&accounts, func(i int) error {
		id := fmt.Sprintf("a%06d", i)
		return errors.Join(s.CreateAccount(ctx, quota.Account{ID: id}), s.CreateKey(ctx, key("key_"+id, id, 0)))
	})
	work(&feedbacks, func(i int) error { return s.AppendFeedback(ctx, record("a", i), noBound) })
	for range 3 {
		least := [3]int64{calls.acknowledged.Load(), accounts.acknowledged.Load(), feedbacks.acknowledged.Load()}
		saved := backup(t, s)
		most := [3]int64{calls.tried.Load(), accounts.tried.Load(), feedbacks.tried.Load()}
		restored := restore(t, saved)
		c := counts(t, restored, "a")
		flagged, err := restored.Flagged(ctx, "a", march)
		must(t, err)
		if c.Day != c.Period || c.Minute != c.Period || flagged["hate"] > c.Period {
			t.Errorf("the backup: got the counts %+v, hate flagged %d times; want equal counts and no more flagged",
				c, flagged["hate"])
		}
		ids, keys := collect(t, restored.Accounts(ctx)), collect(t, restored.Keys(ctx, ""))
		records := collect(t, restored.Feedback(ctx, ""))
		what := [3]string{"calls", "accounts", "feedback records"}
		for i, n := range [3]int64{c.Period, int64(len(ids)), int64(len(records))} {
			if n < least[i] || n > most[i] {
				t.Errorf("the backup: got %d %s, want %d (acknowledged before) to %d (tried until its end)",
					n, what[i], least[i], most[i])
			}
		}
		for i, a := range ids {
			if want := fmt.Sprintf("a%06d", i); a.ID != want {
				t.Fatalf("account %d in the backup: got %s, want %s, which was acknowledged before it", i, a.ID, want)
			}
		}
		if len(keys) > len(ids) || len(keys) < len(ids)-1 {
			t.Errorf("keys in the backup: got %d, want %d, one for each account, or one less", len(keys), len(ids))
		}
		for i, r := range records {
			if want := record("a", i).ID; r.ID != want {
				t.Fatalf("feedback record %d in the backup: got %s, want %s, which was acknowledged before it", i,
					r.ID, want)
			}
		}
	}
	close(stop)
	wg.Wait()
}

// failing is a writer that fails after some bytes.
type failing struct{ left int }

var errWriter = errors.New("the writer failed")

func (f *failing) Write(b []byte) (int, error) {
	if f.left -= len(b); f.left < 0 {
		return 0, errWriter
	}
	return len(b), nil
}

func backupReportsItsWriter(t *testing.T, open Open, _ Restore) {
	s := opened(t, open)
	fill(t, s)
	for _, left := range []int{0, 100} {
		wantErr(t, s.Backup(context.Background(), &failing{left}), errWriter)
	}
	read(t, s).check(t)
}

func backupEndsWithItsContext(t *testing.T, open Open, _ Restore) {
	s := opened(t, open)
	fill(t, s)
	done, cancel := context.WithCancel(context.Background())
	cancel()
	wantErr(t, s.Backup(done, io.Discard), context.Canceled)
}

func backupAfterClose(t *testing.T, open Open, _ Restore) {
	s := opened(t, open)
	must(t, s.Close())
	var b bytes.Buffer
	wantErr(t, s.Backup(context.Background(), &b), storage.ErrUnavailable)
	if b.Len() != 0 {
		t.Errorf("a backup of a closed store: got %d bytes, want none", b.Len())
	}
}
