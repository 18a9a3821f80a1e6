// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/caddy-moderation/caddy-moderation/documents"
	"github.com/caddy-moderation/caddy-moderation/sortid"
)

// claim says who has an item.
type claim struct {
	Reviewer string    `json:"reviewer"`
	Until    time.Time `json:"until"`
}

// heldBy returns who has an item now, or nobody.
func heldBy(d documents.Document, now time.Time) string {
	var c claim
	if d.Revision == 0 || json.Unmarshal(d.Value, &c) != nil || !now.Before(c.Until) {
		return ""
	}
	return c.Reviewer
}

// lookAhead is how many waiting items are tried at once.
const lookAhead = 32

// Next serves a reviewer the first waiting item that nobody else has, and that the reviewer has not skipped or decided.
// Until it is decided, released, or the time of a claim is over, nobody else is served it. A reviewer who asks again
// without deciding is served the same item. The error is [ErrEmpty] if there is none.
//
// Account limits it to items of that account; all are meant if it is empty.
func (q *Queue) Next(ctx context.Context, reviewer string, order Order, account string) (Item, error) {
	if reviewer == "" || len(reviewer) > maxName {
		return Item{}, invalid("reviewer has 1 to %d bytes", maxName)
	}
	if order != "" && !slices.Contains(Orders(), order) {
		return Item{}, invalid("order is age, harm or doubt")
	}
	h, err := q.keyed(ctx)
	if err != nil {
		return Item{}, err
	}
	var ids []string
	for d, err := range q.store.ListDocuments(ctx, collection, documents.Prefix(ofAccount(account)+order.prefix())) {
		if err != nil {
			return Item{}, err
		}
		if ids = append(ids, idOf(d.Key)); len(ids) < lookAhead {
			continue
		}
		if item, err := q.claimOne(ctx, h, reviewer, ids); !errors.Is(err, ErrEmpty) {
			return item, err
		}
		ids = ids[:0]
	}
	return q.claimOne(ctx, h, reviewer, ids)
}

func seenKey(h hashes, reviewer, id string) string {
	return "k/" + h.of("reviewer", reviewer) + "/" + id
}

// claimOne claims the first of some items that can be claimed.
func (q *Queue) claimOne(ctx context.Context, h hashes, reviewer string, ids []string) (Item, error) {
	keys := make([]string, 0, 2*len(ids))
	for _, id := range ids {
		keys = append(keys, claimKey(id), seenKey(h, reviewer, id))
	}
	found, err := q.store.Documents(ctx, collection, keys...)
	if err != nil {
		return Item{}, err
	}
	now := q.now()
	for i, id := range ids {
		held, seen := found[2*i], found[2*i+1]
		if by := heldBy(held, now); by != "" && by != reviewer || seen.Revision != 0 {
			continue
		}
		value, err := json.Marshal(claim{reviewer, now.Add(q.options.Claim)})
		if err != nil {
			return Item{}, err
		}
		err = q.store.ChangeDocuments(ctx, collection,
			documents.Change{Key: claimKey(id), Value: value, If: held.Unchanged()})
		if errors.Is(err, documents.ErrConflict) {
			continue // somebody else was faster
		}
		if err != nil {
			return Item{}, err
		}
		k, err := q.read(ctx, id)
		if errors.Is(err, ErrNotFound) || errors.Is(err, ErrDamaged) || err == nil && k.Status != Pending {
			// It was erased or decided since it was listed, or nobody can decide it.
			_ = q.Release(ctx, reviewer, id)
			continue
		}
		return k.Item, err
	}
	return Item{}, ErrEmpty
}

// Claim serves a reviewer a certain item, as [Queue.Next] does. The error is [ErrTaken] if somebody else has it, or if
// it is not waiting for this reviewer: it is decided, escalated, or the reviewer has skipped it.
func (q *Queue) Claim(ctx context.Context, reviewer, id string) (Item, error) {
	if reviewer == "" || len(reviewer) > maxName {
		return Item{}, invalid("reviewer has 1 to %d bytes", maxName)
	}
	k, err := q.read(ctx, id)
	if err != nil {
		return Item{}, err
	}
	if k.Status != Pending {
		return Item{}, ErrTaken
	}
	h, err := q.keyed(ctx)
	if err != nil {
		return Item{}, err
	}
	item, err := q.claimOne(ctx, h, reviewer, []string{id})
	if errors.Is(err, ErrEmpty) {
		return Item{}, ErrTaken
	}
	return item, err
}

// Release gives an item back that was served to a reviewer. It is no error if the reviewer does not have it.
func (q *Queue) Release(ctx context.Context, reviewer, id string) error {
	found, err := q.store.Documents(ctx, collection, claimKey(id))
	if err != nil {
		return err
	}
	if heldBy(found[0], q.now()) != reviewer {
		return nil
	}
	err = q.store.ChangeDocuments(ctx, collection,
		documents.Change{Key: claimKey(id), Delete: true, If: found[0].Unchanged()})
	if errors.Is(err, documents.ErrConflict) {
		return nil
	}
	return err
}

// decideTries is how often a decision is made again after somebody else has changed the item.
const decideTries = 5

// Decide makes a decision about an item and returns the item as it is then. ID, Time and Undone of the decision are set
// by the queue. When it returns nil, the decision survives the loss of power, and so does its [Event].
//
// A waiting item that somebody else has, or that is approved or rejected already, is [ErrTaken]; an escalated one is
// for everybody. Of an item that two are to decide, the first decision leaves it waiting; if the second is another one,
// the item is escalated. An item that the reviewer has no decision about cannot be undone: that is [ErrInvalid].
func (q *Queue) Decide(ctx context.Context, id string, d Decision) (Item, error) {
	if err := d.validate(); err != nil {
		return Item{}, err
	}
	h, err := q.keyed(ctx)
	if err != nil {
		return Item{}, err
	}
	d.Time, d.Undone = q.now(), false
	if d.ID, err = sortid.New("dec_", d.Time, q.options.Random); err != nil {
		return Item{}, err
	}
	for tries := 1; ; tries++ {
		item, err := q.decideOnce(ctx, h, id, d)
		if !errors.Is(err, documents.ErrConflict) || tries == decideTries {
			return item, err
		}
	}
}

func (q *Queue) decideOnce(ctx context.Context, h hashes, id string, d Decision) (Item, error) {
	k, err := q.read(ctx, id)
	if err != nil {
		return Item{}, err
	}
	// A decision whose answer was lost is made already.
	if slices.ContainsFunc(k.Decisions, func(made Decision) bool { return made.ID == d.ID }) {
		return k.Item, nil
	}
	found, err := q.store.Documents(ctx, collection, claimKey(id))
	if err != nil {
		return Item{}, err
	}
	if by := heldBy(found[0], d.Time); by != "" && by != d.Reviewer && d.Action != Undo {
		return Item{}, ErrTaken
	}
	before := k.Item
	item := k.Item
	item.Decisions = slices.Clone(item.Decisions)
	if d.Action == Undo {
		if !undo(item.Decisions, d.Reviewer) {
			return Item{}, invalid("there is no decision of this reviewer to undo")
		}
	} else if item.Status == Approved || item.Status == Refused {
		return Item{}, ErrTaken
	}
	item.Decisions = append(item.Decisions, d)
	item.settle()
	changes, err := q.write(h, k.names, &item, k.document.Unchanged())
	if err != nil {
		return Item{}, err
	}
	seen := documents.Change{Key: seenKey(h, d.Reviewer, id), Delete: d.Action == Undo}
	if item.Status == Pending {
		changes = append(changes, seen)
	}
	if d.Action != Undo || found[0].Revision != 0 && heldBy(found[0], d.Time) == "" {
		changes = append(changes, documents.Change{Key: claimKey(id), Delete: true})
	}
	if item.Status != before.Status {
		value, err := q.sealer.seal("e/"+d.ID, newEvent(&item, &d))
		if err != nil {
			return Item{}, err
		}
		changes = append(changes, documents.Change{Key: "e/" + d.ID, Value: value})
	}
	err = q.store.ChangeDocuments(ctx, collection, changes...)
	if errors.Is(err, documents.ErrInvalid) {
		err = invalid("the item has no room for one more decision")
	}
	return item, err
}

// undo marks the last final decision of a reviewer as undone. It reports whether there is one.
func undo(decisions []Decision, reviewer string) bool {
	for i, d := range slices.Backward(decisions) {
		if d.Reviewer == reviewer && !d.Undone && (d.Action.final() || d.Action == Skip) {
			decisions[i].Undone = true
			return true
		}
	}
	return false
}

// settle sets the status to what the decisions make of it.
func (i *Item) settle() {
	i.Status = Pending
	var first *Decision
	for n := range i.Decisions {
		d := &i.Decisions[n]
		if !d.Action.final() || d.Undone {
			continue
		}
		switch {
		case d.Action == Escalate:
			i.Status = Escalated
		case i.Twice && i.Status == Pending && (first == nil || first.Reviewer == d.Reviewer):
			first = d
		case i.Twice && i.Status == Pending && first.Action != d.Action:
			i.Status = Escalated
		case d.Action == Approve:
			i.Status = Approved
		default:
			i.Status = Refused
		}
	}
}

// Event tells that the status of an item has changed. It has no text.
type Event struct {
	// ID is that of the decision, and sorts by time.
	ID string `json:"id"`
	// Type is "review.decided".
	Type string    `json:"type"`
	Time time.Time `json:"time"`
	// Item, Origin, RequestID, Account, Site and Author are those of the item.
	Item      string `json:"item"`
	Origin    Origin `json:"origin"`
	RequestID string `json:"request_id,omitempty"`
	Account   string `json:"account,omitempty"`
	Site      string `json:"site,omitempty"`
	Author    string `json:"author,omitempty"`
	// Status is what has become of it; pending if a decision was undone.
	Status     Status          `json:"status"`
	Reason     string          `json:"reason,omitempty"`
	Categories map[string]bool `json:"categories,omitempty"`
}

func newEvent(i *Item, d *Decision) Event {
	return Event{
		ID: d.ID, Type: "review.decided", Time: d.Time, Item: i.ID, Origin: i.Origin, RequestID: i.RequestID,
		Account: i.Account, Site: i.Site, Author: i.Author, Status: i.Status, Reason: d.Reason,
		Categories: d.Categories,
	}
}

// Events returns up to limit events that follow an id, the oldest first; those of an account unless it is empty. The id
// of the first event is asked for with an empty one. Events are kept as long as items. Several nodes may add them with
// clocks that differ a little, so who reads on from the last id may miss one of the last seconds; read again from an id
// a minute older, and leave out what is known. Damaged events are passed, so that the later ones are told; damaged is
// their number.
func (q *Queue) Events(
	ctx context.Context, afterID, account string, limit int,
) (events []Event, damaged int, err error) {
	for d, err := range q.store.ListDocuments(ctx, collection, after("e/", afterID)) {
		var e Event
		if err == nil {
			err = q.sealer.open(d.Key, d.Value, &e)
		}
		if errors.Is(err, ErrDamaged) {
			damaged++
			continue
		}
		if err != nil {
			return nil, damaged, err
		}
		if account != "" && e.Account != account {
			continue
		}
		if events = append(events, e); len(events) == limit {
			break
		}
	}
	return events, damaged, nil
}

// EventIDAt returns what events of an instant and later ones follow in the order of their ids: a cursor for
// [Queue.Events].
func EventIDAt(at time.Time) string {
	id, _ := sortid.New("dec_", at, zeros{}) // zeros never fail
	return id
}
