// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package response

import (
	"maps"
	"net/http"
	"strconv"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/content"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/extract"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/stream"
)

// Pass ends moderation in shadow mode, in which the answer has been sent already.
func (a *Writer) Pass() {
	a.mode = through
	a.discard()
}

// Release sends what is held unchanged, and lets the rest pass.
func (a *Writer) Release() { a.err = a.release(a.ResponseWriter) }

// release is [Writer.Release] to w.
func (a *Writer) release(w http.ResponseWriter) error {
	a.mode = through
	late := a.takeTrailers()
	a.begin(w)
	var err error
	if len(*a.kept) > 0 {
		_, err = w.Write(*a.kept)
	}
	maps.Copy(w.Header(), late)
	a.discard()
	return err
}

// Replace sends the answer of a handler in place of the app's, and ends the request to the app. Header fields of the
// app that describe its body or allow caching it are removed. The others stay, such as cookies and CORS fields.
func (a *Writer) Replace(handler caddyhttp.Handler) {
	a.mode, a.ended, a.began = dropped, true, true
	a.takeTrailers()
	dropBody(a.Header())
	a.err = handler.ServeHTTP(a.ResponseWriter, a.r)
	a.discard()
	a.cancel(errEnded)
}

// Offer lets routes answer in place of the app. If they do not answer, passed is called and the app's answer goes on.
func (a *Writer) Offer(routes caddyhttp.RouteList, passed func()) {
	fields := DropRepresentation(a.Header())
	a.mode = dropped
	a.err = routes.Compile(caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
		passed()
		header := w.Header()
		for name, values := range fields {
			if _, ok := header[name]; !ok {
				header[name] = values
			}
		}
		return a.release(w)
	})).ServeHTTP(a.ResponseWriter, a.r)
	if a.mode == through {
		return
	}
	a.ended, a.began = true, true
	a.discard()
	a.cancel(errEnded)
}

// SendFiltered sends to w the answer of a language model's API without its text, as the API sends a filtered one. If
// the answer is not one of such an API, SendFiltered reports false and sends nothing.
func (a *Writer) SendFiltered(w http.ResponseWriter) (sent bool, err error) {
	if a.declared.Kind != content.JSON || len(a.decoded) == 0 {
		return false, nil
	}
	filtered := stream.Filtered(a.decoded)
	if filtered == nil {
		return false, nil
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(filtered)))
	w.WriteHeader(a.status)
	_, err = w.Write(filtered)
	return true, err
}

// begin sends the header to w, once.
func (a *Writer) begin(w http.ResponseWriter) {
	if a.began {
		return
	}
	a.began = true
	a.decider.SetHeader(w.Header())
	w.WriteHeader(a.status)
}

// discard drops what is held, and ends decoding.
func (a *Writer) discard() {
	if inflater, ok := a.flow.(*inflater); ok {
		inflater.stop()
	}
	a.dropKept()
}

// dropKept returns the buffer to the pool.
func (a *Writer) dropKept() {
	extract.FreeBuffer(a.kept)
	a.kept, a.decoded = nil, nil
}
