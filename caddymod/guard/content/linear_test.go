// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package content_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/content"
)

// tokens are what hostile bodies are made of, by the parser that they are meant for.
var tokens = map[content.Kind][]string{
	content.JSON: {`{`, `}`, `[`, `]`, `"`, `'`, `:`, `,`, `\`, `\"`, `\u0061`, `/*`, `*/`, `//`, `#`, "\n", ` `, `a`,
		`a b`, `"a":`, `"[`, `"{\"a\":`, `1`, `-`,
		`null`, "\x1e", "\xff", "\x00", "é", `"role":"system"`, `"messages":[`, `"_charset_`, `&`, `=`, `%41`},
	content.Form: {`&`, `=`, `;`, `%`, `%4`, `%41`, `%00`, `%ff`, `%fe`, `%u0041`, `+`, `a`, `[`, `]`, `{`, `"`, `:`,
		`_charset_=utf-16&`, `_charset_=klingon&`,
		"\xff", "\x00", "é", `\u0061`, "\n"},
	content.Markup: {`<`, `>`, `<a `, `</a>`, `<b`, `"`, `'`, `=`, `x=`, `<!--`, `-->`, `<![CDATA[`, `]]>`, `<!`,
		`<?`, `?>`, `<script>`, `</script`, `<p>`, `a`, ` `,
		`&`, `&a;`, `&#97;`, `%p;`, `<!DOCTYPE a [`, `<!ENTITY a "`, `<!ENTITY % p "`, `">`, `]>`, "\x00", "\xff"},
	content.Text:  {`=?`, `?q?`, `?=`, `%41`, `&#`, `<x>`, `a`, ` `, "\n", `+`, `=`, `&`, `{`, `"`, "\xff", "\x00", "é", "data:", ";base64,", "QUJDx9+/8Kd7", "iVBORw0KGgo", `\u0061`},
	content.Mixed: {"\x00", "\xff", "\x89", `"`, `=`, `&`, `{`, `[`, `a`, `kill`, `I will `, "é", "\n", `\u0061`, `%41`, "\x01", `'`, `:`, `<`, `QUJD`},
}

// shape returns a generated hostile body: up to four tokens, repeated, with some that occur once.
func shape(source *rand.Rand, kind content.Kind, size int) []byte {
	list := tokens[kind]
	var before, unit, behind []byte
	for range source.IntN(4) {
		before = append(before, list[source.IntN(len(list))]...)
		behind = append(behind, list[source.IntN(len(list))]...)
	}
	for range 1 + source.IntN(4) {
		unit = append(unit, list[source.IntN(len(list))]...)
	}
	return append(append(before, bytes.Repeat(unit, size/len(unit))...), behind...)
}

// extract extracts from a body in all the ways in which a guard may be configured.
func extract(kind content.Kind, body []byte) {
	for _, s := range []content.Selection{{}, {JSON: must("/a"), Form: []string{"comment", "a"}, Roles: []string{"user"}}} {
		s.Extract(nil, content.Type{Kind: kind, Opaque: kind == content.Binary}, body)
	}
}

// fastest returns the shortest of several times for which extracting keeps a processor busy.
func fastest(kind content.Kind, body []byte, times int) time.Duration {
	runtime.LockOSThread() // worked is about one thread
	defer runtime.UnlockOSThread()
	best := time.Hour
	for range times {
		began := worked()
		extract(kind, body)
		best = min(best, worked()-began)
	}
	return best
}

// TestExtractingIsLinear checks that a body that is sixteen times as long takes about sixteen times as long, whatever
// it is made of. It counts the time that its own thread works, because tests share their machine. The margin is wide,
// and what is not linear is far outside of it.
func TestExtractingIsLinear(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	const small, large = 4 << 10, 64 << 10
	source := rand.New(rand.NewPCG(10, 1)) //nolint:gosec // the same shapes in every run
	for _, kind := range slices.Sorted(maps.Keys(tokens)) {
		for range 25 {
			seed := source.Uint64()
			make := func(size int) []byte {
				return shape(rand.New(rand.NewPCG(seed, 2)), kind, size) //nolint:gosec // as above
			}
			one := fastest(kind, make(small), 3)
			if one < 100*time.Microsecond {
				one = 100 * time.Microsecond
			}
			for try := 0; ; try++ {
				ratio := float64(fastest(kind, make(large), 1)) / float64(one)
				if ratio < 64 {
					break
				}
				if try == 3 {
					t.Errorf("kind %d, %.80q: 16 times the body took %.0f times as long, want about 16 (%v for one)", kind, make(200), ratio, one)
					break
				}
				one = max(one, fastest(kind, make(small), 1)) // the machine may have become slower
			}
		}
	}
}

// BenchmarkShapes extracts from generated hostile bodies. The cost of each byte must not depend on how many there
// are.
func BenchmarkShapes(b *testing.B) {
	for kind, name := range map[content.Kind]string{content.JSON: "json", content.Form: "form", content.Markup: "markup", content.Text: "text", content.Mixed: "mixed"} {
		for _, size := range []int{16 << 10, 128 << 10, 1 << 20} {
			b.Run(fmt.Sprintf("%s/%dKiB", name, size>>10), func(b *testing.B) {
				source := rand.New(rand.NewPCG(10, uint64(kind))) //nolint:gosec // the same shapes in every run
				var bodies [][]byte
				for range 20 {
					bodies = append(bodies, shape(source, kind, size))
				}
				b.SetBytes(int64(size))
				worst, total := time.Duration(0), time.Duration(0)
				i := 0
				for b.Loop() {
					took := fastest(kind, bodies[i%len(bodies)], 1)
					worst, total = max(worst, took), total+took
					i++
				}
				b.ReportMetric(float64(total.Nanoseconds())/float64(i)/float64(size), "ns/byte")
				b.ReportMetric(float64(worst.Nanoseconds())/float64(size), "worst-ns/byte")
			})
		}
	}
}
