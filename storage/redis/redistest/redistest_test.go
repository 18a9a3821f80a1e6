// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redistest_test

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/storage/redis/redistest"
)

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

func text(t *testing.T, s *redistest.Server, args ...string) string {
	t.Helper()
	answer, err := s.Text(args...)
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return answer
}

func TestDataSurviveKill(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{AppendOnly: true, Config: []string{"appendfsync always"}})
	addr := s.Addr()
	text(t, s, "SET", "a", "1")
	s.Kill()
	if _, err := s.Do("GET", "a"); err == nil {
		t.Error("a server that was killed answers")
	}
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	if got := text(t, s, "GET", "a"); got != "1" || s.Addr() != addr {
		t.Errorf("got %q at %s, want 1 at %s", got, s.Addr(), addr)
	}
}

func TestPasswordUsersAndLimits(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{
		Password: "secret", Config: []string{"maxmemory 3mb"},
		Users: []string{"user app on >pass ~mod:* &* -@all +get +set"},
	})
	if got := text(t, s, "CONFIG", "GET", "maxmemory"); got != "" {
		t.Errorf("got %q", got)
	}
	conn, err := redistest.Dial(s.Addr(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	refused := redistest.Error("")
	if _, err := conn.Do("GET", "a"); !errors.As(err, &refused) || !strings.HasPrefix(err.Error(), "NOAUTH") {
		t.Errorf("without a password: %v", err)
	}
	if _, err := conn.Do("AUTH", "app", "pass"); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Do("SET", "mod:a", "1"); err != nil {
		t.Error(err)
	}
	if _, err := conn.Do("SET", "other", "1"); err == nil || !strings.HasPrefix(err.Error(), "NOPERM") {
		t.Errorf("another key: %v", err)
	}
	for i := 0; ; i++ {
		_, err := s.Do("SET", strconv.Itoa(i), strings.Repeat("x", 1<<16))
		if err == nil && i < 1000 {
			continue
		}
		if err == nil || !strings.HasPrefix(err.Error(), "OOM") {
			t.Errorf("above maxmemory: %v", err)
		}
		break
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	ca := redistest.RunCA(t)
	s := redistest.Run(t, redistest.Options{TLS: ca, ClientCertificates: true})
	if got := text(t, s, "PING"); got != "PONG" {
		t.Errorf("got %q", got)
	}
	config, err := ca.Client(false)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := redistest.Dial(s.Addr(), config)
	if err == nil {
		defer conn.Close()
		_, err = conn.Do("PING") // with TLS 1.3 a client learns it from the first answer
	}
	if err == nil {
		t.Error("a client without a certificate is answered")
	}
}

func TestClusterFailsOver(t *testing.T) {
	t.Parallel()
	c := redistest.RunCluster(t, redistest.ClusterOptions{NodeTimeout: time.Second})
	const key = "mod:{a:x}:counts"
	master, err := c.MasterOf(key)
	if err != nil {
		t.Fatal(err)
	}
	if slot, err := master.Int("CLUSTER", "KEYSLOT", key); err != nil || int(slot) != redistest.Slot(key) {
		t.Errorf("slot %d, %v, want %d", redistest.Slot(key), err, slot)
	}
	if _, err := master.Do("SET", key, "1"); err != nil {
		t.Fatal(err)
	}
	if n, err := master.Int("WAIT", "1", "10000"); err != nil || n != 1 {
		t.Fatalf("%d replicas, %v", n, err)
	}
	master.Kill()
	eventually(t, "another master", func() bool {
		now, err := c.MasterOf(key)
		return err == nil && now != master
	})
	now, err := c.MasterOf(key)
	if err != nil {
		t.Fatal(err)
	}
	if got := text(t, now, "GET", key); got != "1" {
		t.Errorf("got %q", got)
	}
	if err := master.Restart(); err != nil {
		t.Fatal(err)
	}
	if err := c.WaitAgreed(); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Failovers(); err != nil || n < 1 {
		t.Errorf("%d failovers, %v", n, err)
	}
	if replica, err := c.ReplicaOf(now); err != nil || replica != master {
		t.Errorf("the old master does not replicate: %v", err)
	}
}

func TestSlotsMove(t *testing.T) {
	t.Parallel()
	c := redistest.RunCluster(t, redistest.ClusterOptions{Replicas: -1, NodeTimeout: 10 * time.Second,
		Options: redistest.Options{Password: "secret"}})
	const key = "{x}1"
	from, err := c.MasterOf(key)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		text(t, from, "SET", "{x}"+strconv.Itoa(i), "1")
	}
	to := c.Nodes[(slices.Index(c.Nodes, from)+1)%3]
	steps := 0
	if err := c.MoveSlot(redistest.Slot(key), to, func() { steps++ }); err != nil {
		t.Fatal(err)
	}
	if err := c.WaitAgreed(); err != nil {
		t.Fatal(err)
	}
	if now, err := c.MasterOf(key); err != nil || now != to {
		t.Fatalf("served by %v, %v", now, err)
	}
	if got := text(t, to, "GET", "{x}9"); got != "1" || steps < 12 {
		t.Errorf("got %q after %d steps", got, steps)
	}
	if _, err := from.Do("GET", key); err == nil || !strings.HasPrefix(err.Error(), "MOVED") {
		t.Errorf("the old master: %v", err)
	}
}

func TestSentinelFailsOver(t *testing.T) {
	t.Parallel()
	s := redistest.RunSentinel(t, redistest.SentinelOptions{Options: redistest.Options{Password: "secret"}})
	master, err := s.Master()
	if err != nil {
		t.Fatal(err)
	}
	text(t, master, "SET", "a", "1")
	if n, err := master.Int("WAIT", "2", "10000"); err != nil || n != 2 {
		t.Fatalf("%d replicas, %v", n, err)
	}
	master.Kill()
	eventually(t, "another master", func() bool {
		now, err := s.Master()
		return err == nil && now != master
	})
	now, err := s.Master()
	if err != nil {
		t.Fatal(err)
	}
	if got := text(t, now, "GET", "a"); got != "1" {
		t.Errorf("got %q", got)
	}
	if n, err := s.Failovers(); err != nil || n < 1 {
		t.Errorf("%d failovers, %v", n, err)
	}
	if err := master.Restart(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the old master becomes a replica", func() bool {
		role, err := master.Info("role")
		return err == nil && role == "slave"
	})
}

// ask sends PING through an address and reports whether it is answered within the time.
func ask(addr string, limit time.Duration) error {
	conn, err := net.DialTimeout("tcp", addr, limit)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	_, err = conn.Read(make([]byte, 10))
	return err
}

func TestProxyFaults(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	const long, short = time.Minute, 100 * time.Millisecond
	tests := map[string]struct {
		harm  func(*redistest.Proxy)
		limit time.Duration
		fails bool
	}{
		"nothing":        {func(*redistest.Proxy) {}, long, false},
		"hang":           {func(p *redistest.Proxy) { p.Hang() }, short, true},
		"delay":          {func(p *redistest.Proxy) { p.Delay(time.Minute) }, short, true},
		"short delay":    {func(p *redistest.Proxy) { p.Delay(time.Millisecond) }, long, false},
		"little traffic": {func(p *redistest.Proxy) { p.Bandwidth(1) }, short, true},
		"refuse":         {func(p *redistest.Proxy) { p.Refuse() }, long, true},
		"cut":            {func(p *redistest.Proxy) { p.Cut() }, long, false},
		"lost answer":    {func(p *redistest.Proxy) { p.LoseAnswers(1, "PING") }, long, true},
		"other answer":   {func(p *redistest.Proxy) { p.LoseAnswers(1, "GET") }, long, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := redistest.RunProxy(t, s.Addr())
			if err := ask(p.Addr(), long); err != nil {
				t.Fatal(err)
			}
			test.harm(p)
			if err := ask(p.Addr(), test.limit); (err != nil) != test.fails {
				t.Errorf("got %v", err)
			}
			if err := p.Heal(); err != nil {
				t.Fatal(err)
			}
			if err := ask(p.Addr(), long); err != nil {
				t.Errorf("after healing: %v", err)
			}
		})
	}
}

// TestLostAnswers wants what was asked to be done although the answer was lost.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := redistest.RunProxy(t, s.Addr())
	for i := range 20 {
		p.LoseAnswers(1, "INCR")
		conn, err := redistest.Dial(p.Addr(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if answer, err := conn.Do("INCR", "n"); err == nil {
			t.Fatalf("call %d is answered: %v", i, answer)
		}
		conn.Close()
	}
	if n, err := s.Int("GET", "n"); err != nil || n != 20 {
		t.Errorf("%d of 20 were done, %v", n, err)
	}
}

// TestHangGoesOn wants a connection that hung to go on where it was.
func TestHangGoesOn(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := redistest.RunProxy(t, s.Addr())
	conn, err := redistest.Dial(p.Addr(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	p.Hang()
	var asked sync.WaitGroup
	asked.Go(func() {
		if answer, err := conn.Do("INCR", "n"); err != nil || answer != int64(1) {
			t.Errorf("got %v, %v", answer, err)
		}
	})
	time.Sleep(50 * time.Millisecond)
	if n, err := s.Int("EXISTS", "n"); err != nil || n != 0 {
		t.Errorf("it came through: %d, %v", n, err)
	}
	if err := p.Heal(); err != nil {
		t.Fatal(err)
	}
	asked.Wait()
}

func TestRewrite(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	version, err := s.Info("redis_version")
	if err != nil {
		t.Fatal(err)
	}
	p := redistest.RunProxy(t, s.Addr())
	if err := p.Rewrite("redis_version:"+version, "redis_version:6"+version[1:]); err != nil {
		t.Fatal(err)
	}
	conn, err := redistest.Dial(p.Addr(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answer, err := conn.Do("INFO", "server")
	if info, _ := answer.(string); err != nil || !strings.Contains(info, "redis_version:6"+version[1:]) {
		t.Errorf("got %v, %v", answer, err)
	}
}

// TestServersEndWithTheTest runs this test in a process of its own, which is killed.
func TestServersEndWithTheTest(t *testing.T) {
	const variable = "REDISTEST_CHILD"
	if os.Getenv(variable) != "" {
		s, err := redistest.Start(redistest.Options{})
		if err != nil {
			t.Fatal(err)
		}
		os.Stdout.WriteString(s.Addr() + " " + s.Dir() + "\n")
		time.Sleep(time.Minute)
		return
	}
	t.Parallel()
	redistest.Need(t)
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("only the kernel of Linux ends processes with their parents")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command(self, "-test.run=^TestServersEndWithTheTest$")
	child.Env = append(os.Environ(), variable+"=1")
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 200)
	n, err := out.Read(line)
	addr, dir, _ := strings.Cut(strings.TrimSpace(string(line[:n])), " ")
	if err != nil || ask(addr, time.Minute) != nil {
		t.Fatalf("the server at %q does not answer: %v", addr, err)
	}
	defer os.RemoveAll(dir)
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	eventually(t, "the server ends", func() bool { return ask(addr, time.Second) != nil })
}
