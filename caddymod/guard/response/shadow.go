// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package response

import (
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/content"
)

// completes reports whether p is the last part of an answer that is charged to an account. If the length is not
// announced, the end is sent when the handler has returned.
func (a *Writer) completes(p []byte) bool {
	a.sent += int64(len(p))
	return a.length > 0 && a.sent >= a.length && a.options.Counted
}

// observe moderates, in shadow mode, what has already been sent.
func (a *Writer) observe(p []byte) {
	if a.mode == flowing {
		_, _ = a.flow.Write(p) // once the text is rejected, no more of it is moderated
		return
	}
	if a.sniff && len(p) > 0 {
		a.sniff = false
		a.declared.Kind = content.Sniff(p, a.declared)
	}
	if a.declared.Kind == content.Binary {
		a.mode = through
		a.discard()
		return
	}
	room := a.options.Limits.MaxBody - int64(len(*a.kept))
	*a.kept = append(*a.kept, p[:min(room, int64(len(p)))]...)
	if int64(len(p)) > room {
		a.conclude(true)
	}
}

// moderateRest moderates, in shadow mode, the rest of an answer before its last bytes are sent.
func (a *Writer) moderateRest() {
	switch a.mode {
	case held:
		a.conclude(false)
	case flowing:
		a.closeFlow(false)
		a.mode = through
	}
}
