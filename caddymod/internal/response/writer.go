// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package response holds what handlers and middleware share to answer requests: a writer that observes an answer on its
// way, and one way to send a body whose length is known.
package response

import (
	"bufio"
	"io"
	"net"
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// Hook is called before a [Writer] sends the final header.
type Hook interface {
	// BeforeHeader is called once, just before the final status and the header go out, and before a connection is
	// hijacked (with [http.StatusSwitchingProtocols], unless a status went out before). The header fields can still
	// be changed.
	//
	// An error ends the answer: nothing that the handler writes goes out. The hook may have answered itself, on the
	// writer below.
	BeforeHeader(status int) error
}

// Writer passes an answer on to another writer and knows how far it has come. The zero value with a ResponseWriter
// observes and changes nothing. It is a value to embed, so that a middleware that keeps something beside it needs one
// allocation for both.
//
// Informational statuses (1xx) pass, as often as they come; 101 is a final status. A second final status is dropped. A
// Writer is used by one goroutine, as every [http.ResponseWriter] is.
type Writer struct {
	caddyhttp.ResponseWriterWrapper
	// Hook is called before the final header goes out. Default: none.
	Hook Hook
	// Discard makes what the handler writes after an error of the hook seem to succeed, so that the handler ends as
	// it would have. Default: the handler gets the hook's error.
	Discard bool
	// Hold keeps the final status back until the body begins, is flushed, or the connection is hijacked. An answer
	// without a body is then not sent; the caller sends [Writer.Status] or something else. Default: false.
	Hold bool

	status   int
	bytes    int64
	began    bool  // the final header is out, or the hook has ended the answer
	prepared bool  // the hook was called
	err      error // of the hook
}

// Observe returns a writer that passes everything on to w and observes it.
func Observe(w http.ResponseWriter) Writer {
	return Writer{ResponseWriterWrapper: caddyhttp.ResponseWriterWrapper{ResponseWriter: w}}
}

// Status returns the final status that the handler chose; 0 before it chose one. It is 200 for a body without a status.
func (w *Writer) Status() int { return w.status }

// Bytes returns how many bytes of the body were passed on.
func (w *Writer) Bytes() int64 { return w.bytes }

// Began reports whether the answer can no longer be replaced: the final header is out, the connection is hijacked, or
// the hook has ended the answer.
func (w *Writer) Began() bool { return w.began }

// Err returns the error with which the hook has ended the answer; nil when it has not.
func (w *Writer) Err() error { return w.err }

// WriteHeader sends an informational status, or calls the hook and sends the final status and the header.
func (w *Writer) WriteHeader(status int) {
	if status >= 100 && status < 200 && status != http.StatusSwitchingProtocols {
		if w.err == nil {
			w.ResponseWriter.WriteHeader(status)
		}
		return
	}
	if w.status != 0 {
		return
	}
	w.status = status
	if w.Hold && status != http.StatusSwitchingProtocols {
		return
	}
	_ = w.begin() // the handler learns of an error when it writes
}

// begin sends the final header, once, unless the hook ends the answer.
func (w *Writer) begin() error {
	if w.began {
		return w.err
	}
	if w.status == 0 {
		w.status = http.StatusOK
	}
	if err := w.prepare(w.status); err != nil {
		return err
	}
	w.began = true
	w.ResponseWriter.WriteHeader(w.status)
	return nil
}

// prepare calls the hook, once.
func (w *Writer) prepare(status int) error {
	if w.Hook == nil || w.prepared {
		return w.err
	}
	w.prepared = true
	if w.err = w.Hook.BeforeHeader(status); w.err != nil {
		w.began = true
	}
	return w.err
}

// Write writes a part of the body.
func (w *Writer) Write(p []byte) (int, error) {
	if err := w.begin(); err != nil {
		if w.Discard {
			return len(p), nil
		}
		return 0, err
	}
	n, err := w.ResponseWriter.Write(p)
	w.bytes += int64(n)
	return n, err
}

// ReadFrom writes the body from a reader. It uses the ReadFrom of the writer below where there is one, which sends a
// file without copying it.
func (w *Writer) ReadFrom(r io.Reader) (int64, error) {
	if err := w.begin(); err != nil {
		if w.Discard {
			return io.Copy(io.Discard, r)
		}
		return 0, err
	}
	n, err := w.ResponseWriterWrapper.ReadFrom(r)
	w.bytes += n
	return n, err
}

// FlushError sends what was written so far, and the final header first. [http.ResponseController] calls it.
func (w *Writer) FlushError() error {
	if err := w.begin(); err != nil {
		if w.Discard {
			return nil
		}
		return err
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Hijack calls the hook and hands the connection over. What is written there is not observed.
func (w *Writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if err := w.prepare(http.StatusSwitchingProtocols); err != nil {
		return nil, nil, err
	}
	conn, buffered, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil {
		w.began = true
	}
	return conn, buffered, err
}

// Interface guards
var (
	_ http.ResponseWriter = (*Writer)(nil)
	_ http.Pusher         = (*Writer)(nil)
	_ http.Hijacker       = (*Writer)(nil)
	_ io.ReaderFrom       = (*Writer)(nil)
)
