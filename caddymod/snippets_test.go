// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
)

// snippetsFile has the snippets for editors that are generated from the syntax in doc comments.
const snippetsFile = "../docs/caddyfile.code-snippets"

// snippet is a piece of a Caddyfile with places to fill, as VS Code has it.
type snippet struct {
	Scope       string   `json:"scope"`
	Prefix      string   `json:"prefix"`
	Body        []string `json:"body"`
	Description string   `json:"description"`
}

// syntaxLine is a line of a syntax with its block.
type syntaxLine struct {
	text, comment string
	opens         bool
	lines         []*syntaxLine
}

// parseSyntax returns the directive of a syntax, with its options as the lines of its block.
func parseSyntax(syntax string) *syntaxLine {
	root := new(syntaxLine)
	open := []*syntaxLine{root}
	for text := range strings.Lines(syntax) {
		text, comment, _ := strings.Cut(text, " # ")
		text = strings.TrimSpace(text)
		if text == "}" {
			open = open[:len(open)-1]
			continue
		}
		line := &syntaxLine{comment: strings.TrimSpace(comment)}
		line.text, line.opens = strings.CutSuffix(text, " {")
		last := open[len(open)-1]
		last.lines = append(last.lines, line)
		if line.opens {
			open = append(open, line)
		}
	}
	return root.lines[0]
}

// placeholderValues are what a snippet proposes for the placeholders of a syntax: those of an option, otherwise those
// of any. With several values, the editor asks which.
var placeholderValues = map[string][]string{
	"storage <module>": {"badger", "redis localhost:6379"}, "classifier <module>": {"embedded"},
	"tier <name>": {"business"}, "thresholds <number>": {"0.8"}, "keep <duration>": {"90d"}, "keep <age>": {"90d"}, "attribute <name>": {"RUDENESS"},
	"json <name>": {"/comment"}, "form <name>": {"comment"}, "roles <name>": {"user"},
	"query <name>": {"q"}, "header <name>": {"Subject"}, "name <text>": {`"Acme Corporation"`},
	"environment <text>": {"production"}, "themes <text>": {`"spoilers of films"`},
	"status <status>":   {"active", "trialing", "past_due", "canceled", "paused"},
	"hold <characters>": {"200"}, "context <characters>": {"2000"}, "delta <pointer>": {"/choices/*/delta/content"},
	"max_characters <n>": {"10000"}, "max_inputs <n>": {"32"}, "final <data>": {"[DONE]"},
	"reject_level <probability>": {"0.95"}, "account <id>": {"acme"}, "max_text <characters>": {"20000"},
	"address <address>": {"localhost:6379"}, "redis <address>": {"localhost:6379"}, "username <name>": {"moderation"},
	"password <password>": {"{env.REDIS_PASSWORD}"}, "sentinel <master>": {"mymaster"}, "ca <file>": {"ca.pem"},
	"server_name <name>": {"redis.example"}, "client <certificate file>": {"client.pem"},
	"client <key file>": {"client.key"}, "database <number>": {"0"}, "timeout <duration>": {"250ms"},
	"pool <connections>": {"4"}, "stale_keys <duration>": {"15m"}, "wait_replicas <number>": {"1"},
	"wait_replicas <timeout>": {"100ms"}, "lease <requests>": {"50"},
	"author <placeholder>": {"{http.request.header.X-User}"}, "max <number>": {"100000"},
	"<url>": {"https://app.example.com/hook"}, "secret <placeholder>": {"{env.REVIEW_WEBHOOK_SECRET}"},
	"<placeholder>": {"{http.auth.user.id}"}, "<user>": {"alice"}, "<account:user>": {"acme:carol"},

	"<category>":    nil, // set below
	"<probability>": {"0.8"}, "<share>": {"2%"}, "<prefix>": {"mod"}, "<per month>": {"25000"}, "<per minute>": {"60"},
	"<number>": {"1000"}, "<size>": {"1MiB"}, "<duration>": {"10s"}, "<age>": {"90d"}, "<day>": {"1"}, "<id>": {"acme"},
	"<date or instant>": {"2099-01-31"}, "<pointer>": {"/comment"}, "<field>": {"comment"}, "<role>": {"user"},
	"<parameter>": {"q"}, "<name>": {"Subject"}, "<text>": {"text"}, "<expression>": {"word"}, "<file>": {"words.txt"},
	"<origin>": {"https://www.example.com"}, "<score|off>": nil, "<tag>": {"en"}, "<segment>": {"perspective"},
	"<upstream>": {"https://commentanalyzer.googleapis.com"}, "<directives>": {`respond "Please write something else." 403`},
}

func init() {
	placeholderValues["<category>"] = categoryNames()
	placeholderValues["<score|off>"] = attributeNames()
}

// syntaxToken is a placeholder, or a word.
var syntaxToken = regexp.MustCompile(`<[^>]*>|[^\s<]+`)

// optionalPart is what may be left out of a line.
var optionalPart = regexp.MustCompile(`\[[^\]]*\]`)

// snippetBodies returns the bodies of a line of a syntax: one, or one for each name if it has several.
func snippetBodies(t *testing.T, line *syntaxLine) (bodies [][]string) {
	t.Helper()
	text, _, _ := strings.Cut(optionalPart.ReplaceAllString(line.text, ""), " | ") // the first of several forms
	tokens := syntaxToken.FindAllString(text, -1)
	for _, name := range strings.Split(tokens[0], "|") {
		place := 0
		fill := func(values []string) string {
			place++
			if len(values) == 1 {
				escaped := strings.NewReplacer(`\`, `\\`, `$`, `\$`, `}`, `\}`).Replace(values[0])
				return fmt.Sprintf("${%d:%s}", place, escaped)
			}
			return fmt.Sprintf("${%d|%s|}", place, strings.Join(values, ","))
		}
		words := []string{name}
		for _, token := range tokens[1:] {
			if token = strings.TrimSuffix(token, "..."); token == "" {
				continue
			}
			values, known := placeholderValues[name+" "+token]
			if !known {
				values, known = placeholderValues[token]
			}
			switch {
			case known:
				words = append(words, fill(values))
			case strings.HasPrefix(token, "<"):
				t.Errorf("%s: give %s a value in placeholderValues", line.text, token)
			case strings.HasPrefix(token, "{"):
				words = append(words, fill([]string{token}))
			default:
				words = append(words, fill(strings.Split(token, "|")))
			}
		}
		body := []string{strings.Join(words, " ")}
		if line.opens {
			inside := "\t$0"
			if len(line.lines) == 1 && strings.HasPrefix(line.lines[0].text, "<") {
				inside = "\t" + fill(placeholderValues[line.lines[0].text])
			}
			body[0] += " {"
			body = append(body, inside, "}")
		}
		bodies = append(bodies, body)
	}
	return bodies
}

// snippetUse is a snippet, and where it may stand: a Caddyfile in which ¤ stands for it.
type snippetUse struct {
	body        []string
	where       string
	description string
	caddyfile   string
}

// snippetUses returns the snippets of all directives and of their options, where they may stand.
func snippetUses(t *testing.T) (uses []snippetUse) {
	t.Helper()
	docs := newModuleDocs(t, registered(t))
	for _, id := range slices.Sorted(maps.Keys(docs.modules)) {
		_, syntax := docs.describe(id)
		if syntax == "" {
			continue
		}
		directive := parseSyntax(syntax)
		var outer, description string
		blocks, _ := docs.describe(id)
		description, _, _ = strings.Cut(blockText(blocks[0]), ". ")
		description = strings.TrimSuffix(description, ".") + "."
		bodies := snippetBodies(t, directive)
		inside := strings.Fields(directive.text)[0] + " {\n¤\n}"
		switch namespace := caddy.ModuleID(id).Namespace(); namespace {
		case "":
			outer = "{\n¤\n}"
		case "http.handlers":
			outer = "example.com {\n¤\n}"
			if id == "http.handlers.moderation_compare" {
				inside = "moderation_compare https://example.com {\n¤\n}"
			}
		case "http.matchers":
			outer = "example.com {\n¤\n}"
			bodies = [][]string{{"@${1:rejected} moderation ${2|" + strings.Join(verdicts, ",") + "|}"}}
			inside = "@m moderation reject {\n¤\n}"
		case "moderation.storage", "moderation.classifiers":
			// The options "storage" and "classifier" name them.
			module := strings.TrimSuffix(strings.TrimPrefix(namespace, "moderation."), "s") + " " + caddy.ModuleID(id).Name()
			uses = append(uses, optionUses(t, directive, module, "{\nmoderation {\n"+module+" {\n¤\n}\n}\n}")...)
			continue
		default:
			t.Errorf("%s: there are no snippets for modules of %s", id, namespace)
		}
		uses = append(uses, snippetUse{bodies[0], "", description, outer})
		name := strings.Fields(directive.text)[0]
		if caddy.ModuleID(id).Namespace() == "http.matchers" {
			name = "the matcher " + name
		}
		uses = append(uses, optionUses(t, directive, name, strings.Replace(outer, "¤", inside, 1))...)
	}
	return uses
}

// optionUses returns the snippets of the options in a block.
func optionUses(t *testing.T, block *syntaxLine, where, caddyfile string) (uses []snippetUse) {
	t.Helper()
	for _, line := range block.lines {
		if strings.HasPrefix(line.text, "<") {
			continue // anything
		}
		for _, body := range snippetBodies(t, line) {
			name := strings.Fields(body[0])[0]
			outer := caddyfile
			switch {
			case name == "enforce_quota":
				outer = strings.Replace(outer, "¤", "account acme\n¤", 1)
			case name == "other_language":
				outer = strings.Replace(outer, "¤", "languages en\n¤", 1)
			case where == "storage redis" && name != "address":
				outer = strings.Replace(outer, "¤", "address redis.example\n¤", 1)
			case where == "the matcher moderation" && name == "recommendation":
				outer = strings.Replace(outer, "moderation reject", "moderation", 1)
			}
			uses = append(uses, snippetUse{body, where, line.comment, outer})
			if line.opens {
				first := filled(body)[0]
				uses = append(uses, optionUses(t, line, where+" › "+name, strings.Replace(outer, "¤", first+"\n¤\n}", 1))...)
			}
		}
	}
	return uses
}

// snippetsOf merges the uses that have the same body.
func snippetsOf(uses []snippetUse) map[string]snippet {
	byBody := map[string][]snippetUse{}
	for _, use := range uses {
		body := strings.Join(use.body, "\n")
		byBody[body] = append(byBody[body], use)
	}
	all := map[string]snippet{}
	for _, body := range slices.Sorted(maps.Keys(byBody)) {
		same := byBody[body]
		prefix := strings.Fields(same[0].body[0])[0]
		name, description := prefix, same[0].description
		if strings.HasPrefix(prefix, "@") {
			prefix, name = "@moderation", "@moderation"
		}
		if same[0].where != "" {
			var places, comments []string
			for _, use := range same {
				if !slices.Contains(places, use.where) {
					places = append(places, use.where)
				}
				if use.description != "" && !slices.Contains(comments, use.description) {
					comments = append(comments, use.description)
				}
			}
			name = prefix + " (" + strings.Join(places, ", ") + ")"
			description = "An option of " + strings.Join(places, ", ") + "."
			if len(comments) == 1 {
				description += " " + strings.ToUpper(comments[0][:1]) + comments[0][1:] + "."
			}
		}
		all[name] = snippet{Scope: "caddyfile", Prefix: prefix, Body: same[0].body, Description: description}
	}
	return all
}

// snippetPlace is a place to fill in a snippet.
var snippetPlace = regexp.MustCompile(`\$\{\d+:((?:\\.|[^\\}])*)\}|\$\{\d+\|([^,|]*)[^|]*\|\}|\$0`)

// filled returns a body with the values that it proposes.
func filled(body []string) (lines []string) {
	for _, line := range body {
		line = snippetPlace.ReplaceAllStringFunc(line, func(place string) string {
			found := snippetPlace.FindStringSubmatch(place)
			return regexp.MustCompile(`\\(.)`).ReplaceAllString(found[1], "$1") + found[2]
		})
		lines = append(lines, line)
	}
	return lines
}

// TestSnippets generates docs/caddyfile.code-snippets, and fails when the file is stale.
func TestSnippets(t *testing.T) {
	uses := snippetUses(t)
	got := encodeJSON(t, snippetsOf(uses))
	if *update {
		if err := os.WriteFile(snippetsFile, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(snippetsFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is stale; write it anew with: go test ./caddymod -run TestSnippets -update", snippetsFile)
	}
	var committed map[string]snippet
	if err := json.Unmarshal(want, &committed); err != nil {
		t.Fatal(err)
	}
	if len(committed) < 60 {
		t.Errorf("got %d snippets, want those of all options", len(committed))
	}
}

// TestSnippetsAdapt adapts a Caddyfile with each snippet, wherever it may stand, filled with what it proposes, and with
// each of the values that it lets choose from.
func TestSnippetsAdapt(t *testing.T) {
	for i, use := range snippetUses(t) {
		t.Run(strconv.Itoa(i)+" "+use.where+" "+strings.Fields(use.body[0])[0], func(t *testing.T) {
			bodies := [][]string{use.body}
			for _, found := range regexp.MustCompile(`\$\{\d+\|([^|]*)\|\}`).FindAllStringSubmatch(use.body[0], -1) {
				for _, value := range strings.Split(found[1], ",") {
					chosen := slices.Clone(use.body)
					chosen[0] = strings.Replace(chosen[0], found[0], value, 1)
					bodies = append(bodies, chosen)
				}
			}
			for _, body := range bodies {
				text := strings.Replace(use.caddyfile, "¤", strings.Join(filled(body), "\n"), 1)
				if strings.Contains(text, "¤") || strings.Contains(text, "$") {
					t.Fatalf("a place was not filled:\n%s", text)
				}
				_, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), map[string]any{"filename": "Caddyfile"})
				if err != nil {
					t.Errorf("%v, in\n%s", err, text)
				}
			}
		})
	}
}

// TestEditorsPage tries what docs/editors.md gives people to paste.
func TestEditorsPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/editors.md")
	if err != nil {
		t.Fatal(err)
	}
	var pattern string
	for _, block := range regexp.MustCompile("(?s)```json\n(.*?)```").FindAllSubmatch(page, -1) {
		var pasted any
		if err := json.Unmarshal(block[1], &pasted); err != nil {
			t.Errorf("%v in\n%s", err, block[1])
		}
		if found := regexp.MustCompile(`"regexp": (".*")`).FindSubmatch(block[1]); found != nil {
			if err := json.Unmarshal(found[1], &pattern); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !bytes.Contains(page, []byte(schemaID)) {
		t.Errorf("the page does not have the address of the schema, %s", schemaID)
	}
	matcher := regexp.MustCompile(pattern)
	// Caddy's log has the error in a line of its own, in quotes unless it goes to a terminal.
	for text, line := range map[string]string{
		"example.com {\n\tmoderate {\n\t\tmax_bodi 1MiB\n\t}\n}\n": "3",
		"example.com {\n\tmoderat\n}\n":                            "2",
	} {
		_, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), map[string]any{"filename": "Caddyfile"})
		for _, logged := range []string{
			fmt.Sprintf("ERROR\tadapting config using caddyfile: %v", err),
			fmt.Sprintf(`{"level":"error","msg":"adapting config using caddyfile: %v"}`, err),
		} {
			found := matcher.FindStringSubmatch(logged)
			if found == nil || found[2] != "Caddyfile" || found[3] != line {
				t.Errorf("%s: got the match %q, want line %s of Caddyfile", logged, found, line)
			}
		}
	}
}
