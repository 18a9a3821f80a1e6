// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

const (
	// modulePath is the path of the Go module, which lies in the folder above this one.
	modulePath = "github.com/caddy-moderation/caddy-moderation"
	// modulesPage is the page that is generated.
	modulesPage = "../docs/modules.md"
	// moduleExamples has an example for each Caddy module: <module id>.caddyfile, or <module id>.json with an HTTP
	// handler for a module that has no Caddyfile.
	moduleExamples = "../testdata/modules"
)

// registered returns the Caddy modules of this project: ids and types.
func registered(t *testing.T) map[string]reflect.Type {
	t.Helper()
	modules := map[string]reflect.Type{}
	for _, id := range caddy.Modules() {
		info, err := caddy.GetModule(id)
		if err != nil {
			t.Fatal(err)
		}
		// The modules that tests register are in packages whose path ends in _test.
		module := element(reflect.TypeOf(info.New()))
		if strings.HasPrefix(module.PkgPath(), modulePath+"/") && !strings.HasSuffix(module.PkgPath(), "_test") {
			modules[id] = module
		}
	}
	return modules
}

// TestModulesPage generates docs/modules.md from the doc comments of all modules, and fails when the page is stale,
// or when something has no comment.
func TestModulesPage(t *testing.T) {
	t.Setenv("ACME_MODERATION_KEY", acmeKey)
	t.Setenv("REDIS_PASSWORD", "secret")
	modules := registered(t)
	page := newModuleDocs(t, modules)
	for id := range modules {
		page.examples[id] = exampleOf(t, id)
	}
	got := page.write()
	if *update {
		if err := os.WriteFile(modulesPage, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(modulesPage)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is stale; write it anew with: go test ./caddymod -run TestModulesPage -update", modulesPage)
	}
}

// TestModuleExamplesHaveModules finds examples of modules that there are no more.
func TestModuleExamplesHaveModules(t *testing.T) {
	t.Parallel()
	modules := registered(t)
	files, err := filepath.Glob(moduleExamples + "/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		id := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(file), ".json"), ".caddyfile")
		if modules[id] == nil {
			t.Errorf("%s is the example of a module that does not exist", file)
		}
	}
}

// TestScriptKnowsTheModules compares the modules that xcaddy.sh looks for in the binary with those that are registered.
func TestScriptKnowsTheModules(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skipf("no bash: %v", err)
	}
	out, err := exec.CommandContext(t.Context(), bash, "../xcaddy.sh", "modules").Output()
	if err != nil {
		t.Fatalf("listing the modules: %v", err)
	}
	var want []string
	for id := range registered(t) {
		want = append(want, id)
	}
	slices.Sort(want)
	if got := strings.Fields(string(out)); !slices.Equal(got, want) {
		t.Errorf("xcaddy.sh modules: got %q, want %q", got, want)
	}
}

// moduleExample is how a module is configured.
type moduleExample struct {
	caddyfile string // "" where there is none
	json      string // of the module, or of what holds it
}

// exampleOf returns the example of a module, the zero value where the module has none. It must be a valid
// configuration.
func exampleOf(t *testing.T, id string) moduleExample {
	t.Helper()
	var example moduleExample
	var config []byte
	text, err := os.ReadFile(filepath.Join(moduleExamples, id+".caddyfile"))
	switch {
	case err == nil:
		example.caddyfile = string(text)
		if formatted := caddyfile.Format(text); !bytes.Equal(formatted, text) {
			t.Errorf("the example of %s is not formatted as caddy fmt does; want:\n%s", id, formatted)
		}
		config = adapt(t, example.caddyfile)
		example.json = indented(t, moduleJSON(config, id))
	case errors.Is(err, fs.ErrNotExist):
		text, err := os.ReadFile(filepath.Join(moduleExamples, id+".json"))
		if errors.Is(err, fs.ErrNotExist) {
			return example
		}
		if err != nil {
			t.Fatal(err)
		}
		example.json = indented(t, text)
		config = []byte(`{"apps":{"http":{"servers":{"s":{"listen":[":8080"],"routes":[{"handle":[` + string(text) + `]}]}}}}}`)
	default:
		t.Fatal(err)
	}
	parsed := new(caddy.Config)
	if err := json.Unmarshal(config, parsed); err != nil {
		t.Fatal(err)
	}
	if err := caddy.Validate(parsed); err != nil {
		t.Errorf("the example of %s is not valid: %v", id, err)
	}
	return example
}

// moduleJSON finds the JSON of a module in a configuration.
func moduleJSON(config []byte, id string) json.RawMessage {
	name := caddy.ModuleID(id).Name()
	switch namespace := caddy.ModuleID(id).Namespace(); namespace {
	case "":
		return member(config, "apps", id)
	case "moderation.storage":
		return member(config, "apps", "moderation", "storage")
	case "moderation.classifiers":
		return member(config, "apps", "moderation", "classifier")
	default: // a handler, or a matcher
		return find(config, func(key string, value json.RawMessage) bool {
			return key == name || string(member(value, "handler")) == `"`+name+`"`
		})
	}
}

// member returns a value by the names of the objects that it stands in.
func member(value json.RawMessage, path ...string) json.RawMessage {
	for _, name := range path {
		var object map[string]json.RawMessage
		if json.Unmarshal(value, &object) != nil {
			return nil
		}
		value = object[name]
	}
	return value
}

// find returns the first value, below value or itself, that is wanted. key is the name of its member, if it is one.
func find(value json.RawMessage, wanted func(key string, value json.RawMessage) bool) json.RawMessage {
	var walk func(key string, value json.RawMessage) json.RawMessage
	walk = func(key string, value json.RawMessage) json.RawMessage {
		if wanted(key, value) {
			return value
		}
		var object map[string]json.RawMessage
		var array []json.RawMessage
		if json.Unmarshal(value, &object) == nil {
			for name, inner := range object {
				if found := walk(name, inner); found != nil {
					return found
				}
			}
		} else if json.Unmarshal(value, &array) == nil {
			for _, inner := range array {
				if found := walk("", inner); found != nil {
					return found
				}
			}
		}
		return nil
	}
	return walk("", value)
}

// indented returns JSON in lines.
func indented(t *testing.T, value []byte) string {
	t.Helper()
	var text bytes.Buffer
	if err := json.Indent(&text, bytes.TrimSpace(value), "", "\t"); err != nil {
		t.Fatalf("indenting %s: %v", value, err)
	}
	return text.String() + "\n"
}
