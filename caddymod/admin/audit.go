// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"bufio"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/caddy-moderation/caddy-moderation/audit"
	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/quota"
)

// operatorHeader is the header field in which the command says who calls it.
const operatorHeader = "Moderation-Operator"

// record adds an entry to the audit log about what a request has done.
func record(r *http.Request, services *app.Services, e audit.Entry) {
	e.Via, e.Operator, e.Actor = audit.Admin, true, strings.Map(printable, r.Header.Get(operatorHeader))
	services.Audit.Record(r.Context(), e)
}

// printable drops what is no printable ASCII.
func printable(c rune) rune {
	if c < ' ' || c > '~' {
		return -1
	}
	return c
}

// audited is an answer about the audit log.
type audited struct {
	// Entries is how many there are.
	Entries uint64 `json:"entries"`
}

// exportAudit handles GET /moderation/audit[?account=<id>][&actor=<name>][&action=<name>][&since=<time>]. The answer is
// JSON Lines, the earliest entry first.
func (a *API) exportAudit(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	which := audit.Query{Account: query.Get("account"), Actor: query.Get("actor"), Action: query.Get("action")}
	if which.Account != "" {
		if err := quota.ValidateID(which.Account); err != nil {
			return a.failed(err)
		}
	}
	if since := query.Get("since"); since != "" {
		var err error
		if which.Since, err = time.Parse(time.RFC3339, since); err != nil {
			return refusal(http.StatusBadRequest, "since must be a time such as 2026-01-31T00:00:00Z")
		}
	}
	services, err := a.services(r.Context())
	if err != nil {
		return err
	}
	defer services.Release()
	endless(w)
	out := &lazyBody{w: w, contentType: "application/jsonl"}
	buffered := bufio.NewWriterSize(out, 32<<10)
	encoder := newEncoder(buffered)
	for entry, err := range services.Audit.Log.All(r.Context(), which) {
		if err == nil {
			err = encoder.Encode(entry)
		}
		if errors.Is(err, audit.ErrBroken) {
			// What can be read is worth having.
			_ = buffered.Flush()
		}
		if err != nil {
			return a.broken(r, out, err)
		}
	}
	_ = buffered.Flush()
	out.open()
	return nil
}

// verifyAudit handles GET /moderation/audit/verify.
func (a *API) verifyAudit(w http.ResponseWriter, r *http.Request) error {
	services, err := a.services(r.Context())
	if err != nil {
		return err
	}
	defer services.Release()
	endless(w)
	entries, err := services.Audit.Log.Verify(r.Context())
	if errors.Is(err, audit.ErrBroken) {
		return refusal(http.StatusConflict, "%w", err)
	}
	if err != nil {
		return a.failed(err)
	}
	return encode(w, r, http.StatusOK, audited{Entries: entries})
}
