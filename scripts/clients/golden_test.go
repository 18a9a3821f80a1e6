// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzhttp"
)

// A golden file with a secret in it, or with what differs in the next run, would be worse than none.
func TestTranscriptsMaskWhatDiffers(t *testing.T) {
	t.Parallel()
	got := transcript([]exchange{{
		check: "a check",
		request: wired{
			head: "POST /v1alpha1/comments:analyze?key=mod_sk_secret HTTP/1.1\r\nHost: 127.0.0.1:12345\r\nx-stainless-arch: arm64\r\nAccept-Encoding: gzip\r\nX-Goog-Api-Client: gl-go/1.26.3 gdcl/0.280.0",
			body: []byte(`{"comment":{"text":"` + strings.Repeat("é", 2_000) + `"}}`),
		},
		answer: wired{
			head: "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 77\r\nDate: Sun, 22 Nov 2026 02:10:35 GMT\r\nRatelimit: \"minute\";r=0;t=25\r\nRetry-After: 25\r\n" +
				"X-Ratelimit-Reset-Requests: 25s\r\nX-Request-Id: mod_IzGeqKc4N7cRD41CYTomdoj2",
			body: []byte(`{"value":0.998068,"harassment/threatening":9.1e-05,"illicit":0,"begin":0,"retryDelay":"25s","modelVersion":"cascade-1-6af23c21","message":"Try again in 25 s. Or on 2026-12-01T00:00:00Z."}`),
		},
	}}, strings.NewReplacer("127.0.0.1:12345", "SERVICE", "mod_sk_secret", "KEY_OPEN"))
	want := `### a check

POST /v1alpha1/comments:analyze?key=KEY_OPEN HTTP/1.1
Host: SERVICE
x-stainless-arch: *
Accept-Encoding: *
X-Goog-Api-Client: gl-go/* gdcl/0.280.0

{"comment":{"text":"` + strings.Repeat("é", 240) + ` ...

HTTP/1.1 429 Too Many Requests
Content-Length: *
Date: *
Ratelimit: "minute";r=0;t=*
Retry-After: *
X-Ratelimit-Reset-Requests: *
X-Request-Id: mod_*

{"value":0.*,"harassment/threatening":0.*,"illicit":0,"begin":0,"retryDelay":"*s","modelVersion":"*","message":"Try again in * s. Or on *."}
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A change of one line must not be reported as a change of everything.
func TestTheFirstDifferenceIsShown(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ got, want, message string }{
		{"a\nb\n", "a\nb\n", ""},
		{"a\nx\nc\n", "a\nb\nc\n", "f.http:2: got x, want b; -update rewrites the file"},
		{"a\n", "a\nb\n", "f.http:2: got , want b; -update rewrites the file"},
		{"a", "a\nb", "f.http:2: got (the end), want b; -update rewrites the file"},
	} {
		message := ""
		if err := firstDifference("f.http", test.got, test.want); err != nil {
			message = err.Error()
		}
		if message != test.message {
			t.Errorf("%q and %q: got %q, want %q", test.got, test.want, message, test.message)
		}
	}
}

// A relay that changed what it passes on would prove nothing.
func TestRelaysPassOnWhatComesAndKeepIt(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("long ", 1_000)
	echo := httptest.NewServer(gzhttp.GzipHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.Copy(w, r.Body)
	})))
	defer echo.Close()
	r, err := startRelay(t.Context(), strings.TrimPrefix(echo.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	client := &http.Client{Transport: new(http.Transport), Timeout: patience}
	defer client.CloseIdleConnections()
	for _, body := range []string{"short", long} {
		response, err := client.Get(r.Control + "/-/check?what=" + body[:4])
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		// Without a length: the request is sent in chunks.
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.URL+"/path?a=b",
			struct{ io.Reader }{strings.NewReader(body)})
		if err != nil {
			t.Fatal(err)
		}
		response, err = client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || string(got) != body {
			t.Errorf("got %.20q (%v), want %.20q", got, err, body)
		}
	}
	kept := r.kept()
	if len(kept) != 2 {
		t.Fatalf("%d exchanges were kept, want 2", len(kept))
	}
	for i, body := range []string{"short", long} {
		e := kept[i]
		if e.check != body[:4] || string(e.request.body) != body || string(e.answer.body) != body {
			t.Errorf("exchange %d: kept check %q and the bodies %.20q and %.20q, want %q and %.20q twice",
				i, e.check, e.request.body, e.answer.body, body[:4], body)
		}
		if !strings.HasPrefix(e.request.head, "POST /path?a=b HTTP/1.1\r\nHost: ") ||
			!strings.Contains(e.request.head, "\r\nTransfer-Encoding: chunked") {
			t.Errorf("exchange %d: kept the head %q, want that of a chunked POST of /path?a=b", i, e.request.head)
		}
		if gzipped := strings.Contains(e.answer.head, "\r\nContent-Encoding: gzip"); gzipped != (i == 1) {
			t.Errorf("exchange %d: kept the head %q, want gzip: %t", i, e.answer.head, i == 1)
		}
	}
}

// What a machine lacks is a line of the report; it must not fail the run, nor pass for a proof.
func TestProgramsThatAMachineLacksAreSkipped(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	r := &report{out: &out, client: "x"}
	missing := func(context.Context, *session) (*program, error) { return &program{lacks: "no such thing"}, nil }
	if err := use(missing)(t.Context(), r, nil); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), "skip: x: all: no such thing\n"; got != want || r.skipped != 1 {
		t.Errorf("printed %q, want %q", got, want)
	}
}

func TestTheEndOfTheMinuteIsComputed(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 22, 2, 10, 35, 250_000_000, time.UTC)
	if got, want := untilMinute(at), 24*time.Second+750*time.Millisecond; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
