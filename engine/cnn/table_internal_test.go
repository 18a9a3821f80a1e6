// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package cnn

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// Hazard: a packed embedding differs from the one that was packed, so that a model gives other probabilities.
func TestPackedIsAsWide(t *testing.T) {
	t.Parallel()
	const rows = 64
	for _, largest := range []int{1, maxPacked, maxPacked + 1, 127} {
		t.Run(fmt.Sprint(largest), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(1, uint64(largest)))
			raw := make([]byte, rows*Channels)
			for i := range raw {
				raw[i] = byte(int8(r.IntN(2*largest+1) - largest))
			}
			raw[5] = byte(int8(-largest))
			var scale [Channels]float32
			for c := range scale {
				scale[c] = r.Float32()
			}
			words, subwords := table{hashes: make([]uint32, rows)}, makeSubwordRows(raw)
			words.setVectors(raw)
			if packed := words.packed != nil && subwords.packed != nil; packed != (largest <= maxPacked) {
				t.Fatalf("packed: got %v, want %v", packed, !packed)
			}
			for row := range rows {
				want := raw[row*Channels : (row+1)*Channels]
				if got := words.appendVector(nil, row); !bytes.Equal(got, want) {
					t.Errorf("row %d: got %v, want %v", row, got, want)
				}
				var got [Channels]float32
				words.embed(&got, uint32(row), &scale)
				for c, b := range want {
					if want := float32(int8(b)) * scale[c]; got[c] != want {
						t.Errorf("row %d, channel %d: got %v, want %v", row, c, got[c], want)
					}
				}
			}
			if got := subwords.appendAll(nil); !bytes.Equal(got, raw) || subwords.count() != rows {
				t.Errorf("sub-words: got %d rows %v, want %d rows %v", subwords.count(), got, rows, raw)
			}
			var got, want [Channels]int32
			var some []uint16
			for range 200 {
				row := r.IntN(rows)
				some = append(some, uint16(row))
				for c := range want {
					want[c] += int32(int8(raw[row*Channels+c]))
				}
			}
			if subwords.add(&got, some); got != want {
				t.Errorf("sums: got %v, want %v", got, want)
			}
		})
	}
}

// Hazard: a word at the edge of a run of hashes is not found, or one that the table lacks is.
func TestRow(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(2, 2))
	for _, n := range []int{0, 1, 3, 4, 1000} {
		var words table
		for range n {
			words.hashes = append(words.hashes, r.Uint32())
		}
		if n > 1 {
			words.hashes[0], words.hashes[1] = 0, 1<<32-1
		}
		slices.Sort(words.hashes)
		words.hashes = slices.Compact(words.hashes)
		words.makeStarts()
		for i, h := range words.hashes {
			if got := words.row(h); got != uint32(i) {
				t.Errorf("%d words: %#x is in row %d, want %d", n, h, got, i)
			}
			if _, there := slices.BinarySearch(words.hashes, h+1); !there && words.row(h+1) != unknown {
				t.Errorf("%d words: %#x is in row %d, want none", n, h+1, words.row(h+1))
			}
		}
		if n == 0 && words.row(7) != unknown {
			t.Error("a table without words knows one")
		}
	}
}
