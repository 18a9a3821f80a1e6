// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package webhook tells other programs what reviewers have decided: each event is a POST, signed as Standard Webhooks
// 1.0 (https://www.standardwebhooks.com) says, in the order of the events, and at least once.
//
// How far each endpoint has come is a document beside the queue, so that nothing is lost with a process, and one of
// several nodes delivers. An event that an endpoint does not take is sent again, later and later; those behind it wait.
package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-moderation/caddy-moderation/documents"
	"github.com/caddy-moderation/caddy-moderation/review"
)

// collection has a document for each endpoint: how far it has come, and who delivers.
const collection = "review-webhooks"

// secretPrefix begins a secret.
const secretPrefix = "whsec_"

// Secret signs what is sent.
type Secret []byte

// ParseSecret parses "whsec_" and 24 to 64 bytes in Base64, as Standard Webhooks has it. The error does not tell the
// secret.
func ParseSecret(text string) (Secret, error) {
	encoded, ok := strings.CutPrefix(strings.TrimSpace(text), secretPrefix)
	secret, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil || len(secret) < 24 || len(secret) > 64 {
		return nil, errors.New(`the secret of a webhook is "whsec_" and 24 to 64 random bytes in Base64, such as what ` +
			`"echo whsec_$(openssl rand -base64 32)" prints`)
	}
	return secret, nil
}

// Sign returns the signature of a message (Standard Webhooks 1.0, "Signature scheme"): HMAC-SHA256 of its id, the time in
// seconds and its body.
func (s Secret) Sign(id string, at time.Time, body []byte) string {
	mac := hmac.New(sha256.New, s)
	fmt.Fprintf(mac, "%s.%d.", id, at.Unix())
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// Endpoint is where events are sent to.
type Endpoint struct {
	// URL takes the POST. Required.
	URL string
	// Secret signs it. Required.
	Secret Secret
	// Account is that of the events. Default: all.
	Account string
}

// id names the endpoint in the store, without telling its address.
func (e *Endpoint) id() string {
	sum := sha256.Sum256([]byte(e.URL + "\n" + e.Account))
	return hex.EncodeToString(sum[:16])
}

// Outcome says how an attempt ended: a bounded label.
type Outcome string

// The outcomes.
const (
	// Delivered is an event that the endpoint has taken.
	Delivered Outcome = "delivered"
	// Failed is an attempt that is repeated.
	Failed Outcome = "failed"
	// GivenUp is an event that is not sent any more.
	GivenUp Outcome = "given_up"
)

// Sender delivers the events of a queue to an endpoint. One goroutine uses it.
type Sender struct {
	// Endpoint, Queue and Store are required.
	Endpoint Endpoint
	Queue    *review.Queue
	Store    documents.Store
	// Client sends. It must not follow redirects. Default: [NewClient].
	Client *http.Client
	// Now is the clock of the queue. Default: [time.Now].
	Now func() time.Time
	// Told is called after each attempt. Default: nobody is told.
	Told func(outcome Outcome, event string, err error)

	// holder is who delivers, and kept the last event that is done in the store.
	holder, kept string
}

// NewClient returns a client that gives up after ten seconds and follows no redirect: a signed message is for the
// address that the operator has named.
func NewClient() *http.Client {
	return &http.Client{
		Timeout:       10 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// state is the document of an endpoint.
type state struct {
	// After is the id of the last event that is done.
	After string `json:"after"`
	// Attempts is how often the next event was sent, Since when it was first, and Next when it is sent again.
	Attempts int       `json:"attempts,omitempty"`
	Since    time.Time `json:"since,omitzero"`
	Next     time.Time `json:"next,omitzero"`
	// Holder is who delivers, until when.
	Holder string    `json:"holder"`
	Until  time.Time `json:"until"`
}

const (
	// lease is for how long one node delivers without saying so again.
	lease = 30 * time.Second
	// settled is how old an event is before it is sent: an older one may come a moment later from another node.
	settled = 2 * time.Second
	// atOnce is how many events are read at once.
	atOnce = 100
	// patience is for how long an endpoint may be away, and refusals how often it may refuse an event for good.
	patience = 72 * time.Hour
	refusals = 6
	// firstPause and lastPause are those between two attempts; each is twice the one before.
	firstPause, lastPause = 5 * time.Second, time.Hour
)

// Run delivers until ctx ends, looking for events every so often.
func (s *Sender) Run(ctx context.Context, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			s.release(context.WithoutCancel(ctx))
			return
		case <-ticker.C:
			if err := s.Round(ctx); err != nil && ctx.Err() == nil && s.Told != nil {
				s.Told(Failed, "", err)
			}
		}
	}
}

// errHeld says that another node delivers.
var errHeld = errors.New("another node delivers")

// Round delivers what there is to deliver now. It returns an error of the store; those of the endpoint are told.
func (s *Sender) Round(ctx context.Context) error {
	st, document, err := s.hold(ctx)
	if errors.Is(err, errHeld) || errors.Is(err, documents.ErrConflict) {
		return nil
	}
	if err != nil {
		return err
	}
	s.kept = st.After // which a replay may have set back
	for ctx.Err() == nil && !s.now().Before(st.Next) {
		events, damaged, err := s.Queue.Events(ctx, st.After, "", atOnce)
		if err != nil || len(events) == 0 {
			return err
		}
		before := st.After
		more := s.sendAll(ctx, &st, &document, events)
		if damaged > 0 && st.After != before && s.Told != nil {
			s.Told(GivenUp, "", fmt.Errorf("%d events among those up to %s: %w", damaged, st.After, review.ErrDamaged))
		}
		if st.After != before && st.After != s.kept {
			// Events of other accounts at the end are passed, so that they are not read again and again.
			document, err = s.keep(ctx, &st, document)
			more = errors.Join(more, err)
		}
		if more != nil {
			return ignored(more)
		}
	}
	return nil
}

// errLater says that there is nothing more to send for now.
var errLater = errors.New("later")

// sendAll delivers events one after the other, and passes those of other accounts.
func (s *Sender) sendAll(ctx context.Context, st *state, document *documents.Document, events []review.Event) error {
	for i := range events {
		e := &events[i]
		switch {
		case e.Time.Add(settled).After(s.now()):
			return errLater
		case s.Endpoint.Account != "" && e.Account != s.Endpoint.Account:
			st.After = e.ID
			continue
		}
		s.deliver(ctx, st, e)
		var err error
		if *document, err = s.keep(ctx, st, *document); err != nil {
			// Somebody else has taken over. The event may be sent twice, which its id tells.
			return err
		}
		if st.Attempts > 0 {
			return errLater
		}
	}
	return nil
}

// keep is save with a new lease.
func (s *Sender) keep(ctx context.Context, st *state, was documents.Document) (documents.Document, error) {
	st.Until = s.now().Add(lease)
	document, err := s.save(ctx, *st, was)
	if err == nil {
		s.kept = st.After
	}
	return document, err
}

// ignored leaves out what is no error of a round.
func ignored(err error) error {
	if errors.Is(err, documents.ErrConflict) || errors.Is(err, errLater) {
		return nil
	}
	return err
}

func (s *Sender) now() time.Time {
	if s.Now == nil {
		return time.Now().UTC()
	}
	return s.Now().UTC()
}

// hold makes this sender the one that delivers, unless another one does.
func (s *Sender) hold(ctx context.Context) (state, documents.Document, error) {
	if s.holder == "" {
		s.holder = rand.Text()
	}
	found, err := s.Store.Documents(ctx, collection, s.Endpoint.id())
	if err != nil {
		return state{}, documents.Document{}, err
	}
	var st state
	now := s.now()
	if found[0].Revision == 0 {
		// An endpoint that is new is told what is decided from now on.
		st.After = review.EventIDAt(now)
	} else if err := json.Unmarshal(found[0].Value, &st); err != nil {
		return state{}, documents.Document{}, fmt.Errorf("the state of a webhook: %w", review.ErrDamaged)
	}
	if st.Holder != s.holder && now.Before(st.Until) {
		return state{}, documents.Document{}, errHeld
	}
	if st.Holder == s.holder && now.Add(lease/2).Before(st.Until) {
		return st, found[0], nil
	}
	st.Holder, st.Until = s.holder, now.Add(lease)
	document, err := s.save(ctx, st, found[0])
	return st, document, err
}

// releasePatience is how long a sender that ends waits for the store.
const releasePatience = time.Second

// release lets another sender deliver at once: that of the configuration that replaces this one.
func (s *Sender) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, releasePatience)
	defer cancel()
	found, err := s.Store.Documents(ctx, collection, s.Endpoint.id())
	var st state
	if err != nil || found[0].Revision == 0 || json.Unmarshal(found[0].Value, &st) != nil || st.Holder != s.holder {
		return
	}
	st.Holder, st.Until = "", time.Time{}
	_, _ = s.save(ctx, st, found[0]) // if it fails, the time of the lease ends it
}

// save keeps the state if nobody else has changed it, and returns it as it is kept.
func (s *Sender) save(ctx context.Context, st state, was documents.Document) (documents.Document, error) {
	value, err := json.Marshal(st)
	if err != nil {
		return was, err
	}
	key := s.Endpoint.id()
	err = s.Store.ChangeDocuments(ctx, collection, documents.Change{Key: key, Value: value, If: was.Unchanged()})
	if err != nil {
		return was, err
	}
	found, err := s.Store.Documents(ctx, collection, key)
	if err != nil {
		return was, err
	}
	if !bytes.Equal(found[0].Value, value) {
		// Somebody has changed it since: a replay, which the next save would undo.
		return was, documents.ErrConflict
	}
	return found[0], nil
}

// deliver sends an event once and notes in the state what came of it.
func (s *Sender) deliver(ctx context.Context, st *state, e *review.Event) {
	now := s.now()
	forGood, err := s.send(ctx, e, now)
	if err == nil {
		st.After, st.Attempts, st.Since, st.Next = e.ID, 0, time.Time{}, time.Time{}
		s.tell(Delivered, e.ID, nil)
		return
	}
	if ctx.Err() != nil {
		return // it is sent again by the next configuration
	}
	if st.Attempts++; st.Attempts == 1 {
		st.Since = now
	}
	if now.Sub(st.Since) > patience || forGood && st.Attempts >= refusals {
		st.After, st.Attempts, st.Since, st.Next = e.ID, 0, time.Time{}, time.Time{}
		s.tell(GivenUp, e.ID, err)
		return
	}
	pause := firstPause << min(st.Attempts-1, 20)
	st.Next = now.Add(min(pause, lastPause))
	s.tell(Failed, e.ID, err)
}

func (s *Sender) tell(outcome Outcome, event string, err error) {
	if s.Told != nil {
		s.Told(outcome, event, err)
	}
}

// message is the body of a request.
type message struct {
	Type      string        `json:"type"`
	Timestamp time.Time     `json:"timestamp"`
	Data      *review.Event `json:"data"`
}

// send sends an event. An error says why the endpoint has not taken it, without its address, which may hold a key;
// forGood says that it has refused what was sent, so that it is of little use to send it again.
func (s *Sender) send(ctx context.Context, e *review.Event, now time.Time) (forGood bool, err error) {
	body, err := json.Marshal(message{e.Type, e.Time, e})
	if err != nil {
		return true, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.Endpoint.URL, bytes.NewReader(body))
	if err != nil {
		return true, errors.New("the address cannot be called")
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "caddy-moderation")
	r.Header.Set("Webhook-Id", e.ID)
	r.Header.Set("Webhook-Timestamp", strconv.FormatInt(now.Unix(), 10))
	r.Header.Set("Webhook-Signature", s.Endpoint.Secret.Sign(e.ID, now, body))
	client := s.Client
	if client == nil {
		client = NewClient()
	}
	answer, err := client.Do(r)
	if err != nil {
		// The error of the client names the address.
		var inner interface{ Unwrap() error }
		if errors.As(err, &inner) && inner.Unwrap() != nil {
			err = inner.Unwrap()
		}
		return false, fmt.Errorf("the endpoint of a webhook cannot be reached: %w", err)
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 64<<10)) // so that the connection is used again
	switch status := answer.StatusCode; {
	case status >= 200 && status < 300:
		return false, nil
	case status == http.StatusRequestTimeout, status == http.StatusTooEarly, status == http.StatusTooManyRequests,
		status >= 500:
		return false, fmt.Errorf("the endpoint of a webhook answers %d", status)
	default:
		return true, fmt.Errorf("the endpoint of a webhook answers %d", status)
	}
}
