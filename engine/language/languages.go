// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package language

import "slices"

// Undetermined is the tag (BCP 47) of a text whose language cannot be known.
const Undetermined = "und"

// group is a set of languages that are told apart by their runs of letters, because they share a script.
type group uint8

const (
	latin group = iota
	cyrillic
	arabic
	devanagari
	han // Chinese, Cantonese, and Japanese without kana
	numGroups
)

// The tags of each group, in the order of their lanes.
var groupTags = [numGroups][]string{
	latin: {
		"en", "es", "fr", "de", "it", "pt", "nl", "sv", "da", "no", "fi", "is", "et", "lv", "lt", "pl", "cs", "sk", "sl",
		"hr", "hu", "ro", "sq", "tr", "az", "id", "ms", "vi", "tl", "sw", "af", "ca", "gl", "eu", "ga", "cy", "eo", "la",
		"hi-Latn", "ar-Latn", "ru-Latn", "uz",
	},
	cyrillic:   {"ru", "uk", "be", "bg", "sr", "mk", "kk", "mn", "tt"},
	arabic:     {"ar", "fa", "ur", "ug"},
	devanagari: {"hi", "mr"},
	han:        {"zh", "yue", "ja"},
}

// scriptTags are the languages of scripts that one language is mostly written in.
var scriptTags = []string{"el", "he", "ko", "ja", "th", "hy", "ka", "ta", "te", "bn", "ml", "gu", "kn", "pa", "km", "my",
	"lo", "si", "am"}

// families are languages that are so close that one is often taken for another. The detector answers with the likeliest
// of them, and with the probability of the family.
var families = [][]string{
	{"da", "no"}, {"id", "ms"}, {"cs", "sk"}, {"es", "gl", "ca"}, {"pt", "gl"}, {"nl", "af"}, {"tr", "az"},
	{"zh", "yue"}, {"ru", "be"}, {"bg", "mk"}, {"et", "fi"}, {"hi", "mr"}, {"hr", "sl"}, {"kk", "tt"}, {"uk", "be"},
}

// priors are added to the logits of languages, as to how often what people post is in them. The training knows nothing
// of that. It matters where a text says little: of two words that English and Esperanto both have, English is meant.
var priors = map[string]float32{
	"en": 1.5, "es": 0.5, "fr": 0.5, "de": 0.5, "pt": 0.5, "it": 0.3, "nl": 0.2, "pl": 0.2, "tr": 0.2, "id": 0.2,
	"ru": 0.5, "ar": 0.5, "hi": 0.5, "zh": 0.5,
	"is": -0.4, "et": -0.4, "lv": -0.4, "lt": -0.4, "sl": -0.4, "sq": -0.4, "az": -0.4, "af": -0.7, "gl": -0.7,
	"ca": -0.3, "eu": -0.7, "ga": -0.7, "cy": -0.7, "eo": -1, "la": -1, "uz": -0.4, "sw": -0.4,
	"be": -0.5, "mk": -0.5, "kk": -0.5, "mn": -0.5, "tt": -1, "ug": -1, "yue": -0.7,
}

// Tags returns the BCP 47 tags of all languages that [Detector.Detect] can answer with, without [Undetermined], in
// alphabetical order. "hi-Latn", "ar-Latn" and "ru-Latn" are Hindi, Arabic and Russian in Latin letters. "hr" stands
// for Bosnian and Serbian in Latin letters, too.
func Tags() []string {
	var all []string
	for _, tags := range groupTags {
		all = append(all, tags...)
	}
	all = append(all, scriptTags...)
	slices.Sort(all)
	return slices.Compact(all)
}

// Related reports whether two tags are equal, or of languages that are so close that the detector may take one for the
// other: Danish and Norwegian, Indonesian and Malay, Czech and Slovak.
func Related(a, b string) bool {
	if a == b {
		return true
	}
	for _, f := range families {
		if slices.Contains(f, a) && slices.Contains(f, b) {
			return true
		}
	}
	return false
}
