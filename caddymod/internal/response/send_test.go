// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package response

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestSend(t *testing.T) {
	t.Parallel()
	plain := func(w http.ResponseWriter, r *http.Request, status int, body []byte) {
		Send(w, r, status, "text/plain", body)
	}
	rows := []struct {
		name, method string
		send         func(w http.ResponseWriter, r *http.Request, status int, body []byte)
		status       int
		contentType  string
		body         string
	}{
		{"JSON", http.MethodPost, SendJSON, http.StatusOK, "application/json", `{"a":1}`},
		{"JSON, header alone", http.MethodHead, SendJSON, http.StatusOK, "application/json", ""},
		{"an error", http.MethodGet, SendJSON, http.StatusBadRequest, "application/json", `{"a":1}`},
		{"another type", http.MethodGet, plain, http.StatusOK, "text/plain", `{"a":1}`},
		{"another type, header alone", http.MethodHead, plain, http.StatusOK, "text/plain", ""},
	}
	for _, row := range rows {
		w := httptest.NewRecorder()
		w.Header().Set("Cache-Control", "no-store")
		row.send(w, httptest.NewRequest(row.method, "/", nil), row.status, []byte(`{"a":1}`))
		if w.Code != row.status || w.Body.String() != row.body {
			t.Errorf("%s: got %d %q, want %d %q", row.name, w.Code, w.Body, row.status, row.body)
		}
		for name, want := range map[string]string{
			"Content-Type": row.contentType, "Content-Length": "7", "Cache-Control": "no-store",
		} {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%s: got %s: %q, want %q", row.name, name, got, want)
			}
		}
	}
}
