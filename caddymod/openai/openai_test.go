// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package openai_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-moderation/caddy-moderation/caddymod/access"
	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/caddymod/openai"
	"github.com/caddy-moderation/caddy-moderation/engine"
	"github.com/caddy-moderation/caddy-moderation/quota"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func init() {
	caddy.RegisterModule(new(spoken))
}

// spoken is a classifier that gives the scores that a text asks for, such as "hate=0.8 violence=0.7 and more words",
// so that golden files do not change with the model. Other words make it fail in the ways that classifiers can.
type spoken struct{}

// begun counts the texts that wait for their client to leave.
var begun = make(chan struct{}, 100)

func (*spoken) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "moderation.classifiers.spoken", New: func() caddy.Module { return new(spoken) }}
}

func (*spoken) Version() string { return "spoken-1" }

func (*spoken) Classify(ctx context.Context, content string) (scores engine.Scores, err error) {
	for _, word := range strings.Fields(content) {
		switch word {
		case "fail":
			return scores, errors.New("the classifier is away")
		case "panic":
			panic("the classifier has a bug")
		case "wait":
			begun <- struct{}{}
			<-ctx.Done()
			return scores, ctx.Err()
		}
		name, value, ok := strings.Cut(word, "=")
		if !ok {
			continue
		}
		category, err := engine.ParseCategory(name)
		if err != nil {
			return scores, err
		}
		if scores.Categories[category], err = strconv.ParseFloat(value, 64); err != nil {
			return scores, err
		}
	}
	return scores, nil
}

// service is a started app with a handler behind a server.
type service struct {
	url  string
	gate *quota.Gate
	key  string // of the account "acme"
}

// provisioning lets one test at a time make an app: Caddy notes in a variable of its own that it did.
var provisioning sync.Mutex

// start starts an app with a classifier and an account "acme" that may make so many requests a month and a minute, 0
// for no limit. config is that of the handler.
func start(t testing.TB, classifier string, month, minute int64, config string) (s *service,
	handler *openai.Moderations, limiter *access.RateLimit) {
	t.Helper()
	raw := fmt.Sprintf(`{"storage":{"module":"badger","dir":%q},"classifier":{"module":%q},"tiers":{"free":{"requests_per_month":%d,"requests_per_minute":%d}},"demo":false}`,
		t.TempDir(), classifier, month, minute)
	provisioning.Lock()
	ctx, err := caddy.ProvisionContext(&caddy.Config{AppsRaw: caddy.ModuleMap{"moderation": json.RawMessage(raw)}})
	provisioning.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	owner, err := app.LoadWithStore(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := owner.Cleanup(); err != nil {
			t.Error(err)
		}
	})
	services, err := owner.Services(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := services.Gate.CreateAccount(t.Context(), quota.Account{ID: "acme"}); err != nil {
		t.Fatal(err)
	}
	key, _, err := services.Gate.CreateKey(t.Context(), quota.KeySpec{Account: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	handler, limiter = new(openai.Moderations), new(access.RateLimit)
	if err := json.Unmarshal([]byte("{"+config+"}"), handler); err != nil {
		t.Fatal(err)
	}
	for _, module := range []caddy.Provisioner{handler, limiter} {
		if err := module.Provision(ctx); err != nil {
			t.Fatal(err)
		}
	}
	return &service{gate: services.Gate, key: key}, handler, limiter
}

// serve is [start] with the classifier of this test, behind a server.
func serve(t testing.TB, month, minute int64, config string) *service {
	t.Helper()
	s, handler, limiter := start(t, "spoken", month, minute, config)
	next := caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
		_, err := io.WriteString(w, "next")
		return err
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.WithContext(context.WithValue(r.Context(), caddyhttp.VarsCtxKey, map[string]any{}))
		inner := caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
			return handler.ServeHTTP(w, r, next)
		})
		var err error
		if r.Header.Get("Behind-Limiter") != "" {
			err = limiter.ServeHTTP(w, r, inner)
		} else {
			err = inner.ServeHTTP(w, r)
		}
		if err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// reply is an answer with its body read.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// post sends a body with the key of acme; headers are pairs of names and values.
func (s *service) post(t testing.TB, body string, headers ...string) reply {
	t.Helper()
	return s.call(t, http.MethodPost, "/v1/moderations", strings.NewReader(body), append([]string{"Authorization", "Bearer " + s.key, "Content-Type", "application/json"}, headers...)...)
}

func (s *service) call(t testing.TB, method, path string, body io.Reader, headers ...string) reply {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, s.url+path, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	received, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{response.StatusCode, response.Header, received}
}

// counts are what acme has used.
func (s *service) counts(t testing.TB) quota.Usage {
	t.Helper()
	usage, err := s.gate.Usage(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	return usage
}

var randomID = regexp.MustCompile(`"modr-[0-9A-Za-z]{24}"`)

// golden compares an exchange with a file: the request's method and body, a line of dashes, and the answer.
func golden(t *testing.T, name, method, body string, got reply) {
	t.Helper()
	var text bytes.Buffer
	if len(body) > 300 {
		body = fmt.Sprintf("%s ... (%d bytes)", body[:60], len(body))
	}
	fmt.Fprintf(&text, "%s /v1/moderations\n%s\n----------\n%d\n", method, body, got.status)
	for _, field := range []string{"Allow", "Content-Type", "Retry-After", "Www-Authenticate", "X-Moderation-Model", "X-Should-Retry"} {
		if value := got.header.Get(field); value != "" {
			fmt.Fprintf(&text, "%s: %s\n", field, value)
		}
	}
	text.WriteByte('\n')
	if err := json.Indent(&text, randomID.ReplaceAll(got.body, []byte(`"modr-..."`)), "", "\t"); err != nil {
		t.Fatalf("indenting %s: %v", got.body, err)
	}
	file := filepath.Join("..", "..", "testdata", "openai", name+".txt")
	if *update {
		if err := os.WriteFile(file, text.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text.Bytes(), want) {
		t.Errorf("got:\n%s\nwant:\n%s", text.Bytes(), want)
	}
}

// TestExchanges compares whole exchanges with golden files.
func TestExchanges(t *testing.T) {
	t.Parallel()
	s := serve(t, 0, 0, `"max_inputs":3,"max_characters":30,"max_body":2000`)
	for name, body := range map[string]string{
		"string":               `{"input":"hello"}`,
		"string_flagged":       `{"input":"harassment=0.71 violence=0.65"}`,
		"strings":              `{"model":"text-moderation-stable","input":["hello","hate=0.9","self-harm=0.500001"]}`,
		"array_of_one":         `{"input":["violence=0.9 hate=0.8"],"model":"omni-moderation-2024-09-26"}`,
		"parts":                `{"input":[{"type":"text","text":"sexual=0.9"},{"text":"hate=0.1","type":"text","x":1},{"type":"text","text":""}]}`,
		"model_null":           `{"model":null,"input":"hello"}`,
		"model_empty":          `{"model":"","input":"hello"}`,
		"model_odd":            `{"model":"our \"own\" \ud83d model","input":"hello"}`,
		"unknown_members":      `{"user":{"id":[1,null]},"input":"hello","stream":false}`,
		"blank":                `{"input":"   "}`,
		"half_a_surrogate":     `{"input":"hate=0.9 \ud83d"}`,
		"error_missing":        `{"model":"omni-moderation-latest"}`,
		"error_null":           `{"input":null}`,
		"error_number":         `{"input":5}`,
		"error_object":         `{"input":{"type":"text","text":"hello"}}`,
		"error_empty_string":   `{"input":""}`,
		"error_empty_array":    `{"input":[]}`,
		"error_empty_element":  `{"input":["hello",""]}`,
		"error_null_element":   `{"input":["hello",null]}`,
		"error_tokens":         `{"input":[[1,2,3]]}`,
		"error_mixed":          `{"input":["hello",{"type":"text","text":"hello"}]}`,
		"error_mixed_parts":    `{"input":[{"type":"text","text":"hello"},"hello"]}`,
		"error_image":          `{"input":[{"type":"text","text":"hello"},{"type":"image_url","image_url":{"url":"https://example.com/secret.png"}}]}`,
		"error_part_type":      `{"input":[{"type":"secret","text":"hello"}]}`,
		"error_part_no_type":   `{"input":[{"text":"hello"}]}`,
		"error_part_no_text":   `{"input":[{"type":"text"}]}`,
		"error_part_text_type": `{"input":[{"type":"text","text":["hello"]}]}`,
		"error_parts_empty":    `{"input":[{"type":"text","text":""}]}`,
		"error_too_many":       `{"input":["1","2","3","4"]}`,
		"error_too_many_parts": `{"input":[{"type":"text","text":"1"},{"type":"text","text":"2"},{"type":"text","text":"3"},{"type":"text","text":"4"}]}`,
		"error_too_long":       `{"input":["hello","` + strings.Repeat("é", 31) + `"]}`,
		"error_parts_too_long": `{"input":[{"type":"text","text":"` + strings.Repeat("a", 15) + `"},{"type":"text","text":"` + strings.Repeat("b", 15) + `"}]}`,
		"error_model_type":     `{"model":["omni-moderation-latest"],"input":"hello"}`,
		"error_model_long":     `{"model":"` + strings.Repeat("m", 257) + `","input":"hello"}`,
		"error_body_large":     `{"input":"` + strings.Repeat("a", 2000) + `"}`,
		"error_no_body":        ``,
		"error_array":          `["hello"]`,
		"error_not_json":       `input=hello`,
		"error_cut":            `{"input":["hello"`,
		"error_trailing":       `{"input":"hello"} {}`,
		"error_twice":          `{"input":"hello","input":"hate=0.9"}`,
		"error_utf8":           "{\"input\":\"hello \xff\"}",
		"error_classifier":     `{"input":["hello","fail"]}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			golden(t, name, http.MethodPost, body, s.post(t, body))
		})
	}
	// Errors that do not come from the body.
	for name, test := range map[string]struct {
		method, body string
		headers      []string
	}{
		"error_no_key":      {http.MethodPost, `{"input":"hello"}`, nil},
		"error_wrong_key":   {http.MethodPost, `{"input":"hello"}`, []string{"Authorization", "Bearer mod_sk_00000000000000000000000000000000"}},
		"error_empty_key":   {http.MethodPost, `{"input":"hello"}`, []string{"Authorization", "Bearer "}},
		"error_method":      {http.MethodGet, ``, []string{"Authorization", "Bearer " + s.key}},
		"error_media_type":  {http.MethodPost, `input=hello`, []string{"Authorization", "Bearer " + s.key, "Content-Type", "application/x-www-form-urlencoded"}},
		"error_compression": {http.MethodPost, `{"input":"hello"}`, []string{"Authorization", "Bearer " + s.key, "Content-Encoding", "br"}},
		"no_media_type":     {http.MethodPost, `{"input":"hello"}`, []string{"Authorization", "Bearer " + s.key}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			golden(t, name, test.method, test.body, s.call(t, test.method, "/v1/moderations", strings.NewReader(test.body), test.headers...))
		})
	}
}

// TestPaths are served as clients write them, and others are left to the next handler.
func TestPaths(t *testing.T) {
	t.Parallel()
	s := serve(t, 0, 0, "")
	for path, served := range map[string]bool{
		"/v1/moderations": true, "/v1/moderations/": true, "//v1/moderations": true, "/v1//moderations": true, "/v1/moderations//": true,
		"/openai/v1/moderations": true, "/v1/%6Doderations": true, "/v1/moderations?api-version=1": true,
		"/v1/moderations/x": false, "/v2/moderations": false, "/moderations": false, "/xv1/moderations": false, "/": false,
	} {
		got := s.call(t, http.MethodPost, path, strings.NewReader(`{"input":"hello"}`), "Authorization", "Bearer "+s.key)
		if passed := string(got.body) == "next"; got.status != http.StatusOK || passed == served {
			t.Errorf("%s: got %d %s, want 200 and served %v", path, got.status, got.body, served)
		}
	}
}

// TestIDs tie the answer to its request, which logs name.
func TestIDs(t *testing.T) {
	t.Parallel()
	s := serve(t, 0, 0, "")
	got := s.post(t, `{"input":"hello"}`)
	id := regexp.MustCompile(`^mod_([0-9A-Za-z]{24})$`).FindStringSubmatch(got.header.Get("X-Request-Id"))
	if id == nil || !bytes.Contains(got.body, []byte(`"id":"modr-`+id[1]+`"`)) {
		t.Errorf("got X-Request-Id %q and body %s, want one id in both", got.header.Get("X-Request-Id"), got.body)
	}
	if !regexp.MustCompile(`^[0-9]+$`).MatchString(got.header.Get("Openai-Processing-Ms")) {
		t.Errorf("got header %v, want a number in Openai-Processing-Ms", got.header)
	}
	if other := s.post(t, `{"input":"hello"}`); other.header.Get("X-Request-Id") == got.header.Get("X-Request-Id") {
		t.Error("two requests have one id")
	}
}

// inputs is a body with n texts.
func inputs(n int, text string) string {
	return `{"input":[` + strings.Repeat(`"`+text+`",`, n-1) + `"` + text + `"]}`
}

// TestBatchCountsItsInputs looks at what is counted, at the limit and for what cannot be moderated.
func TestBatchCountsItsInputs(t *testing.T) {
	t.Parallel()
	s := serve(t, 10, 0, "")
	first := s.counts(t).MinuteReset
	for i, step := range []struct {
		name    string
		body    string
		headers []string
		status  int
		month   int64 // counted after the step
		minute  int64
	}{
		{"one text", `{"input":"hate=0.9"}`, nil, 200, 1, 1},
		{"three texts", inputs(3, "hate=0.9 violence=0.9"), nil, 200, 4, 4},
		{"parts are one input", `{"input":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`, nil, 200, 5, 5},
		{"more than is left", inputs(6, "hello"), nil, 429, 5, 5},
		{"what cannot be read", `{"input":""}`, nil, 400, 5, 6},
		{"another method", ``, nil, 400, 5, 7},
		{"what cannot be moderated", inputs(3, "fail"), nil, 503, 5, 10},
		{"more than is left, behind the rate limit", inputs(6, "hello"), []string{"Behind-Limiter", "1"}, 429, 5, 11},
		{"a failure behind the rate limit", inputs(4, "fail"), []string{"Behind-Limiter", "1"}, 503, 5, 15},
		{"two texts behind the rate limit", inputs(2, "hello"), []string{"Behind-Limiter", "1"}, 200, 7, 17},
		{"one text behind the rate limit", inputs(1, "hello"), []string{"Behind-Limiter", "1"}, 200, 8, 18},
		{"exactly what is left", inputs(2, "sexual=0.9"), nil, 200, 10, 20},
		{"nothing is left", `{"input":"hello"}`, nil, 429, 10, 20},
		{"nothing is left for what cannot be read", `{"input":""}`, nil, 429, 10, 20},
	} {
		got := s.post(t, step.body, step.headers...)
		usage := s.counts(t)
		if got.status != step.status || usage.Counts.Period != step.month || usage.Counts.Day != step.month {
			t.Errorf("step %d, %s: got %d %s and counted %+v, want %d and %d in the month",
				i, step.name, got.status, got.body, usage.Counts, step.status, step.month)
		}
		// The header fields of the answer report the same.
		if want := fmt.Sprintf(`"month";r=%d;`, 10-step.month); !strings.Contains(got.header.Get("Ratelimit"), want) {
			t.Errorf("%s: got RateLimit %q, want %q in it", step.name, got.header.Get("Ratelimit"), want)
		}
		// A refused request counts nowhere, any other in its minute, which may have turned since the first step.
		if usage.MinuteReset.Equal(first) && usage.Counts.Minute != step.minute {
			t.Errorf("%s: counted %d in the minute, want %d", step.name, usage.Counts.Minute, step.minute)
		}
	}
	// Each text counts with its own categories.
	if flagged := s.counts(t).Flagged; flagged["hate"] != 4 || flagged["violence"] != 3 || flagged["sexual"] != 2 || len(flagged) != 3 {
		t.Errorf("got flagged %v, want hate 4, violence 3 and sexual 2", flagged)
	}
}

// TestLimitsHoldUnderConcurrency sends batches that do not fit at once: as many texts are moderated as the limit
// allows, to the last.
func TestLimitsHoldUnderConcurrency(t *testing.T) {
	t.Parallel()
	const limit, size, clients = 100, 7, 40
	s := serve(t, limit, 0, "")
	var moderated, refused atomic.Int64
	var waiting sync.WaitGroup
	for range clients {
		waiting.Go(func() {
			switch got := s.post(t, inputs(size, "hate=0.9")); got.status {
			case http.StatusOK:
				moderated.Add(size)
			case http.StatusTooManyRequests:
				refused.Add(1)
			default:
				t.Errorf("got %d %s, want 200 or 429", got.status, got.body)
			}
		})
	}
	waiting.Wait()
	for range limit % size {
		if got := s.post(t, `{"input":"hello"}`); got.status == http.StatusOK {
			moderated.Add(1)
		}
	}
	usage := s.counts(t)
	if moderated.Load() != limit || usage.Counts.Period != limit || refused.Load() != clients-limit/size || usage.Flagged["hate"] != limit/size*size {
		t.Errorf("moderated %d, refused %d, counted %+v, flagged %v; want %d moderated and counted, %d refused, hate %d times",
			moderated.Load(), refused.Load(), usage.Counts, usage.Flagged, limit, clients-limit/size, limit/size*size)
	}
}

// TestRefusals are golden: what clients do next depends on them.
func TestRefusals(t *testing.T) {
	t.Parallel()
	t.Run("minute", func(t *testing.T) {
		t.Parallel()
		s := serve(t, 0, 5, "")
		golden(t, "error_minute_never", http.MethodPost, inputs(6, "hello"), s.post(t, inputs(6, "hello")))
		if counts := s.counts(t).Counts; counts.Minute != 0 || counts.Period != 0 {
			t.Errorf("a batch that is never admitted: got %+v counted, want nothing", counts)
		}
		var got reply
		for got.status != http.StatusTooManyRequests { // the minute may turn meanwhile
			got = s.post(t, inputs(3, "hello"))
			switch {
			case got.header.Get("X-Ratelimit-Limit-Requests") != "5",
				!regexp.MustCompile(`^[25]$`).MatchString(got.header.Get("X-Ratelimit-Remaining-Requests")),
				!regexp.MustCompile(`^([0-9]{1,2}s|1m0s)$`).MatchString(got.header.Get("X-Ratelimit-Reset-Requests")):
				t.Fatalf("got %d %v, want X-RateLimit fields of a limit of 5", got.status, got.header)
			}
		}
		seconds := got.header.Get("Retry-After")
		if !regexp.MustCompile(`^([1-9]|[1-5][0-9]|60)$`).MatchString(seconds) {
			t.Errorf("got Retry-After %q, want 1 to 60", seconds)
		}
		got.header.Set("Retry-After", "12")
		got.body = bytes.ReplaceAll(got.body, []byte("in "+seconds+" s"), []byte("in 12 s"))
		golden(t, "error_minute", http.MethodPost, inputs(3, "hello"), got)
	})
	t.Run("month", func(t *testing.T) {
		t.Parallel()
		s := serve(t, 5, 0, "")
		instant := regexp.MustCompile(`[0-9]{4}-[0-9]{2}-01T00:00:00Z`)
		never := s.post(t, inputs(6, "hello"))
		golden(t, "error_month_never", http.MethodPost, inputs(6, "hello"), never)
		s.post(t, inputs(3, "hello"))
		got := s.post(t, inputs(3, "hello"))
		got.body = instant.ReplaceAll(got.body, []byte("2026-12-01T00:00:00Z"))
		golden(t, "error_month", http.MethodPost, inputs(3, "hello"), got)
	})
	t.Run("both", func(t *testing.T) {
		t.Parallel()
		// A client must not wait for a month that does not help either.
		s := serve(t, 8, 5, "")
		s.post(t, inputs(3, "hello"))
		golden(t, "error_minute_never_month_left", http.MethodPost, inputs(6, "hello"), s.post(t, inputs(6, "hello")))
		golden(t, "error_both_never", http.MethodPost, inputs(9, "hello"), s.post(t, inputs(9, "hello")))
	})
	t.Run("account", func(t *testing.T) {
		t.Parallel()
		s := serve(t, 0, 0, "")
		canceled := quota.Canceled
		if _, err := s.gate.UpdateAccount(t.Context(), "acme", quota.AccountChange{Status: &canceled}); err != nil {
			t.Fatal(err)
		}
		golden(t, "error_account", http.MethodPost, `{"input":"hello"}`, s.post(t, `{"input":"hello"}`))
	})
}

// TestAccountThresholds are those that decide, for the mapped categories, too.
func TestAccountThresholds(t *testing.T) {
	t.Parallel()
	s := serve(t, 0, 0, "")
	own := quota.Overrides{Thresholds: map[string]float64{"harassment": 0.2, "violence": 0.9}}
	if _, err := s.gate.UpdateAccount(t.Context(), "acme", quota.AccountChange{Overrides: &own}); err != nil {
		t.Fatal(err)
	}
	golden(t, "account_thresholds", http.MethodPost, `{"input":"harassment=0.3 violence=0.8"}`, s.post(t, `{"input":"harassment=0.3 violence=0.8"}`))
}

// answer is what clients read.
type answer struct {
	Results []struct {
		Flagged        bool
		Categories     map[string]bool
		CategoryScores map[string]float64 `json:"category_scores"`
	}
}

// TestOrder looks for results that are given to another text, in batches that are shared out among goroutines.
func TestOrder(t *testing.T) {
	t.Parallel()
	s := serve(t, 0, 0, "")
	const n = 256
	texts := make([]string, n)
	for i := range texts {
		texts[i] = fmt.Sprintf("hate=%.4f %s", float64(i)/n, strings.Repeat("padding ", 10))
	}
	body, err := json.Marshal(map[string]any{"input": texts})
	if err != nil {
		t.Fatal(err)
	}
	got := s.post(t, string(body))
	var a answer
	if err := json.Unmarshal(got.body, &a); err != nil || len(a.Results) != n {
		t.Fatalf("%d results, %v", len(a.Results), err)
	}
	for i, result := range a.Results {
		want, _ := strconv.ParseFloat(texts[i][5:11], 64)
		if math.Abs(result.CategoryScores["hate"]-want) > 1e-6 || result.Flagged != (want > 0.7) || result.Categories["hate"] != result.Flagged {
			t.Errorf("%d: %v, want %v", i, result, want)
		}
	}
}

// TestMonotone raises one of our probabilities after another: no score and no flag may fall, and a flag never goes
// without the verdict.
func TestMonotone(t *testing.T) {
	t.Parallel()
	s := serve(t, 0, 0, "")
	var texts []string
	levels := []float64{0, 0.3, 0.55, 0.75, 0.95}
	names := []string{"hate", "harassment", "self-harm", "sexual", "violence"}
	for _, a := range names {
		for _, b := range names {
			for _, held := range levels {
				for _, level := range levels {
					texts = append(texts, fmt.Sprintf("%s=%v %s=%v", a, held, b, level))
				}
			}
		}
	}
	var results answer
	for chunk := range slices.Chunk(texts, 250) {
		body, err := json.Marshal(map[string]any{"input": chunk})
		if err != nil {
			t.Fatal(err)
		}
		var a answer
		if err := json.Unmarshal(s.post(t, string(body)).body, &a); err != nil {
			t.Fatal(err)
		}
		results.Results = append(results.Results, a.Results...)
	}
	for i, result := range results.Results {
		flagged := false
		for name, on := range result.Categories {
			flagged = flagged || on
			if i%len(levels) == 0 {
				continue
			}
			before := results.Results[i-1]
			if before.Categories[name] && !on || before.CategoryScores[name] > result.CategoryScores[name] {
				t.Errorf("%s falls from %q to %q", name, texts[i-1], texts[i])
			}
		}
		if flagged != result.Flagged || len(result.Categories) != 13 || len(result.CategoryScores) != 13 {
			t.Errorf("%q: got %+v, want 13 categories, and flagged when one of them is", texts[i], result)
		}
	}
}

// TestFailuresOfAClassifier end a batch, whichever goroutine they happen in, and leave room for the next one.
func TestFailuresOfAClassifier(t *testing.T) {
	t.Parallel()
	s := serve(t, 0, 0, "")
	padding := strings.Repeat("padding ", 40)
	for _, word := range []string{"fail", "panic"} {
		for range 5 {
			got := s.post(t, inputs(20, word+" "+padding))
			if got.status != http.StatusServiceUnavailable || !bytes.Contains(got.body, []byte(`"server_error"`)) || bytes.Contains(got.body, []byte("away")) {
				t.Fatalf("%s: got %d %s, want 503 of type server_error without a cause", word, got.status, got.body)
			}
		}
	}
	if got := s.post(t, inputs(20, "hate=0.9 "+padding)); got.status != http.StatusOK {
		t.Errorf("after the failures: got %d %s, want 200", got.status, got.body)
	}
	if usage := s.counts(t); usage.Counts.Period != 20 || usage.Flagged["hate"] != 20 {
		t.Errorf("counted %+v, flagged %v; want 20 in the period and hate 20 times", usage.Counts, usage.Flagged)
	}
}

// TestClientLeaves looks for batches that go on without their client: the classifier here waits until the request ends.
func TestClientLeaves(t *testing.T) {
	t.Parallel()
	s := serve(t, 0, 0, "")
	for _, body := range []string{inputs(50, "wait"), inputs(50, "wait "+strings.Repeat("padding ", 40))} {
		ctx, cancel := context.WithCancel(t.Context())
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/moderations", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+s.key)
		go func() {
			<-begun
			cancel()
		}()
		if response, err := http.DefaultTransport.RoundTrip(request); err == nil {
			response.Body.Close()
			t.Errorf("got an answer with status %d, want none", response.StatusCode)
		}
		cancel()
	}
	// What was not answered is given back. The server may notice a moment later.
	for s.counts(t).Counts.Period != 0 && t.Context().Err() == nil {
		time.Sleep(time.Millisecond)
	}
}

// TestCORS lets pages of a configured origin read the answer, and answers their preflight requests without a key.
func TestCORS(t *testing.T) {
	t.Parallel()
	const page = "https://www.example.com"
	s := serve(t, 0, 0, `"cors_origins":["`+page+`"]`)
	got := s.call(t, http.MethodOptions, "/v1/moderations", nil, "Origin", page, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization")
	if got.status != http.StatusNoContent || got.header.Get("Access-Control-Allow-Origin") != page || got.header.Get("Access-Control-Allow-Headers") != "authorization" {
		t.Errorf("preflight: got %d %v, want 204 that allows the page and the header authorization", got.status, got.header)
	}
	if got := s.post(t, `{"input":"hello"}`, "Origin", page); got.status != http.StatusOK || got.header.Get("Access-Control-Allow-Origin") != page {
		t.Errorf("from the page: got %d %v, want 200 that allows the page", got.status, got.header)
	}
	if got := s.post(t, `{"input":"hello"}`, "Origin", "https://evil.example"); got.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("from another page: got header %v, want no Access-Control-Allow-Origin", got.header)
	}
	off := serve(t, 0, 0, "")
	if got := off.call(t, http.MethodOptions, "/v1/moderations", nil, "Origin", page, "Access-Control-Request-Method", "POST"); got.status != http.StatusUnauthorized {
		t.Errorf("preflight without CORS: got %d %v, want 401", got.status, got.header)
	}
}

// TestSecretsStayOut looks for the key and the content in errors.
func TestSecretsStayOut(t *testing.T) {
	t.Parallel()
	s := serve(t, 0, 0, `"max_characters":10`)
	for _, body := range []string{
		`{"input":"hidden content"}`, `{"input":["a",{"hidden":"content"}]}`, `{"model":{"hidden":1},"input":"a"}`, `{"input":"hidden`, `hidden`, `{"hidden":1,"hidden":2}`,
	} {
		got := s.post(t, body)
		if got.status != http.StatusBadRequest || bytes.Contains(got.body, []byte("hidden")) || bytes.Contains(got.body, []byte(s.key)) {
			t.Errorf("%s: got %d %s, want 400 without content or key", body, got.status, got.body)
		}
	}
}

// Interface guard
var _ engine.Classifier = (*spoken)(nil)
