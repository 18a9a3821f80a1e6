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
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// pages are the documents whose examples are run, in this order. Each gets a server of its own, on an empty directory,
// so that a reader who begins with any of them sees what it shows.
//
// Blocks marked "console" are run. Lines that begin with "$ " are commands; a command that ends with a backslash
// or a pipe continues in the next line. The lines after it are its output, in which "..." stands for any number of
// lines. A command that calls jq is skipped where that is not installed. A block after [fileMark] is written to a file
// first.
var pages = []string{"README.md", "docs/api.md", "docs/evaluate.md"}

// page is a document.
type page struct {
	name  string // relative to the root of the repository
	lines []string
}

func readPage(name string) (*page, error) {
	text, err := os.ReadFile(name)
	return &page{name, strings.Split(string(text), "\n")}, err
}

// write stores the document.
func (d *page) write() error {
	return os.WriteFile(d.name, []byte(strings.Join(d.lines, "\n")), 0o644)
}

// noticeMark is the line before the block with the output of the first start. One page has it.
const noticeMark = "<!-- smoke: first start -->"

// fileMark is the line before a block that the commands of the page find as a file.
var fileMark = regexp.MustCompile(`^<!-- smoke: file ([\w.-]+) -->$`)

// block returns the lines of the fenced block that begins in the given line, which must have that fence.
func (d *page) block(at int, fence *regexp.Regexp) (begin, end int, err error) {
	if at >= len(d.lines) || !fence.MatchString(d.lines[at]) {
		return 0, 0, fmt.Errorf("%s:%d: no block after the mark", d.name, at+1)
	}
	length := slices.Index(d.lines[at+1:], "```")
	if length < 0 {
		return 0, 0, fmt.Errorf("%s:%d: the block has no end", d.name, at+1)
	}
	return at + 1, at + 1 + length, nil
}

var textFence, anyFence = regexp.MustCompile("^```text$"), regexp.MustCompile("^```[a-z]+$")

// compareNotice compares the output of the first start with what the page that has [noticeMark] shows, or writes it
// there.
func compareNotice(printed string, update bool) error {
	for _, name := range pages {
		document, err := readPage(name)
		if err != nil {
			return err
		}
		mark := slices.Index(document.lines, noticeMark)
		if mark < 0 {
			continue
		}
		begin, end, err := document.block(mark+1, textFence)
		if err != nil {
			return err
		}
		shown := document.lines[begin:end]
		switch {
		case matches(shown, printed):
			return nil
		case update:
			document.lines = slices.Replace(document.lines, begin, end, strings.Split(strings.TrimSpace(printed), "\n")...)
			return document.write()
		}
		return fmt.Errorf("%s shows:\n%s\nthe server printed:\n%s", name, strings.Join(shown, "\n"), printed)
	}
	return fmt.Errorf("no page has %s", noticeMark)
}

// files returns what the page's commands find in their folder, by name.
func (d *page) files() (map[string]string, error) {
	found := map[string]string{}
	for i, line := range d.lines {
		name := fileMark.FindStringSubmatch(line)
		if name == nil {
			continue
		}
		begin, end, err := d.block(i+1, anyFence)
		if err != nil {
			return nil, err
		}
		found[name[1]] = strings.Join(d.lines[begin:end], "\n") + "\n"
	}
	return found, nil
}

// example is a command of the document with its output.
type example struct {
	Line    int // of the command, from 1
	Command string
	Output  []string
	begin   int // of the output, as an index of lines
}

// examples finds the commands in order.
func (d *page) examples() ([]example, error) {
	var found []example
	inside := false
	for i := 0; i < len(d.lines); i++ {
		switch line := d.lines[i]; {
		case !inside:
			inside = line == "```console"
		case line == "```":
			inside = false
		case strings.HasPrefix(line, "$ "):
			e := example{Line: i + 1, Command: strings.TrimPrefix(line, "$ ")}
			for continues(e.Command) && i+1 < len(d.lines) {
				i++
				e.Command += "\n" + d.lines[i]
			}
			e.begin = i + 1
			found = append(found, e)
		case len(found) == 0:
			return nil, fmt.Errorf("%s:%d: output without a command", d.name, i+1)
		default:
			last := &found[len(found)-1]
			if last.begin+len(last.Output) != i {
				return nil, fmt.Errorf("%s:%d: output without a command", d.name, i+1)
			}
			last.Output = append(last.Output, line)
		}
	}
	if inside {
		return nil, fmt.Errorf("%s: the last block has no end", d.name)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s has no commands to run", d.name)
	}
	return found, nil
}

// continues reports whether a command goes on in the next line.
func continues(command string) bool {
	return strings.HasSuffix(command, "\\") || strings.HasSuffix(command, "|")
}

// callsJQ matches commands that need jq, the only program besides bash, curl and those of every system that the pages
// call.
var callsJQ = regexp.MustCompile(`(^|[|(] *|\n *)jq `)

// runPage runs every command of a page in one shell, in which KEY is the key of the first start.
func (p *place) runPage(ctx context.Context, name string, update bool) error {
	document, err := readPage(name)
	if err != nil {
		return err
	}
	examples, err := document.examples()
	if err != nil {
		return err
	}
	files, err := document.files()
	if err != nil {
		return err
	}
	for file, text := range files {
		if err := os.WriteFile(filepath.Join(p.folder, file), []byte(text), 0o600); err != nil {
			return err
		}
	}
	sh, err := p.newShell(ctx)
	if err != nil {
		return err
	}
	defer sh.close()
	var wrong []error
	_, lacksJQ := exec.LookPath("jq")
	printed := make([]string, len(examples))
	for i, e := range examples {
		if lacksJQ != nil && callsJQ.MatchString(e.Command) {
			fmt.Printf("skip: %s:%d: jq is not installed\n", name, e.Line)
			printed[i] = strings.Join(e.Output, "\n")
			continue
		}
		out, err := sh.run(p.here(e.Command))
		if err != nil {
			return fmt.Errorf("%s:%d: %s: %w", name, e.Line, e.Command, err)
		}
		printed[i] = p.there(out)
		if !matches(e.Output, printed[i]) {
			wrong = append(wrong, fmt.Errorf("%s:%d: %s\n-- shown:\n%s\n-- printed:\n%s", name, e.Line, e.Command,
				strings.Join(e.Output, "\n"), pretty(printed[i])))
		}
	}
	if !update {
		return errors.Join(wrong...)
	}
	for i, e := range slices.Backward(examples) { // from the end, so that the places of the others stay
		// A page with lines left out is for its author to change.
		if slices.Contains(e.Output, "...") && matches(e.Output, printed[i]) {
			continue
		}
		if !current(e.Output, printed[i], random) {
			var lines []string
			if printed[i] != "" {
				lines = fold(pretty(printed[i]))
			}
			document.lines = slices.Replace(document.lines, e.begin, e.begin+len(e.Output), lines...)
		}
	}
	return document.write()
}

// matches compares what a page shows with what a command printed.
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
	{regexp.MustCompile(`\b(linear|cascade)-\d+-[0-9a-f]{8}`), "MODEL"},
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
