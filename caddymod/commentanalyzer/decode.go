// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package commentanalyzer

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-moderation/caddy-moderation/caddymod/problem"
	"github.com/caddy-moderation/caddy-moderation/feedback"
)

// Bounds of a request, beside that of the record that is kept.
const (
	maxAttributes = 64   // entries of attributeScores
	maxName       = 128  // characters of an attribute's name
	maxLanguages  = 32   // entries of languages
	maxLanguage   = 35   // characters of a language tag
	maxText       = 2048 // characters of clientToken, communityId and sessionId
	maxViolations = 8    // members that one error names
)

// probability is the only type of score that there is a meaning for.
const probability = "PROBABILITY"

// suggestion is a correction as it was asked for, checked.
type suggestion struct {
	text        string
	scores      map[string]feedback.AttributeScore
	languages   []string
	community   string
	session     string
	clientToken string
	context     feedback.RawJSON
}

// The wire form. A pointer tells what is absent from what is zero; null stands for absent, as generated clients mean it.
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
	textEntry struct {
		Text *string `json:"text"`
		Type string  `json:"type"`
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

// anyCase takes the names of members in lowerCamelCase and in snake_case, as Google's servers do.
var anyCase = json.MatchCaseInsensitiveNames(true)

// lenient takes what clients really send: also the halves of surrogate pairs that programs leave which cut long comments.
// They become U+FFFD. A half is one code unit and so is U+FFFD, so that the offsets of spans stay right.
var lenient = json.JoinOptions(anyCase, jsontext.AllowInvalidUTF8(true))

// unmarshal reads a body.
func unmarshal(data []byte, request any) *failure {
	if jsontext.Value(data).Kind() != '{' {
		return malformed("The body must be a JSON object.")
	}
	// Bytes in another encoding are an error, since they would be scored as something that nobody wrote.
	if !utf8.Valid(data) {
		return malformed(notOneObject)
	}
	if err := json.Unmarshal(data, request, lenient); err != nil {
		return undecodable("", err)
	}
	return nil
}

// notOneObject is the message for a body that is no JSON.
const notOneObject = "The body must be one well-formed JSON object in UTF-8."

// check checks what the request says. Errors name members, and never what was in them.
func (request *suggestScoreRequest) check() (*suggestion, *failure) {
	text, failed := request.Comment.comment()
	if failed != nil {
		return nil, failed
	}
	var found violations
	wanted := &suggestion{
		text:        text,
		scores:      found.attributes(request.AttributeScores, text),
		languages:   found.languages(request.Languages),
		community:   found.bounded("communityId", request.CommunityID),
		session:     found.bounded("sessionId", request.SessionID),
		clientToken: found.bounded("clientToken", request.ClientToken),
	}
	if wanted.context, failed = conversationOf(request.Context); failed != nil {
		return nil, failed
	}
	if failed = found.failure(); failed != nil {
		return nil, failed
	}
	return wanted, nil
}

// comment returns the text that is scored.
func (entry *textEntry) comment() (string, *failure) {
	if entry == nil || entry.Text == nil || strings.TrimSpace(*entry.Text) == "" {
		return "", invalid(commentEmpty, "Comment must be non-empty.", "/comment/text", "is required and must not be empty")
	}
	switch entry.Type {
	case "", "TEXT_TYPE_UNSPECIFIED", "PLAIN_TEXT":
		return *entry.Text, nil
	case "HTML":
		return "", invalid(invalidRequest, "Currently, only 'PLAIN_TEXT' comments are supported", "/comment/type", "must be PLAIN_TEXT or absent")
	}
	return "", invalid(invalidRequest, "Unknown text type", "/comment/type", "must be PLAIN_TEXT or absent")
}

// conversationOf checks the context and returns it without insignificant space.
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

// violations collects the rules that a request breaks.
type violations []problem.FieldError

func (v *violations) add(pointer, detail string, args ...any) {
	if len(*v) < maxViolations {
		*v = append(*v, problem.FieldError{Pointer: pointer, Detail: fmt.Sprintf(detail, args...)})
	}
}

// failure returns the answer to the request, nil when no rule is broken. The message tells the first one.
func (v violations) failure() *failure {
	if len(v) == 0 {
		return nil
	}
	message := fmt.Sprintf("%s: %s.", fieldPath(v[0].Pointer), v[0].Detail)
	return &failure{code: problem.InvalidRequest, message: message, errorType: invalidRequest, violations: v}
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
	length := -1 // counted when a span asks for it
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

// span checks the score of a part of the text, whose length in UTF-16 code units is given. Generated clients leave out
// zeros, so an absent begin is the beginning of the text; an absent end means nothing.
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
	// The kind comes first: ParseFloat would also read what is no number in JSON.
	if wanted.Value.Kind() != '0' || err != nil || value < 0 || value > 1 {
		v.add(pointer+"/value", "must be a number from 0 to 1")
		return kept
	}
	kept.Value = math.Abs(value) // -0 is 0
	return kept
}

// languages checks the language tags.
func (v *violations) languages(tags []string) []string {
	if len(tags) > maxLanguages {
		v.add("/languages", "may have at most %d languages", maxLanguages)
		return nil
	}
	for i, tag := range tags {
		if !isLanguage(tag) {
			v.add("/languages/"+strconv.Itoa(i), "must be a language tag such as en or pt-BR")
		}
	}
	return tags
}

// bounded checks the length of a text that is kept as it is.
func (v *violations) bounded(name, text string) string {
	if utf8.RuneCountInString(text) > maxText {
		v.add("/"+name, "may have at most %d characters", maxText)
	}
	return text
}

// isName reports whether an attribute may have this name: those of Perspective, of this service's categories, and others
// like them.
func isName(name string) bool {
	return len(name) > 0 && len(name) <= maxName && !strings.ContainsFunc(name, func(r rune) bool {
		return notInTag(r) && r != '.' && r != '/'
	})
}

// isLanguage reports whether a text looks like a language tag.
func isLanguage(tag string) bool {
	return len(tag) > 0 && len(tag) <= maxLanguage && !strings.ContainsFunc(tag, notInTag)
}

func notInTag(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
}

// utf16Length is the length of a text in UTF-16 code units.
func utf16Length(text string) int {
	n := 0
	for _, r := range text {
		n += utf16.RuneLen(r)
	}
	return n
}

// undecodable answers a body, or the member at pointer, that cannot be decoded.
func undecodable(pointer string, err error) *failure {
	var semantic *json.SemanticError
	if errors.As(err, &semantic) {
		found := violations{{Pointer: pointer + tame(semantic.JSONPointer), Detail: "has the wrong type"}}
		return found.failure()
	}
	if errors.Is(err, jsontext.ErrDuplicateName) {
		return malformed("The body must not name a member twice.")
	}
	return malformed(notOneObject)
}

// tame cuts a pointer before the first name that could be something else than a name.
func tame(pointer jsontext.Pointer) string {
	var kept jsontext.Pointer
	for token := range pointer.Tokens() {
		if !isName(token) {
			break
		}
		kept = kept.AppendToken(token)
	}
	return string(kept)
}

func malformed(message string) *failure {
	return &failure{code: problem.MalformedJSON, message: message, errorType: invalidRequest}
}

func invalid(errorType, message, pointer, detail string) *failure {
	return &failure{
		code: problem.InvalidRequest, message: message, errorType: errorType,
		violations: violations{{Pointer: pointer, Detail: detail}},
	}
}
