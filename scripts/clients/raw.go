// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// raw is a connection whose bytes are written by hand.
type raw struct {
	net.Conn
	in *bufio.Reader
}

func dial(ctx context.Context, s *site) (*raw, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(3 * patience))
	return &raw{conn, bufio.NewReader(conn)}, nil
}

func (c *raw) answer() (a answer, err error) {
	response, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return a, err
	}
	return answerOf(response)
}

// answerOf reads a response to its end.
func answerOf(response *http.Response) (a answer, err error) {
	defer response.Body.Close()
	a = answer{Status: response.StatusCode, Proto: "1.1", Header: response.Header}
	a.Body, err = io.ReadAll(response.Body)
	return a, err
}

// request writes a request as it goes over the wire. Header lines end with CR and LF; Content-Length is added for a
// body.
func request(method, path, header, body string) string {
	if body != "" {
		header += fmt.Sprintf("Content-Length: %d\r\n", len(body))
	}
	return method + " " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\n" + header + "\r\n" + body
}

// requestsByHand checks requests that client libraries do not send.
func requestsByHand(ctx context.Context, r *report, s *site) error {
	const isJSON = "Content-Type: application/json\r\n"
	converse := func(what string, do func(*raw) error) {
		r.check(what, func() error {
			c, err := dial(ctx, s)
			if err != nil {
				return err
			}
			defer c.Close()
			return do(c)
		})
	}
	converse("a connection takes the next request after a refusal", func(c *raw) error {
		for i, text := range []string{vile, fine, vile, fine} {
			fmt.Fprint(c, request("POST", "/echo/raw-next", isJSON, string(comment(text))))
			a, err := c.answer()
			if err == nil && i%2 == 0 {
				err = a.refusal()
			} else if err == nil {
				err = a.status(http.StatusOK)
			}
			if err != nil {
				return fmt.Errorf("request %d: %w", i, err)
			}
		}
		return nil
	})
	converse("requests sent at once are answered in their order", func(c *raw) error {
		for _, text := range []string{vile, fine} {
			fmt.Fprint(c, request("POST", "/echo/raw-pipelined", isJSON, string(comment(text))))
		}
		first, err := c.answer()
		if err := errors.Join(err, first.refusal()); err != nil {
			return err
		}
		second, err := c.answer()
		return errors.Join(err, second.status(http.StatusOK), s.app.same("/echo/raw-pipelined", comment(fine)))
	})
	converse("trailers arrive, forged ones do not", func(c *raw) error {
		body := comment(fine)
		fmt.Fprint(c, request("POST", "/echo/raw-trailer",
			isJSON+"Transfer-Encoding: chunked\r\nTrailer: X-Moderation-Flagged, X-Sum\r\n", ""))
		fmt.Fprintf(c, "%x\r\n%s\r\n0\r\nX-Moderation-Flagged: forged\r\nX-Sum: 7\r\n\r\n", len(body), body)
		a, err := c.answer()
		if err := errors.Join(err, a.status(http.StatusOK), s.app.same("/echo/raw-trailer", body)); err != nil {
			return err
		}
		seen, err := s.app.ended(ctx, "/echo/raw-trailer")
		if err != nil {
			return err
		}
		if got := fmt.Sprint(seen.Header, seen.Trail); strings.Contains(got, "forged") ||
			seen.Trail.Get("X-Sum") != "7" {
			return fmt.Errorf("the app received the trailers %v", seen.Trail)
		}
		return nil
	})
	converse("a body that comes with an Upgrade is judged", func(c *raw) error {
		const path = "/echo/raw-upgrade"
		fmt.Fprint(c, request("POST", path, isJSON+"Connection: Upgrade\r\nUpgrade: websocket\r\n",
			string(comment(vile))))
		a, err := c.answer()
		return errors.Join(err, a.refusal(), s.app.unseen(path))
	})
	converse("a client that asks before a large form learns the refusal without sending the file", func(c *raw) error {
		head := "--x\r\nContent-Disposition: form-data; name=\"caption\"\r\n\r\n" + vile + "\r\n--x\r\n" +
			"Content-Disposition: form-data; name=\"photo\"; filename=\"a.bin\"\r\n\r\n" + strings.Repeat("0123456789abcdef", 256<<10)
		fmt.Fprint(c, request("POST", "/upload/raw-expect",
			"Content-Type: multipart/form-data; boundary=x\r\nExpect: 100-continue\r\n"+
				fmt.Sprintf("Content-Length: %d\r\n", 100<<20), ""))
		if line, err := c.in.ReadString('\n'); err != nil || !strings.Contains(line, " 100 ") {
			return fmt.Errorf("got %q (%v), want 100 Continue", line, err)
		}
		if line, err := c.in.ReadString('\n'); err != nil || line != "\r\n" {
			return fmt.Errorf("got %q (%v), want the end of 100 Continue", line, err)
		}
		go fmt.Fprint(c, head) // The server may answer before all of it is sent.
		a, err := c.answer()
		return errors.Join(err, a.refusal(), s.app.unseen("/upload/raw-expect"))
	})
	return nil
}
