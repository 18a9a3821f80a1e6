// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package words_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/caddy-moderation/caddy-moderation/engine/words"
)

func parse(t testing.TB, expressions ...string) *words.List {
	t.Helper()
	l, err := words.Parse(expressions)
	if err != nil {
		t.Fatalf("parsing %q: %v", expressions, err)
	}
	return l
}

// found returns the parts of content that match, divided by |.
func found(l *words.List, content string) string {
	var parts []string
	for _, m := range l.Find(nil, content) {
		parts = append(parts, content[m.Begin:m.End])
	}
	return strings.Join(parts, "|")
}

func TestWhatAListFinds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, list, in, want string }{
		{"a word", "ass", "you ass!", "ass"},
		{"not inside another word", "ass", "class assess bass assassin", ""},
		{"not the beginning of a word with an apostrophe", "he", "he'll", ""},
		{"parts of a hyphenated word", "ass", "dumb-ass", "ass"},
		{"parts of an identifier and an address", "ass", "my_ass ass@example.com example.com/ass", "ass|ass|ass"},
		{"behind @ and #", "cialis", "@cialis #cialis", "cialis|cialis"},
		{"capitals in the text", "viagra", "VIAGRA Viagra", "VIAGRA|Viagra"},
		{"capitals in the list", "VIAGRA", "viagra", "viagra"},
		{"accents in the text", "cretin", "crétin", "crétin"},
		{"accents in the list", "crétin", "cretin", "cretin"},
		{"combining marks", "cretin", "cre\u0301tin!", "cre\u0301tin"},
		{"look-alikes", "viagra", "vіаgrа ｖｉａｇｒａ 𝐯𝐢𝐚𝐠𝐫𝐚", "vіаgrа|ｖｉａｇｒａ|𝐯𝐢𝐚𝐠𝐫𝐚"},
		{"digits for letters in the text", "viagra", "v1agra v14gra", "v1agra|v14gra"},
		{"digits for letters in the list", "v1agra", "viagra v1agra", "viagra|v1agra"},
		{"a mask", "fuck", "f*ck f**k", "f*ck|f**k"},
		{"spaced-out letters", "viagra", "v i a g r a, v.i.a.g.r.a", "v i a g r a|v.i.a.g.r.a"},
		{"stretched letters", "viagra", "viiiagra viagraaaa vvviiiaaagggrrraaa", "viiiagra|viagraaaa|vvviiiaaagggrrraaa"},
		{"stretched double letters", "spinner", "spiiinner spinnnnner", "spiiinner|spinnnnner"},
		{"stretching does not shorten", "ass", "aaas", ""},
		{"doubled letters are another word", "col", "cool", ""},
		{"invisible characters", "viagra", "via\u200bgra vi\u00adagra", "via\u200bgra|vi\u00adagra"},
		{"apostrophes", "don't", "dont don’t don't", "dont|don’t|don't"},
		{"words in a row", "buy now", "buy now", "buy now"},
		{"punctuation and lines between words", "buy now", "buy... now buy\r\n\r\n(now) buy-now", "buy... now|buy\r\n\r\n(now|buy-now"},
		{"words with another between them", "buy now", "buy it now", ""},
		{"words with an emoji between them", "buy now", "buy 😀 now", ""},
		{"a beginning of an expression", "buy now", "buy", ""},
		{"the longest expression", "buy|buy now|buy now here", "buy now here", "buy now here"},
		{"a shorter expression, the longer one being broken off", "buy|buy now here", "buy now there", "buy"},
		{"expressions that overlap", "a big|big deal", "a big deal", "a big"},
		{"an expression again after a false start", "very very bad", "very very very bad", "very very bad"},
		{"numbers", "88|14 88", "88 188 14 88 14/88", "88|14 88|14/88"},
		{"an emoji", "🍆", "this 🍆🍆 and 🍆\ufe0f", "🍆|🍆|🍆"},
		{"an emoji with a word", "😀 mail", "😀mail 😀😀 mail", "😀mail|😀 mail"},
		{"a flag", "🇫🇷", "🇫🇷 🇩🇪", "🇫🇷"},
		{"a joined emoji", "👨‍👩‍👧", "a 👨‍👩‍👧", "👨‍👩‍👧"},
		{"Han inside longer words", "傻瓜", "你是大傻瓜吗", "傻瓜"},
		{"Han with spaces in it", "傻瓜", "傻 瓜", "傻 瓜"},
		{"kana", "ばか", "おまえはばかだ", "ばか"},
		{"Thai", "ควาย", "ไอ้ควายเอ๊ย", "ควาย"},
		{"Hangul as whole words", "바보", "너 바보 바보야", "바보"},
		{"Russian", "дурак", "ты Дурак, дураки", "Дурак"},
		{"Russian look-alikes in a Latin text", "сор", "nothing but сор here", "сор"},
		{"Latin hidden in look-alikes", "cop", "nothing but сор here", "сор"},
		{"Russian look-alikes in a Latin expression", "the сор", "это the сор тут и там", "the сор"},
		{"ligatures", "encyclopaedia", "encyclopædia", "encyclopædia"},
		{"Arabic", "كلب", "يا كلب", "كلب"},
		{"bytes that are no UTF-8", "bad", "\xff\xfe bad\xff bad\xc3", "bad|bad"},
		{"control characters", "bad", "b\x00ad bad", "b\x00ad|bad"},
		{"wide characters before", "bad", "é😀我 bad 😀 bad", "bad|bad"},
		{"nothing", "bad", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := found(parse(t, strings.Split(c.list, "|")...), c.in); got != c.want {
				t.Errorf("%q finds %q in %q, want %q", c.list, got, c.in, c.want)
			}
		})
	}
}

func TestAMatchNamesTheExpressionAsItIsWritten(t *testing.T) {
	t.Parallel()
	l := parse(t, "  Buy  NOW ", "b@d", "buy now")
	if l.Len() != 2 {
		t.Errorf("Len is %d, want 2: two expressions fold to the same words", l.Len())
	}
	got := l.Find([]words.Match{{Expression: "kept"}}, "bad: buy now")
	want := []words.Match{
		{Expression: "kept"}, {Begin: 0, End: 3, Expression: "b@d"}, {Begin: 5, End: 12, Expression: "Buy  NOW"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestCut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, in, want string }{
		{"none", "nothing of it", "nothing of it"},
		{"empty", "", ""},
		{"inside", "a bad day", "a   day"},
		{"at both ends", "bad to bad", "  to  "},
		{"neighbours do not become one word", "no\u200b-bad-body", "no\u200b- -body"},
		{"bytes that are no UTF-8 stay", "\xffbad\xff", "\xff \xff"},
		{"more than a few", strings.Repeat("bad.", 20), strings.Repeat(" .", 20)},
	} {
		if got := parse(t, "bad").Cut(c.in); got != c.want {
			t.Errorf("%s: %q is cut to %q, want %q", c.name, c.in, got, c.want)
		}
	}
}

// TestBlank guards against places that move.
func TestBlank(t *testing.T) {
	t.Parallel()
	list := parse(t, "viagra", "grüße", "buy now")
	for content, want := range map[string]string{
		"nothing here":         "nothing here",
		"V1agra!":              "      !",
		"Ä Grüße ä buy, now ö": "Ä       ä          ö",
		"viagra":               "      ",
		"a v\u200biagra \xff":  "a         \xff",
	} {
		if got := list.Blank(content); got != want {
			t.Errorf("%q: got %q, want %q", content, got, want)
		}
	}
	if got := (*words.List)(nil).Blank("viagra"); got != "viagra" {
		t.Errorf("no list: got %q", got)
	}
}

func TestNoListAndEmptyListsFindNothing(t *testing.T) {
	t.Parallel()
	for _, l := range []*words.List{nil, parse(t), words.Merge(), words.Merge(nil, nil)} {
		if l.Len() != 0 || l.Find(nil, "some text") != nil || l.Cut("some text") != "some text" {
			t.Errorf("%+v has expressions or finds some, want an empty list", l)
		}
	}
}

func TestMergeHasAllExpressions(t *testing.T) {
	t.Parallel()
	one, other := parse(t, "bad", "very bad"), parse(t, "BAD", "worse")
	l := words.Merge(one, nil, other)
	if got := found(l, "bad, worse, very bad"); got != "bad|worse|very bad" || l.Len() != 3 {
		t.Errorf("a merged list of %d expressions finds %q, want 3 and %q", l.Len(), got, "bad|worse|very bad")
	}
	if got := found(one, "worse"); got != "" {
		t.Errorf("Merge changed its argument: it finds %q now, want nothing", got)
	}
	if m := l.Find(nil, "bad"); m[0].Expression != "bad" {
		t.Errorf("the match names %q, want \"bad\", which came first", m[0].Expression)
	}
}

func TestParseNamesTheExpressionThatIsWrong(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		in   []string
		want string
	}{
		{"empty", []string{"fine", ""}, "expression 2 is empty"},
		{"white space", []string{" \t"}, "expression 1 is empty"},
		{"punctuation", []string{"fine", "...", ""}, "expression 2 has no letter, digit or emoji"},
		{"invisible", []string{"\u200b"}, "expression 1 has no letter, digit or emoji"},
		{"too long", []string{strings.Repeat("é", 101)}, "expression 1 is longer than 100 characters"},
		{"not UTF-8", []string{"caf\xe9"}, "expression 1 is not UTF-8"},
		{"too many", make([]string, 100_001), "100001 expressions, at most 100000 are possible"},
		{"the longest", []string{" " + strings.Repeat("é", 100) + " "}, ""},
	} {
		_, err := words.Parse(c.in)
		if got := message(err); got != c.want {
			t.Errorf("%s: error %q, want %q", c.name, got, c.want)
		}
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestRead(t *testing.T) {
	t.Parallel()
	const file = "\uFEFF# our words\r\n\r\nbad\r\n  very bad  # with two words\n#worse\nC#\tor so\nlast"
	l, err := words.Read(strings.NewReader(file))
	if err != nil {
		t.Fatalf("reading the list: %v", err)
	}
	const content, want = "bad, very bad, worse, C# or so, with two words, last", "bad|very bad|C# or so|last"
	if got := found(l, content); got != want {
		t.Errorf("found %q in %q, want %q", got, content, want)
	}
}

func TestReadNamesTheLineThatIsWrong(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, in, want string }{
		{"punctuation", "# list\n\nfine\n--\n", "line 4: the expression has no letter, digit or emoji"},
		{"too long", "fine\r\n" + strings.Repeat("x", 101), "line 2: the expression is longer than 100 characters"},
		{"another encoding", "caf\xe9", "line 1: the expression is not UTF-8"},
		{"too many", strings.Repeat("a\n", 100_001), "line 100001: more than 100000 expressions"},
		{"too large", strings.Repeat("#\n", 8<<20) + "a", "the list is larger than 16777216 bytes"},
		{"as large as may be", strings.Repeat("#\n", 8<<20), ""},
	} {
		_, err := words.Read(strings.NewReader(c.in))
		if got := message(err); got != c.want {
			t.Errorf("%s: error %q, want %q", c.name, got, c.want)
		}
	}
	broken := errors.New("the disk is on fire")
	if _, err := words.Read(iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("a broken reader: got error %v, want %v", err, broken)
	}
}

func TestFindAndCutAllocateNothingForAWord(t *testing.T) {
	l := parse(t, "bad", "very very bad", "viagra")
	var matches [8]words.Match
	miss := strings.Repeat("very nice spiiiinner of thís, 我们 verу very good. ", 100)
	for _, c := range []struct {
		name string
		work func()
	}{
		{"Find", func() { l.Find(matches[:0], "bad vіagra viiiagra v i a g r a") }},
		{"Find without a match", func() { l.Find(nil, miss) }},
		{"Cut without a match", func() { l.Cut(miss) }},
	} {
		c.work()
		// A pool may be emptied in between, and the race detector empties it on purpose: its buffers then grow anew,
		// in a few steps. One allocation for each of the 1,000 words would show.
		if n := testing.AllocsPerRun(20, c.work); n > 30 {
			t.Errorf("%s: %v allocations, want none", c.name, n)
		}
	}
}

// If the work grew faster than the text, this test would never end.
func TestSharedBeginningsDoNotMultiplyTheWork(t *testing.T) {
	t.Parallel()
	var expressions []string
	for n := range 25 {
		expressions = append(expressions, strings.Repeat("aa ", n)+"bb")
		expressions = append(expressions, strings.Repeat("vi ", n)+"b6b")
	}
	l := parse(t, expressions...)
	// Each of these would take years if a stretched or disguised word led on to the same place in more than one way.
	for _, unit := range []string{"aa ", "aaaa ", "vіі ", "vi vі v1 ", "v1 "} {
		if got := l.Find(nil, strings.Repeat(unit, 100_000/len(unit))); len(got) != 0 {
			t.Errorf("%q repeated: %d matches, want none", unit, len(got))
		}
	}
}

func FuzzFind(f *testing.F) {
	for _, seed := range []string{
		"bad very bad", "b4d b.a.d baaad bаd", "\xff bad\xc3", "😀🇫🇷🇰🇮🇱 傻瓜", "b\u200bad\u0301", "bad\x00 ﷺ Ⱥ",
	} {
		f.Add("bad", seed)
		f.Add("傻瓜", seed)
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, expression, content string) {
		l, err := words.Parse([]string{"very bad", expression})
		if err != nil {
			l = parse(t, "bad", "very bad", "😀")
		}
		at, cut := 0, ""
		for _, m := range l.Find(nil, content) {
			if m.Begin < at || m.End <= m.Begin || m.End > len(content) || m.Expression == "" {
				t.Fatalf("match %+v overlaps %d, is empty or lies outside %q", m, at, content)
			}
			if !isBoundary(content, m.Begin) || !isBoundary(content, m.End) {
				t.Fatalf("match %+v begins or ends inside a code point of %q", m, content)
			}
			cut += content[at:m.Begin] + " "
			at = m.End
		}
		if cut += content[at:]; l.Cut(content) != cut {
			t.Fatalf("%q is cut to %q, want %q", content, l.Cut(content), cut)
		}
		if err == nil && len(l.Find(nil, expression)) == 0 {
			t.Fatalf("%q is not found in itself", expression)
		}
	})
}

// isBoundary reports whether a code point, or a byte that is none, begins at the byte i.
func isBoundary(content string, i int) bool {
	for at := range content {
		if at >= i {
			return at == i
		}
	}
	return i == len(content)
}

func BenchmarkFind(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 2))
	word := func() string {
		w := make([]byte, 3+random.IntN(6))
		for i := range w {
			w[i] = "etaoinshrdlu"[random.IntN(12)]
		}
		return string(w)
	}
	expressions := make([]string, 10_000)
	for i := range expressions {
		expressions[i] = word()
		for range i % 3 {
			expressions[i] += " " + word()
		}
	}
	l := parse(b, expressions...)
	unit := "Nobody here is asking you to agree with all of it, we're only asking that you read it. "
	for _, c := range []struct{ name, unit string }{
		{"natural", unit},
		{"disguised", "n0bоdy h.e.r.e iiiis áskíng "},
		{"hits", expressions[0] + " "},
		{"Han", "我们"},
	} {
		for _, length := range []int{200, 10_000} {
			content := string([]rune(strings.Repeat(c.unit, length))[:length])
			b.Run(fmt.Sprintf("%s/%d", c.name, length), func(b *testing.B) {
				var matches []words.Match
				b.ReportAllocs()
				b.SetBytes(int64(utf8.RuneCountInString(content)))
				for b.Loop() {
					matches = l.Find(matches[:0], content)
				}
			})
		}
	}
}

func BenchmarkParse(b *testing.B) {
	expressions := make([]string, 10_000)
	for i := range expressions {
		expressions[i] = fmt.Sprintf("word%d of %d", i, i%100)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := words.Parse(expressions); err != nil {
			b.Fatal(err)
		}
	}
}
