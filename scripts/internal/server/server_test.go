// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/internal/freeport"
	"github.com/caddy-moderation/caddy-moderation/scripts/internal/server"
)

// The test program is its own child: it listens, or ends at once, as these variables tell it.
const (
	listenVar = "SERVER_TEST_LISTEN"
	failVar   = "SERVER_TEST_FAIL"
)

func TestMain(m *testing.M) {
	if os.Getenv(failVar) != "" {
		fmt.Fprintln(os.Stderr, "cannot start today")
		os.Exit(3)
	}
	if address := os.Getenv(listenVar); address != "" {
		stop := make(chan os.Signal, 1)
		signal.Notify(stop, syscall.SIGTERM)
		listener, err := net.Listen("tcp", address)
		if err != nil {
			panic(err)
		}
		fmt.Println("ready")
		<-stop
		listener.Close()
		fmt.Println("stopped")
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func options(t *testing.T, env ...string) server.Options {
	t.Helper()
	addresses, err := freeport.Addresses(1)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return server.Options{Command: []string{self}, Env: append(env, listenVar+"="+addresses[0]), Listen: addresses[0]}
}

func TestStartWaitsAndStopIsGraceful(t *testing.T) {
	t.Parallel()
	o := options(t)
	process, err := server.Start(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer process.Kill()
	if _, err := server.Start(context.Background(), o); err == nil {
		t.Error("a second server was started on the same address")
	}
	if _, err := process.WaitOutput("ready", 10*time.Second); err != nil {
		t.Errorf("waiting for the output: %v", err)
	}
	if err := process.Stop(); err != nil {
		t.Errorf("stopping the server: %v", err)
	}
	if out := process.Output(); !strings.Contains(out, "stopped") {
		t.Errorf("the server was not asked to stop: %q", out)
	}
}

func TestServerThatEndsTellsWhy(t *testing.T) {
	t.Parallel()
	_, err := server.Start(context.Background(), options(t, failVar+"=1"))
	if err == nil || !strings.Contains(err.Error(), "exit status 3") ||
		!strings.Contains(err.Error(), "cannot start today") {
		t.Errorf("got error %v, want one with the exit status 3 and the output", err)
	}
}

func TestKilledServerDoesNotStopWell(t *testing.T) {
	t.Parallel()
	process, err := server.Start(context.Background(), options(t))
	if err != nil {
		t.Fatal(err)
	}
	process.Kill()
	if strings.Contains(process.Output(), "stopped") {
		t.Error("the server was asked to stop, not killed")
	}
	if err := process.Stop(); err == nil {
		t.Error("a killed server is reported as stopped well")
	}
}
