// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package multipart_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	stdlib "mime/multipart"
	"regexp"
	"strings"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/multipart"
)

// A server finds the fields in as much of a body as has come. These are models of lenient and strict servers, each in
// another way.
type server func(body string) (fields []string)

var servers = map[string]server{
	"go": goServer, "crude": crudeServer, "php": phpServer, "length": lengthServer,
	"strict": strictServer(quotedFilename.MatchString), "formidable": strictServer(formidableFile), "hapi": strictServer(hapiFile),
	"rack": strictServer(rackFile), "aiohttp": strictServer(aiohttpFile),
}

// goServer is Go's own parser.
func goServer(body string) (fields []string) {
	r := stdlib.NewReader(strings.NewReader(body), "b")
	for {
		part, err := r.NextRawPart()
		if err != nil {
			return fields
		}
		text, _ := io.ReadAll(part)
		// Go does not call a part without form-data a field, but an app may use it.
		if part.FileName() == "" {
			fields = append(fields, string(text))
		}
	}
}

var quotedFilename = regexp.MustCompile(`filename="[^"]+"|filename=[^";\s]`)

// strictServer knows no line end but "\r\n", and does not unfold headers. It tells files by their header.
func strictServer(isFile func(header string) bool) server {
	return func(body string) (fields []string) {
		parts := strings.Split("\r\n"+body, "\r\n--b\r\n")
		for _, part := range parts[1:] {
			part, _, _ = strings.Cut(part, "\r\n--b--")
			header, text, _ := strings.Cut("\r\n"+part, "\r\n\r\n")
			if !isFile(header) {
				fields = append(fields, text)
			}
		}
		return fields
	}
}

// line is the value of a header field, the last one of its name.
func line(header, wanted string) (value string) {
	for line := range strings.SplitSeq(header, "\r\n") {
		if name, text, _ := strings.Cut(line, ":"); strings.EqualFold(name, wanted) {
			value = strings.TrimSpace(text)
		}
	}
	return value
}

// formidableFile reports what formidable 3 takes for a file: every part with a type.
func formidableFile(header string) bool { return line(header, "Content-Type") != "" }

var hapiParam = regexp.MustCompile(`([^=*\s]+)(\*)?\s*=\s*(?:([^;'"\s]+'[\w-]*'[^;\s]+)|"([^"]*)"|([^;\s]*))`)

// hapiFile reports what hapi takes for a file and does not give to an app as text.
func hapiFile(header string) bool {
	_, params, _ := strings.Cut(line(header, "Content-Disposition"), ";")
	media, _, _ := strings.Cut(strings.ToLower(line(header, "Content-Type")), ";")
	for _, param := range hapiParam.FindAllStringSubmatch(params, -1) {
		if param[1] == "filename" {
			return !strings.HasPrefix(media, "text/") && !strings.HasSuffix(media, "json") &&
				!strings.HasSuffix(media, "urlencoded")
		}
	}
	return false
}

var rackFilename = regexp.MustCompile(`;\s*filename\*?=("[^"]+"|[^\s()<>,;:\\"/\[\]?=]+)`)

// rackFile reports what Rack 3 takes for a file.
func rackFile(header string) bool {
	disposition := line(header, "Content-Disposition")
	return len(disposition) <= 1536 && rackFilename.MatchString(disposition)
}

// aiohttpFile reports what aiohttp takes for a file: it splits at semicolons, and does not ignore blanks before them.
func aiohttpFile(header string) bool {
	for _, param := range strings.Split(line(header, "Content-Disposition"), ";")[1:] {
		name, value, _ := strings.Cut(param, "=")
		quoted := len(value) > 2 && value[0] == '"' && value[len(value)-1] == '"'
		if strings.TrimSpace(strings.ToLower(name)) == "filename" && (quoted || value != "" && value[0] != '"') {
			return true
		}
	}
	return false
}

var anyFilename = regexp.MustCompile(`(?i)filename\*?\s*=\s*["']?[^"'\s;]`)

// crudeServer takes every boundary for a delimiter, wherever it stands, and either kind of empty line.
func crudeServer(body string) (fields []string) {
	parts := strings.Split(body, "--b")
	for _, part := range parts[1:] {
		lines := strings.Split(strings.ReplaceAll(part, "\r\n", "\n"), "\n")[1:]
		for i, line := range lines {
			if line != "" {
				continue
			}
			if !anyFilename.MatchString(strings.Join(lines[:i], "\n")) {
				fields = append(fields, strings.Join(lines[i+1:], "\n"))
			}
			break
		}
	}
	return fields
}

// phpServer ends a part at each line that starts with the boundary, and then looks for a line that is the boundary.
// It knows both kinds of quotes, with backslashes, and does not know filename*.
func phpServer(body string) (fields []string) {
	for {
		line, rest, more := strings.Cut(body, "\n")
		body = rest
		if !more {
			return fields
		}
		if strings.TrimSuffix(line, "\r") != "--b" {
			continue
		}
		file, last := false, ""
		check := func() {
			if name, value, _ := strings.Cut(last, ":"); strings.EqualFold(name, "Content-Disposition") {
				file = file || phpFilename(value) != ""
			}
		}
		for more {
			line, body, more = strings.Cut(body, "\n")
			line = strings.TrimSuffix(line, "\r")
			if line == "" {
				break
			}
			if line[0] == ' ' || line[0] == '\t' {
				last += line
				continue
			}
			check()
			last = line
		}
		check()
		text, _, _ := strings.Cut("\n"+body, "\n--b")
		if !file {
			fields = append(fields, text)
		}
	}
}

func phpFilename(value string) (filename string) {
	for value != "" {
		var word strings.Builder
		quote := byte(0)
		i := 0
		for ; i < len(value) && (quote != 0 || value[i] != ';'); i++ {
			switch c := value[i]; {
			case c == '\\' && i+1 < len(value) && value[i+1] == quote:
				i++
				word.WriteByte(value[i])
			case quote == 0 && (c == '"' || c == '\''):
				quote = c
			case c == quote:
				quote = 0
			default:
				word.WriteByte(c)
			}
		}
		value = value[min(i+1, len(value)):]
		if key, text, found := strings.Cut(word.String(), "="); found &&
			strings.EqualFold(strings.TrimSpace(key), "filename") {
			filename = strings.TrimSpace(text)
		}
	}
	return filename
}

var lengthField = regexp.MustCompile(`(?i)(?:^|\n)content-length:\s*(\d+)`)

// lengthServer believes the Content-Length of a part.
func lengthServer(body string) (fields []string) {
	body = "\r\n" + body
	for {
		_, rest, found := strings.Cut(body, "\r\n--b\r\n")
		if !found {
			return fields
		}
		header, text, _ := strings.Cut(rest, "\r\n\r\n")
		body = "\r\n" + text
		length, _, _ := strings.Cut(text, "\r\n--b")
		n := len(length)
		if match := lengthField.FindStringSubmatch(header); match != nil {
			n = 0
			for _, digit := range match[1] {
				n = min(n*10+int(digit-'0'), len(text))
			}
			body = text[n:]
		}
		if !anyFilename.MatchString(header) {
			fields = append(fields, text[:n])
		}
	}
}

// pieces are what bodies are made of.
var pieces = []string{
	"--b", "--b\r\n", "\r\n--b\r\n", "\r\n--b--", "\r\n--b--\r\n", "\n--b\n", "--b\n", "\r--b\r", "\r\n--bb\r\n", "\r\n--b \r\n", "--", "b", "-",
	"\r\n", "\n", "\r", " ", "\t", ";", "\"", "\\", "'", "\r\n\r\n", "\n\n", "\r\n\n",
	"Content-Disposition: form-data; name=\"a\"", "Content-Disposition: form-data; name=a; filename=x", "Content-Disposition: form-data; name=\"a\"; filename=\"x\"",
	"content-disposition:form-data; name=\"a\"; filename=\"\"", "Content-Disposition: form-data; filename=\"x\"; name=a", "; filename=\"x\"", "; filename*=UTF-8''x",
	"; filename=", "name=", "filename=\"", "X: y", ":", "Content-Length: 3", "Content-Length: 70", "Content-Type: text/plain", "Content-Type: multipart/mixed; boundary=c", "--c",
	"Content-Type: image/png", "; FILENAME=\"x\"", ";filename=\"x\"", "; filename=\"x", " ; filename=\"x\"", "; filename=\"a\\\"b\"", "Content-Type: application/json",
	"Content-Disposition: form-data; name=\"a\"; filename=\"x\"\r\nContent-Type: image/png", "Content-Type: image/png\nContent-Disposition: form-data; name=\"a\"; filename=\"x\"",
	"X: " + strings.Repeat("y", 1500), "Content-Transfer-Encoding: base64", "vile one", "vile two", "vile three", "dmls", "\x00", "\xff",
	"\r\n--b\r\nContent-Disposition: form-data; name=\"a\"; filename=\"x\"\r\n\r\n", "\r\n--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n",
	"--b\r\nContent-Disposition: form-data; name=\"a\"; filename=\"x\"\r\n\r\n", "--b\nContent-Disposition: form-data; name=\"a\"; filename=\"x\"\n\n",
	"\r\n--b\r\nContent-Disposition: form-data; name=\"a\"; filename=\"x\"\r\nContent-Type: image/png\r\n\r\n",
	"--b\nContent-Disposition: form-data; name=\"a\"; filename=\"x\"\nContent-Type: image/png\n\n",
}

// checkServers pushes a body in chunks, forwards what is safe, and asks all servers what they find in it. Every line
// of every field must have been returned before.
func checkServers(t testing.TB, body string, cuts []int) {
	t.Helper()
	s := multipart.NewScanner("b", 1<<20)
	var returned []string
	check := func(parts []multipart.Part, err error) bool {
		for _, part := range parts {
			returned = append(returned, string(part.Body))
		}
		if errors.Is(err, multipart.ErrAmbiguous) {
			return false // it is refused
		}
		if err != nil {
			t.Fatalf("scanning %q: %v", body, err)
		}
		sent := body[:s.Safe()]
		for name, fields := range servers {
			for _, text := range fields(sent) {
				for line := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '\r' || r == '\n' }) {
					if strings.Trim(line, "-b \t") != "" && !strings.Contains(line, "--b") &&
						!containsAny(returned, strings.TrimSpace(line)) {
						t.Fatalf("with %q\nof %q\nthe server %s reads %q,\nbut got only %q", sent, body, name, line,
							returned)
					}
				}
			}
		}
		return true
	}
	start := 0
	for _, cut := range append(cuts, len(body)) {
		parts, err := s.Push([]byte(body[start:cut]))
		if !check(parts, err) {
			return
		}
		start = cut
	}
	check(s.Finish())
}

var unnoisy = strings.NewReplacer("\x00", "", "\xff", "")

func containsAny(texts []string, line string) bool {
	for _, text := range texts {
		// Of binary data only what is printable is returned.
		if strings.Contains(text, line) || strings.Contains(unnoisy.Replace(text), unnoisy.Replace(line)) {
			return true
		}
	}
	return false
}

// TestNoServerFindsMore compares random bodies of hazardous pieces with all servers.
func TestNoServerFindsMore(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(4, 1))
	for range 10_000 {
		choice := make([]byte, 1+random.IntN(20))
		for i := range choice {
			choice[i] = byte(random.IntN(len(pieces)))
		}
		body := assemble(choice)
		var cuts []int
		if len(body) > 0 {
			cuts = []int{random.IntN(len(body))}
		}
		checkServers(t, body, cuts)
	}
}

// assemble makes a body of pieces, one for each byte.
func assemble(choice []byte) string {
	var b strings.Builder
	for _, c := range choice {
		b.WriteString(pieces[int(c)%len(pieces)])
	}
	return b.String()
}

// FuzzServers is TestNoServerFindsMore for a fuzzer: half of the bodies are made of pieces, half of bytes. It cuts
// them into chunks of one size, and compares with the whole.
func FuzzServers(f *testing.F) {
	f.Add([]byte{1, 25, 22, 43, 2, 26, 22, 44, 3}, byte(7), true)
	f.Add([]byte("--b\r\nContent-Disposition: form-data; name=a; filename=x\n\nvile\r\n--b--"), byte(1), false)
	f.Fuzz(func(t *testing.T, data []byte, size byte, assembled bool) {
		body := string(data)
		if assembled {
			body = assemble(data[:min(len(data), 100)])
		}
		var cuts []int
		for cut := int(size); size > 0 && cut < len(body); cut += int(size) {
			cuts = append(cuts, cut)
		}
		whole := scan(t, "b", 1<<20, []byte(body))
		if got := scan(t, "b", 1<<20, []byte(body), cuts...); len(body) < 512 && got.String() != whole.String() {
			t.Fatalf("%q\nin chunks of %d: got\n%swant, as for the whole,\n%s", body, size, got, whole)
		}
		if whole.err == nil && len(body) < 1000 && !bytes.Contains([]byte(body), []byte("\x00")) {
			checkServers(t, body, cuts)
		}
	})
}
