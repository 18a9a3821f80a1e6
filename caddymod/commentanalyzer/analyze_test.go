// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package commentanalyzer

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/caddy-moderation/caddy-moderation/engine"
)

var analyzeTarget = site + AnalyzePath

// asked is a request as people write it.
const asked = `{"comment":{"text":"You are a stupid walnut."},"requestedAttributes":{"TOXICITY":{}}}`

// scored is what clients read of an answer.
type scored struct {
	AttributeScores map[string]struct {
		SummaryScore *struct {
			Value *float64
			Type  string
		}
		SpanScores []struct {
			Begin, End int
			Score      struct {
				Value float64
				Type  string
			}
		}
	}
	Languages, DetectedLanguages []string
	ClientToken                  string
	LanguageSupported            bool
	UnscoredAttributes           []string
	ModelVersion                 string
}

// analyzed asks for scores with an account without limits.
func analyzed(t *testing.T, body string) scored {
	t.Helper()
	got := send(t, http.MethodPost, analyzeTarget+"?key="+largeKey, body)
	if got.status != http.StatusOK {
		t.Fatalf("answered %d %s", got.status, got.body)
	}
	var answer scored
	if err := json.Unmarshal([]byte(got.body), &answer); err != nil {
		t.Fatal(err)
	}
	return answer
}

// TestAnalyze sends what real clients send.
func TestAnalyze(t *testing.T) {
	services := load(t, "storage badger DIR")
	want, err := services.Engine.Classify(t.Context(), "You are a stupid walnut.")
	if err != nil {
		t.Fatal(err)
	}
	toxicity := math.Round(perspectiveScale.score(int(engine.Toxicity), want.Attributes[engine.Toxicity])*1e6) / 1e6
	rows := []struct{ name, body string }{
		{"a person", asked},
		{"the generated Go client", `{"comment":{"text":"You are a stupid walnut."},"requestedAttributes":{"TOXICITY":{}},"languages":["en"]}`},
		{"perspective-api-client", `{"comment":{"text":"You are a stupid walnut."},"requestedAttributes":{"TOXICITY":{}},"doNotStore":true}`},
		{"Coral", `{"comment":{"text":"You are a stupid walnut."},"context":{"entries":[{"text":"{\"a\":1}"}]},"languages":["en"],"requestedAttributes":{"TOXICITY":{}},
			"communityId":"Coral:https://example.com","clientToken":"comment:1","doNotStore":true}`},
		{"Discourse", `{"comment":{"text":"You are a stupid walnut."},"doNotStore":true,"sessionId":"site_1","requestedAttributes":{"TOXICITY":{"scoreType":"PROBABILITY","scoreThreshold":0}}}`},
		{"defaults written out", `{"comment":{"text":"You are a stupid walnut.","type":"PLAIN_TEXT"},"requestedAttributes":{"TOXICITY":{"scoreType":"PROBABILITY","scoreThreshold":0.0}},
			"context":{"entries":[]},"languages":[],"doNotStore":false,"clientToken":"","sessionId":"","communityId":"","spanAnnotations":false}`},
		{"nulls", `{"comment":{"text":"You are a stupid walnut.","type":null},"requestedAttributes":{"TOXICITY":null},"context":null,"languages":null,"clientToken":null,"spanAnnotations":null}`},
		{"names in snake_case", `{"comment":{"text":"You are a stupid walnut."},"requested_attributes":{"TOXICITY":{"score_type":"PROBABILITY"}},"do_not_store":true,"span_annotations":false}`},
		{"members that nobody knows", `{"comment":{"text":"You are a stupid walnut.","lang":{}},"requestedAttributes":{"TOXICITY":{"weight":1}},"x":[1]}`},
		{"an article", `{"comment":{"text":"You are a stupid walnut."},"requestedAttributes":{"TOXICITY":{}},"context":{"entries":[],"articleAndParentComment":{"article":{"text":"a"}}}}`},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			got := analyzed(t, row.body)
			score := got.AttributeScores["TOXICITY"]
			if score.SummaryScore == nil || score.SummaryScore.Value == nil || *score.SummaryScore.Value != toxicity || score.SummaryScore.Type != "PROBABILITY" {
				t.Errorf("the summary is %+v, want %v", score.SummaryScore, toxicity)
			}
			if len(score.SpanScores) != 1 || score.SpanScores[0].Begin != 0 || score.SpanScores[0].End != 24 ||
				score.SpanScores[0].Score.Value != toxicity || score.SpanScores[0].Score.Type != "PROBABILITY" {
				t.Errorf("the spans are %+v", score.SpanScores)
			}
			if len(got.AttributeScores) != 1 || !slices.Equal(got.Languages, []string{"en"}) || !slices.Equal(got.DetectedLanguages, []string{"en"}) ||
				!got.LanguageSupported || got.UnscoredAttributes != nil ||
				got.ModelVersion != services.Engine.Version() {
				t.Errorf("answered %+v", got)
			}
		})
	}
}

func TestAnalyzeAttributes(t *testing.T) {
	services := load(t, "storage badger DIR")
	var names []string
	as := map[string]engine.Attribute{
		"TOXICITY_FAST": engine.Toxicity, "OBSCENE": engine.Profanity, "INFLAMMATORY": engine.Toxicity, "LIKELY_TO_REJECT": engine.Toxicity,
		"ATTACK_ON_AUTHOR": engine.Insult, "ATTACK_ON_COMMENTER": engine.Insult,
	}
	for i := range engine.NumAttributes {
		as[engine.Attribute(i).String()] = engine.Attribute(i)
		as[engine.Attribute(i).String()+"_EXPERIMENTAL"] = engine.Attribute(i)
	}
	for name := range as {
		names = append(names, `"`+name+`":{}`)
	}
	without := []string{
		"AFFINITY_EXPERIMENTAL", "ALIENATION_EXPERIMENTAL", "ATTACK_ON_PUBLISHER", "COMPASSION_EXPERIMENTAL", "CONSTRUCTIVE_EXPERIMENTAL",
		"CURIOSITY_EXPERIMENTAL", "FEARMONGERING_EXPERIMENTAL", "FLIRTATION", "GENERALIZATION_EXPERIMENTAL", "INCOHERENT", "MORAL_OUTRAGE_EXPERIMENTAL",
		"NUANCE_EXPERIMENTAL", "OFF_TOPIC", "PERSONAL_STORY_EXPERIMENTAL", "POWER_APPEAL_EXPERIMENTAL", "REASONING_EXPERIMENTAL", "RESPECT_EXPERIMENTAL",
		"SCAPEGOATING_EXPERIMENTAL", "UNSUBSTANTIAL",
	}
	for _, name := range without {
		names = append(names, `"`+name+`":{}`)
	}
	text := "You are a fucking idiot."
	scores, err := services.Engine.Classify(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	got := analyzed(t, `{"comment":{"text":"`+text+`"},"requestedAttributes":{`+strings.Join(names, ",")+`}}`)
	if !slices.Equal(got.UnscoredAttributes, without) {
		t.Errorf("without a score: %v", got.UnscoredAttributes)
	}
	if len(got.AttributeScores) != len(as) {
		t.Errorf("%d attributes are answered, want %d", len(got.AttributeScores), len(as))
	}
	for name, attribute := range as {
		want := math.Round(perspectiveScale.score(int(attribute), scores.Attributes[attribute])*1e6) / 1e6
		if summary := got.AttributeScores[name].SummaryScore; summary == nil || *summary.Value != want {
			t.Errorf("%s is %+v, want %v", name, summary, want)
		}
	}
}

func TestAnalyzeSpans(t *testing.T) {
	services := load(t, "storage badger DIR")
	text := "Hi 🙂 there. You are a stupid idiot! Bye."
	got := analyzed(t, `{"comment":{"text":"`+text+`"},"requestedAttributes":{"TOXICITY":{},"INSULT":{"scoreThreshold":0.5}},"spanAnnotations":true}`)
	type place struct{ begin, end int }
	var places []place
	for i, span := range got.AttributeScores["TOXICITY"].SpanScores {
		places = append(places, place{span.Begin, span.End})
		if part := []string{text, "Hi 🙂 there.", "You are a stupid idiot!", "Bye."}; i < len(part) {
			scores, err := services.Engine.Classify(t.Context(), part[i])
			if err != nil {
				t.Fatal(err)
			}
			if want := math.Round(perspectiveScale.score(0, scores.Attributes[0])*1e6) / 1e6; span.Score.Value != want {
				t.Errorf("%q is scored %v, want %v", part[i], span.Score.Value, want)
			}
		}
	}
	if want := []place{{0, 41}, {0, 12}, {13, 36}, {37, 41}}; !slices.Equal(places, want) {
		t.Errorf("the spans are %v, want %v", places, want)
	}
	for _, span := range got.AttributeScores["INSULT"].SpanScores {
		if span.Score.Value < 0.5 {
			t.Errorf("a score below the threshold is answered: %+v", span)
		}
	}
	// One sentence has the scores of the whole.
	if got := analyzed(t, asked[:len(asked)-1]+`,"spanAnnotations":true}`); len(got.AttributeScores["TOXICITY"].SpanScores) != 1 {
		t.Errorf("one sentence has the spans %+v", got.AttributeScores["TOXICITY"].SpanScores)
	}
}

func TestAnalyzeThreshold(t *testing.T) {
	load(t, "storage badger DIR")
	for _, row := range []struct {
		threshold string
		kept      bool
	}{
		{"0", true}, {"0.000001", true}, {"1.1", false}, {`"0"`, true}, {`"1.1"`, false}, {"null", true}, {"-1", true}, {"1e300", false},
	} {
		got := analyzed(t, strings.Replace(asked, "{}", `{"scoreThreshold":`+row.threshold+`}`, 1))
		score, answered := got.AttributeScores["TOXICITY"]
		if !answered || (score.SummaryScore != nil) != row.kept || (len(score.SpanScores) == 1) != row.kept {
			t.Errorf("threshold %s: answered %+v", row.threshold, got.AttributeScores)
		}
	}
}

func TestAnalyzeLanguages(t *testing.T) {
	load(t, "storage badger DIR")
	const spanish = "No sé qué decir, eres muy tonto"
	rows := []struct {
		name, text, languages string
		answered, detected    string
		supported             bool
	}{
		{"misspelt English", "ur dum lol u no that right", ``, "en", "en", true},
		{"too little to know", "ur dum lol", ``, "und", "und", true},
		{"nothing to detect", "?! 🙂", ``, "und", "und", true},
		{"English as asked", "hello you", `"en"`, "en", "en", true},
		{"a region", "hello you", `"en-US"`, "en-US", "en", true},
		{"detected", spanish, ``, "es", "es", true},
		{"asked for as it is", spanish, `"es"`, "es", "es", true},
		{"asked for another one", spanish, `"en"`, "en", "es", true},
		{"not known", "Hyvää päivää, mitä kuuluu tänään?", ``, "fi", "fi", false},
		{"Latin letters", "hello you", `"hi-Latn"`, "hi-Latn", "en", true},
		{"a language of the original", "hello you", `"cs"`, "cs", "en", false},
		{"one of several", "hello you", `"tlh","pt-BR"`, "tlh", "en", true},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			got := analyzed(t, `{"comment":{"text":"`+row.text+`"},"requestedAttributes":{"TOXICITY":{}},"languages":[`+row.languages+`]}`)
			if got.Languages[0] != row.answered || got.DetectedLanguages[0] != row.detected ||
				got.LanguageSupported != row.supported {
				t.Errorf("languages %v, detected %v, supported %v", got.Languages, got.DetectedLanguages, got.LanguageSupported)
			}
		})
	}
}

// TestAnalyzeCuts: programs cut comments, also in the middle of a surrogate pair, and count in UTF-16.
func TestAnalyzeCuts(t *testing.T) {
	load(t, "storage badger DIR")
	got := analyzed(t, `{"comment":{"text":"hello \ud83d\ude42 you \ud83d"},"requestedAttributes":{"TOXICITY":{}}}`)
	if span := got.AttributeScores["TOXICITY"].SpanScores[0]; span.End != 14 {
		t.Errorf("the span ends at %d, want 14", span.End)
	}
	longest := strings.Repeat("a bad day ", MaxTextBytes/10)
	analyzed(t, `{"comment":{"text":"`+longest+`"},"requestedAttributes":{"TOXICITY":{}},"spanAnnotations":true}`)
	analyzed(t, `{"comment":{"text":"x"},"requestedAttributes":{"TOXICITY":{}},"context":{"entries":[{"text":"`+strings.Repeat("x", 1<<20)+`"},{"text":"`+strings.Repeat("x", 1<<20)+`"}]}}`)
}

func TestAnalyzeCounts(t *testing.T) {
	services := load(t, "storage badger DIR")
	usage := func(account string) (minute, period int64, flagged map[string]int64) {
		got, err := services.Gate.Usage(t.Context(), account)
		if err != nil {
			t.Fatal(err)
		}
		return got.Counts.Minute, got.Counts.Period, got.Flagged
	}
	insult := `{"comment":{"text":"You are a fucking idiot and everyone hates you, kill yourself."},"requestedAttributes":{"SPAM":{}},"spanAnnotations":true}`
	analyzed(t, insult)
	if _, period, flagged := usage("large"); period != 1 || flagged["harassment"] != 1 {
		t.Errorf("counted %d and flagged %v", period, flagged)
	}
	// A refused request keeps its minute and gives its month back.
	if got := send(t, http.MethodPost, analyzeTarget+"?key="+largeKey, `{}`); got.status != http.StatusBadRequest {
		t.Errorf("answered %d", got.status)
	}
	if _, period, _ := usage("large"); period != 1 {
		t.Errorf("counted %d, want 1", period)
	}
	// What needs no key counts nowhere.
	send(t, http.MethodGet, site+DiscoveryPath, "")
	if _, period, _ := usage("large"); period != 1 {
		t.Errorf("counted %d, want 1", period)
	}
}

// TestAnalyzeLimits: the account may make 1 request a minute and 2 a month.
func TestAnalyzeLimits(t *testing.T) {
	load(t, "storage badger DIR")
	inOneMinute()
	got := send(t, http.MethodPost, analyzeTarget, asked, "X-Goog-Api-Key", acmeKey)
	if got.status != http.StatusOK || got.header.Get("X-Ratelimit-Limit") != "1" {
		t.Fatalf("answered %d %v", got.status, got.header)
	}
	got = send(t, http.MethodPost, analyzeTarget, asked, "X-Goog-Api-Key", acmeKey)
	checkGolden(t, "analyze_minute", got)
	if got.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
}

// inOneMinute waits until the next seconds are in the same clock minute.
func inOneMinute() {
	if second := time.Now().Second(); second >= 55 {
		time.Sleep(time.Duration(60-second)*time.Second + 10*time.Millisecond)
	}
}

func TestAnalyzeMonth(t *testing.T) {
	load(t, "tier month 1 0\nstorage badger DIR\naccount monthly {\ntier month\nkey "+hashOf("mod_sk_month56789abcdefghijklmnopqrstuv")+"\n}")
	const key = "?key=mod_sk_month56789abcdefghijklmnopqrstuv"
	if got := send(t, http.MethodPost, analyzeTarget+key, asked); got.status != http.StatusOK {
		t.Fatalf("answered %d %s", got.status, got.body)
	}
	got := send(t, http.MethodPost, analyzeTarget+key, asked)
	checkGolden(t, "analyze_month", reply{got.status, got.header, periodEnd.ReplaceAllString(got.body, "TIME")})
	if got.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
}

func TestAnalyzeGolden(t *testing.T) {
	load(t, "storage badger DIR\nclassifier fixed")
	with := func(members string) string {
		return `{"comment":{"text":"You are a walnut."},"requestedAttributes":{"TOXICITY":{}},` + members + `}`
	}
	instead := func(attributes string) string {
		return `{"comment":{"text":"You are a walnut."},"requestedAttributes":` + attributes + `}`
	}
	rows := []struct {
		name, method, query, body string
		headers                   []string
	}{
		{name: "ok", body: asked},
		{name: "ok_pretty", query: "&prettyPrint=true&alt=json&fields=attributeScores&$.xgafv=1&quotaUser=7", body: with(`"clientToken":"<t>","spanAnnotations":true`)},
		{name: "ok_threshold", body: instead(`{"TOXICITY":{"scoreThreshold":0.99},"INSULT":{"scoreThreshold":0.2}}`)},
		{name: "ok_unscored", body: instead(`{"FLIRTATION":{},"TOXICITY":{},"INCOHERENT":{}}`)},
		{name: "ok_spanish", body: `{"comment":{"text":"No sé qué decir, eres muy tonto."},"requestedAttributes":{"TOXICITY":{}}}`},
		{name: "ok_spans", body: `{"comment":{"text":"Hi 🙂 there. You fool!\nBye."},"requestedAttributes":{"TOXICITY":{},"SPAM":{}},"spanAnnotations":true}`},
		{name: "empty", body: `{"comment":{"text":""},"requestedAttributes":{"TOXICITY":{}}}`},
		{name: "no_comment", body: `{"requestedAttributes":{"TOXICITY":{}}}`},
		{name: "too_long", body: `{"comment":{"text":"` + strings.Repeat("x", MaxTextBytes+1) + `"},"requestedAttributes":{"TOXICITY":{}}}`},
		{name: "no_attributes", body: `{"comment":{"text":"You are a walnut."}}`},
		{name: "empty_attributes", body: instead(`{}`)},
		{name: "unknown_attribute", body: instead(`{"TOXICITY":{},"TOXIC":{}}`)},
		{name: "odd_attribute", body: instead(`{"a walnut":{}}`)},
		{name: "only_unscored", body: instead(`{"FLIRTATION":{},"AFFINITY_EXPERIMENTAL":{}}`)},
		{name: "score_type", body: instead(`{"TOXICITY":{"scoreType":"PERCENTILE"}}`)},
		{name: "unknown_score_type", body: instead(`{"TOXICITY":{"scoreType":"walnut"}}`)},
		{name: "bad_threshold", body: instead(`{"TOXICITY":{"scoreThreshold":"walnut"}}`)},
		{name: "html", body: `{"comment":{"text":"You are a walnut.","type":"HTML"},"requestedAttributes":{"TOXICITY":{}}}`},
		{name: "unknown_type", body: `{"comment":{"text":"You are a walnut.","type":"X"},"requestedAttributes":{"TOXICITY":{}}}`},
		{name: "two_contexts", body: with(`"context":{"entries":[{"text":"a"}],"articleAndParentComment":{"article":{"text":"a"}}}`)},
		{name: "language_not_supported", body: with(`"languages":["tlh","fi"]`)},
		{name: "odd_language", body: with(`"languages":["a walnut"]`)},
		{name: "wrong_type", body: instead(`["TOXICITY"]`)},
		{name: "long_token", body: with(`"clientToken":"` + strings.Repeat("x", maxText+1) + `"`)},
		{name: "not_json", body: `comment=walnut`},
		{name: "cut", body: asked[:20]},
		{name: "body_too_large", body: strings.Repeat(" ", maxAnalyzeBody+1)},
		{name: "method", method: http.MethodGet},
		{name: "media_type", body: asked, headers: []string{"Content-Type", "text/html"}},
		{name: "two_keys", body: asked, headers: []string{"Authorization", "Bearer " + otherKey}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			method := row.method
			if method == "" {
				method = http.MethodPost
			}
			checkGolden(t, "analyze_"+row.name, send(t, method, analyzeTarget+"?key="+largeKey+row.query, row.body, row.headers...))
		})
	}
	checkGolden(t, "analyze_no_key", send(t, http.MethodPost, analyzeTarget, asked))
	checkGolden(t, "analyze_unknown_key", send(t, http.MethodPost, analyzeTarget+"?key="+acmeKey+"x", asked))
	checkGolden(t, "analyze_paused_account", send(t, http.MethodPost, analyzeTarget+"?key="+pausedKey, asked))
}

// TestAnalyzeClassifierDown: no score is made up, and nothing is charged to the month.
func TestAnalyzeClassifierDown(t *testing.T) {
	services := load(t, "storage badger DIR\nclassifier down")
	checkGolden(t, "analyze_classifier_down", send(t, http.MethodPost, analyzeTarget+"?key="+largeKey, asked))
	usage, err := services.Gate.Usage(t.Context(), "large")
	if err != nil || usage.Counts.Period != 0 {
		t.Errorf("counted %+v, %v", usage.Counts, err)
	}
}

func TestAnalyzeBodies(t *testing.T) {
	load(t, "storage badger DIR")
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	if _, err := io.WriteString(w, asked); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	rows := []struct {
		name, path, body string
		headers          []string
	}{
		{"gzip", AnalyzePath, zipped.String(), []string{"Content-Encoding", "gzip"}},
		{"no type", AnalyzePath, asked, []string{"Content-Type", ""}},
		{"a charset", AnalyzePath, asked, []string{"Content-Type", "application/json; charset=UTF-8"}},
		{"an escaped colon", "/v1alpha1/comments%3Aanalyze", asked, nil},
		{"a scoring path", "/api/perspective/v1alpha1/comments:analyze", asked, nil},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			got := send(t, http.MethodPost, site+row.path+"?alt=json&key="+largeKey, row.body, row.headers...)
			if got.status != http.StatusOK || !strings.Contains(got.body, `"summaryScore"`) {
				t.Errorf("answered %d %s", got.status, got.body)
			}
		})
	}
}

func TestCORS(t *testing.T) {
	load(t, "storage badger DIR")
	for _, path := range []string{AnalyzePath, SuggestScorePath, DiscoveryPath} {
		got := send(t, http.MethodOptions, site+path, "", "Origin", "https://www.example.com", "Access-Control-Request-Method", "POST",
			"Access-Control-Request-Headers", "content-type")
		if got.status != http.StatusNoContent || got.header.Get("Access-Control-Allow-Origin") != "https://www.example.com" {
			t.Errorf("%s: preflight is answered %d %v", path, got.status, got.header)
		}
	}
	got := send(t, http.MethodPost, analyzeTarget, asked, "Origin", "https://www.example.com")
	if got.status != http.StatusUnauthorized || got.header.Get("Access-Control-Allow-Origin") == "" || got.header.Get("Vary") != "Origin" {
		t.Errorf("a page cannot read why it is refused: %d %v", got.status, got.header)
	}
}

func TestAttributeTable(t *testing.T) {
	t.Parallel()
	table, err := newAttributeTable(map[string]string{"FLIRTATION": "SEXUALLY_EXPLICIT", "OBSCENE": "off", "my/own.name-1": "SPAM"})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{
		"FLIRTATION": int(engine.SexuallyExplicit), "OBSCENE": unscored, "my/own.name-1": int(engine.Spam), "TOXICITY": int(engine.Toxicity), "INCOHERENT": unscored,
	} {
		if got, ok := table[name]; !ok || got != want {
			t.Errorf("%s is %d, want %d", name, got, want)
		}
	}
	for name, score := range map[string]string{"X": "TOXIC", "a b": "SPAM", "": "SPAM", "Y": ""} {
		if _, err := newAttributeTable(map[string]string{name: score}); err == nil {
			t.Errorf("%q as %q is taken", name, score)
		}
	}
}

func TestSentences(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name, text string
		want       []sentence
	}{
		{"nothing", "", nil},
		{"white space", " \n\t", nil},
		{"no words", "?!", []sentence{{"?!", 0, 2}}},
		{"one", "Hi there", []sentence{{"Hi there", 0, 8}}},
		{"two", "Hi there. You!", []sentence{{"Hi there.", 0, 9}, {"You!", 10, 14}}},
		{"space around", "  Hi.  You.  ", []sentence{{"Hi.", 2, 5}, {"You.", 7, 11}}},
		{"surrogate pairs", "🙂 a. 🙂🙂 b.", []sentence{{"🙂 a. 🙂🙂", 0, 10}, {"b.", 11, 13}}},
		{"marks", "What?! No… Yes...", []sentence{{"What?!", 0, 6}, {"No…", 7, 10}, {"Yes...", 11, 17}}},
		{"quotation marks", `He said "go." "Why?" she asked.`, []sentence{{`He said "go."`, 0, 13}, {`"Why?"`, 14, 20}, {"she asked.", 21, 31}}},
		{"lines", "one\ntwo\r\n\r\nthree", []sentence{{"one", 0, 3}, {"two", 4, 7}, {"three", 11, 16}}},
		{"decimals and addresses", "It is 3.5 at example.com now. Ok", []sentence{{"It is 3.5 at example.com now.", 0, 29}, {"Ok", 30, 32}}},
		{"abbreviations", "Dr. Smith vs. J. Doe, e.g. here. End", []sentence{{"Dr. Smith vs. J. Doe, e.g. here.", 0, 32}, {"End", 33, 36}}},
		{"not an initial", "So do I. And you", []sentence{{"So do I.", 0, 8}, {"And you", 9, 16}}},
		{"lower case", "go away. you idiot", []sentence{{"go away.", 0, 8}, {"you idiot", 9, 18}}},
		{"wide marks", "你好。再见！", []sentence{{"你好。", 0, 3}, {"再见！", 3, 6}}},
		{"marks between", "a. !!! b", []sentence{{"a. !!!", 0, 6}, {"b", 7, 8}}},
		{"a smiley on its line", "Nice.\n:)\nYou", []sentence{{"Nice.\n:)", 0, 8}, {"You", 9, 12}}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			if got := sentences(row.text); !reflect.DeepEqual(got, row.want) {
				t.Errorf("got %+v, want %+v", got, row.want)
			}
		})
	}
	if got := sentences(strings.Repeat("go. ", 5000)); len(got) != maxSentences || got[maxSentences-1].end != 5000*4-1 {
		t.Errorf("%d sentences, the last is %+v", len(got), got[len(got)-1])
	}
}

func FuzzSentences(f *testing.F) {
	f.Add("Hi 🙂. \"You.\" 你好。e.g. \n\n x")
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.ToValidUTF8(text, "\uFFFD")
		end, letters := 0, strings.Builder{}
		for _, s := range sentences(text) {
			if s.begin < end || s.end <= s.begin || utf16Length(s.text) != s.end-s.begin {
				t.Fatalf("%q: got sentence %+v behind one that ends at %d, want one behind it that is as long as its text", text, s, end)
			}
			end = s.end
			letters.WriteString(s.text)
		}
		if end > utf16Length(text) || strings.Join(strings.Fields(letters.String()), "") != strings.Join(strings.Fields(text), "") {
			t.Fatalf("%q: got the sentences %q, want all of the text but white space", text, letters.String())
		}
	})
}

func FuzzDecodeAnalyze(f *testing.F) {
	table, err := newAttributeTable(nil)
	if err != nil {
		f.Fatal(err)
	}
	classifier, err := engine.New(engine.Options{})
	if err != nil {
		f.Fatal(err)
	}
	handler := &Analyze{table: table, Languages: []string{"en"}, Unscored: unscoredOmit}
	for _, seed := range []string{asked, `{"comment":{"text":"x"},"requestedAttributes":{"A":null},"languages":["de"]}`, `{"requested_attributes":{"X":{"scoreThreshold":"NaN"}}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		wanted, failed := handler.decode(data, classifier)
		if failed != nil {
			if failed.message == "" || failed.errorType == "" || failed.code == "" {
				t.Errorf("%q: got failure %+v, want one with message, type and code", data, failed)
			}
			return
		}
		if wanted.text == "" || len(wanted.text) > MaxTextBytes || len(wanted.attributes) == 0 {
			t.Errorf("%q: got %+v, want 1 to %d bytes of text and an attribute", data, wanted, MaxTextBytes)
		}
		for _, attribute := range wanted.attributes {
			if attribute.score < 0 || attribute.score >= engine.NumAttributes || math.IsNaN(attribute.threshold) {
				t.Errorf("%q: got attribute %+v, want a known score and a number as threshold", data, attribute)
			}
		}
	})
}

// TestScale: more of the model's probability is always more of a score, and nothing leaves 0 to 1.
func TestScale(t *testing.T) {
	t.Parallel()
	for attribute := range engine.NumAttributes {
		name := engine.Attribute(attribute)
		if got := perspectiveScale.score(attribute, 1); got != 1 || perspectiveScale.score(attribute, 0) != 0 {
			t.Errorf("%s: the ends are %v and %v", name, perspectiveScale.score(attribute, 0), got)
		}
		before := 0.0
		for i := range 10_000 {
			score := perspectiveScale.score(attribute, float64(i+1)/10_000)
			if !(score > before) || score > 1 {
				t.Fatalf("%s: got score %v behind %v, want one that rises, from 0 to 1", name, score, before)
			}
			before = score
		}
		for _, k := range perspectiveScale[attribute] {
			if got := perspectiveScale.score(attribute, k.probability); math.Abs(got-k.score) > 1e-12 {
				t.Errorf("%s: the score at the knot %v is %v", name, k, got)
			}
		}
	}
	// Other classifiers are taken at their word.
	if got := scaleOf("mine-2").score(int(engine.Toxicity), 0.3); got != 0.3 {
		t.Errorf("another classifier's 0.3 is answered as %v", got)
	}
}

func BenchmarkSentences(b *testing.B) {
	text := strings.Repeat("The committee met on Tuesday, e.g. at 3.5 o'clock. Nobody came! ", 320)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		sentences(text)
	}
}

// TestAnalyzeTakesWhatFetchSends guards against pages whose fetch has a string for a body and no header: browsers
// call that plain text.
func TestAnalyzeTakesWhatFetchSends(t *testing.T) {
	load(t, "storage badger DIR")
	for contentType, want := range map[string]int{
		"text/plain": 200, "text/plain;charset=UTF-8": 200, "application/json": 200, "text/plain;charset=utf-16": 415, "text/html": 415,
	} {
		got := send(t, http.MethodPost, analyzeTarget+"?key="+largeKey, asked, "Content-Type", contentType)
		if got.status != want {
			t.Errorf("%q: %d %s, want %d", contentType, got.status, got.body, want)
		}
	}
}
