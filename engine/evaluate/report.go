// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package evaluate

import (
	"math"
	"strconv"
)

// Report sums up the verdicts on labelled texts. Its JSON form is stable: members may be added, but none changes its
// meaning. docs/evaluate.md describes it.
type Report struct {
	// Model names the classifier and its exact weights.
	Model string `json:"model"`
	// HarmShare is the share of harmful texts that the probabilities are for: that of [Options.HarmShare], or else the
	// one that the classifier is calibrated for. It is 0, and absent from JSON, if the classifier has none.
	HarmShare float64 `json:"harm_share,omitempty"`
	// Files are the names of the files that were read. [Run] leaves it empty; its caller may fill it from
	// [Input.Files].
	Files []string `json:"files"`
	// Rows is the number of rows that were moderated.
	Rows int `json:"rows"`
	// Rejected counts the rows that the service would refuse. They count nowhere else.
	Rejected Rejected `json:"rejected"`
	// Categories and Attributes hold one entry for each name, even if no row labels it.
	Categories map[string]Label `json:"categories"`
	Attributes map[string]Label `json:"attributes"`
	// Flagged is about whether any category is flagged, over the rows with labels. A row is a positive if any category
	// is labelled yes, a negative if all five are labelled no, and otherwise neither.
	Flagged Verdicts `json:"flagged"`
	// Kinds holds the same for the rows of each kind.
	Kinds map[string]Verdicts `json:"kinds"`
	// Languages holds the same for the rows in each language, by its BCP 47 tag: the one that the row says, or else the
	// one that was detected, "und" where that cannot be known. It is absent if the classifier detects none and no row
	// says one.
	Languages map[string]Verdicts `json:"languages,omitempty"`
	// Themes is about the rows with a theme.
	Themes Themes `json:"themes"`
	// Misses holds the misses whose probability is furthest from the label, the furthest first, by the name of the
	// label or "themes". It is nil unless [Options.Misses] is set.
	Misses map[string][]Miss `json:"misses,omitempty"`
}

// Figure is a number from 0 to 1, or from -1 to 1 for a correlation. It is NaN, and null in JSON, if it cannot be
// computed because rows are missing. JSON has six decimals.
type Figure float64

// MarshalJSON returns the figure with at most six decimals, or null.
func (f Figure) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(f)) {
		return []byte("null"), nil
	}
	rounded := math.Round(float64(f)*1e6)/1e6 + 0 // adding 0 turns -0 into 0
	return strconv.AppendFloat(nil, rounded, 'f', -1, 64), nil
}

// UnmarshalJSON parses the output of MarshalJSON.
func (f *Figure) UnmarshalJSON(in []byte) error {
	if string(in) == "null" {
		*f = Figure(math.NaN())
		return nil
	}
	value, err := strconv.ParseFloat(string(in), 64)
	*f = Figure(value)
	return err
}

// String returns the figure with three decimals, or "n/a".
func (f Figure) String() string {
	if math.IsNaN(float64(f)) {
		return "n/a"
	}
	return strconv.FormatFloat(float64(f), 'f', 3, 64)
}

// Rejected counts the rows that the service would refuse.
type Rejected struct {
	// Rows is their number.
	Rows int `json:"rows"`
	// First lists the first of them, at most ten.
	First []Refusal `json:"first"`
}

// Refusal is a row that the service would refuse.
type Refusal struct {
	// File and Line are where the row stands.
	File string `json:"file"`
	Line int    `json:"line"`
	// Reason says what is too long.
	Reason string `json:"reason"`
}

// Label holds the figures of one category or attribute. A label of 0.5 or more counts as yes.
type Label struct {
	// Rows is the number of rows with the label, Positives the number of those where it is yes.
	Rows      int `json:"rows"`
	Positives int `json:"positives"`
	// AUC and AveragePrecision depend only on the order of the scores. See the functions of these names.
	AUC              Figure `json:"auc"`
	AveragePrecision Figure `json:"average_precision"`
	// Threshold is the probability above which a text is flagged. Precision, Recall, F1 and Misses (the number of wrong
	// verdicts) are those at this threshold.
	Threshold float64 `json:"threshold"`
	Precision Figure  `json:"precision"`
	Recall    Figure  `json:"recall"`
	F1        Figure  `json:"f1"`
	Misses    int     `json:"misses"`
	// ECE is the expected calibration error in ten bins. See the function of this name.
	ECE Figure `json:"ece"`
	// Spearman is the rank correlation of the probabilities with the labels. It is NaN if all labels are 0 or 1.
	Spearman Figure `json:"spearman"`
}

// Verdicts counts the verdicts on rows.
type Verdicts struct {
	// Rows is the number of rows, Flagged the number of those flagged, and FlaggedShare its share.
	Rows         int    `json:"rows"`
	Flagged      int    `json:"flagged"`
	FlaggedShare Figure `json:"flagged_share"`
	// Positives and Negatives count the rows whose true answer is known. The figures below are about these rows.
	Positives        int    `json:"positives"`
	Negatives        int    `json:"negatives"`
	Recall           Figure `json:"recall"`
	Specificity      Figure `json:"specificity"`
	BalancedAccuracy Figure `json:"balanced_accuracy"`
}

// Themes holds the figures of themes. A row is a pair of a theme and a text.
type Themes struct {
	// Themes is the number of distinct themes.
	Themes int `json:"themes"`
	// Verdicts, Precision, F1 and Misses are those at the threshold of the engine's screener.
	Verdicts
	Precision Figure `json:"precision"`
	F1        Figure `json:"f1"`
	Misses    int    `json:"misses"`
	// MacroAUC is the mean of the AUC within each theme, over the BothClasses themes that have positives and negatives.
	MacroAUC    Figure `json:"macro_auc"`
	BothClasses int    `json:"both_classes"`
	// AtFalseHits holds the recall at one threshold for all themes, for two shares of false hits.
	AtFalseHits []AtFalseHits `json:"at_false_hits"`
	// Paraphrases is the number of rows with a paraphrase, and Agreement the share of those where theme and paraphrase
	// get the same verdict.
	Paraphrases int    `json:"paraphrases"`
	Agreement   Figure `json:"paraphrase_agreement"`
	// Kinds holds the verdicts on the rows of each kind.
	Kinds map[string]Verdicts `json:"kinds"`
}

// AtFalseHits is the recall at the lowest threshold that keeps within a share of false hits.
type AtFalseHits struct {
	// Share is the maximum share of the negatives that score above the threshold.
	Share float64 `json:"share"`
	// Threshold is that threshold, and Recall the share of the positives above it.
	Threshold Figure `json:"threshold"`
	Recall    Figure `json:"recall"`
}

// Miss is a wrong verdict.
type Miss struct {
	// File, Line and Kind are those of the row.
	File string `json:"file"`
	Line int    `json:"line"`
	Kind string `json:"kind,omitempty"`
	// Theme is the theme of the row. It is empty in misses of labels.
	Theme string `json:"theme,omitempty"`
	// Label is the true answer, from 0 to 1.
	Label       Figure `json:"label"`
	Probability Figure `json:"probability"`
	Flagged     bool   `json:"flagged"`
	// Text is the beginning of the text, in one line.
	Text string `json:"text"`
}

// distance returns how far the probability is from the label as yes or no.
func (m *Miss) distance() float64 {
	if positive(float64(m.Label)) {
		return 1 - float64(m.Probability)
	}
	return float64(m.Probability)
}
