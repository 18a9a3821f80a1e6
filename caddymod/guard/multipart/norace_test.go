// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package multipart_test

// racing says that the race detector is on.
const racing = false
