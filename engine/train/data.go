// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package train

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path"
	"strings"

	"github.com/klauspost/compress/gzip"
)

// Weights of the rows that were labelled for this project, against scraped rows of at most 1.
const (
	weightWritten   = 4
	weightAnnotated = 3
	weightUnsure    = 1
)

// row is a line of any of the files.
type row struct {
	Text   string `json:"text"`
	Labels native `json:"labels"`
	Kind   string `json:"kind"`
	Voice  string `json:"voice"`
	Group  int    `json:"group"`
	Sure   *bool  `json:"sure"`
	Hit    *bool  `json:"hit"`
}

// Read reads every file that training uses: corpus holds the project's own JSON Lines; data, which may be nil, holds
// the folders annotated and moderation. Files that are not there are left out.
func Read(corpus, data fs.FS) ([]Example, error) {
	var all []Example
	names, err := fs.Glob(corpus, "*.jsonl")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		err := lines(corpus, name, func(r row) {
			if r.Hit != nil || len(r.Labels) == 0 {
				return // a text for themes
			}
			e := Example{Text: r.Text, Source: base(name), Kind: r.Kind, Group: r.Group, Written: true}
			written(r.Labels, weightWritten, &e)
			all = append(all, e)
		})
		if err != nil {
			return nil, err
		}
	}
	if data == nil {
		return all, nil
	}
	err = lines(data, "annotated/annotated.jsonl", func(r row) {
		e := Example{Text: r.Text, Source: "annotated", Written: true}
		weight := float32(weightAnnotated)
		if r.Sure != nil && !*r.Sure {
			weight = weightUnsure
		}
		written(r.Labels, weight, &e)
		all = append(all, e)
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	words, err := readLexicons(data)
	if err != nil {
		return nil, err
	}
	for _, s := range sources {
		rows, err := s.read(data)
		if err != nil {
			return nil, err
		}
		for i := range rows {
			words.weaklyLabel(&rows[i])
		}
		all = append(all, rows...)
	}
	return append(all, words.examples()...), nil
}

func (s source) read(data fs.FS) ([]Example, error) {
	var rows []row
	err := lines(data, "moderation/"+s.name+".jsonl.gz", func(r row) { rows = append(rows, r) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	step := 1.0
	if s.limit > 0 && len(rows) > s.limit {
		step = float64(len(rows)) / float64(s.limit)
	}
	var out []Example
	for at := 0.0; int(math.Floor(at)) < len(rows); at += step {
		r := rows[int(math.Floor(at))]
		e := Example{Text: r.Text, Source: s.name}
		s.label(r.Labels, &e)
		if e.Labels != (Example{}).Labels {
			out = append(out, e)
		}
	}
	return out, nil
}

// lines calls yield for every line of a JSON Lines file, compressed when its name ends in gz.
func lines(files fs.FS, name string, yield func(row)) error {
	f, err := files.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	var in io.Reader = f
	if strings.HasSuffix(name, ".gz") {
		zr, err := gzip.NewReader(f)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		defer zr.Close()
		in = zr
	}
	scan := bufio.NewScanner(in)
	scan.Buffer(nil, 1<<20)
	for n := 1; scan.Scan(); n++ {
		if len(scan.Bytes()) == 0 {
			continue
		}
		var r row
		if err := json.Unmarshal(scan.Bytes(), &r); err != nil {
			return fmt.Errorf("%s, line %d: %w", name, n, err)
		}
		yield(r)
	}
	if err := scan.Err(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func base(name string) string {
	name = path.Base(name)
	return strings.TrimSuffix(strings.TrimSuffix(name, ".gz"), ".jsonl")
}
