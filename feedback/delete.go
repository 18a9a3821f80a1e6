// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package feedback

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
)

// ErrNoCondition says that a [Selection] has no condition: it would select everything.
var ErrNoCondition = errors.New("at least one condition is required: an account, a time or the hash of a text")

// ErrTooMany says that more than [MaxDelete] records were to be deleted in one call. Nothing was deleted.
var ErrTooMany = fmt.Errorf("more than %d records to delete at once", MaxDelete)

// MaxDelete is how many records [Store.DeleteFeedback] deletes at most in one call.
const MaxDelete = 256

// Ref names a record.
type Ref struct {
	// Time and ID are those of the record.
	Time time.Time
	ID   string
}

// Ref returns what names the record.
func (r Record) Ref() Ref { return Ref{r.Time, r.ID} }

// TextHash is the SHA-256 of a text: of its bytes in UTF-8, without anything before or after them.
type TextHash [sha256.Size]byte

// HashText returns the hash of a text.
func HashText(text string) TextHash { return sha256.Sum256([]byte(text)) }

// ParseTextHash parses 64 hexadecimal digits.
func ParseTextHash(digits string) (hash TextHash, err error) {
	decoded, err := hex.DecodeString(digits)
	if err != nil || len(decoded) != len(hash) {
		return hash, fmt.Errorf("the SHA-256 of a text has %d hexadecimal digits", 2*len(hash))
	}
	copy(hash[:], decoded)
	return hash, nil
}

// String returns the hash as 64 hexadecimal digits.
func (h TextHash) String() string { return hex.EncodeToString(h[:]) }

// Selection selects records: those that fulfil all of its conditions. The zero value has none and is not valid.
type Selection struct {
	// Account is the id of the account that sent the record. Default: any.
	Account string
	// Before is an instant; the record was accepted before it. Default: any time.
	Before time.Time
	// TextHash is the hash of the record's Text. Default: any text. Texts in its Context are not looked at.
	TextHash *TextHash
}

// Validate returns [ErrNoCondition] for a selection without a condition.
func (s *Selection) Validate() error {
	if s.Account == "" && s.Before.IsZero() && s.TextHash == nil {
		return ErrNoCondition
	}
	return nil
}

// Selects reports whether the selection is valid and selects a record.
func (s *Selection) Selects(r *Record) bool {
	return s.Validate() == nil &&
		(s.Account == "" || r.Account == s.Account) &&
		(s.Before.IsZero() || r.Time.Before(s.Before)) &&
		(s.TextHash == nil || HashText(r.Text) == *s.TextHash)
}
