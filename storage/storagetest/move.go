// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage"
	moving "github.com/caddy-moderation/caddy-moderation/storage/contents"
)

// Fill returns an empty place that is filled, and a function that opens the place as a store once it is finished. The
// implementation closes both when the test ends.
type Fill func(t *testing.T) (place moving.Target, open func() (storage.Store, error))

// RunMove runs the tests of moving everything from a store, which must be a [moving.Source], to a place, which may be
// of another store.
func RunMove(t *testing.T, open Open, fill Fill) {
	for name, test := range map[string]func(*testing.T, Open, Fill){
		"a move takes everything":                         moveTakesEverything,
		"a file takes everything":                         fileTakesEverything,
		"a move under load loses and repeats nothing":     moveUnderLoad,
		"a place that is not finished is refused":         unfinishedIsRefused,
		"a place that lost something is noticed":          lossIsNoticed,
		"an owner with many keys moves in parts":          manyKeysMove,
		"a part of the contents is what was asked for":    selectedContents,
		"what is forgotten is gone from the place":        forgottenIsGone,
		"a finished place that became void is refused":    voidIsRefused,
		"numbers beyond floating point and zeros arrive":  oddNumbersMove,
		"a move ends with its context and leaves nothing": moveEndsWithItsContext,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open, fill)
		})
	}
}

// opening opens a place that must be finished.
func opening(t *testing.T, open func() (storage.Store, error)) storage.Store {
	t.Helper()
	s, err := open()
	must(t, err)
	return s
}

func source(t *testing.T, s storage.Store) moving.Source {
	t.Helper()
	from, ok := s.(moving.Source)
	if !ok {
		t.Fatalf("%T does not give its contents", s)
	}
	return from
}

func moveTakesEverything(t *testing.T, open Open, fillPlace Fill) {
	s := opened(t, open)
	fill(t, s)
	to, openPlace := fillPlace(t)
	m := moving.Move{From: source(t, s), To: to}
	report, err := m.Run(context.Background())
	must(t, err)
	if report.Source != report.Target || report.Source.Accounts != 2 || report.Source.Keys != 4 ||
		report.Source.Feedback != 9 || report.Source.Requests != 20 || report.Source.Digest == "" {
		t.Errorf("the report: got %+v, want 2 accounts, 4 keys, 9 records and 20 requests in both", report)
	}
	arrived := opening(t, openPlace)
	if got, want := read(t, arrived), read(t, s); !reflect.DeepEqual(got, want) {
		t.Errorf("the copy: got\n%+v, want\n%+v", got, want)
	}
	read(t, arrived).check(t)
	sameBounds(t, s, arrived)
}

// sameBounds checks that as much of a bound is left in two stores.
func sameBounds(t *testing.T, stores ...storage.Store) {
	t.Helper()
	bound := noBound
	bound.Records = 3
	for _, s := range stores {
		if err := s.AppendFeedback(context.Background(), record("a", 77), bound); err == nil {
			t.Error("a record beyond the bound: got no error, want one: the bound was used up before the move")
		}
	}
}

func fileTakesEverything(t *testing.T, open Open, fillPlace Fill) {
	ctx := context.Background()
	s := opened(t, open)
	fill(t, s)
	var file, again bytes.Buffer
	must(t, moving.Save(ctx, source(t, s), &file))
	to, openPlace := fillPlace(t)
	must(t, moving.Load(ctx, to, bytes.NewReader(file.Bytes())))
	arrived := opening(t, openPlace)
	read(t, arrived).check(t)
	must(t, moving.Save(ctx, source(t, arrived), &again))
	for _, cut := range []int{0, 10, file.Len() / 2, file.Len() - 1} {
		var err error
		for _, e := range moving.Read(bytes.NewReader(file.Bytes()[:cut])) {
			err = errors.Join(err, e)
		}
		wantErr(t, err, moving.ErrNotWhole)
	}
}

// moveUnderLoad moves while callers work, refuses them at the freeze as a service does, and compares what arrived with
// what was acknowledged.
func moveUnderLoad(t *testing.T, open Open, fillPlace Fill) {
	ctx := context.Background()
	s := opened(t, open)
	for _, id := range []string{"a", "b", "gone"} {
		must(t, s.CreateAccount(ctx, account(id)))
	}
	var frozen sync.RWMutex
	var stopped bool
	var calls, records, accounts atomic.Int64
	var wg sync.WaitGroup
	work := func(do func(i int) error) {
		wg.Go(func() {
			for i := 0; ; i++ {
				frozen.RLock()
				if stopped {
					frozen.RUnlock()
					return
				}
				err := do(i)
				frozen.RUnlock()
				if err != nil {
					t.Errorf("a call: got the error %v, want none", err)
					return
				}
			}
		})
	}
	for range 4 {
		work(func(int) error {
			c := charge("a", 1, quota.Limits{})
			_, _, err := s.Take(ctx, c)
			calls.Add(1)
			return errors.Join(err, s.Settle(ctx, c, quota.Outcome{Flagged: []string{"hate"}}))
		})
	}
	work(func(i int) error {
		id := fmt.Sprintf("n%06d", i)
		accounts.Add(1)
		return errors.Join(s.CreateAccount(ctx, quota.Account{ID: id}), s.CreateKey(ctx, key("key_"+id, id, 0)))
	})
	work(func(i int) error {
		records.Add(1)
		return s.AppendFeedback(ctx, record("a", i), noBound)
	})
	to, openPlace := fillPlace(t)
	m := moving.Move{From: source(t, s), To: to, Freeze: func(ctx context.Context) error {
		if err := s.DeleteAccount(ctx, "gone"); err != nil {
			return err
		}
		frozen.Lock()
		defer frozen.Unlock()
		stopped = true
		return nil
	}}
	report, err := m.Run(ctx)
	frozen.Lock()
	stopped = true
	frozen.Unlock()
	wg.Wait()
	must(t, err)
	if report.Again == 0 {
		t.Error("nothing was copied again, want at least the deleted account")
	}
	arrived := opening(t, openPlace)
	c := counts(t, arrived, "a")
	flagged, err := arrived.Flagged(ctx, "a", march)
	must(t, err)
	if n := calls.Load(); c.Period != n || c.Day != n || c.Minute != n || flagged["hate"] != n {
		t.Errorf("%d calls were acknowledged; the copy has %+v and hate %d times", n, c, flagged["hate"])
	}
	if got, want := len(collect(t, arrived.Accounts(ctx))), accounts.Load()+2; int64(got) != want {
		t.Errorf("got %d accounts in the copy, want %d", got, want)
	}
	if got, want := len(collect(t, arrived.Keys(ctx, ""))), accounts.Load(); int64(got) != want {
		t.Errorf("got %d keys in the copy, want %d", got, want)
	}
	if got, want := len(collect(t, arrived.Feedback(ctx, ""))), records.Load(); int64(got) != want {
		t.Errorf("got %d feedback records in the copy, want %d", got, want)
	}
	_, err = arrived.Account(ctx, "gone")
	wantErr(t, err, quota.ErrNotFound)
}

func unfinishedIsRefused(t *testing.T, open Open, fillPlace Fill) {
	s := opened(t, open)
	fill(t, s)
	to, openPlace := fillPlace(t)
	must(t, to.Put(context.Background(), source(t, s).Contents(context.Background(), nil)))
	must(t, to.Close())
	_, err := openPlace()
	wantErr(t, err, moving.ErrUnfinished)
}

func voidIsRefused(t *testing.T, open Open, fillPlace Fill) {
	ctx := context.Background()
	s := opened(t, open)
	fill(t, s)
	to, openPlace := fillPlace(t)
	m := moving.Move{From: source(t, s), To: to}
	_, err := m.Run(ctx)
	must(t, err)
	must(t, to.Void(ctx))
	_, err = openPlace()
	wantErr(t, err, moving.ErrUnfinished)
}

// forgetful is a place that loses an account.
type forgetful struct{ moving.Target }

func (f forgetful) Put(ctx context.Context, items moving.Items) error {
	return f.Target.Put(ctx, func(yield func(moving.Item, error) bool) {
		for item, err := range items {
			if item.Owner != nil && item.Owner.ID == "b" && len(item.Owner.Keys) > 0 {
				item.Owner.Keys = item.Owner.Keys[1:]
			}
			if !yield(item, err) {
				return
			}
		}
	})
}

func lossIsNoticed(t *testing.T, open Open, fillPlace Fill) {
	s := opened(t, open)
	fill(t, s)
	to, openPlace := fillPlace(t)
	m := moving.Move{From: source(t, s), To: forgetful{to}}
	_, err := m.Run(context.Background())
	wantErr(t, err, moving.ErrDiffers)
	must(t, to.Close())
	_, err = openPlace()
	wantErr(t, err, moving.ErrUnfinished)
}

func manyKeysMove(t *testing.T, open Open, fillPlace Fill) {
	ctx := context.Background()
	s := opened(t, open)
	const keys = 1200
	must(t, s.CreateAccount(ctx, account("a")))
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := worker; i < keys; i += 8 {
				id := fmt.Sprintf("key_%05d", i)
				c := charge("a", 1, quota.Limits{})
				c.Key = id
				_, _, err := s.Take(ctx, c)
				if err := errors.Join(s.CreateKey(ctx, key(id, "a", 0)), err, s.Settle(ctx, c, quota.Outcome{})); err != nil {
					t.Errorf("a call: got the error %v, want none", err)
				}
			}
		})
	}
	wg.Wait()
	to, openPlace := fillPlace(t)
	m := moving.Move{From: source(t, s), To: to}
	_, err := m.Run(ctx)
	must(t, err)
	arrived := opening(t, openPlace)
	requests, err := arrived.KeyRequests(ctx, "a", march)
	must(t, err)
	if got := len(collect(t, arrived.Keys(ctx, "a"))); got != keys || len(requests) != keys {
		t.Errorf("got %d keys and the counts of %d in the copy, want %d", got, len(requests), keys)
	}
	if c := counts(t, arrived, "a"); c.Period != keys {
		t.Errorf("got %d requests in the copy, want %d", c.Period, keys)
	}
}

func selectedContents(t *testing.T, open Open, _ Fill) {
	ctx := context.Background()
	s := opened(t, open)
	fill(t, s)
	must(t, s.CreateAccount(ctx, account("aa")))
	must(t, s.CreateKey(ctx, key("key_aa", "aa", 0)))
	var owners []string
	records := 0
	day := int64(0)
	for item, err := range source(t, s).Contents(ctx, nil) {
		must(t, err)
		if item.Feedback != nil {
			day = moving.DayOf(item.Feedback.Time)
		}
	}
	only := &moving.Selection{Owners: []string{"a", "nobody"}, Days: []int64{day, day + 1}}
	for item, err := range source(t, s).Contents(ctx, only) {
		must(t, err)
		switch {
		case item.Owner != nil:
			owners = append(owners, item.Owner.ID)
			if len(item.Owner.Keys) != 2 {
				t.Errorf("keys of a: got %d, want 2", len(item.Owner.Keys))
			}
		case item.Feedback != nil:
			records++
		default:
			t.Errorf("got the item %+v, want owners and feedback", item)
		}
	}
	if len(owners) != 1 || owners[0] != "a" || records != 9 {
		t.Errorf("got the owners %v and %d records, want a and 9", owners, records)
	}
}

func forgottenIsGone(t *testing.T, open Open, fillPlace Fill) {
	ctx := context.Background()
	s := opened(t, open)
	fill(t, s)
	to, openPlace := fillPlace(t)
	must(t, to.Put(ctx, source(t, s).Contents(ctx, nil)))
	day := int64(0)
	must(t, to.Put(ctx, func(yield func(moving.Item, error) bool) {
		for item, err := range source(t, s).Contents(ctx, nil) {
			must(t, err)
			if item.Feedback != nil {
				day = moving.DayOf(item.Feedback.Time)
			}
		}
		_ = yield(moving.Item{Forget: &moving.Forget{Owner: "a"}}, nil) &&
			yield(moving.Item{Forget: &moving.Forget{Day: day}}, nil)
	}))
	must(t, to.Finish(ctx))
	arrived := opening(t, openPlace)
	if ids := collect(t, arrived.Accounts(ctx)); len(ids) != 1 || ids[0].ID != "b" {
		t.Errorf("got the accounts %+v, want b", ids)
	}
	if keys := collect(t, arrived.Keys(ctx, "")); len(keys) != 2 {
		t.Errorf("got %d keys, want the two of b", len(keys))
	}
	if records := collect(t, arrived.Feedback(ctx, "")); len(records) != 0 {
		t.Errorf("got %d feedback records, want none", len(records))
	}
	if c := counts(t, arrived, "a"); c != (quota.Counts{}) {
		t.Errorf("got the counts %+v of a, want none", c)
	}
	must(t, arrived.CreateKey(ctx, key("key_a", "a", 0)))
}

func oddNumbersMove(t *testing.T, open Open, fillPlace Fill) {
	ctx := context.Background()
	s := opened(t, open)
	const many = 1<<61 + 1
	call(t, s, charge("declared", many, quota.Limits{}), "hate")
	early := chargeAt(noon.AddDate(-100, 0, 0), 3)
	early.Account = "early"
	call(t, s, early)
	zero := charge("zero", 5, quota.Limits{})
	take(t, s, zero)
	settle(t, s, zero, quota.Outcome{Refund: true})
	to, openPlace := fillPlace(t)
	m := moving.Move{From: source(t, s), To: to}
	_, err := m.Run(ctx)
	must(t, err)
	arrived := opening(t, openPlace)
	if c := counts(t, arrived, "declared"); c.Period != many || c.Minute != many {
		t.Errorf("got the counts %+v, want %d", c, int64(many))
	}
	c, err := arrived.Counts(ctx, "early", early.Now, early.Period)
	must(t, err)
	if c != (quota.Counts{Minute: 3, Day: 3, Period: 3}) {
		t.Errorf("got the counts %+v before 1970, want 3 each", c)
	}
	if c := counts(t, arrived, "zero"); c != (quota.Counts{Minute: 5}) {
		t.Errorf("got the counts %+v after a refund, want 5 in the minute", c)
	}
	// A window that was given back whole still exists: what is flagged later counts.
	settle(t, arrived, quota.Charge{Account: "zero", Now: noon, Period: march}, quota.Outcome{Flagged: []string{"hate"}})
	flagged, err := arrived.Flagged(ctx, "zero", march)
	must(t, err)
	if flagged["hate"] != 1 {
		t.Errorf("flagged in a window of 0 requests: got %v, want hate once", flagged)
	}
}

func moveEndsWithItsContext(t *testing.T, open Open, fillPlace Fill) {
	s := opened(t, open)
	fill(t, s)
	done, cancel := context.WithCancel(context.Background())
	to, openPlace := fillPlace(t)
	m := moving.Move{From: source(t, s), To: to, Freeze: func(context.Context) error {
		cancel()
		return nil
	}}
	_, err := m.Run(done)
	wantErr(t, err, context.Canceled)
	must(t, to.Close())
	_, err = openPlace()
	wantErr(t, err, moving.ErrUnfinished)
	read(t, s).check(t)
}
