// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package tracing adds the steps of this service to the trace of a request that Caddy's directive tracing has begun.
// Where no trace is recorded, it costs a look into the request's context and allocates nothing.
//
// Spans never hold text, keys, or the names and ids of accounts: traces often go to another company. The id of the
// request leads to the account in the access log.
package tracing

import (
	"context"
	"errors"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/version"
	"github.com/caddy-moderation/caddy-moderation/engine"
)

// The names of the spans.
const (
	// Authenticate finds the account of a key.
	Authenticate = "moderation.authenticate"
	// Charge counts a request in the limits of its account.
	Charge = "moderation.charge"
	// Read reads the body of a request.
	Read = "moderation.read"
	// Extract reads the body of a message and finds the texts in it.
	Extract = "moderation.extract"
	// Moderate is what a guard does with the texts of a message: charge, classify and decide.
	Moderate = "moderation.moderate"
	// Classify classifies texts. For the API it includes the decision.
	Classify = "moderation.classify"
	// Decide is what a guard recommends by its policy.
	Decide = "moderation.decide"
	// Settle makes a charge durable before the answer goes out.
	Settle = "moderation.settle"
	// Upload is the time in which the rest of a large upload is moderated while it flows to the app.
	Upload = "moderation.upload"
	// Stream is the time in which a streamed answer is moderated while it flows to the client.
	Stream = "moderation.stream"
	// Forward is the answer of another service, whose scores are compared.
	Forward = "moderation.forward"
	// Compare classifies the texts of an exchange with another service.
	Compare = "moderation.compare"
)

// scope names this project as the one that makes the spans.
const scope = "github.com/caddy-moderation/caddy-moderation"

// Span is a step in the trace of a request. The zero value records nothing. It is not safe for concurrent use.
type Span struct{ span trace.Span }

// Start begins a step of the request whose context is given, and returns the context for what belongs to the step. The
// caller ends the span.
func Start(ctx context.Context, name string) (context.Context, Span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, Span{}
	}
	tracer := parent.TracerProvider().Tracer(scope, trace.WithInstrumentationVersion(version.Version()))
	ctx, span := tracer.Start(ctx, name)
	return ctx, Span{span}
}

// ID adds the id of the request, which the answer, the log and errors carry, too.
func (s Span) ID(id string) {
	if s.span != nil {
		s.span.SetAttributes(attribute.String("moderation.id", id))
	}
}

// Direction adds whether a guard moderates a request or a response.
func (s Span) Direction(direction string) {
	if s.span != nil {
		s.span.SetAttributes(attribute.String("moderation.direction", direction))
	}
}

// Count adds a number, of requests or bytes for example.
func (s Span) Count(what string, n int64) {
	if s.span != nil {
		s.span.SetAttributes(attribute.Int64("moderation."+what, n))
	}
}

// Texts adds how many texts there are, and their characters together.
func Texts[T any](s Span, texts []T, text func(*T) string) {
	if s.span == nil {
		return
	}
	characters := 0
	for i := range texts {
		characters += utf8.RuneCountInString(text(&texts[i]))
	}
	s.span.SetAttributes(attribute.Int("moderation.texts", len(texts)), attribute.Int("moderation.characters", characters))
}

// Text adds the characters of one text.
func (s Span) Text(text string) {
	if s.span != nil {
		s.span.SetAttributes(attribute.Int("moderation.characters", utf8.RuneCountInString(text)))
	}
}

// Verdict adds what was decided. The recommendation is empty where there is none.
func (s Span) Verdict(flagged bool, recommendation engine.Recommendation) {
	if s.span == nil {
		return
	}
	s.span.SetAttributes(attribute.Bool("moderation.flagged", flagged))
	if recommendation != "" {
		s.span.SetAttributes(attribute.String("moderation.recommendation", string(recommendation)))
	}
}

// Classified adds what the classifier says, or that it has failed, and ends the step.
func (s Span) Classified(result *engine.Result, err error) {
	switch {
	case s.span == nil:
		return
	case errors.Is(err, context.Canceled):
		s.Refuse("canceled", false) // the client has left
	case err != nil:
		s.Refuse("classifier", true)
	default:
		s.Verdict(result.Flagged, result.Recommendation)
		s.Count("tokens", int64(result.TokensUsed))
	}
	s.End()
}

// Refuse adds why a step refuses the request: the code of a problem or another word that is not the client's. Where the
// service is to blame, the span has failed.
func (s Span) Refuse(reason string, failed bool) {
	if s.span == nil {
		return
	}
	s.span.SetAttributes(attribute.String("error.type", reason))
	if failed {
		s.span.SetStatus(codes.Error, reason)
	}
}

// End ends the step.
func (s Span) End() {
	if s.span != nil {
		s.span.End()
	}
}
