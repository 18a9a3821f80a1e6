// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"errors"
	"net/http"
	"strings"

	"github.com/caddy-moderation/caddy-moderation/engine"
	"github.com/caddy-moderation/caddy-moderation/quota"
)

// createAccount handles POST /moderation/accounts.
func (a *API) createAccount(w http.ResponseWriter, r *http.Request) error {
	var wanted newAccount
	if err := decode(w, r, &wanted); err != nil {
		return err
	}
	if err := checkCategories(&wanted.Overrides); err != nil {
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
	var change quota.AccountChange
	if err := decode(w, r, &change); err != nil {
		return err
	}
	if err := checkCategories(change.Overrides); err != nil {
		return err
	}
	services, err := a.services(r.Context())
	if err != nil {
		return err
	}
	defer services.Release()
	account, err := services.Gate.UpdateAccount(r.Context(), r.PathValue("id"), change)
	if err != nil {
		return a.failed(err)
	}
	return encode(w, r, http.StatusOK, account)
}

// deleteAccount handles DELETE /moderation/accounts/{id}.
func (a *API) deleteAccount(w http.ResponseWriter, r *http.Request) error {
	services, err := a.services(r.Context())
	if err != nil {
		return err
	}
	defer services.Release()
	if err := services.Gate.DeleteAccount(r.Context(), r.PathValue("id")); err != nil {
		return a.failed(err)
	}
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
	switch {
	case err == nil:
		return encode(w, r, http.StatusOK, report(usage, &usage.Limits))
	case errors.Is(err, quota.ErrUnknownTier):
		return encode(w, r, http.StatusOK, report(usage, nil))
	}
	return a.failed(err)
}

// checkCategories refuses thresholds for names that are no categories. The gate stores thresholds without knowing the
// engine.
func checkCategories(overrides *quota.Overrides) error {
	if overrides == nil {
		return nil
	}
	names := make([]string, 0, engine.NumCategories)
	known := map[string]bool{}
	for i := range engine.NumCategories {
		name := engine.Category(i).String()
		names, known[name] = append(names, name), true
	}
	for name := range overrides.Thresholds {
		if !known[name] {
			return refusal(http.StatusBadRequest, "thresholds has an unknown category %q; the categories are %s",
				name, strings.Join(names, ", "))
		}
	}
	return nil
}
