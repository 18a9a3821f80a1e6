// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net/http"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// leaked is how many more goroutines than after the first reloads count as a leak. Connections come and go.
const leaked = 20

// pause is what a client waits between an answer and the next request, so that both servers get about as many requests.
const pause = 2 * time.Millisecond

// reload reloads the service and a plain Caddy in turn while clients send, and compares how many requests break.
func reload(ctx context.Context, args []string) error {
	var rounds, connections int
	var caddy string
	err := flags("reload", args, func(f *flag.FlagSet) {
		f.IntVar(&rounds, "rounds", 20, "reloads of each of the two servers")
		f.IntVar(&connections, "connections", 8, "clients that send at the same time")
		f.StringVar(&caddy, "caddy", "./caddy", "the server to reload")
	})
	if err != nil {
		return err
	}
	texts, err := bodies(corpus, 64, 200)
	if err != nil {
		return err
	}
	service, err := newSubject(caddy)
	if err != nil {
		return err
	}
	defer service.close()
	plain, err := newPlain(caddy)
	if err != nil {
		return err
	}
	defer plain.close()
	for _, s := range []*subject{service, plain} {
		if err := s.start(ctx); err != nil {
			return err
		}
	}
	const turns = 4
	var ours, theirs breaks
	settled, last := 0, 0
	for turn := range turns {
		reloads := rounds/turns + min(1, max(0, rounds%turns-turn))
		if err := service.reloaded(ctx, reloads, connections, texts, &ours); err != nil {
			return fmt.Errorf("the service: %w", err)
		}
		if err := plain.reloaded(ctx, reloads, connections, texts, &theirs); err != nil {
			return fmt.Errorf("plain Caddy: %w", err)
		}
		if last, err = service.goroutines(ctx); err != nil {
			return err
		}
		if turn == 0 {
			settled = last
		}
	}
	made, err := service.requestsMade(ctx)
	if err != nil {
		return err
	}
	counted := made - 1
	fmt.Printf("%d reloads, %d clients; every answer was 200\n", rounds, connections)
	fmt.Printf("the service: sent %d, answered %d, counted %d, broken %s\n", ours.sent, ours.answered, counted, ours)
	fmt.Printf("plain Caddy: sent %d, answered %d, broken %s\n", theirs.sent, theirs.answered, theirs)
	fmt.Printf("goroutines of the service: %d after the first reloads, %d after the last\n", settled, last)
	switch {
	case counted != ours.answered:
		return fmt.Errorf("%d requests are counted, and %d were answered", counted, ours.answered)
	case ours.worse(theirs):
		return fmt.Errorf("significantly more requests break than with plain Caddy")
	case last > settled+leaked:
		return fmt.Errorf("goroutines leak")
	}
	return errors.Join(service.process.Stop(), plain.process.Stop())
}

// breaks counts the requests during reloads.
type breaks struct {
	reloads                int
	sent, answered, broken int64
}

// String says how many requests broke.
func (b breaks) String() string {
	return fmt.Sprintf("%d (%.2f %% of the requests, %.2f a reload)", b.broken,
		100*float64(b.broken)/float64(max(b.sent, 1)), float64(b.broken)/float64(max(b.reloads, 1)))
}

// worse reports whether more requests broke than chance explains: more than three standard deviations of the
// difference of two equally frequent counts. A reload breaks at most one request of each client, so counts per reload
// are compared, not per request.
func (b breaks) worse(than breaks) bool {
	return float64(b.broken-than.broken) > 3*math.Sqrt(float64(b.broken+than.broken)+1)
}

// reloaded reloads the server the given number of times while clients send, and adds up their requests.
func (s *subject) reloaded(ctx context.Context, reloads, connections int, texts [][]byte, to *breaks) error {
	loading, stop := context.WithCancel(ctx)
	defer stop()
	shares := make([]breaks, connections)
	failures := make([]error, connections)
	var clients sync.WaitGroup
	for i := range connections {
		clients.Go(func() { shares[i], failures[i] = s.send(loading, texts) })
	}
	for range reloads {
		command := append(s.caddy, "reload", "--force", "--config", filepath.Join(s.folder, "Caddyfile"), "--adapter",
			"caddyfile", "--address", s.Admin)
		if out, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("reload: %w\n%s", err, out)
		}
	}
	stop()
	clients.Wait()
	to.reloads += reloads
	for _, share := range shares {
		to.sent += share.sent
		to.answered += share.answered
		to.broken += share.broken
	}
	return errors.Join(failures...)
}

// send sends one request after the other until ctx is done. Caddy gives each configuration a listener of its own
// (SO_REUSEPORT); what waits in the old one's queue when it closes is reset by the kernel before any handler sees it,
// and a connection may be closed between two requests just as the next one is on its way. A client that may send a
// request twice does so then; this one counts.
func (s *subject) send(ctx context.Context, texts [][]byte) (b breaks, err error) {
	transport := &http.Transport{MaxIdleConns: 1}
	defer transport.CloseIdleConnections()
	client := http.Client{Transport: transport, Timeout: 20 * time.Second}
	for i := 0; ctx.Err() == nil; i++ {
		// The last request is completed as well, so that its charge is known.
		request, err := http.NewRequestWithContext(context.WithoutCancel(ctx), http.MethodPost,
			"http://"+s.Address+"/v1/moderate/text", bytes.NewReader(texts[i%len(texts)]))
		if err != nil {
			return b, err
		}
		request.Header.Set("Authorization", "Bearer "+s.Key)
		request.Header.Set("Content-Type", "application/json")
		b.sent++
		response, err := client.Do(request)
		if err != nil {
			b.broken++
			continue
		}
		_, err = io.Copy(io.Discard, response.Body)
		response.Body.Close()
		if err != nil {
			return b, err
		}
		if response.StatusCode != http.StatusOK {
			return b, fmt.Errorf("a request was answered with %s", response.Status)
		}
		b.answered++
		time.Sleep(pause)
	}
	return b, nil
}

// goroutines is the number of goroutines of the server.
func (s *subject) goroutines(ctx context.Context) (int, error) {
	response, err := get(ctx, "http://"+s.Admin+"/debug/pprof/goroutine?debug=1")
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	n := 0
	_, err = fmt.Fscanf(response.Body, "goroutine profile: total %d", &n)
	return n, err
}
