// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build race

package language_test

// raceEnabled says whether the race detector is on, which slows some things down more than others.
const raceEnabled = true
