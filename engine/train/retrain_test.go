// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package train_test

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/engine/cnn"
	"github.com/caddy-moderation/caddy-moderation/engine/evaluate"
	"github.com/caddy-moderation/caddy-moderation/engine/model"
	"github.com/caddy-moderation/caddy-moderation/engine/train"
)

// part returns one in every of the examples.
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

// anyCategory returns the AUC of "any of the five categories" by a score of texts.
func anyCategory(examples []train.Example, score func(content string) float64) float64 {
	var scored []evaluate.Scored
	for i := range examples {
		e := &examples[i]
		scored = append(scored, evaluate.Scored{Score: score(e.Text), Positive: !e.Harmless()})
	}
	return evaluate.AUC(scored)
}

// byCascade scores a text by the largest ratio of a category's odds to those of its threshold.
func byCascade(m *model.Model) func(string) float64 {
	return func(content string) float64 {
		p, best := m.Probabilities(content), 0.0
		for h, threshold := range train.Thresholds[:5] {
			best = max(best, p[h]/(1-p[h]+1e-12)*(1-threshold)/threshold)
		}
		return best
	}
}

// byCNN scores a text by the largest logit that the network alone gives to a category.
func byCNN(m *model.Model) func(string) float64 {
	return func(content string) float64 {
		best := math.Inf(-1)
		for _, w := range m.Logits(content).LargeCNN {
			best = max(best, slices.Max(w.CNN[:5]))
		}
		return best
	}
}

// small trains a small cascade the way the shipped one is trained: linear model, network, calibration.
func small(
	t *testing.T, training, calibration []train.Example, linear train.Options, network train.CNNOptions,
) (*train.Fitted, []byte) {
	t.Helper()
	training = slices.Concat(training,
		train.Augment(training, 0.1, 1), train.Surround(training, 0.1, 1), train.Swap(training, 0.1, 1))
	fitted := train.Fit(training, linear)
	fitted.Weights.CNN = train.FitCNN(training, fitted, network)
	raw, err := fitted.File()
	if err != nil {
		t.Fatalf("writing the weights: %v", err)
	}
	file, err := train.Calibrate(raw, calibration, 0.1, 1)
	if err != nil {
		t.Fatalf("calibrating: %v", err)
	}
	return fitted, file
}

// calibratedLike returns a file of the fitted weights with the calibration of a model.
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

// coarsened rounds a weight of eight bits to seven, which errs as much again as the rounding to eight bits did.
func coarsened(w int8) int8 { return w / 2 * 2 }

// TestASmallModelLearnsFromTheCorpus runs a whole training on a part of the corpus and classifies held-out texts. It
// catches changes that break the reading of the corpus, the training of either stage, the calibration or the rounding,
// which would otherwise show only in the next training.
func TestASmallModelLearnsFromTheCorpus(t *testing.T) {
	t.Parallel()
	if racing {
		t.Skip("ten times slower with the race detector; TestTheSameDataGivesTheSameCascade has the same goroutines")
	}
	all, err := train.Read(repositoryCorpus(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	dataset := train.NewDataset(all, false)
	heldOut := part(dataset.Splits[train.Test], 4)
	fitted, file := small(t, part(dataset.Splits[train.Training], 5), part(dataset.Splits[train.Calibration], 3),
		train.Options{Epochs: 3, Buckets: 1 << 15, Rows: 120_000, Seed: 1}, train.CNNOptions{Epochs: 4, Seed: 1})
	m := load(t, file)
	got := anyCategory(heldOut, byCascade(m))
	for _, c := range []struct {
		name       string
		auc, bound float64
	}{
		{"both stages", got, 0.75},
		{"the network alone", anyCategory(heldOut, byCNN(m)), 0.65},
	} {
		if t.Logf("%s: AUC %.4f on %d texts", c.name, c.auc, len(heldOut)); c.auc < c.bound {
			t.Errorf("%s: AUC of any category on held-out texts is %.3f, want at least %.2f", c.name, c.auc, c.bound)
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
		"a network of seven bits": func(f *train.Fitted) {
			bytes := f.Weights.CNN.Marshal()
			words := int(bytes[0]) | int(bytes[1])<<8 | int(bytes[2])<<16 | int(bytes[3])<<24
			for i := len(bytes) - (words+cnn.SubwordRows)*cnn.Channels; i < len(bytes); i++ {
				bytes[i] = byte(coarsened(int8(bytes[i])))
			}
			if f.Weights.CNN, err = cnn.Unmarshal(bytes); err != nil {
				t.Fatal(err)
			}
		},
		"a fifth of the rows pruned": func(f *train.Fitted) {
			f.Weights.Rows = f.Weights.Rows[:len(f.Weights.Rows)*4/5]
		},
	} {
		other := *fitted
		other.Weights.Rows = slices.Clone(fitted.Weights.Rows)
		change(&other)
		auc := anyCategory(heldOut, byCascade(load(t, calibratedLike(t, m, &other))))
		if t.Logf("%s: AUC %.4f", name, auc); auc < got-loss {
			t.Errorf("%s: AUC is %.4f less than the %.4f without that, want at most %.3f less",
				name, got-auc, got, loss)
		}
	}
}

// The bytes of a cascade are reproducible, also those of the network, which is trained on several goroutines.
func TestTheSameDataGivesTheSameCascade(t *testing.T) {
	t.Parallel()
	all, err := train.Read(repositoryCorpus(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	training, calibration := part(all, 120), part(all, 61)
	linear := train.Options{Epochs: 1, Buckets: 1 << 13, Rows: 20_000, Seed: 1}
	network := train.CNNOptions{Epochs: 1, Seed: 1}
	_, a := small(t, training, calibration, linear, network)
	_, b := small(t, training, calibration, linear, network)
	if !bytes.Equal(a, b) {
		t.Error("two trainings on the same data gave different bytes, want the same")
	}
	network.Seed = 2
	if _, c := small(t, training, calibration, linear, network); bytes.Equal(a, c) {
		t.Error("another seed of the network gave the same bytes, want others: is there a network at all?")
	}
}
