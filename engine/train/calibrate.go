// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package train

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/caddy-moderation/caddy-moderation/engine/model"
)

// Prior is the share of traffic that is assumed to be harmful in the way of a head. A threshold of 0.7 means little
// without it: the same ranking gives other probabilities where harm is rarer.
const Prior = 0.10

// ordinary is the part of the harmless traffic that is ordinary text; the rest looks like harm and is not.
const ordinary = 0.8

// Calibrate fits how the sums of each head become probabilities, on examples that the weights have not seen, and
// returns the finished weights file.
func Calibrate(f *Fitted, tune []Example, seed uint64) ([]byte, error) {
	raw, err := f.file()
	if err != nil {
		return nil, err
	}
	m, err := model.Load(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("loading the weights just written: %w", err)
	}
	f.fitSpread(m, tune, seed)
	logits := make([][model.Heads]float64, len(tune))
	for i := range tune {
		logits[i] = m.Logits(tune[i].Text)
	}
	for h := range model.Heads {
		var points []point
		for i := range tune {
			e := &tune[i]
			if !e.Labelled(h) || e.Source == "lexicon" || h < categories && !e.Written && !isOrdinary(e) {
				continue // scraped positives do not follow the definitions of the categories
			}
			points = append(points, point{z: logits[i][h], y: float64(e.Labels[h].Value), ordinary: isOrdinary(e)})
		}
		c := &f.Header.Calibration[h]
		c.Slope, c.Offset = platt(points)
	}
	return f.file()
}

func (f *Fitted) file() ([]byte, error) {
	var b bytes.Buffer
	err := model.Write(&b, f.Header, f.Rows)
	return b.Bytes(), err
}

// isOrdinary says whether an example is of a source of everyday harmless text.
func isOrdinary(e *Example) bool {
	return strings.HasPrefix(e.Source, "clean_") || e.Source == "everyday" || e.Source == "goemotions_reddit" && e.Labelled(hate)
}

// point is a logit with its truth.
type point struct {
	z, y     float64
	ordinary bool
	weight   float64
}

// platt fits probability = 1/(1+exp(-(slope*z+offset))) by Newton's method on the weighted log loss, with the weights
// that the assumed traffic gives to positives, look-alikes and ordinary text.
func platt(points []point) (slope, offset float64) {
	var yes, alike, plain float64
	for _, p := range points {
		yes += p.y
		if p.ordinary {
			plain += 1 - p.y
		} else {
			alike += 1 - p.y
		}
	}
	if yes < 5 || alike+plain < 5 {
		return 1, 0
	}
	share := float64(ordinary)
	if alike == 0 {
		share = 1
	} else if plain == 0 {
		share = 0
	}
	for i := range points {
		p := &points[i]
		no := (1 - Prior) * (1 - share) / max(alike, 1)
		if p.ordinary {
			no = (1 - Prior) * share / max(plain, 1)
		}
		p.weight = p.y*Prior/yes + (1-p.y)*no
		p.y = p.y * Prior / yes / p.weight
	}
	slope, offset = 1, 0
	for range 50 {
		var ga, gb, haa, hab, hbb float64
		for _, p := range points {
			q := 1 / (1 + math.Exp(-(slope*p.z + offset)))
			g, h := p.weight*(q-p.y), p.weight*q*(1-q)
			ga, gb = ga+g*p.z, gb+g
			haa, hab, hbb = haa+h*p.z*p.z, hab+h*p.z, hbb+h
		}
		haa, hbb = haa+1e-9, hbb+1e-9
		det := haa*hbb - hab*hab
		if det <= 0 {
			break
		}
		da, db := (hbb*ga-hab*gb)/det, (haa*gb-hab*ga)/det
		// A step of at most one keeps Newton from running away where the start is far off.
		limit := max(1, math.Abs(da), math.Abs(db))
		slope, offset = slope-da/limit, offset-db/limit
		if math.Abs(da)+math.Abs(db) < 1e-9 {
			break
		}
	}
	return slope, offset
}

// fitSpread measures how much the best window of a long harmless text exceeds that of a short one, and takes it back,
// so that length alone does not flag.
func (f *Fitted) fitSpread(m *model.Model, tune []Example, seed uint64) {
	const (
		documents = 300
		length    = 9000 // characters
		quantile  = 0.97
	)
	var texts []string
	for i := range tune {
		if isOrdinary(&tune[i]) {
			texts = append(texts, tune[i].Text)
		}
	}
	if len(texts) < 100 {
		return
	}
	r := rand.New(rand.NewPCG(seed, 3))
	var short, long [model.Heads][]float64
	for _, t := range texts {
		z := m.Logits(t)
		for h := range z {
			short[h] = append(short[h], z[h])
		}
	}
	windows := 0.0
	for range documents {
		var b strings.Builder
		for b.Len() < length {
			b.WriteString(texts[r.IntN(len(texts))])
			b.WriteByte('\n')
		}
		z := m.Logits(b.String())
		windows += float64(m.WindowsOf(b.String())) / documents
		for h := range z {
			long[h] = append(long[h], z[h])
		}
	}
	for h := range short {
		slices.Sort(short[h])
		slices.Sort(long[h])
		at := func(z []float64) float64 { return z[int(quantile*float64(len(z)-1))] }
		f.Header.Calibration[h].Spread = min(max((at(long[h])-at(short[h]))/math.Log(windows), 0), 0.5)
	}
}
