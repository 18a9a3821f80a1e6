// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/quota"
)

func TestNoServer(t *testing.T) {
	t.Parallel()
	free := freeAddress(t)
	const hint = "; start it with \"caddy run\", or name its admin endpoint with --address"
	rows := []struct{ address, want string }{
		{free, "no server answers at " + free + " (connect: connection refused)" + hint},
		{"unix//nowhere/caddy.sock", "no server answers at unix//nowhere/caddy.sock (connect: no such file or directory)" + hint},
		{"localhost:1-5", "--address localhost:1-5 is not the address of an admin endpoint, such as localhost:2019 or unix//run/caddy.sock"},
	}
	for _, row := range rows {
		t.Run(row.address, func(t *testing.T) {
			t.Parallel()
			err := newClient(row.address).call(t.Context(), http.MethodGet, "/moderation/accounts", nil, nil)
			if err == nil || err.Error() != row.want {
				t.Errorf("got the error %v, want %s", err, row.want)
			}
		})
	}
}

// TestServerWithoutTheModules: a plain Caddy answers these paths with its own 404.
func TestServerWithoutTheModules(t *testing.T) {
	load(t, "")
	err := newClient(address).call(t.Context(), http.MethodGet, "/elsewhere", nil, nil)
	if want := "the server at " + address + " runs without the moderation modules"; err == nil || err.Error() != want {
		t.Errorf("got the error %v, want %s", err, want)
	}
}

// TestUnhappyServers sends requests to servers that answer with what this module does not send, or not at all.
func TestUnhappyServers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, want string
		answer     http.HandlerFunc
	}{
		{"a proxy", "the server at ADDRESS answered 502 Bad Gateway", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadGateway)
			_, _ = io.WriteString(w, "<html>no upstream: sorry")
		}},
		{"a message", "host not allowed: x", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"error":"host not allowed: x"}`)
		}},
		{"a connection that ends", "asking the server at ADDRESS: EOF", func(http.ResponseWriter, *http.Request) {
			panic(http.ErrAbortHandler)
		}},
		{"a part", "the answer of the server at ADDRESS broke off: unexpected EOF", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"id":`)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewUnstartedServer(test.answer)
			server.Config.ErrorLog = nil
			server.Start()
			defer server.Close()
			address := server.Listener.Addr().String()
			var account quota.Account
			err := newClient(address).call(t.Context(), http.MethodGet, "/moderation/accounts/x", nil, &account)
			if want := strings.ReplaceAll(test.want, "ADDRESS", address); err == nil || err.Error() != want {
				t.Errorf("got the error %v, want %s", err, want)
			}
		})
	}
}

// TestResetConnections: while a server reloads, it may reset a connection before anything was sent on it.
func TestResetConnections(t *testing.T) {
	t.Parallel()
	reset := errors.New("performing request: Post \"http://localhost:2019/x\": dial tcp [::1]:2019: connect: " + syscall.ECONNRESET.Error())
	half := errors.New("performing request: Post \"http://localhost:2019/x\": read tcp 1.2.3.4:5->6.7.8.9:10: read: " +
		syscall.ECONNRESET.Error())
	for _, test := range []struct {
		name     string
		failures []error
		requests int
		want     string
	}{
		{"none", nil, 1, ""},
		{"two", []error{reset, reset}, 3, ""},
		{"three", []error{reset, reset, reset}, 3, "no server answers at x (connect: " + syscall.ECONNRESET.Error() + ")"},
		// The server may have done what was asked.
		{"after the request was sent", []error{half}, 1, "asking the server at x: read tcp 1.2.3.4:5->6.7.8.9:10: read: " + syscall.ECONNRESET.Error()},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			requests := 0
			c := &client{address: "x", request: func(_, _, _ string, _ http.Header, body io.Reader) (*http.Response, error) {
				if sent, err := io.ReadAll(body); err != nil || string(sent) != `{"a":1}` {
					t.Errorf("request %d has the body %q (%v), want the whole", requests+1, sent, err)
				}
				if requests++; requests <= len(test.failures) {
					return nil, test.failures[requests-1]
				}
				return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
			}}
			err := c.call(t.Context(), http.MethodPost, "/x", map[string]int{"a": 1}, nil)
			if test.want == "" && err != nil || test.want != "" && (err == nil ||
				!strings.HasPrefix(err.Error(), test.want)) {
				t.Errorf("got the error %v, want %q", err, test.want)
			}
			if requests != test.requests {
				t.Errorf("got %d requests, want %d", requests, test.requests)
			}
		})
	}
}

// TestInterrupted cancels a request before its answer begins, and in the middle of the answer.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	for _, begun := range []bool{false, true} {
		arrived := make(chan struct{})
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if begun {
				_, _ = io.WriteString(w, "a part")
				_ = http.NewResponseController(w).Flush()
			}
			close(arrived)
			<-r.Context().Done()
		}))
		ctx, cancel := context.WithCancel(t.Context())
		if !begun {
			go func() { <-arrived; cancel() }()
		}
		answer, err := newClient(server.Listener.Addr().String()).open(ctx, http.MethodGet, "/x", nil)
		if begun {
			if err != nil {
				t.Fatalf("asking: %v", err)
			}
			<-arrived
			cancel()
			_, err = io.ReadAll(answer)
			_ = answer.Close()
		}
		if !errors.Is(err, context.Canceled) {
			t.Errorf("begun %v: got the error %v, want %v", begun, err, context.Canceled)
		}
		server.CloseClientConnections()
		server.Close()
		cancel()
	}
}

// TestSocket runs commands against an admin endpoint that is a unix socket: named by the flag, with and without the
// permissions that a server may name, and by the environment. They were refused because of their Origin header.
func TestSocket(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Caddy's unix sockets have no permissions on Windows")
	}
	// The name of a socket must be short, which that of a test's own folder is not everywhere.
	dir, err := os.MkdirTemp("", "admin")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := "unix/" + filepath.Join(dir, "caddy.sock")
	loadAt(t, socket+"|0200", "storage badger DIR")
	must(t, "account", "create", "acme")
	file := filepath.Join(dir, "backup")
	must(t, "backup", file)
	for _, at := range []string{socket, socket + "|0200"} {
		if _, stderr, err := runAt(t, at, newCLI(), "account", "show", "acme"); err != nil {
			t.Errorf("%s: got the error %v (%s), want none", at, err, stderr)
		}
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChildOfSocket$", "-test.v")
	child.Env = append(os.Environ(), "CADDY_ADMIN="+socket, "MODERATION_TEST_CHILD=1")
	if out, err := child.CombinedOutput(); err != nil || !strings.Contains(string(out), "Account   acme") {
		t.Errorf("with CADDY_ADMIN: got %v and the output %s, want the account", err, out)
	}
}

// TestChildOfSocket is run by TestSocket in a process of its own: Caddy looks at CADDY_ADMIN when the process starts.
func TestChildOfSocket(t *testing.T) {
	if os.Getenv("MODERATION_TEST_CHILD") == "" {
		t.Skip("a part of TestSocket")
	}
	stdout, stderr, err := runAt(t, "", newCLI(), "account", "show", "acme")
	t.Log(stdout, stderr)
	if err != nil {
		t.Fatal(err)
	}
}

// TestRemoteOrigin runs a command against a server that checks the Origin header of every request.
func TestRemoteOrigin(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	loadAt(t, free+" {\n enforce_origin\n}", "storage badger DIR")
	address = free
	must(t, "account", "create", "acme")
}
