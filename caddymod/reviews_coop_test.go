// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-moderation/caddy-moderation/review"
)

// coopOptions returns options that take decisions in, and what sends one: signed, unless headers are given.
func coopOptions(t *testing.T) (options string, decide func(key, body string, headers ...string) reply) {
	t.Helper()
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(&private.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "coop.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return `coop {
		public_key {file.` + file + `}
		approve keep
		reject remove ban
		escalate ask
	}`, func(key, body string, headers ...string) reply {
			t.Helper()
			if len(headers) == 0 {
				hash := sha256.Sum256([]byte(body))
				signature, err := rsa.SignPKCS1v15(nil, private, crypto.SHA256, hash[:])
				if err != nil {
					t.Fatal(err)
				}
				headers = []string{"Coop-Signature", base64.StdEncoding.EncodeToString(signature)}
			}
			headers = append(headers, "Content-Type", "application/json")
			return call(t, http.MethodPost, base+"/v1/reviews/coop", key, strings.NewReader(body), headers...)
		}
}

// TestCoopDecides guards against decisions that nobody signed, that are made twice, or that reach another account.
func TestCoopDecides(t *testing.T) {
	options, decide := coopOptions(t)
	load(t, withReviewer(reviewConfig(t, t.TempDir(), options+"\ntwice 0", newBackend(t))))
	postComment(t, doubtful, "carol")
	item := listReviews(t, "").Items[0]
	byRequest := `{"item":{"id":"` + item.RequestID + `"},"action":{"id":"remove"},"actorEmail":"ann@example.com",` +
		`"decisionReason":"insult","actorNote":"again"}`
	for name, test := range map[string]struct {
		key, body string
		headers   []string
		status    int
		code      string
	}{
		"no signature":       {reviewerKey, byRequest, []string{"X-Any", "1"}, 403, "invalid_signature"},
		"a wrong signature":  {reviewerKey, byRequest, []string{"Coop-Signature", "AAAA"}, 403, "invalid_signature"},
		"no scope":           {acmeKey, byRequest, nil, 403, "missing_scope"},
		"another account":    {strangerKey, byRequest, nil, 404, "not_found"},
		"an unknown item":    {reviewerKey, strings.Replace(byRequest, item.RequestID, "mod_none", 1), nil, 404, "not_found"},
		"an unknown action":  {reviewerKey, strings.Replace(byRequest, "remove", "dance", 1), nil, 400, "invalid_request"},
		"what is no action":  {reviewerKey, `{"appealId":"1"}`, nil, 400, "invalid_request"},
		"what is no object":  {reviewerKey, `[]`, nil, 400, "invalid_request"},
		"no key of anything": {"", byRequest, nil, 401, "missing_key"},
	} {
		got := decide(test.key, test.body, test.headers...)
		if got.status != test.status || !strings.Contains(string(got.body), `"`+test.code+`"`) {
			t.Errorf("%s: got %d %s, want %d %s", name, got.status, got.body, test.status, test.code)
		}
	}
	status := func(want review.Status, decisions int) {
		t.Helper()
		page := listReviews(t, "?request_id="+item.RequestID)
		if len(page.Items) != 1 || page.Items[0].Status != want || len(page.Items[0].Decisions) != decisions {
			t.Fatalf("got %+v, want one item that is %s with %d decisions", page.Items, want, decisions)
		}
	}
	status(review.Pending, 0)
	for range 2 { // Coop sends it again when the answer was lost
		if got := decide(reviewerKey, byRequest); got.status != http.StatusOK {
			t.Fatalf("got %d %s", got.status, got.body)
		}
		status(review.Refused, 1)
	}
	made := listReviews(t, "?request_id="+item.RequestID).Items[0].Decisions[0]
	if made.Reviewer != "ann@example.com" || made.Reason != "insult" || made.Note != "again" {
		t.Errorf("got %+v", made)
	}
	// The same person decides otherwise, by the item's own id; then a rule does, which is somebody else.
	byItem := `{"item":{"id":"` + item.ID + `"},"action":{"id":"keep"}`
	if got := decide(reviewerKey, byItem+`,"actorEmail":"ann@example.com"}`); got.status != http.StatusOK {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	status(review.Approved, 3)
	if got := decide(reviewerKey, strings.Replace(byItem, "keep", "ban", 1)+`}`); got.status != http.StatusConflict {
		t.Errorf("a decision against somebody else's: got %d %s", got.status, got.body)
	}
	if page := listReviews(t, "?request_id=mod_none"); len(page.Items) != 0 {
		t.Errorf("an unknown request: got %+v", page)
	}
}

// TestCoopDecidesAllOfAnAnswer guards against a batch of which one text is decided and the others go on waiting,
// although Coop was told that its decision was taken in.
func TestCoopDecidesAllOfAnAnswer(t *testing.T) {
	options, decide := coopOptions(t)
	load(t, withReviewer(reviewConfig(t, t.TempDir(), options+"\ntwice 0", newBackend(t))))
	body, err := json.Marshal(map[string]any{"input": []string{doubtful, doubtful + " Again.", doubtful + " Once more."}})
	if err != nil {
		t.Fatal(err)
	}
	answer := call(t, http.MethodPost, base+"/v1/moderations", acmeKey, bytes.NewReader(body),
		"Content-Type", "application/json")
	waiting := listReviews(t, "").Items
	if answer.status != http.StatusOK || len(waiting) != 3 {
		t.Fatalf("got %d %s and %d items, want three", answer.status, answer.body, len(waiting))
	}
	request := `{"item":{"id":"` + waiting[0].RequestID + `"},"action":{"id":"remove"}}`
	for range 2 { // Coop sends it again when the answer was lost
		if got := decide(reviewerKey, request); got.status != http.StatusOK {
			t.Fatalf("got %d %s", got.status, got.body)
		}
	}
	for _, item := range listReviews(t, "?request_id="+waiting[0].RequestID).Items {
		if item.Status != review.Refused || len(item.Decisions) != 1 {
			t.Errorf("got an item that is %s with %d decisions, want rejected once", item.Status, len(item.Decisions))
		}
	}
	if left := listReviews(t, "").Items; len(left) != 0 {
		t.Errorf("%d items go on waiting", len(left))
	}
}

// TestCoopDecidesOnceOfTwo guards against a repeated request that is taken for another decision while an item waits for
// a second reviewer.
func TestCoopDecidesOnceOfTwo(t *testing.T) {
	options, decide := coopOptions(t)
	load(t, withReviewer(reviewConfig(t, t.TempDir(), options+"\ntwice 1", newBackend(t))))
	postComment(t, doubtful, "carol")
	item := listReviews(t, "").Items[0]
	body := `{"item":{"id":"` + item.ID + `"},"action":{"id":"ACTION"},"actorEmail":"WHO"}`
	for n, step := range []struct {
		action, who string
		status      review.Status
		decisions   int
	}{
		{"remove", "ann@example.com", review.Pending, 1}, {"remove", "ann@example.com", review.Pending, 1},
		{"keep", "ann@example.com", review.Pending, 3}, {"keep", "bob@example.com", review.Approved, 4},
	} {
		got := decide(reviewerKey, strings.NewReplacer("ACTION", step.action, "WHO", step.who).Replace(body))
		if got.status != http.StatusOK {
			t.Fatalf("step %d: got %d %s", n, got.status, got.body)
		}
		after := listReviews(t, "?request_id="+item.RequestID).Items[0]
		if after.Status != step.status || len(after.Decisions) != step.decisions {
			t.Errorf("step %d: got %s with %d decisions, want %s with %d", n, after.Status, len(after.Decisions),
				step.status, step.decisions)
		}
	}
}

// TestCoopNeedsAKey guards against a configuration that takes decisions from anyone.
func TestCoopNeedsAKey(t *testing.T) {
	for options, want := range map[string]string{
		"coop {\n approve a\n}":                     "public key",
		"coop {\n public_key secret\n approve a\n}": "public key",
		"coop": "public key",
	} {
		config := adapt(t, reviewConfig(t, t.TempDir(), options, newBackend(t)))
		if err := caddy.Load(config, true); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got the error %v, want %q", options, err, want)
		}
	}
}
