// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package desk

import (
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/audit"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/export"
	"github.com/caddy-moderation/caddy-moderation/review"
)

// downloadWrite is how long a part of a download may take to be written. Until its end the store stays open, so nobody
// may stop reading and stay.
const downloadWrite = 30 * time.Second

// exportDecided answers with the decided items of all accounts as labelled texts, which evaluate and the trainer read.
func exportDecided(c *call, queue *review.Queue) error {
	out := &download{call: c, name: "decided.jsonl"}
	if c.r.Method == http.MethodHead {
		out.open()
		return nil
	}
	c.record(audit.Entry{Action: "review.export"})
	unreadable, err := export.Reviews(c.r.Context(), out, queue, export.Options{Labelled: true, Flush: out.flush})
	if err != nil && c.r.Context().Err() != nil {
		return nil // the visitor has left
	}
	if err != nil && !out.begun {
		return err
	}
	if err != nil {
		// The answer has begun: it is broken off, so that nobody takes it for whole.
		c.desk.app.Logger().Error("exporting what was decided", zap.Error(err))
		panic(http.ErrAbortHandler)
	}
	if unreadable > 0 {
		// The page with the link says so, too.
		c.desk.app.Logger().Error("review items cannot be read and are left out of an export",
			zap.Int("items", unreadable))
	}
	out.open()
	return nil
}

// download is the body of an answer that is kept as a file. Until its first byte, an error can still be answered.
type download struct {
	call  *call
	name  string
	begun bool
}

// open writes the header, once.
func (d *download) open() {
	if d.begun {
		return
	}
	d.begun = true
	header := d.call.w.Header()
	header.Set("Content-Type", "application/jsonl")
	header.Set("Content-Disposition", `attachment; filename="`+d.name+`"`)
	d.call.w.WriteHeader(http.StatusOK)
}

// Write writes a part of the body.
func (d *download) Write(part []byte) (int, error) {
	d.open()
	// A connection without deadlines is bounded by the request's context.
	_ = http.NewResponseController(d.call.w).SetWriteDeadline(time.Now().Add(downloadWrite))
	return d.call.w.Write(part)
}

// flush sends what was written so far.
func (d *download) flush() { _ = http.NewResponseController(d.call.w).Flush() }
