// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package train

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// Split is what a text is used for.
type Split uint8

// The splits.
const (
	// Training texts are those that weights are fitted on.
	Training Split = iota
	// Calibration texts are those that probabilities are fitted on.
	Calibration
	// Test texts are those that the report's figures come from. Nothing is fitted on them.
	Test
)

// Dataset holds the examples without duplicates, by split.
type Dataset struct {
	// Splits holds the examples of each split.
	Splits [Test + 1][]Example
	// Digest is the SHA-256 over all examples, in hex.
	Digest string
}

// heldOutFiles are the files of the corpus that a development run holds out as a whole for the test split. They have
// other authors and voices than the rest, so they predict figures on unknown text better than random rows do.
var heldOutFiles = []string{"code_dev", "long", "posts", "voices"}

// NewDataset removes duplicates and splits. The split of a text depends only on its own letters, or on its file or
// group, so it is always the same. With ship, no whole files are held out, so that the shipped weights learn from all
// authors.
func NewDataset(all []Example, ship bool) *Dataset {
	first := make(map[uint64]int, len(all))
	var kept []Example
	var keys []uint64
	for _, e := range all {
		k := key(e.Text)
		i, seen := first[k]
		if !seen {
			first[k] = len(kept)
			kept, keys = append(kept, e), append(keys, k)
			continue
		}
		merge(&kept[i], &e)
	}
	d := new(Dataset)
	digest := sha256.New()
	for i, e := range kept {
		fmt.Fprintf(digest, "%q", e.Text)
		for _, l := range e.Labels {
			b := binary.LittleEndian.AppendUint32(nil, math.Float32bits(l.Value))
			digest.Write(binary.LittleEndian.AppendUint32(b, math.Float32bits(l.Weight)))
		}
		s := split(&e, keys[i], ship)
		d.Splits[s] = append(d.Splits[s], e)
	}
	d.Digest = fmt.Sprintf("%x", digest.Sum(nil))
	return d
}

// merge adds the labels of a second row with the same text. Rows of the corpus come first and are not overruled; later
// ones fill in missing labels.
func merge(into, e *Example) {
	for h := range into.Labels {
		if !into.Labelled(h) {
			into.Labels[h] = e.Labels[h]
		}
	}
}

// split returns the split of an example with the given key.
func split(e *Example, key uint64, ship bool) Split {
	if e.Source == mixedIn {
		return Training // it says nothing of the language itself
	}
	if e.Measured || !ship && slices.Contains(heldOutRegisters, e.Register) {
		return Test
	}
	if !ship && e.InCorpus {
		if slices.Contains(heldOutFiles, e.Source) || e.Group > 0 && e.Group%4 == 0 {
			return Test
		}
	}
	switch n := key % 100; {
	case e.InCorpus && e.Group > 0:
		// The texts of a group stay together: they differ by a word.
		if e.Group%10 == 1 {
			return Calibration
		}
		return Training
	case n < 8:
		return Calibration
	case n < 16 && !ship, n < 11:
		return Test
	}
	return Training
}

// Sample keeps all examples of the corpus, and one in every of the others.
func Sample(examples []Example, every int) []Example {
	if every <= 1 {
		return examples
	}
	var out []Example
	for i, e := range examples {
		if e.InCorpus || i%every == 0 {
			out = append(out, e)
		}
	}
	return out
}

// Reweigh multiplies the weights of the category labels that come from public sources.
func Reweigh(examples []Example, factor float32) {
	for i := range examples {
		if e := &examples[i]; !e.InCorpus {
			for h := range categories {
				e.Labels[h].Weight *= factor
			}
		}
	}
}
