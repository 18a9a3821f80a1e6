// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"hash/maphash"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/pb"
	"google.golang.org/protobuf/proto"
)

// Badger's compaction (v4.9.6, subcompact in levels.go) drops the error of a table that it could not make: it removes
// the tables that were to be merged all the same, and reports success. So nothing is ever compacted in the open
// database. Its tables are copied into a directory of their own, where another database opens and compacts them.
// (Links would not do: Badger empties a table before it removes it.) Only if every record is found in the result do
// the new tables take the place of the old ones, while nobody reads or writes. A failure before that costs nothing
// but time.
const mergeName = "COMPACTION"

// snapshotWait is how long merged tables wait for the end of snapshots, which use the old ones.
const snapshotWait = time.Minute

var errMergePostponed = errors.New("a backup is under way")

// merge compacts the present tables. Where that leaves tables as they are, because there are few, they are compacted
// all the same if all is set: then nothing that was deleted or replaced is left in the new tables.
func (d *DB) merge(all bool) error {
	dir := filepath.Join(d.dir, mergeName)
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	old, err := d.copyTables(dir)
	if err != nil || len(old) == 0 {
		return err
	}
	made, err := d.mergeTables(dir, old, all)
	if err != nil {
		return err
	}
	for id := range old {
		if made[id] == old[id] {
			delete(old, id)
			delete(made, id)
		}
	}
	return d.exchange(dir, old, made)
}

// copyTables copies the tables on the disk into dir, and returns which they are.
func (d *DB) copyTables(dir string) (map[uint64]manifestTable, error) {
	if err := d.enter(); err != nil {
		return nil, err
	}
	tables := d.db.Tables()
	d.leave()
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	copied, set := make(map[uint64]manifestTable), new(pb.ManifestChangeSet)
	for _, t := range tables {
		copied[t.ID] = manifestTable{level: uint32(t.Level), compression: compressionSnappy}
		set.Changes = append(set.Changes, created(t.ID, copied[t.ID]))
		if err := copyFile(filepath.Join(d.dir, tableName(t.ID)), filepath.Join(dir, tableName(t.ID))); err != nil {
			return nil, err
		}
	}
	content, err := appendChanges([]byte(manifestHeader), set)
	if err != nil {
		return nil, err
	}
	return copied, os.WriteFile(filepath.Join(dir, manifestName), content, 0o600)
}

// copyFile copies a file. Where the file system can, both share the data.
func copyFile(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	copied, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(copied, source)
	return errors.Join(err, copied.Close())
}

// mergeTables compacts the copied tables in dir, and returns the tables that result.
func (d *DB) mergeTables(dir string, copied map[uint64]manifestTable, all bool) (map[uint64]manifestTable, error) {
	// Badger also reads a damaged table without an error, up to the damage.
	buffers := newBuffers()
	for id, t := range copied {
		report := tableReport{id: id, listed: true, level: t.level, compression: t.compression}
		if report.read(dir, buffers); report.problem != nil {
			return nil, fmt.Errorf("%s: %w", report.name(), report.problem)
		}
	}
	if err := d.flattenChecked(dir, all); err != nil {
		return nil, err
	}
	merged := &Report{Dir: dir}
	if err := merged.readManifest(dir); err != nil {
		return nil, err
	}
	if !merged.manifest.usable || merged.manifest.end != 0 {
		return nil, errors.New("the list of the merged tables cannot be read")
	}
	return merged.manifest.tables, nil
}

// flattenChecked merges the tables of the database in dir and checks that it holds what it held before.
func (d *DB) flattenChecked(dir string, all bool) (err error) {
	o := d.options
	o.Dir, o.compactOnClose = dir, all
	db, err := d.openBadger(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	seed := maphash.MakeSeed()
	before, err := contents(db, seed)
	if err != nil {
		return err
	}
	if all {
		// Flattening leaves a single table alone. Closing does not.
		if err := db.Close(); err != nil {
			return err
		}
		o.compactOnClose = false
		reopened, err := d.openBadger(o)
		if err != nil {
			return err
		}
		db = reopened
	}
	if err := d.compactor.flatten(db); err != nil {
		return err
	}
	after, err := contents(db, seed)
	if err != nil {
		return err
	}
	if before != after {
		return fmt.Errorf("of %d records %d are found in the merged tables, "+
			"which could not be written; the old ones stay", before.records, after.records)
	}
	return nil
}

// digest tells the contents of two databases apart.
type digest struct{ records, hash uint64 }

// contents digests the keys of a database with their versions.
func contents(db *badger.DB, seed maphash.Seed) (s digest, err error) {
	defer guard(&err)()
	err = db.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{})
		defer it.Close()
		var key []byte
		for it.Rewind(); it.Valid(); it.Next() {
			key = binary.BigEndian.AppendUint64(append(key[:0], it.Item().Key()...), it.Item().Version())
			s.records++
			s.hash += maphash.Bytes(seed, key)
		}
		return nil
	})
	return s, err
}

// exchange replaces old tables with the made ones in dir. The database is closed for that and opened again. The
// exchange is atomic: MANIFEST is replaced at once, and tables that are not listed in it are removed when the
// database is opened.
func (d *DB) exchange(dir string, old, made map[uint64]manifestTable) (err error) {
	if len(old) == 0 {
		return nil
	}
	if err := d.lockExclusively(); err != nil {
		return err
	}
	defer d.lifecycle.Unlock()
	if d.closed.Load() || d.failed != nil {
		return nil
	}
	defer func() {
		if err != nil {
			// Nobody knows now what is open.
			err = d.fail(fmt.Errorf("taking merged tables into the database: %w", err))
		}
	}()
	if err := d.db.Close(); err != nil {
		return err
	}
	now := &Report{Dir: d.dir}
	if err := now.readManifest(d.dir); err != nil {
		return err
	}
	next, set := uint64(0), new(pb.ManifestChangeSet)
	for id := range now.manifest.tables {
		next = max(next, id)
	}
	for id := range old {
		if _, listed := now.manifest.tables[id]; !listed {
			return fmt.Errorf("%s is no table any more", tableName(id))
		}
		set.Changes = append(set.Changes, &pb.ManifestChange{Id: id, Op: pb.ManifestChange_DELETE})
	}
	for id, t := range made {
		next++
		set.Changes = append(set.Changes, created(next, t))
		if err := os.Rename(filepath.Join(dir, tableName(id)), filepath.Join(d.dir, tableName(next))); err != nil {
			return err
		}
	}
	content, err := appendChanges(slices.Clone(now.manifest.whole), set)
	if err != nil {
		return err
	}
	if err := errors.Join(syncDirectory(d.handle), rewriteManifest(d.dir, d.handle, content)); err != nil {
		return err
	}
	d.newest = 0 // logs are numbered from the beginning again
	d.db, err = d.openBadger(d.options)
	return err
}

// lockExclusively locks the database as soon as there is no snapshot of it. The caller unlocks lifecycle.
func (d *DB) lockExclusively() error {
	for began := time.Now(); ; {
		d.lifecycle.Lock()
		open := false
		d.snapshots.Range(func(any, any) bool { open = true; return false })
		if !open || d.closed.Load() {
			return nil
		}
		d.lifecycle.Unlock()
		select {
		case <-d.closing:
			return ErrClosed
		case <-time.After(compactInterval):
		}
		if time.Since(began) > snapshotWait {
			return errMergePostponed
		}
	}
}

// created is the change that adds a table.
func created(id uint64, t manifestTable) *pb.ManifestChange {
	return &pb.ManifestChange{
		Id: id, Op: pb.ManifestChange_CREATE, Level: t.level,
		EncryptionAlgo: pb.EncryptionAlgo_aes, Compression: uint32(t.compression),
	}
}

// appendChanges appends changes to the content of a MANIFEST. All of them count or none.
func appendChanges(b []byte, set *pb.ManifestChangeSet) ([]byte, error) {
	message, err := proto.Marshal(set)
	if err != nil {
		return nil, err
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(message)))
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(message, castagnoli))
	return append(b, message...), nil
}
