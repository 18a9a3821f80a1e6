// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package response

import (
	"net/http"
	"strings"

	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/content"
)

// mayHoldText reports whether an answer has a body that is shown and not saved.
func mayHoldText(r *http.Request, status int, header http.Header) bool {
	switch status {
	case http.StatusSwitchingProtocols, http.StatusNoContent, http.StatusNotModified:
		return false
	}
	if r.Method == http.MethodConnect && r.ProtoMajor >= 2 && status < 300 {
		return false // a WebSocket over HTTP/2 or 3 (RFC 8441)
	}
	const attachment = "attachment"
	disposition := header["Content-Disposition"]
	attached := len(disposition) > 0 && len(disposition[0]) >= len(attachment) &&
		strings.EqualFold(disposition[0][:len(attachment)], attachment)
	return !attached
}

// isText reports whether answers of the kind are moderated.
func isText(kind content.Kind) bool {
	return kind == content.JSON || kind == content.Markup || kind == content.Text
}

// isLines reports whether a media type is one of JSON in lines, or of values that follow each other.
func isLines(media string) bool {
	switch media {
	case "application/x-ndjson", "application/ndjson", "application/x-jsonl", "application/jsonl",
		"application/jsonlines",
		"application/x-jsonlines", "application/json-lines", "application/json-seq", "application/stream+json",
		"application/x-json-stream", "application/json-stream", "application/jsonstream",
		"text/x-ndjson", "text/ndjson",
		"text/jsonl", "text/x-jsonl", "application/ld+ndjson", "application/x-ldjson",
		"multipart/mixed": // results of GraphQL that come bit by bit, each in lines of its own
		return true
	}
	return strings.HasSuffix(media, "+json-seq") || strings.HasSuffix(media, "+ndjson") ||
		strings.HasSuffix(media, "+jsonl")
}

// mediaType returns the media type without its parameters, in lower case.
func mediaType(header http.Header) string {
	if len(header["Content-Type"]) == 0 {
		return ""
	}
	media, _, _ := strings.Cut(header["Content-Type"][0], ";")
	return strings.ToLower(strings.TrimSpace(media))
}

// isCode reports whether a text is there for machines only.
func isCode(media string) bool {
	switch media {
	case "text/css", "text/javascript", "text/ecmascript", "application/javascript", "application/ecmascript",
		"application/x-javascript", "image/svg+xml", "text/cache-manifest", "application/manifest+json",
		"application/wasm":
		return true
	}
	return strings.HasPrefix(media, "font/")
}

// isUnicode reports whether text in the charset can be moderated without being decoded.
func isUnicode(charset string) bool {
	return charset == "" || charset == "utf-8" || charset == "utf8" || charset == "us-ascii"
}
