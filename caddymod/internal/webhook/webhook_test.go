// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package webhook_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/webhook"
	"github.com/caddy-moderation/caddy-moderation/documents"
	"github.com/caddy-moderation/caddy-moderation/review"
	"github.com/caddy-moderation/caddy-moderation/storage/storagetest"
)

var background = context.Background()

const secretText = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// TestSignature compares with the example of Standard Webhooks.
func TestSignature(t *testing.T) {
	t.Parallel()
	secret, err := webhook.ParseSecret(secretText)
	must(t, err)
	got := secret.Sign("msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestSecrets(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{
		"", "secret", "whsec_", "whsec_c2hvcnQ=", "whsec_!!!", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
		"whsec_" + strings.Repeat("A", 100),
	} {
		_, err := webhook.ParseSecret(bad)
		if err == nil || len(bad) > 6 && strings.Contains(err.Error(), bad[6:]) {
			t.Errorf("%q: got the error %v, want one that does not tell the secret", bad, err)
		}
	}
}

// world is a queue with a clock, and an endpoint.
type world struct {
	t     *testing.T
	store documents.Store
	queue *review.Queue
	*httptest.Server

	mu     sync.Mutex
	now    time.Time
	answer func(n int) int // the status for the n-th request
	got    []string        // the texts of items by their request ids, as they arrive
	ids    []string
	told   []webhook.Outcome
}

func newWorld(t *testing.T) *world {
	w := &world{
		t: t, store: storagetest.NewMemory(), now: time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC),
		answer: func(int) int { return 204 },
	}
	var err error
	w.queue, err = review.New(review.Options{Store: w.store, Now: w.time})
	must(t, err)
	w.Server = httptest.NewServer(http.HandlerFunc(w.receive))
	t.Cleanup(w.Close)
	return w
}

func (w *world) time() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(time.Millisecond)
	return w.now
}

func (w *world) wait(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

func (w *world) receive(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.t.Errorf("reading: %v", err)
	}
	secret, _ := webhook.ParseSecret(secretText)
	seconds, _ := strconv.ParseInt(r.Header.Get("Webhook-Timestamp"), 10, 64)
	id := r.Header.Get("Webhook-Id")
	if want := secret.Sign(id, time.Unix(seconds, 0), body); r.Header.Get("Webhook-Signature") != want {
		w.t.Errorf("the signature is %s, want %s", r.Header.Get("Webhook-Signature"), want)
	}
	var message struct {
		Type      string       `json:"type"`
		Timestamp time.Time    `json:"timestamp"`
		Data      review.Event `json:"data"`
	}
	if err := json.Unmarshal(body, &message); err != nil {
		w.t.Errorf("the body: %v", err)
	}
	if message.Type != "review.decided" || message.Data.ID != id || strings.Contains(string(body), "secret text") {
		w.t.Errorf("the message: got %s", body)
	}
	w.mu.Lock()
	w.got, w.ids = append(w.got, message.Data.RequestID), append(w.ids, id)
	n := len(w.got)
	w.mu.Unlock()
	rw.WriteHeader(w.answer(n))
}

func (w *world) sender() *webhook.Sender {
	secret, err := webhook.ParseSecret(secretText)
	must(w.t, err)
	return &webhook.Sender{
		Endpoint: webhook.Endpoint{URL: w.URL + "/hook?key=hidden", Secret: secret, Account: "acme"},
		Queue:    w.queue, Store: w.store, Now: w.time,
		Told: func(o webhook.Outcome, _ string, err error) {
			w.told = append(w.told, o)
			if err != nil && (strings.Contains(err.Error(), "hidden") || strings.Contains(err.Error(), "127.0.0.1:0")) {
				w.t.Errorf("the error tells the address: %v", err)
			}
		},
	}
}

// decide has an item decided.
func (w *world) decide(name, account string) {
	id, err := w.queue.Add(background, review.Item{
		Origin: review.API, Cause: review.Reviewed, Account: account, RequestID: name,
		Texts: []review.Text{{Text: "a secret text"}},
	})
	must(w.t, err)
	_, err = w.queue.Decide(background, id, review.Decision{Reviewer: "ann", Action: review.Approve})
	must(w.t, err)
}

func (w *world) round(s *webhook.Sender) {
	must(w.t, s.Round(background))
}

func (w *world) want(what, got string) {
	w.t.Helper()
	if all := strings.Join(w.got, " "); all != got {
		w.t.Errorf("%s: got %q, want %q", what, all, got)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got the error %v, want none", err)
	}
}

// TestDelivery sends the events of an account once, in their order, and not those from before.
func TestDelivery(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.decide("before", "acme")
	w.wait(time.Second)
	s := w.sender()
	w.round(s)
	w.want("before anything is decided", "")
	for i := range 5 {
		w.decide(fmt.Sprint(i), "acme")
		w.decide("other", "other")
	}
	w.round(s)
	w.want("at once", "") // another node may tell of an older one
	w.wait(3 * time.Second)
	w.round(s)
	w.round(s)
	w.want("later", "0 1 2 3 4")
	w.decide("5", "acme")
	w.wait(3 * time.Second)
	w.round(w.sender()) // another process: the first one still delivers
	w.want("while another one delivers", "0 1 2 3 4")
	w.wait(time.Minute)
	w.round(w.sender())
	w.want("when the other one is gone", "0 1 2 3 4 5")
}

// counted counts the events that are read.
type counted struct {
	documents.Store
	read int
}

func (c *counted) ListDocuments(
	ctx context.Context, collection string, r documents.Range,
) iter.Seq2[documents.Document, error] {
	return func(yield func(documents.Document, error) bool) {
		for d, err := range c.Store.ListDocuments(ctx, collection, r) {
			c.read++
			if !yield(d, err) {
				return
			}
		}
	}
}

// TestEventsOfOthersArePassed guards against an endpoint of one account that reads the events of all others again every
// two seconds.
func TestEventsOfOthersArePassed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	store := &counted{Store: w.store}
	var err error
	w.queue, err = review.New(review.Options{Store: store, Now: w.time})
	must(t, err)
	s := w.sender()
	w.round(s)
	for range 250 {
		w.decide("other", "other")
	}
	w.decide("mine", "acme")
	for range 5 {
		w.decide("other", "other")
	}
	w.wait(3 * time.Second)
	w.round(s)
	w.want("among events of another account", "mine")
	store.read = 0
	w.round(s)
	w.wait(time.Minute)
	w.round(w.sender())
	if store.read != 0 {
		t.Errorf("%d events were read again, want none", store.read)
	}
	w.want("later", "mine")
}

// TestDamagedEventsArePassed guards against an endpoint that is told nothing more because one event cannot be read.
func TestDamagedEventsArePassed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.sender()
	w.round(s)
	for _, name := range []string{"one", "two", "three"} {
		w.decide(name, "acme")
	}
	events, _, err := w.queue.Events(background, "", "", 10)
	must(t, err)
	must(t, w.store.ChangeDocuments(background, "review",
		documents.Change{Key: "e/" + events[1].ID, Value: []byte("\x00{")}))
	w.wait(3 * time.Second)
	w.round(s)
	w.want("with a damaged event", "one three")
	for range 3 {
		w.wait(time.Minute)
		w.round(s)
	}
	if n := len(slices.DeleteFunc(w.told, func(o webhook.Outcome) bool { return o != webhook.GivenUp })); n != 1 {
		t.Errorf("the damage was told %d times, want once", n)
	}
}

// TestRetries sends again what an endpoint has not taken, in the order of the events.
func TestRetries(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.sender()
	w.round(s)
	w.decide("0", "acme")
	w.decide("1", "acme")
	w.wait(3 * time.Second)
	w.answer = func(n int) int { return map[bool]int{true: 503, false: 200}[n <= 3] }
	w.round(s)
	w.round(s) // too early
	w.want("a failure", "0")
	w.wait(5 * time.Second)
	w.round(s)
	w.wait(5 * time.Second)
	w.round(s) // too early: the pause has doubled
	w.want("a second failure", "0 0")
	w.wait(6 * time.Second)
	w.round(s)
	w.wait(time.Minute)
	w.round(w.sender())
	w.want("after failures", "0 0 0 0 1")
	if w.ids[0] != w.ids[3] {
		t.Errorf("a repeated event has the id %s, want %s as before", w.ids[3], w.ids[0])
	}
}

// TestGivingUp guards against one event that an endpoint never takes and that stops all others.
func TestGivingUp(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status int
		pause  time.Duration
		tries  int
	}{
		"a refusal": {400, time.Hour, 6}, "a redirect": {302, time.Hour, 6}, "away for days": {500, 25 * time.Hour, 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := w.sender()
			w.round(s)
			w.decide("bad", "acme")
			w.decide("good", "acme")
			w.wait(3 * time.Second)
			w.answer = func(n int) int {
				if n <= test.tries {
					return test.status
				}
				return 200
			}
			for range test.tries + 1 {
				w.round(s)
				w.wait(test.pause)
			}
			w.want(name, strings.Repeat("bad ", test.tries)+"good")
			if got := fmt.Sprint(w.told); strings.Count(got, "given_up") != 1 || strings.Count(got, "failed") != test.tries-1 {
				t.Errorf("told: got %s, want one given_up", got)
			}
		})
	}
}

// TestUnreachable guards against an error that tells the address.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.sender()
	w.round(s)
	w.decide("0", "acme")
	w.wait(3 * time.Second)
	w.Close()
	w.round(s)
	if fmt.Sprint(w.told) != "[failed]" {
		t.Errorf("told: got %v, want failed", w.told)
	}
}

// TestEndOfASender guards against events that wait for a sender that is gone.
func TestEndOfASender(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, cancel := context.WithCancel(background)
	first := w.sender()
	w.round(first)
	w.decide("0", "acme")
	w.wait(3 * time.Second)
	cancel()
	first.Run(ctx, time.Hour)
	w.round(w.sender())
	w.want("after the first sender has ended", "0")
}

// TestTwoNodes has two nodes deliver at the same time: each event arrives once.
func TestTwoNodes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, second := w.sender(), w.sender()
	first.Told, second.Told = nil, nil
	w.round(first)
	for i := range 50 {
		w.decide(fmt.Sprint(i), "acme")
	}
	w.wait(3 * time.Second)
	var wg sync.WaitGroup
	for _, s := range []*webhook.Sender{first, second} {
		wg.Go(func() {
			for range 10 {
				if err := s.Round(background); err != nil {
					t.Errorf("Round: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if len(w.got) != 50 {
		t.Errorf("%d events arrived, want 50", len(w.got))
	}
}

// TestReplay sends events once more with their ids, in their order, also while a sender delivers and to an endpoint
// that has refused; and guards against one that passes what is still due.
func TestReplay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.decide("early", "acme")
	w.wait(time.Minute)
	s := w.sender()
	w.round(s)
	since := w.time()
	for i := range 3 {
		w.decide(fmt.Sprint(i), "acme")
		w.decide("other", "other")
	}
	w.wait(3 * time.Second)
	w.round(s)
	replay := func(since time.Time, want int) {
		t.Helper()
		if n, err := webhook.Replay(background, w.store, w.queue, &s.Endpoint, since); err != nil || n != want {
			t.Errorf("got %d events, %v; want %d", n, err, want)
		}
	}
	replay(since, 3)
	w.round(s)
	w.want("once more", "0 1 2 0 1 2")
	if w.ids[0] != w.ids[3] || w.ids[2] != w.ids[5] {
		t.Errorf("got the ids %v", w.ids)
	}
	replay(since.Add(-time.Hour), 4)
	w.round(s)
	w.want("from before the endpoint was there", "0 1 2 0 1 2 early 0 1 2")

	w.got = nil
	w.answer = func(n int) int { return map[bool]int{true: 503, false: 200}[n <= 1] }
	w.decide("3", "acme")
	w.wait(3 * time.Second)
	w.round(s)
	replay(w.time(), 0)
	w.round(s) // it waits no longer
	w.want("a replay since now", "3 3")
}

// meddler is a store in which somebody changes a document right after it was written.
type meddler struct {
	documents.Store
	after func()
}

func (m *meddler) ChangeDocuments(ctx context.Context, collection string, changes ...documents.Change) error {
	err := m.Store.ChangeDocuments(ctx, collection, changes...)
	if after := m.after; after != nil && collection == "review-webhooks" {
		m.after = nil
		after()
	}
	return err
}

// TestReplayIsNotUndone guards against a sender that writes over a replay which comes while it notes its place.
func TestReplayIsNotUndone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	store := &meddler{Store: w.store}
	s := w.sender()
	s.Store = store
	w.round(s)
	since := w.time()
	w.decide("0", "acme")
	w.decide("1", "acme")
	w.wait(3 * time.Second)
	store.after = func() {
		_, err := webhook.Replay(background, w.store, w.queue, &s.Endpoint, since)
		must(t, err)
	}
	for range 3 {
		w.round(s)
	}
	w.want("a replay while events are sent", "0 0 1")
}

// TestReplayPassesOthersOnce guards against an endpoint of one account that reads the events of others again and again
// after a replay.
func TestReplayPassesOthersOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	store := &counted{Store: w.store}
	var err error
	w.queue, err = review.New(review.Options{Store: store, Now: w.time})
	must(t, err)
	s := w.sender()
	w.round(s)
	since := w.time()
	w.decide("other", "other")
	w.wait(3 * time.Second)
	w.round(s)
	_, err = webhook.Replay(background, w.store, w.queue, &s.Endpoint, since)
	must(t, err)
	w.round(s)
	store.read = 0
	w.round(s)
	if store.read != 0 {
		t.Errorf("%d events were read again, want none", store.read)
	}
}
