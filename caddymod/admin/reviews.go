// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/audit"
	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/export"
	"github.com/caddy-moderation/caddy-moderation/feedback"
	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/review"
)

// errNoReviews says that the configuration has no review queue.
var errNoReviews = refusal(http.StatusNotFound, "the running configuration has no review queue: the option review of the "+
	"global option moderation switches it on")

// reviews returns the services with a review queue. The caller releases them.
func (a *API) reviews(r *http.Request) (*app.Services, error) {
	services, err := a.services(r.Context())
	if err != nil {
		return nil, err
	}
	if services.Reviews == nil {
		services.Release()
		return nil, errNoReviews
	}
	return services, nil
}

// exportReviews handles GET /moderation/reviews/export[?account=<id>][&labelled=true]. The answer is JSON Lines, oldest
// item first: the items, or of the decided ones rows for the evaluation and the trainer. Items that cannot be read are
// left out; then the last line says how many.
func (a *API) exportReviews(w http.ResponseWriter, r *http.Request) error {
	services, err := a.reviews(r)
	if err != nil {
		return err
	}
	defer services.Release()
	query := r.URL.Query()
	account := query.Get("account")
	if account != "" {
		if err := quota.ValidateID(account); err != nil {
			return a.failed(err)
		}
	}
	labelled := query.Get("labelled")
	if labelled != "" && labelled != "true" {
		return refusal(http.StatusBadRequest, "labelled must be true")
	}
	record(r, services, audit.Entry{Action: "review.export", Account: account})
	endless(w)
	out := &lazyBody{w: w, contentType: "application/jsonl"}
	unreadable, err := export.Reviews(r.Context(), out, services.Reviews.Queue, export.Options{
		Account: account, Labelled: labelled != "", Flush: func() { _ = http.NewResponseController(w).Flush() },
	})
	if err != nil {
		return a.broken(r, out, err)
	}
	if unreadable > 0 {
		a.logger.Error("review items cannot be read and are left out of an export", zap.Int("items", unreadable))
		_ = newEncoder(out).Encode(leftOut{LeftOut: unreadable})
	}
	out.open()
	return nil
}

// reviewDeletion is the body of a request that erases the review items which fulfil all of its conditions.
type reviewDeletion struct {
	ID      string `json:"id,omitempty"`
	Account string `json:"account,omitempty"`
	// Author is what the site calls the author, or what items say instead.
	Author string     `json:"author,omitempty"`
	Before *time.Time `json:"before,omitempty"`
	// TextSHA256 is the SHA-256 of the text, in hexadecimal digits.
	TextSHA256 string `json:"text_sha256,omitempty"`
	// DryRun counts the items and erases none.
	DryRun bool `json:"dry_run,omitempty"`
}

// deleteReviews handles POST /moderation/reviews/delete.
func (a *API) deleteReviews(w http.ResponseWriter, r *http.Request) error {
	var wanted reviewDeletion
	if err := decode(w, r, &wanted); err != nil {
		return err
	}
	which := review.Selection{ID: wanted.ID, Account: wanted.Account, TextHash: wanted.TextSHA256}
	if wanted.Account != "" {
		if err := quota.ValidateID(wanted.Account); err != nil {
			return a.failed(err)
		}
	}
	if wanted.TextSHA256 != "" {
		if _, err := feedback.ParseTextHash(wanted.TextSHA256); err != nil {
			return refusal(http.StatusBadRequest, "text_sha256: %w", err)
		}
	}
	if wanted.Before != nil {
		which.Before = *wanted.Before
	}
	services, err := a.reviews(r)
	if err != nil {
		return err
	}
	defer services.Release()
	if which.Author, err = services.Reviews.Author(r.Context(), wanted.Author); err != nil {
		return a.failed(err)
	}
	do := services.Reviews.Queue.Erase
	if wanted.DryRun {
		do = services.Reviews.Queue.Count
	}
	n, err := do(r.Context(), which)
	if errors.Is(err, review.ErrInvalid) {
		_, detail, _ := strings.Cut(err.Error(), ": ")
		return refusal(http.StatusBadRequest, "%s", detail)
	}
	found := int64(n)
	if wanted.DryRun {
		if err != nil {
			return a.failed(err)
		}
		return encode(w, r, http.StatusOK, deletedFeedback{Selected: &found})
	}
	if found > 0 || err == nil {
		record(r, services, audit.Entry{
			Action: "review.erase", Account: which.Account, Target: which.ID,
			Details: map[string]string{"items": strconv.FormatInt(found, 10)},
		})
	}
	// Neither the author nor the hash is logged: who has the text can tell from it whose it was.
	fields := []zap.Field{
		zap.Int64("items", found), zap.String("account", which.Account), zap.Timep("before", wanted.Before),
		zap.Bool("by_text", which.TextHash != ""), zap.Bool("by_author", which.Author != ""),
	}
	if err != nil {
		a.logger.Error("review items were erased in part", append(fields, zap.Error(err))...)
		return a.failed(err)
	}
	a.logger.Info("review items were erased", fields...)
	return encode(w, r, http.StatusOK, deletedFeedback{Deleted: &found})
}

// reviewReplay is the body of a request that lets webhooks be sent events once more.
type reviewReplay struct {
	// Since is when the first of the events happened. Required.
	Since *time.Time `json:"since"`
	// Webhook is the number of the one, counted from 1 in the order of the configuration. Default: all.
	Webhook int `json:"webhook,omitempty"`
}

// replayed is the answer to it.
type replayed struct {
	Events   int `json:"events"`
	Webhooks int `json:"webhooks"`
}

// replayReviews handles POST /moderation/reviews/replay.
func (a *API) replayReviews(w http.ResponseWriter, r *http.Request) error {
	var wanted reviewReplay
	if err := decode(w, r, &wanted); err != nil {
		return err
	}
	if wanted.Since == nil {
		return refusal(http.StatusBadRequest, "since is required")
	}
	services, err := a.reviews(r)
	if err != nil {
		return err
	}
	defer services.Release()
	if wanted.Since.After(services.Now()) {
		return refusal(http.StatusBadRequest, "since must not be in the future")
	}
	var answer replayed
	answer.Events, answer.Webhooks, err = services.Reviews.Replay(r.Context(), services, wanted.Webhook, *wanted.Since)
	if errors.Is(err, app.ErrNoWebhook) {
		return refusal(http.StatusNotFound, "%w", err)
	}
	if err == nil || answer.Webhooks > 0 {
		entry := audit.Entry{Action: "review.replay", Details: map[string]string{
			"since": wanted.Since.UTC().Format(time.RFC3339), "events": strconv.Itoa(answer.Events),
		}}
		if wanted.Webhook > 0 {
			entry.Target = "webhook " + strconv.Itoa(wanted.Webhook)
		}
		record(r, services, entry)
	}
	if err != nil {
		return a.failed(err)
	}
	return encode(w, r, http.StatusOK, answer)
}

// countItems says how many items there are.
func countItems(n int64) string {
	if n == 1 {
		return "1 review item"
	}
	return fmt.Sprintf("%d review items", n)
}
