// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package sessions_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/documents"
	"github.com/caddy-moderation/caddy-moderation/sessions"
	"github.com/caddy-moderation/caddy-moderation/storage/storagetest"
)

func open(store documents.Store, now *time.Time) *sessions.Sessions {
	return &sessions.Sessions{Store: store, Now: func() time.Time { return *now }, Random: rand.Reader}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var carol = sessions.Person{User: "carol", Accounts: []string{"acme"}}

// TestLife makes a link, signs in, and signs out; every secret works once and only for as long as it should.
func TestLife(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	store := storagetest.NewMemory()
	s := open(store, &now)
	ctx := t.Context()
	token, until, err := s.Link(ctx, carol, 0)
	must(t, err)
	if !until.Equal(now.Add(sessions.DefaultValid)) {
		t.Errorf("got a link until %s", until)
	}
	if _, err := s.Find(ctx, token); !errors.Is(err, sessions.ErrUnknown) {
		t.Errorf("a link as a session: got %v", err)
	}
	secret, session, err := s.Begin(ctx, token)
	must(t, err)
	if session.User != "carol" || len(session.Accounts) != 1 || session.Operator || session.ID == "" {
		t.Errorf("got %+v", session)
	}
	if _, _, err := s.Begin(ctx, token); !errors.Is(err, sessions.ErrUnknown) {
		t.Errorf("a used link: got %v", err)
	}
	for d, err := range store.ListDocuments(ctx, "sessions", documents.Range{}) {
		must(t, err)
		for _, s := range []string{token, secret} {
			if strings.Contains(d.Key+string(d.Value), s) {
				t.Error("the store has a secret")
			}
		}
	}
	// Another node.
	found, err := open(store, &now).Find(ctx, secret)
	must(t, err)
	if found.ID != session.ID || !found.Until.Equal(now.Add(sessions.Life)) {
		t.Errorf("got %+v, want %+v", found, session)
	}
	now = now.Add(sessions.Life)
	if _, err := s.Find(ctx, secret); !errors.Is(err, sessions.ErrUnknown) {
		t.Errorf("a session that is over: got %v", err)
	}
	token, _, err = s.Link(ctx, carol, time.Hour)
	must(t, err)
	now = now.Add(time.Hour)
	if _, _, err := s.Begin(ctx, token); !errors.Is(err, sessions.ErrUnknown) {
		t.Errorf("a link that is over: got %v", err)
	}
	if n, err := s.Sweep(ctx); n != 2 || err != nil {
		t.Errorf("got %d, %v swept, want 2", n, err)
	}
	for _, secret := range []string{"", "x", strings.Repeat("A", 43), strings.Repeat("A", 100_000), "../l/x"} {
		if _, err := s.Find(ctx, secret); !errors.Is(err, sessions.ErrUnknown) {
			t.Errorf("%.20q: got %v", secret, err)
		}
		must(t, s.End(ctx, secret))
	}
}

// TestOneLinkOneSession guards against a link that two use at the same time.
func TestOneLinkOneSession(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	store := storagetest.NewMemory()
	token, _, err := open(store, &now).Link(t.Context(), carol, 0)
	must(t, err)
	var began atomic.Int64
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			_, _, err := open(store, &now).Begin(context.Background(), token)
			if err == nil {
				began.Add(1)
			} else if !errors.Is(err, sessions.ErrUnknown) {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if began.Load() != 1 {
		t.Errorf("got %d sessions, want 1", began.Load())
	}
}

// TestEnd guards against sessions that go on after they were ended.
func TestEnd(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	s := open(storagetest.NewMemory(), &now)
	begin := func(p sessions.Person) (string, sessions.Session) {
		t.Helper()
		token, _, err := s.Link(t.Context(), p, 0)
		must(t, err)
		secret, session, err := s.Begin(t.Context(), token)
		must(t, err)
		return secret, session
	}
	first, _ := begin(carol)
	second, named := begin(carol)
	third, _ := begin(sessions.Person{User: "bob", Operator: true})
	link, _, err := s.Link(t.Context(), carol, 0)
	must(t, err)
	must(t, s.End(t.Context(), first))
	if n, err := s.EndAll(t.Context(), "", named.ID); n != 1 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
	for _, secret := range []string{first, second} {
		if _, err := s.Find(t.Context(), secret); !errors.Is(err, sessions.ErrUnknown) {
			t.Errorf("got %v", err)
		}
	}
	if n, err := s.EndAll(t.Context(), "carol", ""); n != 1 || err != nil {
		t.Errorf("her link: got %d, %v", n, err)
	}
	if _, _, err := s.Begin(t.Context(), link); !errors.Is(err, sessions.ErrUnknown) {
		t.Errorf("a link that was taken back: got %v", err)
	}
	if n, err := s.EndAll(t.Context(), "", ""); n != 0 || err != nil {
		t.Errorf("nobody: got %d, %v", n, err)
	}
	_, err = s.Find(t.Context(), third)
	must(t, err)
	left := 0
	for _, err := range s.All(t.Context()) {
		must(t, err)
		left++
	}
	if left != 1 {
		t.Errorf("got %d sessions, want 1", left)
	}
}

// between is a store on which something happens before the first change.
type between struct {
	documents.Store
	once sync.Once
	do   func()
}

func (s *between) ChangeDocuments(ctx context.Context, collection string, changes ...documents.Change) error {
	s.once.Do(s.do)
	return s.Store.ChangeDocuments(ctx, collection, changes...)
}

// TestEndWhileALinkIsUsed guards against a person who is signed out, or whose account is deleted, and who has a session
// afterwards because a link was used at the same time.
func TestEndWhileALinkIsUsed(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	for name, end := range map[string]func(*sessions.Sessions) (int, error){
		"signed out": func(s *sessions.Sessions) (int, error) { return s.EndAll(t.Context(), "carol", "") },
		"account":    func(s *sessions.Sessions) (int, error) { return s.EndMemberships(t.Context(), "acme") },
	} {
		store := storagetest.NewMemory()
		s := open(store, &now)
		token, _, err := s.Link(t.Context(), carol, 0)
		must(t, err)
		secret := ""
		racing := &between{Store: store, do: func() {
			var err error
			if secret, _, err = s.Begin(t.Context(), token); err != nil {
				t.Error(err)
			}
		}}
		if n, err := end(open(racing, &now)); n != 1 || err != nil {
			t.Errorf("%s: got %d, %v, want 1", name, n, err)
		}
		if _, err := s.Find(t.Context(), secret); !errors.Is(err, sessions.ErrUnknown) {
			t.Errorf("%s: a session of a link that was used meanwhile: got %v", name, err)
		}
	}
}

// TestEndMemberships guards against members of a deleted account who are members of the next one with its id, and
// against other roles that end with it.
func TestEndMemberships(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	s := open(storagetest.NewMemory(), &now)
	most := sessions.Person{User: strings.Repeat("x", 200), Accounts: []string{"acme"}}
	for n := range 99 {
		most.Accounts = append(most.Accounts, fmt.Sprintf("%064d", n))
	}
	for name, test := range map[string]struct {
		person sessions.Person
		want   string // what is left
	}{
		"one account":  {carol, ""},
		"two accounts": {sessions.Person{User: "c", Accounts: []string{"small", "acme"}}, "[small] false false"},
		"another":      {sessions.Person{User: "c", Accounts: []string{"small"}}, "[small] false false"},
		"an operator":  {sessions.Person{User: "c", Operator: true, Accounts: []string{"acme"}}, "[] true false"},
		"a reviewer":   {sessions.Person{User: "c", Reviewer: true, Accounts: []string{"acme"}}, "[] false true"},
		"the longest":  {most, fmt.Sprint(most.Accounts[1:], " false false")},
	} {
		var links, secrets []string
		for range 100 {
			used, _, err := s.Link(t.Context(), test.person, 0)
			must(t, err)
			secret, _, err := s.Begin(t.Context(), used)
			must(t, err)
			link, _, err := s.Link(t.Context(), test.person, 0)
			must(t, err)
			links, secrets = append(links, link), append(secrets, secret)
		}
		want := 200
		if name == "another" {
			want = 0
		}
		if n, err := s.EndMemberships(t.Context(), "acme"); n != want || err != nil {
			t.Errorf("%s: got %d, %v, want %d", name, n, err, want)
		}
		for i := range links {
			for kind, read := range map[string]func() (sessions.Session, error){
				"session": func() (sessions.Session, error) { return s.Find(t.Context(), secrets[i]) },
				"link": func() (sessions.Session, error) {
					_, session, err := s.Begin(t.Context(), links[i])
					return session, err
				},
			} {
				got, err := read()
				left := fmt.Sprint(got.Accounts, " ", got.Operator, " ", got.Reviewer)
				ended := errors.Is(err, sessions.ErrUnknown)
				if ended != (test.want == "") || !ended && left != test.want {
					t.Fatalf("%s: the %s: got %s, %v, want %q", name, kind, left, err, test.want)
				}
			}
		}
	}
}

// TestRules guards against persons without a name or a role, and links that last for ever.
func TestRules(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := open(storagetest.NewMemory(), &now)
	for name, p := range map[string]sessions.Person{
		"nobody": {Operator: true}, "no role": {User: "carol"}, "a line feed": {User: "a\nb", Operator: true},
		"too long": {User: strings.Repeat("x", 201), Operator: true}, "no text": {User: "\xff", Operator: true},
		"many": {User: "carol", Accounts: make([]string, 101)},
	} {
		if _, _, err := s.Link(t.Context(), p, 0); !errors.Is(err, sessions.ErrInvalid) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for _, valid := range []time.Duration{-1, sessions.MaxValid + 1} {
		if _, _, err := s.Link(t.Context(), carol, valid); !errors.Is(err, sessions.ErrInvalid) {
			t.Errorf("%s: got %v", valid, err)
		}
	}
}
