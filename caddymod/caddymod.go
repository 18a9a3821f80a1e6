// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package caddymod is the Caddy plugin: it builds every module of the service into a Caddy binary.
//
//	xcaddy build --with github.com/caddy-moderation/caddy-moderation/caddymod
package caddymod

import (
	// The modules register themselves with Caddy.
	_ "github.com/caddy-moderation/caddy-moderation/caddymod/access"
	_ "github.com/caddy-moderation/caddy-moderation/caddymod/admin"
	_ "github.com/caddy-moderation/caddy-moderation/caddymod/api"
	_ "github.com/caddy-moderation/caddy-moderation/caddymod/app"
	_ "github.com/caddy-moderation/caddy-moderation/caddymod/commentanalyzer"
	_ "github.com/caddy-moderation/caddy-moderation/caddymod/compare"
	_ "github.com/caddy-moderation/caddy-moderation/caddymod/desk"
	_ "github.com/caddy-moderation/caddy-moderation/caddymod/guard"
	_ "github.com/caddy-moderation/caddy-moderation/caddymod/health"
	_ "github.com/caddy-moderation/caddy-moderation/caddymod/openai"
)
