// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package commentanalyzer

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-moderation/caddy-moderation/caddymod/problem"
)

// Bounds of a request.
const (
	maxAttributes = 64   // entries of attributeScores and requestedAttributes
	maxName       = 128  // characters of an attribute's name
	maxLanguages  = 32   // entries of languages
	maxLanguage   = 35   // characters of a language tag
	maxText       = 2048 // characters of clientToken, communityId and sessionId
	maxViolations = 8    // members that one error names
)

// probability is the only type of score that this service knows.
const probability = "PROBABILITY"

// anyCase accepts the names of members in lowerCamelCase and in snake_case, as Google's servers do.
var anyCase = json.MatchCaseInsensitiveNames(true)

// lenient accepts what real clients send, also the halves of surrogate pairs that remain when a program cuts a long
// comment. They become U+FFFD. Both are one UTF-16 code unit, so the offsets of spans stay right.
var lenient = json.JoinOptions(anyCase, jsontext.AllowInvalidUTF8(true))

// unmarshal decodes a body into request.
func unmarshal(data []byte, request any) *failure {
	if jsontext.Value(data).Kind() != '{' {
		return malformed("The body must be a JSON object.")
	}
	// A text in another encoding would be scored as something that nobody wrote.
	if !utf8.Valid(data) {
		return malformed(notOneObject)
	}
	if err := json.Unmarshal(data, request, lenient); err != nil {
		return undecodable("", err)
	}
	return nil
}

// notOneObject is the message for a body that is not JSON.
const notOneObject = "The body must be one well-formed JSON object in UTF-8."

// textEntry is a text of a request. A pointer distinguishes what is absent from what is empty.
type textEntry struct {
	Text *string `json:"text"`
	Type string  `json:"type"`
}

// comment returns the text to score.
func (entry *textEntry) comment() (string, *failure) {
	if entry == nil || entry.Text == nil || strings.TrimSpace(*entry.Text) == "" {
		return "", invalid(commentEmpty, "Comment must be non-empty.", "/comment/text",
			"is required and must not be empty")
	}
	switch entry.Type {
	case "", "TEXT_TYPE_UNSPECIFIED", "PLAIN_TEXT":
		return *entry.Text, nil
	case "HTML":
		return "", invalid(invalidRequest, "Currently, only 'PLAIN_TEXT' comments are supported", "/comment/type",
			"must be PLAIN_TEXT or absent")
	}
	return "", invalid(invalidRequest, "Unknown text type", "/comment/type", "must be PLAIN_TEXT or absent")
}

// violations are the rules that a request breaks.
type violations []problem.FieldError

func (v *violations) add(pointer, detail string, args ...any) {
	if len(*v) < maxViolations {
		*v = append(*v, problem.FieldError{Pointer: pointer, Detail: fmt.Sprintf(detail, args...)})
	}
}

// failure returns the error for the request; nil when no rule is broken. The message names the first one.
func (v violations) failure() *failure {
	if len(v) == 0 {
		return nil
	}
	message := fmt.Sprintf("%s: %s.", fieldPath(v[0].Pointer), v[0].Detail)
	return &failure{code: problem.InvalidRequest, message: message, errorType: invalidRequest, violations: v}
}

// languages checks the language tags.
func (v *violations) languages(tags []string) []string {
	if len(tags) > maxLanguages {
		v.add("/languages", "may have at most %d languages", maxLanguages)
		return nil
	}
	for i, tag := range tags {
		if !isLanguage(tag) {
			v.add("/languages/"+strconv.Itoa(i), "must be a language tag such as en or pt-BR")
		}
	}
	return tags
}

// bounded checks the length of a text that is kept as it is.
func (v *violations) bounded(name, text string) string {
	if utf8.RuneCountInString(text) > maxText {
		v.add("/"+name, "may have at most %d characters", maxText)
	}
	return text
}

// isName reports whether an attribute may have this name: the names of the Perspective API, those of this service,
// and others of the same form.
func isName(name string) bool {
	return len(name) > 0 && len(name) <= maxName && !strings.ContainsFunc(name, func(r rune) bool {
		return notInTag(r) && r != '.' && r != '/'
	})
}

// isLanguage reports whether a text has the form of a language tag.
func isLanguage(tag string) bool {
	return len(tag) > 0 && len(tag) <= maxLanguage && !strings.ContainsFunc(tag, notInTag)
}

// notInTag reports whether a character cannot stand in a language tag.
func notInTag(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
}

// undecodable returns the error for a body, or for the member at pointer, that cannot be decoded.
func undecodable(pointer string, err error) *failure {
	var semantic *json.SemanticError
	if errors.As(err, &semantic) {
		found := violations{{Pointer: pointer + withoutContent(semantic.JSONPointer), Detail: "has the wrong type"}}
		return found.failure()
	}
	if errors.Is(err, jsontext.ErrDuplicateName) {
		return malformed("The body must not name a member twice.")
	}
	return malformed(notOneObject)
}

// withoutContent cuts a pointer before the first name that cannot be one of an attribute: it may be content.
func withoutContent(pointer jsontext.Pointer) string {
	var kept jsontext.Pointer
	for token := range pointer.Tokens() {
		if !isName(token) {
			break
		}
		kept = kept.AppendToken(token)
	}
	return string(kept)
}

// malformed returns an error for a body that is not JSON as it must be.
func malformed(message string) *failure {
	return &failure{code: problem.MalformedJSON, message: message, errorType: invalidRequest}
}

// invalid returns an error for one member.
func invalid(errorType, message, pointer, detail string) *failure {
	return &failure{
		code: problem.InvalidRequest, message: message, errorType: errorType,
		violations: violations{{Pointer: pointer, Detail: detail}},
	}
}

// utf16Length returns the length of a text in UTF-16 code units.
func utf16Length(text string) int {
	n := 0
	for _, r := range text {
		n += utf16.RuneLen(r)
	}
	return n
}
