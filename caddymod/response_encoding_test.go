// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// encoders are the Content-Encodings that are understood.
var encoders = map[string]func(w io.Writer) io.WriteCloser{
	"gzip":    func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
	"deflate": func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) },
	"br":      func(w io.Writer) io.WriteCloser { return brotli.NewWriter(w) },
	"zstd":    func(w io.Writer) io.WriteCloser { e, _ := zstd.NewWriter(w); return e },
}

// TestResponseThatIsCompressed by an app that was asked not to compress is moderated, and goes on unchanged.
func TestResponseThatIsCompressed(t *testing.T) {
	asked := make(chan string, 1)
	app := newBackend(t, func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Header.Get("Accept-Encoding")
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", r.URL.Query().Get("encoding"))
		encode, ok := encoders[r.URL.Query().Get("encoding")]
		if !ok {
			_, _ = io.WriteString(w, "?")
			return
		}
		var b bytes.Buffer
		e := encode(&b)
		_, _ = io.WriteString(e, `{"text":"`+r.URL.Query().Get("text")+`"}`)
		_ = e.Close()
		_, _ = w.Write(b.Bytes()[:b.Len()-len(r.URL.Query().Get("cut"))])
	})
	ask := func(t *testing.T, query string) reply {
		t.Helper()
		got := call(t, http.MethodGet, base+"/?"+strings.ReplaceAll(query, " ", "+"), "", nil, "Accept-Encoding", "gzip, br")
		if encoding := <-asked; encoding != "identity" {
			t.Errorf("the app was asked for %q", encoding)
		}
		return got
	}
	load(t, guardConfig(t, "moderate_response\n"+app.proxy()))
	for encoding, encode := range encoders {
		t.Run(encoding, func(t *testing.T) {
			if got := ask(t, "encoding="+encoding+"&text="+vile); got.status != http.StatusUnprocessableEntity || got.header.Get("Content-Encoding") != "" {
				t.Errorf("got %d %q %v, want 422 without encoding", got.status, got.body, got.header)
			}
			var want bytes.Buffer
			e := encode(&want)
			_, _ = io.WriteString(e, `{"text":"`+fine+`"}`)
			_ = e.Close()
			got := ask(t, "encoding="+encoding+"&text="+fine)
			if got.status != 200 || got.header.Get("Content-Encoding") != encoding || !bytes.Equal(got.body, want.Bytes()) {
				t.Errorf("got %d %q %v, want 200 in the app's encoding", got.status, got.body, got.header)
			}
		})
	}
	if got := ask(t, "encoding=odd"); got.status != 200 || string(got.body) != "?" || got.header.Get("Content-Encoding") != "odd" {
		t.Errorf("an unknown encoding, failing open: got %d %q %v, want 200 as it is", got.status, got.body, got.header)
	}
	reload(t, guardConfig(t, "moderate_response {\non_error reject\n}\n"+app.proxy()))
	if got := ask(t, "encoding=odd"); got.status != http.StatusServiceUnavailable || got.header.Get("Content-Encoding") != "" || got.header.Get("Retry-After") == "" {
		t.Errorf("an unknown encoding, failing closed: got %d %q %v, want 503 with Retry-After", got.status, got.body, got.header)
	}
	if got := ask(t, "encoding=gzip&cut=12&text="+fine); got.status != http.StatusServiceUnavailable {
		t.Errorf("a broken encoding, failing closed: got %d %q %v, want 503", got.status, got.body, got.header)
	}
}

// TestResponseWithEncode is compressed behind the guard, or before it.
func TestResponseWithEncode(t *testing.T) {
	body := `{"text":"` + fineFollow(2000) + `"}`
	app := newBackend(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Etag", `"x"`)
		if r.URL.Query().Has("vile") {
			_, _ = io.WriteString(w, strings.ReplaceAll(body, fine, vile))
			return
		}
		_, _ = io.WriteString(w, strings.ReplaceAll(body, "\n", " "))
	})
	for name, site := range map[string]string{
		"outside": "encode gzip\nmoderate_response\n" + app.proxy(),
		"inside":  "route {\nmoderate_response\nencode gzip\n" + app.proxy() + "\n}",
	} {
		t.Run(name, func(t *testing.T) {
			load(t, guardConfig(t, site+"\nlog {\noutput discard\n}"))
			got := call(t, http.MethodGet, base+"/", "", nil, "Accept-Encoding", "gzip")
			plain := got.body
			if encoding := got.header.Get("Content-Encoding"); (encoding == "gzip") != (name == "outside") {
				t.Errorf("Content-Encoding is %q", encoding)
			} else if encoding == "gzip" {
				unzip, err := gzip.NewReader(bytes.NewReader(got.body))
				if err != nil {
					t.Fatal(err)
				}
				plain, _ = io.ReadAll(unzip)
			}
			if got.status != 200 || string(plain) != strings.ReplaceAll(body, "\n", " ") {
				t.Errorf("got %d %q, want 200 and the page", got.status, plain)
			}
			if got := call(t, http.MethodGet, base+"/?vile", "", nil, "Accept-Encoding", "gzip"); got.status != http.StatusUnprocessableEntity {
				t.Errorf("got %d %q, want 422", got.status, got.body)
			}
		})
	}
}

// TestResponseTrailers come behind a body that was held, and not with one that replaces it.
func TestResponseTrailers(t *testing.T) {
	app := newBackend(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Trailer", "X-Sum")
		_, _ = io.WriteString(w, `{"text":"`+r.URL.Query().Get("text")+`"}`)
		w.(http.Flusher).Flush()
		w.Header().Set("X-Sum", "7")
		w.Header().Set(http.TrailerPrefix+"X-Late", "8")
	})
	load(t, guardConfig(t, "moderate_response\n"+app.proxy()))
	for text, want := range map[string]string{fine: "7", vile: ""} {
		response, err := client.Get(base + "/?text=" + strings.ReplaceAll(text, " ", "+"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.Trailer.Get("X-Sum") != want || response.Header.Get("X-Sum") != "" || (response.Trailer.Get("X-Late") == "8") != (want == "7") {
			t.Errorf("%s: %v, header %v, trailer %v", text, err, response.Header, response.Trailer)
		}
	}
}
