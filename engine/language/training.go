// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package language

import (
	"encoding/binary"
	"math"
	"slices"
)

// Sample is what the trainer sees of a text: the place of its language among those that are told apart by their
// letters, and the hashes of its features.
type Sample struct {
	// Group and Lane are the place of the language. Both are -1 where the script alone says the language.
	Group, Lane int
	// Features are hashes, of which the high bits choose a row. They are valid until the next call.
	Features []uint64
}

// Sampler makes samples. It is not safe for concurrent use.
type Sampler struct{ s scratch }

// Sample makes a sample of a text in a language, one of [Tags]. The features are those of the letters in the script of
// the language.
func (p *Sampler) Sample(tag, text string) Sample {
	p.s.read(text, maxLetters, maxLetters)
	for g, tags := range groupTags {
		if lane := slices.Index(tags, tag); lane >= 0 {
			return Sample{Group: g, Lane: lane, Features: p.s.features[g]}
		}
	}
	return Sample{Group: -1, Lane: -1}
}

// GroupSizes returns the number of languages of each group of languages that share a script.
func GroupSizes() []int {
	var sizes []int
	for _, tags := range groupTags {
		sizes = append(sizes, len(tags))
	}
	return sizes
}

// Encode writes a weights file. For each group, weights holds 1<<bits rows with a weight for each language of the
// group, and biases a number for each language. Weights are rounded to a byte with a scale for each language.
func Encode(bits []uint, weights [][]float32, biases [][]float32) []byte {
	out := []byte(magic)
	for g, tags := range groupTags {
		n := len(tags)
		lanes := (n + 7) / 8 * 8
		out = append(out, byte(lanes), byte(bits[g]))
		scales := make([]float32, lanes)
		for lane := range n {
			sizes := make([]float32, 0, len(weights[g])/n)
			for i := lane; i < len(weights[g]); i += n {
				sizes = append(sizes, float32(math.Abs(float64(weights[g][i]))))
			}
			slices.Sort(sizes)
			// The few largest weights are clipped, because finer steps for all others are worth more.
			scales[lane] = max(sizes[len(sizes)-1-len(sizes)/2000]/127, 1e-6)
		}
		for _, s := range scales {
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(s))
		}
		for lane := range lanes {
			bias := float32(0)
			if lane < n {
				bias = biases[g][lane]
			}
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(bias))
		}
		for row := range 1 << bits[g] {
			for lane := range lanes {
				q := 0.0
				if lane < n {
					q = math.Round(float64(weights[g][row*n+lane] / scales[lane]))
				}
				out = append(out, byte(int(min(max(q, -127), 127))+128))
			}
		}
	}
	return out
}

// Load reads a weights file that [Encode] made.
func Load(file []byte) (*Detector, error) { return decode(file) }
