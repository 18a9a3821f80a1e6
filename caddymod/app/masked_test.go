// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/quota"
)

// TestMaskedHoldsNoSecret sets every option that can hold a secret, as text, as a placeholder and as what it yields,
// and looks for them in the configuration that operators see.
func TestMaskedHoldsNoSecret(t *testing.T) {
	t.Parallel()
	const hash = "sha256:5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8"
	redis := &Redis{
		Addresses: []string{
			"rediss://user:hunter2-url@redis.example:6380/0", "redis://u:p/a?s#hunter2-odd@redis.example",
			"redis://redis.example?password=hunter2-query", "redis://{env.HUNTER2_USER}:{env.HUNTER2_URL}@redis.example",
		},
		Username: "moderation", Password: "hunter2-password",
		Sentinel: &RedisSentinel{Master: "mymaster", Username: "watcher", Password: "{env.HUNTER2_SENTINEL}"},
		TLS:      &RedisTLS{CA: "ca.pem", Certificate: "client.pem", Key: "hunter2-client.key"},
	}
	redis.options.Password = "hunter2-replaced"
	a := &App{
		KeyPrefix: "mod", storage: redis, classifier: &Embedded{Model: "model.bin"},
		Accounts: []Account{{ID: "acme", Name: "Acme & Söhne", Keys: []Key{
			{Key: "{env.HUNTER2_KEY}", Name: "site"}, {Key: "{file./run/hunter2}"}, {Key: hash}, {Key: "mod_sk_hunter2"},
		}}},
	}
	a.declared.keys = append(a.declared.keys, declarationsOf(t, hash)...)
	got, err := a.Masked()
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"hunter2", "HUNTER2", "5e884898"} {
		if strings.Contains(string(got), secret) {
			t.Errorf("the configuration holds %q: %s", secret, got)
		}
	}
	var shown struct {
		Storage    map[string]any
		Classifier map[string]any
		Accounts   []Account
	}
	if err := json.Unmarshal(got, &shown); err != nil {
		t.Fatal(err)
	}
	addresses, _ := shown.Storage["addresses"].([]any)
	if shown.Storage["module"] != "redis" || shown.Storage["username"] != "moderation" || len(addresses) != 4 ||
		addresses[0] != "rediss://***@redis.example:6380/0" || shown.Classifier["model"] != "model.bin" ||
		len(shown.Accounts) != 1 || shown.Accounts[0].Name != "Acme & Söhne" || shown.Accounts[0].Keys[0].Name != "site" {
		t.Errorf("what is not secret is missing: %s", got)
	}
}

// declarationsOf returns a key as the gate takes it, which is what a placeholder becomes in memory.
func declarationsOf(t *testing.T, text string) (keys []quota.Key) {
	t.Helper()
	key, err := Key{Key: text}.resolve()
	if err != nil {
		t.Fatal(err)
	}
	return append(keys, key)
}

// TestEveryTextOptionIsKnown guards against a new option that holds a secret and is shown: each option with a text is
// either masked or in this list of those that people may see.
func TestEveryTextOptionIsKnown(t *testing.T) {
	t.Parallel()
	public := []string{
		"App.KeyPrefix", "Account.ID", "Account.Name", "Account.Tier", "Account.Status", "Key.Name", "Key.Environment",
		"Account.Allow", "Account.Block", "Account.Languages", "Account.OtherLanguage",
		"Key.Expires", "Badger.Dir", "Redis.Addresses", "Redis.Username", "Redis.Prefix", "Redis.Outage",
		"RedisSentinel.Master", "RedisSentinel.Username", "RedisTLS.CA", "RedisTLS.ServerName", "RedisTLS.Certificate",
		"Embedded.Model", "Embedded.Languages", "Key.Scopes", "ReviewOptions.Of", "ReviewWebhook.Account",
		"ReviewCoop.PublicKey", "ReviewCoop.Approve", "ReviewCoop.Reject", "ReviewCoop.Escalate",
		"ReviewWebhook.URL", // its path and what follows are masked
	}
	seen := map[reflect.Type]bool{}
	var visit func(reflect.Type)
	visit = func(typ reflect.Type) {
		for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice || typ.Kind() == reflect.Map {
			typ = typ.Elem()
		}
		if typ.Kind() != reflect.Struct || seen[typ] {
			return
		}
		seen[typ] = true
		for _, field := range reflect.VisibleFields(typ) {
			member, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if !field.IsExported() || member == "" || strings.Contains(field.Tag.Get("caddy"), "namespace=") {
				continue
			}
			inner := field.Type
			for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice {
				inner = inner.Elem()
			}
			name := typ.Name() + "." + field.Name
			if inner.Kind() == reflect.String && slices.Contains(public, name) == secretMember.MatchString(member) {
				t.Errorf("%s (%q): it must be either masked or in the list of what is public", name, member)
			}
			visit(field.Type)
		}
	}
	for _, module := range []any{App{}, Badger{}, Redis{}, Embedded{}} {
		visit(reflect.TypeOf(module))
	}
	if len(seen) < 8 {
		t.Errorf("visited %d types, want more", len(seen))
	}
}

// TestWebhooksAreMasked guards against an address of a webhook that is as good as a password.
func TestWebhooksAreMasked(t *testing.T) {
	t.Parallel()
	a := &App{Review: &ReviewOptions{
		Key: "{env.HUNTER}", FormerKeys: []string{"{env.HUNTER2}"}, Webhooks: []ReviewWebhook{
			{URL: "https://who:hunter1@app.example/hunter2?key=hunter3", Secret: "{env.HUNTER}"},
		},
	}}
	got, err := a.Masked()
	if err != nil || strings.Contains(strings.ToLower(string(got)), "hunter") || !strings.Contains(string(got), "app.example") {
		t.Errorf("got %s, %v; want the host alone", got, err)
	}
}

// TestModulesOfOthersAreOnlyNamed guards against a storage of somebody else whose options hold a secret.
func TestModulesOfOthersAreOnlyNamed(t *testing.T) {
	t.Parallel()
	type foreign struct{ DSN string }
	got, err := (&App{classifier: &foreign{DSN: "hunter2"}}).Masked()
	if err != nil || strings.Contains(string(got), "hunter2") || !strings.Contains(string(got), "app.foreign") {
		t.Errorf("got %s, %v", got, err)
	}
}
