// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"errors"
	"net/http"

	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/policy"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/response"
	responsewriter "github.com/caddy-moderation/caddy-moderation/caddymod/internal/response"
	"github.com/caddy-moderation/caddy-moderation/caddymod/problem"
)

// settlingWriter is the writer of the answer to a request that is charged to an account. Just before the header goes
// out it waits until the charge is durable. If the store fails and the guard fails closed, the answer becomes a 503.
type settlingWriter struct {
	responsewriter.Writer
	m      *Moderate
	r      *http.Request
	x      *exchange
	v      *verdict
	charge *policy.Charge
	waited bool
	err    error // the guard has answered in place of the app
}

// errUnsettled is the error of writing an answer that the guard has replaced.
var errUnsettled = errors.New("the guard has ended the answer")

const uncountedDetail = "The message could not be counted durably. Try again."

// serve lets a handler write the answer. What the handler writes after the guard has answered is dropped.
func (w *settlingWriter) serve(handle func(w http.ResponseWriter) error) (err error) {
	w.Hook = w
	defer func() {
		if !w.waited {
			w.waited = true
			_ = w.charge.Wait() // the handler panicked: there is no answer, but the store is in use until then
		}
		if w.err == nil {
			return
		}
		// A handler that cannot finish its answer panics with http.ErrAbortHandler. The guard's answer is complete.
		reason := recover()
		if reason != nil && reason != http.ErrAbortHandler { //nolint:errorlint // as net/http compares it
			panic(reason)
		}
		err = nil
	}()
	err = handle(w)
	// If nothing was written, net/http answers 200, or the error routes of the site answer.
	_ = w.BeforeHeader(http.StatusOK)
	return err
}

// BeforeHeader waits for the charge, once. The error says that the guard has answered in place of the app.
func (w *settlingWriter) BeforeHeader(int) error {
	if w.waited {
		return w.err
	}
	w.waited = true
	err := w.charge.WaitIn(w.r.Context())
	if err == nil {
		return nil
	}
	moderator := w.m.pipeline.moderator
	moderator.ReportUncounted(err)
	if !moderator.FailClosed() {
		return nil
	}
	w.err = errUnsettled
	w.v.status, w.v.reason, w.v.action = Failed, policy.ReasonAccount, refused
	header := w.Header()
	response.DropRepresentation(header)
	header.Set("Retry-After", "1")
	// An error means that the client left: there is nobody to tell.
	_ = w.m.refuse(w.ResponseWriter, w.r, w.x.id, problem.New(problem.NotJudged, uncountedDetail))
	return w.err
}

// Interface guard
var _ responsewriter.Hook = (*settlingWriter)(nil)
