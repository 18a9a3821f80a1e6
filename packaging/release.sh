#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The caddy-moderation authors
# SPDX-License-Identifier: Apache-2.0
#
# Builds the files of a release from the commit that is checked out; scripts/release/main.go says how.
#
#   packaging/release.sh v0.1.0 [folder]                   all systems, into dist/v0.1.0 or the folder
#   packaging/release.sh -only linux/amd64 v0.1.0 [folder]  one system

set -eu
caller=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.."
command -v go >/dev/null || { echo "release.sh: Go is not installed; get it from https://go.dev/dl/" >&2; exit 1; }
GOFLAGS=-buildvcs=false GOWORK=off exec go run ./scripts/release -relative-to "$caller" "$@"
