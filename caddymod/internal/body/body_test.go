// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package body

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
)

const limit = 1000

func request(t *testing.T, body io.Reader, header ...string) *http.Request {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/", body)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

func zipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// unsized hides the length of a body, as chunked transfer does.
type unsized struct{ io.Reader }

func TestRead(t *testing.T) {
	t.Parallel()
	full := strings.Repeat("x", limit)
	hello := zipped(t, "hello")
	emptyMembers := strings.Repeat(zipped(t, ""), 2*limit/len(zipped(t, "")))
	rows := []struct {
		name    string
		request *http.Request
		want    string
		err     error
	}{
		{name: "empty", request: request(t, nil)},
		{name: "plain", request: request(t, strings.NewReader("hello")), want: "hello"},
		{name: "exactly the limit", request: request(t, strings.NewReader(full)), want: full},
		{name: "chunked, exactly the limit", request: request(t, unsized{strings.NewReader(full)}), want: full},
		{name: "one byte more", request: request(t, strings.NewReader(full+"x")), err: ErrTooLarge},
		{name: "chunked, one byte more", request: request(t, unsized{strings.NewReader(full + "x")}), err: ErrTooLarge},
		{name: "chunked, endless", request: request(t, unsized{endless{}}), err: ErrTooLarge},
		{name: "bound by a handler before", err: ErrTooLarge,
			request: request(t, http.MaxBytesReader(httptest.NewRecorder(),
				io.NopCloser(strings.NewReader(full)), 10))},
		{name: "gzip", request: request(t, strings.NewReader(hello), "Content-Encoding", "gzip"), want: "hello"},
		{name: "gzip in capitals", request: request(t, strings.NewReader(hello), "Content-Encoding", "GZip"), want: "hello"},
		{name: "gzip by its old name", request: request(t, strings.NewReader(hello), "Content-Encoding", "x-gzip"), want: "hello"},
		{name: "gzip in two members", request: request(t, strings.NewReader(hello+hello), "Content-Encoding", "gzip"), want: "hellohello"},
		{name: "gzip, exactly the limit", request: request(t, strings.NewReader(zipped(t, full)), "Content-Encoding", "gzip"), want: full},
		{name: "gzip bomb", err: ErrTooLarge,
			request: request(t, strings.NewReader(zipped(t, strings.Repeat("\x00", 10<<20))[:limit]), "Content-Encoding", "gzip")},
		{name: "gzip of nothing, for ever", request: request(t, unsized{strings.NewReader(emptyMembers)}, "Content-Encoding", "gzip"), err: ErrTooLarge},
		{name: "gzip cut off", request: request(t, strings.NewReader(hello[:len(hello)-4]), "Content-Encoding", "gzip"), err: ErrIncomplete},
		{name: "gzip of no bytes", request: request(t, nil, "Content-Encoding", "gzip"), err: ErrIncomplete},
		{name: "gzip that is none", request: request(t, strings.NewReader("hello"), "Content-Encoding", "gzip"), err: ErrIncomplete},
		{name: "gzip with something behind", request: request(t, strings.NewReader(hello+"x"), "Content-Encoding", "gzip"), err: ErrIncomplete},
		{name: "identity", request: request(t, strings.NewReader("hello"), "Content-Encoding", "identity"), want: "hello"},
		{name: "another encoding", request: request(t, strings.NewReader("hello"), "Content-Encoding", "br"), err: ErrUnsupportedEncoding},
		{name: "encoded twice", request: request(t, strings.NewReader("hello"), "Content-Encoding", "gzip, gzip"), err: ErrUnsupportedEncoding},
		{name: "encoded twice in two lines", err: ErrUnsupportedEncoding,
			request: request(t, strings.NewReader("hello"), "Content-Encoding", "gzip", "Content-Encoding", "br")},
		{name: "broken off", request: request(t, unsized{broken{}}), err: ErrIncomplete},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			buffer, err := Read(httptest.NewRecorder(), row.request, limit, time.Minute)
			if !errors.Is(err, row.err) || (err == nil) != (row.err == nil) {
				t.Fatalf("got error %v, want %v", err, row.err)
			}
			if err != nil {
				return
			}
			defer buffer.Release()
			if got := string(buffer.Bytes()); got != row.want {
				t.Errorf("got %d bytes, want %d: %.40q, want %.40q", len(got), len(row.want), got, row.want)
			}
		})
	}
}

// TestAnnouncedTooLarge: a body that says that it is too large costs no memory.
func TestAnnouncedTooLarge(t *testing.T) {
	t.Parallel()
	r := request(t, unsized{untouched{t}})
	r.ContentLength = limit + 1
	w := httptest.NewRecorder()
	if _, err := Read(w, r, limit, time.Minute); !errors.Is(err, ErrTooLarge) {
		t.Errorf("error %v, want %v", err, ErrTooLarge)
	}
	if w.Header().Get("Connection") != "close" {
		t.Error("the connection stays open for the rest of the body")
	}
}

// TestAnnouncedMemory: announcing a length does not make the server set that much memory aside.
func TestAnnouncedMemory(t *testing.T) {
	t.Parallel()
	var b Buffer
	b.reserve(1 << 40)
	if cap(b.data) > 2*maxKept {
		t.Errorf("%d bytes are set aside for an announcement, want at most %d", cap(b.data), 2*maxKept)
	}
}

// TestBuffersAreApart: a buffer that is used again does not show what another request sent.
func TestBuffersAreApart(t *testing.T) {
	t.Parallel()
	for i := range 100 {
		want := strings.Repeat(string(rune('a'+i%26)), 1+i%7)
		buffer, err := Read(httptest.NewRecorder(), request(t, strings.NewReader(want)), limit, 0)
		if err != nil {
			t.Fatal(err)
		}
		if string(buffer.Bytes()) != want {
			t.Fatalf("read %q, want %q", buffer.Bytes(), want)
		}
		buffer.Release()
	}
}

// serve answers with the name of the error that reading the body gives.
func serve(t *testing.T, timeout time.Duration) (address string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		buffer, err := Read(w, r, limit, timeout)
		if err != nil {
			p := Problem(w.Header(), err)
			w.WriteHeader(p.Code.Status())
			return
		}
		defer buffer.Release()
		// The request's context must outlive the deadline for the body.
		select {
		case <-r.Context().Done():
			w.WriteHeader(http.StatusInternalServerError)
		case <-time.After(2 * timeout):
			_, _ = w.Write(buffer.Bytes())
		}
	}))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func TestOverTheWire(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name, request string
		hangUp        bool
		status        int
	}{
		{name: "whole", request: "Content-Length: 5\r\n\r\nhello", status: 200},
		{name: "a drip that never ends", request: "Content-Length: 500\r\n\r\nh", status: 408},
		{name: "a chunk that never ends", request: "Transfer-Encoding: chunked\r\n\r\n5\r\nhel", status: 408},
		{name: "less than announced", request: "Content-Length: 500\r\n\r\nhello", hangUp: true, status: 400},
		{name: "a chunk that is cut off", request: "Transfer-Encoding: chunked\r\n\r\n5\r\nhel", hangUp: true, status: 400},
		{name: "a chunk that is none", request: "Transfer-Encoding: chunked\r\n\r\nxyz\r\n", status: 400},
		{name: "50 MB announced", request: "Content-Length: 52428800\r\n\r\nhello", status: 413},
		{name: "50 MB announced, waiting for the go-ahead", request: "Expect: 100-continue\r\nContent-Length: 52428800\r\n\r\n", status: 413},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			address := serve(t, 200*time.Millisecond)
			connection, err := new(net.Dialer).DialContext(context.Background(), "tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer connection.Close()
			fmt.Fprintf(connection, "POST / HTTP/1.1\r\nHost: x\r\n%s", row.request)
			if row.hangUp {
				if err := connection.(*net.TCPConn).CloseWrite(); err != nil {
					t.Fatal(err)
				}
			}
			answer, err := http.ReadResponse(bufio.NewReader(connection), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			if answer.StatusCode != row.status {
				t.Errorf("status %d, want %d", answer.StatusCode, row.status)
			}
		})
	}
}

// TestLargeBodyIsAnswered: a client that sends its whole body before it reads learns why it is refused.
func TestLargeBodyIsAnswered(t *testing.T) {
	t.Parallel()
	for _, framing := range []string{"Content-Length: 50000000\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n2faf080\r\n"} {
		connection, err := new(net.Dialer).DialContext(context.Background(), "tcp", serve(t, time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		defer connection.Close()
		fmt.Fprintf(connection, "POST / HTTP/1.1\r\nHost: x\r\n%s", framing)
		if _, err := connection.Write(make([]byte, 50_000_000)); err != nil {
			t.Fatal(err)
		}
		if framing[0] == 'T' {
			fmt.Fprint(connection, "\r\n0\r\n\r\n")
		}
		answer, err := http.ReadResponse(bufio.NewReader(connection), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("status %d, want 413", answer.StatusCode)
		}
	}
}

func TestCheckJSON(t *testing.T) {
	t.Parallel()
	rows := []struct {
		values []string
		want   error
	}{
		{nil, ErrMissingType},
		{[]string{""}, ErrMissingType},
		{[]string{"application/json"}, nil},
		{[]string{"Application/JSON"}, nil},
		{[]string{"application/json; charset=utf-8"}, nil},
		{[]string{`application/json;charset="UTF-8"`}, nil},
		{[]string{"application/json; charset=latin1"}, ErrUnsupportedType},
		{[]string{"application/json; charset"}, ErrUnsupportedType},
		{[]string{"application/jsonp"}, ErrUnsupportedType},
		{[]string{"text/plain"}, ErrUnsupportedType},
		{[]string{"application/json", "text/plain"}, ErrUnsupportedType},
	}
	for _, row := range rows {
		t.Run(strings.Join(row.values, "|"), func(t *testing.T) {
			t.Parallel()
			r := request(t, nil)
			r.Header["Content-Type"] = row.values
			if got := CheckJSON(r); !errors.Is(got, row.want) || (got == nil) != (row.want == nil) {
				t.Errorf("got %v, want %v", got, row.want)
			}
		})
	}
	if !errors.Is(ErrMissingType, ErrUnsupportedType) {
		t.Error("a missing type is not an unsupported one")
	}
}

func TestProblem(t *testing.T) {
	t.Parallel()
	rows := []struct {
		err                error
		status             int
		detail, field, say string
	}{
		{fmt.Errorf("%w; it may have 1000 bytes", ErrTooLarge), 413, "The body is too large; it may have 1000 bytes.", "", ""},
		{ErrTimeout, 408, "The body did not arrive in time.", "", ""},
		{ErrIncomplete, 400, "The body is incomplete.", "", ""},
		{ErrMissingType, 415, "The Content-Type must be application/json; none was sent.", "Accept-Post", "application/json"},
		{ErrUnsupportedType, 415, "The Content-Type must be application/json.", "Accept-Post", "application/json"},
		{ErrUnsupportedEncoding, 415, "The Content-Encoding must be gzip or absent.", "Accept-Encoding", "gzip, identity"},
	}
	for _, row := range rows {
		t.Run(row.detail, func(t *testing.T) {
			t.Parallel()
			header := http.Header{}
			p := Problem(header, row.err)
			if p.Code.Status() != row.status || p.Detail != row.detail {
				t.Errorf("got %d %q", p.Code.Status(), p.Detail)
			}
			if row.field != "" && header.Get(row.field) != row.say {
				t.Errorf("%s is %q, want %q", row.field, header.Get(row.field), row.say)
			}
		})
	}
}

func BenchmarkRead(b *testing.B) {
	text := strings.Repeat("x", 900)
	for b.Loop() {
		r := &http.Request{Header: http.Header{}, Body: io.NopCloser(strings.NewReader(text)),
			ContentLength: int64(len(text)), ProtoMajor: 1}
		buffer, err := Read(nil, r, limit, 0)
		if err != nil {
			b.Fatal(err)
		}
		buffer.Release()
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

type untouched struct{ t *testing.T }

func (u untouched) Read([]byte) (int, error) {
	u.t.Error("the body is read")
	return 0, io.EOF
}
