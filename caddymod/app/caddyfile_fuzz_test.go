// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// FuzzCaddyfile parses any global option: it is taken or refused with a place, and nothing panics. What is taken
// passes the checks that do not need the environment.
func FuzzCaddyfile(f *testing.F) {
	for _, seed := range []string{
		"", "{\n}", "{\nstorage badger ./x\ntier free 1 2\nthreshold hate 0.5\nreject_level hate 0.9\n}",
		"{\naccount acme {\nname x\nkey {env.X} {\nexpires 2030-01-01\n}\n}\n}", "x {\n", "{\nfeedback {\nmax_bytes_per_day 1GB\n}\ndemo off\n}",
		"{\nclassifier embedded {\nmodel x\n}\nstart_timeout 1d\nkey_prefix a\n}",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, input string) {
		if strings.Contains(input, "import") {
			return // reads files
		}
		a := new(App)
		if err := a.UnmarshalCaddyfile(caddyfile.NewTestDispenser("moderation " + input)); err != nil {
			if !strings.Contains(err.Error(), "Testfile:") && !strings.Contains(err.Error(), "EOF") {
				t.Errorf("an error without a place: %v", err)
			}
			return
		}
		a.setDefaults()
		if err := a.Validate(); err != nil {
			t.Errorf("taken and then refused: %v", err)
		}
		for _, account := range a.Accounts {
			if err := account.check(); err != nil {
				t.Errorf("taken and then refused: %v", err)
			}
		}
	})
}

// TestKeysInConfigurationsAreRefused never repeats what may be a key.
func TestKeysInConfigurationsAreRefused(t *testing.T) {
	t.Parallel()
	const secret = "mod_sk_0123456789abcdefghijklmnopqrstuv"
	for _, key := range []string{secret, "sha256:" + secret, "{env.X}" + secret, secret + "{env.X}", "{" + secret, "{env.A}{env.B}", "sha256:", "{}"} {
		d := caddyfile.NewTestDispenser("moderation {\naccount acme {\nkey " + key + "\n}\n}")
		err := new(App).UnmarshalCaddyfile(d)
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("key %s: got the error %v, want one that does not repeat the key", key, err)
		}
	}
}
