// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage"
	"github.com/caddy-moderation/caddy-moderation/storage/contents"
	"github.com/caddy-moderation/caddy-moderation/storage/redis"
	"github.com/caddy-moderation/caddy-moderation/storage/redis/redistest"
)

// interrupt begins a migration, and breaks it off when it is in a phase.
func interrupt(t *testing.T, dir, target string, phase contents.Phase) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/moderation/migrate",
		strings.NewReader(`{"from":{"module":"badger","dir":"`+dir+`"},"to":{"module":"redis","addresses":["`+target+`"]}}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		if strings.Contains(lines.Text(), `"phase":"`+string(phase)+`"`) {
			return
		}
		if strings.Contains(lines.Text(), `"error"`) {
			t.Fatalf("the migration: got %s, want the phase %s", lines.Text(), phase)
		}
	}
	t.Fatalf("the migration ended before the phase %s", phase)
}

// TestMigrateIsInterrupted: whenever the command goes, the service goes on with its store, and the migration can be
// repeated.
func TestMigrateIsInterrupted(t *testing.T) {
	dir := t.TempDir()
	server := redistest.Run(t, redistest.Options{})
	proxy := redistest.RunProxy(t, server.Addr())
	s := newSite(t, "badger "+dir)
	key := keyOf(t, "acme")
	goesOn := func(calls int64) {
		t.Helper()
		eventually(t, "the migration has failed", func() bool {
			return strings.Contains(must(t, "migrate", "--status"), "failed")
		})
		if status, _, body, err := s.post(key); status != http.StatusOK {
			t.Errorf("afterwards: got %d %s (%v), want 200", status, body, err)
		}
		usage, err := services(t).Gate.Usage(t.Context(), "acme")
		if err != nil || usage.Counts.Period != calls {
			t.Errorf("afterwards: got %+v (%v), want %d requests", usage.Counts, err, calls)
		}
		_, err = redis.Open(redis.Options{Addresses: []string{server.Addr()}})
		if !errors.Is(err, contents.ErrUnfinished) {
			t.Errorf("the target: got the error %v, want %v", err, contents.ErrUnfinished)
		}
	}
	// A call under way keeps the read-only phase from ending.
	who, err := services(t).Gate.Authenticate(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	decision, err := services(t).Gate.Admit(t.Context(), who, 1)
	if err != nil {
		t.Fatal(err)
	}
	interrupt(t, dir, proxy.Addr(), contents.ReadOnly)
	goesOn(2)
	if err := services(t).Gate.Settle(t.Context(), decision, quota.Outcome{Refund: true}); err != nil {
		t.Errorf("the call under way: got the error %v, want none", err)
	}
	// A target that hangs, and then is gone.
	interrupted := make(chan struct{})
	go func() {
		defer close(interrupted)
		proxy.Bandwidth(3000)
		interrupt(t, dir, proxy.Addr(), contents.Copying)
		proxy.Hang()
	}()
	<-interrupted
	proxy.Cut()
	goesOn(2)
	if err := proxy.Heal(); err != nil {
		t.Fatal(err)
	}
	must(t, "migrate", "badger", dir, "redis", proxy.Addr())
	must(t, "migrate", "--undo")
}

// TestMigrateGivesLateCallsBack: a call that ends after the patience is refused, and given back if the migration is
// undone.
func TestMigrateGivesLateCallsBack(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	newSite(t, "badger "+dir)
	key := keyOf(t, "acme")
	gate := services(t).Gate
	who, err := gate.Authenticate(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	decision, err := gate.Admit(t.Context(), who, 3)
	if err != nil {
		t.Fatal(err)
	}
	must(t, "migrate", "badger", dir, "badger", other)
	if err := gate.Settle(t.Context(), decision, quota.Outcome{Flagged: []string{"hate"}}); !errors.Is(err, storage.ErrReadOnly) {
		t.Errorf("a late call: got the error %v, want %v", err, storage.ErrReadOnly)
	}
	must(t, "migrate", "--undo")
	usage, err := gate.Usage(t.Context(), "acme")
	if err != nil || usage.Counts.Period != 0 || len(usage.Flagged) != 0 {
		t.Errorf("after undoing: got %+v, flagged %v (%v), want nothing: the call was refused", usage.Counts, usage.Flagged, err)
	}
}

// TestRestoreElsewhere restores backups into stores of another kind, and into what a configuration names.
func TestRestoreElsewhere(t *testing.T) {
	server := redistest.Run(t, redistest.Options{}).Addr()
	t.Run("from badger", func(t *testing.T) {
		newSite(t, "badger "+t.TempDir())
		keyOf(t, "acme")
		file := filepath.Join(t.TempDir(), "backup")
		must(t, "backup", file)
		must(t, "restore", file, "--redis", server, "--prefix", "one")
		if _, stderr, err := run(t, "restore", file, "--redis", server, "--prefix", "one"); err == nil ||
			!strings.Contains(stderr, "not empty") {
			t.Errorf("a second restore: got the error %v (%s), want that it is not empty", err, stderr)
		}
	})
	t.Run("from redis", func(t *testing.T) {
		s := newSite(t, "redis "+server+" {\n\t\t\tprefix one\n\t\t}")
		if keys := must(t, "key", "list"); !strings.Contains(keys, "acme") {
			t.Errorf("what was restored: got the keys %s, want that of acme", keys)
		}
		file, dir := filepath.Join(t.TempDir(), "backup"), filepath.Join(t.TempDir(), "new", "data")
		must(t, "backup", file)
		must(t, "restore", file, "--dir", dir)
		if accounts, keys := accountsIn(t, dir); accounts != 1 || keys != 1 {
			t.Errorf("in badger: got %d accounts and %d keys, want one of each", accounts, keys)
		}
		must(t, "restore", file, "--config", s.file("redis "+server+" {\n\t\t\tprefix two\n\t\t}"))
		must(t, "restore", file, "--config", s.file("badger "+filepath.Join(t.TempDir(), "x")))
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		part := filepath.Join(t.TempDir(), "part")
		if err := os.WriteFile(part, text[:len(text)-1], 0o600); err != nil {
			t.Fatal(err)
		}
		if _, stderr, err := run(t, "restore", part, "--redis", server, "--prefix", "three"); err == nil ||
			!strings.Contains(stderr, "not a whole backup") {
			t.Errorf("a part of a backup: got the error %v (%s), want that it is not whole", err, stderr)
		}
		must(t, "restore", file, "--redis", server, "--prefix", "three")
	})
}
