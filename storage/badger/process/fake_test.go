// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/storage/badger/disk"
)

// The names under which the test's executable starts itself.
const (
	fakeName   = name + "-test"   // keeps a fake instead of a database
	babbleName = name + "-babble" // writes what the directory's name says, and waits
	parentName = name + "-parent" // starts a fake in the directory and waits
)

func TestMain(m *testing.M) {
	switch os.Args[0] {
	case fakeName:
		os.Exit(child(openFake))
	case babbleName:
		os.Exit(babble(filepath.Base(os.Args[1])))
	case parentName:
		os.Exit(parent(os.Args[1]))
	}
	os.Exit(m.Run())
}

// startFake starts a process with a fake in it.
func startFake(t testing.TB, dir string) *Client {
	t.Helper()
	return startFakeWith(t, launcher{}, disk.Options{Dir: dir})
}

func startFakeWith(t testing.TB, l launcher, o disk.Options) *Client {
	t.Helper()
	l.name = fakeName
	c, err := l.start(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Abandon)
	return c
}

// tell has the fake do something.
func tell(c *Client, stderrTail ...any) (string, error) {
	records, err := c.Get([]byte(fmt.Sprintln(stderrTail...)))
	if err != nil {
		return "", err
	}
	return string(records[0].Value), nil
}

func mustTell(t testing.TB, c *Client, stderrTail ...any) string {
	t.Helper()
	answer, err := tell(c, stderrTail...)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// fake is a disk.Database that does what keys say.
type fake struct {
	options disk.Options

	mu      sync.Mutex
	records map[string][]byte
	order   []string
	stuck   chan struct{}
}

func openFake(o disk.Options) (disk.Database, error) {
	switch filepath.Base(o.Dir) {
	case "refuse":
		return nil, fmt.Errorf("%w: look at %s", disk.ErrDamaged, o.Dir)
	case "hang":
		select {}
	case "die":
		os.Stderr.WriteString("out of luck\n")
		os.Exit(7)
	}
	if err := lockFake(o.Dir); err != nil {
		return nil, err
	}
	o.Logger.Warn("opened", zap.String("dir", o.Dir), zap.Int("tables", 3))
	return &fake{options: o, records: map[string][]byte{}, stuck: make(chan struct{})}, nil
}

func (f *fake) Get(keys ...[]byte) ([]disk.Record, error) {
	if len(keys) == 1 {
		if stderrTail := strings.Fields(string(keys[0])); len(stderrTail) > 0 {
			if do, known := tricks[stderrTail[0]]; known {
				value, err := do(f, append(stderrTail[1:], "0"))
				return []disk.Record{{Key: keys[0], Value: []byte(value)}}, err
			}
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var records []disk.Record
	for _, k := range keys {
		records = append(records, disk.Record{Key: k, Value: f.records[string(k)], Damaged: string(k) == "damaged"})
	}
	return records, nil
}

// tricks are what a key can ask for.
var tricks = map[string]func(f *fake, args []string) (string, error){
	"pid":   func(*fake, []string) (string, error) { return strconv.Itoa(os.Getpid()), nil },
	"hang":  func(f *fake, _ []string) (string, error) { <-f.stuck; return "", nil },
	"loose": func(f *fake, _ []string) (string, error) { close(f.stuck); return "", nil },
	"exit": func(_ *fake, args []string) (string, error) {
		code, _ := strconv.Atoi(args[0])
		os.Exit(code)
		return "", nil
	},
	"panic": func(*fake, []string) (string, error) {
		// In a goroutine of its own, as Badger does.
		go func() { panic(errors.New("open 000012.mem: too many open files")) }()
		select {}
	},
	"fatal": func(*fake, []string) (string, error) {
		os.Stderr.WriteString(strings.Repeat("chatter\n", 5000))
		log.Fatalf("while writing the manifest: %+v", "input/output error\nbadger.y.Wrap\n\tfile.go:12")
		return "", nil
	},
	"print": func(*fake, []string) (string, error) {
		fmt.Println("a line that nobody asked for")
		_, err := os.NewFile(1, "").WriteString("and another one\n")
		return "", err
	},
	"read": func(*fake, []string) (string, error) {
		n, err := os.Stdin.Read(make([]byte, 100))
		return fmt.Sprint(n, err), nil
	},
	"sentinel": func(_ *fake, args []string) (string, error) {
		i, _ := strconv.Atoi(args[0])
		return "", fmt.Errorf("told so: %w", disk.Errors()[i])
	},
	"sentinels": func(*fake, []string) (string, error) { return "", errors.Join(disk.ErrFull, disk.ErrReplaced) },
	"plain":     func(*fake, []string) (string, error) { return "", errors.New("input/output error") },
	"large": func(_ *fake, args []string) (string, error) {
		n, _ := strconv.Atoi(args[0])
		return strings.Repeat("x", n), nil
	},
	"log": func(f *fake, args []string) (string, error) {
		n, _ := strconv.Atoi(args[0])
		for i := range n {
			f.options.Logger.Error("trouble", zap.Int("number", i), zap.Error(errors.New("no space")))
		}
		f.options.Logger.Debug("chatter")
		return "", nil
	},
	"logfatal": func(f *fake, _ []string) (string, error) {
		f.options.Logger.Fatal("the end")
		return "", nil
	},
	"env":  func(*fake, []string) (string, error) { return strings.Join(os.Environ(), "\n"), nil },
	"args": func(*fake, []string) (string, error) { return strings.Join(os.Args, "\n"), nil },
	"cwd":  func(*fake, []string) (string, error) { return os.Getwd() },
	"order": func(f *fake, _ []string) (string, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		return strings.Join(f.order, " "), nil
	},
	"options": func(f *fake, _ []string) (string, error) {
		o := f.options
		o.Logger = nil
		return fmt.Sprintf("%+v", o), nil
	},
}

func (f *fake) Scan(r disk.Range) ([]disk.Record, []byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var records []disk.Record
	for k, v := range f.records {
		if strings.HasPrefix(k, string(r.Prefix)) && k >= string(r.From) {
			if r.KeysOnly {
				v = nil
			}
			records = append(records, disk.Record{Key: []byte(k), Value: v})
		}
	}
	slices.SortFunc(records, func(a, b disk.Record) int { return strings.Compare(string(a.Key), string(b.Key)) })
	if r.Records > 0 && len(records) > r.Records {
		return records[:r.Records], records[r.Records].Key, nil
	}
	return records, nil, nil
}

func (f *fake) Write(entries []disk.Entry) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range entries {
		switch key := string(e.Key); {
		case key == "hang":
			f.mu.Unlock()
			<-f.stuck
			f.mu.Lock()
		case key == "full":
			return disk.ErrFull
		case e.Delete:
			delete(f.records, key)
		default:
			f.records[key] = slices.Clone(e.Value)
			f.order = append(f.order, key)
		}
	}
	return nil
}

func (f *fake) Sync() error {
	if filepath.Base(f.options.Dir) == "slow" {
		<-f.stuck
	}
	return nil
}

func (f *fake) Check() error            { return nil }
func (f *fake) Identity() disk.Identity { return disk.Identity{1, 2, 3, 15: 16} }

func (f *fake) Close() error {
	switch filepath.Base(f.options.Dir) {
	case "hang on close":
		select {}
	case "fail on close":
		return disk.ErrFull
	}
	return nil
}

func (f *fake) Snapshot() (disk.Snapshot, error) {
	records, _, err := f.Scan(disk.Range{})
	return &fakeSnapshot{rest: records}, err
}

type fakeSnapshot struct {
	rest   []disk.Record
	closed bool
}

func (s *fakeSnapshot) Next() ([]disk.Record, error) {
	if s.closed {
		panic("Next after Close")
	}
	n := min(2, len(s.rest))
	next := s.rest[:n]
	s.rest = s.rest[n:]
	return next, nil
}

func (s *fakeSnapshot) Close() error { s.closed = true; return nil }

// babble writes something that no database's process writes.
func babble(what string) int {
	head := func(kind kind, size uint32, number uint64) string {
		b := []byte{byte(size >> 24), byte(size >> 16), byte(size >> 8), byte(size), byte(kind), 0, 0, 0, 0, 0, 0, 0,
			byte(number)}
		return string(b)
	}
	say := map[string]string{
		"text":      "Usage:\n  caddy [command]\n\nAvailable Commands:\n",
		"zeros":     strings.Repeat("\x00", 1000),
		"huge":      head(kindOpened, 1<<31, 1),
		"cut":       head(kindOpened, maxBody, 1) + "and no more",
		"short":     head(kindOpened, 3, 1) + "abc",
		"stranger":  head(kindDone, 1, 99) + "\x00",
		"request":   head(kindWrite, 1, 1) + "\x00",
		"broken":    head(kindRecords, 4, 1) + "\xff\xff\xff\xff",
		"wrong":     head(kindDone, 1, 1) + "\x00",
		"log":       head(kindLog, 3, 0) + "{{{" + head(kindOpened, 3, 1) + "abc",
		"many":      head(kindRecords, 5, 1) + "\xff\xff\xff\x7f\x01",
		"nothing":   "",
		"half head": "\x00\x00",
	}[what]
	os.Stdout.WriteString(say)
	if what == "cut" || what == "nothing" || what == "half head" {
		return 0
	}
	time.Sleep(time.Minute)
	return 0
}

// parent is a server that is killed later.
func parent(dir string) int {
	c, err := launcher{name: fakeName}.start(context.Background(), disk.Options{Dir: dir})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	pid, err := tell(c, "pid")
	fmt.Println(pid, err)
	time.Sleep(time.Minute)
	return 0
}
