// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package commentanalyzer

import (
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-moderation/caddy-moderation/feedback"
)

// suggestion is a correction that was asked for and checked.
type suggestion struct {
	text        string
	scores      map[string]feedback.AttributeScore
	languages   []string
	community   string
	session     string
	clientToken string
	context     feedback.RawJSON
}

// The wire form. Pointers distinguish what is absent from what is zero. null stands for absent, as generated clients
// mean it.
type (
	suggestScoreRequest struct {
		Comment         *textEntry                  `json:"comment"`
		Context         jsontext.Value              `json:"context"`
		AttributeScores map[string]*attributeScores `json:"attributeScores"`
		Languages       []string                    `json:"languages"`
		CommunityID     string                      `json:"communityId"`
		ClientToken     string                      `json:"clientToken"`
		SessionID       string                      `json:"sessionId"`
	}
	attributeScores struct {
		SummaryScore *score       `json:"summaryScore"`
		SpanScores   []*spanScore `json:"spanScores"`
	}
	spanScore struct {
		Begin *int64 `json:"begin"`
		End   *int64 `json:"end"`
		Score *score `json:"score"`
	}
	score struct {
		Value jsontext.Value `json:"value"`
		Type  *string        `json:"type"`
	}
	conversation struct {
		Entries                 []textEntry     `json:"entries"`
		ArticleAndParentComment *articleContext `json:"articleAndParentComment"`
	}
	articleContext struct {
		Article       *textEntry `json:"article"`
		ParentComment *textEntry `json:"parentComment"`
	}
)

// decode reads and checks a request. The suggestion shares no memory with data.
func decode(data []byte) (*suggestion, *failure) {
	var request suggestScoreRequest
	if failed := unmarshal(data, &request); failed != nil {
		return nil, failed
	}
	return request.check()
}

// check checks the values of the members. Errors name members, and never what stands in them.
func (request *suggestScoreRequest) check() (*suggestion, *failure) {
	text, failed := request.Comment.comment()
	if failed != nil {
		return nil, failed
	}
	var found violations
	suggested := &suggestion{
		text:        text,
		scores:      found.attributes(request.AttributeScores, text),
		languages:   found.languages(request.Languages),
		community:   found.bounded("communityId", request.CommunityID),
		session:     found.bounded("sessionId", request.SessionID),
		clientToken: found.bounded("clientToken", request.ClientToken),
	}
	if suggested.context, failed = conversationOf(request.Context); failed != nil {
		return nil, failed
	}
	if failed = found.failure(); failed != nil {
		return nil, failed
	}
	return suggested, nil
}

// conversationOf checks the context and returns it without insignificant white space.
func conversationOf(raw jsontext.Value) (feedback.RawJSON, *failure) {
	if len(raw) == 0 || raw.Kind() == 'n' {
		return nil, nil
	}
	var parsed conversation
	if err := json.Unmarshal(raw, &parsed, anyCase); err != nil {
		return nil, undecodable("/context", err)
	}
	if len(parsed.Entries) > 0 && parsed.ArticleAndParentComment != nil {
		return nil, twoContexts()
	}
	kept := raw.Clone()
	if err := kept.Compact(); err != nil {
		return nil, undecodable("/context", err)
	}
	return feedback.RawJSON(kept), nil
}

// attributes checks the suggested scores.
func (v *violations) attributes(wanted map[string]*attributeScores, text string) map[string]feedback.AttributeScore {
	const pointer = "/attributeScores"
	if len(wanted) == 0 {
		v.add(pointer, "is required and must not be empty")
		return nil
	}
	if len(wanted) > maxAttributes {
		v.add(pointer, "may have at most %d attributes", maxAttributes)
		return nil
	}
	length := -1 // counted when there is a span
	kept := make(map[string]feedback.AttributeScore, len(wanted))
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if !isName(name) {
			v.add(pointer, "holds a name that is not 1 to %d letters, digits and '_', '-', '.' or '/'", maxName)
			return nil
		}
		at := string(jsontext.Pointer(pointer).AppendToken(name))
		scores := wanted[name]
		if scores == nil || scores.SummaryScore == nil && len(scores.SpanScores) == 0 {
			v.add(at, "must have a summaryScore or spanScores")
			continue
		}
		var attribute feedback.AttributeScore
		if scores.SummaryScore != nil {
			summary := v.score(at+"/summaryScore", scores.SummaryScore)
			attribute.Summary = &summary
		}
		if len(scores.SpanScores) > 0 && length < 0 {
			length = utf16Length(text)
		}
		for i, span := range scores.SpanScores {
			attribute.Spans = append(attribute.Spans, v.span(at+"/spanScores/"+strconv.Itoa(i), span, length))
		}
		kept[name] = attribute
	}
	return kept
}

// span checks the score of a part of a text of length UTF-16 code units. Generated clients leave out zeros, so an
// absent begin is the beginning of the text; an absent end is an error.
func (v *violations) span(pointer string, span *spanScore, length int) feedback.SpanScore {
	if span == nil || span.Score == nil {
		v.add(pointer, "must have begin, end and score")
		return feedback.SpanScore{}
	}
	if span.End == nil {
		v.add(pointer, "must have begin and end")
		return feedback.SpanScore{}
	}
	var begin int64
	if span.Begin != nil {
		begin = *span.Begin
	}
	if begin < 0 || begin >= *span.End || *span.End > int64(length) {
		v.add(pointer, "must lie in the text: 0 <= begin < end <= %d, in UTF-16 code units", length)
	}
	return feedback.SpanScore{Begin: int(begin), End: int(*span.End), Score: v.score(pointer+"/score", span.Score)}
}

// score checks one score. Generated clients leave out zeros and defaults, so an absent value is 0 and an absent type
// PROBABILITY.
func (v *violations) score(pointer string, wanted *score) feedback.Score {
	kept := feedback.Score{Type: probability}
	if wanted.Type != nil {
		switch *wanted.Type {
		case probability, "SCORE_TYPE_UNSPECIFIED":
		case "STD_DEV_SCORE", "PERCENTILE", "RAW":
			v.add(pointer+"/type", "requested score type %s is not supported; it must be %s", *wanted.Type, probability)
		default:
			v.add(pointer+"/type", "is an unknown score type; it must be %s", probability)
		}
	}
	if len(wanted.Value) == 0 {
		return kept
	}
	value, err := strconv.ParseFloat(string(wanted.Value), 64)
	// The kind is checked because ParseFloat also accepts what is no number in JSON.
	if wanted.Value.Kind() != '0' || err != nil || value < 0 || value > 1 {
		v.add(pointer+"/value", "must be a number from 0 to 1")
		return kept
	}
	kept.Value = math.Abs(value) // -0 is 0
	return kept
}
