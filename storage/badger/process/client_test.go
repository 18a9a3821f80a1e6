// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-moderation/caddy-moderation/storage/badger/disk"
)

// within fails the test if something hangs. How long it takes otherwise does not matter.
func within(t testing.TB, what string, event <-chan struct{}) {
	t.Helper()
	select {
	case <-event:
	case <-time.After(time.Minute):
		t.Fatal("hangs: ", what)
	}
}

func TestRecordsCross(t *testing.T) {
	t.Parallel()
	c := startFake(t, "records")
	if got := c.Identity(); got != (disk.Identity{1, 2, 3, 15: 16}) {
		t.Error("identity", got)
	}
	entries := []disk.Entry{
		{Key: []byte("a/1"), Value: []byte("one")},
		{Key: []byte("a/2"), Value: []byte{}},
		{Key: []byte("a/3"), Value: bytes.Repeat([]byte("large"), 1<<20)},
		{Key: []byte("b\x00\xff"), Value: []byte("x")},
		{Key: []byte("gone"), Value: []byte("x")},
		{Key: []byte("gone"), Delete: true},
	}
	if err := c.Write(entries); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.Sync(), c.Check()); err != nil {
		t.Fatal(err)
	}
	records, err := c.Get([]byte("a/1"), []byte("gone"), []byte("a/2"), []byte("a/3"), []byte("damaged"))
	if err != nil {
		t.Fatal(err)
	}
	want := []disk.Record{
		{Key: []byte("a/1"), Value: []byte("one")},
		{Key: []byte("gone")},
		{Key: []byte("a/2"), Value: []byte{}},
		{Key: []byte("a/3"), Value: entries[2].Value},
		{Key: []byte("damaged"), Damaged: true},
	}
	same := func(a, b disk.Record) bool {
		return bytes.Equal(a.Key, b.Key) && bytes.Equal(a.Value, b.Value) && (a.Value == nil) == (b.Value == nil) &&
			a.Damaged == b.Damaged
	}
	if !slices.EqualFunc(records, want, same) {
		t.Errorf("got %d records: %+v", len(records), records[:min(2, len(records))])
	}
	records, next, err := c.Scan(disk.Range{Prefix: []byte("a/"), Records: 2})
	if err != nil || len(records) != 2 || string(next) != "a/3" {
		t.Errorf("Scan: got %d records, next %q, %v; want 2 records, next \"a/3\"", len(records), next, err)
	}
	records, next, err = c.Scan(disk.Range{Prefix: []byte("a/"), From: next, KeysOnly: true})
	if err != nil || len(records) != 1 || records[0].Value != nil || next != nil {
		t.Errorf("Scan: got %d records, next %q, %v; want 1 record without a value, and no next", len(records), next,
			err)
	}
	if records, err := c.Get(); err != nil || len(records) != 0 {
		t.Errorf("Get without keys: got %v, %v; want nothing", records, err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestSnapshots(t *testing.T) {
	t.Parallel()
	c := startFake(t, "snapshots")
	for i := range 5 {
		if err := c.Write([]disk.Entry{{Key: fmt.Append(nil, i), Value: []byte("v")}}); err != nil {
			t.Fatal(err)
		}
	}
	var open []disk.Snapshot
	for range maxSnapshots {
		s, err := c.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, s)
	}
	if _, err := c.Snapshot(); err == nil {
		t.Error("snapshots are not bounded")
	}
	for _, s := range open[1:] {
		found := 0
		for {
			records, err := s.Next()
			if err != nil {
				t.Fatal(err)
			}
			if len(records) == 0 {
				break
			}
			found += len(records)
		}
		if err := errors.Join(s.Close(), s.Close()); err != nil || found != 5 {
			t.Errorf("got %d records in the snapshot, and closing it twice: %v; want 5 records", found, err)
		}
		if _, err := s.Next(); err == nil {
			t.Error("a closed snapshot goes on")
		}
	}
	// One is left open.
	if err := c.Close(); err != nil {
		t.Errorf("Close: got the error %v, want none", err)
	}
	if _, err := open[0].Next(); !errors.Is(err, disk.ErrClosed) {
		t.Errorf("Next after Close: got the error %v, want %v", err, disk.ErrClosed)
	}
	if err := open[0].Close(); err != nil {
		t.Errorf("closing a snapshot after the database: got the error %v, want none", err)
	}
}

func TestErrorsCross(t *testing.T) {
	t.Parallel()
	c := startFake(t, "errors")
	for i, want := range disk.Errors() {
		_, err := tell(c, "sentinel", i)
		for _, s := range disk.Errors() {
			if errors.Is(err, s) != (s == want) {
				t.Errorf("is the error %v %v? got %v, want %v", err, s, errors.Is(err, s), s == want)
			}
		}
		if err == nil || err.Error() != "told so: "+want.Error() {
			t.Errorf("got the error %v, want %q", err, "told so: "+want.Error())
		}
	}
	if _, err := tell(c, "sentinels"); !errors.Is(err, disk.ErrFull) || !errors.Is(err, disk.ErrReplaced) ||
		errors.Is(err, disk.ErrClosed) {
		t.Errorf("got the error %v, want one that is %v and %v only", err, disk.ErrFull, disk.ErrReplaced)
	}
	if _, err := tell(c, "plain"); err == nil || err.Error() != "input/output error" || errors.Is(err, ErrEnded) {
		t.Errorf("got the error %v, want input/output error", err)
	}
	if err := c.Write([]disk.Entry{{Key: []byte("full")}}); !errors.Is(err, disk.ErrFull) {
		t.Errorf("Write: got the error %v, want %v", err, disk.ErrFull)
	}
	// A request or an answer that is too large for a frame is refused. Everything else goes on.
	if err := c.Write([]disk.Entry{{Key: []byte("k"), Value: make([]byte, maxBody)}}); !errors.Is(err, errTooLarge) {
		t.Errorf("Write: got the error %v, want %v", err, errTooLarge)
	}
	if _, err := tell(c, "large", maxBody); err == nil || err.Error() != errTooLarge.Error() {
		t.Errorf("got the error %v, want %v", err, errTooLarge)
	}
	if got := mustTell(t, c, "large", maxBody/2); len(got) != maxBody/2 {
		t.Errorf("got %d bytes, want %d", len(got), maxBody/2)
	}
}

func TestStartFails(t *testing.T) {
	t.Parallel()
	for dir, want := range map[string]error{"refuse": disk.ErrDamaged, "die": ErrEnded} {
		c, err := launcher{name: fakeName}.start(context.Background(), disk.Options{Dir: dir})
		if !errors.Is(err, want) || c != nil {
			t.Errorf("starting in %s: got the error %v, want %v", dir, err, want)
		}
		if dir == "die" && !strings.HasSuffix(err.Error(), "exit status 7: out of luck") {
			t.Errorf("starting in %s: got the error %v, want one that ends with the status and the reason", dir, err)
		}
	}
}

// It must be possible to give up an open that never ends.
func TestStartIsGivenUp(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(context.Background())
	stop := errors.New("the server stops")
	time.AfterFunc(100*time.Millisecond, func() { cancel(stop) })
	if _, err := (launcher{name: fakeName}).start(ctx, disk.Options{Dir: "hang"}); !errors.Is(err, stop) {
		t.Errorf("start: got the error %v, want %v", err, stop)
	}
	if _, err := (launcher{name: fakeName}).start(ctx, disk.Options{Dir: "early"}); err == nil {
		t.Error("a context that had ended was not looked at")
	}
}

// The test executable must not hide the name of the real process.
func TestRealProcess(t *testing.T) {
	t.Parallel()
	c, err := Start(context.Background(), disk.Options{Dir: t.TempDir(), MinFree: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Write([]disk.Entry{{Key: []byte("k"), Value: []byte("v")}}); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

// Options that cannot be sent would be lost without an error.
func TestOptionsCross(t *testing.T) {
	t.Parallel()
	o := disk.Options{Dir: "/options", MemTableSize: 1, BlockCacheSize: 2, MinFree: 3, Rewrite: true}
	c := startFakeWith(t, launcher{}, o)
	if got, want := mustTell(t, c, "options"), fmt.Sprintf("%+v", o); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// While a sync takes its time, and a write waits for the disk, everything else goes on.
func TestNothingWaitsForAnotherKind(t *testing.T) {
	t.Parallel()
	c := startFake(t, "/tmp/slow")
	var waiting sync.WaitGroup
	for range 3 {
		waiting.Go(func() {
			if err := c.Sync(); err != nil {
				t.Errorf("Sync: got the error %v, want none", err)
			}
		})
	}
	for i := range maxWrites {
		waiting.Go(func() {
			if err := c.Write([]disk.Entry{{Key: []byte("hang")}, {Key: fmt.Append(nil, i)}}); err != nil {
				t.Errorf("Write: got the error %v, want none", err)
			}
		})
	}
	for range 100 {
		waiting.Go(func() { mustTell(t, c, "hang") })
	}
	for range 100 {
		mustTell(t, c, "pid")
	}
	s, err := c.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Next(); err != nil {
		t.Fatal(err)
	}
	mustTell(t, c, "loose")
	waiting.Wait()
}

func TestWritesKeepTheirOrder(t *testing.T) {
	t.Parallel()
	c := startFake(t, "order")
	var want []string
	var waiting sync.WaitGroup
	for i := range 300 {
		// The next one is sent before this one is answered, but after it was sent.
		m := &message{kind: kindWrite, entries: []disk.Entry{{Key: fmt.Append(nil, i)}}}
		want = append(want, fmt.Sprint(i))
		w := c.calls.Get().(*call)
		w.request = *m
		c.writes <- struct{}{}
		if err := errors.Join(c.register(w), c.to.send(&w.request)); err != nil {
			t.Fatal(err)
		}
		waiting.Go(func() {
			<-w.ready
			if _, err := c.takeAnswer(w, kindDone); err != nil {
				t.Errorf("takeAnswer: got the error %v, want none", err)
			}
			<-c.writes
		})
	}
	waiting.Wait()
	if got := mustTell(t, c, "order"); got != strings.Join(want, " ") {
		t.Errorf("mustTell: got %v, want %v", got, strings.Join(want, " "))
	}
}

func TestManyCallers(t *testing.T) {
	t.Parallel()
	c := startFake(t, "many")
	const callers, rounds = 2000, 5
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for j := range rounds {
				key, value := fmt.Appendf(nil, "%d/%d", i, j), bytes.Repeat([]byte{byte(i)}, 1+i*j%3000)
				if err := c.Write([]disk.Entry{{Key: key, Value: value}}); err != nil {
					t.Errorf("Write: got the error %v, want none", err)
					return
				}
				if j == 1 && i%100 == 0 {
					if err := c.Sync(); err != nil {
						t.Errorf("Sync: got the error %v, want none", err)
					}
				}
				records, err := c.Get(key)
				if err != nil || !bytes.Equal(records[0].Value, value) {
					t.Errorf("%s: another value, or %v", key, err)
					return
				}
			}
		})
	}
	all.Wait()
	if err := c.Close(); err != nil {
		t.Errorf("Close: got the error %v, want none", err)
	}
}

// When the process dies, all waiting calls and the log are told why.
func TestProcessDies(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"exit 3":   "exit status 3",
		"panic":    "exit status 2: panic: open 000012.mem: too many open files",
		"fatal":    "exit status 1: while writing the manifest: input/output error; badger.y.Wrap; file.go:12",
		"logfatal": "exit status 1",
	}
	for how, want := range tests {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			logs, seen := observer.New(zapcore.InfoLevel)
			c := startFakeWith(t, launcher{}, disk.Options{Dir: "dies", Logger: zap.New(logs)})
			if c.Err() != nil {
				t.Errorf("before the end Err: got %v, want nil", c.Err())
			}
			var waiting sync.WaitGroup
			for range 100 {
				waiting.Go(func() {
					if _, err := tell(c, "hang"); !errors.Is(err, ErrEnded) {
						t.Errorf("tell: got the error %v, want %v", err, ErrEnded)
					}
				})
			}
			_, err := tell(c, how)
			if !errors.Is(err, ErrEnded) || !strings.Contains(err.Error(), want) || errors.Is(err, disk.ErrClosed) {
				t.Errorf("got %v, want %s", err, want)
			}
			within(t, "Done", c.Done())
			within(t, "Released", c.Released())
			waiting.Wait()
			for _, err := range []error{c.Err(), c.Write(nil), c.Sync(), c.Close()} {
				if !errors.Is(err, ErrEnded) {
					t.Errorf("after the end: got the error %v, want %v", err, ErrEnded)
				}
			}
			lines := func() int { return seen.FilterMessage("the database's process ended by itself").Len() }
			for range 1000 {
				if lines() > 0 {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			if lines() != 1 {
				t.Error("the log does not say it, or often:", lines())
			}
		})
	}
}

// A line that some code prints must not break the connection, and nothing else may read from it.
func TestStandardStreamsAreLeftAlone(t *testing.T) {
	t.Parallel()
	c := startFake(t, "streams")
	mustTell(t, c, "print")
	if got := mustTell(t, c, "read"); got != "0 EOF" {
		t.Errorf("mustTell: got %v, want %v", got, "0 EOF")
	}
	if _, err := tell(c, "exit", 4); err == nil ||
		!strings.Contains(err.Error(), "exit status 4: a line that nobody asked for; and another one") {
		t.Errorf("got the error %v, want the exit status and what the process wrote", err)
	}
}

// Anything that is not a frame is an error: no panic, and no memory for bytes that never arrive.
func TestBabble(t *testing.T) {
	t.Parallel()
	for _, what := range []string{
		"text", "zeros", "huge", "cut", "short", "stranger", "request", "broken", "wrong", "log", "many",
		"nothing", "half head",
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			_, err := launcher{name: babbleName}.start(context.Background(),
				disk.Options{Dir: filepath.Join("/", what)})
			if !errors.Is(err, ErrEnded) {
				t.Errorf("start: got the error %v, want %v", err, ErrEnded)
			}
		})
	}
}

func TestClose(t *testing.T) {
	t.Parallel()
	t.Run("hangs", func(t *testing.T) {
		t.Parallel()
		c := startFakeWith(t, launcher{closeTimeout: 50 * time.Millisecond}, disk.Options{Dir: "/hang on close"})
		err := c.Close()
		if !errors.Is(err, disk.ErrClosed) || !strings.Contains(err.Error(), "killed") || c.Close() != err {
			t.Errorf("Close: got %v, then %v; want twice the same error that says that the process was killed", err,
				c.Close())
		}
		within(t, "Released", c.Released())
	})
	t.Run("fails", func(t *testing.T) {
		t.Parallel()
		c := startFake(t, "/fail on close")
		if err := c.Close(); !errors.Is(err, disk.ErrFull) {
			t.Errorf("Close: got the error %v, want %v", err, disk.ErrFull)
		}
		within(t, "Released", c.Released())
	})
	t.Run("many times", func(t *testing.T) {
		t.Parallel()
		c := startFake(t, "/close")
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if err := c.Close(); err != nil {
					t.Errorf("Close: got the error %v, want none", err)
				}
			})
		}
		all.Wait()
		within(t, "Released", c.Released())
		within(t, "Done", c.Done())
		_, err := c.Get([]byte("k"))
		for _, err := range []error{err, c.Err(), c.Write(nil), c.Sync(), c.Check()} {
			if !errors.Is(err, disk.ErrClosed) || errors.Is(err, ErrEnded) {
				t.Errorf("after Abandon: got the error %v, want %v", err, disk.ErrClosed)
			}
		}
	})
	t.Run("calls are answered first", func(t *testing.T) {
		t.Parallel()
		c := startFake(t, "/answered")
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if _, err := tell(c, "large", 100_000); err != nil && !errors.Is(err, disk.ErrClosed) {
					t.Errorf("tell: got the error %v", err)
				}
			})
		}
		if err := c.Close(); err != nil {
			t.Errorf("Close: got the error %v, want none", err)
		}
		all.Wait()
	})
	t.Run("after Abandon", func(t *testing.T) {
		t.Parallel()
		c := startFake(t, "/abandoned")
		c.Abandon()
		c.Abandon()
		if err := c.Close(); !errors.Is(err, disk.ErrClosed) {
			t.Errorf("Close: got the error %v, want %v", err, disk.ErrClosed)
		}
		within(t, "Released", c.Released())
	})
}

func TestLogCrosses(t *testing.T) {
	t.Parallel()
	logs, seen := observer.New(zapcore.InfoLevel)
	c := startFakeWith(t, launcher{}, disk.Options{Dir: "log", Logger: zap.New(logs)})
	mustTell(t, c, "log", 2)
	// A log line at a fatal level must end the child, not the server.
	_, _ = tell(c, "logfatal")
	within(t, "Done", c.Done())
	want := []string{
		"warn opened dir=" + c.cmd.Args[1] + " tables=3",
		"error trouble number=0 error=no space",
		"error trouble number=1 error=no space",
		"error the end",
	}
	lines := func() (got []string) {
		for _, e := range seen.All() {
			text := e.Level.String() + " " + e.Message
			for _, f := range e.Context {
				text += " " + f.Key + "=" + f.String
			}
			if e.Message != "the database's process ended by itself" {
				got = append(got, text)
			}
		}
		return got
	}
	for range 1000 {
		if len(lines()) == len(want) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if got := lines(); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// A log that takes no lines, because its disk is full or nobody reads it, must not hold up the database.
func TestLogThatHangs(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	defer close(hang)
	logs := zapcore.NewCore(zapcore.NewJSONEncoder(zapcore.EncoderConfig{}), hanging(hang), zapcore.InfoLevel)
	c := startFakeWith(t, launcher{}, disk.Options{Dir: "log", Logger: zap.New(logs)})
	mustTell(t, c, "log", 10_000)
	mustTell(t, c, "pid")
	if err := c.Close(); err != nil {
		t.Errorf("Close: got the error %v, want none", err)
	}
}

type hanging chan struct{}

func (h hanging) Write(p []byte) (int, error) { <-h; return len(p), nil }
func (h hanging) Sync() error                 { return nil }
