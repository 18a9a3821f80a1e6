// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"go.uber.org/zap/zapcore"

	"github.com/caddy-moderation/caddy-moderation/storage/badger/disk"
)

// Bounds of what goes on at one time. A client keeps to them by waiting, so that more is a mistake.
const (
	maxReads     = 256
	maxWrites    = 16
	maxSyncs     = 16
	maxSnapshots = 16
	maxRequests  = maxReads + maxWrites + maxSyncs + 2
)

// opening is the body of the first request.
type openRequest struct {
	Protocol int
	Options  disk.Options
	// Level is the least level of log lines that are wanted.
	Level int8
}

// server is the database's side of the conversation.
type server struct {
	in   *bufio.Reader
	out  sender
	open opener
	// over gets what ends the conversation.
	over chan error

	// What follows belongs to whoever reads, and is handed on with the reading.
	began, closing bool
	// opened is set when db is there.
	opened atomic.Bool
	db     disk.Database
	// working are the requests that are being answered, running is their number.
	working sync.WaitGroup
	running atomic.Int64

	writes struct {
		sync.Mutex
		queue []*message
		busy  bool
	}
	snapshots struct {
		sync.Mutex
		open map[uint64]*openSnapshot
		last uint64
	}
}

// served is a snapshot that is open.
type openSnapshot struct {
	sync.Mutex
	disk.Snapshot
}

// serve answers requests until in ends, or has what is no request. It does not close the backend then: the server is gone, and
// the next one waits for the directory.
func serve(in io.Reader, out io.Writer, open opener) error {
	s := &server{in: bufio.NewReaderSize(in, 64<<10), out: sender{w: out}, open: open, over: make(chan error, 1)}
	s.snapshots.open = make(map[uint64]*openSnapshot)
	go s.next()
	return <-s.over
}

// next reads a request, hands the reading on and answers. So reading never waits for answering, and the request is answered by
// the goroutine that is awake already.
func (s *server) next() {
	m := new(message)
	body, err := m.receive(s.in)
	if err == nil {
		err = m.parse(body)
	}
	if err == nil {
		err = s.expected(m)
	}
	if err != nil {
		s.end(err)
		return
	}
	if s.closing && m.kind != kindClose {
		go s.next()
		s.answer(&message{kind: kindFailed, number: m.number, failure: failureOf(disk.ErrClosed)})
		return
	}
	switch m.kind {
	case kindOpen:
		s.began = true
	case kindClose:
		s.closing = true
		go s.next()
		s.close(m)
		return
	case kindWrite:
		// The place in the queue is taken before the next request is read.
		s.working.Add(1)
		mine := s.enqueue(m)
		go s.next()
		if mine {
			s.write()
		}
		return
	}
	s.working.Add(1)
	go s.next()
	s.handle(m)
	s.working.Done()
}

// expected reports a request that should not come now.
func (s *server) expected(m *message) error {
	switch {
	case m.kind >= kindOpened:
		return unexpected(m)
	case m.kind == kindOpen && s.began, m.kind != kindOpen && !s.opened.Load(), m.kind == kindClose && s.closing:
		return unexpected(m)
	case s.running.Add(1) > maxRequests:
		return fmt.Errorf("%w: too many requests", errFrame)
	}
	return nil
}

// end ends the conversation: the server is gone, or does not speak as it should.
func (s *server) end(err error) {
	if err == io.EOF { //nolint:errorlint // receive says so
		err = nil
	}
	s.over <- err
}

// answer sends an answer. An error is not looked at: when nobody takes answers any more, the reading ends as well.
func (s *server) answer(m *message) {
	s.running.Add(-1)
	if err := s.out.send(m); errors.Is(err, errTooLarge) {
		_ = s.out.send(&message{kind: kindFailed, number: m.number, failure: failureOf(err)})
	}
}

// handle answers all that need not be in order.
func (s *server) handle(m *message) {
	a := message{number: m.number}
	var err error
	switch m.kind {
	case kindOpen:
		a.kind = kindOpened
		a.raw, err = s.start(m.raw)
	case kindGet:
		a.kind = kindRecords
		a.records, err = s.db.Get(m.keys...)
	case kindScan:
		a.kind = kindRecords
		a.records, a.next, err = s.db.Scan(m.scan)
	case kindSync:
		a.kind = kindDone
		err = s.db.Sync()
	case kindCheck:
		a.kind = kindDone
		err = s.db.Check()
	case kindSnapshot:
		a.kind = kindDone
		a.id, err = s.snapshot()
	case kindNext:
		a.kind = kindRecords
		a.records, err = s.snapshotNext(m.id)
	case kindEnd:
		a.kind = kindDone
		err = s.snapshotEnd(m.id)
	}
	if err != nil {
		a = message{kind: kindFailed, number: m.number, failure: failureOf(err)}
	}
	s.answer(&a)
}

// start opens the backend and returns its identity.
func (s *server) start(request []byte) ([]byte, error) {
	var o openRequest
	if err := json.Unmarshal(request, &o); err != nil {
		return nil, err
	}
	if o.Protocol != protocol {
		return nil, errors.New("the server's executable was replaced while it ran: restart the server")
	}
	o.Options.Logger = newLogger(&s.out, zapcore.Level(o.Level))
	db, err := s.open(o.Options)
	if err != nil {
		return nil, err
	}
	s.db = db
	s.opened.Store(true)
	id := db.Identity()
	return id[:], nil
}

// enqueue puts a write into the queue, and reports whether the caller has to work through it.
func (s *server) enqueue(m *message) bool {
	s.writes.Lock()
	defer s.writes.Unlock()
	s.writes.queue = append(s.writes.queue, m)
	if s.writes.busy {
		return false
	}
	s.writes.busy = true
	return true
}

// write makes the changes in the queue, in the order in which they arrived.
func (s *server) write() {
	for {
		s.writes.Lock()
		if len(s.writes.queue) == 0 {
			s.writes.queue, s.writes.busy = nil, false
			s.writes.Unlock()
			return
		}
		m := s.writes.queue[0]
		s.writes.queue = s.writes.queue[1:]
		s.writes.Unlock()

		a := message{kind: kindDone, number: m.number}
		if err := s.db.Write(m.entries); err != nil {
			a = message{kind: kindFailed, number: m.number, failure: failureOf(err)}
		}
		s.answer(&a)
		s.working.Done()
	}
}

// close closes the backend. The process goes on until the server has read the answer, and closes the input.
func (s *server) close(m *message) {
	s.working.Wait()
	s.snapshots.Lock()
	open := s.snapshots.open
	s.snapshots.open = nil
	s.snapshots.Unlock()
	var errs []error
	for _, one := range open {
		errs = append(errs, one.Close())
	}
	a := message{kind: kindDone, number: m.number}
	if err := errors.Join(append(errs, s.db.Close())...); err != nil {
		a = message{kind: kindFailed, number: m.number, failure: failureOf(err)}
	}
	s.answer(&a)
}

var (
	errSnapshots  = fmt.Errorf("more than %d snapshots at a time", maxSnapshots)
	errNoSnapshot = errors.New("the snapshot is closed")
)

func (s *server) snapshot() (uint64, error) {
	s.snapshots.Lock()
	defer s.snapshots.Unlock()
	if len(s.snapshots.open) >= maxSnapshots {
		return 0, errSnapshots
	}
	one, err := s.db.Snapshot()
	if err != nil {
		return 0, err
	}
	s.snapshots.last++
	s.snapshots.open[s.snapshots.last] = &openSnapshot{Snapshot: one}
	return s.snapshots.last, nil
}

func (s *server) snapshotNext(id uint64) ([]disk.Record, error) {
	s.snapshots.Lock()
	one := s.snapshots.open[id]
	s.snapshots.Unlock()
	if one == nil {
		return nil, errNoSnapshot
	}
	one.Lock()
	defer one.Unlock()
	if one.Snapshot == nil {
		return nil, errNoSnapshot
	}
	return one.Next()
}

func (s *server) snapshotEnd(id uint64) error {
	s.snapshots.Lock()
	one := s.snapshots.open[id]
	delete(s.snapshots.open, id)
	s.snapshots.Unlock()
	if one == nil {
		return nil
	}
	// A Next of another caller is waited for.
	one.Lock()
	defer one.Unlock()
	err := one.Close()
	one.Snapshot = nil
	return err
}
