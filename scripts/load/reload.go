// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// leaked is how many goroutines more than after the first reloads are taken for a leak. Connections come and go.
const leaked = 20

func reload(ctx context.Context, args []string) error {
	var rounds, connections int
	var caddy string
	err := flags("reload", args, func(f *flag.FlagSet) {
		f.IntVar(&rounds, "rounds", 20, "reloads")
		f.IntVar(&connections, "connections", 8, "clients that send at the same time")
		f.StringVar(&caddy, "caddy", "./caddy", "the server to reload")
	})
	if err != nil {
		return err
	}
	s, err := newSubject(caddy)
	if err != nil {
		return err
	}
	defer s.close()
	texts, err := bodies(corpus, 64, 200)
	if err != nil {
		return err
	}
	if err := s.start(ctx); err != nil {
		return err
	}

	loading, stop := context.WithCancel(ctx)
	defer stop()
	shares := make([]ledger, connections)
	cuts := make([]int, connections)
	failures := make([]error, connections)
	var wg sync.WaitGroup
	for i := range connections {
		wg.Go(func() { shares[i], cuts[i], failures[i] = s.patient(loading, texts) })
	}
	settled, last := 0, 0
	for round := range rounds {
		command := append(s.caddy, "reload", "--force", "--config", filepath.Join(s.folder, "Caddyfile"), "--adapter", "caddyfile", "--address", s.Admin)
		if out, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("reload %d: %w\n%s", round+1, err, out)
		}
		if last, err = s.goroutines(ctx); err != nil {
			return err
		}
		if round == min(4, rounds-1) {
			settled = last
		}
	}
	stop()
	wg.Wait()
	var total ledger
	cut := 0
	for i, share := range shares {
		if failures[i] != nil {
			return failures[i]
		}
		total.Acknowledged += share.Acknowledged
		total.Sent += share.Sent
		cut += cuts[i]
	}
	made, err := s.requestsMade(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("%d reloads: every answer was 200; acknowledged %d, stored %d, sent %d, of which %d met a connection that was cut; goroutines %d after the first reloads, %d after the last\n",
		rounds, total.Acknowledged, made-1, total.Sent, cut, settled, last)
	if !total.holds(made - 1) {
		return fmt.Errorf("what is stored is not between what was acknowledged and what was sent")
	}
	if cut > rounds {
		return fmt.Errorf("more connections were cut than there were reloads")
	}
	if last > settled+leaked {
		return fmt.Errorf("goroutines leak")
	}
	return s.process.Stop()
}

// patient sends one request after the other until ctx is done, and returns what came of them and how many met a
// connection that was cut. Caddy gives each configuration a listener of its own (SO_REUSEPORT); what waits in the old
// one's queue when it closes is reset by the kernel before any handler sees it, and a connection may be closed between
// two requests just as the next one is on its way. A client tries again; net/http does so by itself where it is told
// that it may (Idempotency-Key).
func (s *subject) patient(ctx context.Context, texts [][]byte) (l ledger, cut int, err error) {
	transport := &http.Transport{MaxIdleConns: 1}
	defer transport.CloseIdleConnections()
	client := http.Client{Transport: transport, Timeout: 20 * time.Second}
	for i := 0; ctx.Err() == nil; i++ {
		// The last request is answered, too: what it was charged is then known.
		request, err := http.NewRequestWithContext(context.WithoutCancel(ctx), http.MethodPost, "http://"+s.Address+"/v1/moderate/text", bytes.NewReader(texts[i%len(texts)]))
		if err != nil {
			return l, cut, err
		}
		request.Header.Set("Authorization", "Bearer "+s.Key)
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Idempotency-Key", "load")
		l.Sent++
		response, err := client.Do(request)
		if err != nil {
			cut++
			continue
		}
		_, err = io.Copy(io.Discard, response.Body)
		response.Body.Close()
		if err != nil {
			return l, cut, err
		}
		if response.StatusCode != http.StatusOK {
			return l, cut, fmt.Errorf("a request was answered with %s", response.Status)
		}
		l.Acknowledged++
	}
	return l, cut, nil
}

// goroutines is the number of goroutines of the server.
func (s *subject) goroutines(ctx context.Context) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Admin+"/debug/pprof/goroutine?debug=1", nil)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	n := 0
	_, err = fmt.Fscanf(response.Body, "goroutine profile: total %d", &n)
	return n, err
}
