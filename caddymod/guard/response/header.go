// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package response

import (
	"net/http"
	"strings"
)

// representation are the header fields that are about one body and no other.
var representation = []string{
	"Content-Type", "Content-Length", "Content-Encoding", "Content-Language", "Content-Location", "Content-Disposition",
	"Content-Md5", "Digest", "Content-Digest", "Repr-Digest", "Etag", "Last-Modified", "Accept-Ranges", "Trailer",
}

// DropRepresentation removes the fields that are about the app's body, and returns them. Another body follows.
func DropRepresentation(header http.Header) http.Header {
	dropped := http.Header{}
	for _, name := range representation {
		if values, ok := header[name]; ok {
			dropped[name] = values
			delete(header, name)
		}
	}
	return dropped
}

// dropBody removes the fields that are about the app's body, about keeping it, and that come behind it.
func dropBody(header http.Header) {
	DropRepresentation(header)
	for name := range header {
		if strings.HasPrefix(name, http.TrailerPrefix) {
			delete(header, name)
		}
	}
	delete(header, "Cache-Control")
	delete(header, "Expires")
	delete(header, "Age")
}

// validators are the header fields that hold for all of a body or none of it.
var validators = []string{
	"Content-Length", "Content-Md5", "Digest", "Content-Digest", "Repr-Digest", "Etag", "Accept-Ranges",
}

// dropValidators removes the fields that would be wrong if the stream ended early.
func dropValidators(header http.Header) {
	for _, name := range validators {
		delete(header, name)
	}
}

// trailersOf returns the names of the trailers that a header announces.
func trailersOf(header http.Header) (names []string) {
	for _, announced := range header["Trailer"] {
		for name := range strings.SplitSeq(announced, ",") {
			name = http.CanonicalHeaderKey(strings.TrimSpace(name))
			if _, already := header[name]; !already {
				names = append(names, name)
			}
		}
	}
	return names
}

// takeTrailers takes trailers that have come by now out of the header, which would be sent with them in it.
func (a *Writer) takeTrailers() http.Header {
	late := http.Header{}
	for _, name := range a.trailers {
		if values, ok := a.Header()[name]; ok {
			late[name] = values
			delete(a.Header(), name)
		}
	}
	return late
}
