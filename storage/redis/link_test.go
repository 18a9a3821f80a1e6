// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/storage"
	"github.com/caddy-moderation/caddy-moderation/storage/redis/redistest"
)

// TestBounded guards against a call that waits longer than its time because the client does.
func TestBounded(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(l *link){
		"a connection is being made":  func(l *link) { l.dialing.Add(1) },
		"many commands are under way": func(l *link) { l.unanswered.Add(crowd) },
		"commands were abandoned":     func(l *link) { l.abandon() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLink(Options{Timeout: time.Millisecond})
			prepare(l)
			ctx, cancel := l.begin(background)
			defer cancel()
			blocked := make(chan struct{})
			defer close(blocked)
			_, err := bounded(ctx, l, func() int { <-blocked; return 1 }, nil)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got the error %v, want %v", err, context.DeadlineExceeded)
			}
		})
	}
}

// TestErrors says what becomes of the answers of a server that does not do what it is asked, and that they tell no
// names of records.
func TestErrors(t *testing.T) {
	t.Parallel()
	c, err := openTest(t, standalone(t)).link.connected()
	must(t, err)
	for answer, want := range map[string]string{
		"OOM command not allowed when used memory > 'maxmemory'.": "no memory left",
		"READONLY You can't write against a read only replica.":   "read-only replica",
		"LOADING Redis is loading the dataset in memory":          "loading",
		"NOREPLICAS Not enough good replicas to write.":           "too few replicas",
		"CLUSTERDOWN The cluster is down":                         "cluster is down",
		"MISCONF Redis is configured to save RDB snapshots":       "cannot write to its disk",
		"NOPERM No permissions to access a key":                   "has not the permissions",
		"BUSY Redis is busy running a script":                     "busy with a script",
		"TRYAGAIN Multiple keys request during rehashing of slot": "moving the records",
		"SOMETHING mod:key:1234":                                  "refused a command (SOMETHING)",
		"ERR user_script:1: mod:key:1234":                         "refused a command",
		"ERR The user executing the script can't run this":        "has not the permissions",
	} {
		answered := c.Do(background, c.B().Eval().Script("return redis.error_reply(ARGV[1])").Numkeys(0).Arg(answer).Build())
		err := mapError(answered.Error())
		if !errors.Is(err, storage.ErrUnavailable) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got the error %v, want one with %q", answer, err, want)
		}
		if strings.Contains(err.Error(), "1234") {
			t.Errorf("the error tells the name of a record: %v", err)
		}
	}
}

// TestCallersLeave ends the context of a caller while the server does not answer: it gets the error of its context, and
// what it was about to change is decided nevertheless.
func TestCallersLeave(t *testing.T) {
	t.Parallel()
	proxy := redistest.RunProxy(t, redistest.Run(t, redistest.Options{}).Addr())
	s := openTest(t, Options{Addresses: []string{proxy.Addr()}})
	proxy.Hang()
	ctx, cancel := context.WithCancel(background)
	left := make(chan error, 1)
	go func() {
		_, err := s.KeyByHash(ctx, testKey("key_a", "a").Hash)
		left <- err
	}()
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) || errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("KeyByHash of a caller that left: got the error %v, want %v", err, context.Canceled)
	}
	must(t, proxy.Heal())
	well(t, s)
}
