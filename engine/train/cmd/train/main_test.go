// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/engine/train"
)

// Hazard: one in no text at all is a division by zero or a loop without an end, half an hour after the start. So are
// more texts than there are, and a threshold that no file can hold. Or a training begins where one file was meant.
func TestFlagsAreChecked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ flags, want string }{
		{"", ""},
		{"--plain-one-of 1 --pretrain-one-of 1", ""},
		{"--pretrain-one-of 0", ""},
		{"--plain-one-of 0", "--plain-one-of wants"},
		{"--plain-one-of -8", "--plain-one-of wants"},
		{"--pretrain-one-of -1", "--pretrain-one-of one from 0"},
		{"--mined 0 --mining-rounds 0", ""},
		{"--mined 1 --mining-rounds 3", ""},
		{"--mined 1.01", "--mined wants a share"},
		{"--mined -0.01", "--mined wants a share"},
		{"--mined NaN", "--mined wants a share"},
		{"--mining-rounds -1", "--mining-rounds a number from 0"},
		{"--cnn-threshold 0.5", ""},
		{"--cnn-threshold 0", "--cnn-threshold wants"},
		{"--cnn-threshold 1", "--cnn-threshold wants"},
		{"--cnn-threshold NaN", "--cnn-threshold wants"},
		{"--calibrate", "need the weights file of --model"},
		{"--exam exam.jsonl", "need the weights file of --model"},
		{"--model a --calibrate", ""},
		{"--model a --exam exam.jsonl", ""},
	} {
		_, err := parseOptions(strings.Fields(c.flags))
		if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got error %v, want %q", c.flags, err, c.want)
		}
	}
}

// The data sheet counts with the same shares unless it is told otherwise.
func TestTrainingUsesTheDefaultPreparation(t *testing.T) {
	t.Parallel()
	o, err := parseOptions(nil)
	if err != nil {
		t.Fatal(err)
	}
	got := train.Preparation{PublicWeight: o.publicWeight, PlainEvery: o.plainEvery, Copies: o.copies}
	if want := train.DefaultPreparation(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
