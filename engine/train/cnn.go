// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package train

import (
	"math"
	"math/rand/v2"
	"sync"

	"github.com/caddy-moderation/caddy-moderation/engine/cnn"
	"github.com/caddy-moderation/caddy-moderation/engine/model"
	"github.com/caddy-moderation/caddy-moderation/engine/text"
)

// CNNOptions configure [FitCNN]. The zero value of a field stands for its default.
type CNNOptions struct {
	// Epochs is the number of passes over the texts of the corpus and the hard negatives. Default: 5.
	Epochs int
	// Rate is Adam's learning rate at the start. It falls to zero linearly. Default: 0.002.
	Rate float64
	// PublicShare is the share of the texts of public sources that each pass uses, above 0 and up to 1. Default: 0.15.
	PublicShare float64
	// WordDropout is the share of words whose own embedding a pass leaves out, so that their sub-words learn to stand
	// in. Default: 0.1.
	WordDropout float64
	// TokenDropout is the share of tokens that a pass leaves out entirely. Default: 0.05.
	TokenDropout float64
	// HiddenDropout is the share of a window's pooled values that a pass leaves out. Default: 0.2.
	HiddenDropout float64
	// Decay is the weight decay of the dense weights, relative to the learning rate. Default: 0.01.
	Decay float64
	// EmbeddingRate is the learning rate of embeddings, relative to Rate. Default: 1.
	EmbeddingRate float64
	// InitialNorm is the length of the initial embeddings of words. Default: 1.
	InitialNorm float64
	// SubwordRows is the number of rows that sub-words are hashed to, a power of two. Default: [cnn.SubwordRows].
	SubwordRows int
	// Steps is the number of steps on each side of zero that embeddings are rounded to, up to 127. Default: 127.
	Steps int
	// MinCount is how often a word must occur to have an embedding of its own. Default: 3.
	MinCount int
	// Plain are ordinary texts without labels, which the network learns English from before it sees a label, in
	// PretrainEpochs passes. Default: none, one pass.
	Plain          []Example
	PretrainEpochs int
	// Seed seeds the order of the texts, the initial weights and the dropout.
	Seed uint64
}

func (o CNNOptions) withDefaults() CNNOptions {
	set := func(f *float64, v float64) {
		if *f == 0 {
			*f = v
		}
	}
	if o.Epochs == 0 {
		o.Epochs = 5
	}
	if o.SubwordRows == 0 {
		o.SubwordRows = cnn.SubwordRows
	}
	if o.Steps == 0 {
		o.Steps = 127
	}
	if o.MinCount == 0 {
		o.MinCount = 3
	}
	if o.PretrainEpochs == 0 {
		o.PretrainEpochs = 1
	}
	set(&o.Rate, 0.002)
	set(&o.PublicShare, 0.15)
	set(&o.WordDropout, 0.1)
	set(&o.TokenDropout, 0.05)
	set(&o.HiddenDropout, 0.2)
	set(&o.Decay, 0.01)
	set(&o.EmbeddingRate, 1)
	set(&o.InitialNorm, 1)
	return o
}

const (
	// numWorkers is the number of goroutines that share a mini-batch. The result depends on it: each worker sums up the
	// gradients of its own texts, so the bytes are the same on any number of processors.
	numWorkers = 2
	// batchSize is the number of texts in a mini-batch.
	batchSize = 32
	// warmup is the number of steps in which the learning rate rises to its full value.
	warmup = 200
)

const channels = cnn.Channels

// cnnTrainer is the state of a training. See cnn_vocabulary.go for its words, cnn_worker.go for the gradients of a
// text, and cnn_adam.go for the optimizer.
type cnnTrainer struct {
	opt            CNNOptions
	examples       []Example
	positiveWeight [model.Heads]float32
	texts          []vocabText // beside examples
	vocab          []vocabWord
	clusters       map[uint64]uint16
	dictionary     *text.Dictionary
	foreign        bool // another language than English

	dense *cnn.Dense
	adam  moments // of dense
	steps int
	// The transposed matrices of dense, for the backward pass.
	kernelsT         [cnn.Layers][]float32
	hiddenT, outputT []float32

	// The embeddings of a token are the sum of its word's, that of the word's group, and the mean of its sub-words'.
	words, groups, subwords                         embeddingTable
	wordGradients, groupGradients, subwordGradients rowGradients
}

// FitCNN trains the convolutional network with Adam on mini-batches. The same examples and options give the same
// weights. It takes the clusters and the dictionary of the linear model.
func FitCNN(examples []Example, linear *Fitted, opt CNNOptions) *cnn.Model {
	tr := &cnnTrainer{
		opt:        opt.withDefaults(),
		examples:   examples,
		clusters:   linear.Weights.Clusters,
		dictionary: text.NewDictionary(linear.Weights.Words, linear.Header.Negators...),
		foreign:    linear.Header.Language != "",
	}
	plain := tr.buildVocabulary()
	tr.initWeights(linear.vectors)
	if len(plain) > 0 {
		tr.pretrain(plain)
		tr.adam = newMoments(cnn.DenseSize)
	}
	var logOdds [model.Heads]float64
	tr.positiveWeight, logOdds = balance(examples)
	for h, o := range logOdds {
		tr.dense.OutputBias[h] = float32(o)
	}
	tr.run()
	return tr.export()
}

// initWeights draws the initial weights.
func (tr *cnnTrainer) initWeights(vectors map[uint64]embedding) {
	r := rand.New(rand.NewPCG(tr.opt.Seed, 11))
	fill := func(weights []float32, deviation float64) {
		for i := range weights {
			weights[i] = float32(r.NormFloat64() * deviation)
		}
	}
	tr.dense = cnn.NewDense(make([]float32, cnn.DenseSize))
	for l := range cnn.Layers {
		fill(tr.dense.Kernel[l], 1/math.Sqrt(cnn.KernelSize*channels))
	}
	fill(tr.dense.Attention, 1/math.Sqrt(channels))
	fill(tr.dense.Shape, 0.05)
	fill(tr.dense.HiddenWeights, 1/math.Sqrt(cnn.Pooled))
	fill(tr.dense.OutputWeights, 0.5/math.Sqrt(cnn.Hidden))
	fill(tr.words.values, 0.1)
	tr.initEmbeddings(vectors)
	fill(tr.subwords.values, 0.05)
	tr.adam = newMoments(cnn.DenseSize)
	tr.allocateTransposed()
}

// run makes all passes.
func (tr *cnnTrainer) run() {
	r := rand.New(rand.NewPCG(tr.opt.Seed, 12))
	var corpus, public []int
	for i := range tr.examples {
		if tr.examples[i].InCorpus || tr.examples[i].Hard {
			corpus = append(corpus, i)
		} else {
			public = append(public, i)
		}
	}
	share := int(float64(len(public)) * tr.opt.PublicShare)
	total := tr.opt.Epochs * ((len(corpus) + share + batchSize - 1) / batchSize)
	workers := make([]*cnnWorker, numWorkers)
	for i := range workers {
		workers[i] = newCNNWorker(tr, uint64(i))
	}
	next := len(public)
	for range tr.opt.Epochs {
		order := append([]int{}, corpus...)
		for range share {
			if next >= len(public) {
				r.Shuffle(len(public), func(i, j int) { public[i], public[j] = public[j], public[i] })
				next = 0
			}
			order = append(order, public[next])
			next++
		}
		r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for len(order) > 0 {
			batch := order[:min(batchSize, len(order))]
			order = order[len(batch):]
			tr.trainBatch(workers, batch, tr.opt.Rate*(1-float64(tr.steps)/float64(total)))
		}
	}
}

// accumulateAll has the workers add the gradients of a mini-batch, each on a goroutine of its own and in a fixed order.
func accumulateAll[W interface{ accumulate(i int) }](workers []W, batch []int) {
	var wait sync.WaitGroup
	for i, w := range workers {
		wait.Go(func() {
			for k := i; k < len(batch); k += len(workers) {
				w.accumulate(batch[k])
			}
		})
	}
	wait.Wait()
}

// trainBatch takes one step on a mini-batch.
func (tr *cnnTrainer) trainBatch(workers []*cnnWorker, batch []int, rate float64) {
	tr.steps++
	tr.transposeWeights()
	accumulateAll(workers, batch)
	scale := float32(1) / float32(len(batch))
	first := workers[0]
	for _, w := range workers[1:] {
		for i, g := range w.dense.All {
			first.dense.All[i] += g
		}
		clear(w.dense.All)
	}
	warm := min(1, float64(tr.steps)/warmup)
	tr.adam.step(tr.dense.All, first.dense.All, rate*warm, scale, tr.steps, float32(tr.opt.Decay))
	clear(first.dense.All)
	tr.updateEmbeddings(workers, rate*warm, scale)
}

// allocateTransposed makes room for the transposed matrices.
func (tr *cnnTrainer) allocateTransposed() {
	for l := range tr.kernelsT {
		tr.kernelsT[l] = make([]float32, len(tr.dense.Kernel[l]))
	}
	tr.hiddenT = make([]float32, len(tr.dense.HiddenWeights))
	tr.outputT = make([]float32, len(tr.dense.OutputWeights))
}

// transposeWeights updates the transposed matrices.
func (tr *cnnTrainer) transposeWeights() {
	for l := range tr.kernelsT {
		transpose(tr.kernelsT[l], tr.dense.Kernel[l], cnn.KernelSize*channels, 2*channels)
	}
	transpose(tr.hiddenT, tr.dense.HiddenWeights, cnn.Pooled, cnn.Hidden)
	transpose(tr.outputT, tr.dense.OutputWeights, cnn.Hidden, cnn.Outputs)
}

func transpose(out, in []float32, rows, columns int) {
	for r := range rows {
		for c := range columns {
			out[c*rows+r] = in[r*columns+c]
		}
	}
}

// export adds the groups and sub-words of known words to their embeddings, and rounds the weights.
func (tr *cnnTrainer) export() *cnn.Model {
	var words []cnn.Word
	for i := range tr.vocab {
		v := &tr.vocab[i]
		if v.row < 0 {
			continue
		}
		word := cnn.Word{Hash: v.hash}
		tr.embedWord(word.Vector[:], v)
		tr.embedSubwords(word.Vector[:], v)
		words = append(words, word)
	}
	return cnn.New(tr.dense, words, tr.subwords.values, tr.opt.Steps)
}
