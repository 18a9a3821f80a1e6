// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/engine/model"
)

// checkProbabilities fails the test unless all probabilities are from 0 to 1 and a second call gives the same ones.
func checkProbabilities(t *testing.T, m *model.Model, content string) {
	t.Helper()
	p, words := m.Classify(content)
	for h, v := range p {
		if !(v >= 0 && v <= 1) {
			t.Errorf("%.60q: %s is %v, want a probability", content, model.HeadNames[h], v)
		}
	}
	if words < 0 || words > len(content) {
		t.Errorf("%.60q has %d words, want 0 to %d", content, words, len(content))
	}
	if again := m.Probabilities(content); again != p {
		t.Errorf("%.60q: second call gave %v, want %v", content, again, p)
	}
}

// pieces are the parts of hostile texts: harsh words, so that the network classifies the text, and what might trip it.
var pieces = []string{
	"you", "are", "an", "idiot", "i", "will", "kill", "them", "all", "die", "fuck", "k1ll", "y0urself", "f*ck", "c.u.t", "not", "she",
	" ", "  ", "\n", ". ", "! ", "? ", ", ", "\"", "“", "”", "'", "@", "#", "*", "-", "\x00", "\xff", "\xf0\x9f", "\u200b", "\u202e", "\u0301",
	"😀", "🇩🇪", "👩‍👩‍👧", "我", "ключ", "ﷺ", "𝐤𝐢𝐥𝐥", "0", "12345", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "\U0010ffff", "ß", "İ",
}

// Hazard: a text crashes the classifier, or gives a probability that JSON cannot hold.
func TestHostileTextsHaveProbabilities(t *testing.T) {
	t.Parallel()
	m, err := model.Default()
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var b strings.Builder
		spaced := r.IntN(2) == 0
		few := 1 + r.IntN(len(pieces)) // some texts say the same few things again and again
		for range r.IntN(1 << r.IntN(10)) {
			b.WriteString(pieces[r.IntN(few)])
			if spaced {
				b.WriteByte(' ')
			}
		}
		checkProbabilities(t, m, b.String())
	}
	for _, p := range pieces {
		for _, n := range []int{1, 2, 56, 57, 3000} {
			checkProbabilities(t, m, strings.Repeat(p, n))
			checkProbabilities(t, m, strings.Repeat(p+" ", n))
		}
	}
}

// Hazard: texts change the probabilities of others through the memory that they share.
func TestTextsDoNotTouchEachOther(t *testing.T) {
	t.Parallel()
	m, err := model.Default()
	if err != nil {
		t.Fatal(err)
	}
	const content = "you are a disgusting idiot and I will find you"
	want := m.Probabilities(content)
	for _, other := range []string{
		"", "\xff", strings.Repeat("kill them all. ", 5000), strings.Repeat("kill ", 20), "😀",
	} {
		m.Probabilities(other)
		if got := m.Probabilities(content); got != want {
			t.Errorf("after %.20q: got %v, want %v", other, got, want)
		}
	}
}

func FuzzProbabilities(f *testing.F) {
	m, err := model.Default()
	if err != nil {
		f.Fatal(err)
	}
	for _, p := range pieces {
		f.Add("you idiot " + p + " kill " + p)
	}
	f.Add(strings.Join(pieces, ""))
	f.Add(strings.Join(pieces, " "))
	f.Fuzz(func(t *testing.T, content string) { checkProbabilities(t, m, content) })
}
