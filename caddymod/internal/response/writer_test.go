// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package response

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// below is the writer below a Writer: it notes what it is told, in order.
type below struct {
	header http.Header
	events []string
	err    error // of writing, flushing and hijacking
}

func (b *below) Header() http.Header { return b.header }

func (b *below) WriteHeader(status int) { b.note("status %d", status) }

func (b *below) Write(p []byte) (int, error) {
	b.note("write %s", p)
	return len(p), b.err
}

func (b *below) FlushError() error {
	b.note("flush")
	return b.err
}

func (b *below) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	b.note("hijack")
	return nil, nil, b.err
}

func (b *below) note(format string, args ...any) {
	b.events = append(b.events, fmt.Sprintf(format, args...))
}

// fast is a writer that can send a file without copying it.
type fast struct{ *below }

func (f fast) ReadFrom(r io.Reader) (int64, error) {
	data, err := io.ReadAll(r)
	f.note("read %s", data)
	return int64(len(data)), err
}

// hook notes that it is called, in the events of the writer below.
type hook struct {
	*below
	err error
}

func (h hook) BeforeHeader(status int) error {
	h.note("hook %d", status)
	return h.err
}

var (
	errEnded  = errors.New("the hook has ended the answer")
	errBroken = errors.New("broken connection")
)

// Steps of a handler.
type step func(w *Writer) error

func header(status int) step {
	return func(w *Writer) error {
		w.WriteHeader(status)
		return nil
	}
}

func write(text string) step {
	return func(w *Writer) error {
		_, err := w.Write([]byte(text))
		return err
	}
}

func readFrom(text string) step {
	return func(w *Writer) error {
		n, err := w.ReadFrom(strings.NewReader(text))
		if err == nil && n != int64(len(text)) {
			return fmt.Errorf("ReadFrom reported %d bytes, want %d", n, len(text))
		}
		return err
	}
}

func flush(w *Writer) error { return http.NewResponseController(w).Flush() }

func hijack(w *Writer) error {
	_, _, err := http.NewResponseController(w).Hijack()
	return err
}

func TestWriter(t *testing.T) {
	t.Parallel()
	const withHook, ended, discarded, held = "hook", "ended", "discarded", "held"
	rows := []struct {
		name   string
		mode   string // one of the constants above; empty: a writer that only observes
		broken bool   // the writer below fails
		steps  []step
		events string // of the writer below and of the hook
		status int
		bytes  int64
		began  bool
		err    error // of the last step
	}{
		{name: "nothing"},
		{name: "a status", steps: []step{header(404)}, events: "status 404", status: 404, began: true},
		{name: "a body without a status", steps: []step{write("a"), write("bc")},
			events: "status 200, write a, write bc", status: 200, bytes: 3, began: true},
		{name: "an empty part of a body", steps: []step{write("")}, events: "status 200, write ", status: 200, began: true},
		{name: "informational statuses", steps: []step{header(100), header(103), header(103)}, events: "status 100, status 103, status 103"},
		{name: "informational, then final", steps: []step{header(103), header(201), write("a")},
			events: "status 103, status 201, write a", status: 201, bytes: 1, began: true},
		{name: "101 is final", steps: []step{header(101), header(200)}, events: "status 101", status: 101, began: true},
		{name: "a second status is dropped", steps: []step{header(201), header(500)}, events: "status 201", status: 201, began: true},
		{name: "from a reader", steps: []step{header(206), readFrom("abc")},
			events: "status 206, read abc", status: 206, bytes: 3, began: true},
		{name: "flush sends the header", steps: []step{flush}, events: "status 200, flush", status: 200, began: true},
		{name: "hijack", steps: []step{hijack}, events: "hijack", began: true},
		{name: "a status after hijack is dropped", steps: []step{hijack, header(500)}, events: "hijack", status: 500, began: true},
		{name: "hijack fails", broken: true, steps: []step{hijack}, events: "hijack", err: errBroken},
		{name: "write fails", broken: true, steps: []step{write("a")}, events: "status 200, write a", status: 200, bytes: 1, began: true, err: errBroken},
		{name: "flush fails", broken: true, steps: []step{flush}, events: "status 200, flush", status: 200, began: true, err: errBroken},

		{name: "hook: nothing", mode: withHook},
		{name: "hook: informational", mode: withHook, steps: []step{header(103)}, events: "status 103"},
		{name: "hook: once", mode: withHook, steps: []step{header(103), header(404), write("a"), flush, hijack},
			events: "status 103, hook 404, status 404, write a, flush, hijack", status: 404, bytes: 1, began: true},
		{name: "hook: a body without a status", mode: withHook, steps: []step{write("a")},
			events: "hook 200, status 200, write a", status: 200, bytes: 1, began: true},
		{name: "hook: from a reader", mode: withHook, steps: []step{readFrom("abc")},
			events: "hook 200, status 200, read abc", status: 200, bytes: 3, began: true},
		{name: "hook: flush", mode: withHook, steps: []step{flush}, events: "hook 200, status 200, flush", status: 200, began: true},
		{name: "hook: hijack", mode: withHook, steps: []step{hijack}, events: "hook 101, hijack", began: true},
		{name: "hook: hijack fails, and the handler answers", mode: withHook, broken: true, steps: []step{hijack, header(426)},
			events: "hook 101, hijack, status 426", status: 426, began: true},

		{name: "ended: write", mode: ended, steps: []step{header(200), write("a")}, events: "hook 200", status: 200, began: true, err: errEnded},
		{name: "ended: from a reader", mode: ended, steps: []step{readFrom("a")}, events: "hook 200", status: 200, began: true, err: errEnded},
		{name: "ended: flush", mode: ended, steps: []step{flush}, events: "hook 200", status: 200, began: true, err: errEnded},
		{name: "ended: hijack", mode: ended, steps: []step{hijack}, events: "hook 101", began: true, err: errEnded},
		{name: "ended: no status follows", mode: ended, steps: []step{header(200), header(103), header(500)},
			events: "hook 200", status: 200, began: true},

		{name: "discarded: write", mode: discarded, steps: []step{header(200), write("a"), readFrom("bc"), flush},
			events: "hook 200", status: 200, began: true},
		{name: "discarded: hijack", mode: discarded, steps: []step{write("a"), hijack}, events: "hook 200", status: 200, began: true, err: errEnded},

		{name: "held: a status", mode: held, steps: []step{header(404)}, status: 404},
		{name: "held: informational", mode: held, steps: []step{header(103), header(404)}, events: "status 103", status: 404},
		{name: "held: 101", mode: held, steps: []step{header(101)}, events: "status 101", status: 101, began: true},
		{name: "held: until the body", mode: held, steps: []step{header(404), header(500), write("a"), header(200)},
			events: "status 404, write a", status: 404, bytes: 1, began: true},
		{name: "held: until a reader", mode: held, steps: []step{header(404), readFrom("a")},
			events: "status 404, read a", status: 404, bytes: 1, began: true},
		{name: "held: until flushed", mode: held, steps: []step{header(404), flush}, events: "status 404, flush", status: 404, began: true},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			under := &below{header: http.Header{}}
			if row.broken {
				under.err = errBroken
			}
			w := Observe(fast{under})
			switch row.mode {
			case withHook:
				w.Hook = hook{under, nil}
			case ended, discarded:
				w.Hook, w.Discard = hook{under, errEnded}, row.mode == discarded
			case held:
				w.Hold = true
			}
			var err error
			for _, step := range row.steps {
				err = step(&w)
			}
			if !errors.Is(err, row.err) {
				t.Errorf("the last step: got error %v, want %v", err, row.err)
			}
			if got := strings.Join(under.events, ", "); got != row.events {
				t.Errorf("below the writer: got %q, want %q", got, row.events)
			}
			if w.Status() != row.status || w.Bytes() != row.bytes || w.Began() != row.began {
				t.Errorf("status, bytes, began: got %d, %d, %v, want %d, %d, %v",
					w.Status(), w.Bytes(), w.Began(), row.status, row.bytes, row.began)
			}
			wantErr := error(nil)
			if slices.ContainsFunc(under.events, func(e string) bool { return strings.HasPrefix(e, "hook") }) &&
				(row.mode == ended || row.mode == discarded) {
				wantErr = errEnded
			}
			if !errors.Is(w.Err(), wantErr) {
				t.Errorf("error of the hook: got %v, want %v", w.Err(), wantErr)
			}
		})
	}
}

// A writer below that has no ReadFrom of its own gets the body in parts.
func TestReadFromCopies(t *testing.T) {
	t.Parallel()
	under := &below{header: http.Header{}}
	w := Observe(under)
	if err := readFrom("abc")(&w); err != nil {
		t.Fatalf("reading the body: %v", err)
	}
	if got, want := strings.Join(under.events, ", "), "status 200, write abc"; got != want {
		t.Errorf("below the writer: got %q, want %q", got, want)
	}
}

func TestUnwrap(t *testing.T) {
	t.Parallel()
	under := &below{header: http.Header{}}
	w := Observe(under)
	if got := w.Unwrap(); got != http.ResponseWriter(under) {
		t.Errorf("the writer below: got %T, want the one that is observed", got)
	}
}

// A middleware that embeds the writer pays for one allocation, its own.
func TestWriterAllocates(t *testing.T) {
	var under http.ResponseWriter = silent{http.Header{}}
	body := []byte("body")
	got := testing.AllocsPerRun(100, func() {
		w := &struct {
			Writer
			kept int
		}{Writer: Observe(under)}
		w.Hook = accept{}
		w.WriteHeader(http.StatusOK)
		_, _ = w.Write(body)
	})
	if got > 1 {
		t.Errorf("an answer allocates %v times, want at most 1", got)
	}
}

type silent struct{ header http.Header }

func (s silent) Header() http.Header         { return s.header }
func (s silent) WriteHeader(int)             {}
func (s silent) Write(p []byte) (int, error) { return len(p), nil }

type accept struct{}

func (accept) BeforeHeader(int) error { return nil }
