// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// timeout is how long anything may take: an answer, a recovery, an alarm. CI machines are slow and busy: only what
// never happens is an error.
const timeout = 30 * time.Second

func send(
	ctx context.Context, client *http.Client, method, url, secret, contentType string, body []byte,
) (int, http.Header, []byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, nil, err
	}
	if secret != "" {
		r.Header.Set("Authorization", "Bearer "+secret)
	}
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	answer, err := client.Do(r)
	if err != nil {
		return 0, nil, nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return answer.StatusCode, answer.Header, text, err
}

// newClient returns a client with connections of its own.
func newClient(connections int) *http.Client {
	return &http.Client{
		Timeout:   timeout,
		Transport: &http.Transport{MaxIdleConnsPerHost: connections},
	}
}

// administer sends a request to the admin endpoint of a node.
func (n *node) administer(method, path, body string) (int, []byte, error) {
	kind := ""
	if body != "" {
		kind = "application/json"
	}
	status, _, answer, err := send(context.Background(), n.adminClient, method, "http://"+n.admin+path, "", kind,
		[]byte(body))
	return status, answer, err
}

// metric returns the sum of the values of the metrics whose lines begin with a text.
func (n *node) metric(begin string) (sum float64, err error) {
	status, answer, err := n.administer(http.MethodGet, "/metrics", "")
	if err != nil || status != 200 {
		return 0, errors.New("the metrics are not told: " + brief(status, answer, err))
	}
	for line := range strings.Lines(string(answer)) {
		if !strings.HasPrefix(line, begin) {
			continue
		}
		fields := strings.Fields(line)
		value, err := strconv.ParseFloat(fields[len(fields)-1], 64)
		if err != nil {
			return 0, err
		}
		sum += value
	}
	return sum, nil
}

// health returns what a node says about itself: the status and the body of health/ready, and whether store_up is 1.
func (n *node) health() (status int, body string, up bool, err error) {
	status, answer, err := n.administer(http.MethodGet, "/moderation/health/ready", "")
	if err != nil {
		return 0, "", false, err
	}
	value, err := n.metric("caddy_moderation_store_up")
	return status, string(answer), value == 1, err
}

// brief returns a short text about the result of a request.
func brief(status int, answer []byte, err error) string {
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d %s", status, cut(strings.TrimSpace(string(answer)), 200))
}

func cut(text string, n int) string {
	if len(text) > n {
		return text[:n] + " ..."
	}
	return text
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
