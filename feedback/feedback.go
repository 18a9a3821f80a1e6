// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package feedback describes corrections of scores: what people say a score should have been.
//
// A correction never changes a live score by itself. It is kept, together with what the model said at that moment, so
// that a later training can use it and an operator can judge it.
package feedback

import (
	"context"
	"errors"
	"iter"
	"time"
)

// Errors of a [Store].
var (
	// ErrTooLarge says that one record is larger than the store takes ([MaxRecordBytes] when encoded).
	ErrTooLarge = errors.New("feedback record too large")
	// ErrBound says that the account has used up its bound for the day. Nothing was stored.
	ErrBound = errors.New("feedback bound of the day reached")
)

// MaxRecordBytes is the largest encoded record that a store takes, 64 KiB.
const MaxRecordBytes = 64 << 10

// Record is one correction as it is kept. Its JSON form is a line of the export.
type Record struct {
	// ID is unique and sorts by time.
	ID string `json:"id"`
	// Time is when the record was accepted, in UTC.
	Time time.Time `json:"time"`
	// Account and Key are the ids of the caller's account and of the key it used. Never the key itself.
	Account string `json:"account"`
	Key     string `json:"key"`
	// Text is the comment that was scored.
	Text string `json:"text"`
	// Scores are the suggested scores by attribute name, as they were sent.
	Scores map[string]AttributeScore `json:"scores"`
	// ModelVersion and ModelScores say which model was live and what it gave for the text at that moment, by
	// attribute or category name.
	ModelVersion string             `json:"model_version"`
	ModelScores  map[string]float64 `json:"model_scores"`
	// Community, Session, Languages, ClientToken and Context are what the caller added, each absent when not sent.
	Community   string   `json:"community,omitempty"`
	Session     string   `json:"session,omitempty"`
	Languages   []string `json:"languages,omitempty"`
	ClientToken string   `json:"client_token,omitempty"`
	// Context is the caller's context object, as JSON, unchanged but for insignificant space.
	Context RawJSON `json:"context,omitempty"`
}

// RawJSON is a JSON value that is kept as it is.
type RawJSON []byte

// MarshalJSON returns r, or null when it is empty.
func (r RawJSON) MarshalJSON() ([]byte, error) {
	if len(r) == 0 {
		return []byte("null"), nil
	}
	return r, nil
}

// UnmarshalJSON keeps a copy of data.
func (r *RawJSON) UnmarshalJSON(data []byte) error {
	*r = append((*r)[:0], data...)
	return nil
}

// AttributeScore is a suggested score of one attribute: for the whole text, for spans of it, or both.
type AttributeScore struct {
	Summary *Score      `json:"summary,omitempty"`
	Spans   []SpanScore `json:"spans,omitempty"`
}

// Score is a value with its type, which is "PROBABILITY".
type Score struct {
	Value float64 `json:"value"`
	Type  string  `json:"type"`
}

// SpanScore is a score of a part of the text, in UTF-16 code units, End exclusive.
type SpanScore struct {
	Begin int   `json:"begin"`
	End   int   `json:"end"`
	Score Score `json:"score"`
}

// Bound limits what one account may store on one UTC day. Zero means no limit.
type Bound struct {
	Records int64
	Bytes   int64
}

// KeptDays is for how many days a store remembers, of an account, what was used of its bound: beside a new day the newest
// before it, and as many after it, which a clock that was ahead left behind. Nothing is forgotten by time alone.
const KeptDays = 3

// Store keeps records.
type Store interface {
	// AppendFeedback keeps the record. When it returns nil the record survives power loss. It returns [ErrTooLarge]
	// for an oversized record and [ErrBound] when the account's bound of the record's day (UTC) would be exceeded; then nothing is
	// kept. The bound is exact under concurrency and across restarts.
	AppendFeedback(ctx context.Context, record Record, bound Bound) error
	// Feedback yields the records of the given account, or of all accounts when account is empty, oldest first, without holding them all in memory.
	Feedback(ctx context.Context, account string) iter.Seq2[Record, error]
}
