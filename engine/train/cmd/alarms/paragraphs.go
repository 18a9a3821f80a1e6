// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/klauspost/compress/gzip"
)

// Characters of a paragraph of a file: what is shorter is joined with what follows, what is longer is cut between
// lines.
const (
	shortest = 200
	longest  = 2000
)

// paragraph is a piece of harmless text.
type paragraph struct {
	text string
	// kind is what the table counts it under: the extension of the file, or its name where the rows of the file are
	// texts.
	kind string
	file string
	line int
}

// readParagraphs reads all files and folders, and keeps one in this many paragraphs, chosen by a hash of the text.
func readParagraphs(names []string, one int) (all []paragraph, err error) {
	seen := map[uint64]bool{}
	add := func(p paragraph) {
		hash := fnv.New64a()
		_, _ = io.WriteString(hash, p.text)
		if sum := hash.Sum64(); sum%uint64(one) == 0 && !seen[sum] {
			seen[sum] = true
			all = append(all, p)
		}
	}
	for _, name := range names {
		err := filepath.WalkDir(name, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return err
			}
			return readFile(path, add)
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

func readFile(path string, add func(paragraph)) error {
	name := filepath.Base(path)
	if strings.HasSuffix(name, ".jsonl") || strings.HasSuffix(name, ".jsonl.gz") {
		return readRows(path, add)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if isText(file) {
		cut(string(file), func(text string, line int) { add(paragraph{text, kindOf(name), path, line}) })
	}
	return nil
}

// isText reports whether a file is text and nothing else.
func isText(file []byte) bool { return utf8.Valid(file) && bytes.IndexByte(file, 0) < 0 }

// kindOf names the kind of a file: its extension, or its name where it has none.
func kindOf(name string) string {
	if ext := filepath.Ext(name); ext != "" && ext != name {
		return strings.ToLower(ext[1:])
	}
	return strings.ToLower(strings.TrimPrefix(name, "."))
}

// cut yields the paragraphs of a text with the numbers of their first lines.
func cut(text string, yield func(text string, line int)) {
	var b strings.Builder
	first, size := 0, 0
	flush := func() {
		if size >= shortest {
			yield(strings.TrimSpace(b.String()), first)
		}
		b.Reset()
		size = 0
	}
	n := 0
	for line := range strings.Lines(text) {
		n++
		points := utf8.RuneCountInString(line)
		blank := strings.TrimSpace(line) == ""
		if blank && size >= shortest || size > 0 && size+points > longest {
			flush()
		}
		if blank && size == 0 || points > longest {
			continue // a line that long was not written by a person
		}
		if size == 0 {
			first = n
		}
		b.WriteString(line)
		size += points
	}
	flush()
}

// readRows reads the member text of each line.
func readRows(path string, add func(paragraph)) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	var in io.Reader = file
	if strings.HasSuffix(path, ".gz") {
		if in, err = gzip.NewReader(file); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	kind, _, _ := strings.Cut(filepath.Base(path), ".")
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<24)
	for n := 1; lines.Scan(); n++ {
		var row struct{ Text string }
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			return fmt.Errorf("%s, line %d: %w", path, n, err)
		}
		add(paragraph{row.Text, kind, path, n})
	}
	return lines.Err()
}
