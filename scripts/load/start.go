// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"
)

// Aims for a server that was just started.
const (
	startAim  = 300 * time.Millisecond
	memoryAim = 120 << 20
)

// idle holds the figures of one start.
type idle struct {
	Listening time.Duration
	Memory    int64 // of server and store after two idle seconds
	Store     int64 // of the store's process, out of Memory
	Used      int64 // after one classified text and two more seconds
}

func start(ctx context.Context, args []string) error {
	var rounds int
	var caddy string
	err := flags("start", args, func(f *flag.FlagSet) {
		f.IntVar(&rounds, "rounds", 10, "starts")
		f.StringVar(&caddy, "caddy", "./caddy", "the server to start")
	})
	if err != nil {
		return err
	}
	s, err := newSubject(caddy)
	if err != nil {
		return err
	}
	defer s.close()
	body, err := bodies(corpus, 1, 2_000)
	if err != nil {
		return err
	}
	var all []idle
	for range rounds {
		if err := s.start(ctx); err != nil {
			return err
		}
		var i idle
		i.Listening = s.process.StartTime
		time.Sleep(2 * time.Second)
		i.Memory = sum(s.process.PID(), memoryShare)
		i.Store = i.Memory - memoryShare(s.process.PID())
		one := job{Address: s.Address, Connections: 1, Duration: time.Nanosecond,
			Requests: [][]byte{post(s.Address, "/v1/moderate/text", s.Key, body[0])}}
		if t, err := one.run(ctx); err != nil || t.Answered != 1 {
			return errors.Join(err, fmt.Errorf("the first request was answered with %d, want 200", t.Sample))
		}
		time.Sleep(2 * time.Second)
		i.Used = sum(s.process.PID(), memoryShare)
		if err := s.process.Stop(); err != nil {
			return err
		}
		all = append(all, i)
	}
	listening := middle(all, func(i idle) time.Duration { return i.Listening })
	memory := middle(all, func(i idle) int64 { return i.Memory })
	store := middle(all, func(i idle) int64 { return i.Store })
	used := middle(all, func(i idle) int64 { return i.Used })
	fmt.Printf("start to listening, median of %d: %.0f ms, aim %.0f ms (the first, on an empty directory: %.0f ms)\n",
		rounds, millis(listening), millis(startAim), millis(all[0].Listening))
	fmt.Printf("memory, median of %d: %d MiB idle, %d MiB of them in the store's process, aim %d MiB; %d MiB after a judged text\n",
		rounds, memory>>20, store>>20, memoryAim>>20, used>>20)
	if listening > startAim || memory > memoryAim {
		return fmt.Errorf("an aim is missed")
	}
	return nil
}
