// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package openai

import (
	"net/http"

	"github.com/go-json-experiment/json"

	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/response"
	"github.com/caddy-moderation/caddy-moderation/caddymod/problem"
)

// The values of "type" that clients of this interface know.
const (
	invalidRequestError = "invalid_request_error"
	requestsError       = "requests"
	serverError         = "server_error"
)

// failure is an error answer in the terms of this interface.
type failure struct {
	// status is the HTTP status. Client libraries choose the class of their error by it.
	status int
	// message is for people.
	message string
	// kind is the member "type".
	kind string
	// param names the member of the request that is at fault, for example "input[3]"; empty is null.
	param string
	// code is for programs; empty is null.
	code string
}

// invalid is an error of the request's body.
func invalid(param, code, message string) *failure {
	return &failure{status: http.StatusBadRequest, message: message, kind: invalidRequestError, param: param, code: code}
}

// terms are what differs from problem to problem in the terms of this interface. A problem that is not here keeps its status
// and its code.
var terms = map[problem.Code]struct {
	status     int
	kind, code string
}{
	// A header that is not understood is no key, and clients know 401 for both.
	problem.MalformedCredentials: {status: http.StatusUnauthorized, code: "invalid_api_key"},
	problem.MissingKey:           {code: "invalid_api_key"},
	problem.InvalidKey:           {code: "invalid_api_key"},
	problem.RateLimitExceeded:    {kind: requestsError, code: "rate_limit_exceeded"},
	// Clients know no 402; they tell the two kinds of 429 by the code.
	problem.MonthlyQuotaExhausted: {status: http.StatusTooManyRequests, kind: "insufficient_quota", code: "insufficient_quota"},
}

// failureOf puts a problem in the terms of this interface.
func failureOf(p *problem.Problem) *failure {
	f := &failure{status: p.Code.Status(), message: p.Error(), kind: invalidRequestError, code: string(p.Code)}
	if f.status >= http.StatusInternalServerError {
		f.kind = serverError
	}
	own := terms[p.Code]
	if own.status != 0 {
		f.status = own.status
	}
	if own.kind != "" {
		f.kind = own.kind
	}
	if own.code != "" {
		f.code = own.code
	}
	return f
}

// envelope is the wire form.
type envelope struct {
	Error struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	} `json:"error"`
}

// write answers with the error.
func (f *failure) write(w http.ResponseWriter, r *http.Request) {
	var e envelope
	e.Error.Message, e.Error.Type = f.message, f.kind
	if f.param != "" {
		e.Error.Param = &f.param
	}
	if f.code != "" {
		e.Error.Code = &f.code
	}
	encoded, err := json.Marshal(e)
	if err != nil {
		// Every message is one of this service's own, in UTF-8.
		encoded = []byte(`{"error":{"message":"Internal error.","type":"server_error","param":null,"code":null}}`)
	}
	header := w.Header()
	setRateLimits(header)
	if f.status == http.StatusTooManyRequests && header.Get("Retry-After") == "" {
		// Client libraries repeat a request after 429, and obey this field. Here repeating it soon is of no use.
		header.Set("X-Should-Retry", "false")
	}
	response.SendJSON(w, r, f.status, append(encoded, '\n'))
}

// writeProblem answers with a problem in the terms of this interface.
func writeProblem(w http.ResponseWriter, r *http.Request, id string, p *problem.Problem) {
	problem.SetHeaders(w.Header(), id)
	failureOf(p).write(w, r)
}
