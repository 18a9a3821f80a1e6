// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/placeholder"
	"github.com/caddy-moderation/caddy-moderation/engine"
	"github.com/caddy-moderation/caddy-moderation/engine/words"
)

// wordLists are the expressions of one option: those of the configuration, and those of its files.
type wordLists struct {
	// current is nil when there are none.
	current *atomic.Pointer[words.List]
}

// pollInterval is how often the files of word lists are checked, with one stat per file. Unlike notifications, this
// also notices files on network disks, files that were replaced, and links that changed.
const pollInterval = 2 * time.Second

// newWordLists reads the expressions of an option. Its files are watched until ctx ends.
func newWordLists(ctx caddy.Context, option string, expressions, names []string) (wordLists, error) {
	if len(expressions) == 0 && len(names) == 0 {
		return wordLists{}, nil
	}
	fixed, err := words.Parse(expressions)
	if err != nil {
		return wordLists{}, fmt.Errorf("%s: %w", option, err)
	}
	files := make([]wordFile, len(names))
	for i, name := range names {
		if files[i].name, err = placeholder.Expand(name); err != nil {
			return wordLists{}, fmt.Errorf("%s_file: %w", option, err)
		}
		// Errors and the log say where a relative name leads, and that stays so.
		if files[i].name, err = filepath.Abs(files[i].name); err != nil {
			return wordLists{}, fmt.Errorf("%s_file: %w", option, err)
		}
		if err := files[i].read(); err != nil {
			return wordLists{}, fmt.Errorf("%s_file: %w%s", option, err, placeholder.At(name))
		}
	}
	l := wordLists{current: new(atomic.Pointer[words.List])}
	l.current.Store(merge(fixed, files))
	if len(files) > 0 {
		// The logger of ctx is that of the module which is being loaded, and that is another one later.
		go l.watch(ctx, ctx.Logger(), option, fixed, files)
	}
	return l, nil
}

// watch reads files again when they change. A file that cannot be read any more keeps its last expressions: a list
// that is missing for a moment must not let everything through.
func (l wordLists) watch(ctx context.Context, logger *zap.Logger, option string, fixed *words.List, files []wordFile) {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		changed := false
		for i := range files {
			if !files[i].changed() {
				continue
			}
			changed = true
			if err := files[i].read(); err != nil {
				logger.Error("a word list cannot be read; its last expressions stay in force",
					zap.String("option", option+"_file"), zap.Error(err))
				continue
			}
			logger.Info("read a word list again", zap.String("option", option+"_file"),
				zap.String("file", files[i].name), zap.Int("expressions", files[i].list.Len()))
		}
		if changed {
			l.current.Store(merge(fixed, files))
		}
	}
}

func merge(fixed *words.List, files []wordFile) *words.List {
	all := []*words.List{fixed}
	for i := range files {
		all = append(all, files[i].list)
	}
	return words.Merge(all...)
}

// cut returns text without the expressions.
func (l wordLists) cut(text string) string {
	if l.current == nil {
		return text
	}
	return l.current.Load().Cut(text)
}

// blank returns text with spaces in the place of the expressions.
func (l wordLists) blank(text string) string {
	if l.current == nil {
		return text
	}
	return l.current.Load().Blank(text)
}

// has reports whether an expression stands in text.
func (l wordLists) has(text string) bool {
	return l.current != nil && len(l.current.Load().Find(nil, text)) > 0
}

// Blocked returns where blocked words stand in a text.
func (m *Moderator) Blocked(text string) []engine.Span {
	if m.block.current == nil {
		return nil
	}
	return engine.Spans(m.block.current.Load(), m.allow.blank(text))
}

// wordFile is a file with expressions.
type wordFile struct {
	name string
	list *words.List
	// What the file looked like when it was last read, or when that was tried. The size is -1 when it could not be.
	modified time.Time
	size     int64
}

// changed reports whether the file looks different from when it was last read.
func (f *wordFile) changed() bool {
	info, err := os.Stat(f.name)
	if err != nil {
		// A missing file is reported once, when it goes missing.
		return f.size >= 0
	}
	return info.Size() != f.size || !info.ModTime().Equal(f.modified)
}

// read reads the file. When that fails the last expressions are kept.
func (f *wordFile) read() error {
	f.size, f.modified = -1, time.Time{}
	file, err := os.Open(f.name)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	f.size, f.modified = info.Size(), info.ModTime()
	list, err := words.Read(file)
	if err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	f.list = list
	return nil
}
