// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"

	"github.com/caddy-moderation/caddy-moderation/scripts/internal/node"
)

// nodeFolder holds the scripts and their package.json, relative to the root of the repository.
const nodeFolder = "scripts/clients/node"

// script is a client that is a Node program. It prints its checks as lines "ok: what", "FAIL: what: why" and "skip:
// what: why", see node/harness.mjs, and finds the site in its environment.
func script(name string) func(context.Context, *report, *site) error {
	return func(ctx context.Context, r *report, s *site) error {
		binary, why, err := node.Ready(ctx, nodeFolder)
		if err != nil {
			return err
		}
		p := &program{command: []string{binary, name}, dir: nodeFolder, lacks: why}
		p.env = append(os.Environ(), "SITE="+s.URL, "SITE_TLS="+s.TLS, "SITE_PIN="+s.Pin, "APP="+s.app.URL,
			"FINE="+fine, "VILE="+vile,
			"FINE_STORY="+fineStory, "FOLDER="+s.folder)
		return p.report(ctx, r)
	}
}
