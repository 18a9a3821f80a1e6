// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"time"
)

// ledger holds what the client knows after all rounds. The server's count must lie between the two numbers.
type ledger struct {
	Acknowledged int64 // answers that were read
	Sent         int64 // requests that may have been admitted
}

// holds reports whether the ledger allows a stored count.
func (l ledger) holds(stored int64) bool {
	return l.Acknowledged <= stored && stored <= l.Sent
}

func kill(ctx context.Context, args []string) error {
	var rounds, connections int
	var caddy string
	err := flags("kill", args, func(f *flag.FlagSet) {
		f.IntVar(&rounds, "rounds", 10, "times the server is killed")
		f.IntVar(&connections, "connections", 32,
			"connections that send at the same time; a quarter as many more send feedback")
		f.StringVar(&caddy, "caddy", "./caddy", "the server to kill")
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
	counted := job{Address: s.Address, Connections: connections, Duration: time.Minute}
	for _, body := range texts {
		counted.Requests = append(counted.Requests, post(s.Address, "/v1/moderate/text", s.Key, body))
	}
	comments, err := contents(corpus, 64, 200)
	if err != nil {
		return err
	}
	suggested := job{Address: s.Address, Connections: max(1, connections/4), Duration: time.Minute}
	for _, text := range comments {
		body, err := json.Marshal(map[string]any{
			"comment": map[string]string{"text": text},
			"attributeScores": map[string]any{
				"TOXICITY": map[string]any{"summaryScore": map[string]any{"value": 0.1, "type": "PROBABILITY"}},
			},
		})
		if err != nil {
			return err
		}
		suggested.Requests = append(suggested.Requests, post(s.Address, "/v1alpha1/comments:suggestscore", s.Key, body))
	}

	var requests, feedback ledger
	for round := 1; round <= rounds; round++ {
		if err := s.start(ctx); err != nil {
			return err
		}
		if err := s.compareStored(ctx, round-1, &requests, &feedback); err != nil {
			return err
		}
		moment := 200*time.Millisecond + rand.N(1000*time.Millisecond)
		timer := time.AfterFunc(moment, s.process.Kill)
		results := make(chan tally, 1)
		failed := make(chan error, 1)
		go func() {
			t, err := suggested.run(ctx)
			failed <- err
			results <- t
		}()
		c, err := counted.run(ctx)
		if err1 := <-failed; err == nil {
			err = err1
		}
		f := <-results
		timer.Stop()
		s.process.Kill()
		if err != nil {
			return err
		}
		if c.Other+f.Other > 0 {
			return fmt.Errorf("round %d: a request was answered with %d", round, max(c.Sample, f.Sample))
		}
		requests.add(c)
		feedback.add(f)
		fmt.Printf("round %2d: killed after %4d ms; acknowledged %6d requests, %5d feedback\n", round,
			moment.Milliseconds(), c.Answered, f.Answered)
	}
	if err := s.start(ctx); err != nil {
		return err
	}
	if err := s.compareStored(ctx, rounds, &requests, &feedback); err != nil {
		return err
	}
	return s.process.Stop()
}

func (l *ledger) add(t tally) {
	l.Acknowledged += t.Answered
	l.Sent += t.Sent
}

// compareStored asks the server for its counts and compares them with the ledgers.
func (s *subject) compareStored(ctx context.Context, round int, requests, feedback *ledger) error {
	made, err := s.requestsMade(ctx)
	if err != nil {
		return err
	}
	requests.add(tally{Sent: 1, Answered: 1}) // the question itself counts
	records, err := s.feedbackStored(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("after %2d kills: requests acknowledged %d, stored %d, sent %d; feedback acknowledged %d, stored %d, sent %d\n", round,
		requests.Acknowledged, made, requests.Sent, feedback.Acknowledged, records, feedback.Sent)
	if !requests.holds(made) || !feedback.holds(records) {
		return fmt.Errorf("what is stored is not between what was acknowledged and what was sent")
	}
	return nil
}
