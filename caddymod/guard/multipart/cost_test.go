// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package multipart_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/multipart"
)

// shape is a body that is made to be slow, of any size.
type shape struct {
	name    string
	make    func(size int) string
	decodes bool // its parts have a Content-Encoding
}

// repeated returns a body of one unit again and again, with something around it.
func repeated(name, before, unit, after string) shape {
	return shape{name: name, make: func(size int) string {
		return before + strings.Repeat(unit, max(1, (size-len(before)-len(after))/len(unit))) + after
	}}
}

// decoding marks a shape whose parts are decompressed.
func decoding(s shape) shape {
	s.decodes = true
	return s
}

// shapes are made by hand where it is known what is expensive, and at random.
func shapes(t testing.TB) []shape {
	const part, nest = "--b\r\nContent-Disposition: form-data; name=a\r\n",
		"Content-Type: multipart/mixed; boundary=c\r\n"
	var zipped bytes.Buffer
	zip := packed(t, gzip.NewWriter(&zipped), &zipped, strings.Repeat("vile", 1000))
	all := []shape{
		repeated("parts", "", part+"\r\nx\r\n", "--b--"),
		repeated("empty parts", "", "--b\r\n\r\n", "--b--"),
		repeated("parts that may be files", "", part[:len(part)-2]+"; filename=x\r\n\r\nx\r\n", "--b--"),
		repeated("parts in one part", part+nest+"\r\n", "--c\r\n\r\nx\r\n", "--c--\r\n--b--"),
		repeated("parts in many parts", "", part+nest+"\r\n--c\r\n\r\nx\r\n--c--\r\n", "--b--"),
		{name: "a part with many types, and as many parts in it", make: func(size int) string {
			types := strings.Repeat(nest, min(size/2, 16000)/len(nest))
			return part + types + "\r\n" + strings.Repeat("--c\r\n\r\nx\r\n", (size-len(types))/11) + "--c--\r\n--b--"
		}},
		{name: "parts with many types each", make: func(size int) string {
			one := part + strings.Repeat(nest, 300) + "\r\n" + strings.Repeat("--c\r\n\r\nx\r\n", 300) + "\r\n"
			return strings.Repeat(one, size/len(one)+1) + "--b--"
		}},
		repeated("headers", "", part+strings.Repeat("a:b\r\n", 3000)+"\r\nx\r\n", "--b--"),
		repeated("types", "", part+strings.Repeat("Content-Type: text/plain; charset=x\r\n", 400)+"\r\nx\r\n", "--b--"),
		repeated("dispositions", "", "--b\r\n"+strings.Repeat("Content-Disposition: form-data; name=a; filename=b\r\n", 300)+"\r\nx\r\n", "--b--"),
		repeated("filenames", "", part[:len(part)-2]+strings.Repeat("; filename=a; filename=b", 600)+"\r\n\r\nx\r\n",
			"--b--"),
		repeated("pieces of a filename", "", part[:len(part)-2]+strings.Repeat("; filename*0=a",
			1000)+"\r\n\r\nx\r\n", "--b--"),
		repeated("a long parameter", "", part[:len(part)-2]+"; x=\""+strings.Repeat("\\\"", 7000)+"\"\r\n\r\nx\r\n",
			"--b--"),
		repeated("encoded words", "", part[:len(part)-2]+"; filename=\""+strings.Repeat("=?utf-8?q?a?=",
			1000)+"\"\r\n\r\nx\r\n", "--b--"),
		repeated("folds", "", part+strings.Repeat(" a\r\n", 3000)+"\r\nx\r\n", "--b--"),
		repeated("boundaries in one line", part+"\r\n", "--b ", "\r\n--b--"),
		repeated("boundaries behind each other", part+"\r\n", "--b", "\r\n--b--"),
		repeated("boundaries in lines of what may be a file", part[:len(part)-2]+"; filename=x\r\n\r\n", "x--b\r\n",
			"--b--"),
		repeated("boundaries in a file", part[:len(part)-2]+"; filename=x\r\nContent-Type: image/png\r\n\r\n",
			"x--b\r\n", "--b--"),
		repeated("longer boundaries", part+"\r\n", "\r\n--bb", "\r\n--b--"),
		repeated("boundaries with white space", "", "--b"+strings.Repeat(" ", 1000)+"\r\n\r\nx\r\n", "--b--"),
		repeated("boundaries with too much white space", part+"\r\n", "\r\n--b"+strings.Repeat(" ", 1100), "\r\n--b--"),
		repeated("last boundaries", "", "--b--\r\n", ""),
		repeated("hyphens", part+"\r\n", "-", "\r\n--b--"),
		repeated("line feeds", part+"\r\n", "\n", "\r\n--b--"),
		repeated("line ends before the start", "", "\r\n", "--b--"),
		repeated("carriage returns", part+"\r\n", "\r", "\r\n--b--"),
		decoding(repeated("gzip", "", part+"Content-Encoding: gzip\r\n\r\n"+zip+"\r\n", "--b--")),
		decoding(repeated("deflate of nothing", "", part+"Content-Encoding: deflate\r\n\r\nx\r\n", "--b--")),
		repeated("base64", "", part+"Content-Transfer-Encoding: base64\r\n\r\ndmls\r\n", "--b--"),
		repeated("quoted-printable", "", part+"Content-Transfer-Encoding: quoted-printable\r\n\r\n=64\r\n", "--b--"),
		repeated("one long base64", part+"Content-Transfer-Encoding: base64\r\n\r\n", "dmls", "\r\n--b--"),
		repeated("a charset", "", "--b\r\nContent-Disposition: form-data; name=_charset_\r\n\r\nutf-7\r\n", "--b--"),
		repeated("lengths", "", part+"Content-Length: 1\r\n\r\nx\r\n", "--b--"),
		{name: "noise that may be a file", make: func(size int) string {
			return part[:len(part)-2] + "; filename=x\r\n\r\n" + string(noise(size)) + "\r\n--b--"
		}},
		repeated("stretches of text in noise that may be a file", part[:len(part)-2]+"; filename=x\r\n\r\n",
			strings.Repeat("x", 12)+strings.Repeat("\x00", 3), "\r\n--b--"),
		repeated("letters in noise that may be a file", part[:len(part)-2]+"; filename=x\r\n\r\n", "x\x00",
			"\r\n--b--"),
	}
	for seed := range uint64(20) {
		all = append(all, shape{name: fmt.Sprint("random ", seed), make: func(size int) string {
			random := rand.New(rand.NewPCG(seed, 10))
			few := make([]string, 1+random.IntN(6)) // again and again, which is what costs
			for i := range few {
				few[i] = pieces[random.IntN(len(pieces))]
			}
			var b strings.Builder
			b.WriteString(pieces[2])
			for b.Len() < size {
				b.WriteString(few[random.IntN(len(few))])
			}
			return b.String()
		}})
	}
	return all
}

// cost is what scanning a body took.
type cost struct {
	allocated uint64
	returned  int
	parts     int
	time      time.Duration
}

// measure scans a body in chunks, as they come from a connection.
func measure(body []byte) (c cost) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	s := multipart.NewScanner("b", 1<<20)
	take := func(parts []multipart.Part) {
		c.parts += len(parts)
		for i := range parts {
			c.returned += len(parts[i].Body) + len(parts[i].Filename)
		}
	}
	var err error
	for rest := body; len(rest) > 0 && err == nil; {
		n := min(4<<10, len(rest))
		var parts []multipart.Part
		parts, err = s.Push(rest[:n])
		take(parts)
		rest = rest[n:]
	}
	if err == nil {
		parts, _ := s.Finish()
		take(parts)
	}
	c.time = time.Since(began)
	runtime.ReadMemStats(&after)
	c.allocated = after.TotalAlloc - before.TotalAlloc
	return c
}

// TestCostIsLinear measures work by what is allocated, copied and returned, which does not depend on the machine. For
// each byte of a body it is bounded, and no larger in a large body than in a small one. (BenchmarkShapes shows what
// is slow without that.)
func TestCostIsLinear(t *testing.T) {
	for _, shape := range shapes(t) {
		t.Run(shape.name, func(t *testing.T) {
			var small float64
			for _, size := range []int{16 << 10, 64 << 10, 256 << 10, 1 << 20} {
				body := []byte(shape.make(size))
				c := measure(body)
				if c.parts > 2*len(body)/5 {
					t.Errorf("%d bytes: got %d parts, want %d at most", len(body), c.parts, 2*len(body)/5)
				}
				if c.returned > 3*len(body)+2<<20 {
					t.Errorf("%d bytes: got %d bytes returned, want %d at most", len(body), c.returned,
						3*len(body)+2<<20)
				}
				if racing && shape.decodes {
					continue // the race detector makes pools forget decoders, which are then allocated again
				}
				each := float64(c.allocated) / float64(len(body))
				if small == 0 {
					small = each
				}
				once := 2 << 20 / float64(len(body)) // a decoder, made once
				if each > 2*small+32 || each > 100+once {
					t.Errorf("%d bytes: got %.0f allocated for each, want %.0f at most", len(body), each,
						min(2*small+32, 100+once))
				}
			}
		})
	}
}

// BenchmarkShapes measures the time for each byte of bodies that are made to be slow.
func BenchmarkShapes(b *testing.B) {
	for _, shape := range shapes(b) {
		for _, size := range []int{16 << 10, 128 << 10, 1 << 20} {
			body := []byte(shape.make(size))
			b.Run(fmt.Sprint(shape.name, "/", size>>10), func(b *testing.B) {
				var took time.Duration
				n := 0
				for b.Loop() {
					took += measure(body).time
					n++
				}
				b.ReportMetric(float64(took.Nanoseconds())/float64(n)/float64(len(body)), "ns/byte")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
