// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package text_test

import (
	"strings"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/engine/text"
)

// otherDictionary returns a small dictionary of a language other than English.
func otherDictionary(words string) *text.Dictionary {
	var list []text.Word
	for w := range strings.FieldsSeq(words) {
		list = append(list, text.Word{Folded: w, Cost: 100})
	}
	return text.NewDictionary(list, "not")
}

func TestWordsOfOtherScriptsAreRecovered(t *testing.T) {
	t.Parallel()
	d := otherDictionary("а ты я в сука тупая дурак пидор μαλάκας είσαι το كلب انت يا कुत्ता तू तो मैं भी है " +
		"병신 할 수 있 şerefsiz serefsiz schlage kafer")
	for _, c := range []struct{ name, in, want string }{
		{"spaced Cyrillic", "ты с у к а", "ты сука"},
		{"spaced words in a row", "т ы с у к а т у п а я", "ты сука тупая"},
		{"dotted Cyrillic", "ты с.у.к.а!", "ты сука"},
		{"spelled, not in the dictionary", "ты г.а.д.и.н.а", "ты гадина"},
		{"spaced Greek", "είσαι μ α λ ά κ α ς", "είσαι μαλάκας"},
		{"spaced Arabic", "يا ك ل ب", "يا كلب"},
		{"dotted Devanagari", "तू कु.त्ता है", "तू कुत्ता है"},
		{"spaced Devanagari", "तू कु त्ता है", "तू कुत्ता है"},
		{"dotted Hangul", "병.신", "병신"},
		{"stretched Cyrillic", "суууука", "сука"},
		{"one letter doubled", "сукка, дуррак", "сука дурак"},
		{"all letters doubled", "ссууккаа كككلللب", "сука كلب"},
		{"neighbours swapped", "ты друак", "ты дурак"},
		{"a vowel masked", "ты с*ка и д*рак", "ты сука и дурак"},
		{"a Greek vowel masked", "είσαι μαλ*κας", "είσαι μαλάκας"},
		{"Latin letters in Greek words", "είσαι μaλάκaς, μαλάκας", "είσαι μαλάκας μαλάκας"},
		{"doubled letters beside an accent", "şşerefsiz", "serefsiz"},
		{"umlauts as two letters", "Schlaege, Kaefer", "schlage kafer"},
	} {
		if got := recovered(d, c.in); got != c.want {
			t.Errorf("%s: %q is tokenized as %q, want %q", c.name, c.in, got, c.want)
		}
	}
}

// Hazard: genuine text is read as another one, or a name becomes a bad word.
func TestGenuineWordsOfOtherScriptsStayAsTheyAre(t *testing.T) {
	t.Parallel()
	d := otherDictionary("а я в и у сука дурак كلب तो मैं भी 할 수 있 것 το η")
	for _, c := range []struct{ in, want string }{
		{"а я в магазин", "а я в магазин"},
		{"Мы едем в Друак", "мы едем в друак"},
		{"Мы едем в Сукка", "мы едем в сукка"},
		{"А. С. Пушкин", "а с пушкин"},
		{"तो मैं भी", "तो मैं भी"},
		{"할 수 있 것", "할 수 있 것"},
		{"بلك", "بلك"}, // the letters of كلب in another order
		{"слово*сноска", "слово сноска"},
		{"κάτι 5*4", "κάτι 5 4"},
	} {
		if got := recovered(d, c.in); got != c.want {
			t.Errorf("%q is tokenized as %q, want %q", c.in, got, c.want)
		}
	}
}

// The models of English were fitted on words with accents as they are typed.
func TestWordsWithAccentsStayInEnglish(t *testing.T) {
	t.Parallel()
	d := dictionary()
	for _, c := range []struct{ in, want string }{{"stúpidd", "stupidd"}, {"ìdoit", "idoit"}, {"fúeck", "fueck"}} {
		if got := recovered(d, c.in); got != c.want {
			t.Errorf("%q is tokenized as %q, want %q", c.in, got, c.want)
		}
	}
}

// Hazard: offsets and counts of joined letters that do not lie in the text.
func TestJoinedLettersHaveTheirPlace(t *testing.T) {
	t.Parallel()
	var s text.Scratch
	tokens := s.TokenizeWith("ты с у к а да", otherDictionary("ты сука да"))
	if len(tokens) != 3 || s.Words() != 3 || tokens[1].Begin != 3 || tokens[1].End != 10 ||
		!tokens[1].Is(text.Obfuscated) {
		t.Errorf("got %+v, %d words, want сука from 3 to 10, obfuscated, and 3 words", tokens, s.Words())
	}
}
