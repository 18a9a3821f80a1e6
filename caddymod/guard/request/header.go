// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package request

import (
	"net/http"
	"strings"
)

// HeaderPrefix begins the header fields that carry the verdict to the app.
const HeaderPrefix = "X-Moderation-"

// bodyPrefix begins the header fields that say what a body is. A body that was read as a form must not reach the app
// without its type.
const bodyPrefix = "Content-"

// hopLists are the header fields that name others, or are taken for such by some proxy. A proxy must remove what
// Connection names (RFC 9110, section 7.6.1).
var hopLists = [...]string{"Connection", "Proxy-Connection", "Keep-Alive", "Te", "Trailer", "Upgrade"}

// StripHeader removes what only a guard may say from a header or a trailer that a client has sent: fields that begin
// with [HeaderPrefix]. Servers behind CGI-like gateways read underscores as hyphens, so that both count. Nor may a
// client make a proxy remove what the guard says, or what it went by: such names are removed from the lists of fields
// that end at the next hop.
func StripHeader(header http.Header) {
	for name := range header {
		if hasPrefix(name, HeaderPrefix) {
			delete(header, name)
		}
	}
	for _, list := range hopLists {
		if values, ok := header[list]; ok {
			stripList(header, list, values)
		}
	}
}

// hasPrefix reports whether the name of a header field begins with a prefix, in any case and with either kind of dash.
func hasPrefix(name, prefix string) bool {
	if len(name) < len(prefix) || name[0]|0x20 != prefix[0]|0x20 {
		return false
	}
	return strings.EqualFold(strings.ReplaceAll(name[:len(prefix)], "_", "-"), prefix)
}

// stripList removes protected names from a list in the header.
func stripList(header http.Header, list string, values []string) {
	protected := func(item string) bool {
		item = strings.TrimSpace(item)
		return hasPrefix(item, HeaderPrefix) || hasPrefix(item, bodyPrefix)
	}
	clean := true
	for _, value := range values {
		for item := range strings.SplitSeq(value, ",") {
			clean = clean && !protected(item)
		}
	}
	if clean {
		return
	}
	var kept []string // what else it names, such as close and Upgrade
	for _, value := range values {
		for item := range strings.SplitSeq(value, ",") {
			if item = strings.TrimSpace(item); item != "" && !protected(item) {
				kept = append(kept, item)
			}
		}
	}
	if len(kept) == 0 {
		delete(header, list)
		return
	}
	header[list] = []string{strings.Join(kept, ", ")}
}
