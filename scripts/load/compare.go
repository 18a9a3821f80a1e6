// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"
)

// sizes are the lengths of the texts, each with the share of the baseline's rate that the service must reach; 0 means
// no aim.
var sizes = []struct {
	Characters int
	Aim        float64
}{{200, 0.6}, {2_000, 0}, {10_000, 0.2}}

// measured is one round of one handler.
type measured struct {
	Rate     float64
	CPU      time.Duration // of the server, for each request; 0 where it cannot be read
	P50, P99 time.Duration
}

func compare(ctx context.Context, args []string) error {
	var rounds, connections int
	var length time.Duration
	var profiles, pattern string
	err := flags("compare", args, func(f *flag.FlagSet) {
		f.IntVar(&rounds, "rounds", 5, "rounds of each handler and size")
		f.DurationVar(&length, "time", 2*time.Second, "length of a round")
		f.IntVar(&connections, "connections", 32, "connections that send at the same time")
		f.StringVar(&pattern, "texts", corpus,
			"files of the texts; engine/train/corpus/everyday.jsonl is nearer to everyday traffic")
		f.StringVar(&profiles, "profile", "",
			"folder for CPU profiles of the server, one for each size, taken after the rounds")
	})
	if err != nil {
		return err
	}
	s, err := newSubject("")
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.start(ctx, "GOMAXPROCS=1"); err != nil {
		return err
	}
	fmt.Printf("%s, %d CPUs, server GOMAXPROCS=1, GOGC=%s, %d connections, %d rounds of %s\n",
		runtime.Version(), runtime.NumCPU(), valueOr(os.Getenv("GOGC"), "100"), connections, rounds, length)
	fmt.Println("characters   handler         req/s   CPU us/req     p50 ms     p99 ms   ratio of req/s (of CPU)")

	acknowledged := int64(0)
	for _, size := range sizes {
		texts, err := bodies(pattern, 64, size.Characters)
		if err != nil {
			return err
		}
		jobs := map[string]job{}
		for handler, path := range map[string]string{"baseline": "/baseline", "moderation": "/v1/moderate/text"} {
			j := job{Address: s.Address, Connections: connections, Duration: length}
			for _, body := range texts {
				j.Requests = append(j.Requests, post(s.Address, path, s.Key, body))
			}
			jobs[handler] = j
		}
		results := map[string][]measured{}
		for round := range rounds + 1 {
			for _, handler := range []string{"baseline", "moderation"} {
				m, answered, err := s.measure(ctx, jobs[handler])
				if err != nil {
					return fmt.Errorf("%s, %d characters: %w", handler, size.Characters, err)
				}
				if handler == "moderation" {
					acknowledged += answered
				}
				if round > 0 { // the first one warms up
					results[handler] = append(results[handler], m)
				}
			}
		}
		b, m := median(results["baseline"]), median(results["moderation"])
		fmt.Printf("%10d   baseline   %10.0f   %10.1f   %8.2f   %8.2f\n", size.Characters, b.Rate, micros(b.CPU),
			millis(b.P50), millis(b.P99))
		fmt.Printf("%10d   moderation %10.0f   %10.1f   %8.2f   %8.2f   %.2f", size.Characters, m.Rate, micros(m.CPU),
			millis(m.P50), millis(m.P99), m.Rate/b.Rate)
		if m.CPU > 0 {
			fmt.Printf(" (%.2f)", float64(b.CPU)/float64(m.CPU))
		}
		if size.Aim > 0 {
			fmt.Printf(", aim %.1f", size.Aim)
		}
		fmt.Println()
		if profiles != "" {
			answered, err := s.profile(ctx, jobs["moderation"],
				filepath.Join(profiles, fmt.Sprintf("cpu-%d.pprof", size.Characters)))
			if err != nil {
				return err
			}
			acknowledged += answered
		}
	}
	return s.stopCounted(ctx, acknowledged)
}

// measure runs one round.
func (s *subject) measure(ctx context.Context, j job) (measured, int64, error) {
	before := cpuTime(s.process.PID())
	t, err := j.run(ctx)
	if err != nil {
		return measured{}, 0, err
	}
	spent := cpuTime(s.process.PID()) - before
	if err := ctx.Err(); err != nil {
		return measured{}, 0, err
	}
	if t.Other > 0 || t.Answered == 0 || t.Sent != t.Answered {
		return measured{}, 0, fmt.Errorf("%d of %d requests were answered with 200; another status: %d\n%s", t.Answered,
			t.Sent, t.Sample, s.process.Output())
	}
	return measured{
		Rate: t.Rate(),
		CPU:  spent / time.Duration(t.Answered),
		P50:  t.Percentile(50),
		P99:  t.Percentile(99),
	}, t.Answered, nil
}

// profile runs the job for ten seconds and writes a CPU profile of the server during it. It returns the number of
// answered requests.
func (s *subject) profile(ctx context.Context, j job, name string) (int64, error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return 0, err
	}
	j.Duration = 10 * time.Second
	failed := make(chan error, 1)
	go func() { failed <- download(ctx, "http://"+s.Admin+"/debug/pprof/profile?seconds=8", name) }()
	t, err := j.run(ctx)
	if err != nil {
		return 0, err
	}
	return t.Answered, <-failed
}

// download stores the answer to a GET in a file.
func download(ctx context.Context, url, name string) error {
	response, err := get(ctx, url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := io.Copy(file, response.Body); err != nil {
		return err
	}
	return file.Close()
}

// median is the median of each figure by itself.
func median(all []measured) measured {
	return measured{
		Rate: middle(all, func(m measured) float64 { return m.Rate }),
		CPU:  middle(all, func(m measured) time.Duration { return m.CPU }),
		P50:  middle(all, func(m measured) time.Duration { return m.P50 }),
		P99:  middle(all, func(m measured) time.Duration { return m.P99 }),
	}
}

// middle is the median of one figure. Of an even number it is the mean of the two in the middle.
func middle[E any, N float64 | time.Duration | int64](all []E, figure func(E) N) N {
	if len(all) == 0 {
		return 0
	}
	values := make([]N, len(all))
	for i, e := range all {
		values[i] = figure(e)
	}
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func valueOr(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}
