// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package language_test

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/caddy-moderation/caddy-moderation/caddymod/commentanalyzer/language"
)

func TestDetect(t *testing.T) {
	t.Parallel()
	rows := []struct{ name, text, want string }{
		{"nothing", "", "und"},
		{"no letters", "!!! 123 🙂", "und"},
		{"a name of a user alone", "@somebody", "und"},
		{"one word", "hello", "en"},
		{"one word that other systems take for another language", "lol", "en"},
		{"misspelt", "ur sooo dumm u idjot", "en"},
		{"stretched", "heyyyyy thx", "en"},
		{"unknown words", "Kristifreeland zorblax", "en"},
		{"slang of games", "ez gg noobs", "en"},
		{"places", "@ Los Angeles, California", "en"},
		{"a borrowed word", "that café was naïve, honestly", "en"},
		{"a foreign word among English ones", "she said die Katze and left", "en"},
		{"letters in other sizes", "ｙｏｕ ｉｄｉｏｔ", "en"},
		{"English with an address", "look at https://www.example.de/der/die/das/und/ist", "en"},
		{"Spanish", "No me gusta nada lo que dices, eres muy tonto", "es"},
		{"short Spanish", "¿qué haces aquí?", "es"},
		{"French", "C'est vraiment n'importe quoi, tu es trop con", "fr"},
		{"German", "Das ist doch nicht dein Ernst, du Idiot", "de"},
		{"German by its letters", "Größenwahn überall", "de"},
		{"Portuguese", "Você não sabe o que está falando, seu burro", "pt"},
		{"Italian", "Non capisci niente di quello che ho detto", "it"},
		{"Dutch", "Dat is echt niet wat ik bedoel, jij sukkel", "nl"},
		{"Swedish", "Det är inte sant och du vet att jag har rätt", "sv"},
		{"Polish", "Nie wiem, co to jest, ale jesteś głupi", "pl"},
		{"Czech", "Nevím, co to je, ale ty jsi hloupý", "cs"},
		{"Indonesian", "Kamu tidak tahu apa yang kamu katakan", "id"},
		{"Hindi in Latin letters", "tum bahut bure ho yaar, kya kar rahe ho", "hi-Latn"},
		{"Turkish", "Sen ne diyorsun, bu çok saçma bir şey değil mi", "tr"},
		{"Finnish", "En ole koskaan nähnyt, että se on niin", "fi"},
		{"Vietnamese", "Tôi không biết bạn đang nói gì", "vi"},
		{"Russian", "Ты не знаешь, о чём говоришь", "ru"},
		{"Ukrainian", "Ти не знаєш, про що говориш, її немає", "uk"},
		{"Arabic", "أنت لا تعرف ماذا تقول", "ar"},
		{"Persian", "چرا این کار را میکنی", "fa"},
		{"Hindi", "तुम क्या कर रहे हो", "hi"},
		{"Chinese", "你不知道你在说什么", "zh"},
		{"Japanese", "何を言っているのか分からない", "ja"},
		{"Korean", "무슨 말을 하는지 모르겠어", "ko"},
		{"Greek", "Δεν ξέρεις τι λες", "el"},
		{"Hebrew", "אתה לא יודע מה אתה אומר", "he"},
		{"Thai", "คุณไม่รู้ว่าคุณพูดอะไร", "th"},
		{"Chinese with a product's name", "这个 iPhone 很好用", "zh"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			got := language.Detect(row.text)
			if got[0] != row.want {
				t.Errorf("%q is %v, want %s", row.text, got, row.want)
			}
		})
	}
}

// TestNothingIsTooMuch: long texts are cut, wherever the cut falls.
func TestNothingIsTooMuch(t *testing.T) {
	t.Parallel()
	for _, unit := range []string{"a", "é", "語", "𝒜", "\xff", " ", "@", "\u0301"} {
		for extra := range 4 {
			text := strings.Repeat("x", extra) + strings.Repeat(unit, 30_000)
			if got := language.Detect(text); len(got) == 0 {
				t.Errorf("%q repeated: no guess", unit)
			}
		}
	}
}

func FuzzDetect(f *testing.F) {
	f.Add("you are an idiot")
	f.Add("@a http://b 語 ß")
	f.Fuzz(func(t *testing.T, text string) {
		got := language.Detect(text)
		if len(got) == 0 || len(got) > 3 || slices.Contains(got, "") {
			t.Errorf("%q: got %v, want one to three languages, none of them empty", text, got)
		}
		for i, tag := range got {
			if slices.Contains(got[i+1:], tag) || !utf8.ValidString(tag) {
				t.Errorf("%q: got %v, want valid tags, each of them once", text, got)
			}
		}
	})
}

func BenchmarkDetect(b *testing.B) {
	text := strings.Repeat("The committee met on Tuesday to talk about the new playground. ", 8)
	b.ReportAllocs()
	for b.Loop() {
		language.Detect(text)
	}
}
