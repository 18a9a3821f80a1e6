// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package train

import (
	"github.com/caddy-moderation/caddy-moderation/engine/cnn"
	"github.com/caddy-moderation/caddy-moderation/engine/model"
	"github.com/caddy-moderation/caddy-moderation/engine/text"
)

// vocabWord is a distinct folded word of the training texts.
type vocabWord struct {
	hash     uint64
	row      int32 // of its embedding in cnnTrainer.words, or -1
	group    int32 // of its class or cluster in cnnTrainer.groups, or -1
	subwords []uint16
	count    int
}

// vocabText is a training text as indexes of the vocabulary, with the shape features of each token.
type vocabText struct {
	words  []int32
	shapes [][]uint8
}

// buildVocabulary finds the words of the texts, and makes the tables of their embeddings. Only words that occur often
// enough get an embedding of their own; a word of the corpus counts twice. It returns the ordinary texts to pretrain
// on.
func (tr *cnnTrainer) buildVocabulary() (plain []vocabText) {
	s := text.Get()
	defer text.Put(s)
	index := map[string]int32{}
	features := model.Features{Foreign: tr.foreign}
	read := func(content string, count int) (t vocabText) {
		tokens := limit(s.TokenizeWith(content, tr.dictionary))
		features.Extract(tokens)
		for j, token := range tokens {
			if features.Repeats(j) {
				continue
			}
			at, ok := index[string(token.Folded)]
			if !ok {
				at = int32(len(tr.vocab))
				index[string(token.Folded)] = at
				subwords := cnn.AppendSubwords(nil, token.Folded)
				cnn.FoldSubwords(subwords, tr.opt.SubwordRows)
				tr.vocab = append(tr.vocab, vocabWord{
					hash:     model.WordHash(token.Folded),
					row:      -1,
					group:    tr.group(token.Folded),
					subwords: subwords,
				})
			}
			tr.vocab[at].count += count
			t.words = append(t.words, at)
			t.shapes = append(t.shapes, cnn.AppendShapeFeatures(nil, token.Flags))
		}
		return t
	}
	for i := range tr.examples {
		count := 1
		if tr.examples[i].InCorpus {
			count = 2
		}
		tr.texts = append(tr.texts, read(tr.examples[i].Text, count))
	}
	labelled := len(tr.vocab)
	for i := range tr.opt.Plain {
		plain = append(plain, read(tr.opt.Plain[i].Text, 1))
	}
	rows := 0
	for i := range tr.vocab {
		// Words that no labelled text has are worth an embedding of their own only where they are common.
		if c := tr.vocab[i].count; c >= tr.opt.MinCount && (i < labelled || c >= 20) {
			tr.vocab[i].row = int32(rows)
			rows++
		}
	}
	const groups = model.NumWordClasses + 2*clusterCount
	tr.words, tr.wordGradients = newEmbeddingTable(rows), newRowGradients(rows)
	tr.groups, tr.groupGradients = newEmbeddingTable(groups), newRowGradients(groups)
	tr.subwords, tr.subwordGradients = newEmbeddingTable(tr.opt.SubwordRows), newRowGradients(tr.opt.SubwordRows)
	return plain
}

// group returns the row that a word shares with the others of its class or else of its cluster, or -1.
func (tr *cnnTrainer) group(folded []byte) int32 {
	if !tr.foreign {
		if c := model.WordClassOf(folded); c != 0 {
			return int32(c)
		}
	}
	if c, ok := tr.clusters[model.WordHash(folded)]; ok {
		if class := int(c) - int(model.ClassCluster(0)); class > 0 {
			return int32(class)
		}
		return int32(model.NumWordClasses + int(c))
	}
	return -1
}

// initEmbeddings sets the initial embeddings of words to their skip-gram embeddings.
func (tr *cnnTrainer) initEmbeddings(vectors map[uint64]embedding) {
	for _, word := range tr.vocab {
		if e, ok := vectors[word.hash]; ok && word.row >= 0 {
			for d, x := range e {
				tr.words.values[int(word.row)*channels+d] = x * float32(tr.opt.InitialNorm)
			}
		}
	}
}

// embedWord sets out to the embedding of a word and its group. The word must have a row.
func (tr *cnnTrainer) embedWord(out []float32, v *vocabWord) {
	copy(out, tr.words.row(v.row))
	if v.group >= 0 {
		addTo(out, tr.groups.row(v.group))
	}
}

// embedSubwords adds the mean of the embeddings of a word's sub-words to out.
func (tr *cnnTrainer) embedSubwords(out []float32, v *vocabWord) {
	share := 1 / float32(max(len(v.subwords), 1))
	for _, sub := range v.subwords {
		for c, x := range tr.subwords.row(int32(sub)) {
			out[c] += x * share
		}
	}
}

func addTo(sum, x []float32) {
	for c, v := range x {
		sum[c] += v
	}
}
