// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package train

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/caddy-moderation/caddy-moderation/engine/model"
	"github.com/caddy-moderation/caddy-moderation/engine/text"
)

// Sizes of the word clusters.
const (
	clusterCount   = 500
	clusterMinimum = 12 // how often a word must occur
	dimensions     = 32 // of the skip-gram embeddings
	contextWords   = 4  // to either side
	negatives      = 4  // samples per pair of words
)

// embedding is the skip-gram embedding of a word.
type embedding [dimensions]float32

// cluster groups the words of the texts by the contexts that they are used in: skip-gram embeddings with negative
// sampling (Mikolov et al. 2013), then k-means. It does not use labels. Texts are tokenized with the
// dictionary. The result maps the hash of a word to its cluster, from 0, and to its embedding; there are no clusters of
// few words.
func cluster(examples []Example, dictionary *text.Dictionary, seed uint64) (map[uint64]uint16, map[uint64]embedding) {
	v := newSkipGram(examples, dictionary)
	r := rand.New(rand.NewPCG(seed, 5))
	vectors := v.embed(r)
	byWord := make(map[uint64]embedding, len(v.words))
	for i, w := range v.words {
		e := vectors[i]
		normalise(&e)
		byWord[w] = e
	}
	if len(v.words) < 4*clusterCount {
		return nil, byWord
	}
	assigned := kMeans(vectors, v.counts, r)
	out := make(map[uint64]uint16, len(assigned))
	for i, c := range assigned {
		out[v.words[i]] = uint16(c)
	}
	return out, byWord
}

// skipGram is what skip-gram embeddings are learned from: the words that occur often enough, and the texts as indexes
// of them.
type skipGram struct {
	words  []uint64
	counts []int
	texts  [][]int32
	total  int
}

func newSkipGram(examples []Example, dictionary *text.Dictionary) *skipGram {
	s := text.Get()
	defer text.Put(s)
	counts := map[uint64]int{}
	each := func(yield func(text int, word uint64)) {
		for i := range examples {
			tokens := limit(s.TokenizeWith(examples[i].Text, dictionary))
			for j := range tokens {
				if !tokens[j].Is(text.Emoji) {
					yield(i, model.WordHash(tokens[j].Folded))
				}
			}
		}
	}
	each(func(_ int, word uint64) { counts[word]++ })
	v := &skipGram{texts: make([][]int32, len(examples))}
	for w, n := range counts {
		if n >= clusterMinimum {
			v.words = append(v.words, w)
		}
	}
	slices.Sort(v.words)
	index := make(map[uint64]int32, len(v.words))
	for i, w := range v.words {
		index[w] = int32(i)
		v.counts = append(v.counts, counts[w])
		v.total += counts[w]
	}
	each(func(text int, word uint64) {
		if i, ok := index[word]; ok {
			v.texts[text] = append(v.texts[text], i)
		}
	})
	return v
}

// embed learns a skip-gram embedding of each word.
func (v *skipGram) embed(r *rand.Rand) []embedding {
	in, out := make([]embedding, len(v.words)), make([]embedding, len(v.words))
	for i := range in {
		for d := range in[i] {
			in[i][d] = (r.Float32() - 0.5) / dimensions
		}
	}
	// Negative samples are drawn with the 3/4 power of the counts.
	var noise []int32
	for i, n := range v.counts {
		for range max(1, int(math.Pow(float64(n), 0.75)/2)) {
			noise = append(noise, int32(i))
		}
	}
	keep := make([]float32, len(v.counts))
	for i, n := range v.counts {
		share := float64(n) / float64(v.total)
		keep[i] = float32(math.Min(1, math.Sqrt(1e-3/share)))
	}
	order := r.Perm(len(v.texts))
	var line []int32
	for n, t := range order {
		rate := float32(0.06 * (1 - 0.9*float64(n)/float64(len(order))))
		line = line[:0]
		for _, w := range v.texts[t] {
			if r.Float32() < keep[w] {
				line = append(line, w)
			}
		}
		for i, w := range line {
			reach := 1 + r.IntN(contextWords)
			for j := max(0, i-reach); j <= min(len(line)-1, i+reach); j++ {
				if j != i {
					step(&in[w], out, line[j], noise, rate, r)
				}
			}
		}
	}
	return in
}

// step moves a word towards a neighbour and away from negative samples.
func step(word *embedding, out []embedding, neighbour int32, noise []int32, rate float32, r *rand.Rand) {
	var move embedding
	for k := range negatives + 1 {
		target, truth := neighbour, float32(1)
		if k > 0 {
			target, truth = noise[r.IntN(len(noise))], 0
		}
		o := &out[target]
		var dot float32
		for d := range word {
			dot += word[d] * o[d]
		}
		g := rate * (truth - float32(sigmoid(float64(dot))))
		for d := range word {
			move[d] += g * o[d]
			o[d] += g * word[d]
		}
	}
	for d := range word {
		word[d] += move[d]
	}
}

// kMeans assigns each vector to one of clusterCount centres by cosine.
func kMeans(vectors []embedding, counts []int, r *rand.Rand) []int {
	for i := range vectors {
		normalise(&vectors[i])
	}
	centres := make([]embedding, clusterCount)
	for c, i := range r.Perm(len(vectors))[:clusterCount] {
		centres[c] = vectors[i]
	}
	assigned := make([]int, len(vectors))
	for range 12 {
		sums := make([]embedding, clusterCount)
		for i := range vectors {
			best, near := 0, float32(-2)
			for c := range centres {
				var dot float32
				for d := range centres[c] {
					dot += centres[c][d] * vectors[i][d]
				}
				if dot > near {
					best, near = c, dot
				}
			}
			assigned[i] = best
			weight := float32(math.Sqrt(float64(counts[i])))
			for d := range sums[best] {
				sums[best][d] += weight * vectors[i][d]
			}
		}
		for c := range sums {
			if sums[c] == (embedding{}) {
				sums[c] = vectors[r.IntN(len(vectors))]
			}
			normalise(&sums[c])
		}
		centres = sums
	}
	return assigned
}

// normalise scales an embedding to the length 1.
func normalise(e *embedding) {
	var sum float64
	for _, x := range e {
		sum += float64(x) * float64(x)
	}
	if sum == 0 {
		return
	}
	f := float32(1 / math.Sqrt(sum))
	for d := range e {
		e[d] *= f
	}
}
