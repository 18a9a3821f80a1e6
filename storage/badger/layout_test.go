// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package badger

import (
	"bytes"
	"maps"
	"reflect"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/feedback"
	"github.com/caddy-moderation/caddy-moderation/quota"
)

// TestLayoutStaysReadable compares what is written with what the first version wrote. A change here needs a new schema.
func TestLayoutStaysReadable(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 15, 12, 0, 30, 7, time.UTC)
	account, err := encodeJSON(quota.Account{ID: "a", Tier: "free", Status: quota.Active, AnchorDay: 31, Created: at,
		Updated: at})
	if err != nil {
		t.Fatal(err)
	}
	key, err := encodeJSON(quota.Key{ID: "key_a", Account: "a", Name: "<b>", Created: at, Expires: &at})
	if err != nil {
		t.Fatal(err)
	}
	replaced, err := encodeJSON(quota.Key{
		ID: "key_a", Account: "a", Created: at, Expires: &at,
		Replaced: &quota.Replacement{By: "key_b", At: at, OriginalExpires: &at},
	})
	if err != nil {
		t.Fatal(err)
	}
	var hash quota.Hash
	hash[31] = 0xff
	for name, test := range map[string]struct{ got, want string }{
		"schema":         {string(encodeSchema(schema)), "\x00\x00\x00\x01"},
		"account":        {string(account), "\x01" + `{"id":"a","tier":"free","status":"active","anchor_day":31,"created":"2026-03-15T12:00:30.000000007Z","updated":"2026-03-15T12:00:30.000000007Z"}`},
		"key":            {string(key), "\x01" + `{"id":"key_a","account":"a","name":"<b>","created":"2026-03-15T12:00:30.000000007Z","expires":"2026-03-15T12:00:30.000000007Z"}`},
		"replaced key":   {string(replaced), "\x01" + `{"id":"key_a","account":"a","created":"2026-03-15T12:00:30.000000007Z","expires":"2026-03-15T12:00:30.000000007Z","replaced":{"by":"key_b","at":"2026-03-15T12:00:30.000000007Z","original_expires":"2026-03-15T12:00:30.000000007Z"}}`},
		"account key":    {string(accountKey("a")), "a/a"},
		"hash key":       {string(hashKey(hash)), "k/\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff"},
		"key id key":     {string(keyIDKey("key_a")), "i/key_a"},
		"last used key":  {string(lastUsedKey("key_a")), "l/key_a"},
		"key of account": {string(keyOfAccount(quota.Key{ID: "key_a", Account: "a", Created: at})), "u/a\x00\x80\x00\x00\x00\x69\xb6\x9f\x5e\x00\x00\x00\x07key_a"},
		"feedback key":   {string(feedbackKey(feedback.Ref{ID: "1", Time: at})), "f/\x80\x00\x00\x00\x69\xb6\x9f\x5e\x00\x00\x00\x071"},
		"minute key":     {string(appendWindow(nil, 'm', "a", 258)), "m/a\x00\x80\x00\x00\x00\x00\x00\x01\x02"},
		"early day key":  {string(appendWindow(nil, 'd', "a", -1)), "d/a\x00\x7f\xff\xff\xff\xff\xff\xff\xff"},
		"key count key":  {string(append(appendWindow(nil, 'q', "a", 258), "key_a"...)), "q/a\x00\x80\x00\x00\x00\x00\x00\x01\x02key_a"},
		"counts":         {string(appendCounts(nil, 1, -1, 300)), "\x01\x02\x01\xd8\x04"},
		"period":         {string(appendPeriod(nil, 5, map[string]int64{"hate": 2, "a": 1})), "\x01\x0a\x01a\x02\x04hate\x04"},
	} {
		if test.got != test.want {
			t.Errorf("%s is %q, want %q", name, test.got, test.want)
		}
	}
}

// TestKeysFromBeforeReplacements reads a key as it was stored when rotations left no trace: nothing replaces it.
func TestKeysFromBeforeReplacements(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 15, 12, 0, 30, 7, time.UTC)
	var got quota.Key
	err := decodeJSON([]byte("\x01"+`{"id":"key_a","account":"a","created":"2026-03-15T12:00:30.000000007Z","expires":"2026-03-15T12:00:30.000000007Z"}`), &got)
	want := quota.Key{ID: "key_a", Account: "a", Created: at, Expires: &at}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v (%v), want %+v", got, err, want)
	}
}

func TestNumbersSortInKeys(t *testing.T) {
	t.Parallel()
	var before []byte
	for _, n := range []int64{-1 << 63, -1 << 40, -2, -1, 0, 1, 1 << 40, 1<<63 - 1} {
		b := appendSortable(nil, n)
		if bytes.Compare(before, b) >= 0 || sortable(b) != n {
			t.Errorf("%d is written as %x and read as %d", n, b, sortable(b))
		}
		before = b
	}
}

func TestWindowsBeforeTheEpoch(t *testing.T) {
	t.Parallel()
	for seconds, want := range map[int64]int64{0: 0, 59: 0, 60: 1, -1: -1, -60: -1, -61: -2} {
		if got := minuteOf(time.Unix(seconds, 0)); got != want {
			t.Errorf("second %d is in minute %d, want %d", seconds, got, want)
		}
	}
}

// FuzzDecodePeriod decodes anything without a panic, and what it can decode survives encoding and decoding.
func FuzzDecodePeriod(f *testing.F) {
	f.Add(appendPeriod(nil, 5, map[string]int64{"hate": 2, "a": 1}))
	f.Add([]byte("\x01\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Add([]byte("\x02"))
	f.Fuzz(func(t *testing.T, b []byte) {
		requests, flagged, err := decodePeriod(b)
		if err != nil {
			return
		}
		again, flaggedAgain, err := decodePeriod(appendPeriod(nil, requests, flagged))
		if err != nil || again != requests || !maps.Equal(flaggedAgain, flagged) {
			t.Fatalf("%d %v is read again as %d %v, %v", requests, flagged, again, flaggedAgain, err)
		}
	})
}

// FuzzDecodeCounts decodes anything without a panic.
func FuzzDecodeCounts(f *testing.F) {
	f.Add(appendCounts(nil, 1, -1, 300))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		var x, y int64
		if _, err := decodeCounts(b, &x, &y); err != nil {
			return
		}
		var x2, y2 int64
		if _, err := decodeCounts(appendCounts(nil, x, y), &x2, &y2); err != nil || x != x2 || y != y2 {
			t.Fatalf("%d %d is read again as %d %d, %v", x, y, x2, y2, err)
		}
	})
}
