#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The caddy-moderation authors
# SPDX-License-Identifier: Apache-2.0
#
# Gets ready what the tests of the desk need beside Go: a Chromium, and the rules of axe-core, the path of whose file it
# prints.
#
# A missing Chromium is installed by apt-get where that needs no password: as root, or in CI by sudo. axe-core is fetched
# from the npm registry into .cache, where it stays: it is under the MPL-2.0, and no part of this repository. What is done
# is said on standard error, and so is what is not possible; the tests go on without it.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# The version of axe-core, and the SHA-256 of its axe.min.js.
axe_version=4.14.1
axe_sum=29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c

say() { printf 'scripts/desk/install.sh: %s\n' "$*" >&2; }

has_chromium() {
	[ -z "${CHROMIUM:-}" ] || return 0
	local name
	for name in chromium chromium-browser google-chrome headless-shell; do
		! command -v $name >/dev/null || return 0
	done
	return 1
}

# Who may install packages.
as=()
may_install() {
	command -v apt-get >/dev/null || return 1
	[ "$(id -u)" != 0 ] || return 0
	as=(sudo -n)
	[ -n "${CI:-}" ] && sudo -n true 2>/dev/null
}

# Ubuntu's package chromium is a snap, which neither containers nor headless tests can use.
install_chromium() {
	if ! may_install || grep -q '^ID=ubuntu' /etc/os-release 2>/dev/null; then
		say "there is no Chromium, so nothing is tried in a browser. Install one: apt-get install chromium (Debian)," \
			"dnf install chromium or apk add chromium; CHROMIUM names one that is not in PATH"
		return
	fi
	say "Chromium is missing: apt-get install chromium"
	local log install=("${as[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends chromium)
	log=$(mktemp)
	"${install[@]}" >"$log" 2>&1 || { "${as[@]}" apt-get update && "${install[@]}"; } >"$log" 2>&1 ||
		say "it cannot be installed, so nothing is tried in a browser: $(tail -n 1 "$log")"
	rm -f "$log"
}

# sound says whether the file of axe-core is the one that is wanted.
sound() { [ "$(sha256sum "$1" 2>/dev/null | cut -d ' ' -f 1)" = $axe_sum ]; }

# fetch_axe fetches axe-core. Nothing of the package is run but axe.min.js, in the pages that are tried.
fetch_axe() {
	local folder=$PWD/.cache/axe log
	log=$folder/log
	! sound "$folder/axe.min.js" || return 0
	command -v npm >/dev/null || {
		say "npm is not installed, so the rules of axe-core are not tried"
		return
	}
	rm -rf "$folder"
	mkdir -p "$folder"
	npm pack "axe-core@$axe_version" --pack-destination "$folder" --fetch-retries=1 --fetch-timeout=60000 >"$log" 2>&1 || {
		say "npm cannot fetch axe-core, so its rules are not tried: $(grep -m 1 'npm error' "$log" || tail -n 1 "$log")"
		return
	}
	tar -xzf "$folder/axe-core-$axe_version.tgz" -C "$folder" --strip-components=1 package/axe.min.js package/LICENSE
	rm "$folder/axe-core-$axe_version.tgz"
	sound "$folder/axe.min.js" || {
		say "axe.min.js of axe-core $axe_version is not the one that was pinned; its rules are not tried"
		rm -rf "$folder"
		exit 1
	}
	say "axe-core $axe_version was fetched by npm"
}

has_chromium || install_chromium
if [ -n "${AXE:-}" ]; then
	echo "$AXE"
	exit
fi
fetch_axe
[ ! -f .cache/axe/axe.min.js ] || echo "$PWD/.cache/axe/axe.min.js"
