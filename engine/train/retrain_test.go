// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package train_test

import (
	"bytes"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/engine/cnn"
	"github.com/caddy-moderation/caddy-moderation/engine/evaluate"
	"github.com/caddy-moderation/caddy-moderation/engine/model"
	"github.com/caddy-moderation/caddy-moderation/engine/train"
)

// part keeps one in so many of the texts.
func part(examples []train.Example, every int) (out []train.Example) {
	for i := range examples {
		if i%every == 0 {
			out = append(out, examples[i])
		}
	}
	return out
}

func load(t *testing.T, file []byte) *model.Model {
	t.Helper()
	m, err := model.Load(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// anyCategory is the AUC of "any of the five categories" by a score of texts.
func anyCategory(examples []train.Example, score func(content string) float64) float64 {
	var scored []evaluate.Scored
	for i := range examples {
		scored = append(scored, evaluate.Scored{Score: score(examples[i].Text), Positive: !examples[i].Harmless()})
	}
	return evaluate.AUC(scored)
}

// together scores a text by how far its worst category is above the threshold, in odds.
func together(m *model.Model) func(string) float64 {
	return func(content string) float64 {
		p, most := m.Probabilities(content), 0.0
		for h, threshold := range train.Thresholds[:5] {
			most = max(most, p[h]/(1-p[h]+1e-12)*(1-threshold)/threshold)
		}
		return most
	}
}

// byReader scores a text by the largest logit that the reader alone gives to a category.
func byReader(m *model.Model) func(string) float64 {
	return func(content string) float64 {
		most := math.Inf(-1)
		for _, w := range m.Logits(content).LargeCNN {
			most = max(most, slices.Max(w.CNN[:5]))
		}
		return most
	}
}

// small learns a small cascade the way the shipped one is learned: linear model, reader, calibration.
func small(t *testing.T, learn, tune []train.Example, opt train.Options, second train.CNNOptions) (*train.Fitted, []byte) {
	t.Helper()
	learn = slices.Concat(learn, train.Augment(learn, 0.1, 1), train.Surround(learn, 0.1, 1), train.Swap(learn, 0.1, 1))
	fitted := train.Fit(learn, opt)
	fitted.Weights.CNN = train.FitCNN(learn, fitted, second)
	raw, err := fitted.File()
	if err != nil {
		t.Fatal(err)
	}
	file, err := train.Calibrate(raw, tune, 0.1, 1)
	if err != nil {
		t.Fatal(err)
	}
	return fitted, file
}

// calibratedLike is a file of weights with the calibration of a model.
func calibratedLike(t *testing.T, m *model.Model, fitted *train.Fitted) []byte {
	t.Helper()
	raw, err := fitted.File()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := model.Recalibrate(&b, raw, m.Header().CNNThreshold, m.Header().Calibration); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// coarsened rounds weights of eight bits to seven. That errs as much as the rounding to eight bits did, and as much again.
func coarsened(w int8) int8 { return w / 2 * 2 }

// TestASmallModelLearnsFromTheCorpus goes the whole way of a training on a part of the project's own texts and judges texts
// that were held back: a change that breaks the reading of the corpus, the learning of either stage, the calibration or the
// rounding cannot pass unseen until the next training.
func TestASmallModelLearnsFromTheCorpus(t *testing.T) {
	t.Parallel()
	if racing {
		t.Skip("ten times slower with the race detector, and no other goroutines than TestTheSameDataGivesTheSameCascade has")
	}
	all, err := train.Read(os.DirFS("corpus"), nil)
	if err != nil {
		t.Fatal(err)
	}
	pool := train.NewPool(all, false)
	learn, tune, held := part(pool.Splits[train.Training], 5), part(pool.Splits[train.Calibration], 3), part(pool.Splits[train.Test], 4)
	fitted, file := small(t, learn, tune, train.Options{Epochs: 3, Buckets: 1 << 15, Rows: 120_000, Seed: 1}, train.CNNOptions{Epochs: 4, Seed: 1})
	m := load(t, file)
	got := anyCategory(held, together(m))
	for _, c := range []struct {
		name       string
		auc, bound float64
	}{
		{"both stages", got, 0.75},
		{"the reader alone", anyCategory(held, byReader(m)), 0.65},
	} {
		if t.Logf("%s: AUC %.4f on %d texts", c.name, c.auc, len(held)); c.auc < c.bound {
			t.Errorf("%s: AUC of any category is %.3f on texts that were held back, want at least %.2f", c.name, c.auc, c.bound)
		}
	}

	const loss = 0.005
	for name, change := range map[string]func(f *train.Fitted){
		"linear weights of seven bits": func(f *train.Fitted) {
			for i := range f.Weights.Rows {
				for h, w := range f.Weights.Rows[i].Weights {
					f.Weights.Rows[i].Weights[h] = coarsened(w)
				}
			}
		},
		"a reader of seven bits": func(f *train.Fitted) {
			bytes := f.Weights.CNN.Marshal()
			words := int(bytes[0]) | int(bytes[1])<<8 | int(bytes[2])<<16 | int(bytes[3])<<24
			for i := len(bytes) - (words+cnn.SubwordRows)*cnn.Channels; i < len(bytes); i++ {
				bytes[i] = byte(coarsened(int8(bytes[i])))
			}
			if f.Weights.CNN, err = cnn.Unmarshal(bytes); err != nil {
				t.Fatal(err)
			}
		},
		"a fifth of the rows pruned": func(f *train.Fitted) { f.Weights.Rows = f.Weights.Rows[:len(f.Weights.Rows)*4/5] },
	} {
		other := *fitted
		other.Weights.Rows = slices.Clone(fitted.Weights.Rows)
		change(&other)
		auc := anyCategory(held, together(load(t, calibratedLike(t, m, &other))))
		if t.Logf("%s: AUC %.4f", name, auc); auc < got-loss {
			t.Errorf("%s: AUC is %.4f less than the %.4f without that, want at most %.3f less", name, got-auc, got, loss)
		}
	}
}

// The bytes of a cascade are reproducible, the reader's too, which learns on several goroutines.
func TestTheSameDataGivesTheSameCascade(t *testing.T) {
	t.Parallel()
	all, err := train.Read(os.DirFS("corpus"), nil)
	if err != nil {
		t.Fatal(err)
	}
	learn := part(all, 120)
	options := func() (train.Options, train.CNNOptions) {
		return train.Options{Epochs: 1, Buckets: 1 << 13, Rows: 20_000, Seed: 1}, train.CNNOptions{Epochs: 1, Seed: 1}
	}
	first, second := options()
	_, a := small(t, learn, part(all, 61), first, second)
	_, b := small(t, learn, part(all, 61), first, second)
	if !bytes.Equal(a, b) {
		t.Error("two trainings on the same data differ")
	}
	second.Seed = 2
	if _, c := small(t, learn, part(all, 61), first, second); bytes.Equal(a, c) {
		t.Error("another seed of the reader changes nothing: is there a reader at all?")
	}
}
