// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

// Command nodes runs three servers on one store; it needs Linux.
package main

import "fmt"

func main() {
	fmt.Println("skipped: this needs Linux, where every loopback address can be listened on")
}
