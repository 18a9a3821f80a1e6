// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package desk

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/audit"
	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/storage/storagetest"
)

// stalling is an answer whose reader reads nothing. It notes by when a write must be done.
type stalling struct {
	*httptest.ResponseRecorder
	deadline  time.Time
	unbounded int // writes without a deadline
}

func (s *stalling) SetWriteDeadline(deadline time.Time) error {
	s.deadline = deadline
	return nil
}

func (s *stalling) Write(part []byte) (int, error) {
	if s.deadline.IsZero() {
		s.unbounded++
	}
	return s.ResponseRecorder.Write(part)
}

// TestAuditExportIsBounded guards against a reader that stops and keeps the store open for as long as it wants.
func TestAuditExportIsBounded(t *testing.T) {
	t.Parallel()
	log := &audit.Log{Store: storagetest.NewMemory(), Now: time.Now}
	for range 300 {
		added := audit.Entry{Via: audit.Desk, Action: "x", Actor: strings.Repeat("x", 200)}
		if err := log.Append(t.Context(), added); err != nil {
			t.Fatal(err)
		}
	}
	for method, lines := range map[string]int{http.MethodGet: 300, http.MethodHead: 0} {
		w := &stalling{ResponseRecorder: httptest.NewRecorder()}
		c := &call{
			desk: aDesk(), w: w, r: httptest.NewRequest(method, "/desk/audit.jsonl", nil),
			services: &app.Services{Audit: &app.Audit{Log: log}},
		}
		if err := exportAudit(c); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(w.Body.String(), "\n"); n != lines || w.unbounded > 0 || w.Code != http.StatusOK ||
			w.Header().Get("Content-Type") != "application/jsonl" {
			t.Errorf("%s: got %d with %d lines, %d writes without a deadline", method, w.Code, n, w.unbounded)
		}
	}
}
