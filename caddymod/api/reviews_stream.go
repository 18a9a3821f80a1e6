// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-moderation/caddy-moderation/caddymod/access"
	"github.com/caddy-moderation/caddy-moderation/caddymod/problem"
	"github.com/caddy-moderation/caddy-moderation/review"
	"github.com/caddy-moderation/caddy-moderation/sortid"
)

const (
	// maxStreams is how many clients may be told of decisions at once, and maxAccountStreams how many of one account.
	maxStreams, maxAccountStreams = 64, 16
	// streamInterval is how often a stream looks for events.
	streamInterval = time.Second
	// streamSilence is after how long something is written although nothing was decided, so that both ends notice a
	// connection that is gone.
	streamSilence = 15 * time.Second
	// streamWrite is how long an event may take to be written.
	streamWrite = 10 * time.Second
	// streamLife is how long a stream lasts. The client then asks again, and is refused if its key is not valid any
	// more.
	streamLife = 30 * time.Minute
	// streamSkew is how far the clocks of nodes may differ without that an event is left out.
	streamSkew = time.Minute
)

// wantsStream reports whether a request is for events as they happen.
func (h *reviews) wantsStream(r *http.Request) bool {
	return r.URL.Path == h.path+"/events" && strings.Contains(r.Header.Get("Accept"), "text/event-stream")
}

// end ends the streams, whose clients then ask the next configuration.
func (h *reviews) end() {
	if h.ended != nil {
		h.endOnce.Do(func() { close(h.ended) })
	}
}

// stream answers with events as they happen: server-sent events, after the one that the header Last-Event-ID or the
// parameter after names, else from now on.
func (h *reviews) stream(w http.ResponseWriter, r *http.Request, call *access.Call) error {
	after := r.Header.Get("Last-Event-ID")
	if after == "" {
		after = r.URL.Query().Get("after")
	}
	if after == "" {
		after = review.EventIDAt(call.Services.Now())
	}
	if _, ok := sortid.Time("dec_", after); !ok {
		return call.Problem(w, r, problem.New(problem.InvalidRequest,
			"Last-Event-ID, or the parameter after, is not the id of an event."))
	}
	if !h.streams.begin(call.Who.Account.ID) {
		w.Header().Set("Retry-After", "10")
		return call.Refuse(w, r, problem.New(problem.RateLimitExceeded, "Too many clients read the stream."))
	}
	defer h.streams.end(call.Who.Account.ID)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would hold events back
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), streamLife)
	defer cancel()
	s := stream{w: w, queue: call.Services.Reviews.Queue, account: call.Who.Account.ID, now: call.Services.Now,
		begin: after, cursor: after, seen: map[string]bool{}}
	if !s.write([]byte("retry: 2000\n\n")) {
		return nil
	}
	ticker := time.NewTicker(streamInterval)
	defer ticker.Stop()
	for {
		if !s.tell(ctx) || caddy.Exiting() {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-h.ended:
			return nil
		case <-ticker.C:
		}
	}
}

// streams counts the streams that are open, by account.
type streams struct {
	mu        sync.Mutex
	all       int
	byAccount map[string]int
}

// begin reports whether one more may be open, and counts it.
func (s *streams) begin(account string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == maxStreams || s.byAccount[account] == maxAccountStreams {
		return false
	}
	if s.byAccount == nil {
		s.byAccount = map[string]int{}
	}
	s.all++
	s.byAccount[account]++
	return true
}

func (s *streams) end(account string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if s.byAccount[account]--; s.byAccount[account] == 0 {
		delete(s.byAccount, account)
	}
}

// stream is what one client is told.
type stream struct {
	w       http.ResponseWriter
	queue   *review.Queue
	account string
	now     func() time.Time
	// begin is the id that all events follow, and cursor the one that those follow which are read next.
	begin, cursor string
	// seen are the ids of the events of the last minute that were told. Another node whose clock is behind may add one
	// before them.
	seen   map[string]bool
	silent time.Duration
}

// tell writes what has happened, and reports whether the client still reads. A store that does not answer is no reason
// to end: nothing is lost meanwhile.
func (s *stream) tell(ctx context.Context) bool {
	told := false
	for {
		events, _, err := s.queue.Events(ctx, s.cursor, s.account, maxEvents)
		if err != nil {
			break
		}
		for i := range events {
			if s.cursor = events[i].ID; s.seen[s.cursor] {
				continue
			}
			if !s.event(&events[i]) {
				return false
			}
			told = true
			s.seen[s.cursor] = true
		}
		if len(events) < maxEvents {
			s.lookBack()
			break
		}
	}
	if s.silent += streamInterval; told {
		s.silent = 0
	}
	if s.silent < streamSilence {
		return true
	}
	s.silent = 0
	return s.write([]byte(": nothing new\n\n"))
}

// lookBack has the next events read from a minute ago on, and forgets which ones were told before.
func (s *stream) lookBack() {
	s.cursor = max(s.begin, review.EventIDAt(s.now().Add(-streamSkew)))
	for id := range s.seen {
		if id <= s.cursor {
			delete(s.seen, id)
		}
	}
}

func (s *stream) event(e *review.Event) bool {
	var b bytes.Buffer
	b.WriteString("id: " + e.ID + "\nevent: " + e.Type + "\ndata: ")
	encoder := json.NewEncoder(&b) // one line, as events need it
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(e); err != nil {
		return false
	}
	b.WriteByte('\n')
	return s.write(b.Bytes())
}

func (s *stream) write(part []byte) bool {
	control := http.NewResponseController(s.w)
	// A connection without deadlines is bounded by the request's context.
	_ = control.SetWriteDeadline(time.Now().Add(streamWrite))
	if _, err := s.w.Write(part); err != nil {
		return false
	}
	return control.Flush() == nil
}
