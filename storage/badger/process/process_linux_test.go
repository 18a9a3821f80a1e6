// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caddy-moderation/caddy-moderation/storage/badger/disk"
)

func pid(t testing.TB, c *Client) int {
	t.Helper()
	n, err := strconv.Atoi(mustTell(t, c, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// eventually waits for something that happens in another process.
func eventually(t testing.TB, what string, happened func() bool) {
	t.Helper()
	for range 6000 {
		if happened() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("does not happen: ", what)
}

func TestKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := startFake(t, dir)
	if _, err := (launcher{name: fakeName}).start(context.Background(), disk.Options{Dir: dir}); !errors.Is(err,
		disk.ErrLocked) {
		t.Error("two processes have the directory:", err)
	}
	p := pid(t, c)
	var waiting sync.WaitGroup
	for i := range 100 {
		waiting.Go(func() {
			_, err := tell(c, "hang", i)
			if !errors.Is(err, ErrEnded) || !strings.HasSuffix(err.Error(), "signal: killed") {
				t.Errorf("a call of a killed process: got the error %v, want %v ... signal: killed", err, ErrEnded)
			}
		})
	}
	eventually(t, "100 calls wait", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return len(c.waiting) == 100 })
	if err := syscall.Kill(p, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waiting.Wait()
	within(t, "Released", c.Released())
	if err := syscall.Kill(p, 0); !errors.Is(err, syscall.ESRCH) {
		t.Error("a zombie is left:", err)
	}
	if err := startFake(t, dir).Close(); err != nil {
		t.Errorf("startFake: got the error %v, want none", err)
	}
}

// A process that does not react, like one that hangs in a system call, must not hold up a caller that abandons it.
func TestStopped(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := startFake(t, dir)
	child := pid(t, c)
	if err := syscall.Kill(child, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	// Its threads stop one after the other, on a busy machine some later than others.
	eventually(t, "all threads stop", func() bool { return stopped(t, child) })
	var waiting sync.WaitGroup
	for i := range 100 {
		waiting.Go(func() {
			// The pipe is full soon, and a caller hangs in a write.
			err := c.Write([]disk.Entry{{Key: fmt.Append(nil, i), Value: make([]byte, 100_000)}})
			if !errors.Is(err, disk.ErrClosed) {
				t.Errorf("Write: got the error %v, want %v", err, disk.ErrClosed)
			}
		})
		waiting.Go(func() {
			if _, err := c.Get([]byte("k")); !errors.Is(err, disk.ErrClosed) {
				t.Errorf("Get: got the error %v, want %v", err, disk.ErrClosed)
			}
		})
	}
	eventually(t, "calls wait",
		func() bool { c.mu.Lock(); defer c.mu.Unlock(); return len(c.waiting) == 100+maxWrites })
	c.Abandon()
	waiting.Wait()
	within(t, "Released", c.Released())
	if err := startFake(t, dir).Close(); err != nil {
		t.Errorf("startFake: got the error %v, want none", err)
	}
}

// stopped reports whether all threads of a process are.
func stopped(t *testing.T, pid int) bool {
	stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(stats) == 0 {
		t.Fatal("the process is gone: ", err)
	}
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(stat, []byte(") T ")) {
			return false
		}
	}
	return true
}

// When the server dies, whatever its process does, the process ends and the directory is free for the next server.
func TestParentDies(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := &exec.Cmd{Path: "/proc/self/exe", Args: []string{parentName, dir}, Stderr: os.Stderr}
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	child, bad := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(line), " <nil>"))
	if err != nil || bad != nil {
		t.Fatal(line, err)
	}
	if err := server.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = server.Wait()
	var c *Client
	eventually(t, "the directory is free", func() bool {
		c, err = launcher{name: fakeName}.start(context.Background(), disk.Options{Dir: dir})
		return !errors.Is(err, disk.ErrLocked)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Abandon()
	// It is another process's zombie now, or gone.
	if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child)); err == nil &&
		!strings.Contains(string(stat), ") Z ") {
		t.Errorf("it lives: %s", stat)
	}
}

// Signals of service managers, terminals and people are for the server. It closes the database when it ends.
func TestSignalsAreForTheServer(t *testing.T) {
	t.Parallel()
	c := startFake(t, "signals")
	p := pid(t, c)
	if group, err := unix.Getpgid(p); err != nil || group != p {
		t.Error("not in a group of its own:", group, err)
	}
	for range 3 {
		for _, s := range []syscall.Signal{
			syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE, syscall.SIGUSR1, syscall.SIGUSR2,
		} {
			if err := syscall.Kill(p, s); err != nil {
				t.Fatal(err)
			}
			mustTell(t, c, "pid")
		}
	}
	if err := c.Close(); err != nil {
		t.Errorf("Close: got the error %v, want none", err)
	}
}

// The process inherits neither descriptors nor secrets of the server.
func TestInheritance(t *testing.T) {
	// Not parallel: the environment is changed.
	t.Setenv("MODERATION_KEY", "secret")
	t.Setenv("GOMEMLIMIT", "1GiB")
	t.Setenv("NOTIFY_SOCKET", "/run/x")
	t.Setenv("GODEBUG", "asyncpreemptoff=0")
	// A socket, as from a service manager.
	var handed [2]int
	if err := unix.Pipe(handed[:]); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(handed[0])
	defer unix.Close(handed[1])
	pipe, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", handed[0]))
	if err != nil {
		t.Fatal(err)
	}
	c := startFake(t, "relative/dir")
	p := pid(t, c)
	for _, e := range strings.Split(mustTell(t, c, "env"), "\n") {
		if e != "GODEBUG=asyncpreemptoff=0" && !strings.HasPrefix(e, "GOCOVERDIR=") {
			t.Error("the process has", e)
		}
	}
	abs, _ := filepath.Abs("relative/dir")
	if got := mustTell(t, c, "args"); got != fakeName+"\n"+abs {
		t.Errorf("mustTell: got %v, want %v", got, fakeName+"\n"+abs)
	}
	if got := mustTell(t, c, "cwd"); got != "/" {
		t.Errorf("mustTell: got %v, want %v", got, "/")
	}
	if got, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", p)); string(got) != "caddy-mod-store\n" {
		t.Errorf("the name of the process: got %q, want %q", got, "caddy-mod-store\n")
	}
	same := func(file string) {
		own, _ := os.ReadFile("/proc/self/" + file)
		its, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p, file))
		if err != nil || string(own) != string(its) {
			t.Errorf("%s: %s, the server has %s", file, its, own)
		}
	}
	same("oom_score_adj")
	same("cgroup")
	own, _ := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if its, err := unix.Getpriority(unix.PRIO_PROCESS, p); err != nil || its != own {
		t.Error("niceness", its, own, err)
	}
	// Only its pipes, /dev/null and the poller of its runtime.
	pipes := 0
	for _, fd := range descriptors(t, fmt.Sprint(p)) {
		switch {
		case strings.HasPrefix(fd, "pipe:"):
			pipes++
			if fd == pipe {
				t.Error("it has what the server was handed")
			}
		case fd == "/dev/null", strings.HasPrefix(fd, "anon_inode:"), strings.HasPrefix(fd, "/sys/fs/cgroup/"):
		default:
			t.Error("the process has", fd)
		}
	}
	// Input, output, and the error output twice.
	if pipes != 4 {
		t.Error("pipes:", pipes, descriptors(t, fmt.Sprint(p)))
	}
}

// descriptors returns what a process has open.
func descriptors(t testing.TB, process string) (open []string) {
	t.Helper()
	dir := "/proc/" + process + "/fd"
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if to, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil {
			open = append(open, to)
		}
	}
	return open
}

// A server that opens its database again and again must not leak.
func TestNothingLeaks(t *testing.T) {
	// Not parallel: all that is open is counted.
	times := 200
	if testing.Short() {
		times = 20
	}
	var spare SpareDescriptors
	if err := spare.Fill(); err != nil {
		t.Fatal(err)
	}
	round := func(i int) {
		c := startFakeWith(t, launcher{spare: &spare}, disk.Options{Dir: "leaks"})
		mustTell(t, c, "pid")
		switch i % 3 {
		case 0:
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
		case 1:
			c.Abandon()
		case 2:
			_, _ = tell(c, "exit")
		}
		within(t, "Released", c.Released())
	}
	for i := range 3 {
		round(i)
	}
	var goroutines, files int
	count := func() (int, int) { return runtime.NumGoroutine(), len(descriptors(t, "self")) }
	eventually(t, "rest", func() bool {
		g, f := count()
		quiet := g == goroutines && f == files
		goroutines, files = g, f
		time.Sleep(50 * time.Millisecond)
		return quiet
	})
	for i := range times {
		round(i)
	}
	eventually(t, fmt.Sprintf("no more than %d goroutines and %d descriptors", goroutines, files), func() bool {
		g, f := count()
		return g <= goroutines && f <= files
	})
	if err := spare.Close(); err != nil {
		t.Fatal(err)
	}
	if _, f := count(); f != files-spareCount {
		t.Error("spare descriptors are kept after Close:", f, files)
	}
}

// A server that has used up its descriptors must be able to start its database.
func TestNoDescriptorsLeft(t *testing.T) {
	// Not parallel: nothing else can be opened meanwhile.
	var spare SpareDescriptors
	if err := spare.Fill(); err != nil {
		t.Fatal(err)
	}
	defer spare.Close()
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	low := old
	low.Cur = 100
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &low); err != nil {
		t.Skip(err)
	}
	var used []io.Closer
	give := func() {
		_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &old)
		for _, u := range used {
			u.Close()
		}
	}
	defer give()
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			break
		}
		used = append(used, f)
	}
	_, err := (launcher{name: fakeName}).start(context.Background(), disk.Options{Dir: "none"})
	if !errors.Is(err, unix.EMFILE) {
		t.Errorf("start without descriptors: got the error %v, want %v", err, unix.EMFILE)
	}
	c, err := launcher{name: fakeName, spare: &spare}.start(context.Background(), disk.Options{Dir: "some"})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Errorf("Close: got the error %v, want none", err)
	}
	// And once more: the spare descriptors were taken again.
	c, err = launcher{name: fakeName, spare: &spare}.start(context.Background(), disk.Options{Dir: "some"})
	if err != nil {
		t.Fatal(err)
	}
	c.Abandon()
	within(t, "Released", c.Released())
}

// What was written is there after the process was killed, synced or not, and it is the same database.
func TestDatabaseSurvivesItsProcess(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	o := disk.Options{Dir: t.TempDir(), MinFree: 1 << 20}
	for round := range 3 {
		c, err := Start(ctx, o)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Abandon()
		if id := c.Identity(); o.Expect == nil {
			o.Expect = &id
		}
		for i := range round * 100 {
			records, err := c.Get(fmt.Appendf(nil, "key/%04d", i))
			if err != nil || string(records[0].Value) != fmt.Sprint("value ", i) {
				t.Fatalf("round %d, record %d: %+v, %v", round, i, records, err)
			}
		}
		for i := range 100 {
			i += round * 100
			entry := disk.Entry{Key: fmt.Appendf(nil, "key/%04d", i), Value: fmt.Append(nil, "value ", i)}
			if err := c.Write([]disk.Entry{entry}); err != nil {
				t.Fatal(err)
			}
			if i%100 == 50 {
				if err := c.Sync(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if _, err := Start(ctx, o); !errors.Is(err, disk.ErrLocked) {
			t.Errorf("Start: got the error %v, want %v", err, disk.ErrLocked)
		}
		if err := c.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		within(t, "Done", c.Done())
		if err := c.Write(nil); !errors.Is(err, ErrEnded) {
			t.Errorf("Write: got the error %v, want %v", err, ErrEnded)
		}
		within(t, "Released", c.Released())
	}
	// Another directory is not taken for this one.
	o.Dir = t.TempDir()
	if _, err := Start(ctx, o); !errors.Is(err, disk.ErrReplaced) {
		t.Errorf("Start: got the error %v, want %v", err, disk.ErrReplaced)
	}
}
