// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// TestReviewOptionsAreChecked guards against a mistake that is noticed when the first text is to be kept, and against
// an error that tells a secret. Caddy checks this before it gives the running configuration up.
func TestReviewOptionsAreChecked(t *testing.T) {
	t.Setenv("REVIEW_GOOD", strings.Repeat("0f", 32))
	t.Setenv("REVIEW_BAD", "hunter2")
	t.Setenv("HOOK_GOOD", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	share := 1.5
	hook := func(url, secret, account string) ReviewOptions {
		return ReviewOptions{Webhooks: []ReviewWebhook{{URL: url, Secret: secret, Account: account}}}
	}
	for name, test := range map[string]struct {
		options ReviewOptions
		want    string // empty: no error
	}{
		"nothing":               {ReviewOptions{}, ""},
		"everything":            {ReviewOptions{Of: []string{"review", "reject"}, Sample: 1, Keep: caddy.Duration(minReviewKeep), Max: 1, Key: "{env.REVIEW_GOOD}"}, ""},
		"a webhook":             {hook("https://app.example/x", "{env.HOOK_GOOD}", "acme"), ""},
		"another word":          {ReviewOptions{Of: []string{"approve"}}, "it takes review, reject and correction"},
		"a share above 1":       {ReviewOptions{Twice: &share}, "twice is 1.5"},
		"a share below 0":       {ReviewOptions{Sample: -1}, "sample is -1"},
		"too short":             {ReviewOptions{Keep: 1}, "1 hour or more"},
		"too many":              {ReviewOptions{Max: maxReviews + 1}, "from 1 to"},
		"a key in plain":        {ReviewOptions{Key: "hunter2"}, "must be a placeholder"},
		"a key that is none":    {ReviewOptions{Key: "{env.REVIEW_BAD}"}, "32 random bytes"},
		"a missing key":         {ReviewOptions{Key: "{env.REVIEW_MISSING}"}, "{env.REVIEW_MISSING} yields nothing"},
		"no url":                {hook("", "{env.HOOK_GOOD}", ""), "has no url"},
		"no http":               {hook("ftp://hunter2.example", "{env.HOOK_GOOD}", ""), "must begin with https://"},
		"no secret":             {hook("https://app.example", "", ""), "needs a secret"},
		"a secret in plain":     {hook("https://app.example", "whsec_hunter2", ""), "must be a placeholder"},
		"a secret that is none": {hook("https://app.example", "{env.REVIEW_BAD}", ""), `"whsec_"`},
		"a missing secret":      {hook("https://app.example", "{env.HOOK_MISSING}", ""), "{env.HOOK_MISSING} yields nothing"},
		"a bad account":         {hook("https://app.example", "{env.HOOK_GOOD}", "a b"), "the account of a webhook"},
	} {
		err := test.options.check()
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%s: got the error %v, want none", name, err)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s: got the error %v, want one with %q", name, err, test.want)
		case err != nil && strings.Contains(err.Error(), "hunter2"):
			t.Errorf("%s: the error tells the secret: %v", name, err)
		}
	}
}
