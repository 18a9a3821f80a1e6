// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package codingtest encodes bodies for tests.
package codingtest

import (
	"bytes"
	"io"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"

	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/coding"
)

// RawDeflate is deflate without the header of zlib. It is sent under the name [coding.Deflate].
const RawDeflate = "raw"

// Formats are all formats that are decoded: the names of the codings, and [RawDeflate].
var Formats = []string{coding.Gzip, coding.XGzip, coding.Deflate, RawDeflate, coding.Brotli, coding.Zstd}

// Name returns the name that a format has in a header.
func Name(format string) string {
	if format == RawDeflate {
		return coding.Deflate
	}
	return format
}

// Writer is what all encoders have in common.
type Writer interface {
	io.WriteCloser
	Flush() error
}

// NewWriter returns an encoder that writes to w.
func NewWriter(t testing.TB, format string, w io.Writer) Writer {
	t.Helper()
	switch format {
	case coding.Gzip, coding.XGzip:
		return gzip.NewWriter(w)
	case coding.Deflate:
		return zlib.NewWriter(w)
	case coding.Brotli:
		return brotli.NewWriter(w)
	case coding.Zstd:
		e, err := zstd.NewWriter(w)
		if err != nil {
			t.Fatalf("making a zstd encoder: %v", err)
		}
		return e
	case RawDeflate:
		e, err := flate.NewWriter(w, flate.DefaultCompression)
		if err != nil {
			t.Fatalf("making a deflate encoder: %v", err)
		}
		return e
	}
	t.Fatalf("there is no encoder for %q", format)
	return nil
}

// Encode returns an encoded body.
func Encode(t testing.TB, format string, body []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := NewWriter(t, format, &b)
	if _, err := w.Write(body); err != nil {
		t.Fatalf("encoding with %s: %v", format, err)
	}
	if err := w.Close(); err != nil {
		t.Fatalf("ending %s: %v", format, err)
	}
	return b.Bytes()
}
