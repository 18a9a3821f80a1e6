// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/caddy-moderation/caddy-moderation/caddymod/commentanalyzer"
)

// analyzeAim is the time within which 99 of 100 comments are to be scored. Comment systems wait 800 ms and then do
// without a score.
const analyzeAim = 5 * time.Millisecond

func analyze(ctx context.Context, args []string) error {
	var rounds, clients, characters, processors int
	var length, pause time.Duration
	var pattern, profiles string
	err := flags("analyze", args, func(f *flag.FlagSet) {
		f.IntVar(&rounds, "rounds", 5, "rounds of each load, 1 or more")
		f.DurationVar(&length, "time", 2*time.Second, "length of a round")
		f.IntVar(&clients, "clients", 50, "clients that send at the same time")
		f.DurationVar(&pause, "pause", 10*time.Millisecond,
			"how long each client of the second load pauses between two requests")
		f.IntVar(&characters, "characters", 500, "length of the comments")
		f.IntVar(&processors, "processors", 2,
			"processors of the server (GOMAXPROCS); the client has one of the same machine")
		f.StringVar(&pattern, "texts", corpus,
			"files of the texts; engine/train/corpus/everyday.jsonl is nearer to everyday traffic")
		f.StringVar(&profiles, "profile", "", "folder for a CPU profile of the server, taken after the rounds")
	})
	if err != nil {
		return err
	}
	if rounds < 1 {
		return fmt.Errorf("-rounds is %d; it must be 1 or more", rounds)
	}
	s, err := newSubject("")
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.start(ctx, fmt.Sprintf("GOMAXPROCS=%d", processors)); err != nil {
		return err
	}
	comments, err := contents(pattern, 64, characters)
	if err != nil {
		return err
	}
	busy := job{Address: s.Address, Connections: clients, Duration: length}
	for _, text := range comments {
		body, err := json.Marshal(map[string]any{
			"comment":             map[string]string{"text": text},
			"doNotStore":          true,
			"requestedAttributes": map[string]any{"TOXICITY": struct{}{}},
			"languages":           []string{"en"},
		})
		if err != nil {
			return err
		}
		busy.Requests = append(busy.Requests, post(s.Address, commentanalyzer.AnalyzePath, s.Key, body))
	}
	calm := busy
	calm.Pause = pause
	loads := []struct {
		name string
		job
	}{{"without pauses", busy}, {"pauses of " + pause.String(), calm}}

	fmt.Printf("%s, %d CPUs, server GOMAXPROCS=%d, %d clients, %d characters, %d rounds of %s\n",
		runtime.Version(), runtime.NumCPU(), processors, clients, characters, rounds, length)
	fmt.Println("load                    req/s   CPU us/req     p50 ms     p99 ms   p99 ms of the best round")
	acknowledged := int64(0)
	results := make([][]measured, len(loads))
	for round := range rounds + 1 {
		for i, load := range loads {
			m, answered, err := s.measure(ctx, load.job)
			if err != nil {
				return fmt.Errorf("%s: %w", load.name, err)
			}
			acknowledged += answered
			if round > 0 { // the first one warms up
				results[i] = append(results[i], m)
			}
		}
	}
	for i, load := range loads {
		m := median(results[i])
		best := slices.MinFunc(results[i], func(a, b measured) int { return cmp.Compare(a.P99, b.P99) })
		fmt.Printf("%-18s %10.0f   %10.1f   %8.2f   %8.2f   %8.2f, aim %.0f ms\n",
			load.name, m.Rate, micros(m.CPU), millis(m.P50), millis(m.P99), millis(best.P99), millis(analyzeAim))
	}
	if profiles != "" {
		answered, err := s.profile(ctx, busy, filepath.Join(profiles, "cpu-analyze.pprof"))
		if err != nil {
			return err
		}
		acknowledged += answered
	}
	return s.stopCounted(ctx, acknowledged)
}
