// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package content_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/content"
)

// TestCharsets extracts a word in every kind of charset that an app may honour, under the names that it may have.
func TestCharsets(t *testing.T) {
	t.Parallel()
	for charset, body := range map[string]string{
		"utf-16":          wide("kill ü", false, false),
		"UTF_16":          wide("kill ü", true, true),
		"utf-16le":        wide("kill ü", false, false),
		"utf-16be":        wide("kill ü", true, false),
		"ucs-2":           wide("kill ü", false, true),
		"utf-32":          "\xff\xfe\x00\x00k\x00\x00\x00i\x00\x00\x00l\x00\x00\x00l\x00\x00\x00 \x00\x00\x00\xfc\x00\x00\x00",
		"utf-32le":        "k\x00\x00\x00i\x00\x00\x00l\x00\x00\x00l\x00\x00\x00 \x00\x00\x00\xfc\x00\x00\x00",
		"UTF-32BE":        utf32("kill ü"),
		"ucs4":            utf32("\ufeffkill ü"),
		"utf-8-sig":       "\xef\xbb\xbfkill ü",
		"latin1":          "kill \xfc",
		"cp1252":          "kill \xfc",
		"ibm850":          "kill \x81",
		"macintosh":       "kill \x9f",
		"gb18030":         "kill \xa8\xb9",
		"cp500":           "\x92\x89\x93\x93\x40\xdc",
		"IBM-273":         "\x92\x89\x93\x93\x40\xdc",
		"utf7-imap":       "k&AGkAbA-l &APw-",
		"u-t-f_16":        wide("kill ü", true, false),
		"UTF-16BE-BOM":    wide("kill ü", true, true),
		"ISO_8859-1:1987": "kill \xfc",
		"x-windows-1250":  "kill \xfc",
		"ibm1047":         "\x92\x89\x93\x93\x40\xdc",
		"ibm01140":        "\x92\x89\x93\x93\x40\xdc",
		"utf7":            "k+AGkAbA-l +APw-",
		"unicode_escape":  `k\u0069ll \xfc`,
		"nothing-such":    "kill \xfc",
		"a \"\r\n\x00 ~~": "kill \xfc",
	} {
		typ := content.TypeOf([]string{"text/plain; charset=" + charset})
		unknown := slices.Contains([]string{"nothing-such", "cp500", "IBM-273"}, charset)
		if !strings.ContainsAny(charset, "\" ") && typ.UnknownCharset != unknown {
			t.Errorf("%s: got UnknownCharset %v, want %v", charset, typ.UnknownCharset, unknown)
		}
		var s content.Selection
		pieces := s.Extract(nil, typ, []byte(body))
		if len(pieces) == 0 || pieces[0].Text != "kill ü" {
			t.Errorf("%s: got %q, want %q first", charset, show(pieces), "kill ü")
		}
	}
}

func TestSniff(t *testing.T) {
	t.Parallel()
	binary := content.TypeOf([]string{"application/octet-stream"})
	for hazard, c := range map[string]struct {
		prefix string
		want   content.Kind
	}{
		"nothing":                      {"", content.Binary},
		"spaces":                       {"  \n", content.Text},
		"an object":                    {" {\"a\"", content.JSON},
		"an array":                     {"[1", content.JSON},
		"a string":                     {`"x`, content.JSON},
		"a form":                       {"a=b&c=d", content.Form},
		"a form with one field":        {"comment=I+will", content.Form},
		"an equation":                  {"a = b and so on", content.Text},
		"words before the sign":        {"I think a=b", content.Text},
		"words behind the sign":        {"a=b is true", content.Text},
		"HTML":                         {"<p>", content.Markup},
		"XML":                          {"<?xml", content.Markup},
		"a comment":                    {"<!-- x", content.Markup},
		"an arrow":                     {"<- x", content.Text},
		"UTF-16":                       {wide("kill", false, true), content.Text},
		"JSON in UTF-16":               {wide("{}", false, false), content.JSON},
		"letters of another script":    {strings.Repeat("привет ", 300), content.Text},
		"the same, cut in a character": {strings.Repeat("x", 1023) + "привет", content.Text},
		"a long name":                  {strings.Repeat("x", 200) + "=b", content.Text},
		"some odd bytes":               {"\x00\x01I will kill you, I will", content.Text},
		"mostly odd bytes":             {"\x01\x02\x03\x04kill", content.Binary},
		"gzip":                         {"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff\xca\x48", content.Binary},
	} {
		if got := content.Sniff([]byte(c.prefix), binary); got != c.want {
			t.Errorf("%s: got %d, want %d", hazard, got, c.want)
		}
	}
	if got := content.Sniff([]byte("{}"), content.Type{Kind: content.Text}); got != content.Text {
		t.Errorf("a known type: got kind %d, want %d", got, content.Text)
	}
	grpc := content.TypeOf([]string{"application/grpc-web"})
	if got := content.Sniff([]byte("\x00\x00\x00\x00\x10I will find you."), grpc); got != content.Binary {
		t.Errorf("gRPC: got kind %d, want %d", got, content.Binary)
	}
	if got := content.Sniff([]byte("{}"), grpc); got != content.JSON {
		t.Errorf("JSON as gRPC: got kind %d, want %d", got, content.JSON)
	}
}
