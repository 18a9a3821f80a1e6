// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package evaluate_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/caddy-moderation/caddy-moderation/engine/evaluate"
)

func zipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return b.String()
}

func line(text string) string { return `{"text":"` + text + `","labels":{"hate":1}}` }

// directory writes files to a temporary directory.
func directory(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// rows reads rows and shows their files, lines and texts, and errors, without the name of the directory.
func rows(t *testing.T, dir string, paths []string, stdin string) string {
	t.Helper()
	clean := func(text string) string { return strings.ReplaceAll(text, dir+string(filepath.Separator), "") }
	input, err := evaluate.Open(paths, strings.NewReader(stdin))
	if err != nil {
		return clean(err.Error())
	}
	var shown []string
	for row, err := range input.Rows(t.Context()) {
		if err != nil {
			shown = append(shown, "! "+clean(err.Error()))
			continue
		}
		shown = append(shown, clean(fmt.Sprintf("%s:%d %s", row.File, row.Line, row.Text)))
	}
	return strings.Join(shown, "\n")
}

func TestInput(t *testing.T) {
	t.Parallel()
	whole := zipped(line("a") + "\n" + line("b") + "\n")
	dir := directory(t, map[string]string{
		"d/b.jsonl":           line("b1") + "\n" + line("b2"),
		"d/a.jsonl.gz":        zipped(line("a1")),
		"d/c.json":            "{",
		"d/notes.txt":         "x",
		"d/sub.jsonl/x.jsonl": "{",
		"none/notes.txt":      "x",
		"odd":                 "\ufeff" + line("o1") + "\r\n\r\n  \n" + line("o2") + "\r\n",
		"zipped":              zipped(line("z1") + "\n" + line("z2") + "\n"),
		"two":                 zipped(line("z1")+"\n") + zipped(line("z2")+"\n"),
		"cut.gz":              whole[:len(whole)-12],
		"bad.gz":              "\x1f\x8bnothing",
		"empty":               "",
		"mistakes":            "{\n" + line("m2") + "\n[]\n",
	})
	in := func(names ...string) (paths []string) {
		for _, name := range names {
			if name != "-" {
				name = filepath.Join(dir, name)
			}
			paths = append(paths, name)
		}
		return paths
	}
	for _, row := range []struct {
		hazard string
		paths  []string
		want   string
	}{
		{"a directory: sorted, by ending, nothing below", in("d"), "d/a.jsonl.gz:1 a1\nd/b.jsonl:1 b1\nd/b.jsonl:2 b2"},
		{"a directory without data", in("none"), filepath.Join(dir, "none") + " holds no *.jsonl and no *.jsonl.gz"},
		{"any name, compressed or not", in("zipped"), "zipped:1 z1\nzipped:2 z2"},
		{"gzip files that were appended to each other", in("two"), "two:1 z1\ntwo:2 z2"},
		{"a byte order mark, carriage returns, empty lines", in("odd"), "odd:1 o1\nodd:4 o2"},
		{"an empty file, and another", in("empty", "zipped"), "zipped:1 z1\nzipped:2 z2"},
		{"the standard input among files", in("zipped", "-"), "zipped:1 z1\nzipped:2 z2\nstdin:1 s1"},
		{"the standard input twice", in("-", "-"), "the standard input can be read only once"},
		{"a missing file", in("missing"), "stat missing: no such file or directory"},
		{"a compressed file that breaks off", in("cut.gz"), "cut.gz:1 a\n! cut.gz:2: the compressed file breaks off"},
		{"what only begins like gzip", in("bad.gz", "zipped"), "! bad.gz: unexpected EOF"},
		{"mistakes do not end the reading", in("mistakes"), strings.Join([]string{
			"! mistakes:1: malformed JSON: the line ends within the object; each line must hold a whole one",
			"mistakes:2 m2",
			"! mistakes:3: not a JSON object; each line must hold one, such as " + exampleRow,
		}, "\n")},
	} {
		want := strings.ReplaceAll(row.want, dir+string(filepath.Separator), "")
		if got := rows(t, dir, row.paths, line("s1")); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", row.hazard, got, want)
		}
	}
}

// TestCompressedStdin: gzip is recognised from the first bytes.
func TestCompressedStdin(t *testing.T) {
	t.Parallel()
	if got := rows(t, "", []string{"-"}, zipped(line("z"))); got != "stdin:1 z" {
		t.Errorf("got %q, want \"stdin:1 z\"", got)
	}
}

// TestEndlessLine: a file without line ends does not fill the memory.
func TestEndlessLine(t *testing.T) {
	t.Parallel()
	input, err := evaluate.Open([]string{"-"}, endless{})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range input.Rows(t.Context()) {
		const want = "stdin:1: the line has more than 16 MiB; are these lines of JSON?"
		if err == nil || err.Error() != want {
			t.Errorf("got error %v, want %s", err, want)
		}
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// TestRowsEndWhileReading: the end of the context ends the rows even while a read waits, as one from a terminal does.
func TestRowsEndWhileReading(t *testing.T) {
	t.Parallel()
	from, to := io.Pipe()
	defer to.Close()
	input, err := evaluate.Open([]string{"-"}, from)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, _ = io.WriteString(to, line("first")+"\n{") // and never goes on
		cancel()
	}()
	var last error
	for _, last = range input.Rows(ctx) {
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("last error: got %v, want %v", last, context.Canceled)
	}
}

// TestInputProgress: progress counts the bytes of the files, compressed ones as they are, and has no total with the
// standard input.
func TestInputProgress(t *testing.T) {
	t.Parallel()
	content := zipped(line("a"))
	dir := directory(t, map[string]string{"a.jsonl.gz": content, "b.jsonl": line("b")})
	total := int64(len(content) + len(line("b")))
	for _, row := range []struct {
		paths []string
		size  int64
	}{{[]string{dir}, total}, {[]string{dir, "-"}, 0}} {
		input, err := evaluate.Open(row.paths, strings.NewReader(""))
		if err != nil {
			t.Fatal(err)
		}
		for range input.Rows(t.Context()) {
		}
		if read, size := input.Progress(); read != total || size != row.size {
			t.Errorf("%v: got progress %d of %d bytes, want %d of %d", row.paths, read, size, total, row.size)
		}
	}
}
