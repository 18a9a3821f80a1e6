// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package feedback defines corrections, and the store that keeps them. A correction is a score that a client says is
// wrong: the text, the scores that it suggests, and what the model said at that moment.
//
// Corrections belong to the service, not to an engine: whatever engine is configured, the API writes them into the
// store, with an id of [NewID], and the operator exports them, one JSON object per line. A correction never changes a
// score by itself. It is kept so that an operator can review it and a later training can use it.
package feedback

import (
	"context"
	"errors"
	"iter"
	"time"
)

// Errors of a [Store].
var (
	// ErrTooLarge says that a record is longer than [MaxRecordBytes] when encoded. Nothing was stored.
	ErrTooLarge = errors.New("feedback record too large")
	// ErrBound says that the record does not fit into what is left of the account's bound for the day. Nothing was
	// stored.
	ErrBound = errors.New("feedback bound of the day reached")
)

// MaxRecordBytes is the maximum length of a record that a store takes: 64 KiB, encoded as for [Bound].
const MaxRecordBytes = 64 << 10

// Record is a correction as it is kept. Its JSON form is a line of the export.
type Record struct {
	// ID is unique and sorts by time; see [NewID].
	ID string `json:"id"`
	// Time is when the record was accepted, in UTC.
	Time time.Time `json:"time"`
	// Account and Key are the ids of the caller's account and of the key it used. Never the key itself.
	Account string `json:"account"`
	Key     string `json:"key"`
	// Text is the text that was scored.
	Text string `json:"text"`
	// Scores are the suggested scores by attribute name, as they were sent.
	Scores map[string]AttributeScore `json:"scores"`
	// ModelVersion and ModelScores say which model was live and how it scored the text at that moment, by attribute
	// or category name.
	ModelVersion string             `json:"model_version"`
	ModelScores  map[string]float64 `json:"model_scores"`
	// Community, Session, Languages, ClientToken and Context are what the caller added, each absent when not sent.
	Community   string   `json:"community,omitempty"`
	Session     string   `json:"session,omitempty"`
	Languages   []string `json:"languages,omitempty"`
	ClientToken string   `json:"client_token,omitempty"`
	// Context is the caller's context object, as JSON, unchanged except for insignificant space.
	Context RawJSON `json:"context,omitempty"`
}

// RawJSON is a JSON value that is kept as it was written.
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

// SpanScore is a score of a part of the text. Begin and End count UTF-16 code units; End is exclusive.
type SpanScore struct {
	Begin int   `json:"begin"`
	End   int   `json:"end"`
	Score Score `json:"score"`
}

// Bound limits what one account may store on one UTC day. Zero means no limit. Bytes counts the JSON form of a
// record, with characters such as "<" not escaped ([json.Encoder.SetEscapeHTML]) and without a line feed.
type Bound struct {
	Records int64
	Bytes   int64
}

// KeptDays is for how many days a store remembers what an account has used of its bound. They are kept as windows are
// kept by package quota: the first record on a day evicts the days before it but the newest KeptDays, and the days
// after it, which a clock that was ahead has left, but the newest KeptDays. Nothing is forgotten because a clock says
// so.
const KeptDays = 3

// Store keeps records. The rules for all methods are those of quota.Store: concurrency, order, contexts, unavailable
// stores, damaged records, values, and sequences.
type Store interface {
	// AppendFeedback keeps a record. When it returns nil, the record survives the loss of power, and so does its
	// count against the bound. Otherwise nothing is kept, and the error wraps
	//
	//   - [ErrTooLarge] if the encoded record is longer than [MaxRecordBytes];
	//   - [ErrBound] if the record would exceed the bound of its account on the UTC day of its time;
	//   - quota.ErrExists if a record with the same time and id is kept;
	//   - quota.ErrInvalid if the record has no id or cannot be encoded.
	//
	// The bound is that of this call; the store remembers only what was used. It is exact under concurrency and
	// across restarts: with a bound of N records, N are kept. DeleteAccount of package quota resets what was used.
	// The store does not look for the account, which may be declared in the configuration.
	AppendFeedback(ctx context.Context, record Record, bound Bound) error
	// Feedback yields the records of an account, or all records if account is empty, in the order of their times,
	// then of their ids. It does not hold all of them in memory.
	Feedback(ctx context.Context, account string) iter.Seq2[Record, error]
	// DeleteFeedback deletes records, at most [MaxDelete], and returns how many of them were kept until then. A record
	// that concurrent calls delete is counted by one of them. When it returns nil, none of the records is kept, and
	// that survives the loss of power. Otherwise all of them are kept as before; an error wraps [ErrTooMany] if there
	// are too many. A damaged record is deleted like others.
	//
	// What was used of a bound stays used. What the store wrote of a deleted record on a disk need not be gone when
	// DeleteFeedback returns: a store says when it is. Backups that were made before hold the record.
	DeleteFeedback(ctx context.Context, records ...Ref) (deleted int, err error)
}
