// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-moderation/caddy-moderation/storage"
	"github.com/caddy-moderation/caddy-moderation/storage/contents"
)

// The states of a store that its identity holds, beside none: it is in use.
const (
	// unfinishedState says that it was filled with a part only.
	unfinishedState = "unfinished"
	// movedState says that everything was moved to another store.
	movedState = "moved"
)

// check returns an error if the store must not be opened.
func (i identity) check() error {
	switch i.State {
	case unfinishedState:
		return &stateError{contents.ErrUnfinished, "a restore or a migration into this prefix did not finish, or was " +
			"undone: repeat it, or delete the names with this prefix"}
	case movedState:
		return &stateError{contents.ErrMoved, "everything was moved " + i.Why + ". What was counted since is not here. " +
			"Load the configuration with the other storage, or, to go on with this state, run: " +
			"caddy moderation migrate --undo redis ADDRESS"}
	}
	return nil
}

// stateError says why a store must not be opened.
type stateError struct {
	is   error
	text string
}

func (e *stateError) Error() string { return e.text }

func (e *stateError) Unwrap() error { return e.is }

// held knows why nothing may be changed.
type held struct{ why atomic.Pointer[error] }

// note notes the state of the store, and the text of a hold, empty without one.
func (h *held) note(i identity, hold string) {
	switch {
	case i.State == movedState:
		hold = "everything was moved " + i.Why
	case i.State != "":
		hold = "it is filled anew"
	}
	if hold == "" {
		h.why.Store(nil)
		return
	}
	err := fmt.Errorf("%w: %s", storage.ErrReadOnly, hold)
	h.why.Store(&err)
}

// err returns why nothing may be changed, nil if it may.
func (h *held) err() error {
	if err := h.why.Load(); err != nil {
		return *err
	}
	return nil
}

const (
	// holdTime is for how long a hold lasts if the node that holds dies.
	holdTime = 30 * time.Second
	// slack is for how much longer than it should take nodes may take to see a hold and to end what they had begun.
	slack = 250 * time.Millisecond
	// holdRefresh is how often it is renewed.
	holdRefresh = 3 * time.Second
)

// freezing is a hold of this node.
type freezing struct {
	mu   sync.Mutex
	stop func()
	// lost says that the hold was over for a while, so that other nodes may have changed something.
	lost atomic.Bool
}

// errHoldLost says that other nodes may have changed something.
var errHoldLost = errors.New("the database did not answer for so long that other servers may have gone on meanwhile")

// Freeze makes the store read-only on all nodes that use it, for a migration. Nodes look each second; when Freeze
// returns, all that reach the database have seen it, and what they had begun before has ended. If this node dies, the
// others go on after half a minute.
func (s *Store) Freeze(ctx context.Context, why string) error {
	s.freezing.mu.Lock()
	defer s.freezing.mu.Unlock()
	if s.freezing.stop != nil {
		return errors.New("it is read-only already")
	}
	if err := s.Health(); err != nil {
		return err
	}
	if err := s.requireNodes(ctx, s.link.clock.now().Add(-deadAfter)); err != nil {
		return err
	}
	if err := s.hold(ctx, why, false); err != nil {
		return err
	}
	s.freezing.lost.Store(false)
	stop, ended := make(chan struct{}), make(chan struct{})
	s.freezing.stop = func() {
		close(stop)
		<-ended
	}
	s.background.Go(func() {
		defer close(ended)
		s.keepHold(why, stop)
	})
	began := s.link.clock.now()
	select {
	case <-time.After(watchInterval + 2*s.options.Timeout + slack):
		return s.awaitNodes(ctx, began.Add(watchInterval))
	case <-ctx.Done():
		return ctx.Err() // the caller thaws
	}
}

// awaitNodes waits until each node was heard of since an instant of the server's clock. One that is not may have been
// cut off a moment ago: it has not seen the hold, and admits calls that it can only count here.
func (s *Store) awaitNodes(ctx context.Context, since time.Time) error {
	for end := time.Now().Add(deadAfter); ; {
		err := s.requireNodes(ctx, since)
		if err == nil || time.Now().After(end) {
			return err
		}
		select {
		case <-time.After(slack):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// requireNodes returns an error if a node was heard of a short time ago, but not since an instant of the server's
// clock: it may be cut off, and admit calls that it can only count here.
func (s *Store) requireNodes(ctx context.Context, since time.Time) error {
	ctx, cancel := s.link.begin(ctx)
	defer cancel()
	b, err := s.link.b()
	if err != nil {
		return err
	}
	m, err := s.link.do(ctx, b.Zrange().Key(s.names.nodes()).Min("0").Max("-1").Withscores().Build())
	if err != nil {
		return err
	}
	nodes, err := m.AsZScores()
	if err != nil {
		return errAnswer
	}
	now := s.link.clock.now().UnixMilli()
	for _, node := range nodes {
		if int64(node.Score) < since.UnixMilli() {
			silent := time.Duration(now-int64(node.Score)) * time.Millisecond
			return fmt.Errorf("a server that uses this storage was last heard of %d s ago: if it is cut off, what it counts "+
				"would be lost. Repeat this when it is back, or a minute after it was stopped", int(silent.Seconds()))
		}
	}
	return nil
}

// hold sets the hold: a new one, or again one that there is.
func (s *Store) hold(ctx context.Context, why string, again bool) error {
	ctx, cancel := s.link.change(ctx)
	defer cancel()
	b, err := s.link.b()
	if err != nil {
		return err
	}
	cmd := b.Set().Key(s.names.hold()).Value(why).Nx().Px(holdTime).Build()
	if again {
		cmd = b.Set().Key(s.names.hold()).Value(why).Xx().Px(holdTime).Build().ToRetryable()
	}
	m, err := s.link.do(ctx, cmd)
	switch {
	case err != nil:
		return err
	case m.IsNil() && again:
		s.freezing.lost.Store(true)
		return errHoldLost
	case m.IsNil():
		return errors.New("another server is moving everything")
	}
	return nil
}

// keepHold renews the hold until it is stopped or the store is closed.
func (s *Store) keepHold(why string, stop <-chan struct{}) {
	ticker := time.NewTicker(holdRefresh)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-stop:
			return
		case <-s.closing:
			return
		case <-ticker.C:
		}
		if s.hold(context.Background(), why, true) == nil {
			last = time.Now()
		} else if time.Since(last) > holdTime-2*holdRefresh {
			s.freezing.lost.Store(true)
		}
	}
}

// Thaw takes back what Freeze has done.
func (s *Store) Thaw(ctx context.Context) error {
	s.freezing.mu.Lock()
	defer s.freezing.mu.Unlock()
	if s.freezing.stop == nil {
		return nil
	}
	s.freezing.stop()
	s.freezing.stop = nil
	ctx, cancel := s.link.change(ctx)
	defer cancel()
	b, err := s.link.b()
	if err != nil {
		return err
	}
	if _, err = s.link.do(ctx, b.Unlink().Key(s.names.hold()).Build().ToRetryable()); err != nil {
		return err
	}
	return s.look(ctx)
}

// MarkMoved notes that everything was moved to another store, so that nobody opens this one as the truth. It fails if
// the store was not read-only all the time since Freeze.
func (s *Store) MarkMoved(ctx context.Context, text string) error {
	s.freezing.mu.Lock()
	defer s.freezing.mu.Unlock()
	if s.freezing.stop != nil {
		if err := s.hold(ctx, text, true); err != nil {
			return err
		}
		if s.freezing.lost.Load() {
			return errHoldLost
		}
	}
	return s.setState(ctx, movedState, text)
}

// UnmarkMoved takes the note of [Store.MarkMoved] back.
func (s *Store) UnmarkMoved(ctx context.Context) error { return s.setState(ctx, "", "") }

// setState sets the state in the identity, for all nodes.
func (s *Store) setState(ctx context.Context, state, why string) error {
	ctx, cancel := s.link.change(ctx)
	defer cancel()
	for {
		i, value, err := s.readIdentity(ctx)
		if err != nil {
			return err
		}
		if id := s.known.id.Load(); value == "" || id == nil || i.ID != *id {
			return s.lose()
		}
		i.State, i.Why = state, why
		becomes, err := s.sealIdentity(i)
		if err != nil {
			return err
		}
		outcome, _, err := s.swap(ctx, s.names.store(), value, becomes)
		if err != nil {
			return err
		}
		if outcome == done {
			return s.look(ctx)
		}
	}
}

// Reopen takes back that everything was moved from the prefix of the options, for a store that no node has open.
func Reopen(ctx context.Context, o Options) error {
	shell, err := newShell(o)
	if err != nil {
		return err
	}
	if err := shell.inspect(); err != nil {
		return fmt.Errorf("redis storage: %w", err)
	}
	b, err := newBulk(shell)
	if err != nil {
		return fmt.Errorf("redis storage: %w", err)
	}
	defer b.close()
	t := &Target{bulk: b}
	i, value, err := t.readIdentity(ctx)
	if err != nil {
		return err
	}
	if i.State != movedState {
		return errors.New("redis storage: nothing was moved from there")
	}
	t.identity = i
	t.identity.State, t.identity.Why = "", ""
	return t.swapIdentity(ctx, value)
}
