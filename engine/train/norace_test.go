// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package train_test

// racing says whether the tests run with the race detector.
const racing = false
