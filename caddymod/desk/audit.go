// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package desk

import (
	"bufio"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/audit"
)

// auditRoutes returns what a request may do with the audit log.
func auditRoutes() []route {
	const get = http.MethodGet
	return []route{
		{method: get, pattern: "/audit", needs: operator, store: true, serve: showAudit},
		{method: get, pattern: "/audit.jsonl", needs: operator, store: true, serve: exportAudit},
		{method: get, pattern: "/accounts/{account}/audit", needs: member, serve: showAudit},
	}
}

// record adds an entry to the audit log about what the person has done.
func (c *call) record(e audit.Entry) {
	e.Via, e.Actor = audit.Desk, c.person.name
	e.Operator = c.person.operator && !slices.Contains(c.person.accounts, e.Account)
	c.services.Audit.Record(c.r.Context(), e)
}

// entriesPerPage is how many entries a page lists.
const entriesPerPage = 50

// auditRow is an entry as it is shown.
type auditRow struct {
	audit.Entry
	// Who is the actor. Members are not told the names of operators.
	Who string
	// Claimed says that nobody has checked who it was.
	Claimed bool
	Changes []string
}

// auditBody is what the pages show.
type auditBody struct {
	Rows []auditRow
	// Broken says that the log is not what was written.
	Broken                 bool
	Account, Actor, Action string
	Next, Export           string
}

// showAudit lists entries, the latest first: all of them for operators, and those of an account for its members.
func showAudit(c *call) error {
	query := c.r.URL.Query()
	which := audit.Query{
		Account: strings.TrimSpace(query.Get("account")), Actor: strings.TrimSpace(query.Get("actor")),
		Action: strings.TrimSpace(query.Get("action")),
	}
	if c.account.ID != "" {
		which = audit.Query{Account: c.account.ID}
	}
	if before, err := strconv.ParseUint(query.Get("before"), 10, 64); err == nil {
		which.Before = before
	}
	body := auditBody{
		Account: which.Account, Actor: which.Actor, Action: which.Action,
		Export: c.url("audit.jsonl"),
	}
	for entry, err := range c.services.Audit.Log.Latest(c.r.Context(), which) {
		if errors.Is(err, audit.ErrBroken) {
			c.desk.app.Logger().Error("showing the audit log", zap.Error(err))
			body.Broken = true
			break
		}
		if err != nil {
			return err
		}
		if len(body.Rows) == entriesPerPage {
			body.Next = c.auditURL(which, body.Rows[len(body.Rows)-1].Number)
			break
		}
		body.Rows = append(body.Rows, c.auditRow(entry))
	}
	template := page{Template: "audit.html", Title: "audit.title", Body: body}
	if c.account.ID != "" {
		template.Tab = "audit"
	}
	c.render(http.StatusOK, template)
	return nil
}

func (c *call) auditRow(e audit.Entry) auditRow {
	row := auditRow{Entry: e, Who: e.Actor, Claimed: e.Via == audit.Admin}
	if e.Operator && !c.person.operator {
		row.Who = c.words.must("audit.operator")
	}
	for _, name := range slices.Sorted(maps.Keys(e.Details)) {
		row.Changes = append(row.Changes, name+": "+e.Details[name])
	}
	return row
}

// auditURL returns the address of the next page.
func (c *call) auditURL(which audit.Query, before uint64) string {
	values := url.Values{"before": {strconv.FormatUint(before, 10)}}
	if c.account.ID != "" {
		return c.url("accounts", c.account.ID, "audit") + "?" + values.Encode()
	}
	for name, value := range map[string]string{"account": which.Account, "actor": which.Actor, "action": which.Action} {
		if value != "" {
			values.Set(name, value)
		}
	}
	return c.url("audit") + "?" + values.Encode()
}

// exportAudit answers with the whole log as JSON Lines, the earliest entry first.
func exportAudit(c *call) error {
	out := &download{call: c, name: "audit.jsonl"}
	if c.r.Method == http.MethodHead {
		out.open()
		return nil
	}
	buffered := bufio.NewWriterSize(out, 32<<10)
	encoder := json.NewEncoder(buffered)
	encoder.SetEscapeHTML(false)
	for entry, err := range c.services.Audit.Log.All(c.r.Context(), audit.Query{}) {
		if err != nil && c.r.Context().Err() != nil {
			return nil // the visitor has left
		}
		if errors.Is(err, audit.ErrBroken) {
			_ = buffered.Flush() // what can be read is worth having
		}
		if err != nil && !out.begun {
			return err
		}
		if err != nil {
			// The answer has begun: it is broken off, so that nobody takes it for whole.
			c.desk.app.Logger().Error("exporting the audit log", zap.Error(err))
			panic(http.ErrAbortHandler)
		}
		if err := encoder.Encode(entry); err != nil {
			return nil // the visitor has left, or reads no more
		}
	}
	if err := buffered.Flush(); err != nil {
		return nil // as above
	}
	out.open()
	return nil
}
