// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package desk

import (
	"cmp"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/caddy-moderation/caddy-moderation/audit"
	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage"
)

// accountsPerPage is how many accounts a page lists: for each of them the use is read.
const accountsPerPage = 50

// shownAccount is an account in the list.
type shownAccount struct {
	quota.Account
	Period      gauge
	UnknownTier bool
}

// accountsBody is what the list of accounts shows.
type accountsBody struct {
	Accounts []shownAccount
	Query    string
	// Next is the address of the next page, empty on the last.
	Next string
	// Damaged is how many accounts cannot be read.
	Damaged int
	Tiers   []string
	// What was typed, where it was refused.
	ID, Name, Tier string
	Problem        *refusal
}

// listAccounts shows all accounts.
func listAccounts(c *call) error { return c.renderAccounts(http.StatusOK, accountsBody{}) }

// renderAccounts shows the accounts that the query of the request asks for, with what a form had.
func (c *call) renderAccounts(status int, shown accountsBody) error {
	query := c.r.URL.Query()
	shown.Query, shown.Tiers = strings.TrimSpace(query.Get("q")), c.tiers()
	shown.Tier = cmp.Or(shown.Tier, quota.DefaultTier)
	after, wanted := query.Get("after"), strings.ToLower(shown.Query)
	ctx := c.r.Context()
	for account, err := range c.services.Gate.Accounts(ctx) {
		switch {
		case errors.Is(err, storage.ErrDamaged):
			shown.Damaged++
			continue
		case err != nil:
			return err
		case account.ID <= after && after != "",
			!strings.Contains(strings.ToLower(account.ID), wanted) &&
				!strings.Contains(strings.ToLower(account.Name), wanted):
			continue
		}
		if len(shown.Accounts) == accountsPerPage {
			last := shown.Accounts[accountsPerPage-1].ID
			shown.Next = c.url("accounts") + "?" + url.Values{"q": {shown.Query}, "after": {last}}.Encode()
			break
		}
		shown.Accounts = append(shown.Accounts, shownAccount{Account: account})
	}
	for i := range shown.Accounts {
		listed := &shown.Accounts[i]
		usage, err := c.services.Gate.Usage(ctx, listed.ID)
		switch {
		case errors.Is(err, quota.ErrUnknownTier):
			listed.UnknownTier = true
		case errors.Is(err, quota.ErrNotFound):
			continue // deleted meanwhile
		case err != nil:
			return err
		}
		listed.Period = gaugeOf(usage.Counts.Period, usage.Limits.RequestsPerMonth)
	}
	c.render(status, page{Template: "accounts.html", Title: "accounts.title", Body: shown})
	return nil
}

// tiers returns the names of the configured tiers, sorted.
func (c *call) tiers() []string { return slices.Sorted(maps.Keys(c.services.Gate.Tiers())) }

// createAccount makes an account.
func createAccount(c *call) error {
	typed := accountsBody{
		ID: strings.TrimSpace(c.form.Get("id")), Name: strings.TrimSpace(c.form.Get("name")), Tier: c.form.Get("tier"),
	}
	account, err := c.services.Gate.CreateAccount(c.r.Context(), quota.Account{
		ID: typed.ID, Name: typed.Name, Tier: typed.Tier,
	})
	if err != nil {
		told, _ := refusalOf(err)
		if told.Status != http.StatusBadRequest && told.Status != http.StatusConflict {
			return err
		}
		typed.Problem = told
		return c.renderAccounts(told.Status, typed)
	}
	c.record(audit.Entry{
		Action: "account.create", Account: account.ID, Details: app.AccountChanges(&quota.Account{}, &account),
	})
	return c.done("created", "accounts", account.ID)
}

// changeAccount changes an account. What the form does not have stays as it is.
func changeAccount(c *call) error {
	var change quota.AccountChange
	if values, ok := c.form["name"]; ok {
		name := strings.TrimSpace(values[0])
		change.Name = &name
	}
	if values, ok := c.form["tier"]; ok && values[0] != c.account.Tier {
		change.Tier = &values[0] // the one that it has may be configured no longer
	}
	if values, ok := c.form["status"]; ok && values[0] != string(c.account.Status) {
		status := quota.Status(values[0])
		if err := quota.ValidateStatus(status); err != nil {
			return err
		}
		change.Status = &status
	}
	changed, err := c.services.Gate.UpdateAccount(c.r.Context(), c.account.ID, change)
	if err != nil {
		return err
	}
	c.record(audit.Entry{
		Action: "account.update", Account: changed.ID, Details: app.AccountChanges(&c.account, &changed),
	})
	return c.done("changed", "accounts", c.account.ID)
}
