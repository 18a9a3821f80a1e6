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

// mistyped returns the writer of the 404 for a path that a caller of this service may have mistyped, in the shape
// that the caller's client parses; nil for other paths.
func (a *API) mistyped(requested string) access.ProblemWriter {
	rest, below := strings.CutPrefix(requested, a.base)
	switch {
	case strings.HasSuffix(requested, "/comments:analyze"), strings.HasSuffix(requested, "/comments:suggestscore"):
		// Below a wrong path. Some clients take an empty 200 for a score of 0.
		return commentanalyzer.WriteProblem
	case strings.HasSuffix(requested, "/moderations"):
		return problem.Write
	case !below:
		return nil
	case strings.HasPrefix(rest, "/v1alpha1/"), strings.HasPrefix(rest, "/$discovery/"),
		a.ScoringPath != "" && strings.HasPrefix(rest, "/api/"+a.ScoringPath+"/"),
		// Where Google's Go client calls when the slash after the scoring path is forgotten.
		a.ScoringPath != "" && strings.HasPrefix(rest, "/api/v1alpha1/"):
		return commentanalyzer.WriteProblem
	case strings.HasPrefix(rest, "/v1/"):
		return problem.Write
	}
	return nil
}

// nextOrNotFound lets the next handlers answer, and answers 404 when none does: Caddy would answer an empty 200,
// which a caller takes for success.
func (a *API) nextOrNotFound(
	w http.ResponseWriter, r *http.Request, next caddyhttp.Handler, write access.ProblemWriter,
) error {
	observed := &observer{Writer: response.Observe(w)}
	if err := next.ServeHTTP(observed, r); err != nil || observed.Began() || observed.unwrapped {
		return err
	}
	write(w, r, access.NewID(a.app), problem.New(problem.NotFound, "There is nothing at this address."))
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
