// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/caddy-moderation/caddy-moderation/storage/redis/redistest"
)

// crowd is how many requests are sent at once.
const crowd = 500

// patientStore are lines of a storage that waits long: on a busy machine, a crowd would otherwise look like an
// outage, in which limits are not exact.
var patientStore = []string{"timeout 10s"}

// exact sends 500 requests at once, over all nodes, for the last 50 of a minute and for the last 100 of a month.
func exact(s setup) func(context.Context, *world) error {
	return func(ctx context.Context, w *world) error {
		s := s
		s.lines = append(slices.Clone(s.lines), patientStore...)
		if err := w.begin(ctx, s); err != nil {
			return err
		}
		rounds := 1
		if w.rig.long {
			rounds = 3
		}
		for range rounds {
			if err := w.lastOfMinute(ctx); err != nil {
				return err
			}
		}
		w.spend(monthAccount, perMonth-100)
		w.storm(monthAccount, 100)
		w.conclude(ctx)
		return nil
	}
}

// lastOfMinute has a crowd ask for the last 50 requests of a minute, again if the minute ends meanwhile.
func (w *world) lastOfMinute(ctx context.Context) error {
	for range 5 {
		// The store's clock is this machine's.
		left := time.Until(time.Now().Truncate(time.Minute).Add(time.Minute))
		if left < 12*time.Second {
			pause(ctx, left+50*time.Millisecond)
		}
		minute := minuteOf(time.Now())
		used, err := w.nodes[0].usage(minuteAccount)
		if err != nil {
			return err
		}
		if already := int(used.Minute.Requests); minuteOf(used.Minute.Reset)-1 == minute && already > 0 {
			pause(ctx, time.Until(time.Now().Truncate(time.Minute).Add(time.Minute))+50*time.Millisecond)
			continue
		}
		w.spend(minuteAccount, perMinute-50)
		answers := w.ask(minuteAccount)
		if minuteOf(time.Now()) == minute {
			w.judge(minuteAccount, 50, answers)
			return ctx.Err()
		}
		w.note("a minute ended too early")
	}
	return errSkip("five minutes ended before a crowd was answered")
}

// spend admits n requests of an account, over all nodes.
func (w *world) spend(account string, n int) {
	client := w.newClient(w.nodes[0], "spend")
	defer client.http.CloseIdleConnections()
	for i := range n {
		client.node = w.nodes[i%len(w.nodes)]
		if status, _ := client.moderate(account, w.secretOf(account)); status != 200 {
			w.violate("account %s: request %d of %d is answered %d", account, i+1, n, status)
			return
		}
	}
}

// storm has a crowd use an account whose remaining requests are known.
func (w *world) storm(account string, want int) { w.judge(account, want, w.ask(account)) }

// answer is what one of a crowd got.
type answer struct {
	status    int
	remaining string
	mark      string
	err       error
}

// ask has a crowd use an account, over all nodes, at once.
func (w *world) ask(account string) []answer {
	answers := make([]answer, crowd)
	clients := make([]*http.Client, len(w.nodes))
	for i := range clients {
		clients[i] = newClient(crowd)
		defer clients[i].CloseIdleConnections()
	}
	begin := make(chan struct{})
	var asking sync.WaitGroup
	for i := range answers {
		asking.Go(func() {
			n := i % len(w.nodes)
			<-begin
			r := w.ledger.sending(account)
			status, header, body, err := send(context.Background(), clients[n], http.MethodPost,
				"http://"+w.nodes[n].site+"/v1/moderate/text", w.secretOf(account), "application/json",
				[]byte(`{"content":"hello"}`))
			a := answer{status: status, err: err}
			if header != nil {
				a.remaining, a.mark = header.Get("X-RateLimit-Remaining"), header.Get("X-RateLimit-Status")
			}
			answers[i] = a
			c := &client{world: w, node: w.nodes[n]}
			r.ended(c.outcomeOf("a crowd", status, body, err, status == 200), a.mark)
		})
	}
	close(begin)
	asking.Wait()
	return answers
}

// judge wants exactly so many of a crowd to be admitted, each with another number of remaining requests.
func (w *world) judge(account string, want int, answers []answer) {
	statuses, remaining := map[int]int{}, map[string]int{}
	for _, a := range answers {
		statuses[a.status]++
		if a.mark != "" {
			w.violate("account %s: an answer is marked %q although the store answers", account, a.mark)
		}
		if a.status == 200 {
			remaining[a.remaining]++
		}
	}
	w.note("%s: %d of %d", account, statuses[200], len(answers))
	if statuses[200] != want || statuses[429]+statuses[402] != len(answers)-want {
		w.violate("account %s: %d requests at once for the last %d: answered %v", account, len(answers), want, statuses)
	}
	if account == minuteAccount && len(remaining) != want {
		w.violate("account %s: X-RateLimit-Remaining has %d values in %d answers", account, len(remaining), want)
	}
}

// clocks is exact with nodes whose clocks are wrong.
func clocks(ctx context.Context, w *world) error {
	s := setup{skew: []time.Duration{-10 * time.Minute, 0, 10 * time.Minute}}
	if err := exact(s)(ctx, w); err != nil {
		return err
	}
	// Keys, corrections and the usage by minute do not depend on the clocks either.
	if err := w.work(ctx, everybody); err != nil {
		return err
	}
	pause(ctx, w.long(500*time.Millisecond, 5*time.Second))
	w.conclude(ctx)
	for _, n := range w.nodes {
		u, err := n.usage(apiAccount)
		if err != nil {
			return err
		}
		if off := time.Until(u.Minute.Reset); off < -5*time.Second || off > 65*time.Second {
			w.violate("node %d: the minute ends in %s", n.n, off.Round(time.Second))
		}
	}
	return w.skewSeen(ctx)
}

// skewSeen wants the clock of the last node to be wrong indeed, which shows when the node is alone.
func (w *world) skewSeen(ctx context.Context) error {
	n := w.nodes[len(w.nodes)-1]
	if err := n.stop(); err != nil {
		return err
	}
	n.badger = true
	if err := n.start(ctx); err != nil {
		return err
	}
	u, err := n.usage(apiAccount)
	if err != nil {
		return err
	}
	if ahead := time.Until(u.Minute.Reset); ahead < 8*time.Minute {
		w.violate("the clock of node %d is not wrong: a minute of its own store ends in %s", n.n, ahead)
	}
	return nil
}

// exactWhileSlotsMove is exact while the slot of the account moves from master to master.
func exactWhileSlotsMove(ctx context.Context, w *world) error {
	if err := w.begin(ctx, setup{topology: cluster, nodeTimeout: 10 * time.Second, lines: patientStore}); err != nil {
		return err
	}
	w.spend(monthAccount, perMonth-100)
	moving, stop := context.WithCancel(ctx)
	defer stop()
	moves, failed := 0, error(nil)
	var mover sync.WaitGroup
	mover.Go(func() {
		for i := 0; moving.Err() == nil && failed == nil; i++ {
			to := w.cluster.Nodes[i%3]
			failed = w.cluster.MoveSlot(redistest.Slot("{a:"+monthAccount+"}"), to, func() {
				pause(moving, 5*time.Millisecond)
			})
			moves++
		}
	})
	w.storm(monthAccount, 100)
	stop()
	mover.Wait()
	w.note("%d moves", moves)
	w.conclude(ctx)
	return failed
}

// long returns the first duration, or the second one in a long run.
func (w *world) long(quick, long time.Duration) time.Duration {
	if w.rig.long {
		return long
	}
	return quick
}
