// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Command commentanalyzer calls the service with Google's generated client of the Perspective API.
package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	commentanalyzer "google.golang.org/api/commentanalyzer/v1alpha1"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"

	"github.com/caddy-moderation/caddy-moderation/scripts/clients/gocompat/harness"
)

const (
	google   = "" // the address's end: the service at its root
	withPath = "/api/perspective"
)

func newClient(ctx context.Context, path, key string) (*commentanalyzer.CommentsService, error) {
	service, err := commentanalyzer.NewService(ctx, option.WithEndpoint(harness.Service+path), option.WithAPIKey(key))
	if err != nil {
		return nil, err
	}
	return service.Comments, nil
}

// toxicity asks for the attribute with its defaults.
func toxicity(text string) *commentanalyzer.AnalyzeCommentRequest {
	return &commentanalyzer.AnalyzeCommentRequest{
		Comment:             &commentanalyzer.TextEntry{Text: text},
		RequestedAttributes: map[string]commentanalyzer.AttributeParameters{"TOXICITY": {}},
	}
}

func analyze(ctx context.Context, path, key string,
	request *commentanalyzer.AnalyzeCommentRequest) (*commentanalyzer.AnalyzeCommentResponse, error) {
	comments, err := newClient(ctx, path, key)
	if err != nil {
		return nil, err
	}
	return comments.Analyze(request).Context(ctx).Do()
}

// scored returns an error unless the whole text has a score, above a half or below.
func scored(answer *commentanalyzer.AnalyzeCommentResponse, err error, length int64, high bool) error {
	if err != nil {
		return err
	}
	scores := answer.AttributeScores["TOXICITY"]
	if scores.SummaryScore == nil || scores.SummaryScore.Type != "PROBABILITY" ||
		scores.SummaryScore.Value > 0.5 != high {
		return fmt.Errorf("the summary score is %+v", scores.SummaryScore)
	}
	if len(scores.SpanScores) == 0 || scores.SpanScores[0].Begin != 0 || scores.SpanScores[0].End != length {
		return fmt.Errorf("the span scores are %+v", scores.SpanScores)
	}
	return nil
}

// refused returns an error unless err is what Google's client makes of a refusal.
func refused(err error, status int, message, detail string) error {
	var failure *googleapi.Error
	if !errors.As(err, &failure) {
		return fmt.Errorf("got %v, want a *googleapi.Error", err)
	}
	if failure.Code != status || !strings.Contains(failure.Message, message) {
		return fmt.Errorf("got %d %q, want %d %q", failure.Code, failure.Message, status, message)
	}
	if details := fmt.Sprint(failure.Details); !strings.Contains(details, detail) {
		return fmt.Errorf("the details are %s, without %s", details, detail)
	}
	return nil
}

func main() {
	vileLength := int64(len(harness.Vile))
	harness.Check("a comment is scored", func(ctx context.Context) error {
		answer, err := analyze(ctx, google, harness.KeyOpen, toxicity(harness.Vile))
		return scored(answer, err, vileLength, true)
	})
	harness.Check("a fine comment scores low, members and languages come back", func(ctx context.Context) error {
		request := toxicity(harness.Fine)
		request.RequestedAttributes["TOXICITY"] = commentanalyzer.AttributeParameters{ScoreType: "PROBABILITY"}
		request.Languages, request.DoNotStore, request.SpanAnnotations = []string{"en"}, true, true
		request.ClientToken, request.SessionId, request.CommunityId = "token", "session", "community"
		request.Context = &commentanalyzer.Context{Entries: []*commentanalyzer.TextEntry{{Text: "What did you bake?"}}}
		answer, err := analyze(ctx, google, harness.KeyOpen, request)
		if err := scored(answer, err, int64(len(harness.Fine)), false); err != nil {
			return err
		}
		if answer.ClientToken != "token" || fmt.Sprint(answer.Languages) != "[en]" || answer.HTTPStatusCode != 200 {
			return fmt.Errorf("the answer is %+v", answer)
		}
		return nil
	})
	harness.Check("a score is suggested, a zero as well, which this client leaves out", func(ctx context.Context) error {
		comments, err := newClient(ctx, google, harness.KeyOpen)
		if err != nil {
			return err
		}
		for _, value := range []float64{0, 1} {
			answer, err := comments.Suggestscore(&commentanalyzer.SuggestCommentScoreRequest{
				Comment: &commentanalyzer.TextEntry{Text: harness.Fine},
				AttributeScores: map[string]commentanalyzer.AttributeScores{
					"TOXICITY": {SummaryScore: &commentanalyzer.Score{Type: "PROBABILITY", Value: value}},
				},
				ClientToken: "token",
			}).Context(ctx).Do()
			if err != nil {
				return err
			}
			if answer.ClientToken != "token" {
				return fmt.Errorf("the answer is %+v", answer)
			}
		}
		return nil
	})
	harness.Check("the address with a path and a slash at its end works, too", func(ctx context.Context) error {
		answer, err := analyze(ctx, withPath+"/", harness.KeyOpen, toxicity(harness.Vile))
		return scored(answer, err, vileLength, true)
	})
	harness.Check("without the slash this client calls another address, and learns it", func(ctx context.Context) error {
		_, err := analyze(ctx, withPath, harness.KeyOpen, toxicity(harness.Vile))
		return refused(err, 404, "nothing at this address", "")
	})
	for _, refusal := range []struct {
		what, key       string
		change          func(*commentanalyzer.AnalyzeCommentRequest)
		status          int
		message, detail string
	}{
		{"an empty comment is an error", harness.KeyOpen,
			func(r *commentanalyzer.AnalyzeCommentRequest) { r.Comment.Text = "" },
			400, "Comment must be non-empty.", "COMMENT_EMPTY"},
		{"a comment that is too long is an error", harness.KeyOpen,
			func(r *commentanalyzer.AnalyzeCommentRequest) { r.Comment.Text = strings.Repeat("a", 20_481) },
			400, "Comment text too long.", "COMMENT_TOO_LONG"},
		{"an unknown attribute is an error", harness.KeyOpen, func(r *commentanalyzer.AnalyzeCommentRequest) {
			r.RequestedAttributes["CHARM"] = commentanalyzer.AttributeParameters{}
		}, 400, "Unknown requested attribute: CHARM", "INVALID_REQUEST"},
		{"no attribute at all is an error", harness.KeyOpen,
			func(r *commentanalyzer.AnalyzeCommentRequest) { r.RequestedAttributes = nil },
			400, "Missing requested_attributes", "NO_REQUESTED_ATTRIBUTES"},
		{"another type of score is an error", harness.KeyOpen, func(r *commentanalyzer.AnalyzeCommentRequest) {
			r.RequestedAttributes["TOXICITY"] = commentanalyzer.AttributeParameters{ScoreType: "RAW"}
		}, 400, "Requested score type RAW is not supported by attribute TOXICITY", "INVALID_REQUEST"},
		{"a language that nobody scores is an error", harness.KeyOpen,
			func(r *commentanalyzer.AnalyzeCommentRequest) { r.Languages = []string{"eo"} },
			400, "Attribute TOXICITY does not support request languages: eo", "LANGUAGE_NOT_SUPPORTED_BY_ATTRIBUTE"},
		{"an unknown key is an error", harness.KeyUnknown, func(*commentanalyzer.AnalyzeCommentRequest) {}, 401, "key",
			"API_KEY_INVALID"},
		{"a month that is used up is an error", harness.KeySpent, func(*commentanalyzer.AnalyzeCommentRequest) {}, 429,
			"period", "RATE_LIMIT_EXCEEDED"},
	} {
		harness.Check(refusal.what, func(ctx context.Context) error {
			request := toxicity(harness.Fine)
			refusal.change(request)
			_, err := analyze(ctx, google, refusal.key, request)
			return refused(err, refusal.status, refusal.message, refusal.detail)
		})
	}
	harness.Check("the minute's limit is an error that says when to come back", func(ctx context.Context) error {
		harness.SameMinute()
		if _, err := analyze(ctx, google, harness.KeySmall, toxicity(harness.Fine)); err != nil {
			return err
		}
		_, err := analyze(ctx, google, harness.KeySmall, toxicity(harness.Fine))
		if err := refused(err, 429, "minute", "RATE_LIMIT_EXCEEDED"); err != nil {
			return err
		}
		var failure *googleapi.Error
		if errors.As(err, &failure); failure.Header.Get("Retry-After") == "" ||
			!strings.Contains(fmt.Sprint(failure.Details), "retryDelay") {
			return fmt.Errorf("the header is %v, the details are %v", failure.Header, failure.Details)
		}
		return nil
	})
}
