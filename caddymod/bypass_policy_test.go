// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"net/http"
	"strings"
)

// policyAttempts are those against what a guard says and does, rather than against what it reads.
func policyAttempts(vile string) []group {
	form := "comment=" + strings.ReplaceAll(vile, " ", "+")
	inJSON := `{"comment":"` + vile + `"}`
	hop := func(lines ...string) []string { return append(lines, asForm...) }
	return []group{
		{"Methods and hops", []attempt{
			{name: "CONNECT with a body, over HTTP/1.1", method: http.MethodConnect, header: asJSON, body: inJSON, status: refused},
			{name: "CONNECT with a body in chunks", method: http.MethodConnect, header: append([]string{"Transfer-Encoding: chunked"}, asJSON...),
				body: chunked(inJSON, 7, "", ""), status: refused},
			{name: "CONNECT that says to be a WebSocket, over HTTP/1.1", method: http.MethodConnect,
				header: append([]string{"Connection: Upgrade", "Upgrade: websocket"}, asJSON...), body: inJSON, status: refused},
			{name: "a list of hop-by-hop fields that names the Content-Type", header: hop("Connection: close, content-type"), body: form, status: refused},
		}},
	}
}
