#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The caddy-moderation authors
# SPDX-License-Identifier: Apache-2.0
#
# Builds ./caddy, a Caddy server with the moderation modules of this checkout compiled in, and runs it.
#
#   ./xcaddy.sh [build]        build ./caddy and check that every module is in it
#   ./xcaddy.sh run [flags]    build, then run it with Caddyfile.example on http://localhost:8080; flags go to "caddy run"
#   ./xcaddy.sh modules        list the Caddy modules of this checkout
#
# Only Go is needed. xcaddy is pinned in tools/go.mod, Caddy in go.mod: there is one place for each version. The binary is
# static (no cgo) and has Caddy's release tags. Modules are downloaded once; a build does not touch the network when
# everything is in Go's module cache.

set -eu

root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
module=github.com/caddy-moderation/caddy-moderation

say() { printf 'xcaddy.sh: %s\n' "$*" >&2; }
die() {
	say "$@"
	exit 1
}

# clean_environment keeps a caller's settings from changing what is built: flags meant for other projects, a workspace above
# this folder, and xcaddy's own switches.
clean_environment() {
	export GOFLAGS=-buildvcs=false GOWORK=off CGO_ENABLED=0
	unset XCADDY_GO_BUILD_FLAGS XCADDY_GO_MOD_FLAGS XCADDY_RACE_DETECTOR XCADDY_DEBUG XCADDY_SKIP_BUILD XCADDY_SETCAP

	# The import path of the modules is one on GitHub, but this checkout is what gets built. Without the settings below the
	# go command would first ask the network for other versions.
	local noproxy
	noproxy=$(go env GONOPROXY)
	export GONOPROXY="$module${noproxy:+,$noproxy}"
	export GOVCS="$module:off${GOVCS:+,$GOVCS}"
}

# caddy_version prints the version of Caddy that go.mod names.
caddy_version() {
	local want out
	want=$(sed -n 's/^go //p' "$root/go.mod")
	if ! out=$(cd "$root" && go list -m -f '{{.Version}}' github.com/caddyserver/caddy/v2 2>&1); then
		printf '%s\n' "$out" >&2
		die "Go $want or newer is needed (https://go.dev/dl/); this is $(GOTOOLCHAIN=local go env GOVERSION)"
	fi
	printf '%s\n' "$out"
}

# our_version prints what git says of this checkout: its tag, or the last one and the number of commits since, or the
# commit. It prints nothing without git, and where the checkout is only a folder in somebody else's.
our_version() {
	local found
	# The checkout may belong to another user, as in containers; git reads it all the same when told so on the command line.
	git() { command git -c safe.directory="$root" -C "$root" "$@" 2>/dev/null; }
	[ -z "$(git rev-parse --show-prefix || echo none)" ] || return 0
	found=$(git describe --tags --always --dirty) || return 0
	# It becomes part of the flags of the linker.
	[[ ! $found =~ [^A-Za-z0-9._+/-] ]] || return 0
	printf '%s\n' "$found"
}

# build_flags prints the flags of "go build", as xcaddy wants them: in shell quotes. xcaddy drops its own -trimpath,
# -ldflags and -tags when it is given any, so these are all. "caddy version" begins with Caddy's version, which is what
# programs look for there.
build_flags() {
	local ours
	ours=$(our_version)
	ours=${ours:-devel}
	printf "%s" '-trimpath -tags=nobadger,nomysql,nopgx "-ldflags=-w -s' \
		" -X $module/caddymod/internal/version.linked=$ours" \
		" -X 'github.com/caddyserver/caddy/v2.CustomVersion=$1 (caddy-moderation $ours); Caddy'" '"'
}

xcaddy() {
	# On macOS xcaddy makes its temporary folder in the working directory. Git ignores .cache.
	mkdir -p "$root/.cache"
	cd "$root/.cache" && go tool -modfile="$root/tools/go.mod" xcaddy "$@"
}

build() {
	local version log
	command -v go >/dev/null || die "Go is not installed; get it from https://go.dev/dl/"
	clean_environment
	version=$(caddy_version)
	XCADDY_GO_BUILD_FLAGS=$(build_flags "$version")
	export XCADDY_GO_BUILD_FLAGS
	say "building ./caddy with Caddy $version; the first build takes minutes"
	set -- build "$version" --with "$module/caddymod" --replace "$module=$root" --output "$root/caddy"

	# First without the network: that takes seconds when nothing has changed, and fails when a module must be downloaded.
	mkdir -p "$root/.cache"
	log=$root/.cache/xcaddy.log
	if (export GOPROXY=off && xcaddy "$@") >"$log" 2>&1; then
		:
	elif grep -q -e GOPROXY=off -e 'missing go.sum entry' -e 'verifying ' "$log"; then
		say "downloading modules"
		(xcaddy "$@") >&2
	else
		cat "$log" >&2
		die "the build failed"
	fi
	check "$version"
	say "built $root/caddy"
}

# modules lists the ids of the Caddy modules in the sources. A test compares them with what registers itself.
modules() {
	find "$root/caddymod" -name '*.go' ! -name '*_test.go' \
		-exec sed -n 's/^[[:space:]]*ID:[[:space:]]*"\([a-z_.]*\)",$/\1/p' {} + | LC_ALL=C sort
}

# check fails when a module is not in the binary, or when it does not name Caddy's version and ours.
check() {
	local have want name missing=
	case $("$root/caddy" version) in
	"$1 (caddy-moderation "*) ;;
	*) die "./caddy does not name its versions; did the flags of the build change?" ;;
	esac
	have=$("$root/caddy" list-modules)
	want=$(modules)
	[ -n "$want" ] || die "no modules found in $root/caddymod"
	for name in $want; do
		grep -q -x -F -e "$name" <<<"$have" || missing="$missing $name"
	done
	[ -z "$missing" ] || die "modules missing from ./caddy:$missing"
}

case ${1:-build} in
build)
	[ $# -le 1 ] || die "build takes no arguments"
	build
	;;
run)
	shift
	build
	cd "$root"
	exec ./caddy run --config Caddyfile.example --adapter caddyfile "$@"
	;;
modules)
	[ $# -le 1 ] || die "modules takes no arguments"
	modules
	;;
*)
	die "unknown command '$1'; use: ./xcaddy.sh [build|run|modules]"
	;;
esac
