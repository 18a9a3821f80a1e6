// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package content_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/content"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/coding"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/coding/codingtest"
)

func TestDecode(t *testing.T) {
	t.Parallel()
	text := []byte(strings.Repeat("I will find you. ", 1000))
	plain := []byte("I will find you, I will find you")
	for _, format := range codingtest.Formats {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			body := codingtest.Encode(t, format, text)
			behind := append(codingtest.Encode(t, format, []byte("hello")), "\x00I will find you, and then"...)
			for _, c := range []struct {
				name  string
				body  []byte
				limit int64
				want  string // the end of the decoded body
				err   error
			}{
				{"whole", body, 1 << 20, string(text), nil},
				{"larger than the limit", body, int64(len(text)) - 1, string(text[:len(text)-1]), coding.ErrTooLarge},
				{"not encoded", plain, 1 << 20, "\n" + string(plain), coding.ErrBroken},
				{"text behind the end", behind, 100, "hello\nI will find you, and then", coding.ErrBroken},
				{"empty", nil, 1 << 20, "", nil},
			} {
				got, err := content.Decode([]string{codingtest.Name(format)}, c.body, c.limit)
				if !errors.Is(err, c.err) || !strings.HasSuffix(string(got), c.want) || len(got) > len(c.want)+100 {
					t.Errorf("%s: got %d bytes and error %v, want the %d of %.40q and error %v",
						c.name, len(got), err, len(c.want), c.want, c.err)
				}
			}
		})
	}
	for _, values := range [][]string{nil, {"identity"}, {"lzma"}} {
		unknown := len(values) > 0 && values[0] == "lzma"
		if got, err := content.Decode(values, plain, 1); !bytes.Equal(got, plain) || (err != nil) != unknown {
			t.Errorf("%q: got %q and error %v, want the body as it is", values, got, err)
		}
	}
}

// TestHiddenFromDecoders checks that text is found that no decoder shows, and that what is stored uncompressed is not
// found twice.
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
	skipped := append([]byte("\x50\x2a\x4d\x18"+string(rune(len(hidden)))+"\x00\x00\x00"+hidden),
		codingtest.Encode(t, "zstd", []byte("a=b"))...)
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
			t.Errorf("%s: got %q and error %v, want %q", name, got, err, c.want)
		}
	}
}
