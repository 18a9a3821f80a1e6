// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"
)

// idleCost is the memory of idle connections.
type idleCost struct {
	Connections int   `json:"connections"`
	Plain       int64 `json:"plain_bytes_per_connection"` // heap and stacks after a collection
	Guarded     int64 `json:"guarded_bytes_per_connection"`
	PlainRSS    int64 `json:"plain_resident_bytes_per_connection"`
	GuardedRSS  int64 `json:"guarded_resident_bytes_per_connection"`
}

// held is what a number of connections hold.
type held struct{ Live, Resident int64 }

// idleConnections measures connections that wait after a post of 2,000 bytes. Each round has a server of its own.
func (g *guardBench) idleConnections(ctx context.Context) (*idleCost, error) {
	rounds := (g.rounds + 2) / 3
	results, err := alternate(rounds, []string{plainPath, guardedPath},
		func(kind string) (held, error) { return g.idleRound(ctx, kind) })
	if err != nil {
		return nil, err
	}
	live := func(h held) int64 { return h.Live }
	resident := func(h held) int64 { return h.Resident }
	plain, guarded := results[plainPath], results[guardedPath]
	cost := &idleCost{
		Connections: g.idle,
		Plain:       middle(plain, live),
		Guarded:     middle(guarded, live),
		PlainRSS:    middle(plain, resident),
		GuardedRSS:  middle(guarded, resident),
	}
	fmt.Printf("\n%d idle connections after a post of 2,000 bytes each, medians of %d servers: heap and stacks %d bytes each without, %d with; resident %d without, %d with\n",
		g.idle, rounds, cost.Plain, cost.Guarded, cost.PlainRSS, cost.GuardedRSS)
	return cost, nil
}

func (g *guardBench) idleRound(ctx context.Context, path string) (held, error) {
	s, err := g.server(ctx)
	if err != nil {
		return held{}, err
	}
	defer s.close()
	texts, err := contents(g.pattern, 64, 2_000)
	if err != nil {
		return held{}, err
	}
	var requests [][]byte
	for i, text := range texts {
		body, err := comment(text, i, 2_000)
		if err != nil {
			return held{}, err
		}
		requests = append(requests, post(s.Address, path+"/comments", s.Key, body))
	}
	warm := job{Address: s.Address, Connections: 8, Duration: time.Second, Requests: requests}
	if _, err := warm.run(ctx); err != nil {
		return held{}, err
	}
	before, err := s.settled(ctx)
	if err != nil {
		return held{}, err
	}
	conns := make([]net.Conn, g.idle)
	defer func() {
		for _, c := range conns {
			if c != nil {
				c.Close()
			}
		}
	}()
	const workers = 8
	failures := make([]error, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; i < len(conns) && failures[w] == nil; i += workers {
				conns[i], failures[w] = postOnce(s.Address, requests[i%len(requests)])
			}
		})
	}
	wg.Wait()
	for _, err := range failures {
		if err != nil {
			return held{}, err
		}
	}
	after, err := s.settled(ctx)
	if err != nil {
		return held{}, err
	}
	n := int64(g.idle)
	return held{Live: (after.Heap + after.Stack - before.Heap - before.Stack) / n,
		Resident: (after.Resident - before.Resident) / n}, s.process.Stop()
}

// postOnce opens a connection, sends a request, reads the answer and leaves the connection open.
func postOnce(address string, request []byte) (net.Conn, error) {
	conn, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Write(request); err != nil {
		return conn, err
	}
	// The answer does not matter: a refused post also leaves an idle connection.
	_, err = skipAnswer(bufio.NewReaderSize(conn, 4<<10))
	return conn, err
}

// state holds the resources that a server uses.
type state struct {
	Heap       int64 `json:"heap_bytes"` // in use, after a collection
	Stack      int64 `json:"stack_bytes"`
	Resident   int64 `json:"resident_bytes"`
	Goroutines int   `json:"goroutines"`
	Files      int   `json:"open_files"`
}

// settled returns the state after connections to the upstream have closed and the collector has run.
func (s *subject) settled(ctx context.Context) (state, error) {
	time.Sleep(4 * time.Second)
	for range 3 { // stacks shrink by half in each collection, and pools need two
		if err := s.memory(ctx, nil); err != nil {
			return state{}, err
		}
	}
	var now state
	if err := s.memory(ctx, &now); err != nil {
		return state{}, err
	}
	var err error
	if now.Goroutines, err = s.goroutines(ctx); err != nil {
		return state{}, err
	}
	now.Resident, now.Files = residentMemory(s.process.PID()), openFiles(s.process.PID())
	return now, nil
}

// memory runs the garbage collector and returns what is in use after it.
func (s *subject) memory(ctx context.Context, into *state) error {
	response, err := get(ctx, "http://"+s.Admin+"/debug/pprof/heap?gc=1&debug=1")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	profile, err := io.ReadAll(response.Body)
	if err != nil || into == nil {
		return err
	}
	found := 0
	for line := range bytes.Lines(profile) {
		// "# HeapAlloc = 1234", "# Stack = 1234 / 5678"
		fields := bytes.Fields(line)
		if len(fields) < 4 || string(fields[0]) != "#" || string(fields[2]) != "=" {
			continue
		}
		value, _ := strconv.ParseInt(string(fields[3]), 10, 64)
		switch string(fields[1]) {
		case "HeapAlloc":
			into.Heap = value
			found++
		case "Stack":
			into.Stack = value
			found++
		}
	}
	if found != 2 {
		return fmt.Errorf("the heap profile tells %d of 2 figures", found)
	}
	return nil
}
