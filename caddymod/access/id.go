// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"io"

	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/quota/base62"
)

const (
	idPrefix = "mod_"
	idLength = 24 // characters behind the prefix
)

// NewID returns an id for a request that no [Middleware] sees.
func NewID(a *app.App) string { return newID(a.Random()) }

// IDOf returns the id that a [Middleware] has given the request, or a new id if there was none.
func IDOf(ctx context.Context, a *app.App) string {
	if call := callOf(ctx); call != nil {
		return call.ID
	}
	return newID(a.Random())
}

// newID returns a request id: "mod_" and 24 random letters and digits. Without randomness, which the operating system
// never refuses, zeros stand in its place: an answer matters more than its id.
func newID(random io.Reader) string {
	id, err := base62.Append(append(make([]byte, 0, len(idPrefix)+idLength), idPrefix...), random, idLength)
	for err != nil && len(id) < cap(id) {
		id = append(id, '0')
	}
	return string(id)
}
