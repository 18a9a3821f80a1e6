// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/caddy-moderation/caddy-moderation/storage/badger/disk"
)

// A frame is a head and a body. The head is the length of the body (4 bytes), its kind (1 byte) and the number of the
// request that it belongs to (8 bytes), big-endian. Bodies consist of bytes, of unsigned varints, and of byte strings
// prefixed with their length. Answers come in any order.
const (
	headSize = 4 + 1 + 8
	// maxBody is the maximum length of a body.
	maxBody = 32 << 20
	// maxItems is the maximum number of keys, entries or records in a frame.
	maxItems = 1 << 20
	// protocol is incremented when frames change, so that a server notices when its executable was replaced while it
	// ran.
	protocol = 1
)

// kind is the kind of a frame. The values are not ASCII, so that stray text is not taken for a frame.
type kind byte

const (
	kindOpen kind = iota + 0xb1
	kindGet
	kindScan
	kindWrite
	kindSync
	kindCheck
	kindSnapshot
	kindNext
	kindEnd
	kindClose
	// The following are answers.
	kindOpened
	kindRecords
	kindDone
	kindFailed
	// kindLog belongs to no request.
	kindLog
	kindLimit
)

// message is the content of a frame. The kind says which fields are used.
type message struct {
	kind    kind
	number  uint64
	raw     []byte        // open, opened, log
	keys    [][]byte      // get
	scan    disk.Range    // scan
	entries []disk.Entry  // write
	id      uint64        // next, end, done
	records []disk.Record // records
	next    []byte        // records
	failure failure       // failed
}

var (
	errTooLarge = errors.New("too much for one call")
	errFrame    = errors.New("not a message of the database's process")
)

// appendBody appends the body of the message.
func (m *message) appendBody(b []byte) []byte {
	switch m.kind {
	case kindOpen, kindOpened, kindLog:
		return append(b, m.raw...)
	case kindGet:
		b = binary.AppendUvarint(b, uint64(len(m.keys)))
		for _, k := range m.keys {
			b = appendBytes(b, k)
		}
	case kindScan:
		b = appendBytes(b, m.scan.Prefix)
		b = appendBytes(b, m.scan.From)
		b = binary.AppendUvarint(b, uint64(max(m.scan.Records, 0)))
		b = append(b, flag(m.scan.KeysOnly, 1))
	case kindWrite:
		b = binary.AppendUvarint(b, uint64(len(m.entries)))
		for i := range m.entries {
			e := &m.entries[i]
			b = append(b, flag(e.Delete, 1))
			b = appendBytes(b, e.Key)
			b = appendBytes(b, e.Value)
		}
	case kindNext, kindEnd, kindDone:
		b = binary.AppendUvarint(b, m.id)
	case kindRecords:
		b = binary.AppendUvarint(b, uint64(len(m.records)))
		for i := range m.records {
			r := &m.records[i]
			b = append(b, flag(r.Damaged, 1))
			b = appendBytes(b, r.Key)
			b = appendBytes(b, r.Value)
		}
		b = appendBytes(b, m.next)
	case kindFailed:
		b = binary.AppendUvarint(b, m.failure.is)
		b = append(b, m.failure.text...)
	}
	return b
}

// parse decodes the body of a message. The message refers to parts of it.
func (m *message) parse(body []byte) error {
	d := decoder{rest: body}
	switch m.kind {
	case kindOpen, kindOpened, kindLog:
		m.raw, d.rest = d.rest, nil
	case kindGet:
		m.keys = make([][]byte, 0, d.items(1))
		for range cap(m.keys) {
			m.keys = append(m.keys, d.bytes())
		}
	case kindScan:
		m.scan.Prefix = d.bytes()
		m.scan.From = d.bytes()
		m.scan.Records = int(min(d.number(), maxItems))
		m.scan.KeysOnly = d.flags(1)&1 != 0
	case kindWrite:
		n := d.items(3)
		m.entries = make([]disk.Entry, 0, n)
		for range n {
			e := disk.Entry{Delete: d.flags(1)&1 != 0}
			e.Key = d.bytes()
			e.Value = d.bytes()
			m.entries = append(m.entries, e)
		}
	case kindNext, kindEnd, kindDone:
		m.id = d.number()
	case kindRecords:
		n := d.items(3)
		m.records = make([]disk.Record, 0, n)
		for range n {
			r := disk.Record{Damaged: d.flags(1)&1 != 0}
			r.Key = d.bytes()
			r.Value = d.bytes()
			m.records = append(m.records, r)
		}
		m.next = d.bytes()
	case kindFailed:
		m.failure.is = d.number()
		m.failure.text, d.rest = string(d.rest), nil
	}
	if d.broken || len(d.rest) > 0 {
		return errFrame
	}
	return nil
}

func flag(set bool, bit byte) byte {
	if set {
		return bit
	}
	return 0
}

// appendBytes appends the length plus one, and the bytes. Nil is 0, so that it differs from empty.
func appendBytes(b, p []byte) []byte {
	if p == nil {
		return append(b, 0)
	}
	b = binary.AppendUvarint(b, uint64(len(p))+1)
	return append(b, p...)
}

// decoder decodes a body. After the first mistake it is broken and returns zeros.
type decoder struct {
	rest   []byte
	broken bool
}

func (d *decoder) fail() {
	d.rest, d.broken = nil, true
}

func (d *decoder) number() uint64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) bytes() []byte {
	n := d.number()
	if n == 0 {
		return nil
	}
	n--
	if n > uint64(len(d.rest)) {
		d.fail()
		return nil
	}
	// The capacity ends here, too: appending to a value must not overwrite the next one.
	p := d.rest[:n:n]
	d.rest = d.rest[n:]
	return p
}

func (d *decoder) flags(known byte) byte {
	if len(d.rest) == 0 || d.rest[0]&^known != 0 {
		d.fail()
		return 0
	}
	f := d.rest[0]
	d.rest = d.rest[1:]
	return f
}

// items decodes how many items of at least size bytes follow. There cannot be more than fit into the body.
func (d *decoder) items(size int) int {
	n := d.number()
	if n > maxItems || n > uint64(len(d.rest)/size) {
		d.fail()
		return 0
	}
	return int(n)
}

// receive reads one frame into m and returns its body, not yet parsed. The error is [io.EOF] only if no frame had
// begun.
func (m *message) receive(r *bufio.Reader) (body []byte, err error) {
	head, err := r.Peek(headSize)
	if err != nil {
		if len(head) > 0 && err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	size := binary.BigEndian.Uint32(head)
	m.kind = kind(head[4])
	m.number = binary.BigEndian.Uint64(head[5:])
	if m.kind < kindOpen || m.kind >= kindLimit || size > maxBody {
		return nil, errFrame
	}
	if _, err := r.Discard(headSize); err != nil {
		return nil, err
	}
	return readBody(r, int(size))
}

// readBody reads size bytes. It allocates a large body only as the bytes arrive.
func readBody(r io.Reader, size int) ([]byte, error) {
	if size == 0 {
		return nil, nil
	}
	const step = 1 << 20
	body := make([]byte, min(size, step))
	for done := 0; ; {
		n, err := io.ReadFull(r, body[done:])
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, err
		}
		if done += n; done == size {
			return body, nil
		}
		grown := make([]byte, min(size, 2*done))
		copy(grown, body)
		body = grown
	}
}

// sender writes frames. A goroutine that sends one also writes those that others have left meanwhile: no other
// goroutine has to be woken up, and under load many frames are one write.
type sender struct {
	w io.Writer

	mu      sync.Mutex
	pending []byte
	spare   []byte
	writing bool
	err     error
}

// send writes a message, or leaves it to the goroutine that is writing. After an error other than errTooLarge every
// call fails.
func (s *sender) send(m *message) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	start := len(s.pending)
	b := append(s.pending, make([]byte, headSize)...)
	b = m.appendBody(b)
	size := len(b) - start - headSize
	if size > maxBody || len(m.keys) > maxItems || len(m.entries) > maxItems || len(m.records) > maxItems {
		return errTooLarge
	}
	binary.BigEndian.PutUint32(b[start:], uint32(size))
	b[start+4] = byte(m.kind)
	binary.BigEndian.PutUint64(b[start+5:], m.number)
	s.pending = b
	if s.writing {
		return nil
	}
	s.writing = true
	s.write()
	if s.err == nil && len(s.pending) > 0 {
		// This caller waits for an answer. Another goroutine writes the frames of others.
		go s.rest()
		return nil
	}
	s.writing = false
	return s.err
}

// rest writes until nothing is pending.
func (s *sender) rest() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.err == nil && len(s.pending) > 0 {
		s.write()
	}
	s.writing = false
}

// idle reports whether everything has been written.
func (s *sender) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.writing
}

// write writes what is pending. The caller holds the lock, which write releases meanwhile.
func (s *sender) write() {
	b := s.pending
	s.pending, s.spare = s.spare[:0], nil
	s.mu.Unlock()
	_, err := s.w.Write(b)
	s.mu.Lock()
	if cap(b) <= 256<<10 {
		s.spare = b
	}
	if err != nil {
		s.err = err
		s.pending = nil
	}
}

// failure is an error on its way to the server: its text, and which of [disk.Errors] it wraps.
type failure struct {
	// is has a bit for each of them.
	is   uint64
	text string
}

// maxText is the maximum length of the text of an error.
const maxText = 4 << 10

func failureOf(err error) failure {
	f := failure{text: err.Error()}
	if len(f.text) > maxText {
		f.text = f.text[:maxText]
	}
	for i, s := range disk.Errors() {
		if errors.Is(err, s) {
			f.is |= 1 << i
		}
	}
	return f
}

func (f failure) Error() string { return f.text }

// Unwrap returns the errors of package disk that the error wrapped.
func (f failure) Unwrap() []error {
	var errs []error
	for i, s := range disk.Errors() {
		if f.is&(1<<i) != 0 {
			errs = append(errs, s)
		}
	}
	return errs
}

// unexpected returns the error for a frame of a kind that must not come.
func unexpected(m *message) error {
	return fmt.Errorf("%w: kind %#x", errFrame, byte(m.kind))
}
