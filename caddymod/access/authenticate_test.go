// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestCredentials covers the places that a key can stand in, and two keys at once.
func TestCredentials(t *testing.T) {
	t.Parallel()
	everywhere := Sources{Query: true, GoogleHeader: true}
	for _, test := range []struct {
		name, query string
		header      http.Header
		from        Sources
		want        string
		err         error
	}{
		{name: "nothing", err: errNoCredentials},
		{name: "nothing anywhere", query: "?alt=json&prettyPrint=false", from: everywhere, err: errNoCredentials},
		{name: "bearer", header: http.Header{"Authorization": {"Bearer k1"}}, want: "k1"},
		{name: "bearer in other case", header: http.Header{"Authorization": {"bEARER k1"}}, want: "k1"},
		{name: "bearer with more space", header: http.Header{"Authorization": {" Bearer   k1 "}}, want: "k1"},
		{name: "bearer without a key", header: http.Header{"Authorization": {"Bearer "}}, err: errMalformed},
		{name: "bearer alone", header: http.Header{"Authorization": {"Bearer"}}, err: errMalformed},
		{name: "key alone", header: http.Header{"Authorization": {"k1"}}, err: errMalformed},
		{name: "basic", header: http.Header{"Authorization": {"Basic eDp5"}}, err: errMalformed},
		{name: "two headers", header: http.Header{"Authorization": {"Bearer k1", "Bearer k2"}}, err: errTwoCredentials},
		{name: "the same header twice", header: http.Header{"Authorization": {"Bearer k1", "Bearer k1"}}, want: "k1"},
		{name: "query, not accepted", query: "?key=k1", err: errNoCredentials},
		{name: "query", query: "?key=k1", from: everywhere, want: "k1"},
		{name: "query with escapes", query: "?a=b&key=k%31", from: everywhere, want: "k1"},
		{name: "query, empty", query: "?key=", from: everywhere, err: errNoCredentials},
		{name: "query twice", query: "?key=k1&key=k2", from: everywhere, err: errTwoCredentials},
		{name: "another parameter", query: "?monkey=k1", from: everywhere, err: errNoCredentials},
		{name: "google header, not accepted", header: http.Header{"X-Goog-Api-Key": {"k1"}}, err: errNoCredentials},
		{name: "google header", header: http.Header{"X-Goog-Api-Key": {"k1"}}, from: everywhere, want: "k1"},
		{name: "the same key in all places", query: "?key=k1", header: http.Header{"Authorization": {"Bearer k1"}, "X-Goog-Api-Key": {"k1"}}, from: everywhere, want: "k1"},
		{name: "different keys in query and header", query: "?key=k1", header: http.Header{"Authorization": {"Bearer k2"}}, from: everywhere, err: errTwoCredentials},
		{name: "different keys in both headers", header: http.Header{"Authorization": {"Bearer k2"}, "X-Goog-Api-Key": {"k1"}}, from: everywhere, err: errTwoCredentials},
		{name: "a key in the query that is not looked at", query: "?key=k1", header: http.Header{"Authorization": {"Bearer k2"}}, want: "k2"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequest(http.MethodPost, "/v1/moderate/text"+test.query, nil)
			if test.header != nil {
				r.Header = test.header
			}
			got, err := credentials(r, test.from)
			if got != test.want || !errors.Is(err, test.err) {
				t.Errorf("got %q and error %v, want %q and %v", got, err, test.want, test.err)
			}
		})
	}
}
