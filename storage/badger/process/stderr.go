// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// maxStderr is how much is kept of what the process writes to its standard error output.
const maxStderr = 8 << 10

// words are what the process writes to its standard error output. A process that ends by a mistake says why in the first lines
// of a report that can be long: these are kept, else what was written last.
type stderrTail struct {
	mu   sync.Mutex
	kept []byte
	// line is where the last line begins, which may go on.
	line    int
	crashed bool
}

// crashes are the beginnings of reports of Go programs that end by a mistake.
var crashes = [][]byte{
	[]byte("panic: "), []byte("fatal error: "), []byte("unexpected fault address "), []byte("runtime: "), []byte("SIGQUIT: "),
	[]byte("SIGABRT: "), []byte("SIGSEGV: "), []byte("SIGBUS: "),
}

// fatal finds what log.Fatal writes.
var fatal = regexp.MustCompile(`(?m)^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d `)

// Write keeps what is worth it.
func (w *stderrTail) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(p)
	if w.crashed {
		w.kept = append(w.kept, p[:min(n, maxStderr-len(w.kept))]...)
		return n, nil
	}
	w.kept = append(w.kept, p...)
	for !w.crashed {
		rest := w.kept[w.line:]
		if slices.ContainsFunc(crashes, func(c []byte) bool { return bytes.HasPrefix(rest, c) }) {
			w.crashed = true
			w.kept = append(w.kept[:0], rest[:min(len(rest), maxStderr)]...)
			return n, nil
		}
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			break
		}
		w.line += end + 1
	}
	if over := len(w.kept) - maxStderr; over > 0 {
		w.kept = append(w.kept[:0], w.kept[over:]...)
		w.line = max(w.line-over, 0)
	}
	return n, nil
}

// all returns everything that was kept.
func (w *stderrTail) all() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.ToValidUTF8(string(w.kept), "?")
}

// brief returns the lines that say the most, in one line: the first ones of a report, or the last ones.
func (w *stderrTail) brief() string {
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
