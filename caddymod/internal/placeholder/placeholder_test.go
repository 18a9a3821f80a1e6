// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package placeholder

import (
	"os"
	"path/filepath"
	"testing"
)

// TestExpand: what is expanded is whole, and an error tells the name and never the value of another placeholder.
func TestExpand(t *testing.T) {
	t.Setenv("PLACEHOLDER_TEST_SET", "s3cr3t")
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("from a file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ text, want, wrong string }{
		{"plain", "plain", ""},
		{"a{env.PLACEHOLDER_TEST_SET}b", "as3cr3tb", ""},
		{"{file." + file + "}", "from a file", ""},
		{"{env.PLACEHOLDER_TEST_SET}{env.PLACEHOLDER_TEST_UNSET}", "",
			"{env.PLACEHOLDER_TEST_UNSET} yields nothing: the environment variable PLACEHOLDER_TEST_UNSET is not set"},
		{"{file." + dir + "/none}", "", "{file." + dir + "/none} yields nothing: the file " + dir + "/none cannot be read: no such file or directory"},
		{"{file." + dir + "}", "", "{file." + dir + "} yields nothing: the file " + dir + " cannot be read: is a directory"},
		{"{vars.x}", "", "{vars.x} yields nothing: there is no such placeholder when a configuration is loaded"},
	} {
		got, err := Expand(test.text)
		if test.wrong == "" && (err != nil || got != test.want) {
			t.Errorf("%s: got %q (%v), want %q", test.text, got, err, test.want)
		}
		if test.wrong != "" && (err == nil || err.Error() != test.wrong || got != "") {
			t.Errorf("%s: got %q and the error %v, want %s", test.text, got, err, test.wrong)
		}
	}
}

// TestAt finds a placeholder in the Caddyfile that was parsed last, as it is now, and names no line for one that has
// gone.
func TestAt(t *testing.T) {
	dir := t.TempDir()
	first, last := filepath.Join(dir, "first"), filepath.Join(dir, "last")
	write := func(file, content string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(first, "x\n\tkey {env.PLACEHOLDER_AT}\n")
	write(last, "# {env.PLACEHOLDER_AT}\n\n\n\tkey {env.PLACEHOLDER_AT}\n")
	Parsed(first)
	Parsed(last)
	for _, step := range []struct{ content, want string }{
		{"# {env.PLACEHOLDER_AT}\n\n\n\tkey {env.PLACEHOLDER_AT}\n", ", at " + last + ":4"},
		{"key {env.PLACEHOLDER_AT}", ", at " + last + ":1"},
		{"", ", at " + first + ":2"},
	} {
		write(last, step.content)
		if got := At("{env.PLACEHOLDER_AT}"); got != step.want {
			t.Errorf("got %q, want %q", got, step.want)
		}
	}
	write(first, "")
	if got := At("{env.PLACEHOLDER_AT}"); got != "" {
		t.Errorf("got %q for what is in no file, want nothing", got)
	}
}

// TestUnset finds variables of one line alone, and leaves out those with a default or a value.
func TestUnset(t *testing.T) {
	t.Setenv("PLACEHOLDER_TEST_SET", "s3cr3t")
	file := filepath.Join(t.TempDir(), "Caddyfile")
	content := "a {$PLACEHOLDER_TEST_ONE}\nb {$PLACEHOLDER_TEST_SET} {$PLACEHOLDER_TEST_ONE:default} {$} {env.PLACEHOLDER_TEST_ONE}\n" +
		"c {$PLACEHOLDER_TEST_ONE}{$PLACEHOLDER_TEST_TWO}\n"
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	one := "; {$PLACEHOLDER_TEST_ONE} yields nothing: the environment variable PLACEHOLDER_TEST_ONE is not set"
	two := "; {$PLACEHOLDER_TEST_TWO} yields nothing: the environment variable PLACEHOLDER_TEST_TWO is not set"
	for line, want := range map[int]string{1: one, 2: "", 3: one + two} {
		if got, ok := Unset(file, line); got != want || !ok {
			t.Errorf("line %d: got %q (%v), want %q", line, got, ok, want)
		}
	}
	for _, line := range []int{0, 99} {
		if got, ok := Unset(file, line); got != "" || ok {
			t.Errorf("line %d: got %q (%v), want that it cannot be read", line, got, ok)
		}
	}
	if got, ok := Unset(file+"x", 1); got != "" || ok {
		t.Errorf("no file: got %q (%v), want that it cannot be read", got, ok)
	}
}
