// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package desk

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/audit"
	_ "github.com/caddy-moderation/caddy-moderation/caddymod"
	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/documents"
	"github.com/caddy-moderation/caddy-moderation/engine"
	"github.com/caddy-moderation/caddy-moderation/internal/freeport"
	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/statistics"
	"github.com/caddy-moderation/caddy-moderation/storage"
	"github.com/caddy-moderation/caddy-moderation/storage/storagetest"
)

// Past is a storage module with a store in memory that already has a history.
type Past struct{}

// CaddyModule returns the Caddy module information.
func (*Past) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "moderation.storage.past", New: func() caddy.Module { return new(Past) }}
}

// UnmarshalCaddyfile sets up the module from Caddyfile tokens; it has no options.
func (*Past) UnmarshalCaddyfile(*caddyfile.Dispenser) error { return nil }

// Identity names the place.
func (*Past) Identity() (string, error) { return "past:", nil }

// Open returns a store in which some accounts were busy for thirty days.
func (*Past) Open(ctx context.Context, _ *zap.Logger) (storage.Store, error) {
	store := storagetest.NewMemory()
	now := time.Now().UTC()
	clock := now.AddDate(0, 0, -40)
	gate, err := quota.New(quota.Options{Store: store, Tiers: tiers, Now: func() time.Time { return clock }})
	if err != nil {
		return nil, err
	}
	for _, a := range []quota.Account{
		{ID: "acme", Name: "Acme Corporation", Tier: "growth", Overrides: quota.Overrides{
			Thresholds: map[string]float64{"harassment": 0.6},
		}},
		{ID: "beta", Name: "Beta GmbH", Tier: "starter"},
		{ID: "blog", Name: "A blog about bread", Tier: "free", Status: quota.Paused},
		{ID: "forum", Name: "Forum der Gärtner", Tier: "business", Status: quota.Trialing},
	} {
		clock = now.AddDate(0, 0, -40-len(a.Name))
		if _, err := gate.CreateAccount(ctx, a); err != nil {
			return nil, err
		}
		secret, _, err := gate.CreateKey(ctx, quota.KeySpec{Account: a.ID, Name: "website", Environment: "production"})
		if err != nil {
			return nil, err
		}
		if a.Status == quota.Paused {
			continue
		}
		for day := 29; day >= 0; day-- {
			for i := range int64(40 + (day*37+len(a.Name)*11)%90 + (29-day)*3) {
				clock = now.AddDate(0, 0, -day).Add(-time.Duration(i) * time.Minute / 8)
				who, err := gate.Authenticate(ctx, secret)
				if err != nil {
					return nil, err
				}
				admitted, err := gate.Admit(ctx, who, 1)
				if err != nil || admitted.Refused != quota.NoWindow {
					return nil, fmt.Errorf("refused by %v, %w", admitted.Refused, err)
				}
				var flagged []string
				for category, nth := range map[string]int64{"harassment": 9, "violence": 23, "hate": 31, "sexual": 47} {
					if (i+int64(day))%nth == 0 {
						flagged = append(flagged, category)
					}
				}
				if err := gate.Settle(ctx, admitted, quota.Outcome{Flagged: flagged}); err != nil {
					return nil, err
				}
			}
		}
	}
	if err := decidePast(ctx, store, now); err != nil {
		return nil, err
	}
	return store, recordPast(ctx, store)
}

// decidePast adds what was decided for an account in the last year.
func decidePast(ctx context.Context, store documents.Store, now time.Time) error {
	decided := statistics.NewRecorder(store)
	random := rand.New(rand.NewPCG(1, 2))
	for age := range 300 {
		at := now.AddDate(0, 0, -age)
		for range 40 + (300-age)/3 + random.IntN(40) - 20*int(at.Weekday())/3 {
			probabilities := make([]float64, engine.NumCategories)
			var verdict engine.Result
			for i := range probabilities {
				probabilities[i] = math.Pow(random.Float64(), float64(12+6*i))
				verdict.Categories[i].Probability = probabilities[i]
			}
			engine.Policy{Thresholds: engine.DefaultThresholds, RejectLevels: [engine.NumCategories]float64{
				0.85, 0.85, 0.75, 0.9, 0.8,
			}}.Decide(&verdict)
			var flagged []string
			for i := range verdict.Categories {
				if verdict.Categories[i].Flagged {
					flagged = append(flagged, engine.Category(i).String())
				}
			}
			decided.Answered(at, "acme")
			decided.Text(at, "acme", string(verdict.Recommendation), flagged, probabilities)
		}
		if age%9 < 2 {
			decided.Refused(at, "acme", "rate_limit_exceeded")
		}
		if age%31 == 3 {
			decided.Refused(at, "acme", "body_too_large")
		}
	}
	return decided.Flush(ctx)
}

// tiers are those of the configuration.
var tiers = map[string]quota.Limits{
	"free": {RequestsPerMonth: 1000, RequestsPerMinute: 10}, "starter": {RequestsPerMonth: 25_000, RequestsPerMinute: 60},
	"growth":   {RequestsPerMonth: 150_000, RequestsPerMinute: 120},
	"business": {RequestsPerMonth: 500_000, RequestsPerMinute: 300},
}

var _ app.Storage = (*Past)(nil)

func init() { caddy.RegisterModule(new(Past)) }

// serve runs a server with a desk until the test ends, and returns its address. Who asks is said by a header, as
// forward_auth would say it.
func serve(t *testing.T) string {
	t.Helper()
	site := freeSite(t)
	loadDesk(t, site, "")
	return site
}

// freeSite returns the address of a server that is not there yet. The one that a test runs there ends with the test.
func freeSite(t *testing.T) string {
	t.Helper()
	t.Cleanup(func() {
		if err := caddy.Stop(); err != nil {
			t.Error(err)
		}
	})
	return "http://localhost:" + freeport.Port()
}

// loadConfig runs a Caddyfile, in the place of the one that runs.
func loadConfig(t *testing.T, config string) {
	t.Helper()
	adapted, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(config), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := caddy.Load(adapted, true); err != nil {
		t.Fatal(err)
	}
}

// loadDesk loads the configuration of a server with a desk, with more in its site.
func loadDesk(t *testing.T, site, more string) {
	t.Helper()
	loadConfig(t, `{
	admin off
	persist_config off
	log {
		output discard
	}
	moderation {
		storage past
		demo off
		account declared {
			key sha256:`+strings.Repeat("0123456789abcdef", 4)+` {
				name "in the file"
			}
		}
	}
}
`+site+` {
	moderation_desk /desk {
		operator {http.request.header.X-User} alice
		member {http.request.header.X-User} acme:carol beta:carol
		reviewer {http.request.header.X-User} erin
	}
	moderation_api
	`+more+`
}
`)
}

// browser is a tab of a headless Chromium.
type browser struct {
	t    *testing.T
	site string
	ctx  context.Context

	mu       sync.Mutex
	troubles []string // what the console and the browser complain of
}

// open starts a browser in which somebody looks at a server; the test is skipped where there is none.
func open(t *testing.T, site, user string) *browser {
	t.Helper()
	program := os.Getenv("CHROMIUM")
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "headless-shell"} {
		if found, err := exec.LookPath(name); program == "" && err == nil {
			program = found
		}
	}
	if program == "" {
		t.Skip("there is no Chromium; CHROMIUM can name one")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox,
		chromedp.Flag("lang", "en-US"), chromedp.Flag("force-color-profile", "srgb"))
	allocator, cancelAllocator := chromedp.NewExecAllocator(t.Context(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	ctx, cancelTime := context.WithTimeout(ctx, 10*time.Minute)
	b := &browser{t: t, site: site, ctx: ctx}
	t.Cleanup(func() { cancelTime(); cancel(); cancelAllocator() })
	if err := chromedp.Listen(ctx, b.listen); err != nil {
		t.Fatal(err)
	}
	send(b, network.Enable, network.EnableParams{})
	send(b, log.Enable, cdp.Empty{})
	send(b, runtime.Enable, cdp.Empty{})
	send(b, audits.Enable, cdp.Empty{})
	send(b, network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{
		Headers: network.Headers{"X-User": user, "Accept-Language": "en"},
	})
	b.size(1280, 860, false)
	return b
}

// listen notes what the browser complains of: exceptions, errors of the console, and breaches of the page's policy.
func (b *browser) listen(event any) {
	var trouble string
	switch event := event.(type) {
	case *runtime.EventExceptionThrown:
		trouble = fmt.Sprintf("an exception: %+v", event.ExceptionDetails)
	case *runtime.EventConsoleAPICalled:
		trouble = fmt.Sprintf("the console: %s %v", event.Type, event.Args)
	case *log.EventEntryAdded:
		if event.Entry.Level == log.EntryLevelError || event.Entry.Level == log.EntryLevelWarning {
			trouble = fmt.Sprintf("the log: %s %s", event.Entry.Text, event.Entry.URL)
		}
	case *audits.EventIssueAdded:
		if event.Issue.Details.ContentSecurityPolicyIssueDetails != nil {
			trouble = "the policy: " + string(event.Issue.Code)
		}
	case *network.EventRequestWillBeSent:
		if !strings.HasPrefix(event.Request.URL, b.site+"/") && !strings.HasPrefix(event.Request.URL, "data:") {
			trouble = "a request to " + event.Request.URL
		}
	}
	if trouble != "" {
		b.mu.Lock()
		b.troubles = append(b.troubles, trouble)
		b.mu.Unlock()
	}
}

// do runs actions in the browser.
func (b *browser) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// send sends a command to the browser.
func send[P, R any](b *browser, command cdp.Command[P, R], params P) {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, command, params); err != nil {
		b.t.Fatal(err)
	}
}

// get runs an action in the browser and returns its value.
func get[T any](b *browser, action chromedp.Action[T]) T {
	b.t.Helper()
	value, err := chromedp.Run(b.ctx, action)
	if err != nil {
		b.t.Fatal(err)
	}
	return value
}

// visit opens a page.
func (b *browser) visit(path string) {
	b.t.Helper()
	b.do(chromedp.Navigate(b.site+path), chromedp.WaitReady(chromedp.CSS("main")))
}

// text returns the text of an element.
func (b *browser) text(selector string) string {
	b.t.Helper()
	return strings.TrimSpace(get(b, chromedp.Text(chromedp.CSS(selector))))
}

// evaluate runs JavaScript in the page, and waits for what it promises.
func evaluate[T any](b *browser, script string) T {
	b.t.Helper()
	return get(b, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
}

// await waits until JavaScript yields true. While one page takes the place of another it fails, which is no matter.
func (b *browser) await(what, script string) {
	b.t.Helper()
	var err error
	for range 100 {
		var done bool
		if done, err = chromedp.Run(b.ctx, chromedp.Evaluate[bool](script, chromedp.EvalAwaitPromise)); done && err == nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	b.t.Fatalf("waited in vain for %s: %v", what, err)
}

// size sets the size of the window, and whether the person likes it dark.
func (b *browser) size(width, height int64, dark bool) {
	b.t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	send(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: width, Height: height, DeviceScaleFactor: 1,
	})
	send(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
}

// calm fails the test if the browser has complained.
func (b *browser) calm() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, trouble := range b.troubles {
		b.t.Error(trouble)
	}
	b.troubles = nil
}

// recordPast records what people did.
func recordPast(ctx context.Context, store documents.Store) error {
	clock := time.Now().Add(-50 * time.Hour)
	log := audit.Log{Store: store, Now: func() time.Time { return clock }}
	for _, e := range []audit.Entry{
		{Actor: "root", Via: audit.Admin, Operator: true, Action: "backup"},
		{Actor: "alice", Via: audit.Desk, Operator: true, Action: "account.create", Account: "acme",
			Details: map[string]string{"name": " -> Acme", "tier": " -> free"}},
		{Actor: "carol", Via: audit.Desk, Action: "key.create", Account: "acme", Target: "key_7Vw2bD1pXhUjYq0c",
			Details: map[string]string{"name": "site", "environment": "live"}},
		{Actor: "alice", Via: audit.Desk, Operator: true, Action: "account.update", Account: "acme",
			Details: map[string]string{"tier": "free -> pro"}},
		{Actor: "carol", Via: audit.Desk, Action: "key.revoke", Account: "acme", Target: "key_7Vw2bD1pXhUjYq0c"},
	} {
		if err := log.Append(ctx, e); err != nil {
			return err
		}
		clock = clock.Add(11 * time.Hour)
	}
	return nil
}
