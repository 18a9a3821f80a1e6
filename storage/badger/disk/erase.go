// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"bytes"
	"fmt"
	"time"

	"go.uber.org/zap"
)

// A deletion only adds to the files of a database: what was deleted stays in its logs and tables until they are
// merged, which may never happen. To erase it, the tables in memory are written out, which removes their logs, and
// then all tables are merged. What was asked for is kept in the database, so that it is done after a restart, too.

// Erase is a change that asks for what is deleted with it, and was deleted before, to be erased: some seconds later
// nothing of it is left in the files of the database. That needs as much room as any compaction, and waits for it. An
// open snapshot delays it.
func Erase() Entry { return Entry{Key: eraseKey, Value: []byte{}} }

// noteErase notes when deleted records are to be erased. The caller holds writing.
func (d *DB) noteErase(entries []Entry) {
	for _, e := range entries {
		if !e.Delete && bytes.Equal(e.Key, eraseKey) {
			d.compactor.erase.Store(max(time.Now().UnixNano(), d.compactor.erase.Load()+1))
		}
	}
}

// eraseDeleted erases everything that was deleted before the instant at which that was asked for last.
func (d *DB) eraseDeleted(asked int64) error {
	if err := d.writeOut(); err != nil {
		return err
	}
	if err := d.merge(true); err != nil {
		return err
	}
	if err := d.enter(); err != nil {
		return err
	}
	defer d.leave()
	d.writing.Lock()
	defer d.writing.Unlock()
	if d.failed != nil || d.compactor.erase.Load() != asked {
		return d.failed // more is to be erased by now
	}
	if err := d.commitLocked([]Entry{{Key: eraseKey, Delete: true}}); err != nil {
		return err
	}
	d.compactor.erase.Store(0)
	d.logger.Info("what was deleted is gone from the files of the database", zap.String("dir", d.dir))
	return nil
}

// writeOut writes what is in memory to tables, which removes its logs. The database is closed for that and opened
// again.
func (d *DB) writeOut() (err error) {
	if err := d.lockExclusively(); err != nil {
		return err
	}
	defer d.lifecycle.Unlock()
	if d.closed.Load() {
		return ErrClosed
	}
	if d.failed != nil {
		return d.failed
	}
	defer func() {
		if err != nil {
			err = d.fail(fmt.Errorf("writing out the tables in memory: %w", err))
		}
	}()
	if err := d.db.Close(); err != nil {
		return err
	}
	d.newest = 0 // logs are numbered from the beginning again
	if d.db, err = d.openBadger(d.options); err != nil {
		return err
	}
	d.compactor.first.Store(d.newestLog())
	return syncDirectory(d.handle)
}
