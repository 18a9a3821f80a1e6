// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// A line of a script that is counted wrongly would hide a failure.
func TestLinesOfScriptsAreCounted(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	r := &report{out: &out, client: "x"}
	for _, line := range []string{"ok: a fine one", "FAIL: a vile one: got 200: want 422", "skip: HTTP/3: cannot",
		"TypeError: what", ""} {
		r.relay(line)
	}
	const want = `ok: x: a fine one
FAIL: x: a vile one: got 200: want 422
skip: x: HTTP/3: cannot
FAIL: x: printed something else: TypeError: what
FAIL: x: printed something else: 
`
	if out.String() != want {
		t.Errorf("printed\n%s\nwant\n%s", out.String(), want)
	}
	if r.passed != 1 || r.failed != 3 || r.skipped != 1 {
		t.Errorf("counted %d, %d and %d, want 1, 3 and 1", r.passed, r.failed, r.skipped)
	}
}

// What fails may hold anything that came over the wire.
func TestFailuresAreOneReadableLine(t *testing.T) {
	t.Parallel()
	if got, want := oneLine("a\n\tb\x00\xff\u202ec  d"), "a b c d"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := oneLine(strings.Repeat("é", 1000)); len(got) > 700 || !strings.HasSuffix(got, "é...") {
		t.Errorf("got %d bytes ending in %q, want at most 700 ending in %q", len(got), got[len(got)-10:], "é...")
	}
}

// A half that the app takes for the whole would hide that a refused upload reached it.
func TestAnAppThatGetsHalfABodyKnowsIt(t *testing.T) {
	t.Parallel()
	a, err := startApp()
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	for _, half := range []bool{false, true} {
		reader, writer := io.Pipe()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, fmt.Sprintf("%s/echo/%t", a.URL, half),
			reader)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			fmt.Fprint(writer, "the first half")
			if half {
				writer.CloseWithError(io.ErrClosedPipe)
				return
			}
			writer.Close()
		}()
		if response, err := http.DefaultClient.Do(request); err == nil {
			response.Body.Close()
		}
		seen, err := a.ended(t.Context(), request.URL.Path)
		if err != nil || seen.Whole == half || seen.Length != int64(len("the first half")) {
			t.Errorf("half %t: the app received %+v (%v), want %d bytes, whole: %t", half, seen, err,
				len("the first half"), !half)
		}
	}
}

func TestAllOrNamedClientsAreChosen(t *testing.T) {
	t.Parallel()
	all := clients(options{})
	if got, err := choose(all, nil); err != nil || len(got) != len(all) {
		t.Errorf("without names: got %d clients (%v), want %d", len(got), err, len(all))
	}
	if got, err := choose(all, []string{"ws", "curl"}); err != nil || len(got) != 2 || got[0].name != "ws" ||
		got[1].name != "curl" {
		t.Errorf("with names: got %v (%v), want ws and curl", got, err)
	}
	if _, err := choose(all, []string{"telnet"}); err == nil ||
		!strings.Contains(err.Error(), `no client "telnet"; there are curl,`) {
		t.Errorf("with an unknown name: got error %v, want one that lists the clients", err)
	}
}
