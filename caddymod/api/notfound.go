// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-moderation/caddy-moderation/caddymod/access"
	"github.com/caddy-moderation/caddy-moderation/caddymod/commentanalyzer"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/response"
	"github.com/caddy-moderation/caddy-moderation/caddymod/problem"
)

// unanswered returns what answers a request that is not for one of the routes if no other handler does: the page at the
// base path, or a 404 in the shape that the caller's client parses. It is nil for paths that are none of this handler's
// business.
func (a *API) unanswered(r *http.Request) http.HandlerFunc {
	requested := r.URL.Path
	rest, below := strings.CutPrefix(requested, a.base)
	below = below && (rest == "" || rest[0] == '/')
	switch {
	case a.isIndex(r):
		return a.writeIndex
	case strings.HasSuffix(requested, "/comments:analyze"), strings.HasSuffix(requested, "/comments:suggestscore"):
		// Below a wrong path. Some clients take an empty 200 for a score of 0.
		return a.notFound(commentanalyzer.WriteProblem)
	case below && (strings.HasPrefix(rest, "/v1alpha1/") || strings.HasPrefix(rest, "/$discovery/") ||
		a.ScoringPath != "" && strings.HasPrefix(rest, "/api/"+a.ScoringPath+"/") ||
		// Where Google's Go client calls when the slash after the scoring path is forgotten.
		a.ScoringPath != "" && strings.HasPrefix(rest, "/api/v1alpha1/")):
		return a.notFound(commentanalyzer.WriteProblem)
	case below, strings.HasSuffix(requested, "/moderations"):
		return a.notFound(problem.Write)
	}
	return nil
}

// notFound returns a handler that answers 404.
func (a *API) notFound(write access.ProblemWriter) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		write(w, r, access.NewID(a.app), problem.New(problem.NotFound,
			"There is nothing at this address. "+a.openapiPath+" says what there is."))
	}
}

// nextOr lets the next handlers answer, and answers itself when none does: Caddy would answer an empty 200, which a
// caller takes for success.
func nextOr(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler, answer http.HandlerFunc) error {
	observed := &observer{Writer: response.Observe(w)}
	if err := next.ServeHTTP(observed, r); err != nil || observed.Began() || observed.unwrapped {
		return err
	}
	answer(w, r)
	return nil
}

// observer is a writer that also notices a handler that answers on the writer below.
type observer struct {
	response.Writer
	unwrapped bool
}

// Unwrap returns the writer below, and notes that a handler means to use it.
func (o *observer) Unwrap() http.ResponseWriter {
	o.unwrapped = true
	return o.Writer.Unwrap()
}

// Interface guards
var _ http.ResponseWriter = (*observer)(nil)
