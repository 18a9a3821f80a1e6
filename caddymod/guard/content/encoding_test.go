// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package content_test

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"

	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/content"
)

// flusher is what all encoders have in common.
type flusher interface {
	io.WriteCloser
	Flush() error
}

// encoder returns an encoder; "raw" is deflate without the header of zlib.
func encoder(t testing.TB, encoding string, w io.Writer) flusher {
	t.Helper()
	switch encoding {
	case "gzip", "x-gzip":
		return gzip.NewWriter(w)
	case "deflate":
		return zlib.NewWriter(w)
	case "br":
		return brotli.NewWriter(w)
	case "zstd":
		e, err := zstd.NewWriter(w)
		if err != nil {
			t.Fatal(err)
		}
		return e
	case "raw":
		e, err := flate.NewWriter(w, flate.DefaultCompression)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	t.Fatalf("no encoder for %s", encoding)
	return nil
}

func encode(t testing.TB, encoding string, body []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	e := encoder(t, encoding, &b)
	if _, err := e.Write(body); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

var encodings = []string{"gzip", "x-gzip", "deflate", "raw", "br", "zstd"}

// sent returns the name of an encoding in a header.
func sent(encoding string) string {
	if encoding == "raw" {
		return "deflate"
	}
	return encoding
}

func TestDecode(t *testing.T) {
	t.Parallel()
	text := []byte(strings.Repeat("I will find you. ", 1000))
	for _, encoding := range encodings {
		t.Run(encoding, func(t *testing.T) {
			t.Parallel()
			body := encode(t, encoding, text)
			name := []string{" " + strings.ToUpper(sent(encoding)) + ", identity"}
			if got, err := content.Decode(name, body, 1<<20); err != nil || !bytes.Equal(got, text) {
				t.Errorf("whole: %d bytes, %v", len(got), err)
			}
			if got, err := content.Decode(name, body, int64(len(text))); err != nil || !bytes.Equal(got, text) {
				t.Errorf("as large as it may be: %d bytes, %v", len(got), err)
			}
			if got, err := content.Decode(name, body, int64(len(text))-1); !errors.Is(err, content.ErrTooLarge) || !bytes.Equal(got, text[:len(text)-1]) {
				t.Errorf("too large: %d bytes, %v", len(got), err)
			}
			if got, err := content.Decode(name, body[:len(body)-1], 1<<20); !errors.Is(err, content.ErrBroken) || !bytes.HasPrefix(text, got) {
				t.Errorf("cut off: %d bytes, %v", len(got), err)
			}
			plain := "I will find you, I will find you"
			if got, err := content.Decode(name, []byte(plain), 1<<20); !errors.Is(err, content.ErrBroken) || !strings.HasSuffix(string(got), "\n"+plain) {
				t.Errorf("no such encoding: %q, %v", got, err)
			}
			if got, err := content.Decode(name, nil, 1<<20); err != nil || len(got) != 0 {
				t.Errorf("empty: %q, %v", got, err)
			}
		})
	}
}

func TestDecodeLists(t *testing.T) {
	t.Parallel()
	text := []byte("I will find you")
	twice := encode(t, "br", encode(t, "gzip", text))
	thrice := encode(t, "zstd", twice)
	for _, c := range []struct {
		hazard    string
		encodings []string
		body      []byte
		err       error
	}{
		{"none", nil, text, nil},
		{"identity", []string{"identity"}, text, nil},
		{"empty", []string{"", " , "}, text, nil},
		{"two in one header", []string{"gzip, br"}, twice, nil},
		{"two headers", []string{"gzip", "BR"}, twice, nil},
		{"three", []string{"gzip,br", "zstd"}, thrice, nil},
		{"four", []string{"gzip,gzip,gzip,gzip"}, text, content.ErrUnknownEncoding},
		{"an unknown one", []string{"gzip, aes128gcm"}, text, content.ErrUnknownEncoding},
		{"the wrong order", []string{"br,gzip"}, twice, content.ErrBroken},
	} {
		got, err := content.Decode(c.encodings, c.body, 1000)
		if !errors.Is(err, c.err) || err == nil && !bytes.Equal(got, text) {
			t.Errorf("%s: %q, %v", c.hazard, got, err)
		}
	}
}

// TestBomb sees that the memory of decoding is bounded, also when there is a bomb in a bomb, and that large windows of zstd are
// refused.
func TestBomb(t *testing.T) {
	zeros := bytes.Repeat([]byte("kill "), 4<<20)
	for _, name := range []string{"gzip", "deflate", "br", "zstd"} {
		bomb := encode(t, name, encode(t, name, zeros))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got, err := content.Decode([]string{name, name}, bomb, 64<<10)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, content.ErrTooLarge) || len(got) < 64<<10 || len(got) > 64<<10+len(bomb) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 64<<20 {
			t.Errorf("%s: %d MiB allocated", name, used>>20)
		}
	}
	var b bytes.Buffer
	e, err := zstd.NewWriter(&b, zstd.WithWindowSize(64<<20), zstd.WithSingleSegment(false))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = e.Write(zeros)
	_ = e.Close()
	if got, err := content.Decode([]string{"zstd"}, b.Bytes(), 64<<10); !errors.Is(err, content.ErrBroken) {
		t.Errorf("a large window: %d bytes, %v", len(got), err)
	}
}

// TestEmptyMembers sees that a body that is many empty streams does not end early: what comes after them would arrive
// unread.
func TestEmptyMembers(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"gzip", "zstd"} {
		body := append(bytes.Repeat(encode(t, name, nil), 1000), encode(t, name, []byte("kill"))...)
		if got, err := content.Decode([]string{name}, body, 100); err != nil || string(got) != "kill" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// TestBehindTheEnd sees that what stands behind a stream, which some decoders ignore and some return, is an error.
func TestBehindTheEnd(t *testing.T) {
	t.Parallel()
	for _, name := range encodings {
		body := append(encode(t, name, []byte("hello")), "\x00I will find you, and then"...)
		if got, err := content.Decode([]string{sent(name)}, body, 100); !errors.Is(err, content.ErrBroken) || string(got) != "hello\nI will find you, and then" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// TestHiddenFromDecoders sees that text is found that no decoder shows, and that what is stored as it is is not found twice.
func TestHiddenFromDecoders(t *testing.T) {
	t.Parallel()
	hidden := "&comment=I+will+find+you+and+then&"
	var named, stored bytes.Buffer
	w := gzip.NewWriter(&named)
	w.Comment = hidden
	_, _ = w.Write([]byte("a=b"))
	_ = w.Close()
	s, err := gzip.NewWriterLevel(&stored, gzip.NoCompression)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = s.Write([]byte(hidden))
	_ = s.Close()
	skipped := append([]byte("\x50\x2a\x4d\x18"+string(rune(len(hidden)))+"\x00\x00\x00"+hidden), encode(t, "zstd", []byte("a=b"))...)
	for name, c := range map[string]struct {
		encoding string
		body     []byte
		want     string
	}{
		"the comment of gzip":       {"gzip", named.Bytes(), "a=b\n" + hidden},
		"stored":                    {"gzip", stored.Bytes(), hidden},
		"a skippable frame of zstd": {"zstd", skipped, "a=b\n" + hidden + "("},
	} {
		if got, err := content.Decode([]string{c.encoding}, c.body, 1000); err != nil || string(got) != c.want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// TestDecodeReaderFlows sees that what was flushed is delivered before more arrives.
func TestDecodeReaderFlows(t *testing.T) {
	t.Parallel()
	for _, name := range encodings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in, out := io.Pipe()
			arrived := make(chan struct{})
			go func() {
				e := encoder(t, name, out)
				for _, word := range []string{"one", "two", "three"} {
					_, _ = e.Write([]byte(word))
					_ = e.Flush()
					<-arrived
				}
				_ = e.Close()
				_ = out.Close()
			}()
			r, err := content.DecodeReader([]string{sent(name)}, in)
			if err != nil {
				t.Fatal(err)
			}
			buf := make([]byte, 100)
			for _, word := range []string{"one", "two", "three"} {
				n, err := io.ReadFull(r, buf[:len(word)])
				if err != nil || string(buf[:n]) != word {
					t.Fatalf("got %q, %v", buf[:n], err)
				}
				arrived <- struct{}{}
			}
			if rest, err := io.ReadAll(r); len(rest) != 0 || err != nil {
				t.Errorf("at the end: %q, %v", rest, err)
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
			if _, err := r.Read(buf); err != io.ErrClosedPipe {
				t.Errorf("closed: %v", err)
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

func TestDecodeReaderErrors(t *testing.T) {
	t.Parallel()
	for _, name := range encodings {
		body := encode(t, name, []byte("one two three"))
		for _, size := range []int{0, 1, 3, len(body) - 1} {
			r, err := content.DecodeReader([]string{sent(name)}, brokenSource{bytes.NewReader(body[:size])})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadAll(r); !errors.Is(err, errSource) {
				t.Errorf("%s, %d bytes: %v", name, size, err)
			}
			_ = r.Close()
		}
	}
	if _, err := content.DecodeReader([]string{"lzma"}, nil); !errors.Is(err, content.ErrUnknownEncoding) {
		t.Error(err)
	}
}

// TestDecodersAreClean sees that decoders that are used again, also after errors, remember nothing.
func TestDecodersAreClean(t *testing.T) {
	t.Parallel()
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for i := range 200 {
				name := encodings[i%len(encodings)]
				text := bytes.Repeat([]byte{byte('a' + i%26)}, 1000+i)
				body := encode(t, name, text)
				_, _ = content.Decode([]string{sent(name)}, body[:len(body)/2], 1<<20)
				_, _ = content.Decode([]string{sent(name)}, body, 10)
				if got, err := content.Decode([]string{sent(name)}, body, 1<<20); err != nil || !bytes.Equal(got, text) {
					t.Errorf("%s: %d bytes, %v", name, len(got), err)
				}
			}
		})
	}
	group.Wait()
}
