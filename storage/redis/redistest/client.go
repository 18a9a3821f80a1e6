// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// Error is an error that a server has answered.
type Error string

func (e Error) Error() string { return string(e) }

// Conn is a connection to a server on which one command follows the other. It knows nothing of clusters and repeats
// nothing: what it returns is what this server has answered.
type Conn struct {
	conn net.Conn
	r    *bufio.Reader
}

// Dial connects to a server, with TLS if config is not nil.
func Dial(addr string, config *tls.Config) (*Conn, error) {
	dialer := &net.Dialer{Timeout: 5 * time.Second}
	var conn net.Conn
	var err error
	if config != nil {
		conn, err = tls.DialWithDialer(dialer, "tcp", addr, config)
	} else {
		conn, err = dialer.Dial("tcp", addr)
	}
	if err != nil {
		return nil, err
	}
	return &Conn{conn: conn, r: bufio.NewReader(conn)}, nil
}

// Close closes the connection.
func (c *Conn) Close() { _ = c.conn.Close() }

// Do sends a command and returns the answer: a string, an int64, nil, or a slice of these. An error that the server
// answers is an [Error].
func (c *Conn) Do(args ...string) (any, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	if err := c.conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(c.conn, b.String()); err != nil {
		return nil, err
	}
	return c.read()
}

// read reads an answer of RESP2.
func (c *Conn) read() (any, error) {
	line, err := c.r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	line = strings.TrimSuffix(line, "\r\n")
	if line == "" {
		return nil, errors.New("an empty answer")
	}
	kind, rest := line[0], line[1:]
	switch kind {
	case '+':
		return rest, nil
	case '-':
		return nil, Error(rest)
	}
	n, err := strconv.ParseInt(rest, 10, 64)
	if err != nil {
		return nil, err
	}
	switch {
	case kind == ':':
		return n, nil
	case kind == '$' && n < 0, kind == '*' && n < 0:
		return nil, nil //nolint:nilnil // the server's nil
	case kind == '$':
		value := make([]byte, n+2)
		if _, err := io.ReadFull(c.r, value); err != nil {
			return nil, err
		}
		return string(value[:n]), nil
	case kind == '*':
		return c.readArray(n)
	}
	return nil, fmt.Errorf("an answer that begins with %q", kind)
}

func (c *Conn) readArray(n int64) ([]any, error) {
	all := make([]any, n)
	for i := range all {
		value, err := c.read()
		if refused := Error(""); errors.As(err, &refused) {
			value, err = refused, nil
		}
		if err != nil {
			return nil, err
		}
		all[i] = value
	}
	return all, nil
}
