// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/content"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/policy"
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
	item := itemOf(m.app, cause, r, x, v)
	item.Origin, item.Account, item.Path = review.Guard, m.Account, r.URL.Path
	item.Texts, item.LeftOut = c.texts, c.leftOut
	markBlocked(&item, m.pipeline.moderator)
	author := ""
	if replacer, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok && m.Author != "" {
		author = replacer.ReplaceAll(m.Author, "")
	}
	services.Reviews.Keep(r.Context(), item, author)
}

// itemOf returns an item with what the guard says of a message.
func itemOf(a *app.App, cause review.Cause, r *http.Request, x *exchange, v *verdict) review.Item {
	item := a.ReviewItem(cause, v.Recommendation, v.Confidence, &v.Categories)
	item.RequestID, item.Site, item.Language = x.id, hostOf(r), v.Language
	item.Themes, item.Blocked, item.OtherLanguage = v.Themes, v.Blocked, v.OtherLanguage
	return item
}

// markBlocked marks the blocked words of the guard in the texts of an item.
func markBlocked(item *review.Item, moderator *policy.Moderator) {
	if !item.Blocked {
		return
	}
	for i := range item.Texts {
		app.MarkPassages(&item.Texts[i], review.BlockedPassage, moderator.Blocked(item.Texts[i].Text))
	}
}

// keepForReview keeps what the app has answered for review, if the configuration asks for it. texts returns what a
// reviewer reads of it.
func (a *answer) keepForReview(texts func() copied) {
	if a.v.status != Judged && a.v.status != Partial || a.x.keptAnswer {
		return
	}
	services := a.m.app.TryAcquire()
	if services == nil {
		return
	}
	defer services.Release()
	cause, kept := services.Reviews.Cause(a.v.Recommendation)
	if !kept {
		return
	}
	c := texts()
	if len(c.texts) == 0 {
		return
	}
	a.x.keptAnswer = true // by this guard, and not once more by another one
	item := itemOf(a.m.app, cause, a.r, a.x, a.v)
	item.Origin, item.Account, item.Path = review.Answer, a.m.Account, a.path
	item.Texts, item.LeftOut = c.texts, c.leftOut
	markBlocked(&item, a.m.moderator)
	services.Reviews.KeepOnce(a.r.Context(), item)
}

const (
	// maxSaid is how many bytes of a stream a reviewer reads, from its beginning.
	maxSaid = 32 << 10
	// longSaid is from how many bytes on the part that the verdict rests on stands before them.
	longSaid = 4 << 10
)

// said is what a reviewer reads of a stream.
type said struct {
	text []byte // its beginning
	cut  bool
	// worst is the part that the verdict rests on, with the text before it. Empty: none is worse than others.
	worst string
}

// add adds what follows.
func (s *said) add(text []byte) {
	room := maxSaid - len(s.text)
	s.cut = s.cut || len(text) > room
	s.text = append(s.text, text[:min(len(text), room)]...)
}

// copied returns the texts. So nobody can hide one behind many others.
func (s *said) copied() (c copied) {
	if s.worst != "" && len(s.text) > longSaid {
		c.texts = append(c.texts, review.Text{Text: s.worst})
	}
	if text := strings.ToValidUTF8(string(s.text), ""); strings.TrimSpace(text) != "" {
		c.texts = append(c.texts, review.Text{Text: text, Cut: s.cut})
	}
	return c
}

// hostOf returns the host of a request without its port.
func hostOf(r *http.Request) string {
	if host, _, err := net.SplitHostPort(r.Host); err == nil {
		return host
	}
	return r.Host
}
