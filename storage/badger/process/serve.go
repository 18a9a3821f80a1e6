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

// Limits of requests at a time, by kind. A client waits instead of exceeding them, so exceeding them is an error.
const (
	maxReads     = 256
	maxWrites    = 16
	maxSyncs     = 16
	maxSnapshots = 16
	maxRequests  = maxReads + maxWrites + maxSyncs + 2
)

// openRequest is the body of the first request.
type openRequest struct {
	Protocol int
	Options  disk.Options
	// Level is the lowest level of log lines that the server wants.
	Level int8
}

// server is the child's side of the connection.
type server struct {
	in   *bufio.Reader
	out  sender
	open opener
	// ended receives what ended the connection, nil for the end of the input.
	ended chan error

	// The goroutine that reads owns these, and hands them on with the reading.
	began, closing bool
	// opened is set after db.
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

// openSnapshot is an open snapshot.
type openSnapshot struct {
	sync.Mutex
	disk.Snapshot
}

// serve answers requests until in ends or holds something else. It does not close the database then: the server is
// gone, and the next one waits for the directory.
func serve(in io.Reader, out io.Writer, open opener) error {
	s := &server{in: bufio.NewReaderSize(in, 64<<10), out: sender{w: out}, open: open, ended: make(chan error, 1)}
	s.snapshots.open = make(map[uint64]*openSnapshot)
	go s.next()
	return <-s.ended
}

// next reads a request, hands the reading on to a new goroutine, and answers. So reading never waits for answering,
// and the goroutine that is awake already answers.
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
		// The write is queued before the next request is read.
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

// expected returns an error for a request that must not come now.
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

// end ends the connection: the server is gone, or has sent something that is no request.
func (s *server) end(err error) {
	if err == io.EOF { //nolint:errorlint // receive says so
		err = nil
	}
	s.ended <- err
}

// answer sends an answer. It ignores errors: when nobody takes answers any more, reading ends as well.
func (s *server) answer(m *message) {
	s.running.Add(-1)
	if err := s.out.send(m); errors.Is(err, errTooLarge) {
		_ = s.out.send(&message{kind: kindFailed, number: m.number, failure: failureOf(err)})
	}
}

// handle answers the requests that need no order.
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

// start opens the database and returns its identity.
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

// enqueue queues a write, and reports whether the caller must work through the queue.
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

// write makes the queued writes in their order.
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

// close closes the database. The process goes on until the server has read the answer and closes the input.
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
	// Wait for a Next of another caller.
	one.Lock()
	defer one.Unlock()
	err := one.Close()
	one.Snapshot = nil
	return err
}
