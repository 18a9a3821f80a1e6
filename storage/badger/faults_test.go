// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package badger

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/feedback"
	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage"
	"github.com/caddy-moderation/caddy-moderation/storage/badger/backup"
	"github.com/caddy-moderation/caddy-moderation/storage/badger/disk"
	"github.com/caddy-moderation/caddy-moderation/storage/storagetest"
)

// The store is tested with a database that fails at its n-th call, for every n, as SQLite is (sqlite.org/testing.html,
// "I/O Error Testing"): each call of each kind, before it had its effect, after it, and in between; once and several
// times in a row; with an error, without an answer, and with a damaged record. When the database is abandoned, what was
// written and not synced is lost: all, a part or nothing of it.

// faultSeed is an environment variable with the seed of the random losses.
const faultSeed = "FAULT_SEED"

// platter is a disk and the kernel in front of it: what outlives the databases that are opened on it.
type platter struct {
	mu      sync.Mutex
	random  *rand.Rand
	durable map[string]string // what is there after power loss
	kernel  map[string]string // what is read
	// unsynced is what the kernel has and the disk has not.
	unsynced []disk.Entry

	calls map[string]int
	plan  plan
	storm storm
	// open is the number of databases that are neither closed nor abandoned, most its maximum.
	open, most int
	under      sync.WaitGroup // calls that are under way
}

// plan says which call fails, and how.
type plan struct {
	kind  string // of call
	how   string
	at    int // the first call that fails, from 1 on
	times int // how many fail from there on
	lose  string
}

func (p plan) String() string {
	return fmt.Sprintf("%s/%s/%d-%d/%s", p.kind, p.how, p.at, p.at+p.times-1, p.lose)
}

var errFault = errors.New("input/output error")

func newPlatter(p plan, seed uint64) *platter {
	return &platter{
		random:  rand.New(rand.NewPCG(seed, uint64(p.at))),
		durable: make(map[string]string), kernel: make(map[string]string), calls: make(map[string]int), plan: p,
	}
}

func apply(to map[string]string, entries ...disk.Entry) {
	for _, e := range entries {
		if e.Delete {
			delete(to, string(e.Key))
		} else {
			to[string(e.Key)] = string(e.Value)
		}
	}
}

// due counts a call and returns how it must fail, or "".
func (p *platter) due(kind string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls[kind]++
	n := p.calls[kind]
	if hows := p.storm.hows[kind]; len(hows) > 0 && p.random.IntN(p.storm.oneIn) == 0 {
		return hows[p.random.IntN(len(hows))]
	}
	if kind != p.plan.kind || n < p.plan.at || n >= p.plan.at+p.plan.times {
		return ""
	}
	return p.plan.how
}

// fired reports whether the plan is over.
func (p *platter) fired() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[p.plan.kind] >= p.plan.at+p.plan.times-1
}

// lose drops what is not synced, as far as the plan says.
func (p *platter) lose() {
	from := len(p.unsynced)
	switch p.plan.lose {
	case "all":
		from = 0
	case "the end":
		from = p.random.IntN(len(p.unsynced) + 1)
	case "some":
		p.unsynced = slices.DeleteFunc(p.unsynced, func(disk.Entry) bool { return p.random.IntN(2) == 0 })
		from = len(p.unsynced)
	}
	p.unsynced = p.unsynced[:from]
	p.kernel = maps.Clone(p.durable)
	apply(p.kernel, p.unsynced...)
}

// faulty is a database on a platter.
type faulty struct {
	p         *platter
	abandoned chan struct{}
	once      sync.Once
	lost      sync.Once
}

func (p *platter) opener(_ context.Context, o disk.Options) (database, error) {
	if p.due("open") != "" {
		return nil, errFault
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open++; p.open > p.most {
		p.most = p.open
	}
	return &faulty{p: p, abandoned: make(chan struct{})}, nil
}

// call calls do, or fails as is due.
func (f *faulty) call(kind string, do func(part bool)) (damaged bool, err error) {
	f.p.under.Add(1)
	defer f.p.under.Done()
	how := f.p.due(kind)
	// An abandoned database does nothing any more: what it did, it did before anything was lost.
	locked := func(part bool) error {
		f.p.mu.Lock()
		defer f.p.mu.Unlock()
		select {
		case <-f.abandoned:
			return disk.ErrClosed
		default:
		}
		do(part)
		return nil
	}
	switch how {
	case "before":
		return false, errFault
	case "after", "part":
		return false, errors.Join(locked(how == "part"), errFault)
	case "full":
		return false, disk.ErrFull
	case "die":
		f.gone()
		return false, errFault
	case "hang before", "hang after":
		if how == "hang after" {
			_ = locked(false)
		}
		<-f.abandoned
		return false, disk.ErrClosed
	}
	return how == "damaged", locked(false)
}

func (f *faulty) Get(keys ...[]byte) (records []disk.Record, err error) {
	damaged, err := f.call("get", func(bool) {
		for _, key := range keys {
			r := disk.Record{Key: key}
			if v, ok := f.p.kernel[string(key)]; ok {
				r.Value = []byte(v)
			}
			records = append(records, r)
		}
	})
	return spoil(records, damaged), err
}

// spoil damages the records that exist.
func spoil(records []disk.Record, damaged bool) []disk.Record {
	for i := range records {
		if damaged && records[i].Value != nil {
			records[i].Value, records[i].Damaged = nil, true
		}
	}
	return records
}

func (f *faulty) Scan(r disk.Range) (records []disk.Record, next []byte, err error) {
	damaged, err := f.call("scan", func(bool) {
		for _, key := range slices.Sorted(maps.Keys(f.p.kernel)) {
			if !strings.HasPrefix(key, string(r.Prefix)) || key < string(r.From) {
				continue
			}
			// Parts are small, so that there are several.
			if len(records) == 2 {
				next = []byte(key)
				return
			}
			records = append(records, disk.Record{Key: []byte(key), Value: []byte(f.p.kernel[key])})
		}
	})
	return spoil(records, damaged), next, err
}

func (f *faulty) Write(entries []disk.Entry) error {
	_, err := f.call("write", func(part bool) {
		if part {
			entries = entries[:len(entries)/2]
		}
		for _, e := range entries {
			e.Key, e.Value = bytes.Clone(e.Key), bytes.Clone(e.Value)
			f.p.unsynced = append(f.p.unsynced, e)
			apply(f.p.kernel, e)
		}
	})
	return err
}

// Sync, if it fails, makes a part durable, and the kernel forgets that the rest is not: reads return what was written,
// but no later sync writes it.
func (f *faulty) Sync() error {
	_, err := f.call("sync", func(part bool) {
		for _, e := range f.p.unsynced {
			if !part || f.p.random.IntN(2) == 0 {
				apply(f.p.durable, e)
			}
		}
		f.p.unsynced = nil
	})
	return err
}

func (f *faulty) Check() error { _, err := f.call("check", func(bool) {}); return err }

// Done is also closed when the database is abandoned: nobody has to watch it any longer.
func (f *faulty) Done() <-chan struct{} { return f.abandoned }

func (f *faulty) Err() error { return errFault }

func (f *faulty) Released() <-chan struct{} { return f.abandoned }

func (f *faulty) Identity() disk.Identity { return disk.Identity{1} }

func (f *faulty) Snapshot() (s disk.Snapshot, err error) {
	_, err = f.call("snapshot", func(bool) {
		copied := &faultySnapshot{db: f}
		for _, key := range slices.Sorted(maps.Keys(f.p.kernel)) {
			copied.left = append(copied.left, disk.Record{Key: []byte(key), Value: []byte(f.p.kernel[key])})
		}
		s = copied
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

type faultySnapshot struct {
	db   *faulty
	left []disk.Record
}

func (s *faultySnapshot) Next() (part []disk.Record, err error) {
	damaged, err := s.db.call("next", func(bool) {
		n := min(4, len(s.left))
		part, s.left = slices.Clone(s.left[:n]), s.left[n:]
	})
	return spoil(part, damaged), err
}

func (s *faultySnapshot) Close() error { return nil }

func (f *faulty) gone() {
	f.once.Do(func() {
		close(f.abandoned)
		f.p.mu.Lock()
		f.p.open--
		f.p.mu.Unlock()
	})
}

func (f *faulty) Close() error {
	_, err := f.call("close", func(bool) {
		apply(f.p.durable, f.p.unsynced...)
		f.p.unsynced = nil
	})
	f.gone()
	return err
}

// Abandon loses what is not synced, once: a timeout and the call that it ends both abandon a database, and the second
// one must not take what the next database has written.
func (f *faulty) Abandon() bool {
	f.lost.Do(func() {
		f.gone()
		f.p.mu.Lock()
		defer f.p.mu.Unlock()
		f.p.lose()
	})
	return true
}

// step is a call of a store. Its result is compared with that of another store.
type step struct {
	what string
	// do returns the result of the call, or its error.
	do func(s storage.Store) (any, error)
}

var faultTime = time.Date(2026, 11, 15, 12, 0, 30, 0, time.UTC)

func faultCharge(account string, n int64) quota.Charge {
	return quota.Charge{Account: account, Key: "key_" + account, Requests: n, Now: faultTime,
		Period: quota.PeriodOf(0, faultTime), Limits: quota.Limits{RequestsPerMonth: 50}}
}

// steps returns the script: all methods of a store, more than once.
func steps() (all []step) {
	ctx := context.Background()
	add := func(what string, do func(s storage.Store) (any, error)) { all = append(all, step{what, do}) }
	say := func(what string, do func(s storage.Store) error) {
		add(what, func(s storage.Store) (any, error) { return nil, do(s) })
	}
	call := func(account string, n int64, o quota.Outcome) {
		add("call of "+account, func(s storage.Store) (any, error) {
			c := faultCharge(account, n)
			counts, window, err := s.Take(ctx, c)
			if err != nil || window != quota.NoWindow {
				return []any{counts.Day, counts.Period, window}, err
			}
			return []any{counts.Day, counts.Period, window}, s.Settle(ctx, c, o)
		})
	}
	give := func(account, id string) {
		say("feedback "+id, func(s storage.Store) error {
			r := feedback.Record{ID: id, Time: faultTime, Account: account, Text: "text of " + id}
			return s.AppendFeedback(ctx, r, feedback.Bound{Records: 4})
		})
	}
	look := func() {
		add("look", func(s storage.Store) (any, error) { return contentOf(s) })
	}
	sweep := func() {
		say("sweep", func(s storage.Store) error {
			if s, ok := s.(*Store); ok {
				// Everything idle is dropped, so that it is read again.
				for range idleSweeps + 1 {
					s.counters.sweep()
				}
				s.dropCaches()
			}
			return nil
		})
	}
	synced := func() {
		say("sync", func(s storage.Store) error {
			if s, ok := s.(*Store); ok {
				return s.syncer.join().wait()
			}
			return nil
		})
	}
	say("mark seeded", func(s storage.Store) error { return s.MarkSeeded(ctx) })
	for _, id := range []string{"a", "b", "c"} {
		say("create "+id, func(s storage.Store) error {
			return s.CreateAccount(ctx, quota.Account{ID: id, Tier: "free", Incarnation: "first"})
		})
		say("key of "+id, func(s storage.Store) error {
			return s.CreateKey(ctx, quota.Key{ID: "key_" + id, Account: id, Hash: quota.HashKey(id),
				Created: faultTime})
		})
	}
	say("create a again", func(s storage.Store) error {
		return s.CreateAccount(ctx,
			quota.Account{ID: "a", Incarnation: "again"})
	})
	call("a", 3, quota.Outcome{Flagged: []string{"hate", "hate", "spam"}})
	call("b", 5, quota.Outcome{Refund: true})
	call("c", 7, quota.Outcome{})
	give("a", "1")
	give("a", "2")
	look()
	sweep()
	call("a", 1, quota.Outcome{Flagged: []string{"hate"}})
	synced()
	say("update b", func(s storage.Store) error {
		_, err := s.UpdateAccount(ctx, "b", func(a *quota.Account) error { a.Name += "x"; return nil })
		return err
	})
	say("revoke the key of b", func(s storage.Store) error {
		_, err := s.UpdateKey(ctx, "key_b",
			func(k *quota.Key) error { k.Revoked = &faultTime; k.Name += "x"; return nil })
		return err
	})
	call("b", 48, quota.Outcome{})
	call("b", 3, quota.Outcome{})
	say("delete c", func(s storage.Store) error { return s.DeleteAccount(ctx, "c") })
	call("c", 2, quota.Outcome{Flagged: []string{"spam"}})
	say("delete c again", func(s storage.Store) error { return s.DeleteAccount(ctx, "c") })
	say("create c again", func(s storage.Store) error {
		return s.CreateAccount(ctx, quota.Account{ID: "c", Name: "second", Incarnation: "second"})
	})
	give("a", "3")
	give("a", "2")
	give("a", "4")
	give("a", "5")
	give("b", "5")
	add("backup", func(s storage.Store) (any, error) {
		if _, ok := s.(*Store); !ok {
			return nil, nil
		}
		var b bytes.Buffer
		if err := s.Backup(ctx, &b); err != nil {
			return nil, err
		}
		return nil, backup.Read(&b, func([]byte, []byte, uint64) error { return nil })
	})
	sweep()
	look()
	call("a", 1, quota.Outcome{Refund: true, Flagged: []string{"hate"}})
	call("c", 1, quota.Outcome{})
	synced()
	return all
}

// seen is what a store holds.
type seen struct {
	Seeded   bool
	Accounts []quota.Account
	Keys     []quota.Key
	ByHash   map[string]string
	Feedback []feedback.Record
	Counts   map[string]quota.Counts
	Flagged  map[string]map[string]int64
	Days     map[string]int64
}

func contentOf(s storage.Store) (c seen, err error) {
	ctx := context.Background()
	c = seen{ByHash: make(map[string]string), Counts: make(map[string]quota.Counts),
		Flagged: make(map[string]map[string]int64), Days: make(map[string]int64)}
	if c.Seeded, err = s.Seeded(ctx); err != nil {
		return c, err
	}
	if c.Accounts, err = all(s.Accounts(ctx)); err != nil {
		return c, err
	}
	if c.Keys, err = all(s.Keys(ctx, "")); err != nil {
		return c, err
	}
	if c.Feedback, err = all(s.Feedback(ctx, "")); err != nil {
		return c, err
	}
	for _, id := range []string{"a", "b", "c"} {
		k, err := s.KeyByHash(ctx, quota.HashKey(id))
		if err != nil && !errors.Is(err, quota.ErrNotFound) {
			return c, err
		}
		c.ByHash[id] = k.ID + " " + k.Name
		charge := faultCharge(id, 1)
		if c.Counts[id], err = s.Counts(ctx, id, faultTime, charge.Period); err != nil {
			return c, err
		}
		if c.Flagged[id], err = s.Flagged(ctx, id, charge.Period); err != nil {
			return c, err
		}
		days, err := s.Days(ctx, id, faultTime, 2)
		if err != nil {
			return c, err
		}
		c.Days[id] = days[0]
	}
	// Feedback is kept in the order of time and id; the reference keeps that of arrival within an instant.
	slices.SortFunc(c.Feedback, func(a, b feedback.Record) int { return cmp.Compare(a.ID, b.ID) })
	return c, nil
}

func all[T any](seq iter.Seq2[T, error]) (found []T, err error) {
	for v, err := range seq {
		if err != nil {
			return nil, err
		}
		found = append(found, v)
	}
	return found, nil
}

// withoutMinutes drops what may differ: the minute keeps what was refunded, and a refused call used its key.
func withoutMinutes(v any) any {
	c, ok := v.(seen)
	if !ok {
		return v
	}
	for i := range c.Keys {
		c.Keys[i].LastUsed = ""
	}
	c.Counts = maps.Clone(c.Counts)
	for id, counts := range c.Counts {
		counts.Minute = 0
		c.Counts[id] = counts
	}
	return c
}

// faultTiming is short, so that the tests are short. With a recovery wait of 0 callers are refused at once, otherwise
// they wait for the database. Only a hanging call takes as long as the timeout.
func faultTiming(how string, recoveryWait time.Duration) timing {
	limit := time.Minute
	if strings.HasPrefix(how, "hang") {
		limit = 30 * time.Millisecond
	}
	return timing{call: limit, sync: limit, recoveryWait: recoveryWait, firstBackoff: time.Microsecond,
		maxBackoff: time.Millisecond, check: time.Millisecond}
}

// trial plays the script on a store whose database fails as planned, and what was acknowledged on a reference store.
func trial(p plan, recoveryWait time.Duration, seed uint64) (fired bool, err error) {
	pl := newPlatter(p, seed)
	o := Options{Dir: "/nowhere", open: pl.opener, timing: faultTiming(p.how, recoveryWait)}
	s, err := Open(o)
	if err != nil {
		if p.kind == "open" && errors.Is(err, errFault) {
			return true, nil
		}
		return false, fmt.Errorf("open: %w", err)
	}
	want := storage.Store(storagetest.NewMemory())
	refused := 0
	for i, step := range steps() {
		got, err := step.do(s)
		if errors.Is(err, storage.ErrUnavailable) {
			refused++
			// Once the store is well again, a refused change must not have been made.
			if err := healthy(s); err != nil {
				return true, fmt.Errorf("step %d, %s: %w", i, step.what, err)
			}
		} else {
			expected, expectedErr := step.do(want)
			if (err == nil) != (expectedErr == nil) || err != nil && !sameError(err, expectedErr) {
				return true, fmt.Errorf("step %d, %s: the error is %v, want %v", i, step.what, err, expectedErr)
			}
			if err == nil {
				err = differ(withoutMinutes(got), withoutMinutes(expected))
			}
			if err != nil && expectedErr == nil {
				return true, fmt.Errorf("step %d, %s: %w", i, step.what, err)
			}
		}
	}
	fired = pl.fired()
	pl.mu.Lock()
	pl.plan.times = 0 // from here on nothing fails
	pl.mu.Unlock()
	if err := healthy(s); err != nil {
		return fired, err
	}
	if err := compare("in memory", s, want); err != nil {
		return fired, err
	}
	if err := s.flush(context.Background()); err != nil {
		return fired, fmt.Errorf("flush: %w", err)
	}
	// The process dies: what the kernel has stays. Then the power fails: what was not synced is lost.
	pl.mu.Lock()
	died, dark := pl.copy(pl.kernel), pl.copy(pl.durable)
	pl.mu.Unlock()
	if err := errors.Join(reopened("after the death of the process", died, want, true),
		reopened("after power loss", dark, want, false)); err != nil {
		return fired, err
	}
	if err := s.Close(); err != nil {
		return fired, fmt.Errorf("close: %w", err)
	}
	pl.under.Wait()
	if pl.open != 0 || pl.most > 1 {
		return fired, fmt.Errorf("%d databases are left open, %d were at once", pl.open, pl.most)
	}
	return fired, reopened("after closing", pl.copy(pl.durable), want, true)
}

// copy returns a platter that holds some records and does not fail.
func (p *platter) copy(records map[string]string) *platter {
	c := newPlatter(plan{}, 0)
	c.durable, c.kernel = maps.Clone(records), maps.Clone(records)
	return c
}

// reopened compares what a platter holds with the reference, including the counts or not.
func reopened(when string, p *platter, want storage.Store, counts bool) error {
	s, err := Open(Options{Dir: "/nowhere", open: p.opener, timing: faultTiming("", 0)})
	if err != nil {
		return fmt.Errorf("%s: %w", when, err)
	}
	if counts {
		return errors.Join(compare(when, s, want), s.Close())
	}
	got, err := contentOf(s)
	expected, expectedErr := contentOf(want)
	if err := errors.Join(err, expectedErr, s.Close()); err != nil {
		return fmt.Errorf("%s: %w", when, err)
	}
	for _, c := range []*seen{&got, &expected} {
		c.Counts, c.Flagged, c.Days = nil, nil, nil
		for i := range c.Keys {
			c.Keys[i].LastUsed = ""
		}
	}
	if err := differ(got, expected); err != nil {
		return fmt.Errorf("%s: %w", when, err)
	}
	return nil
}

// differ returns an error that names the parts in which two results differ.
func differ(got, want any) (err error) {
	if reflect.DeepEqual(got, want) {
		return nil
	}
	g, w := reflect.ValueOf(got), reflect.ValueOf(want)
	if _, ok := got.(seen); !ok {
		return fmt.Errorf("got %v, want %v", got, want)
	}
	for i := range g.NumField() {
		if g, w := g.Field(i).Interface(), w.Field(i).Interface(); !reflect.DeepEqual(g, w) {
			err = errors.Join(err, fmt.Errorf("got\n%v, want\n%v", g, w))
		}
	}
	return err
}

func compare(when string, s, want storage.Store) error {
	got, err := contentOf(s)
	// On a busy machine a slow database may be taken for one that hangs.
	for i := 0; i < 100 && errors.Is(err, storage.ErrUnavailable) && healthy(s) == nil; i++ {
		got, err = contentOf(s)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", when, err)
	}
	expected, err := contentOf(want)
	if err != nil {
		return err
	}
	if err := differ(withoutMinutes(got), withoutMinutes(expected)); err != nil {
		return fmt.Errorf("%s: %w", when, err)
	}
	for id, c := range got.Counts {
		if least := expected.Counts[id].Minute; c.Minute < least {
			return fmt.Errorf("%s: account %s has %d in the minute, less than the %d that were acknowledged", when,
				id, c.Minute, least)
		}
	}
	return nil
}

// healthy waits until a store is healthy.
func healthy(s storage.Store) (err error) {
	for range 10_000 {
		if err = s.Health(); err == nil {
			return nil
		}
		time.Sleep(100 * time.Microsecond)
	}
	return fmt.Errorf("the store does not become well: %w", err)
}

func sameError(got, want error) bool {
	for _, of := range []error{quota.ErrNotFound, quota.ErrExists, quota.ErrInvalid, feedback.ErrBound} {
		if errors.Is(got, of) != errors.Is(want, of) {
			return false
		}
	}
	return true
}

// TestFaultAtEveryCall must not run in parallel with others: it counts goroutines.
func TestFaultAtEveryCall(t *testing.T) {
	seed, err := strconv.ParseUint(cmp.Or(os.Getenv(faultSeed), "1"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	before := runtime.NumGoroutine()
	if _, err := trial(plan{}, 0, seed); err != nil {
		t.Fatalf("without a fault: %v", err)
	}
	hows := map[string][]string{
		"open": {"before"}, "check": {"before"}, "snapshot": {"before"}, "next": {"before", "damaged"}, "close": {"before"},
		"get": {"before", "damaged", "die", "hang before"}, "scan": {"before", "damaged", "hang before"},
		"write": {"before", "after", "part", "full", "die", "hang before", "hang after"},
		"sync":  {"before", "after", "part", "die", "hang before", "hang after"},
	}
	// Without the variable each kind of fault hits only some of the calls, each others.
	stride := 7
	if os.Getenv(faultSeed) != "" {
		stride = 1
	}
	var wg sync.WaitGroup
	var trials, failures atomic.Int64
	slots := make(chan struct{}, 8)
	offset := 0
	play := func(p plan, recoveryWait time.Duration) {
		offset++
		at := 1 + offset%stride
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			for fired := true; fired && failures.Load() < 5; at += stride {
				p.at = at
				var err error
				if fired, err = trial(p, recoveryWait, seed); err != nil {
					t.Errorf("%v, recovery wait %v: %v", p, recoveryWait, err)
					failures.Add(1)
				}
				trials.Add(1)
			}
		})
	}
	for _, kind := range slices.Sorted(maps.Keys(hows)) {
		losses := []string{"some"}
		if kind == "write" || kind == "sync" {
			losses = []string{"nothing", "all", "the end", "some"}
		}
		for _, how := range hows[kind] {
			for _, lose := range losses {
				for _, times := range []int{1, 3} {
					for _, recoveryWait := range []time.Duration{0, time.Minute} {
						play(plan{kind: kind, how: how, times: times, lose: lose}, recoveryWait)
					}
				}
			}
		}
	}
	wg.Wait()
	for i := 0; runtime.NumGoroutine() > before; i++ {
		if i == 10_000 {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines are left of %d trials\n%s", runtime.NumGoroutine()-before, trials.Load(),
				stacks[:runtime.Stack(stacks, true)])
		}
		time.Sleep(time.Millisecond)
	}
	t.Logf("%d trials", trials.Load())
}

// storm has any call fail at any time, one in so many.
type storm struct {
	oneIn int
	hows  map[string][]string
}

// stormy returns the ways in which calls fail in a storm: those that the caller notices at once.
func stormy() map[string][]string {
	return map[string][]string{
		"open": {"before"}, "check": {"before"}, "get": {"before"}, "scan": {"before"}, "snapshot": {"before"},
		"next":  {"before"},
		"write": {"before", "after", "part", "full", "die"}, "sync": {"before", "after", "part", "die"},
	}
}

// TestStormOfFaults runs many concurrent callers that change the same records, while any call of the database may fail.
// In the end what was acknowledged must be there, what was refused must not, and counts must fit what they count.
func TestStormOfFaults(t *testing.T) {
	t.Parallel()
	seed, rounds := uint64(1), 12
	if n, err := strconv.ParseUint(os.Getenv(faultSeed), 10, 64); err == nil {
		seed, rounds = n, 300
	}
	for round := range rounds {
		for _, recoveryWait := range []time.Duration{0, time.Millisecond, time.Minute} {
			if err := weather(seed+uint64(round), recoveryWait); err != nil {
				t.Fatalf("seed %d, recovery wait %v: %v", seed+uint64(round), recoveryWait, err)
			}
		}
	}
}

// weather plays one storm.
func weather(seed uint64, recoveryWait time.Duration) error {
	ctx := context.Background()
	pl := newPlatter(plan{lose: []string{"nothing", "all", "the end", "some"}[seed%4]}, seed)
	s, err := Open(Options{Dir: "/nowhere", open: pl.opener, timing: faultTiming("", recoveryWait)})
	if err != nil {
		return err
	}
	if err := s.CreateAccount(ctx, quota.Account{ID: "a"}); err != nil {
		return err
	}
	pl.mu.Lock()
	pl.storm = storm{oneIn: 5 + int(seed%40), hows: stormy()}
	pl.mu.Unlock()

	var calls, names atomic.Int64
	var mu sync.Mutex
	kept := make(map[string]bool) // ids of feedback, keys and accounts, and whether they must be there
	var wrong error
	keep := func(id string, err error) {
		mu.Lock()
		defer mu.Unlock()
		kept[id] = err == nil
		if err != nil && !errors.Is(err, storage.ErrUnavailable) {
			wrong = errors.Join(wrong, fmt.Errorf("%s: %w", id, err))
		}
	}
	var wg sync.WaitGroup
	for worker := range 4 {
		work := func(do func(id string)) {
			wg.Go(func() {
				for i := range 30 {
					do(fmt.Sprintf("%d-%d", worker, i))
					if s.Health() != nil {
						time.Sleep(time.Millisecond)
					}
				}
			})
		}
		work(func(string) {
			c := faultCharge("a", 1)
			c.Limits = quota.Limits{}
			_, _, err := s.Take(ctx, c)
			if err == nil {
				err = s.Settle(ctx, c, quota.Outcome{Flagged: []string{"hate"}})
			}
			if err == nil {
				calls.Add(1)
			}
		})
		work(func(id string) {
			keep("f"+id, s.AppendFeedback(ctx, feedback.Record{ID: "f" + id, Time: faultTime, Account: "a"},
				feedback.Bound{Records: 1000}))
		})
		work(func(id string) {
			keep("k"+id, s.CreateKey(ctx,
				quota.Key{ID: "k" + id, Account: "a", Hash: quota.HashKey(id), Created: faultTime}))
		})
		work(func(string) {
			_, err := s.UpdateAccount(ctx, "a", func(a *quota.Account) error { a.AnchorDay++; return nil })
			if err == nil {
				names.Add(1)
			}
		})
		if worker > 0 {
			continue
		}
		work(func(id string) {
			err := s.CreateAccount(ctx, quota.Account{ID: "a" + id})
			keep("a"+id, err)
			if err != nil {
				return
			}
			switch err := s.DeleteAccount(ctx, "a"+id); {
			case err == nil:
				keep("a"+id, storage.ErrUnavailable)
			case !errors.Is(err, storage.ErrUnavailable):
				keep("a"+id, err)
			}
		})
	}
	for i := range 2 {
		wg.Go(func() {
			for range 2 {
				err := s.Backup(ctx, io.Discard)
				if i == 1 {
					_, err = contentOf(s)
				}
				if err != nil && !errors.Is(err, storage.ErrUnavailable) {
					keep("a backup or an export", err)
				}
			}
		})
	}
	wg.Wait()
	pl.mu.Lock()
	pl.storm = storm{}
	pl.mu.Unlock()
	if wrong != nil {
		return wrong
	}
	if err := healthy(s); err != nil {
		return err
	}
	check := func(when string, s *Store, durable bool) (err error) {
		fail := func(format string, args ...any) { err = errors.Join(err, fmt.Errorf(when+": "+format, args...)) }
		found := make(map[string]bool)
		given, feedbackErr := all(s.Feedback(ctx, ""))
		for _, r := range given {
			found[r.ID] = true
		}
		keys, keysErr := all(s.Keys(ctx, ""))
		for _, k := range keys {
			found[k.ID] = true
		}
		accounts, accountsErr := all(s.Accounts(ctx))
		for _, a := range accounts {
			found[a.ID] = true
		}
		a, accountErr := s.Account(ctx, "a")
		counts, countsErr := s.Counts(ctx, "a", faultTime, faultCharge("a", 1).Period)
		flagged, flaggedErr := s.Flagged(ctx, "a", faultCharge("a", 1).Period)
		if err := errors.Join(feedbackErr, keysErr, accountsErr, accountErr, countsErr, flaggedErr); err != nil {
			return fmt.Errorf("%s: %w", when, err)
		}
		for id, acknowledged := range kept {
			if found[id] != acknowledged {
				fail("%s is there: %v, was acknowledged: %v", id, found[id], acknowledged)
			}
		}
		if int64(a.AnchorDay) != names.Load() {
			fail("%d changes of the account are there, %d were acknowledged", a.AnchorDay, names.Load())
		}
		// A refused call is rolled back as far as the store can: one in some thousands stays counted. With a seed the
		// check is exact.
		exact := os.Getenv(faultSeed) != ""
		if n := calls.Load(); !durable &&
			(min(counts.Day, counts.Period, flagged["hate"], counts.Minute) < n ||
				exact && max(counts.Day, counts.Period, flagged["hate"]) > n) {
			fail("counts are %+v and %v, %d calls were acknowledged", counts, flagged, n)
		}
		if n := int64(len(given)); n > 0 &&
			!errors.Is(s.AppendFeedback(ctx, feedback.Record{ID: "more", Time: faultTime, Account: "a"},
				feedback.Bound{Records: n}), feedback.ErrBound) {
			fail("with a bound of %d and as many records, one more is taken", n)
		}
		if err := s.AppendFeedback(ctx, feedback.Record{ID: "more", Time: faultTime, Account: "a"},
			feedback.Bound{Records: int64(len(given)) + 1}); err != nil {
			fail("with %d records and a bound of one more: %w", len(given), err)
		}
		return err
	}
	if err := errors.Join(s.flush(ctx), s.syncer.join().wait()); err != nil {
		return err
	}
	pl.mu.Lock()
	died, dark := pl.copy(pl.kernel), pl.copy(pl.durable)
	pl.mu.Unlock()
	for _, left := range []struct {
		when    string
		p       *platter
		durable bool
	}{{"after the death of the process", died, false}, {"after power loss", dark, true}} {
		s, err := Open(Options{Dir: "/nowhere", open: left.p.opener, timing: faultTiming("", 0)})
		if err != nil {
			return err
		}
		if err := errors.Join(check(left.when, s, left.durable), s.Close()); err != nil {
			return err
		}
	}
	return errors.Join(check("in memory", s, false), s.Close())
}
