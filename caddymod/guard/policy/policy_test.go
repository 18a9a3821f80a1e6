// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/content"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/policy"
	"github.com/caddy-moderation/caddy-moderation/caddymod/metrics"
	"github.com/caddy-moderation/caddy-moderation/engine"
)

// Texts that the classifier has no doubt about.
const (
	vile     = "I will find you and kill you, you worthless piece of shit."
	fine     = "The bakery on the corner has wonderful rye bread, go early."
	border   = "Your jokes are stupid and so are you." // to be reviewed
	distress = "I want to kill myself."
	goading  = "You should kill yourself."
)

// provision returns an app with a configuration, and its context.
func provision(t *testing.T, config string) (caddy.Context, *app.App) {
	t.Helper()
	ctx, err := caddy.ProvisionContext(&caddy.Config{AppsRaw: caddy.ModuleMap{"moderation": json.RawMessage(config)}})
	if err != nil {
		t.Fatalf("provisioning: %v", err)
	}
	a, err := app.Load(ctx)
	if err != nil {
		t.Fatalf("getting the app: %v", err)
	}
	return ctx, a
}

// newModerator returns what moderates by a policy.
func newModerator(t *testing.T, p policy.Policy, direction metrics.Direction) *policy.Moderator {
	t.Helper()
	ctx, a := provision(t, "{}")
	m, err := policy.New(ctx, a, &p, direction, false)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return m
}

// moderate returns the verdict on texts, whose names are letters.
func moderate(t *testing.T, m *policy.Moderator, texts ...string) policy.Verdict {
	t.Helper()
	pieces := make([]content.Piece, len(texts))
	for i, text := range texts {
		pieces[i] = content.Piece{Name: string(rune('a' + i)), Text: text}
	}
	v, _, _, err := m.Moderate(t.Context(), new(policy.Charged), pieces, new(policy.Joiner), nil)
	if err != nil {
		t.Fatalf("Moderate(%q): %v", texts, err)
	}
	return v
}

// TestModerate has a case for each option of a policy.
func TestModerate(t *testing.T) {
	file := filepath.Join(t.TempDir(), "words.txt")
	if err := os.WriteFile(file, []byte("# a list\nzorkmid\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("The committee met on Tuesday to talk about the playground. \n", 60)
	for _, test := range []struct {
		name   string
		policy policy.Policy
		texts  []string
		want   engine.Recommendation
		flags  string
		fields string
	}{
		{"nothing", policy.Policy{}, nil, engine.Approve, "", ""},
		{"no letters", policy.Policy{}, []string{"1234 !!"}, engine.Approve, "", ""},
		{"fine", policy.Policy{}, []string{fine}, engine.Approve, "", ""},
		{"vile", policy.Policy{}, []string{fine, vile}, engine.Reject, "harassment,violence", "b"},
		{"to be reviewed", policy.Policy{}, []string{border}, engine.Review, "harassment", "a"},
		{"in pieces", policy.Policy{}, []string{"I", "will", "kill", "you"}, engine.Reject, "harassment,violence", "a+b+c+d"},
		{"in a long text", policy.Policy{}, []string{long + vile + "\n" + long}, engine.Reject, "harassment,violence", "a"},
		{"other categories only", policy.Policy{Categories: []string{"sexual"}}, []string{vile}, engine.Approve, "", ""},
		{"a high reject level", policy.Policy{RejectLevels: map[string]float64{"harassment": 1, "violence": 1, "hate": 1}},
			[]string{vile}, engine.Review, "harassment,violence", "a"},
		{"a high threshold", policy.Policy{Thresholds: map[string]float64{"harassment": 0.99}}, []string{border}, engine.Approve, "", ""},
		{"a theme", policy.Policy{Themes: []string{"bread and baking"}}, []string{fine}, engine.Reject, "", "a"},
		{"a blocked word", policy.Policy{Block: []string{"bakery"}}, []string{fine}, engine.Reject, "", "a"},
		{"a blocked word in a file", policy.Policy{BlockFiles: []string{file}}, []string{"One zorkmid."}, engine.Reject, "", "a"},
		{"an allowed expression", policy.Policy{Allow: []string{"stupid"}}, []string{border}, engine.Approve, "", ""},
		{"an allowed word in a file", policy.Policy{AllowFiles: []string{file}, Block: []string{"zorkmid"}},
			[]string{"One zorkmid."}, engine.Approve, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			v := moderate(t, newModerator(t, test.policy, metrics.Inbound), test.texts...)
			if v.Recommendation != test.want {
				t.Errorf("the recommendation is %q, want %q", v.Recommendation, test.want)
			}
			if flags := strings.Join(v.Flags(), ","); flags != test.flags {
				t.Errorf("flagged are %q, want %q", flags, test.flags)
			}
			if fields := strings.Join(v.Fields(), ","); fields != test.fields {
				t.Errorf("the fields are %q, want %q", fields, test.fields)
			}
		})
	}
}

// Hazard: a guard that another one has classified for cannot say which texts it rejects together, because the first
// one, with another share of harm or other thresholds, approved them.
func TestWhatAnotherGuardClassifiedHasItsNames(t *testing.T) {
	share, tested := 0.0001, 0
	first := newModerator(t, policy.Policy{HarmShare: &share}, metrics.Inbound)
	second := newModerator(t, policy.Policy{}, metrics.Inbound)
	for _, texts := range [][2]string{
		{"you are", "worthless shit"}, {"kill", "all jews"}, {"I will kill", "you tonight"}, {"you fucking", "idiot"},
		{"go kill", "yourself"}, {"all muslims are", "vermin"}, {"I want to", "murder you"}, {"nobody", "likes you, bitch"},
	} {
		pieces := []content.Piece{{Name: "a", Text: texts[0]}, {Name: "b", Text: texts[1]}}
		approved, known, _, err := first.Moderate(t.Context(), new(policy.Charged), pieces, new(policy.Joiner), nil)
		if err != nil {
			t.Fatal(err)
		}
		want := moderate(t, second, texts[0], texts[1])
		if got := second.Decide(known); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: after another guard got %v, want %v as by itself", texts, got, want)
		}
		together := func(f policy.Finding) bool { return f.Name == "a+b" }
		if approved.Recommendation == engine.Approve && slices.ContainsFunc(want.Findings, together) {
			tested++
		}
	}
	if tested == 0 {
		t.Error("no texts are rejected only together, want some")
	}
}

// TestCrisis guards against people who ask for help and are turned away, and against kindness to those who tell others
// to harm themselves.
func TestCrisis(t *testing.T) {
	level := policy.Policy{RejectLevels: map[string]float64{"self-harm": 0.75}}
	for _, test := range []struct {
		name      string
		policy    policy.Policy
		direction metrics.Direction
		texts     []string
		want      engine.Recommendation
		crisis    bool
	}{
		{"clear words", policy.Policy{}, metrics.Inbound, []string{distress}, engine.Review, true},
		{"where a level is given", level, metrics.Inbound, []string{distress}, engine.Reject, true},
		{"in an answer", policy.Policy{}, metrics.Outbound, []string{distress}, engine.Reject, true},
		{"where it is the only category", policy.Policy{Categories: []string{"self-harm"}}, metrics.Inbound,
			[]string{distress}, engine.Review, true},
		{"said to others", policy.Policy{}, metrics.Inbound, []string{goading}, engine.Reject, false},
		{"with a threat in another field", policy.Policy{}, metrics.Inbound, []string{distress, vile}, engine.Reject, false},
		{"with a blocked word", policy.Policy{Block: []string{"zorkmid"}}, metrics.Inbound,
			[]string{distress + " One zorkmid."}, engine.Reject, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			v := moderate(t, newModerator(t, test.policy, test.direction), test.texts...)
			if v.Recommendation != test.want || v.Crisis() != test.crisis {
				t.Errorf("%s, crisis %v, want %s, %v", v.Recommendation, v.Crisis(), test.want, test.crisis)
			}
		})
	}
}

// TestNewRefuses has what JSON may say that a Caddyfile would have refused.
func TestNewRefuses(t *testing.T) {
	ctx, a := provision(t, "{}")
	zero, two := 0.0, 2.0
	for want, p := range map[string]policy.Policy{
		"themes: 11 are given":                    {Themes: strings.Split("a,b,c,d,e,f,g,h,i,j,k", ",")},
		"themes: a theme is blank":                {Themes: []string{" "}},
		"has more than 100 characters":            {Themes: []string{strings.Repeat("x", 101)}},
		"enforce_quota needs an account":          {EnforceQuota: true},
		"account: ":                               {Account: "not an id!"},
		"categories: unknown category \"no\"":     {Categories: []string{"no"}},
		"threshold: unknown category \"no\"":      {Thresholds: map[string]float64{"no": 0.5}},
		"nothing-such: no such file or directory": {BlockFiles: []string{"nothing-such"}},
		"allow: ":                          {Allow: []string{"..."}},
		"harm_share is 0; a share of harm": {HarmShare: &zero},
		"harm_share is 2; a share of harm": {HarmShare: &two},
	} {
		if _, err := policy.New(ctx, a, &p, metrics.Inbound, false); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got the error %v, want one with %q", p, err, want)
		}
	}
}

// TestKey guards against results that are shared by policies which classify differently.
func TestKey(t *testing.T) {
	key := func(p policy.Policy) string { return newModerator(t, p, metrics.Inbound).Key() }
	same := key(policy.Policy{})
	if got := key(policy.Policy{Categories: []string{"hate"}, Thresholds: map[string]float64{"hate": 0.6}}); got != same {
		t.Errorf("policies that only decide differently have the keys %q and %q", same, got)
	}
	share := 0.02
	if got := key(policy.Policy{HarmShare: &share}); got != same {
		t.Errorf("a share of harm, by which the same classifications are decided on, has the keys %q and %q", same, got)
	}
	for _, p := range []policy.Policy{{Themes: []string{"bread"}}, {Allow: []string{"bread"}}, {Block: []string{"bread"}}} {
		if key(p) == same {
			t.Errorf("%+v has the key of a policy that classifies differently: %q", p, same)
		}
	}
}

// TestMessagesAreChargedOnce sees one charge for a message however often it is moderated, and none beyond the limits.
func TestMessagesAreChargedOnce(t *testing.T) {
	dir, err := json.Marshal(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ctx, a := provision(t, `{"storage":{"module":"badger","dir":`+string(dir)+`},
		"tiers":{"free":{},"three":{"requests_per_month":3}},"accounts":[{"id":"acme","tier":"three"}]}`)
	m, err := policy.New(ctx, a, &policy.Policy{Account: "acme", EnforceQuota: true}, metrics.Inbound, false)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	if err := a.Start(); err != nil {
		t.Fatalf("starting the app: %v", err)
	}
	defer a.Cleanup()
	pieces := []content.Piece{{Text: fine}}
	for message := range 4 {
		charged := new(policy.Charged)
		for again := range 2 {
			_, _, charge, err := m.Moderate(t.Context(), charged, pieces, new(policy.Joiner), nil)
			if beyond := message == 3; beyond != (err != nil) || beyond && policy.Reason(err) != policy.ReasonQuota {
				t.Fatalf("message %d, time %d: got the error %v, want one only beyond the limit", message+1, again+1, err)
			}
			if want := message < 3 && again == 0; (charge != nil) != want {
				t.Errorf("message %d, time %d: charged is %v, want %v", message+1, again+1, charge != nil, want)
			}
			if err := charge.Wait(); err != nil {
				t.Errorf("message %d: waiting for the charge: %v", message+1, err)
			}
		}
	}
}

// TestWordListsAreWatched sees a file of words that changes and that goes missing.
func TestWordListsAreWatched(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "blocked.txt")
	write := func(lines string) {
		if err := os.WriteFile(file, []byte(lines), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("# words\nzorkmid\n")
	m := newModerator(t, policy.Policy{BlockFiles: []string{file}}, metrics.Inbound)
	blocks := func(text string) bool {
		v := moderate(t, m, text)
		return v.Blocked
	}
	if !blocks("a Zorkmid for you") || blocks("a florin for you") {
		t.Error("the list is not in force")
	}
	write("florin\n# zorkmid\n\n")
	for end := time.Now().Add(20 * time.Second); !blocks("a florin for you"); {
		if time.Now().After(end) {
			t.Fatal("the file was not read again")
		}
		time.Sleep(50 * time.Millisecond)
	}
	if blocks("a zorkmid for you") {
		t.Error("the old list is still in force")
	}
	// A list that goes missing stays in force.
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2500 * time.Millisecond)
	if !blocks("a florin for you") {
		t.Error("a list that went missing opened the gate")
	}
}

// TestVerdictKeepsMostSevere sees one finding, the most severe.
func TestVerdictKeepsMostSevere(t *testing.T) {
	v := moderate(t, newModerator(t, policy.Policy{}, metrics.Inbound), border, vile)
	if want := []string{"a", "b"}; !slices.Equal(v.Fields(), want) {
		t.Fatalf("the fields are %v, want %v", v.Fields(), want)
	}
	if v.KeepMostSevere(); !slices.Equal(v.Fields(), []string{"b"}) {
		t.Errorf("the most severe finding is in %v, want b", v.Fields())
	}
}
