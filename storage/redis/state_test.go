// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/feedback"
	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage"
	"github.com/caddy-moderation/caddy-moderation/storage/contents"
	"github.com/caddy-moderation/caddy-moderation/storage/redis/redistest"
)

// tryChanges makes calls that a read-only store refuses.
func tryChanges(s *Store) map[string]error {
	ctx := context.Background()
	_, _, take := s.Take(ctx, chargeOf("a", 1, quota.Limits{}))
	_, update := s.UpdateAccount(ctx, "a", func(*quota.Account) error { return nil })
	return map[string]error{
		"Take": take, "UpdateAccount": update, "MarkSeeded": s.MarkSeeded(ctx),
		"CreateAccount": s.CreateAccount(ctx, quota.Account{ID: "new"}), "DeleteAccount": s.DeleteAccount(ctx, "a"),
	}
}

// TestFreezeHoldsAllNodes: when Freeze returns, no node changes anything, and reading goes on.
func TestFreezeHoldsAllNodes(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	o := patient(standalone(t))
	o.Timeout, o.ClientClock = 2*time.Second, true
	one, other := openTest(t, o), openTest(t, o)
	if err := one.CreateAccount(ctx, quota.Account{ID: "a"}); err != nil {
		t.Fatal(err)
	}
	if err := one.Freeze(ctx, "everything is moved to x"); err != nil {
		t.Fatal(err)
	}
	if err := other.Freeze(ctx, "y"); err == nil {
		t.Error("two nodes freeze at once: got no error")
	}
	for name, err := range tryChanges(other) {
		if !errors.Is(err, storage.ErrReadOnly) || !strings.Contains(err.Error(), "moved to x") {
			t.Errorf("%s on another node: got the error %v, want %v and why", name, err, storage.ErrReadOnly)
		}
	}
	if _, err := other.Account(ctx, "a"); err != nil {
		t.Errorf("reading on another node: got the error %v, want none", err)
	}
	late := openTest(t, o)
	if err := late.Health(); !errors.Is(err, storage.ErrReadOnly) {
		t.Errorf("a node that starts meanwhile: got the health %v, want %v", err, storage.ErrReadOnly)
	}
	if err := one.Thaw(ctx); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the other node goes on", func() bool { return other.Health() == nil && late.Health() == nil })
	for name, err := range tryChanges(other) {
		if err != nil && !errors.Is(err, quota.ErrNotFound) {
			t.Errorf("%s after it: got the error %v, want none", name, err)
		}
	}
}

// TestHoldEndsWithItsNode: a migration whose node died does not stop the others for ever.
func TestHoldEndsWithItsNode(t *testing.T) {
	t.Parallel()
	server := redistest.Run(t, redistest.Options{})
	o := patient(Options{Addresses: []string{server.Addr()}})
	s := openTest(t, o)
	if _, err := server.Do("SET", o.Prefix+":hold", "somebody moves everything", "PX", "2000"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the hold is seen", func() bool { return errors.Is(s.Health(), storage.ErrReadOnly) })
	eventually(t, "the hold is over", func() bool { return s.Health() == nil })
}

// TestLostHoldIsNoticed: if others may have gone on, the migration does not finish.
func TestLostHoldIsNoticed(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	server := redistest.Run(t, redistest.Options{})
	o := patient(Options{Addresses: []string{server.Addr()}})
	o.Timeout = time.Second
	s := openTest(t, o)
	if err := s.Freeze(ctx, "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Do("DEL", o.Prefix+":hold"); err != nil {
		t.Fatal(err)
	}
	if err := s.MarkMoved(ctx, "to x"); !errors.Is(err, errHoldLost) {
		t.Errorf("after the hold was lost: got the error %v, want %v", err, errHoldLost)
	}
	if err := s.Thaw(ctx); err != nil {
		t.Error(err)
	}
}

// TestFreezeNeedsAllNodes: a node that is cut off would count what nobody copies.
func TestFreezeNeedsAllNodes(t *testing.T) {
	t.Parallel()
	server := redistest.Run(t, redistest.Options{})
	o := patient(Options{Addresses: []string{server.Addr()}})
	s := openTest(t, o)
	silent := time.Now().Add(-20 * time.Second).UnixMilli()
	if _, err := server.Do("ZADD", o.Prefix+":nodes", number(silent), "silent"); err != nil {
		t.Fatal(err)
	}
	if err := s.Freeze(t.Context(), "x"); err == nil || !strings.Contains(err.Error(), "cut off") {
		t.Errorf("freezing with a silent node: got the error %v, want one that says so", err)
	}
}

func TestMovedIsRefused(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	o := patient(standalone(t))
	s := openTest(t, o)
	if err := s.MarkMoved(ctx, "to badger /srv/x"); err != nil {
		t.Fatal(err)
	}
	if err := s.Health(); !errors.Is(err, storage.ErrReadOnly) {
		t.Errorf("a store that was moved: got the health %v, want %v", err, storage.ErrReadOnly)
	}
	if _, err := Open(o); !errors.Is(err, contents.ErrMoved) || !strings.Contains(err.Error(), "/srv/x") {
		t.Errorf("opening what was moved: got the error %v, want one that says where to", err)
	}
	if _, err := NewTarget(ctx, o); !errors.Is(err, contents.ErrNotEmpty) {
		t.Errorf("filling what was moved: got the error %v, want %v", err, contents.ErrNotEmpty)
	}
	if err := Reopen(ctx, o); err != nil {
		t.Fatal(err)
	}
	openTest(t, o)
	if err := Reopen(ctx, o); err == nil {
		t.Error("taking back what was not done: got no error")
	}
}

func TestTargetMustBeEmpty(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	server := redistest.Run(t, redistest.Options{})
	o := Options{Addresses: []string{server.Addr()}}
	used := patient(o)
	openTest(t, used)
	eventually(t, "the node says that it lives", func() bool {
		n, err := server.Int("ZCARD", used.Prefix+":nodes")
		return err == nil && n > 0
	})
	for name, test := range map[string]struct {
		o    Options
		name string
	}{
		"a server uses it": {used, ""},
		"a count is there": {patient(o), "{a:x}:counts"},
	} {
		if test.name != "" {
			if _, err := server.Do("HSET", test.o.Prefix+":"+test.name, "d1", "1"); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := NewTarget(ctx, test.o); !errors.Is(err, contents.ErrNotEmpty) {
			t.Errorf("%s: got the error %v, want %v", name, err, contents.ErrNotEmpty)
		}
	}
	// A store that was opened once and keeps nothing may be filled, and so may what is unfinished with all it has.
	idle := patient(o)
	s := openTest(t, idle)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Do("DEL", idle.Prefix+":nodes"); err != nil {
		t.Fatal(err)
	}
	first, err := NewTarget(ctx, idle)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	owner := contents.Item{Owner: &contents.Owner{ID: "left", Days: []contents.Count{{At: 1, Requests: 1}}}}
	if err := first.Put(ctx, func(yield func(contents.Item, error) bool) { yield(owner, nil) }); err != nil {
		t.Fatal(err)
	}
	again, err := NewTarget(ctx, idle)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	for item, err := range again.Contents(ctx, nil) {
		t.Errorf("a place that is filled again: got the item %+v (%v), want none", item, err)
	}
	if err := first.Finish(ctx); err == nil {
		t.Error("finishing what somebody else fills by now: got no error")
	}
	if err := again.Finish(ctx); err != nil {
		t.Error(err)
	}
}

// lenient is a writer that takes a backup without damaged records.
type lenient struct {
	bytes.Buffer
	leftOut []string
}

func (l *lenient) LeaveOut(what string) { l.leftOut = append(l.leftOut, what) }

func TestBackupLeavesOutDamaged(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	server := redistest.Run(t, redistest.Options{})
	o := patient(Options{Addresses: []string{server.Addr()}})
	s := openTest(t, o)
	for _, id := range []string{"a", "b"} {
		if err := s.CreateAccount(ctx, quota.Account{ID: id}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := server.Do("SETRANGE", o.Prefix+":{a:a}:account", "30", "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Do("HSET", o.Prefix+":{a:b}:counts", "d7", "many"); err != nil {
		t.Fatal(err)
	}
	if err := s.Backup(ctx, new(bytes.Buffer)); !errors.Is(err, storage.ErrDamaged) {
		t.Errorf("a backup of damaged records: got the error %v, want %v", err, storage.ErrDamaged)
	}
	var to lenient
	if err := s.Backup(ctx, &to); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(to.leftOut, ", "); !strings.Contains(got, "account a") || !strings.Contains(got, "account b") {
		t.Errorf("left out: got %q, want account a, and the counts of account b", got)
	}
	restored := patient(Options{Addresses: []string{server.Addr()}})
	if err := Restore(ctx, restored, &to.Buffer); err != nil {
		t.Fatal(err)
	}
	if _, err := openTest(t, restored).Account(ctx, "b"); err != nil {
		t.Errorf("the whole account: got the error %v, want none", err)
	}
}

// TestLeastRightsAreEnough backs up and restores as the user that docs/scaling.md describes.
func TestLeastRightsAreEnough(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	text, err := os.ReadFile("../../docs/scaling.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "\nuser moderation on ><password> ")
	rights, _, ended := strings.Cut(rest, "\n```")
	_, more, row := strings.Cut(string(text), "| `caddy moderation backup`, `restore` and `migrate` | `")
	if !found || !ended || !row {
		t.Fatal("docs/scaling.md describes no user")
	}
	more, _, _ = strings.Cut(more, "`")
	rights = strings.Join(strings.Fields(rights+" "+strings.ReplaceAll(more, `\|`, "|")), " ")
	server := redistest.Run(t, redistest.Options{Users: []string{"user moderation on >secret " + rights}})
	o := patient(Options{Addresses: []string{server.Addr()}, Username: "moderation", Password: "secret"})
	o.Prefix, o.Timeout = "mod", 2*time.Second
	s := openTest(t, o)
	if err := s.CreateAccount(ctx, quota.Account{ID: "a"}); err != nil {
		t.Fatal(err)
	}
	_, _, err = s.Take(ctx, chargeOf("declared", 1, quota.Limits{}))
	if err != nil && !errors.Is(err, quota.ErrOtherMinute) {
		t.Fatal(err)
	}
	record := feedback.Record{ID: "1", Time: time.Now(), Account: "a"}
	if err := s.AppendFeedback(ctx, record, feedback.Bound{}); err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := s.Backup(ctx, &file); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Freeze(ctx, "x"), s.MarkMoved(ctx, "to x"), s.UnmarkMoved(ctx), s.Thaw(ctx)); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Do("FLUSHALL"); err != nil {
		t.Fatal(err)
	}
	if err := Restore(ctx, o, &file); err != nil {
		t.Error(err)
	}
}

func TestBackupSaysWhichPermissionIsMissing(t *testing.T) {
	t.Parallel()
	server := redistest.Run(t, redistest.Options{Users: []string{
		"user app on >secret ~* &* +@all -client|pause",
	}})
	o := patient(Options{Addresses: []string{server.Addr()}, Username: "app", Password: "secret"})
	s := openTest(t, o)
	if err := s.Backup(t.Context(), new(bytes.Buffer)); err == nil || !strings.Contains(err.Error(), "+client|pause") {
		t.Errorf("a backup without the permission: got the error %v, want one that names +client|pause", err)
	}
}
