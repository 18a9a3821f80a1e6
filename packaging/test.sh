#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The caddy-moderation authors
# SPDX-License-Identifier: Apache-2.0
#
# Builds a release of this checkout as it is, committed or not, and installs it in a small Debian without Go: the package
# and the archive. test-inside.sh says what is tried there. In the end the release is built again in another folder, and
# must have the same bytes.
#
#   packaging/test.sh              what CI runs
#   packaging/test.sh -quick DIR   with the files of a release that is in DIR, without building one
#
# The Debian is made once by mmdebstrap and kept in the user's cache. Where that is not possible (no Debian, not root, no
# namespaces, no network), a line says so, and nothing is tested.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf 'packages: %s\n' "$*"; }
skip() {
	say "skipped: $*"
	exit 0
}

suite=bookworm
mirror=http://deb.debian.org/debian

[ "$(uname)" = Linux ] && [ -e /etc/debian_version ] || skip "Debian packages are tried on Debian"
[ "$(id -u)" = 0 ] || skip "only root can make another root folder"
unshare --mount --pid --net --ipc --uts --fork true 2>/dev/null || skip "this machine permits no namespaces"
machine=$(dpkg --print-architecture)
case $machine in
amd64 | arm64) target=linux/$machine ;;
armhf) target=linux/armv7 ;;
*) skip "no release is built for $machine" ;;
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The root folder.
cache=${XDG_CACHE_HOME:-$HOME/.cache}/caddy-moderation
root=$cache/$suite-$machine-1.tar
if [ ! -e "$root" ]; then
	if ! command -v mmdebstrap >/dev/null || [ ! -e /usr/share/keyrings/debian-archive-keyring.gpg ]; then
		say "installing mmdebstrap"
		{ apt-get update && apt-get install -y --no-install-recommends mmdebstrap debian-archive-keyring; } \
			>"$work/apt.log" 2>&1 || { tail -n 3 "$work/apt.log"; skip "mmdebstrap cannot be installed"; }
	fi
	say "making a small Debian ($suite); that takes minutes, once"
	mkdir -p "$cache"
	if ! mmdebstrap --mode=root --format=tar --variant=minbase --include=adduser,ca-certificates,curl,iproute2 \
		--keyring=/usr/share/keyrings/debian-archive-keyring.gpg \
		$suite "$root.$$" $mirror >"$work/mmdebstrap.log" 2>&1; then
		rm -f "$root.$$"
		tail -n 3 "$work/mmdebstrap.log"
		curl -fsS -o "$work/release" $mirror/dists/$suite/Release 2>/dev/null ||
			skip "$mirror is out of reach"
		exit 1
	fi
	mv "$root.$$" "$root"
fi

# The release.
if [ "${1-}" = -quick ]; then
	files=$(cd "$2" && pwd)
else
	# What is in the checkout, under a fixed time and name: what has not changed is not compiled again.
	copy() {
		mkdir "$1"
		git ls-files -z --cached --others --exclude-standard |
			while IFS= read -r -d '' file; do
				[ ! -e "$file" ] || printf '%s\0' "$file"
			done | tar -c --null --files-from=- | tar -x -C "$1"
		GIT_AUTHOR_DATE='2026-01-02T03:04:05Z' GIT_COMMITTER_DATE='2026-01-02T03:04:05Z' bash -c '
			cd "$1" && git init -q && git add -A &&
			git -c user.name=test -c user.email=test@localhost -c commit.gpgsign=false commit -q --no-verify -m test' - "$1"
	}
	copy "$work/one"
	say "building the release"
	"$work/one/packaging/release.sh" -only "$target" v0.0.1 "$work/files" >"$work/release.log" 2>&1 ||
		{ cat "$work/release.log"; exit 1; }
	files=$work/files
fi
deb=$(ls "$files"/caddy-moderation_*_"$machine".deb)
tar=$(ls "$files"/caddy-moderation_*_"${target//\//_}".tar.gz)

# The next version is the same program in a package with a higher number.
dpkg-deb -R "$deb" "$work/next"
sed -i 's/^Version: .*/Version: 99.0.0-1/' "$work/next/DEBIAN/control"
dpkg-deb --root-owner-group -Zgzip -z1 -b "$work/next" "$work/next.deb" >"$work/next.log"

if command -v lintian >/dev/null; then
	say "lintian"
	[ "${1-}" = -quick ] || lintian --fail-on error,warning --allow-root "$deb"
else
	say "lintian is not installed: the package is not checked by it"
fi
if command -v systemd-analyze >/dev/null; then
	say "systemd-analyze"
	mkdir -p "$work/unit/usr/bin"
	# The commands of the unit must exist for it.
	cp packaging/caddy-moderation "$work/unit/usr/bin/"
	mkdir -p "$work/unit/usr/lib/systemd/system"
	cp packaging/systemd/caddy-moderation.service "$work/unit/usr/lib/systemd/system/"
	cp /usr/lib/systemd/system/*.target /usr/lib/systemd/system/*.slice /usr/lib/systemd/system/*.socket \
		"$work/unit/usr/lib/systemd/system/" 2>/dev/null || true
	systemd-analyze verify --root="$work/unit" --man=no --recursive-errors=no caddy-moderation.service
	systemd-analyze security --offline=yes --threshold=25 packaging/systemd/caddy-moderation.service |
		tail -n 1
fi

say "installing in a Debian without Go"
mkdir "$work/root"
tar -x -f "$root" -C "$work/root"
echo "127.0.0.1 localhost" >"$work/root/etc/hosts"
mkdir "$work/root/files"
cp "$deb" "$work/root/files/this.deb"
mv "$work/next.deb" "$work/root/files/next.deb"
cp "$tar" "$work/root/files/this.tar.gz"
cp packaging/test-inside.sh "$work/root/files/"
# Its own network has no way out: an installation and the service need none.
unshare --mount --pid --net --ipc --uts --fork --kill-child bash -c '
	set -e
	mount --make-rprivate /
	mount -t proc proc "$1/proc"
	mount -t tmpfs tmpfs "$1/dev"
	mount -t tmpfs tmpfs "$1/run"
	for device in "null 3" "zero 5" "full 7" "random 8" "urandom 9" "tty 0"; do
		major=1
		[ "${device% *}" != tty ] || major=5
		mknod -m 666 "$1/dev/${device% *}" c $major "${device#* }"
	done
	ln -s /proc/self/fd "$1/dev/fd"
	exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
		chroot "$1" bash /files/test-inside.sh' - "$work/root"

if [ "${1-}" != -quick ]; then
	say "building the release again, elsewhere"
	cp -a "$work/one" "$work/another-folder"
	(cd / && "$work/another-folder/packaging/release.sh" -only "$target" v0.0.1 "$work/again" >"$work/again.log" 2>&1) ||
		{ cat "$work/again.log"; exit 1; }
	diff "$files/SHA256SUMS" "$work/again/SHA256SUMS"
fi
say "passed"
