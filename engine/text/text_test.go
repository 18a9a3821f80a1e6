// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package text_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/caddy-moderation/caddy-moderation/engine/text"
)

// folded returns the folded forms of a text, with spaces between them.
func folded(content string) string {
	var s text.Scratch
	var words []string
	for _, t := range s.Tokenize(content) {
		words = append(words, string(t.Folded))
	}
	return strings.Join(words, " ")
}

func TestDisguisesAreFolded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, in, want string }{
		{"plain", "You are kind.", "you are kind"},
		{"apostrophes", "I don’t, he'll, 'quoted'", "i dont hell quoted"},
		{"full width", "ｋｉｌｌ them", "kill them"},
		{"mathematical", "𝐤𝐢𝐥𝐥 𝓽𝓱𝓮𝓶", "kill them"},
		{"circled", "ⓚⓘⓛⓛ 🅺🅸🅻🅻", "kill kill"},
		{"regional indicators", "🇰🇮🇱🇱", "kill"},
		{"regional indicators apart", "🇰 🇮 🇱 🇱 🇰\u200b🇮\u200b🇱\u200b🇱", "kill kill"},
		{"regional indicators that are flags, too", "🇸🇭🇮🇹 🇾🇴🇺", "shit you"},
		{"flags", "🇺🇸🇬🇧🇩🇪 🇫🇷", "🇺🇸 🇬🇧 🇩🇪 🇫🇷"},
		{"parenthesised", "⒦⒤⒧⒧ 🄚🄘🄛🄛", "kill kill"},
		{"tatweel", "kـiـlـl", "kill"},
		{"zero width", "ki\u200bl\u200dl \u2060you", "kill you"},
		{"soft hyphen and variation selector", "ki\u00adll k\ufe0fill", "kill kill"},
		{"tag characters", "k\U000E0069ill", "kill"},
		{"stacked marks", "k̷̛͜i̴͝l̶l̵", "kill"},
		{"accents", "café ŕétàrd", "cafe retard"},
		{"Cyrillic in a Latin word", "kіll yоu", "kill you"},
		{"wholly Cyrillic look-alikes in a Latin text", "nothing but ѕех here", "nothing but sex here"},
		{"faux Cyrillic", "the Яetaяd", "the retard"},
		{"Greek", "yου sυck", "you suck"},
		{"small capitals", "ᴋɪʟʟ", "kill"},
		{"leetspeak", "k1ll f4gg0t n1gg3r b!tch a$$hole @ss $hit ki11 s1ut", "kill faggot nigger bitch asshole ass shit kill slut"},
		{"figures are no leetspeak", "4th 10km mp3 3 2024 5pm covid19 21st", "4th 10km mp3 3 2024 5pm covid19 21st"},
		{"stretched", "fuuuuuck sooooo kiiiill coooool hellll", "fuck so kill cool hell"},
		{"masked", "f*ck f**k b**** s**t f***ing f**ing c*nt", "fuck fuck bitch shit fucking fucking cunt"},
		{"emphasis is no mask", "*really* **bold** 3*4", "really bold 3 4"},
		{"spelled with spaces", "f u c k you", "fuck you"},
		{"spelled with dots", "f.u.c.k, k-i-l-l", "fuck kill"},
		{"two spaces divide words", "k i l l  y o u", "kill you"},
		{"chat is not spelled", "u r a star", "u r a star"},
		{"abbreviations", "the U.S.A. today", "the usa today"},
		{"mention and address", "@user mail joe@example.com", "user mail joe example com"},
	} {
		if got := folded(c.in); got != c.want {
			t.Errorf("%s: %q is tokenized as %q, want %q", c.name, c.in, got, c.want)
		}
	}
}

func TestGenuineTextOfOtherScriptsStaysAsItIs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, want string }{
		{"Моя семья живёт в Москве", "моя семья живёт в москве"},
		{"Я ем хлеб", "я ем хлеб"},
		{"Η οικογένειά μου", "η οικογένειά μου"},
		{"我爱你", "我 爱 你"},
		{"한국어 텍스트", "한국어 텍스트"},
		{"नमस्ते दुनिया", "नमस्ते दुनिया"},
		{"مرحبا بالعالم", "مرحبا بالعالم"},
	} {
		if got := folded(c.in); got != c.want {
			t.Errorf("%q is tokenized as %q, want %q", c.in, got, c.want)
		}
	}
}

func TestFlags(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   string
		word string
		want text.Flags
	}{
		{"STOP now", "stop", text.Caps},
		{"I do not like it", "like", text.Negated},
		{"no. like it", "like", 0},
		{`he said "go home" twice`, "home", text.Quoted},
		{`a stray " mark and home`, "home", 0},
		{"go home. Now", "home", text.SentenceEnd},
		{"go home! Now", "home", text.SentenceEnd | text.Exclaimed},
		{"go home? Now", "home", text.SentenceEnd | text.Asked},
		{"@home now", "home", text.Mention},
		{"#home now", "home", text.Hashtag},
		{"k1ll now", "kill", text.Obfuscated},
		{"k\u200bill now", "kill", text.Obfuscated},
		{"k i l l now", "kill", text.Obfuscated},
		{"soooo now", "so", text.Stretched},
		{"12 now", "12", text.Number},
		{"😀 now", "😀", text.Emoji},
		{"🇫🇷 now", "🇫🇷", text.Emoji},
	} {
		var s text.Scratch
		found := false
		for _, tok := range s.Tokenize(c.in) {
			if string(tok.Folded) != c.word {
				continue
			}
			found = true
			if tok.Flags != c.want {
				t.Errorf("%q: flags of %q are %b, want %b", c.in, c.word, tok.Flags, c.want)
			}
		}
		if !found {
			t.Errorf("%q has no token %q, want one", c.in, c.word)
		}
	}
}

func TestOffsetsAreCodePointsOfTheOriginal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in, word   string
		begin, end int
	}{
		{"é k1ll", "kill", 2, 6},
		{"😀😀 kill", "kill", 3, 7},
		{"a\xff\xfe kill", "kill", 4, 8},
		{"so f u c k it", "fuck", 3, 10},
		{"k\u200bill x", "kill", 0, 5},
		{"f***, no", "fuck", 0, 4},
	} {
		var s text.Scratch
		for _, tok := range s.Tokenize(c.in) {
			if string(tok.Folded) == c.word && (tok.Begin != c.begin || tok.End != c.end) {
				t.Errorf("%q: %q is [%d, %d), want [%d, %d)", c.in, c.word, tok.Begin, tok.End, c.begin, c.end)
			}
		}
	}
}

func TestWordsCountsTokensThatAreNotEmoji(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   string
		want int
	}{
		{"", 0}, {"...", 0}, {"one two", 2}, {"one 😀 two", 2}, {"f u c k", 1}, {"我爱你", 3}, {"a b", 2},
	} {
		var s text.Scratch
		s.Tokenize(c.in)
		if got := s.Words(); got != c.want {
			t.Errorf("%q has %d words, want %d", c.in, got, c.want)
		}
	}
}

func TestAReusedScratchDoesNotAllocate(t *testing.T) {
	content := strings.Repeat("Some of th1s is k.i.l.l pläin, ѕоme \"is\" nooooot 😀 我们. ", 150)
	var s text.Scratch
	s.Tokenize(content)
	if n := testing.AllocsPerRun(10, func() { s.Tokenize(content) }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

func FuzzTokenize(f *testing.F) {
	for _, seed := range []string{
		"plain text", "k1ll f.u.c.k 😀🇫🇷🇰🇮🇱", "\xff\xc3", "a\u0301\u0301\u0301", "$$$ @@@ *** f***", "\u200b\u200b",
		"Ⱥ ﷺ ǅ", "“a ‘b’ c”",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, content string) {
		var s text.Scratch
		tokens := s.Tokenize(content)
		points := utf8.RuneCountInString(content)
		if s.CodePoints() != points {
			t.Fatalf("%d code points, want %d", s.CodePoints(), points)
		}
		at, words := 0, 0
		for _, tok := range tokens {
			if tok.Begin < at || tok.End <= tok.Begin || tok.End > points {
				t.Fatalf("token [%d, %d), want it after %d in a text of %d", tok.Begin, tok.End, at, points)
			}
			if len(tok.Raw) == 0 || len(tok.Folded) == 0 {
				t.Fatalf("token [%d, %d) has the forms %q and %q, want none empty", tok.Begin, tok.End, tok.Raw, tok.Folded)
			}
			if !tok.Is(text.Emoji) {
				words++
			}
			at = tok.End
		}
		if words != s.Words() {
			t.Fatalf("Words is %d, want %d", s.Words(), words)
		}
	})
}

func BenchmarkTokenize(b *testing.B) {
	for _, c := range []struct{ name, unit string }{
		{"natural", "Nobody here is asking you to agree with all of it, we're only asking that you read it. "},
		{"emoji", "😀"},
		{"zalgo", "k̷̛͜i̴͝l̶l̵ "},
		{"one word", "abcdefghij"},
		{"single letters", "a "},
		{"mathematical", "𝐤"},
		{"marks", "*"},
	} {
		runes := []rune(strings.Repeat(c.unit, 10_000))[:10_000]
		content := string(runes)
		b.Run(c.name, func(b *testing.B) {
			var s text.Scratch
			b.ReportAllocs()
			for b.Loop() {
				s.Tokenize(content)
			}
		})
	}
}

// TestFoldingOfScripts guards against spellings by which a word of another script would pass as another one.
func TestFoldingOfScripts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, content, want string }{
		{"alef without its hamza", "أحمق", "احمق"},
		{"Arabic without vowel marks", "كَلْب", "كلب"},
		{"letters of a Persian keyboard", "کلب", "كلب"},
		{"ta marbuta", "قحبة", "قحبه"},
		{"Latin letters in Cyrillic words", "ты пoлный дypaк", "ты полный дурак"},
		{"digits in Cyrillic words", "ты п0лный дур4к и пид0р", "ты полный дурчк и пидор"},
		{"Cyrillic letters in Latin words", "you are an idiоt and a fооl", "you are an idiot and a fool"},
		{"genuine Russian", "Привет, как дела?", "привет как дела"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var s text.Scratch
			var words []string
			for _, token := range s.Tokenize(test.content) {
				words = append(words, string(token.Folded))
			}
			if got := strings.Join(words, " "); got != test.want {
				t.Errorf("%q is folded to %q, want %q", test.content, got, test.want)
			}
		})
	}
}
