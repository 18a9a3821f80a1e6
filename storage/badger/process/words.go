// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bytes"
	"regexp"
	"strings"
	"sync"
)

// maxWords is how much is kept of what the process writes to its standard error output.
const maxWords = 8 << 10

// words are what the process writes to its standard error output. A process that ends by a mistake says why in the first lines
// of a report that can be long: these are kept, else what was written last.
type words struct {
	mu      sync.Mutex
	kept    []byte
	crashed bool
}

// crash finds the beginning of the report of a Go program that ends by a mistake.
var crash = regexp.MustCompile(`(?m)^(panic: |fatal error: |unexpected fault address |runtime: |SIG[A-Z]+: )`)

// fatal finds what log.Fatal writes.
var fatal = regexp.MustCompile(`(?m)^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d `)

// Write keeps what is worth it.
func (w *words) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(p)
	if w.crashed {
		p = p[:min(len(p), max(0, maxWords-len(w.kept)))]
	}
	w.kept = append(w.kept, p...)
	if w.crashed {
		return n, nil
	}
	if at := crash.FindIndex(w.kept); at != nil {
		w.crashed = true
		w.kept = w.kept[at[0]:]
		w.kept = w.kept[:min(len(w.kept), maxWords)]
	} else if len(w.kept) > maxWords {
		w.kept = append(w.kept[:0], w.kept[len(w.kept)-maxWords:]...)
	}
	return n, nil
}

// all returns everything that was kept.
func (w *words) all() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.ToValidUTF8(string(w.kept), "?")
}

// brief returns the lines that say the most, in one line: the first ones of a report, or the last ones.
func (w *words) brief() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	const most = 3
	text := w.kept
	if at := fatal.FindAllIndex(text, -1); !w.crashed && at != nil {
		text = text[at[len(at)-1][1]:]
	} else if !w.crashed {
		lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
		text = bytes.Join(lines[max(0, len(lines)-most):], []byte("\n"))
	}
	var brief []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		// What follows is of interest to developers. The log has it.
		if strings.HasPrefix(line, "goroutine ") || strings.HasPrefix(line, "main.") || len(brief) == most {
			break
		}
		if line != "" {
			brief = append(brief, line[:min(len(line), 200)])
		}
	}
	return strings.ToValidUTF8(strings.Join(brief, "; "), "?")
}
