// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package commentanalyzer

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/caddy-moderation/caddy-moderation/feedback"
)

// request is a whole request around its attributeScores.
func request(scores string) string {
	return `{"comment":{"text":"Hi 🙂 you"},"attributeScores":` + scores + `}`
}

func number(value float64) feedback.Score { return feedback.Score{Value: value, Type: probability} }

func whole(value float64) feedback.AttributeScore {
	score := number(value)
	return feedback.AttributeScore{Summary: &score}
}

func TestDecodeScores(t *testing.T) {
	t.Parallel()
	type scores = map[string]feedback.AttributeScore
	rows := []struct {
		name, scores string
		want         scores
	}{
		{"value and type", `{"TOXICITY":{"summaryScore":{"value":0.25,"type":"PROBABILITY"}}}`, scores{"TOXICITY": whole(0.25)}},
		{"zero is left out by generated clients", `{"TOXICITY":{"summaryScore":{"type":"PROBABILITY"}}}`, scores{"TOXICITY": whole(0)}},
		{"type is left out by people", `{"TOXICITY":{"summaryScore":{"value":1}}}`, scores{"TOXICITY": whole(1)}},
		{"both are left out", `{"TOXICITY":{"summaryScore":{}}}`, scores{"TOXICITY": whole(0)}},
		{"unspecified type", `{"TOXICITY":{"summaryScore":{"value":1e-1,"type":"SCORE_TYPE_UNSPECIFIED"}}}`, scores{"TOXICITY": whole(0.1)}},
		{"negative zero", `{"TOXICITY":{"summaryScore":{"value":-0.0}}}`, scores{"TOXICITY": whole(0)}},
		{"unknown attributes are kept", `{"NOVEL_1":{"summaryScore":{"value":1}},"self-harm":{"summaryScore":{}},"hate/threatening":{"summaryScore":{}}}`,
			scores{"NOVEL_1": whole(1), "self-harm": whole(0), "hate/threatening": whole(0)}},
		{"spans alone", `{"SPAM":{"spanScores":[{"begin":0,"end":2,"score":{"value":0.5}},{"begin":3,"end":5,"score":{}}]}}`,
			scores{"SPAM": {Spans: []feedback.SpanScore{{Begin: 0, End: 2, Score: number(0.5)}, {Begin: 3, End: 5, Score: number(0)}}}}},
		{"begin 0 is left out by generated clients", `{"SPAM":{"spanScores":[{"end":9,"score":{"value":0.5}}]}}`,
			scores{"SPAM": {Spans: []feedback.SpanScore{{Begin: 0, End: 9, Score: number(0.5)}}}}},
		{"both", `{"SPAM":{"summaryScore":{"value":1},"spanScores":[{"begin":0,"end":1,"score":{"value":1}}]}}`,
			scores{"SPAM": {Summary: whole(1).Summary, Spans: []feedback.SpanScore{{Begin: 0, End: 1, Score: number(1)}}}}},
		{"unknown members are ignored", `{"SPAM":{"summaryScore":{"value":1,"note":[1]},"more":{"value":7}}}`, scores{"SPAM": whole(1)}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			got, failed := decode([]byte(request(row.scores)))
			if failed != nil {
				t.Fatalf("refused: %s", failed.message)
			}
			if !reflect.DeepEqual(got.scores, row.want) {
				t.Errorf("got %+v, want %+v", got.scores, row.want)
			}
			if math.Signbit(firstValue(got.scores)) {
				t.Error("a score is negative zero")
			}
		})
	}
}

func firstValue(scores map[string]feedback.AttributeScore) float64 {
	for _, score := range scores {
		if score.Summary != nil {
			return score.Summary.Value
		}
	}
	return 0
}

func TestDecodeRest(t *testing.T) {
	t.Parallel()
	const body = ` {
		"comment": {"text": "\u003chello\u003e", "type": "PLAIN_TEXT"},
		"attributeScores": {"TOXICITY": {"summaryScore": {"value": 1}}},
		"languages": ["en", "hi-Latn"], "communityId": "Coral:https://example.com", "sessionId": "7",
		"clientToken": "comment:1", "doNotStore": true,
		"context": {"entries": [ {"text": "{\"a\": 1}"} ], "new": null}
	}`
	want := &suggestion{
		text: "<hello>", scores: map[string]feedback.AttributeScore{"TOXICITY": whole(1)}, languages: []string{"en", "hi-Latn"},
		community: "Coral:https://example.com", session: "7", clientToken: "comment:1",
		context: feedback.RawJSON(`{"entries":[{"text":"{\"a\": 1}"}],"new":null}`),
	}
	data := []byte(body)
	got, failed := decode(data)
	if failed != nil {
		t.Fatalf("refused: %s", failed.message)
	}
	clear(data) // the buffer goes back to its pool
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestDecodeNullIsAbsent(t *testing.T) {
	t.Parallel()
	got, failed := decode([]byte(`{"comment":{"text":"x","type":null},"attributeScores":{"A":{"summaryScore":{"type":null},"spanScores":null}},
		"languages":null,"communityId":null,"sessionId":null,"clientToken":null,"context":null}`))
	if failed != nil {
		t.Fatalf("refused: %s", failed.message)
	}
	want := &suggestion{text: "x", scores: map[string]feedback.AttributeScore{"A": whole(0)}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	const fine = `{"A":{"summaryScore":{"value":1}}}`
	with := func(members string) string {
		return `{"comment":{"text":"Hi 🙂 you"},"attributeScores":` + fine + `,` + members + `}`
	}
	many := func(n int) string {
		entries := make([]string, n)
		for i := range entries {
			entries[i] = fmt.Sprintf(`"A%d":{"summaryScore":{}}`, i)
		}
		return "{" + strings.Join(entries, ",") + "}"
	}
	rows := []struct{ name, body, errorType, message, field string }{
		{"nothing", ``, invalidRequest, "The body must be a JSON object.", ""},
		{"an array", `[]`, invalidRequest, "The body must be a JSON object.", ""},
		{"null", `null`, invalidRequest, "The body must be a JSON object.", ""},
		{"cut off", `{"comment":`, invalidRequest, "The body must be one well-formed JSON object in UTF-8.", ""},
		{"something behind", request(fine) + `{}`, invalidRequest, "The body must be one well-formed JSON object in UTF-8.", ""},
		{"broken UTF-8", "{\"comment\":{\"text\":\"\xff\"}}", invalidRequest, "The body must be one well-formed JSON object in UTF-8.", ""},
		{"half a surrogate pair in what is kept as it is", with(`"context":{"entries":[{"text":"\ud83d"}]}`), invalidRequest, "The body must be one well-formed JSON object in UTF-8.", ""},
		{"NaN", request(`{"A":{"summaryScore":{"value":NaN}}}`), invalidRequest, "The body must be one well-formed JSON object in UTF-8.", ""},
		{"a member twice", `{"comment":{"text":"a","text":"b"}}`, invalidRequest, "The body must not name a member twice.", ""},
		{"an unknown member twice", with(`"x":1,"x":1`), invalidRequest, "The body must not name a member twice.", ""},
		{"no comment", `{"attributeScores":` + fine + `}`, commentEmpty, "Comment must be non-empty.", "comment.text"},
		{"no text", `{"comment":{},"attributeScores":` + fine + `}`, commentEmpty, "Comment must be non-empty.", "comment.text"},
		{"empty text", `{"comment":{"text":""},"attributeScores":` + fine + `}`, commentEmpty, "Comment must be non-empty.", "comment.text"},
		{"blank text", `{"comment":{"text":" \n\u2003"},"attributeScores":` + fine + `}`, commentEmpty, "Comment must be non-empty.", "comment.text"},
		{"text of another type", `{"comment":{"text":7},"attributeScores":` + fine + `}`, invalidRequest, "comment.text: has the wrong type.", "comment.text"},
		{"HTML", `{"comment":{"text":"a","type":"HTML"},"attributeScores":` + fine + `}`, invalidRequest, "Currently, only 'PLAIN_TEXT' comments are supported", "comment.type"},
		{"another text type", `{"comment":{"text":"a","type":"RTF"},"attributeScores":` + fine + `}`, invalidRequest, "Unknown text type", "comment.type"},
		{"no scores", `{"comment":{"text":"a"}}`, invalidRequest, "attributeScores: is required and must not be empty.", "attributeScores"},
		{"empty scores", request(`{}`), invalidRequest, "attributeScores: is required and must not be empty.", "attributeScores"},
		{"null scores", request(`null`), invalidRequest, "attributeScores: is required and must not be empty.", "attributeScores"},
		{"scores in an array", request(`[]`), invalidRequest, "attributeScores: has the wrong type.", "attributeScores"},
		{"an empty entry", request(`{"A":{}}`), invalidRequest, "attributeScores.A: must have a summaryScore or spanScores.", "attributeScores.A"},
		{"a null entry", request(`{"A":null}`), invalidRequest, "attributeScores.A: must have a summaryScore or spanScores.", "attributeScores.A"},
		{"an entry of nothing", request(`{"A":{"summaryScore":null,"spanScores":[]}}`), invalidRequest, "attributeScores.A: must have a summaryScore or spanScores.", "attributeScores.A"},
		{"an entry of a number", request(`{"A":1}`), invalidRequest, "attributeScores.A: has the wrong type.", "attributeScores.A"},
		{"65 attributes", request(many(65)), invalidRequest, "attributeScores: may have at most 64 attributes.", "attributeScores"},
		{"no name", request(`{"":{"summaryScore":{}}}`), invalidRequest, "attributeScores: holds a name that is not 1 to 128 letters, digits and '_', '-', '.' or '/'.", "attributeScores"},
		{"a sentence for a name", request(`{"you idiot":{"summaryScore":{}}}`), invalidRequest, "attributeScores: holds a name that is not 1 to 128 letters, digits and '_', '-', '.' or '/'.", "attributeScores"},
		{"a sentence for a name, wrong type", request(`{"you idiot":7}`), invalidRequest, "attributeScores: has the wrong type.", "attributeScores"},
		{"a long name", request(`{"` + strings.Repeat("A", 129) + `":{"summaryScore":{}}}`), invalidRequest, "attributeScores: holds a name that is not 1 to 128 letters, digits and '_', '-', '.' or '/'.", "attributeScores"},
		{"above 1", request(`{"A":{"summaryScore":{"value":1.0000001}}}`), invalidRequest, "attributeScores.A.summaryScore.value: must be a number from 0 to 1.", "attributeScores.A.summaryScore.value"},
		{"below 0", request(`{"A":{"summaryScore":{"value":-1e-9}}}`), invalidRequest, "attributeScores.A.summaryScore.value: must be a number from 0 to 1.", "attributeScores.A.summaryScore.value"},
		{"too large for a number", request(`{"A":{"summaryScore":{"value":1e999}}}`), invalidRequest, "attributeScores.A.summaryScore.value: must be a number from 0 to 1.", "attributeScores.A.summaryScore.value"},
		{"NaN in a string", request(`{"A":{"summaryScore":{"value":"NaN"}}}`), invalidRequest, "attributeScores.A.summaryScore.value: must be a number from 0 to 1.", "attributeScores.A.summaryScore.value"},
		{"a number in a string", request(`{"A":{"summaryScore":{"value":"0.5"}}}`), invalidRequest, "attributeScores.A.summaryScore.value: must be a number from 0 to 1.", "attributeScores.A.summaryScore.value"},
		{"null", request(`{"A":{"summaryScore":{"value":null}}}`), invalidRequest, "attributeScores.A.summaryScore.value: must be a number from 0 to 1.", "attributeScores.A.summaryScore.value"},
		{"true", request(`{"A":{"summaryScore":{"value":true}}}`), invalidRequest, "attributeScores.A.summaryScore.value: must be a number from 0 to 1.", "attributeScores.A.summaryScore.value"},
		{"another score type", request(`{"A":{"summaryScore":{"type":"RAW"}}}`), invalidRequest, "attributeScores.A.summaryScore.type: requested score type RAW is not supported; it must be PROBABILITY.", "attributeScores.A.summaryScore.type"},
		{"an unknown score type", request(`{"A":{"summaryScore":{"type":"you idiot"}}}`), invalidRequest, "attributeScores.A.summaryScore.type: is an unknown score type; it must be PROBABILITY.", "attributeScores.A.summaryScore.type"},
		{"an empty score type", request(`{"A":{"summaryScore":{"type":""}}}`), invalidRequest, "attributeScores.A.summaryScore.type: is an unknown score type; it must be PROBABILITY.", "attributeScores.A.summaryScore.type"},
		{"a span without an end", request(`{"A":{"spanScores":[{"begin":0,"score":{}}]}}`), invalidRequest, "attributeScores.A.spanScores[0]: must have begin and end.", "attributeScores.A.spanScores[0]"},
		{"a span without a score", request(`{"A":{"spanScores":[{"begin":0,"end":1}]}}`), invalidRequest, "attributeScores.A.spanScores[0]: must have begin, end and score.", "attributeScores.A.spanScores[0]"},
		{"a null span", request(`{"A":{"spanScores":[null]}}`), invalidRequest, "attributeScores.A.spanScores[0]: must have begin, end and score.", "attributeScores.A.spanScores[0]"},
		{"an empty span", request(`{"A":{"spanScores":[{"begin":1,"end":1,"score":{}}]}}`), invalidRequest, "attributeScores.A.spanScores[0]: must lie in the text: 0 <= begin < end <= 9, in UTF-16 code units.", "attributeScores.A.spanScores[0]"},
		{"a span that ends before it begins", request(`{"A":{"spanScores":[{"begin":2,"end":1,"score":{}}]}}`), invalidRequest, "attributeScores.A.spanScores[0]: must lie in the text: 0 <= begin < end <= 9, in UTF-16 code units.", "attributeScores.A.spanScores[0]"},
		{"a span before the text", request(`{"A":{"spanScores":[{"begin":-1,"end":1,"score":{}}]}}`), invalidRequest, "attributeScores.A.spanScores[0]: must lie in the text: 0 <= begin < end <= 9, in UTF-16 code units.", "attributeScores.A.spanScores[0]"},
		{"a span behind the text", request(`{"A":{"spanScores":[{"begin":0,"end":1,"score":{}},{"begin":0,"end":10,"score":{}}]}}`), invalidRequest, "attributeScores.A.spanScores[1]: must lie in the text: 0 <= begin < end <= 9, in UTF-16 code units.", "attributeScores.A.spanScores[1]"},
		{"a span of fractions", request(`{"A":{"spanScores":[{"begin":0.5,"end":1,"score":{}}]}}`), invalidRequest, "attributeScores.A.spanScores[0].begin: has the wrong type.", "attributeScores.A.spanScores[0].begin"},
		{"a span's score above 1", request(`{"A":{"spanScores":[{"begin":0,"end":1,"score":{"value":2}}]}}`), invalidRequest, "attributeScores.A.spanScores[0].score.value: must be a number from 0 to 1.", "attributeScores.A.spanScores[0].score.value"},
		{"an odd language", with(`"languages":["en","e n"]`), invalidRequest, "languages[1]: must be a language tag such as en or pt-BR.", "languages[1]"},
		{"33 languages", with(`"languages":["en"` + strings.Repeat(`,"en"`, 32) + `]`), invalidRequest, "languages: may have at most 32 languages.", "languages"},
		{"language in a string", with(`"languages":"en"`), invalidRequest, "languages: has the wrong type.", "languages"},
		{"a long token", with(`"clientToken":"` + strings.Repeat("ü", 2049) + `"`), invalidRequest, "clientToken: may have at most 2048 characters.", "clientToken"},
		{"a token of another type", with(`"clientToken":7`), invalidRequest, "clientToken: has the wrong type.", "clientToken"},
		{"a long community", with(`"communityId":"` + strings.Repeat("c", 2049) + `"`), invalidRequest, "communityId: may have at most 2048 characters.", "communityId"},
		{"a long session", with(`"sessionId":"` + strings.Repeat("s", 2049) + `"`), invalidRequest, "sessionId: may have at most 2048 characters.", "sessionId"},
		{"context in a string", with(`"context":"before"`), invalidRequest, "context: has the wrong type.", "context"},
		{"entries in an object", with(`"context":{"entries":{}}`), invalidRequest, "context.entries: has the wrong type.", "context.entries"},
		{"entry of another type", with(`"context":{"entries":[{"text":"a"},{"text":7}]}`), invalidRequest, "context.entries[1].text: has the wrong type.", "context.entries[1].text"},
		{"both contexts", with(`"context":{"entries":[{"text":"a"}],"articleAndParentComment":{"article":{"text":"b"}}}`), invalidRequest,
			"Context can have either entries or article_and_parent_comment, but both fields were populated.", "context"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			got, failed := decode([]byte(row.body))
			if failed == nil {
				t.Fatalf("accepted: %+v", got)
			}
			if failed.message != row.message || failed.errorType != row.errorType {
				t.Errorf("answered %s %q, want %s %q", failed.errorType, failed.message, row.errorType, row.message)
			}
			field := ""
			if len(failed.violations) > 0 {
				field = fieldPath(failed.violations[0].Pointer)
			}
			if field != row.field {
				t.Errorf("names %q, want %q", field, row.field)
			}
		})
	}
}

// TestDecodeNamesSeveral: one answer names several members, but not without end.
func TestDecodeNamesSeveral(t *testing.T) {
	t.Parallel()
	entries := make([]string, 20)
	for i := range entries {
		entries[i] = fmt.Sprintf(`"A%02d":{"summaryScore":{"value":2}}`, i)
	}
	_, failed := decode([]byte(request("{" + strings.Join(entries, ",") + "}")))
	if failed == nil || len(failed.violations) != maxViolations {
		t.Fatalf("got %+v, want %d violations", failed, maxViolations)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(request(`{"A":{"summaryScore":{"value":0.5},"spanScores":[{"begin":3,"end":5,"score":{"value":1}}]}}`)))
	f.Add([]byte(`{"comment":{"text":"a"},"attributeScores":{"A":{"summaryScore":{}}},"context":{"entries":[{"text":"b"}]},"languages":["en"]}`))
	f.Add([]byte(`{"comment":{"text":"\ud83d\ude42"},"attributeScores":{"A":{"spanScores":[{"end":2,"score":{}}]}}}`))
	f.Add([]byte(`{"a":{"b/c~d":{"e":[0,{"f":1,"f":1}]}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, failed := decode(data)
		if failed != nil {
			if got != nil {
				t.Error("a suggestion and a refusal")
			}
			if failed.message == "" || failed.errorType == "" || !utf8.ValidString(failed.message) || len(failed.message) > 2000 {
				t.Errorf("message %q", failed.message)
			}
			return
		}
		if strings.TrimSpace(got.text) == "" || !utf8.ValidString(got.text) {
			t.Errorf("text %q", got.text)
		}
		if len(got.scores) == 0 || len(got.scores) > maxAttributes {
			t.Errorf("%d attributes", len(got.scores))
		}
		length := utf16Length(got.text)
		valid := func(score feedback.Score) bool {
			return score.Value >= 0 && score.Value <= 1 && score.Type == probability
		}
		for name, score := range got.scores {
			if !isName(name) || score.Summary == nil && len(score.Spans) == 0 ||
				score.Summary != nil && !valid(*score.Summary) {
				t.Errorf("attribute %q: %+v", name, score)
			}
			for _, span := range score.Spans {
				if span.Begin < 0 || span.Begin >= span.End || span.End > length || !valid(span.Score) {
					t.Errorf("span %+v of %d", span, length)
				}
			}
		}
	})
}

// TestDecodeCoral decodes what Coral sends when a moderator approves a comment.
func TestDecodeCoral(t *testing.T) {
	t.Parallel()
	got, failed := decode([]byte(`{"comment":{"text":"You are a walnut"},"context":{"entries":[{"text":"{\"storyID\":\"1\",\"author\":{\"id\":\"2\"}}"}]},
		"attributeScores":{"TOXICITY":{"summaryScore":{"value":0}}},"languages":["EN"],"communityId":"Coral:https://example.com","clientToken":"comment:7f"}`))
	if failed != nil {
		t.Fatalf("refused: %s", failed.message)
	}
	want := &suggestion{
		text: "You are a walnut", scores: map[string]feedback.AttributeScore{"TOXICITY": whole(0)}, languages: []string{"EN"},
		community: "Coral:https://example.com", clientToken: "comment:7f",
		context: feedback.RawJSON(`{"entries":[{"text":"{\"storyID\":\"1\",\"author\":{\"id\":\"2\"}}"}]}`),
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestDecodeOddities: what is unusual and clear is taken.
func TestDecodeOddities(t *testing.T) {
	t.Parallel()
	got, failed := decode([]byte(`{"comment":{"text":"cut \ud83d"},"attribute_scores":{"TOXICITY":{"summary_score":{"value":1},"span_scores":[{"end":5,"score":{}}]}},
		"client_token":"t","session_id":"s","context":{"entries":[],"article_and_parent_comment":{"article":{"text":"a"}}}}`))
	if failed != nil {
		t.Fatalf("refused: %s", failed.message)
	}
	if score := got.scores["TOXICITY"]; got.text != "cut \ufffd" || got.clientToken != "t" || got.session != "s" || score.Summary.Value != 1 || score.Spans[0].End != 5 {
		t.Errorf("got %+v", got)
	}
}
