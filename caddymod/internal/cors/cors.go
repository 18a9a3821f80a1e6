// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package cors lets the pages of chosen origins call the service from a browser (CORS, as in the Fetch standard).
//
// Cookies and other credentials of the browser are of no use to the service and not allowed: the page's script sends
// the key. An answer that replaces one of the upstream ([Origins.Show]) allows them.
package cors

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-moderation/caddy-moderation/caddymod/options"
)

// Any stands for every origin.
const Any = "*"

// Origins are the origins, such as "https://www.example.com", whose pages may call the service; "*" allows all origins.
// Without any, no CORS header field is sent, so that browsers forbid it to all pages of other origins.
type Origins []string

const (
	// allowedMethods are the methods of all operations.
	allowedMethods = "GET, HEAD, POST"
	// exposed are the header fields of answers that scripts may read in addition to those that are always readable.
	exposed = "RateLimit, RateLimit-Policy, Retry-After, WWW-Authenticate, " +
		"X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, X-RateLimit-Status, " +
		"X-RateLimit-Limit-Requests, X-RateLimit-Remaining-Requests, X-RateLimit-Reset-Requests, " +
		"X-RateLimit-Limit-Tokens, X-RateLimit-Remaining-Tokens, X-RateLimit-Reset-Tokens, X-Request-Id"
	// maxAge is the time, in seconds, that a browser may keep the answer to a preflight request. Chromium keeps it no
	// longer.
	maxAge = "7200"
	// maxHeaders is the length, in bytes, of the longest list of header fields that a preflight request is granted.
	maxHeaders = 1024
)

// Validate returns an error for what is not an origin.
func (o Origins) Validate() error {
	for _, origin := range o {
		if origin == Any {
			continue
		}
		parsed, err := url.Parse(origin)
		if err != nil || (parsed.Scheme != "http" && parsed.Scheme != "https") || parsed.Host == "" ||
			strings.Contains(origin, Any) || origin != parsed.Scheme+"://"+parsed.Host {
			return fmt.Errorf("%q is no origin; an origin is a scheme and a host, such as https://www.example.com, or *",
				origin)
		}
	}
	return nil
}

// Serve sets the header fields that let an allowed origin read the answer, and answers preflight requests with 204.
// Such requests carry no key and are not counted. It reports whether the request is answered; otherwise the caller
// answers it.
func (o Origins) Serve(w http.ResponseWriter, r *http.Request) (answered bool) {
	if len(o) == 0 {
		return false
	}
	header := w.Header()
	// The answer depends on the origin, also for requests without one.
	header.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	allowed := origin != "" && o.allow(origin)
	if allowed {
		header.Set("Access-Control-Allow-Origin", origin)
		header.Set("Access-Control-Expose-Headers", exposed)
	}
	if origin == "" || r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	header.Add("Vary", "Access-Control-Request-Method, Access-Control-Request-Headers")
	if allowed {
		header.Set("Access-Control-Allow-Methods", allowedMethods)
		header.Set("Access-Control-Max-Age", maxAge)
		// Libraries send fields of their own (X-Goog-Api-Client, X-Stainless-Lang, ...). None of them has an effect
		// here.
		wanted := strings.Join(r.Header.Values("Access-Control-Request-Headers"), ", ")
		if wanted != "" && len(wanted) <= maxHeaders {
			header.Set("Access-Control-Allow-Headers", wanted)
		}
	}
	w.WriteHeader(http.StatusNoContent)
	return true
}

// allow reports whether pages of an origin may call the service.
func (o Origins) allow(origin string) bool {
	return o.names(Any) || o.names(origin)
}

// Show sets the header fields that let a page of an allowed origin read an answer that replaces one of the upstream.
// A page whose origin is named may send its cookies, too. Fields that are set already stay.
func (o Origins) Show(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	if len(o) == 0 || header.Get("Access-Control-Allow-Origin") != "" {
		return
	}
	header.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if origin == "" || !o.allow(origin) {
		return
	}
	header.Set("Access-Control-Expose-Headers", "Retry-After, X-Request-Id")
	if !o.names(origin) {
		header.Set("Access-Control-Allow-Origin", Any)
		return
	}
	header.Set("Access-Control-Allow-Origin", origin)
	header.Set("Access-Control-Allow-Credentials", "true")
}

// names reports whether the list holds an origin literally.
func (o Origins) names(origin string) bool {
	for _, allowed := range o {
		if strings.EqualFold(allowed, origin) {
			return true
		}
	}
	return false
}

// Option returns a Caddyfile option, such as cors_origins. Syntax:
//
//	cors_origins <origin>...
func Option(dst *Origins) options.Option {
	return options.Option{Parse: func(d *caddyfile.Dispenser) error {
		name := d.Val()
		origins := d.RemainingArgs()
		if len(origins) == 0 {
			return d.Errf("'%s' needs at least 1 argument: %s <origin>...", name, name)
		}
		if d.NextBlock(d.Nesting()) {
			return d.Errf("'%s' takes no block", name)
		}
		*dst = origins
		if err := dst.Validate(); err != nil {
			return d.Errf("%s: %v", name, err)
		}
		return nil
	}}
}
