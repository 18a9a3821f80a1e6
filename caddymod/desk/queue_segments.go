// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package desk

import (
	"slices"

	"github.com/caddy-moderation/caddy-moderation/review"
)

// segment is a piece of a text with the categories that it carries: none, or several where passages overlap.
type segment struct {
	Text       string
	Categories []string // sorted, each once
}

// segmentsOf splits a text where passages begin and end. The offsets of passages count Unicode code points; what is
// beyond the text is cut, and a passage that is empty or ends before it begins is ignored. The segments together are
// the text, in which each byte that is not UTF-8 has become U+FFFD.
func segmentsOf(text string, passages []review.Passage) (segments []segment) {
	points := []rune(text)
	edges := []int{0, len(points)}
	var marks []review.Passage
	for _, p := range passages {
		p.Begin, p.End = max(p.Begin, 0), min(p.End, len(points))
		if p.Begin >= p.End {
			continue
		}
		marks = append(marks, p)
		edges = append(edges, p.Begin, p.End)
	}
	slices.Sort(edges)
	edges = slices.Compact(edges)
	for i := 1; i < len(edges); i++ {
		begin, end := edges[i-1], edges[i]
		s := segment{Text: string(points[begin:end])}
		for _, m := range marks {
			if m.Begin <= begin && end <= m.End {
				s.Categories = append(s.Categories, m.Category)
			}
		}
		slices.Sort(s.Categories)
		s.Categories = slices.Compact(s.Categories)
		if n := len(segments); n > 0 && slices.Equal(segments[n-1].Categories, s.Categories) {
			segments[n-1].Text += s.Text
			continue
		}
		segments = append(segments, s)
	}
	return segments
}
