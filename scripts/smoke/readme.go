// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

// readmeFile is the document whose blocks marked "console" are run. Lines that begin with "$ " are commands; a command
// that ends with a backslash continues in the next line. The lines after it are its output, in which "..." stands for
// any number of lines.
const readmeFile = "README.md"

// readme is the document in lines.
type readme []string

func readReadme() (readme, error) {
	text, err := os.ReadFile(readmeFile)
	return strings.Split(string(text), "\n"), err
}

// write stores the document.
func (r readme) write() error {
	return os.WriteFile(readmeFile, []byte(strings.Join(r, "\n")), 0o644)
}

var linkPattern = regexp.MustCompile(`\]\(([^)#]+)(#[^)]*)?\)`)

// checkLinks checks that the README's links into this repository lead somewhere.
func checkLinks() error {
	document, err := readReadme()
	if err != nil {
		return err
	}
	var dead []error
	for i, line := range document {
		for _, link := range linkPattern.FindAllStringSubmatch(line, -1) {
			if strings.Contains(link[1], "://") {
				continue
			}
			if _, err := os.Stat(link[1]); err != nil {
				dead = append(dead, fmt.Errorf("%s:%d: %w", readmeFile, i+1, err))
			}
		}
	}
	return errors.Join(dead...)
}

// noticeMark is the line before the block with the output of the first start.
const noticeMark = "<!-- smoke: first start -->"

// compareNotice compares the output of the first start with what the README shows, or writes it there.
func compareNotice(printed string, update bool) error {
	document, err := readReadme()
	if err != nil {
		return err
	}
	mark := slices.Index(document, noticeMark)
	if mark < 0 || mark+1 >= len(document) || document[mark+1] != "```text" {
		return fmt.Errorf("no block after %s in %s", noticeMark, readmeFile)
	}
	begin := mark + 2
	length := slices.Index(document[begin:], "```")
	if length < 0 {
		return fmt.Errorf("%s: the block of the first start has no end", readmeFile)
	}
	shown := document[begin : begin+length]
	switch {
	case matches(shown, printed):
		return nil
	case update:
		return slices.Replace(document, begin, begin+length, strings.Split(strings.TrimSpace(printed), "\n")...).write()
	}
	return fmt.Errorf("the README shows:\n%s\nthe server printed:\n%s", strings.Join(shown, "\n"), printed)
}

// example is a command of the document with its output.
type example struct {
	Line    int // of the command, from 1
	Command string
	Output  []string
	begin   int // of the output, as an index of lines
}

// examples finds the commands in order.
func (r readme) examples() ([]example, error) {
	var found []example
	inside := false
	for i := 0; i < len(r); i++ {
		switch line := r[i]; {
		case !inside:
			inside = line == "```console"
		case line == "```":
			inside = false
		case strings.HasPrefix(line, "$ "):
			e := example{Line: i + 1, Command: strings.TrimPrefix(line, "$ ")}
			for strings.HasSuffix(e.Command, "\\") && i+1 < len(r) {
				i++
				e.Command += "\n" + r[i]
			}
			e.begin = i + 1
			found = append(found, e)
		case len(found) == 0:
			return nil, fmt.Errorf("%s:%d: output without a command", readmeFile, i+1)
		default:
			last := &found[len(found)-1]
			if last.begin+len(last.Output) != i {
				return nil, fmt.Errorf("%s:%d: output without a command", readmeFile, i+1)
			}
			last.Output = append(last.Output, line)
		}
	}
	if inside {
		return nil, fmt.Errorf("%s: the last block has no end", readmeFile)
	}
	if len(found) == 0 {
		return nil, errors.New("the README has no commands to run")
	}
	return found, nil
}

// runReadme runs every command in one shell, in which KEY is the key of the first start.
func (p *place) runReadme(ctx context.Context, update bool) error {
	document, err := readReadme()
	if err != nil {
		return err
	}
	examples, err := document.examples()
	if err != nil {
		return err
	}
	sh, err := p.newShell(ctx)
	if err != nil {
		return err
	}
	defer sh.close()
	var wrong []error
	printed := make([]string, len(examples))
	for i, e := range examples {
		out, err := sh.run(p.here(e.Command))
		if err != nil {
			return fmt.Errorf("%s:%d: %s: %w", readmeFile, e.Line, e.Command, err)
		}
		printed[i] = p.there(out)
		if !matches(e.Output, printed[i]) {
			wrong = append(wrong, fmt.Errorf("%s:%d: %s\n-- shown:\n%s\n-- printed:\n%s", readmeFile, e.Line, e.Command,
				strings.Join(e.Output, "\n"), pretty(printed[i])))
		}
	}
	if !update {
		return errors.Join(wrong...)
	}
	for i, e := range slices.Backward(examples) { // from the end, so that the places of the others stay
		if !current(e.Output, printed[i], random) {
			var lines []string
			if printed[i] != "" {
				lines = fold(pretty(printed[i]))
			}
			document = slices.Replace(document, e.begin, e.begin+len(e.Output), lines...)
		}
	}
	return document.write()
}

// matches compares what the README shows with what a command printed.
func matches(shown []string, printed string) bool {
	return current(shown, printed, slices.Concat(random, drifting))
}

// current is like matches, with only the given differences allowed.
func current(shown []string, printed string, allowed []difference) bool {
	return match(lines(strings.Join(shown, "\n"), allowed), lines(printed, allowed))
}

// match compares line by line; "..." in want stands for any number of lines.
func match(want, have []string) bool {
	for i, line := range want {
		if line == "..." {
			for skip := range len(have) - min(i, len(have)) + 1 {
				if match(want[i+1:], have[min(i, len(have))+skip:]) {
					return true
				}
			}
			return false
		}
		if i >= len(have) || line != have[i] {
			return false
		}
	}
	return len(want) == len(have)
}

// lines returns the lines of a text, with placeholders for what may differ.
func lines(text string, allowed []difference) []string {
	return strings.Split(canonical(pretty(text), allowed), "\n")
}

// pretty indents JSON, also after a head as "curl -i" prints it, and leaves everything else as it is.
func pretty(text string) string {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	head, body := "", text
	if strings.HasPrefix(text, "HTTP/") {
		if h, b, ok := strings.Cut(text, "\n\n"); ok {
			head, body = h+"\n\n", b
		}
	}
	var b bytes.Buffer
	if json.Indent(&b, []byte(strings.TrimSpace(body)), "", "  ") == nil {
		return head + b.String()
	}
	return text
}

// fold joins objects and lists that fit into one line, for readability. The text is as pretty returns it.
func fold(text string) []string {
	const widest = 110
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	var folded []string
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		inner := strings.TrimLeft(line, " ")
		indent := line[:len(line)-len(inner)]
		if indent == "" || !strings.HasSuffix(line, "{") && !strings.HasSuffix(line, "[") {
			folded = append(folded, line)
			continue
		}
		end := i + 1 // the line that closes what this one opens has its indentation
		for end < len(lines) && !strings.HasPrefix(lines[end], indent+"}") &&
			!strings.HasPrefix(lines[end], indent+"]") {
			end++
		}
		if end == len(lines) { // no JSON
			folded = append(folded, line)
			continue
		}
		for _, next := range lines[i+1 : end] {
			next = strings.TrimLeft(next, " ")
			if !strings.HasSuffix(line, "{") && !strings.HasSuffix(line, "[") && next[0] != '}' && next[0] != ']' {
				line += " "
			}
			line += next
		}
		line += strings.TrimLeft(lines[end], " ")
		if len(line) > widest {
			folded = append(folded, lines[i])
			continue
		}
		folded = append(folded, line)
		i = end
	}
	return folded
}

// difference is a part of an output that may differ, and its placeholder.
type difference struct {
	pattern *regexp.Regexp
	put     string
}

// random is what differs between two runs of the same server: ids, keys, instants, days, sizes, and everything that
// depends on how much of the minute is left.
var random = []difference{
	{keyPattern, "KEY"},
	{regexp.MustCompile(`mod_sk_\.\.\.`), "KEY"},
	{regexp.MustCompile(`\bmod_[0-9A-Za-z]{20,}`), "MOD_ID"},
	{regexp.MustCompile(`\bkey_[0-9A-Za-z]{16}`), "KEY_ID"},
	{regexp.MustCompile(`\bfb_[0-9a-z]{20,}`), "FEEDBACK_ID"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?( ?(Z|UTC))?`), "INSTANT"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d`), "DAY"},
	{regexp.MustCompile(`(?m)^Date: .*$`), "Date: INSTANT"},
	// The rest of a minute depends on whether one ended between two commands.
	{regexp.MustCompile(`\bt=\d+`), "t=N"},
	{regexp.MustCompile(`"minute";r=\d+`), `"minute";r=N`},
	{regexp.MustCompile(`w=\d+`), "w=N"},
	{regexp.MustCompile(`(?mi)^(X-RateLimit-(Remaining|Reset)|Content-Length): \d+`), "$1: N"},
	{regexp.MustCompile(`"requests_this_minute": \d+`), `"requests_this_minute": N`},
	{regexp.MustCompile(`Requests in the minute \s*\d+`), "Requests in the minute N"},
	{regexp.MustCompile(`Wrote \d+ bytes`), "Wrote N bytes"},
}

// drifting is what a newly trained model legitimately changes: its version and the decimals of probabilities.
var drifting = []difference{
	{regexp.MustCompile(`\blinear-\d+-[0-9a-f]{8}`), "MODEL"},
	{regexp.MustCompile(`"(probability|confidence)": [\d.e-]+`), `"$1": N`},
	{regexp.MustCompile(`\b\d(\.\d+)?e-\d+`), "0.N"},
	{regexp.MustCompile(`\b0\.\d+`), "0.N"},
}

// canonical replaces what may differ by placeholders and normalizes white space.
func canonical(text string, allowed []difference) string {
	for _, d := range allowed {
		text = d.pattern.ReplaceAllString(text, d.put)
	}
	all := strings.Split(strings.TrimSpace(text), "\n")
	for i, line := range all {
		all[i] = strings.Join(strings.Fields(line), " ")
	}
	return strings.Join(all, "\n")
}
