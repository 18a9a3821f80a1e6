// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package offheap_test

import (
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"github.com/caddy-moderation/caddy-moderation/engine/internal/offheap"
)

// Hazard: tables overlap, lose elements, or begin where a processor loads them slowly.
func TestMove(t *testing.T) {
	type row struct {
		a uint64
		b [3]byte
	}
	wide, odd, empty, one := make([]uint64, 1000), make([][12]byte, 333), []int32{}, []row{{7, [3]byte{1, 2, 3}}}
	for i := range wide {
		wide[i] = uint64(i) * 0x0101010101010101
	}
	for i := range odd {
		odd[i] = [12]byte{byte(i), 11: byte(i >> 3)}
	}
	var a offheap.Arena
	var gotWide []uint64
	var gotOdd [][12]byte
	var gotEmpty []int32
	var gotOne []row
	move := func() {
		gotOdd, gotWide = offheap.Move(&a, odd), offheap.Move(&a, wide)
		gotEmpty, gotOne = offheap.Move(&a, empty), offheap.Move(&a, one)
	}
	move()
	if &gotWide[0] != &wide[0] || &gotOdd[0] != &odd[0] {
		t.Error("tables were moved before there was memory")
	}
	a.Reserve()
	move()
	runtime.GC()
	if !slices.Equal(gotWide, wide) || !slices.Equal(gotOdd, odd) || !slices.Equal(gotOne, one) ||
		gotEmpty == nil || len(gotEmpty) != 0 {
		t.Errorf("got %v, %v, %v, %v, want the tables that were moved", gotWide, gotOdd, gotOne, gotEmpty)
	}
	if at := uintptr(unsafe.Pointer(&gotWide[0])); at%64 != 0 {
		t.Errorf("a table begins at %#x, want a multiple of 64", at)
	}
	if another := offheap.Move(&a, wide); &another[0] != &wide[0] {
		t.Error("a table was moved for which there was no memory")
	}
	clear(gotOdd)
	clear(gotWide)
	if wide[999] == 0 || odd[331][0] == 0 || gotOne[0] != one[0] {
		t.Error("tables share memory")
	}
}
