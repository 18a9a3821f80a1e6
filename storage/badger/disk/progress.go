// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// The file PROGRESS notes how far the database has come, in two slots that are written in turn. While one is written,
// the other is whole:
//
//	"cmprog1\n"
//	sequence     8 bytes, larger than the other slot's; its lowest bit is the slot
//	committed    8 bytes, number of the last write that was in the kernel's hands
//	synced       8 bytes, number of the last write that had been synced
//	boot         16 bytes, the boot id of the kernel that committed it, zeros where that is not known
//	identity     16 bytes
//	CRC-32C      4 bytes, of all before
//
// Numbers are big-endian. As long as the kernel runs, everything that was committed must be there when the database
// is opened; after another boot everything that was synced. The file may be behind the database and is never ahead of
// it.
const (
	progressName  = "PROGRESS"
	progressMagic = "cmprog1\n"
	progressSlot  = 512
	progressSize  = len(progressMagic) + 3*8 + 16 + 16 + crc32.Size
)

// progress is the content of a slot.
type progress struct {
	sequence, committed, synced uint64
	boot                        [16]byte
	identity                    Identity
}

func (p progress) append(b []byte) []byte {
	from := len(b)
	b = append(b, progressMagic...)
	for _, n := range []uint64{p.sequence, p.committed, p.synced} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	b = append(append(b, p.boot[:]...), p.identity[:]...)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b[from:], castagnoli))
}

// decodeProgress reads a slot.
func decodeProgress(b []byte) (p progress, whole bool) {
	if len(b) < progressSize || string(b[:len(progressMagic)]) != progressMagic {
		return p, false
	}
	b = b[:progressSize]
	body, sum := b[:progressSize-crc32.Size], b[progressSize-crc32.Size:]
	if binary.BigEndian.Uint32(sum) != crc32.Checksum(body, castagnoli) {
		return p, false
	}
	body = body[len(progressMagic):]
	p.sequence = binary.BigEndian.Uint64(body)
	p.committed = binary.BigEndian.Uint64(body[8:])
	p.synced = binary.BigEndian.Uint64(body[16:])
	copy(p.boot[:], body[24:])
	copy(p.identity[:], body[40:])
	return p, true
}

// errNoProgress says that neither slot of the file is whole.
var errNoProgress = errors.New("neither note in it is whole")

// readProgress returns the newest slot of the file in a directory. The error wraps [fs.ErrNotExist] if there is no
// file.
func readProgress(dir string) (p progress, err error) {
	f, err := os.Open(filepath.Join(dir, progressName))
	if err != nil {
		return p, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 2*progressSlot))
	if err != nil {
		return p, err
	}
	found := false
	for slot := 0; slot < len(b); slot += progressSlot {
		if q, whole := decodeProgress(b[slot:]); whole && (!found || q.sequence > p.sequence) {
			p, found = q, true
		}
	}
	if !found {
		return p, fmt.Errorf("%s: %w", filepath.Join(dir, progressName), errNoProgress)
	}
	return p, nil
}

// progressFile is the open file. It is not safe for concurrent use.
type progressFile struct {
	file *os.File
	last progress
	buf  []byte
}

// openProgress opens the file, or makes it with a first slot.
func openProgress(dir string, first progress) (*progressFile, error) {
	last, err := readProgress(dir)
	if errors.Is(err, fs.ErrNotExist) {
		last, err = first, nil
	}
	if err != nil {
		return nil, err
	}
	// After the loss of power the database may be behind what was committed before.
	last.boot, last.committed, last.synced = first.boot, first.committed, min(last.synced, first.committed)
	f, err := os.OpenFile(filepath.Join(dir, progressName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	w := &progressFile{file: f, last: last}
	// Both slots, so that damage to one of them is no loss.
	if err := errors.Join(w.write(last.committed, last.synced), w.write(last.committed, last.synced),
		f.Sync()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return w, nil
}

// write writes the next slot.
func (f *progressFile) write(committed, synced uint64) error {
	f.last.sequence++
	f.last.committed, f.last.synced = committed, synced
	f.buf = f.last.append(f.buf[:0])
	_, err := f.file.WriteAt(f.buf, int64(f.last.sequence%2)*progressSlot)
	return err
}

// bootID returns the boot id of the kernel, or zeros if it is not known.
func bootID() (id [16]byte) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return id
	}
	digits := bytes.ReplaceAll(bytes.TrimSpace(b), []byte("-"), nil)
	if n, err := hex.Decode(id[:], digits[:min(len(digits), 2*len(id))]); err != nil || n != len(id) {
		return [16]byte{}
	}
	return id
}
