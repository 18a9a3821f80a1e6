// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package request

import (
	"encoding/json"
	"fmt"
	"net/textproto"
	"strings"

	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/content"
	"github.com/caddy-moderation/caddy-moderation/caddymod/options"
)

// Fields say where the texts of a request stand. If none of them is given, every string of the body with at least one
// letter is extracted: the values of JSON, the fields of forms (the names of files, but not the files), the text of
// HTML and XML, and plain text. What a body looks like is extracted in addition to what its Content-Type says.
type Fields struct {
	// The JSON Pointers (RFC 6901) to the texts of JSON bodies, such as "/comment" or "/posts/*/text", where * stands
	// for any member or element. A pointer to an object or an array means every string in it. Names match in any case.
	// Bodies of other types are still moderated as a whole, so the type is no way around the guard. Default: every
	// string.
	JSON []string `json:"json,omitempty"`
	// The fields of urlencoded and multipart forms that are moderated. Names match in any case, and "name" also matches
	// "name[]" and "name[x]". Bodies of other types are still moderated as a whole. Default: all.
	Form []string `json:"form,omitempty"`
	// Whether to moderate passwords, tokens and other credentials, too. If false, short values with at most one blank
	// are left out if the name of the field or member is that of a credential. Default: false.
	Credentials bool `json:"credentials,omitempty"`
	// The roles, in lower case, whose messages are moderated in requests to language models, such as "user". A message
	// is left out only if it has another role beyond doubt. Default: all.
	Roles []string `json:"roles,omitempty"`
	// Whether to moderate every body as one plain text, whatever its Content-Type says, leaving nothing out. Default:
	// false.
	Text bool `json:"text,omitempty"`
	// The query parameters that are moderated as well, for requests of any method. Default: none.
	Query []string `json:"query,omitempty"`
	// The header fields that are moderated as well, for requests of any method. Default: none.
	Header []string `json:"header,omitempty"`
}

// Options adds the Caddyfile options of a request.
func (f *Fields) Options(allowed map[string]options.Option) {
	f.BodyOptions(allowed)
	allowed["form"] = options.Several(&f.Form, "<field>", nil)
	allowed["roles"] = options.Several(&f.Roles, "<role>", content.CheckRole)
	allowed["query"] = options.Several(&f.Query, "<parameter>", nil)
	allowed["header"] = options.Several(&f.Header, "<name>", nil)
	allowed["credentials"] = options.Flag(&f.Credentials)
}

// BodyOptions adds the Caddyfile options that make sense for the body of an answer, too.
func (f *Fields) BodyOptions(allowed map[string]options.Option) {
	allowed["json"] = options.Several(&f.JSON, "<pointer>", func(text string) error {
		_, err := content.ParsePointer(text)
		return err
	})
	allowed["text"] = options.Flag(&f.Text)
}

// check refuses empty names and unknown roles.
func (f *Fields) check() error {
	for option, names := range map[string][]string{"form": f.Form, "query": f.Query, "header": f.Header} {
		for _, name := range names {
			if strings.TrimSpace(name) == "" {
				return fmt.Errorf("%s: a name is empty", option)
			}
		}
	}
	for _, role := range f.Roles {
		if err := content.CheckRole(role); err != nil {
			return fmt.Errorf("roles: %w", err)
		}
	}
	return nil
}

// canonical returns the JSON of the fields, the same for all that select the same texts. It is "{}" when none is given.
func (f Fields) canonical() (string, error) {
	f.Header = canonicalNames(f.Header)
	encoded, err := json.Marshal(f)
	return string(encoded), err
}

// canonicalNames returns names of header fields as [http.Header] has them.
func canonicalNames(names []string) (canonical []string) {
	for _, name := range names {
		canonical = append(canonical, textproto.CanonicalMIMEHeaderKey(name))
	}
	return canonical
}
