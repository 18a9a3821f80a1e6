// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"
)

const guardForm = "application/x-www-form-urlencoded"

// mix is the number of clients of each kind for each node.
type mix struct {
	api, guard, feedback, keys int
	pause                      time.Duration
}

// everybody is the usual mix.
var everybody = mix{api: 2, guard: 1, feedback: 1, keys: 1, pause: 3 * time.Millisecond}

// client uses one node, one request after the other.
type client struct {
	world  *world
	node   *node
	http   *http.Client
	random *rand.Rand
	name   string
	n      int
}

func (w *world) newClient(n *node, name string) *client {
	return &client{
		world: w, node: n, name: fmt.Sprintf("%s-%d-%s", name, n.n, w.letters(5)), http: newClient(1),
		random: rand.New(rand.NewPCG(w.random.Uint64(), 1)),
	}
}

// work starts clients.
func (w *world) work(ctx context.Context, m mix) error {
	if m.keys > 0 {
		if err := w.makeAccount(keysAccount); err != nil {
			return err
		}
	}
	working, stop := context.WithCancel(ctx)
	w.load = stop
	for _, n := range w.nodes {
		for _, kind := range []struct {
			count int
			name  string
			step  func(*client)
		}{
			{m.api, "api", func(c *client) { c.moderate(apiAccount, w.secretOf(apiAccount)) }},
			{m.guard, "guard", (*client).guarded},
			{m.feedback, "feedback", (*client).suggest},
			{m.keys, "keys", (*client).key},
		} {
			for range kind.count {
				c := w.newClient(n, kind.name)
				w.clients.Go(func() {
					defer c.http.CloseIdleConnections()
					for working.Err() == nil {
						c.n++
						kind.step(c)
						pause(working, m.pause)
					}
				})
			}
		}
	}
	return nil
}

// rest stops the clients, each after the end of its last request.
func (w *world) rest() {
	if w.load != nil {
		w.load()
		w.load = nil
	}
	w.clients.Wait()
}

// makeAccount makes an account without limits, unless it exists.
func (w *world) makeAccount(id string) error {
	status, answer, err := w.nodes[0].administer(http.MethodPost, "/moderation/accounts",
		fmt.Sprintf(`{"id":%q,"name":%q,"tier":"load"}`, id, id))
	if err != nil || status != 201 && status != 409 {
		return errors.New("the account is not made: " + brief(status, answer, err))
	}
	return nil
}

// outcomeOf returns what an answer means for a request that counts.
func (c *client) outcomeOf(what string, status int, answer []byte, err error, good bool) outcome {
	switch {
	case err != nil:
		return c.lost(what, err)
	case good:
		c.world.answers.Add(1)
		return counted
	case status == http.StatusBadRequest:
		return refunded
	case status == http.StatusTooManyRequests, status == http.StatusPaymentRequired:
		return limited
	case status == http.StatusNotFound && c.world.lossy:
		return unknown
	case status == http.StatusServiceUnavailable:
		time.Sleep(2 * time.Millisecond) // like a client that was told to retry
		return refused
	}
	c.world.violate("%s: node %d answers %s", what, c.node.n, brief(status, answer, nil))
	return unknown
}

// lost returns what the lack of an answer means.
func (c *client) lost(what string, err error) outcome {
	if late := net.Error(nil); errors.As(err, &late) && late.Timeout() && c.node.up.Load() {
		c.world.violate("%s: node %d does not answer within %s", what, c.node.n, timeout)
	}
	time.Sleep(5 * time.Millisecond) // the node may be away
	if errors.Is(err, syscall.ECONNREFUSED) {
		return unsent
	}
	if c.node.up.Load() && !c.node.reloading.Load() {
		c.world.violate("%s: node %d breaks a connection: %v", what, c.node.n, err)
	}
	return unknown
}

// moderate asks for a verdict, with the key of an account.
func (c *client) moderate(account, secret string) (int, outcome) {
	r := c.world.ledger.sending(account)
	status, header, answer, err := send(context.Background(), c.http, http.MethodPost,
		"http://"+c.node.site+"/v1/moderate/text", secret, "application/json",
		[]byte(`{"content":"What a lovely day it was in the garden."}`))
	o := c.outcomeOf("moderating", status, answer, err, status == 200)
	mark := ""
	if header != nil {
		mark = header.Get("X-RateLimit-Status")
	}
	r.ended(o, mark)
	return status, o
}

// guarded posts a comment to a guarded site.
func (c *client) guarded() {
	r := c.world.ledger.sending(guardAccount)
	status, _, answer, err := send(context.Background(), c.http, http.MethodPost, "http://"+c.node.site+"/guarded", "",
		guardForm, []byte("comment=What+a+lovely+day"))
	r.ended(c.outcomeOf("the guard", status, answer, err, status == 200), "")
}

// suggest sends feedback.
func (c *client) suggest() {
	token := fmt.Sprintf("%s-%d", c.name, c.n)
	text := "What " + token + " says"
	body, err := json.Marshal(map[string]any{
		"comment": map[string]string{"text": text},
		"attributeScores": map[string]any{"TOXICITY": map[string]any{
			"summaryScore": map[string]any{"value": 0.1, "type": "PROBABILITY"},
		}},
		"clientToken": token,
	})
	if err != nil {
		panic(err)
	}
	l := c.world.ledger
	l.with(func() { l.feedback[token] = &suggestion{account: apiAccount, sum: sha256.Sum256([]byte(text))} })
	status, _, answer, err := send(context.Background(), c.http, http.MethodPost,
		"http://"+c.node.site+"/v1alpha1/comments:suggestscore", c.world.secretOf(apiAccount), "application/json", body)
	o := c.outcomeOf("feedback", status, answer, err, status == 200)
	l.with(func() {
		switch held := l.feedback[token]; o {
		case counted:
			held.acked, held.at = true, time.Now()
		case refused, limited, refunded, unsent:
			held.unsent = true
		}
	})
	if o == refunded || o == limited {
		c.world.violate("feedback: node %d answers %s", c.node.n, brief(status, answer, nil))
	}
}

// admin sends a request to the admin endpoint of the client's node.
func (c *client) admin(what, method, path, body string, want int) ([]byte, outcome) {
	status, answer, err := c.node.administer(method, path, body)
	return answer, c.outcomeOf(what, status, answer, err, status == want)
}

// key creates a key, uses it at another node, and revokes it half of the time.
func (c *client) key() {
	l := c.world.ledger
	answer, o := c.admin("creating a key", http.MethodPost, "/moderation/keys",
		fmt.Sprintf(`{"account":%q,"name":%q}`, keysAccount, fmt.Sprintf("%s-%d", c.name, c.n)), 201)
	if o != counted {
		return
	}
	id, secret, err := madeKey(answer)
	if err != nil {
		c.world.violate("%v", err)
		return
	}
	held := &heldKey{secret: secret, created: time.Now()}
	l.with(func() { l.keys[id] = held })
	elsewhere := &client{world: c.world, node: c.world.nodes[c.random.IntN(len(c.world.nodes))], http: c.http}
	elsewhere.tryKey(held)
	if c.n%2 == 0 {
		return
	}
	l.with(func() { held.revoking = true })
	if _, o := c.admin("revoking a key", http.MethodPost, "/moderation/keys/"+id+"/revoke", "{}", 200); o == counted {
		l.with(func() { held.revoked, held.revokedAt, held.revokedNode = true, time.Now(), c.node.n })
	}
}

// tryKey uses a key that was just made.
func (c *client) tryKey(held *heldKey) {
	status, _, answer, err := send(context.Background(), c.http, http.MethodGet, "http://"+c.node.site+"/v1/usage",
		held.secret, "", nil)
	if err == nil && status == 401 && !c.world.lossy {
		c.world.violate("a new key is refused by node %d: %s", c.node.n, brief(status, answer, nil))
	}
}

// madeKey returns the id and the secret of a key that was made.
func madeKey(answer []byte) (id, secret string, err error) {
	var made struct {
		Secret string `json:"secret"`
		Key    struct {
			ID string `json:"id"`
		} `json:"key"`
	}
	err = json.Unmarshal(answer, &made)
	return made.Key.ID, made.Secret, err
}

// usage is what a node says about the counts of an account.
type usage struct {
	Period struct {
		Requests int64 `json:"requests"`
	} `json:"period"`
	Minute struct {
		Reset    time.Time `json:"reset"`
		Requests int64     `json:"requests"`
	} `json:"minute"`
	Days []struct {
		Requests int64 `json:"requests"`
	} `json:"days"`
}

func (n *node) usage(account string) (u usage, err error) {
	status, answer, err := n.administer(http.MethodGet, "/moderation/usage/"+account, "")
	if err == nil && status != 200 {
		err = errors.New(brief(status, answer, nil))
	}
	if err == nil {
		err = json.Unmarshal(answer, &u)
	}
	return u, err
}

// record is a record of feedback in an export.
type record struct {
	Account string `json:"account"`
	Text    string `json:"text"`
	Token   string `json:"client_token"`
}

// export returns the feedback that a node tells.
func (n *node) export() (all []record, err error) {
	status, answer, err := n.administer(http.MethodGet, "/moderation/feedback/export", "")
	if err != nil || status != 200 {
		return nil, errors.New("the feedback is not told: " + brief(status, answer, err))
	}
	for line := range bytes.Lines(answer) {
		var r record
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, err
		}
		if strings.Contains(string(line), `"left_out"`) {
			return nil, errors.New("the export leaves records out: " + string(line))
		}
		all = append(all, r)
	}
	return all, nil
}

// listed is a key in a list.
type listed struct {
	ID      string     `json:"id"`
	Account string     `json:"account"`
	Revoked *time.Time `json:"revoked"`
}

// list returns the keys that a node tells.
func (n *node) list(account string) (all []listed, err error) {
	path := "/moderation/keys"
	if account != "" {
		path += "?account=" + account
	}
	status, answer, err := n.administer(http.MethodGet, path, "")
	if err != nil || status != 200 {
		return nil, errors.New("the keys are not told: " + brief(status, answer, err))
	}
	return all, json.Unmarshal(answer, &all)
}
