// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/documents"
	"github.com/caddy-moderation/caddy-moderation/storage"
)

// shelf is the collection of most tests of documents.
const shelf = "shelf"

func put(key, value string) documents.Change {
	return documents.Change{Key: key, Value: []byte(value)}
}

// pairs returns the keys and values of a range.
func pairs(t *testing.T, s storage.Store, collection string, r documents.Range) (all []string) {
	t.Helper()
	for _, d := range collect(t, s.ListDocuments(context.Background(), collection, r)) {
		if d.Revision == 0 {
			t.Errorf("document %s has no revision", d.Key)
		}
		all = append(all, d.Key+"="+string(d.Value))
	}
	return all
}

// one returns a document.
func one(t *testing.T, s storage.Store, key string) documents.Document {
	t.Helper()
	all, err := s.Documents(context.Background(), shelf, key)
	must(t, err)
	if len(all) != 1 || all[0].Key != key {
		t.Fatalf("Documents of one key: got %+v, want one", all)
	}
	return all[0]
}

// documentsAreKept guards against values that change, keys that run into each other, and collections that are mixed up.
func documentsAreKept(t *testing.T, open Open) {
	ctx := context.Background()
	s, reopen := open(t)
	binary := make([]byte, 256)
	for i := range binary {
		binary[i] = byte(i)
	}
	must(t, s.ChangeDocuments(ctx, shelf, put("b", "2"), put("a", ""), put("a/b", "3"), put("a!", "4"), put("~", "5"),
		documents.Change{Key: "binary", Value: binary}))
	must(t, s.ChangeDocuments(ctx, "shelf2", put("b", "other")))
	must(t, s.ChangeDocuments(ctx, shelf, put("gone", "6")))
	must(t, s.ChangeDocuments(ctx, shelf, documents.Change{Key: "gone", Delete: true},
		documents.Change{Key: "never", Delete: true}))
	for range 2 {
		want := []string{"a=", "a!=4", "a/b=3", "b=2", "binary=" + string(binary), "~=5"}
		if got := pairs(t, s, shelf, documents.Range{}); !reflect.DeepEqual(got, want) {
			t.Errorf("all documents: got %q, want %q", got, want)
		}
		if got := pairs(t, s, "shelf2", documents.Range{}); !reflect.DeepEqual(got, []string{"b=other"}) {
			t.Errorf("another collection: got %q, want its one document", got)
		}
		if got := pairs(t, s, "none", documents.Range{}); got != nil {
			t.Errorf("a collection without documents: got %q, want none", got)
		}
		for r, want := range map[documents.Range][]string{
			documents.Prefix("a"):            {"a=", "a!=4", "a/b=3"},
			documents.Prefix("a/"):           {"a/b=3"},
			documents.Prefix("x"):            nil,
			{From: "a!", To: "b"}:            {"a!=4", "a/b=3"},
			{From: "b\x00", To: "binary"}:    nil,
			{From: "bi"}:                     {"binary=" + string(binary), "~=5"},
			{To: "a"}:                        nil,
			{To: "a!"}:                       {"a="},
			{From: "z", To: "a"}:             nil,
			{From: strings.Repeat("~", 300)}: nil,
		} {
			if got := pairs(t, s, shelf, r); !reflect.DeepEqual(got, want) {
				t.Errorf("range %q to %q: got %q, want %q", r.From, r.To, got, want)
			}
		}
		got, err := s.Documents(ctx, shelf, "b", "gone", "a", "b")
		must(t, err)
		if len(got) != 4 || string(got[0].Value) != "2" || got[1].Revision != 0 || got[1].Key != "gone" ||
			len(got[1].Value) != 0 || got[2].Revision == 0 || !reflect.DeepEqual(got[3], got[0]) {
			t.Errorf("documents by their keys: got %+v, want b, nothing, a and b", got)
		}
		s = reopened(s, reopen)
	}
	if got, err := s.Documents(ctx, shelf); err != nil || len(got) != 0 {
		t.Errorf("documents of no keys: got %v, %v; want none", got, err)
	}
	must(t, s.ChangeDocuments(ctx, shelf))
}

// documentConditions guards against a change that overwrites what somebody else has changed.
func documentConditions(t *testing.T, open Open) {
	ctx := context.Background()
	s, reopen := open(t)
	must(t, s.ChangeDocuments(ctx, shelf, put("a", "1"), put("b", "1")))
	a, b := one(t, s, "a"), one(t, s, "b")
	change := func(key, value string, c documents.Condition) documents.Change {
		return documents.Change{Key: key, Value: []byte(value), If: c}
	}
	must(t, s.ChangeDocuments(ctx, shelf, put("b", "1")))
	if again := one(t, s, "b"); again.Revision == b.Revision {
		t.Error("a document that was written again with the same value has the same revision")
	}
	for name, changes := range map[string][]documents.Change{
		"absent, but there":            {change("a", "x", documents.Absent())},
		"unchanged, but changed":       {change("b", "x", b.Unchanged())},
		"unchanged, but never there":   {change("c", "x", a.Unchanged())},
		"one of two":                   {change("a", "x", a.Unchanged()), change("b", "x", b.Unchanged())},
		"the first of two":             {change("b", "x", b.Unchanged()), change("a", "x", a.Unchanged())},
		"a deletion of a changed one":  {{Key: "b", Delete: true, If: b.Unchanged()}, {Key: "a", Delete: true}},
		"a deletion of an absent one":  {{Key: "c", Delete: true, If: a.Unchanged()}},
		"another one that is not read": {put("new", "x"), change("b", "x", documents.Absent())},
	} {
		if err := s.ChangeDocuments(ctx, shelf, changes...); !errors.Is(err, documents.ErrConflict) {
			t.Errorf("%s: got the error %v, want %v", name, err, documents.ErrConflict)
		}
	}
	if got := pairs(t, s, shelf, documents.Range{}); !reflect.DeepEqual(got, []string{"a=1", "b=1"}) {
		t.Errorf("after refused changes: got %q, want a and b as they were", got)
	}
	s = reopened(s, reopen)
	if after := one(t, s, "a"); after.Revision != a.Revision {
		t.Error("the revision of a document is another one after reopening")
	}
	must(t, s.ChangeDocuments(ctx, shelf, change("a", "2", a.Unchanged()), change("c", "2", documents.Absent()),
		documents.Change{Key: "b", Delete: true, If: one(t, s, "b").Unchanged()}))
	if got := pairs(t, s, shelf, documents.Range{}); !reflect.DeepEqual(got, []string{"a=2", "c=2"}) {
		t.Errorf("after changes: got %q, want a and c", got)
	}
	// A document that was deleted and made again is another one.
	first := one(t, s, "c")
	must(t, s.ChangeDocuments(ctx, shelf, documents.Change{Key: "c", Delete: true}))
	must(t, s.ChangeDocuments(ctx, shelf, put("c", "2")))
	wantErr(t, s.ChangeDocuments(ctx, shelf, change("c", "x", first.Unchanged())), documents.ErrConflict)
}

// documentRules guards against documents that a store cannot give back.
func documentRules(t *testing.T, open Open) {
	ctx := context.Background()
	s := opened(t, open)
	many := make([]documents.Change, documents.MaxChanges+1)
	for i := range many {
		many[i] = put("k"+strconv.Itoa(i), "")
	}
	large := make([]documents.Change, 5)
	for i := range large {
		large[i] = documents.Change{Key: "k" + strconv.Itoa(i), Value: make([]byte, documents.MaxValue)}
	}
	for name, changes := range map[string][]documents.Change{
		"no key": {put("", "")}, "a space": {put("a b", "")}, "a zero": {put("a\x00", "")}, "not ASCII": {put("ä", "")},
		"a long key":   {put(strings.Repeat("k", documents.MaxKey+1), "")},
		"a long value": {{Key: "a", Value: make([]byte, documents.MaxValue+1)}},
		"twice":        {put("a", "1"), put("a", "2")}, "too many": many, "too much": large,
	} {
		if err := s.ChangeDocuments(ctx, shelf, changes...); !errors.Is(err, documents.ErrInvalid) {
			t.Errorf("%s: got the error %v, want %v", name, err, documents.ErrInvalid)
		}
	}
	for _, collection := range []string{"", "A", "a b", "{a}", strings.Repeat("c", 33)} {
		wantErr(t, s.ChangeDocuments(ctx, collection, put("a", "")), documents.ErrInvalid)
		_, err := s.Documents(ctx, collection, "a")
		wantErr(t, err, documents.ErrInvalid)
		for _, err := range s.ListDocuments(ctx, collection, documents.Range{}) {
			wantErr(t, err, documents.ErrInvalid)
		}
	}
	if got := pairs(t, s, shelf, documents.Range{}); got != nil {
		t.Errorf("after refused changes: got %q, want nothing", got)
	}
	// The largest that the rules allow.
	must(t, s.ChangeDocuments(ctx, shelf, many[:documents.MaxChanges]...))
	value := bytes.Repeat([]byte{0xff}, documents.MaxValue)
	must(t, s.ChangeDocuments(ctx, shelf, documents.Change{Key: strings.Repeat("~", documents.MaxKey), Value: value}))
	if got := one(t, s, strings.Repeat("~", documents.MaxKey)); !bytes.Equal(got.Value, value) {
		t.Errorf("the largest value: got %d bytes, want the %d that were written", len(got.Value), len(value))
	}
	if got := pairs(t, s, shelf, documents.Range{}); len(got) != documents.MaxChanges+1 {
		t.Errorf("got %d documents, want %d", len(got), documents.MaxChanges+1)
	}
}

// documentsUnderLoad guards against lost updates: of concurrent changes of one document with a condition one is made.
func documentsUnderLoad(t *testing.T, open Open) {
	ctx := context.Background()
	s := opened(t, open)
	const workers, each = 8, 20
	var wg sync.WaitGroup
	for worker := range workers {
		wg.Go(func() {
			for n := 0; n < each; {
				found, err := s.Documents(ctx, shelf, "count", "sum")
				if err != nil {
					t.Errorf("Documents: got the error %v, want none", err)
					return
				}
				count, _ := strconv.Atoi(string(found[0].Value))
				sum, _ := strconv.Atoi(string(found[1].Value))
				err = s.ChangeDocuments(ctx, shelf,
					documents.Change{Key: "count", Value: []byte(strconv.Itoa(count + 1)), If: found[0].Unchanged()},
					documents.Change{Key: "sum", Value: []byte(strconv.Itoa(sum + 2)), If: found[1].Unchanged()},
					put(fmt.Sprintf("entry/%d/%d", worker, n), ""))
				switch {
				case errors.Is(err, documents.ErrConflict):
				case err != nil:
					t.Errorf("ChangeDocuments: got the error %v, want none", err)
					return
				default:
					n++
				}
			}
		})
	}
	wg.Wait()
	if a, b := string(one(t, s, "count").Value), string(one(t, s, "sum").Value); a != "160" || b != "320" {
		t.Errorf("got a count of %s and a sum of %s, want 160 and 320", a, b)
	}
	if n := len(pairs(t, s, shelf, documents.Prefix("entry/"))); n != workers*each {
		t.Errorf("got %d entries, want %d", n, workers*each)
	}
}

// manyDocuments reads more than a store reads at once, and changes what it is given meanwhile.
func manyDocuments(t *testing.T, open Open) {
	ctx := context.Background()
	s, reopen := open(t)
	const n = 3000
	var want []string
	for i := range n {
		want = append(want, fmt.Sprintf("k%05d", (i*7919)%n))
	}
	for part := range slices.Chunk(want, documents.MaxChanges) {
		changes := make([]documents.Change, len(part))
		for i, key := range part {
			changes[i] = put(key, strings.Repeat("v", 100))
		}
		must(t, s.ChangeDocuments(ctx, shelf, changes...))
	}
	slices.Sort(want)
	s = reopened(s, reopen)
	var got []string
	for d, err := range s.ListDocuments(ctx, shelf, documents.Range{}) {
		must(t, err)
		got = append(got, d.Key)
		if len(got)%100 == 0 {
			must(t, s.ChangeDocuments(ctx, shelf, documents.Change{Key: d.Key, Delete: true}))
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %d documents in another order, want %d in the order of their keys", len(got), len(want))
	}
	if left := len(pairs(t, s, shelf, documents.Range{})); left != n-n/100 {
		t.Errorf("after deletions: got %d documents, want %d", left, n-n/100)
	}
}
