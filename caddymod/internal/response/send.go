// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package response

import (
	"net/http"
	"strconv"
)

// jsonType is the Content-Type of [SendJSON]; nobody appends to it.
var jsonType = []string{"application/json"}

// SendJSON answers with a body of JSON, as application/json. See [Send].
func SendJSON(w http.ResponseWriter, r *http.Request, status int, body []byte) {
	send(w, r, status, jsonType, body)
}

// Send answers with a whole body. It sets Content-Type and Content-Length; all other fields are the caller's to set
// before. A HEAD request is answered without the body.
func Send(w http.ResponseWriter, r *http.Request, status int, contentType string, body []byte) {
	send(w, r, status, []string{contentType}, body)
}

func send(w http.ResponseWriter, r *http.Request, status int, contentType []string, body []byte) {
	header := w.Header()
	header["Content-Type"] = contentType
	header["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		// An error means that the client has left: there is nobody to tell.
		_, _ = w.Write(body)
	}
}
