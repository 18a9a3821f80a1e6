// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package base62

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestAppend(t *testing.T) {
	t.Parallel()
	counting := make([]byte, 256)
	for i := range counting {
		counting[i] = byte(i)
	}
	rows := []struct {
		name   string
		random []byte
		n      int
		want   string
		err    error
	}{
		{name: "nothing", want: "id_"},
		{name: "the alphabet", random: counting, n: 62, want: "id_" + alphabet},
		{name: "from the start again", random: counting, n: 64, want: "id_" + alphabet + "01"},
		{name: "bytes that are skipped", random: append(bytes.Repeat([]byte{248, 255}, 16), counting...), n: 2, want: "id_01"},
		{name: "no randomness", n: 4, want: "id_", err: io.EOF},
		{name: "too little randomness", random: counting[:40], n: 40, want: "id_" + alphabet[:32], err: io.ErrUnexpectedEOF},
	}
	for _, row := range rows {
		got, err := Append([]byte("id_"), bytes.NewReader(row.random), row.n)
		if string(got) != row.want || !errors.Is(err, row.err) {
			t.Errorf("%s: got %q and error %v, want %q and %v", row.name, got, err, row.want, row.err)
		}
	}
}

// Each character is about as likely as any other.
func TestAppendIsFair(t *testing.T) {
	t.Parallel()
	const each = 2_000
	text, err := Append(nil, rand.NewChaCha8([32]byte{1}), each*len(alphabet))
	if err != nil {
		t.Fatalf("making the text: %v", err)
	}
	for _, c := range alphabet {
		if n := strings.Count(string(text), string(c)); n < each*85/100 || n > each*115/100 {
			t.Errorf("%c comes %d times, want about %d", c, n, each)
		}
	}
}
