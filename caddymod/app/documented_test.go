// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-moderation/caddy-moderation/engine"
	"github.com/caddy-moderation/caddy-moderation/quota"
)

const configurationPage = "../../docs/configuration.md"

// documentedBlock returns the Caddyfile after a mark of the page on the configuration.
func documentedBlock(t *testing.T, mark string) string {
	t.Helper()
	page, err := os.ReadFile(configurationPage)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "<!-- test: "+mark+" -->\n```caddyfile\n")
	block, _, closed := strings.Cut(rest, "```\n")
	if !found || !closed {
		t.Fatalf("%s: got no Caddyfile after the mark %q", configurationPage, mark)
	}
	if got := string(caddyfile.Format([]byte(block))); got != block {
		t.Errorf("the block %q is not formatted as caddy fmt does:\n%s", mark, block)
	}
	return block
}

// adapted returns the JSON of the app that the Caddyfile's adapter makes of a configuration.
func adapted(t *testing.T, config string) string {
	t.Helper()
	out, warnings, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(config), map[string]any{"filename": "Caddyfile"})
	if err != nil || len(warnings) > 0 {
		t.Fatalf("adapting: got the error %v and the warnings %v, want none, of:\n%s", err, warnings, config)
	}
	var document struct {
		Apps map[string]json.RawMessage `json:"apps"`
	}
	if err := json.Unmarshal(out, &document); err != nil {
		t.Fatal(err)
	}
	return string(document.Apps["moderation"])
}

// behaviour is what a configuration makes of the app, with its defaults.
type behaviour struct {
	Policy     engine.Policy
	Classifier string
	Tiers      map[string]quota.Limits
	Account    string // with no tier given
	Feedback   string
	Start      string
	HarmShare  float64
	Directory  string // of the store
	Notice     string // of the first start, without the key and its id
}

// behaviourOf starts an app twice: without a store that it names, and on an empty directory.
func behaviourOf(t *testing.T, config string) behaviour {
	t.Helper()
	a := provisioned(t, config, new(bytes.Buffer))
	identity, err := a.storage.Identity()
	if err != nil {
		t.Fatal(err)
	}
	got := behaviour{
		Policy: a.engine.Policy(), Classifier: a.engine.Version(), Tiers: a.Tiers, Account: a.defaultTier(),
		Feedback: fmt.Sprint(a.feedbackBound()), Start: fmt.Sprint(a.StartTimeout), Directory: identity,
		HarmShare: a.HarmShareOf(nil),
	}
	if got.HarmShare == 0 {
		got.HarmShare = a.engine.HarmShare()
	}
	stored := strings.Replace(config, "{", fmt.Sprintf(`{"storage":{"module":"badger","dir":%q},`, t.TempDir()), 1)
	stored = strings.Replace(stored, ",}", "}", 1)
	notice := new(bytes.Buffer)
	run(t, provisioned(t, stored, notice), func(*Services) {})
	got.Notice = regexp.MustCompile(`_(sk_[0-9A-Za-z]{32}|[0-9A-Za-z]{16} )`).ReplaceAllString(notice.String(), "_... ")
	return got
}

// Hazard: the page states a default that is another one, or a new option has a default that the page does not state.
func TestEveryDefaultIsDocumented(t *testing.T) {
	t.Parallel()
	stated := adapted(t, documentedBlock(t, "defaults of the global option"))
	given, want := behaviourOf(t, stated), behaviourOf(t, adapted(t, "{\n\tmoderation\n}\n"))
	if !reflect.DeepEqual(given, want) {
		t.Errorf("the documented defaults: got\n%+v\nwant those of an empty block,\n%+v", given, want)
	}
	if !strings.Contains(want.Notice, "mod_... ") || len(want.Tiers) == 0 || want.HarmShare == 0 {
		t.Errorf("got %+v, want a notice with a key, tiers and a share: the comparison compares nothing", want)
	}
	if folder := filepath.Join(caddy.AppDataDir(), "moderation"); want.Directory != "badger:"+resolved(folder) {
		t.Errorf("the default directory: got %s, want %s", want.Directory, folder)
	}

	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(stated), &members); err != nil {
		t.Fatal(err)
	}
	// The page says why it leaves these out: a store is opened for each configuration that names one.
	// The review queue keeps texts: it is off unless it is asked for.
	without := []string{"storage", "accounts", "review"}
	for field := range reflect.TypeFor[App]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if !field.IsExported() || name == "" || slices.Contains(without, name) {
			continue
		}
		if _, ok := members[name]; !ok {
			t.Errorf("%s: the block of defaults does not state %s", configurationPage, name)
		}
	}
	page, err := os.ReadFile(configurationPage)
	if err != nil {
		t.Fatal(err)
	}
	for field := range reflect.TypeFor[FeedbackOptions]().Fields() {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); !strings.Contains(string(page), "| `feedback { "+name+" <") {
			t.Errorf("%s: the table lacks the option %s of feedback", configurationPage, name)
		}
	}
	for field := range reflect.TypeFor[ReviewOptions]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "former_keys" {
			name = "key <placeholder> [<former>...]" // the Caddyfile has them in one line
		}
		if !strings.Contains(string(page), "| `review { "+strings.TrimSuffix(name, "s")) {
			t.Errorf("%s: the table lacks the option %s of review", configurationPage, name)
		}
	}
	// A reject level for self-harm is more than its default: it ends the guard's exception.
	a := provisioned(t, stated, new(bytes.Buffer))
	if _, ok := a.RejectLevels["self-harm"]; ok {
		t.Error("the block of defaults has a reject level for self-harm, want none")
	}
	for _, levels := range []map[string]float64{a.Thresholds, a.RejectLevels} {
		if got := len(levels); got < int(engine.NumCategories)-1 {
			t.Errorf("the block of defaults states the levels of %d categories (%v), want all of them", got,
				slices.Sorted(maps.Keys(levels)))
		}
	}
}

// redisOf returns the storage of a configuration with placeholders replaced.
func redisOf(t *testing.T, config string) *Redis {
	t.Helper()
	var document struct {
		Storage Redis `json:"storage"`
	}
	if err := json.Unmarshal([]byte(config), &document); err != nil {
		t.Fatal(err)
	}
	if err := document.Storage.Provision(caddy.Context{}); err != nil {
		t.Fatal(err)
	}
	return &document.Storage
}

// Hazard: the page states a default of the redis storage that is another one, or lacks an option.
func TestEveryOptionOfRedisIsDocumented(t *testing.T) {
	for _, name := range []string{"REDIS_PASSWORD", "SENTINEL_PASSWORD"} {
		t.Setenv(name, "secret")
	}
	defaults := adapted(t, documentedBlock(t, "defaults of the redis storage"))
	stated := redisOf(t, defaults)
	plain := redisOf(t, adapted(t, "{\n\tmoderation {\n\t\tstorage redis redis.internal\n\t}\n}\n"))
	got, err := stated.Identity()
	want, wrong := plain.Identity()
	if err != nil || wrong != nil || got != want {
		t.Errorf("the documented defaults: got %+v (%v), want %+v (%v)", stated.options, err, plain.options, wrong)
	}
	others := adapted(t, documentedBlock(t, "the other options of the redis storage"))
	// The files of the page are not here.
	redisOf(t, regexp.MustCompile(`"(ca|certificate|key)":"[^"]*",?`).ReplaceAllString(others, ""))
	page, err := os.ReadFile(configurationPage)
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "### Redis and Valkey\n")
	for field := range reflect.TypeFor[Redis]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "addresses" {
			name = "address"
		}
		if field.IsExported() && !regexp.MustCompile("(?m)^\\| `"+name+"[ `]").MatchString(section) {
			t.Errorf("%s: the table lacks the option %s of the redis storage", configurationPage, name)
		}
		if !strings.Contains(defaults, `"`+name+`"`) && !strings.Contains(others, `"`+name+`"`) &&
			!slices.Contains([]string{"address", "cluster", "database", "lease"}, name) && field.IsExported() {
			t.Errorf("%s: no block has the option %s of the redis storage", configurationPage, name)
		}
	}
}

// resolved returns a path without symbolic links in those of its parents that exist.
func resolved(path string) string {
	for existing, rest := path, ""; ; {
		if real, err := filepath.EvalSymlinks(existing); err == nil {
			return filepath.Join(real, rest)
		}
		existing, rest = filepath.Dir(existing), filepath.Join(filepath.Base(existing), rest)
	}
}

// Hazard: the account on the page cannot be pasted, or it lacks an option that the table or the code has.
func TestDocumentedAccountHasEverything(t *testing.T) {
	secret := "mod_sk_" + strings.Repeat("a", 32)
	t.Setenv("ACME_MODERATION_KEY", secret)
	a := provisioned(t, adapted(t, documentedBlock(t, "a declared account")), new(bytes.Buffer))
	if len(a.declared.accounts) != 1 || len(a.declared.keys) != 1 || a.declared.keys[0].Hash != quota.HashKey(secret) {
		t.Fatalf("got %+v, want one account with the key of the environment", a.declared)
	}
	for _, value := range []any{a.Accounts[0], a.Accounts[0].Keys[0]} {
		for i := range reflect.TypeOf(value).NumField() {
			if reflect.ValueOf(value).Field(i).IsZero() {
				t.Errorf("the documented account: got no %s, want an example of each option",
					reflect.TypeOf(value).Field(i).Tag.Get("json"))
			}
		}
	}
}
