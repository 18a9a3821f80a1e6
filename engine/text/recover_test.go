// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package text_test

import (
	"strings"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/engine/text"
)

// dictionary returns a small dictionary. The costs are about those that the words have in running text.
func dictionary() *text.Dictionary {
	var words []text.Word
	for cost, list := range map[uint8]string{
		45:  "the you i a to and of is it that this he my me are was for on not with have at in as what he's she's hes dont know whats",
		75:  "like hate kill such want good tell been nobody someone likes said attack stupid fuck shit time just think going before",
		90:  "middle sex idiot idiots bitch loser pathetic people little worthless trash ugly really should always women house stop dead coat hit",
		110: "burn cock tone case take son dick shot stood next hat radio ahead an laser",
		180: "penis rare gamut thorp note ten",
	} {
		for w := range strings.FieldsSeq(list) {
			words = append(words, text.Word{Folded: w, Cost: cost})
		}
	}
	return text.NewDictionary(words)
}

// recovered returns the folded forms of a text with a dictionary, with spaces between them.
func recovered(d *text.Dictionary, content string) string {
	var s text.Scratch
	var words []string
	for _, t := range s.TokenizeWith(content, d) {
		words = append(words, string(t.Folded))
	}
	return strings.Join(words, " ")
}

func TestChangedWordsAreRecovered(t *testing.T) {
	t.Parallel()
	d := dictionary()
	for _, c := range []struct{ name, in, want string }{
		{"known words", "the laser hit my hat", "the laser hit my hat"},
		{"one letter doubled", "you stuupid idiott", "you stupid idiot"},
		{"all letters doubled", "ssttuuppiidd iiddiioottss kkiillll", "stupid idiots kill"},
		{"a doubled letter stays", "likkee a llittlle bitcch", "like a little bitch"},
		{"neighbours swapped", "fcuk you idoit, pahtetic lsoer", "fuck you idiot pathetic loser"},
		{"a vowel left out", "fck you idit, pathtic", "fuck you idiot pathetic"},
		{"the last vowel left out", "worthless peopl lik you", "worthless people like you"},
		{"masked", "you id*ot, l*ser, p*th*tic tr*sh, lik*", "you idiot loser pathetic trash like"},
		{"leetspeak", "7h47 1d10t $41d k111 11k3 c047 !d!0t", "that idiot said kill like coat idiot"},
		{"a symbol in front", "@ttack the @ttacker, $71ll !diot", "attack the ttacker 71ll idiot"},
		{"joined", "youareanidiot nobodylikesyou iwantto", "you are an idiot nobody likes you i want to"},
		{"joined with a full stop on both sides", "hit.tellme.now", "hit tell me now"},
		{"joined with a capital", "Youareanidiot Iwantto", "you are an idiot i want to"},
		{"hashtag", "#killthewomen #idoit", "kill the women idoit"},
		{"letters apart", "y o u a r e s u c h a n i d i o t", "you are such an idiot"},
		{"letters apart with apostrophes", "y o u d o n ' t know w h a t's good", "you dont know whats good"},
		{"joined with a strange word", "ihatethatzborgyousaid", "i hate that zborg you said"},
		{"capitals", "YOU FCK IDIT", "you fuck idiot"},
		{"letters apart by words", "y o u are s u c h an i.d.i.o.t", "you are such an idiot"},
		{"a word before letters apart", "I h-a-t-e a b.i.t.c.h", "i hate a bitch"},
		{"no dictionary word", "xqzt vbnm wrtlk", "xqzt vbnm wrtlk"},
	} {
		if got := recovered(d, c.in); got != c.want {
			t.Errorf("%s: %q is tokenized as %q, want %q", c.name, c.in, got, c.want)
		}
	}
}

// Hazard: a name becomes a bad word, which is an accusation.
func TestNamesAndAddressesStayAsTheyAre(t *testing.T) {
	t.Parallel()
	d := dictionary()
	for _, in := range []string{
		"Scunthorpe", "Penistone", "Cockburn", "Dickson", "Dicken", "HSE said IDT", "@idoit", "https://example.com/idoit?stupd=fcuk",
		"mail idoit@stupd.com", "www.idoit.com", "set_idoit(stupd_x)", "идиот", "note*",
		"we met in Middlesex", "it was allé and fuçk", "an IDT",
	} {
		if got, want := recovered(d, in), folded(in); got != want {
			t.Errorf("%q is tokenized as %q, want %q", in, got, want)
		}
	}
}

func TestRecoveredWordsSayWhereTheyStand(t *testing.T) {
	t.Parallel()
	d := dictionary()
	for _, c := range []struct {
		in, word   string
		begin, end int
		flags      text.Flags
	}{
		{"é fcuk, no", "fuck", 2, 6, text.Recovered},
		{"é youareanidiot.", "are", 5, 8, text.Recovered},
		{"é youareanidiot.", "idiot", 10, 15, text.Recovered | text.SentenceEnd},
		{"éé y o u a r e", "are", 8, 14, text.Recovered | text.Obfuscated},
		{"not fcuk", "fuck", 4, 8, text.Recovered | text.Negated},
	} {
		var s text.Scratch
		found := false
		for _, tok := range s.TokenizeWith(c.in, d) {
			if string(tok.Folded) != c.word {
				continue
			}
			found = true
			if tok.Begin != c.begin || tok.End != c.end || tok.Flags != c.flags {
				t.Errorf("%q: %q is [%d, %d) with flags %b, want [%d, %d) with %b",
					c.in, c.word, tok.Begin, tok.End, tok.Flags, c.begin, c.end, c.flags)
			}
			if tok.Hash() != text.Hash(tok.Folded) {
				t.Errorf("%q: the hash of %q is %x, want %x", c.in, c.word, tok.Hash(), text.Hash(tok.Folded))
			}
		}
		if !found {
			t.Errorf("%q has no token %q, want one", c.in, c.word)
		}
	}
}

func TestWordsCountsJoinedWordsAsTyped(t *testing.T) {
	t.Parallel()
	var s text.Scratch
	if s.TokenizeWith("youareanidiot you", dictionary()); s.Words() != 2 {
		t.Errorf("%d words, want 2", s.Words())
	}
}

func TestADictionaryCostsNoAllocation(t *testing.T) {
	d := dictionary()
	content := strings.Repeat("Some fcuk th1s youareanidiot ssttuuppiidd stpd k.i.l.l pläin *b*tch* 😀 xqzt. ", 150)
	var s text.Scratch
	s.TokenizeWith(content, d)
	if n := testing.AllocsPerRun(10, func() { s.TokenizeWith(content, d) }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

func TestAnEmptyDictionaryIsHarmless(t *testing.T) {
	t.Parallel()
	const content = "fcuk th1s youareanidiot k.i.l.l f*ck"
	if got, want := recovered(text.NewDictionary(nil), content), folded(content); got != want {
		t.Errorf("%q is tokenized as %q, want %q", content, got, want)
	}
}

func FuzzTokenizeWith(f *testing.F) {
	for _, seed := range []string{
		"youareanidiot", "fcuk 7h47 l*ser", "y o u a r e.s.u.c.h", "ææææææ ßßßß", "@ttack $71ll !d*ot*", "#killthe",
		"k\u200bil l\xff",
	} {
		f.Add(seed)
	}
	d := dictionary()
	f.Fuzz(func(t *testing.T, content string) {
		var s text.Scratch
		at := 0
		for _, tok := range s.TokenizeWith(content, d) {
			if tok.Begin < at || tok.End <= tok.Begin || tok.End > s.CodePoints() {
				t.Fatalf("token [%d, %d), want it after %d in a text of %d", tok.Begin, tok.End, at, s.CodePoints())
			}
			if len(tok.Raw) == 0 || len(tok.Folded) == 0 {
				t.Fatalf("token [%d, %d) has the forms %q and %q, want none empty", tok.Begin, tok.End, tok.Raw, tok.Folded)
			}
			at = tok.End
		}
	})
}
