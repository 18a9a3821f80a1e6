// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	_ "embed"
	"net/http"

	"github.com/caddy-moderation/caddy-moderation/caddymod/access"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/response"
	"github.com/caddy-moderation/caddy-moderation/caddymod/problem"
)

// openapiDocument describes the service's HTTP interface in OpenAPI 3.1, as it is served at /openapi.json.
//
//go:embed openapi.json
var openapiDocument []byte

// serveOpenAPI answers with the description of the service. It needs no key, because it holds nothing secret.
func (a *API) serveOpenAPI(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		problem.Write(w, r, access.NewID(a.app), problem.New(problem.MethodNotAllowed, "Use GET."))
		return nil
	}
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-cache")
	response.SendJSON(w, r, http.StatusOK, openapiDocument)
	return nil
}
