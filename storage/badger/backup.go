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
	sum := sha256.New()
	w := bufio.NewWriterSize(io.MultiWriter(to, sum), 64<<10)
	_, err := w.WriteString(backupHeader + string(rune(backupVersion)))
	it := txn.NewIterator(badger.DefaultIteratorOptions)
	defer it.Close()
	records := uint64(0)
	var buf []byte
	for it.Rewind(); err == nil && it.Valid(); it.Next() {
		if err = ctx.Err(); err != nil {
			break
		}
		item := it.Item()
		err = item.Value(func(v []byte) error {
			buf = binary.AppendUvarint(buf[:0], uint64(len(item.Key())))
			buf = append(buf, item.Key()...)
			buf = binary.AppendUvarint(buf, uint64(len(v)))
			buf = append(buf, v...)
			buf = binary.AppendUvarint(buf, item.ExpiresAt())
			_, err := w.Write(buf)
			return err
		})
		records++
	}
	if err != nil {
		return err
	}
	if _, err := w.Write(binary.BigEndian.AppendUint64([]byte{0}, records)); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err = to.Write(sum.Sum(nil))
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

func (s *Store) loadRecords(ctx context.Context, r io.Reader) error {
	in := &summed{from: bufio.NewReaderSize(r, 64<<10), sum: sha256.New()}
	header := make([]byte, len(backupHeader)+1)
	if err := in.read(header); err != nil || string(header[:len(backupHeader)]) != backupHeader {
		return fmt.Errorf("%w: it does not begin like one", ErrBackup)
	}
	if v := header[len(backupHeader)]; v != backupVersion {
		return fmt.Errorf("%w that this version can read: it has format %d", ErrBackup, v)
	}
	now := uint64(time.Now().Unix())
	var entries []*badger.Entry
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
			if err := s.writeEntries(entries); err != nil {
				return err
			}
			entries, size = entries[:0], 0
		}
		if e == nil {
			return in.end(records)
		}
		records++
		if e.ExpiresAt == 0 || e.ExpiresAt > now {
			entries = append(entries, e)
			size += len(e.Key) + len(e.Value)
		}
	}
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
func (r *summed) record() (*badger.Entry, error) {
	length, err := r.number(maxBackupKey)
	if err != nil || length == 0 {
		return nil, err
	}
	e := &badger.Entry{Key: make([]byte, length)}
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
	e.ExpiresAt, err = r.number(1 << 62)
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
