// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package desk

import (
	_ "embed"
	"os"
	"strings"
	"testing"
)

// checks is JavaScript that looks for what keeps people from using a page. It yields a list of sentences.
//
//go:embed testdata/checks.js
var checks string

// axe runs the rules of axe-core, once it is loaded.
const axe = `axe.run(document, {resultTypes: ["violations"]}).then(r => r.violations.flatMap(v =>
	v.nodes.map(n => v.id + ": " + n.html.slice(0, 120) + " " + (n.any[0]?.message ?? n.all[0]?.message ?? ""))))`

// usable checks that people can use the page as it is shown now.
func (b *browser) usable(t *testing.T, where string) {
	t.Helper()
	for _, mistake := range evaluate[[]string](b, checks) {
		t.Errorf("%s: %s", where, mistake)
	}
	for _, violation := range b.axe(t) {
		t.Errorf("%s: axe: %s", where, violation)
	}
}

// axe returns what axe-core finds, if there is one.
func (b *browser) axe(t *testing.T) []string {
	t.Helper()
	file := os.Getenv("AXE")
	if file == "" {
		return nil
	}
	rules, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	evaluate[bool](b, string(rules)+"; true")
	return evaluate[[]string](b, axe)
}

// TestChecksFindMistakes guards against checks that find nothing because they do not run.
func TestChecksFindMistakes(t *testing.T) {
	b := open(t, serve(t), "carol")
	b.visit("/desk/accounts/acme")
	evaluate[bool](b, `(document.querySelector("main").insertAdjacentHTML("beforeend",
		"<img src=data:,><p id=period>twice</p><button></button>"), true)`)
	found := strings.Join(evaluate[[]string](b, checks), "\n")
	wants := []string{"no alt: ", "no name: ", "an id is given twice: "}
	if os.Getenv("AXE") != "" {
		found += "\n" + strings.Join(b.axe(t), "\n")
		wants = append(wants, "image-alt: ", "button-name: ")
	}
	for _, want := range wants {
		if !strings.Contains(found, want) {
			t.Errorf("got %s, want %q", found, want)
		}
	}
}
