// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
)

// The vectors are the leading eigenvectors of the matrix of positive pointwise mutual information between words that
// occur together: counts, a logarithm and linear algebra, so that the same text always gives the same vectors. (Levy,
// Goldberg and Dagan 2015, "Improving distributional similarity with lessons learned from word embeddings", is the
// source of the smoothing, of the root of the eigenvalues and of the observation that this is on a par with skip-gram.)
const (
	window    = 6    // words on each side that count as together, stop words not counted
	smoothing = 0.80 // exponent of the marginal counts
	oversize  = 24   // additional directions that the iteration keeps
	rounds    = 6
	seed      = 20261121
)

// counts is a table of how often two words occur together, by packed pair.
type counts struct {
	keys   []uint64
	values []float32
	used   int
}

func newCounts() *counts { return &counts{keys: make([]uint64, 1<<20), values: make([]float32, 1<<20)} }

func (c *counts) add(a, b uint32, weight float32) {
	if a == b {
		return
	}
	if a > b {
		a, b = b, a
	}
	if c.used*2 > len(c.keys) {
		c.grow()
	}
	i := c.slot(uint64(a)<<32 | uint64(b))
	if c.keys[i] == 0 {
		c.keys[i] = uint64(a)<<32 | uint64(b)
		c.used++
	}
	c.values[i] += weight
}

// slot finds the place of a key, which is never 0 because b is larger than a.
func (c *counts) slot(key uint64) int {
	h := key * 0x9E3779B97F4A7C15
	mask := uint64(len(c.keys) - 1)
	i := (h ^ h>>31) & mask
	for c.keys[i] != 0 && c.keys[i] != key {
		i = (i + 1) & mask
	}
	return int(i)
}

func (c *counts) grow() {
	old := *c
	c.keys, c.values = make([]uint64, 2*len(old.keys)), make([]float32, 2*len(old.keys))
	for i, key := range old.keys {
		if key != 0 {
			j := c.slot(key)
			c.keys[j], c.values[j] = key, old.values[i]
		}
	}
}

// addText counts the words of one text.
func (c *counts) addText(ids []int32, weight float32) {
	for i, a := range ids {
		for d := 1; d <= window && i+d < len(ids); d++ {
			if b := ids[i+d]; a >= 0 && b >= 0 {
				c.add(uint32(a), uint32(b), weight*float32(window+1-d)/window)
			}
		}
	}
}

// matrix is sparse and symmetric.
type matrix struct {
	at    []int
	to    []uint32
	value []float32
}

// information turns counts over n words into positive pointwise mutual information.
func (c *counts) information(n int) *matrix {
	sums := make([]float64, n)
	type cell struct {
		key   uint64
		value float32
	}
	cells := make([]cell, 0, c.used)
	for i, key := range c.keys {
		if key != 0 {
			cells = append(cells, cell{key, c.values[i]})
		}
	}
	slices.SortFunc(cells, func(a, b cell) int {
		if a.key < b.key {
			return -1
		}
		return 1
	})
	for _, p := range cells {
		sums[p.key>>32] += float64(p.value)
		sums[uint32(p.key)] += float64(p.value)
	}
	smooth, total := make([]float64, n), 0.0
	for i, s := range sums {
		smooth[i] = math.Pow(s, smoothing)
		total += smooth[i]
	}
	// With both margins smoothed the matrix stays symmetric. The scale makes independent words come out at 1.
	all, square := 0.0, total*total
	for _, s := range sums {
		all += s
	}
	kept := cells[:0]
	rows := make([]int, n+1)
	for _, p := range cells {
		a, b := p.key>>32, uint32(p.key)
		together := float64(p.value)
		ratio := together / all * square / (smooth[a] * smooth[b])
		if ratio <= 1 {
			continue
		}
		// Pairs that were seen once are mostly chance: Pantel and Lin's discount.
		least := min(sums[a], sums[b])
		v := math.Log(ratio) * together / (together + 1) * least / (least + 10)
		kept = append(kept, cell{p.key, float32(v)})
		rows[a+1]++
		rows[b+1]++
	}
	for i := range n {
		rows[i+1] += rows[i]
	}
	m := &matrix{rows, make([]uint32, rows[n]), make([]float32, rows[n])}
	next := slices.Clone(rows)
	for _, p := range kept {
		a, b := uint32(p.key>>32), uint32(p.key)
		m.to[next[a]], m.value[next[a]] = b, p.value
		m.to[next[b]], m.value[next[b]] = a, p.value
		next[a]++
		next[b]++
	}
	return m
}

// times multiplies the matrix with a dense one of k columns. Each row is summed by one goroutine in a fixed order, so
// the result does not depend on their number.
func (m *matrix) times(x []float32, k int) []float32 {
	n := len(m.at) - 1
	y := make([]float32, n*k)
	var wait sync.WaitGroup
	const block = 512
	tasks := make(chan int)
	for range 2 {
		wait.Go(func() {
			for from := range tasks {
				for i := from; i < min(from+block, n); i++ {
					out := y[i*k : (i+1)*k]
					for e := m.at[i]; e < m.at[i+1]; e++ {
						v, in := m.value[e], x[int(m.to[e])*k:int(m.to[e])*k+k]
						for j := range out {
							out[j] += v * in[j]
						}
					}
				}
			}
		})
	}
	for from := 0; from < n; from += block {
		tasks <- from
	}
	close(tasks)
	wait.Wait()
	return y
}

// embed returns n unit vectors of the given dimension.
func (m *matrix) embed(dims int) []float32 {
	n, k := len(m.at)-1, dims+oversize
	random := rand.New(rand.NewPCG(seed, 1))
	q := make([]float32, n*k)
	for i := range q {
		q[i] = float32(random.NormFloat64())
	}
	orthonormalise(q, k)
	for range rounds {
		q = m.times(q, k)
		orthonormalise(q, k)
	}
	image := m.times(q, k)
	small := make([]float64, k*k)
	for i := range n {
		for a := range k {
			for b := range k {
				small[a*k+b] += float64(q[i*k+a]) * float64(image[i*k+b])
			}
		}
	}
	values, rotation := eigen(small, k)
	order := make([]int, k)
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		if values[a] > values[b] {
			return -1
		}
		return 1
	})
	out := make([]float32, n*dims)
	for i := range n {
		for d := range dims {
			sum, col := 0.0, order[d]
			for a := range k {
				sum += float64(q[i*k+a]) * rotation[a*k+col]
			}
			out[i*dims+d] = float32(sum * math.Sqrt(max(values[col], 0)))
		}
	}
	centre(out, dims)
	rotate(out, dims)
	return out
}

// rotate turns all vectors by the same random rotation. That changes no angle, but spreads what the leading directions
// hold over all of them, so that bytes and signs keep more of it.
func rotate(v []float32, dims int) {
	random := rand.New(rand.NewPCG(seed, 2))
	turn := make([]float32, dims*dims)
	for i := range turn {
		turn[i] = float32(random.NormFloat64())
	}
	orthonormalise(turn, dims)
	row := make([]float32, dims)
	for i := 0; i < len(v); i += dims {
		clear(row)
		for a, x := range v[i : i+dims] {
			for b := range row {
				row[b] += x * turn[a*dims+b]
			}
		}
		copy(v[i:i+dims], row)
	}
}

// centre makes the vectors unit vectors around their mean: what all words share says nothing about any of them.
func centre(v []float32, dims int) {
	n := len(v) / dims
	unit(v, dims)
	mean := make([]float64, dims)
	for i, x := range v {
		mean[i%dims] += float64(x) / float64(n)
	}
	for i := range v {
		v[i] -= float32(mean[i%dims])
	}
	unit(v, dims)
}

func unit(v []float32, dims int) {
	for i := 0; i < len(v); i += dims {
		sum := 1e-12
		for _, x := range v[i : i+dims] {
			sum += float64(x) * float64(x)
		}
		f := float32(1 / math.Sqrt(sum))
		for j := range dims {
			v[i+j] *= f
		}
	}
}

// orthonormalise is modified Gram-Schmidt over the k columns of q.
func orthonormalise(q []float32, k int) {
	n := len(q) / k
	dots := make([]float64, k)
	for c := range k {
		norm := 0.0
		for i := range n {
			norm += float64(q[i*k+c]) * float64(q[i*k+c])
		}
		f := float32(1 / math.Sqrt(norm+1e-30))
		clear(dots)
		for i := range n {
			row := q[i*k : (i+1)*k]
			row[c] *= f
			x := float64(row[c])
			for d := c + 1; d < k; d++ {
				dots[d] += x * float64(row[d])
			}
		}
		for i := range n {
			row := q[i*k : (i+1)*k]
			for d := c + 1; d < k; d++ {
				row[d] -= float32(dots[d]) * row[c]
			}
		}
	}
}

// eigen is the cyclic Jacobi method for a symmetric k x k matrix, which it destroys.
func eigen(a []float64, k int) (values, vectors []float64) {
	vectors = make([]float64, k*k)
	for i := range k {
		vectors[i*k+i] = 1
		for j := range i {
			mean := (a[i*k+j] + a[j*k+i]) / 2
			a[i*k+j], a[j*k+i] = mean, mean
		}
	}
	for range 30 {
		for p := range k {
			for q := p + 1; q < k; q++ {
				if math.Abs(a[p*k+q]) < 1e-12 {
					continue
				}
				theta := (a[q*k+q] - a[p*k+p]) / (2 * a[p*k+q])
				t := math.Copysign(1, theta) / (math.Abs(theta) + math.Sqrt(theta*theta+1))
				c := 1 / math.Sqrt(t*t+1)
				s := t * c
				for i := range k {
					x, y := a[i*k+p], a[i*k+q]
					a[i*k+p], a[i*k+q] = c*x-s*y, s*x+c*y
				}
				for i := range k {
					x, y := a[p*k+i], a[q*k+i]
					a[p*k+i], a[q*k+i] = c*x-s*y, s*x+c*y
				}
				for i := range k {
					x, y := vectors[i*k+p], vectors[i*k+q]
					vectors[i*k+p], vectors[i*k+q] = c*x-s*y, s*x+c*y
				}
			}
		}
	}
	values = make([]float64, k)
	for i := range k {
		values[i] = a[i*k+i]
	}
	return values, vectors
}

// quantise turns a unit vector into bytes. The largest value becomes 127, because a reader scales to length 1 anyway.
func quantise(v []float32) []int8 {
	var top float32
	for _, x := range v {
		top = max(top, float32(math.Abs(float64(x))))
	}
	out := make([]int8, len(v))
	for i, x := range v {
		out[i] = int8(math.Round(float64(x / top * 127)))
	}
	return out
}
