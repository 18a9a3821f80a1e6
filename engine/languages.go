// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/caddy-moderation/caddy-moderation/engine/language"
	"github.com/caddy-moderation/caddy-moderation/engine/model"
)

// Language says in which language a text is written, and whether it was classified in that language.
type Language struct {
	// Tag is the BCP 47 tag of the language that most of the text is in, or "und" where that cannot be known: a name, a
	// word, emoji, code. It is "" with a classifier that does not say.
	Tag string
	// Probability is from 0 to 1 that the tag is right, or one of a close relative: Danish and Norwegian are often
	// taken for each other. 0 for "und".
	Probability float64
	// Supported says whether there is a model of the language. A text in another language is classified by the English
	// model, which finds what is written in English in it and hardly anything else, so that a low probability says
	// little.
	Supported bool
}

// isUnknown reports whether the text is in a language, and not in one that is classified.
func (l Language) isUnknown() bool {
	return l.Tag != "" && l.Tag != language.Undetermined && !l.Supported
}

// maxUnsupportedConfidence is the largest [Result.Confidence] of a text in a language without a model.
const maxUnsupportedConfidence = 0.5

// languages classifies texts in many languages, each with the model of its language.
type languages struct {
	detector *language.Detector
	// model returns the model of a language, or nil.
	model func(tag string) (*model.Model, error)
	// supported are the tags of the languages that have one.
	supported []string
}

// newLanguages returns the embedded detector, with the embedded models of the languages with these tags, or of all,
// beside that of English.
func newLanguages(tags []string) (*languages, error) {
	d, err := language.Default()
	if err != nil {
		return nil, fmt.Errorf("loading the embedded detector of languages: %w", err)
	}
	l := &languages{detector: d, model: model.ForLanguage, supported: []string{"en"}}
	if len(tags) == 0 {
		tags = model.Languages()
	}
	for _, tag := range tags {
		if !slices.Contains(model.Languages(), tag) {
			return nil, fmt.Errorf("there is no model for the language %q; there are %s",
				tag, strings.Join(model.Languages(), ", "))
		}
		if !slices.Contains(l.supported, tag) {
			l.supported = append(l.supported, tag)
		}
	}
	return l, nil
}

// modelTag returns the tag of the model for a language: Hindi in Latin letters is read by that of Hindi.
func modelTag(tag string) string {
	switch tag {
	case "hi-Latn":
		return "hi"
	case "ar-Latn":
		return "ar"
	case "ru-Latn":
		return "ru"
	case "yue":
		return "zh"
	case "ms":
		return "id"
	case "no":
		return "da"
	}
	return tag
}

// supports reports whether there is a model for texts in a language.
func (l *languages) supports(tag string) bool { return slices.Contains(l.supported, modelTag(tag)) }

// part is a part of a text with the model that is to read it.
type part struct {
	model *model.Model
	// begin and end are the place in bytes, and point is the number of code points before it.
	begin, end, point int
}

// choose returns the language of a text and the model that reads all of it. It is that of English where the language is
// not known or has no model. Of a text whose language cannot be known, it is that of the first language that is
// expected.
func (l *languages) choose(english *model.Model, content string, expected []string) (c choice, err error) {
	c.first = english
	if language.BeginsEnglish(content) {
		c.Language = Language{Tag: "en", Probability: 0.99, Supported: true}
		return c, nil
	}
	guess := l.detector.Detect(content)
	c.Language = Language{Tag: guess.Tag, Probability: guess.Probability, Supported: l.supports(guess.Tag)}
	// A single word is in no language for the user, but in the likeliest one for us, unless it might be in any. What is
	// longer and still in no language is hardly text.
	reads := guess.Likeliest
	if guess.Tag == language.Undetermined && (guess.Chance < minChance || len(content) > maxWord) {
		reads = "en"
	}
	if guess.Tag == language.Undetermined {
		c.unsure, c.likelier = true, guess.Chance > 2*guess.English
		for _, tag := range expected {
			if l.supports(tag) {
				reads, c.likelier = tag, true
				break
			}
		}
	}
	if !l.supports(reads) || modelTag(reads) == "en" {
		return c, nil
	}
	m, err := l.model(modelTag(reads))
	if m != nil {
		c.first = m
	}
	return c, err
}

// minChance is the probability from which a text whose language cannot be known is read as one in the likeliest one.
const minChance = 0.25

// maxWord is the maximum length of such a text in bytes.
const maxWord = 40

// choice is the language of a text and the model that reads all of it.
type choice struct {
	Language
	first *model.Model
	// unsure says that the text may be in another language as well. Then the model of English reads it, too.
	unsure bool
	// likelier says that the text is expected to be in the language of the first model, or is much likelier to be in it
	// than in English.
	likelier bool
}

// isNoise reports whether a model knows so few words of a passage that it is hardly in the language: a code, or bytes
// in a charset that is not theirs, which often look like Chinese. Words are bounded less clearly in some languages, and
// inflected more in others, so that dictionaries have fewer of them. It is for passages alone, which other models read
// as well: whoever could make the first reading count as noise would pass what it finds.
func isNoise(m *model.Model, known, unknown int) bool {
	share := 0.5
	switch m.Header().Language {
	case "ko":
		share = 0.1
	case "ar", "el", "hi", "ru", "vi":
		share = 0.25
	}
	total := known + unknown
	return total == 0 || float64(known) < share*float64(total)
}

// believes reports whether a text whose language cannot be known is in that of the first model, given how many of its
// words that model and the model of English know. The model of English reads it in any case.
func (c *choice) believes(known, unknown, english int) bool {
	return known >= unknown && (unknown < english || unknown == english && c.likelier)
}

// others returns the parts of a text that other models should read, too: passages in other languages if words are
// foreign to the first model, and all of the text for English, which people mix into every language.
func (l *languages) others(c choice, foreign bool, english *model.Model, content string) ([]part, error) {
	if !foreign && !c.unsure || len(l.supported) == 1 {
		return nil, nil
	}
	var parts []part
	if c.first != english {
		parts = append(parts, part{model: english, end: len(content)})
	}
	if !foreign {
		return parts, nil
	}
	points, at := 0, 0
	for _, p := range l.detector.AppendPassages(nil, content) {
		points += utf8.RuneCountInString(content[at:p.Begin])
		at = p.Begin
		if !l.supports(p.Tag) {
			continue // what might be in any language is no reason for an alarm in one
		}
		m, err := l.model(modelTag(p.Tag))
		if err != nil {
			return nil, err
		}
		if m == nil || m == c.first || m == english {
			continue
		}
		parts = append(parts, part{model: m, begin: p.Begin, end: p.End, point: points})
	}
	return parts, nil
}

// reading is what a model says of a text or of a part of it, and can explain.
type reading struct {
	*model.Explainable
	point int // code points before the part
}

// read is classify for a text that is to be explained. The first reading is that of all of the text.
func (e Embedded) read(content string, expected []string) (found Language, readings []reading, err error) {
	if e.languages == nil {
		return found, []reading{{e.model.ClassifyExplainable(content), 0}}, nil
	}
	c, err := e.languages.choose(e.model, content, expected)
	if err != nil {
		return found, nil, err
	}
	x := c.first.ClassifyExplainable(content)
	if c.first != e.model && c.unsure {
		english := e.model.ClassifyExplainable(content)
		readings = append(readings, reading{english, 0})
		if c.believes(x.Known, x.Unknown, english.Unknown) {
			readings = append(readings, reading{x, 0})
		} else {
			defer x.Close()
		}
		c.unsure = false
	} else {
		readings = append(readings, reading{x, 0})
	}
	parts, err := e.languages.others(c, x.Foreign, e.model, content)
	for _, p := range parts {
		more := p.model.ClassifyExplainable(content[p.begin:p.end])
		if p.model != e.model && isNoise(p.model, more.Known, more.Unknown) {
			more.Close()
			continue
		}
		readings = append(readings, reading{more, p.point})
	}
	return c.Language, readings, err
}

// combine returns the largest probability that a reading gives each head.
func combine(readings []reading) model.Probabilities {
	p := readings[0].Probabilities
	for _, r := range readings[1:] {
		for h := range p {
			p[h] = max(p[h], r.Probabilities[h])
		}
	}
	return p
}

// explain explains the wanted categories, each by the reading that gives it the largest probability.
func explain(readings []reading, wanted [NumCategories]bool) (x Explanation) {
	by := make([][model.Heads]bool, len(readings))
	for c := range wanted {
		if !wanted[c] {
			continue
		}
		best := 0
		for i := range readings {
			if readings[i].Probabilities[c] > readings[best].Probabilities[c] {
				best = i
			}
		}
		by[best][c] = true
	}
	for i, heads := range by {
		if heads == [model.Heads]bool{} {
			continue
		}
		r := &readings[i]
		explanations := r.Explain(heads)
		for c := range x {
			if !heads[c] {
				continue
			}
			for _, part := range explanations[c].Evidence {
				span := Span{Begin: part.Begin + r.point, End: part.End + r.point}
				x[c].Evidence = append(x[c].Evidence, Evidence{Span: span, Weight: part.Weight})
			}
			if p := explanations[c].Passage; p != (model.Passage{}) {
				x[c].Passage = Span{Begin: p.Begin + r.point, End: p.End + r.point}
			}
		}
	}
	return x
}

// closeAll gives the memory of readings back.
func closeAll(readings []reading) {
	for _, r := range readings {
		r.Close()
	}
}

// DetectLanguage guesses the language of a text without classifying it, whatever the classifier.
func (e *Engine) DetectLanguage(content string) Language {
	d, err := language.Default()
	if err != nil {
		return Language{Tag: language.Undetermined} // the weights are in the binary, and are tested
	}
	g := d.Detect(content)
	return Language{Tag: g.Tag, Probability: g.Probability, Supported: e.SupportsLanguage(g.Tag)}
}

// Languages returns the BCP 47 tags of the languages that the classifier knows, English first; nil if it does not say.
func (e *Engine) Languages() []string {
	embedded, ok := e.classifier.(Embedded)
	if !ok || embedded.languages == nil {
		return nil
	}
	return slices.Clone(embedded.languages.supported)
}

// SupportsLanguage reports whether texts in a language, by its BCP 47 tag, are classified by a model of that language.
func (e *Engine) SupportsLanguage(tag string) bool {
	embedded, ok := e.classifier.(Embedded)
	return ok && embedded.languages != nil && embedded.languages.supports(tag)
}
