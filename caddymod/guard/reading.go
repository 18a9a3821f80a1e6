// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/content"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/multipart"
)

// Reading says where the text of a request stands. Without any of it, every string of the body with at least one letter is
// read: the values of JSON, the fields of forms (files are left out, their names are not), the text of HTML and XML, plain
// text. What a body looks like counts for more than what its Content-Type says.
type Reading struct {
	// JSON are JSON Pointers (RFC 6901), such as "/comment" or "/posts/*/text", where * stands for any member or element. Of
	// JSON bodies only these are read; a pointer to an object or an array means every string in it. Names match in any case.
	// Other bodies are still read whole, so that sending another one is no way around.
	JSON []string `json:"json,omitempty"`
	// Form are names of fields. Of urlencoded and multipart forms only these are read. Names match in any case, and "name"
	// also matches "name[]" and "name[x]". Other bodies are still read whole.
	Form []string `json:"form,omitempty"`
	// Credentials also reads what is left out otherwise: short values, with at most one blank, of fields and members whose names
	// stand for passwords, tokens and other credentials. Default false.
	Credentials bool `json:"credentials,omitempty"`
	// Text reads every body as one plain text, whatever its Content-Type says. Default false.
	Text bool `json:"text,omitempty"`
	// Query are parameters of the address that are read, too, of requests of any method. Default: none.
	Query []string `json:"query,omitempty"`
	// Header are header fields that are read, too, of requests of any method. Default: none.
	Header []string `json:"header,omitempty"`
}

// Past is what happens to a message that is larger than a limit.
type Past string

// What happens past a limit.
const (
	// PastReject refuses the message with 413.
	PastReject Past = "reject"
	// PastPass lets it go on unjudged.
	PastPass Past = "pass"
	// PastPrefix judges what is within the limit, and lets the rest go on unjudged.
	PastPrefix Past = "prefix"
)

// Limits bound what is read and judged of one message.
type Limits struct {
	// MaxBody is how much of a body is held in memory, in bytes. It also bounds the body after its Content-Encoding is undone.
	// The files of a multipart form stream through and do not count. Default 1 MiB.
	MaxBody int64 `json:"max_body,omitempty"`
	// PastMaxBody is what happens to a larger body: "reject" (413), "pass" or "prefix" (judge the first part of it). Default
	// "reject" for requests and "prefix" for answers.
	PastMaxBody Past `json:"past_max_body,omitempty"`
	// MaxText is how many characters (Unicode code points) are judged in one message. Default 100,000.
	MaxText int `json:"max_text,omitempty"`
	// PastMaxText is what happens to a message with more text: "reject" (413), "pass" or "prefix". Default "reject" for
	// requests and "prefix" for answers.
	PastMaxText Past `json:"past_max_text,omitempty"`
}

// Defaults of [Limits].
const (
	defaultMaxBody = 1 << 20
	defaultMaxText = 100_000
)

// provision fills in defaults and checks the rest.
func (l *Limits) provision(past Past) error {
	if l.MaxBody == 0 {
		l.MaxBody = defaultMaxBody
	}
	if l.MaxText == 0 {
		l.MaxText = defaultMaxText
	}
	if l.MaxBody < 0 || l.MaxText < 0 {
		return errors.New("max_body and max_text must be greater than 0")
	}
	for _, p := range []*Past{&l.PastMaxBody, &l.PastMaxText} {
		switch *p {
		case "":
			*p = past
		case PastReject, PastPass, PastPrefix:
		default:
			return fmt.Errorf("past a limit there is no %q; it must be reject, pass or prefix", string(*p))
		}
	}
	return nil
}

// reader reads the texts of requests.
type reader struct {
	selection content.Selection
	query     []string
	header    []string
	limits    Limits
	timeout   time.Duration
	key       string
}

func newReader(r *Reading, limits Limits, timeout time.Duration) (*reader, error) {
	built := &reader{query: r.Query, limits: limits, timeout: timeout}
	for _, text := range r.JSON {
		pointer, err := content.ParsePointer(text)
		if err != nil {
			return nil, fmt.Errorf("json %s: %w", text, err)
		}
		built.selection.JSON = append(built.selection.JSON, pointer)
	}
	built.selection.Form, built.selection.Text, built.selection.Credentials = r.Form, r.Text, r.Credentials
	for _, name := range r.Header {
		built.header = append(built.header, textproto.CanonicalMIMEHeaderKey(name))
	}
	built.key = fmt.Sprintf("%q %q %v %v %q %q %v", r.JSON, r.Form, r.Text, r.Credentials, r.Query, built.header, limits)
	return built, nil
}

// narrow reports whether the reading differs from the default one.
func (r *Reading) narrow() bool {
	return len(r.JSON)+len(r.Form)+len(r.Query)+len(r.Header) > 0 || r.Text || r.Credentials
}

// found is what was found in a request.
type found struct {
	pieces []content.Piece
	status Status
	reason string
	// err says that the request could not be read: it is the client's fault, or it is too large.
	err error
	// failed says that the text is in a form that the guard cannot read: on_error decides.
	failed error
	// upload reads the rest of a large multipart body.
	upload *upload
}

// Errors of reading that are not the client's fault.
var (
	errTooLarge = errors.New("the body is larger than the limit")
	errTooLong  = errors.New("the text is longer than the limit")
	// errAmbiguous says that programs differ in how they divide the body.
	errAmbiguous = errors.New("the body can be read in several ways")
)

// read finds the texts of a request. What was read of its body is kept in the exchange.
func (rd *reader) read(r *http.Request, w http.ResponseWriter, x *exchange) (f found) {
	f.status = Nothing
	if len(rd.query) > 0 && r.URL.RawQuery != "" {
		f.pieces = content.Query(f.pieces, r.URL.RawQuery, rd.query)
	}
	if len(rd.header) > 0 {
		f.pieces = content.Header(f.pieces, r.Header, rd.header)
	}
	if hasBody(r) {
		if x.body == nil {
			x.body = captureOf(r)
		}
		rd.readBody(r, w, x, &f)
	}
	if f.err == nil {
		rd.cut(&f)
	}
	return f
}

// hasBody reports whether a request has a body that may hold text. What follows the header of a WebSocket over HTTP/2 or
// HTTP/3 (extended CONNECT, RFC 8441 and RFC 9220) is the connection. Any other CONNECT has a body as every request may.
func hasBody(r *http.Request) bool {
	return r.Body != nil && r.Body != http.NoBody && r.ContentLength != 0 && !isWebSocket(r)
}

// isWebSocket reports whether a request is an extended CONNECT for a WebSocket, as a reverse proxy tells it.
func isWebSocket(r *http.Request) bool {
	return r.Method == http.MethodConnect &&
		(r.ProtoMajor == 2 && r.Header.Get(":protocol") == "websocket" || r.ProtoMajor == 3 && r.Proto == "websocket")
}

// readBody finds the texts of the body.
func (rd *reader) readBody(r *http.Request, w http.ResponseWriter, x *exchange, f *found) {
	declared := content.TypeOf(r.Header["Content-Type"])
	kind, sniffed := declared.Kind, false
	limit := rd.limits.MaxBody
	encodings := r.Header["Content-Encoding"]
	if rd.selection.Text {
		kind = content.Text
	} else if kind == content.Binary {
		// What is said to be a picture may be JSON for an app that does not look at what is said.
		if f.err = x.body.fill(r, w, min(limit, sniffLength), rd.timeout, true); f.err != nil {
			return
		}
		prefix := x.body.bytes()
		if len(encodings) > 0 {
			prefix, _ = content.Decode(encodings, prefix, sniffLength)
		}
		if kind, sniffed = content.Sniff(prefix, declared), true; kind == content.Binary {
			return
		}
	}
	declared.Kind = kind
	if declared.BadBoundary && kind == content.Multipart {
		f.err = errAmbiguous
		return
	}
	if kind == content.Multipart && len(encodings) == 0 {
		rd.readMultipart(r, w, x, declared, f)
		return
	}
	past := rd.limits.PastMaxBody
	if sniffed && (kind == content.Text || kind == content.Markup) && len(bytes.TrimSpace(x.body.bytes())) > 0 {
		// A large file that happens to be text is still a file. Nobody uploads a file that begins with a page of spaces.
		past = PastPrefix
	}
	if r.ContentLength > limit && past == PastReject {
		f.err = errTooLarge
		return
	}
	if f.err = x.body.fill(r, w, limit, rd.timeout, false); f.err != nil {
		return
	}
	body := x.body.bytes()
	over := int64(len(body)) > limit
	if over {
		body = body[:limit]
	}
	if len(encodings) > 0 && !over || len(encodings) > 0 && past == PastPrefix {
		var err error
		body, err = content.Decode(encodings, body, limit)
		switch {
		case errors.Is(err, content.ErrTooLarge):
			over = true
		case err != nil && !over:
			// What came out before the fault is judged, too.
			f.failed, f.reason = err, encodingReason(err)
		}
	}
	if over {
		switch past {
		case PastReject:
			f.err = errTooLarge
			return
		case PastPass:
			f.status, f.reason, f.pieces = Skipped, "too_large", nil
			return
		}
		f.status = Partial
	}
	if kind == content.Multipart {
		rd.readDecoded(body, declared, f)
		return
	}
	f.pieces = rd.selection.Read(f.pieces, declared, body)
	if declared.Unknown && f.failed == nil {
		// The bytes are judged as if they were text in a charset that is known; an app may read them in another.
		f.failed, f.reason = errCharset, "unknown_charset"
	}
}

// errCharset says that the charset of a body is not known.
var errCharset = errors.New("the charset of the body is not known")

// sniffLength is how much of a body of unknown type is looked at, in bytes.
const sniffLength = 4096

// encodingReason is why a body could not be decoded, in a word.
func encodingReason(err error) string {
	if errors.Is(err, content.ErrUnknownEncoding) {
		return "unknown_encoding"
	}
	return "broken_encoding"
}

// readDecoded finds the texts of a multipart body that is whole.
func (rd *reader) readDecoded(body []byte, declared content.Type, f *found) {
	scanner := multipart.NewScanner(declared.Boundary, rd.limits.MaxBody)
	parts, err := scanner.Push(body)
	f.pieces = rd.parts(f.pieces, parts)
	if err == nil {
		parts, err = scanner.Finish()
		f.pieces = rd.parts(f.pieces, parts)
	}
	if err != nil || declared.Ambiguous || declared.Boundary == "" {
		// An app that understands the body in another way may find text anywhere in it.
		f.pieces = rd.selection.Read(f.pieces, content.Type{Kind: content.Text, Charset: declared.Charset}, body)
	}
}

// parts appends the texts of the parts of a multipart body.
func (rd *reader) parts(pieces []content.Piece, parts []multipart.Part) []content.Piece {
	for i := range parts {
		part := &parts[i]
		if part.Binary {
			continue
		}
		selection := rd.selection
		if part.Ambiguous {
			selection.Form, selection.Credentials = nil, true // some servers may take it for any field
		}
		pieces = selection.Part(pieces, part.Name, part.Filename, part.Header, part.Body)
	}
	return pieces
}

// cut holds the limit of the text.
func (rd *reader) cut(f *found) {
	length := 0
	for i := range f.pieces {
		// A text has no more characters than bytes, so that most are never counted.
		length += len(f.pieces[i].Text)
	}
	if length <= rd.limits.MaxText {
		return
	}
	left := rd.limits.MaxText
	for i := range f.pieces {
		text := f.pieces[i].Text
		n := utf8.RuneCountInString(text)
		if n <= left {
			left -= n
			continue
		}
		switch rd.limits.PastMaxText {
		case PastReject:
			f.err = errTooLong
		case PastPass:
			f.status, f.reason, f.pieces = Skipped, "too_long", nil
		default:
			f.status = Partial
			f.pieces[i].Text = text[:byteOf(text, left)]
			f.pieces = f.pieces[:i+1]
		}
		return
	}
}

// byteOf is the offset of the n-th character of text.
func byteOf(text string, n int) int {
	for i := range text {
		if n == 0 {
			return i
		}
		n--
	}
	return len(text)
}

// describe says in a sentence which limit a request is over.
func (rd *reader) describe(err error) string {
	if errors.Is(err, errTooLong) {
		return "The text may have " + strconv.Itoa(rd.limits.MaxText) + " characters."
	}
	return "The body may have " + strconv.FormatInt(rd.limits.MaxBody, 10) + " bytes beside the files of a form."
}

// check refuses empty names in the configuration.
func (r *Reading) check() error {
	for option, names := range map[string][]string{"form": r.Form, "query": r.Query, "header": r.Header} {
		for _, name := range names {
			if strings.TrimSpace(name) == "" {
				return fmt.Errorf("%s: a name is empty", option)
			}
		}
	}
	return nil
}

// durationOr returns d, or the default when it is 0.
func durationOr(d caddy.Duration, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return time.Duration(d)
}
