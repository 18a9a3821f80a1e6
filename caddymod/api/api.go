// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package api serves the service's own routes: text moderation and usage statistics each alone, and all routes of the
// service together as moderation_api.
//
// A request for /v1/moderate/text goes from [API] (api.go) to [Text] (text.go), which lets package access admit it,
// decodes the body (decode.go), moderates the text and encodes the result (encode.go).
package api

import (
	"fmt"
	"net/http"
	"path"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/caddymod/commentanalyzer"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/cors"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/directive"
	"github.com/caddy-moderation/caddy-moderation/caddymod/openai"
)

func init() {
	caddy.RegisterModule(new(API))
}

// API is a handler for all routes of the service, below its base path:
//
//	POST /v1/moderate/text
//	GET  /v1/usage
//	POST /v1/moderations                      as OpenAI's
//	POST /v1alpha1/comments:analyze           as the Perspective API's
//	POST /v1alpha1/comments:suggestscore
//	GET  /$discovery/rest?version=v1alpha1    without a key
//	GET  /openapi.json                        without a key
//	     /v1/reviews...                       with the app's option review: the review queue
//
// With a scoring path, the three of the Perspective API are also served below /api/<scoring path>.
//
// Paths are compared exactly, after percent-decoding; only /v1/moderations may have extra slashes. Requests for other
// paths go to the next handler. If no handler answers, GET of the base path itself gets a short list of the routes, and
// every other path below it, like operations below a wrong path, gets a 404.
type API struct {
	// The path with which all paths begin, for example "/moderation". Default: none.
	BasePath string `json:"base_path,omitempty"`
	// A path segment of letters, digits, '.', '_', '~' and '-'. The operations of the Perspective API are also served
	// below /api/<scoring path>, for clients that expect such an address. Default: none.
	ScoringPath string `json:"scoring_path,omitempty"`
	// The maximum time in which the body of a text moderation request must arrive, before it is answered 408. Default:
	// 30s.
	BodyTimeout caddy.Duration `json:"body_timeout,omitempty"`

	// The origins, such as "https://www.example.com", whose pages may call the service from a browser; "*" allows all
	// origins. Default: none.
	CORSOrigins cors.Origins `json:"cors_origins,omitempty"`
	// The options of /v1alpha1/comments:analyze: how comments are scored.
	Analyze commentanalyzer.Analyze `json:"analyze,omitzero"`
	// The options of /v1/moderations: the limits of a request.
	OpenAI openai.Moderations `json:"openai,omitzero"`

	app     *app.App
	text    Text
	usage   Usage
	suggest commentanalyzer.SuggestScore
	reviews reviews

	base                              string // BasePath without a slash at its end
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
	a.base = strings.TrimSuffix(a.BasePath, "/")
	a.reviews.provision(owner, a.base)
	a.textPath = a.base + "/v1/moderate/text"
	a.openaiPath = a.base + openai.Path
	a.openapiPath = a.base + "/openapi.json"
	a.routes = map[string]caddyhttp.MiddlewareHandler{
		a.textPath:           &a.text,
		a.base + "/v1/usage": &a.usage,
		a.openaiPath:         &a.OpenAI,
	}
	scoring := []string{a.base}
	if a.ScoringPath != "" {
		scoring = append(scoring, a.base+"/api/"+a.ScoringPath)
	}
	for _, prefix := range scoring {
		a.routes[prefix+commentanalyzer.SuggestScorePath] = &a.suggest
		a.routes[prefix+commentanalyzer.AnalyzePath] = &a.Analyze
		a.routes[prefix+commentanalyzer.DiscoveryPath] = &a.Analyze
	}
	return nil
}

// Validate checks the configuration.
func (a *API) Validate() error {
	if err := directive.CheckBasePath(a.BasePath); err != nil {
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

// checkScoringPath returns an error unless segment can be the scoring path. The empty one means none.
func checkScoringPath(segment string) error {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._~-", r)
	}
	if strings.IndexFunc(segment, func(r rune) bool { return !plain(r) }) >= 0 || segment == "." || segment == ".." {
		return fmt.Errorf("scoring_path is %q; it must be one path segment of letters, digits, '.', '_', '~' and '-'",
			segment)
	}
	return nil
}

// TextPath returns the path at which text is moderated. It implements [app.TextEndpoint].
func (a *API) TextPath() string { return a.textPath }

// ServeHTTP answers the service's paths and leaves all others to the next handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	requested := r.URL.Path
	route := a.routes[requested]
	if route == nil && openai.Serves(requested) && path.Clean(requested) == a.openaiPath {
		route = &a.OpenAI // people give OpenAI's clients addresses with a slash too many
	}
	if route == nil && a.reviews.serves(requested) {
		route = &a.reviews
	}
	switch {
	case route == nil && requested != a.openapiPath:
		if answer := a.unanswered(r); answer != nil {
			return nextOr(w, r, next, answer)
		}
		return next.ServeHTTP(w, r)
	case a.CORSOrigins.Serve(w, r):
		return nil
	case route == nil:
		return a.serveOpenAPI(w, r)
	}
	return route.ServeHTTP(w, r, next)
}

// Cleanup ends the streams of events.
func (a *API) Cleanup() error {
	a.reviews.end()
	return nil
}

// Interface guards
var (
	_ caddy.Provisioner           = (*API)(nil)
	_ caddy.Validator             = (*API)(nil)
	_ caddy.CleanerUpper          = (*API)(nil)
	_ caddyhttp.MiddlewareHandler = (*API)(nil)
	_ app.TextEndpoint            = (*API)(nil)
)
