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

	"github.com/caddy-moderation/caddy-moderation/caddymod/commentanalyzer"
	"github.com/caddy-moderation/caddy-moderation/caddymod/openai"
	"github.com/caddy-moderation/caddy-moderation/engine"
)

// shape is an interface whose requests and answers can be compared.
type shape struct {
	// suffix is the end of the path.
	suffix string
	// decode finds the texts of a request and the scores of its answer.
	decode func(request, answer []byte) ([]exchange, error)
	// scorer returns this server's scores for the same names, with a classifier of this version.
	scorer func(version string) scorer
	// shifted says that this server's scores follow the share of harm.
	shifted bool
}

// exchange is a text and its scores from the other service.
type exchange struct {
	text   string
	scores map[string]float64
}

// shapes are all interfaces that can be compared.
var shapes = []shape{
	{commentanalyzer.AnalyzePath, decodeAnalyze, analyzeScores, false},
	{openai.Path, decodeModerations, moderationScores, true},
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
func (one *exchange) pairs(score scorer, result *engine.Result) []pair {
	var pairs []pair
	for _, name := range slices.Sorted(maps.Keys(one.scores)) {
		if ours, ok := score(name, result); ok {
			pairs = append(pairs, pair{name, one.scores[name], ours})
		}
	}
	return pairs
}

// errUnread says that a message does not have the shape that its address promises. It replaces errors of decoders,
// which may quote content.
var errUnread = errors.New("the request or the answer is not as its address promises, or too large")

// decodeAnalyze decodes an exchange of comments:analyze of the Perspective API.
func decodeAnalyze(request, answer []byte) ([]exchange, error) {
	var sent struct {
		Comment struct {
			Text string `json:"text"`
		} `json:"comment"`
	}
	var got struct {
		AttributeScores map[string]struct {
			SummaryScore *struct {
				Value float64 `json:"value"`
			} `json:"summaryScore"`
		} `json:"attributeScores"`
	}
	if json.Unmarshal(request, &sent) != nil || json.Unmarshal(answer, &got) != nil || sent.Comment.Text == "" {
		return nil, errUnread
	}
	one := exchange{text: sent.Comment.Text, scores: map[string]float64{}}
	for name, scores := range got.AttributeScores {
		if scores.SummaryScore != nil {
			one.scores[name] = scores.SummaryScore.Value
		}
	}
	return []exchange{one}, nil
}

// decodeModerations decodes an exchange of /v1/moderations of OpenAI's API: one text, several, or the text parts of
// one input.
func decodeModerations(request, answer []byte) ([]exchange, error) {
	var sent struct {
		Input json.RawMessage `json:"input"`
	}
	var got struct {
		Results []struct {
			Flagged bool               `json:"flagged"`
			Scores  map[string]float64 `json:"category_scores"`
		} `json:"results"`
	}
	if json.Unmarshal(request, &sent) != nil || json.Unmarshal(answer, &got) != nil {
		return nil, errUnread
	}
	texts := textsOf(sent.Input)
	if len(texts) == 0 || len(texts) != len(got.Results) {
		return nil, errUnread
	}
	all := make([]exchange, len(texts))
	for i := range texts {
		all[i] = exchange{texts[i], map[string]float64{flagged: zeroOrOne(got.Results[i].Flagged)}}
		maps.Copy(all[i].scores, got.Results[i].Scores)
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
			return nil // images are not compared
		}
		texts = append(texts, part.Text)
	}
	return []string{strings.Join(texts, "\n")}
}
