// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"net"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/content"
	"github.com/caddy-moderation/caddy-moderation/review"
)

// textsOf copies what a reviewer reads: the texts in their likeliest reading, each once.
func textsOf(pieces []content.Piece) (texts []review.Text) {
	left := review.MaxTextBytes
	for i := range pieces {
		piece := &pieces[i]
		if piece.Further() || strings.TrimSpace(piece.Text) == "" {
			continue
		}
		if len(texts) == review.MaxTexts || left <= 0 {
			break
		}
		text := piece.Text[:min(len(piece.Text), left)]
		left -= len(text) + len(piece.Name)
		texts = append(texts, review.Text{Name: strings.Clone(piece.Name), Text: strings.Clone(text)})
	}
	return texts
}

// keepForReview keeps the texts of a request for review, if the configuration asks for it. Of an upload that flows to
// the app these are the texts that were read before it went on.
func (m *Moderate) keepForReview(r *http.Request, x *exchange, v *verdict, texts []review.Text) {
	if len(texts) == 0 || v.status != Judged && v.status != Partial || x.kept {
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
	item.Site, item.Path, item.Texts, item.Language = hostOf(r), r.URL.Path, texts, v.Language
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
