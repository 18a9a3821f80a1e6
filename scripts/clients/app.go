// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"html/template"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// app is the app behind the guard. It keeps what it received by path, so each check uses a path of its own. In the
// middle of some answers it waits at a gate until a check opens it: that shows that the first part has arrived, without
// looking at a clock. Checks in other programs use /-/received and /-/go at the app's own address.
type app struct {
	URL string // http://127.0.0.1:<port>

	pages  *http.ServeMux
	server *http.Server

	mu      sync.Mutex
	changed chan struct{} // closed and renewed whenever something below changes
	seen    map[string][]*received
	gates   map[string]bool // that are open
}

// received is what the app saw of a request.
type received struct {
	Method string      `json:"method"`
	URI    string      `json:"uri"`
	Header http.Header `json:"header"`
	Trail  http.Header `json:"trail,omitempty"` // trailers
	Length int64       `json:"length"`          // of the body
	SHA256 string      `json:"sha256"`          // of the body
	Body   []byte      `json:"body,omitempty"`  // its beginning
	Parts  []part      `json:"parts,omitempty"`
	Whole  bool        `json:"whole"` // the body arrived to its end
	Ended  bool        `json:"ended"` // the app is done with the request
	Gone   bool        `json:"gone"`  // the request was given up before the app was done
}

// part is one part of a multipart form.
type part struct {
	Name     string `json:"name"`
	Filename string `json:"filename,omitempty"`
	Length   int64  `json:"length"`
	SHA256   string `json:"sha256"`
	Text     string `json:"text,omitempty"` // of parts that are no files
}

// keep is how many bytes of each body are kept.
const keep = 64 << 10

// patience is how long the app waits for a check, and a check for the app. It runs out only when something is wrong.
const patience = 10 * time.Second

func startApp() (*app, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	a := &app{
		URL:     "http://" + listener.Addr().String(),
		pages:   http.NewServeMux(),
		changed: make(chan struct{}),
		seen:    make(map[string][]*received),
		gates:   make(map[string]bool),
	}
	a.pages.HandleFunc("GET /{$}", a.form)
	a.pages.HandleFunc("POST /comment", a.comment)
	a.pages.HandleFunc("POST /upload", a.upload)
	a.pages.HandleFunc("POST /upload/{name}", a.upload)
	a.pages.HandleFunc("/echo/{name}", a.echo)
	a.pages.HandleFunc("GET /drip/{name}", a.drip)
	a.pages.HandleFunc("GET /judged/story/{kind}", a.story)
	a.pages.HandleFunc("GET /judged/page/{kind}", a.page)
	a.pages.HandleFunc("GET /judged/file", a.file)
	a.pages.HandleFunc("POST /v1/chat/completions", a.chat)
	a.pages.HandleFunc("GET /websocket", a.webSocket)
	a.server = &http.Server{Handler: a}
	go func() { _ = a.server.Serve(listener) }()
	return a, nil
}

func (a *app) close() { _ = a.server.Close() }

func (a *app) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/-/received":
		a.answerReceived(w, r)
		return
	case "/-/go":
		a.open(r.URL.Query().Get("gate"))
		return
	}
	seen := &received{Method: r.Method, URI: r.RequestURI, Header: r.Header.Clone()}
	a.change(func() { a.seen[r.URL.Path] = append(a.seen[r.URL.Path], seen) })
	body := &recorder{ReadCloser: r.Body, app: a, seen: seen, hash: sha256.New()}
	r.Body = body
	a.pages.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), requestKey{}, seen)))
	if r.Header.Get("Upgrade") == "" { // a taken connection is read no more
		_, _ = io.Copy(io.Discard, body)
	}
	a.change(func() { seen.Trail, seen.Ended, seen.Gone = r.Trailer, true, r.Context().Err() != nil })
}

type requestKey struct{}

// recorder records the body while the app reads it.
type recorder struct {
	io.ReadCloser
	app  *app
	seen *received
	hash hash.Hash
	err  error // of the last read
}

func (b *recorder) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.ReadCloser.Read(p)
	b.err = err
	b.app.change(func() {
		b.hash.Write(p[:n])
		b.seen.Length += int64(n)
		b.seen.Body = append(b.seen.Body, p[:min(n, keep-len(b.seen.Body))]...)
		if err == io.EOF {
			b.seen.Whole = true
			b.seen.SHA256 = hex.EncodeToString(b.hash.Sum(nil))
		}
	})
	return n, err
}

// change runs do under the lock and wakes those that wait.
func (a *app) change(do func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	do()
	close(a.changed)
	a.changed = make(chan struct{})
}

// wait waits until ready returns true. It calls ready after every change.
func (a *app) wait(ctx context.Context, ready func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		a.mu.Lock()
		done, changed := ready(), a.changed
		a.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("waited in vain: %w", ctx.Err())
		}
	}
}

// open opens a gate for those that wait at it now or later.
func (a *app) open(gate string) { a.change(func() { a.gates[gate] = true }) }

// pass waits at a gate. It returns false if nothing opened it.
func (a *app) pass(ctx context.Context, gate string) bool {
	return a.wait(ctx, func() bool { return a.gates[gate] }) == nil
}

// of returns what was received at a path.
func (a *app) of(path string) []received {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := make([]received, 0, len(a.seen[path]))
	for _, s := range a.seen[path] {
		all = append(all, *s)
	}
	return all
}

// ended waits for the end of the last request to the path and returns what was received of it.
func (a *app) ended(ctx context.Context, path string) (received, error) {
	last := func() *received {
		all := a.seen[path]
		if len(all) == 0 {
			return &received{}
		}
		return all[len(all)-1]
	}
	if err := a.wait(ctx, func() bool { return last().Ended }); err != nil {
		return received{}, fmt.Errorf("the end of %s: %w", path, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return *last(), nil
}

// answerReceived lists what was received at ?path=, after the end of the last request there with &ended.
func (a *app) answerReceived(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Query().Get("path")
	if r.URL.Query().Has("ended") {
		if _, err := a.ended(r.Context(), path); err != nil {
			http.Error(w, err.Error(), http.StatusGatewayTimeout)
			return
		}
	}
	_ = json.NewEncoder(w).Encode(a.of(path))
}

var formPage = template.Must(template.New("").Parse(`<!DOCTYPE html>
<html lang="en">
<title>Recipes</title>
<h1>Recipes</h1>
<form id="comments" method="post" action="/comment">
	<label>Your comment <textarea name="comment"></textarea></label>
	<button>Send</button>
</form>
<form id="photos" method="post" action="/upload" enctype="multipart/form-data">
	<input type="file" name="photo">
	<label>Caption <input name="caption"></label>
	<button>Upload</button>
</form>
<form id="letters" method="post" action="/upload" enctype="multipart/form-data">
	<label>Caption <input name="caption"></label>
	<input type="file" name="photo">
	<button>Upload</button>
</form>
</html>
`))

func (a *app) form(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = formPage.Execute(w, nil)
}

var thanksPage = template.Must(template.New("").Parse(`<!DOCTYPE html>
<html lang="en">
<title>Thank you</title>
<h1>Thank you</h1>
<blockquote>{{.}}</blockquote>
</html>
`))

func (a *app) comment(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = thanksPage.Execute(w, r.PostFormValue("comment"))
}

// upload reads a multipart form as it arrives.
func (a *app) upload(w http.ResponseWriter, r *http.Request) {
	seen := r.Context().Value(requestKey{}).(*received)
	form, err := r.MultipartReader()
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	for {
		p, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		sum, text := sha256.New(), new(strings.Builder)
		to := io.Writer(sum)
		if p.FileName() == "" {
			to = io.MultiWriter(sum, text)
		}
		n, err := io.Copy(to, p)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		a.change(func() {
			seen.Parts = append(seen.Parts, part{p.FormName(), p.FileName(), n, hex.EncodeToString(sum.Sum(nil)),
				text.String()})
		})
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = thanksPage.Execute(w, fmt.Sprintf("%d parts arrived", len(seen.Parts)))
}

// echo answers with the body's bytes.
func (a *app) echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	_, _ = w.Write(body)
}

// drip writes lines and waits for a gate between them.
func (a *app) drip(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	for i := range 3 {
		if i > 0 && !a.pass(r.Context(), fmt.Sprintf("%s/%d", r.URL.Path, i)) {
			return
		}
		fmt.Fprintf(w, "line %d\n", i)
		if http.NewResponseController(w).Flush() != nil {
			return
		}
	}
}

// page serves a page with text of other people. ?always compresses it whatever the client accepts, as some apps do.
func (a *app) page(w http.ResponseWriter, r *http.Request) {
	text := fine
	if r.PathValue("kind") == "vile" {
		text = vile
	}
	var body bytes.Buffer
	_ = thanksPage.Execute(&body, text+strings.Repeat(" "+fine, 20))
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if !r.URL.Query().Has("always") {
		_, _ = w.Write(body.Bytes())
		return
	}
	w.Header().Set("Content-Encoding", "gzip")
	z := gzip.NewWriter(w)
	_, _ = z.Write(body.Bytes())
	_ = z.Close()
}

// file serves a file of which clients request ranges.
func (a *app) file(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", time.Unix(1_700_000_000, 0), strings.NewReader(strings.Repeat("0123456789", 1000)))
}
