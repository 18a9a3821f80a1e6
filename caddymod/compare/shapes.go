// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/caddy-moderation/caddy-moderation/engine"
)

// shape is an interface whose requests and answers are understood.
type shape struct {
	// suffix is the end of the path.
	suffix string
	// read finds the texts of a request and the scores of its answer.
	read func(request, answer []byte) ([]exchanged, error)
	// scorer makes what scores the same names here, with a classifier of this version.
	scorer func(version string) scorer
}

// exchanged is a text and what the other service says of it.
type exchanged struct {
	text   string
	scores map[string]float64
}

// shapes are all that there are.
var shapes = []shape{
	{"/v1alpha1/comments:analyze", readAnalyze, analyzeScores},
	{"/v1/moderations", readModerations, moderationScores},
}

// shapeOf returns the shape of a request; nil when it is only forwarded.
func shapeOf(r *http.Request) *shape {
	if r.Method != http.MethodPost || r.Body == nil {
		return nil
	}
	for i := range shapes {
		if strings.HasSuffix(r.URL.Path, shapes[i].suffix) {
			return &shapes[i]
		}
	}
	return nil
}

// pairs puts the scores of both services side by side, in the order of their names.
func (one *exchanged) pairs(score scorer, result *engine.Result) []pair {
	var pairs []pair
	for _, name := range slices.Sorted(maps.Keys(one.scores)) {
		if ours, ok := score(name, result); ok {
			pairs = append(pairs, pair{name, one.scores[name], ours})
		}
	}
	return pairs
}

// errUnread says that a message is not in the shape that its address promises. Errors of decoders may quote content.
var errUnread = errors.New("the request or the answer is not as its address promises, or too large")

// readAnalyze reads comments:analyze of the Perspective API.
func readAnalyze(request, answer []byte) ([]exchanged, error) {
	var asked struct {
		Comment struct {
			Text string `json:"text"`
		} `json:"comment"`
	}
	var told struct {
		AttributeScores map[string]struct {
			SummaryScore *struct {
				Value float64 `json:"value"`
			} `json:"summaryScore"`
		} `json:"attributeScores"`
	}
	if json.Unmarshal(request, &asked) != nil || json.Unmarshal(answer, &told) != nil || asked.Comment.Text == "" {
		return nil, errUnread
	}
	one := exchanged{text: asked.Comment.Text, scores: map[string]float64{}}
	for name, scores := range told.AttributeScores {
		if scores.SummaryScore != nil {
			one.scores[name] = scores.SummaryScore.Value
		}
	}
	return []exchanged{one}, nil
}

// readModerations reads /v1/moderations of OpenAI's API: one text, several, or the text parts of one input.
func readModerations(request, answer []byte) ([]exchanged, error) {
	var asked struct {
		Input json.RawMessage `json:"input"`
	}
	var told struct {
		Results []struct {
			Flagged bool               `json:"flagged"`
			Scores  map[string]float64 `json:"category_scores"`
		} `json:"results"`
	}
	if json.Unmarshal(request, &asked) != nil || json.Unmarshal(answer, &told) != nil {
		return nil, errUnread
	}
	texts := textsOf(asked.Input)
	if len(texts) == 0 || len(texts) != len(told.Results) {
		return nil, errUnread
	}
	all := make([]exchanged, len(texts))
	for i := range texts {
		all[i] = exchanged{texts[i], map[string]float64{flagged: zeroOrOne(told.Results[i].Flagged)}}
		maps.Copy(all[i].scores, told.Results[i].Scores)
	}
	return all, nil
}

// textsOf returns the texts of an input.
func textsOf(input json.RawMessage) []string {
	var one string
	if json.Unmarshal(input, &one) == nil {
		return []string{one}
	}
	var several []string
	if json.Unmarshal(input, &several) == nil {
		return several
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(input, &parts) != nil {
		return nil
	}
	var texts []string
	for _, part := range parts {
		if part.Type != "text" {
			return nil // what a picture says is not compared
		}
		texts = append(texts, part.Text)
	}
	return []string{strings.Join(texts, "\n")}
}
