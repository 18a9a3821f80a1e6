// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux || (!amd64 && !arm64)

// Command runbook provokes what docs/runbook.md describes; it needs Linux.
package main

import "fmt"

func main() { fmt.Println("runbook: skipped, it needs Linux") }
