// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/engine"
	"github.com/caddy-moderation/caddy-moderation/engine/words"
)

func newEngine(t testing.TB, o engine.Options) *engine.Engine {
	t.Helper()
	e, err := engine.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func moderate(t testing.TB, e *engine.Engine, req engine.Request) engine.Result {
	t.Helper()
	r, err := e.Moderate(t.Context(), req)
	if err != nil {
		t.Fatalf("Moderate: %v", err)
	}
	return r
}

// fixed is a classifier that always says the same.
type fixed struct {
	scores engine.Scores
	err    error
}

func (f fixed) Classify(context.Context, string) (engine.Scores, error) { return f.scores, f.err }
func (f fixed) Version() string                                         { return "fixed-1" }

// categories makes a classifier that always gives these probabilities of the categories.
func categories(p ...float64) fixed {
	var f fixed
	copy(f.scores.Categories[:], p)
	return f
}

// oneTheme is a theme screener that always finds the first theme, or never.
type oneTheme struct{ flagged bool }

func (o oneTheme) ScreenThemes(_ string, wanted []string) ([]engine.ThemeResult, int) {
	r := engine.ThemeResult{Theme: wanted[0], Flagged: o.flagged, Probability: 0.9}
	if !o.flagged {
		r.Probability = 0.1
	}
	return []engine.ThemeResult{r}, 1
}

func TestVerdictFollowsTheThresholds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name           string
		p              []float64
		flagged        bool
		recommendation engine.Recommendation
	}{
		{"nothing", []float64{0, 0, 0, 0, 0}, false, engine.Approve},
		{"exactly the threshold is not over it", []float64{0.7, 0, 0, 0, 0}, false, engine.Review},
		{"just over", []float64{0.7000001, 0, 0, 0, 0}, true, engine.Review},
		{"below reject level", []float64{0, 0.849, 0, 0, 0}, true, engine.Review},
		{"reject level", []float64{0, 0.85, 0, 0, 0}, true, engine.Reject},
		{"near the threshold", []float64{0, 0, 0.4, 0, 0}, false, engine.Review},
		{"not near", []float64{0, 0, 0.399, 0, 0}, false, engine.Approve},
		{"sexual has its own threshold", []float64{0, 0, 0, 0.79, 0}, false, engine.Review},
		{"violence has its own threshold", []float64{0, 0, 0, 0, 0.61}, true, engine.Review},
		{"one rejects, one reviews", []float64{0.71, 0, 0, 0, 0.99}, true, engine.Reject},
		{"reject is not softened by a later near one", []float64{0.99, 0.6, 0, 0, 0}, true, engine.Reject},
	} {
		r := moderate(t, newEngine(t, engine.Options{Classifier: categories(c.p...)}), engine.Request{Content: "x"})
		if r.Flagged != c.flagged || r.Recommendation != c.recommendation {
			t.Errorf("%s: flagged %v, %s; want %v, %s",
				c.name, r.Flagged, r.Recommendation, c.flagged, c.recommendation)
		}
	}
}

func TestAThemeHitRejects(t *testing.T) {
	t.Parallel()
	for _, hit := range []bool{true, false} {
		e := newEngine(t, engine.Options{Classifier: categories(), Themes: oneTheme{hit}})
		r := moderate(t, e, engine.Request{Content: "x", Themes: []string{"a"}})
		want := engine.Approve
		if hit {
			want = engine.Reject
		}
		if r.Flagged != hit || r.Recommendation != want || r.Confidence != 0.9 {
			t.Errorf("theme found %v: flagged %v, %s, confidence %v; want %v, %s, 0.9",
				hit, r.Flagged, r.Recommendation, r.Confidence, hit, want)
		}
	}
}

// TestWordsOfARequest guards against blocked words that another decision forgets, and against allowed ones that count.
func TestWordsOfARequest(t *testing.T) {
	t.Parallel()
	parse := func(all ...string) *words.List {
		list, err := words.Parse(all)
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	e := newEngine(t, engine.Options{Classifier: categories(0.1, 0, 0, 0, 0)})
	r := moderate(t, e, engine.Request{Content: "Ä cheap p1lls, cheap flights", Block: parse("cheap pills", "flights")})
	want := []engine.Span{{Begin: 2, End: 13}, {Begin: 21, End: 28}}
	if !r.Flagged || r.Recommendation != engine.Reject || r.Confidence != 1 || !slices.Equal(r.Blocked, want) {
		t.Errorf("blocked words: got %+v", r)
	}
	e.Policy().With(&engine.Policy{Thresholds: [5]float64{0.99, 0.99, 0.99, 0.99, 0.99}}).Decide(&r)
	if !r.Flagged || r.Recommendation != engine.Reject {
		t.Errorf("decided again: got %+v", r)
	}
	// What is allowed is not blocked, and what then stands side by side is one expression.
	r = moderate(t, e, engine.Request{
		Content: "cheap flights, cheap nasty pills", Allow: parse("flights", "nasty"), Block: parse("cheap pills", "flights"),
	})
	if want := []engine.Span{{Begin: 15, End: 32}}; !slices.Equal(r.Blocked, want) {
		t.Errorf("allowed and blocked words: got %+v", r.Blocked)
	}
	german := "Dieser Text ist ganz und gar auf Deutsch geschrieben und völlig harmlos."
	whole := newEngine(t, engine.Options{})
	for _, least := range []engine.Recommendation{"", engine.Review, engine.Reject} {
		r := moderate(t, whole, engine.Request{Content: german, Languages: []string{"en"}, OtherLanguage: least})
		if want := cmp.Or(least, engine.Approve); !r.OtherLanguage || r.Flagged || r.Recommendation != want {
			t.Errorf("another language, %q: got %+v", least, r)
		}
		r = moderate(t, whole, engine.Request{Content: german, Languages: []string{"en", "de-AT"}, OtherLanguage: least})
		if r.OtherLanguage || r.Recommendation != engine.Approve {
			t.Errorf("an expected language, %q: got %+v", least, r)
		}
	}
	if _, err := e.Moderate(t.Context(), engine.Request{Content: "x", OtherLanguage: "approve"}); err == nil {
		t.Error("approving other languages is no error")
	}
}

func TestConfidenceIsTheProbabilityThatFlaggedIsRight(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		p    []float64
		want float64
	}{
		{[]float64{0, 0, 0, 0, 0}, 1},
		{[]float64{0.1, 0.2, 0, 0, 0}, 0.9 * 0.8},
		{[]float64{0.9, 0.2, 0, 0, 0}, 0.9},
		{[]float64{0.9, 0.8, 0, 0, 0}, 1 - 0.1*0.2},
	} {
		r := moderate(t, newEngine(t, engine.Options{Classifier: categories(c.p...)}), engine.Request{Content: "x"})
		if math.Abs(r.Confidence-c.want) > 1e-12 {
			t.Errorf("probabilities %v: confidence %v, want %v", c.p, r.Confidence, c.want)
		}
	}
}

func TestARequestsPolicyOverridesTheEngines(t *testing.T) {
	t.Parallel()
	policy := engine.Policy{Thresholds: [5]float64{0.9}}
	e := newEngine(t, engine.Options{Classifier: categories(0.6), Policy: policy})
	if r := moderate(t, e, engine.Request{Content: "x"}); r.Flagged {
		t.Error("0.6 is flagged under the engine's threshold of 0.9, want it not to be")
	}
	r := moderate(t, e, engine.Request{Content: "x", Policy: &engine.Policy{Thresholds: [5]float64{0.2}}})
	if !r.Flagged || r.Recommendation != engine.Reject {
		t.Errorf("0.6 under a threshold of 0.2: flagged %v, %s; want true, reject", r.Flagged, r.Recommendation)
	}
	if got, want := e.Policy().Thresholds, [5]float64{0.9, 0.7, 0.5, 0.8, 0.6}; got != want {
		t.Errorf("the engine's thresholds are %v, want %v", got, want)
	}
}

func TestPolicyOutOfRangeIsRefusedByName(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		policy engine.Policy
		want   string
	}{
		{engine.Policy{Thresholds: [5]float64{2: 1}}, "threshold of self-harm is 1: must be above 0 and below 1, or 0 for the default 0.5"},
		{engine.Policy{Thresholds: [5]float64{-0.1}}, "threshold of hate is -0.1: must be above 0 and below 1, or 0 for the default 0.7"},
		{engine.Policy{Thresholds: [5]float64{math.NaN()}}, "threshold of hate is NaN: must be above 0 and below 1, or 0 for the default 0.7"},
		{engine.Policy{RejectLevels: [5]float64{4: 0.5}}, "reject level of violence is 0.5: must be from its threshold 0.6 to 1, or 0 for the default half-way"},
		{engine.Policy{RejectLevels: [5]float64{4: 1.5}}, "reject level of violence is 1.5: must be from its threshold 0.6 to 1, or 0 for the default half-way"},
	} {
		_, err := engine.New(engine.Options{Policy: c.policy})
		if err == nil || err.Error() != c.want {
			t.Errorf("New: error %v, want %q", err, c.want)
		}
		e := newEngine(t, engine.Options{Classifier: categories()})
		if _, err := e.Moderate(t.Context(), engine.Request{Content: "x", Policy: &c.policy}); err == nil {
			t.Errorf("Moderate took a policy out of range, want the error %q", c.want)
		}
	}
}

func TestAForeignClassifierCannotSmuggleInNonsense(t *testing.T) {
	t.Parallel()
	for _, bad := range []float64{math.NaN(), math.Inf(1), -0.01, 1.01} {
		c := categories(0, 0, bad)
		_, err := newEngine(t, engine.Options{Classifier: c}).Moderate(t.Context(), engine.Request{Content: "x"})
		if !errors.Is(err, engine.ErrProbability) {
			t.Errorf("category %v: error %v, want %v", bad, err, engine.ErrProbability)
		}
		c = fixed{}
		c.scores.Attributes[3] = bad
		_, err = newEngine(t, engine.Options{Classifier: c}).Classify(t.Context(), "x")
		if !errors.Is(err, engine.ErrProbability) {
			t.Errorf("attribute %v: error %v, want %v", bad, err, engine.ErrProbability)
		}
	}
	down := errors.New("down")
	e := newEngine(t, engine.Options{Classifier: fixed{err: down}})
	if _, err := e.Moderate(t.Context(), engine.Request{Content: "x"}); !errors.Is(err, down) {
		t.Errorf("error %v, want the classifier's: %v", err, down)
	}
}

// Hazard: the constants stand in another order than the names of the model's heads, and one category is reported as
// another.
func TestConstantsHaveTheirNames(t *testing.T) {
	t.Parallel()
	for i, want := range []struct {
		category engine.Category
		name     string
	}{
		{engine.Hate, "hate"}, {engine.Harassment, "harassment"}, {engine.SelfHarm, "self-harm"},
		{engine.Sexual, "sexual"}, {engine.Violence, "violence"}, {engine.NumCategories, "category 5"},
	} {
		if got := want.category.String(); got != want.name {
			t.Errorf("category %d is named %q, want %q", i, got, want.name)
		}
	}
	for i, want := range []struct {
		attribute engine.Attribute
		name      string
	}{
		{engine.Toxicity, "TOXICITY"}, {engine.SevereToxicity, "SEVERE_TOXICITY"},
		{engine.IdentityAttack, "IDENTITY_ATTACK"}, {engine.Insult, "INSULT"}, {engine.Profanity, "PROFANITY"},
		{engine.Threat, "THREAT"}, {engine.SexuallyExplicit, "SEXUALLY_EXPLICIT"}, {engine.Spam, "SPAM"},
		{engine.NumAttributes, "attribute 8"},
	} {
		if got := want.attribute.String(); got != want.name {
			t.Errorf("attribute %d is named %q, want %q", i, got, want.name)
		}
	}
}

func TestNamesRoundTrip(t *testing.T) {
	t.Parallel()
	for c := range engine.Category(engine.NumCategories) {
		if got, err := engine.ParseCategory(c.String()); got != c || err != nil {
			t.Errorf("ParseCategory(%q): got %v and error %v, want %v", c, got, err, c)
		}
	}
	for a := range engine.Attribute(engine.NumAttributes) {
		if got, err := engine.ParseAttribute(a.String()); got != a || err != nil {
			t.Errorf("ParseAttribute(%q): got %v and error %v, want %v", a, got, err, a)
		}
	}
	_, err := engine.ParseCategory("Hate")
	want := `unknown category "Hate": must be one of hate, harassment, self-harm, sexual, violence`
	if err == nil || err.Error() != want {
		t.Errorf("ParseCategory(Hate): error %v, want %s", err, want)
	}
	if _, err := engine.ParseAttribute("toxicity"); err == nil {
		t.Error("ParseAttribute took a name in lower case, want an error")
	}
}

func TestOrdinaryTextIsApprovedAndPlainHarmIsFlagged(t *testing.T) {
	t.Parallel()
	e := newEngine(t, engine.Options{})
	for _, content := range []string{
		"", " ", "Thanks, see you at six.", "The recipe needs two eggs and a pinch of salt.",
		"Can anyone recommend a dentist near the old harbour?", "The car park by the library closes at six.",
		"My grandmother is Polish and makes the best dumplings in the world.",
		"Das Wetter ist heute schön.", "今日はいい天気ですね。", "Сегодня хорошая погода, пойдём в парк.",
	} {
		if r := moderate(t, e, engine.Request{Content: content}); r.Flagged {
			t.Errorf("%q is flagged, want it not to be: %v", content, r.Categories)
		}
	}
	for _, c := range []struct {
		content string
		want    engine.Category
	}{
		{"All of those immigrants are vermin and should be exterminated.", engine.Hate},
		{"You are a worthless pathetic idiot and everybody hates you.", engine.Harassment},
		{"I want to kill myself tonight, I can't go on any more.", engine.SelfHarm},
		{"I want to lick your pussy until you cum all over my face.", engine.Sexual},
		{"I'm going to stab you in the throat and watch you bleed.", engine.Violence},
	} {
		if r := moderate(t, e, engine.Request{Content: c.content}); !r.Categories[c.want].Flagged {
			t.Errorf("%q is not flagged as %s, want it to be: %v", c.content, c.want, r.Categories)
		}
	}
}

func TestDisguisesKeepTheVerdict(t *testing.T) {
	t.Parallel()
	e := newEngine(t, engine.Options{})
	for _, c := range []struct{ name, content string }{
		{"plain", "I will kill you, you worthless bitch"},
		{"leetspeak", "I will k1ll you, you w0rthl3ss b1tch"},
		{"symbols", "I will k!ll you, you worthle$$ b!tch"},
		{"look-alikes", "I will kіll уоu, уou wоrthlеss bіtсh"},
		{"zero width", "I will k\u200bi\u200bll you, you worth\u200bless bi\u200btch"},
		{"full width", "I will ｋｉｌｌ you, you worthless ｂｉｔｃｈ"},
		{"mathematical", "I will 𝐤𝐢𝐥𝐥 you, you worthless 𝐛𝐢𝐭𝐜𝐡"},
		{"stacked marks", "I will k̷̛i̴͝l̶l̵ you, you worthless b̷i̴t̶c̵h̷"},
		{"dotted", "I will k.i.l.l you, you worthless b.i.t.c.h"},
		{"spaced", "I will k i l l  you, you worthless b i t c h"},
		{"stretched", "I will killlll you, you worthlesssss bitchhhhh"},
		{"masked", "I will k*ll you, you worthless b*tch"},
		{"capitals", "I WILL KILL YOU, YOU WORTHLESS BITCH"},
	} {
		if r := moderate(t, e, engine.Request{Content: c.content}); !r.Flagged {
			t.Errorf("%s: %q is not flagged, want it to be: %v", c.name, c.content, r.Categories)
		}
	}
}

func TestLengthAloneDoesNotFlag(t *testing.T) {
	t.Parallel()
	e := newEngine(t, engine.Options{})
	for _, content := range []string{
		strings.Repeat(natural, 8), strings.Repeat("a", 10_000), strings.Repeat("a ", 5_000),
		strings.Repeat("😀", 10_000), strings.Repeat("我", 10_000), strings.Repeat("\xff", 10_000),
		strings.Repeat("no ", 3_000), strings.Repeat("7 ", 5_000),
	} {
		if r := moderate(t, e, engine.Request{Content: content}); r.Flagged {
			t.Errorf("%.40q… is flagged, want it not to be: %v", content, r.Categories)
		}
	}
}

func TestOneBadSentenceInALongTextIsFound(t *testing.T) {
	t.Parallel()
	e := newEngine(t, engine.Options{})
	const needle = "I am going to stab you in the throat and kill your whole family, you worthless bitch."
	for _, before := range []int{0, 1, 3, 7} {
		content := strings.Repeat(natural, before) + needle + " " + strings.Repeat(natural, 7-before)
		if r := moderate(t, e, engine.Request{Content: content}); !r.Flagged {
			t.Errorf("the bad sentence after %d parts of the text is not flagged, want it to be: %v", before, r.Categories)
		}
	}
}

func TestTokensUsedCountsContentAndThemes(t *testing.T) {
	t.Parallel()
	e := newEngine(t, engine.Options{})
	if r := moderate(t, e, engine.Request{Content: "one two three"}); r.TokensUsed != 3 {
		t.Errorf("%d tokens, want 3", r.TokensUsed)
	}
	themes := []string{"garden tools", "garden tools", "boats"}
	r := moderate(t, e, engine.Request{Content: "one two three", Themes: themes})
	if r.TokensUsed != 6 {
		t.Errorf("%d tokens, want 6: 3 of the content and 3 of the distinct themes", r.TokensUsed)
	}
	if len(r.Themes) != 2 || r.Themes[0].Theme != "garden tools" || r.Themes[1].Theme != "boats" {
		t.Errorf("themes %v, want garden tools and boats", r.Themes)
	}
	foreign := newEngine(t, engine.Options{Classifier: categories()})
	if r := moderate(t, foreign, engine.Request{Content: "one two"}); r.TokensUsed != 2 {
		t.Errorf("%d tokens with a foreign classifier, want 2", r.TokensUsed)
	}
}

func TestMemoryDoesNotGrowWithTheText(t *testing.T) {
	e := newEngine(t, engine.Options{})
	allocations := func(content string) float64 {
		return testing.AllocsPerRun(50, func() { moderate(t, e, engine.Request{Content: content}) })
	}
	short, long := allocations("a short text"), allocations(strings.Repeat(natural, 8))
	// A pool may be emptied in between, and the race detector empties it on purpose: its buffers then grow again, in a
	// few steps. One allocation for each of the 1,900 words would show.
	if long > short+200 {
		t.Errorf("%v allocations for a long text, want at most %v, 200 more than for a short one", long, short+200)
	}
}

func FuzzModerate(f *testing.F) {
	e := newEngine(f, engine.Options{})
	for _, seed := range []string{
		"", "hello", "\xff\xfe", "k1ll", "😀", "\u202e\u200b", "f.u.c.k", strings.Repeat("a", 300), "\"quoted\" 'x'",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, content string) {
		r, err := e.Moderate(t.Context(), engine.Request{Content: content})
		if err != nil {
			t.Fatal(err)
		}
		again, err := e.Moderate(t.Context(), engine.Request{Content: content})
		if err != nil || again.Categories != r.Categories || again.Attributes != r.Attributes {
			t.Fatalf("second call gave %v (error %v), want %v", again, err, r)
		}
		if r.Confidence < 0 || r.Confidence > 1 || r.TokensUsed < 0 {
			t.Fatalf("confidence %v and %d tokens, want 0 to 1 and at least 0", r.Confidence, r.TokensUsed)
		}
	})
}
