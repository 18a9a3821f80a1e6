// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package themes

import "github.com/caddy-moderation/caddy-moderation/engine/themes/lexicon"

// Reopen unpacks the embedded lexicon once more.
func Reopen() error {
	_, err := lexicon.Open(embedded)
	return err
}

// Cached is the memory in bytes that the judge's prepared themes take.
func (j *Screener) Cached() uint64 {
	j.plans.CleanUp()
	return j.plans.WeightedSize()
}
