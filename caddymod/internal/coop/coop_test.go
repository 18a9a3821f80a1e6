// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package coop_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"strings"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/coop"
)

// pemOf returns a public key as Coop shows it.
func pemOf(t *testing.T, public any) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

// TestSignatures guards against a decision that nobody signed, and against a key that cannot be read as people paste
// it.
func TestSignatures(t *testing.T) {
	t.Parallel()
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	body := []byte(`{"item":{"id":"rev_1"},"action":{"id":"a"}}`)
	sign := func(key *rsa.PrivateKey, body []byte) string {
		hash := sha256.Sum256(body)
		signature, err := rsa.SignPKCS1v15(nil, key, crypto.SHA256, hash[:])
		if err != nil {
			t.Fatal(err)
		}
		return base64.StdEncoding.EncodeToString(signature)
	}
	text := pemOf(t, &private.PublicKey)
	for name, pasted := range map[string]string{
		"PEM": text, "one line": strings.ReplaceAll(text, "\n", ""), "escaped": strings.ReplaceAll(text, "\n", `\n`),
		"spaces": strings.ReplaceAll(text, "\n", " \n "),
		"bare":   strings.ReplaceAll(strings.Split(text, "-----")[2], "\n", ""),
	} {
		key, err := coop.ParseKey(pasted)
		if err != nil {
			t.Errorf("%s: got %v", name, err)
			continue
		}
		if err := key.Verify(body, sign(private, body)); err != nil {
			t.Errorf("%s: a right signature: got %v", name, err)
		}
		for what, signature := range map[string]string{
			"another key": sign(other, body), "another body": sign(private, append(body, ' ')), "none": "", "no Base64": "%",
		} {
			if err := key.Verify(body, signature); !errors.Is(err, coop.ErrSignature) {
				t.Errorf("%s: a signature of %s: got %v, want %v", name, what, err, coop.ErrSignature)
			}
		}
	}
	elliptical, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, pasted := range map[string]string{
		"empty": "", "text": "secret", "a private key": "-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----",
		"elliptic": pemOf(t, &elliptical.PublicKey),
	} {
		if _, err := coop.ParseKey(pasted); !errors.Is(err, coop.ErrKey) {
			t.Errorf("%s: got %v, want %v", name, err, coop.ErrKey)
		}
	}
}

// TestParse reads requests as Coop's documentation describes them.
func TestParse(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		body string
		want coop.Decision
		err  error
	}{
		"a person": {
			body: `{"item":{"id":"rev_1","typeId":"t"},"action":{"id":"remove"},"policies":[{"id":"p","name":"Spam",` +
				`"penalty":"MEDIUM"}],"rules":[],"custom":{},"actorEmail":"ann@example.com","actorNote":"twice",` +
				`"creator":{"id":"u","typeId":"user"},"decisionReason":"Violated spam policy","userStrikeCount":3}`,
			want: coop.Decision{
				Item: "rev_1", Action: "remove", Reviewer: "ann@example.com", Reason: "Violated spam policy", Note: "twice",
			},
		},
		"a rule": {
			body: `{"item":{"id":"mod_1"},"action":{"id":"keep"},"policies":[{"name":"Spam"},{"name":"Ads"}]}`,
			want: coop.Decision{Item: "mod_1", Action: "keep", Reason: "Spam, Ads"},
		},
		"an appeal": {body: `{"appealId":"1","item":{"id":"rev_1"},"appealDecision":"ACCEPT"}`, err: coop.ErrBody},
		"no item":   {body: `{"action":{"id":"remove"}}`, err: coop.ErrBody},
		"no JSON":   {body: `item=1`, err: coop.ErrBody},
	} {
		got, err := coop.Parse([]byte(test.body))
		if got != test.want || !errors.Is(err, test.err) {
			t.Errorf("%s: got %+v and %v, want %+v and %v", name, got, err, test.want, test.err)
		}
	}
}
