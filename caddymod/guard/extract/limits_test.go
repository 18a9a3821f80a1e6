// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package extract_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/content"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/extract"
)

func TestCut(t *testing.T) {
	for _, test := range []struct {
		overflow extract.Overflow
		limit    int
		texts    string // separated by commas
		want     string
		coverage extract.Coverage
		refuse   error
	}{
		{extract.OverflowReject, 0, "äöü,xyz", "äöü,xyz", extract.Whole, nil},
		{extract.OverflowReject, 6, "äöü,xyz", "äöü,xyz", extract.Whole, nil},
		{extract.OverflowReject, 5, "äöü,xyz", "äöü,xyz", extract.Whole, extract.ErrTooLong},
		{extract.OverflowPass, 5, "äöü,xyz", "", extract.Skipped, nil},
		{extract.OverflowPrefix, 5, "äöü,xyz", "äöü,xy", extract.Partial, nil},
		{extract.OverflowPrefix, 2, "äöü,xyz", "äö", extract.Partial, nil},
		{extract.OverflowSuffix, 4, "äöü,xyz", "ü,xyz", extract.Partial, nil},
		{extract.OverflowBoth, 3, "äöü,xyz", "äö,z", extract.Partial, nil},
	} {
		limits := extract.Limits{MaxText: test.limit, MaxTextOverflow: test.overflow}
		var found extract.Result
		for text := range strings.SplitSeq(test.texts, ",") {
			found.Pieces = append(found.Pieces, content.Piece{Text: text})
		}
		limits.Cut(&found)
		var left []string
		for _, p := range found.Pieces {
			left = append(left, p.Text)
		}
		if got := strings.Join(left, ","); got != test.want || found.Coverage != test.coverage || !errors.Is(found.Refuse, test.refuse) {
			t.Errorf("%s %d of %s: got %q, coverage %d, %v, want %q, %d, %v",
				test.overflow, test.limit, test.texts, got, found.Coverage, found.Refuse,
				test.want, test.coverage, test.refuse)
		}
	}
}

// TestFurtherReadingsCountOnce guards against limits that a text exceeds because it is read in several ways.
func TestFurtherReadingsCountOnce(t *testing.T) {
	pieces := []content.Piece{{Text: "äöü"}, {Text: "abcdef", Reading: 1}}
	if got := extract.Length(pieces, 2); got != 3 {
		t.Errorf("the length is %d, want 3", got)
	}
}

func TestDefaults(t *testing.T) {
	var request, answer extract.Limits
	if err := errors.Join(request.SetRequestDefaults(), answer.SetAnswerDefaults()); err != nil {
		t.Fatalf("defaults: %v", err)
	}
	if want := (extract.Limits{MaxBody: 1 << 20, MaxBodyOverflow: extract.OverflowStream,
		MaxTextOverflow: extract.OverflowReject}); request != want {
		t.Errorf("the limits of a request are %+v, want %+v", request, want)
	}
	want := extract.Limits{MaxBody: 1 << 20, MaxBodyOverflow: extract.OverflowPrefix, MaxText: 100_000,
		MaxTextOverflow: extract.OverflowPrefix}
	if answer != want {
		t.Errorf("the limits of an answer are %+v, want %+v", answer, want)
	}
	for want, limits := range map[string]extract.Limits{
		"max_body and max_text must be greater than 0": {MaxBody: -1},
		`past max_body there is no "stream"`:           {MaxBodyOverflow: extract.OverflowStream},
		`past max_text there is no "stream"`:           {MaxTextOverflow: extract.OverflowStream},
	} {
		if err := limits.SetAnswerDefaults(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got the error %v, want one with %q", limits, err, want)
		}
	}
}

func TestRefuseReason(t *testing.T) {
	for want, err := range map[string]error{
		extract.ReasonTooLarge:   &http.MaxBytesError{},
		extract.ReasonTooLong:    extract.ErrTooLong,
		extract.ReasonTimeout:    extract.ErrTimeout,
		extract.ReasonAmbiguous:  extract.ErrAmbiguous,
		extract.ReasonIncomplete: extract.ErrIncomplete,
	} {
		if got := extract.RefuseReason(err); got != want {
			t.Errorf("the reason of %v is %q, want %q", err, got, want)
		}
	}
}
