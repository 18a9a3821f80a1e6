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
	code := codeOf(err)
	switch code {
	case problem.UnsupportedMediaType:
		header.Set("Accept-Post", "application/json")
	case problem.UnsupportedEncoding:
		header.Set("Accept-Encoding", "gzip, identity")
	}
	return problem.FromError(code, err)
}

// codeOf returns the code of an error of [Read] or [CheckJSON].
func codeOf(err error) problem.Code {
	switch {
	case errors.Is(err, ErrTooLarge):
		return problem.BodyTooLarge
	case errors.Is(err, ErrTimeout):
		return problem.RequestTimeout
	case errors.Is(err, ErrUnsupportedType):
		return problem.UnsupportedMediaType
	case errors.Is(err, ErrUnsupportedEncoding):
		return problem.UnsupportedEncoding
	}
	return problem.IncompleteBody
}
