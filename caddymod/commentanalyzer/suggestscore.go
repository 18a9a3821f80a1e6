// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package commentanalyzer serves the Perspective API: requests, answers and errors are those that its clients expect.
package commentanalyzer

import (
	"context"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/caddymod/access"
	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/body"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/cors"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/directive"
	"github.com/caddy-moderation/caddy-moderation/caddymod/metrics"
	"github.com/caddy-moderation/caddy-moderation/caddymod/options"
	"github.com/caddy-moderation/caddy-moderation/caddymod/problem"
	"github.com/caddy-moderation/caddy-moderation/engine"
	"github.com/caddy-moderation/caddy-moderation/feedback"
	"github.com/caddy-moderation/caddy-moderation/review"
)

func init() {
	caddy.RegisterModule(new(SuggestScore))
	directive.Handler[SuggestScore]("moderation_suggestscore")
	httpcaddyfile.RegisterDirectiveOrder("moderation_suggestscore", httpcaddyfile.Before, "respond")
}

// SuggestScorePath is the end of the path that [SuggestScore] answers.
const SuggestScorePath = "/v1alpha1/comments:suggestscore"

const (
	// maxSuggestScoreBody is the size, in bytes, of the largest body. It leaves room for escapes; the store bounds
	// what is kept.
	maxSuggestScoreBody = 256 << 10
	// bodyTimeout is the time that a body may take to arrive.
	bodyTimeout = 30 * time.Second
)

// SuggestScore is a handler that accepts corrections: the scores that a comment should have had in a person's opinion.
// It answers POST requests whose path ends in /v1alpha1/comments:suggestscore and passes every other path on.
//
// The key may be in the query parameter "key", in the header Authorization: Bearer or in X-Goog-Api-Key. Requests count
// towards no limit. The app's feedback option limits what an account may store per UTC day. The answer is sent once the
// record survives a loss of power.
//
// Errors have the format that clients of Google's APIs parse.
type SuggestScore struct {
	// The origins, such as "https://www.example.com", whose pages may call the service from a browser; "*" allows all
	// origins. Default: none.
	CORSOrigins cors.Origins `json:"cors_origins,omitempty"`

	app    *app.App
	access access.Middleware
}

// CaddyModule returns the Caddy module information.
func (*SuggestScore) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.moderation_suggestscore",
		New: func() caddy.Module { return new(SuggestScore) },
	}
}

// Provision finds the app.
func (s *SuggestScore) Provision(ctx caddy.Context) error {
	owner, err := app.LoadWithStore(ctx)
	if err != nil {
		return err
	}
	s.app = owner
	s.access = access.Middleware{
		App:       owner,
		Operation: metrics.SuggestScore,
		Sources:   access.Sources{Query: true, GoogleHeader: true},
		Free:      true,
		Problem:   WriteProblem,
	}
	return nil
}

// Validate checks the configuration.
func (s *SuggestScore) Validate() error { return s.CORSOrigins.Validate() }

// ServeHTTP accepts a correction.
func (s *SuggestScore) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	// The path is decoded: some clients send the colon as %3A.
	if !strings.HasSuffix(r.URL.Path, SuggestScorePath) {
		return next.ServeHTTP(w, r)
	}
	if s.CORSOrigins.Serve(w, r) {
		return nil
	}
	return s.access.Serve(w, r, s.handle)
}

// handle answers an authenticated call.
func (s *SuggestScore) handle(w http.ResponseWriter, r *http.Request, call *access.Call) error {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return call.Problem(w, r, problem.New(problem.MethodNotAllowed, "The method must be POST."))
	}
	wanted, failed, err := read(w, r)
	switch {
	case err != nil:
		return call.Problem(w, r, body.Problem(w.Header(), err))
	case failed != nil:
		failed.write(w, r, call.ID)
		return nil
	}
	scores, err := call.Services.Engine.Classify(r.Context(), wanted.text)
	if err != nil && r.Context().Err() != nil {
		return gone(w)
	}
	if err != nil {
		s.app.Logger().Error("scoring a comment", zap.String("moderation_id", call.ID), zap.Error(err))
		w.Header().Set("Retry-After", "1")
		return call.Problem(w, r, problem.New(problem.ClassifierUnavailable,
			"The classifier cannot answer now. Try again."))
	}
	record, err := s.record(call, wanted, &scores)
	if err != nil {
		s.app.Logger().Error("making a feedback record", zap.String("moderation_id", call.ID), zap.Error(err))
		return call.Problem(w, r, problem.New(problem.InternalError, ""))
	}
	err = call.Services.Store.AppendFeedback(r.Context(), record, call.Services.FeedbackBound)
	switch {
	case err == nil:
		s.keepForReview(r.Context(), call, wanted)
		writeJSON(w, r, http.StatusOK, suggestScoreResponse{ClientToken: wanted.clientToken})
		return nil
	case errors.Is(err, feedback.ErrTooLarge):
		tooLarge(wanted).write(w, r, call.ID)
		return nil
	case errors.Is(err, feedback.ErrBound):
		call.CountRefusal(problem.FeedbackBoundReached)
		boundReached(w, record.Time, call.Services.FeedbackBound).write(w, r, call.ID)
		return nil
	case r.Context().Err() != nil:
		return gone(w)
	}
	return call.Unavailable(w, r, "keeping feedback", err)
}

// keepForReview keeps the comment for review, with what was suggested, if the configuration asks for it.
func (s *SuggestScore) keepForReview(ctx context.Context, call *access.Call, wanted *suggestion) {
	reviews := call.Services.Reviews
	if !reviews.Corrections() {
		return
	}
	result, err := call.Services.Engine.Moderate(ctx, call.Judging(wanted.text))
	if err != nil {
		if ctx.Err() == nil {
			s.app.Logger().Error("judging a comment", zap.String("moderation_id", call.ID), zap.Error(err))
		}
		return
	}
	item := s.app.APIItem(review.Corrected, call.Who.Account.ID, call.ID, wanted.text, &result)
	item.Suggested = suggestedScores(wanted.scores)
	item.Context = contextTexts(wanted.context)
	reviews.Keep(ctx, item, "")
}

// maxSuggested is how many suggested scores a reviewer is shown.
const maxSuggested = 32

// suggestedScores returns the scores that were suggested for the whole comment.
func suggestedScores(scores map[string]feedback.AttributeScore) map[string]float64 {
	suggested := map[string]float64{}
	for _, name := range slices.Sorted(maps.Keys(scores)) {
		if summary := scores[name].Summary; summary != nil && len(name) <= 100 && len(suggested) < maxSuggested {
			suggested[name] = summary.Value
		}
	}
	return suggested
}

// contextTexts returns the texts of a context object: those of its entries.
func contextTexts(object feedback.RawJSON) (texts []string) {
	var sent struct {
		Entries []struct {
			Text string `json:"text"`
		} `json:"entries"`
	}
	if len(object) == 0 || stdjson.Unmarshal(object, &sent) != nil {
		return nil
	}
	for _, entry := range sent.Entries {
		if text := strings.TrimSpace(strings.ToValidUTF8(entry.Text, "\uFFFD")); text != "" {
			texts = append(texts, text)
		}
	}
	return texts
}

// gone ends the call of a client that has left. Nobody receives the answer; the status is for the access log. It is not
// returned as an error, because Caddy's error log has the address of the request, which may hold the key.
func gone(w http.ResponseWriter) error {
	w.WriteHeader(499)
	return nil
}

// suggestScoreResponse is the whole answer. An absent or empty token makes it an empty object.
type suggestScoreResponse struct {
	ClientToken string `json:"clientToken,omitempty"`
}

// read reads and decodes the correction. err is an error of package body; failed says what is wrong with the content
// of the body.
func read(w http.ResponseWriter, r *http.Request) (wanted *suggestion, failed *failure, err error) {
	buffer, err := readBody(w, r, maxSuggestScoreBody)
	if err != nil {
		return nil, nil, err
	}
	defer buffer.Release()
	wanted, failed = decode(buffer.Bytes())
	return wanted, failed, nil
}

// readBody reads a JSON body of at most limit bytes. The error is one of package body.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) (*body.Buffer, error) {
	// Old clients and scripts send no type, and pages that call fetch with a string send text/plain. All of them can
	// only mean JSON.
	if err := body.CheckJSON(r); err != nil && !errors.Is(err, body.ErrMissingType) && !isPlainText(r) {
		return nil, err
	}
	return body.Read(w, r, limit, bodyTimeout)
}

// isPlainText reports whether Content-Type says plain text in UTF-8.
func isPlainText(r *http.Request) bool {
	switch strings.ToLower(strings.ReplaceAll(r.Header.Get("Content-Type"), " ", "")) {
	case "text/plain", "text/plain;charset=utf-8":
		return len(r.Header["Content-Type"]) == 1
	}
	return false
}

// record returns the record that is kept: the correction and the present scores of the model.
func (s *SuggestScore) record(call *access.Call, wanted *suggestion, scores *engine.Scores) (feedback.Record, error) {
	now := call.Services.Now().UTC()
	id, err := feedback.NewID(now, s.app.Random())
	if err != nil {
		return feedback.Record{}, err
	}
	return feedback.Record{
		ID:           id,
		Time:         now,
		Account:      call.Who.Account.ID,
		Key:          call.Who.Key.ID,
		Text:         wanted.text,
		Scores:       wanted.scores,
		ModelVersion: call.Services.Engine.Version(),
		ModelScores:  modelScores(scores),
		Community:    wanted.community,
		Session:      wanted.session,
		Languages:    wanted.languages,
		ClientToken:  wanted.clientToken,
		Context:      wanted.context,
	}, nil
}

// modelScores returns the scores by name, rounded to six decimals: more would say nothing and take room in every
// record.
func modelScores(scores *engine.Scores) map[string]float64 {
	named := make(map[string]float64, engine.NumAttributes+engine.NumCategories)
	for i, score := range scores.Attributes {
		named[engine.Attribute(i).String()] = math.Round(score*1e6) / 1e6
	}
	for i, score := range scores.Categories {
		named[engine.Category(i).String()] = math.Round(score*1e6) / 1e6
	}
	return named
}

// tooLarge returns the error for a correction that is too large for the store.
func tooLarge(wanted *suggestion) *failure {
	detail := fmt.Sprintf("The comment with its scores and its context is too large to be kept; "+
		"together they may have %d bytes.", feedback.MaxRecordBytes)
	errorType := invalidRequest
	if len(wanted.text) > feedback.MaxRecordBytes {
		detail = fmt.Sprintf("Comment text too long. It may have less than %d bytes.", feedback.MaxRecordBytes)
		errorType = commentTooLong
	}
	return &failure{code: problem.BodyTooLarge, message: detail, errorType: errorType}
}

// boundReached returns the error for an account that has stored as much as it may today.
func boundReached(w http.ResponseWriter, now time.Time, bound feedback.Bound) *failure {
	tomorrow := time.Date(now.Year(), now.Month(), now.Day()+1, 0, 0, 0, 0, time.UTC)
	wait := max(1, int64(math.Ceil(tomorrow.Sub(now).Seconds())))
	w.Header().Set("Retry-After", fmt.Sprint(wait))
	return &failure{
		code: problem.FeedbackBoundReached,
		message: "The account has stored as much feedback as it may on one day. Nothing was stored. " +
			"The next day starts at 00:00 UTC.",
		retryAfter: wait,
		metadata:   boundMetadata(bound),
	}
}

// boundMetadata describes the bounds for programs.
func boundMetadata(bound feedback.Bound) map[string]string {
	metadata := map[string]string{"quota_metric": "feedback_per_day"}
	if bound.Records > 0 {
		metadata["quota_limit_records"] = fmt.Sprint(bound.Records)
	}
	if bound.Bytes > 0 {
		metadata["quota_limit_bytes"] = fmt.Sprint(bound.Bytes)
	}
	return metadata
}

// UnmarshalCaddyfile sets up the module from Caddyfile tokens. Syntax:
//
//	moderation_suggestscore [<matcher>] {
//		cors_origins <origin>...
//	}
func (s *SuggestScore) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the directive's name
	return options.Block(d, "moderation_suggestscore", map[string]options.Option{
		"cors_origins": cors.Option(&s.CORSOrigins),
	})
}

// Interface guards
var (
	_ caddy.Provisioner           = (*SuggestScore)(nil)
	_ caddy.Validator             = (*SuggestScore)(nil)
	_ caddyfile.Unmarshaler       = (*SuggestScore)(nil)
	_ caddyhttp.MiddlewareHandler = (*SuggestScore)(nil)
)
