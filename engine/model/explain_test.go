// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

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
func texts(content string, evidence []model.Evidence) (out []string) {
	points := []rune(content)
	for _, e := range evidence {
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
		if !reflect.DeepEqual(got[1:], make([][]model.Evidence, model.Heads-1)) {
			t.Errorf("%s: evidence for heads that were not wanted: %v, want none", c.name, got[1:])
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
	if got := m.Explain("oh you badword", first)[0]; len(got) != 1 || got[0].Weight != 1 {
		t.Errorf("the evidence of the only word that speaks for the head is %v, want one span of weight 1", got)
	}
	got := m.Explain("a nasty man is a badword", first)[0]
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

// checkEvidence fails the test unless the evidence is as documented.
func checkEvidence(t testing.TB, content string, evidence [model.Heads][]model.Evidence) {
	t.Helper()
	points := utf8.RuneCountInString(content)
	for h, list := range evidence {
		at, sum := 0, 0.0
		for _, e := range list {
			if e.Begin < at || e.End <= e.Begin || e.End > points || !(e.Weight > 0 && e.Weight <= 1) {
				t.Fatalf("%q: the evidence for %s is %v, want spans in order with weights above 0 and at most 1",
					content, model.HeadNames[h], list)
			}
			at, sum = e.End, sum+e.Weight
		}
		if len(list) > model.MaxEvidence || sum > 1+1e-9 {
			t.Fatalf("%q: the evidence for %s is %v, want at most %d spans whose weights add up to at most 1",
				content, model.HeadNames[h], list, model.MaxEvidence)
		}
	}
}

// everything wants all heads.
func everything() (all [model.Heads]bool) {
	for h := range all {
		all[h] = true
	}
	return all
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
		evidence := m.Explain(content, everything())
		checkEvidence(t, content, evidence)
		if again := m.Explain(content, everything()); !reflect.DeepEqual(again, evidence) {
			t.Fatalf("%q: second call gave %v, want %v", content, again, evidence)
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
