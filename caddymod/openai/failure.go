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

// failure is an error answer as this interface defines it.
type failure struct {
	// status is the HTTP status. Client libraries choose the class of their error by it.
	status int
	// message is for people.
	message string
	// errorType is the member "type".
	errorType string
	// param names the member of the request that is at fault, for example "input[3]"; empty stands for null.
	param string
	// code is for programs; empty stands for null.
	code string
}

// invalid returns an error in the request's body.
func invalid(param, code, message string) *failure {
	return &failure{
		status: http.StatusBadRequest, message: message, errorType: invalidRequestError, param: param, code: code,
	}
}

// mapped are the status, type and code of this interface for problems, where they differ. A problem that is not here
// keeps its status and its code.
var mapped = map[problem.Code]struct {
	status          int
	errorType, code string
}{
	// A malformed header holds no key, and clients know 401 for both.
	problem.MalformedCredentials: {status: http.StatusUnauthorized, code: "invalid_api_key"},
	problem.MissingKey:           {code: "invalid_api_key"},
	problem.InvalidKey:           {code: "invalid_api_key"},
	problem.RateLimitExceeded:    {errorType: requestsError, code: "rate_limit_exceeded"},
	// Clients do not know 402; they distinguish the two 429s by the code.
	problem.MonthlyQuotaExhausted: {
		status: http.StatusTooManyRequests, errorType: "insufficient_quota", code: "insufficient_quota",
	},
}

// failureOf returns a problem as this interface defines it.
func failureOf(p *problem.Problem) *failure {
	if p.Quota != nil && p.Quota.RetryAfter == 0 {
		// The account's limit is one on the length of the array. Programs repeat what was answered 429, some for ever.
		return invalid("input", "array_above_max_length", p.Error())
	}
	f := &failure{status: p.Code.Status(), message: p.Error(), errorType: invalidRequestError, code: string(p.Code)}
	if f.status >= http.StatusInternalServerError {
		f.errorType = serverError
	}
	own := mapped[p.Code]
	if own.status != 0 {
		f.status = own.status
	}
	if own.errorType != "" {
		f.errorType = own.errorType
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
	e.Error.Message, e.Error.Type = f.message, f.errorType
	if f.param != "" {
		e.Error.Param = &f.param
	}
	if f.code != "" {
		e.Error.Code = &f.code
	}
	encoded, err := json.Marshal(e)
	if err != nil {
		// Does not happen: every message is this service's own, in UTF-8.
		encoded = []byte(`{"error":{"message":"Internal error.","type":"server_error","param":null,"code":null}}`)
	}
	header := w.Header()
	setRateLimits(header)
	if f.status == http.StatusTooManyRequests && header.Get("Retry-After") == "" {
		// Client libraries repeat a request after 429, and obey this field. Repeating it before the next month does not
		// help.
		header.Set("X-Should-Retry", "false")
	}
	response.SendJSON(w, r, f.status, append(encoded, '\n'))
}

// writeProblem answers with a problem as this interface defines it. It is an [access.ProblemWriter].
func writeProblem(w http.ResponseWriter, r *http.Request, id string, p *problem.Problem) {
	problem.SetHeaders(w.Header(), id)
	failureOf(p).write(w, r)
}
