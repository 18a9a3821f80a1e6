// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"errors"
	"net/http"
	"strings"

	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/caddymod/problem"
	"github.com/caddy-moderation/caddy-moderation/quota"
)

// Errors of [credentials]. RFC 6750, section 3.1, calls the first case "no authentication information" and the other
// two "invalid_request".
var (
	// errNoCredentials says that the request carries no key.
	errNoCredentials = errors.New("no API key")
	// errMalformed says that the Authorization header is not "Bearer <key>".
	errMalformed = errors.New("the Authorization header must be: Bearer <API key>")
	// errTwoCredentials says that the request carries two different keys.
	errTwoCredentials = errors.New("two different API keys")
)

// Sources are the places where a key may stand beside the Authorization header.
type Sources struct {
	// Query accepts the query parameter "key". Keys in addresses end up in logs: only operations whose clients cannot
	// do otherwise accept it.
	Query bool
	// GoogleHeader accepts the header X-Goog-Api-Key.
	GoogleHeader bool
}

// authenticate finds out who calls; the problem says why that is unknown. It sets the challenge of RFC 6750, section 3.
func (c *Call) authenticate(w http.ResponseWriter, r *http.Request, from Sources) *problem.Problem {
	key, err := credentials(r, from)
	if errors.Is(err, errNoCredentials) {
		challenge(w, "")
		return problem.New(problem.MissingKey, "Send the key in the header Authorization: Bearer <API key>.")
	}
	if err != nil {
		challenge(w, "invalid_request")
		return problem.FromError(problem.MalformedCredentials, err)
	}
	who, err := c.Services.Gate.Authenticate(r.Context(), key)
	switch {
	case err == nil:
		c.Who, c.authenticated = who, true
		return nil
	case errors.Is(err, quota.ErrUnauthorized):
		return unknownKey(w)
	case errors.Is(err, quota.ErrInactive):
		c.Who = who
		return problem.New(problem.AccountInactive, "The account's subscription status is not one that is served.")
	case errors.Is(err, quota.ErrUnknownTier):
		c.Who = who
		c.app.Logger().Error("an account is on a tier that is not configured",
			zap.String("account", who.Account.ID), zap.String("tier", who.Account.Tier))
		return problem.New(problem.TierNotConfigured,
			"The account is on a tier that this server does not have. Its operator can put it on another one.")
	}
	return c.unavailable(w, "authenticating a request", err)
}

// credentials returns the key that the request carries. The same key in several places is accepted; two different keys
// are [errTwoCredentials], because it is unknown which of them the caller means.
func credentials(r *http.Request, from Sources) (string, error) {
	var found []string
	for _, value := range r.Header.Values("Authorization") {
		scheme, key, ok := strings.Cut(strings.TrimSpace(value), " ")
		key = strings.TrimSpace(key)
		if !ok || !strings.EqualFold(scheme, "Bearer") || key == "" {
			return "", errMalformed
		}
		found = append(found, key)
	}
	if from.GoogleHeader {
		found = append(found, r.Header.Values("X-Goog-Api-Key")...)
	}
	if from.Query && strings.Contains(r.URL.RawQuery, "key") {
		found = append(found, r.URL.Query()["key"]...)
	}
	key := ""
	for _, f := range found {
		if f == "" || f == key {
			continue
		}
		if key != "" {
			return "", errTwoCredentials
		}
		key = f
	}
	if key == "" {
		return "", errNoCredentials
	}
	return key, nil
}

// unknownKey sets the challenge and says that the key belongs to nobody.
func unknownKey(w http.ResponseWriter) *problem.Problem {
	challenge(w, "invalid_token")
	return problem.New(problem.InvalidKey, "The API key is unknown, revoked or expired.")
}

// challenge sets the header WWW-Authenticate; reason is an error code of RFC 6750, or empty.
func challenge(w http.ResponseWriter, reason string) {
	value := `Bearer realm="moderation"`
	if reason != "" {
		value += `, error="` + reason + `"`
	}
	w.Header().Set("WWW-Authenticate", value)
}
