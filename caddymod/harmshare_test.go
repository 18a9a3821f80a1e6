// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/engine"
	"github.com/caddy-moderation/caddy-moderation/quota"
)

// harassmentOf returns the probability of harassment in borderlineText that the text moderation answers, and its spans.
func harassmentOf(t *testing.T, key string) (float64, string) {
	t.Helper()
	got := moderate(t, key, `{"content":"`+borderlineText+`","explain":true,"themes":["jokes"]}`)
	var answer struct {
		Result struct {
			Categories map[string]struct {
				Probability float64
				Spans       json.RawMessage
			}
			Themes map[string]struct{ Probability float64 }
		}
	}
	got.decodeJSON(t, &answer)
	if answer.Result.Themes["jokes"].Probability == 0 {
		t.Errorf("the theme has no probability: %s", got.body)
	}
	harassment := answer.Result.Categories["harassment"]
	return harassment.Probability, string(harassment.Spans)
}

// openAIScore returns the same probability as OpenAI's endpoint answers it.
func openAIScore(t *testing.T, key string) float64 {
	t.Helper()
	got := call(t, http.MethodPost, base+"/v1/moderations", key, strings.NewReader(`{"input":"`+borderlineText+`"}`), "Content-Type", "application/json")
	var answer struct {
		Results []struct {
			Scores map[string]float64 `json:"category_scores"`
		}
	}
	got.decodeJSON(t, &answer)
	if len(answer.Results) != 1 {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	return answer.Results[0].Scores["harassment"]
}

// insultScore returns the score that the Perspective API's operation answers.
func insultScore(t *testing.T, key string) float64 {
	t.Helper()
	got := call(t, http.MethodPost, base+"/v1alpha1/comments:analyze", key,
		strings.NewReader(`{"comment":{"text":"`+borderlineText+`"},"requestedAttributes":{"INSULT":{}}}`), "Content-Type", "application/json")
	var answer struct {
		AttributeScores map[string]struct{ SummaryScore struct{ Value float64 } }
	}
	got.decodeJSON(t, &answer)
	return answer.AttributeScores["INSULT"].SummaryScore.Value
}

// movedTo returns where the embedded classifier's probability moves for a share of harm.
func movedTo(t *testing.T, p, share float64) float64 {
	t.Helper()
	return services(t).Engine.Shift(share).Probability(p)
}

// near reports whether two probabilities are the same but for the digits that are answered.
func near(a, b float64) bool { return math.Abs(a-b) < 3e-6 }

// TestShareOfHarmOfCalls moderates one text for accounts with and without a share of their own, with and without one
// for all, and changes both while the server runs.
func TestShareOfHarmOfCalls(t *testing.T) {
	dir := t.TempDir()
	declared := "account declared {\ntier unlimited\nharm_share 60%\nkey " + hashOf("mod_sk_declared89abcdefghijklmnopqrstuv") + "\n}\n"
	const declaredKey = "mod_sk_declared89abcdefghijklmnopqrstuv"
	load(t, siteConfig(dir, declared, "moderation_api"))
	share := 0.005
	own := newKey(t, quota.Account{ID: "own", Tier: "unlimited", Overrides: quota.Overrides{HarmShare: &share}})
	tiny := 1e-9 // no operator can set it, but a store may hold it
	odd := newKey(t, quota.Account{ID: "odd", Tier: "unlimited", Overrides: quota.Overrides{HarmShare: &tiny}})
	plain, spans := harassmentOf(t, acmeKey)
	if !(plain > 0.7) || spans == "" || spans == "[]" {
		t.Fatalf("without a share: got %v and the spans %s, want a flagged text with spans", plain, spans)
	}
	insult := insultScore(t, acmeKey)
	check := func(what, key string, share float64) {
		t.Helper()
		want := plain
		if share != 0 {
			want = movedTo(t, plain, share)
		}
		got, movedSpans := harassmentOf(t, key)
		if !near(got, want) {
			t.Errorf("%s: got %v, want %v", what, got, want)
		}
		if want > 0.2 && movedSpans != spans {
			t.Errorf("%s: got the spans %s, want %s", what, movedSpans, spans)
		}
		if got := openAIScore(t, key); !near(got, want) {
			t.Errorf("%s, OpenAI's endpoint: got %v, want %v", what, got, want)
		}
		if got := insultScore(t, key); got != insult {
			t.Errorf("%s, the Perspective API's operation: got %v, want %v", what, got, insult)
		}
	}
	check("no share", acmeKey, 0)
	check("a share of the account's own", own, 0.005)
	check("a share of a declared account", declaredKey, 0.6)
	check("a share out of range", odd, engine.MinHarmShare)

	reload(t, siteConfig(dir, declared+"harm_share 2%", "moderation_api"))
	check("a share for all", acmeKey, 0.02)
	check("the account's share over the one for all", own, 0.005)
	check("a declared account's share over the one for all", declaredKey, 0.6)
	account := "http://" + adminAddr + "/moderation/accounts/own"
	patch := func(body string, status int) reply {
		t.Helper()
		got := call(t, http.MethodPatch, account, "", strings.NewReader(body), "Content-Type", "application/json")
		if got.status != status {
			t.Fatalf("%s: got %d %s, want %d", body, got.status, got.body, status)
		}
		return got
	}
	patch(`{"overrides":{"harm_share":0.9}}`, 200)
	check("a changed share of the account", own, 0.9)
	if got := patch(`{"overrides":{"harm_share":1}}`, 400); !strings.Contains(string(got.body), "overrides.harm_share is 1") {
		t.Errorf("a share of 1: got %s", got.body)
	}
	check("after a refused change", own, 0.9)
	patch(`{"overrides":{}}`, 200)
	check("no share of the account's own any more", own, 0.02)

	reload(t, siteConfig(dir, declared, "moderation_api"))
	check("no share any more", acmeKey, 0)
}

// TestShareOfHarmCountsInStatistics sees that the statistics of the Perspective API's operation follow the share,
// though its scores do not.
func TestShareOfHarmCountsInStatistics(t *testing.T) {
	load(t, siteConfig(t.TempDir(), "", "moderation_api"))
	share := 0.0001
	rare := newKey(t, quota.Account{ID: "rare", Tier: "unlimited", Overrides: quota.Overrides{HarmShare: &share}})
	plain := newKey(t, quota.Account{ID: "plain", Tier: "unlimited"})
	insultScore(t, rare)
	insultScore(t, plain)
	for id, want := range map[string]int64{"rare": 0, "plain": 1} {
		usage, err := services(t).Gate.Usage(t.Context(), id)
		if err != nil || usage.Flagged["harassment"] != want {
			t.Errorf("%s: got %v flagged and the error %v, want %d for harassment", id, usage.Flagged, err, want)
		}
	}
}

// guarded posts borderlineText to a path, whose answer is the probability of harassment and the recommendation.
func guarded(t *testing.T, path string) (float64, string) {
	t.Helper()
	got := call(t, http.MethodPost, base+path, "", strings.NewReader(`{"comment":"`+borderlineText+`"}`), "Content-Type", "application/json")
	probability, recommendation, _ := strings.Cut(string(got.body), " ")
	p, err := strconv.ParseFloat(probability, 64)
	if err != nil {
		t.Fatalf("%s: got %d %s", path, got.status, got.body)
	}
	return p, recommendation
}

// TestShareOfHarmOfGuards posts one text to guards with shares of their own, of their accounts and of all. It is posted
// several times, because guards remember results, and goes through several guards in a row, which share
// them. The guards do not act, so that each answer has the verdict.
func TestShareOfHarmOfGuards(t *testing.T) {
	const answer = `respond "{http.moderation.harassment} {http.moderation.recommendation}"`
	guard := func(path, block string) string {
		return "handle " + path + " {\nroute {\nmoderate {\nshadow\n" + block + "\n}\n" + answer + "\n}\n}\n"
	}
	site := guard("/none", "") + guard("/own", "harm_share 2%") + guard("/account", "account stored") +
		guard("/both", "account stored\nharm_share 0.1") + guard("/declared", "account declared") +
		guard("/plain", "account small") + guard("/limited", "account stored\nenforce_quota") + `
	handle /row {
		route {
			moderate {
				shadow
			}
			moderate {
				shadow
				account stored
				threshold harassment 0.69
			}
			moderate {
				shadow
				account stored
				threshold harassment 0.68
			}
			` + answer + `
		}
	}
	handle /changing {
		route {
			moderate {
				shadow
				harm_share 0.01%
			}
			moderate {
				shadow
				harm_share 40%
			}
			` + answer + `
		}
	}
	handle /matched {
		@high moderation {
			category harassment 0.6
		}
		respond @high "high"
		respond "low"
	}
	handle /answer {
		moderate_response {
			harm_share 0.1%
		}
		respond "` + borderlineText + `"
	}
	moderation_api`
	dir := t.TempDir()
	config := func(moderation string) string {
		return siteConfig(dir, "demo off\naccount declared {\ntier unlimited\nharm_share 0.5\n}\n"+moderation, site)
	}
	load(t, config(""))
	share := 0.005
	newKey(t, quota.Account{ID: "stored", Tier: "unlimited", Overrides: quota.Overrides{HarmShare: &share}})
	plain, recommendation := guarded(t, "/none")
	if recommendation != "review" {
		t.Fatalf("without a share: got %v %s, want review", plain, recommendation)
	}
	levels := services(t).Engine.Policy()
	check := func(path string, share float64) {
		t.Helper()
		want := plain
		if share != 0 {
			want = movedTo(t, plain, share)
		}
		recommended := engine.Result{}
		recommended.Categories[engine.Harassment].Probability = want
		levels.Decide(&recommended)
		for range 2 {
			got, recommendation := guarded(t, path)
			if math.Abs(got-want) > 1e-5 || want > 0 && recommendation != string(recommended.Recommendation) {
				t.Errorf("%s: got %v %s, want %v %s", path, got, recommendation, want, recommended.Recommendation)
			}
		}
	}
	matched := func(want string) {
		t.Helper()
		got := call(t, http.MethodPost, base+"/matched", "", strings.NewReader(`{"comment":"`+borderlineText+`"}`), "Content-Type", "application/json")
		if string(got.body) != want {
			t.Errorf("the matcher: got %s, want %s", got.body, want)
		}
	}
	check("/none", 0)
	check("/own", 0.02)
	check("/account", 0.005)
	check("/both", 0.1)
	check("/declared", 0.5)
	check("/plain", 0)
	check("/limited", 0.005)
	check("/row", 0.005)
	check("/changing", 0.4)
	matched("high")

	account := "http://" + adminAddr + "/moderation/accounts/stored"
	for _, share := range []float64{0.3, 0.02} {
		body := fmt.Sprintf(`{"overrides":{"harm_share":%v}}`, share)
		if got := call(t, http.MethodPatch, account, "", strings.NewReader(body), "Content-Type", "application/json"); got.status != 200 {
			t.Fatalf("got %d %s", got.status, got.body)
		}
		check("/account", share)
		check("/row", share)
		check("/both", 0.1)
	}
	reload(t, config("harm_share 3%"))
	check("/none", 0.03)
	check("/own", 0.02)
	check("/account", 0.02)
	check("/declared", 0.5)
	check("/plain", 0.03)
	check("/row", 0.02)
	matched("low")

	got := call(t, http.MethodGet, base+"/answer", "", nil)
	if got.header.Get("X-Moderation-Recommendation") != "" || got.status != http.StatusOK {
		t.Errorf("an answer with a share of 0.1 %%: got %d %v, want it approved", got.status, got.header)
	}
}

// TestShareOfHarmWithoutTheStore guards against verdicts that change because the store fails: the guard goes on with
// the share of the account that it saw last.
func TestShareOfHarmWithoutTheStore(t *testing.T) {
	load(t, onWaiting(t, "route {\nmoderate {\nshadow\naccount stored\n}\n"+`respond "{http.moderation.harassment} {http.moderation.recommendation}"`+"\n}"))
	share := 0.005
	newKey(t, quota.Account{ID: "stored", Tier: "unlimited", Overrides: quota.Overrides{HarmShare: &share}})
	want, _ := guarded(t, "/")
	if want > 0.2 {
		t.Fatalf("with a share of 0.5 %%: got %v", want)
	}
	disk.unread.Store(true)
	if got, _ := guarded(t, "/"); got != want {
		t.Errorf("while the account cannot be read: got %v, want %v", got, want)
	}
}

// TestShareOfHarmOfOtherClassifiers: of a classifier that is not the embedded one nothing is known, and nothing moves.
func TestShareOfHarmOfOtherClassifiers(t *testing.T) {
	load(t, siteConfig(t.TempDir(), "classifier foreign\nharm_share 0.01%", "moderation_api"))
	got := moderate(t, acmeKey, `{"content":"text"}`)
	if !strings.Contains(string(got.body), `"probability":0.9`) {
		t.Errorf("got %s, want the classifier's own probability", got.body)
	}
	ready := call(t, http.MethodGet, "http://"+adminAddr+"/moderation/health/ready", "", nil)
	if strings.Contains(string(ready.body), "calibrated") || strings.Contains(string(ready.body), "harm_share") {
		t.Errorf("ready: got %s, want no share", ready.body)
	}
}

// TestShareOfHarmWhileComparing compares what this server would answer: OpenAI's scores are moved, Perspective's not.
func TestShareOfHarmWhileComparing(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := `{"attributeScores":{"TOXICITY":{"summaryScore":{"value":0.93,"type":"PROBABILITY"}}},"languages":["en"]}`
		if strings.HasSuffix(r.URL.Path, "/moderations") {
			answer = `{"id":"modr-1","results":[{"flagged":true,"category_scores":{"harassment":0.9}}]}`
		}
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(other.Close)
	load(t, siteConfig(t.TempDir(), "demo off\nharm_share 0.01%", "moderation_compare "+other.URL))
	ask(t, base+"/v1alpha1/comments:analyze?key=other", `{"comment":{"text":"`+vile+`"},"requestedAttributes":{"TOXICITY":{}}}`)
	ask(t, base+"/v1/moderations", `{"input":"`+borderlineText+`"}`)
	awaitComparison(t)
	metrics := string(call(t, http.MethodGet, "http://"+adminAddr+"/metrics", "", nil).body)
	for _, line := range []string{
		`caddy_moderation_compare_total{above="both",attribute="TOXICITY",threshold="0.7"} 1`,
		`caddy_moderation_compare_total{above="theirs",attribute="harassment",threshold="0.5"} 1`,
		`caddy_moderation_compare_total{above="theirs",attribute="flagged",threshold="0.5"} 1`,
	} {
		if !strings.Contains(metrics, line) {
			t.Errorf("the metrics have no %s", line)
		}
	}
}
