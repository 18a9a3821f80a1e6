// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"cmp"
	"net/http"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/extract"
	"github.com/caddy-moderation/caddy-moderation/caddymod/metrics"
	"github.com/caddy-moderation/caddy-moderation/engine"
	"github.com/caddy-moderation/caddy-moderation/engine/language"
)

// report counts and logs what became of a message, and emits an event for what was flagged.
func report(
	a *app.App, logger *zap.Logger, direction metrics.Direction,
	r *http.Request, id string, v *verdict, outcome metrics.GuardOutcome, counts *metrics.Guarded,
) {
	counts.Count(r.Host, outcome, v.Flags())
	a.Metrics().Guard(direction, outcome, v.Flags(), v.took)
	if v.status == Judged {
		tag := cmp.Or(v.Language, language.Undetermined)
		a.Metrics().Language(engine.Language{Tag: tag, Supported: a.Engine().SupportsLanguage(tag)})
	}
	if v.status == Failed {
		a.Metrics().GuardError(direction, v.reason)
		counts.Error(r.Host, v.reason)
	}
	if v.Flagged {
		a.Emit(app.FlaggedEvent, func() map[string]any {
			return map[string]any{
				"id": id, "recommendation": string(v.Recommendation), "confidence": v.Confidence,
				"categories": v.Flags(), "action": string(v.action),
			}
		})
	}
	logVerdict(logger, string(direction), r, id, v)
}

// outcomeOf returns what became of a message, for the metrics.
func outcomeOf(v *verdict) metrics.GuardOutcome {
	shadow := v.action == shadowed
	switch {
	case v.Recommendation == engine.Reject && shadow:
		return metrics.GuardShadowReject
	case v.Recommendation == engine.Reject:
		return metrics.GuardReject
	case v.status == Failed && v.action == refused &&
		(v.reason == extract.ReasonTooLarge || v.reason == extract.ReasonTooLong):
		return metrics.GuardTooLarge
	case v.status == Failed && v.action == refused:
		return metrics.GuardErrorRefused
	case v.status == Failed:
		return metrics.GuardErrorPassed
	case v.status == Skipped:
		return metrics.GuardSkipped
	case v.status == Nothing:
		return metrics.GuardNothing
	case v.Recommendation == engine.Review && shadow:
		return metrics.GuardShadowReview
	case v.Recommendation == engine.Review:
		return metrics.GuardReview
	}
	return metrics.GuardApprove
}

// logVerdict logs a verdict other than approval. It logs neither text nor the query of the URL, which may hold text.
func logVerdict(logger *zap.Logger, what string, r *http.Request, id string, v *verdict) {
	var message string
	level := zapcore.InfoLevel
	switch {
	case v.status == Failed:
		level, message = zapcore.WarnLevel, "could not judge a "+what
	case v.Recommendation == engine.Reject && v.action == shadowed:
		message = "would reject a " + what
	case v.Recommendation == engine.Reject:
		message = "rejected a " + what
	case v.Recommendation == engine.Review && v.action == shadowed:
		message = "would have a " + what + " reviewed"
	case v.Recommendation == engine.Review:
		message = "a " + what + " should be reviewed"
	default:
		return
	}
	entry := logger.Check(level, message)
	if entry == nil {
		return
	}
	entry.Write(
		zap.String("moderation_id", id), zap.String("method", r.Method),
		zap.String("host", r.Host), zap.String("path", r.URL.Path),
		zap.Inline(zapcore.ObjectMarshalerFunc(func(log zapcore.ObjectEncoder) error {
			v.log(log, "moderation_")
			return nil
		})))
}
