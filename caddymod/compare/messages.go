// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"io"
	"net/http"
	"sync"

	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/coding"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/response"
)

// kept is a copy of a body, up to [maxMessage]. It is locked because the proxy may still read a request when its
// answer is there.
type kept struct {
	mu   sync.Mutex
	data []byte
	over bool // it was too large, and nothing is kept
}

// add appends a part.
func (k *kept) add(p []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.over || len(k.data)+len(p) > maxMessage {
		k.over, k.data = true, nil
		return
	}
	k.data = append(k.data, p...)
}

// decoded returns the body without its Content-Encoding; nil when it was too large or is broken.
func (k *kept) decoded(encodings []string) []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.over {
		return nil
	}
	decoded, err := coding.Decode(encodings, k.data, maxMessage)
	if err != nil {
		return nil
	}
	return decoded
}

// tee returns a body that is kept while it is read.
func (k *kept) tee(body io.ReadCloser) io.ReadCloser {
	if body == nil {
		return nil
	}
	return &teeBody{body, k}
}

// teeBody is a body that is kept while it is read.
type teeBody struct {
	io.ReadCloser
	kept *kept
}

// Read reads a part of the body, and keeps it.
func (t *teeBody) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	t.kept.add(p[:n])
	return n, err
}

// recorder writes an answer and keeps a copy of its body.
type recorder struct {
	response.Writer
	body kept
}

// Write writes a part of the body, and keeps it.
func (r *recorder) Write(p []byte) (int, error) {
	n, err := r.Writer.Write(p)
	r.body.add(p[:n])
	return n, err
}

// ReadFrom writes the body from a reader, and keeps it.
func (r *recorder) ReadFrom(src io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{r}, src)
}

// Interface guards
var (
	_ http.ResponseWriter = (*recorder)(nil)
	_ io.ReaderFrom       = (*recorder)(nil)
)
