// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-moderation/caddy-moderation/audit"
	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/quota"
)

// createKey handles POST /moderation/keys.
func (a *API) createKey(w http.ResponseWriter, r *http.Request) error {
	var wanted newKey
	if err := decode(w, r, &wanted); err != nil {
		return err
	}
	services, err := a.services(r.Context())
	if err != nil {
		return err
	}
	defer services.Release()
	secret, key, err := services.Gate.CreateKey(r.Context(), quota.KeySpec{
		Account: wanted.Account, Name: wanted.Name, Environment: wanted.Environment, Expires: wanted.Expires,
		Scopes: wanted.Scopes,
	})
	if err != nil {
		return a.failed(err)
	}
	record(r, services, audit.Entry{
		Action: "key.create", Account: key.Account, Target: key.ID, Details: app.KeyDetails(&key),
	})
	return encode(w, r, http.StatusCreated, madeKey{Secret: secret, Key: key})
}

// listKeys handles GET /moderation/keys[?account=<id>].
func (a *API) listKeys(w http.ResponseWriter, r *http.Request) error {
	services, err := a.services(r.Context())
	if err != nil {
		return err
	}
	defer services.Release()
	account := r.URL.Query().Get("account")
	if account != "" {
		if _, err := services.Gate.Account(r.Context(), account); err != nil {
			return a.failed(err)
		}
	}
	return streamArray(a, w, r, services.Gate.Keys(r.Context(), account))
}

// showKey handles GET /moderation/keys/{id}.
func (a *API) showKey(w http.ResponseWriter, r *http.Request) error {
	services, err := a.services(r.Context())
	if err != nil {
		return err
	}
	defer services.Release()
	key, err := services.Gate.Key(r.Context(), r.PathValue("id"))
	if err != nil {
		return a.failed(err)
	}
	return encode(w, r, http.StatusOK, key)
}

// revokeKey handles POST /moderation/keys/{id}/revoke.
func (a *API) revokeKey(w http.ResponseWriter, r *http.Request) error {
	services, err := a.services(r.Context())
	if err != nil {
		return err
	}
	defer services.Release()
	key, err := services.Gate.RevokeKey(r.Context(), r.PathValue("id"))
	if err != nil {
		return a.failed(err)
	}
	record(r, services, audit.Entry{Action: "key.revoke", Account: key.Account, Target: key.ID})
	return encode(w, r, http.StatusOK, key)
}

// rotateKey handles POST /moderation/keys/{id}/rotate.
func (a *API) rotateKey(w http.ResponseWriter, r *http.Request) error {
	var wanted rotation
	if r.ContentLength != 0 {
		if err := decode(w, r, &wanted); err != nil {
			return err
		}
	}
	var overlap time.Duration
	if wanted.Overlap != "" {
		var err error
		if overlap, err = caddy.ParseDuration(wanted.Overlap); err != nil {
			return refusal(http.StatusBadRequest, "overlap must be a duration such as 24h or 7d")
		}
	}
	services, err := a.services(r.Context())
	if err != nil {
		return err
	}
	defer services.Release()
	made, err := services.Gate.RotateKey(r.Context(), r.PathValue("id"), overlap)
	if err != nil {
		return a.failed(err)
	}
	record(r, services, audit.Entry{
		Action: "key.rotate", Account: made.Key.Account, Target: made.Old.ID,
		Details: map[string]string{"new_key": made.Key.ID, "overlap": overlap.String()},
	})
	return encode(w, r, http.StatusCreated, madeKey{Secret: made.Secret, Key: made.Key, Old: &made.Old})
}
