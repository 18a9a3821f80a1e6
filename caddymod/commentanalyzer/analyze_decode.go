// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package commentanalyzer

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-moderation/caddy-moderation/caddymod/problem"
	"github.com/caddy-moderation/caddy-moderation/engine"
	"github.com/caddy-moderation/caddy-moderation/review"
)

// MaxTextBytes is the size, in bytes of UTF-8, of the largest text that is analyzed. It is that of the Perspective API.
const MaxTextBytes = 20_480

// analysis is a request that was checked.
type analysis struct {
	text        string
	attributes  []wantedAttribute // by name
	unscored    []string          // names without a score, sorted
	languages   []string          // as they were sent
	clientToken string
	spans       bool // whether each sentence is scored, too
	doNotStore  bool
	context     []string // what a reviewer reads before the text
}

// wantedAttribute is a name with its score.
type wantedAttribute struct {
	name      string
	score     int     // an index of engine.Scores.Attributes
	threshold float64 // scores below it are left out
}

// The wire form. Members that change nothing here (sessionId, communityId) are ignored.
type (
	analyzeRequest struct {
		Comment             *textEntry                      `json:"comment"`
		Context             *givenContext                   `json:"context"`
		RequestedAttributes map[string]*attributeParameters `json:"requestedAttributes"`
		Languages           []string                        `json:"languages"`
		SpanAnnotations     bool                            `json:"spanAnnotations"`
		ClientToken         string                          `json:"clientToken"`
		DoNotStore          jsontext.Value                  `json:"doNotStore"`
	}
	attributeParameters struct {
		ScoreType      string         `json:"scoreType"`
		ScoreThreshold jsontext.Value `json:"scoreThreshold"`
	}
	// givenContext is only checked for its shape: no score depends on it. Reviewers see the entries.
	givenContext struct {
		Entries                 []textShape `json:"entries"`
		ArticleAndParentComment *struct {
			Article       textShape `json:"article"`
			ParentComment textShape `json:"parentComment"`
		} `json:"articleAndParentComment"`
	}
	textShape struct {
		Text jsontext.Value `json:"text"`
		Type string         `json:"type"`
	}
)

// decode reads and checks a request. The analysis shares no memory with data.
func (a *Analyze) decode(data []byte, classifier *engine.Engine) (*analysis, *failure) {
	var request analyzeRequest
	if failed := unmarshal(data, &request); failed != nil {
		return nil, failed
	}
	text, failed := request.Comment.comment()
	if failed != nil {
		return nil, failed
	}
	if len(text) > MaxTextBytes {
		return nil, invalid(commentTooLong, "Comment text too long.", "/comment/text",
			fmt.Sprintf("may have at most %d bytes in UTF-8", MaxTextBytes))
	}
	if c := request.Context; c != nil && len(c.Entries) > 0 && c.ArticleAndParentComment != nil {
		return nil, twoContexts()
	}
	wanted := &analysis{
		text: text, languages: request.Languages, clientToken: request.ClientToken, spans: request.SpanAnnotations,
		doNotStore: forbids(request.DoNotStore),
	}
	if a.keeps && !wanted.doNotStore {
		wanted.context = request.Context.texts()
	}
	if failed := a.attributes(wanted, request.RequestedAttributes); failed != nil {
		return nil, failed
	}
	var found violations
	found.languages(request.Languages)
	found.bounded("clientToken", request.ClientToken)
	if failed := found.failure(); failed != nil {
		return nil, failed
	}
	if failed := a.checkLanguages(wanted, classifier); failed != nil {
		return nil, failed
	}
	return wanted, nil
}

// forbids reports whether doNotStore forbids to store the comment. Whatever a client sends that is not false is meant
// so: what is stored by mistake cannot be taken back.
func forbids(doNotStore jsontext.Value) bool {
	switch doNotStore.Kind() {
	case 'f', 'n':
		return false
	}
	return len(doNotStore) > 0
}

// texts returns the latest texts of the entries, as many as a reviewer is shown, the latest last. c may be nil.
func (c *givenContext) texts() (texts []string) {
	if c == nil {
		return nil
	}
	for _, entry := range slices.Backward(c.Entries) {
		var text string
		if entry.Text.Kind() != '"' || json.Unmarshal(entry.Text, &text, lenient) != nil {
			continue
		}
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		if texts = append(texts, text); len(texts) == review.MaxContext {
			break
		}
	}
	slices.Reverse(texts)
	return texts
}

// attributes sorts the requested attributes into those with a score and those without.
func (a *Analyze) attributes(wanted *analysis, requested map[string]*attributeParameters) *failure {
	const pointer = jsontext.Pointer("/requestedAttributes")
	if len(requested) == 0 {
		return invalid(noRequestedAttributes, "Missing requested_attributes", string(pointer),
			"is required and must not be empty")
	}
	if len(requested) > maxAttributes {
		var found violations
		found.add(string(pointer), "may have at most %d attributes", maxAttributes)
		return found.failure()
	}
	for _, name := range slices.Sorted(maps.Keys(requested)) {
		score, known := a.table[name]
		if !known {
			return unknownAttribute(name)
		}
		if score == unscored {
			wanted.unscored = append(wanted.unscored, name)
			continue
		}
		attribute := wantedAttribute{name: name, score: score}
		if parameters := requested[name]; parameters != nil {
			at := string(pointer.AppendToken(name))
			switch parameters.ScoreType {
			case "", "SCORE_TYPE_UNSPECIFIED", probability:
			case "STD_DEV_SCORE", "PERCENTILE", "RAW":
				return invalid(invalidRequest,
					"Requested score type "+parameters.ScoreType+" is not supported by attribute "+name,
					at+"/scoreType", "must be "+probability+" or absent")
			default:
				return invalid(invalidRequest, "Unknown score type",
					at+"/scoreType", "must be "+probability+" or absent")
			}
			var ok bool
			if attribute.threshold, ok = threshold(parameters.ScoreThreshold); !ok {
				return invalid(invalidRequest, "Invalid score_threshold of attribute "+name,
					at+"/scoreThreshold", "must be a number")
			}
		}
		wanted.attributes = append(wanted.attributes, attribute)
	}
	if len(wanted.unscored) > 0 && (a.Unscored == unscoredError || len(wanted.attributes) == 0) {
		return unknownAttribute(wanted.unscored[0])
	}
	return nil
}

// threshold parses a number as Google's servers do: a JSON string may hold it, too.
func threshold(value jsontext.Value) (float64, bool) {
	switch value.Kind() {
	case '0':
		number, err := strconv.ParseFloat(string(value), 64)
		return number, err == nil
	case '"':
		var text string
		if json.Unmarshal(value, &text) != nil {
			return 0, false
		}
		number, err := strconv.ParseFloat(text, 64)
		return number, err == nil && number == number
	case 'n':
		return 0, true
	}
	return 0, len(value) == 0
}

// unknownAttribute returns the error for an attribute without a score. It repeats the name only where it can be one.
func unknownAttribute(name string) *failure {
	const pointer = jsontext.Pointer("/requestedAttributes")
	const detail = "is not an attribute that this service scores"
	if !isName(name) {
		return invalid(invalidRequest, "Unknown requested attribute", string(pointer), "holds a name that "+detail)
	}
	return invalid(invalidRequest, "Unknown requested attribute: "+name, string(pointer.AppendToken(name)), detail)
}

// twoContexts returns the error for a context in both forms.
func twoContexts() *failure {
	return invalid(invalidRequest,
		"Context can have either entries or article_and_parent_comment, but both fields were populated.",
		"/context", "must not hold both entries and articleAndParentComment")
}

// perspectiveLanguages are the languages that the Perspective API scores. A request for one of them is answered,
// whether or not the classifier knows it; the answer says whether.
var perspectiveLanguages = []string{
	"ar", "cs", "de", "en", "es", "fr", "hi", "hi-latn", "id", "it", "ja", "ko", "nl", "pl", "pt", "ru", "sv", "zh",
}

// checkLanguages returns an error for a request whose languages neither the Perspective API nor the classifier knows.
func (a *Analyze) checkLanguages(wanted *analysis, classifier *engine.Engine) *failure {
	if len(wanted.languages) == 0 || slices.ContainsFunc(wanted.languages, func(tag string) bool {
		return a.knows(tag) || isIn(perspectiveLanguages, tag)
	}) {
		return nil
	}
	attribute := wanted.attributes[0].name
	return &failure{
		code: problem.InvalidRequest,
		message: "Attribute " + attribute + " does not support request languages: " +
			strings.Join(wanted.languages, ", "),
		errorType: languageNotSupported,
		language: &languageError{
			Attribute: attribute, RequestedLanguages: wanted.languages,
			DetectedLanguages: detectedLanguages(engine.Language{}, classifier, wanted.text),
		},
	}
}

// knows reports whether the classifier knows a language.
func (a *Analyze) knows(tag string) bool { return isIn(a.known, tag) }

// isIn reports whether a list of lower-case tags holds a tag or its language: pt-BR is in a list with pt.
func isIn(list []string, tag string) bool {
	tag = strings.ToLower(strings.ReplaceAll(tag, "_", "-"))
	primary, _, _ := strings.Cut(tag, "-")
	return slices.Contains(list, tag) || slices.Contains(list, primary)
}
