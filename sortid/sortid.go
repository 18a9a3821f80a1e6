// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package sortid makes ids that sort by time and say nothing else: those of corrections and of the review queue.
package sortid

import (
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"io"
	"time"
)

// Length is that of an id without its prefix.
const Length = 26

// encoding keeps the order of what it encodes, and its characters need no escaping anywhere.
var encoding = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

// New returns an id for what happens at now: the prefix and 26 characters of 0-9 and a-v, which encode the time in
// milliseconds (48 bits) and 80 bits of random. Ids with one prefix sort by time, to the millisecond. An error is that
// of random.
func New(prefix string, now time.Time, random io.Reader) (string, error) {
	var id [16]byte
	binary.BigEndian.PutUint64(id[:8], uint64(now.UnixMilli())<<16)
	if _, err := io.ReadFull(random, id[6:]); err != nil {
		return "", fmt.Errorf("reading random bytes: %w", err)
	}
	return prefix + encoding.EncodeToString(id[:]), nil
}

// Time returns the time in an id with a prefix, to the millisecond in UTC, and whether it is one.
func Time(prefix, id string) (time.Time, bool) {
	if len(id) != len(prefix)+Length || id[:len(prefix)] != prefix {
		return time.Time{}, false
	}
	b, err := encoding.DecodeString(id[len(prefix):])
	if err != nil {
		return time.Time{}, false
	}
	return time.UnixMilli(int64(binary.BigEndian.Uint64(b[:8]) >> 16)).UTC(), true
}
