// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"math"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-moderation/caddy-moderation/engine"
)

// timeFormat is ISO 8601 in UTC with milliseconds.
const timeFormat = "2006-01-02T15:04:05.000Z"

// appendResult appends the moderation result of the interface as JSON. It is encoded by hand, for speed, because it
// is most of what the service sends. explanation is nil when none was asked for.
func appendResult(
	dst []byte, id string, request *textRequest, result *engine.Result, explanation *engine.Explanation, now time.Time,
) []byte {
	dst = append(dst, `{"id":"`...)
	dst = append(dst, id...)
	dst = append(dst, `","status":"completed","content":`...)
	// The content is repeated with the escapes that it was sent with: the decoder has checked that it is a JSON string.
	dst = append(dst, request.raw...)
	dst = append(dst, `,"result":{"flagged":`...)
	dst = strconv.AppendBool(dst, result.Flagged)
	dst = append(dst, `,"categories":{`...)
	for i := range result.Categories {
		if i > 0 {
			dst = append(dst, ',')
		}
		verdict := &result.Categories[i]
		dst = append(dst, '"')
		dst = append(dst, engine.Category(i).String()...)
		dst = append(dst, `":{"flagged":`...)
		dst = strconv.AppendBool(dst, verdict.Flagged)
		dst = append(dst, `,"probability":`...)
		dst = appendProbability(dst, verdict.Probability, verdict.Flagged)
		if explanation != nil {
			dst = appendExplanation(dst, &explanation[i])
		}
		dst = append(dst, '}')
	}
	dst = append(dst, `},"confidence":`...)
	dst = appendProbability(dst, result.Confidence, false)
	dst = append(dst, `,"recommendation":"`...)
	dst = append(dst, result.Recommendation...)
	dst = append(dst, '"')
	if len(result.Themes) > 0 {
		dst = appendThemes(dst, result.Themes)
	}
	if len(result.Blocked) > 0 {
		dst = append(dst, `,"blocked":[`...)
		dst = append(appendSpans(dst, result.Blocked), ']')
	}
	if result.OtherLanguage {
		dst = append(dst, `,"other_language":true`...)
	}
	dst = append(dst, '}')
	if result.Language.Tag != "" {
		dst = appendLanguage(dst, result.Language)
	}
	dst = append(dst, `,"processed_at":"`...)
	dst = now.UTC().AppendFormat(dst, timeFormat)
	dst = append(dst, `","usage":{"characters":`...)
	dst = strconv.AppendInt(dst, int64(request.characters), 10)
	dst = append(dst, `,"tokens_used":`...)
	dst = strconv.AppendInt(dst, int64(result.TokensUsed), 10)
	return append(dst, "}}\n"...)
}

// appendLanguage appends the member "language". Tags are letters and hyphens.
func appendLanguage(dst []byte, language engine.Language) []byte {
	dst = append(dst, `,"language":{"tag":"`...)
	dst = append(dst, language.Tag...)
	dst = append(dst, `","probability":`...)
	dst = appendProbability(dst, language.Probability, false)
	dst = append(dst, `,"supported":`...)
	dst = strconv.AppendBool(dst, language.Supported)
	return append(dst, '}')
}

// appendExplanation appends the member "spans" of a category, and "passage" if it has one.
func appendExplanation(dst []byte, explanation *engine.CategoryExplanation) []byte {
	dst = append(dst, `,"spans":[`...)
	for i, span := range explanation.Evidence {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendSpan(dst, span.Span)
		dst = append(dst, `,"weight":`...)
		dst = appendProbability(dst, span.Weight, false)
		dst = append(dst, '}')
	}
	dst = append(dst, ']')
	if explanation.Passage != (engine.Span{}) {
		dst = append(dst, `,"passage":`...)
		dst = append(appendSpan(dst, explanation.Passage), '}')
	}
	return dst
}

// appendSpan appends an object with the members "begin" and "end", and leaves it open.
func appendSpan(dst []byte, span engine.Span) []byte {
	dst = append(dst, `{"begin":`...)
	dst = strconv.AppendInt(dst, int64(span.Begin), 10)
	dst = append(dst, `,"end":`...)
	return strconv.AppendInt(dst, int64(span.End), 10)
}

// appendSpans appends objects with the members "begin" and "end".
func appendSpans(dst []byte, spans []engine.Span) []byte {
	for i, span := range spans {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendSpan(dst, span), '}')
	}
	return dst
}

// appendThemes appends the member "themes": an object whose keys are the themes as they were sent.
func appendThemes(dst []byte, themes []engine.ThemeResult) []byte {
	dst = append(dst, `,"themes":{`...)
	for i := range themes {
		theme := &themes[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		// Themes come from a decoded body, so they are valid UTF-8 and there is no error.
		dst, _ = jsontext.AppendQuote(dst, theme.Theme)
		dst = append(dst, `:{"flagged":`...)
		dst = strconv.AppendBool(dst, theme.Flagged)
		dst = append(dst, `,"probability":`...)
		dst = appendProbability(dst, theme.Probability, theme.Flagged)
		if theme.Flagged {
			dst = append(dst, `,"action":"block","matches":[`...)
		} else {
			dst = append(dst, `,"action":"none","matches":[`...)
		}
		dst = append(appendSpans(dst, theme.Matches), "]}"...)
	}
	return append(dst, '}')
}

// appendProbability appends a number from 0 to 1 with at most six decimals. A flagged probability is rounded up and
// any other down, so that the written number exceeds the threshold exactly when it is flagged, for thresholds of at
// most six decimals.
func appendProbability(dst []byte, p float64, flagged bool) []byte {
	const digits, scale = 6, 1_000_000
	var n int
	if flagged {
		n = int(math.Ceil(p * scale))
	} else {
		n = int(math.Floor(p * scale))
	}
	if n <= 0 {
		return append(dst, '0')
	}
	if n >= scale {
		return append(dst, '1')
	}
	dst = append(dst, "0.000000"...)
	end := len(dst)
	for i := end - 1; n > 0; i-- {
		dst[i] = byte('0' + n%10)
		n /= 10
	}
	for dst[end-1] == '0' {
		end--
	}
	return dst[:end]
}
