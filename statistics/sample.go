// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package statistics

import (
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"slices"
)

// maxCategories is how many probabilities a text has at most.
const maxCategories = 16

// sampled is a text of a sample.
type sampled struct {
	// rank is random. The sample of a day are the texts with the lowest ranks, so that samples of several nodes can be
	// put together: bottom-k sampling (Cohen and Kaplan, 2007).
	rank uint32
	n    uint8
	// values are the probabilities, in steps of 1/65535.
	values [maxCategories]uint16
}

// sample are the texts of a sample, in no order.
type sample struct {
	texts []sampled
	// worst is the place of the highest rank, if the sample is full.
	worst int
}

// add adds a text, unless the sample is full of lower ranks. It reports whether it did.
func (s *sample) add(t *sampled) bool {
	if len(s.texts) < SampleSize {
		s.texts = append(s.texts, *t)
	} else {
		if t.rank >= s.texts[s.worst].rank {
			return false
		}
		s.texts[s.worst] = *t
	}
	if len(s.texts) == SampleSize {
		s.worst = 0
		for i := range s.texts {
			if s.texts[i].rank > s.texts[s.worst].rank {
				s.worst = i
			}
		}
	}
	return true
}

func (s *sample) addAll(other sample) {
	for i := range other.texts {
		s.add(&other.texts[i])
	}
}

// textOf returns a text with a rank.
func textOf(rank uint32, probabilities []float64) (t sampled) {
	t.rank, t.n = rank, uint8(min(len(probabilities), maxCategories))
	for i := range t.n {
		t.values[i] = uint16(math.Round(min(max(probabilities[i], 0), 1) * math.MaxUint16))
	}
	return t
}

// probabilities returns the probabilities of the texts.
func (s *sample) probabilities() [][]float64 {
	all := make([][]float64, len(s.texts))
	for i := range s.texts {
		t := &s.texts[i]
		all[i] = make([]float64, t.n)
		for j := range t.n {
			all[i][j] = float64(t.values[j]) / math.MaxUint16
		}
	}
	return all
}

// sampleForm is the first byte of a stored sample. Each text follows: its rank, the number of its probabilities, and
// those.
const sampleForm = 1

func (s *sample) encode() []byte {
	// In order, so that the same sample is the same value.
	slices.SortFunc(s.texts, func(a, b sampled) int { return cmp.Compare(a.rank, b.rank) })
	s.worst = len(s.texts) - 1
	value := []byte{sampleForm}
	for i := range s.texts {
		t := &s.texts[i]
		value = binary.BigEndian.AppendUint32(value, t.rank)
		value = append(value, t.n)
		for _, v := range t.values[:t.n] {
			value = binary.BigEndian.AppendUint16(value, v)
		}
	}
	return value
}

var errSample = errors.New("the statistics of a day cannot be read: the sample is damaged")

// decode adds what a stored sample has.
func (s *sample) decode(value []byte) error {
	if len(value) == 0 {
		return nil
	}
	if value[0] != sampleForm {
		return errSample
	}
	for value = value[1:]; len(value) > 0; {
		if len(value) < 5 || value[4] > maxCategories || len(value) < 5+2*int(value[4]) {
			return errSample
		}
		t := sampled{rank: binary.BigEndian.Uint32(value), n: value[4]}
		for i := range t.n {
			t.values[i] = binary.BigEndian.Uint16(value[5+2*int(i):])
		}
		s.add(&t)
		value = value[5+2*int(t.n):]
	}
	return nil
}
