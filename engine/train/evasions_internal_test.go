// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package train

import (
	"bytes"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/caddy-moderation/caddy-moderation/engine/model"
)

func TestEvasionsDisguiseWords(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ way, word, want string }{ // want "" for a word that the way leaves out
		{"spaced", "idiota", "i d i o t a"},
		{"dotted", "कुत्ता", "कु.त्ता"},
		{"dotted", "병신", "병.신"},
		{"zero width", "傻瓜", "傻\u200b瓜"},
		{"all doubled", "сука", "ссууккаа"},
		{"all doubled", "병신", ""},
		{"vowels dropped", "μαλάκας", "μλκς"},
		{"vowels dropped", "كلب", ""},
		{"vowel dropped", "đồ", ""},
		{"masked", "傻瓜", "傻*"},
		{"masked", "dum", "d*m"},
		{"masked", "psst", ""},
		{"leet", "дурак", ""},
		{"leet", "brr", ""},
		{"look-alike", "كلب", ""},
		{"swapped", "puta", "ptua"},
		{"swapped", "hoe", ""},
		{"accents left out", "şerefsiz", "serefsiz"},
		{"accents left out", "μαλάκας", "μαλακας"},
		{"accents left out", "đĩ", "di"},
		{"accents left out", "mierda", ""},
		{"umlauts as two letters", "Schläge", "Schlaege"},
		{"spaced", "a", ""},
	} {
		ways := evasions()
		way := &ways[slices.IndexFunc(ways, func(e evasion) bool { return e.name == c.way })]
		got, _ := way.disguiseWord([]rune(c.word), rand.New(rand.NewPCG(1, 2)))
		if got != c.want {
			t.Errorf("%s of %q: got %q, want %q", c.way, c.word, got, c.want)
		}
	}
}

// A way must change the words that it is given and nothing else, and the same in every run.
func TestEvasionsKeepTheRestOfTheText(t *testing.T) {
	t.Parallel()
	for _, in := range []string{
		"¡qué [idiota], de verdad!", "ты [дурак] и всё", "είσαι [μαλάκας] ρε",
		"انت [حمار] كبير", "तू [कुत्ता] है", "너 [바보] 야", "君は[馬鹿]だ",
	} {
		before, rest, _ := strings.Cut(in, "[")
		word, after, _ := strings.Cut(rest, "]")
		begin := len([]rune(before))
		places := []placeOf{{begin, begin + len([]rune(word))}}
		applied := 0
		ways := evasions()
		for k := range ways {
			text := []rune(before + word + after)
			got, changed := ways[k].disguise(text, places, rand.New(rand.NewPCG(3, uint64(k))))
			again, _ := ways[k].disguise(text, places, rand.New(rand.NewPCG(3, uint64(k))))
			if got != again {
				t.Errorf("%s of %q: got %q and then %q, want the same", ways[k].name, in, got, again)
			}
			if !strings.HasPrefix(got, before) || !strings.HasSuffix(got, after) || changed != (got != string(text)) {
				t.Errorf("%s of %q: got %q, changed %v, want a change of the word alone",
					ways[k].name, in, got, changed)
			}
			if changed {
				applied++
			}
		}
		if applied < 4 {
			t.Errorf("%q: got %d ways, want 4 and more", in, applied)
		}
	}
}

func TestTelltaleWordsAreThoseOfTheVerdict(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ language, text, want string }{
		{"es", "Mira, eres una puta idiota y todos lo saben.", "idiota"},
		{"ru", "Слушай, ты просто тупая сука.", "тупая"},
		{"zh", "你这个傻逼", "傻逼"},
	} {
		m, err := model.ForLanguage(c.language)
		if err != nil || m == nil {
			t.Skipf("no model of %s: %v", c.language, err)
		}
		text := []rune(c.text)
		p := prediction{probabilities: m.Probabilities(c.text)}
		if !p.flagged() {
			t.Errorf("%q is not flagged", c.text)
			continue
		}
		var got []string
		for _, w := range telltale(m, text, &p) {
			got = append(got, string(text[w.begin:w.end]))
		}
		if len(got) == 0 || len(got) > 2 || !strings.Contains(strings.Join(got, " "), c.want) {
			t.Errorf("%q: got %q, want one or two words with %q", c.text, got, c.want)
		}
	}
}

func TestReadMentionsRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, file, want string }{
		{"neutral sentences", "@ chat xx\n-|My neighbour is deaf.\n-|my aunt is a nun\n", ""},
		{"a harmful row", "@ chat xx\n-|one\nh|two\n", "sentence 2 must be harmless"},
		{"a contrast", "@ chat xx\n-|one\n+-|two\n", "sentence 1 must be harmless and no contrast"},
		{"the same sentence", "@ chat xx\n-|One two.\n-|one two\n", "sentences 1 and 2 are the same"},
		{"a row without letters", "@ chat xx\none\n", "line 2"},
	} {
		rows, err := ReadMentions(fstest.MapFS{"xx.txt": {Data: []byte(c.file)}}, "xx.txt")
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want %q", c.name, err, c.want)
		}
		if err == nil && (len(rows) != 2 || rows[0].Kind != "chat") {
			t.Errorf("%s: got %+v, want two sentences of a chat", c.name, rows)
		}
	}
}

// The sentences measure what the models do with people they have not read about, so none may be trained on.
func TestMentionsAreNotInTheCorpus(t *testing.T) {
	t.Parallel()
	for _, language := range model.Languages()[1:] {
		rows, err := ReadMentions(os.DirFS("exam"), "mentions/"+language+".txt")
		if err != nil {
			t.Error(err)
			continue
		}
		if len(rows) < 70 {
			t.Errorf("%s: got %d sentences, want 70 and more", language, len(rows))
		}
		keys := map[string]bool{}
		for i := range rows {
			keys[Key(rows[i].Text)] = true
		}
		names, err := os.ReadDir("corpus/" + language)
		if err != nil {
			t.Skipf("the corpus is missing: %v", err)
		}
		others := []string{"exam/" + language + ".txt"}
		for _, n := range names {
			if strings.HasSuffix(n.Name(), ".txt") {
				others = append(others, "corpus/"+language+"/"+n.Name())
			}
		}
		for _, name := range others {
			texts, err := ReadSheet(os.DirFS("."), name)
			if err != nil {
				t.Error(err)
			}
			for i := range texts {
				if keys[Key(texts[i].Text)] {
					t.Errorf("%s has a sentence of the mentions in %s, want another", name, language)
				}
			}
		}
	}
}

func TestSectionsOfALanguage(t *testing.T) {
	t.Parallel()
	m, err := model.ForLanguage("es")
	if err != nil || m == nil {
		t.Skipf("no model of Spanish: %v", err)
	}
	files := fstest.MapFS{
		"mentions.txt": {Data: []byte("@ chat es\n-|mi vecino es sordo y muy simpático\n-|Eres una puta idiota.\n")},
		"exam.txt":     {Data: []byte("@ chat es\nr|Eres una puta idiota.\n-|Hola.\n")},
	}
	mentions, err := ReadMentions(files, "mentions.txt")
	if err != nil {
		t.Fatal(err)
	}
	rows, err := ReadSheet(files, "exam.txt")
	if err != nil {
		t.Fatal(err)
	}
	sections := func() string {
		var out bytes.Buffer
		Mentions(&out, m, mentions)
		Evasions(&out, m, rows)
		return out.String()
	}
	got := sections()
	for _, want := range []string{
		"2 neutral sentences: 1 flagged (50.0 %)", "| 2 | chat | harassment |", "Eres una puta idiota. |",
		"1 harmful texts are flagged as they are", "| spaced | 1 |", "| leet | 1 |", "| all |",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got %s\nwant %q in it", got, want)
		}
	}
	for _, not := range []string{"simpático", "umlauts"} {
		if strings.Contains(got, not) {
			t.Errorf("got %s\nwant no %q in it", got, not)
		}
	}
	if again := sections(); again != got {
		t.Errorf("got %s\nand then %s, want the same", got, again)
	}
}
