// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	"github.com/dgraph-io/badger/v4/fb"
	"github.com/klauspost/compress/snappy"
)

// Compression methods, by Badger's numbers.
const (
	compressionNone   = 0
	compressionSnappy = 1
)

// Limits of lengths in a file, beyond which it is taken to be damaged.
const (
	maxIndex = 1 << 30
	maxBlock = 64 << 20
)

// Bits of Badger's meta byte.
const (
	bitDelete       = 1 << 0
	bitValuePointer = 1 << 1
	bitTxn          = 1 << 6
	bitFinTxn       = 1 << 7
)

// entry is a version of a record as Badger keeps it. Its slices are valid until the next entry is read.
type entry struct {
	// key ends with the inverted version, so that newer ones sort first.
	key            []byte
	meta, userMeta byte
	expires        uint64
	value          []byte
}

// user is the key without the version.
func (e *entry) user() []byte { return e.key[:len(e.key)-8] }

func (e *entry) version() uint64 { return ^binary.BigEndian.Uint64(e.key[len(e.key)-8:]) }

// compareKeys compares keys with versions.
func compareKeys(a, b []byte) int {
	if c := bytes.Compare(a[:len(a)-8], b[:len(b)-8]); c != 0 {
		return c
	}
	return bytes.Compare(a[len(a)-8:], b[len(b)-8:])
}

// fileSummary is what a file says about the writes in it.
type fileSummary struct {
	commits   numberSet // numbers of writes
	upgrading newestRecord
	// versions are those of Badger, in no order. They are collected only if trackVersions is set.
	versions      numberSet
	trackVersions bool
	maxVersion    uint64
	gap, schema   newestRecord
	entries       int
}

// take adds an entry.
func (m *fileSummary) take(e *entry) {
	version := e.version()
	if m.trackVersions {
		m.versions.add(version)
	}
	m.maxVersion = max(m.maxVersion, version)
	m.entries++
	key := e.user()
	// The first byte rules out nearly all keys.
	if len(key) == 0 || key[0] != metadataPrefix[0] {
		return
	}
	exists := e.meta&bitDelete == 0
	switch {
	case bytes.Equal(key, upgradingKey):
		m.upgrading.take(newestRecord{version, map[bool]uint64{true: 1}[exists]})
	case !exists:
	case bytes.Equal(key, commitKey):
		if n, ok := number(e); ok {
			m.commits.add(n)
		}
	case bytes.Equal(key, gapKey):
		if n, ok := number(e); ok {
			m.gap.take(newestRecord{version, n})
		}
	case bytes.Equal(key, schemaKey):
		if len(e.value) == 4 {
			m.schema.take(newestRecord{version, uint64(binary.BigEndian.Uint32(e.value))})
		}
	}
}

// number returns the number in a metadata record.
func number(e *entry) (uint64, bool) {
	payload, ok := e.value, true
	if e.userMeta == checksummed {
		payload, ok = verifyChecksum(e.user(), e.value)
	}
	if !ok || len(payload) != 8 {
		return 0, false
	}
	return binary.BigEndian.Uint64(payload), true
}

// tableReport is what is known of a table.
type tableReport struct {
	id          uint64
	listed      bool
	level       uint32
	compression byte

	fileSummary
	size              int64
	smallest, biggest []byte
	problem           error
}

func tableName(id uint64) string { return fmt.Sprintf("%06d.sst", id) }

func (t *tableReport) name() string { return tableName(t.id) }

// buffers are reused for one file after another.
type buffers struct {
	file, block, key []byte
}

func newBuffers() *buffers { return &buffers{file: make([]byte, 0, 1<<20)} }

func (b *buffers) forFile(n int) []byte {
	if cap(b.file) < n {
		b.file = make([]byte, n)
	}
	return b.file[:n]
}

// read reads a whole table and notes what it holds and what is wrong with it.
func (t *tableReport) read(dir string, b *buffers) {
	if !t.listed {
		t.compression, t.trackVersions = compressionSnappy, true
	}
	f, err := openTable(filepath.Join(dir, t.name()), t.compression)
	if err == nil {
		t.size = f.size
		err = t.readBlocks(f, b)
		_ = f.Close()
	}
	t.problem = err
}

// readBlocks reads all blocks, including those behind a damaged one: their records count.
func (t *tableReport) readBlocks(f *tableFile, b *buffers) error {
	var damage error
	damaged := 0
	entries := uint32(0)
	last := make([]byte, 0, 128)
	for i := 0; i < len(f.blocks); {
		// Blocks are small: read several at once.
		n, size := 1, f.blocks[i].size
		for i+n < len(f.blocks) && f.blocks[i+n].offset == f.blocks[i].offset+size && size+f.blocks[i+n].size <= 1<<20 {
			size += f.blocks[i+n].size
			n++
		}
		buf := b.forFile(int(size))
		if _, err := f.ReadAt(buf, f.blocks[i].offset); err != nil {
			return err
		}
		for ; n > 0; n-- {
			at := f.blocks[i]
			err := t.readBlock(f, at, buf[:at.size], b, &last, &entries)
			if err != nil {
				if damaged++; damage == nil {
					damage = fmt.Errorf("the block at offset %d is damaged: %w", at.offset, err)
				}
			}
			buf = buf[at.size:]
			i++
		}
	}
	t.biggest = last
	switch {
	case !f.sound:
		return errors.New("its index is damaged")
	case damaged > 1:
		return fmt.Errorf("%w; %d of %d blocks are", damage, damaged, len(f.blocks))
	case damaged == 1:
		return damage
	case entries != f.entries || t.maxVersion != f.maxVersion:
		return fmt.Errorf("it has %d records and the newest is of version %d, its index says %d and %d",
			entries, t.maxVersion, f.entries, f.maxVersion)
	}
	return nil
}

// readBlock reads a block. The last key before it is in last.
func (t *tableReport) readBlock(
	f *tableFile, at blockAt, stored []byte, b *buffers, last *[]byte, entries *uint32,
) error {
	data, err := f.decode(stored, b)
	if err != nil {
		return err
	}
	first := true
	return eachEntry(data, b, func(e *entry) error {
		if first && !bytes.Equal(e.key, at.key) {
			return errors.New("it does not begin with the key in the index")
		}
		if len(*last) > 0 && compareKeys(*last, e.key) >= 0 {
			return errors.New("its keys are out of order")
		}
		if t.smallest == nil {
			t.smallest = bytes.Clone(e.key)
		}
		first = false
		*last = append((*last)[:0], e.key...)
		*entries++
		t.take(e)
		return nil
	})
}

// tableFile is an open table.
//
//	blocks   compressed: entries, their offsets, the number of these, checksum, its length
//	index    a flatbuffer with offset, length and first key of each block
//	footer   length of the index, checksum, its length
type tableFile struct {
	*os.File
	size        int64
	compression byte
	blocks      []blockAt
	entries     uint32
	maxVersion  uint64
	// sound says that the checksum of the index is right. Otherwise blocks are what could be decoded of it.
	sound bool
}

// blockAt says where a block is and with which key it begins.
type blockAt struct {
	offset, size int64
	key          []byte
}

// openTable opens a table and reads its index.
func openTable(path string, compression byte) (_ *tableFile, err error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a file")
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	f := &tableFile{File: file, size: info.Size(), compression: compression}
	if err := f.readIndex(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return f, nil
}

// footer reads the bytes that end at an offset with their length behind them, and returns where they begin.
func (f *tableFile) footer(end, most int64) ([]byte, int64, error) {
	var length [4]byte
	if end < 4 {
		return nil, 0, errShort
	}
	if _, err := f.ReadAt(length[:], end-4); err != nil {
		return nil, 0, err
	}
	n := int64(binary.BigEndian.Uint32(length[:]))
	if n > most || n > end-4 {
		return nil, 0, errShort
	}
	b := make([]byte, n)
	if _, err := f.ReadAt(b, end-4-n); err != nil {
		return nil, 0, err
	}
	return b, end - 4 - n, nil
}

var errShort = errors.New("it is cut short or does not end like a table")

func (f *tableFile) readIndex() (err error) {
	sum, end, err := f.footer(f.size, 32)
	if err != nil {
		return err
	}
	index, end, err := f.footer(end, maxIndex)
	if err != nil {
		return err
	}
	f.sound = bytes.Equal(sum, tableSum(index))
	// Reading a flatbuffer follows offsets in it. In a damaged one they may point anywhere.
	defer func() {
		if p := recover(); p != nil {
			err = errors.New("its index is damaged")
		}
	}()
	root := fb.GetRootAsTableIndex(index, 0)
	f.entries, f.maxVersion = root.KeyCount(), root.MaxVersion()
	n := root.OffsetsLength()
	if n == 0 || n > len(index) {
		return errors.New("its index is damaged")
	}
	next := int64(0)
	f.blocks = make([]blockAt, 0, n)
	var at fb.BlockOffset
	for i := range n {
		if !root.Offsets(&at, i) {
			return errors.New("its index is damaged")
		}
		b := blockAt{offset: int64(at.Offset()), size: int64(at.Len()), key: at.KeyBytes()}
		if b.offset != next || b.size == 0 || b.size > maxBlock || b.offset+b.size > end || len(b.key) < 8 {
			f.sound = false
			continue
		}
		next = b.offset + b.size
		f.blocks = append(f.blocks, b)
	}
	if next != end {
		f.sound = false
	}
	return nil
}

// tableSum returns a checksum as Badger writes it into tables: a protobuf message with a number.
func tableSum(b []byte) []byte {
	sum := crc32.Checksum(b, castagnoli)
	if sum == 0 {
		return nil
	}
	return binary.AppendUvarint([]byte{2 << 3}, uint64(sum))
}

// decode returns the content of a block, entries and their offsets, if the checksum is right.
func (f *tableFile) decode(stored []byte, b *buffers) ([]byte, error) {
	data := stored
	if f.compression == compressionSnappy {
		n, err := snappy.DecodedLen(stored)
		if err != nil || n > maxBlock || n > 64*len(stored)+64 {
			return nil, errors.New("it cannot be decompressed")
		}
		if cap(b.block) < n {
			b.block = make([]byte, n)
		}
		if data, err = snappy.Decode(b.block[:cap(b.block)], stored); err != nil {
			return nil, errors.New("it cannot be decompressed")
		}
	}
	if len(data) < 4 {
		return nil, io.ErrUnexpectedEOF
	}
	length := int(binary.BigEndian.Uint32(data[len(data)-4:]))
	if length > 16 || length > len(data)-4 {
		return nil, errors.New("its checksum is wrong")
	}
	sum := data[len(data)-4-length : len(data)-4]
	data = data[:len(data)-4-length]
	if !bytes.Equal(sum, tableSum(data)) {
		return nil, errors.New("its checksum is wrong")
	}
	return data, nil
}

var errEntry = errors.New("an entry in it is wrong")

// eachEntry calls each with the entries of a block. An entry is: the length of the prefix that its key shares with
// the first one, the length of the rest, the rest; meta bytes, expiry, and the value up to the next entry.
func eachEntry(data []byte, b *buffers, each func(*entry) error) error {
	if len(data) < 4 {
		return errEntry
	}
	n := int(binary.BigEndian.Uint32(data[len(data)-4:]))
	data = data[:len(data)-4]
	if n == 0 || n > len(data)/4 {
		return errEntry
	}
	offsets := data[len(data)-4*n:]
	data = data[:len(data)-4*n]
	var base []byte
	var e entry
	for i := range n {
		from, to := int(binary.NativeEndian.Uint32(offsets[4*i:])), len(data)
		if i+1 < n {
			to = int(binary.NativeEndian.Uint32(offsets[4*i+4:]))
		}
		if from > to || to > len(data) || to-from < 4 {
			return errEntry
		}
		at := data[from:to]
		shared, rest := int(binary.NativeEndian.Uint16(at)), int(binary.NativeEndian.Uint16(at[2:]))
		at = at[4:]
		if shared > len(base) || rest > len(at) || shared+rest < 8 {
			return errEntry
		}
		b.key = append(append(b.key[:0], base[:shared]...), at[:rest]...)
		if i == 0 {
			base = at[:rest]
		}
		at = at[rest:]
		if len(at) < 3 {
			return errEntry
		}
		expires, size := binary.Uvarint(at[2:])
		if size <= 0 {
			return errEntry
		}
		e = entry{key: b.key, meta: at[0], userMeta: at[1], expires: expires, value: at[2+size:]}
		if err := each(&e); err != nil {
			return err
		}
	}
	return nil
}
