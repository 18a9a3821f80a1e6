// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
	"unicode"
)

// answerTimeout is how long an answer may take. Some parsers wait forever for the end of a broken body.
const answerTimeout = 5 * time.Second

// peer is a server that is asked over and over again, on connections that are reused.
type peer struct {
	address string
	idle    chan *connection
}

type connection struct {
	net.Conn
	in *bufio.Reader
}

func newPeer(address string) *peer {
	return &peer{address: address, idle: make(chan *connection, 64)}
}

// answer is the response of a server.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// ask sends a request and reads the answer.
func (p *peer) ask(r *request, path string) (*answer, error) {
	data, last := r.wire(path, p.address)
	if !last {
		select {
		case c := <-p.idle:
			if a, err := p.use(c, r.method, data, last); err == nil || isTimeout(err) {
				return a, err
			}
			// The server may have closed the connection in the meantime.
		default:
		}
	}
	conn, err := net.DialTimeout("tcp", p.address, answerTimeout)
	if err != nil {
		return nil, err
	}
	return p.use(&connection{conn, bufio.NewReader(conn)}, r.method, data, last)
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

func (p *peer) use(c *connection, method string, data []byte, last bool) (*answer, error) {
	_ = c.SetDeadline(time.Now().Add(answerTimeout))
	written := make(chan error, 1)
	if len(data) < 32<<10 {
		_, err := c.Write(data)
		written <- err
	} else {
		go func() {
			_, err := c.Write(data)
			written <- err
		}()
	}
	a, close, err := c.read(method)
	close = close || last || err != nil
	if close {
		c.Close() // which also ends a write that the peer does not take
	}
	// The answer says more than an error of the write: a peer may answer before it has read everything.
	if failed := <-written; failed != nil || close {
		c.Close()
		return a, err
	}
	select {
	case p.idle <- c:
	default:
		c.Close()
	}
	return a, nil
}

func (c *connection) read(method string) (a *answer, close bool, err error) {
	for {
		response, err := http.ReadResponse(c.in, &http.Request{Method: method})
		if err != nil {
			return nil, true, err
		}
		body, err := io.ReadAll(response.Body)
		if err != nil {
			return nil, true, err
		}
		if response.StatusCode == http.StatusContinue {
			continue
		}
		return &answer{status: response.StatusCode, header: response.Header, body: body}, response.Close, nil
	}
}

// understanding is what a parser made of a body.
type understanding struct {
	// Texts are all strings that an app would get as text.
	Texts []string `json:"texts"`
	// Files are the names of the fields that hold a file.
	Files []string `json:"files"`
	// Status is the X-Moderation-Status that came with the request.
	Status string `json:"status"`
	Error  string `json:"error"`
}

// understood parses the answer of a parser.
func understood(a *answer) (*understanding, error) {
	u := &understanding{}
	return u, json.Unmarshal(a.body, u)
}

// with returns the text that contains a sentence, wherever control characters are in it. White space is not removed:
// that would be another text.
func (u *understanding) with(sentence string) (string, bool) {
	for _, text := range u.Texts {
		if text = strings.Map(visible, text); strings.Contains(text, sentence) {
			return text, true
		}
	}
	return "", false
}

func visible(r rune) rune {
	if unicode.IsControl(r) && !unicode.IsSpace(r) {
		return -1
	}
	return r
}
