// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"
)

// goldenFolder holds the exchanges of each client with the service, relative to the root of the repository.
const goldenFolder = "scripts/clients/testdata"

// golden compares what went over the wire with a file, or writes the file. hide replaces the secrets and addresses of
// this run.
func golden(name string, exchanges []exchange, hide *strings.Replacer, update bool) error {
	file := filepath.Join(goldenFolder, name+".http")
	got := transcript(exchanges, hide)
	if update {
		if err := os.MkdirAll(goldenFolder, 0o755); err != nil {
			return err
		}
		return os.WriteFile(file, []byte(got), 0o644)
	}
	want, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is missing; -update writes it", file)
	}
	if err != nil {
		return err
	}
	return firstDifference(file, got, string(want))
}

// firstDifference returns an error that shows the first line in which two texts differ, or nil.
func firstDifference(file, got, want string) error {
	if got == want {
		return nil
	}
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	at := 0
	for at < min(len(g), len(w)) && g[at] == w[at] {
		at++
	}
	line := func(lines []string) string {
		if at < len(lines) {
			return lines[at]
		}
		return "(the end)"
	}
	return fmt.Errorf("%s:%d: got %.250s, want %.250s; -update rewrites the file", file, at+1, line(g), line(w))
}

// transcript returns exchanges as text. What differs between runs and machines is masked.
func transcript(exchanges []exchange, hide *strings.Replacer) string {
	var b strings.Builder
	for _, e := range exchanges {
		fmt.Fprintf(&b, "### %s\n\n", e.check)
		for _, half := range []struct {
			wired
			masks []mask
		}{{e.request, requestMasks}, {e.answer, answerMasks}} {
			text := strings.ReplaceAll(half.head, "\r\n", "\n") + "\n\n" +
				strings.TrimRight(string(half.body), "\n") + "\n\n"
			text = hide.Replace(text)
			for _, m := range half.masks {
				text = m.pattern.ReplaceAllString(text, m.with)
			}
			b.WriteString(short(text))
		}
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

type mask struct {
	pattern *regexp.Regexp
	with    string
}

// What differs between machines.
var requestMasks = []mask{
	{regexp.MustCompile(`(?mi)^(x-stainless-(?:arch|os|runtime-version)|accept-encoding): .*`), "$1: *"},
	{regexp.MustCompile(`\b(gl-(?:go|node)/)\S+`), "$1*"},
}

// What differs between runs: ids, times, the model and its probabilities.
var answerMasks = []mask{
	{regexp.MustCompile(`\b(mod_|modr-)[A-Za-z0-9]{24}\b`), "$1*"},
	{regexp.MustCompile(`(?m)^(Date|Retry-After|X-Ratelimit-Reset(?:-Requests)?|Openai-Processing-Ms|X-Moderation-Model|Content-Length): .*`), "$1: *"},
	{regexp.MustCompile(`(?m)^(Ratelimit: .*t=)\d+`), "${1}*"},
	{regexp.MustCompile(`\b(Try again in )\d+|("retryDelay":")\d+`), "$1$2*"},
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`), "*"},
	{regexp.MustCompile(`("modelVersion":)"[^"]*"`), `$1"*"`},
	{regexp.MustCompile(`("value":|"[a-z/-]+":)(?:0\.\d+|[\d.]+[eE]-?\d+)`), `${1}0.*`},
}

// short truncates long texts and the discovery document.
func short(text string) string {
	const limit, most = 1_500, 40
	lines := strings.Split(text, "\n")
	if len(lines) > most {
		lines = append(lines[:most], "...", "", "")
	}
	for i, line := range lines {
		if len(line) > limit {
			cut := line[:limit/3]
			for !utf8.ValidString(cut) {
				cut = cut[:len(cut)-1]
			}
			lines[i] = cut + " ..."
		}
	}
	return strings.Join(lines, "\n")
}
