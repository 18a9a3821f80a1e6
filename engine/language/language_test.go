// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package language_test

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/caddy-moderation/caddy-moderation/engine/language"
)

func detector(t testing.TB) *language.Detector {
	t.Helper()
	d, err := language.Default()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestDetect has sentences of every kind that the detector knows, written for this test.
func TestDetect(t *testing.T) {
	t.Parallel()
	d := detector(t)
	for _, test := range []struct{ want, text string }{
		{"en", "I never thought that the old bridge would still be standing."},
		{"en", "ngl that was the worst match ive seen all season"},
		{"es", "Mi hermana vive en un pueblo muy pequeño cerca del mar."},
		{"es", "no manches wey ya llegaste o todavia estas en la chamba"},
		{"de", "Gestern haben wir den ganzen Tag im Garten gearbeitet."},
		{"fr", "Je ne sais pas encore si nous partirons en vacances cet été."},
		{"pt", "Amanhã vou buscar o meu filho à escola e depois vamos ao cinema."},
		{"it", "Non ho ancora capito perché il treno sia sempre in ritardo."},
		{"nl", "We gaan morgen met de fiets naar het strand als het niet regent."},
		{"pl", "Nie wiem, czy zdążymy na ten pociąg, bo jest straszny korek."},
		{"sv", "Jag tycker att vi borde åka hem innan det blir mörkt ute."},
		{"tr", "Dün akşam arkadaşlarımla birlikte çok güzel bir film izledik."},
		{"id", "Besok pagi kami akan pergi ke pasar untuk membeli sayuran."},
		{"vi", "Hôm nay trời mưa to nên chúng tôi ở nhà xem phim."},
		{"fi", "Huomenna menemme kaupunkiin ostamaan uudet kengät."},
		{"hu", "Tegnap este nagyon későn értünk haza a koncertről."},
		{"cs", "Včera jsme byli na výletě a cestou domů začalo pršet."},
		{"ro", "Mâine dimineață plecăm devreme spre munte cu mașina."},
		{"ru", "Вчера мы весь вечер сидели дома и смотрели старые фильмы."},
		{"uk", "Завтра ми їдемо до бабусі в село на кілька днів."},
		{"bg", "Утре ще отидем на пазар да купим плодове и зеленчуци."},
		{"el", "Αύριο θα πάμε στη θάλασσα αν έχει καλό καιρό."},
		{"ar", "غدا سنذهب إلى السوق لشراء الفواكه والخضروات."},
		{"fa", "فردا صبح با قطار به خانه مادربزرگم می\u200cروم."},
		{"he", "מחר אנחנו נוסעים לים אם מזג האוויר יהיה יפה."},
		{"hi", "कल हम लोग बाज़ार से सब्ज़ियाँ लेने जाएँगे।"},
		{"hi-Latn", "yaar kal hum log bazaar jayenge aur sabzi lekar aayenge"},
		{"ar-Latn", "ana msh 3aref leh enta mesh btrod 3alaya ya sa7by"},
		{"ru-Latn", "ya ne znayu pochemu on segodnya ne prishel na rabotu"},
		{"th", "พรุ่งนี้เราจะไปตลาดซื้อผักและผลไม้"},
		{"ko", "내일은 친구들과 함께 바다에 놀러 가기로 했어요."},
		{"ja", "明日は友達と海に行く約束をしています。"},
		{"zh", "明天我们要去市场买一些新鲜的蔬菜和水果。"},
		{"ka", "ხვალ ბაზარში წავალთ ხილის საყიდლად."},
		{"en", "@señorita check https://ejemplo.es/pagina-en-español that is so #increíble right?"},
		{language.Undetermined, ""},
		{language.Undetermined, "🎉🎉🎉"},
		{language.Undetermined, "12:30 - 14:00 (2x)"},
		{language.Undetermined, "x"},
		{language.Undetermined, "Lukas"},
	} {
		if got := d.Detect(test.text); got.Tag != test.want {
			t.Errorf("%q: got %+v, want %s", test.text, got, test.want)
		}
	}
}

// TestTags guards the promise of forty languages and scripts.
func TestTags(t *testing.T) {
	t.Parallel()
	// docs/languages.md says 75 languages and three of them in Latin letters.
	if tags := language.Tags(); len(tags) != 78 || !slices.Contains(tags, "es") || !slices.IsSorted(tags) {
		t.Errorf("got the tags %q, want 78 in order", tags)
	}
	if !language.Related("da", "no") || language.Related("en", "de") {
		t.Error("Danish and Norwegian must be related, English and German not")
	}
}

// TestPassages guards against mixed texts of which a part is in no passage, or in one of another language.
func TestPassages(t *testing.T) {
	t.Parallel()
	const text = "Gestern war das Wetter wirklich schön und wir waren im Park. " +
		"I really think that you should have come with us, it was great. " +
		"Вечером мы ещё пошли в кино и смотрели новый фильм."
	var tags []string
	end := 0
	for _, p := range detector(t).AppendPassages(nil, text) {
		if p.Begin != end {
			t.Fatalf("a passage begins at %d, want %d", p.Begin, end)
		}
		end = p.End
		tags = append(tags, p.Tag)
	}
	if want := "de en ru"; strings.Join(tags, " ") != want || end != len(text) {
		t.Errorf("got the passages %q up to %d, want %s up to %d", tags, end, want, len(text))
	}
}

func TestBeginsEnglish(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"I think that this is what you want": true,
		"you and me":                         true,
		"die Frau war so nett":               false,
		"me too":                             false,
		"":                                   false,
		"the quick мир and that":             false,
	} {
		if got := language.BeginsEnglish(text); got != want {
			t.Errorf("%q: got %t, want %t", text, got, want)
		}
	}
}

func TestDetectDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes pools forget")
	}
	d := detector(t)
	text := strings.Repeat("Mi hermana vive en un pueblo muy pequeño. ", 40)
	d.Detect(text)
	if n := testing.AllocsPerRun(100, func() { d.Detect(text) }); n > 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

func FuzzPassages(f *testing.F) {
	f.Add("a\x00 Ünïcödé \xff 你好。Hello there. مرحبا @x http://y #z\n\n")
	d := detector(f)
	f.Fuzz(func(t *testing.T, text string) {
		if g := d.Detect(text); g.Probability < 0 || g.Probability > 1.0001 || g.Tag == "" || g.Likeliest == "" {
			t.Errorf("%q: got %+v", text, g)
		}
		end := 0
		for _, p := range d.AppendPassages(nil, text) {
			if p.Begin != end || p.End <= p.Begin {
				t.Fatalf("%q: a passage from %d to %d after %d", text, p.Begin, p.End, end)
			}
			if utf8.ValidString(text) && !utf8.ValidString(text[p.Begin:p.End]) {
				t.Fatalf("%q: a passage cuts a letter", text)
			}
			end = p.End
		}
		if end != len(text) {
			t.Errorf("%q: the passages end at %d", text, end)
		}
	})
}

// FuzzLoad guards against weights files that crash whoever reads them.
func FuzzLoad(f *testing.F) {
	f.Add([]byte("CADDYLNG\x01\x30\x0e"))
	f.Fuzz(func(_ *testing.T, file []byte) { _, _ = language.Load(file) })
}
