// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"errors"
	"net/http"
	"strconv"

	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/audit"
	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage"
)

// deleteFeedback handles POST /moderation/feedback/delete. It deletes until it is done or the caller leaves; what was
// deleted until then stays deleted.
func (a *API) deleteFeedback(w http.ResponseWriter, r *http.Request) error {
	var wanted feedbackDeletion
	if err := decode(w, r, &wanted); err != nil {
		return err
	}
	which, err := wanted.selection()
	switch {
	case errors.Is(err, quota.ErrInvalid):
		return a.failed(err)
	case err != nil:
		return refusal(http.StatusBadRequest, "%w", err)
	}
	services, err := a.services(r.Context())
	if err != nil {
		return err
	}
	defer services.Release()
	if wanted.DryRun {
		result, err := storage.CountFeedback(r.Context(), services.Store, which)
		if err != nil {
			return a.failed(err)
		}
		return encode(w, r, http.StatusOK, deletedFeedback{Selected: &result.Records, Damaged: result.Damaged})
	}
	result, err := storage.DeleteFeedback(r.Context(), services.Store, which, 0)
	// The hash is left out of the log: whoever has the text can tell from it whose it was.
	fields := []zap.Field{
		zap.Int64("records", result.Records), zap.String("account", which.Account),
		zap.Timep("before", wanted.Before), zap.Bool("by_text", which.TextHash != nil),
	}
	if result.Damaged > 0 {
		fields = append(fields, zap.Int64("damaged", result.Damaged))
	}
	if result.Records > 0 || err == nil {
		record(r, services, audit.Entry{
			Action: "feedback.delete", Account: which.Account,
			Details: map[string]string{"records": strconv.FormatInt(result.Records, 10)},
		})
	}
	if err != nil {
		a.logger.Error("feedback was deleted in part", append(fields, zap.Error(err))...)
		return a.failed(err)
	}
	a.logger.Info("feedback was deleted", fields...)
	return encode(w, r, http.StatusOK, deletedFeedback{Deleted: &result.Records, Damaged: result.Damaged})
}
