// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/caddymod/problem"
	"github.com/caddy-moderation/caddy-moderation/quota"
)

// answer watches the answer to a call. Just before the status goes out it settles the call's charge, so that nothing is
// acknowledged that could be forgotten: if settling fails, the answer becomes a 503.
type answer struct {
	caddyhttp.ResponseWriterWrapper
	call    *Call
	status  int  // the final status, 0 before it is written
	settled bool // the charge is settled, or there was none
	failed  bool // settling failed: what the handler writes is dropped
}

// WriteHeader settles the charge and writes the status. Informational statuses (1xx) pass; 101 is final.
func (a *answer) WriteHeader(status int) {
	if status >= 100 && status < 200 && status != http.StatusSwitchingProtocols {
		a.ResponseWriter.WriteHeader(status)
		return
	}
	if a.status != 0 {
		return
	}
	a.status = status
	if err := a.settle(status >= http.StatusBadRequest); err != nil {
		a.fail(err)
		return
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write writes a part of the body.
func (a *answer) Write(p []byte) (int, error) {
	if a.status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	if a.failed {
		return len(p), nil
	}
	return a.ResponseWriter.Write(p)
}

// ReadFrom writes the body from a reader, by the fast path of the connection where there is one.
func (a *answer) ReadFrom(r io.Reader) (int64, error) {
	if a.status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	if a.failed {
		return io.Copy(io.Discard, r)
	}
	return a.ResponseWriterWrapper.ReadFrom(r)
}

// FlushError sends what is written so far; http.ResponseController calls it. Flushing sends the status, so it settles.
func (a *answer) FlushError() error {
	if a.status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	if a.failed {
		return nil
	}
	return http.NewResponseController(a.ResponseWriter).Flush()
}

// Hijack settles the charge and gives the connection away: what is written there goes out without this writer.
func (a *answer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if a.status == 0 {
		if err := a.settle(false); err != nil {
			a.fail(err)
		}
	}
	if a.failed {
		return nil, nil, errFailed
	}
	return http.NewResponseController(a.ResponseWriter).Hijack()
}

// errFailed says that a connection is not given away because a 503 is answered.
var errFailed = errors.New("the request could not be counted durably")

// settle records how an admitted call ended, once.
func (a *answer) settle(refund bool) error {
	call := a.call
	if a.settled || call.charged == 0 {
		return nil
	}
	a.settled = true
	outcome := quota.Outcome{Refund: refund}
	if refund {
		// The fields tell what /v1/usage would tell after this answer.
		call.decision.Counts.Day -= call.charged
		call.decision.Counts.Period -= call.charged
		setLimits(a.Header(), &call.fields, &call.decision)
	} else {
		outcome.Flagged = call.flaggedTexts()
	}
	// A client that has left does not undo what was done for it.
	ctx := context.WithoutCancel(call.request.Context())
	err := call.Services.Gate.Settle(ctx, call.decision, outcome)
	for _, decision := range call.earlier {
		err = errors.Join(err, call.Services.Gate.Settle(ctx, decision, quota.Outcome{Refund: refund || err != nil}))
	}
	return err
}

// fail answers 503 in place of what the handler has prepared.
func (a *answer) fail(err error) {
	call := a.call
	call.app.Logger().Error("a request could not be counted and was answered 503", zap.String("moderation_id", call.ID), zap.Error(err))
	a.failed = true
	a.status = problem.StorageUnavailable.Status()
	call.verdict, call.texts = nil, nil
	header := a.Header()
	for _, name := range []string{"Content-Encoding", "Content-Length", "Content-Type", "Etag", "Last-Modified", "Location"} {
		header.Del(name)
	}
	header.Set("Retry-After", "1")
	call.write(a.ResponseWriter, call.request, call.ID, problem.New(problem.StorageUnavailable, "The request could not be counted durably. Try again."))
}

// Interface guards
var (
	_ http.ResponseWriter = (*answer)(nil)
	_ http.Hijacker       = (*answer)(nil)
	_ io.ReaderFrom       = (*answer)(nil)
)
