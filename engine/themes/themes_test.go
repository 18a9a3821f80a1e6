// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package themes_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/caddy-moderation/caddy-moderation/engine/themes"
)

// shared is the screener of all tests. It is safe for concurrent use.
var shared = sync.OnceValue(func() *themes.Screener {
	screener, err := themes.New(themes.Options{})
	if err != nil {
		panic(err)
	}
	return screener
})

// example is a text and whether a theme must hit it.
type example struct {
	theme, text string
	hit         bool
}

// check screens each text for its theme and compares the result.
func check(t *testing.T, cases []example) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.theme+"/"+c.text, func(t *testing.T) {
			t.Parallel()
			hit := shared().Screen(c.text, []string{c.theme})[0]
			if hit.Flagged != c.hit {
				t.Errorf("flagged = %v with probability %.3f, want %v", hit.Flagged, hit.Probability, c.hit)
			}
			sound(t, c.text, hit)
		})
	}
}

// sound checks what must hold for any hit.
func sound(t *testing.T, text string, hit themes.Hit) {
	t.Helper()
	if hit.Flagged != (len(hit.Matches) > 0) {
		t.Errorf("flagged = %v with %d matches, want matches if and only if flagged", hit.Flagged, len(hit.Matches))
	}
	if !(hit.Probability >= 0 && hit.Probability <= 1) {
		t.Errorf("probability %v, want one from 0 to 1", hit.Probability)
	}
	if hit.Flagged != (hit.Probability >= themes.DefaultThreshold) {
		t.Errorf("flagged = %v at probability %v, want flagged from %v on",
			hit.Flagged, hit.Probability, themes.DefaultThreshold)
	}
	end, points := 0, utf8.RuneCountInString(text)
	for i, m := range hit.Matches {
		if m.Begin < end || i > 0 && m.Begin == end || m.End <= m.Begin || m.End > points {
			t.Errorf("match %d is %v: empty, touching the one before (end %d), or beyond %d code points",
				i, m, end, points)
		}
		end = m.End
	}
}

func TestPresenceCountsNotOpinion(t *testing.T) {
	t.Parallel()
	check(t, []example{
		{"fireworks", "I hate fireworks", true},
		{"fireworks", "no fireworks tonight please", true},
		{"fireworks", "I love my new sofa", false},
		{"gambling", "he lost his house at the casino betting on roulette", true},
	})
}

func TestBothPartsOfACompoundAreNeeded(t *testing.T) {
	t.Parallel()
	check(t, []example{
		{"theft of bicycles", "someone stole my bike last night", true},
		{"bicycle theft", "someone stole my bike last night", true},
		{"theft of bicycles", "bicycle for sale", false},
		{"bicycle theft", "nice bicycle", false},
		{"theft of bicycles", "the thief took my wallet", false},
		{"guns and children", "a toddler found a loaded pistol in the drawer", true},
		{"guns and children", "I like guns", false},
		{"sale of human organs", "what does a kidney sell for", true},
		{"sale of human organs", "Church organ for sale, two manuals", false},
		{"theft of bicycles", "my bike is blue. " + strings.Repeat(
			"We then went home and had a very long and quiet evening with tea. ", 12) + "A thief was seen.", false},
	})
}

func TestAlternativesAndFiller(t *testing.T) {
	t.Parallel()
	check(t, []example{
		{"drugs or alcohol", "cocaine everywhere", true},
		{"drugs or alcohol", "he came home drunk on whisky", true},
		{"drugs/alcohol", "let's grab a beer", true},
		{"drugs or alcohol", "the bus was late again", false},
		{"content about fireworks", "fireworks at nine", true},
		{"posts that mention fireworks", "fireworks at nine", true},
		{"promotion of fireworks", "please post the content here", false},
	})
}

func TestWordBoundaries(t *testing.T) {
	t.Parallel()
	check(t, []example{
		{"sex", "I went to Essex and Middlesex", false},
		{"cunt", "Scunthorpe United won", false},
		{"ass", "The class assessed the bass player's passport", false},
		{"arms", "the charms of a pharmacy", false},
	})
}

func TestInflectionAndDerivation(t *testing.T) {
	t.Parallel()
	check(t, []example{
		{"snake", "There were snakes in the cellar", true},
		{"pregnancy", "she is pregnant with twins", true},
		{"divorces", "they are getting divorced", true},
		{"stealing", "somebody stole it", true},
		{"homeschooling", "we homeschool our children", true},
		{"deepfakes", "that was a deepfake", true},
		{"wolves", "a wolf at the door", true},
	})
}

func TestOtherMeaningsAndIdioms(t *testing.T) {
	t.Parallel()
	check(t, []example{
		{"shooting", "let's shoot some hoops after school", false},
		{"shooting", "there was a shooting at the mall, two dead", true},
		{"shooting", "photo shoot for the new album tomorrow", false},
		{"dogs", "I had a hot dog for lunch", false},
		{"dogs", "my puppy chewed the sofa", true},
		{"war", "star wars is great", false},
		{"police", "the police station is closed", true},
	})
}

func TestExpressionsMeanSomethingElse(t *testing.T) {
	t.Parallel()
	check(t, []example{
		{"murder", "you are absolutely killing it in that dress", false},
		{"murder", "a murder of crows landed on the roof this morning", false},
		{"murder", "Two men were charged with the murder of a taxi driver", true},
		{"banking", "we had a picnic on the bank of the river and saw a kingfisher", false},
		{"banking", "opened a savings account with a different bank today", true},
		{"guns", "hot glue gun burned my finger again", false},
		{"guns", "don't jump the gun, wait for the email", false},
		{"guns", "he keeps a loaded gun in the glovebox", true},
		{"bombs", "dropped a bath bomb in and the water went purple", false},
		{"bombs", "a bomb was found under the school playground", true},
		{"hunting", "we're house hunting in Bristol, any tips", false},
		{"hunting", "Job hunting is soul destroying", false},
		{"hunting", "fox hunting is banned but they ride out anyway", true},
		{"cannabis", "spent all weekend pulling weeds out of the veg patch", false},
		{"cannabis", "Germany has legalised cannabis for adults", true},
		{"heart attacks", "my uncle had a heart attack in March", true},
		{"river bank erosion", "the erosion of the river bank took the path away", true},
	})
}

func TestOneHalfOfACompoundDoesNotStandForBoth(t *testing.T) {
	t.Parallel()
	check(t, []example{
		{"nuclear weapons", "weapons inspectors found nothing but rust", false},
		{"nuclear weapons", "the treaty limits nuclear weapons", true},
		{"drug dealing", "the doctor put me on a new drug for blood pressure", false},
		{"drug dealing", "they caught him dealing cocaine, a drug dealer at 19", true},
		{"air pollution", "light pollution hides the stars here", false},
		{"air pollution", "the polluted air in this city", true},
		{"knife crime", "sharpened my kitchen knives at last", false},
		{"train delays", "all trains are delayed again", true},
	})
}

func TestAParaphraseGetsTheSameVerdict(t *testing.T) {
	t.Parallel()
	theft := []string{"theft of bicycles", "bicycle theft", "stealing bikes", "bikes being stolen"}
	murder := []string{"murder", "homicide", "content about murder", "the killing of a person"}
	guns := []string{"guns", "firearms", "posts that mention guns"}
	pregnancy := []string{"pregnancy", "being pregnant", "pregnant women"}
	for _, c := range []struct {
		themes []string
		text   string
		hit    bool
	}{
		{theft, "someone stole my bike last night", true},
		{theft, "my bike needs new brakes", false},
		{murder, "a man was murdered in the park", true},
		{guns, "he bought a pistol and two rifles", true},
		{guns, "hold your horses, dinner is not ready", false},
		{pregnancy, "she is pregnant with twins, the baby is due in May", true},
	} {
		for _, theme := range c.themes {
			t.Run(theme+"/"+c.text, func(t *testing.T) {
				t.Parallel()
				hit := shared().Screen(c.text, []string{theme})[0]
				if hit.Flagged != c.hit {
					t.Errorf("flagged = %v with probability %.3f, want %v", hit.Flagged, hit.Probability, c.hit)
				}
				sound(t, c.text, hit)
			})
		}
	}
}

func TestDisguisedWords(t *testing.T) {
	t.Parallel()
	check(t, []example{
		{"fireworks", "f i r e w o r k s tonight", true},
		{"fireworks", "fіreworks", true}, // a Cyrillic letter
		{"fireworks", "FIREWORKS", true},
		{"fireworks", "f\u200bireworks", true},
		{"f1reworks", "fireworks", true},
	})
}

func TestThemesThatAreNotEnglish(t *testing.T) {
	t.Parallel()
	check(t, []example{
		{"взрыв", "вчера был взрыв", true},
		{"взрыв", "вчера был праздник", false},
		{"爆竹", "今天放爆竹了", true},
		{"爆竹", "竹子和爆米花", false},
		{"Feuerwerk", "Heute gibt es ein FEUERWERK", true},
		{"xqzzt", "hello xqzzt there", true},
		{"xqzzt", "hello xqzz there", false},
		{"xqzzt blorf", "blorf then xqzzt", false},
		{"who are you", "so who are you then", true},
		{"who are you", "you are who I want", false},
		{":-(", "so sad :-( really", true},
		{":-(", "so happy :-)", false},
		{"🔫", "look 🔫 there", true},
		{"🔫", "look 🎆 there", false},
		{"🔫", "", false},
		{"!!!", "", false},
	})
}

func TestMatchesAreCodePointsOfTheOriginal(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		theme, text string
		want        []string
	}{
		"four-byte runes":    {"fireworks", "🎆𝒶𝒷 fireworks 🎆", []string{"fireworks"}},
		"combining marks":    {"fireworks", "e\u0301e\u0301 fire\u0301works!", []string{"fire\u0301works"}},
		"broken bytes":       {"fireworks", "\xff\xfe fireworks", []string{"fireworks"}},
		"spaced out":         {"fireworks", "oh f.i.r.e.w.o.r.k.s.", []string{"f.i.r.e.w.o.r.k.s"}},
		"two places":         {"fireworks", "fireworks here, fireworks there", []string{"fireworks", "fireworks"}},
		"both parts":         {"theft of bicycles", "they stole the bike", []string{"stole", "bike"}},
		"without words":      {":-(", "ü:-(:-(", []string{":-(", ":-("}},
		"script of no space": {"爆竹", "今天放爆竹了", []string{"爆竹"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hit := shared().Screen(c.text, []string{c.theme})[0]
			points := []rune(c.text)
			var got []string
			for _, m := range hit.Matches {
				got = append(got, string(points[m.Begin:m.End]))
			}
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("matches %q, want %q", got, c.want)
			}
		})
	}
}

func TestEachThemeAnswersOnceInOrder(t *testing.T) {
	t.Parallel()
	hits := shared().Screen("fireworks", []string{"snakes", "fireworks", "snakes", "Fireworks", ""})
	var got []string
	for _, h := range hits {
		got = append(got, fmt.Sprintf("%s/%v/%d", h.Theme, h.Flagged, h.Tokens))
	}
	if want := "[snakes/false/1 fireworks/true/1 Fireworks/true/1 /false/0]"; fmt.Sprint(got) != want {
		t.Errorf("hits %v, want %s", got, want)
	}
	if shared().Screen("fireworks", nil) != nil {
		t.Error("no themes must give no hits")
	}
}

func TestOptionsOutOfRangeAreRefused(t *testing.T) {
	t.Parallel()
	for _, threshold := range []float64{-0.1, 1.1} {
		if _, err := themes.New(themes.Options{Threshold: threshold}); err == nil {
			t.Errorf("threshold %v: got no error, want one", threshold)
		}
	}
}

func TestAHigherThresholdFlagsLess(t *testing.T) {
	t.Parallel()
	strict, err := themes.New(themes.Options{Threshold: 0.9999})
	if err != nil {
		t.Fatal(err)
	}
	hit := strict.Screen("I hate fireworks", []string{"fireworks"})[0]
	if hit.Flagged || hit.Matches != nil || hit.Probability < 0.5 {
		t.Errorf("at threshold 0.9999: got %+v, want an unflagged hit of a probability of 0.5 or more", hit)
	}
}

// Callers choose the themes, so the number of themes must not determine how much memory the cache takes.
func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	const bound = 256 << 10
	screener, err := themes.New(themes.Options{CacheBytes: bound})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 500 {
		screener.Screen("a tiger in the zoo", []string{fmt.Sprintf("animals and weapons %d", i)})
	}
	if got := screener.Cached(); got == 0 || got > bound {
		t.Errorf("cache takes %d bytes, bound is %d", got, bound)
	}
}

func TestManyGoroutinesGetTheSameVerdict(t *testing.T) {
	t.Parallel()
	content := prose(3000) + " they stole the bike " + prose(3000)
	want := fmt.Sprint(shared().Screen(content, ten))
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for range 5 {
				if got := fmt.Sprint(shared().Screen(content, ten)); got != want {
					t.Errorf("got\n%s, want\n%s", got, want)
				}
			}
		})
	}
	wait.Wait()
}

// One mention in a long text is a hit, and its span is exact.
func TestBuriedMention(t *testing.T) {
	t.Parallel()
	content := prose(4500) + " Police are treating the blaze as arson, the arsonist fled. " + prose(4500)
	hit := shared().Screen(content, []string{"arson"})[0]
	if !hit.Flagged {
		t.Fatalf("not flagged at probability %.3f, want a hit", hit.Probability)
	}
	sound(t, content, hit)
	if first := string([]rune(content)[hit.Matches[0].Begin:hit.Matches[0].End]); first != "arson" {
		t.Errorf("first match is %q, want \"arson\"", first)
	}
}

type labelled struct {
	Theme      string `json:"theme"`
	Paraphrase string `json:"theme_paraphrase"`
	Text       string `json:"text"`
	Hit        bool   `json:"hit"`
	Kind       string `json:"kind"`
}

// The figures on themes that the weights were not fitted on must not fall. The bounds lie a little below what was
// measured when they were recorded (see docs/themes.md).
func TestFiguresOnHeldBackThemes(t *testing.T) {
	t.Parallel()
	file, err := os.Open("testdata/heldback.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var rows []labelled
	var names []string
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r labelled
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, r)
		if len(names) == 0 || names[len(names)-1] != r.Theme {
			names = append(names, r.Theme)
		}
	}
	var positives, found, paraphrased, half, halfHit, others, alarms float64
	for _, r := range rows {
		own := shared().Screen(r.Text, []string{r.Theme, r.Paraphrase})
		switch {
		case r.Kind == "positive" || r.Kind == "positive_obfuscated":
			positives++
			if own[0].Flagged {
				found++
			}
			if own[1].Flagged {
				paraphrased++
			}
		case r.Kind == "negative_half":
			half++
			if own[0].Flagged {
				halfHit++
			}
		}
		for _, hit := range shared().Screen(r.Text, names) {
			if hit.Theme != r.Theme {
				others++
				if hit.Flagged {
					alarms++
				}
			}
		}
	}
	t.Logf("explicit recall %.3f, by paraphrase %.3f; half themes hit %.3f; other themes hit %.4f",
		found/positives, paraphrased/positives, halfHit/half, alarms/others)
	if r := found / positives; r < 0.69 {
		t.Errorf("recall %.3f, want 0.69 or more", r)
	}
	if r := paraphrased / positives; r < 0.53 {
		t.Errorf("recall by paraphrase %.3f, want 0.53 or more", r)
	}
	if r := halfHit / half; r > 0.37 {
		t.Errorf("share of half themes that hit %.3f, want 0.37 or less", r)
	}
	if r := alarms / others; r > 0.006 {
		t.Errorf("share of texts on other themes that hit %.4f, want 0.006 or less", r)
	}
}

func FuzzScreen(f *testing.F) {
	f.Add("I hate fireworks", "fireworks")
	f.Add("今天放爆竹了 \xff e\u0301 🎆", "爆竹, or (🎆)")
	f.Add("a/b;c", "and or of , / such as")
	f.Add(":-( ", " ")
	f.Add("set fire to the hot dog", "content about theft of bicycles or electric scooters by people who are not")
	f.Fuzz(func(t *testing.T, content, theme string) {
		hits := shared().Screen(content, []string{theme, theme + "s", "fireworks"})
		if len(hits) < 2 || hits[0].Theme != theme {
			t.Fatalf("got hits %v, want two or three, the first for %q", hits, theme)
		}
		for _, hit := range hits {
			sound(t, content, hit)
		}
	})
}
