// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// begin starts the server and its clients, and lets them work for a while.
func (w *world) begin(ctx context.Context, m mix) error {
	if err := w.start(ctx); err != nil {
		return err
	}
	if err := w.work(ctx, m); err != nil {
		return err
	}
	pause(ctx, w.between(300*time.Millisecond, 900*time.Millisecond))
	return nil
}

// conclude stops the clients, kills the server, starts it again and compares what it has stored.
func (w *world) conclude(ctx context.Context) error {
	w.rest()
	w.noteExcused()
	w.kill(true)
	return w.compare(ctx)
}

// killServer kills the server twice while all clients work.
func killServer(ctx context.Context, w *world, _ *rig) error {
	for range 2 {
		if err := w.begin(ctx, everybody); err != nil {
			return err
		}
		w.kill(w.random.IntN(2) == 0)
		w.rest()
		if err := w.compare(ctx); err != nil {
			return err
		}
		w.kill(true)
	}
	return nil
}

// killStore kills the process of the store, which the server must start again.
func killStore(ctx context.Context, w *world, _ *rig) error {
	if err := w.begin(ctx, everybody); err != nil {
		return err
	}
	for range 3 {
		child := w.child()
		if child == 0 {
			return errSkip("the server has no process of its own for the store")
		}
		_ = unix.Kill(child, unix.SIGKILL)
		if !w.recovered(ctx, "the store's process was killed") {
			break
		}
	}
	return w.conclude(ctx)
}

// freezeStore stops the process of the store for a while (SIGSTOP).
func freezeStore(ctx context.Context, w *world, _ *rig) error {
	if err := w.begin(ctx, everybody); err != nil {
		return err
	}
	child := w.child()
	if child == 0 {
		return errSkip("the server has no process of its own for the store")
	}
	_ = unix.Kill(child, unix.SIGSTOP)
	pause(ctx, w.between(500*time.Millisecond, 4*time.Second))
	_ = unix.Kill(child, unix.SIGCONT) // the server may have abandoned it meanwhile
	w.recovered(ctx, "the store's process stood still")
	return w.conclude(ctx)
}

// killStart kills the server while it starts on what another kill has left.
func killStart(ctx context.Context, w *world, _ *rig) error {
	if err := w.begin(ctx, writers); err != nil {
		return err
	}
	w.kill(true)
	w.rest()
	for range 4 {
		if err := w.launch(ctx); err != nil {
			return err
		}
		pause(ctx, w.between(0, 400*time.Millisecond))
		w.kill(true)
	}
	return w.compare(ctx)
}

// killBackup takes a backup and kills the server while it takes a second one. The first is compared, the second must
// be absent or complete.
func killBackup(ctx context.Context, w *world, _ *rig) error {
	if err := w.begin(ctx, writers); err != nil {
		return err
	}
	file := filepath.Join(w.folder, "whole.backup")
	before := w.ledger.clone()
	if _, err := w.command(ctx, "backup", file); err != nil {
		return err
	}
	after := w.ledger.clone()
	second := filepath.Join(w.folder, "second.backup")
	ended := make(chan error, 1)
	go func() {
		_, err := w.command(ctx, "backup", second)
		ended <- err
	}()
	pause(ctx, w.between(0, 300*time.Millisecond))
	w.kill(true)
	failed := <-ended
	w.rest()
	if _, err := os.Stat(second); failed != nil && err == nil {
		w.violate("a backup that failed is there: %v", failed)
	}
	if err := w.compare(ctx); err != nil {
		return err
	}
	w.kill(true)
	return w.restored(ctx, file, before, after)
}

// restored restores a backup into a directory of its own and compares what is in it.
func (w *world) restored(ctx context.Context, file string, before, after *ledger) error {
	dir := filepath.Join(w.folder, "restored")
	if _, err := w.command(ctx, "restore", file, "--dir", dir); err != nil {
		w.violate("a backup that was said to be done cannot be restored: %v", err)
		return nil
	}
	defer func(dir string) { w.dir = dir }(w.dir)
	w.dir = dir
	return w.compareWith(ctx, before, after)
}

// killReload replaces the configuration some times, and kills the server while it is replaced once more.
func killReload(ctx context.Context, w *world, _ *rig) error {
	if err := w.begin(ctx, everybody); err != nil {
		return err
	}
	child := w.child()
	w.reloading.Store(true)
	for range 3 {
		if err := w.configure(w.dir); err != nil {
			return err
		}
	}
	if now := w.child(); now != child {
		w.violate("a reload that keeps the directory has the store's process started anew")
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = w.configure(w.dir) // fails: the server is killed
	}()
	pause(ctx, w.between(0, 60*time.Millisecond))
	w.kill(true)
	<-ended
	w.rest()
	return w.compare(ctx)
}

// killUpgrade kills the server while it upgrades the database of an older version.
func killUpgrade(ctx context.Context, w *world, r *rig) error {
	if r.old == "" {
		return errSkip("-old names no binary of an older version")
	}
	if err := w.startWith(ctx, r.old, w.other); err != nil {
		return err
	}
	if err := w.work(ctx, writers); err != nil {
		return err
	}
	pause(ctx, w.between(time.Second, 3*time.Second))
	// The older version does not wait for the counts of the guard.
	w.rest()
	pause(ctx, 200*time.Millisecond)
	if w.random.IntN(2) == 0 {
		w.kill(true)
	} else if err := w.stop(); err != nil {
		return err
	}
	for range 4 {
		if err := w.launch(ctx); err != nil {
			return err
		}
		pause(ctx, w.between(0, 600*time.Millisecond))
		w.kill(true)
	}
	if err := w.compare(ctx); err != nil {
		return err
	}
	w.kill(true)
	// The older version must refuse what the newer one has written, and must not change it.
	if err := w.startWith(ctx, r.old, w.other); err == nil {
		w.violate("the older version starts on what the newer one has written")
	}
	w.kill(true)
	return w.compare(ctx)
}

// moveStore moves the store to another directory and back, while declared accounts use it. Everything that was
// counted is in one of the two, and nothing is refused.
func moveStore(ctx context.Context, w *world, _ *rig) error {
	if err := w.begin(ctx, mix{api: 3, guard: 2, enforced: 1, feedback: 2, pause: time.Millisecond}); err != nil {
		return err
	}
	first, second := w.dir, filepath.Join(w.folder, "second")
	w.reloading.Store(true)
	for i := range 4 {
		if err := w.configure([]string{second, first}[i%2]); err != nil {
			return err
		}
		pause(ctx, w.between(50*time.Millisecond, 300*time.Millisecond))
	}
	w.rest()
	if n := w.refused.Load(); n > 0 {
		w.violate("%d requests were answered 503 while the directory was changed", n)
	}
	here, err := w.fetch(ctx)
	if err != nil {
		return err
	}
	if err := w.stop(); err != nil {
		w.violate("%v", err)
	}
	w.dir = second
	if err := w.start(ctx); err != nil {
		return err
	}
	there, err := w.fetch(ctx)
	if err != nil {
		return err
	}
	here.add(there)
	all := w.ledger.clone()
	for _, d := range differences(all, all, here) {
		w.violate("%s", d)
	}
	return nil
}

// add adds the contents of another store.
func (s *stored) add(o *stored) {
	s.feedback = append(s.feedback, o.feedback...)
	for id, more := range o.usage {
		u := s.usage[id]
		u.Period.Requests += more.Period.Requests
		if u.Minute.Reset.Equal(more.Minute.Reset) {
			u.Minute.Requests += more.Minute.Requests
		} else {
			u.Minute = more.Minute
		}
		for i := range u.Days {
			u.Days[i].Requests += more.Days[i].Requests
		}
		if u.Flagged == nil {
			u.Flagged = map[string]int64{}
		}
		for f, n := range more.Flagged {
			u.Flagged[f] += n
		}
		u.Keys = append(u.Keys, more.Keys...) // only their sum is compared
		s.usage[id] = u
	}
	for what, reason := range o.errs {
		s.errs[what] = reason
	}
}

// recreated deletes an account that is in use and creates it again: it must begin with nothing.
func recreated(ctx context.Context, w *world, _ *rig) error {
	if err := w.start(ctx); err != nil {
		return err
	}
	c := &client{world: w}
	admin := func(method, path, body string) (int, []byte, error) {
		return w.do(method, "http://"+w.admin+path, "", "application/json", []byte(body))
	}
	for range 20 {
		if status, answer, err := admin(http.MethodPost, "/moderation/accounts",
			`{"id":"reborn","tier":"load"}`); err != nil || status != 201 {
			return errors.New("the account is not made: " + brief(status, answer, err))
		}
		status, answer, err := admin(http.MethodPost, "/moderation/keys", `{"account":"reborn"}`)
		if err != nil || status != 201 {
			return errors.New("the key is not made: " + brief(status, answer, err))
		}
		_, secret := c.made(answer)
		using, stop := context.WithCancel(ctx)
		ended := make(chan struct{})
		const users = 4
		for range users {
			go func() {
				defer func() { ended <- struct{}{} }()
				user := &http.Client{Timeout: timeout}
				for using.Err() == nil {
					_, _, _ = send(user, http.MethodPost, "http://"+w.site+"/v1/moderate/text", secret,
						"application/json", []byte(`{"content":"hello"}`))
				}
			}()
		}
		pause(ctx, w.between(10*time.Millisecond, 60*time.Millisecond))
		status, answer, err = admin(http.MethodDelete, "/moderation/accounts/reborn", "")
		if err != nil || status != 204 {
			w.violate("the account is not deleted: %s", brief(status, answer, err))
		}
		status, answer, err = admin(http.MethodPost, "/moderation/accounts", `{"id":"reborn","tier":"load"}`)
		if err != nil || status != 201 {
			w.violate("the account is not made again: %s", brief(status, answer, err))
		}
		stop()
		for range users {
			<-ended
		}
		pause(ctx, 20*time.Millisecond)
		var u usage
		status, answer, err = admin(http.MethodGet, "/moderation/usage/reborn", "")
		if err == nil && status == 200 {
			err = json.Unmarshal(answer, &u)
		}
		if err != nil || status != 200 {
			w.violate("the usage is not told: %s", brief(status, answer, err))
		}
		if u.Period.Requests+u.Minute.Requests > 0 {
			w.violate("an account that was deleted and made again begins with counts of the old one "+
				"(%d in the period, %d in the minute)", u.Period.Requests, u.Minute.Requests)
		}
		if status, answer, err := admin(http.MethodDelete, "/moderation/accounts/reborn", ""); err != nil ||
			status != 204 {
			return errors.New("the account is not deleted: " + brief(status, answer, err))
		}
	}
	return nil
}
