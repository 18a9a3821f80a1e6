// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/storage/badger/disk"
)

// frame returns the message as it is sent.
func frame(t testing.TB, m *message) []byte {
	t.Helper()
	var b bytes.Buffer
	s := sender{w: &b}
	if err := s.send(m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// samples has a message of each kind.
func samples() []*message {
	return []*message{
		{kind: kindOpen, number: 1, raw: []byte(`{"Protocol":1}`)},
		{kind: kindGet, number: 2, keys: [][]byte{[]byte("a"), {}, []byte("b")}},
		{kind: kindScan, number: 1 << 40,
			scan: disk.Range{Prefix: []byte("p"), From: []byte("q"), Records: 7, KeysOnly: true}},
		{kind: kindWrite, number: 3, entries: []disk.Entry{{Key: []byte("k"), Value: []byte("v")}, {Key: []byte("l"),
			Delete: true}}},
		{kind: kindSync, number: 4},
		{kind: kindCheck, number: 4},
		{kind: kindSnapshot, number: 5},
		{kind: kindNext, number: 6, id: 300},
		{kind: kindEnd, number: 7, id: 1},
		{kind: kindClose, number: 8},
		{kind: kindOpened, number: 1, raw: make([]byte, 16)},
		{kind: kindRecords, number: 2, records: []disk.Record{{Key: []byte("k"), Value: []byte{}}, {Key: []byte("l"),
			Damaged: true}}, next: []byte("m")},
		{kind: kindDone, number: 3, id: 5},
		{kind: kindFailed, number: 4, failure: failure{is: 9, text: "it failed"}},
		{kind: kindLog, raw: []byte(`{}`)},
	}
}

// FuzzFrames reads frames as both sides do. Whatever is read can be written, and is read as the same then.
func FuzzFrames(f *testing.F) {
	for _, m := range samples() {
		f.Add(frame(f, m))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		r := bufio.NewReaderSize(bytes.NewReader(input), 16)
		for {
			var m message
			body, err := m.receive(r)
			if err != nil {
				if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, errFrame) {
					t.Fatalf("receive: got the error %v", err)
				}
				return
			}
			if len(body) > len(input) {
				t.Fatal("a body from nothing")
			}
			if err := m.parse(body); err != nil {
				continue
			}
			first := frame(t, &m)
			var again message
			body, err = again.receive(bufio.NewReader(bytes.NewReader(first)))
			if err == nil {
				err = again.parse(body)
			}
			if err != nil {
				t.Fatal(err)
			}
			if second := frame(t, &again); !bytes.Equal(first, second) {
				t.Fatalf("%x\n%x", first, second)
			}
		}
	})
}

// FuzzServer talks to the side that has the database, which must answer or end.
func FuzzServer(f *testing.F) {
	all := []byte{}
	for _, m := range samples() {
		f.Add(frame(f, m))
		if m.kind > kindOpen && m.kind < kindClose {
			all = append(all, frame(f, m)...)
		}
	}
	f.Add(all)
	open := frame(f, samples()[0])
	f.Fuzz(func(t *testing.T, input []byte) {
		opened := make(chan struct{})
		once := sync.OnceFunc(func() { close(opened) })
		out := writer(func(p []byte) { once() })
		in := io.MultiReader(bytes.NewReader(open), reader(func() { <-opened }), bytes.NewReader(input))
		err := serve(in, out, openQuiet)
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, errFrame) {
			t.Errorf("serve: got the error %v", err)
		}
	})
}

type writer func([]byte)

func (w writer) Write(p []byte) (int, error) { w(p); return len(p), nil }

// reader has nothing to read, but waits.
type reader func()

func (r reader) Read([]byte) (int, error) { r(); return 0, io.EOF }

// openQuiet opens a fake that knows no tricks.
func openQuiet(o disk.Options) (disk.Database, error) {
	return quiet{&fake{records: map[string][]byte{}}}, nil
}

type quiet struct{ *fake }

func (q quiet) Write([]disk.Entry) error { return nil }

func (q quiet) Get(keys ...[]byte) ([]disk.Record, error) {
	records := make([]disk.Record, len(keys))
	for i, k := range keys {
		records[i].Key = k
	}
	return records, nil
}

// What is cut off at any place is an error, and what promises much and brings little costs little.
func TestFramesCutOff(t *testing.T) {
	t.Parallel()
	for _, m := range samples() {
		whole := frame(t, m)
		for n := 1; n < len(whole); n++ {
			var got message
			if _, err := got.receive(bufio.NewReader(bytes.NewReader(whole[:n]))); !errors.Is(err,
				io.ErrUnexpectedEOF) {
				t.Fatalf("kind %x, %d of %d bytes: %v", m.kind, n, len(whole), err)
			}
		}
		var got message
		body, err := got.receive(bufio.NewReader(bytes.NewReader(whole)))
		if err != nil {
			t.Fatal(err)
		}
		if err := got.parse(append(body, 0)); err == nil && m.raw == nil && m.kind != kindFailed {
			t.Errorf("kind %x: what follows is not looked at", m.kind)
		}
	}
	promise := []byte{maxBody >> 24, 0, 0, 0, byte(kindRecords), 0, 0, 0, 0, 0, 0, 0, 1}
	allocated := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			var m message
			if _, err := m.receive(bufio.NewReader(bytes.NewReader(promise))); !errors.Is(err, io.ErrUnexpectedEOF) {
				b.Fatalf("receive: got the error %v, want %v", err, io.ErrUnexpectedEOF)
			}
		}
	}).AllocedBytesPerOp()
	if allocated > 2<<20 {
		t.Error("bytes allocated for nothing:", allocated)
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	stack := "\n\ngoroutine 7 [running]:\n" +
		strings.Repeat("github.com/dgraph-io/badger/v4.(*DB).x(0xc000)\n\t/x.go:1 +0x1d\n", 1000)
	noise := strings.Repeat("a line\n", 10_000)
	tests := []struct{ name, said, brief string }{
		{"nothing", "", ""},
		{"a panic with a long report", noise + "panic: no space left" + stack, "panic: no space left"},
		{"a fault", "unexpected fault address 0x7f\nfatal error: fault\n[signal SIGBUS: bus error]" + stack,
			"unexpected fault address 0x7f; fatal error: fault; [signal SIGBUS: bus error]"},
		{"log.Fatal", noise + "2026/11/22 11:00:00 older\n2026/11/22 11:00:01 while syncing: EIO\nwrap\n", "while syncing: EIO; wrap"},
		{"something else", noise + "one\ntwo\nthree\n", "one; two; three"},
		{"a long line", "panic: " + strings.Repeat("x", 10_000), "panic: " + strings.Repeat("x", 193)},
	}
	for _, test := range tests {
		for _, step := range []int{1, 1000, 1 << 20} {
			var w stderrTail
			for rest := []byte(test.said); len(rest) > 0; {
				n := min(step, len(rest))
				w.Write(rest[:n])
				rest = rest[n:]
			}
			if got := w.brief(); got != test.brief {
				t.Errorf("%s, %d bytes at a time: %q", test.name, step, got)
			}
			if n := len(w.all()); n > maxStderr {
				t.Error("too many words:", n)
			}
		}
	}
}
