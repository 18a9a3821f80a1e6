// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/caddy-moderation/caddy-moderation/storage/redis/redistest"
)

// killNode kills nodes while all clients work, and starts them again.
func killNode(topology string) func(context.Context, *world) error {
	return func(ctx context.Context, w *world) error {
		if err := w.begin(ctx, setup{topology: topology}); err != nil {
			return err
		}
		if err := w.work(ctx, everybody); err != nil {
			return err
		}
		kills := 2
		if w.rig.long {
			kills = 10
		}
		for range kills {
			pause(ctx, w.between(300*time.Millisecond, 900*time.Millisecond))
			n := w.nodes[w.random.IntN(len(w.nodes))]
			n.kill()
			pause(ctx, w.between(100*time.Millisecond, 500*time.Millisecond))
			if err := n.start(ctx); err != nil {
				return err
			}
		}
		w.conclude(ctx)
		return nil
	}
}

// stopNode ends a node as an operator does, while all clients work: even requests without an answer are none.
func stopNode(ctx context.Context, w *world) error {
	if err := w.begin(ctx, setup{}); err != nil {
		return err
	}
	if err := w.work(ctx, everybody); err != nil {
		return err
	}
	pause(ctx, w.between(300*time.Millisecond, 900*time.Millisecond))
	n := w.nodes[w.random.IntN(len(w.nodes))]
	if err := n.stop(); err != nil {
		w.violate("node %d: %v", n.n, err)
	}
	pause(ctx, 300*time.Millisecond)
	if err := n.start(ctx); err != nil {
		return err
	}
	w.conclude(ctx)
	return nil
}

// restartStore kills the only server of the store, which keeps its data in a file, and starts it again.
func restartStore(ctx context.Context, w *world) error {
	if err := w.begin(ctx, setup{server: redistest.Options{AppendOnly: true}}); err != nil {
		return err
	}
	if err := w.work(ctx, everybody); err != nil {
		return err
	}
	for range 2 {
		pause(ctx, w.between(300*time.Millisecond, 900*time.Millisecond))
		w.single.Kill()
		if !w.alarmed(ctx, w.nodes[0], "the store was killed") {
			break
		}
		pause(ctx, w.between(100*time.Millisecond, time.Second))
		if err := w.single.Restart(); err != nil {
			return err
		}
		if !w.recovered(ctx, "the store was killed") {
			break
		}
	}
	w.conclude(ctx)
	return nil
}

// The bounds of a failover, as docs/scaling.md states them: what was answered in the last second before the master died
// may be lost, and service is back within five seconds of the kill.
const (
	lossWindow = time.Second
	backWithin = 5 * time.Second
)

// answering is how long an answer may take from the store to the client's ledger on a busy machine.
const answering = 100 * time.Millisecond

// failover kills a master while all clients work.
func failover(s setup) func(context.Context, *world) error {
	return func(ctx context.Context, w *world) error {
		s := s
		s.nodeTimeout = 1500 * time.Millisecond
		// What operators decide must not be lost.
		s.lines = append(s.lines[:len(s.lines):len(s.lines)], "wait_replicas 1 2s")
		if err := w.begin(ctx, s); err != nil {
			return err
		}
		if err := w.work(ctx, everybody); err != nil {
			return err
		}
		pause(ctx, w.between(700*time.Millisecond, 1500*time.Millisecond))
		if !w.recovered(ctx, "before the kill") {
			return nil
		}
		master, err := w.master()
		if err != nil {
			return err
		}
		instant := time.Now()
		master.Kill()
		killed := time.Now()
		engine, err := w.elected(ctx, master, instant)
		if err != nil {
			return err
		}
		ok := w.recovered(ctx, "the master was killed")
		back := time.Since(instant)
		w.note("another master after %s, normal after %s", engine.Round(time.Millisecond), back.Round(time.Millisecond))
		if back > backWithin && back-engine > time.Second {
			w.violate("service is back after %s, %s after another master was there", back.Round(time.Millisecond),
				(back - engine).Round(time.Millisecond))
		}
		pause(ctx, 300*time.Millisecond)
		// It returns as a replica, for which changes may wait.
		if err := master.Restart(); err != nil {
			return err
		}
		if err := w.agreed(); err != nil {
			return err
		}
		w.rest()
		// On a machine that is too busy, the others may depose a master that is alive. What it is told until the
		// nodes learn of it is lost with it.
		if n, err := w.failovers(); err != nil || n > 1 {
			return errSkip(fmt.Sprintf("there were %d failovers in place of one, %v", n, err))
		}
		if ok && w.recovered(ctx, "the old master is a replica") {
			w.compare(ctx, tolerance{at: instant, from: instant.Add(-lossWindow), to: killed.Add(answering)})
		}
		return nil
	}
}

// master returns the server that keeps the counts of apiAccount.
func (w *world) master() (*redistest.Server, error) {
	switch {
	case w.cluster != nil:
		return w.cluster.MasterOf("mod:{a:" + apiAccount + "}:counts")
	case w.sentinel != nil:
		return w.sentinel.Master()
	}
	return w.single, nil
}

// agreed waits until the servers of the store agree about who does what.
func (w *world) agreed() error {
	if w.cluster != nil {
		return w.cluster.WaitAgreed()
	}
	return w.sentinel.WaitAgreed()
}

// failovers returns how often another server became a master.
func (w *world) failovers() (int, error) {
	if w.cluster != nil {
		return w.cluster.Failovers()
	}
	return w.sentinel.Failovers()
}

// elected waits until there is another master, and returns after which time.
func (w *world) elected(ctx context.Context, old *redistest.Server, since time.Time) (time.Duration, error) {
	for ctx.Err() == nil && time.Since(since) < 2*timeout {
		now, err := w.master()
		if err == nil && now != old {
			if role, err := now.Info("role"); err == nil && role == "master" {
				return time.Since(since), nil
			}
		}
		pause(ctx, 10*time.Millisecond)
	}
	return 0, errors.New("no other master is elected")
}

// lagging has the only master die whose replica is behind by a known time, and has all nodes led to the replica. What
// is lost must be within that time, and nothing of what waited for the replica.
func lagging(waiting bool) func(context.Context, *world) error {
	return func(ctx context.Context, w *world) error {
		const lag = 150 * time.Millisecond
		s := setup{proxied: true}
		w.lossy = !waiting
		if waiting {
			s.lines = []string{"wait_replicas 1 5s"}
		}
		if err := w.store(s); err != nil {
			return err
		}
		between, err := redistest.NewProxy(w.single.Addr())
		if err != nil {
			return err
		}
		w.atEnd(between.Stop)
		host, port, err := net.SplitHostPort(between.Addr())
		if err != nil {
			return err
		}
		replica, err := redistest.Start(redistest.Options{Config: []string{"replicaof " + host + " " + port}})
		if err != nil {
			return err
		}
		w.atEnd(replica.Stop)
		for began := time.Now(); ; pause(ctx, 10*time.Millisecond) {
			if link, err := replica.Info("master_link_status"); err == nil && link == "up" {
				break
			}
			if time.Since(began) > timeout {
				return errors.New("the replica does not come into step")
			}
		}
		if err := w.startNodes(ctx); err != nil {
			return err
		}
		if err := w.work(ctx, everybody); err != nil {
			return err
		}
		pause(ctx, 500*time.Millisecond)
		between.Delay(lag)
		pause(ctx, w.between(700*time.Millisecond, 1200*time.Millisecond))
		instant := time.Now()
		w.single.Kill()
		killed := time.Now()
		between.Refuse()
		if _, err := replica.Do("REPLICAOF", "NO", "ONE"); err != nil {
			return err
		}
		for _, n := range w.nodes {
			n.proxy.SetTarget(replica.Addr())
			n.proxy.Cut()
		}
		ok := w.recovered(ctx, "the master was killed")
		w.note("normal after %s", time.Since(instant).Round(time.Millisecond))
		pause(ctx, 300*time.Millisecond)
		w.rest()
		if !ok {
			return nil
		}
		w.compare(ctx, tolerance{
			at: instant, from: instant.Add(-lag - 2*answering), to: killed.Add(answering), decisions: !waiting,
		})
		var lost int64
		for _, account := range w.ledger.accounts() {
			u, err := w.nodes[0].usage(account)
			if err != nil {
				return err
			}
			lost += max(0, w.ledger.get(account).requests.low-u.Period.Requests)
		}
		if lost == 0 {
			w.note("nothing was lost")
		}
		return nil
	}
}

// revocation measures after which time a revoked key is refused by the other nodes.
func revocation(bound time.Duration, lines ...string) func(context.Context, *world) error {
	return func(ctx context.Context, w *world) error {
		if err := w.begin(ctx, setup{lines: lines}); err != nil {
			return err
		}
		if err := w.makeAccount(keysAccount); err != nil {
			return err
		}
		clients := make([]*http.Client, len(w.nodes))
		for i := range clients {
			clients[i] = newClient(1)
			defer clients[i].CloseIdleConnections()
		}
		worst := time.Duration(0)
		rounds := 20
		if w.rig.long {
			rounds = 200
		}
		for range rounds {
			late, err := w.revoke(ctx, clients)
			if err != nil {
				return err
			}
			worst = max(worst, late)
		}
		w.note("%d keys, taken for %s at most after the revocation was acknowledged", rounds,
			worst.Round(100*time.Microsecond))
		if worst > bound {
			w.violate("a revoked key is taken for %s", worst)
		}
		return nil
	}
}

// revoke makes a key, uses it everywhere, revokes it at the first node, and returns when the last request was sent that
// another node has taken, counted from the acknowledgement.
func (w *world) revoke(ctx context.Context, clients []*http.Client) (late time.Duration, err error) {
	status, body, err := w.nodes[0].administer(http.MethodPost, "/moderation/keys",
		fmt.Sprintf(`{"account":%q}`, keysAccount))
	if err != nil || status != 201 {
		return 0, errors.New("no key is made: " + brief(status, body, err))
	}
	id, secret, err := madeKey(body)
	if err != nil {
		return 0, err
	}
	use := func(i int) (bool, error) {
		status, _, body, err := send(ctx, clients[i], http.MethodGet, "http://"+w.nodes[i].site+"/v1/usage", secret, "",
			nil)
		if err != nil || status != 200 && status != 401 {
			return false, errors.New("a key cannot be used: " + brief(status, body, err))
		}
		return status == 200, nil
	}
	for i := range w.nodes {
		if ok, err := use(i); err != nil || !ok {
			return 0, fmt.Errorf("node %d refuses a new key: %w", i, errors.Join(err))
		}
	}
	status, body, err = w.nodes[0].administer(http.MethodPost, "/moderation/keys/"+id+"/revoke", "{}")
	acked := time.Now()
	if err != nil || status != 200 {
		return 0, errors.New("the key is not revoked: " + brief(status, body, err))
	}
	if ok, err := use(0); err != nil || ok {
		w.violate("the node that revoked a key takes it: %v", err)
	}
	for i := 1; i < len(w.nodes); i++ {
		for ctx.Err() == nil {
			sent := time.Now()
			ok, err := use(i)
			if err != nil {
				return 0, err
			}
			if !ok {
				break
			}
			late = max(late, sent.Sub(acked))
			if sent.Sub(acked) > timeout {
				return 0, fmt.Errorf("node %d takes a revoked key forever", i)
			}
		}
	}
	return late, nil
}
