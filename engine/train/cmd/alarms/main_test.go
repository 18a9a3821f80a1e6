// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const weights = "../../../model/default.model"

func write(t *testing.T, folder, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestParagraphsAreCountedByKind(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	calm := strings.Repeat("# bread and butter with the neighbours at the market\n", 5)
	write(t, folder, "a.py", calm+"\n\n"+strings.Repeat("# a walk along the river in the morning, and tea\n", 5))
	write(t, folder, "b.py", calm) // the same again
	write(t, folder, "Makefile", "all:\n\ttrue\n")
	write(t, folder, "image.png", calm+"\x00")
	write(t, folder, "chat.jsonl", `{"text":"good morning"}`+"\n"+`{"text":"You are a stupid worthless idiot and everybody hates you."}`+"\n")
	var out bytes.Buffer
	if err := run([]string{"--model", weights, "--words", "5", "--list", "5", folder}, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| py | 2 | 0 |", "| chat | 2 | 1 | 50.00 % | 1 |", "| all | 4 | 1 |", "chat.jsonl:2", "\n  harassment ", "idiot"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, out.String())
		}
	}
	for _, never := range []string{"makefile", "png"} {
		if strings.Contains(out.String(), never) {
			t.Errorf("the report tells of %s:\n%s", never, out.String())
		}
	}
}

func TestAFileIsCutBetweenLines(t *testing.T) {
	t.Parallel()
	long := strings.Repeat(strings.Repeat("x", 99)+"\n", 25)
	content := "short\n\n" + long + "\n" + strings.Repeat("y", longest+1) + "\n\nthe rest is too short\n"
	var got []string
	var lines []int
	cut(content, func(text string, line int) { got, lines = append(got, text), append(lines, line) })
	if len(got) != 2 || lines[0] != 1 || lines[1] != 22 {
		t.Fatalf("%d paragraphs from the lines %v, want 2 from 1 and 22", len(got), lines)
	}
	for _, p := range got {
		if n := len(p); n < shortest || n > longest {
			t.Errorf("got a paragraph of %d characters, want %d to %d", n, shortest, longest)
		}
		if strings.Contains(p, "y") {
			t.Error("got a paragraph with a line that is longer than a paragraph, want it left out")
		}
	}
}

func TestWithoutTextsNothingIsJudged(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{}, {"--one-of", "0", "."}, {"--model", weights, "nowhere"}, {"--model", "nowhere", "."}} {
		if err := run(args, &bytes.Buffer{}); err == nil {
			t.Errorf("arguments %q: got no error, want one", args)
		}
	}
}
