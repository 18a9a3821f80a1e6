// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package response

import (
	"errors"
	"net/http"

	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/content"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/extract"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/stream"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/coding"
)

// hold keeps a part of an answer until all of it is there, or more than can be held.
func (a *Writer) hold(p []byte) (int, error) {
	if a.sniff && len(p) > 0 {
		a.sniff = false
		if a.declared.Kind = content.Sniff(p, a.declared); a.declared.Kind == content.Binary {
			if err := a.release(a.ResponseWriter); err != nil {
				return 0, err
			}
			return a.ResponseWriter.Write(p)
		}
		if a.mayRetry && a.status == http.StatusPartialContent {
			a.partial, a.mode = true, dropped
			a.dropKept()
			return 0, errEnded
		}
	}
	if a.detector != nil {
		a.detector.Add(p)
	}
	room := a.options.Limits.MaxBody - int64(len(*a.kept))
	if int64(len(p)) <= room {
		*a.kept = append(*a.kept, p...)
		return len(p), nil
	}
	*a.kept = append(*a.kept, p[:room]...)
	a.conclude(true)
	switch {
	case a.mode != through:
		return 0, errEnded
	case a.err != nil:
		return 0, a.err
	}
	n, err := a.ResponseWriter.Write(p[room:])
	return int(room) + n, err
}

// conclude lets the decider decide about what is held. exceeds says that more is to come than can be held.
func (a *Writer) conclude(exceeds bool) {
	found := a.extract(exceeds)
	a.decider.Decide(a, &found)
}

// extract finds the texts in what is held.
func (a *Writer) extract(exceeds bool) (found extract.Result) {
	limits := &a.options.Limits
	a.decoded = *a.kept
	if len(a.encodings) > 0 {
		var err error
		a.decoded, err = content.Decode(a.encodings, a.decoded, limits.MaxBody)
		switch {
		case errors.Is(err, coding.ErrTooLarge):
			exceeds = true
		case errors.Is(err, coding.ErrBroken) && exceeds:
			// It is not all there.
		case err != nil:
			// What came out before the fault is moderated, too.
			found.Unreadable, found.Reason = err, extract.EncodingReason(err)
		}
	}
	if exceeds {
		switch limits.MaxBodyOverflow {
		case extract.OverflowReject:
			found.Refuse = extract.ErrTooLarge
			return found
		case extract.OverflowPass:
			found.Coverage, found.Reason = extract.Skipped, extract.ReasonTooLarge
			return found
		}
		found.Coverage = extract.Partial
	}
	selection := &a.options.Selection
	found.Pieces = selection.Extract(nil, a.declared, a.decoded)
	limits.Cut(&found)
	if found.Refuse != nil || found.Coverage == extract.Skipped {
		return found
	}
	if len(selection.JSON) == 0 || a.declared.Kind != content.JSON {
		// What was meant to be a stream may come at once, with its words in pieces.
		for _, text := range stream.ExtractTexts(a.decoded) {
			found.Pieces = append(found.Pieces, content.Piece{Text: extract.First(text, limits.MaxText)})
		}
	}
	return found
}
