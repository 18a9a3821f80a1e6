// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package api serves the service's own routes: text moderation and usage statistics alone, and, as moderation_api, all
// routes of the service at once.
package api

import (
	"fmt"
	"net/http"
	"path"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-moderation/caddy-moderation/caddymod/access"
	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/caddymod/commentanalyzer"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/cors"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/response"
	"github.com/caddy-moderation/caddy-moderation/caddymod/openai"
	"github.com/caddy-moderation/caddy-moderation/caddymod/problem"
)

func init() {
	caddy.RegisterModule(new(API))
}

// API is a handler for all routes of the service at once, below its base path:
//
//	POST /v1/moderate/text
//	GET  /v1/usage
//	POST /v1/moderations                      as OpenAI's
//	POST /v1alpha1/comments:analyze           as the Perspective API's
//	POST /v1alpha1/comments:suggestscore
//	GET  /$discovery/rest?version=v1alpha1    without a key
//	GET  /openapi.json                        without a key
//
// With a scoring path the three of the Perspective API are also served below /api/<scoring path>.
//
// Paths are compared exactly, after decoding and without a trailing slash. Requests for other paths go to the next
// handler; below /v1/ and /v1alpha1/, and where an operation is asked for below a wrong path, they are answered 404 when no
// handler answers.
type API struct {
	// BasePath is what all paths begin with, for example "/moderation". Default: nothing.
	BasePath string `json:"base_path,omitempty"`
	// ScoringPath is a path segment of letters, digits, '.', '_', '~' and '-': the operations of the Perspective API are also
	// served below /api/<scoring path>, for clients that are written for such an address. Default: they are not.
	ScoringPath string `json:"scoring_path,omitempty"`
	// BodyTimeout is how long the body of a text moderation request may take to arrive, before 408 is answered. Default 30s.
	BodyTimeout caddy.Duration `json:"body_timeout,omitempty"`

	// CORSOrigins are the origins, such as "https://www.example.com", whose pages may call the service from a browser;
	// "*" stands for all of them. Default none.
	CORSOrigins cors.Origins `json:"cors_origins,omitempty"`
	// Analyze says how comments are scored at /v1alpha1/comments:analyze.
	Analyze commentanalyzer.Analyze `json:"analyze,omitzero"`
	// OpenAI says how much is taken at /v1/moderations.
	OpenAI openai.Moderations `json:"openai,omitzero"`

	text    Text
	usage   Usage
	suggest commentanalyzer.SuggestScore
	app     *app.App

	routes                            map[string]caddyhttp.MiddlewareHandler
	textPath, openaiPath, openapiPath string
}

// CaddyModule returns the Caddy module information.
func (*API) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.moderation_api",
		New: func() caddy.Module { return new(API) },
	}
}

// Provision sets up the handlers of the routes.
func (a *API) Provision(ctx caddy.Context) error {
	owner, err := app.LoadWithStore(ctx)
	if err != nil {
		return err
	}
	a.app = owner
	a.text.BodyTimeout = a.BodyTimeout
	for _, handler := range []caddy.Provisioner{&a.text, &a.usage, &a.suggest, &a.Analyze, &a.OpenAI} {
		if err := handler.Provision(ctx); err != nil {
			return err
		}
	}
	base := strings.TrimSuffix(a.BasePath, "/")
	a.textPath = base + "/v1/moderate/text"
	a.openaiPath = base + openai.Path
	a.openapiPath = base + "/openapi.json"
	a.routes = map[string]caddyhttp.MiddlewareHandler{
		a.textPath:         &a.text,
		base + "/v1/usage": &a.usage,
		a.openaiPath:       &a.OpenAI,
	}
	scoring := []string{base}
	if a.ScoringPath != "" {
		scoring = append(scoring, base+"/api/"+a.ScoringPath)
	}
	for _, prefix := range scoring {
		a.routes[prefix+commentanalyzer.SuggestScorePath] = &a.suggest
		a.routes[prefix+commentanalyzer.AnalyzePath] = &a.Analyze
		a.routes[prefix+commentanalyzer.DiscoveryPath] = &a.Analyze
	}
	return nil
}

// Validate checks the paths.
func (a *API) Validate() error {
	if err := checkBasePath(a.BasePath); err != nil {
		return err
	}
	if err := checkScoringPath(a.ScoringPath); err != nil {
		return err
	}
	for _, handler := range []caddy.Validator{&a.text, &a.suggest, &a.Analyze, &a.OpenAI, a.CORSOrigins} {
		if err := handler.Validate(); err != nil {
			return err
		}
	}
	return nil
}

// checkBasePath says whether base can be a base path; empty is none.
func checkBasePath(base string) error {
	if base == "" {
		return nil
	}
	if !strings.HasPrefix(base, "/") || strings.ContainsAny(base, "*{}?#%") || strings.Contains(base, "//") {
		return fmt.Errorf("the base path is %q; it must begin with a slash and be a plain path such as /moderation", base)
	}
	return nil
}

// checkScoringPath says whether segment can be the scoring path; empty is none.
func checkScoringPath(segment string) error {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._~-", r)
	}
	if strings.IndexFunc(segment, func(r rune) bool { return !plain(r) }) >= 0 || segment == "." || segment == ".." {
		return fmt.Errorf("scoring_path is %q; it must be one path segment of letters, digits, '.', '_', '~' and '-'", segment)
	}
	return nil
}

// TextPath is the path at which text is moderated.
func (a *API) TextPath() string { return a.textPath }

// ServeHTTP answers the service's paths and leaves all others to the next handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	requested := r.URL.Path
	route := a.routes[requested]
	if route == nil && openai.Serves(requested) && path.Clean(requested) == a.openaiPath {
		route = &a.OpenAI // clients of OpenAI's are given addresses with a slash too many
	}
	switch {
	case route == nil && requested != a.openapiPath:
		if write := a.notFound(requested); write != nil {
			return a.orNotFound(w, r, next, write)
		}
		return next.ServeHTTP(w, r)
	case a.CORSOrigins.Serve(w, r):
		return nil
	case route == nil:
		return a.serveOpenAPI(w, r)
	}
	return route.ServeHTTP(w, r, next)
}

// notFound returns who writes the 404 for a path that a caller of this service may have mistyped, in the shape that the
// caller's client parses; nil for other paths.
func (a *API) notFound(requested string) access.ProblemWriter {
	base := a.textPath[:len(a.textPath)-len("/v1/moderate/text")]
	rest, ok := strings.CutPrefix(requested, base)
	switch {
	case strings.HasSuffix(requested, "/comments:analyze"), strings.HasSuffix(requested, "/comments:suggestscore"):
		// Below a wrong path. Some clients take an empty 200 for a score of 0.
		return commentanalyzer.WriteProblem
	case strings.HasSuffix(requested, "/moderations"):
		return problem.Write
	case !ok:
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

// orNotFound lets the next handlers answer, and answers 404 when none does: Caddy would answer an empty 200, which a caller
// takes for success.
func (a *API) orNotFound(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler, write access.ProblemWriter) error {
	observed := &claimed{Writer: response.Observe(w)}
	if err := next.ServeHTTP(observed, r); err != nil || observed.Began() || observed.unwrapped {
		return err
	}
	write(w, r, access.NewID(a.app), problem.New(problem.NotFound, "There is nothing at this address."))
	return nil
}

// claimed is a writer that observes whether a handler answers, also beside it.
type claimed struct {
	response.Writer
	unwrapped bool
}

// Unwrap returns the writer below. A handler that asks for it means to use it.
func (c *claimed) Unwrap() http.ResponseWriter {
	c.unwrapped = true
	return c.Writer.Unwrap()
}

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

// Interface guards
var (
	_ caddy.Provisioner           = (*API)(nil)
	_ caddy.Validator             = (*API)(nil)
	_ caddyhttp.MiddlewareHandler = (*API)(nil)
	_ app.TextEndpoint            = (*API)(nil)
	_ http.ResponseWriter         = (*claimed)(nil)
)
