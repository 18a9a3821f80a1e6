// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package engine

// embeddedThemes makes the judge of themes that is embedded in the binary.
func embeddedThemes() (ThemeJudge, error) { return noThemes{}, nil }

// noThemes finds nothing.
type noThemes struct{}

// JudgeThemes returns every distinct theme as not found.
func (noThemes) JudgeThemes(_ string, wanted []string) (results []ThemeResult, tokens int) {
	seen := make(map[string]bool, len(wanted))
	for _, w := range wanted {
		if !seen[w] {
			seen[w] = true
			results = append(results, ThemeResult{Theme: w})
		}
	}
	return results, 0
}
