// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

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
	"time"
)

// A harmless text, a harmful one, and the categories for which it is flagged.
const (
	harmlessText = "What a lovely day it was in the garden."
	harmfulText  = "I will kill you, you stupid idiot"
	harass       = "harassment"
	violence     = "violence"
	guardForm    = "application/x-www-form-urlencoded"
)

var harmfulFlags = []string{harass, violence}

// client uses the server, one request after the other.
type client struct {
	world  *world
	http   *http.Client
	random *rand.Rand
	name   string
	n      int
}

// mix is the number of clients of each kind.
type mix struct {
	api, guard, enforced, feedback, bulk, keys, accounts int
	pause                                                time.Duration
}

// everybody is the usual mix.
var everybody = mix{api: 3, guard: 1, enforced: 1, feedback: 2, keys: 1, accounts: 1, pause: 4 * time.Millisecond}

// writers is a mix that fills logs and tables.
var writers = mix{api: 2, guard: 1, enforced: 1, feedback: 1, bulk: 4, keys: 1, accounts: 1,
	pause: 4 * time.Millisecond}

// work creates the account of the keys and starts the clients.
func (w *world) work(ctx context.Context, m mix) error {
	if m.keys > 0 && w.ledger.accounts[keysAccount] == nil {
		status, answer, err := w.do(http.MethodPost, "http://"+w.admin+"/moderation/accounts", "", "application/json",
			[]byte(`{"id":"keys","name":"keys","tier":"load"}`))
		if err != nil || status != 201 {
			return errors.New("the account of the keys is not made: " + brief(status, answer, err))
		}
		w.ledger.with(func() { w.ledger.accounts[keysAccount] = &heldAccount{stages{present, present}} })
	}
	working, stop := context.WithCancel(ctx)
	w.load = stop
	w.clients.Go(func() { w.sampling(working) })
	for _, kind := range []struct {
		n    int
		name string
		step func(*client)
	}{
		{m.api, "api", (*client).moderate},
		{m.guard, "guard", (*client).guarded},
		{m.enforced, "enforced", (*client).enforced},
		{m.feedback, "feedback", func(c *client) { c.suggest(0) }},
		{m.bulk, "bulk", func(c *client) { c.suggest(40 << 10) }},
		{m.keys, "keys", (*client).key},
		{m.accounts, "accounts", (*client).account},
	} {
		for i := range kind.n {
			c := &client{
				world:  w,
				name:   fmt.Sprintf("%s-%d-%s", kind.name, i, w.letters(4)),
				random: rand.New(rand.NewPCG(w.random.Uint64(), 1)),
				http: &http.Client{
					Timeout:       timeout,
					Transport:     &http.Transport{MaxIdleConnsPerHost: 1},
					CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
				},
			}
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

// rotate waits until so much was acknowledged that the store must have begun another log, until it refuses requests,
// or until the timeout.
func (w *world) rotate(ctx context.Context) {
	bytes, refused := w.bytes.Load(), w.refused.Load()
	for deadline := time.Now().Add(timeout); ctx.Err() == nil && w.up.Load() && time.Now().Before(deadline); {
		if w.bytes.Load() > bytes+12<<20 || w.refused.Load() > refused {
			return
		}
		pause(ctx, 20*time.Millisecond)
	}
}

// outcomeOf returns what an answer means for a request that counts.
func (c *client) outcomeOf(what string, status int, answer []byte, err error, good func() bool) outcome {
	switch {
	case err != nil:
		return c.lost(what, err)
	case good():
		c.world.answers.Add(1)
		return counted
	case status == 400:
		c.world.answers.Add(1)
		return refunded
	case c.unavailable(status, answer):
		return unknown
	}
	c.world.violate("%s: answered %s", what, brief(status, answer, nil))
	return unknown
}

// lost returns what the lack of an answer means.
func (c *client) lost(what string, err error) outcome {
	if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() && c.world.up.Load() {
		c.world.violate("%s: no answer for %s", what, timeout)
	}
	time.Sleep(5 * time.Millisecond) // the server may be away
	if refusedConnection(err) {
		return unsent
	}
	return unknown
}

// unavailable reports whether an answer says that the store cannot keep things now.
func (c *client) unavailable(status int, answer []byte) bool {
	if status != http.StatusServiceUnavailable {
		return false
	}
	c.world.refused.Add(1)
	time.Sleep(2 * time.Millisecond) // like a client that was told to retry
	return true
}

// moderate asks for a verdict, sometimes with an invalid request.
func (c *client) moderate() {
	text, flags := harmlessText, []string(nil)
	body := []byte(`{"content":`)
	wrong := c.n%7 == 3
	if c.n%4 == 2 {
		text, flags = harmfulText, harmfulFlags
	}
	if !wrong {
		body, _ = json.Marshal(map[string]string{"content": text})
	} else {
		flags = nil
	}
	r := c.world.ledger.sending(apiAccount, flags)
	status, answer, err := send(c.http, http.MethodPost, "http://"+c.world.site+"/v1/moderate/text", c.world.secret,
		"application/json", body)
	o := c.outcomeOf("moderating", status, answer, err, func() bool {
		return status == 200 && !wrong && bytes.Contains(answer, []byte(`"flagged":true`)) == (flags != nil)
	})
	if o == refunded && !wrong {
		c.world.violate("moderating: answered %s", brief(status, answer, nil))
	}
	r.ended(o)
}

func (c *client) guarded()  { c.guard("/guarded", guardAccount) }
func (c *client) enforced() { c.guard("/enforced", enforcedAccount) }

// guard posts a comment to a guarded site.
func (c *client) guard(path, account string) {
	text, flags, want := harmlessText, []string(nil), 200
	if c.n%4 == 2 {
		text, flags, want = harmfulText, harmfulFlags, 422
	}
	r := c.world.ledger.sending(account, flags)
	status, answer, err := send(c.http, http.MethodPost, "http://"+c.world.site+path, "", guardForm,
		[]byte("comment="+strings.ReplaceAll(text, " ", "+")))
	r.ended(c.outcomeOf("the guard at "+path, status, answer, err, func() bool { return status == want }))
}

// suggest sends feedback with size bytes of context.
func (c *client) suggest(size int) {
	token := fmt.Sprintf("%s-%d", c.name, c.n)
	text := "What " + token + " says"
	wanted := map[string]any{
		"comment": map[string]string{"text": text},
		"attributeScores": map[string]any{"TOXICITY": map[string]any{
			"summaryScore": map[string]any{"value": 0.1, "type": "PROBABILITY"},
		}},
		"clientToken": token,
	}
	if size > 0 {
		// Random characters, so that compression does not make it small.
		filler := make([]byte, size)
		for i := range filler {
			filler[i] = ' ' + 2 + byte(c.random.IntN(58))
		}
		text := string(bytes.ReplaceAll(filler, []byte{'\\'}, []byte{'/'}))
		wanted["context"] = map[string]any{"entries": []any{map[string]string{"text": text}}}
	}
	body, err := json.Marshal(wanted)
	if err != nil {
		panic(err)
	}
	l := c.world.ledger
	l.with(func() { l.feedback[token] = &suggestion{Account: apiAccount, Sum: sha256.Sum256([]byte(text))} })
	status, answer, err := send(c.http, http.MethodPost, "http://"+c.world.site+"/v1alpha1/comments:suggestscore",
		c.world.secret, "application/json", body)
	o := c.outcomeOf("feedback", status, answer, err, func() bool { return status == 200 })
	l.with(func() {
		l.feedback[token].Status = status
		if o == counted {
			c.world.bytes.Add(int64(len(body)))
			l.feedback[token].Acked, l.feedback[token].At = true, time.Now()
		}
		if o == unsent {
			delete(l.feedback, token)
		}
	})
	if o == refunded {
		c.world.violate("feedback: answered %s", brief(status, answer, nil))
	}
}

// administer sends a request to the admin endpoint.
func (c *client) administer(what, method, path string, body any, want int) (answer []byte, o outcome) {
	encoded, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	status, answer, err := send(c.http, method, "http://"+c.world.admin+path, "", "application/json", encoded)
	return answer, c.outcomeOf(what, status, answer, err, func() bool { return status == want })
}

// key creates a key. Of three keys one is revoked and one is rotated.
func (c *client) key() {
	l := c.world.ledger
	id, secret := c.makeKey("creating a key", "/moderation/keys", func(name string) any {
		return map[string]string{"account": keysAccount, "name": name}
	})
	if id == "" {
		return
	}
	l.with(func() { l.keys[id] = &heldKey{stages{present, present}, secret} })
	if c.n%3 == 0 {
		return
	}
	l.with(func() { l.keys[id].Sent = changed })
	var done bool
	if c.n%3 == 1 {
		_, o := c.administer("revoking a key", http.MethodPost, "/moderation/keys/"+id+"/revoke", struct{}{}, 200)
		done = o == counted
	} else {
		// The new key has the same name.
		name := fmt.Sprintf("%s-%d", c.name, c.n)
		l.with(func() { l.lostKeys[name] = true })
		answer, o := c.administer("rotating a key", http.MethodPost, "/moderation/keys/"+id+"/rotate", struct{}{}, 201)
		if done = o == counted; done {
			if next, secret := c.made(answer); next != "" {
				l.with(func() {
					l.keys[next] = &heldKey{stages{present, present}, secret}
					delete(l.lostKeys, name)
				})
			}
		}
	}
	if done {
		l.with(func() { l.keys[id].Acked = changed })
	}
}

func (c *client) makeKey(what, path string, body func(name string) any) (id, secret string) {
	l := c.world.ledger
	name := fmt.Sprintf("%s-%d", c.name, c.n)
	l.with(func() { l.lostKeys[name] = true })
	answer, o := c.administer(what, http.MethodPost, path, body(name), 201)
	if o == counted {
		id, secret = c.made(answer)
	}
	if o == unsent || id != "" {
		l.with(func() { delete(l.lostKeys, name) })
	}
	return id, secret
}

func (c *client) made(answer []byte) (id, secret string) {
	var made struct {
		Secret string `json:"secret"`
		Key    key    `json:"key"`
	}
	if err := json.Unmarshal(answer, &made); err != nil {
		c.world.violate("a key that was made is not told: %v", err)
	}
	return made.Key.ID, made.Secret
}

// account creates an account, renames it and, every second time, deletes it.
func (c *client) account() {
	l := c.world.ledger
	id := strings.ToLower(fmt.Sprintf("%s-%d", c.name, c.n))
	held := &heldAccount{stages{absent, present}}
	l.with(func() { l.accounts[id] = held })
	_, o := c.administer("creating an account", http.MethodPost, "/moderation/accounts",
		map[string]string{"id": id, "name": id, "tier": "load"}, 201)
	if !c.reached(held, present, o) {
		return
	}
	_, o = c.sending(held, changed, "changing an account", http.MethodPatch, "/moderation/accounts/"+id,
		map[string]string{"name": "Another name"}, 200)
	if !c.reached(held, changed, o) || c.n%2 == 0 {
		return
	}
	_, o = c.sending(held, deleted, "deleting an account", http.MethodDelete, "/moderation/accounts/"+id, struct{}{},
		204)
	c.reached(held, deleted, o)
}

func (c *client) sending(
	held *heldAccount, stage int, what, method, path string, body any, want int,
) ([]byte, outcome) {
	c.world.ledger.with(func() { held.Sent = stage })
	return c.administer(what, method, path, body, want)
}

// reached notes whether an account has reached a stage.
func (c *client) reached(held *heldAccount, stage int, o outcome) bool {
	c.world.ledger.with(func() {
		if o == counted {
			held.Acked = stage
		}
		if o == unsent {
			held.Sent = held.Acked
		}
	})
	return o == counted
}
