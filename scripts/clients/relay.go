// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
)

// relay stands between a client and the service. It forwards every byte unchanged and records the exchanges, for
// comparison with a golden file. It understands HTTP/1.1 without pipelining, which is what the clients speak.
//
// A client's program announces each check at /-/check?what=... of the control address.
type relay struct {
	URL     string // for the client, http://127.0.0.1:<port>
	Control string // http://127.0.0.1:<port>

	to       string
	listener net.Listener
	control  *http.Server

	mu        sync.Mutex
	check     string // that is being made
	exchanges []exchange
}

// exchange is a request and its answer.
type exchange struct {
	check           string
	request, answer wired
}

// wired is one half of an exchange, as it went over the wire.
type wired struct {
	head string // the first line and the fields, as they were sent
	body []byte // without chunks and compression
}

// startRelay starts a relay to an address.
func startRelay(ctx context.Context, to string) (*relay, error) {
	r := &relay{to: to}
	var err error
	if r.listener, err = new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	control, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		r.listener.Close()
		return nil, err
	}
	r.URL, r.Control = "http://"+r.listener.Addr().String(), "http://"+control.Addr().String()
	pages := http.NewServeMux()
	pages.HandleFunc("/-/check", func(_ http.ResponseWriter, request *http.Request) {
		r.begin(request.FormValue("what"))
	})
	r.control = &http.Server{Handler: pages}
	go func() { _ = r.control.Serve(control) }()
	go func() {
		for {
			conn, err := r.listener.Accept()
			if err != nil {
				return
			}
			go r.serve(conn)
		}
	}()
	return r, nil
}

// close stops the relay. Connections end with their client.
func (r *relay) close() {
	r.listener.Close()
	_ = r.control.Close()
}

// begin notes that a check begins.
func (r *relay) begin(check string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.check = check
}

// kept returns the recorded exchanges.
func (r *relay) kept() []exchange {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.exchanges[:len(r.exchanges):len(r.exchanges)]
}

// serve relays one connection, exchange by exchange.
func (r *relay) serve(conn net.Conn) {
	defer conn.Close()
	upstream, err := net.Dial("tcp", r.to)
	if err != nil {
		return
	}
	defer upstream.Close()
	client, server := newTap(conn), newTap(upstream)
	for {
		request, err := http.ReadRequest(client.in)
		if err != nil {
			return
		}
		asked, err := client.message(request.Header, request.Body)
		if err != nil || client.passOn(upstream) != nil {
			return
		}
		response, err := http.ReadResponse(server.in, request)
		if err != nil {
			return
		}
		answered, err := server.message(response.Header, response.Body)
		if err != nil {
			return
		}
		// Before the client can begin the next check.
		r.mu.Lock()
		r.exchanges = append(r.exchanges, exchange{r.check, asked, answered})
		r.mu.Unlock()
		if server.passOn(conn) != nil || request.Close || response.Close {
			return
		}
	}
}

// tap reads messages from a connection and records their bytes.
type tap struct {
	in    *bufio.Reader
	bytes bytes.Buffer // of the message that is being read
}

func newTap(conn net.Conn) *tap {
	t := new(tap)
	t.in = bufio.NewReader(io.TeeReader(conn, &t.bytes))
	return t
}

// message reads the body of a message whose head has been read.
func (t *tap) message(header http.Header, body io.ReadCloser) (m wired, err error) {
	defer body.Close()
	if m.body, err = io.ReadAll(body); err != nil {
		return m, err
	}
	m.head, _, _ = strings.Cut(t.bytes.String(), "\r\n\r\n")
	if header.Get("Content-Encoding") != "gzip" {
		return m, nil
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(m.body))
	if err != nil {
		return m, err
	}
	m.body, err = io.ReadAll(unpacked)
	return m, err
}

// passOn forwards the message that was read.
func (t *tap) passOn(to io.Writer) error {
	_, err := t.bytes.WriteTo(to)
	return err
}
