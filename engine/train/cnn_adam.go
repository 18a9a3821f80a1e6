// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package train

import "math"

// The decay rates of Adam's moments, and what keeps its divisors above zero.
const (
	beta1, beta2     = 0.9, 0.999
	epsilon          = 1e-8
	embeddingEpsilon = 1e-6
)

// moments are Adam's running means of the gradients and of their squares (Kingma and Ba 2015).
type moments struct{ first, second []float32 }

func newMoments(n int) moments { return moments{make([]float32, n), make([]float32, n)} }

// step moves values along gradients, which it multiplies by scale. It is the given number of the step, from 1.
func (m *moments) step(values, gradients []float32, rate float64, scale float32, steps int, decay float32) {
	c1 := 1 / (1 - math.Pow(beta1, float64(steps)))
	c2 := 1 / (1 - math.Pow(beta2, float64(steps)))
	for i, g := range gradients {
		g *= scale
		m.first[i] = beta1*m.first[i] + (1-beta1)*g
		m.second[i] = beta2*m.second[i] + (1-beta2)*g*g
		move := float64(m.first[i]) * c1 / (math.Sqrt(float64(m.second[i])*c2) + epsilon)
		values[i] -= float32(rate * (move + float64(decay*values[i])))
	}
}

// embeddingTable is a table of embeddings of which a step changes few.
type embeddingTable struct {
	values  []float32
	moments moments
}

func newEmbeddingTable(rows int) embeddingTable {
	return embeddingTable{values: make([]float32, rows*channels), moments: newMoments(rows * channels)}
}

// rows returns the number of embeddings.
func (t *embeddingTable) rows() int { return len(t.values) / channels }

func (t *embeddingTable) row(r int32) []float32 {
	return t.values[int(r)*channels : (int(r)+1)*channels]
}

// step takes a step of Adam on the rows with gradients, and clears these. The moments of the other rows stay as they
// are, and there is no correction of the bias.
func (t *embeddingTable) step(g *rowGradients, rate float64, scale float32) {
	for i, r := range g.rows {
		at := int(r) * channels
		m1, m2 := t.moments.first[at:at+channels], t.moments.second[at:at+channels]
		values := t.row(r)
		for c, g := range g.at(i) {
			g *= scale
			m1[c] = beta1*m1[c] + (1-beta1)*g
			m2[c] = beta2*m2[c] + (1-beta2)*g*g
			values[c] -= float32(rate) * m1[c] / (float32(math.Sqrt(float64(m2[c]))) + embeddingEpsilon)
		}
	}
	g.clear()
}

// rowGradients are the gradients of the few rows of a table that a mini-batch uses.
type rowGradients struct {
	index  []int32 // by row: its place in rows plus one, or 0
	rows   []int32 // in order of first use
	values []float32
}

func newRowGradients(rows int) rowGradients { return rowGradients{index: make([]int32, rows)} }

// row returns the gradient of a row, zero at first.
func (g *rowGradients) row(r int32) []float32 {
	at := g.index[r]
	if at == 0 {
		g.rows = append(g.rows, r)
		at = int32(len(g.rows))
		g.index[r] = at
		g.values = append(g.values, make([]float32, channels)...)
	}
	return g.values[(at-1)*channels : at*channels]
}

// at returns the gradient of the row rows[i].
func (g *rowGradients) at(i int) []float32 { return g.values[i*channels : (i+1)*channels] }

// merge adds other gradients and clears them.
func (g *rowGradients) merge(other *rowGradients) {
	for i, r := range other.rows {
		addTo(g.row(r), other.at(i))
	}
	other.clear()
}

func (g *rowGradients) clear() {
	for _, r := range g.rows {
		g.index[r] = 0
	}
	g.rows, g.values = g.rows[:0], g.values[:0]
}

// updateEmbeddings passes the workers' gradients of vocabulary words on to the embeddings of the words, their groups
// and their sub-words, and takes a step.
func (tr *cnnTrainer) updateEmbeddings(workers []*cnnWorker, rate float64, scale float32) {
	first := &workers[0].embeddings
	for _, w := range workers[1:] {
		first.merge(&w.embeddings)
	}
	for i, row := range first.rows {
		gradient := first.at(i)
		v := &tr.vocab[row/2]
		if row%2 == int32(embedded) {
			addTo(tr.wordGradients.row(v.row), gradient)
			if v.group >= 0 {
				addTo(tr.groupGradients.row(v.group), gradient)
			}
		}
		share := 1 / float32(max(len(v.subwords), 1))
		for _, sub := range v.subwords {
			sum := tr.subwordGradients.row(int32(sub))
			for c, x := range gradient {
				sum[c] += x * share
			}
		}
	}
	first.clear()
	tr.words.step(&tr.wordGradients, rate*tr.opt.EmbeddingRate, scale)
	tr.groups.step(&tr.groupGradients, rate*tr.opt.EmbeddingRate, scale)
	tr.subwords.step(&tr.subwordGradients, rate*tr.opt.EmbeddingRate, scale)
}
