// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"io"

	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
)

const (
	idPrefix = "mod_"
	idLength = 24
	base62   = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// NewID returns an id for a request that no door sees.
func NewID(a *app.App) string { return newID(a.Random()) }

// IDOf returns the id that a door has given the request, or a new one for a request that no door has seen.
func IDOf(ctx context.Context, a *app.App) string {
	if call := callOf(ctx); call != nil {
		return call.ID
	}
	return newID(a.Random())
}

// newID returns a request id: "mod_" and 24 random letters and digits, each equally likely. Without randomness, which the
// operating system never refuses, the id is of zeros: an answer matters more than its name.
func newID(random io.Reader) string {
	id := [len(idPrefix) + idLength]byte{}
	n := copy(id[:], idPrefix)
	var block [32]byte
	for n < len(id) {
		if _, err := io.ReadFull(random, block[:]); err != nil {
			for ; n < len(id); n++ {
				id[n] = '0'
			}
			break
		}
		for _, b := range block {
			// 248 is the largest multiple of 62 that a byte can be below: what is above would make some digits likelier.
			if b < 248 && n < len(id) {
				id[n] = base62[b%62]
				n++
			}
		}
	}
	return string(id[:])
}
