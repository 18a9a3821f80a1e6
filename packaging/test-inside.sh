#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The caddy-moderation authors
# SPDX-License-Identifier: Apache-2.0
#
# test.sh runs this as root in a small Debian: installs the package, runs what the unit runs as its user, uses the
# service, upgrades, removes and purges it, and runs the program of the archive.

set -euo pipefail

step() { printf 'packages:   %s\n' "$*"; }
fail() {
	printf 'packages: FAILED: %s\n' "$*"
	for log in /tmp/server.log /tmp/apt.log; do
		[ ! -e $log ] || { printf -- '-- %s\n' $log; tail -n 20 $log; }
	done
	exit 1
}
# holds fails unless the first text contains the second.
holds() { [[ $1 == *"$2"* ]] || fail "wanted \"$2\" in: $1"; }
# same fails unless two texts are equal.
same() { [ "$1" = "$2" ] || fail "$3: got \"$1\", want \"$2\""; }

ip link set lo up
! command -v go >/dev/null || fail "Go is installed here"
unit=/lib/systemd/system/caddy-moderation.service
command=caddy-moderation

# inventory lists all files that a package could have left; dpkg's, apt's and adduser's records are theirs.
inventory() {
	find / -xdev \( -path /proc -o -path /dev -o -path /run -o -path /tmp -o -path /files -o -path /var/lib/dpkg -o \
		-path /var/cache -o -path /var/log -o -path /var/lib/apt -o -path /var/lib/caddy-moderation -o \
		-path '/etc/*-' \) -prune -o -print | sort
}

apt() { apt-get -y -q --no-install-recommends "$@" >/tmp/apt.log 2>&1 || fail "apt-get $*"; }

# setting prints what the unit says about something, the last time it does.
setting() { sed -n "s/^$1=//p" $unit | tail -n 1; }

# start runs ExecStart as systemd would, as far as that goes without it: the user, its groups, the capability, the
# environment, the folders, the limits.
start() {
	local user variables
	user=$(setting User)
	install -d -m "$(setting RuntimeDirectoryMode)" -o "$user" -g "$(setting Group)" "/run/$(setting RuntimeDirectory)"
	install -d -m "$(setting StateDirectoryMode)" -o "$user" -g "$(setting Group)" "/var/lib/$(setting StateDirectory)"
	read -ra variables <<<"$(setting Environment)"
	(
		cd "$(setting WorkingDirectory)"
		umask "$(setting UMask)"
		ulimit -n "$(setting LimitNOFILE)" 2>/dev/null || true
		exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin "HOME=/var/lib/caddy-moderation" "USER=$user" "${variables[@]}" \
			setpriv --reuid "$user" --regid "$(setting Group)" --init-groups --no-new-privs \
			--bounding-set=-all,+net_bind_service --inh-caps=-all,+net_bind_service --ambient-caps=-all,+net_bind_service \
			$(setting ExecStart)
	) >>/tmp/server.log 2>&1 &
	server=$!
	local tries=0
	until $command moderation account list >/tmp/list.log 2>&1; do
		kill -0 $server 2>/dev/null || fail "the server has ended"
		[ $((tries += 1)) -lt 300 ] || fail "the server is not ready: $(cat /tmp/list.log)"
		sleep 0.2
	done
}
stop() {
	kill -TERM $server
	wait $server || fail "the server ended with $?"
}
moderate() {
	# A key is shown before the ports are open.
	curl -sS --max-time 60 --retry 30 --retry-delay 1 --retry-connrefused "${2-http://localhost:8080}/v1/moderate/text" -H "Authorization: Bearer $1" \
		-H 'Content-Type: application/json' -d '{"content": "I will kill you tomorrow."}'
}
requests() { $command moderation usage --account "$1" | sed -n 's/^Requests in the period *//p'; }

inventory >/tmp/before

step "install"
apt install /files/this.deb
holds "$($command version)" "(caddy-moderation v"
same "$(stat -c '%U:%G %a' /var/lib/caddy-moderation)" "caddy-moderation:caddy-moderation 750" "the data's folder"
holds "$(dpkg-query --show --showformat='${Conffiles}' caddy-moderation)" /etc/caddy-moderation/Caddyfile
(cd /tmp && $command validate --config /etc/caddy-moderation/Caddyfile) >/tmp/validate.log 2>&1 ||
	fail "the configuration is not valid: $(cat /tmp/validate.log)"
same "$($command fmt --diff /etc/caddy-moderation/Caddyfile | grep -c '^[-+]' || true)" 0 "lines that caddy fmt would change"
holds "$($command upgrade 2>&1 || true)" "belongs to a package"

step "run, account, key, request"
start
same "$(stat -c '%U:%G %a' /run/caddy-moderation/admin.sock)" "caddy-moderation:caddy-moderation 660" "the admin socket"
$command moderation account create acme --name Acme --tier starter >/tmp/out.log
key=$($command moderation key create --account acme --name website 2>/tmp/out.log)
answer=$(moderate "$key")
holds "$answer" '"flagged":true'
holds "$(curl -sS http://localhost:8080/health/ready)" '"status":"ready"'
holds "$(moderate mod_sk_wrong)" '"code":"invalid_key"'
same "$(requests acme)" "1 of 25000" "requests"
same "$(grep -c "$key" /tmp/server.log || true)" 0 "lines of the log with the key"

step "who may use the socket"
refused=$(setpriv --reuid nobody --regid nogroup --clear-groups $command moderation account list 2>&1) &&
	fail "anybody may open the admin socket"
holds "$refused" "permission denied"
setpriv --reuid nobody --regid nogroup --groups caddy-moderation $command moderation account list >/tmp/out.log ||
	fail "the group may not open the admin socket"

step "a changed configuration, a declared account with its key in a credential, port 80"
# As systemd makes it for LoadCredential=.
install -d -m 0700 -o caddy-moderation /run/credentials/caddy-moderation.service
declared=mod_sk_$(head -c 24 /dev/urandom | base64 | tr '+/' 'ab')
printf '%s\n' "$declared" >/run/credentials/caddy-moderation.service/acme
chown caddy-moderation /run/credentials/caddy-moderation.service/acme
chmod 0400 /run/credentials/caddy-moderation.service/acme
sed -i 's,demo off,&\n\t\taccount declared {\n\t\t\tkey {file./run/credentials/caddy-moderation.service/acme}\n\t\t},;
	s,^http://localhost:8080 ,http://localhost\, &,' /etc/caddy-moderation/Caddyfile
setpriv --reuid caddy-moderation --regid caddy-moderation --init-groups env HOME=/var/lib/caddy-moderation \
	$(setting ExecReload) >/tmp/reload.log 2>&1 || fail "reload: $(cat /tmp/reload.log)"
holds "$(moderate "$declared" http://localhost)" '"flagged":true'

step "upgrade"
stop
apt install /files/next.deb
same "$(dpkg-query --show --showformat='${Version}' caddy-moderation)" 99.0.0-1 "the version"
grep -q 'account declared' /etc/caddy-moderation/Caddyfile || fail "the upgrade has replaced the changed configuration"
start
same "$(requests acme)" "1 of 25000" "requests after the upgrade"
same "$(requests declared)" "1 of 1000" "requests of the declared account after the upgrade"
holds "$(moderate "$key")" '"flagged":true'
same "$(requests acme)" "2 of 25000" "requests"

step "remove, install again"
stop
apt remove caddy-moderation
[ ! -e /usr/bin/caddy-moderation ] || fail "the command is still there"
[ -e /etc/caddy-moderation/Caddyfile ] || fail "removing has removed the configuration"
apt install /files/next.deb
start
same "$(requests acme)" "2 of 25000" "requests after the removal"
stop

step "purge"
apt purge caddy-moderation
holds "$(cat /tmp/apt.log)" "The data in /var/lib/caddy-moderation"
[ -n "$(find /var/lib/caddy-moderation/moderation -name MANIFEST)" ] || fail "purging has removed the data"
inventory >/tmp/after
left=$(diff /tmp/before /tmp/after || true)
same "$left" "" "what is left"

step "the archive"
adduser --system --quiet --home /home/someone someone
cd /home/someone
setpriv --reuid someone --regid nogroup --clear-groups tar -x -z -f /files/this.tar.gz --strip-components=1
# As docs/install.md says.
(
	umask 077
	exec setpriv --reuid someone --regid nogroup --clear-groups env -i HOME=/home/someone PATH=/usr/bin:/bin \
		./caddy run --config Caddyfile.example --adapter caddyfile
) >/tmp/server.log 2>&1 &
server=$!
for _ in $(seq 300); do
	key=$(grep -o -m 1 'mod_sk_[A-Za-z0-9_-]*' /tmp/server.log) && break
	kill -0 $server 2>/dev/null || fail "the server of the archive has ended"
	sleep 0.2
done
[ -n "$key" ] || fail "the first start shows no key"
holds "$(moderate "$key")" '"flagged":true'
stop
