#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The caddy-moderation authors
# SPDX-License-Identifier: Apache-2.0
#
# Prints the folder of the programs prometheus and promtool. Where they are not installed, it unpacks Debian's package
# below .cache, without installing it, so that no daemon starts. It prints nothing, and why to standard error, where that
# is not possible.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

if command -v prometheus >/dev/null && command -v promtool >/dev/null; then
	dirname "$(command -v prometheus)"
	exit
fi
folder=$PWD/.cache/prometheus
if [ ! -x "$folder/usr/bin/promtool" ]; then
	command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || {
		echo "Prometheus is not installed, and this is no Debian" >&2
		exit
	}
	rm -rf "$folder"
	mkdir -p "$folder"
	(
		cd "$folder"
		apt-get download prometheus >log 2>&1 || { apt-get update && apt-get download prometheus; } >log 2>&1
		dpkg-deb -x prometheus_*.deb .
		rm -f prometheus_*.deb
	) || {
		echo "Prometheus is not installed and cannot be downloaded: $(tail -n 1 "$folder/log" 2>/dev/null)" >&2
		exit
	}
fi
"$folder/usr/bin/promtool" --version >/dev/null 2>&1 || {
	echo "the package of Prometheus does not run here" >&2
	exit
}
echo "$folder/usr/bin"
