// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package train

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/caddy-moderation/caddy-moderation/engine/model"
)

// Readings compares the labels that two readers gave the same texts: those of annotations.tsv and of
// second_readings.tsv, which has the same format. The second reader did not see the labels of the first.
type Readings struct {
	// Unsure is the number of texts that at least one of the readers gave a question mark.
	Unsure int
	// Categories compares the readers in each category, and Any in whether any category applies.
	Categories [model.NumCategories]Pairs
	Any        Pairs
}

// Pairs counts texts by the answers of two readers to the same question.
type Pairs struct {
	// Both, First and Second are the numbers of texts to which both readers, only the first, and only the second said
	// yes, and Neither that of the rest.
	Both, First, Second, Neither int
}

// Texts is the number of texts.
func (p Pairs) Texts() int { return p.Both + p.First + p.Second + p.Neither }

func (p *Pairs) add(first, second bool) {
	switch {
	case first && second:
		p.Both++
	case first:
		p.First++
	case second:
		p.Second++
	default:
		p.Neither++
	}
}

// Kappa is Cohen's kappa (1960): how much more often the readers agree than by chance, 1 where they always do. Where
// both always give the same single answer, chance explains everything, and there is no kappa: ok is false then.
func (p Pairs) Kappa() (kappa float64, ok bool) {
	n := float64(p.Texts())
	first, second := float64(p.Both+p.First), float64(p.Both+p.Second)
	chance := first*second + (n-first)*(n-second)
	if n*n == chance {
		return 0, false
	}
	return (n*float64(p.Both+p.Neither) - chance) / (n*n - chance), true
}

// compareReadings compares the readers of a corpus. A second reading of a text that nobody read first is an error:
// there is nothing to compare it with.
func compareReadings(corpus fs.FS) (*Readings, error) {
	const name = "second_readings.tsv"
	first, err := readAnnotations(corpus)
	if err != nil {
		return nil, err
	}
	second, err := readLetters(corpus, name)
	if err != nil {
		return nil, err
	}
	out := new(Readings)
	for _, k := range slices.Sorted(maps.Keys(second)) {
		a, ok := first[k]
		if !ok {
			return nil, fmt.Errorf("%s: annotations.tsv lacks the text %s", name, k)
		}
		b := second[k]
		if !a.sure || !b.sure {
			out.Unsure++
		}
		for h, category := range categoryNames {
			out.Categories[h].add(a.labels.has(category), b.labels.has(category))
		}
		out.Any.add(len(a.labels) > 0, len(b.labels) > 0)
	}
	return out, nil
}
