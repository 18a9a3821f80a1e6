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

// Split says what a text is used for.
type Split uint8

// The splits.
const (
	// Training is what the weights are fitted on.
	Training Split = iota
	// Calibration is what the probabilities are calibrated on.
	Calibration
	// Test is what the figures of the report come from. Nothing is fitted on it.
	Test
)

// Pool holds the examples without duplicates, by split.
type Pool struct {
	Splits [Test + 1][]Example
	// Digest is the SHA-256 over all examples, in hex.
	Digest string
}

// strangers are the written files that a development run holds back as a whole: other hands and voices than those of
// the rest, which predicts strangers' text better than random rows do.
var strangers = []string{"code_dev", "long", "posts", "voices"}

// NewPool removes duplicates and splits. A text always lands in the same split: the split depends on its own letters,
// or on its file or group. With ship, whole files are not held back, so that the shipped weights learn from all hands.
func NewPool(all []Example, ship bool) *Pool {
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
	p := new(Pool)
	digest := sha256.New()
	for i, e := range kept {
		fmt.Fprintf(digest, "%q", e.Text)
		for _, l := range e.Labels {
			digest.Write(binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, math.Float32bits(l.Value)), math.Float32bits(l.Weight)))
		}
		s := split(&e, keys[i], ship)
		p.Splits[s] = append(p.Splits[s], e)
	}
	p.Digest = fmt.Sprintf("%x", digest.Sum(nil))
	return p
}

// merge adds what a second row of the same text says. The rows that were labelled for this project come first and
// are not overruled; other sources fill in the heads that are missing.
func merge(into, e *Example) {
	for h := range into.Labels {
		if !into.Labelled(h) {
			into.Labels[h] = e.Labels[h]
		}
	}
}

func split(e *Example, key uint64, ship bool) Split {
	if !ship && e.InCorpus {
		if slices.Contains(strangers, e.Source) || e.Group > 0 && e.Group%4 == 0 {
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

// Sample keeps all examples that were labelled for this project and one of every so many of the others.
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

// Reweigh multiplies the weight of the category labels that scraped rows carry.
func Reweigh(examples []Example, factor float32) {
	for i := range examples {
		if e := &examples[i]; !e.InCorpus {
			for h := range categories {
				e.Labels[h].Weight *= factor
			}
		}
	}
}
