// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package stream_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/stream"
)

// TestPartsOfGraphQL checks that lines of JSON are moderated among the delimiters and headers of multipart/mixed,
// which stay as they are.
func TestPartsOfGraphQL(t *testing.T) {
	t.Parallel()
	var body strings.Builder
	body.WriteString("\r\n---\r\nContent-Type: application/json; charset=utf-8\r\n\r\n{\"data\":{\"text\":\"\"},\"hasNext\":true}\r\n---")
	for _, word := range []string{"I ", "will ", "kill ", "you, ", "you ", "worthless ", "piece ", "of ", "shit."} {
		fmt.Fprintf(&body, "\r\nContent-Type: application/json; charset=utf-8\r\n\r\n{\"incremental\":[{\"data\":{\"text\":%q},\"path\":[]}],\"hasNext\":true}\r\n---", word)
	}
	body.WriteString("--\r\n")
	for _, vile := range []bool{true, false} {
		var out strings.Builder
		moderate := func(text string) (bool, error) { return !vile || !strings.Contains(text, "kill you"), nil }
		flow := stream.NewLines(&out, stream.Options{Moderate: moderate, RejectOnly: moderate})
		_, err := io.WriteString(flow, body.String())
		if err == nil {
			err = flow.Close()
		}
		if errors.Is(err, stream.ErrRejected) != vile {
			t.Errorf("rejecting %v: got error %v", vile, err)
		}
		if !vile && out.String() != body.String() {
			t.Errorf("got %q, want the body unchanged", out.String())
		}
		if vile && strings.Contains(out.String(), "worthless") {
			t.Errorf("got %q, want it without what was rejected", out.String())
		}
	}
}
