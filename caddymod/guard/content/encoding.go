// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// Errors of [Decode] and [DecodeReader]. They are matched with errors.Is, and none of them carries content.
var (
	// ErrUnknownEncoding says that Content-Encoding names an encoding that is not known, or more than three.
	ErrUnknownEncoding = errors.New("the Content-Encoding is not known")
	// ErrBroken says that the body is not what its Content-Encoding says, or that it ends too early.
	ErrBroken = errors.New("the body does not decode as its Content-Encoding says")
	// ErrTooLarge says that the decoded body is larger than the limit.
	ErrTooLarge = errors.New("the decoded body is too large")
)

// maxEncodings is the number of encodings that may lie upon each other. Nobody sends more than one.
const maxEncodings = 3

// maxWindow is the most memory, in bytes, that a zstd stream may ask for: what RFC 9659 allows a sender.
const maxWindow = 8 << 20

// Encodings returns the encodings that the values of a Content-Encoding header name, in lower case, in the order in
// which they were applied and without identity. It returns [ErrUnknownEncoding] for others than gzip, x-gzip, deflate, br
// and zstd and for more than three of them.
func Encodings(values []string) ([]string, error) {
	if len(values) == 0 {
		return nil, nil
	}
	var names []string
	for _, value := range values {
		for name := range strings.SplitSeq(value, ",") {
			name = strings.ToLower(strings.TrimSpace(name))
			switch name {
			case "", "identity":
				continue
			case "gzip", "x-gzip", "deflate", "br", "zstd":
				names = append(names, name)
				continue
			}
			return nil, fmt.Errorf("%w: %.40q", ErrUnknownEncoding, name)
		}
	}
	if len(names) > maxEncodings {
		return nil, fmt.Errorf("%w: there are %d upon each other, more than %d", ErrUnknownEncoding, len(names), maxEncodings)
	}
	return names, nil
}

// Decode undoes the encodings that the values of a Content-Encoding header name: gzip, deflate, br and zstd, and up to
// three of them. The decoded body has at most limit bytes. With [ErrBroken] and [ErrTooLarge] it is what came out before
// the error; with [ErrUnknownEncoding], and without an encoding, it is the body as it is, whatever its size.
//
// Many apps never look at Content-Encoding, and text can be hidden where decoders do not show it: in the header of gzip,
// in frames that are skipped, behind the end, or in a body that is not encoded at all. So what can be read in the body as it
// was sent follows behind a line feed, even past the limit. Honest bodies have nothing of that kind.
func Decode(encodings []string, body []byte, limit int64) (decoded []byte, err error) {
	if len(encodings) == 0 {
		return body, nil
	}
	names, err := Encodings(encodings)
	if err != nil || len(names) == 0 {
		return body, err
	}
	decoded, err = decodeAll(names, body, limit)
	return appendPlain(decoded, body), err
}

// decodeAll undoes encodings.
func decodeAll(names []string, body []byte, limit int64) (decoded []byte, err error) {
	r, err := DecodeReader(names, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	// Text shrinks to a third or a fourth.
	decoded = make([]byte, 0, min(int64(len(body))*4+512, limit+1))
	for {
		if len(decoded) == cap(decoded) {
			decoded = slices.Grow(decoded, len(decoded)+512)
		}
		n, err := r.Read(decoded[len(decoded):min(int64(cap(decoded)), limit+1)])
		decoded = decoded[:len(decoded)+n]
		switch {
		case int64(len(decoded)) > limit:
			return decoded[:limit], fmt.Errorf("%w: it may have %d bytes", ErrTooLarge, limit)
		case err == io.EOF:
			return decoded, nil
		case err != nil:
			return decoded, err
		}
	}
}

// plainRun is how many characters of text in a row are no chance in compressed bytes: of a megabyte one in a thousand has
// as many.
const plainRun = 24

// maxRuns is how many stretches of text are looked for in what a body is decoded to.
const maxRuns = 16

// appendPlain appends the text that can be read in an encoded body, with a line feed before each stretch of it, but for
// what it is decoded to anyway.
func appendPlain(decoded, body []byte) []byte {
	clear, from, count, runs := len(decoded), 0, 0, 0
	for i := 0; i <= len(body); {
		size := textSize(body[i:])
		if size > 0 {
			count++
			i += size
			continue
		}
		if run := body[from:i]; count >= plainRun && Letters(view(run)) {
			// Searching costs as much as the body is long, and is bounded for bodies that are made of such runs.
			if runs++; runs > maxRuns || !bytes.Contains(decoded[:clear], run) {
				decoded = append(append(decoded, '\n'), run...)
			}
		}
		i++
		from, count = i, 0
	}
	return decoded
}

// textSize returns the size of the character of text that b begins with, 0 where it begins with none.
func textSize(b []byte) int {
	if len(b) == 0 {
		return 0
	}
	if c := b[0]; c < utf8.RuneSelf {
		if c >= ' ' && c != 0x7f || c == '\t' || c == '\r' || c == '\n' {
			return 1
		}
		return 0
	}
	if r, size := utf8.DecodeRune(b); r != utf8.RuneError {
		return size
	}
	return 0
}

// DecodeReader returns a reader of what r holds without the encodings of a Content-Encoding header, see [Decode]. It
// delivers what can be decoded as soon as it has arrived. Its errors are [ErrBroken] and those of r. The caller closes
// it, which does not close r.
func DecodeReader(encodings []string, r io.Reader) (io.ReadCloser, error) {
	names, err := Encodings(encodings)
	if err != nil {
		return nil, err
	}
	d := &decoder{Reader: r}
	for _, name := range slices.Backward(names) {
		layer := &layer{name: name, src: &source{Reader: d.Reader}}
		d.layers = append(d.layers, layer)
		d.Reader = layer
	}
	return d, nil
}

// decoder is a stack of layers.
type decoder struct {
	io.Reader
	layers []*layer
}

// Close gives the decoders back.
func (d *decoder) Close() error {
	for _, layer := range d.layers {
		layer.release()
	}
	d.Reader = closedReader{}
	d.layers = nil
	return nil
}

type closedReader struct{}

func (closedReader) Read([]byte) (int, error) { return 0, io.ErrClosedPipe }

// source notes the errors of what is read from, to tell them from those of the decoder.
type source struct {
	io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

// resetter is what all decoders have in common.
type resetter interface {
	io.Reader
	Reset(io.Reader) error
}

// layer decodes one encoding. The decoder is taken when the first byte is wanted, because making one reads.
type layer struct {
	name string
	src  *source
	in   *bufio.Reader
	from resetter
	pool *sync.Pool
	err  error
}

// Read decodes.
func (l *layer) Read(p []byte) (int, error) {
	if l.err == nil && l.from == nil {
		l.err = l.start()
	}
	if l.err != nil {
		return 0, l.err
	}
	n, err := l.from.Read(p)
	switch {
	case err == nil:
		return n, nil
	case err == io.EOF && n > 0:
		// What follows the end is looked for when this has been delivered.
		return n, nil
	}
	l.err = l.fault(err)
	return n, l.err
}

// fault returns what an error of the decoder is to the caller.
func (l *layer) fault(err error) error {
	if err == io.EOF {
		// What stands behind the end is text to decoders that go on with it.
		if _, err := l.in.Peek(1); err == io.EOF {
			return io.EOF
		}
	}
	if l.src.err != nil {
		return l.src.err
	}
	return fmt.Errorf("%w (%s)", ErrBroken, l.name)
}

// start takes a decoder.
func (l *layer) start() error {
	l.in = readers.Get().(*bufio.Reader)
	l.in.Reset(l.src)
	if _, err := l.in.Peek(1); err != nil {
		// Nothing is an encoded nothing, as servers see it.
		if err == io.EOF {
			return io.EOF
		}
		return l.fault(err)
	}
	switch l.name {
	case "gzip", "x-gzip":
		l.pool = &gunzips
	case "br":
		l.pool = &brotlis
	case "zstd":
		l.pool = &zstds
	default:
		l.pool = &inflates
		if head, err := l.in.Peek(2); err == nil && isZlib(head) {
			l.pool = &zlibs
		}
	}
	from := l.pool.Get().(resetter)
	if err := from.Reset(l.in); err != nil {
		l.pool.Put(from)
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return l.fault(err)
	}
	l.from = from
	return nil
}

// isZlib reports whether the first two bytes are the header of a zlib stream (RFC 1950). Browsers send deflate with it,
// and others without.
func isZlib(head []byte) bool {
	return head[0]&0x0f == 8 && (uint(head[0])<<8|uint(head[1]))%31 == 0
}

// release gives the decoder back, without what it read from.
func (l *layer) release() {
	if l.from != nil {
		_ = l.from.Reset(nothing{})
		l.pool.Put(l.from)
		l.from = nil
	}
	if l.in != nil {
		l.in.Reset(nothing{})
		readers.Put(l.in)
		l.in = nil
	}
	if l.err == nil {
		l.err = io.ErrClosedPipe
	}
}

// nothing is an empty stream.
type nothing struct{}

func (nothing) Read([]byte) (int, error) { return 0, io.EOF }
func (nothing) ReadByte() (byte, error)  { return 0, io.EOF }

// Decoders are expensive to make.
var (
	readers  = sync.Pool{New: func() any { return bufio.NewReaderSize(nothing{}, 4<<10) }}
	gunzips  = sync.Pool{New: func() any { return new(gzip.Reader) }}
	brotlis  = sync.Pool{New: func() any { return new(brotli.Reader) }}
	zlibs    = sync.Pool{New: func() any { return new(zlibReader) }}
	inflates = sync.Pool{New: func() any { return &flateReader{flate.NewReader(nothing{})} }}
	zstds    = sync.Pool{New: func() any {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderMaxMemory(4*maxWindow))
		if err != nil {
			panic(err) // the options are constants
		}
		return d
	}}
)

// flateReader has the Reset of the others.
type flateReader struct{ io.ReadCloser }

func (f *flateReader) Reset(r io.Reader) error { return f.ReadCloser.(flate.Resetter).Reset(r, nil) }

// zlibReader has the Reset of the others, and is made with its first stream.
type zlibReader struct{ io.ReadCloser }

func (z *zlibReader) Reset(r io.Reader) (err error) {
	if z.ReadCloser == nil {
		z.ReadCloser, err = zlib.NewReader(r)
		return err
	}
	return z.ReadCloser.(zlib.Resetter).Reset(r, nil)
}
