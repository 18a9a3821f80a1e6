// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"bytes"
	"io"
	"slices"
)

// ExtractTexts returns the texts of a complete stream of a known protocol, as its clients put them together. It
// returns nil for anything else.
func ExtractTexts(body []byte) (texts []string) {
	var framing framing
	switch sniff(body, true) {
	case formatEvents:
		framing = &sseFraming{first: true, blank: true}
	case formatLines:
		framing = &jsonFraming{first: true}
	default:
		return nil
	}
	e := newEvents(io.Discard, Options{}, framing)
	for events := 0; len(body) > 0; events++ {
		n, _ := e.frame.advance(body)
		record, ok := e.frame.record(body[:n])
		if body = body[n:]; !ok {
			continue
		}
		if events == 0 && len(bytes.TrimSpace(body)) == 0 {
			return nil // a single value
		}
		e.parser.parse(&record, e.meta)
		changed := e.parser.meta
		e.meta = &changed
		for i := range e.parser.texts {
			e.addFragment(new(event), &e.parser.texts[i])
		}
	}
	if e.meta.protocol == unknownProtocol {
		return nil
	}
	for k, text := range e.texts {
		if k.where != nil && k.where.hold == holdText {
			texts = append(texts, string(text.data))
		}
	}
	slices.Sort(texts)
	return texts
}
