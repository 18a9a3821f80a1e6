// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage"
	"github.com/caddy-moderation/caddy-moderation/storage/redis/redistest"
)

var (
	noon  = time.Date(2026, 3, 15, 12, 0, 30, 0, time.UTC)
	march = quota.PeriodOf(0, noon)
)

// chargeOf is a charge of an account at noon.
func chargeOf(account string, n int64, limits quota.Limits) quota.Charge {
	return quota.Charge{Account: account, Key: "key_" + account, Requests: n, Now: noon, Period: march, Limits: limits}
}

// openAt opens a store that is closed when the test ends. Changes change the options.
func openAt(t testing.TB, address string, changes ...func(*Options)) *Store {
	t.Helper()
	o := Options{Addresses: []string{address}, ClientClock: true, Outage: Deny, Timeout: 30 * time.Second}
	for _, change := range changes {
		change(&o)
	}
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func withPolicy(p Outage) func(*Options) { return func(o *Options) { o.Outage = p } }

func withTimeout(d time.Duration) func(*Options) { return func(o *Options) { o.Timeout = d } }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got the error %v, want none", err)
	}
}

// eventually waits up to 30 s until something is as it must be.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for range 3000 {
		if is() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("30 s later it is not so that %s", what)
}

// well waits until a store is in its normal mode.
func well(t testing.TB, s *Store) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Errorf("the store's mode is %q, its health %v", s.Mode(), s.Health())
		}
	}()
	eventually(t, "the store is well", func() bool { return s.Mode() == Normal && s.Health() == nil })
}

// total is all that is counted for an account at noon.
type total struct {
	Counts  quota.Counts
	Flagged map[string]int64
	Keys    map[string]int64
}

func totalOf(t testing.TB, s *Store, account string) (all total) {
	t.Helper()
	ctx := context.Background()
	var err error
	all.Counts, err = s.Counts(ctx, account, noon, march)
	must(t, err)
	all.Flagged, err = s.Flagged(ctx, account, march)
	must(t, err)
	all.Keys, err = s.KeyRequests(ctx, account, march)
	must(t, err)
	return all
}

func (a total) check(t testing.TB, what string, minute, period, flagged int64) {
	t.Helper()
	want := total{quota.Counts{Minute: minute, Day: period, Period: period}, map[string]int64{}, map[string]int64{}}
	if flagged > 0 {
		want.Flagged["hate"] = flagged
	}
	if a.Counts != want.Counts || !maps.Equal(a.Flagged, want.Flagged) {
		t.Errorf("%s: got %+v, want %+v", what, a, want)
	}
	for _, n := range a.Keys {
		if n != period {
			t.Errorf("%s: got the requests by key %v, want %d", what, a.Keys, period)
		}
	}
}

// TestLostAnswersChargeOnce has the server do what it is asked and breaks the connection in place of the answer.
func TestLostAnswersChargeOnce(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := redistest.Run(t, redistest.Options{})
	proxy := redistest.RunProxy(t, server.Addr())
	s := openAt(t, proxy.Addr(), withTimeout(10*time.Second))
	const calls = 20
	for i := range calls {
		c := chargeOf("a", 2, quota.Limits{})
		proxy.LoseAnswers(1, "{a:a}:calls")
		counts, _, err := s.Take(ctx, c)
		must(t, err)
		if want := int64(2 * (i + 1)); counts.Minute != want {
			t.Fatalf("call %d: got %d in the minute, want %d", i, counts.Minute, want)
		}
		proxy.LoseAnswers(1, "{a:a}:calls")
		must(t, s.Settle(ctx, c, quota.Outcome{Refund: i%2 == 0, Flagged: []string{"hate"}}))
	}
	well(t, s)
	totalOf(t, s, "a").check(t, "after lost answers", 2*calls, calls, calls)
}

// TestALostAnswerDoesNotRefuse guards against a call that is refused by its own charge when it is made again.
func TestALostAnswerDoesNotRefuse(t *testing.T) {
	t.Parallel()
	server := redistest.Run(t, redistest.Options{})
	proxy := redistest.RunProxy(t, server.Addr())
	s := openAt(t, proxy.Addr(), withTimeout(10*time.Second))
	proxy.LoseAnswers(2, "{a:a}:calls")
	counts, refused, err := s.Take(context.Background(), chargeOf("a", 1, quota.Limits{RequestsPerMonth: 1}))
	must(t, err)
	if refused != quota.NoWindow || counts.Period != 1 {
		t.Errorf("the only request of a month: got %+v, refused by %q, want it admitted", counts, refused)
	}
}

// TestUnknownOutcomes loses all answers until the time is over. By the policy deny, what nobody knows is undone; by the
// others it is counted once.
func TestUnknownOutcomes(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, policy := range []Outage{Deny, Local, Allow} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			server := redistest.Run(t, redistest.Options{})
			proxy := redistest.RunProxy(t, server.Addr())
			s := openAt(t, proxy.Addr(), withPolicy(policy), withTimeout(600*time.Millisecond))
			c := chargeOf("a", 1, quota.Limits{RequestsPerMonth: 100})
			_, _, err := s.Take(ctx, c)
			must(t, err)
			must(t, s.Settle(ctx, c, quota.Outcome{Flagged: []string{"hate"}}))
			for range 2 {
				_, _, err := s.Take(ctx, c)
				must(t, err)
			}

			proxy.LoseAnswers(1000, "{a:a}:calls")
			counts, _, takeErr := s.Take(ctx, c)
			refundErr := s.Settle(ctx, c, quota.Outcome{Refund: true})
			flagErr := s.Record(c, quota.Outcome{Flagged: []string{"hate"}}).Wait(ctx)
			must(t, proxy.Heal())
			for _, err := range []error{takeErr, refundErr, flagErr} {
				if policy == Deny && !errors.Is(err, storage.ErrUnavailable) || policy != Deny && err != nil {
					t.Errorf("while answers are lost: got the error %v", err)
				}
			}
			well(t, s)
			if policy == Deny {
				// The two calls that could not be settled are given back.
				totalOf(t, s, "a").check(t, "after heal", 3, 1, 1)
				return
			}
			if counts.Basis == quota.ExactCounts || counts.Period != 4 {
				t.Errorf("while answers are lost: got %+v, want 4 in the period and another basis", counts)
			}
			totalOf(t, s, "a").check(t, "after heal", 4, 3, 2)
		})
	}
}

// TestALateArrivalDoesNothing runs a charge that comes after it was cancelled, and one that comes twice.
func TestALateArrivalDoesNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Run(t, redistest.Options{})
	s := openAt(t, server.Addr())
	c := s.counters
	charge := chargeOf("a", 3, quota.Limits{})
	tally := c.lock("a")
	defer tally.mu.Unlock()
	take := func(id string) byte {
		args := tally.takeArguments(nil, id, charge, c.windows(tally, noon, march), true)
		a, err := c.eval(tally, takeScript, c.appendLease(args, c.block > 0))
		must(t, err)
		return a.code
	}
	apply := func(id, mode string, e item) byte {
		whole := c.itemOf(tally, charge)
		whole.charge, whole.back, whole.flagged = e.charge, e.back, e.flagged
		ch := change{id: id, mode: mode, items: []*item{whole}}
		a, err := c.eval(tally, applyScript, ch.arguments(nil, tally))
		must(t, err)
		return a.code
	}
	want := func(step string, got, code byte, minute, period, flagged int64) {
		t.Helper()
		if got != code {
			t.Errorf("%s: got the answer %c, want %c", step, got, code)
		}
		tally.mu.Unlock()
		defer tally.mu.Lock()
		totalOf(t, s, "a").check(t, step, minute, period, flagged)
	}
	want("first charge", take("1"), '0', 3, 3, 0)
	want("the same once more", take("1"), '0', 3, 3, 0)
	want("undone before it comes", apply("2", modeUndo, item{charge: 3}), '0', 3, 3, 0)
	want("comes late", take("2"), 'x', 3, 3, 0)
	want("undone once more", apply("2", modeUndo, item{charge: 3}), '0', 3, 3, 0)
	want("second charge", take("3"), '0', 6, 6, 0)
	want("undone", apply("3", modeUndo, item{charge: 3}), '0', 3, 3, 0)
	want("undone once more", apply("3", modeUndo, item{charge: 3}), '0', 3, 3, 0)
	want("comes once more", take("3"), 'x', 3, 3, 0)
	hate := map[string]int64{"hate": 2}
	want("an outcome", apply("4", modeDo, item{flagged: hate}), '0', 3, 3, 2)
	want("the same once more", apply("4", modeDo, item{flagged: hate}), '0', 3, 3, 2)
	want("taken back", apply("4", modeBack, item{charge: 1, flagged: hate}), '0', 3, 2, 0)
	want("taken back once more", apply("4", modeBack, item{charge: 1, flagged: hate}), '0', 3, 2, 0)
	want("comes once more", apply("4", modeDo, item{flagged: hate}), 'x', 3, 2, 0)
	want("a refund taken back before it comes", apply("5", modeBack, item{charge: 1, back: 1}), '0', 3, 1, 0)
	want("comes late", apply("5", modeDo, item{back: 1}), 'x', 3, 1, 0)
	want("a refund", apply("6", modeDo, item{back: 1}), '0', 3, 0, 0)
	want("taken back: it stays", apply("6", modeBack, item{charge: 1, back: 1}), '0', 3, 0, 0)
	want("charged without asking", apply("7", modeDo, item{charge: 5}), '0', 8, 5, 0)
	want("and again", apply("7", modeDo, item{charge: 5}), '0', 8, 5, 0)
}

// TestTroublesOfAServer makes calls before, during and after a trouble. What is acknowledged is counted, and what is
// refused is not.
func TestTroublesOfAServer(t *testing.T) {
	t.Parallel()
	for name, trouble := range map[string]struct {
		begin, end func(*redistest.Server) error
	}{
		"out of memory": {
			func(s *redistest.Server) error { return s.Configure("maxmemory", "1") },
			func(s *redistest.Server) error { return s.Configure("maxmemory", "0") },
		},
		"read-only": {
			func(s *redistest.Server) error {
				_, err := s.Do("REPLICAOF", "127.0.0.1", "1")
				return err
			},
			func(s *redistest.Server) error {
				_, err := s.Do("REPLICAOF", "NO", "ONE")
				return err
			},
		},
		"stopped":   {(*redistest.Server).Pause, (*redistest.Server).Resume},
		"no script": {flushScripts, flushScripts},
		"too few replicas": {
			func(s *redistest.Server) error { return s.Configure("min-replicas-to-write", "1") },
			func(s *redistest.Server) error { return s.Configure("min-replicas-to-write", "0") },
		},
		"killed": {
			func(s *redistest.Server) error { s.Kill(); return nil },
			(*redistest.Server).Restart,
		},
	} {
		for _, policy := range []Outage{Deny, Local, Allow} {
			t.Run(name+" "+string(policy), func(t *testing.T) {
				t.Parallel()
				server := redistest.Run(t, redistest.Options{AppendOnly: true, Config: []string{"appendfsync always"}})
				s := openAt(t, server.Addr(), withPolicy(policy), withTimeout(time.Second))
				var l ledger
				stop := l.load(t, 8, s)
				l.more(t, 50)
				must(t, trouble.begin(server))
				if policy == Deny && name != "no script" {
					eventually(t, "the store says what the trouble is", func() bool { return s.Health() != nil })
					time.Sleep(100 * time.Millisecond)
				} else {
					l.more(t, 50)
				}
				must(t, trouble.end(server))
				l.more(t, 50)
				stop()
				well(t, s)
				l.check(t, s)
			})
		}
	}
}

func flushScripts(s *redistest.Server) error {
	_, err := s.Do("SCRIPT", "FLUSH")
	return err
}

// ledger is what a client knows of the calls that it made for account "a".
type ledger struct {
	charged, kept, flagged, failed atomic.Int64
	last                           atomic.Pointer[error]
}

// load makes calls with some callers until stop is called.
func (l *ledger) load(t *testing.T, callers int, stores ...*Store) (stop func()) {
	t.Helper()
	ctx := context.Background()
	ended := make(chan struct{})
	var wg sync.WaitGroup
	for worker := range callers {
		s := stores[worker%len(stores)]
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-ended:
					return
				default:
				}
				c := chargeOf("a", int64(1+i%3), quota.Limits{})
				_, refused, err := s.Take(ctx, c)
				if err == nil && refused == quota.NoWindow {
					l.charged.Add(c.Requests)
					o := quota.Outcome{Refund: i%5 == 0}
					if i%2 == 0 {
						o.Flagged = []string{"hate"}
					}
					if i%4 < 2 {
						err = s.Settle(ctx, c, o)
					} else {
						err = s.Record(c, o).Wait(ctx)
					}
					if err == nil {
						l.flagged.Add(int64(len(o.Flagged)))
						if !o.Refund {
							l.kept.Add(c.Requests)
						}
					}
				}
				if err != nil {
					l.failed.Add(1)
					l.last.Store(&err)
					if !errors.Is(err, storage.ErrUnavailable) {
						t.Errorf("a call: got the error %v, want %v", err, storage.ErrUnavailable)
						return
					}
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	return sync.OnceFunc(func() {
		close(ended)
		wg.Wait()
	})
}

// more waits until some more requests are acknowledged.
func (l *ledger) more(t *testing.T, n int64) {
	t.Helper()
	defer func() {
		if err := l.last.Load(); t.Failed() && err != nil {
			t.Errorf("the last error of a call: %v", *err)
		}
	}()
	before := l.kept.Load()
	eventually(t, fmt.Sprintf("%d more requests are acknowledged", n), func() bool { return l.kept.Load() >= before+n })
}

func (l *ledger) check(t *testing.T, s *Store) {
	t.Helper()
	got := totalOf(t, s, "a")
	period, flagged, minute := l.kept.Load(), l.flagged.Load(), l.charged.Load()
	if got.Counts.Period != period || got.Counts.Day != period || got.Flagged["hate"] != flagged ||
		got.Keys["key_a"] != period || got.Counts.Minute != minute {
		t.Errorf("got %+v, want %d in the minute, %d else, and %d flagged; %d calls failed", got, minute, period, flagged,
			l.failed.Load())
	}
}

// TestRandomFaults lets a proxy do harm at random, over and over. In the end exactly what was acknowledged is counted.
func TestRandomFaults(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Options){
		"deny":              withPolicy(Deny),
		"local":             withPolicy(Local),
		"allow":             withPolicy(Allow),
		"deny with leases":  func(o *Options) { o.Outage, o.Lease = Deny, 20 },
		"local with leases": func(o *Options) { o.Outage, o.Lease = Local, 20 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Run(t, redistest.Options{})
			var stores []*Store
			var proxies []*redistest.Proxy
			for range 2 {
				proxy := redistest.RunProxy(t, server.Addr())
				proxies = append(proxies, proxy)
				stores = append(stores, openAt(t, proxy.Addr(), change, withTimeout(600*time.Millisecond)))
			}
			var l ledger
			stop := l.load(t, 8, stores...)
			for round := range 12 {
				proxy := proxies[round%len(proxies)]
				switch rand.IntN(6) {
				case 0:
					proxy.LoseAnswers(3, "{a:a}:calls")
				case 1:
					proxy.Cut()
				case 2:
					proxy.Hang()
				case 3:
					proxy.Refuse()
				case 4:
					proxy.Delay(100 * time.Millisecond)
				case 5:
					proxy.LoseAnswers(300, "{a:a}:calls")
				}
				time.Sleep(time.Duration(rand.IntN(400)) * time.Millisecond)
				must(t, proxy.Heal())
				l.more(t, 20)
			}
			stop()
			for _, s := range stores {
				well(t, s)
				must(t, s.Close())
			}
			l.check(t, openAt(t, server.Addr()))
		})
	}
}

// TestClosingTellsTheServer closes a store that has counted without the server, once it answers again.
func TestClosingTellsTheServer(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := redistest.Run(t, redistest.Options{})
	proxy := redistest.RunProxy(t, server.Addr())
	s := openAt(t, proxy.Addr(), withPolicy(Local), withTimeout(500*time.Millisecond))
	proxy.Refuse()
	c := chargeOf("a", 1, quota.Limits{})
	for range 10 {
		_, _, err := s.Take(ctx, c)
		must(t, err)
		s.Record(c, quota.Outcome{Flagged: []string{"hate"}})
	}
	must(t, proxy.Heal())
	must(t, s.Close())
	totalOf(t, openAt(t, server.Addr()), "a").check(t, "after closing", 10, 10, 10)

	s = openAt(t, proxy.Addr(), withPolicy(Local), withTimeout(500*time.Millisecond))
	proxy.Refuse()
	_, _, err := s.Take(ctx, c)
	must(t, err)
	if err := s.Close(); err == nil || !strings.Contains(err.Error(), "1 accounts") {
		t.Errorf("closing while the server is away: got the error %v, want one that says what is lost", err)
	}
}

// TestOldCallsAreForgotten guards against ids of dead nodes that stay for ever, and against those of a node that is cut
// off for hours which are forgotten, so that it counts twice.
func TestOldCallsAreForgotten(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := redistest.Run(t, redistest.Options{})
	s := openAt(t, server.Addr())
	calls := s.names.of("a", callsTable)
	now := time.Now()
	for id, state := range map[string]string{
		"dead":          fmt.Sprint(now.Add(-25 * time.Hour).Unix()),
		"dead, leased":  fmt.Sprint(now.Add(-25*time.Hour).Unix(), "+49"),
		"dead, undone":  fmt.Sprint("x", now.Add(-25*time.Hour).Unix()),
		"alive":         fmt.Sprint(now.Add(-23 * time.Hour).Unix()),
		"alive, undone": fmt.Sprint("x", now.Add(-23*time.Hour).Unix()),
	} {
		_, err := server.Do("HSET", calls, id, state)
		must(t, err)
	}
	_, _, err := s.Take(ctx, chargeOf("a", 1, quota.Limits{}))
	must(t, err)
	must(t, s.Close()) // and what was answered is forgotten
	left, err := server.Do("HKEYS", calls)
	must(t, err)
	ids := map[any]bool{}
	for _, id := range left.([]any) {
		ids[id] = true
	}
	if len(ids) != 2 || !ids["alive"] || !ids["alive, undone"] {
		t.Errorf("got the ids %v, want those of the last day", ids)
	}
}

// TestDamagedCountsAreSaid guards against counts that are made of a record that is not what was written.
func TestDamagedCountsAreSaid(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for name, damage := range map[string][]string{
		"no number":    {"HSET", "counts", "p1772323200", "x"},
		"another type": {"SET", "counts", "x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Run(t, redistest.Options{})
			s := openAt(t, server.Addr(), withPolicy(Local))
			damage := append([]string(nil), damage...)
			damage[1] = s.names.of("a", countsTable)
			_, err := server.Do(damage...)
			must(t, err)
			c := chargeOf("a", 1, quota.Limits{RequestsPerMonth: 10})
			for range 2 * breaksAfter {
				if _, _, err := s.Take(ctx, c); !errors.Is(err, storage.ErrDamaged) {
					t.Fatalf("Take: got the error %v, want %v", err, storage.ErrDamaged)
				}
				if _, err := s.Counts(ctx, "a", noon, march); !errors.Is(err, storage.ErrDamaged) {
					t.Fatalf("Counts: got the error %v, want %v", err, storage.ErrDamaged)
				}
			}
			// Other accounts are counted as before.
			c.Account = "b"
			counts, _, err := s.Take(ctx, c)
			if err != nil || counts != (quota.Counts{Minute: 1, Day: 1, Period: 1}) || s.Mode() != Normal {
				t.Errorf("another account: got %+v, %v in mode %q; want it counted", counts, err, s.Mode())
			}
		})
	}
}
