// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"testing"

	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage/redis/redistest"
)

// BenchmarkLookup reads a key and its account as each request does, from the cache of the client.
func BenchmarkLookup(b *testing.B) {
	server := redistest.Run(b, redistest.Options{})
	here := openAt(b, server.Addr())
	must(b, here.CreateAccount(background, quota.Account{ID: "a"}))
	k := testKey("key_a", "a")
	must(b, here.CreateKey(background, k))
	there := openAt(b, server.Addr())
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := there.KeyByHash(background, k.Hash); err != nil {
				b.Error(err)
				return
			}
			if _, err := there.Account(background, "a"); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
