// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"strconv"
	"strings"
)

// MinHarmShare and MaxHarmShare bound the share of harm that may be configured: from 0.01 % to 99 % of the texts.
const (
	MinHarmShare = 0.0001
	MaxHarmShare = 0.99
)

// ErrHarmShare reports that a share of harm is out of range, or no share.
var ErrHarmShare = errors.New("a share of harm must be from 0.01% to 99%, such as 2% or 0.02")

// ParseHarmShare parses a share of harm: a percentage such as "2%", or a number such as "0.02". It fails with
// [ErrHarmShare].
func ParseHarmShare(text string) (float64, error) {
	if percent, ok := strings.CutSuffix(text, "%"); ok {
		text = percent + "e-2" // 0.1% is 0.1e-2, while 0.1/100 may differ from 0.001 in the last digit
	}
	share, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, ErrHarmShare
	}
	return share, ValidateHarmShare(share)
}

// ValidateHarmShare returns [ErrHarmShare] unless share is from [MinHarmShare] to [MaxHarmShare].
func ValidateHarmShare(share float64) error {
	if !(share >= MinHarmShare && share <= MaxHarmShare) { // true for NaN
		return ErrHarmShare
	}
	return nil
}

// FormatHarmShare writes a share as a percentage with at most six digits, such as "2%".
func FormatHarmShare(share float64) string { return strconv.FormatFloat(100*share, 'g', 6, 64) + "%" }

// Shift moves probabilities that are calibrated for one share of harmful texts to another share, by Bayes' rule: the
// odds p/(1-p) of each are multiplied by the same factor. Thus probabilities keep their order, and what a word adds to
// a logit stays the same. The zero value changes nothing.
type Shift struct {
	factor float64 // of the odds; 0 stands for 1
}

// NewShift returns the shift of probabilities that are calibrated for the share from to traffic with the share to. Both
// are greater than 0 and less than 1.
func NewShift(from, to float64) Shift { return Shift{to / (1 - to) / (from / (1 - from))} }

// Factor returns what the odds are multiplied by, greater than 0.
func (s Shift) Factor() float64 {
	if s.factor == 0 {
		return 1
	}
	return s.factor
}

// Probability returns where a probability moves. With a factor of 1 it is returned as it is, bit for bit.
func (s Shift) Probability(p float64) float64 {
	if s.Factor() == 1 {
		return p
	}
	// In this form no rounding puts two probabilities in another order, or a probability beyond 0 or 1.
	return 1 / (1 + (1-p)/(p*s.factor))
}

// Apply moves the probabilities of the categories and of the attributes of a result. Those of themes stay, because no
// share of harm says how common a theme is. The verdict must then be decided again, with [Policy.Decide].
func (s Shift) Apply(r *Result) {
	if s.Factor() == 1 {
		return
	}
	for c := range r.Categories {
		r.Categories[c].Probability = s.Probability(r.Categories[c].Probability)
	}
	for a := range r.Attributes {
		r.Attributes[a] = s.Probability(r.Attributes[a])
	}
}

// HarmShare returns the share of harmful texts, greater than 0 and less than 1, for which the probabilities of the
// classifier are calibrated. It is 0 for a classifier other than [Embedded], of which it is not known.
func (e *Engine) HarmShare() float64 {
	if embedded, ok := e.classifier.(Embedded); ok {
		return embedded.HarmShare()
	}
	return 0
}

// Shift returns what moves the probabilities of the classifier to traffic with a share of harm, greater than 0 and less
// than 1. It changes nothing if the share is 0, or if the classifier is not [Embedded].
func (e *Engine) Shift(share float64) Shift {
	calibrated := e.HarmShare()
	if share == 0 || calibrated == 0 {
		return Shift{}
	}
	return NewShift(calibrated, share)
}
