// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"bufio"
	"io"
	"iter"
	"net/http"

	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/quota"
)

// Answers of any length are streamed. When one fails after it has begun, the connection is aborted: the reader sees that
// the end is missing, and cannot take a part for the whole.

// flushEvery is how many records of an export are written before those are sent that the server still holds.
const flushEvery = 256

// streamArray answers with a JSON array.
func streamArray[T any](a *API, w http.ResponseWriter, r *http.Request, items iter.Seq2[T, error]) error {
	out := &opening{w: w, contentType: "application/json"}
	buffered := bufio.NewWriterSize(out, 32<<10)
	encoder := newEncoder(buffered)
	separator := byte('[')
	for item, err := range items {
		if err != nil {
			return a.broken(r, out, err)
		}
		_ = buffered.WriteByte(separator)
		if err := encoder.Encode(item); err != nil {
			return a.broken(r, out, err)
		}
		separator = ','
	}
	if separator == '[' {
		_ = buffered.WriteByte(separator)
	}
	_, _ = buffered.WriteString("]\n")
	_ = buffered.Flush()
	return nil
}

// exportFeedback: GET /moderation/feedback/export[?account=<id>]. The answer is JSON Lines, oldest record first.
func (a *API) exportFeedback(w http.ResponseWriter, r *http.Request) error {
	services, err := a.services(r.Context())
	if err != nil {
		return err
	}
	defer services.Release()
	account := r.URL.Query().Get("account")
	if account != "" {
		// The feedback of a deleted account is kept, so the account need not exist; but what cannot be an id is a mistake.
		if err := quota.ValidateID(account); err != nil {
			return a.failed(err)
		}
	}
	out := &opening{w: w, contentType: "application/jsonl"}
	buffered := bufio.NewWriterSize(out, 32<<10)
	encoder := newEncoder(buffered)
	written := 0
	for record, err := range services.Store.Feedback(r.Context(), account) {
		if err != nil {
			return a.broken(r, out, err)
		}
		if err := encoder.Encode(record); err != nil {
			return a.broken(r, out, err)
		}
		if written++; written%flushEvery == 0 {
			_ = buffered.Flush()
			_ = http.NewResponseController(w).Flush()
		}
	}
	_ = buffered.Flush()
	out.open() // an export without records is an empty answer, too
	return nil
}

// backup: GET /moderation/backup
func (a *API) backup(w http.ResponseWriter, r *http.Request) error {
	services, err := a.services(r.Context())
	if err != nil {
		return err
	}
	defer services.Release()
	out := &opening{w: w, contentType: "application/octet-stream"}
	if err := services.Store.Backup(r.Context(), out); err != nil {
		if r.Context().Err() != nil {
			return a.broken(r, out, err)
		}
		return a.broken(r, out, err)
	}
	return nil
}

// broken ends an answer that cannot be finished: with an error when nothing of it was sent, else by aborting it.
func (a *API) broken(r *http.Request, out *opening, err error) error {
	if r.Context().Err() != nil {
		return nil // the caller has left
	}
	if !out.opened {
		return a.failed(err)
	}
	a.logger.Error("an answer broke off", zap.Error(err))
	panic(http.ErrAbortHandler)
}

// opening writes a body, and the status before its first byte, so that an error before that can still be told.
type opening struct {
	w           http.ResponseWriter
	contentType string
	opened      bool
}

// open writes the status.
func (o *opening) open() {
	if !o.opened {
		o.opened = true
		o.w.Header().Set("Content-Type", o.contentType)
		o.w.WriteHeader(http.StatusOK)
	}
}

// Write writes a part of the body.
func (o *opening) Write(p []byte) (int, error) {
	o.open()
	return o.w.Write(p)
}

// Interface guard
var _ io.Writer = (*opening)(nil)
