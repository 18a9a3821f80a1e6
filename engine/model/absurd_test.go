// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"bytes"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/engine/cnn"
	"github.com/caddy-moderation/caddy-moderation/engine/model"
)

// Hazard: finite but absurd weights give probabilities that are not numbers, which JSON cannot hold.
func TestAbsurdWeightsGiveProbabilities(t *testing.T) {
	t.Parallel()
	all := make([]float32, cnn.DenseSize)
	for i := range all {
		all[i] = 3e38
		if i/cnn.Outputs%2 == 1 && i%3 > 0 {
			all[i] = -3e38
		}
	}
	h := header()
	h.CNNThreshold = -100
	for i := range h.Calibration {
		h.Calibration[i].Both = model.Curve{Large: 1, CNN: 1}
		h.Calibration[i].Long = model.LongCurve{Max: 1}
	}
	var file bytes.Buffer
	absurd := cnn.New(cnn.NewDense(all), nil, make([]float32, cnn.SubwordRows*cnn.Channels), 127)
	if err := model.Write(&file, h, model.Weights{Words: wordList("some", "words"), CNN: absurd}); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		"some words", "Some words. More words. Some more. And words. And more. All words. No words.",
	} {
		for head, p := range load(t, file.Bytes()).Probabilities(text) {
			if !(p >= 0 && p <= 1) {
				t.Errorf("%s of %q is %v, want a probability", model.HeadNames[head], text, p)
			}
		}
	}
}
