// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package commentanalyzer

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/response"
	"github.com/caddy-moderation/caddy-moderation/caddymod/problem"
)

// The values of errorType that clients of the interface know.
const (
	commentEmpty          = "COMMENT_EMPTY"
	commentTooLong        = "COMMENT_TOO_LONG"
	noRequestedAttributes = "NO_REQUESTED_ATTRIBUTES"
	languageNotSupported  = "LANGUAGE_NOT_SUPPORTED_BY_ATTRIBUTE"
	invalidRequest        = "INVALID_REQUEST"
)

// failure is an error answer as this interface defines it.
type failure struct {
	// code decides the HTTP status and the name of the status in the envelope.
	code    problem.Code
	message string
	// errorType is one of those above; empty when the request itself is not at fault.
	errorType string
	// violations name the members that break rules.
	violations []problem.FieldError
	// retryAfter is the time, in seconds, after which to try again; 0 leaves it out.
	retryAfter int64
	// metadata describes a bound that is used up.
	metadata map[string]string
	// language names languages that are not scored.
	language *languageError
}

// envelope is the wire form.
type envelope struct {
	Error struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Status  string `json:"status"`
		Details []any  `json:"details"`
	} `json:"error"`
}

// The details of an error, each with its type. All but the first are those of google.rpc.
type (
	analyzerError struct {
		Type      string `json:"@type"`
		ErrorType string `json:"errorType"`
		// LanguageError stands beside the error type LANGUAGE_NOT_SUPPORTED_BY_ATTRIBUTE.
		LanguageError *languageError `json:"languageNotSupportedByAttributeError,omitempty"`
	}
	languageError struct {
		Attribute          string   `json:"attribute"`
		RequestedLanguages []string `json:"requestedLanguages"`
		DetectedLanguages  []string `json:"detectedLanguages"`
	}
	badRequest struct {
		Type            string           `json:"@type"`
		FieldViolations []fieldViolation `json:"fieldViolations"`
	}
	fieldViolation struct {
		Field       string `json:"field"`
		Description string `json:"description"`
	}
	errorInfo struct {
		Type     string            `json:"@type"`
		Reason   string            `json:"reason"`
		Domain   string            `json:"domain"`
		Metadata map[string]string `json:"metadata,omitempty"`
	}
	retryInfo struct {
		Type       string `json:"@type"`
		RetryDelay string `json:"retryDelay"`
	}
	requestInfo struct {
		Type      string `json:"@type"`
		RequestID string `json:"requestId"`
	}
)

// Prefixes of the types of details.
const (
	analyzerType = "type.googleapis.com/google.commentanalyzer.v1alpha1."
	rpcType      = "type.googleapis.com/google.rpc."
	// reasonDomain is where the reasons below are defined (google/api/error_reason.proto).
	reasonDomain = "googleapis.com"
)

// reasons are the reasons that client libraries know for some codes.
var reasons = map[problem.Code]string{
	problem.InvalidKey:           "API_KEY_INVALID",
	problem.MissingKey:           "CREDENTIALS_MISSING",
	problem.AccountInactive:      "CONSUMER_SUSPENDED",
	problem.FeedbackBoundReached: "RATE_LIMIT_EXCEEDED",
	// Google's interfaces have no reason for a used-up month but this one.
	problem.RateLimitExceeded:     "RATE_LIMIT_EXCEEDED",
	problem.MonthlyQuotaExhausted: "RATE_LIMIT_EXCEEDED",
}

// statusName returns the canonical name (google.rpc.Code) for an HTTP status.
func statusName(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "UNAUTHENTICATED"
	case http.StatusForbidden:
		return "PERMISSION_DENIED"
	case http.StatusNotFound:
		return "NOT_FOUND"
	case http.StatusMethodNotAllowed:
		return "UNIMPLEMENTED"
	case http.StatusRequestTimeout:
		return "DEADLINE_EXCEEDED"
	case http.StatusTooManyRequests:
		return "RESOURCE_EXHAUSTED"
	case http.StatusServiceUnavailable:
		return "UNAVAILABLE"
	}
	if status >= http.StatusInternalServerError {
		return "INTERNAL"
	}
	return "INVALID_ARGUMENT"
}

// statusOf returns the HTTP status of a code in this interface. A used-up month is 402 elsewhere. Clients of Google's
// interfaces do not know that status; they get RESOURCE_EXHAUSTED, which goes with 429, and the time to try again.
func statusOf(code problem.Code) int {
	if code == problem.MonthlyQuotaExhausted {
		return http.StatusTooManyRequests
	}
	return code.Status()
}

// write answers with the error; id is the id of the request.
func (f *failure) write(w http.ResponseWriter, r *http.Request, id string) {
	status := statusOf(f.code)
	problem.SetHeaders(w.Header(), id)
	var e envelope
	e.Error.Code, e.Error.Message, e.Error.Status = status, f.message, statusName(status)
	e.Error.Details = f.details(id)
	writeJSON(w, r, status, e)
}

// details returns the error's details. Clients of this interface look at the first.
func (f *failure) details(id string) []any {
	var details []any
	if f.errorType != "" {
		details = append(details, analyzerError{
			Type: analyzerType + "Error", ErrorType: f.errorType, LanguageError: f.language,
		})
	}
	if reason := reasons[f.code]; reason != "" {
		details = append(details, errorInfo{
			Type: rpcType + "ErrorInfo", Reason: reason, Domain: reasonDomain, Metadata: f.metadata,
		})
	}
	if f.retryAfter > 0 {
		details = append(details, retryInfo{Type: rpcType + "RetryInfo", RetryDelay: fmt.Sprintf("%ds", f.retryAfter)})
	}
	if len(f.violations) > 0 {
		bad := badRequest{Type: rpcType + "BadRequest"}
		for _, v := range f.violations {
			broken := fieldViolation{Field: fieldPath(v.Pointer), Description: v.Detail}
			bad.FieldViolations = append(bad.FieldViolations, broken)
		}
		details = append(details, bad)
	}
	return append(details, requestInfo{Type: rpcType + "RequestInfo", RequestID: id})
}

// WriteProblem answers with a problem in the envelope that clients of Google's interfaces parse; id is the id of the
// request. It is an [access.ProblemWriter].
func WriteProblem(w http.ResponseWriter, r *http.Request, id string, p *problem.Problem) {
	f := failure{code: p.Code, message: p.Error(), violations: p.Errors}
	if p.Code == problem.MissingKey {
		f.message = "Send the API key in the header Authorization: Bearer <API key> or X-Goog-Api-Key, " +
			"or as the query parameter key."
	}
	switch p.Code.Status() {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType:
		f.errorType = invalidRequest
	}
	if seconds, err := strconv.ParseInt(w.Header().Get("Retry-After"), 10, 64); err == nil {
		f.retryAfter = seconds
	}
	if q := p.Quota; q != nil {
		f.metadata, f.retryAfter = quotaMetadata(p.Code, q), q.RetryAfter
		w.Header().Set("Retry-After", strconv.FormatInt(q.RetryAfter, 10))
	}
	f.write(w, r, id)
}

// quotaMetadata describes a limit that is used up, as Google's quotas do.
func quotaMetadata(code problem.Code, q *problem.Quota) map[string]string {
	limit := "RequestsPerMinutePerAccount"
	if code == problem.MonthlyQuotaExhausted {
		limit = "RequestsPerMonthPerAccount"
	}
	return map[string]string{
		"service": "commentanalyzer", "consumer": "accounts/" + q.Account, "quota_metric": "requests",
		"quota_limit": limit, "quota_limit_value": strconv.FormatInt(q.Limit, 10),
	}
}

// fieldPath writes a JSON Pointer as Google's interfaces write the path of a member: comment.text, languages[1].
func fieldPath(pointer string) string {
	var path strings.Builder
	for token := range jsontext.Pointer(pointer).Tokens() {
		switch {
		case token != "" && strings.Trim(token, "0123456789") == "":
			path.WriteString("[" + token + "]")
		case path.Len() > 0:
			path.WriteString("." + token)
		default:
			path.WriteString(token)
		}
	}
	return path.String()
}

// jsonType is the Content-Type of all answers, as Google's interfaces write it.
const jsonType = "application/json; charset=UTF-8"

// writeJSON answers with a value as JSON, indented when the parameter prettyPrint asks for it, as Google's interfaces
// do.
func writeJSON(w http.ResponseWriter, r *http.Request, status int, value any) {
	pretty := []json.Options{json.Deterministic(true)}
	if strings.Contains(r.URL.RawQuery, "prettyPrint=true") {
		pretty = append(pretty, jsontext.WithIndent("  "))
	}
	encoded, err := json.Marshal(value, pretty...)
	if err != nil {
		// Does not happen: only a client's token that is not UTF-8 could not be encoded, and the decoder refuses it.
		status = http.StatusInternalServerError
		encoded = []byte(`{"error":{"code":500,"message":"Internal error.","status":"INTERNAL"}}`)
	}
	response.Send(w, r, status, jsonType, encoded)
}
