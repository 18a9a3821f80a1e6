// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"math"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/engine/text"
)

// Hazard: words get the cluster of another word, or none.
func TestClustersAreThoseOfTheMap(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 5, 3000} {
		want := make(map[uint64]uint16)
		for i := range n {
			want[WordHash(fmt.Append(nil, i))] = uint16(i)
		}
		if n > 1 {
			want[0], want[math.MaxUint64] = 60000, 60001
		}
		c := NewClusters(want)
		for h, number := range want {
			if got, ok := c.find(h); !ok || got != number || c.filter.lacks(h) {
				t.Errorf("%d words: %#x has the cluster %d, %v, want %d", n, h, got, ok, number)
			}
			if got, ok := c.find(text.Mix(h, 1)); ok {
				t.Errorf("%d words: an unknown word has the cluster %d", n, got)
			}
		}
		if again, rest := unmarshalClusters(marshalClusters(want)); len(rest) != 0 || rest == nil ||
			len(again.hashes) != len(want) {
			t.Errorf("%d words: got %d again, and %d bytes", n, len(again.hashes), len(rest))
		}
	}
	var none Clusters
	if _, ok := none.find(7); ok {
		t.Error("the zero value has a cluster")
	}
}

// Hazard: rows of one bucket are taken for those of another, since empty slots have none.
func TestTableFindsItsRows(t *testing.T) {
	t.Parallel()
	for _, buckets := range []int{1, 4, 64} {
		b := newTableBuilder(buckets)
		want := make(map[uint64]int8)
		for i := range 3 * buckets {
			h := text.Mix(uint64(i), 99)
			if find(b.tags[h&uint64(buckets-1)], h) < 0 && filledSlots(b.tags[h&uint64(buckets-1)]) < slots {
				want[h] = int8(i)
			}
			b.insert(h, [Heads]int8{int8(i), Heads - 1: -1})
		}
		body := b.marshal()
		table, ok := unmarshalTable(body, buckets)
		if !ok || len(table.rows) != 2*len(want) {
			t.Fatalf("%d buckets: got %v and %d rows, want %d", buckets, ok, len(table.rows)/2, len(want))
		}
		for h, weight := range want {
			at := table.lookup(nil, []uint64{h}, []int32{1})
			if len(at) != 1 || byte(table.rows[at[0]]) != byte(weight)^zeroWeight {
				t.Errorf("%d buckets: %#x is at %v, want a row with %d", buckets, h, at, weight)
			}
		}
		if _, ok := unmarshalTable(body[:len(body)-1], buckets); ok {
			t.Errorf("%d buckets: a table that is cut short was taken", buckets)
		}
	}
	gap := make([]byte, 8+Heads)
	gap[3] = 0x80 // the second slot is filled, the first is not
	if _, ok := unmarshalTable(gap, 1); ok {
		t.Error("a table with an empty slot before a filled one was taken")
	}
}
