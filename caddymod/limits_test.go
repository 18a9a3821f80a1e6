// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/caddymod/problem"
	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage"
	"github.com/caddy-moderation/caddy-moderation/storage/badger"
)

// services are those of the running configuration.
func services(t testing.TB) *app.Services {
	t.Helper()
	loaded, err := caddy.ActiveContext().App("moderation")
	if err != nil {
		t.Fatal(err)
	}
	s, err := loaded.(*app.App).Services(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// inOneMinute waits until the next seconds are in the same clock minute.
func inOneMinute() {
	if second := time.Now().Second(); second >= 50 {
		time.Sleep(time.Duration(60-second)*time.Second + 10*time.Millisecond)
	}
}

// newKey makes an account with a key of its own.
func newKey(t testing.TB, account quota.Account) string {
	t.Helper()
	s := services(t)
	if _, err := s.Gate.CreateAccount(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	secret, _, err := s.Gate.CreateKey(t.Context(), quota.KeySpec{Account: account.ID})
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

// usageOf asks for the usage of a key's account.
func usageOf(t testing.TB, key string) (u struct {
	CurrentPeriod struct {
		Made       int64   `json:"requests_made"`
		Limit      int64   `json:"requests_limit"`
		Remaining  int64   `json:"requests_remaining"`
		Percentage float64 `json:"usage_percentage"`
	} `json:"current_period"`
	RateLimiting struct {
		Requests int64 `json:"requests_this_minute"`
		Limit    int64 `json:"minute_limit"`
	} `json:"rate_limiting"`
	DailyUsage []quota.DayCount `json:"daily_usage"`
}) {
	t.Helper()
	got := call(t, http.MethodGet, base+"/v1/usage", key, nil)
	if got.status != http.StatusOK {
		t.Fatalf("got %d %s, want %d", got.status, got.body, http.StatusOK)
	}
	got.decodeJSON(t, &u)
	return u
}

const tiers = `
	tier hundred 100 0
	tier minute 0 40
	tier three 3 0`

// TestLimitHoldsUnderThreads races many clients for a limit, of the month and of the minute.
func TestLimitHoldsUnderThreads(t *testing.T) {
	load(t, siteConfig(t.TempDir(), tiers, "moderation_api"))
	for _, test := range []struct {
		tier    string
		limit   int64
		refusal int
	}{{"hundred", 100, http.StatusPaymentRequired}, {"minute", 40, http.StatusTooManyRequests}} {
		t.Run(test.tier, func(t *testing.T) {
			key := newKey(t, quota.Account{ID: test.tier, Tier: test.tier})
			inOneMinute()
			var admitted, refused, other atomic.Int64
			var group sync.WaitGroup
			for range 32 {
				group.Go(func() {
					for range 8 {
						switch moderate(t, key, `{"content":"text"}`).status {
						case http.StatusOK:
							admitted.Add(1)
						case test.refusal:
							refused.Add(1)
						default:
							other.Add(1)
						}
					}
				})
			}
			group.Wait()
			if admitted.Load() != test.limit || other.Load() != 0 || refused.Load() != 32*8-test.limit {
				t.Errorf("got %d admitted, %d refused and %d others, want %d admitted and the rest refused",
					admitted.Load(), refused.Load(), other.Load(), test.limit)
			}
			usage, err := services(t).Gate.Usage(t.Context(), test.tier)
			if err != nil || usage.Counts.Period != test.limit || usage.Days[0].Requests != test.limit {
				t.Errorf("counted %+v, %v; the limit is %d", usage.Counts, err, test.limit)
			}
		})
	}
}

var rateLimit = regexp.MustCompile(`^"minute";r=(\d+);t=(\d+), "month";r=(\d+);t=(\d+)$`)

// TestFieldsTellWhatUsageTells compares header fields with the report.
func TestFieldsTellWhatUsageTells(t *testing.T) {
	load(t, siteConfig(t.TempDir(), "tier both 1000 100", "moderation_api"))
	key := newKey(t, quota.Account{ID: "both", Tier: "both"})
	inOneMinute()
	remaining := func(got reply) (minute, month int64) {
		t.Helper()
		match := rateLimit.FindStringSubmatch(got.header.Get("RateLimit"))
		if match == nil {
			t.Fatalf("RateLimit is %q", got.header.Get("RateLimit"))
		}
		minute, _ = strconv.ParseInt(match[1], 10, 64)
		month, _ = strconv.ParseInt(match[3], 10, 64)
		if got.header.Get("X-RateLimit-Remaining") != match[1] || got.header.Get("X-RateLimit-Reset") != match[2] ||
			got.header.Get("X-RateLimit-Limit") != "100" {
			t.Errorf("the fields contradict each other: %v", got.header)
		}
		return minute, month
	}
	for i, test := range []struct {
		got           reply
		minute, month int64
	}{
		{moderate(t, key, `{"content":"text"}`), 99, 999},
		{moderate(t, key, `{"content":""}`), 98, 999}, // an error keeps its minute count and gives its month count back
		{call(t, http.MethodGet, base+"/v1/moderate/text", key, nil), 97, 999},
		{moderate(t, key, `{`), 96, 999},
		{moderate(t, key, `{"content":"text"}`), 95, 998},
		{call(t, http.MethodGet, base+"/v1/usage", key, nil), 94, 997},
	} {
		if minute, month := remaining(test.got); minute != test.minute || month != test.month {
			t.Errorf("answer %d tells %d and %d, want %d and %d", i, minute, month, test.minute, test.month)
		}
	}
	u := usageOf(t, key)
	if u.CurrentPeriod.Made != 4 || u.CurrentPeriod.Remaining != 996 || u.CurrentPeriod.Percentage != 0.4 ||
		u.RateLimiting.Requests != 7 ||
		u.DailyUsage[0].Requests != 4 {
		t.Errorf("the usage: got %+v, want 4 requests of 1000", u)
	}
}

// TestRefusalCostsNothing asks until the month is used up, and then some more.
func TestRefusalCostsNothing(t *testing.T) {
	load(t, siteConfig(t.TempDir(), tiers, "moderation_api"))
	key := newKey(t, quota.Account{ID: "three", Tier: "three"})
	for i := range 6 {
		got := moderate(t, key, `{"content":"text"}`)
		if i < 3 {
			if got.status != http.StatusOK {
				t.Fatalf("got %d %s, want %d", got.status, got.body, http.StatusOK)
			}
			continue
		}
		p := problemOf(t, got)
		if got.status != http.StatusPaymentRequired || p.Code != string(problem.MonthlyQuotaExhausted) ||
			p.Type != "https://iana.org/assignments/http-problem-types#quota-exceeded" || !strings.HasPrefix(got.header.Get("RateLimit"), `"month";r=0;t=`) {
			t.Errorf("got %d %v %s, want %d with what is left of the month",
				got.status, got.header, got.body, http.StatusPaymentRequired)
		}
	}
	usage, err := services(t).Gate.Usage(t.Context(), "three")
	if err != nil || usage.Counts.Period != 3 || usage.Counts.Minute != 3 {
		t.Errorf("got the counts %+v (%v), want 3 in the period and in the minute", usage.Counts, err)
	}
}

// TestMinuteRefusalSaysWhen checks the 429.
func TestMinuteRefusalSaysWhen(t *testing.T) {
	load(t, siteConfig(t.TempDir(), "", "moderation_api"))
	inOneMinute()
	for range 3 {
		if got := moderate(t, smallKey, `{"content":"text"}`); got.status != http.StatusOK {
			t.Fatalf("got %d %s, want %d", got.status, got.body, http.StatusOK)
		}
	}
	got := moderate(t, smallKey, `{"content":"text"}`)
	p := problemOf(t, got)
	wait, err := strconv.Atoi(got.header.Get("Retry-After"))
	if got.status != http.StatusTooManyRequests || p.Code != string(problem.RateLimitExceeded) || err != nil ||
		wait < 1 || wait > 60 {
		t.Errorf("got %d %v %s, want %d with Retry-After of at most a minute",
			got.status, got.header, got.body, http.StatusTooManyRequests)
	}
	if got.header.Get("X-RateLimit-Reset") != got.header.Get("Retry-After") {
		t.Errorf("the fields contradict each other: %v", got.header)
	}
}

// TestKeysAndAccounts checks who is let in, on the next request after a change.
func TestKeysAndAccounts(t *testing.T) {
	load(t, siteConfig(t.TempDir(), "", "moderation_api"))
	gate := services(t).Gate
	key := newKey(t, quota.Account{ID: "changing", Tier: "unlimited"})
	ask := func(status int, code problem.Code) {
		t.Helper()
		got := moderate(t, key, `{"content":"text"}`)
		if got.status != status || status >= 400 && problemOf(t, got).Code != string(code) {
			t.Errorf("%d %s, want %d %s", got.status, got.body, status, code)
		}
	}
	ask(http.StatusOK, "")
	for status, want := range map[quota.Status]int{"canceled": 403, "paused": 403, "on_hold": 403, "past_due": 200, "trialing": 200, "active": 200} {
		if _, err := gate.UpdateAccount(t.Context(), "changing", quota.AccountChange{Status: &status}); err != nil {
			t.Fatal(err)
		}
		ask(want, problem.AccountInactive)
	}
	active := quota.Active
	if _, err := gate.UpdateAccount(t.Context(), "changing", quota.AccountChange{Status: &active}); err != nil {
		t.Fatal(err)
	}
	ask(http.StatusOK, "")
	for key := range gate.Keys(t.Context(), "changing") {
		if _, err := gate.RevokeKey(t.Context(), key.ID); err != nil {
			t.Fatal(err)
		}
	}
	ask(http.StatusUnauthorized, problem.InvalidKey)
}

// flaky is a store whose charges cannot be settled while broken is set.
type flaky struct {
	storage.Store
}

var broken atomic.Bool

func (f flaky) Record(charge quota.Charge, outcome quota.Outcome) quota.Settlement {
	if broken.Load() {
		return settlement(func(context.Context) error { return fmt.Errorf("%w: the disk is full", storage.ErrUnavailable) })
	}
	return f.Store.Record(charge, outcome)
}

func (f flaky) Settle(ctx context.Context, charge quota.Charge, outcome quota.Outcome) error {
	return f.Record(charge, outcome).Wait(ctx)
}

// settlement is what a test makes of a [quota.Settlement].
type settlement func(context.Context) error

func (wait settlement) Wait(ctx context.Context) error { return wait(ctx) }

// Flaky is a storage module for tests.
type Flaky struct{ Dir string }

func (*Flaky) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "moderation.storage.flaky", New: func() caddy.Module { return new(Flaky) }}
}

func (f *Flaky) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if !d.Args(&f.Dir) {
		return d.ArgErr()
	}
	return nil
}

func (f *Flaky) Identity() (string, error) { return f.Dir, nil }

func (f *Flaky) Open(context.Context, *zap.Logger) (storage.Store, error) {
	store, err := badger.Open(badger.Options{Dir: f.Dir})
	return flaky{store}, err
}

func init() { caddy.RegisterModule(new(Flaky)) }

// TestNothingIsAcknowledgedThatIsNotKept answers 503 when the charge of a finished request cannot be kept.
func TestNothingIsAcknowledgedThatIsNotKept(t *testing.T) {
	defer broken.Store(false)
	load(t, strings.Replace(siteConfig(t.TempDir(), "", "moderation_api"), "storage badger", "storage flaky", 1))
	for _, test := range []struct {
		broken bool
		status int
	}{{false, 200}, {true, 503}, {true, 503}, {false, 200}} {
		broken.Store(test.broken)
		got := moderate(t, acmeKey, `{"content":"text"}`)
		if got.status != test.status {
			t.Fatalf("got %d %s, want %d", got.status, got.body, test.status)
		}
		if test.status == 503 {
			p := problemOf(t, got)
			if p.Code != string(problem.StorageUnavailable) || got.header.Get("Retry-After") == "" ||
				strings.Contains(string(got.body), "verdict") {
				t.Errorf("got %v %s, want storage_unavailable with Retry-After and no verdict", got.header, got.body)
			}
		}
	}
}

// Interface guards
var (
	_ app.Storage           = (*Flaky)(nil)
	_ caddyfile.Unmarshaler = (*Flaky)(nil)
)
