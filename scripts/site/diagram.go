// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"html"
	"regexp"
	"strings"
)

// describeDiagram returns a diagram of Mermaid as a list of its arrows. Drawing it would take Mermaid's three megabytes
// of JavaScript; a list is shorter, and people who cannot see a drawing can read it. It knows flow charts and sequences
// of what the documentation uses, and returns an error for anything else.
func describeDiagram(code string) (string, error) {
	lines := strings.Split(strings.TrimSpace(code), "\n")
	kind, _, _ := strings.Cut(strings.TrimSpace(lines[0]), " ")
	var steps []step
	var err error
	list := "ul"
	switch kind {
	case "flowchart", "graph":
		steps, err = flowchart(lines[1:])
	case "sequenceDiagram":
		list = "ol"
		steps, err = sequence(lines[1:])
	default:
		err = fmt.Errorf("no diagrams of the kind %q", kind)
	}
	if err != nil {
		return "", err
	}
	var out strings.Builder
	fmt.Fprintf(&out, "<figure class=\"diagram\">\n<%s>\n", list)
	for _, s := range steps {
		fmt.Fprintf(&out, `<li><b>%s</b> <span aria-label="to">→</span> <b>%s</b>`,
			html.EscapeString(s.from), html.EscapeString(s.to))
		if s.label != "" {
			out.WriteString(": " + html.EscapeString(s.label))
		}
		out.WriteString("</li>\n")
	}
	fmt.Fprintf(&out, "</%s>\n</figure>\n", list)
	return out.String(), nil
}

// step is an arrow of a diagram.
type step struct{ from, to, label string }

var (
	participant = regexp.MustCompile(`^(?:participant|actor)\s+(\w+)(?:\s+as\s+(.+))?$`)
	message     = regexp.MustCompile(`^(\w+)\s*-{1,2}>>?\s*(\w+)\s*:\s*(.+)$`)
	subgraph    = regexp.MustCompile(`^subgraph\s+(\w+)(?:\["(.+)"\])?$`)
	node        = regexp.MustCompile(`^(\w+)(?:\["([^"]+)"\]|\[([^\]"]+)\])?`)
	arrow       = regexp.MustCompile(`^\s*(?:-->(?:\|([^|]+)\|)?|--\s+"?([^"]+?)"?\s+-->)\s*`)
	lineBreak   = regexp.MustCompile(`<br\s*/?>`)
)

// sequence returns the messages of a sequence diagram.
func sequence(lines []string) (steps []step, err error) {
	names := map[string]string{}
	for _, line := range lines {
		line = strings.TrimSpace(line)
		if found := participant.FindStringSubmatch(line); found != nil {
			if names[found[1]] = found[2]; found[2] == "" {
				names[found[1]] = found[1]
			}
			continue
		}
		found := message.FindStringSubmatch(line)
		if found == nil {
			return nil, fmt.Errorf("not understood: %s", line)
		}
		for _, name := range found[1:3] {
			if names[name] == "" {
				names[name] = name
			}
		}
		steps = append(steps, step{names[found[1]], names[found[2]], found[3]})
	}
	return steps, nil
}

// flowchart returns the arrows of a flow chart. A node in a frame is named with the title of the frame.
func flowchart(lines []string) (steps []step, err error) {
	titles := map[string]string{}
	frame := ""
	type link struct{ from, to, label string }
	var links []link
	for _, line := range lines {
		rest := strings.TrimSpace(line)
		switch {
		case rest == "":
			continue
		case rest == "end":
			frame = ""
			continue
		}
		if found := subgraph.FindStringSubmatch(rest); found != nil {
			if frame = found[2]; frame == "" {
				frame = found[1]
			}
			continue
		}
		before, label := "", ""
		for rest != "" {
			found := node.FindStringSubmatch(rest)
			if found == nil {
				return nil, fmt.Errorf("not understood: %s", line)
			}
			id, title := found[1], found[2]+found[3]
			if title != "" || titles[id] == "" {
				if title == "" {
					title = id
				}
				title = lineBreak.ReplaceAllString(title, " ")
				if frame != "" {
					title += " (in " + frame + ")"
				}
				titles[id] = title
			}
			if before != "" {
				links = append(links, link{before, id, label})
			}
			rest = rest[len(found[0]):]
			at := arrow.FindStringSubmatch(rest)
			if at == nil && strings.TrimSpace(rest) != "" {
				return nil, fmt.Errorf("not understood: %s", line)
			}
			if at == nil {
				break
			}
			before, label, rest = id, at[1]+at[2], rest[len(at[0]):]
		}
	}
	for _, l := range links {
		steps = append(steps, step{titles[l.from], titles[l.to], l.label})
	}
	return steps, nil
}
