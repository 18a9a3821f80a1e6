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

	"github.com/caddy-moderation/caddy-moderation/nodes"
	"github.com/caddy-moderation/caddy-moderation/statistics"
	"github.com/caddy-moderation/caddy-moderation/storage"
)

func init() {
	// A configuration that was replaced may have left its store to its last requests.
	caddy.OnExit(func(context.Context) { stores.closeAll() })
}

// storePool holds the open stores of the process, by the identity of their place. The configurations before and after
// a reload share what can be opened only once. A store has two counts: the configurations that hold it (acquire,
// release) and the requests that use it (beginUse, endUse).
//
// Caddy does not wait for the requests of the configuration that it replaces. A store that no configuration holds any
// more is retired. It stays open
//   - for the linger time, for requests that have begun but not reached one of our handlers yet;
//   - then until the last request that uses it has ended;
//   - and at most for maxLinger.
//
// A configuration that wants the place back in the meantime gets the store as it is.
type storePool struct {
	linger    time.Duration
	maxLinger time.Duration
	// closeTimeout is how long the exit of the process waits for a store to close.
	closeTimeout time.Duration
	// healthInterval is how often the health of a store is checked, for the log.
	healthInterval time.Duration
	logger         *zap.Logger
	// stopping reports whether no configuration follows the one that releases its store.
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
	// service is the store as the service uses it: its changes can be held back.
	service *holdable
	// statistics counts what is decided, for all configurations that use the store.
	statistics *statistics.Recorder
	// node is this process as it is listed in the store, once a configuration has said what it is; introduced says so.
	node       atomic.Pointer[nodes.Node]
	introduced chan struct{}
	// migration is the one that is under way or done, nil without one.
	migration atomic.Pointer[migration]

	pool     *storePool
	identity string

	// uses counts the requests that use the store now.
	uses atomic.Int64
	// retired is set while no configuration holds the store.
	retired atomic.Bool

	// ready is closed when the store is open, or opening it has failed with err.
	ready chan struct{}
	err   error
	// closed is closed when the store is.
	closed chan struct{}
	// room is what the store's directory takes and has left, nil while that is not known.
	room atomic.Pointer[room]

	// The pool's lock guards the rest.

	holders    int  // configurations
	lingering  bool // requests that have begun may still arrive
	generation int  // how often the store was retired
	timers     []*time.Timer
	closing    bool
}

// acquire joins the open store of this identity, or opens it. The caller releases it once.
func (p *storePool) acquire(identity string, open func() (storage.Store, error)) (*pooledStore, error) {
	for {
		s, state := p.join(identity)
		switch state {
		case entryClosing:
			<-s.closed
			continue
		case entryAdded:
			p.start(s, open)
		case entryJoined:
			<-s.ready
		}
		if s.err != nil {
			return nil, s.err
		}
		return s, nil
	}
}

// entryState is what [storePool.join] found.
type entryState int

const (
	entryAdded   entryState = iota // there was no entry: the caller opens the store
	entryJoined                    // the store is open, or being opened
	entryClosing                   // the store must not be used any more
)

// join returns the entry of an identity, making one if there is none. The caller holds the store, unless it is closing.
func (p *storePool) join(identity string) (*pooledStore, entryState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s, found := p.open[identity]; found {
		if s.closing {
			return s, entryClosing
		}
		s.holders++
		s.revive()
		return s, entryJoined
	}
	s := &pooledStore{
		pool: p, identity: identity, holders: 1, ready: make(chan struct{}), closed: make(chan struct{}),
	}
	if p.open == nil {
		p.open = map[string]*pooledStore{}
	}
	p.open[identity] = s
	return s, entryAdded
}

// start opens the store of a new entry.
func (p *storePool) start(s *pooledStore, open func() (storage.Store, error)) {
	defer close(s.ready)
	if s.Store, s.err = open(); s.err == nil {
		s.service = &holdable{Store: s.Store}
		s.statistics = statistics.NewRecorder(s.service)
		s.introduced = make(chan struct{}, 1)
		go s.keepUp()
		go s.logHealth()
		go s.watchRoom()
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, s.identity)
}

// revive ends the retirement of a store that a configuration holds again. The caller holds the pool's lock.
func (s *pooledStore) revive() {
	s.retired.Store(false)
	s.lingering = false
	s.stopTimers()
}

// stopTimers stops the timers that would close the store. The caller holds the pool's lock.
func (s *pooledStore) stopTimers() {
	for _, timer := range s.timers {
		timer.Stop()
	}
	s.timers = nil
}

// release ends a configuration's hold on a store. The last one retires it: the store closes at once when no
// configuration follows and no request uses it, else when its timers or its last request say so.
func (p *storePool) release(s *pooledStore) error {
	stopping := p.stopping()
	p.mu.Lock()
	if s.holders--; s.holders > 0 {
		p.mu.Unlock()
		return nil
	}
	s.retire(stopping)
	p.mu.Unlock()
	if !stopping {
		return nil
	}
	// No request begins any more, so no retired store has to linger.
	for _, other := range p.retired() {
		p.mu.Lock()
		other.lingering = false
		p.mu.Unlock()
		if other != s {
			other.logError(other.close(p.exiting()))
		}
	}
	return s.close(p.exiting())
}

// retire starts the timers that close a store which no configuration holds any more. The caller holds the pool's lock.
func (s *pooledStore) retire(stopping bool) {
	p := s.pool
	s.retired.Store(true)
	s.generation++
	generation := s.generation
	closeAfter := func(d time.Duration, force bool) {
		s.timers = append(s.timers, time.AfterFunc(d, func() {
			p.mu.Lock()
			current := s.generation == generation && s.holders == 0
			s.lingering = s.lingering && !current
			p.mu.Unlock()
			if current {
				s.logError(s.close(force))
			}
		}))
	}
	closeAfter(p.maxLinger, true)
	if !stopping {
		s.lingering = true
		closeAfter(p.linger, false)
	}
}

// closeAll closes all retired stores, even under requests that use them: the process ends.
func (p *storePool) closeAll() {
	var group sync.WaitGroup
	for _, s := range p.retired() {
		group.Go(func() { s.logError(s.close(true)) })
	}
	group.Wait()
}

// retired returns the stores that no configuration holds.
func (p *storePool) retired() []*pooledStore {
	p.mu.Lock()
	defer p.mu.Unlock()
	var retired []*pooledStore
	for _, s := range p.open {
		if s.retired.Load() {
			retired = append(retired, s)
		}
	}
	return retired
}

// beginUse begins a request's use of the store, which endUse ends.
func (s *pooledStore) beginUse() { s.uses.Add(1) }

// endUse ends a request's use of the store. The last one closes a retired store that does not linger.
func (s *pooledStore) endUse() {
	if s.uses.Add(-1) == 0 && s.retired.Load() {
		go func() { s.logError(s.close(false)) }() // the request does not wait for it
	}
}

// close closes a store that no configuration holds, unless it lingers or requests use it. With force it closes the
// store under them.
func (s *pooledStore) close(force bool) error {
	p := s.pool
	p.mu.Lock()
	used := s.uses.Load()
	if s.holders > 0 || s.closing || !force && (s.lingering || used > 0) {
		p.mu.Unlock()
		return nil
	}
	s.closing = true
	s.stopTimers()
	p.mu.Unlock()
	if used > 0 {
		p.logger.Warn("closing a store that requests of a former configuration still use", zap.Int64("requests", used))
	}
	result := make(chan error, 1)
	go func() {
		s.takeLeave()
		result <- s.Close()
		p.mu.Lock()
		delete(p.open, s.identity)
		p.mu.Unlock()
		close(s.closed)
	}()
	if !p.exiting() {
		return <-result
	}
	select {
	case err := <-result:
		return err
	case <-time.After(p.closeTimeout):
		return errCloseTimeout
	}
}

// errCloseTimeout means that the process did not wait for its store. Nothing that was acknowledged is lost by that.
var errCloseTimeout = errors.New("closing the store takes too long: it is left to the end of the process")

// logError logs an error of closing that nobody waits for.
func (s *pooledStore) logError(err error) {
	if err != nil {
		s.pool.logger.Error("closing the store of a former configuration", zap.Error(err))
	}
}

// Health is that of the store as the service uses it.
func (s *pooledStore) Health() error {
	if err := s.service.reason(); err != nil {
		return err
	}
	return s.Store.Health()
}

// logHealth logs when the store becomes unavailable and when it is available again, until the store closes.
func (s *pooledStore) logHealth() {
	ticker := time.NewTicker(s.pool.healthInterval)
	defer ticker.Stop()
	var last condition
	for {
		select {
		case <-s.closed:
			return
		case now := <-ticker.C:
			s.pool.mu.Lock()
			closing := s.closing
			s.pool.mu.Unlock()
			if closing {
				return
			}
			last = s.checkHealth(last, now)
		}
	}
}

// condition is what the log was told last about a store.
type condition struct {
	// since is when the store became unavailable; zero while it is available.
	since time.Time
	mode  Mode
}

// checkHealth logs a change of the store's condition: one line, however many requests it concerns.
func (s *pooledStore) checkHealth(last condition, now time.Time) condition {
	err, mode := s.Health(), modeOf(s.Store)
	switch {
	case err == nil && !last.since.IsZero():
		s.pool.logger.Warn("the store is available again", zap.Duration("after", now.Sub(last.since)))
		return condition{mode: mode}
	case err == nil || !last.since.IsZero() && mode == last.mode:
		return last
	}
	switch mode {
	case Local:
		s.pool.logger.Error("the store is unavailable: requests are admitted by the counts that this node knows, "+
			"and counted later; what must be kept is refused", zap.String("mode", string(mode)), zap.Error(err))
	case Allow:
		s.pool.logger.Error("the store is unavailable: all requests are admitted, and counted later; what must be "+
			"kept is refused", zap.String("mode", string(mode)), zap.Error(err))
	default:
		s.pool.logger.Error("the store is unavailable: what must be counted or kept is refused", zap.Error(err))
	}
	if last.since.IsZero() {
		last.since = now
	}
	return condition{since: last.since, mode: mode}
}

// health reports whether a configuration holds an open store, and whether all such stores are available.
func (p *storePool) health() (up, open bool) {
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
			continue // being opened
		}
		if s.err == nil {
			open = true
			up = up && s.Health() == nil
		}
	}
	return up, open
}
