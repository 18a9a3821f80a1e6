// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package feedback

import (
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"io"
	"time"
)

// idPrefix is the prefix of ids of records, so that they are not mistaken for other ids.
const idPrefix = "fb_"

// idEncoding keeps the order of what it encodes, and its characters need no escaping anywhere.
var idEncoding = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

// NewID returns an id for a [Record] that is accepted at now: "fb_" and 26 characters of 0-9 and a-v, which encode
// the time in milliseconds (48 bits) and 80 bits of random. Ids sort by time, to the millisecond. An error is that of
// random.
func NewID(now time.Time, random io.Reader) (string, error) {
	var id [16]byte
	binary.BigEndian.PutUint64(id[:8], uint64(now.UnixMilli())<<16)
	if _, err := io.ReadFull(random, id[6:]); err != nil {
		return "", fmt.Errorf("reading random bytes: %w", err)
	}
	return idPrefix + idEncoding.EncodeToString(id[:]), nil
}
