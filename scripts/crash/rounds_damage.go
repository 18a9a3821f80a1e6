// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// base holds databases to be damaged. They are made once, for all rounds.
type base struct {
	once   sync.Once
	err    error
	world  *world
	older  string // the directory as it was earlier
	killed string // and after a kill
	clean  string // and after an end in order
}

func (r *rig) damageable(ctx context.Context) (*base, error) {
	b := &r.base
	b.once.Do(func() { b.err = b.make(ctx, r) })
	return b, b.err
}

func (b *base) make(ctx context.Context, r *rig) error {
	w, err := newWorld("base", r.caddy, r.seed)
	if err != nil {
		return err
	}
	b.world = w
	defer w.close()
	b.older = filepath.Join(w.folder, "older")
	b.killed = filepath.Join(w.folder, "killed")
	b.clean = filepath.Join(w.folder, "clean")
	m := writers
	m.bulk = 5
	for _, to := range []string{b.older, b.killed} {
		if err := w.begin(ctx, m); err != nil {
			return err
		}
		pause(ctx, time.Second)
		w.rest()
		pause(ctx, 200*time.Millisecond) // older versions do not wait for the counts of the guard
		w.kill(true)
		if err := copyFolder(w.dir, to); err != nil {
			return err
		}
	}
	if err := w.compare(ctx); err != nil {
		return err
	}
	if broken := w.broken(); len(broken) > 0 {
		return errors.New("what is to be damaged is not sound: " + strings.Join(broken, "; "))
	}
	if err := w.stop(); err != nil {
		return err
	}
	return copyFolder(w.dir, b.clean)
}

// copyFolder copies a directory and keeps its files sparse.
func copyFolder(from, to string) error {
	return program("cp", "-a", "--sparse=always", from, to)
}

// damage is a way to damage a file.
type damage struct {
	name string
	do   func(w *world, file, older string) (bool, error)
}

var damages = []damage{
	{"a flipped bit", func(w *world, file, _ string) (bool, error) {
		return alter(file, func(content []byte, used int) []byte {
			content[w.random.IntN(used)] ^= 1 << w.random.IntN(8)
			return content
		})
	}},
	{"a page of zeros", func(w *world, file, _ string) (bool, error) {
		return alter(file, func(content []byte, used int) []byte {
			begin := w.random.IntN(used) &^ 4095
			clear(content[begin:min(begin+4096, len(content))])
			return content
		})
	}},
	{"a cut", func(w *world, file, _ string) (bool, error) {
		return alter(file, func(content []byte, used int) []byte { return content[:w.random.IntN(used)] })
	}},
	{"a loss", func(_ *world, file, _ string) (bool, error) { return true, os.Remove(file) }},
	{"an empty file", func(_ *world, file, _ string) (bool, error) { return true, os.Truncate(file, 0) }},
	{"zeros behind the end", func(_ *world, file, _ string) (bool, error) {
		info, err := os.Stat(file)
		if err != nil {
			return false, err
		}
		return true, os.Truncate(file, info.Size()+64<<10)
	}},
	{"garbage behind the end", func(w *world, file, _ string) (bool, error) {
		f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			return false, err
		}
		_, err = f.WriteString(w.letters(1 + w.random.IntN(5000)))
		return true, errors.Join(err, f.Close())
	}},
	{"two swapped pages", func(w *world, file, _ string) (bool, error) {
		return alter(file, func(content []byte, used int) []byte {
			const page = 4096
			if used < 2*page {
				return content
			}
			a, b := content[w.random.IntN(used/page)*page:][:page], content[w.random.IntN(used/page)*page:][:page]
			kept := bytes.Clone(a)
			copy(a, b)
			copy(b, kept)
			return content
		})
	}},
	{"another file of its kind", func(_ *world, file, _ string) (bool, error) {
		others, err := filepath.Glob(filepath.Join(filepath.Dir(file), "*"+filepath.Ext(file)))
		if err != nil || len(others) < 2 || filepath.Ext(file) == "" {
			return false, err
		}
		for _, other := range others {
			if other != file {
				content, err := os.ReadFile(other)
				return true, errors.Join(err, os.WriteFile(file, content, 0o600))
			}
		}
		return false, nil
	}},
	{"a directory in its place", func(_ *world, file, _ string) (bool, error) {
		return true, errors.Join(os.Remove(file), os.Mkdir(file, 0o700))
	}},
	{"a link in its place", func(_ *world, file, _ string) (bool, error) {
		away := filepath.Join(filepath.Dir(filepath.Dir(file)), "away")
		return true, errors.Join(os.Rename(file, away), os.Symlink(away, file))
	}},
	{"an older copy", func(_ *world, file, older string) (bool, error) {
		was, err := os.ReadFile(older)
		if err != nil {
			return false, nil // there was none
		}
		return alter(file, func([]byte, int) []byte { return was })
	}},
}

// alter changes the content of a file. Used is its length without zeros at the end.
func alter(file string, change func(content []byte, used int) []byte) (bool, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return false, err
	}
	used := len(bytes.TrimRight(content, "\x00"))
	if used == 0 {
		return false, nil
	}
	changed := change(bytes.Clone(content), used)
	if bytes.Equal(changed, content) {
		return false, nil
	}
	// In place, so that a sparse file stays sparse.
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return false, err
	}
	_, err = f.WriteAt(bytes.TrimRight(changed, "\x00"), 0)
	if err == nil && len(changed) <= len(content) {
		// Zero what was behind the end.
		err = errors.Join(f.Truncate(int64(len(bytes.TrimRight(changed, "\x00")))), f.Truncate(int64(len(changed))))
	}
	return true, errors.Join(err, f.Close())
}

// kinds are the patterns of the files of a store.
var kinds = []string{"MANIFEST", "*.sst", "*.mem", "*.vlog", "KEYREGISTRY", "DISCARD", "PROGRESS"}

// damaged damages a file of a kind while the server is stopped. Then the server must refuse to start and name the
// file and the check command, or everything that was acknowledged must be there, or the server must say what it
// cannot tell.
func damaged(pattern string) func(context.Context, *world, *rig) error {
	return func(ctx context.Context, w *world, r *rig) error {
		b, err := r.damageable(ctx)
		if err != nil {
			return err
		}
		from := b.killed
		if w.random.IntN(2) == 0 {
			from = b.clean
		}
		w.secret, w.ledger = b.world.secret, b.world.ledger.clone()
		wanted := w.random.IntN(len(damages))
		for i := range damages {
			d := damages[(wanted+i)%len(damages)]
			if err := copyFolder(from, w.dir); err != nil {
				return err
			}
			files, err := filepath.Glob(filepath.Join(w.dir, pattern))
			if err != nil {
				return err
			}
			if len(files) == 0 {
				return errSkip("the store has no file " + pattern)
			}
			file := files[w.random.IntN(len(files))]
			done, err := d.do(w, file, filepath.Join(b.older, filepath.Base(file)))
			if err != nil {
				return err
			}
			if done {
				what := fmt.Sprintf("%s in %s (%s)", d.name, filepath.Base(file), filepath.Base(from))
				w.note("%s", what)
				return w.examine(ctx, what, file)
			}
			if err := os.RemoveAll(w.dir); err != nil {
				return err
			}
		}
		return errSkip("nothing could be damaged")
	}
}

func (w *world) examine(ctx context.Context, what, file string) error {
	err := w.start(ctx)
	if err != nil {
		text := err.Error()
		switch {
		case strings.Contains(text, "\ngoroutine ") || strings.Contains(text, "panic:"):
			w.violate("%s: it panics: %s", what, lastError(text))
		case !strings.Contains(text, "caddy moderation check"):
			w.violate("%s: it is refused without the command that looks closer: %s", what, lastError(text))
		case !strings.Contains(text, filepath.Base(file)) && !strings.Contains(what, "an older copy"):
			w.violate("%s: it is refused without the name of the file: %s", what, lastError(text))
		default:
			w.note("refused")
		}
		if _, err := w.command(ctx, "check", w.dir); err == nil ||
			!strings.Contains(err.Error(), filepath.Base(file)) && !strings.Contains(what, "an older copy") {
			w.violate("%s: the command that looks closer does not name the file: %v", what, err)
		}
		return nil
	}
	s, err := w.fetch(ctx)
	if err != nil {
		return err
	}
	all := w.ledger.clone()
	for _, d := range differences(all, all, s) {
		w.violate("%s: %s", what, d)
	}
	for told, reason := range s.errs {
		w.note("%s: %s", told, reason)
	}
	w.note("started")
	return nil
}
