// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/caddy-moderation/caddy-moderation/engine/model"
)

// first wants the first head alone.
var first = [model.Heads]bool{true}

// smallModel loads a model without a network, with weights for "badword", for "nasty" and "very", which weigh less, and
// against "kind".
func smallModel(t testing.TB) *model.Model {
	t.Helper()
	h := header()
	h.Buckets = 1024
	rows := slices.Concat(rowsOf("badword", 100)[:1], rowsOf("nasty", 60)[:1], rowsOf("very", 30)[:1],
		rowsOf("slightly", 8)[:1], rowsOf("kind", -50)[:1])
	words := wordList("badword", "you", "are", "a", "nasty", "very", "kind")
	var b bytes.Buffer
	if err := model.Write(&b, h, model.Weights{Rows: rows, Words: words}); err != nil {
		t.Fatal(err)
	}
	m, err := model.Load(&b)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// texts returns the parts of content that are evidence.
func texts(content string, explanation model.Explanation) (out []string) {
	points := []rune(content)
	for _, e := range explanation.Evidence {
		out = append(out, string(points[e.Begin:e.End]))
	}
	return out
}

func TestEvidenceIsTheWordsAsTheyStandInTheText(t *testing.T) {
	t.Parallel()
	m := smallModel(t)
	for _, c := range []struct {
		name, content string
		want          []string
	}{
		{"plain", "you are a badword today", []string{"badword"}},
		{"nothing else", "badword", []string{"badword"}},
		{"nothing", "", nil},
		{"nothing known", "you are here", nil},
		{"what speaks against", "you are kind", nil},
		{"beside what speaks against", "a kind badword", []string{"badword"}},
		{"neighbours", "you very nasty badword there", []string{"very nasty badword"}},
		{"apart", "you nasty man are a badword", []string{"nasty", "badword"}},
		{"two sentences", "That is nasty. Badword!", []string{"nasty", "Badword"}},
		{"one with little weight", "slightly odd, you badword", []string{"badword"}},
		{"repeated", "you badword you badword you badword", []string{"badword"}},
		{"emoji", "😀😀 a badword 😀", []string{"badword"}},
		{"flags and joined emoji", "🇩🇪 👩‍👩‍👧 👍🏽 badword", []string{"badword"}},
		{"accents", "ça été déjà badword", []string{"badword"}},
		{"combining marks", "e\u0301e\u0301 b\u0337a\u0334d\u0336word e\u0301", []string{"b\u0337a\u0334d\u0336word"}},
		{"zero width", "\u200byo\u200bu b\u200bad\u200bword\u200b!", []string{"b\u200bad\u200bword"}},
		{"leetspeak", "you b4dw0rd 😀", []string{"b4dw0rd"}},
		{"full width", "you ｂａｄｗｏｒｄ", []string{"ｂａｄｗｏｒｄ"}},
		{"mathematical", "you 𝐛𝐚𝐝𝐰𝐨𝐫𝐝", []string{"𝐛𝐚𝐝𝐰𝐨𝐫𝐝"}},
		{"spaced", "you b a d w o r d !", []string{"b a d w o r d"}},
		{"dotted", "you b.a.d.w.o.r.d!", []string{"b.a.d.w.o.r.d"}},
		{"stretched", "you badwoooooord", []string{"badwoooooord"}},
		{"masked", "you b*dword", []string{"b*dword"}},
		{"broken UTF-8", "\xff\xfe you \xff badword", []string{"badword"}},
		{"Han around", "我们 badword 我们", []string{"badword"}},
	} {
		got := m.Explain(c.content, first)
		if words := texts(c.content, got[0]); !slices.Equal(words, c.want) {
			t.Errorf("%s: the evidence in %q is %q, want %q", c.name, c.content, words, c.want)
		}
		if !reflect.DeepEqual(got[1:], make([]model.Explanation, model.Heads-1)) {
			t.Errorf("%s: explanations of heads that were not wanted: %v, want none", c.name, got[1:])
		}
	}
}

// Of joined words the evidence is the one that has the weight. Where letters were added between them, the places inside
// are not known, and the evidence is all of them rather than half of one.
func TestEvidenceInsideJoinedWords(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	words := wordList("you", "are", "badword")
	for i := range words {
		words[i].Cost = 40
	}
	if err := model.Write(&b, header(), model.Weights{Rows: rowsOf("badword", 100), Words: words}); err != nil {
		t.Fatal(err)
	}
	m := load(t, b.Bytes())
	for _, c := range []struct{ content, want string }{
		{"see, youarebadword 😀", "badword"},
		{"see, youare\u200bbad\u200bword 😀", "youare\u200bbad\u200bword"},
		{"see, y o u a r e b a d w o r d 😀", "y o u a r e b a d w o r d"},
	} {
		if got := texts(c.content, m.Explain(c.content, first)[0]); !slices.Equal(got, []string{c.want}) {
			t.Errorf("the evidence in %q is %q, want %q", c.content, got, c.want)
		}
	}
}

func TestWeightsAreShares(t *testing.T) {
	t.Parallel()
	m := smallModel(t)
	if got := m.Explain("oh you badword", first)[0].Evidence; len(got) != 1 || got[0].Weight != 1 {
		t.Errorf("the evidence of the only word that speaks for the head is %v, want one span of weight 1", got)
	}
	got := m.Explain("a nasty man is a badword", first)[0].Evidence
	if len(got) != 2 {
		t.Fatalf("the evidence is %v, want two spans", got)
	}
	if sum := got[0].Weight + got[1].Weight; sum < 0.999 || sum > 1 || got[0].Weight >= got[1].Weight {
		t.Errorf("the evidence is %v, want weights that add up to 1, the second the larger", got)
	}
}

func TestTheStrongestEvidenceIsKept(t *testing.T) {
	t.Parallel()
	var rows []model.Row
	var content strings.Builder
	for i := range 8 {
		word := fmt.Sprintf("word%c", 'a'+i)
		rows = append(rows, rowsOf(word, int8(60+5*(i*3%8)))[:1]...)
		fmt.Fprintf(&content, "%s and then ", word)
	}
	h := header()
	h.Buckets = 1024
	m := load(t, write(t, h, rows))
	got := texts(content.String(), m.Explain(content.String(), first)[0])
	// i*3%8 is 0 3 6 1 4 7 2 5.
	if want := []string{"wordb", "wordc", "worde", "wordf", "wordh"}; !slices.Equal(got, want) {
		t.Errorf("the evidence is %q, want the five strongest in the order of the text: %q", got, want)
	}
}

func TestTheWindowThatDecidesIsExplained(t *testing.T) {
	t.Parallel()
	m := smallModel(t)
	around := strings.Repeat("Nothing of interest stands here today. Other things do, one by one. ", 30)
	content := around + "You very nasty badword, go. " + around + "A nasty street."
	if got := texts(content, m.Explain(content, first)[0]); !slices.Equal(got, []string{"very nasty badword"}) {
		t.Errorf("the evidence is %q, want very nasty badword", got)
	}
}

// checkExplanations fails the test unless the explanations of all heads are as documented.
func checkExplanations(t testing.TB, content string, explanations [model.Heads]model.Explanation) {
	t.Helper()
	points := []rune(content)
	blank := strings.TrimSpace(content) == ""
	for h, x := range explanations {
		at, sum := 0, 0.0
		for _, e := range x.Evidence {
			if e.Begin < at || e.End <= e.Begin || e.End > len(points) || !(e.Weight > 0 && e.Weight <= 1) {
				t.Fatalf("%q: the evidence for %s is %v, want spans in order with weights above 0 and at most 1",
					content, model.HeadNames[h], x.Evidence)
			}
			at, sum = e.End, sum+e.Weight
		}
		if len(x.Evidence) > model.MaxEvidence || sum > 1+1e-9 {
			t.Fatalf("%q: the evidence for %s is %v, want at most %d spans whose weights add up to at most 1",
				content, model.HeadNames[h], x.Evidence, model.MaxEvidence)
		}
		p := x.Passage
		if blank {
			if p != (model.Passage{}) {
				t.Fatalf("%q: the passage of %s is %v, want none in white space", content, model.HeadNames[h], p)
			}
			continue
		}
		if p.Begin < 0 || p.End <= p.Begin || p.End > len(points) {
			t.Fatalf("%q: the passage of %s is %v, want one in the text", content, model.HeadNames[h], p)
		}
		if unicode.IsSpace(points[p.Begin]) || unicode.IsSpace(points[p.End-1]) {
			t.Fatalf("%q: the passage of %s is %q, want no white space around it",
				content, model.HeadNames[h], string(points[p.Begin:p.End]))
		}
		if len(x.Evidence) == 0 {
			continue
		}
		byWeight := func(a, b model.Evidence) int { return cmp.Compare(a.Weight, b.Weight) }
		strongest := slices.MaxFunc(x.Evidence, byWeight)
		if strongest.End <= p.Begin || p.End <= strongest.Begin {
			t.Fatalf("%q: the passage of %s is %v, want one that overlaps the strongest evidence of %v",
				content, model.HeadNames[h], p, x.Evidence)
		}
	}
}

// passage returns what stands in a passage.
func passage(content string, p model.Passage) string { return string([]rune(content)[p.Begin:p.End]) }

// everything wants all heads.
func everything() (all [model.Heads]bool) {
	for h := range all {
		all[h] = true
	}
	return all
}

// harmless is ordinary text. None of its words has a weight in smallModel.
const harmless = "The bus was late this morning, so we walked along the canal and counted herons. There were four, " +
	"each beside its own bridge, as if somebody had placed them. At the bakery we bought bread for the week. " +
	"Later the sun came out (at last) and dried the benches. My aunt wrote that her tomatoes ripened early. "

// A window of a text of one or two sentences is the text. Of longer ones the passage is the window that decided.
func TestThePassageOfATextIsTheWindowThatDecided(t *testing.T) {
	t.Parallel()
	m := smallModel(t)
	around := strings.Repeat(harmless, 8)
	words := strings.Repeat("one two three four five six seven eight nine ten ", 12)
	for _, c := range []struct {
		name, content, want string
	}{
		{"nothing", "", ""},
		{"white space", " \n\u00a0\u3000\u2028 ", ""},
		{"nothing known", "you are here", "you are here"},
		{"no words", "  ?! … ", "?! …"},
		{"one word", "badword", "badword"},
		{"white space around", "\u3000\n you are a badword. \t\u2028", "you are a badword."},
		{"punctuation around", " — (you badword!) … ", "— (you badword!) …"},
		{"emoji around", "😀😀 a badword 😀", "😀😀 a badword 😀"},
		{"broken UTF-8", " \xff\xfe you \xff badword \xff", "\uFFFD\uFFFD you \uFFFD badword \uFFFD"},
		{"two sentences", "See you at nine. You badword!", "See you at nine. You badword!"},
		{"a sentence among others", around + "«You very nasty badword, go!» " + around, "«You very nasty badword, go!»"},
		{"at the beginning", " You very nasty badword, go! " + around, "You very nasty badword, go!"},
		{"at the end", around + "You very nasty badword, go?!”\n", "You very nasty badword, go?!”"},
		{"the worse of two", around + "A nasty man. " + around + "A nasty badword. " + around, "A nasty badword."},
		{"accents", strings.Repeat("Ça été là. ", 90) + "Very nasty badword! " + strings.Repeat("Où été là? ", 90),
			"Very nasty badword!"},
		{"emoji", strings.Repeat("Fine 😀👩‍👩‍👧🇩🇪. ", 90) + "Very nasty badword! " + strings.Repeat("Fine 👍🏽. ", 90),
			"Very nasty badword!"},
		{"disguised", around + "You very n4sty b\u200bad\u200bw0rd! " + around, "You very n4sty b\u200bad\u200bw0rd!"},
		{"spaced", around + "You very nasty b a d w o r d, go. " + around, "You very nasty b a d w o r d, go."},
		{"mathematical", around + "You very nasty 𝐛𝐚𝐝𝐰𝐨𝐫𝐝! " + around, "You very nasty 𝐛𝐚𝐝𝐰𝐨𝐫𝐝!"},
		{"no sentences", words + "nasty badword " + words, ""},
		{"no spaces", strings.Repeat("我们在这里。", 60) + "badword！" + strings.Repeat("他们在那里。", 60), ""},
	} {
		x := m.Explain(c.content, first)
		got := passage(c.content, x[0].Passage)
		for h := 1; h < model.Heads; h++ {
			x[h] = x[0] // the others were not wanted
		}
		checkExplanations(t, c.content, x)
		if c.want != "" && got != c.want || strings.TrimSpace(c.content) == "" && got != "" {
			t.Errorf("%s: the passage is %q, want %q", c.name, got, c.want)
		}
		if !strings.Contains(got, "badword") && strings.Contains(c.content, " badword") {
			t.Errorf("%s: the passage is %q, want it with the bad word", c.name, got)
		}
		if n := len([]rune(got)); n > 400 {
			t.Errorf("%s: the passage has %d characters, want a window: %q", c.name, n, got)
		}
	}
}

// A word that joins others is one word of the text, even where a window ends inside it.
func TestAPassageIsWholeTypedWords(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	words := wordList("you", "are", "badword")
	for i := range words {
		words[i].Cost = 40
	}
	if err := model.Write(&b, header(), model.Weights{Rows: rowsOf("badword", 100), Words: words}); err != nil {
		t.Fatal(err)
	}
	m := load(t, b.Bytes())
	for before := range 60 {
		content := strings.Repeat("qz ", before) + strings.Repeat("youarebadword ", 30) + strings.Repeat("zq ", 60)
		got := strings.Fields(passage(content, m.Explain(content, first)[0].Passage))
		for _, word := range got {
			if word != "youarebadword" && word != "qz" && word != "zq" {
				t.Fatalf("after %d words: the passage has a part of a word: %q", before, got)
			}
		}
	}
}

// One harmful sentence in 10,000 characters is what a person has to read.
func TestThePassageFindsOneSentenceInALongText(t *testing.T) {
	t.Parallel()
	m, err := model.Default()
	if err != nil {
		t.Fatal(err)
	}
	harassment := slices.Index(model.HeadNames[:], "harassment")
	for _, insult := range []string{
		"You are a worthless pathetic idiot and everybody hates you.",
		"😀 You are a w\u200borthless p4thetic 1diot and éverybody hates you, you b\u0337i\u0334t\u0336c\u0335h!",
		"Ｙｏｕ ａｒｅ ａ ｗｏｒｔｈｌｅｓｓ ｐａｔｈｅｔｉｃ ｉｄｉｏｔ and everybody hates you.",
	} {
		for _, before := range []int{0, 2500, 9900} {
			long := strings.Repeat(harmless+"Ça été 😀. ", 40)
			points := []rune(long)[:10_000]
			// The sentence is put after a sentence.
			at := before
			for at > 0 && !(points[at-1] == ' ' && points[at-2] == '.') {
				at--
			}
			content := string(points[:at]) + insult + " " + string(points[at:])
			x := m.Explain(content, everything())
			checkExplanations(t, content, x)
			p := x[harassment].Passage
			got := passage(content, p)
			if end := at + len([]rune(insult)); p.End <= at || end <= p.Begin {
				t.Errorf("%q at %d: the passage is %v, %q, want one that overlaps it", insult, at, p, got)
			}
			if words := len(strings.Fields(got)); words > 50 {
				t.Errorf("%q at %d: the passage has %d words, want at most 50: %q", insult, at, words, got)
			}
		}
	}
}

// Hazard: a hostile text has a passage outside of it, or far from what was found.
func TestHostileTextsHavePassages(t *testing.T) {
	t.Parallel()
	m, err := model.Default()
	if err != nil {
		t.Fatal(err)
	}
	contents := []string{
		hostile(), strings.Repeat("you idiot", 1000), strings.Repeat("\xff idiot", 900),
		strings.Repeat("!", 5000) + "you idiot" + strings.Repeat("!", 5000),
		strings.Repeat("idiot.", 1000), strings.Repeat("我要杀了你。", 500), strings.Repeat("😀", 3000),
		strings.Repeat("y\u0337o\u0337u\u0337a\u0337r\u0337e\u0337a\u0337n\u0337i\u0337diot ", 200),
		strings.Repeat("youareanidiot ", 500), strings.Repeat("k i l l y o u r s e l f ", 200),
	}
	r := rand.New(rand.NewPCG(5, 6))
	for range 100 {
		var b strings.Builder
		few := 1 + r.IntN(len(pieces))
		for range r.IntN(1 << r.IntN(11)) {
			b.WriteString(pieces[r.IntN(few)])
			if r.IntN(3) > 0 {
				b.WriteByte(' ')
			}
		}
		contents = append(contents, b.String())
	}
	for _, content := range contents {
		checkExplanations(t, content, m.Explain(content, everything()))
	}
}

func FuzzExplain(f *testing.F) {
	m, err := model.Default()
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{
		"", " ", "idiot", "\xff\xfe", "k1ll y0urself", "😀", "\u202e\u200b", "f.u.c.k y o u", "youareanidiot",
		"kill kill kill kill", "我要杀了你", strings.Repeat("die ", 100),
		"He said \"I hate them\" and left. You idiot! " + strings.Repeat("And then, slowly, more of it came. ", 40),
		"y\u0337o\u0337u\u0337a\u0337r\u0337e\u0337a\u0337n\u0337i\u0337diot", strings.Repeat("you idiot. ", 30),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, content string) {
		explanations := m.Explain(content, everything())
		checkExplanations(t, content, explanations)
		if again := m.Explain(content, everything()); !reflect.DeepEqual(again, explanations) {
			t.Fatalf("%q: second call gave %v, want %v", content, again, explanations)
		}
	})
}

// hostile is a text of 10,000 characters that keeps the model as busy as possible: few words repeat, and many windows
// might be harmful in many ways.
func hostile() string {
	harms := []string{
		"I will kill you.", "you stupid whore", "I want to die tonight", "they are vermin", "suck my dick",
		"hang yourself now", "the market opens at", "burn them all",
	}
	var b strings.Builder
	for i := 0; b.Len() < 10_000; i++ {
		fmt.Fprintf(&b, "%s w%dx%d q%d ", harms[i*i%len(harms)], i, i*7, i*31)
	}
	return b.String()[:10_000]
}

func BenchmarkExplain(b *testing.B) {
	m, err := model.Default()
	if err != nil {
		b.Fatal(err)
	}
	categories := [model.Heads]bool{true, true, true, true, true}
	for _, c := range []struct{ name, content string }{
		{"insult", "You are a worthless pathetic idiot and everybody hates you."},
		{"hostile", hostile()},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				m.Explain(c.content, categories)
			}
		})
	}
}
