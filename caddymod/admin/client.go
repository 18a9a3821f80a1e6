// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net"
	"net/http"
	"net/url"
	"os/user"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/caddyserver/caddy/v2"
)

// client talks to the admin endpoint of a running server. It sends what Caddy's own client sends, which can neither be
// cancelled nor use TLS, and which does not tell who has answered when the answer is not that of an admin endpoint.
type client struct {
	// address is that of --address, or of CADDY_ADMIN, or Caddy's default.
	address string
	files   tlsFiles
	// timeout is how long an answer may take to begin, 0 without a limit.
	timeout time.Duration
	// connected is told each connection before anything is sent.
	connected func(net.Conn)
}

// newClient returns a client for an admin endpoint: see [parseEndpoint]. Empty means Caddy's default, which the
// environment variable CADDY_ADMIN replaces.
func newClient(address string) *client {
	return &client{
		address: cmp.Or(address, caddy.DefaultAdminListen), timeout: answerTimeout, connected: func(net.Conn) {},
	}
}

// call sends in as JSON, if it is not nil, and decodes the answer into out, if it is not nil.
func (c *client) call(ctx context.Context, method, path string, in, out any) error {
	_, err := c.callLenient(ctx, method, path, in, out)
	return err
}

// callLenient is call for an answer that may lack records because they are damaged; leftOut says which they are.
func (c *client) callLenient(ctx context.Context, method, path string, in, out any) (leftOut, err error) {
	answer, err := c.open(ctx, method, path, in)
	if err != nil {
		return nil, err
	}
	defer answer.Close()
	if out == nil {
		return nil, nil
	}
	if err := json.NewDecoder(answer).Decode(out); err != nil {
		return nil, c.brokenOff(err)
	}
	if _, err := io.Copy(io.Discard, answer); err != nil { // to the trailer
		return nil, c.brokenOff(err)
	}
	return answer.leftOut(), nil
}

// open sends in as JSON, if it is not nil, and returns the body of the answer, which the caller closes. An answer that
// breaks off ends with another error than [io.EOF].
func (c *client) open(ctx context.Context, method, path string, in any) (*answerBody, error) {
	to, err := c.endpoint()
	if err != nil {
		return nil, err
	}
	answer, err := c.openAt(ctx, to, method, path, in)
	if errors.Is(err, errOrigin) {
		// An endpoint that listens on all addresses allows none of its names as an origin. It has done nothing yet, and
		// asks for an origin only if it is told to, or if there is one.
		to.origin = ""
		answer, err = c.openAt(ctx, to, method, path, in)
	}
	return answer, err
}

// openAt is open for an endpoint.
func (c *client) openAt(ctx context.Context, to endpoint, method, path string, in any) (*answerBody, error) {
	response, err := c.send(ctx, to, method, path, in)
	if err != nil {
		return nil, err
	}
	if err := c.check(response); err != nil {
		_ = response.Body.Close()
		return nil, err
	}
	return &answerBody{response: response}, nil
}

// endpoint returns the endpoint that the address names.
func (c *client) endpoint() (endpoint, error) {
	to, err := parseEndpoint(c.address)
	if err != nil {
		shown := c.address
		if parsed, err := url.Parse(shown); err == nil && parsed.User != nil {
			shown = parsed.Redacted()
		}
		return to, fmt.Errorf("--address %s is not the address of an admin endpoint, "+
			"such as localhost:2019 or unix//run/caddy.sock: %w", shown, err)
	}
	return to, nil
}

// send sends a request and returns the answer, whatever it is.
func (c *client) send(ctx context.Context, to endpoint, method, path string, in any) (*http.Response, error) {
	transport, err := to.transport(c.files, c.timeout, c.connected)
	if err != nil {
		return nil, err
	}
	var content []byte
	if in != nil {
		if content, err = json.Marshal(in); err != nil {
			return nil, err
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, to.base+path, bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	if to.origin != "" {
		request.Header.Set("Origin", to.origin)
	}
	if in != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if current, err := user.Current(); err == nil {
		request.Header.Set(operatorHeader, strings.Map(printable, current.Username))
	}
	// Nothing is followed: an admin endpoint does not redirect.
	response, err := transport.RoundTrip(request)
	if method == http.MethodGet && errors.Is(err, syscall.ECONNRESET) {
		// A reload resets connections that wait. Whether the server has read the request does not matter here.
		response, err = transport.RoundTrip(request)
	}
	if err != nil {
		return nil, c.explain(err, to)
	}
	return response, nil
}

// explain returns the error for people when there is no answer.
func (c *client) explain(err error, to endpoint) error {
	var dial *net.OpError // or the alert of a server with TLS
	var unknown x509.UnknownAuthorityError
	var record tls.RecordHeaderError
	var verify *tls.CertificateVerificationError
	switch {
	case strings.Contains(err.Error(), "timeout awaiting response headers"):
		// To net/http that is a context.DeadlineExceeded, too.
		return fmt.Errorf("the server at %s does not answer within %s", c.address, c.timeout)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("asking the server at %s: %w", c.address, err)
	case errors.As(err, &dial) && dial.Op == "dial" && errors.Is(err, syscall.EACCES):
		return fmt.Errorf("this user may not open the socket %s (%w); run the command as a user who may, "+
			"such as the server's", to.address, dial.Err)
	case errors.As(err, &dial) && dial.Op == "dial":
		return fmt.Errorf("no server answers at %s (%w); start it with \"caddy run\", "+
			"or name its admin endpoint with --address", c.address, dial.Err)
	case dial != nil && dial.Op == "remote error" && strings.Contains(err.Error(), "certificate"):
		return fmt.Errorf("the server at %s does not accept this client (%w); name a certificate that "+
			"the server allows with --tls-cert and --tls-key", c.address, dial.Err)
	case dial != nil && dial.Op == "remote error":
		return fmt.Errorf("the server at %s ends the TLS handshake (%w); most often it has no certificate "+
			"for this name, or not yet", c.address, dial.Err)
	case errors.As(err, &unknown):
		return fmt.Errorf("the certificate of the server at %s is signed by an unknown authority; "+
			"name the authority's certificate with --tls-ca", c.address)
	case errors.As(err, &verify):
		return fmt.Errorf("the certificate of the server at %s is not valid: %w", c.address, verify.Err)
	case errors.As(err, &record):
		return fmt.Errorf("the server at %s does not speak TLS; write http:// instead of https://", c.address)
	case strings.Contains(err.Error(), "malformed HTTP"):
		// The text of net/http quotes what came, whatever it is.
		return fmt.Errorf("what answers at %s does not speak HTTP: it is no admin endpoint", c.address)
	}
	return fmt.Errorf("asking the server at %s: %w", c.address, err)
}

// check returns an error unless an answer is one that the routes of this package give when they succeed.
func (c *client) check(response *http.Response) error {
	contentType, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	ours := response.Header.Get("Cache-Control") == "no-store"
	if response.StatusCode == http.StatusNoContent && ours {
		return nil
	}
	if response.StatusCode/100 == 2 && ours {
		switch contentType {
		case "application/json", "application/jsonl", "application/octet-stream":
			return nil
		}
	}
	// An error of an admin endpoint is short.
	text, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	if err != nil {
		return c.brokenOff(err)
	}
	var failure struct {
		Error string `json:"error"`
		health
	}
	if contentType == "application/json" && json.Unmarshal(text, &failure) == nil &&
		response.StatusCode >= http.StatusBadRequest {
		switch {
		case failure.Error != "":
			return c.refused(response, failure.Error, ours)
		case failure.Reason != "" && ours:
			return fmt.Errorf("%s: %s", failure.Status, failure.Reason)
		}
	}
	server := response.Header.Get("Server") // Caddy's admin endpoint does not send it, its sites do
	switch {
	case response.StatusCode == http.StatusNotFound && server == "" && string(text) == "404 page not found\n":
		return fmt.Errorf("the server at %s runs without the moderation modules", c.address)
	case response.StatusCode == http.StatusBadRequest && bytes.Contains(text, []byte("HTTP request to an HTTPS server")):
		return fmt.Errorf("the server at %s speaks TLS; write https:// before the address", c.address)
	}
	return fmt.Errorf("what answers at %s is not the admin endpoint of the moderation service: %s; "+
		"name that endpoint with --address", c.address, describe(response, server, contentType, text))
}

// refused returns the error of an answer in the form of Caddy's admin endpoint. What others send may be in that form,
// too: then the address and the status say who speaks.
func (c *client) refused(response *http.Response, text string, ours bool) error {
	switch {
	case ours:
		return errors.New(text)
	case text == errNoRoute.Message:
		return fmt.Errorf("the server at %s runs another version of the moderation modules, "+
			"which cannot do this; restart it with this one", c.address)
	case strings.HasPrefix(text, "client is not allowed to access from origin"):
		return fmt.Errorf("the server at %s: %w", c.address, errOrigin)
	case strings.HasPrefix(text, "host not allowed"), strings.HasPrefix(text, "required Origin"):
		return fmt.Errorf("the server at %s answered %d: %s; use a name that its option \"admin\" listens on, "+
			"or add this one to its origins", c.address, response.StatusCode, text)
	}
	return fmt.Errorf("the server at %s answered %d: %s", c.address, response.StatusCode, text)
}

// errOrigin is the refusal of a request because of its header Origin.
var errOrigin = errors.New("client is not allowed to access from this origin")

// describe says what an answer looks like, without more of its content than the first words of a text or the title of
// a page, and without words that are long enough to be a secret.
func describe(response *http.Response, server, contentType string, content []byte) string {
	said := []string{"it answered " + strings.TrimSpace(
		strconv.Itoa(response.StatusCode)+" "+http.StatusText(response.StatusCode))}
	if server != "" {
		said = append(said, "Server: "+harmless(server))
	}
	if location := response.Header.Get("Location"); location != "" {
		at, _, _ := strings.Cut(location, "?")
		said = append(said, "Location: "+harmless(at))
	}
	first := ""
	switch contentType {
	case "text/plain":
		first = string(content)
	case "text/html":
		if title := pageTitle.FindSubmatch(content); title != nil {
			first = string(title[1])
		}
	}
	if first = harmless(first); first != "" {
		said = append(said, strconv.Quote(first))
	} else {
		said = append(said, cmp.Or(contentType, "no content type"))
	}
	return strings.Join(said, ", ")
}

var pageTitle = regexp.MustCompile(`(?is)<title[^>]*>\s*(.*?)\s*</title>`)

// harmless returns the first words of a text that came from anywhere.
func harmless(text string) string {
	var words []string
	length := 0
	for word := range strings.FieldsFuncSeq(strings.ToValidUTF8(text, "?"), func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r)
	}) {
		if len(word) > 30 {
			word = "..."
		}
		if length += len(word) + 1; length > 80 {
			words = append(words, "...")
			break
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// brokenOff is the error for an answer that ended too early. An error from writing it somewhere stays what it is.
func (c *client) brokenOff(err error) error {
	var write *fs.PathError
	if errors.As(err, &write) {
		return err
	}
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	if errors.As(err, &syntax) || errors.As(err, &kind) {
		return fmt.Errorf("the server at %s answered what this version does not understand: %w", c.address, err)
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("the answer of the server at %s broke off: %w", c.address, err)
}

// answerBody is the body of an answer. Once it is read to its end, leftOut says what the server left out.
type answerBody struct {
	response *http.Response
	// tail is the end of what has been read.
	tail []byte
}

// maxTail is more than the length of the last line of an export with damaged records.
const maxTail = 64

// Read implements [io.Reader].
func (a *answerBody) Read(p []byte) (int, error) {
	n, err := a.response.Body.Read(p)
	a.tail = append(a.tail, p[max(0, n-maxTail):n]...)
	a.tail = a.tail[max(0, len(a.tail)-maxTail):]
	return n, err
}

// Close implements [io.Closer].
func (a *answerBody) Close() error { return a.response.Body.Close() }

// leftOut returns an error that says what the server left out because it is damaged, nil for nothing.
func (a *answerBody) leftOut() error {
	if what, err := strconv.Unquote(a.response.Trailer.Get(leftOutHeader)); err == nil {
		return fmt.Errorf("damaged records are left out: %s", what)
	}
	var end leftOut
	line := bytes.TrimSpace(a.tail)
	line = line[bytes.LastIndexByte(line, '\n')+1:]
	if bytes.HasPrefix(line, []byte(`{"left_out":`)) && json.Unmarshal(line, &end) == nil && end.LeftOut > 0 {
		return fmt.Errorf("damaged records are left out: %d", end.LeftOut)
	}
	return nil
}

// Interface guard
var _ io.ReadCloser = (*answerBody)(nil)
