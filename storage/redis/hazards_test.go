// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/feedback"
	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage"
	"github.com/caddy-moderation/caddy-moderation/storage/redis/redistest"
)

// TestForgettingTakesNoTimeFromOthers guards against a flush that asks the server once for each account: with many
// accounts its time is over before its work is, which would be taken for an outage.
func TestForgettingTakesNoTimeFromOthers(t *testing.T) {
	t.Parallel()
	server := redistest.Run(t, redistest.Options{})
	proxy := redistest.RunProxy(t, server.Addr())
	s := openAt(t, proxy.Addr(), withTimeout(2*time.Second))
	proxy.Delay(20 * time.Millisecond)
	const accounts = 300
	var wg sync.WaitGroup
	for i := range accounts {
		wg.Go(func() {
			_, _, err := s.Take(context.Background(), chargeOf(fmt.Sprint("a", i), 1, quota.Limits{}))
			if err != nil {
				t.Errorf("account %d: got the error %v", i, err)
			}
		})
	}
	wg.Wait()
	failures := s.counters.circuit.failures()
	s.counters.forgetSince(monotonic())
	if is := s.counters.circuit.failures(); is != failures {
		t.Errorf("after forgetting: got %d failures, want none; health %v", is-failures, s.Health())
	}
	for i := range accounts {
		if n, err := server.Int("EXISTS", s.names.of(fmt.Sprint("a", i), callsTable)); err != nil || n != 0 {
			t.Fatalf("account %d has calls that are not forgotten: %d, %v", i, n, err)
		}
	}
}

// TestARepeatedCallIsAnsweredInItsMinute guards against a call that counts twice because its minute has ended between
// the lost answer and the repetition.
func TestARepeatedCallIsAnsweredInItsMinute(t *testing.T) {
	t.Parallel()
	server := redistest.Run(t, redistest.Options{})
	s := openAt(t, server.Addr(), func(o *Options) { o.ClientClock = false })
	c := s.counters
	charge := chargeOf("a", 1, quota.Limits{})
	tally := c.lock("a")
	defer tally.mu.Unlock()
	take := func(id string, at time.Time) answer {
		args := c.appendLease(tally.takeArguments(nil, id, charge, c.windows(tally, noon, march), false), false)
		args[2] = strconv.FormatInt(floorDiv(at.Unix(), minuteSeconds), 10)
		a, err := c.eval(tally, takeScript, args)
		must(t, err)
		return a
	}
	now := s.Now()
	if a := take("1", now); a.code != '0' {
		t.Fatalf("the call: got the answer %c, want 0", a.code)
	}
	if a := take("1", now.Add(-5*time.Minute)); a.code != '0' || a.minute != 1 {
		t.Errorf("the call once more, after its minute: got %c with %d in the minute, want 0 with 1", a.code, a.minute)
	}
	if a := take("2", now.Add(-5*time.Minute)); a.code != 'o' {
		t.Errorf("another call: got the answer %c, want o", a.code)
	}
}

// TestARefusedCallStaysRefused guards against a call whose first attempt arrives after the second was refused, when
// there is room again.
func TestARefusedCallStaysRefused(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := redistest.Run(t, redistest.Options{})
	proxy := redistest.RunProxy(t, server.Addr())
	s := openAt(t, proxy.Addr(), withTimeout(10*time.Second))
	c := chargeOf("a", 1, quota.Limits{RequestsPerMonth: 1})
	_, _, err := s.Take(ctx, c)
	must(t, err)
	proxy.LoseAnswers(1, "{a:a}:calls")
	_, refused, err := s.Take(ctx, c)
	must(t, err)
	if refused != quota.MonthWindow {
		t.Fatalf("got refused by %q, want the month", refused)
	}
	well(t, s)
	totalOf(t, s, "a").check(t, "after a refusal", 1, 1, 0)
	values, err := server.Do("HVALS", s.names.of("a", callsTable))
	must(t, err)
	if text := fmt.Sprint(values); !bytes.Contains([]byte(text), []byte("x")) {
		t.Errorf("calls: got %s, want one that will do nothing when it arrives", text)
	}
}

// TestAnEmptiedServerKnowsNoAccount guards against an account that is taken for deleted because the database was
// emptied, which would refuse its keys for good. Without client tracking nobody tells of that.
func TestAnEmptiedServerKnowsNoAccount(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, policy := range []Outage{Deny, Local} {
		for _, untracked := range []bool{false, true} {
			t.Run(fmt.Sprint(policy, untracked), func(t *testing.T) {
				t.Parallel()
				server := redistest.Run(t, redistest.Options{})
				s := openAt(t, server.Addr(), withPolicy(policy), func(o *Options) { o.DisableCache = untracked })
				must(t, s.CreateAccount(ctx, quota.Account{ID: "a", Incarnation: "first", Status: quota.Active}))
				c := chargeOf("a", 1, quota.Limits{RequestsPerMonth: 100})
				c.Incarnation = "first"
				_, _, err := s.Take(ctx, c)
				must(t, err)
				_, err = server.Do("FLUSHALL")
				must(t, err)
				counts, _, err := s.Take(ctx, c)
				if policy == Deny && !errors.Is(err, storage.ErrUnavailable) ||
					policy == Local && (err != nil || counts.Basis != quota.LocalCounts) {
					t.Errorf("a call of an account in an emptied database: got %+v, %v", counts, err)
				}
			})
		}
	}
}

// TestBackupWithLeastRights guards against documented permissions with which a backup fails.
func TestBackupWithLeastRights(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := redistest.Run(t, redistest.Options{Users: []string{user(LeastRights + BackupRights)}})
	s := openAt(t, server.Addr(), func(o *Options) { o.Username, o.Password = "app", "secret" })
	must(t, s.CreateAccount(ctx, quota.Account{ID: "a", Incarnation: "first", Status: quota.Active}))
	_, _, err := s.Take(ctx, chargeOf("declared", 1, quota.Limits{}))
	must(t, err)
	must(t, s.AppendFeedback(ctx, feedback.Record{ID: "f1", Account: "a", Time: noon}, feedback.Bound{}))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 2; ; i++ {
			select {
			case <-stop:
				return
			default:
				r := feedback.Record{ID: fmt.Sprint("f", i), Account: "a", Time: noon}
				_ = s.AppendFeedback(ctx, r, feedback.Bound{})
			}
		}
	})
	err = s.Backup(ctx, new(bytes.Buffer))
	close(stop)
	wg.Wait()
	must(t, err)
	nothingDenied(t, server)
}

// TestADatabaseWithLeastRights guards against documented permissions with which another database than 0 is not reached.
func TestADatabaseWithLeastRights(t *testing.T) {
	t.Parallel()
	server := redistest.Run(t, redistest.Options{Users: []string{user(LeastRights + DatabaseRights)}})
	s := openAt(t, server.Addr(), func(o *Options) { o.Username, o.Password, o.Database = "app", "secret", 3 })
	must(t, s.Health())
}

// TestFreezeHearsOfEachNode guards against a migration that leaves a node behind which was cut off a moment before.
func TestFreezeHearsOfEachNode(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := redistest.Run(t, redistest.Options{})
	proxy := redistest.RunProxy(t, server.Addr())
	s := openAt(t, server.Addr(), withTimeout(300*time.Millisecond))
	openAt(t, proxy.Addr(), withPolicy(Local), withTimeout(300*time.Millisecond))
	eventually(t, "both nodes are known", func() bool { return s.counters.live.Load() == 2 })
	proxy.Refuse()
	if err := s.Freeze(ctx, "a test"); err == nil {
		t.Error("a node was cut off: got no error")
	}
	must(t, s.Thaw(ctx))
	must(t, proxy.Heal())
	eventually(t, "the store can be frozen", func() bool {
		err := s.Freeze(ctx, "a test")
		if err != nil {
			must(t, s.Thaw(ctx))
		}
		return err == nil
	})
	must(t, s.Thaw(ctx))
}

// TestDoubtsInADeadPartHoldUpNoOther guards against a change in the slots of a dead master, of which nobody knows
// whether it was made, that holds up all changes of the others until that master is back.
func TestDoubtsInADeadPartHoldUpNoOther(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	cluster := redistest.RunCluster(t, redistest.ClusterOptions{
		Options:  redistest.Options{Config: []string{"cluster-require-full-coverage no"}},
		Replicas: -1, NodeTimeout: time.Minute,
	})
	s := openAt(t, cluster.Nodes[0].Addr(), withTimeout(time.Second), func(o *Options) {
		o.Topology, o.Addresses = Cluster, cluster.Addrs()
	})
	var victim *redistest.Server
	nodes, err := cluster.MasterOf(s.names.nodes())
	must(t, err)
	for _, victim = range cluster.Nodes {
		if victim != nodes {
			break
		}
	}
	said := func() string {
		score, err := nodes.Do("ZSCORE", s.names.nodes(), s.counters.node)
		must(t, err)
		return fmt.Sprint(score)
	}
	// find returns an account of which everything is, or only the account itself, on the victim.
	find := func(dead bool) string {
		for i := 0; ; i++ {
			id := fmt.Sprint("a", i)
			of, err := cluster.MasterOf(s.names.of(id, accountTable))
			must(t, err)
			list, err := cluster.MasterOf(s.names.ids(id))
			must(t, err)
			if list != victim && (of == victim) == dead {
				return id
			}
		}
	}
	dead, lives := quota.Account{ID: find(true), Incarnation: "1"}, quota.Account{ID: find(false), Incarnation: "1"}
	must(t, victim.Pause())
	if err := s.CreateAccount(ctx, dead); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("on the dead master: got the error %v, want that it is unavailable", err)
	}
	if s.undos.count.Load() == 0 {
		t.Error("nothing is to be taken back")
	}
	eventually(t, "an account is made on another master", func() bool { return s.CreateAccount(ctx, lives) == nil })
	if s.undos.count.Load() == 0 {
		t.Error("what is to be taken back was forgotten")
	}
	before := said()
	eventually(t, "the node says that it lives", func() bool { return said() != before })
	must(t, victim.Resume())
	well(t, s)
	must(t, s.CreateAccount(ctx, dead))
}
