// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"

	"github.com/caddyserver/caddy/v2"
)

// dialAttempts is how often a connection is tried. A reload replaces the listener of the admin endpoint, and resets the
// connections that wait on the old one; nothing was sent on them yet.
const dialAttempts = 3

// client talks to the admin endpoint of a running server.
type client struct {
	address string // as it was given, for messages
	origin  string
	http    *http.Client
}

// newClient returns a client for an admin endpoint: host:port, or unix//path for a socket. Empty means Caddy's default, which
// the environment variable CADDY_ADMIN replaces.
func newClient(address string) (*client, error) {
	if address == "" {
		address = caddy.DefaultAdminListen
	}
	parsed, err := caddy.ParseNetworkAddress(address)
	if err != nil || parsed.PortRangeSize() > 1 {
		return nil, fmt.Errorf("--address %s is not the address of an admin endpoint, such as localhost:2019 or unix//run/caddy.sock", address)
	}
	origin := "http://" + parsed.JoinHostPort(0)
	if parsed.IsUnixNetwork() {
		origin = "http://127.0.0.1"                       // a socket has no host; Caddy does not check it
		parsed.Host, _, _ = strings.Cut(parsed.Host, "|") // permissions are for the server that makes the socket
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		for attempt := 1; ; attempt++ {
			connection, err := new(net.Dialer).DialContext(ctx, parsed.Network, parsed.JoinHostPort(0))
			if attempt == dialAttempts || !errors.Is(err, syscall.ECONNRESET) {
				return connection, err
			}
		}
	}
	return &client{address: address, origin: origin, http: &http.Client{Transport: &http.Transport{DialContext: dial}}}, nil
}

// call sends in as JSON, if it is not nil, and decodes the answer into out, if it is not nil.
func (c *client) call(ctx context.Context, method, path string, in, out any) error {
	answer, err := c.open(ctx, method, path, in)
	if err != nil {
		return err
	}
	defer answer.Close()
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(answer).Decode(out); err != nil {
		return c.brokenOff(err)
	}
	return nil
}

// open sends in as JSON, if it is not nil, and returns the body of the answer. An answer that breaks off ends with another
// error than [io.EOF].
func (c *client) open(ctx context.Context, method, path string, in any) (*answered, error) {
	var content io.Reader
	if in != nil {
		encoded, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.origin+path, content)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Origin", c.origin)
	if in != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	answer, err := c.http.Do(request)
	if err != nil {
		var unreachable *net.OpError
		if errors.As(err, &unreachable) && unreachable.Op == "dial" {
			return nil, fmt.Errorf("no server answers at %s (%w); start it with \"caddy run\", or name its admin endpoint with --address",
				c.address, unreachable.Err)
		}
		return nil, fmt.Errorf("asking the server at %s: %w", c.address, errors.Unwrap(err))
	}
	if answer.StatusCode >= http.StatusBadRequest {
		defer answer.Body.Close()
		return nil, c.refused(answer)
	}
	return &answered{ReadCloser: answer.Body, answer: answer}, nil
}

// answered is the body of an answer. What it says behind its end is known when it has been read.
type answered struct {
	io.ReadCloser
	answer *http.Response
	// last is the end of what has been read.
	last []byte
}

// Read implements [io.Reader].
func (a *answered) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	a.last = append(a.last, p[max(0, n-longestEnd):n]...)
	a.last = a.last[max(0, len(a.last)-longestEnd):]
	return n, err
}

// longestEnd is more than the last line of an export with damaged records is long.
const longestEnd = 64

// leftOut returns an error that says what the server left out because it is damaged.
func (a *answered) leftOut() error {
	if what, err := strconv.Unquote(a.answer.Trailer.Get(leftOutHeader)); err == nil {
		return fmt.Errorf("damaged records are left out: %s", what)
	}
	var end leftOut
	line := bytes.TrimSpace(a.last)
	line = line[bytes.LastIndexByte(line, '\n')+1:]
	if bytes.HasPrefix(line, []byte(`{"left_out":`)) && json.Unmarshal(line, &end) == nil && end.LeftOut > 0 {
		return fmt.Errorf("damaged records are left out: %d", end.LeftOut)
	}
	return nil
}

// refused makes an error of the server's message.
func (c *client) refused(answer *http.Response) error {
	var message struct {
		Error string `json:"error"`
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, bodyLimit))
	if err == nil {
		err = json.Unmarshal(text, &message)
	}
	switch {
	case err == nil && message.Error != "":
		return errors.New(message.Error)
	case answer.StatusCode == http.StatusNotFound:
		return fmt.Errorf("the server at %s runs without the moderation modules", c.address)
	}
	return fmt.Errorf("the server at %s answered %s", c.address, answer.Status)
}

func (c *client) brokenOff(err error) error {
	return fmt.Errorf("the answer of the server at %s broke off: %w", c.address, err)
}
