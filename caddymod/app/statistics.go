// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"

	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/engine"
	"github.com/caddy-moderation/caddy-moderation/storage"
)

// CountText counts the verdict on a text of an account in its statistics. The services may be nil.
func (s *Services) CountText(
	account string, recommendation engine.Recommendation, flagged []string,
	categories *[engine.NumCategories]engine.CategoryResult,
) {
	if s == nil {
		return
	}
	var probabilities [engine.NumCategories]float64
	for i := range categories {
		probabilities[i] = categories[i].Probability
	}
	s.Statistics.Text(s.Now(), account, string(recommendation), flagged, probabilities[:])
}

// DeleteAccount deletes an account with all that is kept about it, its statistics, and the sessions and links by which
// people are members of it. If the statistics cannot be deleted, the account is, and they go with time.
func (s *Services) DeleteAccount(ctx context.Context, id string) error {
	account, err := s.Gate.Account(ctx, id)
	if err != nil && !errors.Is(err, storage.ErrDamaged) {
		return err
	}
	if !account.Declared {
		// Members of this account are not those of the next one with its id. If that cannot be kept, nothing is
		// deleted, and it can be tried again.
		if _, err := s.Sessions.EndMemberships(ctx, id); err != nil {
			return err
		}
	}
	if err := s.Gate.DeleteAccount(ctx, id); err != nil {
		return err
	}
	if err := s.Statistics.Forget(ctx, id, s.Now()); err != nil {
		s.pooled.pool.logger.Warn("the statistics of a deleted account could not be deleted; they go with time",
			zap.String("account", id), zap.Error(err))
	}
	return nil
}
