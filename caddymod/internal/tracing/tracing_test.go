// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package tracing_test

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/tracing"
	"github.com/caddy-moderation/caddy-moderation/engine"
)

// TestNothingCostsNothing guards against memory for requests of which no trace is recorded: there is none, or the
// sampler has left it out.
func TestNothingCostsNothing(t *testing.T) { // not in parallel: AllocsPerRun counts for the whole process
	sampledOut := trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1},
	}))
	type key struct{}
	for name, ctx := range map[string]context.Context{
		"no trace": context.WithValue(context.Background(), key{}, 1), "sampled out": sampledOut,
	} {
		texts, result := []string{"a text"}, new(engine.Result)
		allocations := testing.AllocsPerRun(100, func() {
			below, span := tracing.Start(ctx, tracing.Classify)
			if below != ctx {
				t.Errorf("%s: got another context, want the same", name)
			}
			span.ID("mod_x")
			span.Direction("request")
			span.Count("requests", 1)
			tracing.Texts(span, texts, func(text *string) string { return *text })
			span.Text("a text")
			span.Verdict(true, engine.Reject)
			span.Refuse("quota", true)
			span.Classified(result, nil)
			span.End()
		})
		if allocations != 0 {
			t.Errorf("%s: got %v allocations, want none", name, allocations)
		}
	}
}
