// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-moderation/caddy-moderation/storage/redis/redistest"
)

// stores compares servers that differ in nothing but their storage.
func stores(ctx context.Context, args []string) error {
	var rounds, connections, lease, characters int
	var length time.Duration
	var address, pattern string
	err := flags("stores", args, func(f *flag.FlagSet) {
		f.IntVar(&rounds, "rounds", 7, "rounds of each server")
		f.DurationVar(&length, "time", 2*time.Second, "length of a round")
		f.IntVar(&connections, "connections", 64, "connections that send at the same time")
		f.IntVar(&lease, "lease", 50, "requests that the third server takes from the store at once")
		f.IntVar(&characters, "characters", 200, "length of the texts")
		f.StringVar(&address, "address", "", "a server of Redis or Valkey to be used; its database should be empty")
		f.StringVar(&pattern, "texts", corpus, "files of the texts")
	})
	if err != nil {
		return err
	}
	version := "at " + address
	if address == "" {
		server, err := redistest.Start(redistest.Options{})
		if err != nil {
			return err
		}
		defer server.Stop()
		address = server.Addr()
		if version, err = server.Info("redis_version"); err != nil {
			return err
		}
	}
	texts, err := bodies(pattern, 64, characters)
	if err != nil {
		return err
	}
	names := []string{"badger", "redis", "redis, leases"}
	storages := []string{
		"",
		fmt.Sprintf("redis %s {\nprefix load1\n}", address),
		fmt.Sprintf("redis %s {\nprefix load2\nlease %d\n}", address, lease),
	}
	subjects := make([]*subject, len(names))
	for i, storage := range storages {
		if subjects[i], err = newSiteOn("", storage, "", "moderation_api"); err != nil {
			return err
		}
		defer subjects[i].close()
		if err := subjects[i].start(ctx, "GOMAXPROCS=1"); err != nil {
			return fmt.Errorf("%s: %w", names[i], err)
		}
		if err := subjects[i].storedKey(ctx); err != nil {
			return fmt.Errorf("%s: %w", names[i], err)
		}
	}
	fmt.Printf("%s, %d CPUs, servers GOMAXPROCS=1, store %s, %d characters, %d rounds of %s\n",
		runtime.Version(), runtime.NumCPU(), version, characters, rounds, length)
	acknowledged := make([]int64, len(names))
	for _, n := range []int{connections, 1} {
		results, pings := make([][]measured, len(names)), []time.Duration(nil)
		spent := make([]storeUse, len(names))
		for round := range rounds + 1 {
			for i, s := range subjects {
				j := job{Address: s.Address, Connections: n, Duration: length}
				for _, body := range texts {
					j.Requests = append(j.Requests, post(s.Address, "/v1/moderate/text", s.Key, body))
				}
				before, err := useOfStore(address)
				if err != nil {
					return err
				}
				m, answered, err := s.measure(ctx, j)
				if err != nil {
					return fmt.Errorf("%s: %w", names[i], err)
				}
				after, err := useOfStore(address)
				if err != nil {
					return err
				}
				spent[i].add(before, after, answered)
				acknowledged[i] += answered
				if round > 0 { // the first one warms up
					results[i] = append(results[i], m)
				}
			}
			trip, err := roundTrip(address)
			if err != nil {
				return err
			}
			pings = append(pings, trip)
		}
		fmt.Printf("\n%d at a time          req/s   CPU us/req     p50 ms     p99 ms   of badger's req/s   added at p50\n", n)
		first := median(results[0])
		for i, name := range names {
			m := median(results[i])
			fmt.Printf("%-15s %10.0f   %10.1f   %8.3f   %8.3f   %17.2f   %9.0f us\n", name, m.Rate, micros(m.CPU),
				millis(m.P50), millis(m.P99), m.Rate/first.Rate, micros(m.P50-first.P50))
		}
		for i, name := range names[1:] {
			use := spent[i+1].each()
			fmt.Printf("%s, of the store for each request: %.1f us CPU, %.2f commands, %.0f bytes in, %.0f bytes out\n", name,
				use.cpu*1e6, use.commands, use.in, use.out)
		}
		fmt.Printf("a round trip to the store (PING, median): %.0f us\n",
			micros(middle(pings, func(d time.Duration) time.Duration { return d })))
	}
	fmt.Println()
	for i, s := range subjects {
		fmt.Printf("%s: ", names[i])
		if err := s.stopCounted(ctx, acknowledged[i]); err != nil {
			return err
		}
	}
	return nil
}

// roundTrip returns the median time of a PING.
func roundTrip(address string) (time.Duration, error) {
	c, err := redistest.Dial(address, nil)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	trips := make([]time.Duration, 500)
	for i := range trips {
		start := time.Now()
		if _, err := c.Do("PING"); err != nil {
			return 0, err
		}
		trips[i] = time.Since(start)
	}
	slices.Sort(trips)
	return trips[len(trips)/2], nil
}

// storeUse is what a server of Redis or Valkey has spent, and for how many requests.
type storeUse struct {
	cpu, commands, in, out float64 // seconds, calls, bytes
	requests               int64
}

func (u *storeUse) add(before, after storeUse, requests int64) {
	u.cpu += after.cpu - before.cpu
	u.commands += after.commands - before.commands
	u.in += after.in - before.in
	u.out += after.out - before.out
	u.requests += requests
}

// each is what was spent for one request.
func (u *storeUse) each() storeUse {
	n := float64(max(u.requests, 1))
	return storeUse{cpu: u.cpu / n, commands: u.commands / n, in: u.in / n, out: u.out / n, requests: 1}
}

// useOfStore asks a server what it has spent since it started.
func useOfStore(address string) (use storeUse, err error) {
	c, err := redistest.Dial(address, nil)
	if err != nil {
		return use, err
	}
	defer c.Close()
	info, err := c.Do("INFO", "everything")
	if err != nil {
		return use, err
	}
	for line := range strings.Lines(fmt.Sprintf("%s", info)) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), ":")
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			continue
		}
		switch name {
		case "used_cpu_user", "used_cpu_sys":
			use.cpu += value
		case "total_commands_processed":
			use.commands = value
		case "total_net_input_bytes":
			use.in = value
		case "total_net_output_bytes":
			use.out = value
		}
	}
	return use, nil
}
