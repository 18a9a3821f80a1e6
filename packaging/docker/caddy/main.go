// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Command caddy is the program of the image: Caddy with the modules of this checkout, as xcaddy would write it. The
// Dockerfile builds it with the go command alone, which compiles for other machines without any tool of this one's.
package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/caddy-moderation/caddy-moderation/caddymod"
)

func main() { caddycmd.Main() }
