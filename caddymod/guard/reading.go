// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/content"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/multipart"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/coding"
)

// Reading says where the text of a request stands. Without any of it, every string of the body with at least one letter is
// read: the values of JSON, the fields of forms (files are left out, their names are not), the text of HTML and XML, plain
// text. What a body looks like is read in addition to what its Content-Type says.
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
	// Roles are those whose messages are read of requests to language models, such as "user" (in lower case). A message is only
	// left out when it says beyond doubt that it is somebody else's. Default: all.
	Roles []string `json:"roles,omitempty"`
	// Text reads every body as one plain text, whatever its Content-Type says, and leaves nothing of it out. Default false.
	Text bool `json:"text,omitempty"`
	// Query are parameters of the address that are read, too, of requests of any method. Default: none.
	Query []string `json:"query,omitempty"`
	// Header are header fields that are read, too, of requests of any method. Default: none.
	Header []string `json:"header,omitempty"`
}

// Overflow is what happens to a message that is larger than a limit.
type Overflow string

// What happens past a limit.
const (
	// OverflowReject refuses the message with 413.
	OverflowReject Overflow = "reject"
	// OverflowPass lets it go on unjudged.
	OverflowPass Overflow = "pass"
	// OverflowPrefix judges what is within the limit at the beginning, and lets the rest go on unjudged.
	OverflowPrefix Overflow = "prefix"
	// OverflowStream judges the rest while it flows to the app, each text before the app reads it. For bodies of requests.
	OverflowStream Overflow = "stream"
	// OverflowSuffix judges what is within the limit at the end: the newest messages of a chat. For texts.
	OverflowSuffix Overflow = "suffix"
	// OverflowBoth judges half of the limit at the beginning and half of it at the end. For texts.
	OverflowBoth Overflow = "both"
)

// What is possible past the limits of requests and of answers.
var (
	pastBody   = []Overflow{OverflowStream, OverflowReject, OverflowPass, OverflowPrefix}
	pastAnswer = []Overflow{OverflowReject, OverflowPass, OverflowPrefix}
	pastText   = []Overflow{OverflowReject, OverflowPass, OverflowPrefix, OverflowSuffix, OverflowBoth}
)

// Limits bound what is held in memory and judged of one message.
type Limits struct {
	// MaxBody is how much of a body is held in memory, in bytes. Default 1 MiB. A compressed body may be eight times as large
	// when it is decompressed.
	MaxBody int64 `json:"max_body,omitempty"`
	// PastMaxBody is what happens to a larger body: "stream" (judge the rest while it flows to the app), "reject" (413), "pass"
	// or "prefix" (judge the first part of it). Files of a multipart form flow in any case, and do not count. A larger body
	// that is compressed is refused with "stream", too. Default "stream" for requests and "prefix" for answers, for which there
	// is no "stream".
	PastMaxBody Overflow `json:"past_max_body,omitempty"`
	// MaxText is how many characters (Unicode code points) are judged in one message. Default: no limit for requests, 100,000
	// for answers.
	MaxText int `json:"max_text,omitempty"`
	// PastMaxText is what happens to a message with more text: "reject" (413), "pass", "prefix", "suffix" (judge the last
	// characters of it) or "both" (half of them at the beginning, half at the end). Default "reject" for requests and "prefix"
	// for answers.
	PastMaxText Overflow `json:"past_max_text,omitempty"`
}

// Defaults of [Limits].
const (
	defaultMaxBody   = 1 << 20
	defaultMaxAnswer = 100_000
	// inflation is how many times as large as MaxBody a compressed body may be when it is decompressed. Text shrinks to a third
	// or a tenth.
	inflation = 8
)

// provision fills in the defaults of requests and checks the rest.
func (l *Limits) provision() error { return l.check(OverflowStream, OverflowReject, pastBody) }

// provisionAnswer fills in the defaults of answers and checks the rest.
func (l *Limits) provisionAnswer() error {
	if l.MaxText == 0 {
		l.MaxText = defaultMaxAnswer
	}
	return l.check(OverflowPrefix, OverflowPrefix, pastAnswer)
}

func (l *Limits) check(body, text Overflow, possible []Overflow) error {
	if l.MaxBody == 0 {
		l.MaxBody = defaultMaxBody
	}
	if l.MaxBody < 0 || l.MaxText < 0 {
		return errors.New("max_body and max_text must be greater than 0")
	}
	if l.PastMaxBody == "" {
		l.PastMaxBody = body
	}
	if l.PastMaxText == "" {
		l.PastMaxText = text
	}
	if !slices.Contains(possible, l.PastMaxBody) {
		return fmt.Errorf("past max_body there is no %q; it must be one of %v", string(l.PastMaxBody), possible)
	}
	if !slices.Contains(pastText, l.PastMaxText) {
		return fmt.Errorf("past max_text there is no %q; it must be one of %v", string(l.PastMaxText), pastText)
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
	built.selection.Form, built.selection.Roles = r.Form, r.Roles
	built.selection.Text, built.selection.Credentials = r.Text, r.Credentials
	for _, name := range r.Header {
		built.header = append(built.header, textproto.CanonicalMIMEHeaderKey(name))
	}
	built.key = fmt.Sprintf("%q %q %q %v %v %q %q %v", r.JSON, r.Form, r.Roles, r.Text, r.Credentials, r.Query, built.header, limits)
	return built, nil
}

// narrow reports whether the reading differs from the default one.
func (r *Reading) narrow() bool {
	return len(r.JSON)+len(r.Form)+len(r.Roles)+len(r.Query)+len(r.Header) > 0 || r.Text || r.Credentials
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
	// watch reads the rest of a large body.
	watch *watch
	// inflated is how many bytes the body has when it is decompressed.
	inflated int
	// further is how much the body says in further readings.
	further content.Ambiguity
	// short has the last short texts of what was read, which say something together with the next.
	short joiner
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
		f.pieces = content.ExtractQuery(f.pieces, r.URL.RawQuery, rd.query)
	}
	if len(rd.header) > 0 {
		f.pieces = content.ExtractHeader(f.pieces, r.Header, rd.header)
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

// readBody finds the texts of the body. Here, and nowhere else, it is decided what passes unread and in which ways the rest
// is read:
//
//  1. A body passes unread only when its declared type is binary and it does not look like text, either.
//  2. A multipart body without a boundary that all parsers read the same is refused.
//  3. Every other body is read as what it is declared as. What it looks like, charsets that its bytes suggest, and its bytes
//     as they were sent where a Content-Encoding was undone, are read in addition.
//  4. Where further readings are many times as long as the body, it is refused: they would cost more to judge than they are
//     worth, see [content.Ambiguity].
//  5. A body that is larger than what is held is read in the same ways while it flows, see [upload].
//
// A heuristic may add a reading. None takes one away.
func (rd *reader) readBody(r *http.Request, w http.ResponseWriter, x *exchange, f *found) {
	declared := content.TypeOf(r.Header["Content-Type"])
	encodings, encodingErr := coding.Parse(r.Header["Content-Encoding"])
	kind, past := declared.Kind, rd.limits.PastMaxBody
	switch {
	case rd.selection.Text:
		kind = content.Text
	case kind == content.Multipart && declared.BadBoundary:
		f.err = errAmbiguous
		return
	case kind == content.Binary:
		if kind = rd.sniff(r, w, x, declared, encodings, f); kind == content.Binary {
			return
		}
		if declared.Opaque && (kind == content.Text || kind == content.Markup) && past == OverflowStream && len(bytes.TrimSpace(x.body.bytes())) > 0 {
			// A large file that happens to be text is still a file. Nobody uploads a file that begins with a page of spaces.
			past = OverflowPrefix
		}
	}
	declared.Kind = kind
	if encodingErr != nil {
		// It is judged as if it had none, which may not be what an app reads.
		f.failed, f.reason = encodingErr, encodingReason(encodingErr)
	}
	if r.ContentLength > rd.limits.MaxBody && past == OverflowReject && kind != content.Multipart {
		f.err = errTooLarge
		return
	}
	if f.err = x.body.fill(r, w, rd.limits.MaxBody, rd.timeout, false); f.err != nil {
		return
	}
	switch {
	case len(encodings) > 0:
		rd.readEncoded(x.body, declared, encodings, past, f)
	case int64(len(x.body.bytes())) <= rd.limits.MaxBody:
		rd.readWhole(x.body.bytes(), declared, f)
	case kind == content.Multipart:
		rd.readLarge(x.body, &formTexts{rd: rd, Scanner: multipart.NewScanner(declared.Boundary, rd.limits.MaxBody)}, f)
	case past == OverflowStream:
		rd.readLarge(x.body, flowTexts{rd.selection.Stream(declared)}, f)
	case rd.over(past, f):
		rd.readWhole(x.body.bytes()[:rd.limits.MaxBody], declared, f)
	}
	f.further.Add(f.pieces)
	if f.err == nil && f.further.Excessive(len(x.body.bytes())+f.inflated) {
		f.err = errAmbiguous
	}
	if (declared.UnknownCharset || unknownCharset(f.pieces)) && f.err == nil && f.failed == nil {
		// The bytes are judged as if they were text in a charset that is known; an app may read them in another.
		f.failed, f.reason = errCharset, "unknown_charset"
	}
}

// unknownCharset reports whether a text may be another one than it is read as.
func unknownCharset(pieces []content.Piece) bool {
	return slices.ContainsFunc(pieces, func(p content.Piece) bool { return p.UnknownCharset })
}

// sniff returns what a body looks like that is declared as binary, or not at all: what is said to be a picture may be JSON
// for an app that does not look at what is said.
func (rd *reader) sniff(r *http.Request, w http.ResponseWriter, x *exchange, declared content.Type, encodings []string, f *found) content.Kind {
	if f.err = x.body.fill(r, w, min(rd.limits.MaxBody, sniffLength), rd.timeout, true); f.err != nil {
		return content.Binary
	}
	prefix := x.body.bytes()
	if len(encodings) > 0 {
		prefix, _ = content.Decode(encodings, prefix, sniffLength)
	}
	if kind := content.Sniff(prefix, declared); kind != content.Binary || declared.Opaque || len(x.body.bytes()) == 0 {
		return kind
	}
	return content.Mixed
}

// over deals with a body that is larger than what is held, and cannot flow. It reports whether its beginning is judged.
func (rd *reader) over(past Overflow, f *found) bool {
	switch past {
	case OverflowPass:
		f.status, f.reason, f.pieces = Skipped, "too_large", nil
		return false
	case OverflowPrefix:
		f.status = Partial
		return true
	}
	f.err = errTooLarge
	return false
}

// readEncoded finds the texts of a body under a Content-Encoding.
func (rd *reader) readEncoded(c *capture, declared content.Type, encodings []string, past Overflow, f *found) {
	body, limit := c.bytes(), rd.limits.MaxBody
	over := int64(len(body)) > limit
	if over {
		body = body[:limit]
	}
	decoded, err := content.Decode(encodings, body, limit*inflation)
	if over = over || errors.Is(err, coding.ErrTooLarge); over && !rd.over(past, f) {
		return
	}
	if err != nil && !over {
		// What came out before the fault is judged, too.
		f.failed, f.reason = err, encodingReason(err)
	}
	f.inflated = len(decoded)
	rd.readWhole(decoded, declared, f)
	// An app that does not look at Content-Encoding reads the bytes as what their type says.
	f.pieces = rd.selection.ExtractEncoded(f.pieces, declared, body)
	if declared.Kind == content.Multipart && bytes.Contains(body, []byte("--"+declared.Boundary)) {
		rd.readDecoded(body, declared, f)
	}
}

// readWhole finds the texts of a body that is there, in each way in which it may be meant.
func (rd *reader) readWhole(body []byte, declared content.Type, f *found) {
	if declared.Kind == content.Multipart {
		rd.readDecoded(body, declared, f)
		return
	}
	f.pieces = rd.selection.Extract(f.pieces, declared, body)
}

// errCharset says that the charset of a body is not known.
var errCharset = errors.New("the charset of the body is not known")

// sniffLength is how much of a body of unknown type is looked at, in bytes.
const sniffLength = 4096

// encodingReason is why a body could not be decoded, in a word.
func encodingReason(err error) string {
	if errors.Is(err, coding.ErrUnknown) {
		return "unknown_encoding"
	}
	return "broken_encoding"
}

// readDecoded finds the texts of a multipart body that is whole.
func (rd *reader) readDecoded(body []byte, declared content.Type, f *found) {
	t := &formTexts{rd: rd, Scanner: multipart.NewScanner(declared.Boundary, rd.limits.MaxBody)}
	pieces, err := t.Push(body)
	f.pieces = append(f.pieces, pieces...)
	if err == nil {
		pieces, err = t.Finish()
		f.pieces = append(f.pieces, pieces...)
	}
	if errors.Is(err, multipart.ErrAmbiguous) {
		f.err = errAmbiguous
		return
	}
	if err != nil || declared.Ambiguous || declared.Boundary == "" {
		// An app that understands the body in another way may find text anywhere in it.
		f.pieces = rd.selection.Extract(f.pieces, content.Type{Kind: content.Text, Charset: declared.Charset}, body)
	}
}

// parts appends the texts of the parts of a multipart body.
func (rd *reader) parts(pieces []content.Piece, parts []multipart.Part) []content.Piece {
	for i := range parts {
		part := &parts[i]
		selection := rd.selection
		selection.Charset = strings.ToLower(part.Charset)
		if part.Ambiguous {
			selection.Form, selection.Credentials = nil, true // some servers may take it for any field
		}
		pieces = selection.ExtractPart(pieces, part.Name, part.Filename, part.Header, part.Body)
	}
	return pieces
}

// cut holds the limit of the text.
func (rd *reader) cut(f *found) {
	limit := rd.limits.MaxText
	if limit == 0 {
		return
	}
	length := lengthOf(f.pieces, limit)
	if f.watch != nil {
		f.watch.left = limit - length
	}
	if length <= limit {
		return
	}
	switch rd.limits.PastMaxText {
	case OverflowReject:
		f.err = errTooLong
	case OverflowPass:
		f.status, f.reason, f.pieces, f.watch = Skipped, "too_long", nil, nil
	case OverflowPrefix:
		f.status, f.pieces, f.watch = Partial, firstCharacters(f.pieces, limit), nil
	case OverflowSuffix:
		f.status, f.pieces = Partial, lastCharacters(f.pieces, limit)
	case OverflowBoth:
		last := lastCharacters(slices.Clone(f.pieces), limit/2)
		f.status, f.pieces = Partial, append(firstCharacters(f.pieces, limit-limit/2), last...)
	}
}

// lengthOf is the number of characters of all texts, or any number up to the limit where there are not more.
func lengthOf(pieces []content.Piece, limit int) (n int) {
	for i := range pieces {
		// A text has no more characters than bytes, so that most are never counted.
		if pieces[i].Reading == 0 { // what is read in several ways counts once
			n += len(pieces[i].Text)
		}
	}
	if n <= limit {
		return n
	}
	n = 0
	for i := range pieces {
		if pieces[i].Reading == 0 {
			n += utf8.RuneCountInString(pieces[i].Text)
		}
	}
	return n
}

// firstCharacters keeps so many characters at the beginning of the texts.
func firstCharacters(pieces []content.Piece, left int) []content.Piece {
	for i := range pieces {
		n := utf8.RuneCountInString(pieces[i].Text)
		if n >= left {
			pieces[i].Text = pieces[i].Text[:byteOf(pieces[i].Text, left)]
			return pieces[:i+1]
		}
		left -= n
	}
	return pieces
}

// lastCharacters keeps so many characters at the end of the texts.
func lastCharacters(pieces []content.Piece, left int) []content.Piece {
	for i := len(pieces) - 1; i >= 0; i-- {
		n := utf8.RuneCountInString(pieces[i].Text)
		if n >= left {
			pieces[i].Text = pieces[i].Text[byteOf(pieces[i].Text, n-left):]
			return pieces[i:]
		}
		left -= n
	}
	return pieces
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
	return "The body may have " + strconv.FormatInt(rd.limits.MaxBody, 10) + " bytes beside the files of a form, and " +
		strconv.Itoa(inflation) + " times as many when it is decompressed."
}

// check refuses empty names and unknown roles in the configuration.
func (r *Reading) check() error {
	for option, names := range map[string][]string{"form": r.Form, "query": r.Query, "header": r.Header} {
		for _, name := range names {
			if strings.TrimSpace(name) == "" {
				return fmt.Errorf("%s: a name is empty", option)
			}
		}
	}
	for _, role := range r.Roles {
		if err := content.CheckRole(role); err != nil {
			return fmt.Errorf("roles: %w", err)
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
