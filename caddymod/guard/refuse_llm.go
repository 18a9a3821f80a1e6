// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/go-json-experiment/json"

	responsewriter "github.com/caddy-moderation/caddy-moderation/caddymod/internal/response"
	"github.com/caddy-moderation/caddy-moderation/caddymod/problem"
)

// errorFormat is how the API of a language model refuses a request. It returns the status, and the body that is encoded
// as JSON.
type errorFormat func(id string, p *problem.Problem) (int, any)

// formatOf returns the format of the API that a request is for, and nil for all other requests. It goes by the end of
// the path that the client asked for, because gateways put prefixes before it.
func formatOf(r *http.Request) errorFormat {
	path := r.URL.Path
	if original, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request); ok && original.URL != nil {
		path = original.URL.Path
	}
	path = strings.TrimSuffix(path, "/")
	ends := func(suffixes ...string) bool {
		for _, suffix := range suffixes {
			if strings.HasSuffix(path, suffix) {
				return true
			}
		}
		return false
	}
	switch {
	case ends("/chat/completions", "/v1/completions", "/v1/responses", "/openai/responses", "/v1/embeddings",
		"/v1/images/generations", "/v1/audio/speech"), strings.Contains(path, "/openai/deployments/"):
		return openAIError
	case ends("/v1/messages", "/v1/messages/count_tokens") && r.Header.Get("Anthropic-Version") != "":
		// Other APIs have messages, too. This one demands the header field.
		return anthropicError
	case ends(":generateContent", ":streamGenerateContent", ":countTokens", ":embedContent"):
		return googleError
	case ends("/api/chat", "/api/generate"):
		return ollamaError
	}
	return nil
}

// write answers with a problem in the format.
func (format errorFormat) write(w http.ResponseWriter, r *http.Request, id string, p *problem.Problem) error {
	status, body := format(id, p)
	encoded, err := json.Marshal(body)
	if err != nil {
		return err
	}
	problem.SetHeaders(w.Header(), id)
	responsewriter.SendJSON(w, r, status, encoded)
	return nil
}

// isRejection reports whether a problem says that text was rejected, and not that a message could not be moderated.
// These APIs answer 400 then, after which their clients do not repeat the request.
func isRejection(p *problem.Problem) bool {
	return p.Code == problem.ContentRejected || p.Code == problem.ResponseRejected
}

// statusOf returns the status of a problem in the APIs that have no 422.
func statusOf(p *problem.Problem) int {
	if isRejection(p) {
		return http.StatusBadRequest
	}
	return p.Code.Status()
}

// openAIError is the format of OpenAI's API and of those that follow it, Azure's among them.
func openAIError(_ string, p *problem.Problem) (int, any) {
	var body struct {
		Error struct {
			Message string  `json:"message"`
			Type    string  `json:"type"`
			Param   *string `json:"param"`
			Code    string  `json:"code"`
		} `json:"error"`
	}
	status := statusOf(p)
	body.Error.Message, body.Error.Type, body.Error.Code = p.Error(), "invalid_request_error", string(p.Code)
	if isRejection(p) {
		body.Error.Code = "content_filter"
	}
	if status >= http.StatusInternalServerError {
		body.Error.Type = "server_error"
	}
	return status, &body
}

// anthropicError is the format of Anthropic's messages API.
func anthropicError(id string, p *problem.Problem) (int, any) {
	var body struct {
		Type  string `json:"type"`
		Error struct {
			Type    string `json:"type"`
			Message string `json:"message"`
		} `json:"error"`
		RequestID string `json:"request_id"`
	}
	status := statusOf(p)
	body.Type, body.Error.Type, body.Error.Message, body.RequestID = "error", "invalid_request_error", p.Error(), id
	switch {
	case status == http.StatusRequestEntityTooLarge:
		body.Error.Type = "request_too_large"
	case status >= http.StatusInternalServerError:
		body.Error.Type = "api_error"
	}
	return status, &body
}

// googleError is the format of Google's APIs, Gemini's among them.
func googleError(_ string, p *problem.Problem) (int, any) {
	var body struct {
		Error struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
			Status  string `json:"status"`
		} `json:"error"`
	}
	status := statusOf(p)
	body.Error.Code, body.Error.Message, body.Error.Status = status, p.Error(), "INVALID_ARGUMENT"
	if status >= http.StatusInternalServerError {
		body.Error.Status = "UNAVAILABLE"
	}
	return status, &body
}

// ollamaError is the format of Ollama, with the members of a problem, because other apps have such paths, too.
func ollamaError(id string, p *problem.Problem) (int, any) {
	return p.Code.Status(), &struct {
		Error      string          `json:"error"`
		Type       string          `json:"type"`
		Title      string          `json:"title"`
		Status     int             `json:"status"`
		Detail     string          `json:"detail"`
		Instance   string          `json:"instance"`
		Code       problem.Code    `json:"code"`
		Categories []string        `json:"categories,omitempty"`
		Fields     []problem.Field `json:"fields,omitempty"`
	}{p.Error(), p.Code.Type(), p.Code.Title(), p.Code.Status(), p.Error(), id, p.Code, p.Categories, p.Fields}
}
