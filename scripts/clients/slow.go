// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// slow checks slow clients and a slow app.
func slow(ctx context.Context, r *report, s *site) error {
	// One byte at a time, so that every parser waits in every one of its states.
	drip := func(path, text string) (a answer, body []byte, err error) {
		c, err := dial(ctx, s)
		if err != nil {
			return a, nil, err
		}
		defer c.Close()
		body = comment(text)
		for _, b := range []byte(request("POST", path, "Content-Type: application/json\r\n", string(body))) {
			if _, err := c.Write([]byte{b}); err != nil {
				return a, body, err
			}
			time.Sleep(3 * time.Millisecond)
		}
		a, err = c.answer()
		return a, body, err
	}
	r.check("a request that comes byte by byte arrives as sent", func() error {
		a, body, err := drip("/echo/slow", fine)
		if err := errors.Join(err, a.status(http.StatusOK)); err != nil {
			return err
		}
		return s.app.same("/echo/slow", body)
	})
	r.check("a vile request that comes byte by byte is refused", func() error {
		a, _, err := drip("/echo/slow-vile", vile)
		return errors.Join(err, a.refusal(), s.app.unseen("/echo/slow-vile"))
	})
	r.check("a multipart form that comes byte by byte arrives as sent", func() error {
		const path = "/upload/slow"
		c, err := dial(ctx, s)
		if err != nil {
			return err
		}
		defer c.Close()
		body := "--x\r\nContent-Disposition: form-data; name=\"photo\"; filename=\"a.bin\"\r\n\r\n\r\n--x-\r\n--\r\n" +
			"--x\r\nContent-Disposition: form-data; name=\"caption\"\r\n\r\n" + fine + "\r\n--x--\r\n"
		fmt.Fprint(c, request("POST", path,
			"Content-Type: multipart/form-data; boundary=x\r\nTransfer-Encoding: chunked\r\n", ""))
		for _, b := range []byte(body) {
			if _, err := fmt.Fprintf(c, "1\r\n%c\r\n", b); err != nil {
				return err
			}
			time.Sleep(time.Millisecond)
		}
		fmt.Fprint(c, "0\r\n\r\n")
		a, err := c.answer()
		if err := errors.Join(err, a.status(http.StatusOK)); err != nil {
			return err
		}
		return s.app.same(path, []byte(body))
	})
	r.check("lines of a slow app arrive one by one", func() error {
		return lines(ctx, s, "/drip/slow")
	})
	r.check("a judged story arrives sentence by sentence", func() error {
		return sentences(ctx, s)
	})
	r.check("a vile story ends before the vile sentence and the app's telling ends", func() error {
		const path = "/judged/story/vile"
		response, err := get(ctx, s.URL+path)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		told, err := io.ReadAll(response.Body)
		if strings.Contains(string(told), "worthless") {
			return fmt.Errorf("the client read %.300q (%v)", told, err)
		}
		if !strings.HasPrefix(string(told), "The harbour") {
			return fmt.Errorf("the client read %.300q (%v), want the sentences before the vile one", told, err)
		}
		seen, err := s.app.ended(ctx, path)
		if err == nil && !seen.Gone {
			err = errors.New("the app told its story to the end")
		}
		return err
	})
	r.check("a client that reads slowly gets the whole", func() error {
		c, err := dial(ctx, s)
		if err != nil {
			return err
		}
		defer c.Close()
		fmt.Fprint(c, request("GET", "/judged/story/fine", "", ""))
		response, err := http.ReadResponse(c.in, nil)
		if err != nil {
			return err
		}
		var got strings.Builder
		for one := make([]byte, 1); ; time.Sleep(time.Millisecond) {
			n, err := response.Body.Read(one)
			got.Write(one[:n])
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return err
			}
		}
		if got.String() != fineStory {
			return fmt.Errorf("got %q", got.String())
		}
		return nil
	})
	return nil
}

func get(ctx context.Context, url string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	return http.DefaultClient.Do(request)
}

// lines reads lines, each of which the app writes only after the one before was read.
func lines(ctx context.Context, s *site, path string) error {
	response, err := get(ctx, s.URL+path)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	in := bufio.NewScanner(response.Body)
	for i := range 3 {
		if !in.Scan() || in.Text() != fmt.Sprintf("line %d", i) {
			return fmt.Errorf("line %d is %q (%v)", i, in.Text(), in.Err())
		}
		s.app.open(fmt.Sprintf("%s/%d", path, i+1))
	}
	return nil
}

// sentences reads a story whose second half the app writes only after the first sentence was read.
func sentences(ctx context.Context, s *site) error {
	response, err := get(ctx, s.URL+"/judged/story/fine?gate=sentences")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var got strings.Builder
	for chunk := make([]byte, 512); ; {
		n, err := response.Body.Read(chunk)
		got.Write(chunk[:n])
		if strings.Contains(got.String(), ".") {
			s.app.open("sentences")
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	if got.String() != fineStory {
		return fmt.Errorf("got %q, want %q", got.String(), fineStory)
	}
	return nil
}
