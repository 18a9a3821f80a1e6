// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Command openai calls the service with OpenAI's own Go client. With the argument "retry" it checks whether the
// client repeats what was refused.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/caddy-moderation/caddy-moderation/scripts/clients/gocompat/harness"
)

func ask(ctx context.Context, key string, input openai.ModerationNewParamsInputUnion,
	options ...option.RequestOption) (*openai.ModerationNewResponse, error) {
	options = append([]option.RequestOption{option.WithBaseURL(harness.Service + "/v1/"), option.WithAPIKey(key)},
		options...)
	client := openai.NewClient(options...)
	return client.Moderations.New(ctx, openai.ModerationNewParams{Input: input})
}

func text(content string) openai.ModerationNewParamsInputUnion {
	return openai.ModerationNewParamsInputUnion{OfString: openai.String(content)}
}

func texts(contents ...string) openai.ModerationNewParamsInputUnion {
	return openai.ModerationNewParamsInputUnion{OfStringArray: contents}
}

// flagged returns an error unless the results are flagged as wanted.
func flagged(answer *openai.ModerationNewResponse, err error, want ...bool) error {
	if err != nil {
		return err
	}
	var got []bool
	for _, result := range answer.Results {
		got = append(got, result.Flagged)
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("flagged are %v, want %v", got, want)
	}
	return nil
}

// refused returns an error unless err is what the client makes of a refusal.
func refused(err error, status int, code string) error {
	var failure *openai.Error
	if !errors.As(err, &failure) {
		return fmt.Errorf("got %v, want an *openai.Error", err)
	}
	if failure.StatusCode != status || failure.Code != code || failure.Type == "" || failure.Message == "" {
		return fmt.Errorf("got %d %q (%q: %q), want %d %q", failure.StatusCode, failure.Code, failure.Type,
			failure.Message, status, code)
	}
	return nil
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "retry" {
		harness.Check("what the minute's limit refuses is repeated when the minute is over", func(ctx context.Context) error {
			if _, err := ask(ctx, harness.KeySmall, text(harness.Fine)); err != nil {
				return err
			}
			answer, err := ask(ctx, harness.KeySmall, text(harness.Vile))
			return flagged(answer, err, true)
		})
		return
	}
	harness.Check("a text is judged", func(ctx context.Context) error {
		answer, err := ask(ctx, harness.KeyOpen, text(harness.Vile))
		if err := flagged(answer, err, true); err != nil {
			return err
		}
		result := answer.Results[0]
		if !result.Categories.Violence || result.CategoryScores.Violence < 0.5 || result.Categories.SexualMinors ||
			len(result.CategoryAppliedInputTypes.Violence) != 1 {
			return fmt.Errorf("the answer is %s", answer.RawJSON())
		}
		if !strings.HasPrefix(answer.ID, "modr-") ||
			answer.Model != string(openai.ModerationModelOmniModerationLatest) {
			return fmt.Errorf("the answer is %s", answer.RawJSON())
		}
		return nil
	})
	harness.Check("several texts have a result each, in their order", func(ctx context.Context) error {
		answer, err := ask(ctx, harness.KeyOpen, texts(harness.Fine, harness.Vile, harness.Fine))
		return flagged(answer, err, false, true, false)
	})
	harness.Check("parts of text are one input", func(ctx context.Context) error {
		answer, err := ask(ctx, harness.KeyOpen,
			openai.ModerationNewParamsInputUnion{OfModerationMultiModalArray: []openai.ModerationMultiModalInputUnionParam{
				openai.ModerationMultiModalInputParamOfText(harness.Fine), openai.ModerationMultiModalInputParamOfText(harness.Vile),
			}})
		return flagged(answer, err, true)
	})
	harness.Check("the address works without the slash at its end, too", func(ctx context.Context) error {
		answer, err := ask(ctx, harness.KeyOpen, text(harness.Fine), option.WithBaseURL(harness.Service+"/v1"))
		return flagged(answer, err, false)
	})
	harness.Check("an image is an error", func(ctx context.Context) error {
		_, err := ask(ctx, harness.KeyOpen,
			openai.ModerationNewParamsInputUnion{OfModerationMultiModalArray: []openai.ModerationMultiModalInputUnionParam{
				openai.ModerationMultiModalInputParamOfImageURL(openai.ModerationImageURLInputImageURLParam{URL: "https://example.com/a.png"}),
			}})
		return refused(err, 400, "unsupported_value")
	})
	harness.Check("an empty list is an error", func(ctx context.Context) error {
		_, err := ask(ctx, harness.KeyOpen, texts())
		var failure *openai.Error
		if !errors.As(err, &failure) || failure.StatusCode != 400 || failure.Param != "input" {
			return fmt.Errorf("got %v", err)
		}
		return nil
	})
	harness.Check("an unknown key is an error that is not repeated", func(ctx context.Context) error {
		_, err := ask(ctx, harness.KeyUnknown, text(harness.Fine))
		return refused(err, 401, "invalid_api_key")
	})
	harness.Check("the minute's limit is an error that says when to come back", func(ctx context.Context) error {
		harness.SameMinute()
		if _, err := ask(ctx, harness.KeySmall, text(harness.Fine)); err != nil {
			return err
		}
		_, err := ask(ctx, harness.KeySmall, text(harness.Fine), option.WithMaxRetries(0))
		if err := refused(err, 429, "rate_limit_exceeded"); err != nil {
			return err
		}
		var failure *openai.Error
		if errors.As(err, &failure); failure.Response.Header.Get("Retry-After") == "" {
			return fmt.Errorf("the header is %v", failure.Response.Header)
		}
		return nil
	})
	harness.Check("a batch that no minute has room for is an error that is not repeated", func(ctx context.Context) error {
		_, err := ask(ctx, harness.KeySmall, texts(harness.Fine, harness.Fine))
		return refused(err, 400, "array_above_max_length")
	})
	harness.Check("a month that is used up is an error that is not repeated", func(ctx context.Context) error {
		_, err := ask(ctx, harness.KeySpent, text(harness.Fine))
		return refused(err, 429, "insufficient_quota")
	})
}
