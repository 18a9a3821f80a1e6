// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package desk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/version"
	"github.com/caddy-moderation/caddy-moderation/engine"
	"github.com/caddy-moderation/caddy-moderation/quota"
)

// The totals of the first page are bounded, because the use of each account is read for them.
const (
	maxTotalled  = 500
	totalTimeout = 2 * time.Second
	readyTimeout = 2 * time.Second
)

// homeBody is what the first page shows to an operator.
type homeBody struct {
	Ready bool
	Mode  app.Mode
	// Reason says why the service is not ready, or why it goes on without its store, to its operator.
	Reason                string
	Program, Model, Caddy string
	Totals                *totals // nil when they cannot be read
}

// totals are the sums over accounts.
type totals struct {
	Accounts, Served int64
	Period, Today    int64
	Flagged          []flaggedCount
	Partial          bool // there are more accounts than were read
	flagged          map[string]int64
}

// home shows what operators look at first, and sends members to their account.
func home(c *call) error {
	switch p := c.person; {
	case p.operator:
		return c.dashboard()
	case p.reviewer && len(p.accounts) == 0 && !c.desk.withoutQueue():
		c.redirect("/review")
		return nil
	case len(p.accounts) == 1:
		c.w.Header().Set("Location", c.url("accounts", p.accounts[0]))
		c.w.WriteHeader(http.StatusSeeOther)
		return nil
	}
	c.render(http.StatusOK, page{Template: "choose.html", Title: "choose.title", Body: c.person.accounts})
	return nil
}

// dashboard shows the health, the versions and the totals. It is there also when the store is not.
func (c *call) dashboard() error {
	ctx, cancel := context.WithTimeout(c.r.Context(), readyTimeout)
	defer cancel()
	readiness, err := c.desk.app.Ready(ctx)
	server, _ := caddy.Version()
	shown := homeBody{
		Ready: err == nil, Mode: readiness.Mode, Program: version.Version(), Model: c.desk.app.Engine().Version(),
		Caddy: server,
	}
	if err = errors.Join(err, readiness.Trouble); err != nil {
		shown.Reason = err.Error()
	}
	if services := c.desk.app.TryAcquire(); services != nil {
		c.services = services
		shown.Totals = c.totals()
	}
	p := page{Template: "home.html", Title: "home.title", Body: shown}
	status := http.StatusOK
	if !shown.Ready || shown.Totals == nil {
		status, p.Refresh = http.StatusServiceUnavailable, retryAfter
		c.w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	}
	c.render(status, p)
	return nil
}

// totals sums the use of accounts up; nil if they cannot be read.
func (c *call) totals() *totals {
	ctx, cancel := context.WithTimeout(c.r.Context(), totalTimeout)
	defer cancel()
	sum := totals{flagged: map[string]int64{}}
	for account, err := range c.services.Gate.Accounts(ctx) {
		if err != nil && ctx.Err() != nil {
			sum.Partial = true
			break
		}
		if err != nil {
			return nil
		}
		sum.Accounts++
		if account.Status.Served() {
			sum.Served++
		}
		if sum.Accounts > maxTotalled || ctx.Err() != nil {
			sum.Partial = true
			continue
		}
		usage, err := c.services.Gate.Usage(ctx, account.ID)
		switch {
		case errors.Is(err, quota.ErrNotFound), ctx.Err() != nil:
			sum.Partial = sum.Partial || ctx.Err() != nil
			continue
		case err != nil && !errors.Is(err, quota.ErrUnknownTier):
			return nil
		}
		sum.Period += usage.Counts.Period
		if len(usage.Days) > 0 {
			sum.Today += usage.Days[0].Requests
		}
		for name, n := range usage.Flagged {
			sum.flagged[name] += n
		}
	}
	most := int64(0)
	for _, n := range sum.flagged {
		most = max(most, n)
	}
	for i := range engine.NumCategories {
		name := engine.Category(i).String()
		n := sum.flagged[name]
		sum.Flagged = append(sum.Flagged, flaggedCount{Name: name, Count: n, Share: share(n, most)})
	}
	return &sum
}

// showConfig shows the running configuration of the app without secrets.
func showConfig(c *call) error {
	masked, err := c.desk.app.Masked()
	if err != nil {
		return fmt.Errorf("reading the configuration: %w", err)
	}
	var general any
	if err := json.Unmarshal(masked, &general); err != nil {
		return err
	}
	var pretty bytes.Buffer
	encoder := json.NewEncoder(&pretty)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false) // the template does
	if err := encoder.Encode(general); err != nil {
		return err
	}
	c.render(http.StatusOK, page{Template: "config.html", Title: "config.title", Body: pretty.String()})
	return nil
}
