// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package coop reads the decisions that ROOST Coop, a review console, sends to the callback of an action.
//
// Coop signs the body of each request with RSASSA-PKCS1-v1_5 and SHA-256 (RFC 8017, section 8.2), and sends the
// signature in Base64 in the header field Coop-Signature. Its documentation of actions and of its webhook signature
// verification key says what the members are.
package coop

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
)

// SignatureHeader is the header field with the signature of the body.
const SignatureHeader = "Coop-Signature"

// minKeyBits is the size of the smallest key that is taken.
const minKeyBits = 2048

// Errors of this package. None of them carries content.
var (
	// ErrKey says that a text is no public key for signatures of Coop.
	ErrKey = errors.New("the public key must be an RSA key of 2048 bits or more in PEM, as Coop shows it under " +
		"Settings, API Keys, Webhook Signature Verification Key")
	// ErrSignature says that a body is not signed with the key.
	ErrSignature = errors.New("the signature is not that of the body")
	// ErrBody says that a body is not the request of an action.
	ErrBody = errors.New("the body is not the request of an action: it needs item.id and action.id")
)

// Key checks signatures.
type Key struct{ public *rsa.PublicKey }

// ParseKey parses a public key: SubjectPublicKeyInfo (RFC 5280) in PEM or bare Base64. Line feeds may be missing, as
// they often are in variables of the environment. The error is [ErrKey].
func ParseKey(text string) (Key, error) {
	text = strings.TrimSpace(strings.ReplaceAll(text, `\n`, "\n"))
	text = strings.TrimPrefix(text, "-----BEGIN PUBLIC KEY-----")
	text = strings.TrimSuffix(text, "-----END PUBLIC KEY-----")
	der, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil {
		return Key{}, ErrKey
	}
	parsed, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		return Key{}, ErrKey
	}
	public, ok := parsed.(*rsa.PublicKey)
	if !ok || public.N.BitLen() < minKeyBits {
		return Key{}, ErrKey
	}
	return Key{public}, nil
}

// Verify checks the signature of a body, which is the value of [SignatureHeader]. The error is [ErrSignature].
func (k Key) Verify(body []byte, signature string) error {
	decoded, err := base64.StdEncoding.DecodeString(strings.TrimSpace(signature))
	if err != nil {
		return ErrSignature
	}
	hash := sha256.Sum256(body)
	if rsa.VerifyPKCS1v15(k.public, crypto.SHA256, hash[:], decoded) != nil {
		return ErrSignature
	}
	return nil
}

// Decision is what somebody has decided in Coop.
type Decision struct {
	// Item is the id that the item was given when it was sent to Coop.
	Item string
	// Action is Coop's id of the action.
	Action string
	// Reviewer is the address of who decided, empty if a rule of Coop's did.
	Reviewer string
	// Reason is why: what the reviewer said, else the names of the policies.
	Reason string
	// Note is what the reviewer has noted.
	Note string
}

// Parse reads the body of a request. Members that it does not know are skipped. The error is [ErrBody].
func Parse(body []byte) (Decision, error) {
	var sent struct {
		Item struct {
			ID string `json:"id"`
		} `json:"item"`
		Action struct {
			ID string `json:"id"`
		} `json:"action"`
		Policies []struct {
			Name string `json:"name"`
		} `json:"policies"`
		ActorEmail     string `json:"actorEmail"`
		ActorNote      string `json:"actorNote"`
		DecisionReason string `json:"decisionReason"`
	}
	if json.Unmarshal(body, &sent) != nil || sent.Item.ID == "" || sent.Action.ID == "" {
		return Decision{}, ErrBody
	}
	d := Decision{
		Item: sent.Item.ID, Action: sent.Action.ID, Reviewer: sent.ActorEmail, Reason: sent.DecisionReason,
		Note: sent.ActorNote,
	}
	if d.Reason == "" {
		var names []string
		for _, policy := range sent.Policies {
			names = append(names, policy.Name)
		}
		d.Reason = strings.Join(names, ", ")
	}
	return d, nil
}
