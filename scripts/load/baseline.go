// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

func init() {
	caddy.RegisterModule(baseline{})
	httpcaddyfile.RegisterHandlerDirective("moderation_bench_baseline", func(httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		return baseline{}, nil
	})
	httpcaddyfile.RegisterDirectiveOrder("moderation_bench_baseline", httpcaddyfile.Before, "respond")
}

// baseline is what moderation_text is compared with: it decodes the same request and encodes the same reply with
// encoding/json and does nothing between.
type baseline struct{}

// CaddyModule returns the Caddy module information.
func (baseline) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.moderation_bench_baseline",
		New: func() caddy.Module { return new(baseline) },
	}
}

type baselineRequest struct {
	Content string   `json:"content"`
	Themes  []string `json:"themes"`
}

type baselineReply struct {
	ID          string         `json:"id"`
	Status      string         `json:"status"`
	Content     string         `json:"content"`
	Result      baselineResult `json:"result"`
	ProcessedAt string         `json:"processed_at"`
	Usage       baselineUsage  `json:"usage"`
}

type baselineResult struct {
	Flagged        bool                        `json:"flagged"`
	Categories     map[string]baselineCategory `json:"categories"`
	Confidence     float64                     `json:"confidence"`
	Recommendation string                      `json:"recommendation"`
}

type baselineCategory struct {
	Flagged     bool    `json:"flagged"`
	Probability float64 `json:"probability"`
}

type baselineUsage struct {
	Characters int `json:"characters"`
	TokensUsed int `json:"tokens_used"`
}

func (baseline) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	var request baselineRequest
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		return caddyhttp.Error(http.StatusBadRequest, err)
	}
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(baselineReply{
		ID:      "mod_00000000000000000000",
		Status:  "completed",
		Content: request.Content,
		Result: baselineResult{
			Categories: map[string]baselineCategory{
				"hate":       {Probability: 0.0123},
				"harassment": {Probability: 0.0234},
				"self-harm":  {Probability: 0.0034},
				"sexual":     {Probability: 0.0045},
				"violence":   {Probability: 0.0056},
			},
			Confidence:     0.9512,
			Recommendation: "approve",
		},
		ProcessedAt: "2026-01-02T03:04:05.678Z",
		Usage:       baselineUsage{Characters: len(request.Content), TokensUsed: len(request.Content) / 5},
	})
}

// Interface guard
var _ caddyhttp.MiddlewareHandler = baseline{}
