// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Command goopenai calls the service with github.com/sashabaranov/go-openai. This client sends one text, and repeats
// nothing.
package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/sashabaranov/go-openai"

	"github.com/caddy-moderation/caddy-moderation/scripts/clients/gocompat/harness"
)

func ask(ctx context.Context, base, key string, request openai.ModerationRequest) (openai.ModerationResponse, error) {
	config := openai.DefaultConfig(key)
	config.BaseURL = base
	return openai.NewClientWithConfig(config).Moderations(ctx, request)
}

// refused returns an error unless err is what the client makes of a refusal.
func refused(err error, status int, code string) error {
	var failure *openai.APIError
	if !errors.As(err, &failure) {
		return fmt.Errorf("got %v, want an *openai.APIError", err)
	}
	if failure.HTTPStatusCode != status || failure.Code != code || failure.Type == "" || failure.Message == "" {
		return fmt.Errorf("got %d %v (%q: %q), want %d %q", failure.HTTPStatusCode, failure.Code, failure.Type,
			failure.Message, status, code)
	}
	return nil
}

func main() {
	base := harness.Service + "/v1"
	fine, vile := openai.ModerationRequest{Input: harness.Fine}, openai.ModerationRequest{Input: harness.Vile}
	harness.Check("a text is judged", func(ctx context.Context) error {
		answer, err := ask(ctx, base, harness.KeyOpen, vile)
		if err != nil {
			return err
		}
		if !strings.HasPrefix(answer.ID, "modr-") || len(answer.Results) != 1 || !answer.Results[0].Flagged ||
			!answer.Results[0].Categories.Violence || answer.Results[0].CategoryScores.Violence < 0.5 {
			return fmt.Errorf("the answer is %+v", answer)
		}
		return nil
	})
	harness.Check("the model is taken and told back", func(ctx context.Context) error {
		answer, err := ask(ctx, base, harness.KeyOpen,
			openai.ModerationRequest{Input: harness.Fine, Model: openai.ModerationTextStable})
		if err != nil {
			return err
		}
		if answer.Model != openai.ModerationTextStable || len(answer.Results) != 1 || answer.Results[0].Flagged {
			return fmt.Errorf("the answer is %+v", answer)
		}
		return nil
	})
	harness.Check("an address with a slash too many works, too", func(ctx context.Context) error {
		_, err := ask(ctx, base+"/", harness.KeyOpen, fine)
		return err
	})
	harness.Check("no text is an error", func(ctx context.Context) error {
		_, err := ask(ctx, base, harness.KeyOpen, openai.ModerationRequest{}) // this client leaves an empty text out
		var failure *openai.APIError
		if !errors.As(err, &failure) || failure.HTTPStatusCode != 400 || failure.Param == nil ||
			*failure.Param != "input" {
			return fmt.Errorf("got %v", err)
		}
		return nil
	})
	harness.Check("an unknown key is an error", func(ctx context.Context) error {
		_, err := ask(ctx, base, harness.KeyUnknown, fine)
		return refused(err, 401, "invalid_api_key")
	})
	harness.Check("the minute's limit is an error that says what is left", func(ctx context.Context) error {
		harness.SameMinute()
		answer, err := ask(ctx, base, harness.KeySmall, fine)
		if err != nil {
			return err
		}
		limits := answer.GetRateLimitHeaders()
		if reset := limits.ResetRequests.Time(); limits.LimitRequests != 1 || limits.RemainingRequests != 0 ||
			reset.IsZero() {
			return fmt.Errorf("the limits are %+v", limits)
		}
		_, err = ask(ctx, base, harness.KeySmall, fine)
		return refused(err, 429, "rate_limit_exceeded")
	})
	harness.Check("a month that is used up is an error", func(ctx context.Context) error {
		_, err := ask(ctx, base, harness.KeySpent, fine)
		return refused(err, 429, "insufficient_quota")
	})
}
