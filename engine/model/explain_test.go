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

// knowing loads a model without a reader that knows the word "badword" and the words "very" and "nasty", which weigh less.
func knowing(t testing.TB) *model.Model {
	t.Helper()
	h := header()
	h.Buckets = 1024
	rows := slices.Concat(rowsOf("badword", 100)[:1], rowsOf("nasty", 60)[:1], rowsOf("very", 30)[:1], rowsOf("slightly", 8)[:1], rowsOf("kind", -50)[:1])
	var b bytes.Buffer
	if err := model.Write(&b, h, model.Weights{Rows: rows, Words: wordList("badword", "you", "are", "a", "nasty", "very", "kind")}); err != nil {
		t.Fatal(err)
	}
	m, err := model.Load(&b)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// texts returns what of content the carriers are.
func texts(content string, carriers []model.Evidence) (out []string) {
	points := []rune(content)
	for _, c := range carriers {
		out = append(out, string(points[c.Begin:c.End]))
	}
	return out
}

func TestCarriersAreTheWordsAsTheyStandInTheText(t *testing.T) {
	t.Parallel()
	m := knowing(t)
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
		{"one carries next to nothing", "slightly odd, you badword", []string{"badword"}},
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
			t.Errorf("%s: %q is carried by %q, want %q", c.name, c.content, words, c.want)
		}
		if !reflect.DeepEqual(got[1:], make([][]model.Evidence, model.Heads-1)) {
			t.Errorf("%s: heads that nobody asked for are explained: %v", c.name, got)
		}
	}
}

// Of joined words the guilty one is named where it stands as it was typed. Where letters were added the places inside are
// not known, so that all are named rather than half of one.
func TestCarriersInsideJoinedWords(t *testing.T) {
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
			t.Errorf("%q is carried by %q, want %q", c.content, got, c.want)
		}
	}
}

func TestWeightsAreShares(t *testing.T) {
	t.Parallel()
	m := knowing(t)
	if got := m.Explain("oh you badword", first)[0]; len(got) != 1 || got[0].Weight != 1 {
		t.Errorf("the only word that speaks for it: %v, want weight 1", got)
	}
	got := m.Explain("a nasty man is a badword", first)[0]
	if len(got) != 2 {
		t.Fatalf("carriers %v, want 2", got)
	}
	if sum := got[0].Weight + got[1].Weight; sum < 0.999 || sum > 1 || got[0].Weight >= got[1].Weight {
		t.Errorf("weights %v", got)
	}
}

func TestTheStrongestCarriersAreKept(t *testing.T) {
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
		t.Errorf("carriers %q, want the five strongest in the order of the text: %q", got, want)
	}
}

func TestTheWindowThatDecidesIsExplained(t *testing.T) {
	t.Parallel()
	m := knowing(t)
	around := strings.Repeat("Nothing of interest stands here today. Other things do, one by one. ", 30)
	content := around + "You very nasty badword, go. " + around + "A nasty street."
	if got := texts(content, m.Explain(content, first)[0]); !slices.Equal(got, []string{"very nasty badword"}) {
		t.Errorf("carriers %q", got)
	}
}

// checkCarriers fails the test unless carriers are as documented.
func checkCarriers(t testing.TB, content string, carriers [model.Heads][]model.Evidence) {
	t.Helper()
	points := utf8.RuneCountInString(content)
	for h, list := range carriers {
		at, sum := 0, 0.0
		for _, c := range list {
			if c.Begin < at || c.End <= c.Begin || c.End > points || !(c.Weight > 0 && c.Weight <= 1) {
				t.Fatalf("%q: %s has the carriers %v", content, model.HeadNames[h], list)
			}
			at, sum = c.End, sum+c.Weight
		}
		if len(list) > model.MaxEvidence || sum > 1+1e-9 {
			t.Fatalf("%q: %s has the carriers %v", content, model.HeadNames[h], list)
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
		"", " ", "idiot", "\xff\xfe", "k1ll y0urself", "😀", "\u202e\u200b", "f.u.c.k y o u", "youareanidiot", "kill kill kill kill", "我要杀了你",
		"He said \"I hate them\" and left. You idiot! " + strings.Repeat("And then, slowly, more of it came. ", 40), strings.Repeat("die ", 100),
		"y\u0337o\u0337u\u0337a\u0337r\u0337e\u0337a\u0337n\u0337i\u0337diot", strings.Repeat("you idiot. ", 30),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, content string) {
		carriers := m.Explain(content, everything())
		checkCarriers(t, content, carriers)
		if again := m.Explain(content, everything()); !reflect.DeepEqual(again, carriers) {
			t.Fatalf("%q: explained twice, got %v and %v", content, carriers, again)
		}
	})
}

// hostile is a text of 10,000 characters that keeps the model as busy as it gets: no word stands for long, and many windows
// might be harmful in many ways.
func hostile() string {
	harms := []string{"I will kill you.", "you stupid whore", "I want to die tonight", "they are vermin", "suck my dick", "hang yourself now", "the market opens at", "burn them all"}
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
		{"insult", "You are a worthless pathetic idiot and everybody hates you."}, {"hostile", hostile()},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				m.Explain(c.content, categories)
			}
		})
	}
}
