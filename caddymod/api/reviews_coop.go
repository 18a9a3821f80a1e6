// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/caddy-moderation/caddy-moderation/caddymod/access"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/body"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/coop"
	"github.com/caddy-moderation/caddy-moderation/caddymod/problem"
	"github.com/caddy-moderation/caddy-moderation/review"
)

// coopReviewer is who decides what a rule of Coop's has decided.
const coopReviewer = "coop"

// coop takes a decision in that somebody has made in Coop. The item is named by its own id, or by the id of the
// request that it came with, which stands for all of its items.
//
// Coop sends a decision again when it did not get an answer, so one that is made already is answered as if it were new.
// Who has decided otherwise in Coop before takes that back with the new decision.
func (h *reviews) coop(w http.ResponseWriter, r *http.Request, call *access.Call) error {
	if err := body.CheckJSON(r); err != nil {
		return call.Problem(w, r, body.Problem(w.Header(), err))
	}
	received, err := body.Read(w, r, maxDecision, decisionTimeout)
	if err != nil {
		return call.Problem(w, r, body.Problem(w.Header(), err))
	}
	defer received.Release()
	config := call.Services.Reviews.Coop
	if err := config.Key.Verify(received.Bytes(), r.Header.Get(coop.SignatureHeader)); err != nil {
		return call.Refuse(w, r, problem.New(problem.InvalidSignature,
			"The header "+coop.SignatureHeader+" is not a signature of this body by the key in the option coop."))
	}
	decision, err := coop.Parse(received.Bytes())
	if err != nil {
		return call.Problem(w, r, problem.New(problem.InvalidRequest,
			"The body is not the request of an action: it needs item.id and action.id."))
	}
	action, known := config.Action(decision.Action)
	if !known {
		return call.Problem(w, r, problem.New(problem.InvalidRequest,
			"The option coop does not say what this action stands for: name its id after approve, reject or escalate."))
	}
	item, err := h.decideFor(r, call, decision, action)
	if err != nil {
		return h.failed(w, r, call, err)
	}
	return h.send(w, r, call, item)
}

// decideFor makes a decision of Coop's, and returns the first item that it is about.
func (h *reviews) decideFor(
	r *http.Request, call *access.Call, decision coop.Decision, action review.Action,
) (review.Item, error) {
	queue := call.Services.Reviews.Queue
	var items []review.Item
	item, err := h.own(r, call, decision.Item)
	switch {
	case err == nil:
		items = []review.Item{item}
	case errors.Is(err, review.ErrNotFound):
		items, err = queue.OfRequest(r.Context(), decision.Item, call.Who.Account.ID)
	}
	if err != nil {
		return review.Item{}, err
	}
	if len(items) == 0 {
		return review.Item{}, review.ErrNotFound
	}
	d := review.Decision{
		Reviewer: decision.Reviewer, Action: action,
		Reason: prefix(decision.Reason, 200), Note: prefix(decision.Note, 2000),
	}
	if d.Reviewer == "" {
		d.Reviewer = coopReviewer
	}
	// Coop knows the answer, not its texts. What is decided already stays so when Coop asks again after an error.
	for i := range items {
		if items[i], err = decideOnce(r.Context(), queue, items[i], d); err != nil {
			return review.Item{}, err
		}
	}
	return items[0], nil
}

// decideOnce makes a decision unless the reviewer has made it already. Another one of the same reviewer is taken back.
func decideOnce(ctx context.Context, queue *review.Queue, item review.Item, d review.Decision) (review.Item, error) {
	if made := standing(item.Decisions, d.Reviewer); made != "" {
		if made == d.Action {
			return item, nil
		}
		undo := review.Decision{Reviewer: d.Reviewer, Action: review.Undo}
		if _, err := queue.Decide(ctx, item.ID, undo); err != nil {
			return review.Item{}, err
		}
	}
	return queue.Decide(ctx, item.ID, d)
}

// standing returns the last decision of a reviewer that was not taken back, also if it waits for that of a second one.
func standing(decisions []review.Decision, reviewer string) review.Action {
	for _, d := range slices.Backward(decisions) {
		if d.Reviewer == reviewer && !d.Undone &&
			(d.Action == review.Approve || d.Action == review.Reject || d.Action == review.Escalate) {
			return d.Action
		}
	}
	return ""
}

// prefix returns the beginning of a text that has at most limit bytes and ends with a whole character.
func prefix(text string, limit int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}
