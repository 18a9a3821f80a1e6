// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/audit"
	"github.com/caddy-moderation/caddy-moderation/caddymod/metrics"
	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage"
)

// Answers of any length are streamed. When one fails after it has begun, the connection is aborted, so that the client
// notices the missing end and cannot take a part for the whole.

// flushEvery is how many records of an export are buffered before they are sent.
const flushEvery = 256

// streamArray answers with a JSON array. A damaged record ends it, unless such records are to be left out; then a
// trailer names them.
func streamArray[T any](a *API, w http.ResponseWriter, r *http.Request, items iter.Seq2[T, error]) error {
	leavesOut, err := leaveOutDamaged(w, r)
	if err != nil {
		return err
	}
	out := &lazyBody{w: w, contentType: "application/json"}
	lenient := &lenientBody{lazyBody: out, leftOut: make(map[string]int)}
	buffered := bufio.NewWriterSize(out, 32<<10)
	encoder := newEncoder(buffered)
	separator := byte('[')
	for item, err := range items {
		if leavesOut && errors.Is(err, storage.ErrDamaged) {
			_, what, _ := strings.Cut(err.Error(), storage.ErrDamaged.Error()+": ")
			lenient.LeaveOut(what)
			continue
		}
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
	a.nameLeftOut(w, lenient, "a list")
	return nil
}

// leaveOutDamaged reports whether the request asks for an answer without the records that are damaged, by
// damaged=leave-out. Then it announces the trailer that names them.
func leaveOutDamaged(w http.ResponseWriter, r *http.Request) (bool, error) {
	switch r.URL.Query().Get("damaged") {
	case "":
		return false, nil
	case "leave-out":
		w.Header().Set("Trailer", leftOutHeader)
		return true, nil
	}
	return false, refusal(http.StatusBadRequest, "damaged must be leave-out")
}

// nameLeftOut logs what was left out of an answer, names it in the trailer, and reports whether there was anything.
func (a *API) nameLeftOut(w http.ResponseWriter, lenient *lenientBody, answer string) bool {
	if len(lenient.leftOut) == 0 {
		return false
	}
	a.logger.Error("damaged records are left out of "+answer, zap.Stringer("records", lenient))
	w.Header().Set(leftOutHeader, strconv.QuoteToASCII(lenient.String()))
	return true
}

// leftOut is the last line of an export that lacks records because they are damaged.
type leftOut struct {
	LeftOut int `json:"left_out"`
}

// exportFeedback handles GET /moderation/feedback/export[?account=<id>]. The answer is JSON Lines, oldest record first.
// An account that neither exists nor has records is answered 404. Damaged records are left out; then the last line says
// how many.
func (a *API) exportFeedback(w http.ResponseWriter, r *http.Request) error {
	services, err := a.services(r.Context())
	if err != nil {
		return err
	}
	defer services.Release()
	account := r.URL.Query().Get("account")
	if account != "" {
		// The feedback of a deleted account is kept, so the account need not exist. What cannot be an id is a mistake.
		if err := quota.ValidateID(account); err != nil {
			return a.failed(err)
		}
	}
	record(r, services, audit.Entry{Action: "feedback.export", Account: account})
	endless(w)
	out := &lazyBody{w: w, contentType: "application/jsonl"}
	buffered := bufio.NewWriterSize(out, 32<<10)
	encoder := newEncoder(buffered)
	written, damaged := 0, 0
	for record, err := range services.Store.Feedback(r.Context(), account) {
		if errors.Is(err, storage.ErrDamaged) {
			// The account of a damaged record is not known: it may be the one that is asked for.
			damaged++
			continue
		}
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
	if account != "" && written == 0 && damaged == 0 {
		// Neither an account nor one that was deleted: most likely a mistyped id.
		if _, err := services.Gate.Account(r.Context(), account); err != nil {
			return a.failed(err)
		}
	}
	if damaged > 0 {
		a.logger.Error("records of feedback are damaged and left out of an export", zap.Int("records", damaged))
		_ = encoder.Encode(leftOut{LeftOut: damaged})
	}
	_ = buffered.Flush()
	out.open() // an export without records is an empty answer with status 200
	return nil
}

// leftOutHeader is the trailer of a backup or a list that says what was left out of it.
const leftOutHeader = "Moderation-Left-Out"

// lenientBody is the body of an answer that leaves out damaged records. It counts them by what they are.
type lenientBody struct {
	*lazyBody
	leftOut map[string]int
}

// LeaveOut implements [storage.LeavesOut].
func (l *lenientBody) LeaveOut(what string) { l.leftOut[what]++ }

// String names what was left out, in a length that fits into a header field.
func (l *lenientBody) String() string {
	var b strings.Builder
	for i, what := range slices.Sorted(maps.Keys(l.leftOut)) {
		if i == 20 {
			fmt.Fprintf(&b, " and %d more", len(l.leftOut)-i)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s (%d)", what, l.leftOut[what])
	}
	return b.String()
}

// backup handles GET /moderation/backup[?damaged=leave-out]. A damaged record ends the backup, unless such records
// are to be left out; then a trailer names them.
func (a *API) backup(w http.ResponseWriter, r *http.Request) error {
	services, err := a.services(r.Context())
	if err != nil {
		return err
	}
	defer services.Release()
	out := &lazyBody{w: w, contentType: "application/octet-stream"}
	var to io.Writer = out
	lenient := &lenientBody{lazyBody: out, leftOut: make(map[string]int)}
	leavesOut, err := leaveOutDamaged(w, r)
	if err != nil {
		return err
	}
	if leavesOut {
		to = lenient
	}
	record(r, services, audit.Entry{Action: "backup"}) // who has one can read everything
	endless(w)
	if err := services.Store.Backup(r.Context(), to); err != nil {
		return a.broken(r, out, err)
	}
	if !a.nameLeftOut(w, lenient, "a backup") {
		metrics.BackedUp(time.Now())
	}
	return nil
}

// broken ends an answer that cannot be finished: with an error when nothing of it was sent, else by aborting the
// connection.
func (a *API) broken(r *http.Request, out *lazyBody, err error) error {
	if r.Context().Err() != nil {
		return nil // the caller has left
	}
	if !out.opened {
		return a.failed(err)
	}
	a.logger.Error("an answer broke off", zap.Error(err))
	panic(http.ErrAbortHandler)
}

// lazyBody writes a body, and status 200 just before its first byte. Until then an error can still be answered.
type lazyBody struct {
	w           http.ResponseWriter
	contentType string
	opened      bool
}

// open writes the status, once.
func (b *lazyBody) open() {
	if !b.opened {
		b.opened = true
		b.w.Header().Set("Content-Type", b.contentType)
		b.w.WriteHeader(http.StatusOK)
	}
}

// Write writes a part of the body.
func (b *lazyBody) Write(p []byte) (int, error) {
	b.open()
	return b.w.Write(p)
}

// Interface guard
var _ io.Writer = (*lazyBody)(nil)
