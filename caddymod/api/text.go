// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/caddymod/access"
	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/body"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/response"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/tracing"
	"github.com/caddy-moderation/caddy-moderation/caddymod/metrics"
	"github.com/caddy-moderation/caddy-moderation/caddymod/problem"
	"github.com/caddy-moderation/caddy-moderation/engine"
)

func init() {
	caddy.RegisterModule(new(Text))
}

// Text is a handler that moderates text: it answers a POST with a verdict on the content and the themes in the JSON
// body. It needs no other handler: it authenticates the request and charges it to its account's limits, unless
// moderation_key_auth or moderation_rate_limit did so before. It answers every path that is routed to it.
type Text struct {
	// The maximum time in which the body of a request must arrive, before it is answered 408. Default: 30s.
	BodyTimeout caddy.Duration `json:"body_timeout,omitempty"`

	access access.Middleware
}

// CaddyModule returns the Caddy module information.
func (*Text) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.moderation_text",
		New: func() caddy.Module { return new(Text) },
	}
}

// Provision finds the app.
func (t *Text) Provision(ctx caddy.Context) error {
	owner, err := app.LoadWithStore(ctx)
	if err != nil {
		return err
	}
	if t.BodyTimeout == 0 {
		t.BodyTimeout = caddy.Duration(30 * time.Second)
	}
	t.access = access.Middleware{App: owner, Operation: metrics.Text}
	return nil
}

// Validate checks the configuration.
func (t *Text) Validate() error {
	if t.BodyTimeout < 0 {
		return fmt.Errorf("body_timeout is %s; it must not be negative", time.Duration(t.BodyTimeout))
	}
	return nil
}

// TextPath returns nothing, because the handler answers any path. It implements [app.TextEndpoint].
func (t *Text) TextPath() string { return "" }

// ServeHTTP moderates the text of a request.
func (t *Text) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	return t.access.Serve(w, r, t.moderate)
}

// moderate handles an admitted request.
func (t *Text) moderate(w http.ResponseWriter, r *http.Request, call *access.Call) error {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return call.Problem(w, r, problem.New(problem.MethodNotAllowed, "Use POST."))
	}
	if err := body.CheckJSON(r); err != nil {
		return call.Problem(w, r, body.Problem(w.Header(), err))
	}
	keeps, limit := t.access.App.KeepsReviews(), int64(maxBody)
	if keeps {
		limit = maxReviewBody
	}
	received, err := body.Read(w, r, limit, time.Duration(t.BodyTimeout))
	if err != nil {
		return call.Problem(w, r, body.Problem(w.Header(), err))
	}
	defer received.Release()
	request, invalid := decode(received.Bytes(), keeps)
	if invalid != nil {
		return call.Problem(w, r, invalid)
	}
	ctx, span := tracing.Start(r.Context(), tracing.Classify)
	span.Text(request.content)
	judging := call.Judging(request.content)
	judging.Themes = request.themes
	result, explanation, err := decide(ctx, call.Services.Engine, request.explain, judging)
	span.Classified(&result, err)
	if err != nil {
		t.access.App.Logger().Error("judging a text", zap.String("moderation_id", call.ID), zap.Error(err))
		w.Header().Set("Retry-After", "1")
		return call.Problem(w, r, problem.New(problem.ClassifierUnavailable,
			"The text could not be judged now. Try again."))
	}
	call.SetVerdict(&result)
	t.keepForReview(ctx, call, &request, &result)

	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	*buffer = appendResult((*buffer)[:0], call.ID, &request, &result, explanation, t.access.App.Now())
	response.SendJSON(w, r, http.StatusOK, *buffer)
	return nil
}

// keepForReview keeps the text for review, if the configuration asks for it.
func (t *Text) keepForReview(ctx context.Context, call *access.Call, request *textRequest, result *engine.Result) {
	reviews := call.Services.Reviews
	cause, kept := reviews.Cause(result.Recommendation)
	if !kept {
		return
	}
	item := t.access.App.APIItem(cause, call.Who.Account.ID, call.ID, request.content, result)
	item.Context = request.context
	reviews.Keep(ctx, item, request.author)
}

// decide returns the verdict on a request; the explanation is nil when none is asked for.
func decide(
	ctx context.Context, e *engine.Engine, explain bool, request engine.Request,
) (engine.Result, *engine.Explanation, error) {
	if !explain {
		result, err := e.Moderate(ctx, request)
		return result, nil, err
	}
	result, explanation, err := e.Explain(ctx, request)
	return result, &explanation, err
}

// buffers hold answers while they are written.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// Interface guards
var (
	_ caddy.Provisioner           = (*Text)(nil)
	_ caddy.Validator             = (*Text)(nil)
	_ caddyhttp.MiddlewareHandler = (*Text)(nil)
	_ app.TextEndpoint            = (*Text)(nil)
)
