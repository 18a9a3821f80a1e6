// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package openai

import (
	"math"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-moderation/caddy-moderation/engine"
)

// categories are those of the interface, each with the categories of this service that must all apply. The score is
// the lowest of their probabilities, which the probability of all together cannot exceed; a category is flagged when
// all of them are. One without any is not classified here: never flagged, scored 0 and applied to no type of input.
// docs/openai.md says why.
var categories = []struct {
	name string
	all  []engine.Category
}{
	{name: "harassment", all: []engine.Category{engine.Harassment}},
	{name: "harassment/threatening", all: []engine.Category{engine.Harassment, engine.Violence}},
	{name: "hate", all: []engine.Category{engine.Hate}},
	{name: "hate/threatening", all: []engine.Category{engine.Hate, engine.Violence}},
	{name: "illicit"},
	{name: "illicit/violent"},
	{name: "self-harm", all: []engine.Category{engine.SelfHarm}},
	{name: "self-harm/instructions"},
	{name: "self-harm/intent", all: []engine.Category{engine.SelfHarm}},
	{name: "sexual", all: []engine.Category{engine.Sexual}},
	{name: "sexual/minors"},
	{name: "violence", all: []engine.Category{engine.Violence}},
	{name: "violence/graphic"},
}

// score returns whether a category of the interface is flagged and its score, for a result; all are the categories of
// this service that must apply.
func score(result *engine.Result, all []engine.Category) (flagged bool, probability float64) {
	if len(all) == 0 {
		return false, 0
	}
	flagged, probability = true, 1
	for _, c := range all {
		flagged = flagged && result.Categories[c].Flagged
		probability = min(probability, round(result.Categories[c]))
	}
	return flagged, probability
}

// round returns a probability with six decimals. A flagged one is rounded up and any other down, so that the score
// exceeds the threshold exactly when it is flagged, for thresholds of at most six decimals.
func round(c engine.CategoryResult) float64 {
	const scale = 1_000_000
	if c.Flagged {
		return min(1, math.Ceil(c.Probability*scale)/scale)
	}
	return math.Floor(c.Probability*scale) / scale
}

// appendAnswer appends the answer as JSON. It is encoded by hand, for speed: a large batch has thousands of members.
func appendAnswer(dst []byte, id, model string, results []engine.Result) []byte {
	dst = append(dst, `{"id":"modr-`...)
	dst = append(dst, strings.TrimPrefix(id, "mod_")...)
	dst = append(dst, `","model":`...)
	// The model comes from a decoded body, so it is valid UTF-8 and there is no error.
	dst, _ = jsontext.AppendQuote(dst, model)
	dst = append(dst, `,"results":[`...)
	for i := range results {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendResult(dst, &results[i])
	}
	return append(dst, "]}\n"...)
}

// appendResult appends the result of one input.
func appendResult(dst []byte, result *engine.Result) []byte {
	dst = append(dst, `{"flagged":`...)
	dst = strconv.AppendBool(dst, result.Flagged)
	dst = append(dst, `,"categories":{`...)
	for i, category := range categories {
		flagged, _ := score(result, category.all)
		dst = strconv.AppendBool(appendName(dst, i), flagged)
	}
	dst = append(dst, `},"category_scores":{`...)
	for i, category := range categories {
		_, probability := score(result, category.all)
		dst = strconv.AppendFloat(appendName(dst, i), probability, 'f', -1, 64)
	}
	dst = append(dst, `},"category_applied_input_types":{`...)
	for i, category := range categories {
		dst = append(appendName(dst, i), '[')
		if len(category.all) > 0 {
			dst = append(dst, `"text"`...)
		}
		dst = append(dst, ']')
	}
	return append(dst, "}}"...)
}

// appendName appends the name of the i-th category as a member, after a comma unless it is the first.
func appendName(dst []byte, i int) []byte {
	if i > 0 {
		dst = append(dst, ',')
	}
	dst = append(dst, '"')
	dst = append(dst, categories[i].name...)
	return append(dst, `":`...)
}

// buffers hold answers while they are written.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// maxKept is the capacity, in bytes, of the largest buffer that is used again. Larger answers are rare and would only
// hold memory.
const maxKept = 64 << 10

// release gives a buffer back.
func release(buffer *[]byte) {
	if cap(*buffer) <= maxKept {
		buffers.Put(buffer)
	}
}
