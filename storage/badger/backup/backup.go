// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package backup writes and reads backup files. It knows nothing of databases: a record is a key, a value and an
// expiry. A backup consists of:
//
//	header   "caddy-moderation backup\n" and one byte, the version of this format
//	records  key length, key, value length, value, expiry in Unix seconds or 0; numbers as unsigned varints
//	end      a key length of 0, the number of records as 8 bytes big-endian
//	sum      SHA-256 of everything before
package backup

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
)

const (
	magic     = "caddy-moderation backup\n"
	version   = 1
	maxKey    = 1 << 16
	maxValue  = 16 << 20
	maxExpiry = 1 << 62
)

// ErrNotWhole says that a file is not a backup, or not a whole one.
var ErrNotWhole = errors.New("not a whole backup")

// Writer writes a backup and computes its checksum.
type Writer struct {
	to      io.Writer
	sum     hash.Hash
	out     *bufio.Writer
	records uint64
	buf     []byte
}

// NewWriter begins a backup. It is whole after [Writer.Close].
func NewWriter(to io.Writer) *Writer {
	w := &Writer{to: to, sum: sha256.New()}
	w.out = bufio.NewWriterSize(io.MultiWriter(to, w.sum), 16<<10)
	// An error here is returned again at the end.
	_, _ = w.out.WriteString(magic + string(rune(version)))
	return w
}

// Record writes a record. The key must not be empty. An expiry of 0 is none.
func (w *Writer) Record(key, value []byte, expires uint64) error {
	w.records++
	w.buf = binary.AppendUvarint(w.buf[:0], uint64(len(key)))
	w.buf = append(w.buf, key...)
	w.buf = binary.AppendUvarint(w.buf, uint64(len(value)))
	w.buf = append(w.buf, value...)
	w.buf = binary.AppendUvarint(w.buf, expires)
	_, err := w.out.Write(w.buf)
	return err
}

// Close writes the end of the backup. It does not close the underlying writer.
func (w *Writer) Close() error {
	if _, err := w.out.Write(binary.BigEndian.AppendUint64([]byte{0}, w.records)); err != nil {
		return err
	}
	if err := w.out.Flush(); err != nil {
		return err
	}
	_, err := w.to.Write(w.sum.Sum(nil))
	return err
}

// Read calls each with the records of a backup. Each may keep its arguments. Whether the backup is whole is known when
// Read returns. An error wraps [ErrNotWhole], or is that of r or of each.
func Read(r io.Reader, each func(key, value []byte, expires uint64) error) error {
	in := &summed{from: bufio.NewReaderSize(r, 16<<10), sum: sha256.New()}
	if err := in.header(); err != nil {
		return err
	}
	for records := uint64(0); ; records++ {
		length, err := in.number(maxKey)
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
		if length, err = in.number(maxValue); err != nil {
			return err
		}
		value, err := in.bytes(length)
		if err != nil {
			return err
		}
		expires, err := in.number(maxExpiry)
		if err != nil {
			return err
		}
		if err := each(key, value, expires); err != nil {
			return err
		}
	}
}

// summed reads a backup and computes its checksum.
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
		return fmt.Errorf("%w: it ends too early", ErrNotWhole)
	}
	return err
}

func (r *summed) header() error {
	header := make([]byte, len(magic)+1)
	err := r.read(header)
	if err != nil && !errors.Is(err, ErrNotWhole) {
		return err
	}
	if err != nil || string(header[:len(magic)]) != magic {
		return fmt.Errorf("%w: it does not begin like one", ErrNotWhole)
	}
	if v := header[len(magic)]; v != version {
		return fmt.Errorf("%w that this version can read: it has format %d", ErrNotWhole, v)
	}
	return nil
}

// number reads an unsigned varint of at most limit, encoded in as few bytes as possible.
func (r *summed) number(limit uint64) (uint64, error) {
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
		if n > limit || b == 0 && shift > 0 {
			break
		}
		return n, nil
	}
	return 0, fmt.Errorf("%w: it is damaged", ErrNotWhole)
}

// bytes reads length bytes. The length may be wrong: memory is allocated for the bytes that follow, not for the length.
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

// end reads and checks what follows the records.
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
		return fmt.Errorf("%w: its sum does not fit what it holds", ErrNotWhole)
	}
	_, err := r.from.ReadByte()
	if err == nil {
		return fmt.Errorf("%w: something follows its end", ErrNotWhole)
	}
	if err != io.EOF {
		return err
	}
	return nil
}
