// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package body

import (
	"bytes"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

func TestMalformedJSON(t *testing.T) {
	t.Parallel()
	rows := []struct{ name, body, want string }{
		{"well-formed", `{"a":1}`, ""},
		{"white space around it", " {}\n", ""},
		{"nothing", "", "The body is empty; it must be a JSON object."},
		{"white space", " \n", "The body is empty; it must be a JSON object."},
		{"not UTF-8", "{\"a\":\"\xff\"}", "The body is not valid UTF-8."},
		{"two objects", "{} {}", "Something follows the JSON object."},
		{"rubbish behind it", "{} x", "Something follows the JSON object."},
		{"a member twice", `{"a":1,"a":2}`, "A member is given twice."},
		{"no member", `{"a":1,}`, "The JSON is malformed at byte 6."},
		{"cut off", `{"a":`, "The JSON is malformed at byte 5."},
	}
	for _, row := range rows {
		decoder := jsontext.NewDecoder(bytes.NewBufferString(row.body))
		err := decoder.SkipValue()
		if err == nil {
			err = EndJSON(decoder)
		}
		got := ""
		if err != nil {
			got = MalformedJSON([]byte(row.body), err)
		}
		if got != row.want {
			t.Errorf("%s: got %q, want %q (error %v)", row.name, got, row.want, err)
		}
	}
}
