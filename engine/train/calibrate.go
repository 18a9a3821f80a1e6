// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package train

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/caddy-moderation/caddy-moderation/engine/model"
)

// usualHarmShare is the share of traffic to which some category is assumed to apply. A threshold of 0.7 means little
// without it: the same ranking gives lower probabilities where harm is rarer. It is chosen by the false alarms on
// ordinary text that the default thresholds then give; operators say their own share ([model.Header.HarmShare]).
const usualHarmShare = 0.12

// priors are the shares of the harmful traffic to which each category is assumed to apply, and each attribute. Texts
// may have several categories.
var priors = [categories + 1]float64{
	hate: 0.28, harassment: 0.24, selfHarm: 0.18, sexual: 0.2, violence: 0.18, categories: 0.28,
}

// In other languages than English, the assumed traffic has otherHarmShare of harm, and otherPriors are the shares of it
// to which each category applies. These too are chosen by the false alarms on ordinary text. The training texts have
// much on hate, which hardly ever alarms ordinary text, and little on self-harm, whose threshold is the lowest.
const otherHarmShare = 0.08

var otherPriors = [categories + 1]float64{
	hate: 0.4, harassment: 0.24, selfHarm: 0.12, sexual: 0.18, violence: 0.15, categories: 0.28,
}

// ordinary is the assumed share of ordinary text in the harmless traffic. The rest looks like harm.
const ordinary = 0.8

// Calibrate fits the curves that turn logits into probabilities, on examples that the weights were not fitted on, and
// returns the finished weights file. Of the file's calibration it keeps only the scales and biases.
//
// The share of harm in the traffic is that of the file's header.
//
// cnnThreshold is the probability of a category, by the linear model alone, above which the network classifies a text,
// too.
func Calibrate(file []byte, examples []Example, cnnThreshold float64, seed uint64) ([]byte, error) {
	threshold := math.Log(cnnThreshold / (1 - cnnThreshold))
	m, err := model.Load(bytes.NewReader(file))
	if err != nil {
		return nil, fmt.Errorf("loading the weights: %w", err)
	}
	header := m.Header()
	c, shares := header.Calibration, priors
	if header.Language != "" {
		shares = otherPriors
	}
	prior := func(h int) float64 {
		return shares[min(h, categories)] * cmp.Or(header.HarmShare, model.DefaultHarmShare)
	}
	for h := range c {
		c[h] = model.Calibration{Scale: c[h].Scale, Bias: c[h].Bias, Alone: model.Curve{Large: 1}}
	}
	if file, m, err = recalibrate(file, threshold, c); err != nil {
		return nil, err
	}
	asWritten := logitsOf(m, examples)
	lengthened := logitsOf(m, Lengthen(examples, seed))
	for h := range c {
		curve := &c[h].Alone
		terms := func(e scored) [5]float64 { return e.Terms(h, curve) }
		setCurve(curve, logistic(pointsOf(asWritten, h, prior(h), terms), [5]bool{0: true, 2: true, 4: true}))
		curve.Length = lengthPenalty(asWritten, lengthened, h, curve)
	}
	// Which texts the network classifies depends on the calibration of the linear model alone.
	if file, m, err = recalibrate(file, threshold, c); err != nil {
		return nil, err
	}
	var short, long []scored
	for _, e := range append(logitsOf(m, examples), logitsOf(m, Lengthen(examples, seed))...) {
		if len(e.SmallCNN) > 0 {
			long = append(long, e)
		} else {
			short = append(short, e)
		}
	}
	for h := range c {
		both := &c[h].Both
		both.Large, both.CNN = 1, 0.5
		terms := func(e scored) [5]float64 { return e.Terms(h, both) }
		for range 3 { // which window has the largest logit depends on the curve
			points := aboveThreshold(pointsOf(short, h, prior(h), terms), threshold)
			setCurve(both, logistic(points, [5]bool{0: true, 1: true, 2: true, 4: true}))
		}
		terms = func(e scored) [5]float64 { return e.LongTerms(h, both) }
		points := aboveThreshold(pointsOf(long, h, prior(h), terms), threshold)
		w := logistic(points, [5]bool{true, true, true, true, true})
		c[h].Long = model.LongCurve{Window: w[0], Sentence: w[1], Max: w[2], Length: w[3], Offset: w[4]}
	}
	file, _, err = recalibrate(file, threshold, c)
	return file, err
}

// recalibrate returns a weights file with another calibration, and its model.
func recalibrate(file []byte, cnnThreshold float64, c [model.Heads]model.Calibration) ([]byte, *model.Model, error) {
	var b bytes.Buffer
	if err := model.Recalibrate(&b, file, cnnThreshold, c); err != nil {
		return nil, nil, fmt.Errorf("calibrating: %w", err)
	}
	m, err := model.Load(bytes.NewReader(b.Bytes()))
	return b.Bytes(), m, err
}

func setCurve(c *model.Curve, w [5]float64) {
	*c = model.Curve{Large: w[0], CNN: w[1], Small: w[2], Length: w[3], Offset: w[4]}
}

// aboveThreshold keeps the points of texts that the network classifies.
func aboveThreshold(points []point, threshold float64) (out []point) {
	for _, p := range points {
		if p.maxLogit > threshold {
			out = append(out, p)
		}
	}
	return out
}

// scored is an example with its logits.
type scored struct {
	*Example
	model.Logits
}

func logitsOf(m *model.Model, examples []Example) []scored {
	out := make([]scored, len(examples))
	inParallel(len(examples), func(i int) { out[i] = scored{&examples[i], m.Logits(examples[i].Text)} })
	return out
}

// pointsOf makes the points of one head. It weighs positives, look-alikes and ordinary texts by their shares of the
// assumed traffic, of which prior is positive.
func pointsOf(all []scored, h int, prior float64, terms func(scored) [5]float64) []point {
	var points []point
	var yes, alike, plain float64
	for _, e := range all {
		usual := isOrdinary(e.Example)
		if !e.Labelled(h) || e.Source == "lexicon" || h < categories && !e.InCorpus && !usual {
			continue // positives of public sources do not follow the definitions of the categories
		}
		y := float64(e.Labels[h].Value)
		points = append(points, point{x: terms(e), y: y, ordinary: usual, maxLogit: e.Max})
		yes += y
		if usual {
			plain += 1 - y
		} else {
			alike += 1 - y
		}
	}
	share := float64(ordinary)
	if alike == 0 {
		share = 1
	} else if plain == 0 {
		share = 0
	}
	for i := range points {
		p := &points[i]
		no := (1 - prior) * (1 - share) / max(alike, 1)
		if p.ordinary {
			no = (1 - prior) * share / max(plain, 1)
		}
		positive := p.y * prior / max(yes, 1)
		p.weight = positive + (1-p.y)*no
		p.y = positive / p.weight
	}
	return points
}

// isOrdinary reports whether an example comes from a source of everyday harmless text.
func isOrdinary(e *Example) bool {
	if e.Register != "" {
		return e.Harmless()
	}
	if e.Source == "goemotions_reddit" {
		return e.Labelled(hate)
	}
	return strings.HasPrefix(e.Source, "clean_") || e.Source == "everyday"
}

// point is what the curve of one head is fitted on.
type point struct {
	x        [5]float64 // the terms of the curve
	y        float64    // the true answer, from 0 to 1
	ordinary bool
	maxLogit float64 // of any category, by the linear model alone
	weight   float64
}

// logistic fits probability = sigmoid(w*x) to the points, for the terms that are used. The weights of the first three
// terms, which are logits, are never negative: a larger logit must not lower the probability.
func logistic(points []point, use [5]bool) [5]float64 {
	for {
		w := newton(points, use)
		lowest := 0
		for i := range 3 {
			if w[i] < w[lowest] {
				lowest = i
			}
		}
		if w[lowest] >= 0 {
			return w
		}
		use[lowest] = false
	}
}

// newton minimises the weighted log loss by Newton's method.
func newton(points []point, use [5]bool) (w [5]float64) {
	for i := range w {
		if use[i] {
			w[i] = 1
			break
		}
	}
	for range 100 {
		var grad [5]float64
		var hess [5][6]float64
		for _, p := range points {
			z := 0.0
			for i, x := range p.x {
				z += x * w[i]
			}
			q := sigmoid(z)
			g, h := p.weight*(q-p.y), p.weight*q*(1-q)
			for i, x := range p.x {
				grad[i] += g * x
				for j, y := range p.x {
					hess[i][j] += h * x * y
				}
			}
		}
		for i := range hess {
			hess[i][i] += 1e-7
			hess[i][5] = grad[i]
			if use[i] {
				continue
			}
			hess[i] = [6]float64{}
			for j := range hess {
				hess[j][i] = 0
			}
			hess[i][i] = 1
		}
		step := solve(hess)
		longest := 1.0
		for _, s := range step {
			longest = max(longest, math.Abs(s))
		}
		moved := 0.0
		for i, s := range step {
			// Steps of at most one keep the method from diverging where the start is far off.
			w[i] -= s / longest
			moved += math.Abs(s)
		}
		if moved < 1e-9 {
			break
		}
	}
	return w
}

// lengthPenalty returns what each factor of e in the number of windows takes from the logit, so that long ordinary
// texts score as high as short ones at the top. Length by itself is no evidence.
func lengthPenalty(asWritten, lengthened []scored, h int, c *model.Curve) float64 {
	const quantile = 0.985
	logits := func(all []scored, length *float64) []float64 {
		var z []float64
		for _, e := range all {
			if isOrdinary(e.Example) && !e.IsDocument() && e.Labelled(h) && !e.Positive(h) {
				z = append(z, c.Large*e.Large[h]+c.Small*e.Small[h])
				*length += e.Length
			}
		}
		*length /= max(float64(len(z)), 1)
		slices.Sort(z)
		return z
	}
	var lengthBefore, lengthAfter float64 // means of [model.Logits.Length]
	a, b := logits(asWritten, &lengthBefore), logits(lengthened, &lengthAfter)
	if len(a) == 0 || len(b) == 0 || lengthAfter <= lengthBefore {
		return 0
	}
	at := func(z []float64) float64 { return z[int(quantile*float64(len(z)-1))] }
	return min(0, (at(a)-at(b))/(lengthAfter-lengthBefore))
}

func sigmoid(z float64) float64 { return 1 / (1 + math.Exp(-z)) }

// solve solves five linear equations by Gaussian elimination. The last column is the right side.
func solve(m [5][6]float64) (x [5]float64) {
	for c := range m {
		best := c
		for r := c; r < len(m); r++ {
			if math.Abs(m[r][c]) > math.Abs(m[best][c]) {
				best = r
			}
		}
		m[c], m[best] = m[best], m[c]
		if m[c][c] == 0 {
			continue
		}
		for r := range m {
			if r == c {
				continue
			}
			f := m[r][c] / m[c][c]
			for k := range m[r] {
				m[r][k] -= f * m[c][k]
			}
		}
	}
	for i := range x {
		if m[i][i] != 0 {
			x[i] = m[i][5] / m[i][i]
		}
	}
	return x
}

// Lengthen puts part of the examples into ordinary documents, which makes them from a few sentences to about 12,000
// characters long. It takes the documents among the examples, or where there are none, joins ordinary texts.
func Lengthen(examples []Example, seed uint64) []Example {
	documents := carriers(examples)
	if len(documents) == 0 {
		return nil
	}
	r := rand.New(rand.NewPCG(seed, 3))
	var out []Example
	for _, e := range examples {
		chance := 0.7
		if !e.InCorpus {
			chance = 0.04
			if !isOrdinary(&e) {
				chance = 0.2
			}
		}
		if e.IsDocument() || len(e.Text) > 1000 || r.Float64() >= chance {
			continue
		}
		size := int(200 * math.Exp(r.Float64()*math.Log(60)))
		e.Text = Insert(documents, e.Text, size, r)
		out = append(out, e)
	}
	return out
}

// carriers returns the documents among the examples that harmful text can be put into, or paragraphs of ordinary
// texts where there are no documents.
func carriers(examples []Example) []string {
	var documents, around []string
	for i := range examples {
		switch e := &examples[i]; {
		case !isOrdinary(e), e.Source == "clean_tweets", e.Source == "goemotions_reddit":
			// Tweets and forum posts are harmless only on average. Hundreds of them in one text would not be.
		case e.IsDocument():
			documents = append(documents, e.Text)
		case e.Register == "":
			around = append(around, e.Text)
		}
	}
	if len(documents) > 0 {
		return documents
	}
	for len(around) > 0 {
		n := min(len(around), 60)
		var b strings.Builder
		for _, t := range around[:n] {
			b.WriteString(t)
			if !endsSentence(t) {
				b.WriteByte('.')
			}
			b.WriteByte(' ')
		}
		documents, around = append(documents, b.String()), around[n:]
	}
	return documents
}

// Insert puts a text between two sentences of one of the documents, cut to about size bytes or less.
func Insert(documents []string, text string, size int, r *rand.Rand) string {
	d := documents[r.IntN(len(documents))]
	if len(d) > size {
		from := 0
		if start := r.IntN(len(d) - size + 1); start > 0 {
			from = sentenceEnd(d, start-1)
		}
		if len(d)-from > size {
			d = d[from : from+sentenceEnd(d[from:], size)]
		} else {
			d = d[from:]
		}
	}
	place := 0
	if at := r.IntN(len(d) + 1); at > 0 {
		place = sentenceEnd(d, at-1)
	}
	before, after := d[:place], d[place:]
	if before != "" && !strings.HasSuffix(before, " ") && !strings.HasSuffix(before, "\n") {
		before += " "
	}
	if after != "" {
		if !endsSentence(text) && r.IntN(4) > 0 {
			text += "."
		}
		text += []string{" ", " ", "\n"}[r.IntN(3)]
	}
	return before + text + after
}

// endsSentence reports whether a text ends with the mark of a sentence.
func endsSentence(text string) bool {
	return strings.HasSuffix(text, ".") || strings.HasSuffix(text, "!") || strings.HasSuffix(text, "?")
}
