#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The caddy-moderation authors
# SPDX-License-Identifier: Apache-2.0
#
# Moderates texts. It needs bash, curl 7.76 or newer, and jq.
#
#	export MODERATION_URL=http://localhost:8080 MODERATION_KEY=mod_sk_...
#	./curl.sh moderate "You are a wonderful person."
#	./curl.sh correct "Nice try." TOXICITY 0.1
#	./curl.sh usage

set -euo pipefail

url=${MODERATION_URL:-http://localhost:8080}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# call METHOD PATH prints the answer to the JSON on standard input. It fails with what went wrong, and with the id that
# finds the request in the operator's log.
#
# curl repeats the request by itself after a timeout, a refused connection and the statuses 408, 429, 500, 502, 503 and
# 504. It waits as long as Retry-After says, or 1, 2, 4 ... seconds, and gives up when that would take too long. The key
# is not an argument: everybody on the machine can read those.
call() {
	local status
	status=$(curl --silent --show-error --request "$1" "${url%/}$2" \
		--config <(printf 'header = "Authorization: Bearer %s"\n' "$MODERATION_KEY") \
		--header 'Content-Type: application/json' --data-binary @- \
		--max-time "${MODERATION_TIMEOUT:-5}" \
		--retry 5 --retry-connrefused --retry-max-time "${MODERATION_PATIENCE:-30}" \
		--dump-header "$folder/head" --output "$folder/body" --write-out '%{http_code}') || {
		echo "no answer unreachable: curl ended with status $?" >&2
		return 1
	}
	if [ "$status" = 200 ] && jq --exit-status --slurp '.[0] | type == "object"' "$folder/body" >/dev/null 2>&1; then
		cat "$folder/body"
		return
	fi
	# A problem, an error in Google's format, or one of a proxy, in no format at all.
	jq --slurp --raw-output --arg status "$status" --arg id "$(field X-Request-Id)" '
		.[0] | (.code // .error.status // error("no code")) as $code
		| ([.errors[]? | "\(.pointer): \(.detail)"] | if . == [] then null else join("; ") end) as $members
		| "\($status) \($code): \($members // .detail // .error.message)"
		+ if $id != "" then " (id for support: \($id))" else "" end
	' "$folder/body" >&2 2>/dev/null || echo "$status unknown: the answer is not one of the service" >&2
	return 1
}

# field NAME prints a field of the last answer's header; the file also has those of the attempts before it.
field() {
	tr -d '\r' <"$folder/head" | awk -v name="$1:" '/^HTTP\// { value = "" }
		tolower($1) == tolower(name) { value = $2 }
		END { print value }'
}

case "${1:-}/$#" in
moderate/2)
	# Without a verdict you must decide, too. Holding the text costs time; publishing it costs more.
	answer=$(jq --null-input --arg text "$2" '{content: $text}' | call POST /v1/moderate/text) ||
		{ echo "no verdict, hold it for a person" >&2; exit 1; }
	# What to do is your decision. This is what most sites do:
	jq --raw-output '
		{approve: "publish it", review: "hold it for a person", reject: "refuse it"}[.result.recommendation]
		+ ": " + ([.result.categories | to_entries[] | select(.value.flagged).key] | join(", ") | if . == "" then "nothing flagged" else . end)
		+ " (\(.id))"
	' <<<"$answer"
	;;
correct/4)
	# The token is kept with the correction. It tells a repeated request, which is stored twice, from a second one.
	jq --null-input --arg text "$2" --arg attribute "$3" --argjson score "$4" --arg token "$$-$(date +%s)" '{
		comment: {text: $text}, attributeScores: {($attribute): {summaryScore: {value: $score}}}, clientToken: $token
	}' | call POST /v1alpha1/comments:suggestscore >/dev/null
	echo "the correction is stored"
	;;
usage/1)
	call GET /v1/usage </dev/null |
		jq --raw-output '.current_period | (if .requests_limit == 0 then "any number" else .requests_limit end) as $limit |
			"\(.requests_made) requests made of \($limit) until \(.end_date)"'
	;;
*)
	sed -n 's/^#\t/usage: /p' "$0" | tail -n 3 >&2
	exit 1
	;;
esac
