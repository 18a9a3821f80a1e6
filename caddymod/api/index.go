// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"

	"github.com/caddy-moderation/caddy-moderation/caddymod/access"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/response"
	"github.com/caddy-moderation/caddy-moderation/caddymod/problem"
)

// indexText is the page at the base path. It takes the base path, the address of the site, the prefix of keys, and a
// line on the scoring path or nothing.
const indexText = `This is caddy-moderation. It answers:

POST %[1]s/v1/moderate/text                     moderates a text
GET  %[1]s/v1/usage                             reports what the account has used
POST %[1]s/v1/moderations                       as OpenAI's moderation endpoint
POST %[1]s/v1alpha1/comments:analyze            as the Perspective API
POST %[1]s/v1alpha1/comments:suggestscore       as the Perspective API
GET  %[1]s/$discovery/rest?version=v1alpha1     describes the Perspective API's; needs no key
GET  %[1]s/openapi.json                         describes all of them; needs no key
%[4]s
Send the key in the header Authorization. An example:

curl %[2]s%[1]s/v1/moderate/text \
  -H 'Authorization: Bearer %[3]s_sk_...' \
  -H 'Content-Type: application/json' \
  -d '{"content": "You are a wonderful person."}'
`

// isIndex reports whether a request asks for the page at the base path.
func (a *API) isIndex(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	return r.URL.Path == a.base+"/" || r.URL.Path == a.base && a.base != ""
}

// writeIndex answers with a page that says what there is, for people who look around with a browser or with curl.
func (a *API) writeIndex(w http.ResponseWriter, r *http.Request) {
	problem.SetHeaders(w.Header(), access.NewID(a.app))
	scoring := ""
	if a.ScoringPath != "" {
		scoring = "\nThe Perspective API's are also below " + a.base + "/api/" + a.ScoringPath + "/.\n"
	}
	text := fmt.Sprintf(indexText, a.base, siteAddress(r), cmp.Or(a.app.KeyPrefix, "mod"), scoring)
	response.Send(w, r, http.StatusOK, "text/plain; charset=utf-8", []byte(text))
}

// siteAddress returns the address of the site as the client wrote it. A host that would not stand for itself in a
// command is left out.
func siteAddress(r *http.Request) string {
	odd := func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune(".-:[]", c)
	}
	if r.Host == "" || strings.ContainsFunc(r.Host, odd) {
		return ""
	}
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}
