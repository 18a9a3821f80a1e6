// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package request_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/content"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/extract"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/request"
)

// newExtractor returns what extracts fields within limits.
func newExtractor(t *testing.T, fields request.Fields, limits extract.Limits) *request.Extractor {
	t.Helper()
	if err := limits.SetRequestDefaults(); err != nil {
		t.Fatalf("limits: %v", err)
	}
	e, err := request.New(&fields, limits, 0)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return e
}

// post returns a request with a body.
func post(contentType, body string, header ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/?q=asked&page=two", strings.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

// texts writes the likeliest reading of each piece as name=text.
func texts(pieces []content.Piece) string {
	var all []string
	for _, p := range pieces {
		if p.Reading == 0 {
			all = append(all, p.Name+"="+p.Text)
		}
	}
	return strings.Join(all, " ")
}

const (
	jsonType  = "application/json"
	formType  = "application/x-www-form-urlencoded"
	partsType = "multipart/form-data; boundary=xyz"
	plainType = "text/plain"
)

// parts writes a multipart form of names and texts.
func parts(fields ...string) string {
	var b strings.Builder
	for i := 0; i < len(fields); i += 2 {
		fmt.Fprintf(&b, "--xyz\r\nContent-Disposition: form-data; name=%q\r\n\r\n%s\r\n", fields[i], fields[i+1])
	}
	return b.String() + "--xyz--\r\n"
}

// TestExtract has a case for each of the fields. A newcomer's option gets one here.
func TestExtract(t *testing.T) {
	for _, test := range []struct {
		name              string
		fields            request.Fields
		contentType, body string
		want              string
	}{
		{"JSON", request.Fields{}, jsonType, `{"a":"one","b":["two"]}`, "/a=one /b/0=two"},
		{"pointers", request.Fields{JSON: []string{"/b/*"}}, jsonType, `{"a":"one","b":["two"]}`, "/b/0=two"},
		{"pointers, another body", request.Fields{JSON: []string{"/b/*"}}, formType, "a=one", "a=one"},
		{"a form", request.Fields{}, formType, "a=one&b=two", "a=one b=two"},
		{"fields of a form", request.Fields{Form: []string{"b"}}, formType, "a=one&b=two", "b=two"},
		{"parts", request.Fields{}, partsType, parts("a", "one", "b", "two"), "a=one b=two"},
		{"fields of parts", request.Fields{Form: []string{"b"}}, partsType, parts("a", "one", "b", "two"), "b=two"},
		{"a password", request.Fields{}, jsonType, `{"password":"hunter"}`, ""},
		{"credentials", request.Fields{Credentials: true}, jsonType, `{"password":"hunter"}`, "/password=hunter"},
		{"roles", request.Fields{Roles: []string{"user"}}, jsonType,
			`{"messages":[{"role":"system","content":"one"},{"role":"user","content":"two"}]}`, "/messages/1/role=user /messages/1/content=two"},
		{"plain text", request.Fields{}, plainType, "one", "=one"},
		{"as text", request.Fields{Text: true}, jsonType, `{"a":"one"}`, `={"a":"one"}`},
		{"the address", request.Fields{Query: []string{"q"}}, plainType, "one", "query:q=asked =one"},
		{"the header", request.Fields{Header: []string{"subject"}}, plainType, "one", "header:Subject=hello =one"},
		{"a picture", request.Fields{}, "image/png", "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x01\x02", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := post(test.contentType, test.body, "Subject", "hello")
			body, found := newExtractor(t, test.fields, extract.Limits{}).Extract(nil, r, nil)
			if found.Refuse != nil || found.Unreadable != nil || found.Coverage != extract.Whole {
				t.Fatalf("found %+v, want all of it", found.Result)
			}
			if got := texts(found.Pieces); got != test.want {
				t.Errorf("the texts are %q, want %q", got, test.want)
			}
			if read, err := io.ReadAll(r.Body); err != nil || string(read) != test.body {
				t.Errorf("the app reads %q, %v, want %q", read, err, test.body)
			}
			body.Release()
		})
	}
}

// TestExtractDoubts has what cannot be extracted, or not all of it.
func TestExtractDoubts(t *testing.T) {
	reject := extract.Limits{MaxBody: 100, MaxBodyOverflow: extract.OverflowReject}
	pass := extract.Limits{MaxBody: 100, MaxBodyOverflow: extract.OverflowPass}
	prefix := extract.Limits{MaxBody: 100, MaxBodyOverflow: extract.OverflowPrefix}
	large := strings.Repeat("bread ", 50)
	for _, test := range []struct {
		name        string
		limits      extract.Limits
		contentType string
		encoding    string
		body        string
		refuse      error
		unreadable  error
		reason      string
		coverage    extract.Coverage
	}{
		{"a large body", reject, plainType, "", large, extract.ErrTooLarge, nil, "", extract.Whole},
		{"a large body that passes", pass, plainType, "", large, nil, nil, extract.ReasonTooLarge, extract.Skipped},
		{"a prefix", prefix, plainType, "", large, nil, nil, "", extract.Partial},
		{"a stream", extract.Limits{MaxBody: 100}, plainType, "", large, nil, nil, "", extract.Partial},
		{"a long text", extract.Limits{MaxText: 10}, plainType, "", large, extract.ErrTooLong, nil, "", extract.Whole},
		{"a long text that passes", extract.Limits{MaxText: 10, MaxTextOverflow: extract.OverflowPass}, plainType, "", large,
			nil, nil, extract.ReasonTooLong, extract.Skipped},
		{"two boundaries", extract.Limits{}, partsType + "; boundary=abc", "", parts("a", "one"), extract.ErrAmbiguous, nil, "", extract.Whole},
		{"an unknown charset", extract.Limits{}, plainType + "; charset=nothing-such", "", "one",
			nil, extract.ErrUnknownCharset, extract.ReasonUnknownCharset, extract.Whole},
		{"an unknown encoding", extract.Limits{}, plainType, "rot13", "one", nil, errAny, extract.ReasonUnknownEncoding, extract.Whole},
		{"a broken encoding", extract.Limits{}, plainType, "gzip", "one", nil, errAny, extract.ReasonBrokenEncoding, extract.Whole},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := post(test.contentType, test.body)
			if test.encoding != "" {
				r.Header.Set("Content-Encoding", test.encoding)
			}
			_, found := newExtractor(t, request.Fields{}, test.limits).Extract(nil, r, nil)
			if !is(found.Refuse, test.refuse) || !is(found.Unreadable, test.unreadable) {
				t.Errorf("refuse is %v, unreadable is %v, want %v, %v", found.Refuse, found.Unreadable, test.refuse, test.unreadable)
			}
			if found.Reason != test.reason || found.Coverage != test.coverage {
				t.Errorf("reason %q, coverage %d, want %q, %d", found.Reason, found.Coverage, test.reason, test.coverage)
			}
			if found.Refuse != nil {
				return
			}
			if found.Rest != nil {
				return // the app reads what is moderated
			}
			if read, err := io.ReadAll(r.Body); err != nil || string(read) != test.body {
				t.Errorf("the app reads %d bytes, %v, want %d", len(read), err, len(test.body))
			}
		})
	}
}

// errAny stands for any error.
var errAny = errors.New("any error")

func is(err, want error) bool {
	return want == errAny && err != nil || errors.Is(err, want)
}

// brokenBody is a body that ends with an error.
func brokenBody(err error) io.Reader {
	return io.MultiReader(strings.NewReader("one"), readerFunc(func([]byte) (int, error) { return 0, err }))
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestBrokenBodies(t *testing.T) {
	for _, test := range []struct{ err, want error }{
		{io.ErrUnexpectedEOF, extract.ErrIncomplete},
		{&http.MaxBytesError{Limit: 3}, &http.MaxBytesError{}},
	} {
		r := httptest.NewRequest(http.MethodPost, "/", brokenBody(test.err))
		r.Header.Set("Content-Type", plainType)
		_, found := newExtractor(t, request.Fields{}, extract.Limits{}).Extract(nil, r, nil)
		var exceeded *http.MaxBytesError
		if !errors.Is(found.Refuse, test.want) &&
			!(errors.As(test.want, &exceeded) && errors.As(found.Refuse, &exceeded)) {
			t.Errorf("a body that ends with %v is refused for %v, want %v", test.err, found.Refuse, test.want)
		}
	}
}

// TestUploads sees the texts of a large form before the app reads them, and nothing of those that are rejected.
func TestUploads(t *testing.T) {
	limits := extract.Limits{MaxBody: 200}
	file := strings.Repeat("\x00\xff", 50_000)
	upload := strings.TrimSuffix(parts("title", "one"), "--xyz--\r\n") +
		"--xyz\r\nContent-Disposition: form-data; name=\"f\"; filename=\"a.bin\"\r\nContent-Type: image/png\r\n\r\n" + file + "\r\n" +
		parts("late", "two")
	rejected := errors.New("rejected")
	for _, test := range []struct {
		name string
		want error
	}{{"fine", nil}, {"rejected", rejected}} {
		t.Run(test.name, func(t *testing.T) {
			r := post(partsType, upload)
			body, found := newExtractor(t, request.Fields{}, limits).Extract(nil, r, nil)
			if found.Rest == nil || found.Coverage != extract.Partial || texts(found.Pieces) != "title=one f.filename=a.bin" {
				t.Fatalf("found %q, coverage %d, want the first field and a rest", texts(found.Pieces), found.Coverage)
			}
			var seen []string
			var ended error
			body.Moderate(&found, func(pieces []content.Piece, excessive bool) error {
				if excessive {
					t.Error("an ordinary upload says too much")
				}
				seen = append(seen, texts(pieces))
				if slices.ContainsFunc(pieces, func(p content.Piece) bool { return p.Name == "late" }) {
					return test.want
				}
				return nil
			}, func(err error) { ended = err })
			read, err := io.ReadAll(r.Body)
			if !errors.Is(err, test.want) || !errors.Is(ended, test.want) {
				t.Errorf("reading ends with %v, and ended is told %v, want %v", err, ended, test.want)
			}
			if got := strings.Join(seen, " "); !strings.Contains(got, "late=two") {
				t.Errorf("moderated are %q, want the late field among them", got)
			}
			if test.want == nil && string(read) != upload {
				t.Errorf("the app reads %d bytes, want the %d that were sent", len(read), len(upload))
			}
			if test.want != nil && bytes.Contains(read, []byte("two")) {
				t.Error("the app reads the text that is rejected")
			}
		})
	}
}

// TestTwoHandlersExtract sees the same texts, and the body whole, when a second handler extracts.
func TestTwoHandlersExtract(t *testing.T) {
	r := post(jsonType, `{"a":"one"}`)
	first := newExtractor(t, request.Fields{}, extract.Limits{})
	body, found := first.Extract(nil, r, nil)
	second := newExtractor(t, request.Fields{Text: true}, extract.Limits{})
	again, other := second.Extract(nil, r, body)
	if again != body {
		t.Error("the second handler has another body")
	}
	if got := texts(found.Pieces) + " " + texts(other.Pieces); got != `/a=one ={"a":"one"}` {
		t.Errorf("the texts are %q", got)
	}
	if read, err := io.ReadAll(r.Body); err != nil || string(read) != `{"a":"one"}` {
		t.Errorf("the app reads %q, %v", read, err)
	}
	body.Release()
	if _, err := r.Body.Read(make([]byte, 1)); !errors.Is(err, http.ErrBodyReadAfterClose) {
		t.Errorf("after the request a read gives %v, want %v", err, http.ErrBodyReadAfterClose)
	}
}

// TestKeys guards against results that are shared by handlers that extract other texts.
func TestKeys(t *testing.T) {
	key := func(f request.Fields, l extract.Limits) string { return newExtractor(t, f, l).Key() }
	if a, b := key(request.Fields{Header: []string{"subject"}}, extract.Limits{}), key(request.Fields{Header: []string{"Subject"}}, extract.Limits{}); a != b {
		t.Errorf("two spellings of a header field have the keys %q and %q", a, b)
	}
	seen := map[string]bool{key(request.Fields{}, extract.Limits{}): true}
	for _, f := range []request.Fields{
		{JSON: []string{"/a"}}, {Form: []string{"a"}}, {Roles: []string{"user"}}, {Text: true}, {Credentials: true}, {Query: []string{"a"}}, {Header: []string{"a"}},
	} {
		e := newExtractor(t, f, extract.Limits{})
		if seen[e.Key()] || !e.Narrow() {
			t.Errorf("%+v: the key %q is known, or it does not count as narrow", f, e.Key())
		}
		seen[e.Key()] = true
	}
	if k := key(request.Fields{}, extract.Limits{MaxText: 5}); seen[k] {
		t.Errorf("other limits have the same key %q", k)
	}
	if newExtractor(t, request.Fields{JSON: []string{}}, extract.Limits{}).Narrow() {
		t.Error("an empty list counts as narrow")
	}
}

func TestNewRefuses(t *testing.T) {
	for want, f := range map[string]request.Fields{
		"form: a name is empty":   {Form: []string{" "}},
		"query: a name is empty":  {Query: []string{""}},
		"header: a name is empty": {Header: []string{""}},
		"roles: ":                 {Roles: []string{"nobody at all"}},
		"json a: ":                {JSON: []string{"a"}},
	} {
		if _, err := request.New(&f, extract.Limits{}, time.Second); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got the error %v, want one with %q", f, err, want)
		}
	}
}

// TestStripHeader guards against clients that say what only the guard may say, or have a proxy remove it.
func TestStripHeader(t *testing.T) {
	for _, test := range []struct{ name, value, want string }{
		{"X-Moderation-Recommendation", "approve", ""},
		{"x_moderation_status", "judged", ""},
		{"X-Moderate", "yes", "yes"},
		{"Connection", "x-moderation-recommendation", ""},
		{"Connection", "close, X-Moderation-Recommendation ,x-moderation-status", "close"},
		{"Connection", "X_Moderation_Recommendation", ""},
		{"Connection", "keep-alive, Keep-Alive, TE", "keep-alive, Keep-Alive, TE"},
		{"Connection", "content-type, content-encoding, content_type", ""},
		{"Proxy-Connection", "x-moderation-recommendation", ""},
		{"Keep-Alive", "x-moderation-status", ""},
		{"Te", "x-moderation-recommendation", ""},
		{"Upgrade", "websocket,x-moderation-recommendation", "websocket"},
		{"Trailer", "x-moderation-recommendation", ""},
	} {
		header := http.Header{test.name: {test.value}}
		request.StripHeader(header)
		if got := strings.Join(header[test.name], "|"); got != test.want {
			t.Errorf("%s: %s becomes %q, want %q", test.name, test.value, got, test.want)
		}
	}
}
