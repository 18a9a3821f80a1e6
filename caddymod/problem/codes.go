// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package problem

import "net/http"

// Code is the stable name of an error, in snake_case. Programs decide by it; everything else in a problem is for
// people.
type Code string

// The codes. docs/api.md lists them with their status.
const (
	// MalformedJSON says that the body is not one well-formed JSON object.
	MalformedJSON Code = "malformed_json"
	// InvalidRequest says that the body breaks rules; the problem's errors name the members.
	InvalidRequest Code = "invalid_request"
	// IncompleteBody says that the body ended, or could not be decoded, before it was whole.
	IncompleteBody Code = "incomplete_body"
	// AmbiguousBody says that programs may understand the body differently, so that nobody knows what an app would
	// read.
	AmbiguousBody Code = "ambiguous_body"
	// MalformedCredentials says that the Authorization header is malformed, or that two different keys were sent.
	MalformedCredentials Code = "malformed_credentials"
	// MissingKey says that no key was sent.
	MissingKey Code = "missing_key"
	// InvalidKey says that the key is unknown, revoked or expired.
	InvalidKey Code = "invalid_key"
	// MonthlyQuotaExhausted says that the billing period's requests are used up.
	MonthlyQuotaExhausted Code = "monthly_quota_exhausted"
	// AccountInactive says that the key is valid but its account is not served.
	AccountInactive Code = "account_inactive"
	// MissingScope says that the key is valid but may not do this.
	MissingScope Code = "missing_scope"
	// InvalidSignature says that the signature of a decision from another system is not that of the body.
	InvalidSignature Code = "invalid_signature"
	// ReviewTaken says that another reviewer has an item of the review queue, or has decided it.
	ReviewTaken Code = "review_taken"
	// NotFound says that nothing is at this address.
	NotFound Code = "not_found"
	// MethodNotAllowed says that the address does not answer this method; the header Allow names those that it does.
	MethodNotAllowed Code = "method_not_allowed"
	// RequestTimeout says that the body did not arrive in time.
	RequestTimeout Code = "request_timeout"
	// BodyTooLarge says that the body is larger than the operation accepts.
	BodyTooLarge Code = "body_too_large"
	// UnsupportedMediaType says that Content-Type is not application/json in UTF-8.
	UnsupportedMediaType Code = "unsupported_media_type"
	// UnsupportedEncoding says that Content-Encoding is neither identity nor gzip.
	UnsupportedEncoding Code = "unsupported_encoding"
	// ContentRejected says that a site's guard rejects the text of the request; the problem names the categories and
	// the fields.
	ContentRejected Code = "content_rejected"
	// ResponseRejected says that a site's guard rejects the text of the upstream's answer.
	ResponseRejected Code = "response_rejected"
	// TextTooLong says that the request holds more text than the site's guard moderates.
	TextTooLong Code = "text_too_long"
	// NotJudged says that a site's guard could not moderate the text and lets nothing pass unmoderated.
	NotJudged Code = "not_judged"
	// RateLimitExceeded says that the minute's requests are used up; Retry-After says when to come back.
	RateLimitExceeded Code = "rate_limit_exceeded"
	// FeedbackBoundReached says that the account has stored as many corrections today as it may.
	FeedbackBoundReached Code = "feedback_bound_reached"
	// InternalError says that the service failed unexpectedly. The log has the request's id.
	InternalError Code = "internal_error"
	// StorageUnavailable says that the store cannot answer now. It is not certain whether anything was counted or kept.
	StorageUnavailable Code = "storage_unavailable"
	// ClassifierUnavailable says that the classifier has failed.
	ClassifierUnavailable Code = "classifier_unavailable"
	// Starting says that the service has not finished starting.
	Starting Code = "starting"
	// TierNotConfigured says that the account's tier is no longer in the server's configuration.
	TierNotConfigured Code = "tier_not_configured"
)

// quotaType is the type of a used-up quota in IANA's registry of problem types.
const quotaType = "https://iana.org/assignments/http-problem-types#quota-exceeded"

// codes is the table of all codes.
var codes = map[Code]struct {
	status int
	title  string
	uri    string // empty: urn:caddy-moderation:problem:<code>
}{
	MalformedJSON:         {status: http.StatusBadRequest, title: "The body is not a well-formed JSON object"},
	InvalidRequest:        {status: http.StatusBadRequest, title: "The request breaks a rule"},
	IncompleteBody:        {status: http.StatusBadRequest, title: "The body is incomplete"},
	AmbiguousBody:         {status: http.StatusBadRequest, title: "The body can be read in several ways"},
	MalformedCredentials:  {status: http.StatusBadRequest, title: "The credentials cannot be understood"},
	MissingKey:            {status: http.StatusUnauthorized, title: "An API key is required"},
	InvalidKey:            {status: http.StatusUnauthorized, title: "The API key is not valid"},
	MonthlyQuotaExhausted: {status: http.StatusPaymentRequired, title: "The monthly quota is used up", uri: quotaType},
	AccountInactive:       {status: http.StatusForbidden, title: "The account is not active"},
	MissingScope:          {status: http.StatusForbidden, title: "The API key lacks a scope"},
	InvalidSignature:      {status: http.StatusForbidden, title: "The signature is not valid"},
	ReviewTaken:           {status: http.StatusConflict, title: "The item is taken"},
	NotFound:              {status: http.StatusNotFound, title: "There is nothing at this address"},
	MethodNotAllowed:      {status: http.StatusMethodNotAllowed, title: "The method is not allowed here"},
	RequestTimeout:        {status: http.StatusRequestTimeout, title: "The body did not arrive in time"},
	BodyTooLarge:          {status: http.StatusRequestEntityTooLarge, title: "The body is too large"},
	UnsupportedMediaType:  {status: http.StatusUnsupportedMediaType, title: "The media type is not supported"},
	UnsupportedEncoding:   {status: http.StatusUnsupportedMediaType, title: "The content encoding is not supported"},
	TextTooLong:           {status: http.StatusRequestEntityTooLarge, title: "The text is too long"},
	ContentRejected:       {status: http.StatusUnprocessableEntity, title: "The content was rejected"},
	ResponseRejected:      {status: http.StatusUnprocessableEntity, title: "The answer was rejected"},
	NotJudged:             {status: http.StatusServiceUnavailable, title: "The content could not be judged"},
	RateLimitExceeded:     {status: http.StatusTooManyRequests, title: "The rate limit is used up", uri: quotaType},
	FeedbackBoundReached:  {status: http.StatusTooManyRequests, title: "The day's feedback is used up", uri: quotaType},
	InternalError:         {status: http.StatusInternalServerError, title: "The service failed"},
	StorageUnavailable:    {status: http.StatusServiceUnavailable, title: "The storage is unavailable"},
	ClassifierUnavailable: {status: http.StatusServiceUnavailable, title: "The classifier is unavailable"},
	Starting:              {status: http.StatusServiceUnavailable, title: "The service is starting"},
	TierNotConfigured:     {status: http.StatusServiceUnavailable, title: "The account's tier is not configured"},
}

// Codes returns all codes, in no order.
func Codes() []Code {
	all := make([]Code, 0, len(codes))
	for code := range codes {
		all = append(all, code)
	}
	return all
}

// Status returns the HTTP status of the code; 500 for a code that is not in the table.
func (c Code) Status() int {
	if row, ok := codes[c]; ok {
		return row.status
	}
	return http.StatusInternalServerError
}

// Title returns the code's constant summary for people.
func (c Code) Title() string {
	return codes[c].title
}

// Type returns the URI that identifies the type of the problem. It is a name and not an address to visit, except for
// those in IANA's registry.
func (c Code) Type() string {
	if uri := codes[c].uri; uri != "" {
		return uri
	}
	return "urn:caddy-moderation:problem:" + string(c)
}
