// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// embeddedModel is an embedded model of a language.
type embeddedModel struct {
	tag  string
	load func() (*Model, error)
}

// languageModels are the embedded models of other languages than English, in the order of their tags. Each is decoded
// once, when the first text needs it.
var languageModels = sync.OnceValue(func() []embeddedModel {
	entries, err := languageWeights.ReadDir("languages")
	if err != nil {
		return nil // a build for English alone
	}
	var all []embeddedModel
	for _, e := range entries {
		tag, ok := strings.CutSuffix(e.Name(), ".model")
		if !ok {
			continue
		}
		all = append(all, embeddedModel{tag, sync.OnceValues(func() (*Model, error) {
			file, err := languageWeights.ReadFile("languages/" + tag + ".model")
			if err != nil {
				return nil, fmt.Errorf("embedded weights for %s: %w", tag, err)
			}
			m, err := decode(file)
			if err != nil {
				return nil, fmt.Errorf("embedded weights for %s: %w", tag, err)
			}
			// English stays on the heap, as the one model that every server has: without it, the garbage of a server
			// would be collected far more often.
			m.moveOffHeap()
			return m, nil
		})})
	}
	slices.SortFunc(all, func(a, b embeddedModel) int { return strings.Compare(a.tag, b.tag) })
	return all
})

// Languages returns the BCP 47 tags of the languages that there are embedded models for, English first.
func Languages() []string {
	tags := []string{"en"}
	for _, m := range languageModels() {
		tags = append(tags, m.tag)
	}
	return tags
}

// ForLanguage returns the embedded model of a language by its tag, "en" for [Default]. It is nil for a language without
// one, and fails where the weights are not valid. Models are decoded on first use, which takes some milliseconds.
func ForLanguage(tag string) (*Model, error) {
	if tag == "en" {
		return Default()
	}
	for _, m := range languageModels() {
		if m.tag == tag {
			return m.load()
		}
	}
	return nil, nil
}
