// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package desk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-moderation/caddy-moderation/quota"
)

const (
	// streamLife is how long a stream lasts. The page then asks again, and is told if its person has lost the role.
	streamLife = 10 * time.Minute
	// streamWrite is how long an event may take to be written.
	streamWrite = 10 * time.Second
	// streamSilence is after how long something is written although nothing has changed, so that both ends notice a
	// connection that is gone.
	streamSilence = 15 * time.Second
	// streamRetry is how long a page waits before it asks again, in milliseconds.
	streamRetry = 2000
)

// gaugeEvent is what a stream tells.
type gaugeEvent struct {
	Minute gauge `json:"minute"`
	Period gauge `json:"period"`
}

// streamGauge answers with the gauge of an account as server-sent events, one for each change, until the page is
// closed, the configuration is replaced, or the server stops.
func streamGauge(c *call) error {
	if _, err := c.gauge(c.r.Context()); err != nil {
		return err
	}
	return c.stream(c.event)
}

// stream answers with what next returns, asked at intervals, whenever it has changed, until the page is closed, the
// configuration is replaced, or the server stops. Nothing is written while next returns nil.
func (c *call) stream(next func(context.Context) []byte) error {
	d := c.desk
	if !d.streams.begin(c.person.name) {
		return refuse(http.StatusServiceUnavailable, "error.busy")
	}
	defer d.streams.end(c.person.name)
	c.release() // the store does not stay open for as long as a page is
	c.w.Header().Set("Content-Type", "text/event-stream")
	c.w.WriteHeader(http.StatusOK)
	if c.r.Method == http.MethodHead {
		return nil
	}
	ctx, cancel := context.WithTimeout(c.r.Context(), streamLife)
	defer cancel()
	if !c.write([]byte("retry: " + strconv.Itoa(streamRetry) + "\n\n")) {
		return nil
	}
	ticker := time.NewTicker(d.interval)
	defer ticker.Stop()
	var last []byte
	for silent := time.Duration(0); ; silent += d.interval {
		event := next(ctx)
		switch {
		case !bytes.Equal(event, last):
			last, silent = event, 0
		case silent >= streamSilence:
			event, silent = []byte(": nothing new\n\n"), 0
		default:
			event = nil
		}
		if event != nil && !c.write(event) || caddy.Exiting() {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-d.ended:
			return nil
		case <-ticker.C:
		}
	}
}

// streams counts the streams that are open, by person. So nobody takes those of all others.
type streams struct {
	mu       sync.Mutex
	all      int
	byPerson map[string]int
}

// begin reports whether one more may be open, and counts it.
func (s *streams) begin(person string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == maxStreams || s.byPerson[person] == maxPersonStreams {
		return false
	}
	if s.byPerson == nil {
		s.byPerson = map[string]int{}
	}
	s.all++
	s.byPerson[person]++
	return true
}

func (s *streams) end(person string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if s.byPerson[person]--; s.byPerson[person] == 0 {
		delete(s.byPerson, person)
	}
}

// gauge reads the gauge of the account. An account whose tier is not known has no limits that are.
func (c *call) gauge(ctx context.Context) (gaugeEvent, error) {
	usage, err := c.services.Gate.Usage(ctx, c.account.ID)
	if err != nil && !errors.Is(err, quota.ErrUnknownTier) {
		return gaugeEvent{}, err
	}
	return gaugeEvent{
		Minute: gaugeOf(usage.Counts.Minute, usage.Limits.RequestsPerMinute),
		Period: gaugeOf(usage.Counts.Period, usage.Limits.RequestsPerMonth),
	}, nil
}

// event returns the next event: the gauge, or that it is not known now.
func (c *call) event(ctx context.Context) []byte {
	if c.services = c.desk.app.TryAcquire(); c.services == nil {
		return []byte("event: unknown\ndata: {}\n\n")
	}
	defer c.release()
	now, err := c.gauge(ctx)
	if err != nil {
		return []byte("event: unknown\ndata: {}\n\n")
	}
	data, err := json.Marshal(now)
	if err != nil {
		return []byte("event: unknown\ndata: {}\n\n")
	}
	return append(append([]byte("data: "), data...), '\n', '\n')
}

// write sends a part of a stream, and reports whether the page still reads.
func (c *call) write(part []byte) bool {
	control := http.NewResponseController(c.w)
	// A connection without deadlines is bounded by the request's context.
	_ = control.SetWriteDeadline(time.Now().Add(streamWrite))
	if _, err := c.w.Write(part); err != nil {
		return false
	}
	return control.Flush() == nil
}
