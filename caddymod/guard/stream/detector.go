// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"bytes"
)

// Detector recognizes JSON that is a stream of values, by where it stands when it is flushed. The zero value is ready
// to use.
type Detector struct {
	frame  jsonFraming
	begun  bool
	events int
	other  bool // something that is no value begins there
}

// Add takes the next bytes.
func (g *Detector) Add(p []byte) {
	if !g.begun {
		g.frame.first, g.begun = true, true
	}
	for len(p) > 0 {
		n, complete := g.frame.advance(p)
		if blank := len(bytes.Trim(p[:n], " \t\r\n,]")) == 0; complete && !blank {
			g.events++
		}
		g.other = g.other || g.frame.in == inLine
		p = p[n:]
	}
}

// Streams reports whether the bytes so far end between two of several values, or behind an element of an array that
// goes on.
func (g *Detector) Streams() bool {
	if g.other || g.frame.in != between {
		return false
	}
	return g.frame.array && g.events > 0 || g.events > 1 && !g.frame.closed
}
