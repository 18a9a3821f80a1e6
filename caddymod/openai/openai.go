// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package openai serves POST /v1/moderations. Its requests, answers, errors and header fields are those that programs
// written for OpenAI's moderation endpoint expect.
package openai

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"path"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/dustin/go-humanize"
	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/caddymod/access"
	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/body"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/cors"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/directive"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/response"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/tracing"
	"github.com/caddy-moderation/caddy-moderation/caddymod/metrics"
	"github.com/caddy-moderation/caddy-moderation/caddymod/options"
	"github.com/caddy-moderation/caddy-moderation/caddymod/problem"
	"github.com/caddy-moderation/caddy-moderation/engine"
	"github.com/caddy-moderation/caddy-moderation/review"
)

func init() {
	caddy.RegisterModule(new(Moderations))
	directive.Handler[Moderations]("moderation_openai")
	httpcaddyfile.RegisterDirectiveOrder("moderation_openai", httpcaddyfile.Before, "respond")
}

// Path is the end of the path that [Moderations] answers.
const Path = "/v1/moderations"

// The defaults of [Moderations].
const (
	defaultMaxInputs     = 256
	defaultMaxCharacters = 100_000
	defaultMaxBody       = 2 << 20
	defaultBodyTimeout   = 30 * time.Second
)

// Moderations is a handler that answers as OpenAI's moderation endpoint does, with the verdicts of this service. It
// answers requests whose path ends in /v1/moderations, even with doubled or trailing slashes, and passes every other
// path on.
//
// The key is expected in the header Authorization: Bearer. A request counts as many requests as it has inputs: all of
// them or none. A request that cannot be moderated counts one in the minute and nothing in the month.
type Moderations struct {
	// The maximum number of inputs in a request, and of parts in an input. Default: 256.
	MaxInputs int64 `json:"max_inputs,omitempty"`
	// The maximum number of characters (Unicode code points) in one input. Default: 100,000.
	MaxCharacters int64 `json:"max_characters,omitempty"`
	// The maximum size of the body, in bytes. Default: 2 MiB.
	MaxBody int64 `json:"max_body,omitempty"`
	// The maximum time in which the body must arrive, before the request is answered 408. Default: 30s.
	BodyTimeout caddy.Duration `json:"body_timeout,omitempty"`
	// The origins, such as "https://www.example.com", whose pages may call the service from a browser; "*" allows all
	// origins. Default: none.
	CORSOrigins cors.Origins `json:"cors_origins,omitempty"`

	app    *app.App
	access access.Middleware
	batch  *batch
}

// CaddyModule returns the Caddy module information.
func (*Moderations) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.moderation_openai",
		New: func() caddy.Module { return new(Moderations) },
	}
}

// Provision finds the app and fills in the defaults.
func (m *Moderations) Provision(ctx caddy.Context) error {
	owner, err := app.LoadWithStore(ctx)
	if err != nil {
		return err
	}
	if m.MaxInputs == 0 {
		m.MaxInputs = defaultMaxInputs
	}
	if m.MaxCharacters == 0 {
		m.MaxCharacters = defaultMaxCharacters
	}
	if m.MaxBody == 0 {
		m.MaxBody = defaultMaxBody
	}
	if m.BodyTimeout == 0 {
		m.BodyTimeout = caddy.Duration(defaultBodyTimeout)
	}
	m.app = owner
	m.access = access.Middleware{App: owner, Operation: metrics.OpenAI, Deferred: true, Problem: writeProblem}
	m.batch = newBatch(runtime.GOMAXPROCS(0))
	return nil
}

// Validate checks the configuration.
func (m *Moderations) Validate() error {
	for _, limit := range []struct {
		name  string
		value int64
	}{{"max_inputs", m.MaxInputs}, {"max_characters", m.MaxCharacters}, {"max_body", m.MaxBody}} {
		if limit.value < 0 {
			return fmt.Errorf("%s is %d; it must be 1 or more, or 0 for the default", limit.name, limit.value)
		}
	}
	if m.BodyTimeout < 0 {
		return fmt.Errorf("body_timeout is %s; it must not be negative", time.Duration(m.BodyTimeout))
	}
	return m.CORSOrigins.Validate()
}

// Serves reports whether [Moderations] answers a path, which is given as the client sent it, decoded.
func Serves(requested string) bool {
	return strings.HasSuffix(requested, Path) || strings.HasSuffix(path.Clean(requested), Path)
}

// ServeHTTP moderates the inputs.
func (m *Moderations) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if !Serves(r.URL.Path) {
		return next.ServeHTTP(w, r)
	}
	if m.CORSOrigins.Serve(w, r) {
		return nil
	}
	began := m.app.Now()
	return m.access.Serve(w, r, func(w http.ResponseWriter, r *http.Request, call *access.Call) error {
		return m.handle(w, r, call, began)
	})
}

// handle answers an authenticated call.
func (m *Moderations) handle(w http.ResponseWriter, r *http.Request, call *access.Call, began time.Time) error {
	wanted, failed := m.read(w, r)
	if failed != nil {
		if p := call.Charge(w, r, 1); p != nil {
			return call.Refuse(w, r, p)
		}
		failed.write(w, r)
		return nil
	}
	if p := call.Charge(w, r, int64(len(wanted.texts))); p != nil {
		return call.Refuse(w, r, p)
	}
	judging := call.Judging("")
	ctx, span := tracing.Start(r.Context(), tracing.Classify)
	tracing.Texts(span, wanted.texts, func(text *string) string { return *text })
	results, err := m.batch.moderate(ctx, call.Services.Engine, wanted.texts, judging)
	whole := highest(results)
	if err == nil {
		call.Services.Engine.Policy().With(judging.Policy).Decide(&whole)
	}
	span.Classified(&whole, err)
	switch {
	case err != nil && r.Context().Err() != nil:
		// The client has left. Nobody receives the answer; the status is for the access log.
		w.WriteHeader(499)
		return nil
	case err != nil:
		m.app.Logger().Error("judging a batch", zap.String("moderation_id", call.ID), zap.Error(err))
		w.Header().Set("Retry-After", "1")
		return call.Problem(w, r, problem.New(problem.ClassifierUnavailable,
			"The texts could not be judged now. Try again."))
	}
	call.SetVerdicts(&whole, results)
	m.keepForReview(ctx, call, wanted.texts, results)

	buffer := buffers.Get().(*[]byte)
	defer release(buffer)
	*buffer = appendAnswer((*buffer)[:0], call.ID, wanted.model, results)
	header := w.Header()
	setRateLimits(header)
	header.Set("X-Moderation-Model", call.Services.Engine.Version())
	header.Set("Openai-Processing-Ms", strconv.FormatInt(max(0, m.app.Now().Sub(began).Milliseconds()), 10))
	response.SendJSON(w, r, http.StatusOK, *buffer)
	return nil
}

// keepForReview keeps those of the inputs for review for which the configuration asks. Where there are several, an
// item names the place of its input: it shares the id of the request with the others.
func (m *Moderations) keepForReview(ctx context.Context, call *access.Call, texts []string, results []engine.Result) {
	reviews := call.Services.Reviews
	var items []review.Item
	for i := range results {
		cause, kept := reviews.Cause(results[i].Recommendation)
		if !kept {
			continue
		}
		item := m.app.APIItem(cause, call.Who.Account.ID, call.ID, texts[i], &results[i])
		if len(texts) > 1 {
			item.Texts[0].Name = "/input/" + strconv.Itoa(i)
		}
		items = append(items, item)
	}
	reviews.KeepAll(ctx, items, "")
}

// read reads the body and decodes it.
func (m *Moderations) read(w http.ResponseWriter, r *http.Request) (request, *failure) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return request{}, failureOf(problem.New(problem.MethodNotAllowed, "The method must be POST."))
	}
	// Scripts send no type, and can only mean this one.
	if err := body.CheckJSON(r); err != nil && !errors.Is(err, body.ErrMissingType) {
		return request{}, failureOf(body.Problem(w.Header(), err))
	}
	buffer, err := body.Read(w, r, m.MaxBody, time.Duration(m.BodyTimeout))
	if err != nil {
		return request{}, failureOf(body.Problem(w.Header(), err))
	}
	defer buffer.Release()
	return decode(buffer.Bytes(), limits{inputs: m.MaxInputs, characters: m.MaxCharacters})
}

// highest returns a result with the highest probability of each category, and the tokens of all. Its blocked parts
// lie in different texts: it is only asked whether there are any.
func highest(results []engine.Result) (whole engine.Result) {
	for i := range results {
		whole.TokensUsed += results[i].TokensUsed
		whole.Blocked = append(whole.Blocked, results[i].Blocked...)
		whole.OtherLanguage = whole.OtherLanguage || results[i].OtherLanguage
		whole.Least = cmp.Or(whole.Least, results[i].Least)
		for c := range results[i].Categories {
			whole.Categories[c].Probability = max(whole.Categories[c].Probability, results[i].Categories[c].Probability)
		}
	}
	return whole
}

// setRateLimits reports what remains of the minute in the fields that clients of this interface read. The numbers are
// those of the fields that package access has set; an account without a limit has none.
func setRateLimits(header http.Header) {
	for _, name := range []string{"Limit", "Remaining"} {
		if values := header["X-Ratelimit-"+name]; values != nil {
			header["X-Ratelimit-"+name+"-Requests"] = values
		}
	}
	if seconds, err := strconv.Atoi(header.Get("X-Ratelimit-Reset")); err == nil {
		// A duration as Go writes it: 12s, 1m0s.
		header.Set("X-Ratelimit-Reset-Requests", (time.Duration(seconds) * time.Second).String())
	}
}

// UnmarshalCaddyfile sets up the module from Caddyfile tokens. Syntax:
//
//	moderation_openai [<matcher>] {
//		max_inputs     <n>
//		max_characters <n>
//		max_body       <size>
//		body_timeout   <duration>
//		cors_origins   <origin>...
//	}
func (m *Moderations) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the directive's name
	allowed := m.Options()
	allowed["cors_origins"] = cors.Option(&m.CORSOrigins)
	return options.Block(d, "moderation_openai", allowed)
}

// Options returns the Caddyfile options of the operation itself, for directives that have a block for them.
func (m *Moderations) Options() map[string]options.Option {
	const number = "a whole number of 1 or more"
	whole := func(text string) (uint64, error) { return strconv.ParseUint(text, 10, 64) }
	return map[string]options.Option{
		"max_inputs":     positive(&m.MaxInputs, "<n>", number, whole),
		"max_characters": positive(&m.MaxCharacters, "<n>", number, whole),
		"max_body":       positive(&m.MaxBody, "<size>", "a size such as 2MiB", humanize.ParseBytes),
		"body_timeout":   options.Duration(&m.BodyTimeout),
	}
}

// positive returns an option whose argument is a number of 1 or more, because none of the limits can be switched off.
// parse parses the number, and what describes it in errors.
func positive(dst *int64, syntax, what string, parse func(text string) (uint64, error)) options.Option {
	return options.Option{Parse: func(d *caddyfile.Dispenser) error {
		name := d.Val()
		args, err := options.Args(d, syntax)
		if err != nil {
			return err
		}
		value, err := parse(args[0])
		if err != nil || value < 1 || value > math.MaxInt64 {
			return d.Errf("%s is '%s'; it must be %s", name, args[0], what)
		}
		*dst = int64(value)
		return nil
	}}
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Moderations)(nil)
	_ caddy.Validator             = (*Moderations)(nil)
	_ caddyfile.Unmarshaler       = (*Moderations)(nil)
	_ caddyhttp.MiddlewareHandler = (*Moderations)(nil)
)
