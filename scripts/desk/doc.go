// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package desk tries the pages of caddymod/desk in a real browser: a headless Chromium, driven with
// github.com/chromedp/chromedp. It is a module of its own, so that the plugin's go.mod has nothing of it. Where there is
// no Chromium, its tests are skipped with a line; CHROMIUM names one that is not in PATH.
//
//	go test -C scripts/desk ./...
//
// The pictures of docs/desk.md are taken anew with
//
//	go test -C scripts/desk -run 'Screenshots|QualityPages|TestWords' -update
//
// AXE names a file axe.min.js of axe-core, whose rules are then tried, too, beside the checks of this package. The script
// install.sh gets both ready where that is possible; ".ci/run desk" calls it.
package desk
