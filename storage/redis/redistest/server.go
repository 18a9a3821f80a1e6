// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Options say what server is started.
type Options struct {
	// Config are lines of the configuration, such as "maxmemory 10mb". They come last.
	Config []string
	// Password is that of the user "default". Default: none.
	Password string
	// Users are users in the words of an ACL file, such as "user app on >secret ~mod:* &* +@all". The user "default"
	// stays as it is unless it is among them; then Admin must be given.
	Users []string
	// Admin and AdminPassword are a user of Users with all rights, for this package. Default: the user "default".
	Admin, AdminPassword string
	// AppendOnly has the server keep its data in a file, so that they survive kill -9. By default nothing is kept.
	AppendOnly bool
	// TLS is the authority for connections with TLS; there are no others then. Default: no TLS.
	TLS *CA
	// ClientCertificates has clients be refused without a certificate of that authority.
	ClientCertificates bool
	// Program is the server program. Default: what [Program] returns.
	Program string
}

// Server is a server that runs, or that was killed and can be started again.
type Server struct {
	options Options
	program string
	dir     string
	host    *Host
	port    int
	owned   bool // the host is this server's alone
	extra   []string
	mode    []string // arguments after the configuration
	admin   *tls.Config

	mu      sync.Mutex
	process *process
	conn    *Conn
}

// Start starts a server and returns when it answers. The caller stops it.
func Start(o Options) (*Server, error) {
	host, err := NewHost()
	if err != nil {
		return nil, err
	}
	s, err := newServer(o, host)
	if err == nil {
		s.owned = true
		err = s.start()
	}
	if err != nil {
		if s != nil {
			s.Stop()
		}
		host.Release()
		return nil, err
	}
	return s, nil
}

// newServer prepares a server.
func newServer(o Options, host *Host, extra ...string) (*Server, error) {
	s := &Server{options: o, program: o.Program, host: host, extra: extra}
	var err error
	if s.program == "" {
		if s.program, err = Program(); err != nil {
			return nil, err
		}
	}
	if s.port, err = host.Port(); err != nil {
		return nil, err
	}
	if s.dir, err = os.MkdirTemp("", "redistest-"); err != nil {
		return nil, err
	}
	if o.TLS != nil {
		if s.admin, err = o.TLS.Client(true); err != nil {
			return s, err
		}
	}
	return s, nil
}

// config returns the server's configuration.
func (s *Server) config() ([]byte, error) {
	var b bytes.Buffer
	line := func(words ...string) { fmt.Fprintln(&b, strings.Join(words, " ")) }
	line("bind", s.host.IP)
	// Otherwise others would see connections of this server come from 127.0.0.1, and look for it there.
	line("bind-source-addr", s.host.IP)
	line("protected-mode no")
	line("daemonize no")
	line("save \"\"")
	line("dir", s.dir)
	if s.options.TLS != nil {
		line("port 0")
		line("tls-port", strconv.Itoa(s.port))
		line("tls-ca-cert-file", s.options.TLS.File())
		line("tls-cert-file", s.options.TLS.file("server.crt"))
		line("tls-key-file", s.options.TLS.file("server.key"))
		line("tls-replication yes")
		line("tls-auth-clients", map[bool]string{true: "yes", false: "no"}[s.options.ClientCertificates])
	} else {
		line("port", strconv.Itoa(s.port))
	}
	if s.options.Password != "" {
		line("requirepass", s.options.Password)
	}
	if len(s.mode) == 0 {
		if s.options.AppendOnly {
			line("appendonly yes")
		}
		line("repl-diskless-sync-delay 0")
		line("repl-ping-replica-period 1")
		line("replica-announce-ip", s.host.IP)
		if s.options.Password != "" {
			line("masterauth", s.options.Password)
		}
	}
	if len(s.options.Users) > 0 {
		users := filepath.Join(s.dir, "users.acl")
		text := strings.Join(s.options.Users, "\n") + "\n"
		if s.options.Password != "" && !strings.Contains(text, "user default ") {
			// An ACL file takes the place of requirepass.
			text += "user default on >" + s.options.Password + " ~* &* +@all\n"
		}
		if err := os.WriteFile(users, []byte(text), 0o600); err != nil {
			return nil, err
		}
		line("aclfile", users)
	}
	for _, l := range append(s.extra, s.options.Config...) {
		line(l)
	}
	return b.Bytes(), nil
}

// start starts the process with the configuration that it had, or a new one, and waits until it answers.
func (s *Server) start() error {
	path := filepath.Join(s.dir, "server.conf")
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		config, err := s.config()
		if err != nil {
			return err
		}
		if err := os.WriteFile(path, config, 0o600); err != nil {
			return err
		}
	}
	p, err := launch(s.program, s.dir, append([]string{path}, s.mode...)...)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.process = p
	s.mu.Unlock()
	return until("the server "+s.Addr()+" answers", patience, func() error {
		if !p.alive() {
			return finalError{fmt.Errorf("the server ended and wrote:\n%s", p.output())}
		}
		_, err := s.Do("PING")
		return err
	})
}

// Addr returns the address of the server.
func (s *Server) Addr() string { return s.host.At(s.port) }

// Host returns the host of the server's address.
func (s *Server) Host() string { return s.host.IP }

// Port returns the port of the server's address.
func (s *Server) Port() int { return s.port }

// Dir returns the directory with the server's files.
func (s *Server) Dir() string { return s.dir }

// PID returns the process id, 0 if the server does not run.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil || !s.process.alive() {
		return 0
	}
	return s.process.cmd.Process.Pid
}

// Log returns what the server has written.
func (s *Server) Log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return ""
	}
	return s.process.output()
}

// Do has the server run a command, with all rights, past any proxy; see [Conn.Do].
func (s *Server) Do(args ...string) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		// Servers break connections when they change their role. A command must not be sent twice because of that.
		if _, err := s.conn.Do("PING"); err != nil {
			s.conn.Close()
			s.conn = nil
		}
	}
	if s.conn == nil {
		conn, err := s.connect()
		if err != nil {
			return nil, err
		}
		s.conn = conn
	}
	answer, err := s.conn.Do(args...)
	if refused := Error(""); err != nil && !errors.As(err, &refused) {
		s.conn.Close()
		s.conn = nil
	}
	return answer, err
}

func (s *Server) connect() (*Conn, error) {
	conn, err := Dial(s.Addr(), s.admin)
	if err != nil {
		return nil, err
	}
	auth := []string{"AUTH", s.options.Password}
	if s.options.Admin != "" {
		auth = []string{"AUTH", s.options.Admin, s.options.AdminPassword}
	}
	if auth[len(auth)-1] == "" {
		return conn, nil
	}
	if _, err := conn.Do(auth...); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// Text is Do for commands that answer a text; it returns none for other answers.
func (s *Server) Text(args ...string) (string, error) {
	answer, err := s.Do(args...)
	text, _ := answer.(string)
	return text, err
}

// Int is Do for commands that answer a number.
func (s *Server) Int(args ...string) (int64, error) {
	answer, err := s.Do(args...)
	if err != nil {
		return 0, err
	}
	switch n := answer.(type) {
	case int64:
		return n, nil
	case string:
		return strconv.ParseInt(n, 10, 64)
	}
	return 0, fmt.Errorf("%s: no number: %v", args[0], answer)
}

// Info returns a field of INFO, as "used_memory".
func (s *Server) Info(field string) (string, error) {
	info, err := s.Text("INFO", "everything")
	if err != nil {
		return "", err
	}
	value, found := fieldOf(info, field)
	if !found {
		return "", fmt.Errorf("INFO has no field %q", field)
	}
	return value, nil
}

func fieldOf(info, field string) (string, bool) {
	for line := range strings.Lines(info) {
		if name, value, found := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); found && name == field {
			return value, true
		}
	}
	return "", false
}

// Signal sends a signal to the server.
func (s *Server) Signal(signal syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return os.ErrProcessDone
	}
	return s.process.cmd.Process.Signal(signal)
}

// Kill ends the server at once (SIGKILL).
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		s.conn.Close()
		s.conn = nil
	}
	if s.process != nil {
		s.process.kill()
	}
}

// Restart starts the server again after [Server.Kill], at the same address and with the files that it had. A server
// that still runs is killed first.
func (s *Server) Restart() error {
	s.Kill()
	var err error
	// The kernel may need a moment until the address is free.
	for range 20 {
		if err = s.start(); err == nil || !strings.Contains(err.Error(), "Address already in use") {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
	return err
}

// Stop ends the server and removes its files.
func (s *Server) Stop() {
	s.Kill()
	_ = os.RemoveAll(s.dir)
	if s.owned {
		s.host.Release()
	}
}

// Configure changes the configuration of the running server (CONFIG SET).
func (s *Server) Configure(name, value string) error {
	_, err := s.Do("CONFIG", "SET", name, value)
	return err
}

// replicates waits until a replica holds what its master holds.
func (s *Server) replicates() error {
	return until("the replica "+s.Addr()+" is in step", patience, func() error {
		link, err := s.Info("master_link_status")
		if err == nil && link != "up" {
			err = errors.New("master_link_status is " + link)
		}
		return err
	})
}

// WaitReplicated waits until so many replicas hold all that a master holds now. A test that kills the master and wants
// to find everything on the next one asks for all replicas: sentinels and clusters may elect any of them, on what they
// knew of it seconds ago.
func (s *Server) WaitReplicated(replicas int) error {
	info, err := s.Text("INFO", "replication")
	if err != nil {
		return err
	}
	now, err := offsetOf(info, "master_repl_offset")
	if err != nil {
		return err
	}
	return until(fmt.Sprintf("%d replicas of %s are in step", replicas, s.Addr()), patience, func() error {
		info, err := s.Text("INFO", "replication")
		if err != nil {
			return err
		}
		inStep := 0
		for i := 0; ; i++ {
			replica, found := fieldOf(info, fmt.Sprintf("slave%d", i))
			if !found {
				break
			}
			at, err := offsetOf(strings.ReplaceAll(strings.ReplaceAll(replica, "=", ":"), ",", "\n"), "offset")
			if err != nil {
				return err
			}
			if at >= now {
				inStep++
			}
		}
		if inStep < replicas {
			return fmt.Errorf("%d are", inStep)
		}
		return nil
	})
}

// offsetOf returns a number of bytes of what INFO says.
func offsetOf(info, field string) (int64, error) {
	text, _ := fieldOf(info, field)
	return strconv.ParseInt(text, 10, 64)
}
