// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package badger

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"

	"github.com/caddy-moderation/caddy-moderation/storage/badger/disk"
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
	snapshot, err := s.keeper.snapshot()
	if err != nil {
		return err
	}
	defer snapshot.Close()
	return writeBackup(ctx, snapshot, w, s.closing)
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

func writeBackup(ctx context.Context, from snapshot, to io.Writer, closing <-chan struct{}) error {
	w := newBackupWriter(to)
	for {
		part, err := from.Next()
		if err != nil {
			return unavailable(err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-closing:
			return errClosed
		default:
		}
		if len(part) == 0 {
			return w.end()
		}
		for _, r := range part {
			if r.Damaged {
				return unavailable(fmt.Errorf("%w: %s", errDamaged, describe(r.Key)))
			}
			if err := w.record(r.Key, r.Value); err != nil {
				return err
			}
		}
	}
}

// backupWriter writes a backup.
type backupWriter struct {
	to      io.Writer
	sum     hash.Hash
	w       *bufio.Writer
	records uint64
	buf     []byte
}

// newBackupWriter begins a backup. What goes wrong with that is told by what follows.
func newBackupWriter(to io.Writer) *backupWriter {
	b := &backupWriter{to: to, sum: sha256.New()}
	b.w = bufio.NewWriterSize(io.MultiWriter(to, b.sum), 64<<10)
	_, _ = b.w.WriteString(backupHeader + string(rune(backupVersion)))
	_ = b.record(schemaKey, encodeSchema(schema))
	return b
}

// record writes a record that does not expire.
func (b *backupWriter) record(key, value []byte) error {
	b.records++
	b.buf = binary.AppendUvarint(b.buf[:0], uint64(len(key)))
	b.buf = append(b.buf, key...)
	b.buf = binary.AppendUvarint(b.buf, uint64(len(value)))
	b.buf = append(append(b.buf, value...), 0)
	_, err := b.w.Write(b.buf)
	return err
}

// end writes what makes the backup a whole one.
func (b *backupWriter) end() error {
	if _, err := b.w.Write(binary.BigEndian.AppendUint64([]byte{0}, b.records)); err != nil {
		return err
	}
	if err := b.w.Flush(); err != nil {
		return err
	}
	_, err := b.to.Write(b.sum.Sum(nil))
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
	if err := errors.Join(disk.SyncFile(dir), load(ctx, dir, r)); err != nil {
		return errors.Join(fmt.Errorf("restore into %s: %w", dir, err), empty(dir))
	}
	return errors.Join(os.Remove(mark), disk.SyncFile(dir))
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
	s, err := open(dir, Options{Dir: dir, InProcess: true})
	if err != nil {
		return err
	}
	if err := s.loadRecords(ctx, r); err != nil {
		return errors.Join(err, s.Close())
	}
	return errors.Join(s.keeper.sync(), s.Close())
}

func (s *Store) loadRecords(ctx context.Context, r io.Reader) error {
	in := &summed{from: bufio.NewReaderSize(r, 64<<10), sum: sha256.New()}
	header := make([]byte, len(backupHeader)+1)
	if err := in.read(header); err != nil || string(header[:len(backupHeader)]) != backupHeader {
		return fmt.Errorf("%w: it does not begin like one", ErrBackup)
	}
	if v := header[len(backupHeader)]; v != backupVersion {
		return fmt.Errorf("%w that this version can read: it has format %d", ErrBackup, v)
	}
	var entries []disk.Entry
	size, records := 0, uint64(0)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		e, err := in.record()
		if err != nil {
			return err
		}
		if e == nil || size > 256<<10 {
			if _, err := s.keeper.write(entries); err != nil {
				return err
			}
			entries, size = entries[:0], 0
		}
		if e == nil {
			return in.end(records)
		}
		records++
		if bytes.Equal(e.Key, schemaKey) {
			if err := checkSchema(e.Value); err != nil {
				return err
			}
			continue // the database has its own
		}
		entries = append(entries, *e)
		size += len(e.Key) + len(e.Value)
	}
}

// checkSchema refuses records of a layout that this version does not know.
func checkSchema(value []byte) error {
	version, err := decodeSchema(value)
	if err != nil || version > schema {
		return fmt.Errorf("%w that this version can read: its records have schema %d", ErrBackup, version)
	}
	return nil
}

// summed reads a backup and sums what it reads.
type summed struct {
	from *bufio.Reader
	sum  hash.Hash
}

func (r *summed) read(b []byte) error {
	if _, err := io.ReadFull(r.from, b); err != nil {
		return r.short(err)
	}
	r.sum.Write(b)
	return nil
}

// ReadByte implements [io.ByteReader].
func (r *summed) ReadByte() (byte, error) {
	b, err := r.from.ReadByte()
	if err == nil {
		r.sum.Write([]byte{b})
	}
	return b, err
}

func (r *summed) number(most uint64) (uint64, error) {
	n, err := binary.ReadUvarint(r)
	if err != nil {
		return 0, r.short(err)
	}
	if n > most {
		return 0, fmt.Errorf("%w: it is damaged", ErrBackup)
	}
	return n, nil
}

func (r *summed) short(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it ends too early", ErrBackup)
	}
	return err
}

// record returns the next record, or nil at the end.
//
// The time at which it expires, which earlier versions wrote, is read over: clocks may be wrong, and what has expired is deleted
// when its account is used.
func (r *summed) record() (*disk.Entry, error) {
	length, err := r.number(maxBackupKey)
	if err != nil || length == 0 {
		return nil, err
	}
	e := &disk.Entry{Key: make([]byte, length)}
	if err := r.read(e.Key); err != nil {
		return nil, err
	}
	if length, err = r.number(maxBackupItem); err != nil {
		return nil, err
	}
	e.Value = make([]byte, length)
	if err := r.read(e.Value); err != nil {
		return nil, err
	}
	_, err = r.number(1 << 62)
	return e, err
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
	if _, err := r.from.ReadByte(); err != io.EOF {
		return fmt.Errorf("%w: something follows its end", ErrBackup)
	}
	return nil
}
