// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/caddymod/problem"
	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage"
)

// charge is a message that counts in the usage of an account. It is made durable while the message goes on its way, and must be
// before a byte of the answer goes out: nothing is answered that could be forgotten.
type charge struct {
	services   *app.Services
	decision   quota.Decision
	settlement quota.Settlement
	once       sync.Once // the wait: the writer of the answer and the reader of the body may both
	err        error
}

// Errors of counting.
var (
	// errQuota says that the account's limits are used up.
	errQuota = errors.New("the limits of the account are used up")
	// errUncounted says that a message must not go on because it could not be counted.
	errUncounted = errors.New("the message could not be counted")
)

// count charges one message to the account.
func (j *judge) count(ctx context.Context) (c *charge, err error) {
	services, err := j.app.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			services.Release()
		}
	}()
	who, err := services.Gate.Identify(ctx, j.account)
	if err != nil && (j.enforce || who.Account.ID == "") {
		return nil, err
	}
	if !j.enforce {
		who.Limits = quota.Limits{}
	}
	decision, err := services.Gate.Admit(ctx, who, 1)
	if err == nil && decision.Refused != quota.NoWindow {
		err = errQuota
	}
	if err != nil {
		return nil, err
	}
	return &charge{services: services, decision: decision}, nil
}

// countOnce counts the message for the account, which it may be counted for by another handler already; then, and where there is
// no account, the charge is nil. The error is one that the message must not be judged for.
func (j *judge) countOnce(ctx context.Context, x *exchange) (*charge, error) {
	once := string(j.direction) + " " + j.account
	if j.account == "" || slices.Contains(x.counted, once) {
		return nil, nil
	}
	c, err := j.count(ctx)
	unavailable := errors.Is(err, storage.ErrUnavailable) || errors.Is(err, app.ErrStarting)
	switch {
	case err == nil:
		x.counted = append(x.counted, once)
		return c, nil
	case errors.Is(err, errQuota):
		return nil, err
	case unavailable && j.closed, j.enforce && !unavailable:
		return nil, fmt.Errorf("%w: %w", errUncounted, err)
	}
	// Usage that cannot be counted is no reason to let a threat through.
	j.uncounted(err)
	return nil, nil
}

// uncounted tells of a message that goes on although it could not be counted.
func (j *judge) uncounted(err error) {
	j.app.Metrics().GuardError(j.direction, reasonAccount)
	j.logger.Error("a message that was judged could not be counted", zap.String("account", j.account), zap.Error(err))
}

// reasonAccount is why a message is not counted.
const reasonAccount = "account"

// settle begins to make the charge durable, with the names of what was flagged. There may be no charge.
func (c *charge) settle(flagged []string) {
	if c == nil {
		return
	}
	c.settlement = c.services.Gate.Record(c.decision, quota.Outcome{Flagged: flagged})
}

// wait returns when the charge is settled, or the store has failed and taken it back. There may be no charge.
func (c *charge) wait() error {
	if c == nil {
		return nil
	}
	c.once.Do(func() {
		defer c.services.Release()
		c.err = c.settlement.Wait(context.Background()) // a client that leaves does not undo what was done for it
	})
	return c.err
}

// flag counts what is flagged after the charge was settled. There may be no charge.
func (c *charge) flag(flagged []string) error {
	if c == nil || len(flagged) == 0 || c.wait() != nil {
		return nil
	}
	// The services are released, but the handler holds them for as long as the message goes on.
	return c.services.Gate.Flag(context.Background(), c.decision, flagged)
}

// giveBack takes the charge back, because the message was not judged. Nobody waits for that.
func (c *charge) giveBack() {
	if c == nil {
		return
	}
	defer c.services.Release()
	c.services.Gate.Record(c.decision, quota.Outcome{Refund: true})
}

// counted is the writer of the answer to a message that counts. Just before the status goes out it waits until the charge is
// settled. When the store fails, and the guard fails closed, the answer becomes a 503.
type counted struct {
	caddyhttp.ResponseWriterWrapper
	m      *Moderate
	r      *http.Request
	x      *exchange
	v      *Verdict
	charge *charge
	waited bool
	ended  bool // the guard has answered in place of the app
}

// serve lets a handler write the answer. What goes on after the guard has answered is not wanted.
func (w *counted) serve(handle func(w http.ResponseWriter) error) (err error) {
	defer func() {
		if !w.waited {
			w.waited = true
			_ = w.charge.wait() // the handler panics: there is no answer, but the store is in use until then
		}
		if !w.ended {
			return
		}
		// A handler that cannot go on with an answer panics with http.ErrAbortHandler; this one is whole.
		if reason := recover(); reason != nil && reason != http.ErrAbortHandler { //nolint:errorlint // as net/http compares it
			panic(reason)
		}
		err = nil
	}()
	err = handle(w)
	// Others answer now: net/http with 200, or the error routes of the site.
	w.wait()
	return err
}

// wait waits for the charge, once, and reports whether the answer goes on.
func (w *counted) wait() bool {
	if w.waited {
		return !w.ended
	}
	w.waited = true
	err := w.charge.wait()
	if err == nil {
		return true
	}
	w.m.judge.uncounted(err)
	if !w.m.judge.closed {
		return true
	}
	w.ended = true
	w.v.Status, w.v.Reason, w.v.Action = Failed, reasonAccount, Refused
	header := w.Header()
	dropRepresentation(header)
	header.Set("Retry-After", "1")
	// An error means that the client left: there is nobody to tell.
	_ = w.m.refuse(w.ResponseWriter, w.r, w.x.id, problem.New(problem.NotJudged, notCounted))
	return false
}

const notCounted = "The message could not be counted durably. Try again."

// WriteHeader waits, and writes the status. Informational statuses (1xx) pass; 101 is final.
func (w *counted) WriteHeader(status int) {
	informational := status >= 100 && status < 200 && status != http.StatusSwitchingProtocols
	if informational && !w.ended || w.wait() {
		w.ResponseWriter.WriteHeader(status)
	}
}

// Write waits, and writes a part of the body.
func (w *counted) Write(p []byte) (int, error) {
	if !w.wait() {
		return 0, errEnded
	}
	return w.ResponseWriter.Write(p)
}

// ReadFrom waits, and writes the body from a reader, by the fast path of the connection where there is one.
func (w *counted) ReadFrom(r io.Reader) (int64, error) {
	if !w.wait() {
		return 0, errEnded
	}
	return w.ResponseWriterWrapper.ReadFrom(r)
}

// FlushError waits, and sends what is written so far; http.ResponseController calls it. Flushing sends the status.
func (w *counted) FlushError() error {
	if !w.wait() {
		return errEnded
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Hijack waits, and gives the connection away.
func (w *counted) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if !w.wait() {
		return nil, nil, errEnded
	}
	return http.NewResponseController(w.ResponseWriter).Hijack()
}

// Interface guards
var (
	_ http.ResponseWriter = (*counted)(nil)
	_ http.Hijacker       = (*counted)(nil)
	_ io.ReaderFrom       = (*counted)(nil)
)
