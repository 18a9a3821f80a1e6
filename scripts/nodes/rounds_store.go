// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/caddy-moderation/caddy-moderation/storage/redis/redistest"
)

// harm is a fault of the store, and its end.
type harm struct {
	begin, end func(*world) error
	// total says that the store does not answer at all, or takes nothing, so that nodes must raise an alarm.
	total bool
	hold  time.Duration // default: a second
}

// harmed has a store with a fault for a while, while all clients work.
func harmed(s setup, h harm) func(context.Context, *world) error {
	return func(ctx context.Context, w *world) error {
		if err := w.begin(ctx, s); err != nil {
			return err
		}
		if err := w.work(ctx, everybody); err != nil {
			return err
		}
		times := 1
		if w.rig.long {
			times = 5
		}
		hold := h.hold
		if hold == 0 {
			hold = time.Second
		}
		for range times {
			pause(ctx, w.between(300*time.Millisecond, 900*time.Millisecond))
			answers, began := w.answers.Load(), time.Now()
			if err := h.begin(w); err != nil {
				return err
			}
			if h.total {
				for _, n := range w.nodes {
					if !w.alarmed(ctx, n, "while it lasts") {
						break
					}
				}
			}
			pause(ctx, hold-time.Since(began))
			during, lasted := w.answers.Load()-answers, time.Since(began)
			if err := h.end(w); err != nil {
				return err
			}
			healed := time.Now()
			ok := w.recovered(ctx, "when it was over")
			w.note("%d answers in %s, well %s after", during, lasted.Round(10*time.Millisecond),
				time.Since(healed).Round(time.Millisecond))
			if !ok {
				break
			}
		}
		w.conclude(ctx)
		return nil
	}
}

// proxies does something to all proxies.
func proxies(f func(*redistest.Proxy)) func(*world) error {
	return func(w *world) error {
		for _, n := range w.nodes {
			f(n.proxy)
		}
		return nil
	}
}

func heal(w *world) error {
	for _, n := range w.nodes {
		if err := n.proxy.Heal(); err != nil {
			return err
		}
	}
	return nil
}

// commands has the store's server run commands.
func commands(all ...string) func(*world) error {
	return func(w *world) error {
		for _, command := range all {
			if _, err := w.single.Do(strings.Fields(command)...); err != nil {
				return fmt.Errorf("%s: %w", command, err)
			}
		}
		return nil
	}
}

var (
	hangs = harm{
		begin: func(w *world) error { return w.single.Pause() },
		end:   func(w *world) error { return w.single.Resume() },
		total: true, hold: 2 * time.Second,
	}
	refuses     = harm{begin: proxies((*redistest.Proxy).Refuse), end: heal, total: true}
	outOfMemory = harm{
		begin: commands("CONFIG SET maxmemory 1mb"), end: commands("CONFIG SET maxmemory 0"), total: true,
	}
	readOnly   = harm{begin: commands("REPLICAOF 127.0.0.1 1"), end: commands("REPLICAOF NO ONE"), total: true}
	noReplicas = harm{
		begin: commands("CONFIG SET min-replicas-to-write 1"), end: commands("CONFIG SET min-replicas-to-write 0"),
		total: true,
	}
	slow     = harm{begin: proxies(func(p *redistest.Proxy) { p.Delay(40 * time.Millisecond) }), end: heal}
	verySlow = harm{
		begin: proxies(func(p *redistest.Proxy) { p.Delay(600 * time.Millisecond) }), end: heal, total: true,
		hold: 2 * time.Second,
	}
	narrow = harm{begin: proxies(func(p *redistest.Proxy) { p.Bandwidth(20 << 10) }), end: heal}
)

// repeated does harm again and again, while all clients work; nothing may be lost or done twice.
func repeated(s setup, every time.Duration, f func(*world) error) func(context.Context, *world) error {
	return func(ctx context.Context, w *world) error {
		if err := w.begin(ctx, s); err != nil {
			return err
		}
		if err := w.work(ctx, everybody); err != nil {
			return err
		}
		n := 0
		for began := time.Now(); time.Since(began) < w.long(2*time.Second, 20*time.Second) && ctx.Err() == nil; n++ {
			if err := f(w); err != nil {
				return err
			}
			pause(ctx, every)
		}
		if s.proxied {
			if err := heal(w); err != nil {
				return err
			}
		}
		w.note("%d times", n)
		w.conclude(ctx)
		return nil
	}
}

func loseAnswers(w *world) error {
	n := w.nodes[w.random.IntN(len(w.nodes))]
	n.proxy.LoseAnswers(1, "EVALSHA")
	return nil
}

func cutConnections(w *world) error {
	w.nodes[w.random.IntN(len(w.nodes))].proxy.Cut()
	return nil
}

func flushScripts(w *world) error {
	_, err := w.single.Do("SCRIPT", "FLUSH")
	return err
}

// slotsMove moves the slots of the accounts from master to master, while all clients work.
func slotsMove(ctx context.Context, w *world) error {
	if err := w.begin(ctx, setup{topology: cluster, nodeTimeout: 10 * time.Second}); err != nil {
		return err
	}
	if err := w.work(ctx, everybody); err != nil {
		return err
	}
	moves := 0
	for began := time.Now(); time.Since(began) < w.long(2*time.Second, 20*time.Second) && ctx.Err() == nil; {
		masters, err := w.cluster.Masters()
		if err != nil {
			return err
		}
		for _, account := range []string{apiAccount, guardAccount, keysAccount} {
			to := masters[w.random.IntN(len(masters))]
			err := w.cluster.MoveSlot(redistest.Slot("{a:"+account+"}"), to, func() {
				pause(ctx, w.between(0, 10*time.Millisecond))
			})
			if err != nil {
				return err
			}
			moves++
		}
	}
	w.note("%d moves", moves)
	if refused := w.ledger.total().refused; refused > 0 {
		w.note("%d requests were answered 503", refused)
	}
	w.conclude(ctx)
	return nil
}

// flushed empties the store: no key may be taken for unknown, and no count for 0, without an alarm.
func flushed(ctx context.Context, w *world) error {
	if err := w.begin(ctx, setup{}); err != nil {
		return err
	}
	if err := w.makeAccount(keysAccount); err != nil {
		return err
	}
	status, body, err := w.nodes[0].administer(http.MethodPost, "/moderation/keys",
		fmt.Sprintf(`{"account":%q}`, keysAccount))
	if err != nil || status != 201 {
		return fmt.Errorf("no key is made: %s", brief(status, body, err))
	}
	_, secret, err := madeKey(body)
	if err != nil {
		return err
	}
	if err := w.work(ctx, mix{api: 1, guard: 1, pause: 3 * time.Millisecond}); err != nil {
		return err
	}
	pause(ctx, 500*time.Millisecond)
	for i := range w.nodes {
		c := w.newClient(w.nodes[i], "known")
		c.moderate(keysAccount, secret)
	}
	if _, err := w.single.Do("FLUSHALL"); err != nil {
		return err
	}
	// From now on a key that the nodes do not know might be anybody's.
	statuses := map[int]int{}
	for began := time.Now(); time.Since(began) < 3*time.Second && ctx.Err() == nil; {
		for _, n := range w.nodes {
			c := newClient(1)
			status, _, _, err := send(ctx, c, http.MethodGet, "http://"+n.site+"/v1/usage", secret, "", nil)
			c.CloseIdleConnections()
			if err == nil {
				statuses[status]++
			}
		}
		pause(ctx, 20*time.Millisecond)
	}
	w.note("a stored key is answered %v", statuses)
	if statuses[401] > 0 {
		w.violate("after the store was emptied, a valid key is answered 401: %v", statuses)
	}
	for _, n := range w.nodes {
		if w.alarmed(ctx, n, "the store was emptied") {
			if _, body, _, err := n.health(); err == nil && !strings.Contains(body, "emptied") {
				w.violate("node %d does not say that the store was emptied: %s", n.n, cut(body, 300))
			}
		}
	}
	w.rest()
	return nil
}

// older has the store claim to be of an older version: nodes refuse to start, and say why.
func older(ctx context.Context, w *world) error {
	if err := w.store(setup{proxied: true, nodes: 1}); err != nil {
		return err
	}
	if name, err := w.single.Info("valkey_version"); err == nil {
		return errSkip("every version of Valkey will do, such as " + name)
	}
	version, err := w.single.Info("redis_version")
	if err != nil {
		return err
	}
	if err := w.nodes[0].proxy.Rewrite(version, "6"+version[1:]); err != nil {
		return err
	}
	w.refusesToStart(ctx, w.nodes[0], "an older version", "Redis 7")
	return nil
}

// refusesToStart wants a node to end at its start, with a sentence that holds some words.
func (w *world) refusesToStart(ctx context.Context, n *node, why string, words ...string) {
	if err := n.launch(ctx, false); err != nil {
		w.violate("%s: %v", why, err)
		return
	}
	select {
	case <-n.process.Done():
	case <-time.After(timeout):
		w.violate("%s: the node starts", why)
	}
	output := n.process.Output()
	line := output
	if i := strings.LastIndex(strings.TrimSpace(output), "\n"); i >= 0 {
		line = output[i+1:]
	}
	for _, word := range words {
		if !strings.Contains(line, word) {
			w.violate("%s: the error does not say %q: %s", why, word, cut(strings.TrimSpace(line), 500))
		}
	}
	if strings.Contains(output, n.world.setup.server.Password) && n.world.setup.server.Password != "" {
		w.violate("%s: the log holds the password", why)
	}
	n.kill()
}

// mistakes starts nodes with mistakes in their configuration, which the store's servers tell.
func mistakes(ctx context.Context, w *world) error {
	if err := w.store(setup{nodes: 1, server: redistest.Options{Password: "right-" + w.letters(8)}}); err != nil {
		return err
	}
	n := w.nodes[0]
	password := w.setup.server.Password
	w.setup.lines = []string{"password wrong-" + w.letters(4)}
	w.setup.server.Password = ""
	w.refusesToStart(ctx, n, "a wrong password", "password")
	w.setup.lines = nil
	w.refusesToStart(ctx, n, "no password", "password")
	w.setup.server.Password = password
	w.setup.lines = []string{"cluster"}
	w.refusesToStart(ctx, n, "cluster before a server that is none", "cluster")
	replica, err := redistest.Start(redistest.Options{Password: password, Config: []string{
		fmt.Sprintf("replicaof %s %d", w.single.Host(), w.single.Port()),
	}})
	if err != nil {
		return err
	}
	w.atEnd(replica.Stop)
	single := w.single
	w.single, w.setup.lines = replica, nil
	w.refusesToStart(ctx, n, "a replica", "replica")
	w.single = single
	watched, err := redistest.StartSentinel(redistest.SentinelOptions{Replicas: -1})
	if err != nil {
		return err
	}
	w.atEnd(watched.Stop)
	w.setup.server.Password = ""
	w.single = watched.Sentinels[0]
	w.setup.lines = []string{"sentinel other"}
	w.refusesToStart(ctx, n, "a master that the sentinels do not know", "other")
	group, err := redistest.StartCluster(redistest.ClusterOptions{Replicas: -1})
	if err != nil {
		return err
	}
	w.atEnd(group.Stop)
	w.single, w.setup.lines = group.Nodes[0], nil
	w.refusesToStart(ctx, n, "a cluster without cluster", "cluster")
	w.setup.lines = []string{"sentinel main"}
	w.refusesToStart(ctx, n, "a server in place of a sentinel", "sentinel")
	w.single = single
	return nil
}
