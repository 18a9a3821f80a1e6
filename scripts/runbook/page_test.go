// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../../"

func page(t *testing.T) (text string, entries []entry) {
	t.Helper()
	b, err := os.ReadFile(root + pageFile)
	if err != nil {
		t.Fatal(err)
	}
	entries, err = entriesOf(string(b))
	if err != nil {
		t.Fatal(err)
	}
	return string(b), entries
}

// TestEveryEntryIsProvoked guards against entries that nobody has seen happen, and against scenarios for entries that
// were removed.
func TestEveryEntryIsProvoked(t *testing.T) {
	t.Parallel()
	_, entries := page(t)
	var titles []string
	for _, e := range entries {
		titles = append(titles, e.title)
		p, ok := provoked[e.title]
		switch {
		case !ok:
			t.Errorf("%q: got no row in provoked.go, want a scenario or a reason", e.title)
		case (len(p.by) == 0) == (p.reason == ""):
			t.Errorf("%q: got the scenarios %v and the reason %q, want one of them", e.title, p.by, p.reason)
		}
		for _, name := range p.by {
			if !slices.ContainsFunc(scenarios, func(s *scenario) bool { return s.name == name }) {
				t.Errorf("%q: got the scenario %q, which does not exist", e.title, name)
			}
		}
		if len(e.signs()) == 0 {
			t.Errorf("%q: got no sign in backquotes, want at least one that can be looked for", e.title)
		}
		if len(e.commands()) == 0 {
			t.Errorf("%q: got no command to look at, want at least one", e.title)
		}
		for _, name := range labels {
			if strings.TrimSpace(e.parts[name]) == "" {
				t.Errorf("%q: the paragraph %q is empty", e.title, name)
			}
		}
	}
	for title := range provoked {
		if !slices.Contains(titles, title) {
			t.Errorf("provoked.go: got a row for %q, which is not on the page", title)
		}
	}
	for _, s := range scenarios {
		used := slices.ContainsFunc(entries, func(e entry) bool {
			return slices.Contains(provoked[e.title].by, s.name)
		})
		if !used {
			t.Errorf("the scenario %q provokes no entry", s.name)
		}
	}
}

// alertsOf returns the alerts of rules.yml by their names, each with its members that have one line. promtool reads the
// file as YAML; this only takes lines apart.
func alertsOf(t *testing.T) map[string]map[string]string {
	t.Helper()
	text, err := os.ReadFile(root + rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]map[string]string{}
	member := regexp.MustCompile(`(?m)^ {8,}([a-z_]+): *(.*)$`)
	for i, rule := range strings.Split(string(text), "\n      - ") {
		name, found := strings.CutPrefix(strings.SplitN(rule, "\n", 2)[0], "alert: ")
		if i == 0 || !found {
			continue
		}
		all[name] = map[string]string{}
		for _, m := range member.FindAllStringSubmatch(rule, -1) {
			all[name][m[1]] = m[2]
		}
	}
	return all
}

// TestEveryAlertHasAnEntry guards against alerts that lead nowhere, and against alerts that nothing tests.
func TestEveryAlertHasAnEntry(t *testing.T) {
	t.Parallel()
	_, entries := page(t)
	tests := ""
	for _, name := range []string{"rules_test.yml", "rules_days_test.yml"} {
		text, err := os.ReadFile(root + "monitoring/prometheus/" + name)
		if err != nil {
			t.Fatal(err)
		}
		tests += string(text)
	}
	alerts := alertsOf(t)
	for name, members := range alerts {
		i := slices.IndexFunc(entries, func(e entry) bool { return e.title == name })
		if i < 0 {
			t.Errorf("%s: docs/runbook.md has no entry of this name", name)
			continue
		}
		if !slices.Contains(entries[i].signs(), name) {
			t.Errorf("%s: the signs of its entry do not name the alert", name)
		}
		want := "https://github.com/caddy-moderation/caddy-moderation/blob/main/docs/runbook.md#" + anchor(name)
		if got := members["runbook_url"]; got != want {
			t.Errorf("%s: runbook_url: got %s, want %s", name, got, want)
		}
		if s := members["severity"]; s != "critical" && s != "warning" {
			t.Errorf("%s: severity: got %q, want critical or warning", name, s)
		}
		for _, member := range []string{"expr", "summary", "description"} {
			if members[member] == "" {
				t.Errorf("%s has no %s", name, member)
			}
		}
		if members["for"] == "" {
			t.Errorf("%s has no for, not even 0m", name)
		}
		fires := regexp.MustCompile(`alertname: ` + name + `\n +exp_alerts:\n`)
		silent := regexp.MustCompile(`alertname: ` + name + `\n +exp_alerts: \[\]\n`)
		if !fires.MatchString(tests) || !silent.MatchString(tests) {
			t.Errorf("%s: monitoring/prometheus has no test in which it fires, or none in which it is silent", name)
		}
	}
	if len(alerts) < 20 {
		t.Errorf("rules.yml: got %d alerts, want those of the runbook", len(alerts))
	}
}

// TestRulesCanBeShortened guards against durations that the scenarios would leave as they are.
func TestRulesCanBeShortened(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(root + rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	short, err := shorten(string(text))
	if err != nil {
		t.Fatal(err)
	}
	if found := regexp.MustCompile(`\[\d+[mhdw]\]|for: [1-9]\d*[mhd]`).FindString(short); found != "" {
		t.Errorf("the shortened rules have %s, want seconds everywhere", found)
	}
}

// TestDashboard guards against a dashboard that Grafana takes and shows badly: ids that are there twice, panels over
// each other, a data source that nobody else has.
func TestDashboard(t *testing.T) {
	t.Parallel()
	d, err := readDashboard(root + dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(root + dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	if found := regexp.MustCompile(`"uid": "[^"$]*"`).FindAllString(string(text), -1); len(found) != 2 {
		t.Errorf("fixed uids: got %v, want only that of the dashboard and Grafana's own", found)
	}
	ids, taken := map[int]string{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if other, ok := ids[p.ID]; ok || p.ID == 0 {
			t.Errorf("%q: got the id %d, which %q has, too", p.Title, p.ID, other)
		}
		ids[p.ID] = p.Title
		g := p.GridPos
		if g.W < 1 || g.H < 1 || g.X < 0 || g.X+g.W > 24 {
			t.Errorf("%q: got the place %+v, want it within 24 columns", p.Title, g)
		}
		for x := g.X; x < g.X+g.W; x++ {
			for y := g.Y; y < g.Y+g.H; y++ {
				if other, ok := taken[[2]int{x, y}]; ok {
					t.Errorf("%q is drawn over %q", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if p.Description == "" {
			t.Errorf("%q has no description", p.Title)
		}
		if len(p.Targets) == 0 {
			t.Errorf("%q asks for nothing", p.Title)
		}
		refs := map[string]bool{}
		for _, target := range p.Targets {
			if refs[target.RefID] {
				t.Errorf("%q: got two queries %s", p.Title, target.RefID)
			}
			refs[target.RefID] = true
			// Each metric is chosen by the variables.
			names := metricName.FindAllString(target.Expr, -1)
			chosen := strings.Count(target.Expr, `job=~"$job", instance=~"$instance"`)
			if len(names) == 0 || len(names) != chosen {
				t.Errorf("%q, %s: got %d metrics, %d of them chosen by job and instance", p.Title, target.Expr,
					len(names), chosen)
			}
		}
	}
}

// TestSigns guards against a search that finds everything, or nothing.
func TestSigns(t *testing.T) {
	t.Parallel()
	const log = `{"level":"error","msg":"the disk is full: 15 MiB are free in /var","error":"it is \"bad\""}` + "\nnext"
	for sign, want := range map[string]bool{
		"the disk is full: ... MiB are free in ...": true,
		`it is "bad"`:               true,
		"the disk is full ... /var": false,
		"free in ... next":          false,
		"full: (.*) MiB":            false,
	} {
		if got := seen(sign, log); got != want {
			t.Errorf("%q: got %t, want %t", sign, got, want)
		}
	}
}

// TestBrokenPages guards against paragraphs that are not read because they are misspelt.
func TestBrokenPages(t *testing.T) {
	t.Parallel()
	const good = "# Page\n\n### One\n\n**Signs.** `a`\n\n**Meaning.** b\n\n**Look.**\n\n```sh\nls\n```\n\n**Do.** d\n\n" +
		"**Over.** `e`\n\n## Group\n\n### Two\n"
	if _, err := entriesOf(good); err == nil || !strings.Contains(err.Error(), `"Two"`) {
		t.Errorf("an entry without paragraphs: got error %v, want one that names it", err)
	}
	one, _, _ := strings.Cut(good, "## Group")
	entries, err := entriesOf(one)
	if err != nil || len(entries) != 1 || !slices.Equal(entries[0].signs(), []string{"a", "e"}) ||
		!slices.Equal(entries[0].commands(), []string{"ls"}) {
		t.Errorf("a good page: got %+v, error %v", entries, err)
	}
	if _, err := entriesOf(strings.Replace(one, "Meaning", "Meening", 1)); err == nil ||
		!strings.Contains(err.Error(), "Meening") {
		t.Errorf("a misspelt paragraph: got error %v, want one that names it", err)
	}
}
