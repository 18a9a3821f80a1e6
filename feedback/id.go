// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package feedback

import (
	"io"
	"time"

	"github.com/caddy-moderation/caddy-moderation/sortid"
)

// idPrefix is the prefix of ids of records, so that they are not mistaken for other ids.
const idPrefix = "fb_"

// NewID returns an id for a [Record] that is accepted at now: "fb_" and 26 characters of 0-9 and a-v, which encode
// the time in milliseconds (48 bits) and 80 bits of random. Ids sort by time, to the millisecond. An error is that of
// random.
func NewID(now time.Time, random io.Reader) (string, error) { return sortid.New(idPrefix, now, random) }
