// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package desk

import (
	"net/http"
	"slices"
	"strings"
)

// route is something that a request may do.
type route struct {
	// method is GET, which HEAD is answered like, or POST.
	method string
	// pattern is the path below the base path. A segment in braces takes any value: {account} is loaded before the
	// route is served, and so is {key}, which must be one of the account's.
	pattern string
	// needs is the role that a person must have.
	needs role
	// limit is the size of the largest body of a POST, in bytes.
	limit int64
	// store says that the route needs the services. One with an {account} always does.
	store bool
	serve func(*call) error
}

// The sizes of the largest forms, in bytes. A character of a text becomes at most twelve.
const (
	smallForm      = 16 << 10
	playgroundForm = 12*(maxContent+maxThemes*maxThemeCharacters) + 4<<10
)

// routes returns everything that a request may do. Roles are checked in [Desk.admit] and nowhere else.
func routes() []route {
	const get, post = http.MethodGet, http.MethodPost
	return slices.Concat([]route{
		{method: get, pattern: "/assets/{asset}", needs: anyone, serve: serveAsset},
		{method: get, pattern: "/", needs: somebody, serve: home},

		{method: get, pattern: "/accounts", needs: operator, store: true, serve: listAccounts},
		{method: post, pattern: "/accounts", needs: operator, store: true, limit: smallForm, serve: createAccount},
		{method: get, pattern: "/config", needs: operator, serve: showConfig},

		{method: get, pattern: "/accounts/{account}", needs: member, serve: overview},
		{method: post, pattern: "/accounts/{account}", needs: operator, limit: smallForm, serve: changeAccount},
		{method: get, pattern: "/accounts/{account}/gauge", needs: member, serve: streamGauge},

		{method: get, pattern: "/accounts/{account}/keys", needs: member, serve: listKeys},
		{method: post, pattern: "/accounts/{account}/keys", needs: member, limit: smallForm, serve: createKey},
		{method: get, pattern: "/accounts/{account}/keys/{key}/rotate", needs: member, serve: askRotate},
		{method: post, pattern: "/accounts/{account}/keys/{key}/rotate", needs: member, limit: smallForm, serve: rotateKey},
		{method: get, pattern: "/accounts/{account}/keys/{key}/revoke", needs: member, serve: askRevoke},
		{method: post, pattern: "/accounts/{account}/keys/{key}/revoke", needs: member, limit: smallForm, serve: revokeKey},

		{method: get, pattern: "/accounts/{account}/playground", needs: member, serve: playground},
		{method: post, pattern: "/accounts/{account}/playground", needs: member, limit: playgroundForm, serve: judge},
	},
		queueRoutes(),
		qualityRoutes(),
		auditRoutes(),
		signInRoutes(),
		sitesRoutes(),
		historyRoutes(),
		wordsRoutes(),
	)
}

// navigation is what the head of each page leads to. An entry is shown to those who have its role, once there is a
// route for its path.
var navigation = []struct {
	path, text string
	needs      role
}{
	{"/", "nav.home", operator},
	{"/accounts", "nav.accounts", operator},
	{"/review", "nav.review", reviewer},
	{"/guards", "nav.guards", operator},
	{"/node", "nav.node", operator},
	{"/config", "nav.config", operator},
	{"/audit", "nav.audit", operator},
}

// tabs are what the pages of an account lead to.
var tabs = []struct{ path, text string }{
	{"", "nav.overview"}, {"keys", "nav.keys"}, {"playground", "nav.playground"},
	{"history", "nav.history"}, {"thresholds", "nav.thresholds"}, {"words", "nav.words"},
	{"audit", "nav.audit"},
}

// match returns the values of a pattern's segments in braces if a path has its form.
func match(pattern, path string) (values map[string]string, ok bool) {
	segments := strings.Split(path, "/")
	wanted := strings.Split(pattern, "/")
	if len(segments) != len(wanted) {
		return nil, false
	}
	values = map[string]string{}
	for i, want := range wanted {
		name, variable := strings.CutPrefix(want, "{")
		switch {
		case variable && segments[i] != "":
			values[strings.TrimSuffix(name, "}")] = segments[i]
		case want != segments[i]:
			return nil, false
		}
	}
	return values, true
}

// find returns the route of a request, with the values of its path. If there is none for the method, allowed lists the
// methods that there are; it is empty if there is no such path.
func find(method, path string) (found *route, values map[string]string, allowed []string) {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	for _, candidate := range routes() {
		matched, ok := match(candidate.pattern, path)
		if !ok {
			continue
		}
		if candidate.method == method {
			return &candidate, matched, nil
		}
		allowed = append(allowed, candidate.method)
		if candidate.method == http.MethodGet {
			allowed = append(allowed, http.MethodHead)
		}
	}
	return nil, nil, allowed
}
