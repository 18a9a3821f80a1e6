// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package train makes the weights file that package model reads.
//
// The way of a row: [Read] maps the labels of every source to the 13 heads, missing ones masked; [NewPool] removes
// duplicates and splits; [Augment], [Surround] and [Swap] add copies and [Neutral] sentences; [Fit] learns the linear model by
// AdaGrad on one goroutine and [FitCNN] the second stage by Adam on two, with fixed seeds; [Calibrate] fits probabilities on
// rows that were held back; [Evaluate] reports. The same data gives the same bytes.
package train

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"unicode"

	"github.com/caddy-moderation/caddy-moderation/engine/model"
)

// Label is what a source says of one head.
type Label struct {
	// Value is from 0 (no) to 1 (yes); fractions are shares of annotators or doubt.
	Value float32
	// Weight is how much the label counts; 0 means that the source does not say.
	Weight float32
}

// Example is a labelled text.
type Example struct {
	Text   string
	Labels [model.Heads]Label
	// Source is the file the text comes from, without folder and extension.
	Source string
	// Kind and Group are the source's own sub-division: kind of text, group of contrasted texts.
	Kind  string
	Group int
	// Written says that the text was written or labelled for this project, by the definitions of the categories.
	InCorpus bool
	// Derived reports whether the text was made from others, by [Augment] or [Surround].
	Derived bool
}

// Positive reports whether the example is a certain yes for the head.
func (e *Example) Positive(head int) bool {
	return e.Labels[head].Weight > 0 && e.Labels[head].Value >= 0.5
}

// Labelled reports whether the source says anything of the head.
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

// categories is the number of heads that are categories; they come first.
const categories = 5

// key identifies a text for removing duplicates and for splits: its letters and digits in lower case.
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

// Key names a text without telling it: 16 hexadecimal digits that depend on its letters and digits only. Annotations
// of other people's texts are kept under it.
func Key(text string) string { return fmt.Sprintf("%016x", key(text)) }
