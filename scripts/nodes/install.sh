#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The caddy-moderation authors
# SPDX-License-Identifier: Apache-2.0
#
# Prints the paths of redis-server and valkey-server, one a line, for tests that need a server to talk to.
#
# A missing redis-server is installed by apt-get where that needs no password: as root, or in CI by sudo. No service is
# started. A missing valkey-server is unpacked from Debian's or Ubuntu's package below .cache, without being installed. What
# is done is said on standard error, and so is what is not possible, and how to do it by hand.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

say() { printf 'scripts/nodes/install.sh: %s\n' "$*" >&2; }

# Who may install packages.
as=()
may_install() {
	command -v apt-get >/dev/null || return 1
	[ "$(id -u)" != 0 ] || return 0
	as=(sudo -n)
	[ -n "${CI:-}" ] && sudo -n true 2>/dev/null
}

install_redis() {
	if ! may_install; then
		say "redis-server is not installed. Install it: apt-get install redis-server (Debian, Ubuntu)," \
			"dnf install redis, apk add redis or brew install redis"
		return
	fi
	say "redis-server is missing: apt-get install redis-server"
	# Debian starts services of packages that are installed, unless this file forbids it.
	local policy=/usr/sbin/policy-rc.d ours='' log
	log=$(mktemp)
	if [ ! -e $policy ]; then
		ours=1
		printf '#!/bin/sh\nexit 101\n' | "${as[@]}" tee $policy >/dev/null
		"${as[@]}" chmod +x $policy
	fi
	local install=("${as[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends redis-server)
	"${install[@]}" >"$log" 2>&1 || { "${as[@]}" apt-get update && "${install[@]}"; } >"$log" 2>&1 ||
		say "it cannot be installed: $(tail -n 1 "$log")"
	[ -z "$ours" ] || "${as[@]}" rm -f $policy
	rm -f "$log"
}

# unpack_valkey unpacks the package below .cache. Debian 12 has it among the backports.
unpack_valkey() {
	local folder=$PWD/.cache/valkey options=() release
	[ ! -x "$folder/usr/bin/valkey-server" ] || return 0
	command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || {
		say "valkey-server is not installed, and this is no Debian: its tests are left out"
		return
	}
	rm -rf "$folder"
	mkdir -p "$folder/lists/partial" "$folder/cache/archives/partial"
	release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
	if [ "$release" = bookworm ]; then
		echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" \
			"http://deb.debian.org/debian bookworm-backports main" >"$folder/sources.list"
		options=(-o Dir::Etc::sourcelist="$folder/sources.list" -o Dir::Etc::sourceparts=/dev/null
			-o Dir::State::lists="$folder/lists" -o Dir::Cache="$folder/cache")
	fi
	(
		cd "$folder"
		{
			[ ${#options[@]} = 0 ] || apt-get "${options[@]}" update
			apt-get "${options[@]}" download valkey-server valkey-tools
		} >log 2>&1
		for package in valkey-*.deb; do dpkg-deb -x "$package" .; done
		rm -rf lists cache ./*.deb
	) || {
		say "valkey-server is not installed, and no package offers it (its tests are left out):" \
			"$(tail -n 1 "$folder/log" 2>/dev/null)"
		rm -rf "$folder"
		return
	}
	say "valkey-server is missing: the package valkey-server is unpacked in $folder"
}

command -v redis-server >/dev/null || install_redis
command -v redis-server || true
if ! command -v valkey-server; then
	unpack_valkey
	valkey=$PWD/.cache/valkey/usr/bin/valkey-server
	if [ -x "$valkey" ]; then
		if "$valkey" --version >/dev/null 2>&1; then
			echo "$valkey"
		else
			say "the package of valkey-server does not run here: $("$valkey" --version 2>&1 | tail -n 1)"
		fi
	fi
fi
