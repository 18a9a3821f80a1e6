// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-moderation/caddy-moderation/review"
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
		"former keys alone":     {ReviewOptions{FormerKeys: []string{"{env.REVIEW_GOOD}"}}, "but no key"},
		"a former one in plain": {ReviewOptions{Key: "{env.REVIEW_GOOD}", FormerKeys: []string{"hunter2"}}, "must be a placeholder"},
		"a former one of none":  {ReviewOptions{Key: "{env.REVIEW_GOOD}", FormerKeys: []string{"{env.REVIEW_BAD}"}}, "32 random bytes"},
		"one key twice":         {ReviewOptions{Key: "{env.REVIEW_GOOD}", FormerKeys: []string{"{env.REVIEW_GOOD}"}}, "key 2 is the same"},
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

// TestFormerKeysAreNeededNoLonger guards against a former key that is taken out too early, and against one that nobody
// ever says can go.
func TestFormerKeysAreNeededNoLonger(t *testing.T) {
	t.Setenv("REVIEW_OLD", strings.Repeat("0f", 32))
	t.Setenv("REVIEW_NEW", strings.Repeat("f0", 32))
	dir, id := t.TempDir(), ""
	with := func(keys string) *App {
		a := provisioned(t, inDir(t, dir, `,"demo":false,"review":{`+keys+`}`), io.Discard)
		a.sweeps = quickSweeps
		return a
	}
	run(t, with(`"key":"{env.REVIEW_OLD}"`), func(s *Services) {
		var err error
		id, err = s.Reviews.Queue.Add(t.Context(), review.Item{
			Origin: review.Guard, Cause: review.Reviewed, Texts: []review.Text{{Text: "a text"}},
		})
		if err != nil {
			t.Fatal(err)
		}
	})
	core, logs := observer.New(zap.InfoLevel)
	both := with(`"key":"{env.REVIEW_NEW}","former_keys":["{env.REVIEW_OLD}"]`)
	both.logger = zap.New(core)
	run(t, both, func(*Services) {
		for range 3000 {
			if logs.FilterMessageSnippet("the former keys can be taken out").Len() > 0 {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Errorf("after 30 s the log has %v", logs.All())
	})
	if n := logs.FilterMessageSnippet("were encrypted with the present key").Len(); n != 1 {
		t.Errorf("got %d lines about items that were encrypted, want 1", n)
	}
	run(t, with(`"key":"{env.REVIEW_NEW}"`), func(s *Services) {
		if item, err := s.Reviews.Queue.Item(t.Context(), id); err != nil || item.Texts[0].Text != "a text" {
			t.Errorf("with the new key alone: got %+v, %v", item, err)
		}
	})
}
