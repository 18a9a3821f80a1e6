// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/content"
	"github.com/caddy-moderation/caddy-moderation/review"
)

// copied is what a reviewer reads.
type copied struct {
	texts []review.Text
	// leftOut is how many more texts there were.
	leftOut int
}

// copyOf copies what a reviewer reads: the texts in their likeliest reading, those first that were found to be harmful.
// So nobody can hide one behind many others.
func copyOf(pieces []content.Piece, harmful []string) (c copied) {
	left := review.MaxTextBytes
	for _, first := range []bool{true, false} {
		for i := range pieces {
			piece := &pieces[i]
			if piece.Further() || strings.TrimSpace(piece.Text) == "" || slices.Contains(harmful, piece.Name) != first {
				continue
			}
			if len(c.texts) == review.MaxTexts || left <= 0 {
				c.leftOut++
				continue
			}
			text := piece.Text[:min(len(piece.Text), left)]
			left -= len(text) + len(piece.Name)
			c.texts = append(c.texts, review.Text{
				Name: strings.Clone(piece.Name), Text: strings.Clone(text), Cut: len(text) < len(piece.Text),
			})
		}
	}
	return c
}

// keepForReview keeps the texts of a request for review, if the configuration asks for it. Of an upload that flows to
// the app these are the texts that were read before it went on.
func (m *Moderate) keepForReview(r *http.Request, x *exchange, v *verdict, c copied) {
	if len(c.texts) == 0 || v.status != Judged && v.status != Partial || x.kept {
		return
	}
	services := m.app.TryAcquire()
	if services == nil {
		return
	}
	defer services.Release()
	cause, kept := services.Reviews.Cause(v.Recommendation)
	if !kept {
		return
	}
	x.kept = true // by this guard, and not once more by another one
	item := m.app.ReviewItem(cause, v.Recommendation, v.Confidence, &v.Categories)
	item.Origin, item.Account, item.RequestID = review.Guard, m.Account, x.id
	item.Site, item.Path, item.Language = hostOf(r), r.URL.Path, v.Language
	item.Texts, item.LeftOut = c.texts, c.leftOut
	author := ""
	if replacer, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok && m.Author != "" {
		author = replacer.ReplaceAll(m.Author, "")
	}
	services.Reviews.Keep(r.Context(), item, author)
}

// hostOf returns the host of a request without its port.
func hostOf(r *http.Request) string {
	if host, _, err := net.SplitHostPort(r.Host); err == nil {
		return host
	}
	return r.Host
}
