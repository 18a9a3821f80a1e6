// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"errors"
	"math"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/engine"
)

// explaining is a classifier that always gives the same probabilities and evidence.
type explaining struct {
	fixed
	explanation engine.Explanation
	err         error
	wanted      *[engine.NumCategories]bool // set to what Explain was called with
}

func (e explaining) Explain(
	_ context.Context, _ string, wanted [engine.NumCategories]bool,
) (engine.Explanation, error) {
	if e.wanted != nil {
		*e.wanted = wanted
	}
	return e.explanation, e.err
}

func explain(t testing.TB, e *engine.Engine, req engine.Request) (engine.Result, engine.Explanation) {
	t.Helper()
	r, x, err := e.Explain(t.Context(), req)
	if err != nil {
		t.Fatalf("Explain: %v", err)
	}
	return r, x
}

// evidence makes evidence of one part.
func evidence(begin, end int, weight float64) []engine.Evidence {
	return []engine.Evidence{{Span: engine.Span{Begin: begin, End: end}, Weight: weight}}
}

func TestOnlyWhatIsLikelyOrFlaggedIsExplained(t *testing.T) {
	t.Parallel()
	var wanted [engine.NumCategories]bool
	all := engine.Explanation{
		{Evidence: evidence(0, 1, 1)}, {Evidence: evidence(1, 2, 0.5), Passage: engine.Span{Begin: 0, End: 2}},
		{Evidence: evidence(2, 3, 0.1)}, {Evidence: evidence(0, 3, 1), Passage: engine.Span{Begin: 0, End: 99}},
		{Passage: engine.Span{Begin: 1, End: 3}},
	}
	e := newEngine(t, engine.Options{Classifier: explaining{
		fixed: categories(0.2, 0.21, 0.9, 0, 0.1), explanation: all, wanted: &wanted,
	}})
	policy := engine.Policy{Thresholds: [engine.NumCategories]float64{engine.Violence: 0.05}}
	_, x := explain(t, e, engine.Request{Content: "abc", Policy: &policy})
	likely := [engine.NumCategories]bool{engine.Harassment: true, engine.SelfHarm: true, engine.Violence: true}
	if wanted != likely {
		t.Errorf("the classifier was asked to explain %v, want %v", wanted, likely)
	}
	want := engine.Explanation{engine.Harassment: all[1], engine.SelfHarm: all[2], engine.Violence: all[4]}
	if !reflect.DeepEqual(x, want) {
		t.Errorf("explanation %v, want %v", x, want)
	}
}

func TestWithoutAnExplainerThereIsNoExplanation(t *testing.T) {
	t.Parallel()
	e := newEngine(t, engine.Options{Classifier: categories(0.9, 0.9, 0.9, 0.9, 0.9)})
	req := engine.Request{Content: "text", Themes: []string{"boats"}}
	r, x := explain(t, e, req)
	if !reflect.DeepEqual(x, engine.Explanation{}) {
		t.Errorf("explanation %v, want none", x)
	}
	if want := moderate(t, e, req); !reflect.DeepEqual(r, want) {
		t.Errorf("result %v, want %v as by Moderate", r, want)
	}
}

func TestPassagesOutsideTheTextAreRefused(t *testing.T) {
	t.Parallel()
	const content = "é😀b" // three code points
	for _, c := range []struct {
		name    string
		passage engine.Span
		ok      bool
	}{
		{"unknown", engine.Span{}, true},
		{"all of it", engine.Span{Begin: 0, End: 3}, true},
		{"without the evidence", engine.Span{Begin: 2, End: 3}, true},
		{"before the text", engine.Span{Begin: -1, End: 1}, false},
		{"beyond the text", engine.Span{Begin: 0, End: 4}, false},
		{"empty", engine.Span{Begin: 1, End: 1}, false},
		{"end before begin", engine.Span{Begin: 2, End: 1}, false},
	} {
		given := engine.CategoryExplanation{Evidence: evidence(0, 1, 1), Passage: c.passage}
		e := newEngine(t, engine.Options{Classifier: explaining{
			fixed: categories(0.9), explanation: engine.Explanation{given},
		}})
		_, x, err := e.Explain(t.Context(), engine.Request{Content: content})
		if c.ok && (err != nil || !reflect.DeepEqual(x[0], given)) {
			t.Errorf("%s: got %v and error %v, want %v", c.name, x[0], err, given)
		}
		if !c.ok && !errors.Is(err, engine.ErrEvidence) {
			t.Errorf("%s: error %v, want %v", c.name, err, engine.ErrEvidence)
		}
	}
}

func TestEvidenceOutsideTheTextIsRefused(t *testing.T) {
	t.Parallel()
	const content = "é😀b" // three code points
	for _, c := range []struct {
		name  string
		parts []engine.Evidence
		ok    bool
	}{
		{"all of it", evidence(0, 3, 1), true},
		{"side by side", append(evidence(0, 1, 0.5), evidence(1, 3, 0.5)...), true},
		{"none", nil, true},
		{"before the text", evidence(-1, 1, 1), false},
		{"beyond the text", evidence(0, 4, 1), false},
		{"empty", evidence(1, 1, 1), false},
		{"end before begin", evidence(2, 1, 1), false},
		{"overlap", append(evidence(0, 2, 0.5), evidence(1, 3, 0.5)...), false},
		{"wrong order", append(evidence(2, 3, 0.5), evidence(0, 1, 0.5)...), false},
		{"weight 0", evidence(0, 1, 0), false},
		{"weight above 1", evidence(0, 1, 1.01), false},
		{"weight not a number", evidence(0, 1, math.NaN()), false},
	} {
		given := engine.Explanation{{Evidence: c.parts}}
		classifier := explaining{fixed: categories(0.9), explanation: given}
		e := newEngine(t, engine.Options{Classifier: classifier})
		_, x, err := e.Explain(t.Context(), engine.Request{Content: content})
		if c.ok && (err != nil || !reflect.DeepEqual(x, given)) {
			t.Errorf("%s: got %v and error %v, want %v", c.name, x[0], err, c.parts)
		}
		if !c.ok && !errors.Is(err, engine.ErrEvidence) {
			t.Errorf("%s: error %v, want %v", c.name, err, engine.ErrEvidence)
		}
	}
}

func TestExplainFailsAsTheClassifierDoes(t *testing.T) {
	t.Parallel()
	down := errors.New("down")
	for name, c := range map[string]explaining{
		"classifying": {fixed: fixed{err: down}},
		"explaining":  {fixed: categories(0.9), err: down},
	} {
		e := newEngine(t, engine.Options{Classifier: c})
		if _, _, err := e.Explain(t.Context(), engine.Request{Content: "text"}); !errors.Is(err, down) {
			t.Errorf("%s: error %v, want %v", name, err, down)
		}
	}
	e := newEngine(t, engine.Options{Classifier: explaining{fixed: categories(0.1), err: down}})
	_, x, err := e.Explain(t.Context(), engine.Request{Content: "text"})
	if err != nil || !reflect.DeepEqual(x, engine.Explanation{}) {
		t.Errorf("nothing to explain: got %v and error %v, want neither", x, err)
	}
	bad := &engine.Policy{Thresholds: [engine.NumCategories]float64{2}}
	e = newEngine(t, engine.Options{})
	if _, _, err := e.Explain(t.Context(), engine.Request{Content: "text", Policy: bad}); err == nil {
		t.Error("a policy out of range is taken, want an error")
	}
}

func TestHarmlessTextsHaveNoEvidence(t *testing.T) {
	t.Parallel()
	e := newEngine(t, engine.Options{})
	for _, content := range []string{
		"", " ", "Good morning, is the bakery open on Sundays?", "The car park by the library closes at six.",
		natural[:600],
	} {
		if _, x := explain(t, e, engine.Request{Content: content}); !reflect.DeepEqual(x, engine.Explanation{}) {
			t.Errorf("%.40q has the explanation %v, want none", content, x)
		}
	}
}

// harmful are texts with the category that they are flagged for.
var harmful = []struct {
	content  string
	category engine.Category
}{
	{"All of those immigrants are vermin and should be exterminated.", engine.Hate},
	{"You are a worthless pathetic idiot and everybody hates you.", engine.Harassment},
	{"I want to kill myself tonight, I can't go on any more.", engine.SelfHarm},
	{"I want to lick your pussy until you cum all over my face.", engine.Sexual},
	{"I'm going to stab you in the throat and watch you bleed.", engine.Violence},
	{"😀 I will k\u200bi\u200bll you, you b\u0337i\u0334t\u0336c\u0335h 😀", engine.Violence},
	{"Thanks for the photos, they are lovely. My sister comes on Monday. I'm going to stab you in the throat. " +
		"The train leaves at nine. See you there, bring the dog. It was a long week.", engine.Violence},
}

func TestWithoutItsEvidenceATextIsLessHarmful(t *testing.T) {
	t.Parallel()
	e := newEngine(t, engine.Options{})
	for _, c := range harmful {
		r, x := explain(t, e, engine.Request{Content: c.content})
		if want := moderate(t, e, engine.Request{Content: c.content}); !reflect.DeepEqual(r, want) {
			t.Errorf("%q: result %v, want %v as by Moderate", c.content, r, want)
		}
		parts := x[c.category].Evidence
		if len(parts) == 0 {
			t.Errorf("%q has no evidence of %s, want some: %v", c.content, c.category, r.Categories)
			continue
		}
		strongest := parts[0]
		for _, part := range parts {
			if part.Weight > strongest.Weight {
				strongest = part
			}
		}
		whole := r.Categories[c.category].Probability
		for _, gone := range [][]engine.Evidence{parts, {strongest}} {
			left := without(c.content, gone)
			got := moderate(t, e, engine.Request{Content: left}).Categories[c.category].Probability
			if got >= whole {
				t.Errorf("%q: %s is %v, want less than %v as of %q", left, c.category, got, whole, c.content)
			}
		}
	}
}

// without returns what remains of content without some parts.
func without(content string, parts []engine.Evidence) (left string) {
	points, at := []rune(content), 0
	for _, part := range parts {
		left += string(points[at:part.Begin])
		at = part.End
	}
	return left + string(points[at:])
}

// A span must begin and end where words do, whatever a word is written with.
func TestEvidenceIsWholeWords(t *testing.T) {
	t.Parallel()
	e := newEngine(t, engine.Options{})
	for _, content := range []string{
		"😀😀 I will k\u0337\u031bi\u0334\u0341l\u0336l\u0335 you, you worthless b\u0337i\u0334t\u0336c\u0335h\u0337 😀",
		"👩‍👩‍👧 I will kіll уоu, уou wоrthlеss bіtсh 🇩🇪",
		"I will k\u200bi\u200bll you, you worth\u200bless bi\u200btch",
		"I will ｋｉｌｌ you, you worthless ｂｉｔｃｈ", "\xffI will k1ll you, you w0rthl3ss b1tch\xfe",
	} {
		r, x := explain(t, e, engine.Request{Content: content})
		if !r.Flagged {
			t.Errorf("%q is not flagged, want it to be", content)
		}
		points := []rune(content)
		for c := range x {
			for _, part := range x[c].Evidence {
				inWord := func(at int, separators string) bool {
					return at >= 0 && at < len(points) && !strings.ContainsRune(separators+"\uFFFD", points[at])
				}
				if inWord(part.End, " ,") || inWord(part.Begin-1, " ") {
					t.Errorf("%q: the evidence of %s is %q, want whole words",
						content, engine.Category(c), string(points[part.Begin:part.End]))
				}
			}
		}
	}
}

// What is explained has a passage, and of a short text that is all of it.
func TestWhatIsExplainedHasAPassage(t *testing.T) {
	t.Parallel()
	e := newEngine(t, engine.Options{})
	for _, c := range harmful {
		long := strings.Repeat("\u3000"+natural+"\n", 3)
		for name, around := range map[string]string{"short": "", "long": long} {
			content := around + " \n" + c.content + "\t" + around
			r, x := explain(t, e, engine.Request{Content: content})
			points := []rune(content)
			for k := range x {
				explained := r.Categories[k].Flagged || r.Categories[k].Probability > 0.2
				p := x[k].Passage
				if explained != (p != engine.Span{}) {
					t.Errorf("%s, %q, %s with %v: the passage is %v, want one if it is flagged or above 0.2",
						name, c.content, engine.Category(k), r.Categories[k], p)
				}
				passage := string(points[p.Begin:p.End])
				oneSentence := around == "" && strings.Count(c.content, ".") <= 1
				if explained && oneSentence && passage != c.content {
					t.Errorf("%s, %q, %s: the passage is %q, want the content",
						name, c.content, engine.Category(k), passage)
				}
			}
		}
	}
}

// Hazard: everybody pays for what explaining needs.
func TestModeratingAllocatesNothingToExplain(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector empties pools")
	}
	e := newEngine(t, engine.Options{})
	request := engine.Request{Content: natural + harmful[1].content}
	explain(t, e, request)
	if n := testing.AllocsPerRun(50, func() { moderate(t, e, request) }); n >= 1 {
		t.Errorf("moderating allocates %v times, want less than once", n)
	}
}

func TestManyAreExplainedAtOnce(t *testing.T) {
	t.Parallel()
	e := newEngine(t, engine.Options{})
	var want []engine.Explanation
	for _, c := range harmful {
		_, x := explain(t, e, engine.Request{Content: c.content})
		want = append(want, x)
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 3 * len(harmful) {
				n := (g + i) % len(harmful)
				_, x, err := e.Explain(context.Background(), engine.Request{Content: harmful[n].content})
				if err != nil || !reflect.DeepEqual(x, want[n]) {
					t.Errorf("%q: got %v and error %v, want %v", harmful[n].content, x, err, want[n])
				}
			}
		})
	}
	wg.Wait()
}

func FuzzEngineExplain(f *testing.F) {
	e := newEngine(f, engine.Options{})
	for _, seed := range []string{"", "idiot", "\xff\xfe kill you", "k1ll y0u", "youareanidiot 😀"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, content string) {
		if _, _, err := e.Explain(t.Context(), engine.Request{Content: content}); err != nil {
			t.Fatal(err)
		}
	})
}
