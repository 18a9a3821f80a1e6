// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"bytes"
	"container/heap"
	"encoding/binary"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// SalvagedRecord is a record that is left in a directory, in its newest version that can be read.
type SalvagedRecord struct {
	Key []byte
	// Value is nil if Damaged is set.
	Value []byte
	// Expires is the Unix time at which the record expires, 0 for never.
	Expires uint64
	// Damaged says that the checksum is wrong.
	Damaged bool
}

// LostRange is a part of a file that could not be read.
type LostRange struct {
	// File is the name of the file.
	File string
	// From and To are the keys between which records are lost, nil if they are not known.
	From, To []byte
	// Unlisted says that nothing is known to be lost, but that deleted records may be back, because the table is not
	// listed in MANIFEST.
	Unlisted bool
}

// Salvage calls each with every record that is left in an inspected directory, in the order of their keys, and
// returns where others are lost. If the newest version of a record is lost, Salvage finds an older one, if there is
// one. The slices of a record are valid until each returns.
func (r *Report) Salvage(each func(SalvagedRecord) error) ([]LostRange, error) {
	s := salvage{report: r}
	if err := s.open(); err != nil {
		return nil, err
	}
	defer s.close()
	var last []byte
	for len(s.sources) > 0 {
		from := s.sources[0]
		if !from.opened {
			if err := from.open(&s); err != nil {
				return nil, err
			}
			s.fixTop()
			continue
		}
		e := from.entries[0]
		if last == nil || !bytes.Equal(e.user(), last) {
			last = append(last[:0], e.user()...)
			if found, there := r.record(&e); there {
				if err := each(found); err != nil {
					return nil, err
				}
			}
		}
		from.entries = from.entries[1:]
		if len(from.entries) == 0 {
			if err := from.next(&s); err != nil {
				return nil, err
			}
		}
		s.fixTop()
	}
	slices.SortStableFunc(s.lost, func(a, b LostRange) int { return strings.Compare(a.File, b.File) })
	return s.lost, nil
}

// salvage merges what is in tables and logs.
type salvage struct {
	report  *Report
	sources sources
	lost    []LostRange
}

// open prepares the sources.
func (s *salvage) open() error {
	// Without MANIFEST, or behind the place where it is damaged, it is not known which tables count. One too many
	// does less harm than one too few: the newest version of each record counts.
	unlisted := slices.ContainsFunc(s.report.Findings, func(f Finding) bool {
		return f.Damage &&
			f.File == manifestName
	})
	for _, t := range s.report.tables {
		if !t.listed && !unlisted {
			continue
		}
		if !t.listed {
			s.lost = append(s.lost, LostRange{File: t.name(), Unlisted: true})
		}
		from := &source{table: t}
		if t.problem == nil && len(t.smallest) > 0 {
			// The table is opened when its first key is next.
			from.entries = []entry{{key: t.smallest}}
		} else if err := from.open(s); err != nil {
			return err
		}
		s.sources = append(s.sources, from)
	}
	for _, l := range s.report.logs {
		entries, err := salvageLog(filepath.Join(s.report.Dir, l.name()))
		if err != nil {
			return err
		}
		slices.SortFunc(entries, func(a, b entry) int { return compareKeys(a.key, b.key) })
		s.sources = append(s.sources, &source{opened: true, entries: entries})
		if l.problem != nil || l.rest && l.behind.entries > 0 {
			s.lost = append(s.lost, LostRange{File: l.name()})
		}
	}
	s.sources = slices.DeleteFunc(s.sources, func(f *source) bool { return len(f.entries) == 0 })
	heap.Init(&s.sources)
	return nil
}

// fixTop restores the heap after the source at the top has moved on.
func (s *salvage) fixTop() {
	if len(s.sources[0].entries) == 0 {
		heap.Pop(&s.sources)
		return
	}
	heap.Fix(&s.sources, 0)
}

func (s *salvage) close() {
	for _, from := range s.sources {
		from.close()
	}
}

// record returns the salvaged record of an entry, false if there is none to return.
func (r *Report) record(e *entry) (SalvagedRecord, bool) {
	if e.meta&bitDelete != 0 || isMetadata(e.user()) || bytes.HasPrefix(e.user(), badgerPrefix) {
		return SalvagedRecord{}, false
	}
	f := SalvagedRecord{Key: e.user(), Value: e.value, Expires: e.expires}
	switch {
	case e.meta&bitValuePointer != 0:
		f.Damaged = true
	case e.userMeta == checksummed:
		payload, ok := verifyChecksum(f.Key, f.Value)
		f.Value, f.Damaged = payload, !ok
	default:
		f.Damaged = r.Schema > 1 && !r.upgrading
	}
	if f.Damaged {
		f.Value = nil
	}
	return f, true
}

// badgerPrefix begins the keys of Badger's own records.
var badgerPrefix = []byte("!badger!")

// source is a table or a log whose entries are read in the order of their keys.
type source struct {
	opened    bool
	table     *tableReport
	file      *tableFile
	block     int
	unindexed []byte // consecutive blocks of a table that has lost its index
	entries   []entry
}

// sources are a heap by their next keys.
type sources []*source

func (s sources) Len() int { return len(s) }
func (s sources) Less(i, j int) bool {
	c := compareKeys(s[i].entries[0].key, s[j].entries[0].key)
	// A table that is not open yet has no entry: only its first key is known.
	return c < 0 || c == 0 && !s[i].opened && s[j].opened
}
func (s sources) Swap(i, j int) { s[i], s[j] = s[j], s[i] }

// Push implements [heap.Interface].
func (s *sources) Push(x any) { *s = append(*s, x.(*source)) }

// Pop implements [heap.Interface].
func (s *sources) Pop() any {
	last := len(*s) - 1
	x := (*s)[last]
	*s = (*s)[:last]
	return x
}

// open opens a table and reads its first block.
func (f *source) open(s *salvage) error {
	f.opened, f.entries = true, nil
	path := filepath.Join(s.report.Dir, f.table.name())
	compression := f.table.compression
	if !f.table.listed {
		compression = compressionSnappy
	}
	var err error
	if f.file, err = openTable(path, compression); err != nil {
		if errors.Is(err, fs.ErrPermission) {
			return err
		}
		// Without its index a table is a sequence of blocks. The last one, and what follows a damaged one, is lost.
		s.lost = append(s.lost, LostRange{File: f.table.name()})
		if f.unindexed, err = readFile(path, maxLog); err != nil || compression != compressionSnappy {
			f.unindexed = nil
			return nil
		}
		f.file = &tableFile{compression: compression}
	}
	return f.next(s)
}

// next reads the next readable block.
func (f *source) next(s *salvage) error {
	if f.file == nil {
		return nil
	}
	if f.file.File == nil {
		return f.nextUnindexed()
	}
	for f.block < len(f.file.blocks) {
		at := f.file.blocks[f.block]
		f.block++
		stored := make([]byte, at.size)
		_, err := f.file.ReadAt(stored, at.offset)
		if err == nil {
			if f.entries, err = blockEntries(f.file, stored); err == nil {
				return nil
			}
		}
		loss := LostRange{File: f.table.name(), From: at.key[:len(at.key)-8]}
		if f.block < len(f.file.blocks) {
			next := f.file.blocks[f.block].key
			loss.To = next[:len(next)-8]
		}
		s.lost = append(s.lost, loss)
	}
	f.close()
	return nil
}

func (f *source) close() {
	if f.file != nil && f.file.File != nil {
		_ = f.file.Close()
	}
	f.file = nil
}

// nextUnindexed reads the next block of a table without an index.
func (f *source) nextUnindexed() error {
	n := snappyLength(f.unindexed)
	if n == 0 {
		f.unindexed = nil
		return nil
	}
	entries, err := blockEntries(f.file, f.unindexed[:n])
	f.unindexed = f.unindexed[n:]
	if err != nil {
		// The end of a damaged block is not known.
		f.unindexed = nil
		return nil
	}
	f.entries = entries
	return nil
}

// blockEntries returns the entries of a block.
func blockEntries(f *tableFile, stored []byte) ([]entry, error) {
	var b buffers
	data, err := f.decode(stored, &b)
	if err != nil {
		return nil, err
	}
	var entries []entry
	err = eachEntry(data, &b, func(e *entry) error {
		e.key = bytes.Clone(e.key)
		entries = append(entries, *e)
		return nil
	})
	return entries, err
}

// snappyLength returns the number of bytes at the beginning of b that are one compressed block: the uncompressed
// length, and then literals and copies that make it up. It returns 0 if b does not begin with a block.
func snappyLength(b []byte) int {
	length, at := binary.Uvarint(b)
	if at <= 0 || length == 0 || length > maxBlock {
		return 0
	}
	for done := uint64(0); done < length; {
		if at >= len(b) {
			return 0
		}
		tag := b[at]
		at++
		size := uint64(tag>>2) + 1
		switch tag & 3 {
		case 0:
			if size > 60 {
				n := int(size - 60)
				if at+n > len(b) {
					return 0
				}
				size = 0
				for i := range n {
					size |= uint64(b[at+i]) << (8 * i)
				}
				size++
				at += n
			}
			if size > uint64(len(b)-at) {
				return 0
			}
			at += int(size)
		case 1:
			size = uint64(tag>>2)&7 + 4
			at++
		case 2:
			at += 2
		case 3:
			at += 4
		}
		done += size
	}
	if at > len(b) {
		return 0
	}
	return at
}

// salvageLog returns the entries of a log whose checksums are right, except those of an unfinished write.
func salvageLog(path string) (entries []entry, err error) {
	var l logReport
	var behind []entry
	err = readLog(path, &l, func(e *entry, whole bool) error {
		kept := *e
		kept.key, kept.value = bytes.Clone(e.key), bytes.Clone(e.value)
		if whole {
			entries = append(entries, kept)
			return nil
		}
		behind = append(behind, kept)
		return nil
	})
	var unreadable *fs.PathError
	if errors.Is(err, fs.ErrPermission) {
		return nil, err
	}
	if errors.As(err, &unreadable) {
		// The report tells the loss. The entries before it count.
		return entries, nil
	}
	// The last write may never have been acknowledged. All before it were.
	last := uint64(0)
	for _, e := range behind {
		last = max(last, e.version())
	}
	for _, e := range behind {
		if e.version() < last || l.finished >= last {
			entries = append(entries, e)
		}
	}
	return entries, nil
}
