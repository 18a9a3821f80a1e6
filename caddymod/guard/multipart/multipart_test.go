// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package multipart_test

import (
	"strings"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/multipart"
)

func TestFindsFieldsBesideFiles(t *testing.T) {
	t.Parallel()
	body := strings.ReplaceAll(`--b
Content-Disposition: form-data; name="a"

one
--b
Content-Disposition: form-data; name="f"; filename="x.txt"
Content-Type: text/plain

file
--b
Content-Disposition: form-data; name="c"

two
--b--
`, "\n", "\r\n")
	s := multipart.NewScanner("b", 100)
	parts, err := s.Push([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range parts {
		t.Logf("%+v %q", p, p.Body)
	}
	t.Log(s.Safe(), len(body))
	parts, err = s.Finish()
	t.Log(parts, err, s.Safe(), len(body))
}
