// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
)

// What depends on a length has to happen to both.
func TestSentencesAreOfOneLength(t *testing.T) {
	t.Parallel()
	if len(vile) != len(fine) {
		t.Errorf("got sentences of %d and %d bytes, want one length", len(vile), len(fine))
	}
}

// A run that cannot be repeated finds nothing that could be mended.
func TestMutationsDependOnTheSeedAlone(t *testing.T) {
	t.Parallel()
	have := []*sample{generate(7, 1, nil), generate(7, 2, nil)}
	differ := 0
	for i := range uint64(500) {
		a, b, other := generate(1, i, have), generate(1, i, have), generate(2, i, have)
		if a.class != b.class || !reflect.DeepEqual(a.vile, b.vile) || !reflect.DeepEqual(a.fine, b.fine) {
			t.Fatalf("mutation %d: got %s, and %s the second time", i, a.class, b.class)
		}
		if !reflect.DeepEqual(a.vile, other.vile) {
			differ++
		}
	}
	if differ < 490 {
		t.Errorf("got %d of 500 mutations that differ from those of another seed, want 490 at least", differ)
	}
}

// A change that does nothing is a class that nobody looks at.
func TestEveryChangeChangesSomething(t *testing.T) {
	t.Parallel()
	did := map[*mutation]bool{}
	for _, s := range singleMutations(1) {
		r := *s.generated
		first := r.steps[0].change
		r.steps = nil
		if without := r.sample(""); len(s.generated.steps) == 1 && !reflect.DeepEqual(without.vile, s.vile) {
			did[first] = true
		}
	}
	for _, c := range mutations {
		if !did[c] {
			t.Errorf("the change %q changed nothing", c.name)
		}
	}
}

func TestRequestsAreReadAsWritten(t *testing.T) {
	t.Parallel()
	for i := range uint64(500) {
		want := generate(1, i, nil).vile
		got, err := parseRequest("# why\n" + want.String())
		if err != nil {
			t.Fatal(err)
		}
		if got.method != want.method || strings.Join(got.header, "\n") != strings.Join(want.header, "\n") ||
			!bytes.Equal(got.body, want.body) {
			t.Fatalf("got\n%s\nwant\n%s", got, want)
		}
	}
}

func TestGoUnderstandsOrdinaryRequests(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"multipart", "form", "json", "text"} {
		s := (&recipe{base: base{kind: kind}, seed: 3}).sample(kind)
		for _, try := range []struct {
			q    *request
			want bool
		}{{s.vile, true}, {s.fine, false}} {
			r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(try.q.body))
			_, value, _ := strings.Cut(try.q.header[0], ": ")
			r.Header.Set("Content-Type", value)
			w := httptest.NewRecorder()
			understandByGo(w, r)
			u, err := understood(&answer{body: w.Body.Bytes()})
			if err != nil {
				t.Fatal(err)
			}
			if _, got := u.with(vile); got != try.want {
				t.Errorf("%s: got understood %t, want %t: %q", kind, got, try.want, u.Texts)
			}
		}
	}
}

// Files are not read, but only where nothing in the request makes a text of them.
func TestFilesAreThoseOfAPlainType(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]bool{
		"Content-Type: image/png":                               true,
		"content-type: application/octet-stream":                true,
		"Content-Type: image/svg+xml":                           false,
		"Content-Type: image/png; charset=utf-8":                false,
		"Content-Type: image/png, text/plain":                   false,
		"Content-Type: image/png\nContent-Type: image/png":      false,
		"Content-Type: application/json":                        false,
		"X: y":                                                  false,
		"Content-Type: multipart/form-data; boundary=image/png": false,
	} {
		r := &request{header: strings.Split(header, "\n")}
		if got := r.isFile(); got != want {
			t.Errorf("%q: got a file: %t, want %t", header, got, want)
		}
	}
}

func TestSilenceIsWhatGotBy(t *testing.T) {
	t.Parallel()
	open, closed := &guard{}, &guard{closed: true}
	for _, try := range []struct {
		v            verdict
		open, closed bool
	}{
		{verdict{code: 422}, false, false},
		{verdict{}, false, false},
		{verdict{code: 502}, false, false},
		{verdict{code: 200, status: "judged"}, true, true},
		{verdict{code: 200, status: "nothing"}, true, true},
		{verdict{code: 200}, true, true},
		{verdict{code: 200, status: "judged", review: true}, false, false},
		{verdict{code: 200, status: "error"}, false, true},
		{verdict{code: 200, status: "partial"}, false, true},
		{verdict{code: 200, status: "skipped"}, false, true},
	} {
		if got := open.passed(try.v); got != try.open {
			t.Errorf("%+v by default: got passed %t, want %t", try.v, got, try.open)
		}
		if got := closed.passed(try.v); got != try.closed {
			t.Errorf("%+v with on_error reject: got passed %t, want %t", try.v, got, try.closed)
		}
	}
}

// Control characters between the letters are what an app takes away.
func TestSentencesAreFoundAmongControlCharacters(t *testing.T) {
	t.Parallel()
	u := &understanding{Texts: []string{"a", "x\x00" + strings.ReplaceAll(vile, "i", "\x01i\u0080")}}
	if _, ok := u.with(vile); !ok {
		t.Errorf("got nothing in %q, want the vile sentence", u.Texts)
	}
	if _, ok := (&understanding{Texts: strings.SplitAfter(vile, "and")}).with(vile); ok {
		t.Error("got the sentence from two texts, want nothing")
	}
}
