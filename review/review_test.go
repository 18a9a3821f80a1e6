// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package review_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/documents"
	"github.com/caddy-moderation/caddy-moderation/review"
	"github.com/caddy-moderation/caddy-moderation/storage/storagetest"
)

var background = context.Background()

// clock is a clock that a test moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(time.Millisecond)
	return c.now
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func newClock() *clock { return &clock{now: time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)} }

func open(t testing.TB, o review.Options) *review.Queue {
	t.Helper()
	if o.Store == nil {
		o.Store = storagetest.NewMemory()
	}
	if o.Now == nil {
		o.Now = newClock().Now
	}
	q, err := review.New(o)
	must(t, err)
	return q
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got the error %v, want none", err)
	}
}

func wantErr(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got the error %v, want %v", err, want)
	}
}

// post is an item with a text.
func post(text string) review.Item {
	return review.Item{
		Origin: review.Guard, Cause: review.Reviewed, Account: "acme", Site: "example.com", Path: "/comments",
		Texts: []review.Text{{Name: "body", Text: text}}, Author: "author_1", Recommendation: "review",
		Flagged: []string{"hate"}, Probabilities: map[string]float64{"hate": 0.5}, Confidence: 0.5, Model: "m1",
	}
}

func add(t testing.TB, q *review.Queue, item review.Item) string {
	t.Helper()
	id, err := q.Add(background, item)
	must(t, err)
	return id
}

func decide(t testing.TB, q *review.Queue, id, reviewer string, action review.Action) review.Item {
	t.Helper()
	item, err := q.Decide(background, id, review.Decision{Reviewer: reviewer, Action: action})
	must(t, err)
	return item
}

// list returns the texts of items.
func list(t testing.TB, q *review.Queue, query review.Query) (texts []string) {
	t.Helper()
	items, _, err := q.List(background, query)
	must(t, err)
	for _, i := range items {
		texts = append(texts, i.Texts[0].Text)
	}
	return texts
}

// everything returns all that a store keeps.
func everything(t testing.TB, s documents.Store) []byte {
	t.Helper()
	var b bytes.Buffer
	for d, err := range s.ListDocuments(background, "review", documents.Range{}) {
		must(t, err)
		b.WriteString(d.Key)
		b.Write(d.Value)
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// TestLife follows an item from its addition to its erasure.
func TestLife(t *testing.T) {
	t.Parallel()
	q := open(t, review.Options{})
	id := add(t, q, post("one"))
	got, err := q.Item(background, id)
	must(t, err)
	want := post("one")
	want.ID, want.Time, want.Status, want.Decisions = id, got.Time, review.Pending, []review.Decision{}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the item: got\n%+v, want\n%+v", got, want)
	}
	served, err := q.Next(background, "ann", review.ByAge, "")
	must(t, err)
	if served.ID != id {
		t.Errorf("Next: got %s, want %s", served.ID, id)
	}
	decided, err := q.Decide(background, id, review.Decision{
		Reviewer: "ann", Action: review.Reject, Reason: "spam", Note: "third time",
		Categories: map[string]bool{"hate": false},
	})
	must(t, err)
	if decided.Status != review.Refused || len(decided.Decisions) != 1 || decided.Decisions[0].Reason != "spam" {
		t.Errorf("after a decision: got %+v, want rejected for spam", decided)
	}
	if got := list(t, q, review.Query{}); got != nil {
		t.Errorf("waiting: got %q, want none", got)
	}
	if got := list(t, q, review.Query{Status: review.Refused}); !slices.Equal(got, []string{"one"}) {
		t.Errorf("rejected: got %q, want the item", got)
	}
	_, err = q.Next(background, "ann", review.ByAge, "")
	wantErr(t, err, review.ErrEmpty)
	_, err = q.Decide(background, id, review.Decision{Reviewer: "bob", Action: review.Approve})
	wantErr(t, err, review.ErrTaken)
	events, _, err := q.Events(background, "", "", 10)
	must(t, err)
	if len(events) != 1 || events[0].Item != id || events[0].Status != review.Refused || events[0].Reason != "spam" {
		t.Errorf("events: got %+v, want one of the decision", events)
	}
	back := decide(t, q, id, "ann", review.Undo)
	if back.Status != review.Pending || !back.Decisions[0].Undone {
		t.Errorf("after undo: got %+v, want a waiting item", back)
	}
	_, err = q.Decide(background, id, review.Decision{Reviewer: "ann", Action: review.Undo})
	wantErr(t, err, review.ErrInvalid)
	if again, err := q.Next(background, "bob", review.ByAge, ""); err != nil || again.ID != id {
		t.Errorf("after undo Next: got %s, %v; want the item", again.ID, err)
	}
	stats, _, err := q.Stats(background)
	must(t, err)
	if stats.Items[review.Pending] != 1 || stats.Items[review.Refused] != 0 || stats.Oldest == nil {
		t.Errorf("Stats: got %+v, want one waiting item", stats)
	}
	n, err := q.Erase(background, review.Selection{ID: id})
	must(t, err)
	if n != 1 {
		t.Errorf("Erase: got %d, want 1", n)
	}
	_, err = q.Item(background, id)
	wantErr(t, err, review.ErrNotFound)
	_, err = q.Decide(background, id, review.Decision{Reviewer: "ann", Action: review.Approve})
	wantErr(t, err, review.ErrNotFound)
	_, err = q.Item(background, "../../etc")
	wantErr(t, err, review.ErrNotFound)
}

// TestRules guards against items and decisions that a store or a page cannot show.
func TestRules(t *testing.T) {
	t.Parallel()
	q := open(t, review.Options{})
	for name, change := range map[string]func(*review.Item){
		"no texts":       func(i *review.Item) { i.Texts = nil },
		"too many texts": func(i *review.Item) { i.Texts = make([]review.Text, review.MaxTexts+1) },
		"too long":       func(i *review.Item) { i.Texts[0].Text = strings.Repeat("x", review.MaxTextBytes) },
		"no cause":       func(i *review.Item) { i.Cause = "" },
		"no origin":      func(i *review.Item) { i.Origin = "elsewhere" },
	} {
		item := post("text")
		change(&item)
		if _, err := q.Add(background, item); !errors.Is(err, review.ErrInvalid) {
			t.Errorf("%s: got the error %v, want %v", name, err, review.ErrInvalid)
		}
	}
	id := add(t, q, post("text"))
	for name, d := range map[string]review.Decision{
		"no reviewer":    {Action: review.Approve},
		"no action":      {Reviewer: "ann"},
		"a long note":    {Reviewer: "ann", Action: review.Skip, Note: strings.Repeat("x", 2001)},
		"a long reason":  {Reviewer: "ann", Action: review.Skip, Reason: strings.Repeat("x", 201)},
		"nothing undone": {Reviewer: "ann", Action: review.Undo},
	} {
		if _, err := q.Decide(background, id, d); !errors.Is(err, review.ErrInvalid) {
			t.Errorf("%s: got the error %v, want %v", name, err, review.ErrInvalid)
		}
	}
	_, _, err := q.List(background, review.Query{Status: "odd"})
	wantErr(t, err, review.ErrInvalid)
	_, _, err = q.List(background, review.Query{Order: "odd"})
	wantErr(t, err, review.ErrInvalid)
	_, err = q.Next(background, "ann", "odd", "")
	wantErr(t, err, review.ErrInvalid)
	_, err = q.Erase(background, review.Selection{})
	wantErr(t, err, review.ErrInvalid)
}

// TestOrders lists waiting items by age, harm and doubt, in pages.
func TestOrders(t *testing.T) {
	t.Parallel()
	q := open(t, review.Options{})
	for i, p := range []float64{0.2, 0.9, 0.5, 1} {
		item := post(fmt.Sprint(i))
		item.Probabilities, item.Confidence = map[string]float64{"hate": p, "sexual": 0.1}, []float64{0.9, 0.8, 0.1, 1}[i]
		if i == 3 {
			item.Account = "other"
		}
		add(t, q, item)
	}
	for order, want := range map[review.Order]string{"": "0123", review.ByAge: "0123", review.ByHarm: "3120", review.ByDoubt: "2103"} {
		var got, cursor string
		for {
			items, next, err := q.List(background, review.Query{Order: order, After: cursor, Limit: 3})
			must(t, err)
			for _, i := range items {
				got += i.Texts[0].Text
			}
			if cursor = next; cursor == "" {
				break
			}
		}
		if got != want {
			t.Errorf("order %q: got %s, want %s", order, got, want)
		}
		item, err := q.Next(background, "ann", order, "acme")
		must(t, err)
		if first := strings.Trim(want, "3")[:1]; item.Texts[0].Text != first {
			t.Errorf("order %q: Next of acme: got %s, want %s", order, item.Texts[0].Text, first)
		}
		must(t, q.Release(background, "ann", item.ID))
	}
	if got := list(t, q, review.Query{Account: "other"}); !slices.Equal(got, []string{"3"}) {
		t.Errorf("items of an account: got %q, want its one", got)
	}
	// Decided ones have the latest decision first.
	items, _, err := q.List(background, review.Query{})
	must(t, err)
	for _, n := range []int{2, 0, 1} {
		decide(t, q, items[n].ID, "ann", review.Approve)
	}
	if got := list(t, q, review.Query{Status: review.Approved}); !slices.Equal(got, []string{"1", "0", "2"}) {
		t.Errorf("approved: got %q, want the latest decision first", got)
	}
}

// TestNobodyIsServedTheSame has reviewers work at the same time: each item is served to one of them.
func TestNobodyIsServedTheSame(t *testing.T) {
	t.Parallel()
	store := storagetest.NewMemory()
	const items, reviewers = 200, 8
	first := open(t, review.Options{Store: store})
	for i := range items {
		add(t, first, post(fmt.Sprint(i)))
	}
	var mu sync.Mutex
	servedTo := map[string]string{}
	var wg sync.WaitGroup
	for n := range reviewers {
		wg.Go(func() {
			// Each of them at a node of its own.
			q := open(t, review.Options{Store: store})
			reviewer := fmt.Sprint("reviewer ", n)
			for {
				item, err := q.Next(background, reviewer, review.ByHarm, "")
				if errors.Is(err, review.ErrEmpty) {
					return
				}
				if err != nil {
					t.Errorf("Next: got the error %v, want none", err)
					return
				}
				mu.Lock()
				if by, ok := servedTo[item.ID]; ok {
					t.Errorf("item %s was served to %s and to %s", item.ID, by, reviewer)
				}
				servedTo[item.ID] = reviewer
				mu.Unlock()
				d := review.Decision{Reviewer: reviewer, Action: review.Approve}
				if _, err := q.Decide(background, item.ID, d); err != nil {
					t.Errorf("Decide: got the error %v, want none", err)
					return
				}
			}
		})
	}
	wg.Wait()
	if len(servedTo) != items {
		t.Errorf("%d items were served, want %d", len(servedTo), items)
	}
	_, accounts, err := first.Stats(background)
	must(t, err)
	if stats := accounts["acme"]; stats.Items[review.Approved] != items || stats.Items[review.Pending] != 0 {
		t.Errorf("Stats: got %+v, want %d approved", stats, items)
	}
}

// shelf is a store that counts what it is asked, and fails changes from one on.
type shelf struct {
	documents.Store
	changes atomic.Int64
	fails   int64 // 0: none
}

func (s *shelf) ChangeDocuments(ctx context.Context, collection string, changes ...documents.Change) error {
	if n := s.changes.Add(1); s.fails > 0 && n >= s.fails {
		return errors.New("the store is gone")
	}
	return s.Store.ChangeDocuments(ctx, collection, changes...)
}

// reader is a store that counts the documents that are listed.
type reader struct {
	documents.Store
	listed atomic.Int64
}

func (r *reader) ListDocuments(
	ctx context.Context, collection string, in documents.Range,
) iter.Seq2[documents.Document, error] {
	return func(yield func(documents.Document, error) bool) {
		for d, err := range r.Store.ListDocuments(ctx, collection, in) {
			r.listed.Add(1)
			if !yield(d, err) {
				return
			}
		}
	}
}

// TestAccountsDoNotReadTheItemsOfOthers asks for the items of an account with few of them, or none, beside one with
// many. An app that polls must not make the store read everything.
func TestAccountsDoNotReadTheItemsOfOthers(t *testing.T) {
	t.Parallel()
	s := &reader{Store: storagetest.NewMemory()}
	q := open(t, review.Options{Store: s})
	var items []review.Item
	for i := range 300 {
		items = append(items, post(fmt.Sprint("text ", i)))
		items[i].Account = "large"
	}
	few := post("of the small account")
	few.Account = "small"
	// An account whose id begins like another's.
	other := post("of another account")
	other.Account = "small.er"
	_, err := q.AddAll(background, append(items, few, other))
	must(t, err)
	decided := 0
	for item, err := range q.All(background, "large") {
		must(t, err)
		if decided++; decided <= 100 {
			decide(t, q, item.ID, "ann", review.Approve)
		}
	}
	for account, want := range map[string]int{"small": 1, "small.er": 1, "none": 0} {
		s.listed.Store(0)
		for _, order := range review.Orders() {
			found, next, err := q.List(background, review.Query{Account: account, Order: order})
			must(t, err)
			if len(found) != want || next != "" || want > 0 && found[0].Account != account {
				t.Errorf("%s by %s: got %d items and the cursor %q, want %d", account, order, len(found), next, want)
			}
			item, err := q.Next(background, "ann", order, account)
			if want == 0 && !errors.Is(err, review.ErrEmpty) || want > 0 && (err != nil || item.Account != account) {
				t.Errorf("%s by %s: got the item %s of %q, %v", account, order, item.ID, item.Account, err)
			}
		}
		for _, status := range review.Statuses() {
			if status == review.Pending {
				continue
			}
			found, _, err := q.List(background, review.Query{Account: account, Status: status})
			must(t, err)
			for range q.Decided(background, status, account, time.Time{}) {
				t.Errorf("%s: there is an item that was decided", account)
			}
			if len(found) != 0 {
				t.Errorf("%s: got %d items that are %s", account, len(found), status)
			}
		}
		if n := s.listed.Load(); n > 10 {
			t.Errorf("%s: %d documents were read", account, n)
		}
	}
	for _, status := range []review.Status{review.Pending, review.Approved} {
		_, next, err := q.List(background, review.Query{Account: "large", Status: status, Limit: 60})
		must(t, err)
		found, _, err := q.List(background, review.Query{Account: "large", Status: status, Limit: 100, After: next})
		must(t, err)
		if want := map[review.Status]int{review.Pending: 100, review.Approved: 40}[status]; len(found) != want {
			t.Errorf("large, %s: the second page has %d items, want %d", status, len(found), want)
		}
	}
}

// worn is a store with damaged documents: those whose keys have one of the endings.
type worn struct {
	documents.Store
	endings []string
}

func (w *worn) damaged(key string) bool {
	return slices.ContainsFunc(w.endings, func(ending string) bool {
		return strings.HasSuffix(key, ending) && (strings.HasPrefix(key, "i/") || strings.HasPrefix(key, "e/"))
	})
}

func (w *worn) Documents(ctx context.Context, collection string, keys ...string) ([]documents.Document, error) {
	if slices.ContainsFunc(keys, w.damaged) {
		return nil, fmt.Errorf("document: %w", documents.ErrDamaged)
	}
	return w.Store.Documents(ctx, collection, keys...)
}

func (w *worn) ListDocuments(
	ctx context.Context, collection string, in documents.Range,
) iter.Seq2[documents.Document, error] {
	return func(yield func(documents.Document, error) bool) {
		for d, err := range w.Store.ListDocuments(ctx, collection, in) {
			if w.damaged(d.Key) {
				d, err = documents.Document{}, fmt.Errorf("document: %w", documents.ErrDamaged)
			}
			if !yield(d, err) {
				return
			}
		}
	}
}

// TestDamagedItemsAreNotInTheWay damages the first of three items that wait, of three that are decided, and of their
// events, in the store and in what the store returns. People must go on with the others, and be told of the damage.
func TestDamagedItemsAreNotInTheWay(t *testing.T) {
	t.Parallel()
	for name, store := range map[string]*worn{
		"found by the store": {Store: storagetest.NewMemory()},
		"found by the queue": {Store: storagetest.NewMemory()},
	} {
		q := open(t, review.Options{Store: store})
		var ids []string
		for i := range 6 {
			id, err := q.Add(background, post(fmt.Sprint("text ", i)))
			must(t, err)
			ids = append(ids, id)
		}
		for _, id := range ids[3:] {
			decide(t, q, id, "ann", review.Approve)
		}
		events, damaged, err := q.Events(background, "", "acme", 10)
		must(t, err)
		if len(events) != 3 || damaged != 0 {
			t.Fatalf("%s: got %d events and %d damaged ones before", name, len(events), damaged)
		}
		broken := []string{ids[0], ids[3], events[0].ID}
		if name == "found by the store" {
			store.endings = broken
		} else {
			must(t, store.ChangeDocuments(background, "review",
				documents.Change{Key: "i/" + broken[0], Value: []byte("\x00{")},
				documents.Change{Key: "i/" + broken[1], Value: []byte("\x00{")},
				documents.Change{Key: "e/" + broken[2], Value: []byte("\x00{")}))
		}
		for _, order := range review.Orders() {
			item, err := q.Next(background, "ann", order, "")
			if err != nil || item.ID != ids[1] && item.ID != ids[2] {
				t.Errorf("%s, next by %s: got %q, %v", name, order, item.ID, err)
			}
		}
		for _, status := range []review.Status{review.Pending, review.Approved} {
			items, _, err := q.List(background, review.Query{Status: status})
			if err != nil || len(items) != 2 {
				t.Errorf("%s, %s: got %d items, %v, want 2", name, status, len(items), err)
			}
		}
		whole, unreadable := 0, 0
		for _, err := range q.Decided(background, review.Approved, "", time.Time{}) {
			if errors.Is(err, review.ErrDamaged) {
				unreadable++
				continue
			}
			must(t, err)
			whole++
		}
		if whole != 2 || unreadable != 1 {
			t.Errorf("%s: got %d decided items and %d damaged ones, want 2 and 1", name, whole, unreadable)
		}
		events, damaged, err = q.Events(background, "", "acme", 10)
		if err != nil || len(events) != 2 || damaged != 1 {
			t.Errorf("%s: got %d events and %d damaged ones, %v, want 2 and 1", name, len(events), damaged, err)
		}
		if _, err := q.Item(background, ids[0]); !errors.Is(err, review.ErrDamaged) {
			t.Errorf("%s: the damaged item: got the error %v", name, err)
		}
	}
}

// TestAddAll keeps many items with few writes, and tells how many are kept when the store fails in between.
func TestAddAll(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		items, bytes int
		fails        int64
		kept, writes int64
	}{
		"none":              {0, 10, 0, 0, 2},
		"one":               {1, 10, 0, 1, 2},
		"many":              {256, 10, 0, 256, 12},
		"large ones":        {20, 60_000, 0, 20, 4},
		"a failing store":   {256, 10, 2, 0, 2},
		"a store that ends": {256, 10, 4, 50, 4},
	} {
		s := &shelf{Store: storagetest.NewMemory(), fails: test.fails}
		q := open(t, review.Options{Store: s})
		var items []review.Item
		for i := range test.items {
			items = append(items, post(fmt.Sprint(i, strings.Repeat("x", test.bytes))))
		}
		kept, err := q.AddAll(background, items)
		if int64(kept) != test.kept || (err != nil) != (test.fails > 0) {
			t.Errorf("%s: got %d and the error %v, want %d and an error: %t", name, kept, err, test.kept, test.fails > 0)
		}
		if n := s.changes.Load(); n > test.writes {
			t.Errorf("%s: got %d writes, want at most %d", name, n, test.writes)
		}
		s.fails = 0
		all, accounts, err := q.Stats(background)
		must(t, err)
		if int64(all.Items[review.Pending]) != test.kept || test.kept > 0 && accounts["acme"].Items[review.Pending] != kept {
			t.Errorf("%s: got the counts %+v and %+v, want %d", name, all, accounts, test.kept)
		}
		seen := map[string]bool{}
		for item, err := range q.All(background, "") {
			must(t, err)
			seen[item.Texts[0].Text] = true
		}
		for i := range kept {
			if !seen[items[i].Texts[0].Text] {
				t.Errorf("%s: item %d is not kept", name, i)
			}
		}
	}
	q := open(t, review.Options{})
	if kept, err := q.AddAll(background, []review.Item{post("a"), {}}); kept != 0 || !errors.Is(err, review.ErrInvalid) {
		t.Errorf("an item without texts: got %d, %v", kept, err)
	}
}

// TestKnown finds items with the same texts in the same account.
func TestKnown(t *testing.T) {
	t.Parallel()
	q := open(t, review.Options{})
	id := add(t, q, post("one"))
	other, nobody, renamed := post("one"), post("one"), post("one")
	other.Account, nobody.Account, renamed.Texts[0].Name = "other", "", "title"
	for name, test := range map[string]struct {
		item review.Item
		want bool
	}{
		"the same": {post("one"), true}, "another text": {post("two"), false}, "another account": {other, false},
		"no account": {nobody, false}, "another place": {renamed, true},
	} {
		if got, err := q.Known(background, &test.item); err != nil || got != test.want {
			t.Errorf("%s: got %t, %v, want %t", name, got, err, test.want)
		}
	}
	add(t, q, nobody)
	if got, err := q.Known(background, &nobody); err != nil || !got {
		t.Errorf("no account: got %t, %v, want it", got, err)
	}
	_, err := q.Erase(background, review.Selection{ID: id})
	must(t, err)
	again := post("one")
	if got, err := q.Known(background, &again); err != nil || got {
		t.Errorf("an erased one: got %t, %v, want none", got, err)
	}
}

// TestClaims guards against items that are lost with a reviewer who went away, and decided by two.
func TestClaims(t *testing.T) {
	t.Parallel()
	now := newClock()
	q := open(t, review.Options{Now: now.Now})
	id := add(t, q, post("one"))
	next := func(reviewer string) error {
		_, err := q.Next(background, reviewer, review.ByAge, "")
		return err
	}
	must(t, next("ann"))
	must(t, next("ann"))
	wantErr(t, next("bob"), review.ErrEmpty)
	_, err := q.Decide(background, id, review.Decision{Reviewer: "bob", Action: review.Approve})
	wantErr(t, err, review.ErrTaken)
	must(t, q.Release(background, "bob", id)) // bob does not have it
	wantErr(t, next("bob"), review.ErrEmpty)
	now.add(11 * time.Minute)
	must(t, next("bob"))
	wantErr(t, next("ann"), review.ErrEmpty)
	must(t, q.Release(background, "bob", id))
	must(t, next("ann"))
	// What ann skips is served to others, and not to ann again.
	decide(t, q, id, "ann", review.Skip)
	wantErr(t, next("ann"), review.ErrEmpty)
	must(t, next("bob"))
	decide(t, q, id, "ann", review.Undo)
	must(t, q.Release(background, "bob", id))
	must(t, next("ann"))
	// Escalated items are for everybody.
	if i := decide(t, q, id, "ann", review.Escalate); i.Status != review.Escalated {
		t.Errorf("got %s, want escalated", i.Status)
	}
	wantErr(t, next("bob"), review.ErrEmpty)
	if i := decide(t, q, id, "bob", review.Approve); i.Status != review.Approved {
		t.Errorf("got %s, want approved", i.Status)
	}
}

// TestTwice has two reviewers decide the same items.
func TestTwice(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		second review.Action
		want   review.Status
	}{
		"they agree": {review.Reject, review.Refused}, "they do not": {review.Approve, review.Escalated},
		"the second escalates": {review.Escalate, review.Escalated},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := open(t, review.Options{Twice: 1})
			id := add(t, q, post("one"))
			item, err := q.Next(background, "ann", review.ByAge, "")
			must(t, err)
			if !item.Twice {
				t.Fatal("the item is not for two")
			}
			if i := decide(t, q, id, "ann", review.Reject); i.Status != review.Pending {
				t.Errorf("after the first decision: got %s, want pending", i.Status)
			}
			_, err = q.Next(background, "ann", review.ByAge, "")
			wantErr(t, err, review.ErrEmpty)
			if i := decide(t, q, id, "ann", review.Reject); i.Status != review.Pending {
				t.Errorf("after the same reviewer's second decision: got %s, want pending", i.Status)
			}
			_, err = q.Next(background, "bob", review.ByAge, "")
			must(t, err)
			if i := decide(t, q, id, "bob", test.second); i.Status != test.want {
				t.Errorf("after the second decision: got %s, want %s", i.Status, test.want)
			}
			if i := decide(t, q, id, "bob", review.Undo); i.Status != review.Pending {
				t.Errorf("after undo: got %s, want pending", i.Status)
			}
		})
	}
}

// TestEncryption guards against text in the store, and against items that cannot be erased without their key.
func TestEncryption(t *testing.T) {
	t.Parallel()
	const text, note = "a very secret remark", "a note of the moderator"
	store := storagetest.NewMemory()
	key, err := review.ParseKey(strings.Repeat("0f", 32))
	must(t, err)
	q := open(t, review.Options{Store: store, Key: &key})
	author, err := q.HashAuthor(background, "carol@example.com")
	must(t, err)
	item := post(text)
	item.Author = author
	id := add(t, q, item)
	_, err = q.Decide(background, id, review.Decision{Reviewer: "ann", Action: review.Escalate, Note: note})
	must(t, err)
	for _, secret := range []string{text, "remark", note, "carol", "/comments", review.TextHash(item.Texts)} {
		if bytes.Contains(everything(t, store), []byte(secret)) {
			t.Errorf("the store holds %q, want it encrypted or hashed", secret)
		}
	}
	got, err := q.Item(background, id)
	must(t, err)
	if got.Texts[0].Text != text || got.Decisions[0].Note != note {
		t.Errorf("got %+v, want the texts back", got)
	}
	if again, err := open(t, review.Options{Store: store, Key: &key}).HashAuthor(background, "carol@example.com"); err != nil || again != author {
		t.Errorf("the hash of the same author: got %s, %v; want %s", again, err, author)
	}
	other, err := review.ParseKey("MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTI=")
	must(t, err)
	for name, key := range map[string]*review.Key{"no key": nil, "another key": &other} {
		q := open(t, review.Options{Store: store, Key: key})
		if _, err := q.Item(background, id); !errors.Is(err, review.ErrKey) {
			t.Errorf("%s: got the error %v, want %v", name, err, review.ErrKey)
		}
		if _, err := q.Add(background, item); !errors.Is(err, review.ErrKey) {
			t.Errorf("%s, adding: got the error %v, want %v", name, err, review.ErrKey)
		}
	}
	// Time erases what nobody can read any more.
	later := newClock()
	later.add(40 * 24 * time.Hour)
	if n, err := open(t, review.Options{Store: store, Now: later.Now}).Sweep(background); err != nil || n != 1 {
		t.Errorf("Sweep without the key: got %d, %v; want 1", n, err)
	}
	for _, bad := range []string{"", "short", strings.Repeat("0", 63), strings.Repeat("z", 64)} {
		if _, err := review.ParseKey(bad); !errors.Is(err, review.ErrInvalid) || bad != "" && strings.Contains(err.Error(), bad) {
			t.Errorf("ParseKey: got the error %v, want %v without the key", err, review.ErrInvalid)
		}
	}
}

// TestKeyIsAddedLater guards against items that cannot be read once there is a key.
func TestKeyIsAddedLater(t *testing.T) {
	t.Parallel()
	store := storagetest.NewMemory()
	before := open(t, review.Options{Store: store})
	id := add(t, before, post("one"))
	author, err := before.HashAuthor(background, "carol")
	must(t, err)
	key, err := review.ParseKey(strings.Repeat("0f", 32))
	must(t, err)
	q := open(t, review.Options{Store: store, Key: &key})
	if item, err := q.Item(background, id); err != nil || item.Texts[0].Text != "one" {
		t.Errorf("an item from before: got %+v, %v; want it", item, err)
	}
	if again, err := q.HashAuthor(background, "carol"); err != nil || again != author {
		t.Errorf("the hash of the same author: got %s, %v; want %s", again, err, author)
	}
	decide(t, q, id, "ann", review.Approve)
	if bytes.Contains(everything(t, store), []byte(`"text":"one"`)) {
		t.Error("an item that was written again is not encrypted")
	}
}

// TestErase erases by each condition, and leaves nothing behind.
func TestErase(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		selection func(ids []string, times []time.Time) review.Selection
		left      string
	}{
		"by id": {func(ids []string, _ []time.Time) review.Selection { return review.Selection{ID: ids[1]} }, "023"},
		"by text": {func([]string, []time.Time) review.Selection {
			return review.Selection{TextHash: strings.ToUpper(review.TextHash([]review.Text{{Text: "2"}}))}
		}, "013"},
		"by account": {func([]string, []time.Time) review.Selection { return review.Selection{Account: "other"} }, "012"},
		"by author":  {func([]string, []time.Time) review.Selection { return review.Selection{Author: "author_x"} }, "13"},
		"by time": {func(_ []string, times []time.Time) review.Selection {
			return review.Selection{Before: times[2]}
		}, "23"},
		"by author and time": {func(_ []string, times []time.Time) review.Selection {
			return review.Selection{Author: "author_x", Before: times[1]}
		}, "123"},
		"by author and account": {func([]string, []time.Time) review.Selection {
			return review.Selection{Author: "author_x", Account: "other"}
		}, "0123"},
		"everything": {func(_ []string, times []time.Time) review.Selection {
			return review.Selection{Before: times[3].Add(time.Hour)}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := storagetest.NewMemory()
			q := open(t, review.Options{Store: store})
			var ids []string
			var times []time.Time
			for n := range 4 {
				item := post(fmt.Sprint(n))
				if n%2 == 0 {
					item.Author = "author_x"
				}
				if n == 3 {
					item.Account = "other"
				}
				ids = append(ids, add(t, q, item))
				i, err := q.Item(background, ids[n])
				must(t, err)
				times = append(times, i.Time)
			}
			decide(t, q, ids[0], "ann", review.Approve)
			decide(t, q, ids[2], "ann", review.Skip)
			n, err := q.Erase(background, test.selection(ids, times))
			must(t, err)
			if n != 4-len(test.left) {
				t.Errorf("got %d erased, want %d", n, 4-len(test.left))
			}
			left := ""
			for i, err := range q.All(background, "") {
				must(t, err)
				left += i.Texts[0].Text
			}
			if left != test.left {
				t.Errorf("left: got %q, want %q", left, test.left)
			}
			for line := range strings.Lines(string(everything(t, store))) {
				// Marks of reviewers and events hold no text, and go with time.
				if strings.HasPrefix(line, "k/") || strings.HasPrefix(line, "e/") {
					continue
				}
				for i, id := range ids {
					if !strings.Contains(test.left, fmt.Sprint(i)) && strings.Contains(line, id) {
						t.Errorf("the store still holds something of item %d: %s", i, line)
					}
				}
			}
		})
	}
}

// TestSweep erases what is too old and what is too much.
func TestSweep(t *testing.T) {
	t.Parallel()
	now := newClock()
	store := storagetest.NewMemory()
	q := open(t, review.Options{Store: store, Now: now.Now, Keep: time.Hour, Max: 3})
	old := add(t, q, post("old"))
	decide(t, q, old, "ann", review.Approve)
	now.add(2 * time.Hour)
	var ids []string
	for n := range 5 {
		ids = append(ids, add(t, q, post(fmt.Sprint(n))))
	}
	decide(t, q, ids[3], "ann", review.Reject)
	n, err := q.Sweep(background)
	must(t, err)
	if n != 3 {
		t.Errorf("got %d erased, want the old one, the decided one and the oldest", n)
	}
	if got := list(t, q, review.Query{}); !slices.Equal(got, []string{"1", "2", "4"}) {
		t.Errorf("left: got %q, want 1, 2 and 4", got)
	}
	now.add(2 * time.Hour)
	if n, err := q.Sweep(background); err != nil || n != 3 {
		t.Errorf("got %d, %v erased, want 3", n, err)
	}
	if events, _, err := q.Events(background, "", "", 10); err != nil || len(events) != 0 {
		t.Errorf("events: got %v, %v; want none", events, err)
	}
	if all := everything(t, store); bytes.Count(all, []byte("\n")) != 1 {
		t.Errorf("left in the store: got %q, want the secret of the hashes alone", all)
	}
}

// TestAlikeAndAuthors finds what belongs together.
func TestAlikeAndAuthors(t *testing.T) {
	t.Parallel()
	q := open(t, review.Options{})
	var ids []string
	for _, text := range []string{"Buy now!!!", "buy NOW", "b u y   n o w", "buy later"} {
		ids = append(ids, add(t, q, post(text)))
	}
	first, err := q.Item(background, ids[0])
	must(t, err)
	alike, err := q.Alike(background, first)
	must(t, err)
	if len(alike) != 2 || alike[0].ID != ids[1] || alike[1].ID != ids[2] {
		t.Errorf("Alike: got %+v, want the second and the third", alike)
	}
	of, _, err := q.OfAuthor(background, "author_1", "acme", 3)
	must(t, err)
	if len(of) != 3 || of[0].ID != ids[3] || of[2].ID != ids[1] {
		t.Errorf("OfAuthor: got %+v, want the three newest, the latest first", of)
	}
	decide(t, q, ids[1], "ann", review.Reject)
	if alike, err := q.Alike(background, first); err != nil || len(alike) != 1 {
		t.Errorf("Alike after a decision: got %+v, %v; want one", alike, err)
	}
}

// TestEvents reads events page by page.
func TestEvents(t *testing.T) {
	t.Parallel()
	q := open(t, review.Options{})
	for n := range 5 {
		item := post(fmt.Sprint(n))
		if n == 4 {
			item.Account = "other"
		}
		decide(t, q, add(t, q, item), "ann", review.Approve)
	}
	got, cursor := 0, ""
	for {
		events, _, err := q.Events(background, cursor, "acme", 3)
		must(t, err)
		if len(events) == 0 {
			break
		}
		got, cursor = got+len(events), events[len(events)-1].ID
	}
	if got != 4 {
		t.Errorf("got %d events of acme, want 4", got)
	}
}

// TestClaim serves a certain item, and not one that somebody else has or that is decided.
func TestClaim(t *testing.T) {
	t.Parallel()
	q := open(t, review.Options{})
	id := add(t, q, post("one"))
	claim := func(reviewer string) error {
		_, err := q.Claim(background, reviewer, id)
		return err
	}
	must(t, claim("ann"))
	must(t, claim("ann"))
	wantErr(t, claim("bob"), review.ErrTaken)
	wantErr(t, claim(""), review.ErrInvalid)
	must(t, q.Release(background, "ann", id))
	must(t, claim("bob"))
	decide(t, q, id, "bob", review.Skip)
	wantErr(t, claim("bob"), review.ErrTaken)
	decide(t, q, id, "ann", review.Approve)
	wantErr(t, claim("ann"), review.ErrTaken)
	_, err := q.Claim(background, "ann", "rev_none")
	wantErr(t, err, review.ErrNotFound)
}

// TestOfAuthor guards against items of another account's author with the same name.
func TestOfAuthor(t *testing.T) {
	t.Parallel()
	q := open(t, review.Options{})
	for n := range 4 {
		item := post(fmt.Sprint(n))
		if n == 3 {
			item.Account = "other"
		}
		add(t, q, item)
	}
	items, total, err := q.OfAuthor(background, "author_1", "acme", 2)
	must(t, err)
	if total != 3 || len(items) != 2 || items[0].Texts[0].Text != "2" || items[1].Texts[0].Text != "1" {
		t.Errorf("got %d of %d items: %+v; want 2 and 1 of 3", len(items), total, items)
	}
	if items, total, err := q.OfAuthor(background, "", "acme", 2); err != nil || total != 0 || len(items) != 0 {
		t.Errorf("without an author: got %d of %d, %v; want none", len(items), total, err)
	}
}

// TestFit guards against a text that nobody reviews because it makes its item too large to be kept: characters that
// JSON escapes have up to six times their length there.
func TestFit(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"control characters": strings.Repeat("\x01", review.MaxTextBytes), "quotes": strings.Repeat(`"`, review.MaxTextBytes),
		"no UTF-8": strings.Repeat("\xff", review.MaxTextBytes), "line separators": strings.Repeat("\u2028", review.MaxTextBytes),
		"emoji": strings.Repeat("\U0001F600", review.MaxTextBytes), "plain": strings.Repeat("x", 2*review.MaxTextBytes),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := open(t, review.Options{})
			item := post(text)
			item.Texts[0].Name, item.Site, item.Path, item.Author = text, text, text, text
			for range review.MaxTexts + 5 {
				item.Texts = append(item.Texts, review.Text{Text: text})
			}
			item.Fit()
			if !item.Texts[0].Cut || len(item.Texts) != review.MaxTexts || item.LeftOut != 6 {
				t.Errorf("got %d texts, the first cut: %t, %d left out; want %d, true, 6", len(item.Texts), item.Texts[0].Cut,
					item.LeftOut, review.MaxTexts)
			}
			id := add(t, q, item)
			// And there is room for decisions.
			for range 5 {
				d := review.Decision{Reviewer: "ann", Action: review.Skip, Note: strings.Repeat("\x01", 2000)}
				if _, err := q.Decide(background, id, d); err != nil {
					t.Fatalf("Decide: got the error %v, want none", err)
				}
			}
		})
	}
	short := post("short")
	want := post("short")
	if short.Fit(); !reflect.DeepEqual(short, want) {
		t.Errorf("a short item: got %+v, want it as it was", short)
	}
}

// TestFitPassages guards against a post that is too large to be kept, or to be decided, because of what is marked in
// it.
func TestFitPassages(t *testing.T) {
	t.Parallel()
	q := open(t, review.Options{})
	item := post("")
	item.Texts = nil
	for n := range review.MaxTexts {
		text := review.Text{Name: fmt.Sprintf("/field%02d", n), Text: strings.Repeat("bad ", 256)}
		for i := range 100 {
			blocked := review.Passage{Category: review.BlockedPassage, Begin: 4 * i, End: 4*i + 3}
			text.Passages = append(text.Passages, blocked)
		}
		item.Texts = append(item.Texts, text)
	}
	item.Fit()
	if n := len(item.Texts[0].Passages); n != 100 {
		t.Errorf("got %d passages of the first text, want 100", n)
	}
	// What carries a category is added afterwards.
	for n := range item.Texts {
		for range 5 {
			item.Texts[n].Passages = append(item.Texts[n].Passages, review.Passage{Category: "harassment", End: 65536})
		}
	}
	id := add(t, q, item)
	for range 5 {
		d := review.Decision{Reviewer: "ann", Action: review.Skip, Note: strings.Repeat("x", 2000)}
		if _, err := q.Decide(background, id, d); err != nil {
			t.Fatalf("Decide: got the error %v, want none", err)
		}
	}
}

// TestNoRoomForADecision guards against a decision without end that is taken for a failure of the store.
func TestNoRoomForADecision(t *testing.T) {
	t.Parallel()
	q := open(t, review.Options{})
	id := add(t, q, post("one"))
	for range 200 {
		_, err := q.Decide(background, id, review.Decision{Reviewer: "ann", Action: review.Skip, Note: strings.Repeat("x", 2000)})
		if err != nil {
			wantErr(t, err, review.ErrInvalid)
			return
		}
	}
	t.Error("200 long notes were kept, want an error before")
}

// TestDecidedAreRead guards against decided items that are left out or shown twice, whatever their number, and against
// those of another account or an earlier time.
func TestDecidedAreRead(t *testing.T) {
	t.Parallel()
	c := newClock()
	q := open(t, review.Options{Now: c.Now})
	const many = 300 // more than are read at once
	want := map[string]bool{}
	var second time.Time
	for i := range many {
		if i == many/2 {
			c.add(time.Hour)
			second = c.Now()
		}
		item := post(fmt.Sprint("text ", i))
		if i%3 == 0 {
			item.Account = "other"
		}
		id := add(t, q, item)
		decide(t, q, id, "ann", review.Reject)
		c.add(time.Millisecond)
		if i >= many/2 && i%3 != 0 {
			want[id] = true
		}
	}
	erased := ""
	for id := range want {
		erased = id
		break
	}
	delete(want, erased)
	_, err := q.Erase(background, review.Selection{ID: erased})
	must(t, err)
	var last time.Time
	n := 0
	for item, err := range q.Decided(background, review.Refused, "acme", second) {
		must(t, err)
		at := item.Final().Time
		if !want[item.ID] || n > 0 && at.After(last) {
			t.Errorf("got %s of %s, which is not wanted or comes too late", item.ID, item.Account)
		}
		delete(want, item.ID)
		last, n = at, n+1
	}
	if len(want) > 0 {
		t.Errorf("%d items are left out", len(want))
	}
	for range q.Decided(background, review.Approved, "", time.Time{}) {
		t.Error("got an approved item, want none")
	}
}

// TestReseal guards against items that cannot be read after a change of the key, and against those that still need the
// former one after all were encrypted anew.
func TestReseal(t *testing.T) {
	t.Parallel()
	parse := func(c string) review.Key {
		key, err := review.ParseKey(strings.Repeat(c, 64))
		must(t, err)
		return key
	}
	first, second, third := parse("1"), parse("2"), parse("3")
	store := storagetest.NewMemory()
	with := func(key *review.Key, former ...review.Key) *review.Queue {
		return open(t, review.Options{Store: store, Key: key, FormerKeys: former})
	}
	var ids []string
	keep := func(q *review.Queue, text string) {
		t.Helper()
		id := add(t, q, post(text))
		ids = append(ids, id)
		decide(t, q, id, "ann", review.Approve)
	}
	author, err := with(nil).HashAuthor(background, "carol")
	must(t, err)
	keep(with(nil), "plain")
	keep(with(&first), "first")
	keep(with(&second, first), "second")
	readable := func(what string, q *review.Queue) {
		t.Helper()
		for i, id := range ids {
			if item, err := q.Item(background, id); err != nil || item.Texts[0].Text != []string{"plain", "first", "second"}[i] {
				t.Errorf("%s: item %d: got %+v, %v", what, i, item.Texts, err)
			}
		}
		if events, _, err := q.Events(background, "", "", 10); err != nil || len(events) != 3 {
			t.Errorf("%s: got %d events, %v", what, len(events), err)
		}
		if again, err := q.HashAuthor(background, "carol"); err != nil || again != author {
			t.Errorf("%s: the hash of the same author: got %s, %v; want %s", what, again, err, author)
		}
	}
	readable("former keys", with(&third, second, first))
	want := review.Resealed{Done: 4, Unreadable: 2}
	if done, err := with(&third, second).Reseal(background); err != nil || done != want {
		t.Errorf("without the first key: got %+v, %v", done, err)
	}
	if done, err := with(&third, second, first).Reseal(background); err != nil || done != (review.Resealed{Done: 2}) {
		t.Errorf("with it: got %+v, %v", done, err)
	}
	if done, err := with(&third, second, first).Reseal(background); err != nil || done != (review.Resealed{}) {
		t.Errorf("once more: got %+v, %v", done, err)
	}
	readable("the present key alone", with(&third))
	for d, err := range store.ListDocuments(background, "review", documents.Range{}) {
		must(t, err)
		if strings.Contains(string(d.Value), "plain") {
			t.Errorf("%s is not encrypted", d.Key)
		}
	}
	if n, err := with(&third).Erase(background, review.Selection{ID: ids[1]}); err != nil || n != 1 {
		t.Errorf("erasing: got %d, %v", n, err)
	}
}
