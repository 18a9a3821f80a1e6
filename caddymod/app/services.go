// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"time"

	"github.com/caddy-moderation/caddy-moderation/engine"
	"github.com/caddy-moderation/caddy-moderation/feedback"
	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/sessions"
	"github.com/caddy-moderation/caddy-moderation/statistics"
	"github.com/caddy-moderation/caddy-moderation/storage"
)

// Services are what handlers use of the app once it has started. A request gets them with [App.Acquire] and gives
// them back with [Services.Release]; the store stays open in between.
type Services struct {
	// Engine moderates text.
	Engine *engine.Engine
	// Gate knows the accounts and keys, and enforces the limits.
	Gate *quota.Gate
	// Store keeps accounts, keys, counts and feedback.
	Store storage.Store
	// FeedbackBound is what one account may store on one UTC day.
	FeedbackBound feedback.Bound
	// Reviews keeps texts for review. It is nil unless the configuration has the option review.
	Reviews *Reviews
	// Audit records what people do to the service.
	Audit *Audit
	// Sessions keeps who is signed in to the desk.
	Sessions *sessions.Sessions
	// Statistics counts what is decided for each account.
	Statistics *statistics.Recorder
	// Now is the clock by which requests and corrections are counted: that of the store, if it has one.
	Now func() time.Time

	pooled *pooledStore
}

// Acquire returns the services for one request, which must call [Services.Release]. Until then the store stays open,
// even when the configuration is replaced. It waits for the start and fails like [App.Services].
func (a *App) Acquire(ctx context.Context) (*Services, error) {
	services, err := a.Services(ctx)
	if err != nil {
		return nil, err
	}
	services.pooled.beginUse()
	return services, nil
}

// TryAcquire is [App.Acquire] without waiting: it returns nil when there are no services now.
func (a *App) TryAcquire() *Services {
	services := a.services.Load()
	if services != nil {
		services.pooled.beginUse()
	}
	return services
}

// Services returns the services for as long as the configuration runs; a request uses [App.Acquire]. While the app
// starts, Services waits until ctx ends or the start timeout is over; the error then wraps [ErrStarting]. Without a
// store the error is [ErrNoStore].
func (a *App) Services(ctx context.Context) (*Services, error) {
	if services := a.services.Load(); services != nil {
		return services, nil
	}
	if !a.needsStore {
		return nil, ErrNoStore
	}
	timeout := time.NewTimer(time.Duration(a.StartTimeout))
	defer timeout.Stop()
	select {
	case <-a.started:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", ErrStarting, context.Cause(ctx))
	case <-timeout.C:
	}
	if services := a.services.Load(); services != nil {
		return services, nil
	}
	return nil, ErrStarting
}

// Consumers returns the part of the store that remembers what consumers of feedback have taken, if it does.
func (s *Services) Consumers() (feedback.Consumers, bool) {
	known, ok := s.pooled.Store.(feedback.Consumers)
	return known, ok
}

// Release ends a use of the services that [App.Acquire] or [App.TryAcquire] began. s may be nil.
func (s *Services) Release() {
	if s != nil {
		s.pooled.endUse()
	}
}
