// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package train

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"

	"github.com/caddy-moderation/caddy-moderation/engine/model"
)

// falseAlarmRates are the rates at which the report gives the recall.
var falseAlarmRates = []float64{0.002, 0.01}

// heldBack reports whether the example is ordinary text of a register or kind on which nothing is trained.
func (e *Example) heldBack() bool { return e.Measured || slices.Contains(heldOutRegisters, e.Register) }

// reportRanking reports how much harm is found where few ordinary texts of registers that were held back are flagged,
// whatever the thresholds are. Most texts that a site gets are ordinary, so this says more than any other figure.
func reportRanking(w io.Writer, all []prediction) {
	var ordinary []float64
	for i := range all {
		if p := &all[i]; p.heldBack() && !p.IsDocument() && p.Harmless() {
			ordinary = append(ordinary, p.margin())
		}
	}
	if len(ordinary) < 1000 {
		return
	}
	slices.Sort(ordinary)
	fmt.Fprintf(w, "## Recall at fixed rates of false alarms\n\nThe rates are those of %d ordinary texts of registers "+
		"that were held back. Strangers' texts are harmful rows of public sources that were annotated here.\n\n"+
		"| false alarms |", len(ordinary))
	groups := []struct {
		name string
		use  func(*prediction) bool
	}{
		{"strangers' texts", func(p *prediction) bool { return p.Source == "annotated" }},
		{"own texts", func(p *prediction) bool { return p.InCorpus && p.Source != "annotated" }},
	}
	for h := -1; h < categories; h++ {
		for _, g := range groups {
			if h < 0 {
				fmt.Fprintf(w, " %s |", g.name)
			} else if g.name == groups[0].name {
				fmt.Fprintf(w, " strangers' %s |", model.HeadNames[h])
			}
		}
	}
	fmt.Fprintf(w, "\n|---|---|---|---|---|---|---|---|\n")
	for _, rate := range falseAlarmRates {
		least := ordinary[int(float64(len(ordinary))*(1-rate))]
		fmt.Fprintf(w, "| %.1f %% |", 100*rate)
		recall := func(use func(*prediction) bool) {
			found, texts := 0.0, 0.0
			for i := range all {
				if p := &all[i]; use(p) {
					texts++
					found += indicator(p.margin() > least)
				}
			}
			fmt.Fprintf(w, " %.3f |", found/max(texts, 1))
		}
		for _, g := range groups {
			recall(func(p *prediction) bool { return g.use(p) && !p.Harmless() })
		}
		for h := range categories {
			recall(func(p *prediction) bool { return groups[0].use(p) && p.Positive(h) })
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w)
}

// reportLengths reports on ordinary documents, and on one flagged text inside them.
func reportLengths(w io.Writer, m *model.Model, all []prediction) {
	var bad, documents []prediction
	examples := make([]Example, 0, len(all))
	for _, p := range all {
		switch {
		case p.IsDocument() && p.Harmless():
			documents = append(documents, p)
		case p.InCorpus && !p.Harmless() && p.flagged() && len(p.Text) < 200:
			bad = append(bad, p)
		}
		examples = append(examples, *p.Example)
	}
	around := carriers(examples)
	if len(around) < 3 || len(bad) < 20 {
		return
	}
	if len(documents) > 0 {
		flagged := 0
		for i := range documents {
			if documents[i].flagged() {
				flagged++
			}
		}
		fmt.Fprintf(w, "## Documents\n\nOf %d ordinary documents of 2,000 to 10,000 characters %.2f %% are flagged.\n\n",
			len(documents), 100*float64(flagged)/float64(len(documents)))
	}
	fmt.Fprintf(w, "## Length\n\nOrdinary documents, cut or joined to about that many bytes; in the others one flagged "+
		"text of at most 200 bytes stands between two sentences.\n\n"+
		"| characters | harmless flagged | flagged text found |\n|---|---|---|\n")
	r := rand.New(rand.NewPCG(9, 9))
	const texts = 400
	for _, size := range []int{500, 2000, 10000} {
		var flagged, found float64
		for range texts {
			document := ""
			for len(document) < size-200 {
				document = Insert(around, document, size-len(document), r)
			}
			p := prediction{probabilities: m.Probabilities(document)}
			flagged += indicator(p.flagged())
			p.probabilities = m.Probabilities(Insert([]string{document}, bad[r.IntN(len(bad))].Text, size*2, r))
			found += indicator(p.flagged())
		}
		fmt.Fprintf(w, "| %d | %.1f %% | %.1f %% |\n", size, 100*flagged/texts, 100*found/texts)
	}
	fmt.Fprintln(w)
}
