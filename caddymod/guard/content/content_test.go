// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package content_test

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/content"
)

// show returns the pieces of the likeliest reading, in one line.
func show(pieces []content.Piece) string {
	return showAll(slices.DeleteFunc(slices.Clone(pieces), func(p content.Piece) bool { return p.Reading > 0 }))
}

// showAll returns all pieces but those of rich text, in one line. A tilde marks those of further readings.
func showAll(pieces []content.Piece) string {
	texts := make([]string, 0, len(pieces))
	for _, p := range pieces {
		switch {
		case p.RichText:
		case p.Reading > 0:
			texts = append(texts, "~"+p.Name+"="+p.Text)
		default:
			texts = append(texts, p.Name+"="+p.Text)
		}
	}
	return strings.Join(texts, " | ")
}

func pointers(t *testing.T, texts ...string) []content.Pointer {
	t.Helper()
	var found []content.Pointer
	for _, text := range texts {
		p, err := content.ParsePointer(text)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, p)
	}
	return found
}

// wide returns text in UTF-16.
func wide(text string, bigEndian, mark bool) string {
	units := utf16.Encode([]rune(text))
	if mark {
		units = append([]uint16{0xfeff}, units...)
	}
	var b strings.Builder
	for _, u := range units {
		if bigEndian {
			b.Write([]byte{byte(u >> 8), byte(u)})
		} else {
			b.Write([]byte{byte(u), byte(u >> 8)})
		}
	}
	return b.String()
}

// utf32 returns text in UTF-32, big-endian.
func utf32(text string) string {
	var b strings.Builder
	for _, r := range text {
		b.Write([]byte{byte(r >> 24), byte(r >> 16), byte(r >> 8), byte(r)})
	}
	return b.String()
}

func TestReadJSON(t *testing.T) {
	t.Parallel()
	for hazard, c := range map[string]struct{ body, want string }{
		"an ordinary object":         {`{"name":"Ann","age":3,"ok":true,"x":null,"tags":["a b",1,"c"]}`, "/name=Ann | /tags/0=a b | /tags/2=c"},
		"a bare string":              {`"hello you"`, "=hello you"},
		"duplicate members":          {`{"c":"one","c":"two","C":"three"}`, "/c=one | /c=two | /C=three"},
		"escapes":                    {`{"c":"k\u0069ll\n\"\/\\ \t\ud83d\ude00"}`, "/c=kill\n\"/\\ \t😀"},
		"escapes in names":           {`{"\u0063":"x"}`, "/c=x"},
		"lone surrogates":            {`{"c":"a\ud800b\udc00c\ud800\u0041"}`, "/c=a\ufffdb\ufffdc\ufffdA"},
		"a broken escape":            {`{"c":"a\u00zzb\q"}`, `/c=a\u00zzbq`},
		"invalid UTF-8":              {"{\"c\":\"caf\xe9 \xc1\xac\"}", "/c=café l"},
		"names that speak":           {`{"i will kill you":1,"plain_name":2,"größe":3}`, "/i will kill you#name=i will kill you | /größe#name=größe"},
		"a name with a slash":        {`{"a/b~c":"x"}`, "/a~1b~0c=x"},
		"trailing text":              {`{"a":"x"} kill you`, "/a=x | =kill you"},
		"several values":             {"{\"a\":\"x\"}\n{\"a\":\"y\"}{\"a\":\"z\"}", "/a=x | /a=y | /a=z"},
		"a JSON text sequence":       {"\x1e{\"a\":\"x\"}\n\x1e{\"a\":\"y", "/a=x | /a=y"},
		"JSON5":                      {"{a:'it\\'s',/*no*/'b' : \"x\\x41\",$c:+.5,// end\n d:[\"y\",],}", "/a=it's | =/*no*/ | /b=xA | =// end\n | /d/0=y"},
		"a line that goes on":        {"{\"a\":\"x\\\ny\"}", "/a=xy"},
		"a form behind JSON":         {`{"a":"b"}& c=d&comment=I+will`, "/a=b | =& c=d&comment=I+will"},
		"words without quotes":       {`{"a": I will kill you, "b":"x"}`, "/a=I will kill you,  | /a=b | /a=x"},
		"words for a name":           {"{kill you: \"x\"}", "/kill you#name=kill you | /kill you=x"},
		"a string without end":       {`{"a":"kill you\u002e`, "/a=kill you."},
		"a comment without end":      {`{"a":1 /* "b":"kill"}`, `=/* "b":"kill"}`},
		"wrong brackets":             {`{"a":["x"}],"b":"y"]`, "/a/0=x | =b | =y"},
		"a string in a string":       {`{"p":"{\"q\":[\"deep \\u0041\"]}"}`, "/p/q/0=deep A"},
		"a string in a string twice": {`{"p":"{\"q\":\"[\\\"x\\\"]\"}"}`, "/p/q/0=x"},
		"brackets that are no JSON":  {`{"p":"[b]bold[/b] \\u0041"}`, "/p=[b]bold[/b] A"},
		"a name twice as a value":    {`{"a":"b":"c"}`, "/a=b | /a=c"},
		"no comma":                   {`{"a":"b" "c":"d"}`, "/a=b | /a=c | /a=d"},
		"a form":                     {"comment=I+k%69ll&x=1", "comment=I kill"},
		"plain text":                 {"I will kill you", "=I will kill you"},
		"markup":                     {"<p>I k<b>i</b>ll</p>", "=I kill"},
		"a UTF-8 BOM":                {"\xef\xbb\xbf{\"a\":\"x\"}", "/a=x"},
		"UTF-16LE with BOM":          {wide(`{"a":"xé"}`, false, true), "/a=xé"},
		"UTF-16BE with BOM":          {wide(`{"a":"xé"}`, true, true), "/a=xé"},
		"UTF-16LE without BOM":       {wide(`{"a":"日本"}`, false, false), "/a=日本"},
		"UTF-16BE without BOM":       {wide(`{"a":"x"}`, true, false), "/a=x"},
		"UTF-32BE without BOM":       {utf32(`{"a":"x"}`), "/a=x"},
		"a UUID and a time":          {`{"a":"123e4567-e89b-12d3-a456-426614174000","b":"2026-11-22T01:02:03Z"}`, ""},
		"no letters":                 {`{"a":"123","b":"!?"}`, ""},
		"escapes instead of letters": {`{"a":"&#73;&#116;","b":"%49%74","c":"100%"}`, "/a=&#73;&#116; | /b=%49%74"},
		"letters beyond ASCII":       {`{"a":"д","b":"🖕"}`, "/a=д | /b=🖕"},
		"nothing":                    {"  \n", ""},
	} {
		t.Run(hazard, func(t *testing.T) {
			t.Parallel()
			var s content.Selection
			if got := show(s.Extract(nil, content.TypeOf([]string{"application/json"}), []byte(c.body))); got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

func TestJSONNarrowed(t *testing.T) {
	t.Parallel()
	for hazard, c := range map[string]struct {
		pointers   []string
		body, want string
	}{
		"one member":                 {[]string{"/comment"}, `{"id":"abc","comment":"x","y":{"comment":"z"}}`, "/comment=x"},
		"another case":               {[]string{"/comment"}, `{"Comment":"x","COMMENT":"y"}`, "/Comment=x | /COMMENT=y"},
		"escapes and NUL in names":   {[]string{"/comment"}, `{"c\u006fmment":"x","comment\u0000z":"y"}`, "/comment=x | /comment\ufffdz#name=comment\x00z | /comment\ufffdz=y"},
		"a container":                {[]string{"/a"}, `{"a":{"b":["x",{"c":"y"}]},"d":"z"}`, "/a/b/0=x | /a/b/1/c=y"},
		"any":                        {[]string{"/items/*/text"}, `{"items":[{"text":"x","t":"n"},{"text":"y"}]}`, "/items/0/text=x | /items/1/text=y"},
		"any member":                 {[]string{"/*/text"}, `{"a":{"text":"x"},"b":{"u":"n"}}`, "/a/text=x"},
		"an index":                   {[]string{"/a/1"}, `{"a":["x","y"]}`, "/a/1=y"},
		"an index that is a name":    {[]string{"/a/1"}, `{"a":{"0":"x","1":"y"}}`, "/a/1=y"},
		"a name with slash":          {[]string{"/a~1b"}, `{"a/b":"x","a":"n"}`, "/a~1b=x"},
		"inside of a string":         {[]string{"/p/q"}, `{"p":"{\"q\":\"x\",\"r\":\"n\"}"}`, "/p/q=x"},
		"a string instead":           {[]string{"/a/b"}, `{"a":"x"}`, ""},
		"names below":                {[]string{"/m"}, `{"m":{"kill you":"x"},"o p":"n"}`, "/m/kill you#name=kill you | /m/kill you=x"},
		"everything":                 {[]string{""}, `{"a":"x"}`, "/a=x"},
		"behind an error":            {[]string{"/comment"}, `{"a":"n","b":"c":"x","d":"y"}`, "/b=x | /d=y"},
		"lenient syntax keeps it":    {[]string{"/comment"}, `{a:'n',comment:'x',}`, "/comment=x"},
		"several values":             {[]string{"/comment"}, "{\"comment\":\"x\"}\n{\"comment\":\"y\",\"a\":\"n\"}", "/comment=x | /comment=y"},
		"another kind is read whole": {[]string{"/comment"}, "other=words", "other=words"},
	} {
		t.Run(hazard, func(t *testing.T) {
			t.Parallel()
			s := content.Selection{JSON: pointers(t, c.pointers...)}
			if got := show(s.Extract(nil, content.TypeOf([]string{"application/json"}), []byte(c.body))); got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

func TestJSONDeep(t *testing.T) {
	t.Parallel()
	const levels = 100_000
	body := strings.Repeat(`{"a":[`, levels) + `"kill you"` + strings.Repeat(`]}`, levels)
	for hazard, s := range map[string]content.Selection{
		"everything":      {},
		"a container":     {JSON: pointers(t, "/a/0/a")},
		"something else":  {JSON: pointers(t, "/b")},
		"read as a text":  {Text: true},
		"by any elements": {JSON: pointers(t, "/*/*/*/*")},
	} {
		pieces := s.Extract(nil, content.Type{Kind: content.JSON}, []byte(body))
		if hazard == "something else" {
			if len(pieces) != 0 {
				t.Errorf("%s: got %d pieces, want none", hazard, len(pieces))
			}
			continue
		}
		if len(pieces) != 1 || !strings.Contains(pieces[0].Text, "kill you") || len(pieces[0].Name) > 400 {
			t.Errorf("%s: got %s, want the threat in one piece with a short name", hazard, showAll(pieces))
		}
	}
}

// TestNamesAreBounded checks that a long name above many texts does not make a small body a large memory.
func TestNamesAreBounded(t *testing.T) {
	t.Parallel()
	body := `{"` + strings.Repeat("k", 250) + `":[` + strings.Repeat(`"a",`, 100_000) + `"a"]}`
	var s content.Selection
	total := 0
	for _, p := range s.Extract(nil, content.Type{Kind: content.JSON}, []byte(body)) {
		total += len(p.Name)
	}
	if total > 4*len(body) {
		t.Errorf("got names of %d bytes from a body of %d, want fewer", total, len(body))
	}
}

// TestPiecesAreBounded checks that a small body does not become a large number of texts, and that nothing of it is
// lost.
func TestPiecesAreBounded(t *testing.T) {
	t.Parallel()
	const many = 100_000
	var s content.Selection
	for kind, body := range map[content.Kind]string{
		content.JSON:   "[" + strings.Repeat(`"kill",`, many) + `"` + strings.Repeat("you ", 500) + `"]`,
		content.Form:   strings.Repeat("a=kill&", many) + "b=" + strings.Repeat("you+", 500),
		content.Markup: strings.Repeat("<p>kill", many) + "<p>" + strings.Repeat("you ", 500),
	} {
		pieces := s.Extract(nil, content.Type{Kind: kind}, []byte(body))
		found := 0
		for _, p := range pieces {
			found += strings.Count(p.Text, "kill")
		}
		if len(pieces) > 10_000 || found != many || pieces[len(pieces)-1].Text[:8] != "you you " {
			t.Errorf("kind %d: got %d texts in %d pieces, want %d in 10000 at most", kind, found, len(pieces), many)
		}
	}
}

func TestParsePointer(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                          "",
		"/":                         "",
		"/a/*/b":                    "",
		"/a~1b/~0":                  "",
		"comment":                   `the JSON pointer "comment" must start with a slash: /comment`,
		"/a~b":                      `the JSON pointer "/a~b": a tilde in a name is written ~0, and a slash ~1, in "a~b"`,
		"/a~":                       `the JSON pointer "/a~": a tilde in a name is written ~0, and a slash ~1, in "a~"`,
		strings.Repeat("/aaaa", 65): `the JSON pointer "/aaaa/aaaa/aaaa/aaaa/aaaa/aaaa/aaaa/aaaa"... has 65 tokens; at most 64 are possible`,
	} {
		p, err := content.ParsePointer(text)
		switch {
		case want == "" && err != nil:
			t.Errorf("parsing %q: got error %v, want none", text, err)
		case want == "" && p.String() != text:
			t.Errorf("parsing %q: got %q, want the same", text, p)
		case want != "" && (err == nil || err.Error() != want):
			t.Errorf("parsing %q: got error %v\nwant %s", text, err, want)
		}
	}
}

func TestReadForm(t *testing.T) {
	t.Parallel()
	for hazard, c := range map[string]struct {
		fields     []string
		body, want string
	}{
		"ordinary":              {nil, "a=b+c&d=%C3%A9&n=5", "a=b c | d=é"},
		"bad escapes":           {nil, "a=50%+off%zz%4&b=%u0041b", "a=50% off%zz%4 | b=Ab"},
		"no value":              {nil, "kill+you&x=1", "kill you#name=kill you"},
		"empty name":            {nil, "=kill+you", "=kill you"},
		"a name that speaks":    {nil, "kill+you=1", "kill you#name=kill you"},
		"JSON in a field":       {nil, "payload=%7B%22text%22%3A%22x%5Cu0041%22%7D", "payload/text=xA"},
		"JSON for a form":       {nil, `{"text":"x y"}`, "/text=x y"},
		"JSON and form":         {nil, `{"text":"x&comment=k%69ll"}`, `/text=x&comment=k%69ll`},
		"charset field":         {nil, "_charset_=windows-1251&c=%E4%E0", "_charset_=windows-1251 | c=да"},
		"UTF-8 all the same":    {nil, "_charset_=windows-1251&c=%D0%B4%D0%B0", "_charset_=windows-1251 | c=РґР°"},
		"duplicates, narrowed":  {[]string{"c"}, "c=x&d=n&C=y&c=z", "c=x | C=y | c=z"},
		"arrays":                {[]string{"c"}, "c[]=x&c[k]=y&c%5B0%5D=z&cc=n", "c[]=x | c[k]=y | c[0]=z"},
		"what PHP makes of it":  {[]string{"com_ment"}, "com.ment=x&+com.ment=y&com[ment=z", "com.ment=x |  com.ment=y | com[ment=z"},
		"semicolons":            {[]string{"c"}, "a=n;c=x&d=n", "c=x"},
		"a NUL in the name":     {[]string{"c"}, "c%00z=x", "cz=x"},
		"encoded names":         {[]string{"comment"}, "%63omment=x", "comment=x"},
		"a wide body":           {nil, wide("c=k+l", false, true), "c=k l"},
		"wide values":           {nil, "c=%6B%00%69%00", "c=ki"},
		"many ampersands":       {nil, "&&&a=b&&", "a=b"},
		"an array in the names": {[]string{"user[bio]"}, "user[bio]=x&user[id]=n", "user[bio]=x"},
	} {
		t.Run(hazard, func(t *testing.T) {
			t.Parallel()
			s := content.Selection{Form: c.fields}
			got := show(s.Extract(nil, content.TypeOf([]string{"application/x-www-form-urlencoded"}), []byte(c.body)))
			if got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

func TestReadText(t *testing.T) {
	t.Parallel()
	jpeg := "\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00\xff\xdb\x00\x43\x00\x08\x06\x06\x07\x06\x05"
	for hazard, c := range map[string]struct{ types, body, want string }{
		"plain":                                 {"text/plain", "I will kill you", "=I will kill you"},
		"no type":                               {"", "I will kill you", "=I will kill you"},
		"no type, JSON":                         {"", `{"a":"k\u0069ll"}`, "/a=kill"},
		"no type, form":                         {"", "a=k%69ll+you", "a=kill you"},
		"JSON as a picture":                     {"image/png", `{"a":"k\u0069ll"}`, "/a=kill"},
		"JSON as a text":                        {"text/plain", `{"a":"k\u0069ll"}`, "/a=kill"},
		"a form as a text":                      {"text/plain;charset=UTF-8", "a=k%69ll+you&b=c", "a=kill you | b=c"},
		"a form that hardly looks like one":     {"text/plain", "a b=c d&comment=I+k%69ll", "=a b=c d&comment=I+k%69ll"},
		"JSON behind many spaces, as a picture": {"image/png", strings.Repeat(" ", 5000) + `{"a":"k\u0069ll"}`, "/a=kill"},
		"text in brackets":                      {"text/plain", "[sic] I said", "=[sic] I said"},
		"a picture":                             {"image/jpeg", jpeg, ""},
		"a picture without a type":              {"", jpeg, ""},
		"a picture as text":                     {"text/plain", "I \x00will", "=I will"},
		"gRPC":                                  {"application/grpc+json", "\x00\x00\x00\x00\x10" + `{"a":"kill you"}`, ""},
		"a number before it":                    {"application/x-ndjson", "1\n{\"a\":\"k\\u0069ll\"}", "/a=kill"},
		"a word before it":                      {"application/json", "x {\"a\":\"k\\u0069ll\"}", "=x {\"a\":\"kill\"}"},
		"broken JSON as a text":                 {"text/plain", `{"a":"k\u0069ll"`, "={\"a\":\"kill\""},
		"broken JSON as a form":                 {"application/x-www-form-urlencoded", `{"a":"k\u0069ll"`, "{\"a\":\"k\\u0069ll\"#name={\"a\":\"k\\u0069ll\""},
		"JSON as multipart":                     {"multipart/form-data; boundary=x", `{"a":"k\u0069ll"}`, "/a=kill"},
		"a PDF":                                 {"application/pdf", "%PDF-1.7\n1 0 obj\n<</Type/Catalog>>\nendobj", ""},
		"a text as PDF":                         {"application/pdf", "I will", "=I will"},
		"XML that names its charset":            {"text/xml", "<?xml version='1.0' encoding='windows-1251'?><c>\xe4\xe0</c>", "c=да"},
		"HTML that names its charset":           {"text/html", "<meta charset=\"koi8-r\"><p>\xc4\xc1</p>", "=да"},
		"XML with entities":                     {"text/xml", `<!DOCTYPE c [<!ENTITY x "kill">]><c>&x;</c>`, "=DOCTYPE c [<!ENTITY x \"kill\" | c=&x;"},
		"two types":                             {"application/json|text/plain", `{"a":"k\u0069ll"}`, "/a=kill"},
		"two types, the other first":            {"text/plain|application/json", `{"a":"k\u0069ll"}`, "/a=kill"},
		"two types, a form":                     {"application/json|application/x-www-form-urlencoded", "a=k%69ll", "a=kill"},
		"a type that does not parse":            {"application/json; charset=\"utf-8", `{"a":"k\u0069ll"}`, "/a=kill"},
		"several types in one":                  {"application/json, text/plain", `{"a":"k\u0069ll"}`, "/a=kill"},
		"latin 1":                               {"text/plain; charset=ISO-8859-1", "caf\xe9", "=café"},
		"cyrillic":                              {"text/plain; charset=windows-1251", "\xe4\xe0", "=да"},
		"UTF-8 under another name":              {"text/plain; charset=windows-1251", "да", "=РґР°"},
		"UTF-8 as UTF-16":                       {"application/json; charset=utf-16", `{"a":"kill"}`, "=" + string(utf16.Decode([]uint16{0x227b, 0x2261, 0x223a, 0x696b, 0x6c6c, 0x7d22}))},
		"a lying BOM":                           {"text/plain", "\xff\xfeI will kill you!", "=ÿþI will kill you!"},
		"UTF-7":                                 {"text/plain; charset=utf-7", "k+AGk-ll +ACY- 1+-1", "=kill & 1+1"},
		"EBCDIC":                                {"text/plain; charset=cp037", "\x92\x89\x93\x93", "=kill"},
		"unicode_escape":                        {"text/plain; charset=unicode_escape", `k\x69ll`, `=kill`},
		"an unknown charset":                    {"text/plain; charset=klingon", "kill", "=kill"},
		"ISO-2022-JP":                           {"text/plain; charset=iso-2022-jp", "\x1b$B8@\x1b(B", "=言"},
		"HTML":                                  {"text/html", "<p>I <i>k</i>ill</p><p>you</p>", "=I kill | =you"},
		"a script, which may be a text":         {"text/html", "<script>I kill</script>", "=I kill"},
		"a comment, which may be a text":        {"text/html", "<!-- I kill --><b>x</b>", "=I kill | =x"},
		"XML":                                   {"application/soap+xml", `<?xml version="1.0"?><a xmlns="urn:x"><c t="he&amp;she">I<![CDATA[ k<ll ]]>x</c><d>y</d></a>`, "c=he&she | c=I k<ll x | d=y"},
		"a multipart body without parts":        {"multipart/form-data; boundary=x", "I will", "=I will"},
	} {
		t.Run(hazard, func(t *testing.T) {
			t.Parallel()
			var s content.Selection
			var types []string
			if c.types != "" {
				types = strings.Split(c.types, "|")
			}
			if got := show(s.Extract(nil, content.TypeOf(types), []byte(c.body))); got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

func TestTypeOf(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]string{
		"":                                      "0    ",
		"application/json":                      "1    ",
		"Application/LD+JSON; x=y":              "1    ",
		"text/html; charset=\"KOI8-R\"":         "5 koi8-r   ",
		"multipart/form-data; boundary=\"a-b\"": "3  a-b  ",
		"multipart/form-data; boundary=a b;":    "3   ambiguous ",
		"text/plain; charset=nope":              "4 nope   unknown",
		"image/png":                             "0    ",
		"text/plain|text/plain":                 "4    ",
		"text/plain|application/json":           "4   ambiguous ",
		"image/png|application/json":            "1   ambiguous ",
		"a=b":                                   "0   ambiguous ",
	} {
		got := content.TypeOf(strings.Split(values, "|"))
		flags := []string{"", ""}
		if got.Ambiguous {
			flags[0] = "ambiguous"
		}
		if got.UnknownCharset {
			flags[1] = "unknown"
		}
		if text := fmt.Sprintf("%d %s %s %s %s", got.Kind, got.Charset, got.Boundary, flags[0], flags[1]); text != want {
			t.Errorf("%q: got %q, want %q", values, text, want)
		}
	}
	if got := content.TypeOf(nil); got.Kind != content.Binary || got.Opaque {
		t.Errorf("no header: got %+v, want a binary type that is not opaque", got)
	}
}

func TestPart(t *testing.T) {
	t.Parallel()
	for hazard, c := range map[string]struct {
		fields                 []string
		name, filename, header string
		body, want             string
	}{
		"a field":               {nil, "c", "", "", "I kill", "c=I kill"},
		"not wanted":            {[]string{"d"}, "c", "", "", "I kill", ""},
		"wanted":                {[]string{"c"}, "C[]", "", "", "I kill", "C[]=I kill"},
		"a file's name":         {nil, "f", "kill you.png", "", "", "f.filename=kill you.png"},
		"an encoded name":       {nil, "f", "=?utf-8?B?a2lsbA==?=", "", "", "f.filename=kill"},
		"quoted-printable":      {nil, "c", "", "Content-Transfer-Encoding:quoted-printable", "k=69ll=\r\ned", "c=killed"},
		"base64":                {nil, "c", "", "Content-Transfer-Encoding:BASE64", "SSBr\r\naWxs", "c=I kill"},
		"a lie":                 {nil, "c", "", "Content-Transfer-Encoding:base64", "I kill you", "c=I kill you"},
		"a charset":             {nil, "c", "", "Content-Type:text/plain; charset=koi8-r", "\xc4\xc1", "c=да"},
		"JSON":                  {nil, "c", "", "Content-Type:application/json", `{"a":"k\u0069ll"}`, "c/a=kill"},
		"JSON by its looks":     {nil, "c", "", "", `{"a":"k\u0069ll"}`, "c/a=kill"},
		"HTML":                  {nil, "c", "", "Content-Type:text/html", `k<b>i</b>ll`, "c=kill"},
		"an octet-stream field": {nil, "c", "", "Content-Type:application/octet-stream", "kill", "c=kill"},
		"a name that speaks":    {nil, "kill you", "", "", "1", "kill you#name=kill you"},
	} {
		t.Run(hazard, func(t *testing.T) {
			t.Parallel()
			s := content.Selection{Form: c.fields}
			header := textproto.MIMEHeader{}
			if name, value, ok := strings.Cut(c.header, ":"); ok {
				header.Set(name, value)
			}
			if got := show(s.ExtractPart(nil, c.name, c.filename, header, []byte(c.body))); got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

func TestQueryAndHeader(t *testing.T) {
	t.Parallel()
	pieces := content.ExtractQuery(nil, "q=k%69ll+you&Q[]=b&x=n&q=%zz", []string{"q"})
	pieces = content.ExtractQuery(pieces, "a=b", nil)
	pieces = content.ExtractQuery(pieces, "a=b&c", []string{"*"})
	if got, want := show(pieces), "query:q=kill you | query:Q[]=b | query:q=%zz | query:a=b | query:c#name=c"; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	h := http.Header{"Subject": {"=?utf-8?Q?k=69ll?= =?iso-8859-1?q?=E9?=", "x =?broken =?utf-8?b?a2lsbA==?= y"}, "X-Other": {"n"}}
	if got, want := show(content.ExtractHeader(nil, h, []string{"subject"})), "header:Subject=killé | header:Subject=x =?broken kill y"; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestLanguage(t *testing.T) {
	t.Parallel()
	random := make([]byte, 3000)
	source := rand.NewChaCha8([32]byte{1})
	_, _ = source.Read(random)
	png := append([]byte("\x89PNG\r\n\x1a\n"), make([]byte, 600)...)
	words := "IWillKillYouAndYourDogTomorrowMorningWhenYouComeHomeFromWorkBecauseYouAreNothingButAWorthlessPieceOfDirt"
	for hazard, c := range map[string]struct {
		text string
		read bool
	}{
		"base64":                    {base64.StdEncoding.EncodeToString(random), false},
		"base64 of a URL":           {base64.RawURLEncoding.EncodeToString(random), false},
		"hexadecimal":               {fmt.Sprintf("%x", random), false},
		"a data URL":                {"data:image/png;base64," + base64.StdEncoding.EncodeToString(png), false},
		"a picture full of zeros":   {base64.StdEncoding.EncodeToString(png), false},
		"short base64":              {base64.StdEncoding.EncodeToString(random[:90]), true},
		"camel case":                {strings.Repeat(words, 3), true},
		"camel case with digits":    {strings.Repeat(words+"0123456789", 3), true},
		"underscores":               {strings.Repeat("i_will_kill_you_", 20), true},
		"words in a data URL":       {"data:image/png;base64," + strings.Repeat(words, 3), true},
		"plain words in a data URL": {"data:text/plain,I will kill you" + strings.Repeat(" now", 100), true},
		"hexadecimal words":         {strings.Repeat("deadbeefcafe", 30), true},
		"alternating case":          {strings.Repeat("iWiLlKiLlYoU1", 30), true},
		"a word":                    {"2nd", true},
		"a long text":               {strings.Repeat("I will kill you. ", 100), true},
	} {
		var s content.Selection
		got := len(s.Extract(nil, content.Type{Kind: content.JSON}, []byte(`{"a":"`+c.text+`"}`))) > 0
		if got != c.read {
			t.Errorf("%s: got extracted %v, want %v", hazard, got, c.read)
		}
	}
}

func TestVisible(t *testing.T) {
	t.Parallel()
	for hazard, c := range map[string]struct{ text, want string }{
		"plain text":                {"I said: 3 < 4 & a > b, 100% sure, a+b", ""},
		"a heart":                   {"<3 you", ""},
		"entities":                  {"&#107;&#x69;l&lsqb; &lt;b&gt; AT&T", "kil[ <b> AT&T"},
		"entities once":             {"&amp;#107;ill", "&#107;ill"},
		"inline tags":               {"k<b></b>ill <a href='x'>y</a>ou", "kill you"},
		"block tags":                {"I<br>will<p>kill</p>", "I\nwill\nkill\n"},
		"tags in any case":          {"k<STRONG CLASS=x>i</STRONG>ll", "kill"},
		"attributes that are shown": {`<img alt="kill you" src=x> hi`, " hi\nkill you"},
		"a comment":                 {"k<!-- x -->ill you", "kill you\nk  x  ill you"},
		"a comment without end":     {"I <!-- kill", "I \nI   kill "},
		"unknown tags":              {"I <kill you> now", "I  now\nI  kill you  now"},
		"words in a known tag":      {"I <b kill you> now", "I  now\nI  b kill you  now"},
		"words in an attribute":     {`I <b class="want to kill you"> now`, "I  now\nI  b class=\"want to kill you\"  now"},
		"an attribute":              {`I <b class="x y"> now`, "I  now"},
		"a script":                  {"I <script>kill</script> you", "I  you\nI  kill  you"},
		"a tag without end":         {"I <b kill you", ""},
		"percent-escapes":           {"I%20will%20k%C3%AFll%zz 50%be", "I will kïll%zz 50%be"},
		"a control character":       {"a%00b%0", ""},
		"escapes of source code":    {`post(text:"k\u0069\x6c\u{6c} C:\new\users \ud83d\ude00")`, `post(text:"kill C:\new\users 😀")`},
		"escapes that are none":     {`\u12 \xyz \u{} \`, ""},
		"text from right to left":   {"a \u202euoy llik\u202c b \u202exy", "a kill you b yx"},
		"plus signs":                {"I+will+kill", "I will kill"},
		"a sum":                     {"C++ and a+b+c", ""},
		"an encoded word":           {"=?utf-8?b?a2lsbA==?= x", "kill x"},
		"CDATA":                     {"<![CDATA[kill]]>", "kill"},
		"a declaration":             {"<!doctype kill> x", " x\n doctype kill  x"},
		"an end tag that speaks":    {"I </b kill you> x", "I  x\nI  /b kill you  x"},
		"CDATA, percent and entity": {"%3Cb%3Ek%3C/b%3Eill &#38;", "kill &"},
	} {
		t.Run(hazard, func(t *testing.T) {
			t.Parallel()
			got, changed := content.Visible(c.text)
			want := c.want
			if want == "" {
				want = c.text
			}
			if got != want || changed != (want != c.text) {
				t.Errorf("got  %q, %v\nwant %q", got, changed, want)
			}
		})
	}
}

// TestVisibleIsBounded checks that what is hidden in many tags does not make a text many times as long, and that the
// words around it are whole.
func TestVisibleIsBounded(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("<x>é", 20_000)
	seen, _ := content.Visible(text)
	if len(seen) > 4*len(text) || !utf8.ValidString(seen) {
		t.Errorf("got %d bytes from %d, want valid UTF-8 of 4 times as many at most", len(seen), len(text))
	}
	seen, _ = content.Visible(strings.Repeat("é", 100) + "x<!-- kill -->y" + strings.Repeat("é", 100))
	if want := strings.Repeat("é", 23) + "x  kill  y" + strings.Repeat("é", 23); !strings.HasSuffix(seen, "\n"+want) {
		t.Errorf("got %q, want it to end with %q", seen, want)
	}
}

// TestLongNames checks that the names of places are cut.
func TestLongNames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 1000)
	var s content.Selection
	pieces := s.Extract(nil, content.Type{Kind: content.JSON}, []byte(`{"`+long+`":{"a":"x"}}`))
	pieces = s.Extract(pieces, content.Type{Kind: content.Form}, []byte(long+"=x"))
	pieces = s.ExtractPart(pieces, long, "", nil, []byte("x"))
	for _, p := range pieces {
		if len(p.Name) > 300 || !utf8.ValidString(p.Name) || !strings.Contains(p.Name, "…") {
			t.Errorf("got the name %q, want one of 300 bytes at most that ends with …", p.Name)
		}
	}
	if len(pieces) != 6 {
		t.Errorf("got %d pieces, want 6", len(pieces))
	}
}

func TestVisibleDoesNotAllocate(t *testing.T) {
	text := strings.Repeat("An ordinary text, with 5 < 6 and x=1. ", 50)
	if n := testing.AllocsPerRun(100, func() { _, _ = content.Visible(text) }); n != 0 {
		t.Errorf("got %v allocations, want none", n)
	}
}

func TestMarkupTrusted(t *testing.T) {
	t.Parallel()
	for hazard, c := range map[string]struct{ body, want string }{
		"a page": {`<!DOCTYPE html><html><head><title>A &amp; B</title><style>p{x:y}</style><script>if (a</b>)</script></head>
<body class="one two three"><!-- no --><h1>Hi <em>y</em>ou</h1><ul><li>one
  two<li>three</ul><img alt="a cat" src=x><input placeholder="name"><template><p>n</p></template><noscript>n</noscript>
<custom-tag>k</custom-tag>ill<textarea><b>raw</b></textarea></body></html>`,
			"=A & B | =Hi you | =one two | =three | =a cat | =name | =kill | =<b>raw</b>"},
		"a feed": {`<?xml version="1.0"?><rss><channel><title>T</title><item><description><![CDATA[<p>one</p><p>two</p>]]></description><link>https://x.example/</link></item></channel></rss>`,
			"title=T | description=one | description=two | link=https://x.example/"},
		"SVG":      {`<svg xmlns="http://www.w3.org/2000/svg"><style>x</style><text>a<tspan>b</tspan></text></svg>`, "=ab"},
		"no end":   {`<p>a<script>b`, "=a"},
		"nothing":  {`<p></p> <br>`, ""},
		"brackets": {`<p>a < b <`, "=a < b <"},
	} {
		t.Run(hazard, func(t *testing.T) {
			t.Parallel()
			s := content.Selection{Trusted: true}
			if got := show(s.Extract(nil, content.Type{Kind: content.Markup}, []byte(c.body))); got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	s := content.Selection{Text: true, Form: []string{"x"}, JSON: pointers(t, "/x")}
	for _, body := range []string{`{"a":"b"}`, "a=b", "<p>a", "a b"} {
		for _, kind := range []content.Kind{content.JSON, content.Form, content.Text, content.Markup, content.Binary} {
			if got := show(s.Extract(nil, content.Type{Kind: kind}, []byte(body))); got != "="+body {
				t.Errorf("%q as kind %d: got %q, want the whole body", body, kind, got)
			}
		}
	}
}
