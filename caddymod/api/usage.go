// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"math"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/go-json-experiment/json"
	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/caddymod/access"
	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/response"
	"github.com/caddy-moderation/caddy-moderation/caddymod/metrics"
	"github.com/caddy-moderation/caddy-moderation/caddymod/problem"
	"github.com/caddy-moderation/caddy-moderation/quota"
)

func init() {
	caddy.RegisterModule(new(Usage))
}

// Usage is a handler that reports what the caller's account has used. The report includes the request that asks for it.
// Like moderation_text, it needs no other handler, and answers every path that is routed to it.
type Usage struct {
	access access.Middleware
}

// CaddyModule returns the Caddy module information.
func (*Usage) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.moderation_usage",
		New: func() caddy.Module { return new(Usage) },
	}
}

// Provision finds the app.
func (u *Usage) Provision(ctx caddy.Context) error {
	owner, err := app.LoadWithStore(ctx)
	u.access = access.Middleware{App: owner, Operation: metrics.Usage}
	return err
}

// ServeHTTP reports the usage.
func (u *Usage) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	return u.access.Serve(w, r, u.report)
}

// report handles an admitted request.
func (u *Usage) report(w http.ResponseWriter, r *http.Request, call *access.Call) error {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		return call.Problem(w, r, problem.New(problem.MethodNotAllowed, "Use GET."))
	}
	usage, err := call.Services.Gate.Usage(r.Context(), call.Who.Account.ID)
	if err != nil {
		return call.Unavailable(w, r, "reporting usage", err)
	}
	// The header fields of the answer report the same numbers as its body.
	call.SetUsage(w, &usage)
	encoded, err := json.Marshal(newUsageReport(&usage), json.Deterministic(true))
	if err != nil {
		u.access.App.Logger().Error("writing a usage report", zap.String("moderation_id", call.ID), zap.Error(err))
		return call.Problem(w, r, problem.New(problem.InternalError, "The report could not be written."))
	}
	response.SendJSON(w, r, http.StatusOK, append(encoded, '\n'))
	return nil
}

// unlimited is what remains of a quota without a limit: the largest whole number that every JSON parser keeps.
const unlimited = 1<<53 - 1

// usageReport is the body of the answer.
type usageReport struct {
	CurrentPeriod periodReport     `json:"current_period"`
	Subscription  subscription     `json:"subscription"`
	RateLimiting  minuteReport     `json:"rate_limiting"`
	DailyUsage    []quota.DayCount `json:"daily_usage"`
	TopCategories map[string]int64 `json:"top_categories"`
}

type periodReport struct {
	StartDate         string  `json:"start_date"`
	EndDate           string  `json:"end_date"`
	RequestsMade      int64   `json:"requests_made"`
	RequestsLimit     int64   `json:"requests_limit"`
	RequestsRemaining int64   `json:"requests_remaining"`
	UsagePercentage   float64 `json:"usage_percentage"`
}

type subscription struct {
	Tier              string       `json:"tier"`
	Status            quota.Status `json:"status"`
	RequestsPerMonth  int64        `json:"requests_per_month"`
	RequestsPerMinute int64        `json:"requests_per_minute"`
}

type minuteReport struct {
	RequestsThisMinute int64  `json:"requests_this_minute"`
	MinuteLimit        int64  `json:"minute_limit"`
	MinuteResetTime    string `json:"minute_reset_time"`
}

// newUsageReport puts a usage report into its wire form.
func newUsageReport(usage *quota.Usage) usageReport {
	made, limit := usage.Counts.Period, usage.Limits.RequestsPerMonth
	remaining, percentage := int64(unlimited), 0.0
	if limit > 0 {
		remaining = max(0, limit-made)
		// A limit may have been lowered below what is already used.
		percentage = min(100, math.Round(float64(made)/float64(limit)*10_000)/100)
	}
	return usageReport{
		CurrentPeriod: periodReport{
			StartDate: isoTime(usage.Period.Start), EndDate: isoTime(usage.Period.End),
			RequestsMade: made, RequestsLimit: limit, RequestsRemaining: remaining, UsagePercentage: percentage,
		},
		Subscription: subscription{
			Tier: usage.Account.Tier, Status: usage.Account.Status,
			RequestsPerMonth: limit, RequestsPerMinute: usage.Limits.RequestsPerMinute,
		},
		RateLimiting: minuteReport{
			RequestsThisMinute: usage.Counts.Minute, MinuteLimit: usage.Limits.RequestsPerMinute,
			MinuteResetTime: isoTime(usage.MinuteReset),
		},
		DailyUsage:    usage.Days,
		TopCategories: usage.Flagged,
	}
}

// isoTime formats an instant as the interface does.
func isoTime(t time.Time) string { return t.UTC().Format(timeFormat) }

// Interface guards
var (
	_ caddy.Provisioner           = (*Usage)(nil)
	_ caddyhttp.MiddlewareHandler = (*Usage)(nil)
)
