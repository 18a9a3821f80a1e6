// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Names of the generated sections.
const (
	weightsSection  = "weights"
	priorsSection   = "priors"
	textsSection    = "texts"
	sourcesSection  = "sources"
	coverageSection = "coverage"
	figuresSection  = "figures"
)

var sectionNames = []string{weightsSection, priorsSection, textsSection, sourcesSection, coverageSection, figuresSection}

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
				faults = append(faults, fmt.Errorf("line %d: section %q begins again, it began in line %d", i+1, name, begun[name]))
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

// marked returns the name in a marker line.
func marked(line, mark string) (name string, ok bool) {
	name, ok = strings.CutPrefix(strings.TrimSpace(line), mark)
	if !ok {
		return "", false
	}
	return strings.CutSuffix(name, closeMark)
}

// rewrite puts new text in the sections of a document.
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
			fmt.Fprintf(&out, "\n%s\n\n", strings.TrimSpace(text))
			inside = true
		}
	}
	return out.Bytes(), nil
}
