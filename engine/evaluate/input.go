// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package evaluate

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
)

// MaxLine is the maximum length of a line, in bytes. It bounds the memory that a broken file takes.
const MaxLine = 16 << 20

// Stdin is the file name that stands for the standard input in [Row] and [Input.Files].
const Stdin = "stdin"

// Input is labelled text in files of JSON Lines, plain or compressed with gzip.
type Input struct {
	files []file
	size  int64
	read  atomic.Int64
}

// file is a file that is opened when it is read.
type file struct {
	name string
	open func() (io.ReadCloser, error)
}

// Open finds the files of an input. A path names a file, or a directory, of which all *.jsonl and *.jsonl.gz are
// taken in the order of their names, or is "-" for stdin. Compressed files are recognised by their first bytes. Open
// returns an error if a path does not exist, a directory holds no such file, or stdin is named twice.
func Open(paths []string, stdin io.Reader) (*Input, error) {
	in := new(Input)
	sized := true
	add := func(path string, info os.FileInfo) {
		in.files = append(in.files, file{path, func() (io.ReadCloser, error) { return os.Open(path) }})
		in.size += info.Size()
		sized = sized && info.Mode().IsRegular()
	}
	for _, path := range paths {
		if path == "-" {
			if slices.ContainsFunc(in.files, func(f file) bool { return f.name == Stdin }) {
				return nil, errors.New("the standard input can be read only once")
			}
			in.files = append(in.files, file{Stdin, func() (io.ReadCloser, error) { return io.NopCloser(stdin), nil }})
			sized = false
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			add(path, info)
			continue
		}
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, err
		}
		found := false
		for _, entry := range entries {
			name := filepath.Join(path, entry.Name())
			if !strings.HasSuffix(name, ".jsonl") && !strings.HasSuffix(name, ".jsonl.gz") {
				continue
			}
			info, err := os.Stat(name)
			if err != nil {
				return nil, err
			}
			if !info.IsDir() {
				found = true
				add(name, info)
			}
		}
		if !found {
			return nil, fmt.Errorf("%s holds no *.jsonl and no *.jsonl.gz", path)
		}
	}
	if !sized {
		in.size = 0
	}
	return in, nil
}

// Files returns the names of the files in the order in which they are read.
func (in *Input) Files() []string {
	names := make([]string, 0, len(in.files))
	for _, f := range in.files {
		names = append(names, f.name)
	}
	return names
}

// Progress returns the number of bytes read so far and the size of all files, or 0 if that is unknown. Of a compressed
// file, compressed bytes count. It is safe for concurrent use.
func (in *Input) Progress() (read, size int64) { return in.read.Load(), in.size }

// Rows reads all rows. A line that is not a row yields an error that begins with its file and line, as in
// "comments.jsonl:17: ", and Rows goes on. An error of a file ends the sequence, as does the end of ctx, even while a
// read waits for input. Empty lines are skipped.
func (in *Input) Rows(ctx context.Context) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		for _, f := range in.files {
			if !in.rows(ctx, f, yield) {
				return
			}
		}
	}
}

// rows reads the rows of a file and reports whether to go on.
func (in *Input) rows(ctx context.Context, f file, yield func(Row, error) bool) bool {
	opened, err := f.open()
	if err != nil {
		yield(Row{}, err)
		return false
	}
	defer opened.Close()
	from := bufio.NewReaderSize(&reader{ctx: ctx, from: opened, read: &in.read}, 64<<10)
	if magic, _ := from.Peek(2); string(magic) == "\x1f\x8b" {
		unzipped, err := gzip.NewReader(from)
		if err != nil {
			yield(Row{}, fmt.Errorf("%s: %w", f.name, err))
			return false
		}
		defer unzipped.Close()
		from = bufio.NewReaderSize(unzipped, 64<<10)
	}
	var line []byte
	for n := 1; ; n++ {
		line, err = readLine(from, line[:0])
		if err != nil && err != io.EOF {
			if ctx.Err() != nil {
				err = ctx.Err()
			} else {
				err = fmt.Errorf("%s:%d: %w", f.name, n, err)
			}
			yield(Row{}, err)
			return false
		}
		if n == 1 {
			line = bytes.TrimPrefix(line, []byte("\ufeff")) // the byte order mark that some editors write
		}
		if len(bytes.TrimSpace(line)) > 0 {
			row, mistake := ParseRow(line)
			if mistake != nil {
				mistake = fmt.Errorf("%s:%d: %w", f.name, n, mistake)
			}
			row.File, row.Line = f.name, n
			if !yield(row, mistake) {
				return false
			}
		}
		if err == io.EOF {
			return true
		}
	}
}

// readLine appends the next line to into.
func readLine(from *bufio.Reader, into []byte) ([]byte, error) {
	for {
		part, err := from.ReadSlice('\n')
		into = append(into, part...)
		switch {
		case len(into) > MaxLine:
			return into, fmt.Errorf("the line has more than %d MiB; are these lines of JSON?", MaxLine>>20)
		case err == io.ErrUnexpectedEOF:
			return into, errors.New("the compressed file breaks off")
		case err != bufio.ErrBufferFull:
			return into, err
		}
	}
}

// reader reads until ctx ends. It then abandons a read that still waits: nothing else ends a read from a terminal.
type reader struct {
	ctx    context.Context
	from   io.Reader
	read   *atomic.Int64
	buffer []byte
	done   chan readResult
}

// readResult is what one call of Read returned.
type readResult struct {
	n   int
	err error
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	if r.done == nil {
		r.buffer, r.done = make([]byte, 64<<10), make(chan readResult, 1)
	}
	buffer := r.buffer[:min(len(p), len(r.buffer))]
	go func() {
		n, err := r.from.Read(buffer)
		r.done <- readResult{n, err}
	}()
	select {
	case <-r.ctx.Done():
		return 0, r.ctx.Err()
	case got := <-r.done:
		r.read.Add(int64(got.n))
		return copy(p, buffer[:got.n]), got.err
	}
}
