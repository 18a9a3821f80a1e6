// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"errors"
	"net/http"
	"strings"
)

// Errors of [Credentials]. RFC 6750, section 3.1, names the first case "no authentication information" and the other two
// "invalid_request".
var (
	// ErrNoCredentials says that the request carries no key.
	ErrNoCredentials = errors.New("no API key")
	// ErrMalformed says that the Authorization header is not "Bearer <key>".
	ErrMalformed = errors.New("the Authorization header must be: Bearer <API key>")
	// ErrTwoCredentials says that the request carries two different keys.
	ErrTwoCredentials = errors.New("two different API keys")
)

// Sources says where a key may stand beside the Authorization header.
type Sources struct {
	// Query accepts the query parameter "key". Keys in addresses end up in logs: only the operations whose clients
	// cannot do otherwise accept it.
	Query bool
	// GoogleHeader accepts the header X-Goog-Api-Key.
	GoogleHeader bool
}

// Credentials returns the key that the request carries. The same key in several places is accepted; two different keys
// are [ErrTwoCredentials], because it is not known which of them the caller means.
func Credentials(r *http.Request, from Sources) (string, error) {
	var found []string
	for _, value := range r.Header.Values("Authorization") {
		scheme, key, ok := strings.Cut(strings.TrimSpace(value), " ")
		key = strings.TrimSpace(key)
		if !ok || !strings.EqualFold(scheme, "Bearer") || key == "" {
			return "", ErrMalformed
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
			return "", ErrTwoCredentials
		}
		key = f
	}
	if key == "" {
		return "", ErrNoCredentials
	}
	return key, nil
}
