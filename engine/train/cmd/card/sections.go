// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// The names of the generated sections.
const (
	weightsSection  = "weights"
	recallSection   = "recall"
	priorsSection   = "priors"
	readersSection  = "readers"
	textsSection    = "texts"
	sourcesSection  = "sources"
	plainSection    = "ordinary text"
	coverageSection = "coverage"
	figuresSection  = "figures"
)

var sectionNames = []string{
	weightsSection, recallSection, priorsSection, readersSection, textsSection, sourcesSection, plainSection,
	coverageSection, figuresSection,
}

const (
	beginMark = "<!-- begin generated: "
	endMark   = "<!-- end generated: "
	closeMark = " -->"
)

// check reports what is wrong with the markers of a document: each section must begin and end once, one after the
// other.
func check(document []byte) error {
	var faults []error
	open := ""
	begun := map[string]int{}
	for i, line := range strings.Split(string(document), "\n") {
		if name, ok := marked(line, beginMark); ok {
			switch {
			case open != "":
				faults = append(faults, fmt.Errorf("line %d: section %q begins before %q ends", i+1, name, open))
			case !slices.Contains(sectionNames, name):
				faults = append(faults, fmt.Errorf("line %d: nothing generates a section %q", i+1, name))
			case begun[name] > 0:
				err := fmt.Errorf("line %d: section %q begins again, it began in line %d", i+1, name, begun[name])
				faults = append(faults, err)
			}
			open, begun[name] = name, i+1
		}
		if name, ok := marked(line, endMark); ok {
			if name != open {
				faults = append(faults, fmt.Errorf("line %d: section %q ends where it did not begin", i+1, name))
			}
			open = ""
		}
	}
	if open != "" {
		faults = append(faults, fmt.Errorf("line %d: section %q does not end", begun[open], open))
	}
	for _, name := range sectionNames {
		if begun[name] == 0 {
			faults = append(faults, fmt.Errorf("there is no line %q", beginMark+name+closeMark))
		}
	}
	return errors.Join(faults...)
}

// marked returns the name in a line with the given marker.
func marked(line, mark string) (name string, ok bool) {
	name, ok = strings.CutPrefix(strings.TrimSpace(line), mark)
	if !ok {
		return "", false
	}
	return strings.CutSuffix(name, closeMark)
}

// rewrite replaces the sections of a document, and wraps their prose.
func rewrite(document []byte, sections map[string]string) ([]byte, error) {
	if err := check(document); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	inside := false
	for line := range strings.Lines(string(document)) {
		if _, ok := marked(line, endMark); ok {
			inside = false
		}
		if inside {
			continue
		}
		out.WriteString(line)
		if name, ok := marked(line, beginMark); ok {
			text, ok := sections[name]
			if !ok {
				return nil, fmt.Errorf("no text for the section %q", name)
			}
			fmt.Fprintf(&out, "\n%s\n\n", wrap(strings.TrimSpace(text)))
			inside = true
		}
	}
	return out.Bytes(), nil
}

// recallHeading begins the part of a report that the card begins with.
const recallHeading = "## Recall at fixed rates of false alarms\n"

// cutRecall takes the recall at fixed rates of false alarms out of a report.
func cutRecall(report string) (recall, rest string, err error) {
	before, after, found := strings.Cut(report, recallHeading)
	if !found {
		return "", "", fmt.Errorf("there is no section %q: it needs ordinary text of registers that were held back",
			strings.TrimSpace(recallHeading))
	}
	recall, after, found = strings.Cut(after, "\n## ")
	if found {
		after = "## " + after
	}
	return recall, before + after, nil
}

// width is the maximum length of a line of prose in a section, in characters.
const width = 120

// wrap breaks the long lines of a section at spaces. Tables and headings stay as they are.
func wrap(text string) string {
	var out strings.Builder
	for i, line := range strings.Split(text, "\n") {
		if i > 0 {
			out.WriteByte('\n')
		}
		if strings.HasPrefix(line, "|") || strings.HasPrefix(line, "#") {
			out.WriteString(line)
			continue
		}
		used := 0
		for _, word := range strings.Split(line, " ") {
			n := utf8.RuneCountInString(word)
			switch {
			case used > 0 && used+1+n > width:
				out.WriteByte('\n')
				used = 0
			case used > 0:
				out.WriteByte(' ')
				used++
			}
			out.WriteString(word)
			used += n
		}
	}
	return out.String()
}
