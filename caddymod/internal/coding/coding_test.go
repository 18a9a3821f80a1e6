// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package coding_test

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/coding"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/coding/codingtest"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		values, want []string
		err          error
	}{
		{},
		{values: []string{"identity"}},
		{values: []string{"", " , "}},
		{values: []string{" GZip , identity", "BR"}, want: []string{"gzip", "br"}},
		{values: []string{"x-gzip,deflate,zstd"}, want: []string{"x-gzip", "deflate", "zstd"}},
		{values: []string{"gzip,gzip,gzip,gzip"}, err: coding.ErrUnknown},
		{values: []string{"gzip, aes128gcm"}, err: coding.ErrUnknown},
	} {
		if got, err := coding.Parse(c.values); !errors.Is(err, c.err) || !slices.Equal(got, c.want) {
			t.Errorf("%q: got %q and error %v, want %q and error %v", c.values, got, err, c.want, c.err)
		}
	}
}

func TestDecode(t *testing.T) {
	t.Parallel()
	text := []byte(strings.Repeat("I will find you. ", 1000))
	for _, format := range codingtest.Formats {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			body := codingtest.Encode(t, format, text)
			size := int64(len(text))
			header := []string{" " + strings.ToUpper(codingtest.Name(format)) + ", identity"}
			for _, c := range []struct {
				name  string
				body  []byte
				limit int64
				want  []byte
				err   error
			}{
				{"whole", body, 1 << 20, text, nil},
				{"as large as the limit", body, size, text, nil},
				{"larger than the limit", body, size - 1, text[:size-1], coding.ErrTooLarge},
				{"not encoded", []byte("I will find you, I will find you"), 1 << 20, nil, coding.ErrBroken},
				{"empty", nil, 1 << 20, nil, nil},
			} {
				got, err := coding.Decode(header, c.body, c.limit)
				// What noise decodes to before its error is no matter.
				if !errors.Is(err, c.err) || c.err != coding.ErrBroken && !bytes.Equal(got, c.want) {
					t.Errorf("%s: got %d bytes and error %v, want %d bytes and error %v",
						c.name, len(got), err, len(c.want), c.err)
				}
			}
			got, err := coding.Decode([]string{codingtest.Name(format)}, body[:len(body)-1], 1<<20)
			if !errors.Is(err, coding.ErrBroken) || !bytes.HasPrefix(text, got) {
				t.Errorf("cut off: got %d bytes and error %v, want a part of the text and %v",
					len(got), err, coding.ErrBroken)
			}
		})
	}
}

func TestDecodeLayers(t *testing.T) {
	t.Parallel()
	text := []byte("I will find you")
	twice := codingtest.Encode(t, "br", codingtest.Encode(t, "gzip", text))
	thrice := codingtest.Encode(t, "zstd", twice)
	for _, c := range []struct {
		name   string
		values []string
		body   []byte
		err    error
	}{
		{"none", nil, text, nil},
		{"identity", []string{"identity"}, text, nil},
		{"empty", []string{"", " , "}, text, nil},
		{"two in one header", []string{"gzip, br"}, twice, nil},
		{"two headers", []string{"gzip", "BR"}, twice, nil},
		{"three", []string{"gzip,br", "zstd"}, thrice, nil},
		{"four", []string{"gzip,gzip,gzip,gzip"}, text, coding.ErrUnknown},
		{"an unknown one", []string{"gzip, aes128gcm"}, text, coding.ErrUnknown},
		{"the wrong order", []string{"br,gzip"}, twice, coding.ErrBroken},
	} {
		got, err := coding.Decode(c.values, c.body, 1000)
		if !errors.Is(err, c.err) || err == nil && !bytes.Equal(got, text) {
			t.Errorf("%s: got %q and error %v, want %q or error %v", c.name, got, err, text, c.err)
		}
	}
}

// TestBomb checks that the memory of decoding is bounded, also for a bomb within a bomb, and that large windows of
// zstd are refused. It measures allocations, so it does not run in parallel with others.
func TestBomb(t *testing.T) {
	const limit = 64 << 10
	zeros := bytes.Repeat([]byte("kill "), 4<<20)
	for _, name := range []string{"gzip", "deflate", "br", "zstd"} {
		bomb := codingtest.Encode(t, name, codingtest.Encode(t, name, zeros))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got, err := coding.Decode([]string{name, name}, bomb, limit)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, coding.ErrTooLarge) || len(got) != limit {
			t.Errorf("%s: got %d bytes and error %v, want %d and %v", name, len(got), err, limit, coding.ErrTooLarge)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 64<<20 {
			t.Errorf("%s: got %d MiB allocated, want 64 at most", name, used>>20)
		}
	}
	var b bytes.Buffer
	e, err := zstd.NewWriter(&b, zstd.WithWindowSize(64<<20), zstd.WithSingleSegment(false))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = e.Write(zeros)
	_ = e.Close()
	if got, err := coding.Decode([]string{"zstd"}, b.Bytes(), limit); !errors.Is(err, coding.ErrBroken) {
		t.Errorf("a large window: got %d bytes and error %v, want %v", len(got), err, coding.ErrBroken)
	}
}

// TestEmptyMembers checks that a body of many empty streams does not end early: what comes after them would arrive
// undecoded.
func TestEmptyMembers(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"gzip", "zstd"} {
		empty, last := codingtest.Encode(t, name, nil), codingtest.Encode(t, name, []byte("kill"))
		body := append(bytes.Repeat(empty, 1000), last...)
		if got, err := coding.Decode([]string{name}, body, 100); err != nil || string(got) != "kill" {
			t.Errorf("%s: got %q and error %v, want %q", name, got, err, "kill")
		}
	}
}

// TestBehindTheEnd checks that bytes behind a stream, which some decoders ignore and some return, are an error.
func TestBehindTheEnd(t *testing.T) {
	t.Parallel()
	for _, format := range codingtest.Formats {
		body := append(codingtest.Encode(t, format, []byte("hello")), "\x00I will find you, and then"...)
		got, err := coding.Decode([]string{codingtest.Name(format)}, body, 100)
		if !errors.Is(err, coding.ErrBroken) || string(got) != "hello" {
			t.Errorf("%s: got %q and error %v, want %q and %v", format, got, err, "hello", coding.ErrBroken)
		}
	}
}

// TestReaderDeliversEarly checks that what was flushed is delivered before more arrives.
func TestReaderDeliversEarly(t *testing.T) {
	t.Parallel()
	for _, format := range codingtest.Formats {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			in, out := io.Pipe()
			arrived := make(chan struct{})
			go func() {
				e := codingtest.NewWriter(t, format, out)
				for _, word := range []string{"one", "two", "three"} {
					_, _ = e.Write([]byte(word))
					_ = e.Flush()
					<-arrived
				}
				_ = e.Close()
				_ = out.Close()
			}()
			r, err := coding.NewReader([]string{codingtest.Name(format)}, in)
			if err != nil {
				t.Fatal(err)
			}
			buf := make([]byte, 100)
			for _, word := range []string{"one", "two", "three"} {
				n, err := io.ReadFull(r, buf[:len(word)])
				if err != nil || string(buf[:n]) != word {
					t.Fatalf("got %q and error %v, want %q", buf[:n], err, word)
				}
				arrived <- struct{}{}
			}
			if rest, err := io.ReadAll(r); len(rest) != 0 || err != nil {
				t.Errorf("at the end: got %q and error %v, want nothing", rest, err)
			}
			if err := r.Close(); err != nil {
				t.Errorf("closing the reader: %v", err)
			}
			if _, err := r.Read(buf); err != io.ErrClosedPipe {
				t.Errorf("reading after Close: got error %v, want %v", err, io.ErrClosedPipe)
			}
		})
	}
}

var errSource = errors.New("the source is broken")

type brokenSource struct{ io.Reader }

func (b brokenSource) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err == io.EOF {
		err = errSource
	}
	return n, err
}

func TestReaderErrors(t *testing.T) {
	t.Parallel()
	for _, format := range codingtest.Formats {
		body := codingtest.Encode(t, format, []byte("one two three"))
		for _, size := range []int{0, 1, 3, len(body) - 1} {
			r, err := coding.NewReader([]string{codingtest.Name(format)}, brokenSource{bytes.NewReader(body[:size])})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadAll(r); !errors.Is(err, errSource) {
				t.Errorf("%s, %d bytes: got error %v, want %v", format, size, err, errSource)
			}
			_ = r.Close()
		}
	}
	if _, err := coding.NewReader([]string{"lzma"}, nil); !errors.Is(err, coding.ErrUnknown) {
		t.Errorf("an unknown coding: got error %v, want %v", err, coding.ErrUnknown)
	}
}

// TestLenientReader checks that a lenient reader inflates what is behind the header of zlib whatever its flags and its
// checksum say, and that otherwise it reads as the other does.
func TestLenientReader(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("I will find you. ", 1000)
	damaged := codingtest.Encode(t, coding.Deflate, []byte(text))
	damaged[len(damaged)-1]++
	large := codingtest.Encode(t, coding.Deflate, []byte(text))
	large[0], large[1] = 0x88, 0x1c // a window of 64 KiB, which zlib does not have
	for _, c := range []struct {
		name, coding string
		body         []byte
		strict       error
	}{
		{"gzip", coding.Gzip, codingtest.Encode(t, coding.Gzip, []byte(text)), nil},
		{"zlib", coding.Deflate, codingtest.Encode(t, coding.Deflate, []byte(text)), nil},
		{"raw", coding.Deflate, codingtest.Encode(t, codingtest.RawDeflate, []byte(text)), nil},
		{"a wrong checksum", coding.Deflate, damaged, coding.ErrBroken},
		{"a window that is too large", coding.Deflate, large, coding.ErrBroken},
	} {
		r := coding.NewLenientReader(c.coding, bytes.NewReader(c.body))
		// A checksum that is not looked at stands behind the end, which is an error, but all of the text came before.
		if got, _ := io.ReadAll(r); string(got) != text {
			t.Errorf("%s: got %d bytes, want the text of %d", c.name, len(got), len(text))
		}
		_ = r.Close()
		if _, err := coding.Decode([]string{c.coding}, c.body, 1<<20); !errors.Is(err, c.strict) {
			t.Errorf("%s: decoded strictly, got error %v, want %v", c.name, err, c.strict)
		}
	}
}

// TestDecodersAreClean checks that decoders that are used again, also after errors, remember nothing.
func TestDecodersAreClean(t *testing.T) {
	t.Parallel()
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for i := range 200 {
				format := codingtest.Formats[i%len(codingtest.Formats)]
				names := []string{codingtest.Name(format)}
				text := bytes.Repeat([]byte{byte('a' + i%26)}, 1000+i)
				body := codingtest.Encode(t, format, text)
				_, _ = coding.Decode(names, body[:len(body)/2], 1<<20)
				_, _ = coding.Decode(names, body, 10)
				if got, err := coding.Decode(names, body, 1<<20); err != nil || !bytes.Equal(got, text) {
					t.Errorf("%s: got %d bytes and error %v, want %d bytes", format, len(got), err, len(text))
				}
			}
		})
	}
	group.Wait()
}

// FuzzDecode decodes anything.
func FuzzDecode(f *testing.F) {
	for _, format := range codingtest.Formats {
		f.Add(codingtest.Name(format), codingtest.Encode(f, format, []byte("one two three")))
	}
	f.Fuzz(func(t *testing.T, name string, body []byte) {
		const limit = 1 << 16
		if decoded, _ := coding.Decode([]string{name}, body, limit); len(decoded) > max(limit, len(body)) {
			t.Fatalf("got %d bytes, want %d at most", len(decoded), limit)
		}
	})
}
