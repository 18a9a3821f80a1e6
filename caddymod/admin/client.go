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
	"net/http"
	"strconv"
	"strings"
	"syscall"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
)

// dialAttempts is how often a connection is tried. A reload replaces the listener of the admin endpoint and resets the
// connections that wait on the old one; nothing was sent on them yet.
const dialAttempts = 3

// client talks to the admin endpoint of a running server, by means of Caddy's own client. That one knows how to reach
// an endpoint: addresses, sockets, the Origin header. It takes no context and returns errors that are only text, so
// client adds cancellation, retries and messages.
type client struct {
	address string
	// request is [caddycmd.AdminAPIRequest], which tests replace.
	request func(address, method, uri string, header http.Header, body io.Reader) (*http.Response, error)
}

// newClient returns a client for an admin endpoint: host:port, or unix//path for a socket. Empty means Caddy's default,
// which the environment variable CADDY_ADMIN replaces.
func newClient(address string) *client {
	if address == "" {
		address = caddy.DefaultAdminListen
	}
	return &client{address: address, request: caddycmd.AdminAPIRequest}
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

// open sends in as JSON, if it is not nil, and returns the body of the answer, which the caller closes. An answer that
// breaks off ends with another error than [io.EOF].
func (c *client) open(ctx context.Context, method, path string, in any) (*answerBody, error) {
	var content []byte
	if in != nil {
		var err error
		if content, err = json.Marshal(in); err != nil {
			return nil, err
		}
	}
	type result struct {
		response *http.Response
		err      error
	}
	results := make(chan result, 1)
	go func() {
		response, err := c.send(method, path, content)
		results <- result{response, err}
	}()
	select {
	case <-ctx.Done():
		go func() {
			if late := <-results; late.err == nil {
				_ = late.response.Body.Close()
			}
		}()
		return nil, fmt.Errorf("asking the server at %s: %w", c.address, ctx.Err())
	case got := <-results:
		if got.err != nil {
			return nil, got.err
		}
		body := got.response.Body
		stop := context.AfterFunc(ctx, func() { _ = body.Close() })
		return &answerBody{ctx: ctx, response: got.response, stop: stop}, nil
	}
}

// send sends a request, again when its connection is reset before anything was sent.
func (c *client) send(method, path string, content []byte) (*http.Response, error) {
	for attempt := 1; ; attempt++ {
		var body io.Reader // nil without content: Caddy's client sets Content-Type when there is a body
		if content != nil {
			body = bytes.NewReader(content)
		}
		response, err := c.request(c.address, method, path, nil, body)
		if err == nil {
			return response, nil
		}
		failure := parseFailure(err)
		if attempt < dialAttempts && failure.dial && strings.HasSuffix(failure.cause, syscall.ECONNRESET.Error()) {
			continue
		}
		return nil, c.explain(err, failure)
	}
}

// failure is what an error of [caddycmd.AdminAPIRequest] says. It wraps no errors, so its text is taken apart.
type failure struct {
	// badAddress is set when the address is none.
	badAddress bool
	// status is that of an answer that is an error, and body its body.
	status int
	body   string
	// dial is set when there was no connection.
	dial bool
	// cause says why there was no connection, or why the exchange failed.
	cause string
}

func parseFailure(err error) failure {
	text := err.Error()
	if answer, ok := strings.CutPrefix(text, "caddy responded with error: HTTP "); ok {
		code, body, _ := strings.Cut(answer, ": ")
		if status, err := strconv.Atoi(code); err == nil {
			return failure{status: status, body: body}
		}
	}
	if exchange, ok := strings.CutPrefix(text, "performing request: "); ok {
		// An url.Error: the method, the address in quotation marks and the cause.
		if _, cause, ok := strings.Cut(exchange, `": `); ok {
			if dial, ok := strings.CutPrefix(cause, "dial "); ok {
				// A net.OpError: the network and its address, if it is known, and the cause.
				if _, cause, ok := strings.Cut(dial, ": "); ok {
					return failure{dial: true, cause: cause}
				}
			}
			return failure{cause: cause}
		}
	}
	return failure{badAddress: strings.HasPrefix(text, "invalid admin address "), cause: text}
}

// explain returns the error for people.
func (c *client) explain(err error, f failure) error {
	switch {
	case f.badAddress:
		return fmt.Errorf("--address %s is not the address of an admin endpoint, "+
			"such as localhost:2019 or unix//run/caddy.sock", c.address)
	case f.dial:
		return fmt.Errorf("no server answers at %s (%s); start it with \"caddy run\", "+
			"or name its admin endpoint with --address", c.address, f.cause)
	case f.status == 0:
		return fmt.Errorf("asking the server at %s: %s", c.address, f.cause)
	}
	var message struct {
		Error string `json:"error"`
	}
	switch err := json.Unmarshal([]byte(f.body), &message); {
	case err == nil && message.Error != "":
		return errors.New(message.Error)
	case f.status == http.StatusNotFound:
		return fmt.Errorf("the server at %s runs without the moderation modules", c.address)
	}
	return fmt.Errorf("the server at %s answered %d %s", c.address, f.status, http.StatusText(f.status))
}

// brokenOff is the error for an answer that ended too early.
func (c *client) brokenOff(err error) error {
	return fmt.Errorf("the answer of the server at %s broke off: %w", c.address, err)
}

// answerBody is the body of an answer. Once it is read to its end, leftOut says what the server left out.
type answerBody struct {
	ctx      context.Context
	response *http.Response
	stop     func() bool
	// tail is the end of what has been read.
	tail []byte
}

// maxTail is more than the length of the last line of an export with damaged records.
const maxTail = 64

// Read implements [io.Reader].
func (a *answerBody) Read(p []byte) (int, error) {
	n, err := a.response.Body.Read(p)
	a.tail = append(a.tail, p[max(0, n-maxTail):n]...)
	a.tail = a.tail[max(0, len(a.tail)-maxTail):]
	if err != nil && err != io.EOF && a.ctx.Err() != nil {
		err = a.ctx.Err() // which closed the body
	}
	return n, err
}

// Close implements [io.Closer].
func (a *answerBody) Close() error {
	a.stop()
	return a.response.Body.Close()
}

// leftOut returns an error that says what the server left out because it is damaged, nil for nothing.
func (a *answerBody) leftOut() error {
	if what, err := strconv.Unquote(a.response.Trailer.Get(leftOutHeader)); err == nil {
		return fmt.Errorf("damaged records are left out: %s", what)
	}
	var end leftOut
	line := bytes.TrimSpace(a.tail)
	line = line[bytes.LastIndexByte(line, '\n')+1:]
	if bytes.HasPrefix(line, []byte(`{"left_out":`)) && json.Unmarshal(line, &end) == nil && end.LeftOut > 0 {
		return fmt.Errorf("damaged records are left out: %d", end.LeftOut)
	}
	return nil
}

// Interface guard
var _ io.ReadCloser = (*answerBody)(nil)
