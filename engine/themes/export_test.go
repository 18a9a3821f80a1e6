// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package themes

import "github.com/caddy-moderation/caddy-moderation/engine/themes/lexicon"

// Reopen unpacks the embedded lexicon once more.
func Reopen() error {
	_, err := lexicon.Open(embedded)
	return err
}

// Cached is the memory in bytes that the screener's prepared themes take.
func (s *Screener) Cached() uint64 {
	s.plans.CleanUp()
	return s.plans.WeightedSize()
}
