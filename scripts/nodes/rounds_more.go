// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/caddy-moderation/caddy-moderation/storage/redis/redistest"
)

// partition cuts one node off from the store for a while, and wants it to do what its policy says.
func partition(outage string) func(context.Context, *world) error {
	return func(ctx context.Context, w *world) error {
		if err := w.begin(ctx, setup{proxied: true, outage: outage}); err != nil {
			return err
		}
		if err := w.work(ctx, everybody); err != nil {
			return err
		}
		w.spend(monthAccount, 30)
		if err := w.acquainted(ctx); err != nil {
			return err
		}
		alone := w.nodes[0]
		before := w.ledger.total()
		began := time.Now()
		alone.proxy.Hang()
		if !w.alarmed(ctx, alone, "cut off") {
			return nil
		}
		raised := time.Since(began)
		// All nodes give away what is left of the month.
		var spent [3]int
		var spending sync.WaitGroup
		for i, n := range w.nodes {
			spending.Go(func() { spent[i] = w.exhaust(n, monthAccount, 2*perMonth) })
		}
		spending.Wait()
		for _, n := range w.nodes[1:] {
			if _, body, up, err := n.health(); err != nil || !up {
				w.violate("node %d is not well although only node 0 is cut off: %s, %v", n.n, cut(body, 200), err)
			}
		}
		pause(ctx, time.Until(began.Add(w.long(2*time.Second, 10*time.Second))))
		after := w.ledger.total()
		if err := alone.proxy.Heal(); err != nil {
			return err
		}
		healed := time.Now()
		w.recovered(ctx, "healed")
		w.note("alarm after %s, well %s after healing, of %d left the nodes gave %v", raised.Round(time.Millisecond),
			time.Since(healed).Round(time.Millisecond), perMonth-30, spent)
		w.judgePartition(outage, spent, before, after)
		w.conclude(ctx)
		return nil
	}
}

// acquainted waits until each node must know how many nodes there are, which it hears once a second.
func (w *world) acquainted(ctx context.Context) error {
	for began := time.Now(); ; pause(ctx, 20*time.Millisecond) {
		n, err := w.single.Int("ZCARD", "mod:nodes")
		if err != nil {
			return err
		}
		if n == int64(len(w.nodes)) {
			break
		}
		if time.Since(began) > timeout {
			return fmt.Errorf("%d of %d nodes say that they live", n, len(w.nodes))
		}
	}
	pause(ctx, w.between(1500*time.Millisecond, 2*time.Second))
	return ctx.Err()
}

// judgePartition judges what was given away while node 0 was cut off.
func (w *world) judgePartition(outage string, spent [3]int, before, after counts) {
	const left = perMonth - 30
	switch share := (left + 2) / 3; outage {
	case "deny":
		if spent[0] > 0 {
			w.violate("a node that is cut off and denies admits %d requests", spent[0])
		}
		if after.refused == before.refused {
			w.violate("a node that is cut off and denies refuses nothing")
		}
	case "allow":
		if spent[0] != 2*perMonth {
			w.violate("a node that is cut off and allows admits %d of %d requests", spent[0], 2*perMonth)
		}
		if after.marked["unknown"] == before.marked["unknown"] {
			w.violate("the answers of a node that allows are not marked unknown: %v", after.marked)
		}
	default:
		if spent[0] > share || spent[0] < 1 {
			w.violate("a node that is cut off admits %d requests, its share of %d is %d", spent[0], left, share)
		}
		if after.marked["local"] == before.marked["local"] {
			w.violate("the answers of a node that is cut off are not marked local: %v", after.marked)
		}
	}
	if others := spent[1] + spent[2]; others != left {
		w.violate("the nodes that are not cut off admit %d of %d requests", others, left)
	}
}

// exhaust uses an account at a node until it is refused, at most limit times, and returns how many were admitted.
func (w *world) exhaust(n *node, account string, limit int) (admitted int) {
	c := &client{world: w, node: n, http: newClient(1)}
	defer c.http.CloseIdleConnections()
	for range limit {
		status, _ := c.moderate(account, w.secretOf(account))
		if status != 200 {
			return admitted
		}
		admitted++
	}
	return admitted
}

// lateStart starts nodes while the store cannot be reached, which must not keep them from starting.
func lateStart(outage string) func(context.Context, *world) error {
	return func(ctx context.Context, w *world) error {
		if err := w.store(setup{proxied: true, outage: outage}); err != nil {
			return err
		}
		for _, n := range w.nodes {
			n.proxy.Refuse()
		}
		if err := w.startNodes(ctx); err != nil {
			return err
		}
		for _, n := range w.nodes {
			w.alarmed(ctx, n, "the store cannot be reached at the start")
		}
		if err := w.work(ctx, mix{api: 2, guard: 1, feedback: 1, pause: 5 * time.Millisecond}); err != nil {
			return err
		}
		pause(ctx, time.Second)
		w.note("%d answers without the store", w.answers.Load())
		if admitted := w.answers.Load() > 0; admitted != (outage != "deny") {
			w.violate("with outage %s, %d requests are answered before the store was ever reached", outage,
				w.answers.Load())
		}
		if err := heal(w); err != nil {
			return err
		}
		w.recovered(ctx, "the store is there")
		pause(ctx, 300*time.Millisecond)
		w.conclude(ctx)
		return nil
	}
}

// reloads loads the configuration again and again, while all clients work: no count is lost, and the connections stay.
func reloads(ctx context.Context, w *world) error {
	if err := w.begin(ctx, setup{}); err != nil {
		return err
	}
	if err := w.work(ctx, everybody); err != nil {
		return err
	}
	pause(ctx, 300*time.Millisecond)
	before, err := w.single.Info("total_connections_received")
	if err != nil {
		return err
	}
	times := 2
	if w.rig.long {
		times = 10
	}
	for range times {
		for _, n := range w.nodes {
			if err := n.reload(); err != nil {
				return err
			}
		}
		pause(ctx, w.between(50*time.Millisecond, 300*time.Millisecond))
	}
	after, err := w.single.Info("total_connections_received")
	if err != nil {
		return err
	}
	if before != after {
		w.violate("a reload with the same store makes new connections: %s before, %s after", before, after)
	}
	w.conclude(ctx)
	return nil
}

// moveStore changes the store by reload, while clients work: what was counted is in one store or the other.
func moveStore(ctx context.Context, w *world) error {
	if err := w.begin(ctx, setup{}); err != nil {
		return err
	}
	if err := w.work(ctx, mix{api: 3, guard: 2, pause: time.Millisecond}); err != nil {
		return err
	}
	for i := range 4 {
		for _, n := range w.nodes {
			n.prefix = []string{"second", ""}[i%2]
			if err := n.reload(); err != nil {
				return err
			}
		}
		pause(ctx, w.between(100*time.Millisecond, 300*time.Millisecond))
	}
	w.rest()
	pause(ctx, 500*time.Millisecond)
	if refused := w.ledger.total().refused; refused > 0 {
		w.violate("%d requests were answered 503 while the store was changed", refused)
	}
	for _, account := range w.ledger.accounts() {
		var sum int64
		for _, prefix := range []string{"", "second"} {
			n := w.nodes[0]
			if n.prefix = prefix; n.reload() != nil {
				w.violate("the store cannot be changed")
			}
			u, err := n.usage(account)
			if err != nil {
				return err
			}
			sum += u.Period.Requests
		}
		if d := w.ledger.get(account).requests.difference(sum); d != "" {
			w.violate("account %s: in both stores: %s", account, d)
		}
	}
	return nil
}

// many makes many accounts and keys, and wants them listed and used.
func many(ctx context.Context, w *world) error {
	accounts, keys := 500, 10
	if w.rig.long {
		accounts = 10_000
	}
	if err := w.begin(ctx, setup{lines: patientStore}); err != nil {
		return err
	}
	empty, err := w.single.Int("MEMORY", "USAGE", "mod:store")
	if err != nil || empty == 0 {
		return fmt.Errorf("the store has no identity: %w", err)
	}
	before, err := memory(w.single)
	if err != nil {
		return err
	}
	began := time.Now()
	var mu sync.Mutex
	secrets := []string{}
	ids := make(chan int)
	var making sync.WaitGroup
	for range 8 {
		making.Go(func() {
			for id := range ids {
				made, err := w.makeMany(id, keys)
				if err != nil {
					w.violate("%v", err)
				}
				mu.Lock()
				secrets = append(secrets, made...)
				mu.Unlock()
			}
		})
	}
	for id := range accounts {
		if ctx.Err() != nil {
			break
		}
		ids <- id
	}
	close(ids)
	making.Wait()
	made := time.Since(began)
	after, err := memory(w.single)
	if err != nil {
		return err
	}
	w.note("%d accounts with %d keys each made in %s, %d bytes an account and its keys", accounts, keys,
		made.Round(time.Millisecond), (after-before)/int64(accounts))
	for _, n := range w.nodes {
		if err := w.listMany(n, accounts, accounts*keys); err != nil {
			return err
		}
	}
	// Some of them are used.
	uses := min(len(secrets), 2000)
	c := w.newClient(w.nodes[0], "many")
	used := time.Now()
	for i := range uses {
		c.node = w.nodes[i%len(w.nodes)]
		at := w.random.IntN(len(secrets))
		status, _, body, err := send(ctx, c.http, http.MethodPost, "http://"+c.node.site+"/v1/moderate/text",
			secrets[at], "application/json", []byte(`{"content":"hello"}`))
		if err != nil || status != 200 {
			w.violate("a key cannot be used: %s", brief(status, body, err))
			break
		}
	}
	last, err := memory(w.single)
	if err != nil {
		return err
	}
	w.note("%d of the keys used, one after the other, in %s; %d bytes more for each", uses,
		time.Since(used).Round(time.Millisecond), (last-after)/int64(uses))
	return nil
}

func memory(s *redistest.Server) (int64, error) {
	text, err := s.Info("used_memory")
	if err != nil {
		return 0, err
	}
	var n int64
	_, err = fmt.Sscan(text, &n)
	return n, err
}

// makeMany makes an account and its keys at one of the nodes.
func (w *world) makeMany(id, keys int) (secrets []string, err error) {
	n := w.nodes[id%len(w.nodes)]
	name := fmt.Sprintf("account-%d", id)
	status, body, err := n.administer(http.MethodPost, "/moderation/accounts", fmt.Sprintf(
		`{"id":%q,"name":"Account %d of the rig","tier":"load"}`, name, id))
	if err != nil || status != 201 {
		return nil, fmt.Errorf("%s is not made: %s", name, brief(status, body, err))
	}
	for range keys {
		status, body, err := n.administer(http.MethodPost, "/moderation/keys", fmt.Sprintf(
			`{"account":%q,"name":"A key"}`, name))
		if err != nil || status != 201 {
			return secrets, fmt.Errorf("a key of %s is not made: %s", name, brief(status, body, err))
		}
		_, secret, err := madeKey(body)
		if err != nil {
			return secrets, err
		}
		secrets = append(secrets, secret)
	}
	return secrets, nil
}

// listMany lists all accounts and keys at a node.
func (w *world) listMany(n *node, accounts, keys int) error {
	began := time.Now()
	status, body, err := n.administer(http.MethodGet, "/moderation/accounts", "")
	if err != nil || status != 200 {
		return fmt.Errorf("node %d: the accounts are not listed: %s", n.n, brief(status, body, err))
	}
	var all []struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(body, &all); err != nil {
		return err
	}
	stored := 0
	last := ""
	for _, a := range all {
		if len(a.ID) > 8 && a.ID[:8] == "account-" {
			stored++
			if a.ID <= last {
				w.violate("node %d: %s is listed after %s", n.n, a.ID, last)
			}
			last = a.ID
		}
	}
	took := time.Since(began)
	began = time.Now()
	listed, err := n.list("")
	if err != nil {
		return err
	}
	ofAccounts := 0
	for _, k := range listed {
		if len(k.Account) > 8 && k.Account[:8] == "account-" {
			ofAccounts++
		}
	}
	if n.n == 0 {
		w.note("listed in %s and %s", took.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
	}
	if stored != accounts || ofAccounts != keys {
		w.violate("node %d lists %d of %d accounts and %d of %d keys", n.n, stored, accounts, ofAccounts, keys)
	}
	return nil
}
