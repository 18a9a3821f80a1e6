// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// gone checks clients that disconnect in the middle of a request, first one of each kind and then many of all kinds.
func gone(ctx context.Context, r *report, s *site, aborts int) error {
	r.check("who goes away in the middle of a JSON body reaches nobody", func() error {
		const path = "/echo/gone"
		if err := leave(ctx, s, jsonHalf(path), ""); err != nil {
			return err
		}
		time.Sleep(200 * time.Millisecond) // Nothing tells that nothing comes.
		return s.app.unseen(path)
	})
	r.check("who goes away in the middle of an upload ends the app's request, too", func() error {
		const path = "/upload/gone"
		if err := leave(ctx, s, uploadHalf(path), ""); err != nil {
			return err
		}
		if err := s.app.unseen(path); err != nil {
			return err
		}
		// Files are forwarded to the app while they arrive, but the guard may wait for the first bytes.
		time.Sleep(200 * time.Millisecond)
		if len(s.app.of(path)) == 0 {
			return nil
		}
		seen, err := s.app.ended(ctx, path)
		if err == nil && seen.Whole {
			err = errors.New("the app took the half for the whole")
		}
		return err
	})
	for _, kind := range []struct{ what, request, path, until string }{
		{"a slow answer", request("GET", "/drip/gone", "", ""), "/drip/gone", "line 0"},
		{"a judged story", request("GET", "/judged/story/fine?gate=never", "", ""), "/judged/story/fine", "morning"},
		{"a chat", chatHalf("never"), "/v1/chat/completions", "morning"},
	} {
		r.check("who goes away in the middle of "+kind.what+" ends the app's request, too", func() error {
			if err := leave(ctx, s, kind.request, kind.until); err != nil {
				return err
			}
			seen, err := s.app.ended(ctx, kind.path)
			if err == nil && !seen.Gone {
				err = errors.New("the app answered to the end")
			}
			return err
		})
	}
	r.check(fmt.Sprintf("%d requests given up leave nothing behind", aborts),
		func() error { return leaks(ctx, s, aborts) })
	return nil
}

// leave sends a part of a request or all of it, reads until the answer contains a text, and disconnects.
func leave(ctx context.Context, s *site, request, until string) error {
	c, err := dial(ctx, s)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := fmt.Fprint(c, request); err != nil {
		return err
	}
	var got strings.Builder
	for chunk := make([]byte, 4096); !strings.Contains(got.String(), until); {
		n, err := c.in.Read(chunk)
		got.Write(chunk[:n])
		if err != nil {
			return fmt.Errorf("%q did not come: %w; what came: %.300q", until, err, got.String())
		}
	}
	return nil
}

func jsonHalf(path string) string {
	whole := request("POST", path, "Content-Type: application/json\r\n", `{"comment": "`+fine+`"}`)
	return whole[:len(whole)-20]
}

func uploadHalf(path string) string {
	body := "--x\r\nContent-Disposition: form-data; name=\"photo\"; filename=\"a.bin\"\r\n\r\n" + strings.Repeat("0123456789abcdef", 10_000)
	header := fmt.Sprintf("Content-Type: multipart/form-data; boundary=x\r\nContent-Length: %d\r\n", 2*len(body))
	return request("POST", path, header, "") + body
}

func chatHalf(gate string) string {
	return request("POST", "/v1/chat/completions", "Content-Type: application/json\r\nX-Gate: "+gate+"\r\n",
		`{"model": "fine", "stream": true, "messages": [{"role": "user", "content": "Tell me a story about a harbour."}]}`)
}

// leaks aborts many requests at all points and waits until the server is as before.
func leaks(ctx context.Context, s *site, aborts int) error {
	before, err := s.state()
	if err != nil {
		return err
	}
	kinds := []struct{ request, until string }{
		{jsonHalf("/echo/leak"), ""},
		{uploadHalf("/upload/leak"), ""},
		{request("GET", "/drip/leak", "", ""), "line 0"},
		{request("GET", "/judged/story/fine?gate=never", "", ""), "morning"},
		{chatHalf("never"), "morning"},
		{chatHalf("never"), ""},
		{request("POST", "/echo/leak", "Content-Type: application/json\r\n", `{"comment": "`+vile+`"}`), ""},
	}
	const atOnce = 16
	var wait sync.WaitGroup
	failed := make(chan error, atOnce)
	for worker := range atOnce {
		wait.Go(func() {
			for i := worker; i < aborts; i += atOnce {
				if err := leave(ctx, s, kinds[i%len(kinds)].request, kinds[i%len(kinds)].until); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	wait.Wait()
	close(failed)
	if err := <-failed; err != nil {
		return err
	}
	// Connections to the app that are kept for reuse have two goroutines each; 32 a host is Caddy's default. Buffers
	// are kept for reuse, too.
	const keptGoroutines, keptBytes = 2*32 + 20, 8 << 20
	var after state
	for deadline := time.Now().Add(2 * patience); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if after, err = s.state(); err != nil {
			return err
		}
		if after.goroutines <= before.goroutines+keptGoroutines && after.heap <= before.heap+keptBytes {
			return nil
		}
	}
	return fmt.Errorf("%d goroutines and %d KiB before, %d and %d after", before.goroutines, before.heap>>10,
		after.goroutines, after.heap>>10)
}
