// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/caddy-moderation/caddy-moderation/engine"
	"github.com/caddy-moderation/caddy-moderation/engine/model"
)

// multilingual returns an engine with all models.
func multilingual(t *testing.T) *engine.Engine {
	t.Helper()
	e, err := engine.New(engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestOneLanguage guards against models that read what their operator has told them not to.
func TestOneLanguage(t *testing.T) {
	t.Parallel()
	m, err := model.Default()
	if err != nil {
		t.Fatal(err)
	}
	alone, err := engine.NewEmbedded(m, "en")
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(engine.Options{Classifier: alone})
	if err != nil {
		t.Fatal(err)
	}
	const spanish = "Eres un hijo de puta, cállate ya, payaso de mierda"
	r, err := e.Moderate(context.Background(), engine.Request{Content: spanish, Languages: []string{"es"}})
	if err != nil {
		t.Fatal(err)
	}
	p := m.Probabilities(spanish)
	for c := range r.Categories {
		if r.Categories[c].Probability != p[c] {
			t.Errorf("%s: got %v, want that of the model of English, %v", engine.Category(c), r.Categories[c], p[c])
		}
	}
	if r.Language.Tag != "es" || r.Language.Supported || len(e.Languages()) != 1 {
		t.Errorf("got %+v, want Spanish, which is not read", r.Language)
	}
	if _, err := engine.NewEmbedded(m, "tlh"); err == nil {
		t.Error("a language without a model: got no error")
	}
}

// TestLanguages has for each language with a model something that is flagged and something that is not. It guards
// against a model that is not asked, not against one that is not good: docs/languages.md has the figures.
func TestLanguages(t *testing.T) {
	t.Parallel()
	e := multilingual(t)
	tested := []string{"en"}
	for _, test := range []struct{ tag, harmful, harmless string }{
		{"es", "Eres un hijo de puta, cállate ya, payaso de mierda", "Mañana vamos a la playa con los niños si hace buen tiempo"},
		{"de", "Du dummes Arschloch, halt endlich deine Fresse", "Morgen fahren wir mit den Kindern an den See, wenn das Wetter hält"},
		{"fr", "Ferme ta gueule sale connard, tu es vraiment une merde", "Demain nous allons à la plage avec les enfants s'il fait beau"},
		{"pt", "Cala a boca seu filho da puta, você é um lixo", "Amanhã vamos à praia com as crianças se fizer sol"},
		{"it", "Stai zitto coglione di merda, fai schifo", "Domani andiamo al mare con i bambini se fa bel tempo"},
		{"nl", "Hou je bek vieze klootzak, je bent een stuk stront", "Morgen gaan we met de kinderen naar het strand als het mooi weer is"},
		{"pl", "Zamknij ryj ty głupia kurwo, jesteś śmieciem", "Jutro jedziemy z dziećmi nad jezioro, jeśli będzie ładna pogoda"},
		{"ar", "انت حمار وكلب ابن كلب اخرس يا حيوان", "غدا سنذهب مع الأطفال إلى البحر إذا كان الطقس جميلا"},
		{"hi", "तू कुत्ता है साले हरामी, अपना मुँह बंद रख", "कल हम बच्चों के साथ बाज़ार जाएँगे अगर मौसम अच्छा रहा"},
		{"zh", "你这个傻逼，闭上你的狗嘴，去死吧", "如果明天天气好，我们就带孩子们去海边玩"},
		{"ja", "お前みたいなクズは黙れ、気持ち悪いんだよ、死ね", "明日天気がよければ、子どもたちと海に行く予定です"},
		{"ru", "Заткнись, тупая тварь, чтоб ты сдох", "Завтра поедем с детьми на озеро, если будет хорошая погода"},
		{"tr", "Kapa çeneni orospu çocuğu, geberip git artık", "Hava güzel olursa yarın çocuklarla denize gideceğiz"},
		{"ko", "닥쳐 이 병신 새끼야, 나가 뒈져라", "내일 날씨가 좋으면 아이들과 함께 바다에 갈 거예요"},
		{"id", "Diam kau anjing goblok, dasar bajingan tak berguna", "Besok kami pergi ke pantai bersama anak-anak kalau cuacanya bagus"},
		{"vi", "Câm mồm đi thằng chó ngu, mày là đồ rác rưởi", "Ngày mai chúng tôi đưa bọn trẻ ra biển nếu trời đẹp"},
		{"sv", "Håll käften din jävla idiot, du är värdelös", "I morgon åker vi till stranden med barnen om det är fint väder"},
		{"da", "Hold kæft din klamme idiot, du er et svin", "I morgen tager vi på stranden med børnene, hvis vejret er godt"},
		{"el", "Βούλωσέ το ρε μαλάκα, είσαι σκουπίδι", "Αύριο θα πάμε στη θάλασσα με τα παιδιά αν κάνει καλό καιρό"},
	} {
		tested = append(tested, test.tag)
		if !e.SupportsLanguage(test.tag) {
			t.Errorf("%s: there is no model", test.tag)
			continue
		}
		harmful, explanation, err := e.Explain(context.Background(), engine.Request{Content: test.harmful})
		if err != nil {
			t.Fatal(err)
		}
		if harmful.Language.Tag != test.tag || !harmful.Language.Supported {
			t.Errorf("%s: got the language %+v", test.tag, harmful.Language)
		}
		if highest(&harmful) < 0.3 {
			t.Errorf("%s: %q: got %+v, want a category that is likely", test.tag, test.harmful, harmful.Categories)
		}
		for c := range explanation {
			if p := explanation[c].Passage; p.End > utf8.RuneCountInString(test.harmful) {
				t.Errorf("%s: the passage %+v is not in the text", test.tag, p)
			}
		}
		harmless, err := e.Moderate(context.Background(), engine.Request{Content: test.harmless})
		if err != nil {
			t.Fatal(err)
		}
		if harmless.Flagged || highest(&harmless) >= highest(&harmful) || harmless.Language.Tag != test.tag {
			t.Errorf("%s: %q: got %+v", test.tag, test.harmless, harmless)
		}
	}
	if got := e.Languages(); len(got) != len(tested) || got[0] != "en" {
		t.Errorf("there are models for %q, and tests for %q", got, tested)
	}
	for _, tag := range model.Languages() {
		if !slices.Contains(tested, tag) {
			t.Errorf("the model for %s is not tested", tag)
		}
	}
}

func highest(r *engine.Result) (p float64) {
	for c := range r.Categories {
		p = max(p, r.Categories[c].Probability)
	}
	return p
}

// TestMixedLanguages guards against harm in English, or in another language, that hides in a text in a third one.
func TestMixedLanguages(t *testing.T) {
	t.Parallel()
	e := multilingual(t)
	const english = "Kill yourself, you worthless piece of shit. Nobody would miss you."
	const spanish = "Mañana vamos a la playa con los niños si hace buen tiempo. Luego comemos en casa de mi hermana. "
	const german = "Du dummes Arschloch, halt endlich deine Fresse. "
	const plain = "The meeting is at nine, and there will be coffee and cake for all of you. "
	for _, test := range []struct {
		name, text string
		expected   []string
	}{
		{"English after Spanish", spanish + english, nil},
		{"English before Spanish", english + " " + spanish, nil},
		{"English between Spanish", spanish + english + " " + spanish, nil},
		{"English where Spanish is expected", english, []string{"es"}},
		{"German after English", plain + german, nil},
		{"German between English", plain + plain + german + plain, nil},
		{"German between Spanish", spanish + german + spanish, nil},
		{"English after Finnish, which has no model", "Hyvää päivää, mitä kuuluu tänään? Täällä sataa. " + english, nil},
	} {
		request := engine.Request{Content: test.text, Languages: test.expected}
		got, explanation, err := e.Explain(context.Background(), request)
		if err != nil {
			t.Fatal(err)
		}
		if highest(&got) < 0.3 {
			t.Errorf("%s: got %+v, want a category that is likely", test.name, got.Categories)
		}
		moderated, err := e.Moderate(context.Background(), request)
		if err != nil || moderated.Categories != got.Categories || moderated.Language != got.Language {
			t.Errorf("%s: Moderate got %+v, Explain %+v, error %v", test.name, moderated, got, err)
		}
		points := []rune(test.text)
		for c := range explanation {
			if got.Categories[c].Probability < highest(&got) {
				continue // the model of Spanish has its own idea of a threat between words of English
			}
			for _, part := range explanation[c].Evidence {
				if word := strings.TrimSpace(string(points[part.Begin:part.End])); word == "" || strings.Contains(spanish, word) && len(word) > 3 {
					t.Errorf("%s: %q carries %s", test.name, word, engine.Category(c))
				}
			}
		}
	}
}

// TestHarmBesideNoise guards against a model that is talked out of its reading: harm in a post full of rare characters,
// or of what is no word, is still harm. It guards against the opposite as well: such characters alone are no harm.
func TestHarmBesideNoise(t *testing.T) {
	t.Parallel()
	e := multilingual(t)
	rng := rand.New(rand.NewPCG(1, 2))
	ideographs := func(n int) string {
		points := make([]rune, n)
		for i := range points {
			points[i] = rune(0x4e00 + rng.IntN(0x5000))
		}
		return string(points)
	}
	highestOf := func(content string) float64 {
		r, err := e.Moderate(context.Background(), engine.Request{Content: content})
		if err != nil {
			t.Fatal(err)
		}
		return highest(&r)
	}
	for _, test := range []struct{ tag, harm, junk string }{
		{"zh", "你这个傻逼，闭上你的狗嘴，去死吧。", ideographs(60)},
		{"ja", "お前みたいなクズは黙れ、気持ち悪いんだよ、死ね。", ideographs(60)},
		{"vi", "Câm mồm đi thằng chó ngu, mày là đồ rác rưởi. ", strings.Repeat("xkq wzrt blorf gnup ", 15)},
		{"es", "Eres un hijo de puta, cállate ya, payaso de mierda. ", strings.Repeat("xkq wzrt blorf gnup ", 15)},
	} {
		for name, content := range map[string]string{
			"before": test.junk + test.harm, "behind": test.harm + test.junk, "around": test.junk + test.harm + test.junk,
		} {
			if p := highestOf(content); p < 0.3 {
				t.Errorf("%s, noise %s: got %.3f, want a category that is likely", test.tag, name, p)
			}
		}
	}
	for range 100 {
		if content := ideographs(20 + rng.IntN(60)); highestOf(content) >= 0.5 {
			t.Errorf("%q: got %.3f, want no alarm on noise", content, highestOf(content))
		}
	}
}

// TestUnknownLanguage guards against a confident approval of what nobody has read.
func TestUnknownLanguage(t *testing.T) {
	t.Parallel()
	e := multilingual(t)
	r, err := e.Moderate(context.Background(), engine.Request{Content: "Huomenna menemme lasten kanssa rannalle, jos on kaunis ilma."})
	if err != nil {
		t.Fatal(err)
	}
	// The guard decides again, by its own policy.
	policy := e.Policy()
	policy.Decide(&r)
	if r.Language.Tag != "fi" || r.Language.Supported || r.Confidence > 0.5 || r.Flagged {
		t.Errorf("got %+v, want Finnish, which has no model, with a low confidence", r)
	}
	if r, err = e.Moderate(context.Background(), engine.Request{Content: "🎉"}); err != nil || r.Language.Tag != "und" || r.Confidence < 0.9 {
		t.Errorf("got %+v, error %v, want an undetermined language and the usual confidence", r, err)
	}
}
