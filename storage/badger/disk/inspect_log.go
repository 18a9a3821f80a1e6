// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strconv"
)

// A log of Badger, of a table in memory (*.mem) or of values (*.vlog), is:
//
//	header   number of the encryption key, 8 bytes; random bytes, 12
//	entries  meta bytes; length of the key, length of the value, expiry: unsigned varints; key; value; CRC-32C of all
//	rest     zeros
//
// The entries of a transaction are consecutive. The last one holds their version as text.
const (
	logHeader = 20
	// maxLog is the maximum size of a log: offsets in it have 32 bits.
	maxLog = 1<<32 - 1
	maxKey = 1 << 16
)

// logReport is what is known of a log.
type logReport struct {
	id uint64

	fileSummary             // of whole transactions
	size        int64       // of the file
	end         int64       // where the last whole transaction ends
	rest        bool        // something other than zeros follows the end
	behind      fileSummary // of the entries found behind the end
	// finished is the newest version whose end of transaction was found behind the end.
	finished uint64
	problem  error
}

func logName(id uint64) string { return fmt.Sprintf("%05d.mem", id) }

func (l *logReport) name() string { return logName(l.id) }

// read reads a log as Badger does, but without allocating what a damaged length asks for. It also notes what follows
// the place where Badger stops.
func (l *logReport) read(dir string) {
	l.trackVersions, l.behind.trackVersions = true, true
	l.problem = readLog(filepath.Join(dir, l.name()), l, func(e *entry, whole bool) error {
		if whole {
			l.take(e)
		} else {
			l.behind.take(e)
		}
		return nil
	})
}

var errHeader = errors.New("its header is damaged")

// readLog reads a log, notes in l where it ends, and calls each with its entries: those of whole transactions with
// whole set, then those that are found behind the end.
func readLog(path string, l *logReport, each func(e *entry, whole bool) error) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	l.size = info.Size()
	switch {
	case !info.Mode().IsRegular():
		return errors.New("it is not a file")
	case l.size > maxLog:
		return fmt.Errorf("it is %d bytes long, more than it can be", l.size)
	case l.size < logHeader:
		// Badger extends a log to the length of the header, unless it is empty.
		l.end = l.size
		return nil
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	header := make([]byte, logHeader)
	if _, err := file.ReadAt(header, 0); err != nil {
		return err
	}
	var damaged error
	if binary.BigEndian.Uint64(header) != 0 {
		damaged = errHeader
	}
	left := l.size - logHeader
	r := logReader{from: bufio.NewReaderSize(io.NewSectionReader(file, logHeader, left), 256<<10), left: left}
	if err := r.transactions(func(e *entry) error { return each(e, true) }); err != nil {
		return err
	}
	l.end = logHeader + r.end
	content, err := lastContent(file, l.end, l.size)
	if err != nil || content <= l.end {
		return errors.Join(err, damaged)
	}
	l.rest = true
	rest := make([]byte, content-l.end)
	if _, err := file.ReadAt(rest, l.end); err != nil {
		return err
	}
	err = scan(rest, func(e *entry) error {
		if e.meta&bitFinTxn != 0 {
			l.finished = max(l.finished, e.version())
			return nil
		}
		return each(e, false)
	})
	return errors.Join(err, damaged)
}

// lastContent returns the offset behind the last byte that is not zero, between from and to.
func lastContent(file io.ReaderAt, from, to int64) (int64, error) {
	buf := make([]byte, 256<<10)
	last := from
	for at := from; at < to; {
		b := buf[:min(int64(len(buf)), to-at)]
		if _, err := file.ReadAt(b, at); err != nil {
			return 0, err
		}
		if i := lastNonZero(b); i >= 0 {
			last = at + int64(i) + 1
		}
		at += int64(len(b))
	}
	return last, nil
}

func lastNonZero(b []byte) int {
	for len(b) >= 8 && len(b)%8 == 0 && binary.NativeEndian.Uint64(b[len(b)-8:]) == 0 {
		b = b[:len(b)-8]
	}
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] != 0 {
			return i
		}
	}
	return -1
}

// logReader reads entries one after another.
type logReader struct {
	from *bufio.Reader
	left int64 // bytes of the file that have not been read
	at   int64 // bytes of entries that have been read
	end  int64 // where the last whole transaction ends
	buf  []byte
}

// errEnd says that no valid entry follows.
var errEnd = errors.New("the log ends")

// next reads an entry. Its key and value are valid until buf is truncated.
func (r *logReader) next() (e entry, err error) {
	head, err := r.from.Peek(int(min(int64(maxEntryHeader), r.left)))
	if err != nil {
		return e, err
	}
	h, ok := decodeEntryHeader(head)
	if !ok || h.length() > r.left {
		return e, errEnd
	}
	from := len(r.buf)
	length := int(h.length())
	// Even a wrong length is not more than that of the file.
	for cap(r.buf) < from+length {
		r.buf = append(r.buf[:cap(r.buf)], 0)
	}
	r.buf = r.buf[:from+length]
	raw := r.buf[from:]
	if _, err := io.ReadFull(r.from, raw); err != nil {
		return e, err
	}
	r.left -= int64(length)
	if e, ok = h.entry(raw); !ok {
		return e, errEnd
	}
	r.at += int64(length)
	return e, nil
}

// transactions calls each with the entries of all whole transactions, up to where Badger stops.
func (r *logReader) transactions(each func(*entry) error) error {
	var open []entry
	version := uint64(0)
	for {
		if len(open) == 0 {
			r.buf = r.buf[:0]
		}
		e, err := r.next()
		if errors.Is(err, errEnd) {
			return nil
		}
		if err != nil {
			return err
		}
		switch {
		case e.meta&bitTxn != 0:
			if version == 0 {
				version = e.version()
			}
			if version != e.version() {
				return nil
			}
			open = append(open, e)
			continue
		case e.meta&bitFinTxn != 0:
			if n, err := strconv.ParseUint(string(e.value), 10, 64); err != nil || n != version {
				return nil
			}
			for i := range open {
				if err := each(&open[i]); err != nil {
					return err
				}
			}
			open, version = open[:0], 0
		case version != 0:
			return nil
		default:
			if err := each(&e); err != nil {
				return err
			}
		}
		r.end = r.at
	}
}

// scan calls each with every valid entry that it finds in what follows the end of a log.
func scan(b []byte, each func(*entry) error) error {
	for i := 0; i < len(b); {
		h, ok := decodeEntryHeader(b[i:])
		if ok && h.length() <= int64(len(b)-i) {
			if e, ok := h.entry(b[i : i+int(h.length())]); ok {
				if err := each(&e); err != nil {
					return err
				}
				i += int(h.length())
				continue
			}
		}
		i++
	}
	return nil
}

// entryHeader is the part of an entry before the key.
type entryHeader struct {
	meta, userMeta byte
	size           int
	key, value     uint32
	expires        uint64
}

const maxEntryHeader = 22

// decodeEntryHeader decodes a header. It refuses one that Badger never writes.
func decodeEntryHeader(b []byte) (h entryHeader, ok bool) {
	if len(b) < 5 {
		return h, false
	}
	h.meta, h.userMeta, h.size = b[0], b[1], 2
	var n [3]uint64
	for i := range n {
		var size int
		if n[i], size = binary.Uvarint(b[h.size:min(len(b), maxEntryHeader)]); size <= 0 {
			return h, false
		}
		h.size += size
	}
	// A key ends with its version.
	if n[0] <= 8 || n[0] > maxKey || n[1] > maxLog {
		return h, false
	}
	h.key, h.value, h.expires = uint32(n[0]), uint32(n[1]), n[2]
	return h, true
}

// length is the length of the whole entry.
func (h *entryHeader) length() int64 { return int64(h.size) + int64(h.key) + int64(h.value) + 4 }

// entry returns the entry in raw, which has its length, if the checksum is right.
func (h *entryHeader) entry(raw []byte) (entry, bool) {
	body := raw[:len(raw)-4]
	if crc32.Checksum(body, castagnoli) != binary.BigEndian.Uint32(raw[len(raw)-4:]) {
		return entry{}, false
	}
	key := body[h.size : h.size+int(h.key) : h.size+int(h.key)]
	value := body[h.size+int(h.key):]
	return entry{key: key, meta: h.meta, userMeta: h.userMeta, expires: h.expires, value: value}, true
}
