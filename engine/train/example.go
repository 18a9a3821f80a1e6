// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package train makes the weights file that package model loads.
//
// [Read] maps the labels of every source to the 13 heads and masks missing ones. [NewDataset] removes duplicates and
// splits. [Prepare] adds copies ([Augment], [Surround], [Swap]) and sentences ([Patterns]), and puts most ordinary
// texts aside, among which [Mine] finds hard negatives. [Fit] fits the linear model with AdaGrad, [FitCNN] the
// convolutional network with Adam, each on two goroutines in a fixed order and with fixed seeds. [Calibrate] fits
// probabilities on examples that the weights were not fitted on, and [Evaluate] reports. The same data gives the same
// bytes.
package train

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"unicode"

	"github.com/caddy-moderation/caddy-moderation/engine/model"
)

// Label is a source's label of one head.
type Label struct {
	// Value is from 0 (no) to 1 (yes). A fraction is a share of annotators, or doubt.
	Value float32
	// Weight is how much the label counts. 0 means that the source has no such label.
	Weight float32
}

// Example is a labelled text.
type Example struct {
	// Text is the text, and Labels its labels by head.
	Text   string
	Labels [model.Heads]Label
	// Source is the name of the file that the text comes from, without folder and extension.
	Source string
	// Kind is the source's own name for a kind of text. Group is the number of a group of contrasts, from 1, or 0.
	Kind  string
	Group int
	// InCorpus reports whether the text was written for the corpus or annotated there, by the definitions of the
	// categories. The other texts have the labels of a public source.
	InCorpus bool
	// Derived reports whether the text was made from others, by [Augment] or [Surround].
	Derived bool
	// Register is the name of the file of ordinary text that the text comes from, or "".
	Register string
	// Measured reports whether the text may not be trained on: it is in the test split, and nothing else.
	Measured bool
	// Hard reports whether the text is a hard negative that [Mine] found.
	Hard bool
}

// Positive reports whether the label of a head is a yes, from 0.5 on.
func (e *Example) Positive(head int) bool {
	return e.Labels[head].Weight > 0 && e.Labels[head].Value >= 0.5
}

// Labelled reports whether the example has a label of a head.
func (e *Example) Labelled(head int) bool { return e.Labels[head].Weight > 0 }

// Harmless reports whether all five categories are labelled and none applies.
func (e *Example) Harmless() bool {
	for h := range categories {
		if !e.Labelled(h) || e.Positive(h) {
			return false
		}
	}
	return true
}

// categories is the number of heads that are categories. They are the first ones.
const categories = model.NumCategories

// categoryNames are the names of the categories in the rows of the corpus.
var categoryNames = [categories]string(model.HeadNames[:categories])

// key identifies a text when duplicates are removed and splits made: a hash of its letters and digits in lower case.
func key(text string) uint64 {
	var b strings.Builder
	for _, r := range text {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			b.WriteRune(unicode.ToLower(r))
		}
	}
	if b.Len() == 0 {
		b.WriteString(text)
	}
	sum := sha256.Sum256([]byte(b.String()))
	return binary.LittleEndian.Uint64(sum[:])
}

// Key names a text without revealing it: 16 hexadecimal digits that depend on its letters and digits only. The
// annotations of texts from public sources have these keys.
func Key(text string) string { return fmt.Sprintf("%016x", key(text)) }
