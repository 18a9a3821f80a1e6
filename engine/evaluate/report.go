// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package evaluate

import (
	"math"
	"strconv"
)

// Report is what a judge did on labelled texts. Its form in JSON is stable: members may be added, none changes its
// meaning. docs/evaluate.md describes it.
type Report struct {
	// Model names the classifier and its exact weights.
	Model string `json:"model"`
	// Files are the files that were read. [Run] leaves it empty: who opened them knows.
	Files []string `json:"files"`
	// Rows is the number of rows that were judged.
	Rows int `json:"rows"`
	// Rejected are the rows that the service would refuse; they count nowhere else.
	Rejected Rejected `json:"rejected"`
	// Categories and Attributes hold one entry for each name, also for those without a labelled row.
	Categories map[string]Label `json:"categories"`
	Attributes map[string]Label `json:"attributes"`
	// Flagged is about the rows with labels as a whole: whether any category is flagged. A row is a positive when any
	// category is labelled yes, a negative when all five are labelled no, and neither else.
	Flagged Verdicts `json:"flagged"`
	// Kinds is the same for the rows of each kind.
	Kinds map[string]Verdicts `json:"kinds"`
	// Themes is about the rows with a theme.
	Themes Themes `json:"themes"`
	// Misses holds the misses with the largest distance of the probability from the label, the largest first, by the name of
	// the label or as "themes". Nil unless they are asked for.
	Misses map[string][]Miss `json:"misses,omitempty"`
}

// Figure is a figure from 0 to 1, or -1 to 1 for a correlation. NaN stands for a figure that cannot be computed, because
// there is no row of a needed sort; it is null in JSON. JSON has six decimals.
type Figure float64

// MarshalJSON writes the figure, or null.
func (f Figure) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(f)) {
		return []byte("null"), nil
	}
	rounded := math.Round(float64(f)*1e6)/1e6 + 0 // a sum with 0 is never -0
	return strconv.AppendFloat(nil, rounded, 'f', -1, 64), nil
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (f *Figure) UnmarshalJSON(in []byte) error {
	if string(in) == "null" {
		*f = Figure(math.NaN())
		return nil
	}
	value, err := strconv.ParseFloat(string(in), 64)
	*f = Figure(value)
	return err
}

// String writes the figure with three decimals, or "n/a".
func (f Figure) String() string {
	if math.IsNaN(float64(f)) {
		return "n/a"
	}
	return strconv.FormatFloat(float64(f), 'f', 3, 64)
}

// Rejected are rows that the service would refuse.
type Rejected struct {
	Rows int `json:"rows"`
	// First are the first ones, at most ten.
	First []Refusal `json:"first"`
}

// Refusal is a row that the service would refuse.
type Refusal struct {
	File string `json:"file"`
	Line int    `json:"line"`
	// Reason says what is too long.
	Reason string `json:"reason"`
}

// Label is how well one category or attribute is judged. A label of 0.5 or more counts as yes.
type Label struct {
	// Rows have the label, Positives of them as yes.
	Rows      int `json:"rows"`
	Positives int `json:"positives"`
	// AUC and AveragePrecision are about the order of the scores; see the functions of these names.
	AUC              Figure `json:"auc"`
	AveragePrecision Figure `json:"average_precision"`
	// Threshold is the probability above which a text is flagged. Precision, Recall, F1 and Misses, the number of wrong
	// verdicts, are those at it.
	Threshold float64 `json:"threshold"`
	Precision Figure  `json:"precision"`
	Recall    Figure  `json:"recall"`
	F1        Figure  `json:"f1"`
	Misses    int     `json:"misses"`
	// ECE is the expected calibration error in ten bins; see the function of this name.
	ECE Figure `json:"ece"`
	// Spearman is the rank correlation of the probabilities with the labels. NaN when all labels are 0 or 1.
	Spearman Figure `json:"spearman"`
}

// Verdicts are about what is flagged.
type Verdicts struct {
	// Rows were judged, Flagged of them flagged.
	Rows         int    `json:"rows"`
	Flagged      int    `json:"flagged"`
	FlaggedShare Figure `json:"flagged_share"`
	// Positives and Negatives are the rows whose truth is known. The figures below are about them.
	Positives        int    `json:"positives"`
	Negatives        int    `json:"negatives"`
	Recall           Figure `json:"recall"`
	Specificity      Figure `json:"specificity"`
	BalancedAccuracy Figure `json:"balanced_accuracy"`
}

// Themes is how well themes are judged. A row is a pair of a theme and a text.
type Themes struct {
	// Themes is the number of distinct themes.
	Themes int `json:"themes"`
	// Verdicts, Precision, F1 and Misses are those at the judge's own threshold.
	Verdicts
	Precision Figure `json:"precision"`
	F1        Figure `json:"f1"`
	Misses    int    `json:"misses"`
	// MacroAUC is the mean of the AUC within each theme, over the BothClasses themes that have hits and misses.
	MacroAUC    Figure `json:"macro_auc"`
	BothClasses int    `json:"both_classes"`
	// AtFalseHits are the recalls at one threshold for all themes, for two shares of false hits.
	AtFalseHits []AtFalseHits `json:"at_false_hits"`
	// Paraphrases is the number of rows with one, and Agreement the share of them where theme and paraphrase get the
	// same verdict.
	Paraphrases int    `json:"paraphrases"`
	Agreement   Figure `json:"paraphrase_agreement"`
	// Kinds are the verdicts on the rows of each kind.
	Kinds map[string]Verdicts `json:"kinds"`
}

// AtFalseHits is the recall at the lowest threshold that keeps the share of false hits.
type AtFalseHits struct {
	// Share of the negatives that may lie above the threshold.
	Share     float64 `json:"share"`
	Threshold Figure  `json:"threshold"`
	Recall    Figure  `json:"recall"`
}

// Miss is a wrong verdict.
type Miss struct {
	File string `json:"file"`
	Line int    `json:"line"`
	Kind string `json:"kind,omitempty"`
	// Theme that was asked for; empty in misses of labels.
	Theme       string `json:"theme,omitempty"`
	Label       Figure `json:"label"`
	Probability Figure `json:"probability"`
	Flagged     bool   `json:"flagged"`
	// Text is the beginning of the text in one line.
	Text string `json:"text"`
}

// wrong is how far the probability is from the label as yes or no.
func (m *Miss) wrong() float64 {
	if yes(float64(m.Label)) {
		return 1 - float64(m.Probability)
	}
	return float64(m.Probability)
}
