// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"cmp"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-moderation/caddy-moderation/audit"
	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/sessions"
)

// newLink is the body of a request that makes a link for the desk.
type newLink struct {
	sessions.Person
	// Valid is for how long it can be used, as a duration such as "15m". Default: 15 minutes.
	Valid string `json:"valid,omitempty"`
}

// madeLink answers it.
type madeLink struct {
	// Token is what the person signs in with, once.
	Token string    `json:"token"`
	Until time.Time `json:"until"`
}

// createLink handles POST /moderation/desk/links.
func (a *API) createLink(w http.ResponseWriter, r *http.Request) error {
	var wanted newLink
	if err := decode(w, r, &wanted); err != nil {
		return err
	}
	var valid time.Duration
	if wanted.Valid != "" {
		var err error
		if valid, err = caddy.ParseDuration(wanted.Valid); err != nil || valid <= 0 {
			return refusal(http.StatusBadRequest, "valid must be a duration such as 15m or 1d")
		}
	}
	running, err := a.running()
	if err != nil {
		return err
	}
	if !running.SignsIn() {
		return refusal(http.StatusConflict,
			"no desk of the running configuration takes links: give moderation_desk the option tokens")
	}
	services, err := a.services(r.Context())
	if err != nil {
		return err
	}
	defer services.Release()
	for _, account := range wanted.Accounts {
		if err := quota.ValidateID(account); err != nil {
			return a.failed(err)
		}
		if _, err := services.Gate.Account(r.Context(), account); err != nil {
			return a.failed(err)
		}
	}
	token, until, err := services.Sessions.Link(r.Context(), wanted.Person, valid)
	if errors.Is(err, sessions.ErrInvalid) {
		_, detail, _ := strings.Cut(err.Error(), ": ")
		return refusal(http.StatusBadRequest, "%s", detail)
	}
	if err != nil {
		return a.failed(err)
	}
	details := map[string]string{"accounts": strings.Join(wanted.Accounts, " "), "until": until.Format(time.RFC3339)}
	for name, has := range map[string]bool{"operator": wanted.Operator, "reviewer": wanted.Reviewer} {
		if has {
			details[name] = "true"
		}
	}
	record(r, services, audit.Entry{Action: "session.link", Target: wanted.User, Details: details})
	return encode(w, r, http.StatusCreated, madeLink{Token: token, Until: until})
}

// listSessions handles GET /moderation/desk/sessions.
func (a *API) listSessions(w http.ResponseWriter, r *http.Request) error {
	services, err := a.services(r.Context())
	if err != nil {
		return err
	}
	defer services.Release()
	return streamArray(a, w, r, services.Sessions.All(r.Context()))
}

// sessionEnd is the body of a request that ends sessions: those of a user with the links that were not used yet, or
// one.
type sessionEnd struct {
	User    string `json:"user,omitempty"`
	Session string `json:"session,omitempty"`
}

// endedSessions answers it.
type endedSessions struct {
	Ended int `json:"ended"`
}

// endSessions handles POST /moderation/desk/sign-out.
func (a *API) endSessions(w http.ResponseWriter, r *http.Request) error {
	var wanted sessionEnd
	if err := decode(w, r, &wanted); err != nil {
		return err
	}
	if (wanted.User == "") == (wanted.Session == "") {
		return refusal(http.StatusBadRequest, "user or session is required, and not both")
	}
	services, err := a.services(r.Context())
	if err != nil {
		return err
	}
	defer services.Release()
	ended, err := services.Sessions.EndAll(r.Context(), wanted.User, wanted.Session)
	if err != nil {
		return a.failed(err)
	}
	record(r, services, audit.Entry{
		Action: "session.revoke", Target: cmp.Or(wanted.User, wanted.Session),
		Details: map[string]string{"ended": strconv.Itoa(ended)},
	})
	return encode(w, r, http.StatusOK, endedSessions{Ended: ended})
}
