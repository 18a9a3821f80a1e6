// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// Sync implements [Database]. After an error nobody knows what survives the loss of power: the kernel has dropped
// what it could not write, and the next sync would not tell. (See "PostgreSQL's fsync() surprise", LWN, April 2018.)
func (d *DB) Sync() error {
	d.syncing.Lock()
	defer d.syncing.Unlock()
	if err := d.enter(); err != nil {
		return err
	}
	defer d.leave()
	d.writing.Lock()
	number, err := d.committed, d.failed
	d.writing.Unlock()
	if err != nil {
		return err
	}
	if err := d.syncFiles(); err != nil {
		return d.fail(fmt.Errorf("syncing the database in %s: %w", d.dir, err))
	}
	// After the files: they may have been removed while they were synced.
	if err := d.check(); err != nil {
		return d.fail(err)
	}
	d.writing.Lock()
	defer d.writing.Unlock()
	if d.failed != nil {
		return d.failed
	}
	if err := d.progress.write(d.committed, number); err != nil {
		d.failed = err
		return err
	}
	return nil
}

// fail notes that nothing is written any more, and why.
func (d *DB) fail(err error) error {
	d.writing.Lock()
	defer d.writing.Unlock()
	if d.failed == nil {
		d.failed = err
	}
	return err
}

// failedToWrite is called when Badger could not write a table.
func (d *DB) failedToWrite(err error) {
	// In the background: a commit may hold the lock and wait for the table.
	go func() { _ = d.fail(err) }()
}

// syncFiles syncs the logs of the tables in memory: of the one that Badger writes to, and of those that are full and
// not yet tables on the disk. A log that is gone has become a table, which Badger syncs.
func (d *DB) syncFiles() error {
	// On Linux, syncing a file also writes what was changed through a memory map of it.
	if runtime.GOOS != "linux" {
		if err := d.db.Sync(); err != nil {
			return err
		}
	}
	logs, err := filepath.Glob(filepath.Join(d.dir, "*.mem"))
	if err != nil {
		return err
	}
	for _, path := range logs {
		if err := SyncFile(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return syncDirectory(d.handle)
}

// Check implements [Database]: the directory and the files in it are those that were opened, the file system takes
// writes, and it has room. Errors wrap [ErrReplaced] and [ErrFull] where they apply.
func (d *DB) Check() error {
	// Before the lock, so that on a slow disk no sync of what was acknowledged waits for this one.
	if err := d.checkWritable(); err != nil {
		return err
	}
	d.syncing.Lock()
	defer d.syncing.Unlock()
	if err := d.enter(); err != nil {
		return err
	}
	defer d.leave()
	if err := errors.Join(d.check(), d.checkTables()); err != nil {
		return d.fail(err)
	}
	return d.space.check()
}

// checkTables checks that the tables exist that the next start needs.
func (d *DB) checkTables() error {
	name, err := missingFile(d.dir)
	if err != nil || name == "" {
		return nil // what cannot be read now is read at the next check
	}
	return fmt.Errorf("%w: the file %s in %s is gone", ErrReplaced, name, d.dir)
}

// check checks that the directory is still the one that is open. A directory that was removed takes writes as before,
// and keeps nothing.
func (d *DB) check() error {
	if !same(d.handle, d.dir) {
		return fmt.Errorf("%w: the directory %s is gone, or another one", ErrReplaced, d.dir)
	}
	if !same(d.progress.file, filepath.Join(d.dir, progressName)) {
		return fmt.Errorf("%w: files in %s are gone, or others", ErrReplaced, d.dir)
	}
	newest := d.newestLog()
	if newest == 0 || newest < d.newest {
		return fmt.Errorf("%w: a log in %s is gone", ErrReplaced, d.dir)
	}
	d.newest = newest
	if readOnly(d.dir) {
		return fmt.Errorf("the file system of %s takes no writes", d.dir)
	}
	return nil
}

// checkWritable asks the file system for a sync. Since Linux 6.15, ext4 does not say otherwise that it has stopped
// taking writes because of an error.
func (d *DB) checkWritable() error {
	if err := d.enter(); err != nil {
		return err
	}
	defer d.leave()
	if err := d.progress.file.Sync(); err != nil {
		return d.fail(fmt.Errorf("the file system of %s takes no writes: %w", d.dir, err))
	}
	return nil
}

// same reports whether path names the open file.
func same(f *os.File, path string) bool {
	opened, err := f.Stat()
	if err != nil {
		return false
	}
	found, err := os.Stat(path)
	return err == nil && os.SameFile(opened, found)
}

// MakeDirectory makes a directory, readable by its owner only, and the missing ones above it. When it returns nil,
// they survive the loss of power.
func MakeDirectory(dir string) error {
	var made []string
	for at := dir; filepath.Dir(at) != at; at = filepath.Dir(at) {
		if _, err := os.Stat(at); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		made = append(made, at)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, at := range made {
		// A directory that this user may not read cannot be synced.
		if err := SyncFile(filepath.Dir(at)); err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	return nil
}

// rewriteManifest replaces the file that names the tables. A sync of it may have failed before: then the kernel
// returns content that the disk does not have.
func rewriteManifest(dir string, handle *os.File, content []byte) error {
	if content == nil {
		return nil
	}
	// Badger itself uses this name for a copy, and overwrites what an interrupted one has left.
	copied := filepath.Join(dir, "MANIFEST-REWRITE")
	f, err := os.OpenFile(copied, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return errors.Join(os.Rename(copied, filepath.Join(dir, manifestName)), syncDirectory(handle))
}
