// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func random(r *rand.Rand, n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(r.NormFloat64())
	}
	return out
}

// Hazard: a processor with other instructions gives other probabilities for the same text.
func TestSameBitsAsPlainGo(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for _, columns := range []int{32, 64, 96} {
		for _, rows := range []int{0, 1, 2, 7, 96} {
			x, w, d := random(r, rows), random(r, rows*columns), random(r, columns)
			got, want := slices.Clone(d), slices.Clone(d)
			MulAdd(got, x, w)
			for c := 0; c < columns && rows > 0; c += Block {
				mulAddGo(want[c:], x, w[c:], columns)
			}
			if !slices.Equal(got, want) {
				t.Errorf("MulAdd of %d rows and %d columns: got %v, want %v as in plain Go", rows, columns, got, want)
			}
			got, want = slices.Clone(w), slices.Clone(w)
			Outer(got, x, d)
			for c := 0; c < columns && rows > 0; c += Block {
				outerGo(want[c:], x, d[c:], columns)
			}
			if !slices.Equal(got, want) {
				t.Errorf("Outer of %d rows and %d columns: got %v, want %v as in plain Go", rows, columns, got, want)
			}
		}
	}
}

// Hazard: many rows at once give other results than each by itself, or a row writes into the next.
func TestManyRowsAreAsEachByItself(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	for _, columns := range []int{32, 64} {
		for rows := range 6 {
			for _, n := range []int{0, 1, 2, 33} {
				x, w, d := random(r, rows*n), random(r, n*columns), random(r, rows*columns)
				got, want := slices.Clone(d), slices.Clone(d)
				MulAddRows(got, x, w, rows)
				for i := range rows {
					for c := 0; c < columns && n > 0; c += Block {
						mulAddGo(want[i*columns+c:], x[i*n:(i+1)*n], w[c:], columns)
					}
				}
				if !slices.Equal(got, want) {
					t.Errorf("%d rows of %d by %d columns: got %v, want %v as each by itself", rows, n, columns, got, want)
				}
			}
		}
	}
}

// Hazard: a wrong row is added, or negative bytes are taken for positive ones.
func TestAddRows(t *testing.T) {
	t.Parallel()
	table := make([]int8, 5*Block)
	for i := range table {
		table[i] = int8(i*89 - 128)
	}
	for _, rows := range [][]uint16{nil, {0}, {4}, {3, 3, 1}, {4, 0, 2, 1, 4}} {
		var got [Block]int32
		got[3] = 1 << 20
		want := got
		AddRows(&got, table, rows)
		for _, row := range rows {
			for c := range want {
				want[c] += int32(table[int(row)*Block+c])
			}
		}
		plain := [Block]int32{3: 1 << 20}
		addRowsGo(&plain, table, rows)
		if got != want || plain != want {
			t.Errorf("rows %d: got %v, in plain Go %v, want %v", rows, got, plain, want)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a row beyond the table does not panic, want a panic")
		}
	}()
	AddRows(new([Block]int32), table, []uint16{1, 5})
}

// Hazard: a hash leads to the wrong row, bytes are summed in the wrong lane, or the largest sums overflow.
func TestAddHashed(t *testing.T) {
	t.Parallel()
	const bits = 5
	r := rand.New(rand.NewPCG(11, 12))
	table := make([]uint64, Wide/8<<bits)
	for i := range table {
		table[i] = r.Uint64()
	}
	table[3] = math.MaxUint64
	hashes := make([]uint64, 600)
	for i := range hashes {
		hashes[i] = r.Uint64()
	}
	largest := make([]uint64, 256) // all of them lead to the first row
	for _, hashes := range [][]uint64{nil, {0}, {math.MaxUint64}, hashes[:7], hashes[:256], largest} {
		var got, plain, want [Wide]uint16
		AddHashed(&got, table, hashes, 64-bits)
		addHashedGo(&plain, table, hashes, 64-bits)
		for _, h := range hashes {
			for lane := range want {
				word := table[int(h>>(64-bits))*Wide/8+lane/8]
				want[lane] += uint16(byte(word >> (8 * (lane % 8))))
			}
		}
		if got != want || plain != want {
			t.Errorf("%d hashes: got %v, in plain Go %v, want %v", len(hashes), got, plain, want)
		}
	}
	for name, call := range map[string]func(){
		"too many hashes": func() { AddHashed(new([Wide]uint16), table, hashes, 64-bits) },
		"a smaller table": func() { AddHashed(new([Wide]uint16), table[Wide/8:], hashes[:1], 64-bits) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic, want one", name)
				}
			}()
			call()
		}()
	}
}

// Hazard: a maximum comes from the wrong channel, or another processor takes 0 for larger than -0.
func TestMaxRows(t *testing.T) {
	t.Parallel()
	rows := random(rand.New(rand.NewPCG(9, 10)), 5*Block)
	rows[0], rows[1], rows[Block+2] = float32(math.Copysign(0, -1)), 0, 1e30
	var got, plain, want [Block]float32
	got[1] = float32(math.Copysign(0, -1))
	plain, want = got, got
	for i, v := range rows {
		if v > want[i%Block] {
			want[i%Block] = v
		}
	}
	MaxRows(&got, rows)
	maxRowsGo(&plain, rows)
	for c := range want {
		bits := math.Float32bits(want[c])
		if math.Float32bits(got[c]) != bits || math.Float32bits(plain[c]) != bits {
			t.Errorf("channel %d: got %v, in plain Go %v, want %v", c, got[c], plain[c], want[c])
		}
	}
}

// Hazard: a row counts for the wrong token or in the wrong lane, or the sums of many rows overflow.
func TestPrefixSums(t *testing.T) {
	t.Parallel()
	const rows = 300
	r := rand.New(rand.NewPCG(7, 8))
	table := make([]uint64, 2*rows)
	for i := range table {
		table[i] = r.Uint64()
	}
	table[0], table[1] = math.MaxUint64, 0
	counts := []int{0, 1, maxTokenRows, 7, 0, 0, 20, 3}
	own := make([][Lanes]int16, len(counts)+1)
	var found []uint32
	var ends []int32
	want := []Sums{{5: 1 << 20}}
	for k, n := range counts {
		sums := want[k]
		for c := range sums {
			own[k][c] = int16(r.Uint32())
			sums[c] += int32(own[k][c])
		}
		for range n {
			at := uint32(2 * r.IntN(rows))
			if n == maxTokenRows {
				at = 0 // the largest sums that there are
			}
			found = append(found, at)
			for c := range sums {
				sums[c] += int32(uint8(table[int(at)+c/8]>>(c%8*8))) - 128
			}
		}
		want, ends = append(want, sums), append(ends, int32(len(found)))
	}
	got, plain := make([]Sums, len(want)), make([]Sums, len(want))
	got[0], plain[0] = want[0], want[0]
	PrefixSums(got, own, table, found, ends)
	prefixSumsGo(plain, own, table, found, ends)
	if !slices.Equal(got, want) || !slices.Equal(plain, want) {
		t.Errorf("got %v, in plain Go %v, want %v", got, plain, want)
	}
	PrefixSums(got[:1], nil, nil, nil, nil) // a text without tokens
	defer func() {
		if recover() == nil {
			t.Error("more rows than the sums have room for do not panic, want a panic")
		}
	}()
	PrefixSums(make([]Sums, 2), own, table, make([]uint32, maxTokenRows+1), []int32{maxTokenRows + 1})
}

// Hazard: a processor with other instructions gives other values for gates, very large ones among them.
func TestGateSameBitsAsPlainGo(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	in, value, gate := random(r, 64), random(r, 64), random(r, 64)
	gate[0], gate[1], gate[2], gate[3] = 0, 1e30, -1e30, float32(math.Copysign(0, -1))
	got, want := make([]float32, 64), make([]float32, 64)
	Gate(got, in, value, gate)
	gatedGo(want, in, value, gate)
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got[0] != in[0]+value[0]/2 || got[1] != in[1]+value[1] || got[2] != in[2] {
		t.Errorf("gates of 0, 1e30 and -1e30 let through %v, %v, %v of %v, %v, %v; want a half, all and nothing",
			got[0]-in[0], got[1]-in[1], got[2]-in[2], value[0], value[1], value[2])
	}
}

// Hazard: the loops multiply the wrong elements. The expected product, of the row (1, 2) with a row of ones and a row
// of threes, is worked out by hand.
func TestMulAddByHand(t *testing.T) {
	t.Parallel()
	w := make([]float32, 2*Block)
	for c := range Block {
		w[c], w[Block+c] = 1, 3
	}
	dst := make([]float32, Block)
	dst[5] = 10
	MulAdd(dst, []float32{1, 2}, w)
	for c, v := range dst {
		want := float32(7)
		if c == 5 {
			want = 17
		}
		if v != want {
			t.Errorf("column %d is %v, want %v", c, v, want)
		}
	}
}

// Hazard: with sizes that do not fit, the assembly reads or writes other memory.
func TestSizesAreChecked(t *testing.T) {
	t.Parallel()
	for _, s := range [][3]int{{31, 1, 31}, {32, 2, 63}, {32, 2, 96}} {
		t.Run(fmt.Sprint(s), func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Errorf("sizes %v do not panic, want a panic", s)
				}
			}()
			MulAdd(make([]float32, s[0]), make([]float32, s[1]), make([]float32, s[2]))
		})
	}
}

func BenchmarkMulAdd(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	dst, x, w := random(r, 64), random(r, 96), random(r, 64*96)
	for b.Loop() {
		MulAdd(dst, x, w)
	}
	b.ReportMetric(float64(b.N)*64*96/b.Elapsed().Seconds()/1e9, "GMAC/s")
}

func BenchmarkMulAddRows(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	const rows, n, columns = 54, 32, 64
	dst, x, w := random(r, rows*columns), random(r, rows*n), random(r, n*columns)
	for b.Loop() {
		MulAddRows(dst, x, w, rows)
	}
	b.ReportMetric(float64(b.N)*rows*n*columns/b.Elapsed().Seconds()/1e9, "GMAC/s")
}

func BenchmarkOuter(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	d, x, w := random(r, 64), random(r, 96), random(r, 64*96)
	for b.Loop() {
		Outer(w, x, d)
	}
	b.ReportMetric(float64(b.N)*64*96/b.Elapsed().Seconds()/1e9, "GMAC/s")
}
