// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package admin lets operators manage a running server with the routes below /moderation/ of Caddy's admin endpoint,
// and with the command "caddy moderation". The command uses the routes, because the running server has the database
// open.
//
// Anyone who can reach the admin endpoint can do anything. Caddy binds it to localhost unless it is configured
// otherwise.
package admin

import (
	"bytes"
	"context"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/go-json-experiment/json"
	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/body"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/response"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/sampled"
	"github.com/caddy-moderation/caddy-moderation/caddymod/metrics"
	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage"
)

func init() {
	caddy.RegisterModule(new(API))
}

const (
	// maxBody is the size of the largest request body, in bytes.
	maxBody = 64 << 10
	// bodyTimeout is how long a request body may take to arrive.
	bodyTimeout = 10 * time.Second
)

// API is the part of Caddy's admin endpoint that manages the moderation service. Its routes always exist; they answer
// 404 while the running configuration does not use the moderation app. It has no options: the admin endpoint itself
// is configured with Caddy's global option "admin".
//
//	GET, POST           /moderation/accounts
//	GET, PATCH, DELETE  /moderation/accounts/{id}
//	GET, POST           /moderation/keys
//	GET                 /moderation/keys/{id}
//	POST                /moderation/keys/{id}/revoke
//	POST                /moderation/keys/{id}/rotate
//	GET                 /moderation/usage/{id}
//	GET                 /moderation/feedback/export
//	GET, POST, DELETE   /moderation/feedback/consumers/{name}
//	POST                /moderation/feedback/delete
//	GET                 /moderation/reviews/export
//	POST                /moderation/reviews/delete
//	POST                /moderation/reviews/replay
//	POST                /moderation/desk/links
//	GET                 /moderation/desk/sessions
//	POST                /moderation/desk/sign-out
//	GET                 /moderation/audit
//	GET                 /moderation/audit/verify
//	GET                 /moderation/backup
//	GET, POST, DELETE   /moderation/migrate
//	GET                 /moderation/health/live
//	GET                 /moderation/health/ready
//
// The command "caddy moderation" uses these routes.
type API struct {
	// active returns the app of the running configuration.
	active func() (*app.App, error)
	now    func() time.Time
	logger *zap.Logger
}

// CaddyModule returns the Caddy module information.
func (*API) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "admin.api.moderation",
		New: func() caddy.Module { return new(API) },
	}
}

// Provision prepares the routes. It does not load the app, which Caddy provisions later.
func (a *API) Provision(ctx caddy.Context) error {
	a.active, a.now, a.logger = activeApp, time.Now, sampled.Logger(ctx.Logger())
	return metrics.Keep(ctx.GetMetricsRegistry())
}

// activeApp returns the app of the configuration that runs now, which need not be the one that made the routes.
func activeApp() (*app.App, error) {
	running := caddy.ActiveContext()
	loaded, err := running.AppIfConfigured("moderation")
	if errors.Is(err, caddy.ErrNotConfigured) && running.Context == nil {
		return nil, errNotStarted
	}
	if err != nil {
		return nil, err
	}
	return loaded.(*app.App), nil
}

// Routes returns the routes.
func (a *API) Routes() []caddy.AdminRoute {
	routes := []struct {
		pattern string
		methods methods
	}{
		{"/moderation/accounts", methods{http.MethodGet: a.listAccounts, http.MethodPost: a.createAccount}},
		{"/moderation/accounts/{id}", methods{
			http.MethodGet: a.showAccount, http.MethodPatch: a.updateAccount, http.MethodDelete: a.deleteAccount,
		}},
		{"/moderation/keys", methods{http.MethodGet: a.listKeys, http.MethodPost: a.createKey}},
		{"/moderation/keys/{id}", methods{http.MethodGet: a.showKey}},
		{"/moderation/keys/{id}/revoke", methods{http.MethodPost: a.revokeKey}},
		{"/moderation/keys/{id}/rotate", methods{http.MethodPost: a.rotateKey}},
		{"/moderation/usage/{id}", methods{http.MethodGet: a.usage}},
		{"/moderation/feedback/export", methods{http.MethodGet: a.exportFeedback}},
		{"/moderation/feedback/consumers/{name}", methods{
			http.MethodGet: a.nextFeedback, http.MethodPost: a.takeFeedback, http.MethodDelete: a.forgetConsumer,
		}},
		{"/moderation/feedback/delete", methods{http.MethodPost: a.deleteFeedback}},
		{"/moderation/reviews/export", methods{http.MethodGet: a.exportReviews}},
		{"/moderation/reviews/delete", methods{http.MethodPost: a.deleteReviews}},
		{"/moderation/reviews/replay", methods{http.MethodPost: a.replayReviews}},
		{"/moderation/desk/links", methods{http.MethodPost: a.createLink}},
		{"/moderation/desk/sessions", methods{http.MethodGet: a.listSessions}},
		{"/moderation/desk/sign-out", methods{http.MethodPost: a.endSessions}},
		{"/moderation/audit", methods{http.MethodGet: a.exportAudit}},
		{"/moderation/audit/verify", methods{http.MethodGet: a.verifyAudit}},
		{"/moderation/backup", methods{http.MethodGet: a.backup}},
		{"/moderation/migrate", methods{
			http.MethodGet: a.showMigration, http.MethodPost: a.migrate, http.MethodDelete: a.undoMigration,
		}},
		{"/moderation/health/live", methods{http.MethodGet: a.live}},
		{"/moderation/health/ready", methods{http.MethodGet: a.ready}},
	}
	all := make([]caddy.AdminRoute, 0, len(routes)+1)
	for _, route := range routes {
		all = append(all, caddy.AdminRoute{Pattern: route.pattern, Handler: route.methods})
	}
	return append(all, caddy.AdminRoute{Pattern: "/moderation/", Handler: caddy.AdminHandlerFunc(unknownRoute)})
}

// methods holds the handlers of a route by method. HEAD is answered like GET, without a body.
type methods map[string]caddy.AdminHandlerFunc

// ServeHTTP answers a request with the handler of its method, or with 405.
func (m methods) ServeHTTP(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	handle, ok := m[method]
	if !ok {
		allowed := strings.Join(slices.Sorted(maps.Keys(m)), ", ")
		w.Header().Set("Allow", allowed)
		return refusal(http.StatusMethodNotAllowed, "the method must be %s", strings.ReplaceAll(allowed, ", ", " or "))
	}
	return handle(w, r)
}

func unknownRoute(http.ResponseWriter, *http.Request) error {
	return errNoRoute
}

// errNoRoute is the answer to a path below /moderation/ that is none of the routes.
var errNoRoute = refusal(http.StatusNotFound, "there is no such route")

// errNotConfigured is the answer while the running configuration does not use the app.
var errNotConfigured = refusal(http.StatusNotFound, "the running configuration does not use the moderation app")

// errNotStarted is the answer while no configuration runs: the admin endpoint exists before the first one has started.
var errNotStarted = refusal(http.StatusServiceUnavailable, "the server is still starting")

// running returns the app that runs now.
func (a *API) running() (*app.App, error) {
	running, err := a.active()
	switch {
	case errors.Is(err, caddy.ErrNotConfigured):
		return nil, errNotConfigured
	case errors.As(err, new(caddy.APIError)):
		return nil, err
	case err != nil:
		return nil, a.failed(err)
	}
	return running, nil
}

// services returns the services of the app that runs now, which the caller releases.
func (a *API) services(ctx context.Context) (*app.Services, error) {
	running, err := a.running()
	if err != nil {
		return nil, err
	}
	services, err := running.Acquire(ctx)
	if err != nil {
		return nil, a.failed(err)
	}
	return services, nil
}

// refusal returns an error with a status and a message for the caller.
func refusal(status int, message string, args ...any) caddy.APIError {
	err := fmt.Errorf(message, args...)
	return caddy.APIError{HTTPStatus: status, Err: err, Message: err.Error()}
}

// failed returns the answer to an error. The caller is told what it can act on; all other causes are only logged.
func (a *API) failed(err error) error {
	var status int
	switch {
	case errors.Is(err, quota.ErrNotFound):
		status = http.StatusNotFound
	case errors.Is(err, quota.ErrInvalid):
		status = http.StatusBadRequest
	case errors.Is(err, quota.ErrExists), errors.Is(err, quota.ErrDeclared), errors.Is(err, quota.ErrReplaced):
		status = http.StatusConflict
	case errors.Is(err, app.ErrStarting):
		return caddy.APIError{HTTPStatus: http.StatusServiceUnavailable, Err: err, Message: app.ErrStarting.Error()}
	case errors.Is(err, app.ErrNoStore):
		return caddy.APIError{HTTPStatus: http.StatusServiceUnavailable, Err: err, Message: app.ErrNoStore.Error()}
	case errors.Is(err, storage.ErrDamaged):
		// The error names the record and its account.
		message := strings.TrimPrefix(err.Error(), storage.ErrUnavailable.Error()+": ")
		return caddy.APIError{HTTPStatus: http.StatusInternalServerError, Err: err, Message: message}
	case errors.Is(err, storage.ErrReadOnly):
		message := strings.TrimPrefix(err.Error(), storage.ErrUnavailable.Error()+": ")
		return caddy.APIError{HTTPStatus: http.StatusServiceUnavailable, Err: err, Message: message}
	case errors.Is(err, storage.ErrUnavailable):
		const message = "the store cannot answer now; the server's log and /moderation/health/ready say why"
		return caddy.APIError{HTTPStatus: http.StatusServiceUnavailable, Err: err, Message: message}
	default:
		const message = "the server failed; its log says why"
		return caddy.APIError{HTTPStatus: http.StatusInternalServerError, Err: err, Message: message}
	}
	return caddy.APIError{HTTPStatus: status, Err: err, Message: message(err)}
}

// message returns the text of an error of the gate: "invalid: tier ..." says no more than "tier ...".
func message(err error) string { return strings.TrimPrefix(err.Error(), quota.ErrInvalid.Error()+": ") }

// decode decodes the body of a request into dst. An unknown member is an error: it may be a mistyped one.
func decode(w http.ResponseWriter, r *http.Request, dst any) error {
	if err := body.CheckJSON(r); err != nil && !errors.Is(err, body.ErrMissingType) {
		return refusal(http.StatusUnsupportedMediaType, "%w", err)
	}
	buffer, err := body.Read(w, r, maxBody, bodyTimeout)
	if err != nil {
		return refusal(body.Problem(w.Header(), err).Code.Status(), "%w", err)
	}
	defer buffer.Release()
	if err := json.Unmarshal(buffer.Bytes(), dst, json.RejectUnknownMembers(true)); err != nil {
		var semantic *json.SemanticError
		if !errors.As(err, &semantic) {
			return refusal(http.StatusBadRequest, "the body is not a well-formed JSON object")
		}
		if errors.Is(err, json.ErrUnknownName) {
			return refusal(http.StatusBadRequest, "the body has an unknown member: %s", semantic.JSONPointer)
		}
		return refusal(http.StatusBadRequest, "the body has a member of the wrong type: %s", semantic.JSONPointer)
	}
	return nil
}

// encode answers with a JSON value.
func encode(w http.ResponseWriter, r *http.Request, status int, value any) error {
	var encoded bytes.Buffer
	if err := newEncoder(&encoded).Encode(value); err != nil {
		return err
	}
	response.SendJSON(w, r, status, encoded.Bytes())
	return nil
}

// newEncoder returns an encoder that does not escape <, > and &: nothing here ends up in a web page.
func newEncoder(w io.Writer) *stdjson.Encoder {
	encoder := stdjson.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder
}

// Interface guards
var (
	_ caddy.Provisioner  = (*API)(nil)
	_ caddy.AdminRouter  = (*API)(nil)
	_ caddy.AdminHandler = methods(nil)
)
