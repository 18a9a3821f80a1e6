// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package desk

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/caddy-moderation/caddy-moderation/documents"
	"github.com/caddy-moderation/caddy-moderation/review"
)

// queueRow is an item in a list.
type queueRow struct {
	review.Item
	Words      string
	StatusText string
	// Last is the last decision that the person may see, nil if there is none.
	Last     *review.Decision
	LastText string
}

// rowCharacters is how much of a text a list shows, in code points.
const rowCharacters = 100

func (c *call) row(i *review.Item) queueRow {
	row := queueRow{Item: *i, Words: firstWords(i.Texts), StatusText: c.words.must(statusText(i.Status))}
	if seen := visible(i, c.person.name); len(seen) > 0 {
		row.Last = &seen[len(seen)-1]
		row.LastText = c.words.must(actionText(row.Last.Action))
	}
	return row
}

// firstWords returns the beginning of texts in one line.
func firstWords(texts []review.Text) string {
	var b strings.Builder
	n := 0
	for _, t := range texts {
		for word := range strings.FieldsSeq(t.Text) {
			for _, r := range word {
				if n++; n > rowCharacters {
					return b.String() + "…"
				}
				b.WriteRune(r)
			}
			b.WriteByte(' ')
		}
	}
	return strings.TrimSpace(b.String())
}

// itemsPerPage is how many items a page lists.
const itemsPerPage = 50

// queueItemsBody is what a list of items shows.
type queueItemsBody struct {
	queueView
	Statuses []queueChoice
	Status   review.Status
	Rows     []queueRow
	// Next is the address of the next page, empty on the last.
	Next string
}

// listItems lists the items with a status.
func listItems(c *call, queue *review.Queue) error {
	query := c.r.URL.Query()
	body := queueItemsBody{queueView: viewOf(query), Status: review.Status(query.Get("status"))}
	if !slices.Contains(review.Statuses(), body.Status) {
		body.Status = review.Pending
	}
	for _, status := range review.Statuses() {
		body.Statuses = append(body.Statuses, queueChoice{
			c.itemsURL(status, body.queueView, ""), c.words.must(statusText(status)), status == body.Status,
		})
	}
	items, next, err := queue.List(c.r.Context(), review.Query{
		Status: body.Status, Account: body.Account, After: query.Get("after"), Limit: itemsPerPage,
	})
	if err != nil {
		return err
	}
	for i := range items {
		body.Rows = append(body.Rows, c.row(&items[i]))
	}
	if next != "" {
		body.Next = c.itemsURL(body.Status, body.queueView, next)
	}
	c.render(http.StatusOK, page{
		Template: "queue_items.html", Title: "queue.items", Body: body, Scripts: []string{"queue.mjs"},
	})
	return nil
}

func (c *call) itemsURL(status review.Status, view queueView, after string) string {
	values := url.Values{"status": {string(status)}}
	if view.Account != "" {
		values.Set("account", view.Account)
	}
	if after != "" {
		values.Set("after", after)
	}
	return c.url("review", "items") + "?" + values.Encode()
}

// showItem shows an item with all that was decided.
func showItem(c *call, queue *review.Queue) error {
	item, err := queue.Item(c.r.Context(), c.values["item"])
	if err != nil {
		return err
	}
	body := queueBody{queueView: viewOf(nil), Item: c.shown(&item), Reasons: c.reasons(), Back: "item"}
	body.taken(c.r.URL.Query())
	if did := didText(review.Action(c.r.URL.Query().Get("did"))); did != "" {
		body.Said = c.words.must(did)
	}
	if err := body.Item.withAuthor(c, queue); err != nil {
		return err
	}
	c.render(http.StatusOK, page{
		Template: "queue.html", Title: "queue.item", Body: body, Scripts: []string{"queue.mjs"},
	})
	return nil
}

// alike returns the waiting items of the same account with nearly the same texts that the person has not decided.
func (c *call) alike(queue *review.Queue, item *review.Item) ([]review.Item, error) {
	found, err := queue.Alike(c.r.Context(), *item)
	return slices.DeleteFunc(found, func(i review.Item) bool {
		return i.Account != item.Account || decidedBy(&i, c.person.name)
	}), err
}

// queueAlikeBody is what the page about items that are alike shows.
type queueAlikeBody struct {
	queueView
	ID      string
	Rows    []queueRow
	Reasons []queueReason
	// Decided are the items that were decided, and Left is how many were not.
	Decided []string
	Left    int
	Said    string
	Undone  bool
}

// askAlike asks whether items that are alike are to be decided alike.
func askAlike(c *call, queue *review.Queue) error {
	item, err := queue.Item(c.r.Context(), c.values["item"])
	if err != nil {
		return err
	}
	alike, err := c.alike(queue, &item)
	if err != nil {
		return err
	}
	body := queueAlikeBody{queueView: viewOf(c.r.URL.Query()), ID: item.ID, Reasons: c.reasons()}
	if item.Status == review.Pending && !decidedBy(&item, c.person.name) {
		alike = append([]review.Item{item}, alike...)
	}
	for i := range alike {
		body.Rows = append(body.Rows, c.row(&alike[i]))
	}
	c.render(http.StatusOK, page{
		Template: "queue_alike.html", Title: "queue.alike.title", Body: body, Scripts: []string{"queue.mjs"},
	})
	return nil
}

// maxBulk is how many items one form decides at most.
const maxBulk = 101

// decideAlike decides the items that a form names in one way, or takes these decisions back. It says how many it were
// right away: who loads the answer again decides nothing a second time.
func decideAlike(c *call, queue *review.Queue) error {
	d, ids := c.decisionOf(), c.form["id"]
	said := map[review.Action]string{
		review.Approve: "queue.alike.approved", review.Reject: "queue.alike.rejected",
		review.Undo: "queue.alike.undone",
	}[d.Action]
	if len(ids) == 0 || len(ids) > maxBulk || said == "" {
		return refuse(http.StatusBadRequest, "error.form")
	}
	body := queueAlikeBody{queueView: viewOf(c.form), ID: c.values["item"], Undone: d.Action == review.Undo}
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		decided, err := c.decideOne(queue, id, d)
		if err != nil {
			return err
		}
		if !decided {
			body.Left++
			continue
		}
		body.Decided = append(body.Decided, id)
	}
	body.Said = c.words.must(said, len(body.Decided))
	c.render(http.StatusOK, page{
		Template: "queue_alike.html", Title: "queue.alike.done", Body: body, Scripts: []string{"queue.mjs"},
	})
	return nil
}

// decideOne decides one of several items. It reports false if the item is not there for this person: somebody else has
// it or has decided it, or it was erased.
func (c *call) decideOne(queue *review.Queue, id string, d review.Decision) (bool, error) {
	ctx := c.r.Context()
	item, err := queue.Item(ctx, id)
	if err == nil && d.Action != review.Undo && (item.Status != review.Pending || decidedBy(&item, d.Reviewer)) ||
		err == nil && d.Action == review.Undo && !undoable(&item, d.Reviewer) {
		return false, nil
	}
	if err == nil {
		_, err = queue.Decide(ctx, id, d)
	}
	switch {
	case errors.Is(err, review.ErrNotFound), errors.Is(err, review.ErrTaken), errors.Is(err, documents.ErrConflict):
		return false, nil
	case err != nil:
		return false, err
	}
	return true, nil
}
