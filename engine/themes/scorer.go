// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package themes

import "math"

// Weights are the parameters of the scorer. engine/train/cmd/themes fits them; their number and meaning change between
// versions.
type Weights struct {
	// Linear weighs the inputs themselves.
	Linear [numInputs]float32
	// Hidden weighs the inputs for each hidden unit.
	Hidden [numUnits][numInputs]float32
	// Out weighs the hidden units.
	Out [numUnits]float32
}

// numUnits is the number of hidden units of the scorer.
const numUnits = 6

// numInputs is the number of inputs of the scorer.
const numInputs = 24

// inputMissing is the index of the input that is 1 if a part of the theme is missing.
const inputMissing = 23

// inputs turns the features of a window into the inputs of the scorer, most of them from 0 to 1.
func (f *features) inputs(p *plan) (x [numInputs]float32) {
	lexical, mean, both, bothMean := float32(1), float32(0), float32(1), float32(0)
	closest := float32(0)
	var covered, total, rarest float32
	for i := range p.parts {
		l, b, z, c, t, m := f.partEvidence(p, &p.parts[i])
		covered, total, rarest = covered+c, total+t, max(rarest, m)
		lexical, both = min(lexical, l), min(both, b)
		mean += l / float32(len(p.parts))
		bothMean += b / float32(len(p.parts))
		closest += z / float32(len(p.parts))
	}
	compound := float32(0)
	if p.compound() {
		compound = 1
	}
	rare := min(p.rarity, 20) / 20
	x[0] = 1
	x[1] = lexical
	x[2] = mean
	x[3] = both
	x[4] = bothMean
	x[5] = f.top[0] / maxCloseness
	x[6] = (f.top[0] + f.top[1]) / (2 * maxCloseness)
	x[7] = (f.top[0] + f.top[1] + f.top[2] + f.top[3]) / (4 * maxCloseness)
	x[8] = float32(min(f.words, 4)) / 4
	x[9] = compound
	x[10] = rare
	x[11] = lexical * rare
	x[12] = f.context
	x[13] = max(f.context-0.3, 0)
	x[14] = float32(math.Log1p(float64(f.filled))) / 4
	x[15] = float32(math.Log(float64(max(f.windows, 1)))) / 5
	x[16] = lexical * f.context
	x[17] = closest / maxCloseness
	x[18] = covered / max(total, 1)
	x[19] = rarest / 20
	x[20] = f.rest
	x[21] = f.rest * lexical
	if compound > 0 {
		x[inputMissing] = f.missing(p)
	}
	x[22] = covered / max(total, 1) * x[20]
	return x
}

// compound reports whether a theme has several words that a text needs. So has a theme that is a known phrase, beside
// the choice of the phrase as a whole.
func (p *plan) compound() bool {
	for i := range p.parts {
		for _, c := range p.parts[i].choices {
			if len(p.parts) > 1 || len(c.slots) > 1 {
				return true
			}
		}
	}
	return false
}

// missing returns 1 if a window lacks too many words of a theme, else 0. A word is there by lexical evidence or by
// closeness in use. Of one or two words all must be there; of three, one may be missing unless it is a part by
// itself; of more, a third may. Optional words do not count.
func (f *features) missing(p *plan) float32 {
	words, absent := 0, 0
	wholly := false
	for i := range p.parts {
		bestWords, bestAbsent := 0, math.MaxInt
		for _, c := range p.parts[i].choices {
			n, missing := 0, 0
			for _, s := range c.slots {
				if p.slots[s].optional {
					continue
				}
				n++
				if max(f.lexical[s], f.close[s]/maxCloseness) < presence {
					missing++
				}
			}
			if missing < bestAbsent {
				bestWords, bestAbsent = n, missing
			}
		}
		words, absent = words+bestWords, absent+bestAbsent
		wholly = wholly || bestWords > 0 && bestAbsent == bestWords
	}
	if words <= 2 && absent > 0 || words == 3 && (wholly || absent > 1) || words > 3 && absent*3 > words {
		return 1
	}
	return 0
}

// presence is the evidence from which a word of a theme is there.
const presence = 0.35

// partEvidence returns how far a part of the theme is there: by lexical evidence, by that or closeness in use, and by
// closeness alone; then the rarity that its lexical evidence covers, the total rarity, and the rarity of the rarest
// word that is there.
func (f *features) partEvidence(p *plan, part *part) (lexical, both, closest, covered, total, rarest float32) {
	bestShare := float32(-1)
	for i := range part.choices {
		slots := part.choices[i].slots
		l, b := float32(1), float32(1)
		var optional, weight, z, c, t float32
		for _, s := range slots {
			slot := &p.slots[s]
			w := slot.weight
			soft := max(f.lexical[s], min(f.close[s]/maxCloseness, 0.6))
			if w >= 1 {
				l, b = min(l, f.lexical[s]), min(b, soft)
			}
			optional += w * f.lexical[s]
			z += w * f.close[s]
			weight += w
			c += w * slot.rarity * f.lexical[s]
			t += w * slot.rarity
			rarest = max(rarest, w*slot.rarity*f.lexical[s])
		}
		// Optional words are not needed, but add to the evidence.
		l *= 0.85 + 0.15*optional/weight
		lexical, both, closest = max(lexical, l), max(both, b), max(closest, z/weight)
		if share := c / max(t, 1); share > bestShare {
			bestShare, covered, total = share, c, t
		}
	}
	return lexical, both, closest, covered, total, rarest
}

// A window that lacks a part of the theme counts only missingShare of its logit above missingCap. The fit alone is too
// lenient: one rare word often stands for a whole theme, but "bicycle for sale" is not "theft of bicycles".
const (
	missingCap   = -1.5
	missingShare = 0.2
)

// logit scores the inputs of a window: a logistic regression, with a small hidden layer beside it for the
// interactions of the inputs. weights.go holds the weights that engine/train/cmd/themes fitted.
func (m *Weights) logit(x *[numInputs]float32) float64 {
	var sum float32
	for i, v := range x {
		sum += m.Linear[i] * v
	}
	for u := range m.Hidden {
		var act float32
		for i, v := range x {
			act += m.Hidden[u][i] * v
		}
		// Softsign has the shape of the hyperbolic tangent and costs only a division.
		sum += m.Out[u] * act / (1 + max(act, -act))
	}
	if x[inputMissing] > 0 && sum > missingCap {
		return min(missingCap+missingShare*float64(sum-missingCap), -0.1)
	}
	return float64(sum)
}
