// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"github.com/caddy-moderation/caddy-moderation/engine"
	"github.com/caddy-moderation/caddy-moderation/feedback"
	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage"
)

// Services are what the app owns and the handlers use. They exist once the app has started; a handler gets them from
// [App.Acquire], which waits for that up to a bound.
type Services struct {
	// Engine judges text.
	Engine *engine.Engine
	// Gate knows who calls and holds the limits.
	Gate *quota.Gate
	// Store keeps accounts, keys, counters and feedback.
	Store storage.Store
	// FeedbackBound is what one account may store on one UTC day.
	FeedbackBound feedback.Bound

	shared *pooledStore
}

// Release ends a use of the services that [App.Acquire] or [App.TryAcquire] began. There may be none.
func (s *Services) Release() {
	if s != nil {
		s.shared.endUse()
	}
}
