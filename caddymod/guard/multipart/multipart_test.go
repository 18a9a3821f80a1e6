// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package multipart_test

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	stdlib "mime/multipart"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/multipart"
)

// result is what a scanner returns for a whole body.
type result struct {
	parts []multipart.Part
	err   error
	safe  int64
}

// scan pushes a body in chunks that end at the cuts, and checks what holds for all bodies.
func scan(t testing.TB, boundary string, limit int64, body []byte, cuts ...int) result {
	t.Helper()
	var r result
	s := multipart.NewScanner(boundary, limit)
	check := func(parts []multipart.Part, err error, pushed int) {
		r.parts = append(r.parts, parts...)
		if r.err != nil && (len(parts) > 0 || !errors.Is(err, r.err)) {
			t.Fatalf("after the error %v: got %d parts and error %v, want none and the same", r.err, len(parts), err)
		}
		safe := s.Safe()
		if safe < r.safe || safe > int64(pushed) || r.err != nil && safe != r.safe {
			t.Fatalf("got Safe %d after %d, want it between that and %d of %d bytes", safe, r.safe, pushed, len(body))
		}
		r.safe, r.err = safe, err
	}
	start := 0
	for _, cut := range append(cuts, len(body)) {
		parts, err := s.Push(bytes.Clone(body[start:cut]))
		check(parts, err, cut)
		start = cut
	}
	parts, err := s.Finish()
	check(parts, err, len(body))
	if err == nil && r.safe != int64(len(body)) {
		t.Fatalf("got Safe %d at the end, want %d", r.safe, len(body))
	}
	return r
}

// String returns a line for each part: its name, its flags, its text.
func (r result) String() string {
	var b strings.Builder
	for _, p := range r.parts {
		fmt.Fprint(&b, p.Name)
		switch {
		case p.File:
			fmt.Fprintf(&b, " file %q", p.Filename)
		case p.Filename != "":
			fmt.Fprintf(&b, " filename %q", p.Filename)
		case p.Fragment:
			fmt.Fprintf(&b, " piece %q", p.Body)
		default:
			fmt.Fprintf(&b, " %q", p.Body)
		}
		if p.Truncated {
			fmt.Fprint(&b, " truncated")
		}
		if p.Ambiguous {
			fmt.Fprint(&b, " ambiguous")
		}
		b.WriteByte('\n')
	}
	if r.err != nil {
		fmt.Fprintln(&b, "error:", r.err)
	}
	return b.String()
}

// crlf writes line ends as in the standard.
func crlf(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }

// form returns a body with one part, with this header.
func form(header, body string) string {
	return crlf("--b\n" + header + "\n\n" + body + "\n--b--\n")
}

const field = "Content-Disposition: form-data; name=\"a\"\n"

// maybeFile is the header of a part that is a file for all servers except formidable.
const maybeFile = "Content-Disposition: form-data; name=\"a\"; filename=\"x\""

// each puts something behind each letter.
func each(text, behind string) string {
	return strings.Join(strings.Split(text, ""), behind) + behind
}

func packed(t testing.TB, w io.WriteCloser, to *bytes.Buffer, text string) string {
	t.Helper()
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return to.String()
}

// TestFindsEveryText is the table of hazards. Each body is scanned in every way of cutting it in two, and byte by
// byte.
func TestFindsEveryText(t *testing.T) {
	t.Parallel()
	var zipped, deflated bytes.Buffer
	zip := packed(t, gzip.NewWriter(&zipped), &zipped, "vile")
	deflate := packed(t, zlib.NewWriter(&deflated), &deflated, "vile")
	junk := strings.Repeat("\x00\x01\x02\x03\xff\xfe\xfd", 200)
	for _, test := range []struct{ name, body, want string }{
		{"fields and a file", crlf("--b\n" + field + "\none\n--b\nContent-Disposition: form-data; name=\"f\"; filename=\"x.txt\"\nContent-Type: image/png\n\nfile\n--b\n" + field + "\ntwo\n--b--\n"),
			"a \"one\"\nf file \"x.txt\"\na \"two\"\n"},
		{"empty field, whose name may be a text", form("Content-Disposition: form-data; name=\"a\"", ""), "a \"\"\n"},
		{"nothing", "", ""},
		{"only the end", "--b--\r\n", ""},
		{"no parts at all", "I will find you", " \"I will find you\" ambiguous\n"},
		{"many lines", form("Content-Disposition: form-data; name=\"a\"", "\n\n-\n--\n--a\n\n"), "a \"\\r\\n\\r\\n-\\r\\n--\\r\\n--a\\r\\n\\r\\n\"\n"},
		{"a delimiter without a line end before it ends", crlf("--b\n" + field + "\none\n--b--"), "a \"one\"\n"},
		{"no last delimiter", crlf("--b\n" + field + "\none"), "a \"one\"\n"},
		{"half of a last delimiter", crlf("--b\n" + field + "\none\n--"), "a \"one\\r\\n--\"\n"},
		{"a last delimiter without its hyphens", crlf("--b\n" + field + "\none\n--b"), "a \"one\"\n"},
		{"a last delimiter with one hyphen", crlf("--b\n" + field + "\none\n--b-"), "a \"one\\r\\n--b-\"\n"},
		{"a header without an end", crlf("--b\n" + field), " \"Content-Disposition: form-data; name=\\\"a\\\"\\r\\n\" ambiguous\n"},
		{"a header cut off by a delimiter", crlf("--b\n" + field + "--b--"), " \"Content-Disposition: form-data; name=\\\"a\\\"\" ambiguous\n"},
		{"no header", crlf("--b\n\none\n--b--"), " \"\\r\\none\" ambiguous\n"},

		{"line feeds only", "--b\n" + field + "\none\n--b\nContent-Disposition: form-data; name=f; filename=x\nContent-Type: image/png\n\nfile\n--b--\n", "a \"one\"\nf file \"x\"\n"},
		{"a delimiter of line feeds, which strict servers do not see", crlf("--b\n"+field+"\none") + "\n--b\nContent-Disposition: form-data; name=f; filename=x\n\nvile\n--b--\n",
			"a \"one\"\nf filename \"x\" ambiguous\nf piece \"Content-Disposition: form-data; name=f; filename=x\\n\\nvile\" ambiguous\n"},
		{"a strict delimiter among line feeds", "--b\nContent-Disposition: form-data; name=f; filename=x\nContent-Type: image/png\n\nfile\r\n--b\r\nContent-Disposition: form-data; name=g; filename=y\r\n\r\nvile\r\n--b--",
			"f file \"x\"\ng filename \"y\" ambiguous\ng piece \"Content-Disposition: form-data; name=g; filename=y\\r\\n\\r\\nvile\" ambiguous\n"},
		{"white space after the boundary", crlf("--b\n" + field + "\none\n--b \t\nContent-Disposition: form-data; name=f; filename=x\n\nvile\n--b--\n"),
			"a \"one\"\nf filename \"x\" ambiguous\nf piece \"Content-Disposition: form-data; name=f; filename=x\\r\\n\\r\\nvile\" ambiguous\n"},
		{"white space after the first boundary", crlf("--b \n" + field + "\none\n--b--\n"), "a \"Content-Disposition: form-data; name=\\\"a\\\"\\r\\n\\r\\none\" ambiguous\n"},
		{"a boundary in the middle of a line of a file", crlf("--b\nContent-Disposition: form-data; name=f; filename=x\nContent-Type: image/png\n\nfile--b\n\nvile\n--b--\n"),
			"f file \"x\"\nf piece \"--b\\r\\n\\r\\nvile\" ambiguous\n"},
		{"a longer boundary in a file, at which PHP ends it", crlf("--b\nContent-Disposition: form-data; name=f; filename=x\nContent-Type: image/png\n\nfile\n--bb\n--b\n" + field + "\nvile\n--b--\n"),
			"f file \"x\"\nf piece \"--bb\" ambiguous\na \"Content-Disposition: form-data; name=\\\"a\\\"\\r\\n\\r\\nvile\" ambiguous\n"},
		{"a boundary after a lone carriage return", crlf("--b\nContent-Disposition: form-data; name=f; filename=x\nContent-Type: image/png\n\nfile") + "\r--b\r" + crlf(field+"\nvile\n--b--\n"),
			"f file \"x\"\nf piece \"--b\\rContent-Disposition: form-data; name=\\\"a\\\"\\r\\n\\r\\nvile\" ambiguous\n"},
		{"a file after the end", crlf("--b\n" + field + "\none\n--b--\n--b\nContent-Disposition: form-data; name=f; filename=x\n\nvile\n--b--\n"),
			"a \"one\"\nf filename \"x\" ambiguous\nf piece \"Content-Disposition: form-data; name=f; filename=x\\r\\n\\r\\nvile\" ambiguous\n"},
		{"text after the end", crlf("--b\n" + field + "\none\n--b--\nvile"), "a \"one\"\n \"vile\" ambiguous\n"},
		{"text before the start", crlf("vile\n--b\n" + field + "\none\n--b--\n"), " \"vile\" ambiguous\na \"one\"\n"},
		{"an empty line before the start", crlf("\n--b\nContent-Disposition: form-data; name=f; filename=x\nContent-Type: image/png\n\nfile\n--b--\n"), "f file \"x\"\n"},
		{"a length that servers may believe", crlf("--b\n" + field + "Content-Length: 9999\n\none\n--b\nContent-Disposition: form-data; name=f; filename=x\n\nvile\n--b--\n"),
			"a \"one\"\nf filename \"x\" ambiguous\nf piece \"Content-Disposition: form-data; name=f; filename=x\\r\\n\\r\\nvile\" ambiguous\n"},
		{"a true length", crlf("--b\n" + field + "Content-Length: 3\n\none\n--b\nContent-Disposition: form-data; name=f; filename=x\nContent-Type: image/png\nContent-Length: 4\n\nfile\n--b\nContent-Disposition: form-data; name=g; filename=y\nContent-Type: image/png\nContent-Length: 0\n\n\n--b--\n"),
			"a \"one\"\nf file \"x\"\ng file \"y\"\n"},

		{"an empty filename", form("Content-Disposition: form-data; name=\"a\"; filename=\"\"", "vile"), "a \"vile\"\n"},
		{"a filename of directories", form("Content-Disposition: form-data; name=a; filename=\"x/\"", "vile"), "a filename \"x/\"\na piece \"vile\"\n"},
		{"a filename of dots", form("Content-Disposition: form-data; name=a; filename=\"x\\..\"", "vile"), "a filename \"x\\\\..\"\na piece \"vile\"\n"},
		{"a filename of white space", form("Content-Disposition: form-data; name=a; filename=\"%20\"", "vile"), "a filename \" \"\na piece \"vile\"\n"},
		{"a filename without a value", form("Content-Disposition: form-data; name=a; filename=", "vile"), "a \"vile\" ambiguous\n"},
		{"a filename without an equals sign", form("Content-Disposition: form-data; name=a; filename", "vile"), "a \"vile\" ambiguous\n"},
		{"two filenames", form("Content-Disposition: form-data; name=a; filename=x; filename=\"\"", "vile"), "a filename \"x\" ambiguous\na piece \"vile\" ambiguous\n"},
		{"a filename* alone, which PHP does not know", form("Content-Disposition: form-data; name=a; filename*=UTF-8''%e2%82%ac.txt", "vile"), "a filename \"€.txt\"\na piece \"vile\"\n"},
		{"filename and filename*", form("Content-Disposition: form-data; name=a; filename=\"EURO.txt\"; filename*=UTF-8''%e2%82%ac.txt\nContent-Type: image/png", "file"), "a file \"EURO.txt\"\na file \"€.txt\"\n"},
		{"filename and an empty filename*", form("Content-Disposition: form-data; name=a; filename=x; filename*=UTF-8''", "vile"), "a filename \"x\"\na piece \"vile\"\n"},
		{"an empty filename and filename*", form("Content-Disposition: form-data; name=a; filename=\"\"; filename*=UTF-8''x", "vile"), "a filename \"x\"\na piece \"vile\"\n"},
		{"a filename in pieces", form("Content-Disposition: form-data; name=a; filename*0=vi; filename*1=le", "vile"), "a filename \"vi\" ambiguous\na filename \"le\" ambiguous\na filename \"vile\" ambiguous\na piece \"vile\" ambiguous\n"},
		{"a filename in another parameter", form("Content-Disposition: form-data; name=\"a; filename=x\"", "vile"), "a; filename=x \"vile\" ambiguous\n"},
		{"a filename behind an escaped quote", form(`Content-Disposition: form-data; name="a\"; filename="x"`, "vile"), "a\"; filename= \"vile\" ambiguous\n"},
		{"a filename behind two backslashes", form(`Content-Disposition: form-data; name="a\\"; filename="x"`, "vile"), "a\\ filename \"x\" ambiguous\na\\ piece \"vile\" ambiguous\n"},
		{"a path as browsers of old sent it", form(`Content-Disposition: form-data; name="a"; filename="C:\temp\x.txt"`+"\nContent-Type: image/png", "file"), "a filename \"C:\\\\temp\\\\x.txt\"\na piece \"file\"\n"},
		{"a quote as browsers escape it", form(`Content-Disposition: form-data; name="a"; filename="x%22y.txt"`+"\nContent-Type: image/png", "file"), "a file \"x\\\"y.txt\"\n"},
		{"a filename in an encoded word", form("Content-Disposition: form-data; name=a; filename=\"=?UTF-8?B?dmlsZQ==?=\"\nContent-Type: image/png", "file"), "a file \"vile\"\n"},
		{"a filename in single quotes", form("Content-Disposition: form-data; name=a; filename='x'", "vile"), "a filename \"x\" ambiguous\na piece \"vile\" ambiguous\n"},
		{"a filename without its second quote", form("Content-Disposition: form-data; name=a; filename=\"x", "vile"), "a filename \"x\" ambiguous\na piece \"vile\" ambiguous\n"},
		{"junk after a filename", form("Content-Disposition: form-data; name=a; filename=\"x\"y", "vile"), "a filename \"x\" ambiguous\na piece \"vile\" ambiguous\n"},
		{"a filename with a semicolon", form("Content-Disposition: form-data; name=a; filename=\"x;y.txt\"\nContent-Type: image/png", "file"), "a filename \"x;y.txt\"\na piece \"file\"\n"},
		{"a file in UTF-8", form("Content-Disposition: form-data; name=a; filename=\"日本.txt\"\nContent-Type: image/png", "file"), "a file \"日本.txt\"\n"},
		{"a filename with a control character", form("Content-Disposition: form-data; name=a; filename=\"\x00x\"", "vile"),
			"a filename \"\\x00x\" ambiguous\na piece \"Content-Disposition: form-data; name=a; filename=\\\"\\x00x\\\"\\r\\n\\r\\nvile\" ambiguous\n"},
		{"a file without a name", form("Content-Disposition: form-data; filename=x", "vile"), " filename \"x\"\n piece \"vile\"\n"},
		{"a text file", form("Content-Disposition: form-data; name=a; filename=x.txt\nContent-Type: text/plain; charset=utf-8\nContent-Type: image/png", "file"), "a filename \"x.txt\"\na piece \"file\"\n"},
		{"an attachment", form("Content-Disposition: attachment; filename=x.txt\nContent-Type: image/png", "file"), " filename \"x.txt\"\n piece \"file\"\n"},
		{"an unknown disposition", form("Content-Disposition: inline; name=a; filename=x.txt", "vile"), "a filename \"x.txt\"\na piece \"vile\"\n"},
		{"no disposition", form("Content-Type: application/json", "{}"), " \"{}\" ambiguous\n"},
		{"two dispositions", form("Content-Disposition: form-data; name=a; filename=x\nContent-Disposition: form-data; name=b", "vile"), "a filename \"x\" ambiguous\na piece \"vile\" ambiguous\n"},
		{"two names", form("Content-Disposition: form-data; name=a; name=b", "vile"), "a \"vile\" ambiguous\n"},
		{"an extended name", form("Content-Disposition: form-data; name*=utf-8''%61", "vile"), "a \"vile\" ambiguous\n"},
		{"an encoded name", form("Content-Disposition: form-data; name=\"%61\"", "vile"), "a \"vile\" ambiguous\n"},
		{"other cases", form("CONTENT-disposition: Form-Data; NAME=\"a\"; FileName=\"x\"\nContent-Type: image/png", "file"), "a filename \"x\"\na piece \"file\"\n"},
		{"a name in single quotes", form("Content-Disposition: form-data; name='a'", "vile"), "a \"vile\" ambiguous\n"},
		{"white space around the equals sign", form("Content-Disposition: form-data; name = a", "vile"), "a \"vile\" ambiguous\n"},
		{"a folded header", form("Content-Disposition: form-data; name=a;\n filename=x", "vile"),
			"a filename \"x\" ambiguous\na piece \"Content-Disposition: form-data; name=a;\\r\\n filename=x\\r\\n\\r\\nvile\" ambiguous\n"},
		{"white space before the colon", form("Content-Disposition : form-data; name=a; filename=x", "vile"),
			"a filename \"x\" ambiguous\na piece \"Content-Disposition : form-data; name=a; filename=x\\r\\n\\r\\nvile\" ambiguous\n"},
		{"a header that ends at line feeds for some", crlf("--b\nContent-Disposition: form-data; name=a; filename=x") + "\n\nfile?" + crlf("\n\nvile\n--b--"),
			"a filename \"x\" ambiguous\na piece \"Content-Disposition: form-data; name=a; filename=x\\n\\nfile?\\r\\n\\r\\nvile\" ambiguous\n"},
		{"an empty line of another kind", crlf("--b\nContent-Disposition: form-data; name=a; filename=x\n") + "\nX: " + crlf("\n\nvile\n--b--"),
			"a filename \"x\" ambiguous\na piece \"Content-Disposition: form-data; name=a; filename=x\\r\\n\\nX: \\r\\n\\r\\nvile\" ambiguous\n"},

		{"base64", form(field+"Content-Transfer-Encoding: base64", base64.StdEncoding.EncodeToString([]byte("vile!"))), "a \"dmlsZSE=\"\na \"vile!\"\n"},
		{"base64 over lines, without padding", form(field+"Content-Transfer-Encoding: BASE64", "dmls\nZSE"), "a \"dmls\\r\\nZSE\"\na \"vile!\"\n"},
		{"quoted-printable", form(field+"Content-Transfer-Encoding: quoted-printable", "v=69l=\ne"), "a \"v=69l=\\r\\ne\"\na \"vile\"\n"},
		{"an encoding that changes nothing", form(field+"Content-Transfer-Encoding: 8bit", "vile"), "a \"vile\"\n"},
		{"gzip", form(field+"Content-Encoding: gzip", "")[:len(form(field+"Content-Encoding: gzip", ""))-len("\r\n--b--\r\n")] + zip + "\r\n--b--\r\n", "a " + strconv.Quote(zip) + "\na \"vile\"\n"},
		{"deflate", form(field+"Content-Encoding: deflate", "")[:len(form(field+"Content-Encoding: deflate", ""))-len("\r\n--b--\r\n")] + deflate + "\r\n--b--\r\n", "a " + strconv.Quote(deflate) + "\na \"vile\"\n"},

		{"nested files, which most servers take for a field", form("Content-Disposition: form-data; name=a\nContent-Type: multipart/mixed; boundary=c", "--c\nContent-Disposition: file; filename=x.txt\nContent-Type: image/png\n\nfile\n--c\nContent-Transfer-Encoding: base64\n\ndmlsZSE=\n--c--"),
			"a \"--c\\r\\nContent-Disposition: file; filename=x.txt\\r\\nContent-Type: image/png\\r\\n\\r\\nfile\\r\\n--c\\r\\nContent-Transfer-Encoding: base64\\r\\n\\r\\ndmlsZSE=\\r\\n--c--\"\na filename \"x.txt\" ambiguous\na piece \"file\" ambiguous\na \"dmlsZSE=\" ambiguous\na \"vile!\" ambiguous\n"},
		{"a file of parts", form("Content-Disposition: form-data; name=a; filename=x\nContent-Type: multipart/mixed; boundary=c", "vile"), "a filename \"x\"\na \"vile\"\n"},

		{"an image without a filename", form("Content-Disposition: form-data; name=a", junk), "a " + strconv.Quote(junk) + "\n"},
		{"text in a field of noise", form("Content-Disposition: form-data; name=a", junk+"You will die, all of you."+junk), "a " + strconv.Quote(junk+"You will die, all of you."+junk) + "\n"},
		{"noise that may be a file", form(maybeFile, junk), "a filename \"x\"\n"},
		{"text in noise that may be a file", form(maybeFile, junk+"You will die, all of you."+junk), "a filename \"x\"\na piece \"You will die, all of you.\\nYou will die, all of you.\"\n"},
		{"text before noise that may be a file", form(maybeFile, strings.Repeat("Hello, I'm here ", 64)+junk), "a filename \"x\"\na piece " + strconv.Quote(strings.Repeat("Hello, I'm here ", 64)) + "\n"},
		{"text in noise that may be a file, a NUL behind each letter", form(maybeFile, junk+each("You will die, all of you.", "\x00")+junk), "a filename \"x\"\na piece \"You will die, all of you.\"\n"},
		{"text in noise that may be a file, a lost byte behind each letter", form(maybeFile, junk+each("You will die, all of you.", "\xff")+junk), "a filename \"x\"\na piece \"You will die, all of you.\"\n"},
		{"a small image without a filename", form("Content-Disposition: form-data; name=a\nContent-Type: image/png", "\x00v\x00i\x00l\x00e"), "a piece \"\\x00v\\x00i\\x00l\\x00e\"\n"},
		{"little noise", form("Content-Disposition: form-data; name=a", "vile\x00\x00\x00\x00\x00\x00\x00\x00"), "a \"vile\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\"\n"},
		{"UTF-16 with its mark", form("Content-Disposition: form-data; name=a", "\xff\xfe"+strings.Repeat("v\x00", 300)), "a " + strconv.Quote("\xff\xfe"+strings.Repeat("v\x00", 300)) + "\n"},
		{"UTF-16 that is declared", form("Content-Disposition: form-data; name=a\nContent-Type: text/plain; charset=utf-16le", strings.Repeat("v\x00", 300)), "a " + strconv.Quote(strings.Repeat("v\x00", 300)) + "\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			body := []byte(test.body)
			whole := scan(t, "b", 1<<20, body)
			if got := whole.String(); got != test.want {
				t.Errorf("got\n%swant\n%s", got, test.want)
			}
			if strings.Contains(test.name, "noise") || len(body) > 2000 {
				return // may come in other pieces
			}
			single := make([]int, len(body))
			for cut := range body {
				single[cut] = cut
				if got := scan(t, "b", 1<<20, body, cut).String(); got != test.want {
					t.Fatalf("cut at %d: got\n%swant\n%s", cut, got, test.want)
				}
			}
			if got := scan(t, "b", 1<<20, body, single...).String(); got != test.want {
				t.Fatalf("byte by byte: got\n%swant\n%s", got, test.want)
			}
		})
	}
}

// TestFindsWhatGoFinds compares with Go's parser on bodies that Go wrote, of random parts, in random chunks. No byte
// of a text may be safe before the text is returned.
func TestFindsWhatGoFinds(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var body bytes.Buffer
		w := stdlib.NewWriter(&body)
		type span struct{ start, end int } // of the texts
		var spans []span
		for range random.IntN(8) {
			field := random.IntN(2) == 0
			var part io.Writer
			var err error
			if name := fmt.Sprint("field ", random.IntN(3), "é"); field {
				part, err = w.CreateFormField(name)
			} else {
				part, err = w.CreateFormFile(name, "x é.txt")
			}
			if err != nil {
				t.Fatal(err)
			}
			content := make([]byte, random.IntN(600))
			for i := range content {
				content[i] = "ab-\r\n"[random.IntN(5)]
			}
			if field {
				spans = append(spans, span{body.Len(), body.Len() + len(content)})
			}
			if _, err = part.Write(content); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if body.Len() == 0 {
			continue
		}
		var want []string
		for r := stdlib.NewReader(bytes.NewReader(body.Bytes()), w.Boundary()); ; {
			part, err := r.NextPart()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(part)
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case part.FileName() != "":
				want = append(want, part.FormName()+" is "+part.FileName())
			default:
				want = append(want, part.FormName()+"="+string(text))
			}
		}
		s := multipart.NewScanner(w.Boundary(), 1<<20)
		var got []string
		texts := 0
		for pushed := 0; pushed < body.Len(); {
			n := min(1+random.IntN(200), body.Len()-pushed)
			parts, err := s.Push(body.Bytes()[pushed : pushed+n])
			if err != nil {
				t.Fatal(err)
			}
			pushed += n
			for _, part := range parts {
				if part.Ambiguous || part.Truncated {
					t.Fatalf("%q: got %+v, want a whole part that is not ambiguous", body.String(), part)
				}
				if part.File {
					got = append(got, part.Name+" is "+part.Filename)
					continue
				}
				got = append(got, part.Name+"="+string(part.Body))
			}
			returned := 0
			for _, text := range got {
				if strings.Contains(text, "=") {
					returned++
				}
			}
			texts = 0
			for _, span := range spans {
				if texts++; texts > returned && s.Safe() > int64(span.start) {
					t.Fatalf("got Safe %d, want %d at most: the text from there on was not returned", s.Safe(), span.start)
				}
			}
		}
		if parts, err := s.Finish(); err != nil || len(parts) > 0 || s.Safe() != int64(body.Len()) {
			t.Fatalf("at the end: got %v, error %v and Safe %d, want nothing and Safe %d", parts, err, s.Safe(), body.Len())
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Fatalf("%q:\ngot  %q\nwant %q", body.String(), got, want)
		}
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	var bomb bytes.Buffer
	zeros := packed(t, gzip.NewWriter(&bomb), &bomb, strings.Repeat("vile ", 100_000))
	many := strings.Repeat("--b\r\nContent-Disposition: form-data; name=a\r\n\r\n\r\n", multipart.MaxParts)
	for _, test := range []struct {
		name, body string
		limit      int64
		want       string // what is returned, without the names
		safe       string // what may go on
		err        error
	}{
		{"a text as large as the limit", form("Content-Disposition: form-data; name=a", "12345678"), 8, "12345678", form("Content-Disposition: form-data; name=a", "12345678"), nil},
		{"a text one byte larger", form("Content-Disposition: form-data; name=a", "123456789"), 8, "12345678", "--b\r\nContent-Disposition: form-data; name=a\r\n\r\n", multipart.ErrTooLarge},
		{"two texts", crlf("--b\n" + field + "\n1234\n--b\n" + field + "\n56789\n--b--"), 8, "12345678", crlf("--b\n" + field + "\n1234\n--b\n" + field + "\n"), multipart.ErrTooLarge},
		{"a text without an end", crlf("--b\n"+field+"\n") + strings.Repeat("1", 100), 8, "11111111", crlf("--b\n" + field + "\n"), multipart.ErrTooLarge},
		{"a filename", form("Content-Disposition: form-data; name=a; filename=123456789", ""), 8, "12345678", "--b\r\n", multipart.ErrTooLarge},
		{"text before the start", "123456789012", 8, "12345678", "", multipart.ErrTooLarge},
		{"text after the end", crlf("--b\n"+field+"\n1234\n--b--") + "567890", 8, "12345678", crlf("--b\n" + field + "\n1234\n--b--"), multipart.ErrTooLarge},
		{"a file does not count", form("Content-Disposition: form-data; name=a; filename=x\nContent-Type: image/png", strings.Repeat("1", 100)), 8, "x", form("Content-Disposition: form-data; name=a; filename=x\nContent-Type: image/png", strings.Repeat("1", 100)), nil},
		{"noise in a field counts", form("Content-Disposition: form-data; name=a", strings.Repeat("\x00", 100_000)), 8, strings.Repeat("\x00", 8), "--b\r\nContent-Disposition: form-data; name=a\r\n\r\n", multipart.ErrTooLarge},
		{"what may be a file does not count", form(maybeFile, strings.Repeat("\x00", 100_000)), 8, "x", form(maybeFile, strings.Repeat("\x00", 100_000)), nil},
		{"a bomb", "--b\r\nContent-Disposition: form-data; name=a\r\nContent-Encoding: gzip\r\n\r\n" + zeros + "\r\n--b--", int64(len(zeros)), zeros + strings.Repeat("vile ", 100_000)[:len(zeros)],
			"--b\r\nContent-Disposition: form-data; name=a\r\nContent-Encoding: gzip\r\n\r\n", multipart.ErrTooLarge},
		{"a header as large as the limit", form("Content-Disposition: form-data; name=a"+strings.Repeat("\nX: 56789012345", 1021)+"\nX:1234", "1"), 8, "1", form("Content-Disposition: form-data; name=a"+strings.Repeat("\nX: 56789012345", 1021)+"\nX:1234", "1"), nil},
		{"a header one byte larger", form("Content-Disposition: form-data; name=a"+strings.Repeat("\nX: 56789012345", 1021)+"\nX:12345", "1"), 8, "", "--b\r\n", multipart.ErrHeaderTooLarge},
		{"a header without an end", "--b\r\n" + strings.Repeat("x", 100_000), 8, "", "--b\r\n", multipart.ErrHeaderTooLarge},
		{"as many parts as can be", many + "--b--", 8, "", many + "--b--", nil},
		{"one part more", many + "--b\r\n\r\n\r\n--b--", 8, "", many + "--b\r\n", multipart.ErrTooManyParts},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := scan(t, "b", test.limit, []byte(test.body))
			if !errors.Is(got.err, test.err) || test.err == nil && got.err != nil {
				t.Errorf("got error %v, want %v", got.err, test.err)
			}
			texts := ""
			for i, part := range got.parts {
				texts += part.Filename + string(part.Body)
				if wanted := test.err == multipart.ErrTooLarge && i == len(got.parts)-1; part.Truncated != wanted {
					t.Errorf("part %d: got Truncated %v, want %v", i, part.Truncated, wanted)
				}
			}
			if texts != test.want {
				t.Errorf("got %.300q, want %.300q", texts, test.want)
			}
			if got.safe != int64(len(test.safe)) {
				t.Errorf("got Safe %d, want %d", got.safe, len(test.safe))
			}
		})
	}
}

func TestErrorsAreMalformed(t *testing.T) {
	t.Parallel()
	for _, err := range []error{multipart.ErrHeaderTooLarge, multipart.ErrTooManyParts, multipart.ErrBoundary} {
		if !errors.Is(err, multipart.ErrMalformed) || errors.Is(err, multipart.ErrTooLarge) {
			t.Errorf("%v: want it to be ErrMalformed and not ErrTooLarge", err)
		}
	}
	for _, boundary := range []string{"", strings.Repeat("b", 201)} {
		s := multipart.NewScanner(boundary, 8)
		if parts, err := s.Push([]byte("--\r\n")); !errors.Is(err, multipart.ErrBoundary) || len(parts) > 0 {
			t.Errorf("pushing with the boundary %.20q: got %v and error %v, want %v", boundary, parts, err, multipart.ErrBoundary)
		}
		if parts, err := s.Finish(); !errors.Is(err, multipart.ErrBoundary) || len(parts) > 0 || s.Safe() != 0 {
			t.Errorf("finishing with the boundary %.20q: got %v and error %v, want %v", boundary, parts, err, multipart.ErrBoundary)
		}
	}
}

// fileStart is a body up to the first byte of a file.
var fileStart = []byte(crlf("------WebKitFormBoundaryrGKCBY7qhFd3TrZA\nContent-Disposition: form-data; name=\"f\"; filename=\"x.jpg\"\nContent-Type: image/jpeg\n\n"))

const webkit = "----WebKitFormBoundaryrGKCBY7qhFd3TrZA"

// noise returns bytes that are as dense as a photo.
func noise(n int) []byte {
	random := rand.New(rand.NewPCG(7, 7))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return b
}

// TestMemoryDoesNotGrow pushes 64 MiB of what need not be held, and of what must not be.
func TestMemoryDoesNotGrow(t *testing.T) {
	image := strings.Replace(string(fileStart), "; filename=\"x.jpg\"", "", 1)
	field := strings.Replace(image, "Content-Type: image/jpeg\r\n", "", 1)
	for _, test := range []struct {
		name, start string
		chunk       []byte
		err         error
	}{
		{"file", string(fileStart), noise(1 << 20), nil},
		{"image without a filename", image, noise(1 << 20), nil},
		{"text without a filename that says that it is an image", image, bytes.Repeat([]byte("vile"), 1<<18), nil},
		{"field", field, bytes.Repeat([]byte("vile"), 1<<18), multipart.ErrTooLarge},
		{"text before the start", "", bytes.Repeat([]byte("vile"), 1<<18), multipart.ErrTooLarge},
		{"white space before the start", "", bytes.Repeat([]byte("\r\n"), 1<<19), nil},
		{"small fields", field, []byte(strings.Repeat("\r\n"+field, 200)), multipart.ErrTooManyParts},
		{"header", "--" + webkit + "\r\n", bytes.Repeat([]byte("vile"), 1<<18), multipart.ErrHeaderTooLarge},
		{"white space after a boundary", "--" + webkit, bytes.Repeat([]byte(" \t"), 1<<19), multipart.ErrTooLarge},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := multipart.NewScanner(webkit, 1<<20)
			chunk := test.chunk
			if _, err := s.Push([]byte(test.start)); err != nil {
				t.Fatal(err)
			}
			most := uint64(0)
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			texts := 0
			var err error
			for range 64 {
				var parts []multipart.Part
				parts, err = s.Push(chunk)
				for _, part := range parts {
					texts += len(part.Body)
				}
				runtime.ReadMemStats(&after)
				most = max(most, after.HeapAlloc-min(after.HeapAlloc, before.HeapAlloc))
			}
			if !errors.Is(err, test.err) || test.err == nil && err != nil {
				t.Errorf("got error %v, want %v", err, test.err)
			}
			if most > 16<<20 { // with what the collector has not taken yet
				t.Errorf("got %d bytes held, want %d at most", most, 16<<20)
			}
			if isText := strings.HasPrefix(test.name, "text without"); !isText && (texts > 1<<20 || test.err == nil && texts > 64<<20/500) {
				t.Errorf("got %d bytes taken for text, want next to none", texts)
			}
		})
	}
}

func TestNoAllocationsInFiles(t *testing.T) {
	s := multipart.NewScanner(webkit, 1<<20)
	chunk := noise(32 << 10)
	push := func() {
		if _, err := s.Push(chunk); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Push(fileStart); err != nil {
		t.Fatal(err)
	}
	push()
	if n := testing.AllocsPerRun(100, push); n > 0 {
		t.Errorf("got %v allocations for each chunk, want none", n)
	}
}

// BenchmarkFile pushes a file in chunks as they come from a connection. The other cases are what an attacker sends to
// keep the scanner busy.
func BenchmarkFile(b *testing.B) {
	near := []byte(strings.Repeat("\r\n--"+webkit[:len(webkit)-1], 1000))
	for _, test := range []struct {
		name    string
		content []byte
		start   string
	}{
		{"noise", noise(32 << 10), string(fileStart)},
		{"text", bytes.Repeat([]byte("It was a dark and stormy night; the rain fell in torrents.\r\n"), 600)[:32<<10], string(fileStart)},
		{"hyphens", bytes.Repeat([]byte("-"), 32<<10), string(fileStart)},
		{"almost delimiters", near[:32<<10], string(fileStart)},
		{"boundaries in lines", bytes.Repeat([]byte("--"+webkit+" "), 2000)[:32<<10], string(fileStart)},
		{"field of noise", noise(32 << 10), strings.Replace(string(fileStart), "; filename=\"x.jpg\"", "", 1)},
	} {
		b.Run(test.name, func(b *testing.B) {
			b.SetBytes(int64(len(test.content)))
			b.ReportAllocs()
			var s *multipart.Scanner
			for i := 0; b.Loop(); i++ {
				if i%64 == 0 { // the limit is not to end it
					s = multipart.NewScanner(webkit, 8<<20)
					if _, err := s.Push([]byte(test.start)); err != nil {
						b.Fatal(err)
					}
				}
				if _, err := s.Push(test.content); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkFields is a body of many small fields.
func BenchmarkFields(b *testing.B) {
	body := []byte(strings.Repeat(crlf("--b\n"+field+"\nvile\n"), 5000) + "--b--\r\n")
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		s := multipart.NewScanner("b", 1<<20)
		if parts, err := s.Push(body); err != nil || len(parts) != 5000 {
			b.Fatal(len(parts), err)
		}
	}
}

// BenchmarkHeaders pushes headers that are made to be slow.
func BenchmarkHeaders(b *testing.B) {
	for _, test := range []struct{ name, line string }{
		{"folds", " a\n"}, {"fields", "a:b\n"}, {"dispositions", "Content-Disposition: form-data; name=a; filename=b\n"}, {"filenames", "; filename=a; filename=b"}, {"encoded words", "=?utf-8?q?a?="}, {"percent", "%61"}, {"backslashes", "\\\""},
	} {
		b.Run(test.name, func(b *testing.B) {
			header := "Content-Disposition: form-data; name=\"a"
			if strings.HasSuffix(test.line, "\n") {
				header += "\"\n"
			}
			header += strings.Repeat(test.line, (multipart.MaxHeader-100)/(len(test.line)+1))
			body := []byte(form(header, "vile"))
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				s := multipart.NewScanner("b", 1<<20)
				if _, err := s.Push(body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
