// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestCommentIsJSONOfTheSize(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"letters": strings.Repeat("a fine day ", 300),
		"escapes": strings.Repeat("\"<\n", 900),
		"wide":    strings.Repeat("é我😀", 900),
		"short":   "x",
	} {
		for _, size := range posts {
			body, err := comment(text, 7, size.Bytes)
			if err != nil {
				t.Fatal(err)
			}
			if len(body) != size.Bytes || !json.Valid(body) {
				t.Errorf("%s: %d bytes, want %d: %s", name, len(body), size.Bytes, body)
			}
		}
	}
	if _, err := comment("x", 7, 50); err == nil {
		t.Error("a post of 50 bytes has no place for the members")
	}
}

func TestRatioComparesNeighbours(t *testing.T) {
	t.Parallel()
	same := func(f float64) float64 { return f }
	// The machine is half as fast from the third round on.
	if got := ratio([]float64{90, 90, 45, 45, 45}, []float64{100, 100, 50, 50, 50}, same); got != 0.9 {
		t.Errorf("got %v, want 0.9", got)
	}
	if got := ratio([]float64{1}, []float64{0}, same); got != 0 {
		t.Errorf("got %v of a figure that cannot be read, want 0", got)
	}
}

func TestAlternateWarmsUpAndChangesPlaces(t *testing.T) {
	t.Parallel()
	var order strings.Builder
	results, err := alternate(3, []string{"a", "b"}, func(kind string) (int, error) {
		order.WriteString(kind)
		return order.Len(), nil
	})
	if err != nil || order.String() != "abbaabba" || !slices.Equal(results["a"], []int{4, 5, 8}) ||
		!slices.Equal(results["b"], []int{3, 6, 7}) {
		t.Errorf("ran in the order %s with the results %v (%v), want abbaabba with a 4, 5, 8 and b 3, 6, 7",
			order.String(), results, err)
	}
}

func TestStreamIsReadAndItsDelaysAreCounted(t *testing.T) {
	t.Parallel()
	var one streamed
	events := "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}\n\n" +
		"data: {\"choices\":[{\"delta\":{\"content\":\"So é\"}}]}\n\n" +
		"data: {\"choices\":[{\"delta\":{\"content\":\"t\"}}]}\n\n: comment\ndata: {\"choices\":[]}\n\ndata: [DONE]\n\n"
	if err := one.read(bufio.NewScanner(strings.NewReader(events))); err != nil {
		t.Fatal(err)
	}
	if one.Text != "So ét" || one.Releases[len(one.Releases)-1].Characters != 5 {
		t.Errorf("read %q in %v", one.Text, one.Releases)
	}
	if err := one.read(bufio.NewScanner(strings.NewReader("data: {\n"))); err == nil {
		t.Error("an event that is no JSON was read")
	}

	begin := time.Now()
	at := func(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }
	one = streamed{
		Sent:     []time.Time{at(0), at(20), at(40), at(60)},
		Releases: []released{{at(41), 6}, {at(65), 7}},
	}
	holds, lags := one.delays([]string{"Só ", "it", "!", " x"})
	ms := time.Millisecond
	if !slices.Equal(holds, []time.Duration{41 * ms, 21 * ms, ms}) || !slices.Equal(lags, []time.Duration{ms}) {
		t.Errorf("held %v, lags %v", holds, lags)
	}
}

func TestMissedNamesWhatFellShort(t *testing.T) {
	t.Parallel()
	good := guardReport{
		Proxy:  []proxyCost{{Bytes: 200, Ratio: 0.91, Aim: 0.9}},
		Upload: &uploadCost{GrowthPlain: 4 << 20, GrowthGuarded: 6 << 20},
		Idle:   &idleCost{Plain: 18_000, Guarded: 18_100},
		Stream: &streamCost{LagP99MS: 25},
		Abort: &abortOutcome{Before: state{Heap: 30 << 20, Goroutines: 30, Files: 18},
			After: state{Heap: 31 << 20, Goroutines: 32, Files: 18}},
	}
	if got := good.missed(); len(got) != 0 {
		t.Errorf("missed %q", got)
	}
	bad := guardReport{
		Proxy:  []proxyCost{{Bytes: 200, Ratio: 0.89, Aim: 0.9}},
		Upload: &uploadCost{GrowthPlain: 4 << 20, GrowthGuarded: 104 << 20},
		Idle:   &idleCost{Plain: 18_000, Guarded: 24_000},
		Stream: &streamCost{LagP99MS: 200},
		Abort: &abortOutcome{Before: state{Heap: 30 << 20, Goroutines: 30, Files: 18},
			After: state{Heap: 90 << 20, Goroutines: 400, Files: 90}},
	}
	if got := bad.missed(); len(got) != 7 {
		t.Errorf("missed %q", got)
	}
}
