// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"errors"
	"net/http"

	"github.com/caddy-moderation/caddy-moderation/audit"
	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/quota"
)

// createAccount handles POST /moderation/accounts.
func (a *API) createAccount(w http.ResponseWriter, r *http.Request) error {
	var wanted newAccount
	if err := decode(w, r, &wanted); err != nil {
		return err
	}
	if err := checkStatus(wanted.Status, wanted.Force); err != nil && wanted.Status != "" {
		return err
	}
	if err := checkOverrides(&wanted.Overrides); err != nil {
		return err
	}
	services, err := a.services(r.Context())
	if err != nil {
		return err
	}
	defer services.Release()
	account, err := services.Gate.CreateAccount(r.Context(), quota.Account{
		ID: wanted.ID, Name: wanted.Name, Tier: wanted.Tier, Status: wanted.Status,
		AnchorDay: wanted.AnchorDay, Overrides: wanted.Overrides,
	})
	if err != nil {
		return a.failed(err)
	}
	record(r, services, audit.Entry{
		Action: "account.create", Account: account.ID, Details: app.AccountChanges(&quota.Account{}, &account),
	})
	return encode(w, r, http.StatusCreated, account)
}

// listAccounts handles GET /moderation/accounts.
func (a *API) listAccounts(w http.ResponseWriter, r *http.Request) error {
	services, err := a.services(r.Context())
	if err != nil {
		return err
	}
	defer services.Release()
	return streamArray(a, w, r, services.Gate.Accounts(r.Context()))
}

// showAccount handles GET /moderation/accounts/{id}.
func (a *API) showAccount(w http.ResponseWriter, r *http.Request) error {
	services, err := a.services(r.Context())
	if err != nil {
		return err
	}
	defer services.Release()
	account, err := services.Gate.Account(r.Context(), r.PathValue("id"))
	if err != nil {
		return a.failed(err)
	}
	return encode(w, r, http.StatusOK, account)
}

// updateAccount handles PATCH /moderation/accounts/{id}. Members that are absent stay as they are; overrides are
// replaced whole.
func (a *API) updateAccount(w http.ResponseWriter, r *http.Request) error {
	var change accountChange
	if err := decode(w, r, &change); err != nil {
		return err
	}
	if change.Status != nil {
		if err := checkStatus(*change.Status, change.Force); err != nil {
			return err
		}
	}
	if err := checkOverrides(change.Overrides); err != nil {
		return err
	}
	services, err := a.services(r.Context())
	if err != nil {
		return err
	}
	defer services.Release()
	before, err := services.Gate.Account(r.Context(), r.PathValue("id"))
	if err != nil {
		return a.failed(err)
	}
	account, err := services.Gate.UpdateAccount(r.Context(), r.PathValue("id"), change.AccountChange)
	if err != nil {
		return a.failed(err)
	}
	record(r, services, audit.Entry{
		Action: "account.update", Account: account.ID, Details: app.AccountChanges(&before, &account),
	})
	return encode(w, r, http.StatusOK, account)
}

// deleteAccount handles DELETE /moderation/accounts/{id}.
func (a *API) deleteAccount(w http.ResponseWriter, r *http.Request) error {
	services, err := a.services(r.Context())
	if err != nil {
		return err
	}
	defer services.Release()
	if err := services.DeleteAccount(r.Context(), r.PathValue("id")); err != nil {
		return a.failed(err)
	}
	record(r, services, audit.Entry{Action: "account.delete", Account: r.PathValue("id")})
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// usage handles GET /moderation/usage/{id}.
func (a *API) usage(w http.ResponseWriter, r *http.Request) error {
	services, err := a.services(r.Context())
	if err != nil {
		return err
	}
	defer services.Release()
	usage, err := services.Gate.Usage(r.Context(), r.PathValue("id"))
	limits := &usage.Limits
	switch {
	case errors.Is(err, quota.ErrUnknownTier):
		limits = nil
	case err != nil:
		return a.failed(err)
	}
	keys, err := services.Gate.KeyUsage(r.Context(), usage.Account.ID, usage.Period)
	if err != nil {
		return a.failed(err)
	}
	return encode(w, r, http.StatusOK, report(usage, keys, limits))
}

// checkStatus refuses a status that is not known, unless it is forced.
func checkStatus(status quota.Status, force bool) error {
	if err := quota.ValidateStatus(status); err != nil && !force {
		return refusal(http.StatusBadRequest, `%s; with "force": true any word is set, and the account is refused`,
			message(err))
	}
	return nil
}

// checkOverrides refuses what the engine could not judge by.
func checkOverrides(overrides *quota.Overrides) error {
	if overrides == nil {
		return nil
	}
	if err := app.CheckOverrides(overrides); err != nil {
		return refusal(http.StatusBadRequest, "overrides.%v", err)
	}
	return nil
}
