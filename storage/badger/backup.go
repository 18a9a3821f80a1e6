// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package badger

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// A backup is:
//
//	header   "caddy-moderation backup\n" and one byte, the version of this format
//	records  key length, key, value length, value, expiry in Unix seconds or 0; numbers as unsigned varints
//	end      a key length of 0, the number of records as 8 bytes big-endian
//	sum      SHA-256 of everything before
//
// Records are those of the layout, so a backup can be restored by every version that reads the schema.
const (
	backupHeader  = "caddy-moderation backup\n"
	backupVersion = 1
	maxBackupKey  = 1 << 16
	maxBackupItem = 16 << 20
)

// unfinished is a file that stands in a directory while a backup is restored into it.
const unfinished = "RESTORE-UNFINISHED"

// ErrBackup says that what was to be restored is not a whole backup.
var ErrBackup = errors.New("not a whole backup")

// Backup implements [storage.Store]. The store does not wait for w: closing it ends a backup that is under way with an error.
func (s *Store) Backup(ctx context.Context, w io.Writer) error {
	// What was acknowledged is committed already. This adds what was charged and is not settled yet.
	if err := s.flush(ctx); err != nil {
		return err
	}
	from, to := io.Pipe()
	if err := s.enter(); err != nil {
		return err
	}
	go func() {
		defer s.leave()
		to.CloseWithError(s.db.View(func(txn *badger.Txn) error { return writeBackup(ctx, txn, to) }))
	}()
	// The writer above must not outlive this call, and must not keep the store from closing while w is slow.
	defer from.CloseWithError(context.Canceled)
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-s.closing:
			to.CloseWithError(errClosed)
		case <-ctx.Done():
			to.CloseWithError(ctx.Err())
		case <-stop:
		}
	}()
	_, err := io.Copy(w, from)
	return err
}

// flush commits the counts as they are.
func (s *Store) flush(ctx context.Context) error {
	c := &s.counters
	c.mu.Lock()
	if c.stopped {
		c.mu.Unlock()
		return errClosed
	}
	b := c.open
	c.poke()
	c.mu.Unlock()
	return b.wait(ctx)
}

func writeBackup(ctx context.Context, txn *badger.Txn, to io.Writer) error {
	it := txn.NewIterator(badger.DefaultIteratorOptions)
	defer it.Close()
	w := newBackupWriter(to)
	for it.Rewind(); it.Valid(); it.Next() {
		if err := ctx.Err(); err != nil {
			return err
		}
		item := it.Item()
		if err := item.Value(func(v []byte) error { return w.record(item.Key(), v, item.ExpiresAt()) }); err != nil {
			return err
		}
	}
	return w.end()
}

// backupWriter writes a backup and sums what it writes.
type backupWriter struct {
	to      io.Writer
	sum     hash.Hash
	out     *bufio.Writer
	records uint64
	buf     []byte
}

func newBackupWriter(to io.Writer) *backupWriter {
	w := &backupWriter{to: to, sum: sha256.New()}
	w.out = bufio.NewWriterSize(io.MultiWriter(to, w.sum), 64<<10)
	// What fails here fails again at the end.
	_, _ = w.out.WriteString(backupHeader + string(rune(backupVersion)))
	return w
}

func (w *backupWriter) record(key, value []byte, expires uint64) error {
	w.records++
	w.buf = binary.AppendUvarint(w.buf[:0], uint64(len(key)))
	w.buf = append(w.buf, key...)
	w.buf = binary.AppendUvarint(w.buf, uint64(len(value)))
	w.buf = append(w.buf, value...)
	w.buf = binary.AppendUvarint(w.buf, expires)
	_, err := w.out.Write(w.buf)
	return err
}

func (w *backupWriter) end() error {
	if _, err := w.out.Write(binary.BigEndian.AppendUint64([]byte{0}, w.records)); err != nil {
		return err
	}
	if err := w.out.Flush(); err != nil {
		return err
	}
	_, err := w.to.Write(w.sum.Sum(nil))
	return err
}

// Restore makes a database in dir from a backup. The directory must be missing or empty. Until the whole backup has been
// read, checked and synced, the directory cannot be opened; after an error it is as empty as before. Errors wrap [ErrBackup]
// when the backup is not one, or not a whole one.
func Restore(ctx context.Context, dir string, r io.Reader) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	found, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	for _, f := range found {
		// A new file system of its own is not quite empty.
		if f.Name() != "lost+found" {
			return fmt.Errorf("restore: the directory %s is not empty", dir)
		}
	}
	mark := filepath.Join(dir, unfinished)
	if err := os.WriteFile(mark, []byte("A backup is being restored into this directory.\n"), 0o600); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	if err := errors.Join(syncFile(dir), load(ctx, dir, r)); err != nil {
		return errors.Join(fmt.Errorf("restore into %s: %w", dir, err), empty(dir))
	}
	return errors.Join(os.Remove(mark), syncFile(dir))
}

// empty removes what a restore has made; the mark last.
func empty(dir string) error {
	found, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range found {
		if !f.IsDir() && f.Name() != unfinished {
			err = errors.Join(err, os.Remove(filepath.Join(dir, f.Name())))
		}
	}
	if err != nil {
		return err
	}
	return os.Remove(filepath.Join(dir, unfinished))
}

// load opens a database, fills it and closes it.
func load(ctx context.Context, dir string, r io.Reader) error {
	s, err := open(dir, Options{Dir: dir})
	if err != nil {
		return err
	}
	if err := s.loadRecords(ctx, r); err != nil {
		return errors.Join(err, s.Close())
	}
	err = s.checkSchema()
	return errors.Join(err, s.sync(), s.Close())
}

// loadRecords writes what a backup holds. What it wrote before an error stays.
func (s *Store) loadRecords(ctx context.Context, r io.Reader) error {
	now := uint64(time.Now().Unix())
	var entries []*badger.Entry
	size := 0
	err := readBackup(r, func(key, value []byte, expires uint64) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if expires != 0 && expires <= now {
			return nil
		}
		entries = append(entries, &badger.Entry{Key: key, Value: value, ExpiresAt: expires})
		if size += len(key) + len(value); size <= 256<<10 {
			return nil
		}
		full := entries
		entries, size = nil, 0
		return s.writeEntries(full)
	})
	if err != nil {
		return err
	}
	return s.writeEntries(entries)
}

// readBackup calls each with the records of a backup, which may keep what it is given, and returns its error. Whether the
// backup is whole is known when readBackup returns. An error wraps [ErrBackup], or is that of r or of each.
func readBackup(r io.Reader, each func(key, value []byte, expires uint64) error) error {
	in := &summed{from: bufio.NewReaderSize(r, 64<<10), sum: sha256.New()}
	if err := in.header(); err != nil {
		return err
	}
	for records := uint64(0); ; records++ {
		length, err := in.number(maxBackupKey)
		if err != nil {
			return err
		}
		if length == 0 {
			return in.end(records)
		}
		key, err := in.bytes(length)
		if err != nil {
			return err
		}
		if length, err = in.number(maxBackupItem); err != nil {
			return err
		}
		value, err := in.bytes(length)
		if err != nil {
			return err
		}
		expires, err := in.number(1 << 62)
		if err != nil {
			return err
		}
		if err := each(key, value, expires); err != nil {
			return err
		}
	}
}

// summed reads a backup and sums what it reads.
type summed struct {
	from *bufio.Reader
	sum  hash.Hash
	one  [1]byte
}

func (r *summed) read(b []byte) error {
	if _, err := io.ReadFull(r.from, b); err != nil {
		return r.short(err)
	}
	r.sum.Write(b)
	return nil
}

func (r *summed) short(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it ends too early", ErrBackup)
	}
	return err
}

func (r *summed) header() error {
	header := make([]byte, len(backupHeader)+1)
	err := r.read(header)
	if err != nil && !errors.Is(err, ErrBackup) {
		return err
	}
	if err != nil || string(header[:len(backupHeader)]) != backupHeader {
		return fmt.Errorf("%w: it does not begin like one", ErrBackup)
	}
	if v := header[len(backupHeader)]; v != backupVersion {
		return fmt.Errorf("%w that this version can read: it has format %d", ErrBackup, v)
	}
	return nil
}

// number reads an unsigned varint, written in as few bytes as it fits in.
func (r *summed) number(most uint64) (uint64, error) {
	n := uint64(0)
	for shift := 0; shift < 63; shift += 7 {
		if err := r.read(r.one[:]); err != nil {
			return 0, err
		}
		b := r.one[0]
		n |= uint64(b&0x7f) << shift
		if b >= 0x80 {
			continue
		}
		if n > most || b == 0 && shift > 0 {
			break
		}
		return n, nil
	}
	return 0, fmt.Errorf("%w: it is damaged", ErrBackup)
}

// bytes reads so many bytes. A length is a claim of whoever made the file: memory is taken for what follows it, not for what
// it says.
func (r *summed) bytes(length uint64) ([]byte, error) {
	const piece = 64 << 10
	b := make([]byte, 0, min(length, piece))
	for uint64(len(b)) < length {
		if len(b) == cap(b) {
			b = slices.Grow(b, int(min(length-uint64(len(b)), uint64(len(b)))))
		}
		part := b[len(b):min(uint64(cap(b)), length)]
		if err := r.read(part); err != nil {
			return nil, err
		}
		b = b[:len(b)+len(part)]
	}
	return b, nil
}

// end checks what follows the records.
func (r *summed) end(records uint64) error {
	var count [8]byte
	if err := r.read(count[:]); err != nil {
		return err
	}
	computed := r.sum.Sum(nil)
	written := make([]byte, sha256.Size)
	if err := r.read(written); err != nil {
		return err
	}
	if binary.BigEndian.Uint64(count[:]) != records || string(written) != string(computed) {
		return fmt.Errorf("%w: its sum does not fit what it holds", ErrBackup)
	}
	_, err := r.from.ReadByte()
	if err == nil {
		return fmt.Errorf("%w: something follows its end", ErrBackup)
	}
	if err != io.EOF {
		return err
	}
	return nil
}
