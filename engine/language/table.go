// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package language

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/caddy-moderation/caddy-moderation/engine/internal/kernel"
)

// maxLanes is the largest number of languages in a group.
const maxLanes = 48

// table maps the hashes of features to rows of a byte for each language, 128 being zero.
type table struct {
	lanes  int      // a multiple of 8, or 0 for no table
	bits   uint     // binary logarithm of the number of rows
	rows   []uint64 // lanes/8 per row
	scales []float32
	biases []float32
}

// flushAfter is the number of features whose bytes fit in the 16 bits in which they are added up.
const flushAfter = 256

// logits adds up the rows of the features:
//
//	logit = bias + scale * sum / sqrt(features)
func (t *table) logits(features []uint64, out *[maxLanes]float32) {
	var sums [maxLanes]int32
	words := t.lanes / 8
	shift := 64 - t.bits
	for rest := features; len(rest) > 0; {
		some := rest[:min(len(rest), flushAfter)]
		rest = rest[len(some):]
		if t.lanes == kernel.Wide {
			var wide [kernel.Wide]uint16
			kernel.AddHashed(&wide, t.rows, some, shift)
			for i, n := range wide {
				sums[i] += int32(n)
			}
			continue
		}
		var even, odd [maxLanes / 8]uint64
		for _, h := range some {
			at := int(h>>shift) * words
			for k, row := range t.rows[at : at+words] {
				even[k] += row & 0x00ff00ff00ff00ff
				odd[k] += row >> 8 & 0x00ff00ff00ff00ff
			}
		}
		for k := range words {
			for i := range 4 {
				sums[8*k+2*i] += int32(even[k] >> (16 * i) & 0xffff)
				sums[8*k+2*i+1] += int32(odd[k] >> (16 * i) & 0xffff)
			}
		}
	}
	zero := int32(128 * len(features))
	norm := float32(1 / math.Sqrt(float64(len(features))))
	for i := range t.lanes {
		out[i] = t.biases[i] + t.scales[i]*float32(sums[i]-zero)*norm
	}
}

// magic begins a weights file. Its last byte is the version.
const magic = "CADDYLNG\x01"

// errWeights reports weights that are not what this build reads.
var errWeights = errors.New("weights of the language detector are not valid")

// decode reads the weights: after the magic, for each group the number of lanes, the binary logarithm of the number of
// rows, the scales, the biases and the rows.
func decode(file []byte) (*Detector, error) {
	if len(file) < len(magic) || string(file[:len(magic)]) != magic {
		return nil, fmt.Errorf("%w: no such file", errWeights)
	}
	file = file[len(magic):]
	d := new(Detector)
	for g := range d.tables {
		t := &d.tables[g]
		if len(file) < 2 {
			return nil, errWeights
		}
		t.lanes, t.bits = int(file[0]), uint(file[1])
		file = file[2:]
		size := 8*t.lanes + t.lanes<<t.bits
		if t.lanes > maxLanes || t.lanes%8 != 0 || t.lanes < len(groupTags[g]) || t.bits > 20 || len(file) < size {
			return nil, fmt.Errorf("%w: group %d", errWeights, g)
		}
		for range 2 {
			values := make([]float32, t.lanes)
			for i := range values {
				values[i] = math.Float32frombits(binary.LittleEndian.Uint32(file[4*i:]))
			}
			file = file[4*t.lanes:]
			if t.scales == nil {
				t.scales = values
			} else {
				t.biases = values
			}
		}
		t.rows = make([]uint64, t.lanes/8<<t.bits)
		for i := range t.rows {
			t.rows[i] = binary.LittleEndian.Uint64(file[8*i:])
		}
		file = file[t.lanes<<t.bits:]
	}
	if len(file) > 0 {
		return nil, errWeights
	}
	for g, tags := range groupTags {
		for lane, tag := range tags {
			d.tables[g].biases[lane] += priors[tag]
		}
	}
	return d, nil
}
