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
	word := strings.ReplaceAll(vile, " ", ".") // no blanks
	const leftOut = "a short value with at most one blank, in a place with the name of a credential, is left out; `credentials` reads it, too"
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
		{"Names of credentials", []attempt{
			{name: "a field that is called password", header: asForm, body: "password=" + strings.ReplaceAll(vile, " ", "+"), status: refused},
			{name: "the same without blanks", header: asForm, body: "password=" + word, status: passes, why: leftOut},
			{name: "a member that is called token, without blanks", header: asJSON, body: `{"token":"` + word + `"}`, status: passes, why: leftOut},
			{name: "other blanks", header: asForm, body: "password=" + strings.ReplaceAll(vile, " ", "%C2%A0"), status: refused},
			{name: "blanks of no width", header: asForm, body: "password=" + strings.ReplaceAll(vile, " ", "%E2%80%8B"), status: refused},
			{name: "lines", header: asForm, body: "password=" + strings.ReplaceAll(vile, " ", "%0A"), status: refused},
			{name: "another field behind a semicolon", header: asForm, body: "password=x;comment=" + word, status: refused},
			{name: "a name that ends at a NUL for some", header: asForm, body: "comment%00.password=" + word, status: refused},
			{name: "elements of an array that is called password", header: asJSON, body: `{"password":["` + word + `"]}`, status: refused},
			{name: "an object that is called secret", header: asJSON, body: `{"secret":{"text":"` + word + `"}}`, status: refused},
			{name: "JSON in a field that is called token", header: asForm, body: `token={"text":"` + word + `"}`, status: refused},
		}},
	}
}
