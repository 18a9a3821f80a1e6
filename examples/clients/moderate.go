// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Command moderate moderates texts. It needs Go 1.22 or newer, and nothing but its standard library.
//
//	export MODERATION_URL=http://localhost:8080 MODERATION_KEY=mod_sk_...
//	go run moderate.go moderate "You are a wonderful person."
//	go run moderate.go correct "Nice try." TOXICITY 0.1
//	go run moderate.go usage
package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Error says that there is no answer, or that it is an error.
type Error struct {
	Status     int           // 0 if there is no answer
	Code       string        // such as "invalid_key": decide by it
	Detail     string        // for people
	ID         string        // finds the request in the operator's log
	RetryAfter time.Duration // 0 if the answer does not say
}

func (e *Error) Error() string {
	text := e.Code + ": " + e.Detail
	if e.Status == 0 {
		text = "no answer " + text
	} else {
		text = strconv.Itoa(e.Status) + " " + text
	}
	if e.ID != "" {
		text += " (id for support: " + e.ID + ")"
	}
	return text
}

// passes reports whether the same request may succeed later, without anybody doing anything.
func (e *Error) passes() bool {
	return slices.Contains([]int{0, 408, 429, 502, 503, 504}, e.Status) && e.Code != "tier_not_configured"
}

// Service calls the service.
type Service struct {
	URL, Key string
	Timeout  time.Duration // for one attempt
	Patience time.Duration // for all attempts, and the pauses between them
}

// Verdict is what the service says of a text.
type Verdict struct {
	ID     string `json:"id"`
	Result struct {
		Flagged        bool   `json:"flagged"`
		Recommendation string `json:"recommendation"` // approve, review or reject
		Categories     map[string]struct {
			Flagged     bool    `json:"flagged"`
			Probability float64 `json:"probability"`
		} `json:"categories"`
	} `json:"result"`
}

// Moderate moderates a text.
func (s *Service) Moderate(ctx context.Context, text string, themes ...string) (v Verdict, err error) {
	request := map[string]any{"content": text}
	if len(themes) > 0 {
		request["themes"] = themes
	}
	return v, s.call(ctx, http.MethodPost, "/v1/moderate/text", request, &v)
}

// Correct says which score an attribute should have had.
func (s *Service) Correct(ctx context.Context, text, attribute string, score float64) error {
	// The token is kept with the correction. It tells a repeated request, which is stored twice, from a second one.
	token := make([]byte, 16)
	_, _ = rand.Read(token)
	return s.call(ctx, http.MethodPost, "/v1alpha1/comments:suggestscore", map[string]any{
		"comment":         map[string]any{"text": text},
		"attributeScores": map[string]any{attribute: map[string]any{"summaryScore": map[string]any{"value": score}}},
		"clientToken":     hex.EncodeToString(token),
	}, &struct{}{})
}

// Usage is what was counted in the current period.
type Usage struct {
	Period struct {
		Made  int64     `json:"requests_made"`
		Limit int64     `json:"requests_limit"` // 0 is unlimited
		End   time.Time `json:"end_date"`
	} `json:"current_period"`
}

// Usage reads what was counted.
func (s *Service) Usage(ctx context.Context) (u Usage, err error) {
	return u, s.call(ctx, http.MethodGet, "/v1/usage", nil, &u)
}

func (s *Service) call(ctx context.Context, method, path string, body, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, s.Patience)
	defer cancel()
	deadline, _ := ctx.Deadline()
	for pause := 500 * time.Millisecond; ; pause = min(2*pause, 8*time.Second) {
		err := s.attempt(ctx, method, path, body, answer)
		var failure *Error
		if !errors.As(err, &failure) {
			return err
		}
		// Without Retry-After, the pause is up to a half shorter, so that not all clients come back at once.
		wait := cmp.Or(failure.RetryAfter, pause-mathrand.N(pause/2))
		if !failure.passes() || time.Until(deadline) < wait {
			return err
		}
		time.Sleep(wait)
	}
}

func (s *Service) attempt(ctx context.Context, method, path string, body, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	var sent io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return err
		}
		sent = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(s.URL, "/")+path, sent)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+s.Key)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil { // no connection, or no answer in time
		return &Error{Code: "unreachable", Detail: err.Error()}
	}
	defer response.Body.Close()
	received, err := io.ReadAll(response.Body)
	if err != nil { // the answer breaks off
		return &Error{Code: "unreachable", Detail: err.Error()}
	}
	if response.StatusCode != http.StatusOK || json.Unmarshal(received, answer) != nil {
		return errorOf(response, received)
	}
	return nil
}

// errorOf describes an answer that is an error: a problem, one in Google's format, or one of a proxy, in no format.
func errorOf(response *http.Response, received []byte) *Error {
	var body struct {
		Code, Detail string
		Errors       []struct{ Pointer, Detail string }
		Error        struct{ Status, Message string }
	}
	_ = json.Unmarshal(received, &body)
	var members []string
	for _, e := range body.Errors {
		members = append(members, e.Pointer+": "+e.Detail)
	}
	failure := &Error{
		Status: response.StatusCode,
		Code:   cmp.Or(body.Code, body.Error.Status, "unknown"),
		Detail: cmp.Or(strings.Join(members, "; "), body.Detail, body.Error.Message,
			"the answer is not one of the service"),
		ID: response.Header.Get("X-Request-Id"),
	}
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil {
		failure.RetryAfter = time.Duration(seconds) * time.Second
	}
	return failure
}

func run(ctx context.Context, arguments []string) (string, error) {
	s := &Service{
		URL: cmp.Or(os.Getenv("MODERATION_URL"), "http://localhost:8080"), Key: os.Getenv("MODERATION_KEY"),
		Timeout: seconds("MODERATION_TIMEOUT", 5), Patience: seconds("MODERATION_PATIENCE", 30),
	}
	if s.Key == "" {
		return "", errors.New("MODERATION_KEY is not set")
	}
	switch command := cmp.Or(slices.Concat(arguments, []string{""})[0], "help"); {
	case command == "moderate" && len(arguments) == 2:
		verdict, err := s.Moderate(ctx, arguments[1])
		if err != nil {
			// Without a verdict you must decide, too. Holding the text costs time; publishing it costs more.
			return "", fmt.Errorf("no verdict, hold it for a person: %w", err)
		}
		var flagged []string
		for _, name := range []string{"hate", "harassment", "self-harm", "sexual", "violence"} {
			if verdict.Result.Categories[name].Flagged {
				flagged = append(flagged, name)
			}
		}
		// What to do is your decision. This is what most sites do:
		action := map[string]string{"approve": "publish it", "review": "hold it for a person", "reject": "refuse it"}
		return fmt.Sprintf("%s: %s (%s)", action[verdict.Result.Recommendation],
			cmp.Or(strings.Join(flagged, ", "), "nothing flagged"), verdict.ID), nil
	case command == "correct" && len(arguments) == 4:
		score, err := strconv.ParseFloat(arguments[3], 64)
		if err != nil {
			return "", err
		}
		if err := s.Correct(ctx, arguments[1], arguments[2], score); err != nil {
			return "", fmt.Errorf("failed: %w", err)
		}
		return "the correction is stored", nil
	case command == "usage" && len(arguments) == 1:
		usage, err := s.Usage(ctx)
		if err != nil {
			return "", fmt.Errorf("failed: %w", err)
		}
		limit := "any number"
		if usage.Period.Limit > 0 {
			limit = strconv.FormatInt(usage.Period.Limit, 10)
		}
		return fmt.Sprintf("%d requests made of %s until %s", usage.Period.Made, limit,
			usage.Period.End.Format("2006-01-02T15:04:05.000Z")), nil
	}
	return "", errors.New("usage: moderate.go moderate TEXT | correct TEXT ATTRIBUTE SCORE | usage")
}

// seconds reads a number of seconds from the environment.
func seconds(name string, otherwise float64) time.Duration {
	if value, err := strconv.ParseFloat(os.Getenv(name), 64); err == nil {
		otherwise = value
	}
	return time.Duration(otherwise * float64(time.Second))
}

func main() {
	answer, err := run(context.Background(), os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(answer)
}
