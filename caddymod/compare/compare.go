// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package compare sits between a scoring service that a site intends to leave and its clients. Clients get that
// service's answers, as before; the log and the metrics show how far the classifier of this server agrees with them.
//
// compare.go forwards and compares, forward.go decides what the other service gets, messages.go keeps copies of the
// request and the answer, and shapes.go and scores.go understand them.
package compare

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/caddy-moderation/caddy-moderation/caddymod/access"
	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/response"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/sampled"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/tracing"
	"github.com/caddy-moderation/caddy-moderation/caddymod/metrics"
	"github.com/caddy-moderation/caddy-moderation/engine"
)

func init() {
	caddy.RegisterModule(new(Compare))
}

// Compare is a handler that forwards requests to another service, returns its answer, and then classifies the same text
// itself. It shows a site, on the site's own traffic, what would change if it moved to this service. Compare
// understands the Perspective API (comments:analyze) and OpenAI's moderation endpoint (/v1/moderations); it forwards
// everything else without comparing it. It compares with the scores that moderation_analyze and moderation_openai give
// by default.
//
// The other service gets the path, the body and the header fields that describe it, its own credentials (Authorization:
// Bearer, X-Goog-Api-Key and the parameter key, but no key of this server), and nothing else: no cookie, no client
// address, no other header field or parameter.
//
// Each comparison writes a line to the log, with both scores of each attribute, and is counted in the metrics
// caddy_moderation_compare_total (by attribute, threshold, and whether both, one or neither of the two are above it)
// and caddy_moderation_compare_difference. Neither holds text or a key. The text is classified after the client has its
// answer, and counts towards no account's usage.
type Compare struct {
	// The handler that forwards requests, a reverse_proxy. Required.
	ProxyRaw json.RawMessage `json:"proxy,omitempty" caddy:"namespace=http.handlers inline_key=handler"`
	// The thresholds at which agreement is counted, at most 10, each greater than 0 and less than 1. Default: 0.5,
	// 0.7, 0.8 and 0.9.
	Thresholds []float64 `json:"thresholds,omitempty"`

	app    *app.App
	logger *zap.Logger
	proxy  caddyhttp.MiddlewareHandler
	// prefixes are the beginnings of the keys of this server, in lower case.
	prefixes []string
}

// CaddyModule returns the Caddy module information.
func (*Compare) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.moderation_compare",
		New: func() caddy.Module { return new(Compare) },
	}
}

// maxThresholds is the maximum number of thresholds. It bounds the labels of the metrics.
const maxThresholds = 10

// Provision loads the handler that forwards, fills in the defaults and checks the thresholds.
func (c *Compare) Provision(ctx caddy.Context) (err error) {
	if c.app, err = app.Load(ctx); err != nil {
		return err
	}
	c.logger = sampled.Logger(ctx.Logger())
	if c.ProxyRaw == nil {
		return fmt.Errorf("the address of the other service is missing")
	}
	module, err := ctx.LoadModule(c, "ProxyRaw")
	if err != nil {
		return fmt.Errorf("loading the proxy: %w", err)
	}
	proxy, ok := module.(caddyhttp.MiddlewareHandler)
	if !ok {
		return fmt.Errorf("the module %T cannot forward requests", module)
	}
	if known, ok := proxy.(*reverseproxy.Handler); ok {
		if err := hideClient(ctx, known); err != nil {
			return err
		}
	}
	c.proxy, c.prefixes = proxy, keyPrefixes(c.app.KeyPrefix)
	if len(c.Thresholds) == 0 {
		c.Thresholds = []float64{0.5, 0.7, 0.8, 0.9}
	}
	return checkThresholds(c.Thresholds)
}

// checkThresholds returns an error for thresholds that cannot be counted at.
func checkThresholds(thresholds []float64) error {
	if len(thresholds) > maxThresholds {
		return fmt.Errorf("%d thresholds are given; at most %d are possible", len(thresholds), maxThresholds)
	}
	for i, threshold := range thresholds {
		if !(threshold > 0 && threshold < 1) {
			return fmt.Errorf("threshold %v is out of range; it must be greater than 0 and less than 1", threshold)
		}
		if slices.Contains(thresholds[:i], threshold) {
			return fmt.Errorf("threshold %v is given twice", threshold)
		}
	}
	return nil
}

// ServeHTTP forwards the request, and compares the answer.
func (c *Compare) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	shape := shapeOf(r)
	forwarded := c.forwarded(r)
	if shape == nil {
		return c.proxy.ServeHTTP(w, forwarded, next)
	}
	sent := &kept{}
	forwarded.Body = sent.tee(r.Body)
	encodings := r.Header["Content-Encoding"]
	answer := &recorder{Writer: response.Observe(w)}
	_, span := tracing.Start(r.Context(), tracing.Forward)
	err := c.proxy.ServeHTTP(answer, forwarded, next)
	span.Count("status", int64(answer.Status()))
	if err != nil {
		span.Refuse("upstream", true)
	}
	span.End()
	if err != nil {
		return err
	}
	// The client has its whole answer now. What follows cannot change it.
	_ = http.NewResponseController(w).Flush()
	c.compare(r, shape, sent.decoded(encodings), answer)
	return nil
}

// compare classifies the texts of a request and compares the scores with those of the answer.
func (c *Compare) compare(r *http.Request, s *shape, request []byte, answer *recorder) {
	if answer.Status() != http.StatusOK {
		c.app.Metrics().Compare(metrics.CompareUpstreamFailed)
		return
	}
	exchanges, err := s.decode(request, answer.body.decoded(answer.Header()["Content-Encoding"]))
	if err != nil || len(exchanges) == 0 {
		c.app.Metrics().Compare(metrics.CompareUnread)
		c.logger.Warn("an exchange could not be compared",
			zap.String("path", r.URL.Path), zap.NamedError("reason", err))
		return
	}
	ctx, span := tracing.Start(r.Context(), tracing.Compare)
	defer span.End()
	// A client that has its answer may leave, which cancels the request.
	ctx = context.WithoutCancel(ctx)
	id := access.IDOf(ctx, c.app)
	span.ID(id)
	tracing.Texts(span, exchanges, func(one *exchange) string { return one.text })
	score := s.scorer(c.app.Engine().Version())
	share := 0.0
	if s.shifted {
		share = c.app.HarmShareOf(nil)
	}
	for _, one := range exchanges {
		result, err := c.app.Engine().Moderate(ctx, engine.Request{Content: one.text, HarmShare: share})
		if err != nil {
			c.app.Metrics().Compare(metrics.CompareUnread)
			continue
		}
		c.app.Metrics().Compare(metrics.Compared)
		pairs := one.pairs(score, &result)
		for _, pair := range pairs {
			c.app.Metrics().CompareScore(pair.name, math.Abs(pair.ours-pair.theirs))
			for _, threshold := range c.Thresholds {
				c.app.Metrics().CompareThreshold(pair.name, threshold, pair.theirs >= threshold, pair.ours >= threshold)
			}
		}
		c.logger.Info("compared", zap.String("moderation_id", id), zap.Int("characters", len([]rune(one.text))),
			zap.Object("theirs", scores{pairs, func(p pair) float64 { return p.theirs }}),
			zap.Object("ours", scores{pairs, func(p pair) float64 { return p.ours }}))
	}
}

// pair is the scores of two services for one attribute of a text.
type pair struct {
	name         string
	theirs, ours float64
}

// scores writes the scores of one service to the log.
type scores struct {
	pairs []pair
	side  func(pair) float64
}

// MarshalLogObject adds a field for each score.
func (s scores) MarshalLogObject(log zapcore.ObjectEncoder) error {
	for _, pair := range s.pairs {
		log.AddFloat64(pair.name, math.Round(s.side(pair)*1e6)/1e6)
	}
	return nil
}

// maxMessage is the size, in bytes, of the largest message that is compared, as it is sent and as it is decoded.
// Larger ones are only forwarded.
const maxMessage = 2 << 20

// Interface guards
var (
	_ caddy.Provisioner           = (*Compare)(nil)
	_ caddyhttp.MiddlewareHandler = (*Compare)(nil)
)
