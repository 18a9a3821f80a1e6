// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package sortid_test

import (
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/sortid"
)

// TestTime guards against an id that is taken for another one, and against one that loses its time.
func TestTime(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 24, 12, 0, 0, 123456789, time.UTC)
	id, err := sortid.New("rev_", at, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := sortid.Time("rev_", id); !ok || !got.Equal(at.Truncate(time.Millisecond)) {
		t.Errorf("the time of %s: got %s, %t; want %s", id, got, ok, at)
	}
	for _, bad := range []string{"", "rev_", id[1:], id + "0", "dec_" + id[4:], "rev_" + strings.Repeat("z", sortid.Length)} {
		if _, ok := sortid.Time("rev_", bad); ok {
			t.Errorf("%q is taken for an id", bad)
		}
	}
	if _, err := sortid.New("rev_", at, strings.NewReader("short")); err == nil {
		t.Error("too little random: got no error, want one")
	}
}
