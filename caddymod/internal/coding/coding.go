// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package coding undoes the content codings of HTTP (RFC 9110, section 8.4.1): gzip, deflate, br and zstd.
//
// Decoders are pooled, because making one is expensive. Their memory is bounded whatever a body says.
package coding

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// The names of the codings, as they stand in Content-Encoding.
const (
	Gzip     = "gzip"
	XGzip    = "x-gzip" // an old name of gzip, which recipients treat alike
	Deflate  = "deflate"
	Brotli   = "br"
	Zstd     = "zstd"
	Identity = "identity"
)

// Errors of this package. They are matched with errors.Is, and none of them carries content.
var (
	// ErrUnknown says that Content-Encoding names a coding that is not known, or more than three codings.
	ErrUnknown = errors.New("the Content-Encoding is not known")
	// ErrBroken says that the body is not what its Content-Encoding says, or that it ends too early.
	ErrBroken = errors.New("the body does not decode as its Content-Encoding says")
	// ErrTooLarge says that the decoded body is larger than the limit.
	ErrTooLarge = errors.New("the decoded body is too large")
)

// maxLayers is the maximum number of codings that may be applied one after the other. Real clients apply one.
const maxLayers = 3

// maxWindow is the maximum memory, in bytes, that a zstd stream may ask for: what RFC 9659 allows a sender.
const maxWindow = 8 << 20

// Parse returns the codings that the values of a Content-Encoding header name, in lower case, in the order in which
// they were applied and without identity. It returns [ErrUnknown] for a name other than gzip, x-gzip, deflate, br and
// zstd, and for more than three of them.
func Parse(values []string) ([]string, error) {
	if len(values) == 0 {
		return nil, nil
	}
	var names []string
	for _, value := range values {
		for name := range strings.SplitSeq(value, ",") {
			name = strings.ToLower(strings.TrimSpace(name))
			switch name {
			case "", Identity:
				continue
			case Gzip, XGzip, Deflate, Brotli, Zstd:
				names = append(names, name)
				continue
			}
			return nil, fmt.Errorf("%w: %.40q", ErrUnknown, name)
		}
	}
	if len(names) > maxLayers {
		return nil, fmt.Errorf("%w: there are %d upon each other, more than %d", ErrUnknown, len(names), maxLayers)
	}
	return names, nil
}

// Decode undoes the codings that the values of a Content-Encoding header name. The decoded body has at most limit
// bytes. With [ErrBroken] and [ErrTooLarge] it is what came out before the error, and with [ErrUnknown] it is nil.
// Without a coding it is the body itself, whatever its size.
func Decode(values []string, body []byte, limit int64) (decoded []byte, err error) {
	names, err := Parse(values)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return body, nil
	}
	r := newReader(names, bytes.NewReader(body), false)
	defer func() { _ = r.Close() }()
	// Text shrinks to a third or a quarter.
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

// NewReader returns a reader of r without the codings that the values of a Content-Encoding header name. It delivers
// what can be decoded as soon as it has arrived. Its errors are [ErrBroken] and those of r; a body of no bytes
// decodes to nothing. The caller closes it, which does not close r.
func NewReader(values []string, r io.Reader) (io.ReadCloser, error) {
	names, err := Parse(values)
	if err != nil {
		return nil, err
	}
	return newReader(names, r, false), nil
}

// NewLenientReader is like [NewReader] for one coding, which must be known, and reads as much as the most lenient
// decoder would: of a zlib stream it looks neither at the flags of the header nor at the checksum.
func NewLenientReader(name string, r io.Reader) io.ReadCloser {
	return newReader([]string{name}, r, true)
}

// newReader stacks the layers of codings.
func newReader(names []string, r io.Reader, lenient bool) *decoder {
	d := &decoder{Reader: r}
	for _, name := range slices.Backward(names) {
		layer := &layer{name: name, lenient: lenient, src: &source{Reader: d.Reader}}
		d.layers = append(d.layers, layer)
		d.Reader = layer
	}
	return d
}

// decoder is a stack of layers.
type decoder struct {
	io.Reader
	layers []*layer
}

// Close gives the decoders back to their pools.
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

// source remembers the error of its reader, to tell it from those of the decoder.
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

// resetter is a decoder that can be used again.
type resetter interface {
	io.Reader
	Reset(io.Reader) error
}

// layer decodes one coding. The decoder is taken from its pool at the first read, because resetting one reads.
type layer struct {
	name    string
	lenient bool
	src     *source
	in      *bufio.Reader
	from    resetter
	pool    *sync.Pool
	err     error
}

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
		// The end is examined by the next call, when this has been delivered.
		return n, nil
	}
	l.err = l.fault(err)
	return n, l.err
}

// fault translates an error of the decoder for the caller.
func (l *layer) fault(err error) error {
	if err == io.EOF {
		// Bytes behind the end are an error: some decoders ignore them, and others go on with them as text.
		if _, err := l.in.Peek(1); err == io.EOF {
			return io.EOF
		}
	}
	if l.src.err != nil {
		return l.src.err
	}
	return fmt.Errorf("%w (%s)", ErrBroken, l.name)
}

// start takes a decoder from its pool.
func (l *layer) start() error {
	l.in = readers.Get().(*bufio.Reader)
	l.in.Reset(l.src)
	if _, err := l.in.Peek(1); err != nil {
		// Servers take an empty body for an encoded empty body.
		if err == io.EOF {
			return io.EOF
		}
		return l.fault(err)
	}
	switch l.name {
	case Gzip, XGzip:
		l.pool = &gunzips
	case Brotli:
		l.pool = &brotlis
	case Zstd:
		l.pool = &zstds
	default:
		l.pool = &inflates
		switch head, err := l.in.Peek(2); {
		case err != nil || !isZlib(head):
		case l.lenient:
			_, _ = l.in.Discard(len(head)) // what is behind it inflates
		default:
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

// isZlib reports whether the first two bytes are the header of a zlib stream (RFC 1950). Deflate is sent with it by
// browsers and as RFC 9110 says, and without it by others.
func isZlib(head []byte) bool {
	return head[0]&0x0f == 8 && (uint(head[0])<<8|uint(head[1]))%31 == 0
}

// release gives the decoder back to its pool, without a reference to what it read from.
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

// The pools of decoders.
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

// flateReader is a flate reader with the Reset of the others.
type flateReader struct{ io.ReadCloser }

func (f *flateReader) Reset(r io.Reader) error { return f.ReadCloser.(flate.Resetter).Reset(r, nil) }

// zlibReader is a zlib reader with the Reset of the others. The zlib reader is made with its first stream, which it
// reads at once.
type zlibReader struct{ io.ReadCloser }

func (z *zlibReader) Reset(r io.Reader) (err error) {
	if z.ReadCloser == nil {
		z.ReadCloser, err = zlib.NewReader(r)
		return err
	}
	return z.ReadCloser.(zlib.Resetter).Reset(r, nil)
}
