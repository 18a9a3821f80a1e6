// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package body

import (
	"errors"
	"net/http"

	"github.com/caddy-moderation/caddy-moderation/caddymod/problem"
)

// Problem returns the answer to a request whose body could not be read. It sets the header fields that go with the
// answer: Accept-Post and Accept-Encoding say what would be accepted (RFC 9110, section 15.5.16). err is one of
// [Read] or [CheckJSON].
func Problem(header http.Header, err error) *problem.Problem {
	code := problem.IncompleteBody
	switch {
	case errors.Is(err, ErrTooLarge):
		code = problem.BodyTooLarge
	case errors.Is(err, ErrTimeout):
		code = problem.RequestTimeout
	case errors.Is(err, ErrUnsupportedType):
		code = problem.UnsupportedMediaType
		header.Set("Accept-Post", "application/json")
	case errors.Is(err, ErrUnsupportedEncoding):
		code = problem.UnsupportedEncoding
		header.Set("Accept-Encoding", "gzip, identity")
	}
	return problem.FromError(code, err)
}
