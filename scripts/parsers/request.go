// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// request is what is sent to guards and parsers, byte for byte.
type request struct {
	method string
	// header has the lines of the header. Host is added, and so is Content-Length unless a line frames the body.
	header []string
	body   []byte
}

// framing are the names of the fields after which a connection is not reused: they say where the body ends, or what
// comes after it.
var framing = []string{"content-length", "transfer-encoding", "connection", "upgrade", "expect"}

// framed reports whether the header itself says where the body ends, and whether the connection cannot be reused.
func (r *request) framed() (length, last bool) {
	for _, line := range r.header {
		name, _, _ := strings.Cut(line, ":")
		switch i := slices.Index(framing, strings.ToLower(strings.TrimSpace(name))); i {
		case -1:
		case 0, 1:
			return true, true
		default:
			last = true
		}
	}
	return false, last
}

// wire returns the request as it is sent. The path tells the receiver anything else it must know.
func (r *request) wire(path, host string) (data []byte, last bool) {
	length, last := r.framed()
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n", r.method, path, host)
	for _, line := range r.header {
		b.WriteString(line + "\r\n")
	}
	if !length {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(r.body))
	}
	b.WriteString("\r\n")
	b.Write(r.body)
	return b.Bytes(), last
}

// String returns the request as fixtures have it: the method, the lines of the header and those of the body, each
// quoted as in Go.
func (r *request) String() string {
	var b strings.Builder
	fmt.Fprintln(&b, r.method)
	for _, line := range r.header {
		fmt.Fprintln(&b, strconv.Quote(line))
	}
	fmt.Fprintln(&b)
	for _, line := range bytes.SplitAfter(r.body, []byte("\n")) {
		if len(line) > 0 {
			fmt.Fprintln(&b, strconv.Quote(string(line)))
		}
	}
	return b.String()
}

// parseRequest parses what String returns. Lines that begin with # are comments.
func parseRequest(text string) (*request, error) {
	r := &request{}
	inBody := false
	for i, line := range strings.Split(text, "\n") {
		switch {
		case strings.HasPrefix(line, "#"):
		case r.method == "":
			r.method = line
		case line == "":
			inBody = true
		default:
			unquoted, err := strconv.Unquote(line)
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", i+1, err)
			}
			if inBody {
				r.body = append(r.body, unquoted...)
			} else {
				r.header = append(r.header, unquoted)
			}
		}
	}
	if r.method == "" {
		return nil, fmt.Errorf("no request")
	}
	return r, nil
}

// replace returns the request with a text replaced.
func (r *request) replace(old, text string) *request {
	return &request{method: r.method, header: r.header, body: bytes.ReplaceAll(r.body, []byte(old), []byte(text))}
}

// readFixtures returns the cases of a folder: bodies that got past the guard once.
func readFixtures(folder string) ([]*sample, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.txt"))
	if err != nil {
		return nil, err
	}
	var samples []*sample
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		r, err := parseRequest(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		name := "fixture " + strings.TrimSuffix(filepath.Base(file), ".txt")
		samples = append(samples, &sample{name: name, class: name, vile: r, fine: r.replace(vile, fine)})
	}
	return samples, nil
}

// row is a line of testdata/rows.jsonl, which TestRowsOfParsers of caddymod writes.
type row struct {
	Name   string
	Method string
	Header []string
	Vile   []byte
	Fine   []byte
}

// readRows returns the attempts of caddymod/bypass_test.go.
func readRows(file string) ([]*sample, error) {
	in, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	var samples []*sample
	for lines := json.NewDecoder(bufio.NewReader(in)); ; {
		var r row
		if err := lines.Decode(&r); err == io.EOF {
			return samples, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		name := "row " + r.Name
		samples = append(samples, &sample{
			name:  name,
			class: name,
			vile:  &request{method: r.Method, header: r.Header, body: r.Vile},
			fine:  &request{method: r.Method, header: r.Header, body: r.Fine},
		})
	}
}
