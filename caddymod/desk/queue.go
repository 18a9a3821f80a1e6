// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package desk

import (
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/documents"
	"github.com/caddy-moderation/caddy-moderation/engine"
	"github.com/caddy-moderation/caddy-moderation/review"
)

// bulkForm is the size of the largest form that decides many items, in bytes.
const bulkForm = 64 << 10

// queueRoutes returns what a request may do with the review queue.
func queueRoutes() []route {
	const get, post = http.MethodGet, http.MethodPost
	return []route{
		{method: get, pattern: "/review", needs: reviewer, store: true, serve: ofQueue(serveNext)},
		{method: get, pattern: "/review/items", needs: reviewer, store: true, serve: ofQueue(listItems)},
		{method: get, pattern: "/review/items/{item}", needs: reviewer, store: true, serve: ofQueue(showItem)},
		{method: post, pattern: "/review/{item}/decision", needs: reviewer, store: true, limit: smallForm,
			serve: ofQueue(decideItem)},
		{method: get, pattern: "/review/{item}/alike", needs: reviewer, store: true, serve: ofQueue(askAlike)},
		{method: post, pattern: "/review/{item}/alike", needs: reviewer, store: true, limit: bulkForm,
			serve: ofQueue(decideAlike)},
	}
}

// withoutQueue reports whether the configuration has no review queue.
func (d *Desk) withoutQueue() bool { return d != nil && d.app != nil && !d.app.KeepsReviews() }

// ofQueue serves a route of the review queue if there is one, and explains its errors.
func ofQueue(serve func(*call, *review.Queue) error) func(*call) error {
	return func(c *call) error {
		if c.services.Reviews == nil {
			return refuse(http.StatusNotFound, "error.noqueue")
		}
		err := serve(c, c.services.Reviews.Queue)
		switch {
		case errors.Is(err, review.ErrNotFound):
			return refuse(http.StatusNotFound, "error.noitem")
		case errors.Is(err, review.ErrInvalid):
			// The message names the rule, and has nothing of what was typed.
			detail := strings.TrimPrefix(err.Error(), review.ErrInvalid.Error()+": ")
			return &refusal{http.StatusBadRequest, "error.invalid", detail}
		case errors.Is(err, review.ErrTaken), errors.Is(err, documents.ErrConflict):
			return refuse(http.StatusConflict, "error.taken")
		case errors.Is(err, review.ErrKey):
			c.desk.app.Logger().Error("showing the review queue", zap.Error(err))
			return refuse(http.StatusInternalServerError, "error.sealed")
		}
		return err
	}
}

// queueView is what a reviewer has chosen to see. It stays in the address.
type queueView struct {
	Order   review.Order
	Account string
}

// maxAccountID is the length of the longest id of an account that is looked for, in bytes.
const maxAccountID = 64

func viewOf(values url.Values) queueView {
	v := queueView{Order: review.Order(values.Get("order")), Account: strings.TrimSpace(values.Get("account"))}
	if !slices.Contains(review.Orders(), v.Order) {
		v.Order = review.ByAge
	}
	if len(v.Account) > maxAccountID {
		v.Account = ""
	}
	return v
}

// with returns the path of the working page with the view and more parameters: names and values in turns.
func (v queueView) with(c *call, more ...string) string {
	values := url.Values{}
	if v.Order != review.ByAge {
		values.Set("order", string(v.Order))
	}
	if v.Account != "" {
		values.Set("account", v.Account)
	}
	for i := 0; i+1 < len(more); i += 2 {
		values.Set(more[i], more[i+1])
	}
	if len(values) == 0 {
		return c.url("review")
	}
	return c.url("review") + "?" + values.Encode()
}

// to sends the browser to a path as it sees it.
func (c *call) to(path string) error {
	c.w.Header().Set("Location", path)
	c.w.WriteHeader(http.StatusSeeOther)
	return nil
}

// itemID matches the id of an item.
var itemID = regexp.MustCompile(`^rev_[0-9a-v]{26}$`)

// blind reports whether the verdict of an item is hidden: its decision is to measure the service, or is one of two that
// are to be made without knowing of each other.
func blind(i *review.Item) bool {
	return (i.Cause == review.Sampled || i.Twice) && (i.Status == review.Pending || i.Status == review.Escalated)
}

// visible returns the decisions about an item that a person may see: not what the first of two reviewers has decided,
// before the second has.
func visible(i *review.Item, name string) (decisions []review.Decision) {
	for _, d := range i.Decisions {
		if !i.Twice || i.Status != review.Pending || d.Reviewer == name {
			decisions = append(decisions, d)
		}
	}
	return decisions
}

// undoable reports whether a person has a decision about an item that can be taken back.
func undoable(i *review.Item, name string) bool {
	return slices.ContainsFunc(i.Decisions, func(d review.Decision) bool {
		return d.Reviewer == name && !d.Undone && d.Action != review.Undo
	})
}

// decidedBy reports whether the decision of a person about an item stands that is one of two.
func decidedBy(i *review.Item, name string) bool {
	return slices.ContainsFunc(i.Decisions, func(d review.Decision) bool {
		return d.Reviewer == name && !d.Undone && (d.Action == review.Approve || d.Action == review.Reject)
	})
}

// queueItem is an item as it is shown.
type queueItem struct {
	review.Item
	Texts      []queueText
	Blind      bool
	Age        string
	Categories []queueCategory
	// Known is how many items the author has in the account, and Earlier are the newest of them.
	Known   int
	Earlier []queueRow
	History []review.Decision
	// Mine says that the person can take a decision back, and Open that the person can decide.
	Mine, Open bool
}

// queueText is one text of an item.
type queueText struct {
	Name     string
	Segments []segment
	Long     bool
	// Cut says that the text went on.
	Cut bool
}

// queueCategory is what the service has said of a category. Nothing of it is set for blind items but the name.
type queueCategory struct {
	Name        string
	Probability float64
	Percent     string // of the bar
	Flagged     bool
	// Asked says that the reviewer is asked whether it is right.
	Asked bool
}

const (
	// likely is the probability from which on a reviewer is asked about a category.
	likely = 0.25
	// longText is from how many bytes on a text may not fit its box.
	longText = 1500
	// earlierItems is how many items of the same author are listed.
	earlierItems = 5
)

// shown returns an item as a person may see it.
func (c *call) shown(item *review.Item) *queueItem {
	s := &queueItem{
		Item: *item, Blind: blind(item), Age: c.age(c.desk.now().Sub(item.Time)),
		History: visible(item, c.person.name), Mine: undoable(item, c.person.name),
		Open: item.Status == review.Escalated || item.Status == review.Pending && !decidedBy(item, c.person.name),
	}
	for _, t := range item.Texts {
		passages := t.Passages
		if s.Blind {
			passages = nil
		}
		s.Texts = append(s.Texts, queueText{t.Name, segmentsOf(t.Text, passages), len(t.Text) > longText, t.Cut})
	}
	for i := range engine.NumCategories {
		category := queueCategory{Name: engine.Category(i).String(), Asked: s.Blind}
		if !s.Blind {
			category.Probability = item.Probabilities[category.Name]
			category.Percent = share(int64(category.Probability*1e6), 1e6)
			category.Flagged = slices.Contains(item.Flagged, category.Name)
			category.Asked = category.Flagged || category.Probability >= likely
		}
		s.Categories = append(s.Categories, category)
	}
	return s
}

// withAuthor adds what the author has written before. Blind items are shown without: what became of the others is a
// hint at the verdict.
func (s *queueItem) withAuthor(c *call, queue *review.Queue) error {
	if s.Blind || s.Author == "" {
		return nil
	}
	items, n, err := queue.OfAuthor(c.r.Context(), s.Author, s.Account, earlierItems+1)
	if err != nil {
		return err
	}
	s.Known = n
	for i := range items {
		if items[i].ID != s.ID && len(s.Earlier) < earlierItems {
			s.Earlier = append(s.Earlier, c.row(&items[i]))
		}
	}
	return nil
}

// age returns a duration in words, in its largest unit.
func (c *call) age(d time.Duration) string {
	switch {
	case d < time.Minute:
		return c.words.must("queue.age.now")
	case d < time.Hour:
		return c.words.must("queue.age.minutes", int(d.Minutes()))
	case d < 48*time.Hour:
		return c.words.must("queue.age.hours", int(d.Hours()))
	}
	return c.words.must("queue.age.days", int(d.Hours()/24))
}

// queueBody is what the working page shows.
type queueBody struct {
	queueView
	// Item is nil if there is none.
	Item   *queueItem
	Orders []queueChoice
	// Waiting is how many items wait, and Oldest the age of the oldest, empty if there is none. PassedOn is how many
	// were passed on. All of them are of the account, if one is chosen.
	Waiting, PassedOn int64
	Oldest            string
	// Last is the item that was decided last, empty if none was, and Said what has become of it.
	Last, Said string
	// Skipped says that the last item was not decided but left to others.
	Skipped bool
	// Taken says that somebody else has the item that was to be decided, or has decided it. If it was the person,
	// perhaps in another tab, Mine is the item.
	Taken bool
	Mine  string
	// Undone is the item whose decision was just taken back.
	Undone  string
	Alike   int
	Reasons []queueReason
	// Back says where a decision leads: empty is the next item.
	Back string
}

// queueChoice is one of several values.
type queueChoice struct {
	Value, Text string
	Current     bool
}

// queueReason is one of the reasons that can be chosen by a digit.
type queueReason struct {
	Digit       int
	Value, Text string
}

// The texts that say what was decided, and what the orders, statuses, causes and actions are called.
func didText(action review.Action) string {
	return map[review.Action]string{
		review.Approve: "queue.did.approve", review.Reject: "queue.did.reject", review.Escalate: "queue.did.escalate",
		review.Skip: "queue.did.skip", review.Undo: "queue.did.undo",
	}[action]
}

func orderText(order review.Order) string {
	return map[review.Order]string{
		review.ByAge: "queue.order.age", review.ByHarm: "queue.order.harm", review.ByDoubt: "queue.order.doubt",
	}[order]
}

func statusText(status review.Status) string {
	return map[review.Status]string{
		review.Pending: "queue.pending", review.Escalated: "queue.escalated", review.Approved: "queue.approved",
		review.Refused: "queue.rejected",
	}[status]
}

func causeText(cause review.Cause) string {
	return map[review.Cause]string{
		review.Reviewed: "queue.cause.review", review.Rejected: "queue.cause.reject",
		review.Sampled: "queue.cause.sample", review.Corrected: "queue.cause.correction",
	}[cause]
}

func originText(origin review.Origin) string {
	return map[review.Origin]string{
		review.Guard: "queue.origin.guard", review.API: "queue.origin.api", review.Answer: "queue.origin.answer",
	}[origin]
}

func actionText(action review.Action) string {
	return map[review.Action]string{
		review.Approve: "queue.action.approve", review.Reject: "queue.action.reject",
		review.Escalate: "queue.action.escalate", review.Skip: "queue.action.skip", review.Undo: "queue.action.undo",
	}[action]
}

// reasons are those that can be chosen by a digit, with their texts. What is kept is the same in all languages.
func (c *call) reasons() (all []queueReason) {
	for i, r := range [...][2]string{
		{"insult", "queue.reason.insult"}, {"hate", "queue.reason.hate"}, {"threat", "queue.reason.threat"},
		{"sexual", "queue.reason.sexual"}, {"self-harm", "queue.reason.self-harm"}, {"spam", "queue.reason.spam"},
		{"personal-data", "queue.reason.personal-data"}, {"illegal", "queue.reason.illegal"},
		{"off-topic", "queue.reason.off-topic"},
	} {
		all = append(all, queueReason{i + 1, r[0], c.words.must(r[1])})
	}
	return all
}

// serveNext shows the next item, or the one that the query names.
func serveNext(c *call, queue *review.Queue) error {
	query := c.r.URL.Query()
	body := queueBody{queueView: viewOf(query), Reasons: c.reasons()}
	body.taken(query)
	for _, order := range review.Orders() {
		body.Orders = append(body.Orders, queueChoice{
			string(order), c.words.must(orderText(order)), order == body.Order,
		})
	}
	if id, did := query.Get("last"), didText(review.Action(query.Get("did"))); itemID.MatchString(id) && did != "" {
		body.Last, body.Said = id, c.words.must(did)
		body.Skipped = review.Action(query.Get("did")) == review.Skip
	}
	if id := query.Get("undone"); itemID.MatchString(id) {
		body.Undone, body.Said = id, c.words.must(didText(review.Undo))
	}
	ctx := c.r.Context()
	stats, err := c.services.Reviews.Stats(ctx, body.Account)
	if err != nil {
		return err
	}
	body.Waiting, body.PassedOn = int64(stats.Items[review.Pending]), int64(stats.Items[review.Escalated])
	if stats.Oldest != nil {
		body.Oldest = c.age(c.desk.now().Sub(*stats.Oldest))
	}
	item, err := c.next(queue, query.Get("item"), &body)
	if errors.Is(err, review.ErrEmpty) {
		c.render(http.StatusOK, page{
			Template: "queue.html", Title: "queue.empty", Body: body, Scripts: []string{"queue.mjs"},
			Refresh: emptyRefresh,
		})
		return nil
	}
	if err != nil {
		return err
	}
	body.Item = c.shown(&item)
	if err := body.Item.withAuthor(c, queue); err != nil {
		return err
	}
	alike, err := c.alike(queue, &item)
	if err != nil {
		return err
	}
	body.Alike = len(alike)
	c.render(http.StatusOK, page{
		Template: "queue.html", Title: "queue.title", Body: body, Scripts: []string{"queue.mjs"},
	})
	return nil
}

// emptyRefresh is when a page about an empty queue looks again, in seconds.
const emptyRefresh = 15

// next claims the item with an id, or if that is impossible, the next one.
func (c *call) next(queue *review.Queue, id string, body *queueBody) (review.Item, error) {
	if id != "" {
		item, err := queue.Claim(c.r.Context(), c.person.name, id)
		if !errors.Is(err, review.ErrTaken) && !errors.Is(err, review.ErrNotFound) {
			return item, err
		}
		body.Taken, body.Undone, body.Said = true, "", ""
		if found, err := queue.Item(c.r.Context(), id); err == nil && decidedBy(&found, c.person.name) {
			body.Mine = id
		}
	}
	return queue.Next(c.r.Context(), c.person.name, body.Order, body.Account)
}

// decisionOf returns the decision that a form makes.
func (c *call) decisionOf() review.Decision {
	text := func(name string) string {
		return strings.TrimSpace(strings.ReplaceAll(c.form.Get(name), "\r\n", "\n"))
	}
	d := review.Decision{Reviewer: c.person.name, Action: review.Action(c.form.Get("action"))}
	if d.Action == review.Undo || d.Action == review.Skip {
		return d
	}
	if d.Action != review.Approve {
		d.Reason = text("reason")
		if other := text("other"); other != "" {
			d.Reason = other
		}
	}
	d.Note = text("note")
	for i := range engine.NumCategories {
		name := engine.Category(i).String()
		right := c.form.Get("is-" + name)
		if right != "yes" && right != "no" {
			continue
		}
		if d.Categories == nil {
			d.Categories = map[string]bool{}
		}
		d.Categories[name] = right == "yes"
	}
	return d
}

// takenByOther is in the address of a page that says that somebody else has an item. Its id is there if it is the
// person who has decided it.
const takenByOther = "1"

// taken sets what the page says of an item that could not be decided.
func (b *queueBody) taken(query url.Values) {
	b.Taken = query.Has("taken")
	if id := query.Get("taken"); itemID.MatchString(id) {
		b.Mine = id
	}
}

// decideItem decides an item, or takes a decision back, and goes on to the next one.
func decideItem(c *call, queue *review.Queue) error {
	id, d, view := c.values["item"], c.decisionOf(), viewOf(c.form)
	_, err := queue.Decide(c.r.Context(), id, d)
	taken, by := errors.Is(err, review.ErrTaken) || errors.Is(err, documents.ErrConflict), takenByOther
	if taken {
		// The same form may have been sent twice, or another one in another tab.
		item, missing := queue.Item(c.r.Context(), id)
		if missing == nil && len(item.Decisions) > 0 {
			if last := item.Decisions[len(item.Decisions)-1]; last.Reviewer == d.Reviewer && last.Action == d.Action {
				taken, err = false, nil
			}
		}
		if missing == nil && decidedBy(&item, d.Reviewer) {
			by = id
		}
	}
	item := c.form.Get("back") == "item"
	switch {
	case taken && item:
		return c.to(c.url("review", "items", id) + "?taken=" + by)
	case taken:
		return c.to(view.with(c, "taken", by))
	case err != nil:
		return err
	case item:
		return c.to(c.url("review", "items", id) + "?did=" + string(d.Action))
	case d.Action == review.Undo:
		return c.to(view.with(c, "item", id, "undone", id))
	}
	return c.to(view.with(c, "last", id, "did", string(d.Action)))
}

// CauseText names the text that says why the item is kept.
func (b queueBody) CauseText() string { return causeText(b.Item.Cause) }

// OriginText names the text that says where the item comes from.
func (b queueBody) OriginText() string { return originText(b.Item.Origin) }

// StatusText names the text that says what has become of the item.
func (b queueBody) StatusText() string { return statusText(b.Item.Status) }

// ActionText names the text that says what a reviewer has decided.
func (queueBody) ActionText(action review.Action) string { return actionText(action) }

// VerdictText names the text that says what the service recommends.
func (b queueBody) VerdictText() string {
	switch engine.Recommendation(b.Item.Recommendation) {
	case engine.Reject:
		return "verdict.reject"
	case engine.Review:
		return "verdict.review"
	}
	return "verdict.approve"
}

// UndecidedText names the text that says that nothing was decided yet.
func (b queueBody) UndecidedText() string {
	if b.Item.Twice {
		return "queue.nothing"
	}
	return "queue.undecided"
}

// SureText names the text that says how sure the service is.
func (b queueBody) SureText() string {
	if len(b.Item.Flagged) > 0 || b.Item.Blocked || len(b.Item.Themes) > 0 {
		return "queue.sure"
	}
	return "queue.sure.not"
}

// ClosedText names the text that says why the person cannot decide the item.
func (b queueBody) ClosedText() string {
	if b.Item.Status == review.Pending {
		return "queue.waits"
	}
	return "queue.closed"
}
