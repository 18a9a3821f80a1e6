// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package promises ties what the documentation promises to what tries to break it.
//
// A file of promises holds sections of the documentation, sentence by sentence, and in the line after each sentence
// what tries to break it: rounds of a program, beginnings of their names followed by a star, Go tests
// (package.TestName), or a command that fails if the sentence does not hold. A dash is for sentences that promise
// nothing: they tell the reader what to do, or where to look. Line breaks in the documentation do not matter.
package promises

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// Section is a section of a page that promises something.
type Section struct{ File, Title string }

// Check wants each sentence of the sections in the file of promises and no others, and that what is said to try to
// break them exists. Rounds are the names of the program's rounds. The tests run two folders below the root of the
// repository.
func Check(t *testing.T, file string, sections []Section, rounds []string) {
	t.Helper()
	listed, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	promised := map[string]string{}
	sentence := ""
	for line := range strings.Lines(string(listed)) {
		line = strings.TrimSuffix(line, "\n")
		by, indented := strings.CutPrefix(line, "\t")
		switch {
		case indented:
			promised[sentence] = by
		case line != "" && !strings.HasPrefix(line, "== "):
			sentence = line
			promised[sentence] = ""
		}
	}
	nothing := 0
	for _, p := range sections {
		for _, s := range sentencesOf(t, p.File, p.Title) {
			by, found := promised[s]
			delete(promised, s)
			switch {
			case !found:
				t.Errorf("%s, %s: nothing in %s tries to break %q", p.File, p.Title, file, s)
			case by == "-":
				nothing++
			default:
				tried(t, s, by, rounds)
			}
		}
	}
	for s := range promised {
		t.Errorf("the documentation no longer says %q", s)
	}
	t.Logf("%d sentences promise nothing", nothing)
}

// tried checks that something tries to break a sentence, and that it exists.
func tried(t *testing.T, sentence, by string, rounds []string) {
	t.Helper()
	if by == "" {
		t.Errorf("nothing tries to break %q", sentence)
	}
	for _, name := range strings.Split(by, ", ") {
		prefix, all := strings.CutSuffix(name, "*")
		isRound := slices.ContainsFunc(rounds,
			func(r string) bool { return r == name || all && strings.HasPrefix(r, prefix) })
		switch dir, test, isTest := strings.Cut(name, "."); {
		case isRound, strings.HasPrefix(name, "go run ./scripts/"):
		case !isTest || !hasTest(t, dir, test):
			t.Errorf("%q: there is no round and no test %q", sentence, name)
		}
	}
}

// hasTest reports whether a package has a test.
func hasTest(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../..", dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(file string) bool {
		text, err := os.ReadFile(file)
		return err == nil && strings.Contains(string(text), "\nfunc "+name+"(")
	})
}

var (
	codeBlock = regexp.MustCompile("(?s)\n```.*?\n```\n")
	label     = regexp.MustCompile(`^\*\*[^*]+\.\*\* `)
)

// sentencesOf returns the sentences of the paragraphs and lists of a section, and the rows of its tables.
func sentencesOf(t *testing.T, file, section string) (all []string) {
	t.Helper()
	text, err := os.ReadFile("../../" + file)
	if err != nil {
		t.Fatal(err)
	}
	_, body, found := strings.Cut(string(text), "\n## "+section+"\n")
	if !found {
		t.Fatalf("%s has no section %q", file, section)
	}
	body, _, _ = strings.Cut(body, "\n## ")
	body = strings.ReplaceAll(codeBlock.ReplaceAllString(body, "\n\n"), "\n- ", "\n\n")
	for paragraph := range strings.SplitSeq(body, "\n\n") {
		if rows := strings.Split(strings.TrimSpace(paragraph), "\n"); strings.HasPrefix(rows[0], "|") {
			all = append(all, rows[min(2, len(rows)):]...)
			continue
		}
		all = append(all, split(strings.Join(strings.Fields(paragraph), " "))...)
	}
	return all
}

// split splits a paragraph into sentences.
func split(text string) (all []string) {
	text = label.ReplaceAllString(text, "")
	for {
		end := -1
		for i := range text {
			if strings.HasPrefix(text[i:], ". ") && begins(text[i+2:]) {
				end = i + 1
				break
			}
		}
		if end < 0 {
			break
		}
		all, text = append(all, text[:end]), text[end+1:]
	}
	if text != "" {
		all = append(all, text)
	}
	return all
}

// begins reports whether a text can be the beginning of a sentence.
func begins(text string) bool {
	first := []rune(text)[0]
	return unicode.IsUpper(first) || strings.ContainsRune("`[*", first)
}
