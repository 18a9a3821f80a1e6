// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// progress is a line on a terminal that shows how far a long command has come.
type progress struct {
	out   io.Writer
	now   func() time.Time
	done  func() (bytes, of int64) // of is 0 when the size is unknown
	last  time.Time
	shown bool
}

const (
	// showEvery is the shortest time between two changes of the line.
	showEvery = 100 * time.Millisecond
	barWidth  = 30
	clearLine = "\r\x1b[K"
)

// show shows how many rows are done, unless it has just done so.
func (p *progress) show(rows int) {
	now := p.now()
	if now.Sub(p.last) < showEvery {
		return
	}
	p.last, p.shown = now, true
	bytes, of := p.done()
	if of <= 0 {
		fmt.Fprintf(p.out, "%s%d rows", clearLine, rows)
		return
	}
	part := min(float64(bytes)/float64(of), 1)
	full := int(part * barWidth)
	bar := strings.Repeat("=", full) + strings.Repeat(" ", barWidth-full)
	fmt.Fprintf(p.out, "%s[%s] %3.0f %%  %d rows", clearLine, bar, 100*part, rows)
}

// clear removes the line.
func (p *progress) clear() {
	if p.shown {
		fmt.Fprint(p.out, clearLine)
	}
}

// isTerminal reports whether w is a terminal that can show progress.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}
