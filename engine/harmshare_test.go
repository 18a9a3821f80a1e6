// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/caddy-moderation/caddy-moderation/engine"
)

// logit returns the logarithm of the odds of a probability.
func logit(p float64) float64 { return math.Log(p / (1 - p)) }

func TestAShiftFollowsBayesRule(t *testing.T) {
	t.Parallel()
	shares := rapid.Float64Range(engine.MinHarmShare, engine.MaxHarmShare)
	probabilities := rapid.OneOf(rapid.Float64Range(0, 1), rapid.SampledFrom([]float64{0, 1e-300, 1e-17, 0.5,
		math.Nextafter(1, 0), 1}))
	rapid.Check(t, func(r *rapid.T) {
		from, to := shares.Draw(r, "from"), shares.Draw(r, "to")
		p, q := probabilities.Draw(r, "p"), probabilities.Draw(r, "q")
		shift := engine.NewShift(from, to)
		moved := shift.Probability(p)
		if !(moved >= 0 && moved <= 1) {
			r.Fatalf("%v moves to %v", p, moved)
		}
		if p <= q && moved > shift.Probability(q) {
			r.Fatalf("%v and %v move to %v and %v", p, q, moved, shift.Probability(q))
		}
		if (p == 0 || p == 1) && moved != p {
			r.Fatalf("%v moves to %v, want it to stay", p, moved)
		}
		if same := engine.NewShift(from, from).Probability(p); same != p {
			r.Fatalf("%v moves to %v for the same share", p, same)
		}
		if to > from && moved < p*(1-1e-12) || to < from && moved > p*(1+1e-12) {
			r.Fatalf("from %v to %v, %v moves to %v", from, to, p, moved)
		}
		if p < 1e-6 || p > 1-1e-6 {
			return // too few digits are left near 1
		}
		if want := logit(p) + logit(to) - logit(from); math.Abs(logit(moved)-want) > 1e-6 {
			r.Fatalf("from %v to %v, %v moves to a logit of %v, want %v", from, to, p, logit(moved), want)
		}
		if back := engine.NewShift(to, from).Probability(moved); math.Abs(back-p) > 1e-9 {
			r.Fatalf("from %v to %v and back, %v moves to %v", from, to, p, back)
		}
		via := shares.Draw(r, "via")
		twice := engine.NewShift(via, to).Probability(engine.NewShift(from, via).Probability(p))
		if math.Abs(twice-moved) > 1e-9 {
			r.Fatalf("from %v to %v, %v moves to %v, and by way of %v to %v", from, to, p, moved, via, twice)
		}
	})
}

func TestHarmSharesAreParsed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]float64{
		"2%": 0.02, "0.02": 0.02, "0.1%": 0.001, "0.3%": 0.003, "12.5%": 0.125, "0.01%": 0.0001, "0.0001": 0.0001,
		"99%": 0.99, "0.99": 0.99, "25%": 0.25, ".5": 0.5,
	} {
		got, err := engine.ParseHarmShare(text)
		if err != nil || got != want {
			t.Errorf("%s: got %v and the error %v, want %v", text, got, err, want)
		}
		if again, err := engine.ParseHarmShare(engine.FormatHarmShare(got)); err != nil || again != got {
			t.Errorf("%s is written as %s, which is %v, %v", text, engine.FormatHarmShare(got), again, err)
		}
	}
	for _, text := range []string{
		"", "%", "0", "0%", "-2%", "2", "1", "100%", "99.1%", "0.009%", "NaN", "Inf", "+Inf%", "2 %", "2%%", "two", "0,02", "2e0%",
	} {
		if got, err := engine.ParseHarmShare(text); !errors.Is(err, engine.ErrHarmShare) {
			t.Errorf("%q: got %v and the error %v, want ErrHarmShare", text, got, err)
		}
	}
}

// TestAShareMovesEveryProbability moderates and explains texts with and without a share of harm.
func TestAShareMovesEveryProbability(t *testing.T) {
	t.Parallel()
	e := newEngine(t, engine.Options{})
	if got := e.HarmShare(); !(got > 0 && got < 1) {
		t.Fatalf("the embedded classifier is calibrated for a share of %v", got)
	}
	ctx := context.Background()
	for _, content := range []string{
		"Shut up, you pathetic idiot.", "Your jokes are stupid and so are you.", "See you on Saturday.", "",
	} {
		request := engine.Request{Content: content, Themes: []string{"weekend plans"}}
		plain, evidence, err := e.Explain(ctx, request)
		if err != nil {
			t.Fatal(err)
		}
		request.HarmShare = e.HarmShare()
		if same, err := e.Moderate(ctx, request); err != nil || fmt.Sprint(same) != fmt.Sprint(plain) {
			t.Errorf("%q with the classifier's own share: got %v, %v, want %v", content, same, err, plain)
		}
		for _, share := range []float64{0.0001, 0.02, 0.6, 0.99} {
			request.HarmShare = share
			moved, err := e.Moderate(ctx, request)
			if err != nil {
				t.Fatal(err)
			}
			explained, movedEvidence, err := e.Explain(ctx, request)
			if err != nil || fmt.Sprint(explained) != fmt.Sprint(moved) {
				t.Errorf("%q, share %v: explained %v, %v, want %v", content, share, explained, err, moved)
			}
			want := plain
			shift := engine.NewShift(e.HarmShare(), share)
			for c := range want.Categories {
				want.Categories[c].Probability = shift.Probability(want.Categories[c].Probability)
			}
			for a := range want.Attributes {
				want.Attributes[a] = shift.Probability(want.Attributes[a])
			}
			e.Policy().Decide(&want)
			if fmt.Sprint(moved) != fmt.Sprint(want) {
				t.Errorf("%q, share %v: got %v, want %v", content, share, moved, want)
			}
			for c := range movedEvidence {
				// What is explained follows the probabilities that are answered; its weights are the same.
				switch explained := moved.Categories[c].Flagged || moved.Categories[c].Probability > 0.2; {
				case !explained && fmt.Sprint(movedEvidence[c]) != fmt.Sprint(engine.CategoryExplanation{}):
					t.Errorf("%q, share %v, %s: explained at %v", content, share, engine.Category(c), moved.Categories[c].Probability)
				case explained && evidence[c].Evidence != nil && !reflect.DeepEqual(movedEvidence[c], evidence[c]):
					t.Errorf("%q, share %v, %s: got %v, want %v", content, share, engine.Category(c), movedEvidence[c], evidence[c])
				}
			}
		}
	}
	for _, share := range []float64{-0.1, 0.00001, 0.995, 1, 2, math.NaN(), math.Inf(1)} {
		if _, err := e.Moderate(ctx, engine.Request{Content: "a", HarmShare: share}); !errors.Is(err, engine.ErrHarmShare) {
			t.Errorf("a share of %v: got the error %v, want ErrHarmShare", share, err)
		}
		if _, _, err := e.Explain(ctx, engine.Request{Content: "a", HarmShare: share}); !errors.Is(err, engine.ErrHarmShare) {
			t.Errorf("explaining, a share of %v: got the error %v, want ErrHarmShare", share, err)
		}
	}
}

// remote is a classifier of whose calibration nothing is known.
type remote struct{}

func (remote) Version() string { return "remote" }
func (remote) Classify(context.Context, string) (s engine.Scores, err error) {
	s.Categories[engine.Hate] = 0.9
	return s, nil
}

func TestOtherClassifiersAreNotMoved(t *testing.T) {
	t.Parallel()
	e := newEngine(t, engine.Options{Classifier: remote{}})
	got, err := e.Moderate(context.Background(), engine.Request{Content: "a", HarmShare: 0.001})
	if err != nil || got.Categories[engine.Hate].Probability != 0.9 || e.HarmShare() != 0 {
		t.Errorf("got %v, %v and a share of %v, want a probability of 0.9 and no share", got, err, e.HarmShare())
	}
}

// TestTheTableOfSharesIsDocumented computes the table in docs/evaluate.md.
func TestTheTableOfSharesIsDocumented(t *testing.T) {
	t.Parallel()
	var table strings.Builder
	const calibrated = 0.12
	for _, share := range []float64{0.25, calibrated, 0.05, 0.02, 0.005} {
		shift := engine.NewShift(calibrated, share)
		fmt.Fprintf(&table, "| %s | %.2g |", strings.Replace(engine.FormatHarmShare(share), "%", " %", 1), shift.Factor())
		for _, p := range []float64{0.9, 0.7, 0.5} {
			fmt.Fprintf(&table, " %.3f |", shift.Probability(p))
		}
		// The inverse says which probability reaches a threshold of 0.7.
		fmt.Fprintf(&table, " %.4f |\n", engine.NewShift(share, calibrated).Probability(0.7))
	}
	page, err := os.ReadFile("../docs/evaluate.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), table.String()) {
		t.Errorf("docs/evaluate.md lacks the table:\n%s", table.String())
	}
}
