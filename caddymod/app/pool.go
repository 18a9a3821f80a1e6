// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/storage"
)

func init() {
	// A configuration that was replaced may have left a store to its last requests.
	caddy.OnExit(func(context.Context) { stores.closeAll() })
}

// storePool are the open stores of the process, by the identity of their place: configurations before and after a reload share what
// can be opened only once.
//
// Caddy does not wait for the requests of the configuration that it replaces. A store that no configuration holds any more
// therefore stays open for a while (linger), for requests that have begun and not come to a handler of ours yet; then until
// the last request that uses it has ended; and at most for the bound. A configuration that wants the place back takes it as it is.
type storePool struct {
	linger time.Duration
	maxLinger  time.Duration
	// closeTimeout is how long the exit of the process waits for a store to close.
	closeTimeout time.Duration
	// healthInterval is how often the health of a store is looked at, for the log.
	healthInterval  time.Duration
	logger *zap.Logger
	// stopping reports whether nothing follows the configuration that lets go of its store.
	stopping func() bool
	// exiting reports whether the process ends.
	exiting func() bool

	mu   sync.Mutex
	open map[string]*pooledStore
}

// stores is the pool of the process.
var stores = &storePool{
	linger: time.Minute, maxLinger: 5 * time.Minute, closeTimeout: 10 * time.Second, healthInterval: time.Second,
	logger:   processLogger("moderation.storage"),
	stopping: func() bool { return caddy.ActiveContext().Context == nil },
	exiting:  caddy.Exiting,
}

// pooledStore is a store of a pool.
type pooledStore struct {
	storage.Store
	pool     *storePool
	identity string

	// uses are the requests that use the store now.
	uses atomic.Int64
	// retired says that no configuration holds the store.
	retired atomic.Bool

	// The rest is guarded by the pool's lock, but for the channels.

	holders   int
	lingering bool
	generation      int // how often the store was retired
	timers    []*time.Timer
	closing   bool
	// ready is closed when the store is open, or could not be opened because of err; gone when it is closed.
	ready, gone chan struct{}
	err         error
}

// acquire joins the open store of this identity, or opens it. What is taken is dropped once.
func (p *storePool) acquire(identity string, open func() (storage.Store, error)) (*pooledStore, error) {
	for {
		s, way := p.join(identity)
		switch way {
		case closes:
			<-s.gone
			continue
		case fresh:
			p.start(s, open)
		case joined:
			<-s.ready
		}
		if s.err != nil {
			return nil, s.err
		}
		return s, nil
	}
}

// way is how a store was found.
type way int

const (
	fresh  way = iota // the caller opens it
	joined            // it is open, or somebody opens it
	closes            // it is not to be used any more
)

// join returns the entry of an identity, which the caller holds unless it closes.
func (p *storePool) join(identity string) (*pooledStore, way) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s, found := p.open[identity]; found {
		if s.closing {
			return s, closes
		}
		s.holders++
		s.revive()
		return s, joined
	}
	s := &pooledStore{pool: p, identity: identity, holders: 1, ready: make(chan struct{}), gone: make(chan struct{})}
	if p.open == nil {
		p.open = map[string]*pooledStore{}
	}
	p.open[identity] = s
	return s, fresh
}

// start opens the store of a fresh entry.
func (p *storePool) start(s *pooledStore, open func() (storage.Store, error)) {
	defer close(s.ready)
	if s.Store, s.err = open(); s.err == nil {
		go s.watch()
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, s.identity)
}

// revive makes a retired store one that a configuration holds. The pool is locked.
func (s *pooledStore) revive() {
	s.retired.Store(false)
	s.lingering = false
	for _, timer := range s.timers {
		timer.Stop()
	}
	s.timers = nil
}

// release gives back what was taken. The last one to do it closes the store, or leaves that to the requests that still use it.
func (p *storePool) release(s *pooledStore) error {
	stopping := p.stopping()
	p.mu.Lock()
	if s.holders--; s.holders > 0 {
		p.mu.Unlock()
		return nil
	}
	s.retired.Store(true)
	s.generation++
	term := s.generation
	later := func(force bool) func() {
		return func() {
			p.mu.Lock()
			current := s.generation == term && s.holders == 0
			s.lingering = s.lingering && !current
			p.mu.Unlock()
			if current {
				s.report(s.close(force))
			}
		}
	}
	s.timers = append(s.timers, time.AfterFunc(p.maxLinger, later(true)))
	if !stopping {
		s.lingering = true
		s.timers = append(s.timers, time.AfterFunc(p.linger, later(false)))
	}
	p.mu.Unlock()
	if !stopping {
		return nil
	}
	// No request begins any more.
	for _, other := range p.all() {
		p.mu.Lock()
		other.lingering = false
		p.mu.Unlock()
		if other != s {
			other.report(other.close(p.exiting()))
		}
	}
	return s.close(p.exiting())
}

// closeAll closes what is open, whoever uses it: the process ends.
func (p *storePool) closeAll() {
	var closing sync.WaitGroup
	for _, s := range p.all() {
		closing.Go(func() { s.report(s.close(true)) })
	}
	closing.Wait()
}

// all are the stores that are retired.
func (p *storePool) all() (retired []*pooledStore) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.open {
		if s.retired.Load() {
			retired = append(retired, s)
		}
	}
	return retired
}

// beginUse begins a use of the store, which release ends.
func (s *pooledStore) beginUse() { s.uses.Add(1) }

// endUse ends a use of the store. The last one closes a store that nobody else wants.
func (s *pooledStore) endUse() {
	if s.uses.Add(-1) == 0 && s.retired.Load() {
		go func() { s.report(s.close(false)) }() // a request does not wait for that
	}
}

// close closes a store that no configuration holds and no request uses. force closes it under requests that use it.
func (s *pooledStore) close(force bool) error {
	p := s.pool
	p.mu.Lock()
	used := s.uses.Load()
	if s.holders > 0 || s.closing || !force && (s.lingering || used > 0) {
		p.mu.Unlock()
		return nil
	}
	s.closing = true
	for _, timer := range s.timers {
		timer.Stop()
	}
	p.mu.Unlock()
	if used > 0 {
		p.logger.Warn("closing a store that requests of a former configuration still use", zap.Int64("requests", used))
	}
	closed := make(chan error, 1)
	go func() {
		closed <- s.Close()
		p.mu.Lock()
		delete(p.open, s.identity)
		p.mu.Unlock()
		close(s.gone)
	}()
	if !p.exiting() {
		return <-closed
	}
	select {
	case err := <-closed:
		return err
	case <-time.After(p.closeTimeout):
		return errSlow
	}
}

// errSlow says that the process did not wait for its store. What was acknowledged survives that.
var errSlow = errors.New("closing the store takes too long: it is left to the end of the process")

// report logs an error of closing that nobody waits for.
func (s *pooledStore) report(err error) {
	if err != nil {
		s.pool.logger.Error("closing the store of a former configuration", zap.Error(err))
	}
}

// watch logs when the store becomes unavailable, and when it is available again, until it is closed.
func (s *pooledStore) watch() {
	ticker := time.NewTicker(s.pool.healthInterval)
	defer ticker.Stop()
	var since time.Time
	for {
		select {
		case <-s.gone:
			return
		case now := <-ticker.C:
			s.pool.mu.Lock()
			closing := s.closing
			s.pool.mu.Unlock()
			if closing {
				return
			}
			since = s.look(since, now)
		}
	}
}

// look logs a change of health. It returns since when the store is unavailable; the zero time is never.
func (s *pooledStore) look(since, now time.Time) time.Time {
	err := s.Health()
	switch {
	case err != nil && since.IsZero():
		s.pool.logger.Error("the store is unavailable: what must be counted or kept is refused", zap.Error(err))
		return now
	case err == nil && !since.IsZero():
		s.pool.logger.Warn("the store is available again", zap.Duration("after", now.Sub(since)))
		return time.Time{}
	}
	return since
}

// up reports whether all stores that a configuration holds are available, and whether there is one.
func (p *storePool) up() (up, open bool) {
	p.mu.Lock()
	held := make([]*pooledStore, 0, len(p.open))
	for _, s := range p.open {
		if s.holders > 0 {
			held = append(held, s)
		}
	}
	p.mu.Unlock()
	up = true
	for _, s := range held {
		select {
		case <-s.ready:
		default:
			continue // it is being opened
		}
		if s.err == nil {
			open = true
			up = up && s.Health() == nil
		}
	}
	return up, open
}
