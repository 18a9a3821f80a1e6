// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// separator stands between a Caddyfile and what it becomes in a golden file.
const separator = "\n----------\n"

// TestAdapt compares what Caddyfiles become, and the texts of errors, with golden files: a Caddyfile, a line of
// dashes, and the JSON or the error. A JSON is also provisioned, which must work, or end in the error that a third
// part holds.
func TestAdapt(t *testing.T) {
	files, err := filepath.Glob("../testdata/caddyfile/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	t.Setenv("MODERATION_TEST_KEY", acmeKey)
	t.Setenv("MODERATION_TEST_SHORT", "short")
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			golden, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			input, want, _ := strings.Cut(string(golden), separator)
			got := adaptText(input)
			if *update {
				if err := os.WriteFile(file, []byte(input+separator+got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != want {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

// adaptText is the JSON of a Caddyfile or the error, and the error of provisioning it.
func adaptText(input string) string {
	adapted, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(input), map[string]any{"filename": "Caddyfile"})
	if err != nil {
		return err.Error() + "\n"
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, adapted, "", "\t"); err != nil {
		return err.Error() + "\n"
	}
	text := pretty.String() + "\n"
	config := new(caddy.Config)
	if err := json.Unmarshal(adapted, config); err != nil {
		return text + err.Error() + "\n"
	}
	if err := caddy.Validate(config); err != nil {
		// Caddy loads apps in no order: which of them asked for the moderation app, and failed with it, is left out.
		// So is the path to a handler.
		own := err.Error()
		for _, outer := range []string{"moderation: ", "loading handler modules: "} {
			if at := strings.LastIndex(own, outer); at >= 0 {
				own = own[at+len(outer):]
				break
			}
		}
		return text + separator[1:] + own + "\n"
	}
	return text
}

// TestVariablesThatYieldNothing: errors name the variable, the file and the line, and never repeat what another
// variable of the line holds. An argument {$NAME} that is not set is no argument at all: a storage went to another
// directory than its author wrote.
func TestVariablesThatYieldNothing(t *testing.T) {
	t.Setenv("MODERATION_TEST_SHORT", "short")
	t.Setenv("MODERATION_TEST_EMPTY", "")
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	account := func(key string) string {
		return "{\nmoderation {\naccount acme {\nkey " + key + "\n}\n}\n}\n:9080 {\nmoderation_api\n}\n"
	}
	const unset = "{$MODERATION_TEST_UNSET} yields nothing: the environment variable MODERATION_TEST_UNSET is not set"
	for _, test := range []struct{ name, config, want string }{
		{"a key", account("{$MODERATION_TEST_UNSET}"), "'key' needs 1 argument, but has 0: key <key>; " + unset + ", at FILE:4"},
		{"a key before a block", account("{$MODERATION_TEST_UNSET} {\nname x\n}"), "key <key>; " + unset + ", at FILE:4"},
		{"a key in quotation marks", account(`"{$MODERATION_TEST_UNSET}"`), "account acme: the key is empty; " + unset + ", at FILE:4"},
		{"an empty variable", account("{$MODERATION_TEST_EMPTY}"), "; {$MODERATION_TEST_EMPTY} yields nothing: the environment variable MODERATION_TEST_EMPTY is empty, at FILE:4"},
		{"a hash", account("sha256:{$MODERATION_TEST_UNSET}"), "must not stand in the configuration; " + unset + ", at FILE:4"},
		{"two variables", account(`{$MODERATION_TEST_SHORT}{$MODERATION_TEST_UNSET}`), "must not stand in the configuration; " + unset + ", at FILE:4"},
		{"a storage", "{\nmoderation {\nstorage badger {$MODERATION_TEST_UNSET}\n}\n}\n", "the badger storage has no directory; " + unset + ", at FILE:3"},
		{"the name of a storage", "{\nmoderation {\nstorage {$MODERATION_TEST_UNSET}\n}\n}\n", "'storage' needs the name of a module; there are badger, flaky, redis, waiting; " + unset + ", at FILE:3"},
		{"a list of words", ":9080 {\nmoderate {\nblock_file {$MODERATION_TEST_UNSET}\n}\n}\n", "; " + unset + ", at FILE:3"},
		{"a threshold", "{\nmoderation {\nthreshold hate {$MODERATION_TEST_UNSET}\n}\n}\n", "; " + unset + ", at FILE:3"},
		{"no variable", "{\nmoderation {\nthreshold hate\n}\n}\n", "threshold <category> <probability>, at FILE:3"},
		{"env of a key", account("{env.MODERATION_TEST_UNSET}"), `account "acme": key 1: {env.MODERATION_TEST_UNSET} yields nothing: the environment variable MODERATION_TEST_UNSET is not set, at FILE:4`},
		{"empty env of a key", account("{env.MODERATION_TEST_EMPTY}"), "{env.MODERATION_TEST_EMPTY} yields nothing: the environment variable MODERATION_TEST_EMPTY is empty, at FILE:4"},
		{"a value that is no key", account("{env.MODERATION_TEST_SHORT}"), "{env.MODERATION_TEST_SHORT} yields what cannot be a key: a key must be 16 to 256 visible ASCII characters long, at FILE:4"},
		{"a file that is missing", account("{file./nonexistent/acme}"), "{file./nonexistent/acme} yields nothing: the file /nonexistent/acme cannot be read: no such file or directory, at FILE:4"},
		{"a file that is empty", account("{file." + empty + "}"), "yields nothing: the file " + empty + " is empty, at FILE:4"},
		{"env of a storage", "{\nmoderation {\nstorage badger {env.MODERATION_TEST_UNSET}/x\n}\n}\n:9080 {\nmoderation_api\n}\n",
			"the directory of the badger storage: {env.MODERATION_TEST_UNSET} yields nothing: the environment variable MODERATION_TEST_UNSET is not set, at FILE:3"},
		{"the address of a redis", "{\nmoderation {\nstorage redis {$MODERATION_TEST_UNSET}\n}\n}\n", "redis: it needs an address, such as localhost:6379; " + unset + ", at FILE:3"},
		{"the password of a redis", "{\nmoderation {\nstorage redis a {\npassword {$MODERATION_TEST_UNSET}\n}\n}\n}\n", "'password' needs 1 argument, but has 0: password <password>; " + unset + ", at FILE:4"},
		{"env of the password of a redis", "{\nmoderation {\nstorage redis a {\npassword {env.MODERATION_TEST_UNSET}\n}\n}\n}\n:9080 {\nmoderation_api\n}\n",
			"password: {env.MODERATION_TEST_UNSET} yields nothing: the environment variable MODERATION_TEST_UNSET is not set, at FILE:4"},
		{"env in the URL of a redis", "{\nmoderation {\nstorage redis redis://:{env.MODERATION_TEST_SHORT}@{env.MODERATION_TEST_UNSET}\n}\n}\n:9080 {\nmoderation_api\n}\n",
			"address 1: {env.MODERATION_TEST_UNSET} yields nothing: the environment variable MODERATION_TEST_UNSET is not set, at FILE:3"},
		{"the authorities of a redis", "{\nmoderation {\nstorage redis a {\ntls {\nca /nonexistent/ca.pem\n}\n}\n}\n}\n:9080 {\nmoderation_api\n}\n",
			"tls: ca: open /nonexistent/ca.pem: no such file or directory, at FILE:5"},
		{"a list of words that is missing", ":9080 {\nmoderate {\nblock_file /nonexistent/words.txt\n}\n}\n",
			"block_file: open /nonexistent/words.txt: no such file or directory, at FILE:3"},
		{"env of a list of words", ":9080 {\nmoderate {\n# {env.MODERATION_TEST_UNSET}\nblock_file {env.MODERATION_TEST_UNSET}\n}\n}\n",
			"block_file: {env.MODERATION_TEST_UNSET} yields nothing: the environment variable MODERATION_TEST_UNSET is not set, at FILE:4"},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "Caddyfile")
			if err := os.WriteFile(file, []byte(test.config), 0o600); err != nil {
				t.Fatal(err)
			}
			adapted, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(test.config), map[string]any{"filename": file})
			if err == nil {
				config := new(caddy.Config)
				if err := json.Unmarshal(adapted, config); err != nil {
					t.Fatal(err)
				}
				err = caddy.Validate(config)
			}
			want := strings.ReplaceAll(test.want, "FILE", file)
			if err == nil || !strings.HasSuffix(err.Error(), want) || strings.Contains(err.Error(), "short") {
				t.Errorf("got the error %v, want one that ends in %s", err, want)
			}
		})
	}
}
