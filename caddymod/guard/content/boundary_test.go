// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package content_test

import (
	"strings"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/content"
)

// TestBoundary has what real parsers make of a Content-Type: busboy 1.6, @fastify/busboy 3, @hapi/pez 6, formidable
// 3, multiparty 4, Django 3.2, aiohttp 3.8, python-multipart 0.0.5, Werkzeug 2.2 and 3.1, Rack 2.2, Go and PHP 8.2
// were asked. Several values are separated by a bar.
func TestBoundary(t *testing.T) {
	t.Parallel()
	const form = "multipart/form-data; "
	for _, test := range []struct{ name, values, want string }{
		// All parsers that accept these read the same boundary.
		{"of a browser", form + "boundary=----WebKitFormBoundaryABC", "----WebKitFormBoundaryABC"},
		{"of Python", form + "boundary=9d1a2b", "9d1a2b"},
		{"in quotes", form + `boundary="ab"`, "ab"},
		{"in quotes, with characters that need them", form + `boundary="----=_Part_1"`, "----=_Part_1"},
		{"in quotes, of Python's email, also in Google's client", `multipart/related; boundary="===============7330845974216740156=="`, "===============7330845974216740156=="},
		{"in quotes, of a mail program", `multipart/related; type="text/xml"; start="<a@b>"; boundary="uuid:1"`, "uuid:1"},
		{"of Java, without quotes: Werkzeug 3 and Starlette end it at the =", form + "boundary=----=_Part_1_123.456", "----=_Part_1_123.456"},
		{"a slash without quotes", form + "boundary=a/b", "a/b"},
		{"plus and dots", form + "boundary=a+b.c_d-e", "a+b.c_d-e"},
		{"the type in another case", "Multipart/Form-Data; BOUNDARY=ab", "ab"},
		{"another parameter before it", form + "charset=utf-8; boundary=ab", "ab"},
		{"another parameter behind it", form + "boundary=ab; charset=utf-8", "ab"},
		{"without blanks", "multipart/form-data;boundary=ab;charset=utf-8", "ab"},
		{"with more blanks", "multipart/form-data ;  boundary=ab", "ab"},
		{"a semicolon at the end", form + "boundary=ab;", "ab"},
		{"another type of several parts", "multipart/mixed; boundary=ab", "ab"},
		{"as long as may be", form + "boundary=" + strings.Repeat("a", 70), strings.Repeat("a", 70)},
		{"the word in it", form + "boundary=boundary-1", "boundary-1"},

		{"none", "multipart/form-data", ""},
		{"an empty one", form + "boundary=", ""},
		{"an empty one in quotes", form + `boundary=""`, ""},
		{"two", form + "boundary=ab; boundary=cd", ""},
		{"twice the same", form + "boundary=ab; boundary=ab", ""},
		{"two in two cases: PHP takes the one in lower case", form + "BOUNDARY=ab; boundary=cd", ""},
		{"two values", form + "boundary=ab|" + form + "boundary=cd", ""},
		{"two values that are the same: servers join them by a comma", form + "boundary=ab|" + form + "boundary=ab", ""},
		{"a comma: PHP and Werkzeug 2 read ab, Werkzeug 3 cd", form + "boundary=ab, multipart/form-data; boundary=cd", ""},
		{"a comma in quotes", form + `boundary="a,b"`, ""},
		{"boundary*: Go, Werkzeug and Rack decode it, PHP does not", form + "boundary*=utf-8''ab", ""},
		{"boundary*0: Go and Werkzeug put it together", form + "boundary*0=a; boundary*1=b", ""},
		{"boundary* beside one", form + "boundary=ab; boundary*=utf-8''cd", ""},
		{"xboundary: PHP and Rack take it", form + "xboundary=cd; boundary=ab", ""},
		{"in another value: formidable and PHP take x", form + "x=boundary=x; boundary=ab", ""},
		{"in another value in quotes", form + `x="; boundary=y"; boundary=ab`, ""},
		{"in a charset: formidable and PHP take it", form + `charset="utf-8; boundary=cd"; boundary=ab`, ""},
		{"the word behind it: some versions of Rack take the last one", form + "boundary=ab; x=boundary", ""},
		{"in it", form + "boundary=boundary=ab", ""},
		{"an escape", form + `boundary="a\b"`, ""},
		{"an escaped quote", form + `boundary="a\"b"`, ""},
		{"a quote that is not closed", form + `boundary="ab`, ""},
		{"junk behind the quotes", form + `boundary="ab"c`, ""},
		{"junk before the quotes", form + `boundary=a"b"`, ""},
		{"single quotes: old versions of python-multipart take them off", form + "boundary='ab'", ""},
		{"a blank before the =", form + "boundary =ab", ""},
		{"a blank behind the =", form + "boundary= ab", ""},
		{"a blank in it: some end it there", form + "boundary=a b", ""},
		{"a blank in quotes", form + `boundary="a b"`, ""},
		{"a blank behind it: PHP, formidable and Werkzeug 2 keep it", form + "boundary=ab ; charset=utf-8", ""},
		{"a tab", "multipart/form-data;\tboundary=ab", ""},
		{"a semicolon in quotes: PHP and formidable do not mind, others end it", form + `boundary="a;b"`, ""},
		{"two semicolons", form + "; boundary=ab", ""},
		{"a parameter without a value", form + "x; boundary=ab", ""},
		{"an equals sign first: Werkzeug 3 has none", form + "boundary==ab", ""},
		{"too long: aiohttp refuses it", form + "boundary=" + strings.Repeat("a", 71), ""},
		{"a control character", form + "boundary=a\x01b", ""},
		{"folded", form + "\r\n boundary=ab", ""},
		{"beyond ASCII", form + "boundary=ä", ""},
		{"a percent sign", form + "boundary=%61", ""},
		{"no semicolon: formidable and PHP find it", "multipart/form-data boundary=ab", ""},
		{"a comma for the semicolon: formidable, PHP and Rack find it", "multipart/form-data, boundary=ab", ""},
		{"two types: PHP and Rack read the first", "multipart/form-data, text/plain; boundary=ab", ""},
		{"no subtype: formidable reads it", "multipart; boundary=ab", ""},
		{"in another type's parameter: formidable reads it", "text/plain; x=multipart/form-data; boundary=ab", ""},
		{"in another type's name: formidable reads it", "application/x-multipart; boundary=ab", ""},
		{"behind a form's type: formidable reads both", "application/x-www-form-urlencoded; multipart; boundary=ab", ""},
		{"in the second value", "text/plain|" + form + "boundary=ab", ""},
		{"in the first value", form + "boundary=ab|text/plain", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := content.TypeOf(strings.Split(test.values, "|"))
			if got.Kind != content.Multipart || got.Boundary != test.want || got.BadBoundary != (test.want == "") || got.Ambiguous != got.BadBoundary {
				t.Errorf("got %+v, want the boundary %q", got, test.want)
			}
		})
	}
	for _, value := range []string{"text/plain; boundary=ab", "application/json", "", "image/png", "application/x-www-form-urlencoded"} {
		if got := content.TypeOf([]string{value}); got.Kind == content.Multipart || got.BadBoundary || got.Boundary != "" {
			t.Errorf("%q: got %+v, want no multipart type and no boundary", value, got)
		}
	}
}
