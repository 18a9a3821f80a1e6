// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package stored has the JSON in which stores keep accounts, keys and feedback.
package stored

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage"
)

// Append appends v as JSON. Characters are not escaped: JSON that came from a caller must come back unchanged.
func Append(b []byte, v any) ([]byte, error) {
	buffer := bytes.NewBuffer(b)
	e := json.NewEncoder(buffer)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buffer.Bytes(), []byte("\n")), nil
}

// Decode decodes JSON. Its error wraps storage.ErrDamaged.
func Decode(b []byte, v any) error {
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%w: %w", storage.ErrDamaged, err)
	}
	return nil
}

// Account is an account as it is stored, with the incarnation, which its JSON leaves out elsewhere.
type Account struct {
	quota.Account
	Incarnation string `json:"incarnation,omitempty"`
}

// Of returns the account as it is stored.
func Of(a quota.Account) Account { return Account{a, a.Incarnation} }
