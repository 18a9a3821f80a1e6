// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/headers"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

// The other service gets what it needs to answer, and nothing else of the request: no cookie, no address of a client,
// no key of this server.
var (
	// forwardedFields are the header fields that it gets.
	forwardedFields = []string{"Accept", "Accept-Encoding", "Content-Encoding", "Content-Type"}
	// credentialFields hold its own credentials.
	credentialFields = []string{
		"Authorization", "Openai-Organization", "Openai-Project", "X-Goog-Api-Key", "X-Goog-User-Project",
	}
	// forwardedParameters are the query parameters that it gets: Google's standard ones that say who calls and how
	// the answer is formatted, and the version of a discovery document.
	forwardedParameters = []string{
		"key", "access_token", "oauth_token", "alt", "callback", "fields", "prettyPrint",
		"$.xgafv", "$alt", "$callback", "$fields", "$prettyPrint", "version",
	}
)

// addedFields are the header fields with which a reverse_proxy reveals the client and this server.
var addedFields = []string{"Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Early-Data"}

// userAgent replaces the client's own.
const userAgent = "caddy-moderation"

// forwarded returns the request as the other service gets it.
func (c *Compare) forwarded(r *http.Request) *http.Request {
	header := make(http.Header, len(forwardedFields)+2)
	for _, name := range forwardedFields {
		if values := r.Header[name]; len(values) > 0 {
			header[name] = values
		}
	}
	for _, name := range credentialFields {
		for _, value := range r.Header[name] {
			if c.foreign(name, value) {
				header[name] = append(header[name], value)
			}
		}
	}
	header.Set("User-Agent", userAgent)
	forwarded, address := *r, *r.URL
	forwarded.Header, forwarded.Trailer, forwarded.URL = header, nil, &address
	if address.RawQuery != "" {
		address.RawQuery = c.forwardedQuery(r.URL.Query())
	}
	return &forwarded
}

// forwardedQuery returns the query that the other service gets.
func (c *Compare) forwardedQuery(sent url.Values) string {
	query := url.Values{}
	for _, name := range forwardedParameters {
		for _, value := range sent[name] {
			if !c.ours(value) {
				query.Add(name, value)
			}
		}
	}
	return query.Encode()
}

// foreign reports whether a credential is for the other service.
func (c *Compare) foreign(field, value string) bool {
	if field == "Authorization" {
		scheme, token, _ := strings.Cut(strings.TrimSpace(value), " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return false // a password of this site
		}
		value = token
	}
	return !c.ours(value)
}

// ours reports whether a key looks like one of this server.
func (c *Compare) ours(key string) bool {
	key = strings.ToLower(strings.TrimSpace(key))
	return slices.ContainsFunc(c.prefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
}

// keyPrefixes returns the beginnings of the keys of this server: the default and the configured one.
func keyPrefixes(configured string) []string {
	prefixes := []string{"mod_sk_"}
	if configured != "" {
		prefixes = append(prefixes, strings.ToLower(configured)+"_sk_")
	}
	return prefixes
}

// hideClient keeps a reverse_proxy from revealing its client. Fields that the configuration sets are sent.
func hideClient(ctx caddy.Context, proxy *reverseproxy.Handler) error {
	if proxy.Headers == nil {
		proxy.Headers = new(headers.Handler)
	}
	if proxy.Headers.Request == nil {
		proxy.Headers.Request = new(headers.HeaderOps)
		if err := proxy.Headers.Provision(ctx); err != nil {
			return err
		}
	}
	ops := proxy.Headers.Request
	for _, name := range addedFields {
		if len(ops.Set[name])+len(ops.Add[name]) == 0 {
			ops.Delete = append(ops.Delete, name)
		}
	}
	return nil
}
