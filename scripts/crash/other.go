// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux || (!amd64 && !arm64)

// Command crash breaks the server and its disk; it needs Linux.
package main

import "fmt"

func main() { fmt.Println("crash: skipped, it needs Linux") }
