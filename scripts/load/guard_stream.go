// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// streamCost holds the delays of streamed answers.
type streamCost struct {
	Streams        int     `json:"streams"` // of each kind
	TokenEveryMS   float64 `json:"token_every_ms"`
	PlainFirstMS   float64 `json:"plain_first_token_ms"` // from the request to the first text
	GuardedFirstMS float64 `json:"guarded_first_token_ms"`
	FirstHeld      int64   `json:"guarded_first_characters"` // text that came first: what was held back until then
	MostHeld       int64   `json:"guarded_most_characters"`  // that came at once
	HoldMedianMS   float64 `json:"guarded_hold_median_ms"`   // from a character's way into the proxy to its way out
	HoldMaxMS      float64 `json:"guarded_hold_max_ms"`
	LagMedianMS    float64 `json:"guarded_lag_median_ms"` // the same for the last character of what came at once: the judging itself
	LagP99MS       float64 `json:"guarded_lag_p99_ms"`
	PlainLagMS     float64 `json:"plain_lag_median_ms"`
	EndMS          float64 `json:"guarded_end_later_ms"` // how much later than through the plain proxy the answer ends
}

// lagAim is how many milliseconds text may take once a sentence is complete: the time of the token that shows it, and
// of two more for a busy machine.
const lagAim = 60

// released is a run of text that arrived at once.
type released struct {
	At         time.Time
	Characters int // of the answer so far
}

// streamed is one answer.
type streamed struct {
	Begin, End time.Time
	Text       string
	Releases   []released
	Sent       []time.Time // by token
}

// stream measures answers with a token every 20 ms.
func (g *guardBench) stream(ctx context.Context) (*streamCost, error) {
	s, err := g.server(ctx)
	if err != nil {
		return nil, err
	}
	defer s.close()
	text, err := g.acceptedAnswer(ctx, s)
	if err != nil {
		return nil, err
	}
	const parallel = 4
	results, err := alternate(g.rounds, []string{plainPath, answersPath}, func(kind string) ([]streamed, error) {
		all := make([]streamed, parallel)
		failures := make([]error, parallel)
		var wg sync.WaitGroup
		for i := range all {
			wg.Go(func() { all[i], failures[i] = g.streamOnce(ctx, s, kind) })
		}
		wg.Wait()
		for i, one := range all {
			if failures[i] != nil {
				return nil, failures[i]
			}
			if one.Text != text {
				return nil, fmt.Errorf("the text changed on the way: %q, want %q", one.Text, text)
			}
		}
		return all, nil
	})
	if err != nil {
		return nil, err
	}
	plain, guarded := slices.Concat(results[plainPath]...), slices.Concat(results[answersPath]...)
	var holds, lags, plainLags []time.Duration
	for _, one := range plain {
		_, lag := one.delays(g.upstream.Text)
		plainLags = append(plainLags, lag...)
	}
	var most int64
	for _, one := range guarded {
		hold, lag := one.delays(g.upstream.Text)
		holds, lags = append(holds, hold...), append(lags, lag...)
		before := 0
		for _, r := range one.Releases {
			most = max(most, int64(r.Characters-before))
			before = r.Characters
		}
	}
	for _, all := range [][]time.Duration{holds, lags, plainLags} {
		slices.Sort(all)
	}
	first := func(one streamed) time.Duration { return one.Releases[0].At.Sub(one.Begin) }
	whole := func(one streamed) time.Duration { return one.End.Sub(one.Begin) }
	cost := &streamCost{
		Streams: len(guarded), TokenEveryMS: millis(tokenEvery),
		PlainFirstMS: millis(middle(plain, first)), GuardedFirstMS: millis(middle(guarded, first)),
		FirstHeld:    middle(guarded, func(one streamed) int64 { return int64(one.Releases[0].Characters) }),
		MostHeld:     most,
		HoldMedianMS: millis(holds[len(holds)/2]), HoldMaxMS: millis(holds[len(holds)-1]),
		LagMedianMS: millis(lags[len(lags)/2]), LagP99MS: millis(lags[len(lags)*99/100]),
		PlainLagMS: millis(plainLags[len(plainLags)/2]),
		EndMS:      millis(middle(guarded, whole) - middle(plain, whole)),
	}
	fmt.Printf("\nstreamed answers of %d tokens, one each %s, %d without and with moderate_response\n",
		len(g.upstream.Text), tokenEvery, cost.Streams)
	fmt.Printf("first text after %.1f ms without, %.1f ms with, when %d characters come; at most %d come at once\n",
		cost.PlainFirstMS, cost.GuardedFirstMS, cost.FirstHeld, cost.MostHeld)
	fmt.Printf("held back for %.1f ms (median), %.1f ms (most); from the last character of what comes at once to its way out %.1f ms (median), %.1f ms (p99), without %.1f ms; the end is %.1f ms later\n",
		cost.HoldMedianMS, cost.HoldMaxMS, cost.LagMedianMS, cost.LagP99MS, cost.PlainLagMS, cost.EndMS)
	return cost, s.process.Stop()
}

// acceptedAnswer finds a text that the guard accepts, makes the upstream answer with it and returns it.
func (g *guardBench) acceptedAnswer(ctx context.Context, s *subject) (string, error) {
	texts, err := contents(g.pattern, 10, 500)
	if err != nil {
		return "", err
	}
	for _, text := range texts {
		g.upstream.Text = tokens(text)
		if one, err := g.streamOnce(ctx, s, answersPath); err != nil || one.Text == text {
			return text, err
		}
	}
	return "", fmt.Errorf("the guard lets none of %d answers through\n%s", len(texts), s.process.Output())
}

// tokens splits a text roughly as language models do: words with the space before them.
func tokens(text string) (all []string) {
	for word := range strings.SplitAfterSeq(text, " ") {
		if word != "" {
			all = append(all, word)
		}
	}
	return all
}

// streamOnce reads an answer.
func (g *guardBench) streamOnce(ctx context.Context, s *subject, path string) (streamed, error) {
	id := letters(16)
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.Address+path+"/stream",
		strings.NewReader(`{"stream":true}`))
	if err != nil {
		return streamed{}, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-Load-Stream", id)
	one := streamed{Begin: time.Now()}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return streamed{}, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return streamed{}, fmt.Errorf("answered with %s\n%s", response.Status, s.process.Output())
	}
	if err := one.read(bufio.NewScanner(response.Body)); err != nil {
		return streamed{}, err
	}
	one.Sent = g.upstream.sentTimes(id)
	return one, nil
}

// read takes the text from the events of an answer. Events that arrive at the same moment are one release.
func (one *streamed) read(lines *bufio.Scanner) error {
	const moment = 2 * time.Millisecond
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		var chunk struct {
			Choices []struct {
				Delta struct {
					Content string `json:"content"`
				} `json:"delta"`
			} `json:"choices"`
		}
		if err := json.Unmarshal([]byte(data), &chunk); err != nil {
			return fmt.Errorf("event %s: %w", strconv.Quote(data), err)
		}
		if len(chunk.Choices) == 0 || chunk.Choices[0].Delta.Content == "" {
			continue
		}
		now := time.Now()
		one.Text += chunk.Choices[0].Delta.Content
		if n := len(one.Releases); n == 0 || now.Sub(one.Releases[n-1].At) > moment {
			one.Releases = append(one.Releases, released{})
		}
		one.Releases[len(one.Releases)-1] = released{At: now, Characters: utf8.RuneCountInString(one.Text)}
	}
	one.End = time.Now()
	return lines.Err()
}

// delays returns how long each token was on its way, and the same for the last token of each release.
func (one *streamed) delays(tokens []string) (holds, lags []time.Duration) {
	end, at := 0, 0
	for i, token := range tokens[:min(len(tokens), len(one.Sent))] {
		end += utf8.RuneCountInString(token)
		for at < len(one.Releases) && one.Releases[at].Characters < end {
			at++
		}
		if at == len(one.Releases) {
			break
		}
		delay := one.Releases[at].At.Sub(one.Sent[i])
		holds = append(holds, delay)
		if one.Releases[at].Characters == end {
			lags = append(lags, delay)
		}
	}
	return holds, lags
}
