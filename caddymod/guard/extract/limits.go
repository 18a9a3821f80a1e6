// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package extract

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/content"
)

// Overflow says what happens to a message that exceeds a limit.
type Overflow string

// What can happen to a message that exceeds a limit.
const (
	// OverflowReject refuses the message with 413.
	OverflowReject Overflow = "reject"
	// OverflowPass lets the message go on unjudged.
	OverflowPass Overflow = "pass"
	// OverflowPrefix moderates the beginning, up to the limit, and lets the rest go on unjudged.
	OverflowPrefix Overflow = "prefix"
	// OverflowStream moderates the rest while it flows to the app, each text before the app reads it. For bodies of
	// requests.
	OverflowStream Overflow = "stream"
	// OverflowSuffix moderates the end, up to the limit: the newest messages of a chat. For texts.
	OverflowSuffix Overflow = "suffix"
	// OverflowBoth moderates half of the limit at the beginning and half of it at the end. For texts.
	OverflowBoth Overflow = "both"
)

// The overflows that are possible for the body of a request, the body of an answer, and the text of either.
var (
	requestOverflows = []Overflow{OverflowStream, OverflowReject, OverflowPass, OverflowPrefix}
	answerOverflows  = []Overflow{OverflowReject, OverflowPass, OverflowPrefix}
	textOverflows    = []Overflow{OverflowReject, OverflowPass, OverflowPrefix, OverflowSuffix, OverflowBoth}
)

// Limits bound how much of one message is held in memory and moderated.
type Limits struct {
	// The maximum size of the part of a body that is held in memory, in bytes. A compressed body may be eight times as
	// large once it is decompressed. Default: 1 MiB.
	MaxBody int64 `json:"max_body,omitempty"`
	// What happens to a larger body: "stream" (moderate the rest while it flows to the app), "reject" (413), "pass"
	// (let it go on unjudged) or "prefix" (moderate the first part of it). Files of a multipart form always flow to the
	// app, and do not count. With "stream", a larger body that is compressed is refused. Default: "stream" for requests
	// and "prefix" for answers, for which there is no "stream".
	MaxBodyOverflow Overflow `json:"past_max_body,omitempty"`
	// The maximum number of characters (Unicode code points) that are moderated in one message. Default: no limit for
	// requests, 100,000 for answers.
	MaxText int `json:"max_text,omitempty"`
	// What happens to a message with more text: "reject" (413), "pass" (let it go on unjudged), "prefix" (moderate the
	// first characters), "suffix" (moderate the last characters) or "both" (half of them at the beginning, half at the
	// end). Default: "reject" for requests and "prefix" for answers.
	MaxTextOverflow Overflow `json:"past_max_text,omitempty"`
}

// Defaults of [Limits].
const (
	defaultMaxBody       = 1 << 20
	defaultMaxAnswerText = 100_000
)

// Inflation is how many times as large as [Limits.MaxBody] a compressed body may be once it is decompressed. Text
// shrinks to a third or a tenth.
const Inflation = 8

// SetRequestDefaults fills in the defaults of requests and checks the rest.
func (l *Limits) SetRequestDefaults() error {
	return l.setDefaults(OverflowStream, OverflowReject, requestOverflows)
}

// SetAnswerDefaults fills in the defaults of answers and checks the rest.
func (l *Limits) SetAnswerDefaults() error {
	if l.MaxText == 0 {
		l.MaxText = defaultMaxAnswerText
	}
	return l.setDefaults(OverflowPrefix, OverflowPrefix, answerOverflows)
}

func (l *Limits) setDefaults(body, text Overflow, possible []Overflow) error {
	if l.MaxBody == 0 {
		l.MaxBody = defaultMaxBody
	}
	if l.MaxBody < 0 || l.MaxText < 0 {
		return errors.New("max_body and max_text must be greater than 0")
	}
	if l.MaxBodyOverflow == "" {
		l.MaxBodyOverflow = body
	}
	if l.MaxTextOverflow == "" {
		l.MaxTextOverflow = text
	}
	if !slices.Contains(possible, l.MaxBodyOverflow) {
		return fmt.Errorf("past max_body there is no %q; it must be one of %v", string(l.MaxBodyOverflow), possible)
	}
	if !slices.Contains(textOverflows, l.MaxTextOverflow) {
		return fmt.Errorf("past max_text there is no %q; it must be one of %v",
			string(l.MaxTextOverflow), textOverflows)
	}
	return nil
}

// Describe says in a sentence which limit a message exceeds. The error is [ErrTooLarge], [ErrTooLong] or one of
// [http.MaxBytesReader].
func (l *Limits) Describe(err error) string {
	if errors.Is(err, ErrTooLong) {
		return "The text may have " + strconv.Itoa(l.MaxText) + " characters."
	}
	return "The body may have " + strconv.FormatInt(l.MaxBody, 10) + " bytes beside the files of a form, and " +
		strconv.Itoa(Inflation) + " times as many when it is decompressed."
}

// Cut enforces [Limits.MaxText]: it shortens or drops the pieces of a result, or makes the result one to refuse. It
// returns the number of characters before, which is exact only if it exceeds the limit.
func (l *Limits) Cut(e *Result) (length int) {
	limit := l.MaxText
	if limit == 0 {
		return 0
	}
	if length = Length(e.Pieces, limit); length <= limit {
		return length
	}
	switch l.MaxTextOverflow {
	case OverflowReject:
		e.Refuse = ErrTooLong
	case OverflowPass:
		e.Coverage, e.Reason, e.Pieces = Skipped, ReasonTooLong, nil
	case OverflowPrefix:
		e.Coverage, e.Pieces = Partial, firstCharacters(e.Pieces, limit)
	case OverflowSuffix:
		e.Coverage, e.Pieces = Partial, lastCharacters(e.Pieces, limit)
	case OverflowBoth:
		last := lastCharacters(slices.Clone(e.Pieces), limit/2)
		e.Coverage, e.Pieces = Partial, append(firstCharacters(e.Pieces, limit-limit/2), last...)
	}
	return length
}

// Length returns the number of characters of all texts. If there are not more than limit, it may return any number up
// to limit, which saves counting.
func Length(pieces []content.Piece, limit int) (n int) {
	for i := range pieces {
		// A text has no more characters than bytes, so that most are never counted.
		if pieces[i].Reading == 0 { // what is read in several ways counts once
			n += len(pieces[i].Text)
		}
	}
	if n <= limit {
		return n
	}
	n = 0
	for i := range pieces {
		if pieces[i].Reading == 0 {
			n += utf8.RuneCountInString(pieces[i].Text)
		}
	}
	return n
}

// First returns the first n characters of a text.
func First(text string, n int) string { return text[:offset(text, n)] }

// firstCharacters keeps the first n characters of all texts together.
func firstCharacters(pieces []content.Piece, n int) []content.Piece {
	for i := range pieces {
		length := utf8.RuneCountInString(pieces[i].Text)
		if length >= n {
			pieces[i].Text = First(pieces[i].Text, n)
			return pieces[:i+1]
		}
		n -= length
	}
	return pieces
}

// lastCharacters keeps the last n characters of all texts together.
func lastCharacters(pieces []content.Piece, n int) []content.Piece {
	for i := len(pieces) - 1; i >= 0; i-- {
		length := utf8.RuneCountInString(pieces[i].Text)
		if length >= n {
			pieces[i].Text = pieces[i].Text[offset(pieces[i].Text, length-n):]
			return pieces[i:]
		}
		n -= length
	}
	return pieces
}

// offset returns where the n-th character of a text begins, in bytes.
func offset(text string, n int) int {
	for i := range text {
		if n == 0 {
			return i
		}
		n--
	}
	return len(text)
}
