// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/review"
)

// maxFirstPage is how much a browser loads at most for the first page with everything that it needs, in bytes.
const maxFirstPage = 150_000

// firstPages are persons with the page that they get first.
var firstPages = []struct{ role, user string }{
	{"an operator", "alice"}, {"a member", "carol"}, {"a member of two accounts", "eve"}, {"a reviewer", "erin"},
	{"somebody without a role", "mallory"}, {"somebody who has to sign in", ""},
}

// budgetConfig is a configuration with a desk at which each of firstPages gets another page. more goes into the site.
func budgetConfig(t testing.TB, more string) string {
	t.Helper()
	dir := t.TempDir()
	item := aReviewItem(strings.Repeat("Rude words, as many as people write. ", 30))
	keepReviews(t, dir, review.Options{}, item, aReviewItem("Other rude words."))
	return siteConfig(dir, "demo off\nreview {\ntwice 0\n}", more+`
	@known header X-User *
	handle @known {
		moderation_desk`+deskBlock+`
	}
	handle {
		moderation_desk {
			tokens
		}
	}`)
}

var neededAssets = regexp.MustCompile(`(?:href|src)="(/assets/[^"]+)"`)

// loadPage asks for the first page of a person and what it needs, as a browser does, and returns how many bytes came.
func loadPage(t testing.TB, user string, headers ...string) (size int, page string) {
	t.Helper()
	got := visit(t, user, "/", nil, headers...)
	size, page = len(got.body), string(got.body)
	if len(headers) > 0 { // the body is compressed, but names the same files
		page = string(visit(t, user, "/", nil).body)
	}
	var assets []string
	for _, match := range neededAssets.FindAllStringSubmatch(page, -1) {
		assets = append(assets, match[1])
	}
	slices.Sort(assets)
	for _, asset := range slices.Compact(assets) {
		got := visit(t, user, asset, nil, headers...)
		if got.status != http.StatusOK {
			t.Fatalf("%s: got %d", asset, got.status)
		}
		size += len(got.body)
	}
	return size, page
}

// TestDeskPageBudget guards against a first page that takes long to load where connections are slow.
func TestDeskPageBudget(t *testing.T) {
	for name, test := range map[string]struct {
		site    string
		headers []string
	}{
		"as it is":   {},
		"compressed": {"encode zstd gzip", []string{"Accept-Encoding", "gzip, deflate, br, zstd"}},
	} {
		load(t, budgetConfig(t, test.site))
		pages := map[string]string{}
		for _, who := range firstPages {
			size, page := loadPage(t, who.user, test.headers...)
			t.Logf("%s, %s: %d bytes", who.role, name, size)
			if size > maxFirstPage {
				t.Errorf("%s, %s: got %d bytes, want at most %d", who.role, name, size, maxFirstPage)
			}
			title, _, _ := strings.Cut(page, "</title>")
			if other, same := pages[title]; same {
				t.Errorf("%s and %s get the same page, which says nothing of one of them", who.role, other)
			}
			pages[title] = who.role
		}
	}
}

// BenchmarkDeskFirstPage measures the first page of each role: the page alone, and with everything that it needs, as a
// browser without a cache loads it.
func BenchmarkDeskFirstPage(b *testing.B) {
	load(b, budgetConfig(b, ""))
	for _, who := range firstPages {
		for name, ask := range map[string]func(){
			"page":       func() { visit(b, who.user, "/", nil) },
			"everything": func() { loadPage(b, who.user) },
		} {
			b.Run(who.role+"/"+name, func(b *testing.B) {
				var took []time.Duration
				for b.Loop() {
					began := time.Now()
					ask()
					took = append(took, time.Since(began))
				}
				slices.Sort(took)
				b.ReportMetric(took[len(took)*99/100].Seconds()*1000, "p99-ms")
			})
		}
	}
}
