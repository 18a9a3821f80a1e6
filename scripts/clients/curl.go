// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// curler runs curl.
type curler struct {
	program  string
	version  string // what "curl --version" prints
	folder   string // for bodies and answers
	requests int
}

// do runs curl with the arguments and returns the answer that it read, and the interim answers before it.
func (c *curler) do(ctx context.Context, args ...string) (a answer, interim []int, err error) {
	c.requests++
	head, body := c.path(fmt.Sprintf("head-%d", c.requests)), c.path(fmt.Sprintf("body-%d", c.requests))
	ctx, cancel := context.WithTimeout(ctx, 3*patience)
	defer cancel()
	// -q ignores the user's own settings.
	cmd := exec.CommandContext(ctx, c.program,
		append([]string{"-q", "-sS", "--noproxy", "*", "-D", head, "-o", body, "-w", "%{http_version}"}, args...)...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	version, runErr := cmd.Output()
	a.Proto = string(version)
	if a.Body, err = os.ReadFile(body); err != nil && !errors.Is(err, os.ErrNotExist) {
		return a, nil, err
	}
	heads, err := os.ReadFile(head)
	if err != nil {
		return a, nil, errors.Join(runErr, err)
	}
	for in := textproto.NewReader(bufio.NewReader(bytes.NewReader(heads))); ; {
		line, err := in.ReadLine()
		if err != nil {
			break
		}
		if a.Status != 0 {
			interim = append(interim, a.Status)
		}
		if _, err := fmt.Sscanf(line, "HTTP/%s %d", new(string), &a.Status); err != nil {
			return a, nil, fmt.Errorf("curl read the status line %q: %w", line, err)
		}
		header, err := in.ReadMIMEHeader()
		if err != nil {
			return a, nil, err
		}
		a.Header = http.Header(header)
	}
	if runErr != nil {
		return a, interim, fmt.Errorf("curl %s: %w: %s", strings.Join(args, " "), runErr, errs.String())
	}
	return a, interim, nil
}

func (c *curler) path(name string) string { return filepath.Join(c.folder, name) }

// file writes a file for --data-binary and -F.
func (c *curler) file(name string, data []byte) (string, error) {
	return c.path(name), os.WriteFile(c.path(name), data, 0o600)
}

// encodings are the content codings. Deflate is zlib's format, RFC 9110 section 8.4.1.2.
var encodings = []struct {
	name string
	to   func(io.Writer) (io.WriteCloser, error)
}{
	{"identity", nil},
	{"gzip", func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil }},
	{"br", func(w io.Writer) (io.WriteCloser, error) { return brotli.NewWriter(w), nil }},
	{"deflate", func(w io.Writer) (io.WriteCloser, error) { return zlib.NewWriter(w), nil }},
	{"zstd", func(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w) }},
}

func encode(data []byte, to func(io.Writer) (io.WriteCloser, error)) ([]byte, error) {
	if to == nil {
		return data, nil
	}
	var b bytes.Buffer
	w, err := to(&b)
	if err != nil {
		return nil, err
	}
	_, err = w.Write(data)
	err = errors.Join(err, w.Close())
	return b.Bytes(), err
}

func comment(text string) []byte {
	body, _ := json.Marshal(map[string]string{"comment": text})
	return body
}

// curl checks the requests that curl can send.
func curl(ctx context.Context, r *report, s *site) error {
	program, err := exec.LookPath("curl")
	if err != nil {
		r.skip("all", "curl is not installed")
		return nil
	}
	version, err := exec.CommandContext(ctx, program, "--version").Output()
	if err != nil {
		return err
	}
	c := &curler{program: program, version: string(version), folder: filepath.Join(s.folder, "curl")}
	if err := os.Mkdir(c.folder, 0o700); err != nil {
		return err
	}
	for _, e := range encodings {
		c.both(ctx, r, s, "encoded-"+e.name, "a JSON body in "+e.name, e.to, "-H", "Content-Encoding: "+e.name)
	}
	c.transports(ctx, r, s)
	c.uploads(ctx, r, s)
	c.headers(ctx, r, s)
	c.answers(ctx, r, s)
	return nil
}

// both posts a fine JSON body, which the app must receive unchanged, and a vile one, which it must not receive.
func (c *curler) both(ctx context.Context, r *report, s *site, name, what string,
	to func(io.Writer) (io.WriteCloser, error), args ...string) {
	post := func(text, path string) (answer, []int, []byte, error) {
		body, err := encode(comment(text), to)
		if err != nil {
			return answer{}, nil, nil, err
		}
		file, err := c.file("post", body)
		if err != nil {
			return answer{}, nil, nil, err
		}
		site := s.URL
		if len(args) > 0 && args[0] == "-k" {
			site = s.TLS
		}
		a, interim, err := c.do(ctx, append(args, "-H", "Content-Type: application/json", "--data-binary", "@"+file,
			site+path)...)
		return a, interim, body, err
	}
	r.check(what+" arrives as sent", func() error {
		path := "/echo/curl-" + name
		a, interim, body, err := post(fine, path)
		if err != nil {
			return err
		}
		if err := a.status(http.StatusOK); err != nil {
			return err
		}
		if !bytes.Equal(a.Body, body) {
			return fmt.Errorf("the echo differs: %q", a.Body)
		}
		if name == "expect" && len(interim) == 0 {
			return errors.New("no 100 Continue came")
		}
		if name == "h2c" || name == "h2" {
			if a.Proto != "2" {
				return fmt.Errorf("the answer came by HTTP/%s", a.Proto)
			}
		}
		return s.app.same(path, body)
	})
	r.check(what+" is refused when it is vile", func() error {
		path := "/echo/curl-vile-" + name
		a, _, _, err := post(vile, path)
		return errors.Join(err, a.refusal(), s.app.unseen(path))
	})
}

// transports checks the versions of HTTP and the framings of a body.
func (c *curler) transports(ctx context.Context, r *report, s *site) {
	c.both(ctx, r, s, "http10", "HTTP/1.0", nil, "--http1.0")
	c.both(ctx, r, s, "chunked", "a chunked body", nil, "-H", "Transfer-Encoding: chunked")
	c.both(ctx, r, s, "expect", "a body after Expect: 100-continue", nil, "-H", "Expect: 100-continue")
	if !strings.Contains(c.version, "HTTP2") {
		r.skip("HTTP/2", "this curl has no HTTP/2")
	} else {
		c.both(ctx, r, s, "h2c", "HTTP/2 with prior knowledge", nil, "--http2-prior-knowledge")
		c.both(ctx, r, s, "h2", "HTTP/2 over TLS", nil, "-k", "--http2")
	}
	if !strings.Contains(c.version, "HTTP3") {
		r.skip("HTTP/3", "this curl has no HTTP/3; the client browser checks it")
	} else {
		c.both(ctx, r, s, "h3", "HTTP/3", nil, "-k", "--http3-only")
	}
}

// uploads checks multipart forms with files.
func (c *curler) uploads(ctx context.Context, r *report, s *site) {
	photo := make([]byte, 1_500_000) // more than max_body, which does not count files
	_, _ = rand.Read(photo)
	large := bytes.Repeat(photo, 20)
	files := make(map[string]string)
	for name, data := range map[string][]byte{"photo.jpg": photo, "large.bin": large} {
		file, err := c.file(name, data)
		if err != nil {
			r.fail("files are made", err)
			return
		}
		files[name] = file
	}
	var args []string // of each upload
	send := func(path string, form ...string) (answer, error) {
		args := append(slices.Clone(args), s.URL+path)
		for _, field := range form {
			args = append(args, "-F", field)
		}
		a, _, err := c.do(ctx, args...)
		return a, err
	}
	arrives := func(what, path, file string, data []byte, form ...string) {
		r.check(what, func() error {
			a, err := send(path, form...)
			if err := errors.Join(err, a.status(http.StatusOK)); err != nil {
				return err
			}
			seen, err := s.app.ended(ctx, path)
			if err != nil {
				return err
			}
			for _, p := range seen.Parts {
				if p.Filename == file {
					if p.SHA256 != hashOf(data) {
						return fmt.Errorf("the file arrived with %d bytes and SHA-256 %s; sent were %d bytes with %s",
							p.Length, p.SHA256, len(data), hashOf(data))
					}
					return nil
				}
			}
			return fmt.Errorf("the file did not arrive: %+v", seen.Parts)
		})
	}
	refused := func(what, path string, form ...string) {
		r.check(what, func() error {
			// What matters is that curl read the refusal. It need not have been able to send the rest.
			a, err := send(path, form...)
			if refusal := a.refusal(); refusal != nil {
				return errors.Join(refusal, err)
			}
			return s.app.unseen(path)
		})
	}
	arrives("a photo with a caption arrives byte for byte", "/upload/curl-photo", "photo.jpg", photo, "caption="+fine,
		"photo=@"+files["photo.jpg"]+";type=image/jpeg")
	arrives("30 MB with the caption behind them arrive byte for byte", "/upload/curl-large", "large.bin", large,
		"photo=@"+files["large.bin"], "caption="+fine)
	refused("a vile caption before a photo is refused", "/upload/curl-vile-before", "caption="+vile,
		"photo=@"+files["photo.jpg"])
	refused("a vile caption behind 30 MB is refused", "/upload/curl-vile-behind", "photo=@"+files["large.bin"],
		"caption="+vile)
	before := []string{"caption=" + vile, "photo=@" + files["large.bin"]}
	between := []string{"photo=@" + files["large.bin"], "caption=" + vile, "photo=@" + files["large.bin"]}
	refused("a vile caption before 30 MB is refused", "/upload/curl-vile-before-large", before...)
	refused("a vile caption between twice 30 MB is refused", "/upload/curl-vile-between", between...)
	if strings.Contains(c.version, "HTTP2") {
		args = []string{"--http2-prior-knowledge"}
		refused("a vile caption before 30 MB is refused over HTTP/2", "/upload/curl-h2-vile-before-large", before...)
		refused("a vile caption between twice 30 MB is refused over HTTP/2", "/upload/curl-h2-vile-between", between...)
		args = nil
	}
	refused("a vile file name is refused", "/upload/curl-vile-name",
		"photo=@"+files["photo.jpg"]+`;filename="`+vile+`"`, "caption="+fine)
}

// headers checks the verdict that the app receives in headers, and that a client cannot forge it.
func (c *curler) headers(ctx context.Context, r *report, s *site) {
	r.check("the app is told the verdict, and a forged one does not arrive", func() error {
		const path = "/echo/curl-forged"
		a, _, err := c.do(ctx, "-H", "Content-Type: application/json", "-H", "X-Moderation-Flagged: true",
			"-H", "X-Moderation-Id: forged", "-H", "x_moderation_id: forged", "-H", "X-Moderation-Other: forged",
			"--data-binary", string(comment(fine)), s.URL+path)
		if err := errors.Join(err, a.status(http.StatusOK)); err != nil {
			return err
		}
		seen, err := s.app.ended(ctx, path)
		if err != nil {
			return err
		}
		for name, values := range seen.Header {
			if strings.Contains(strings.Join(values, " "), "forged") {
				return fmt.Errorf("the app received %s: %s", name, values)
			}
		}
		for name, want := range map[string]string{"Status": "judged", "Flagged": "false", "Recommendation": "approve"} {
			if got := seen.Header.Get("X-Moderation-" + name); got != want {
				return fmt.Errorf("the app received X-Moderation-%s: %q, want %q", name, got, want)
			}
		}
		return nil
	})
	r.check("who prefers HTML is refused with a page", func() error {
		a, _, err := c.do(ctx, "-H", "Accept: text/html,application/xhtml+xml,*/*;q=0.8", "-d", "comment="+vile,
			s.URL+"/comment")
		if err := errors.Join(err, a.status(http.StatusUnprocessableEntity)); err != nil {
			return err
		}
		if kind := a.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/html") ||
			bytes.Contains(a.Body, []byte("worthless")) {
			return fmt.Errorf("the refusal is of type %q: %.300s", kind, a.Body)
		}
		return nil
	})
	r.check("the refused form did not reach the app", func() error { return s.app.unseen("/comment") })
}

// answers checks what comes back through moderate_response.
func (c *curler) answers(ctx context.Context, r *report, s *site) {
	get := func(path string, args ...string) (answer, error) {
		a, _, err := c.do(ctx, append(args, s.URL+path)...)
		return a, err
	}
	compressed := []struct{ by, query string }{{"by the server", ""}, {"by the app", "?always"}}
	for _, page := range compressed {
		r.check("a page compressed "+page.by+" arrives", func() error {
			a, err := get("/judged/page/fine"+page.query, "-H", "Accept-Encoding: gzip")
			if err := errors.Join(err, a.status(http.StatusOK)); err != nil {
				return err
			}
			z, err := gzip.NewReader(bytes.NewReader(a.Body))
			if err != nil {
				return fmt.Errorf("Content-Encoding %q: %w", a.Header.Get("Content-Encoding"), err)
			}
			text, err := io.ReadAll(z)
			if err == nil && !bytes.Contains(text, []byte(fine)) {
				err = fmt.Errorf("the page is %.200s", text)
			}
			return err
		})
	}
	for _, page := range compressed {
		r.check("a vile page compressed "+page.by+" is withheld", func() error {
			a, err := get("/judged/page/vile"+page.query, "--compressed")
			if err := errors.Join(err, a.status(http.StatusUnprocessableEntity)); err != nil {
				return err
			}
			if bytes.Contains(a.Body, []byte("worthless")) || !bytes.Contains(a.Body, []byte("response_rejected")) {
				return fmt.Errorf("the answer is %.300s", a.Body)
			}
			return nil
		})
	}
	r.check("a HEAD is answered", func() error {
		a, err := get("/judged/page/vile", "-I")
		return errors.Join(err, a.status(http.StatusOK))
	})
	r.check("a range of a file arrives", func() error {
		a, err := get("/judged/file", "-r", "5-14")
		if err := errors.Join(err, a.status(http.StatusPartialContent)); err != nil {
			return err
		}
		if string(a.Body) != "5678901234" {
			return fmt.Errorf("the range is %q", a.Body)
		}
		return nil
	})
	r.check("a file that did not change is answered with 304", func() error {
		a, err := get("/judged/file", "-H", "If-Modified-Since: Tue, 01 Jan 2030 00:00:00 GMT")
		return errors.Join(err, a.status(http.StatusNotModified))
	})
}
