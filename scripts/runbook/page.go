// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package main

import (
	"fmt"
	"regexp"
	"strings"
)

// entry is an entry of docs/runbook.md: a heading of the third level and five paragraphs.
type entry struct {
	title string
	// parts are the five paragraphs by their label, such as "Signs". Each goes on until the next.
	parts map[string]string
}

// labels are the labels of the paragraphs, in their order.
var labels = []string{"Signs", "Meaning", "Look", "Do", "Over"}

var (
	label     = regexp.MustCompile(`(?m)^\*\*([A-Z][a-z]+)\.\*\*`)
	codeSpan  = regexp.MustCompile("`([^`]+)`")
	codeBlock = regexp.MustCompile("(?s)```sh\n(.*?)```\n")
)

// entriesOf returns the entries of the page.
func entriesOf(page string) (all []entry, err error) {
	for i, text := range strings.Split(page, "\n### ") {
		if i == 0 {
			continue
		}
		title, body, _ := strings.Cut(text, "\n")
		body, _, _ = strings.Cut(body, "\n## ") // the next group
		e := entry{title: title, parts: map[string]string{}}
		found := label.FindAllStringSubmatchIndex(body, -1)
		for n, at := range found {
			end := len(body)
			if n+1 < len(found) {
				end = found[n+1][0]
			}
			name := body[at[2]:at[3]]
			if n >= len(labels) || labels[n] != name {
				return nil, fmt.Errorf("%q: got the paragraph %q as number %d, want %s", title, name, n+1,
					strings.Join(labels, ", "))
			}
			e.parts[name] = body[at[1]:end]
		}
		if len(found) != len(labels) {
			return nil, fmt.Errorf("%q: got %d paragraphs, want %s", title, len(found), strings.Join(labels, ", "))
		}
		all = append(all, e)
	}
	return all, nil
}

// signs returns what must be seen when the fault is provoked: the code in the paragraphs "Signs" and "Over". Three dots
// stand for any text within a line.
func (e entry) signs() (all []string) {
	for _, name := range []string{"Signs", "Over"} {
		text := strings.Join(strings.Fields(codeBlock.ReplaceAllString(e.parts[name], "")), " ")
		for _, found := range codeSpan.FindAllStringSubmatch(text, -1) {
			all = append(all, found[1])
		}
	}
	return all
}

// commands returns the commands of the paragraph "Look", one line each.
func (e entry) commands() (all []string) {
	for _, block := range codeBlock.FindAllStringSubmatch(e.parts["Look"], -1) {
		for line := range strings.Lines(block[1]) {
			if line = strings.TrimSpace(line); line != "" {
				all = append(all, line)
			}
		}
	}
	return all
}

// seen reports whether a sign is in the evidence.
func seen(sign, evidence string) bool {
	var pattern strings.Builder
	for i, part := range strings.Split(sign, "...") {
		if i > 0 {
			pattern.WriteString(`[^\n]*?`)
		}
		// In the log, quotation marks are escaped.
		pattern.WriteString(strings.ReplaceAll(regexp.QuoteMeta(part), `"`, `\\?"`))
	}
	return regexp.MustCompile(pattern.String()).MatchString(evidence)
}

// anchor returns the anchor that GitHub gives a heading.
func anchor(title string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(title) {
		switch {
		case r == ' ':
			b.WriteByte('-')
		case r == '-' || r == '_' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			b.WriteRune(r)
		}
	}
	return b.String()
}
