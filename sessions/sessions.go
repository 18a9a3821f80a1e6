// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package sessions lets people sign in with links that work once, and keeps who is signed in.
//
// An operator makes a link for a person, with the roles of that person. Who has the link begins a [Session], whose
// secret the browser keeps. The store keeps only hashes of secrets, so nobody can sign in with what it holds. Several
// nodes with one store know the same sessions.
package sessions

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/caddy-moderation/caddy-moderation/documents"
	"github.com/caddy-moderation/caddy-moderation/sortid"
)

// collection is the collection of all documents:
//
//	l/ hash of a token     a link that was not used yet
//	s/ hash of a secret    a session
const collection = "sessions"

// Errors of [Sessions].
var (
	// ErrUnknown says that there is no such link or session: it was never made, was used, has ended, or is too old.
	ErrUnknown = errors.New("no such link or session")
	// ErrInvalid says that a person breaks a rule. The message names it.
	ErrInvalid = errors.New("invalid")
)

// Limits and durations.
const (
	// Life is for how long a session lasts.
	Life = 12 * time.Hour
	// DefaultValid is for how long a link can be used if nothing else is said, and MaxValid for how long at most.
	DefaultValid = 15 * time.Minute
	MaxValid     = 7 * 24 * time.Hour

	maxUser     = 200
	maxAccounts = 100
	secretBytes = 32
)

// Person is who signs in, with the roles that the person has in the session.
type Person struct {
	// User is the person's name: 1 to 200 bytes of printable characters.
	User string `json:"user"`
	// Operator and Reviewer say whether the person has these roles, and Accounts are the ids of those that the person
	// is a member of. One role at least is required.
	Operator bool     `json:"operator,omitempty"`
	Reviewer bool     `json:"reviewer,omitempty"`
	Accounts []string `json:"accounts,omitempty"`
}

// Validate returns an error that wraps [ErrInvalid] unless the person may sign in. It does not look at the ids of
// accounts.
func (p *Person) Validate() error {
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
	switch {
	case p.User == "" || len(p.User) > maxUser || !utf8.ValidString(p.User) || strings.ContainsFunc(p.User, unprintable):
		return fmt.Errorf("%w: user has 1 to %d bytes of printable characters", ErrInvalid, maxUser)
	case !p.Operator && !p.Reviewer && len(p.Accounts) == 0:
		return fmt.Errorf("%w: the person has no role: operator, reviewer or accounts is required", ErrInvalid)
	case len(p.Accounts) > maxAccounts:
		return fmt.Errorf("%w: accounts has at most %d members", ErrInvalid, maxAccounts)
	}
	return nil
}

// Session says who is signed in.
type Session struct {
	// ID names the session. It is no secret.
	ID string `json:"id"`
	Person
	// Since is when the session began, and Until when it ends, in UTC.
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
}

// Sessions keeps links and sessions. It is safe for concurrent use, by several nodes with one store, too.
type Sessions struct {
	// Store keeps the documents. Required.
	Store documents.Store
	// Now is the clock, and Random makes secrets. Required.
	Now    func() time.Time
	Random io.Reader
}

// secret makes a secret and the key of its document.
func (s *Sessions) secret(kind string) (secret, key string, err error) {
	var random [secretBytes]byte
	if _, err := io.ReadFull(s.Random, random[:]); err != nil {
		return "", "", fmt.Errorf("reading random bytes: %w", err)
	}
	secret = base64.RawURLEncoding.EncodeToString(random[:])
	return secret, keyOf(kind, secret), nil
}

// keyOf returns the key of the document of a secret.
func keyOf(kind, secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return kind + "/" + hex.EncodeToString(sum[:])
}

// plausible reports whether a text has the form of a secret, so that others are not looked for.
func plausible(secret string) bool {
	decoded, err := base64.RawURLEncoding.DecodeString(secret)
	return err == nil && len(decoded) == secretBytes
}

// Link makes a link for a person, which can be used once within a time, at most [MaxValid]. It returns the token in it.
func (s *Sessions) Link(ctx context.Context, p Person, valid time.Duration) (token string, until time.Time, err error) {
	if err := p.Validate(); err != nil {
		return "", until, err
	}
	if valid = cmp.Or(valid, DefaultValid); valid < 0 || valid > MaxValid {
		return "", until, fmt.Errorf("%w: a link is valid for up to %d days", ErrInvalid, MaxValid/(24*time.Hour))
	}
	token, key, err := s.secret("l")
	if err != nil {
		return "", until, err
	}
	until = s.Now().UTC().Add(valid)
	value, err := json.Marshal(Session{Person: p, Until: until})
	if err != nil {
		return "", until, err
	}
	return token, until, s.Store.ChangeDocuments(ctx, collection,
		documents.Change{Key: key, Value: value, If: documents.Absent()})
}

// read returns what a secret stands for. The error is [ErrUnknown] if it stands for nothing now.
func (s *Sessions) read(ctx context.Context, kind, secret string) (found Session, d documents.Document, err error) {
	if !plausible(secret) {
		return found, d, ErrUnknown
	}
	all, err := s.Store.Documents(ctx, collection, keyOf(kind, secret))
	if err != nil {
		return found, d, err
	}
	if d = all[0]; d.Revision == 0 {
		return found, d, ErrUnknown
	}
	if err := json.Unmarshal(d.Value, &found); err != nil {
		return found, d, fmt.Errorf("a session cannot be read: %w", ErrUnknown)
	}
	if !s.Now().Before(found.Until) {
		return found, d, ErrUnknown
	}
	return found, d, nil
}

// Begin begins a session with the token of a link, which cannot be used again. It returns the session's secret. The
// error is [ErrUnknown] if there is no such link.
func (s *Sessions) Begin(ctx context.Context, token string) (secret string, session Session, err error) {
	link, document, err := s.read(ctx, "l", token)
	if err != nil {
		return "", Session{}, err
	}
	secret, key, err := s.secret("s")
	if err != nil {
		return "", Session{}, err
	}
	now := s.Now().UTC()
	session = Session{Person: link.Person, Since: now, Until: now.Add(Life)}
	if session.ID, err = sortid.New("ses_", now, s.Random); err != nil {
		return "", Session{}, err
	}
	value, err := json.Marshal(session)
	if err != nil {
		return "", Session{}, err
	}
	err = s.Store.ChangeDocuments(ctx, collection,
		documents.Change{Key: keyOf("l", token), Delete: true, If: document.Unchanged()},
		documents.Change{Key: key, Value: value, If: documents.Absent()})
	if errors.Is(err, documents.ErrConflict) {
		err = ErrUnknown // somebody else has used it
	}
	return secret, session, err
}

// Find returns the session with a secret. The error is [ErrUnknown] if there is none.
func (s *Sessions) Find(ctx context.Context, secret string) (Session, error) {
	session, _, err := s.read(ctx, "s", secret)
	return session, err
}

// End ends the session with a secret. It is no error if there is none.
func (s *Sessions) End(ctx context.Context, secret string) error {
	if !plausible(secret) {
		return nil
	}
	return s.Store.ChangeDocuments(ctx, collection, documents.Change{Key: keyOf("s", secret), Delete: true})
}

// All yields the sessions that have not ended, in no order.
func (s *Sessions) All(ctx context.Context) iter.Seq2[Session, error] {
	return func(yield func(Session, error) bool) {
		now := s.Now()
		for d, err := range s.Store.ListDocuments(ctx, collection, documents.Prefix("s/")) {
			var session Session
			if err == nil && json.Unmarshal(d.Value, &session) != nil || err == nil && !now.Before(session.Until) {
				continue
			}
			if !yield(session, err) {
				return
			}
		}
	}
}

// EndAll ends the sessions and takes back the links of a user, or the session with an id, and returns how many there
// were. A link that is used at the same time has no session afterwards.
func (s *Sessions) EndAll(ctx context.Context, user, id string) (n int, err error) {
	return s.alter(ctx, func(session *Session) fate {
		return goneIf(user != "" && session.User == user || id != "" && session.ID == id)
	})
}

// EndMemberships takes the role of a member of an account from all sessions and links, and ends those that have no
// other role. It returns how many sessions and links had the role.
func (s *Sessions) EndMemberships(ctx context.Context, account string) (n int, err error) {
	return s.alter(ctx, func(session *Session) fate {
		if !slices.Contains(session.Accounts, account) {
			return stays
		}
		session.Accounts = slices.DeleteFunc(session.Accounts, func(id string) bool { return id == account })
		if !session.Operator && !session.Reviewer && len(session.Accounts) == 0 {
			return gone
		}
		return altered
	})
}

// Sweep removes links and sessions whose time is over, and returns how many there were.
func (s *Sessions) Sweep(ctx context.Context) (n int, err error) {
	now := s.Now()
	return s.alter(ctx, func(session *Session) fate { return goneIf(!now.Before(session.Until)) })
}

// fate is what becomes of a link or a session.
type fate uint8

const (
	stays fate = iota
	altered
	gone
)

func goneIf(condition bool) fate {
	if condition {
		return gone
	}
	return stays
}

// alterTries is how often the links and sessions are gone through, if some of them change meanwhile.
const alterTries = 20

// alterAtOnce is how many links and sessions are changed with one write: one with as many accounts as it may have is
// some 7 kB long.
const alterAtOnce = documents.MaxChangeBytes / (8 << 10)

// alter goes through all links and sessions, keeps or removes each as decide says, and returns how many did not stay.
// What cannot be read is of no use and goes, too. Who uses a link while alter is under way has a session that was not
// there before; so what is written is only what nobody has changed since it was read, and otherwise all are read again.
func (s *Sessions) alter(ctx context.Context, decide func(*Session) fate) (n int, err error) {
	for try := 1; ; try++ {
		done, err := s.alterOnce(ctx, decide)
		n += done
		if !errors.Is(err, documents.ErrConflict) || try == alterTries {
			return n, err
		}
	}
}

func (s *Sessions) alterOnce(ctx context.Context, decide func(*Session) fate) (n int, err error) {
	var changes []documents.Change
	for d, err := range s.Store.ListDocuments(ctx, collection, documents.Range{}) {
		if err != nil {
			return 0, err
		}
		var session Session
		becomes := gone
		if json.Unmarshal(d.Value, &session) == nil {
			becomes = decide(&session)
		}
		change := documents.Change{Key: d.Key, Delete: true, If: d.Unchanged()}
		switch becomes {
		case stays:
			continue
		case altered:
			change.Delete = false
			if change.Value, err = json.Marshal(session); err != nil {
				return 0, err
			}
		case gone:
		}
		changes = append(changes, change)
	}
	conflict := error(nil)
	for part := range slices.Chunk(changes, alterAtOnce) {
		err := s.Store.ChangeDocuments(ctx, collection, part...)
		switch {
		case errors.Is(err, documents.ErrConflict):
			conflict = err
		case err != nil:
			return n, err
		default:
			n += len(part)
		}
	}
	return n, conflict
}
