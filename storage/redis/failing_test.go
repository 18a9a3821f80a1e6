// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/storage"
	"github.com/caddy-moderation/caddy-moderation/storage/redis/redistest"
	"github.com/caddy-moderation/caddy-moderation/storage/storagetest"
)

// TestFailing runs the tests of a store that is unable to write for a while, for several reasons.
func TestFailing(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(t *testing.T, server *redistest.Server, proxy *redistest.Proxy, fail bool){
		"out of memory": func(t *testing.T, server *redistest.Server, _ *redistest.Proxy, fail bool) {
			limit := "0"
			if fail {
				limit = "1"
			}
			if err := server.Configure("maxmemory", limit); err != nil {
				t.Errorf("limiting the memory: %v", err)
			}
		},
		"connections are refused": func(t *testing.T, _ *redistest.Server, proxy *redistest.Proxy, fail bool) {
			if fail {
				proxy.Refuse()
			} else if err := proxy.Heal(); err != nil {
				t.Errorf("healing the proxy: %v", err)
			}
		},
		"the server hangs": func(t *testing.T, server *redistest.Server, _ *redistest.Proxy, fail bool) {
			hang := server.Resume
			if fail {
				hang = server.Pause
			}
			if err := hang(); err != nil {
				t.Errorf("pausing the server: %v", err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storagetest.RunFailing(t, func(t *testing.T) (storage.Store, func(bool), func() storage.Store) {
				server := redistest.Run(t, redistest.Options{})
				proxy := redistest.RunProxy(t, server.Addr())
				s, reopen := opener(Options{Addresses: []string{proxy.Addr()}, Outage: Deny, Timeout: time.Second})(t)
				return s, func(fail bool) { harm(t, server, proxy, fail) }, reopen
			})
		})
	}
}
