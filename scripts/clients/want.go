// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// answer is the answer that a client read.
type answer struct {
	Status int
	Proto  string // "1.1", "2"
	Header http.Header
	Body   []byte
}

// status returns an error unless the answer has the wanted status.
func (a answer) status(want int) error {
	if a.Status != want {
		return fmt.Errorf("status %d, want %d; body: %.200s", a.Status, want, a.Body)
	}
	return nil
}

// refusal returns an error unless the answer is the default refusal for programs: a problem body that names the
// category and does not repeat the text.
func (a answer) refusal() error {
	if err := a.status(http.StatusUnprocessableEntity); err != nil {
		return err
	}
	if kind := a.Header.Get("Content-Type"); kind != "application/problem+json" {
		return fmt.Errorf("the refusal is of type %q, want application/problem+json", kind)
	}
	var problem struct {
		Code       string   `json:"code"`
		Status     int      `json:"status"`
		Instance   string   `json:"instance"`
		Categories []string `json:"categories"`
	}
	if err := json.Unmarshal(a.Body, &problem); err != nil {
		return fmt.Errorf("the refusal is no JSON: %w: %.200s", err, a.Body)
	}
	if problem.Code != "content_rejected" || problem.Status != a.Status ||
		!slices.Contains(problem.Categories, "harassment") {
		return fmt.Errorf("the refusal lacks the code content_rejected, the status or the category harassment: %.400s",
			a.Body)
	}
	if strings.Contains(string(a.Body), "worthless") {
		return fmt.Errorf("the refusal repeats the text: %.400s", a.Body)
	}
	return nil
}

// unseen returns an error if the app has received a whole request at the path.
func (a *app) unseen(path string) error {
	for _, seen := range a.of(path) {
		if seen.Whole {
			return fmt.Errorf("the app received %s %s, %d bytes", seen.Method, seen.URI, seen.Length)
		}
	}
	return nil
}

// same returns an error unless the app has received exactly this body, once, at the path.
func (a *app) same(path string, body []byte) error {
	all := a.of(path)
	if len(all) != 1 {
		return fmt.Errorf("the app received %d requests, want 1", len(all))
	}
	if hash := hashOf(body); !all[0].Whole || all[0].SHA256 != hash {
		return fmt.Errorf("the app received %d bytes with SHA-256 %q, whole: %t; sent were %d bytes with %q",
			all[0].Length, all[0].SHA256, all[0].Whole, len(body), hash)
	}
	return nil
}

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
