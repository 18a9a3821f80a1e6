// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package themes

import "math"

// numInputs is the number of inputs of the scorer.
const numInputs = 23

// inputs are the features as the scorer weighs them, each about 0 to 1.
func (f *features) inputs(p *plan) (x [numInputs]float32) {
	least, mean, both, bothMean := float32(1), float32(0), float32(1), float32(0)
	closest := float32(0)
	var covered, total, rarest float32
	for i := range p.parts {
		l, b, z, c, t, m := f.part(p, &p.parts[i])
		covered, total, rarest = covered+c, total+t, max(rarest, m)
		least, both = min(least, l), min(both, b)
		mean += l / float32(len(p.parts))
		bothMean += b / float32(len(p.parts))
		closest += z / float32(len(p.parts))
	}
	many := float32(0)
	if len(p.parts) > 1 || len(p.parts[0].choices[0].slots) > 1 {
		many = 1
	}
	rare := min(p.rarity, 20) / 20
	x[0] = 1
	x[1] = least
	x[2] = mean
	x[3] = both
	x[4] = bothMean
	x[5] = f.top[0] / mostClose
	x[6] = (f.top[0] + f.top[1]) / (2 * mostClose)
	x[7] = (f.top[0] + f.top[1] + f.top[2] + f.top[3]) / (4 * mostClose)
	x[8] = float32(min(f.words, 4)) / 4
	x[9] = many
	x[10] = rare
	x[11] = least * rare
	x[12] = f.context
	x[13] = max(f.context-0.3, 0)
	x[14] = float32(math.Log1p(float64(f.filled))) / 4
	x[15] = float32(math.Log(float64(max(f.windows, 1)))) / 5
	x[16] = least * f.context
	x[17] = closest / mostClose
	x[18] = covered / max(total, 1)
	x[19] = rarest / 20
	x[20] = f.rest
	x[21] = f.rest * least
	x[22] = covered / max(total, 1) * x[20]
	return x
}

// part returns how far a part of the theme is there: by lexical evidence, by that or closeness in use, and the
// closeness alone; then the rarity that its lexical evidence covers of the total, and the rarest word that is there.
func (f *features) part(p *plan, part *part) (lexical, both, closest, covered, total, rarest float32) {
	bestShare := float32(-1)
	for i := range part.choices {
		slots := part.choices[i].slots
		l, b := float32(1), float32(1)
		var lightly, weight, z, c, t float32
		for _, s := range slots {
			slot := &p.slots[s]
			w := slot.weight
			soft := max(f.lexical[s], min(f.close[s]/mostClose, 0.6))
			if w >= 1 {
				l, b = min(l, f.lexical[s]), min(b, soft)
			}
			lightly += w * f.lexical[s]
			z += w * f.close[s]
			weight += w
			c += w * slot.rarity * f.lexical[s]
			t += w * slot.rarity
			rarest = max(rarest, w*slot.rarity*f.lexical[s])
		}
		// What is light does not have to be there, but adds.
		l *= 0.85 + 0.15*lightly/weight
		lexical, both, closest = max(lexical, l), max(both, b), max(closest, z/weight)
		if share := c / max(t, 1); share > bestShare {
			bestShare, covered, total = share, c, t
		}
	}
	return lexical, both, closest, covered, total, rarest
}

// weigh scores the inputs of a window: a logistic regression with a small hidden layer beside it, which knows how the
// inputs depend on each other. weights.go holds what engine/themes/fit found.
func weigh(x *[numInputs]float32) float64 {
	var sum float32
	for i, v := range x {
		sum += linearWeights[i] * v
	}
	for u := range hiddenWeights {
		var act float32
		for i, v := range x {
			act += hiddenWeights[u][i] * v
		}
		// The soft sign bends like the hyperbolic tangent and costs a division.
		sum += outWeights[u] * act / (1 + max(act, -act))
	}
	return float64(sum)
}
