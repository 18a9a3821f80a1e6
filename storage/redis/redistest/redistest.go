// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package redistest starts real Redis or Valkey servers for tests, and for programs that test: single servers,
// clusters, masters with replicas and sentinels, with TLS, users and limits, and a [Proxy] that stands between and
// does harm.
//
// Servers listen on loopback addresses that nothing else uses, keep their files in temporary directories, and end with
// the process that started them, however that ends. Functions that take a testing.TB stop what they start when the test
// ends, and skip the test where no server program is installed:
//
//	server := redistest.Run(t, redistest.Options{})
//	store, err := redis.Open(redis.Options{Addresses: []string{server.Addr()}})
//
// The program is the one that the environment variable REDISTEST_SERVER names, otherwise redis-server, otherwise
// valkey-server, both looked up in PATH. With REDISTEST_REQUIRED=1 tests fail where there is none.
package redistest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// The environment variables of this package.
const (
	programVariable  = "REDISTEST_SERVER"
	requiredVariable = "REDISTEST_REQUIRED"
)

// ErrNoProgram says that no server program is installed, and how to install one.
var ErrNoProgram = errors.New("neither redis-server nor valkey-server is installed: run scripts/nodes/install.sh, " +
	"or apt-get install redis-server, or let " + programVariable + " name the program")

// Program returns the path of the server program.
func Program() (string, error) {
	if named := os.Getenv(programVariable); named != "" {
		path, err := exec.LookPath(named)
		if err != nil {
			return "", fmt.Errorf("%s: %w", programVariable, err)
		}
		return path, nil
	}
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", ErrNoProgram
}

// Need skips a test where no server program is installed.
func Need(tb testing.TB) {
	tb.Helper()
	_, err := Program()
	switch {
	case err == nil:
	case errors.Is(err, ErrNoProgram) && os.Getenv(requiredVariable) == "":
		tb.Skip(err)
	default:
		tb.Fatal(err)
	}
}

// Run starts a server, which is stopped when the test ends.
func Run(tb testing.TB, o Options) *Server {
	tb.Helper()
	Need(tb)
	s, err := Start(o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { finish(tb, s.Stop, s) })
	return s
}

// RunCluster starts a cluster, which is stopped when the test ends.
func RunCluster(tb testing.TB, o ClusterOptions) *Cluster {
	tb.Helper()
	Need(tb)
	c, err := StartCluster(o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { finish(tb, c.Stop, c.Nodes...) })
	return c
}

// RunSentinel starts a master with replicas and sentinels, which are stopped when the test ends.
func RunSentinel(tb testing.TB, o SentinelOptions) *Sentinel {
	tb.Helper()
	Need(tb)
	s, err := StartSentinel(o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { finish(tb, s.Stop, append(s.Servers, s.Sentinels...)...) })
	return s
}

// RunProxy starts a proxy before an address, which is stopped when the test ends.
func RunProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	p, err := NewProxy(target)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.Stop)
	return p
}

// finish stops servers, and shows the end of their logs if the test has failed.
func finish(tb testing.TB, stop func(), servers ...*Server) {
	if tb.Failed() {
		for _, s := range servers {
			log := s.Log()
			tb.Logf("server %s:\n%s", s.Addr(), log[max(0, len(log)-2000):])
		}
	}
	stop()
}
