// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package desk

import (
	_ "embed"
	"os"
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
	file := os.Getenv("AXE")
	if file == "" {
		return
	}
	rules, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	evaluate[bool](b, string(rules)+"; true")
	for _, violation := range evaluate[[]string](b, axe) {
		t.Errorf("%s: axe: %s", where, violation)
	}
}
