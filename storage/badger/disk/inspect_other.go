// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Files of Badger that hold none of our records, but end its process or keep it from opening if they are damaged.
const (
	registryName = "KEYREGISTRY"
	discardName  = "DISCARD"
)

const disposable = "it holds nothing that is needed: move it away and start again"

// checkRegistry checks the file with the encryption keys, of which there are none: 16 random bytes and a text.
func (r *Report) checkRegistry(dir string, _ []uint64) error {
	b, err := readFile(filepath.Join(dir, registryName), 1<<20)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return r.problem(registryName, err)
	case len(b) != 28 || !bytes.Equal(b[16:], []byte("Hello Badger")):
		r.damage(registryName, "it is damaged; %s", disposable)
	}
	return nil
}

// checkDiscard checks the file that says what could be removed from the value logs: nothing.
func (r *Report) checkDiscard(dir string, _ []uint64) error {
	file, err := os.Open(filepath.Join(dir, discardName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		defer file.Close()
		var info fs.FileInfo
		if info, err = file.Stat(); err == nil {
			var content int64
			size := info.Size()
			switch {
			case !info.Mode().IsRegular() || size%16 != 0 || size > 1<<30 || size == 16:
				r.damage(discardName, "it is damaged; %s", disposable)
				return nil
			default:
				content, err = lastContent(file, 0, size)
			}
			if err == nil && content > 0 {
				r.damage(discardName, "it is damaged; %s", disposable)
			}
		}
	}
	return r.problem(discardName, err)
}

// checkValueLogs checks the value logs. They are empty, because our records are small enough to stay out of them.
func (r *Report) checkValueLogs(dir string, ids []uint64) error {
	for _, id := range ids {
		name := fmt.Sprintf("%06d.vlog", id)
		var l logReport
		err := readLog(filepath.Join(dir, name), &l, func(*entry, bool) error { return nil })
		switch {
		case errors.Is(err, errHeader):
			r.damage(name, "%s; %s", err, disposable)
		case err != nil:
			if err := r.problem(name, err); err != nil {
				return err
			}
		case l.size == 0:
			r.remark(name, "it is empty: a crash came before its header")
			r.empty = append(r.empty, name)
		case l.rest:
			r.damage(name, "it is damaged at offset %d; %s", l.end, disposable)
		}
	}
	return nil
}
