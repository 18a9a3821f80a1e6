// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package commentanalyzer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
	"github.com/klauspost/compress/gzip"
	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/engine"
	"github.com/caddy-moderation/caddy-moderation/feedback"
	"github.com/caddy-moderation/caddy-moderation/internal/freeport"
	"github.com/caddy-moderation/caddy-moderation/storage"
)

var update = flag.Bool("update", false, "write the golden answers anew")

// The address that the configurations of these tests listen on. Caddy shares ports with other processes, so that tests
// that run at the same time on one machine would answer each other's requests if the port were fixed.
var (
	site   = "http://localhost:" + freeport.Port()
	target = site + SuggestScorePath
)

const (
	acmeKey   = "mod_sk_acme456789abcdefghijklmnopqrstuv"
	otherKey  = "mod_sk_other56789abcdefghijklmnopqrstuv"
	largeKey  = "mod_sk_large56789abcdefghijklmnopqrstuv" // of an account without limits
	pausedKey = "mod_sk_paused6789abcdefghijklmnopqrstuv"

	// fine is a body that is kept.
	fine = `{"comment":{"text":"You are a walnut."},"attributeScores":{"TOXICITY":{"summaryScore":{"value":0.1}}}}`
)

func hashOf(key string) string {
	hash := sha256.Sum256([]byte(key))
	return "sha256:" + hex.EncodeToString(hash[:])
}

// load runs the service until the test ends; moderation are options of the app. Caddy is one per process, so tests that
// load do not run in parallel.
func load(t *testing.T, moderation string) *app.Services {
	t.Helper()
	config := `{
	admin off
	persist_config off
	log {
		output discard
	}
	moderation {
		demo off
		tier free 2 1
		tier large 0 0
		account acme {
			key ` + hashOf(acmeKey) + `
		}
		account large {
			tier large
			key ` + hashOf(largeKey) + `
		}
		account other {
			key ` + hashOf(otherKey) + `
		}
		account paused {
			status paused
			key ` + hashOf(pausedKey) + `
		}
		` + strings.ReplaceAll(moderation, "DIR", t.TempDir()) + `
	}
}
` + site + ` {
	moderation_suggestscore {
		cors_origins https://www.example.com
	}
	moderation_analyze {
		cors_origins https://www.example.com
	}
	respond "the next handler"
}
`
	adapted, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(config), map[string]any{"filename": "Caddyfile"})
	if err != nil {
		t.Fatal(err)
	}
	if err := caddy.Load(adapted, true); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// A connection that the next test would use again may be closed by then.
		http.DefaultClient.CloseIdleConnections()
		if err := caddy.Stop(); err != nil {
			t.Error(err)
		}
	})
	running, err := caddy.ActiveContext().AppIfConfigured("moderation")
	if err != nil {
		t.Fatal(err)
	}
	services, err := running.(*app.App).Services(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return services
}

type reply struct {
	status int
	header http.Header
	body   string
}

// send posts a body; headers are pairs of names and values.
func send(t *testing.T, method, address, body string, headers ...string) reply {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	received, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{answer.StatusCode, answer.Header, string(received)}
}

func records(t *testing.T, store feedback.Store, account string) []feedback.Record {
	t.Helper()
	var all []feedback.Record
	for record, err := range store.Feedback(context.Background(), account) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, record)
	}
	return all
}

func TestFeedbackIsKept(t *testing.T) {
	services := load(t, "storage badger DIR")
	// The address is that of the generated Go client.
	got := send(t, http.MethodPost, target+"?alt=json&key="+acmeKey+"&prettyPrint=false", `{
		"comment": {"text": "You 🙂 are a walnut."},
		"attributeScores": {"TOXICITY": {"summaryScore": {"value": 0.1}}, "NOVEL": {"spanScores": [{"begin": 4, "end": 6, "score": {"value": 1}}]}},
		"clientToken": "comment:1", "communityId": "Coral:https://example.com", "sessionId": "s", "languages": ["en"],
		"context": {"entries": [{"text": "before"}]}
	}`)
	if got.status != http.StatusOK || got.body != `{"clientToken":"comment:1"}` {
		t.Fatalf("answered %d %s", got.status, got.body)
	}
	if got := send(t, http.MethodPost, target, fine, "Authorization", "Bearer "+otherKey); got.status != http.StatusOK || got.body != "{}" {
		t.Fatalf("answered %d %s", got.status, got.body)
	}
	kept := records(t, services.Store, "acme")
	if len(kept) != 1 || len(records(t, services.Store, "")) != 2 {
		t.Fatalf("kept %d records of acme and %d in all, want 1 and 2", len(kept), len(records(t, services.Store, "")))
	}
	record := kept[0]
	if record.Text != "You 🙂 are a walnut." || record.Community != "Coral:https://example.com" || record.Session != "s" ||
		record.ClientToken != "comment:1" || !slices.Equal(record.Languages, []string{"en"}) || string(record.Context) != `{"entries":[{"text":"before"}]}` {
		t.Errorf("kept %+v", record)
	}
	if s := record.Scores; s["TOXICITY"].Summary.Value != 0.1 || s["NOVEL"].Spans[0] != (feedback.SpanScore{Begin: 4, End: 6, Score: number(1)}) {
		t.Errorf("kept the scores %+v", s)
	}
	if !strings.HasPrefix(record.Key, "key_") || record.Account != "acme" || !strings.HasPrefix(record.ID, "fb_") ||
		record.Time.IsZero() || record.Time.Location() != time.UTC {
		t.Errorf("kept id %s, account %s, key %s, time %s", record.ID, record.Account, record.Key, record.Time)
	}
	scores, err := services.Engine.Classify(t.Context(), record.Text)
	if err != nil {
		t.Fatal(err)
	}
	if record.ModelVersion != services.Engine.Version() ||
		len(record.ModelScores) != engine.NumAttributes+engine.NumCategories {
		t.Errorf("kept the model %q and %d of its scores", record.ModelVersion, len(record.ModelScores))
	}
	for i, score := range scores.Attributes {
		if got := record.ModelScores[engine.Attribute(i).String()]; got < score-1e-6 || got > score+1e-6 {
			t.Errorf("kept %v for %s, the model says %v", got, engine.Attribute(i), score)
		}
	}
	for i, score := range scores.Categories {
		if got := record.ModelScores[engine.Category(i).String()]; got < score-1e-6 || got > score+1e-6 {
			t.Errorf("kept %v for %s, the model says %v", got, engine.Category(i), score)
		}
	}
}

func TestKeysInEveryPlace(t *testing.T) {
	services := load(t, "storage badger DIR")
	rows := []struct {
		name, query string
		headers     []string
		status      int
	}{
		{"query", "?key=" + acmeKey, nil, 200},
		{"bearer", "", []string{"Authorization", "Bearer " + acmeKey}, 200},
		{"google", "", []string{"X-Goog-Api-Key", acmeKey}, 200},
		{"the same one thrice", "?key=" + acmeKey, []string{"Authorization", "Bearer " + acmeKey, "X-Goog-Api-Key", acmeKey}, 200},
		{"two different ones", "?key=" + otherKey, []string{"Authorization", "Bearer " + acmeKey}, 400},
		{"two different ones in headers", "", []string{"Authorization", "Bearer " + acmeKey, "X-Goog-Api-Key", otherKey}, 400},
		{"two different ones in the query", "?key=" + acmeKey + "&key=" + otherKey, nil, 400},
		{"another scheme", "", []string{"Authorization", "Basic " + acmeKey}, 400},
		{"none", "", nil, 401},
		{"unknown", "?key=mod_sk_0000000000000000000000000000000", nil, 401},
		{"of a paused account", "?key=" + pausedKey, nil, 403},
	}
	want := 0
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			got := send(t, http.MethodPost, target+row.query, fine, row.headers...)
			if got.status != row.status {
				t.Errorf("status %d, want %d: %s", got.status, row.status, got.body)
			}
			if challenge := got.header.Get("WWW-Authenticate"); (row.status == 401) && challenge == "" {
				t.Error("no challenge")
			}
		})
		if row.status == 200 {
			want++
		}
	}
	if got := len(records(t, services.Store, "")); got != want {
		t.Errorf("%d records are kept, want %d", got, want)
	}
}

// TestNothingIsCharged: the account may make 1 request a minute and 2 a month.
func TestNothingIsCharged(t *testing.T) {
	services := load(t, "storage badger DIR")
	for range 5 {
		got := send(t, http.MethodPost, target+"?key="+acmeKey, fine)
		if got.status != http.StatusOK {
			t.Fatalf("status %d: %s", got.status, got.body)
		}
		for name := range got.header {
			if strings.Contains(strings.ToLower(name), "ratelimit") {
				t.Errorf("the answer has %s", name)
			}
		}
	}
	usage, err := services.Gate.Usage(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	if usage.Counts.Minute != 0 || usage.Counts.Day != 0 || usage.Counts.Period != 0 {
		t.Errorf("counted %+v", usage.Counts)
	}
}

func TestBoundOfTheDay(t *testing.T) {
	const bound, callers = 5, 24
	services := load(t, "storage badger DIR\nfeedback {\nmax_records_per_day "+strconv.Itoa(bound)+"\n}")
	var mu sync.Mutex
	statuses := map[int]int{}
	var refused reply
	var wait sync.WaitGroup
	for range callers {
		wait.Go(func() {
			got := send(t, http.MethodPost, target+"?key="+acmeKey, fine)
			mu.Lock()
			defer mu.Unlock()
			statuses[got.status]++
			if got.status != http.StatusOK {
				refused = got
			}
		})
	}
	wait.Wait()
	if statuses[200] != bound || statuses[429] != callers-bound {
		t.Fatalf("statuses %v", statuses)
	}
	if got := len(records(t, services.Store, "acme")); got != bound {
		t.Errorf("%d records are kept, want %d", got, bound)
	}
	seconds, err := strconv.Atoi(refused.header.Get("Retry-After"))
	if err != nil || seconds < 1 || seconds > 24*60*60 {
		t.Errorf("Retry-After is %q", refused.header.Get("Retry-After"))
	}
	checkGolden(t, "bound_reached", refused)
	if got := send(t, http.MethodPost, target+"?key="+otherKey, fine); got.status != http.StatusOK {
		t.Errorf("another account is answered %d", got.status)
	}
}

func TestBoundInBytes(t *testing.T) {
	load(t, "storage badger DIR\nfeedback {\nmax_bytes_per_day 1KiB\n}")
	got := reply{status: http.StatusOK}
	sent := 0
	for got.status == http.StatusOK && sent < 10 {
		got = send(t, http.MethodPost, target+"?key="+acmeKey, fine)
		sent++
	}
	if got.status != http.StatusTooManyRequests || sent < 2 {
		t.Errorf("request %d is answered %d", sent, got.status)
	}
}

func TestGoldenAnswers(t *testing.T) {
	load(t, "storage badger DIR")
	long := strings.Repeat("x", feedback.MaxRecordBytes+1)
	rows := []struct {
		name, method, query, body string
		headers                   []string
	}{
		{name: "pretty", query: "&prettyPrint=true", body: fine[:len(fine)-1] + `,"clientToken":"<t>"}`},
		{name: "empty_comment", body: `{"comment":{"text":""},"attributeScores":{}}`},
		{name: "wrong_value", body: strings.Replace(fine, "0.1", "1.5", 1)},
		{name: "wrong_value_pretty", query: "&prettyPrint=true", body: strings.Replace(fine, "0.1", "1.5", 1)},
		{name: "malformed", body: fine + "}"},
		{name: "record_too_large", body: `{"comment":{"text":"x"},"attributeScores":{"A":{"summaryScore":{}}},"context":{"entries":[{"text":"` + long + `"}]}}`},
		{name: "comment_too_long", body: `{"comment":{"text":"` + long + `"},"attributeScores":{"A":{"summaryScore":{}}}}`},
		{name: "body_too_large", body: strings.Repeat(" ", maxSuggestScoreBody+1)},
		{name: "method", method: http.MethodGet},
		{name: "media_type", body: fine, headers: []string{"Content-Type", "text/html"}},
		{name: "encoding", body: fine, headers: []string{"Content-Encoding", "br"}},
		{name: "two_keys", body: fine, headers: []string{"Authorization", "Bearer " + otherKey}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			method := row.method
			if method == "" {
				method = http.MethodPost
			}
			checkGolden(t, row.name, send(t, method, target+"?key="+acmeKey+row.query, row.body, row.headers...))
		})
	}
	checkGolden(t, "no_key", send(t, http.MethodPost, target, fine))
	checkGolden(t, "unknown_key", send(t, http.MethodPost, target+"?key="+acmeKey+"x", fine))
	checkGolden(t, "paused_account", send(t, http.MethodPost, target+"?key="+pausedKey, fine))
}

var (
	requestID = regexp.MustCompile(`mod_[0-9A-Za-z]{24}`)
	seconds   = regexp.MustCompile(`[0-9]+ ?s(["\.])`)
	periodEnd = regexp.MustCompile(`[0-9-]+T[0-9:]+Z`)
)

// checkGolden compares an answer with the one that is written down, but for ids and times.
func checkGolden(t *testing.T, name string, got reply) {
	t.Helper()
	var text strings.Builder
	text.WriteString(strconv.Itoa(got.status) + "\n")
	for _, field := range []string{"Accept-Encoding", "Accept-Post", "Allow", "Cache-Control", "Content-Type", "WWW-Authenticate", "X-Content-Type-Options", "X-Request-Id"} {
		if value := got.header.Get(field); value != "" {
			text.WriteString(field + ": " + value + "\n")
		}
	}
	text.WriteString("\n" + got.body + "\n")
	written := seconds.ReplaceAllString(requestID.ReplaceAllString(text.String(), "mod_ID"), `SECONDSs$1`)
	for _, secret := range []string{acmeKey, otherKey, largeKey, pausedKey, "walnut"} {
		if strings.Contains(written, secret) {
			t.Errorf("the answer has %q in it, want it not to", secret)
		}
	}
	if got.header.Get("X-Request-Id") == "" || !strings.Contains(got.body, got.header.Get("X-Request-Id")) && got.status >= 400 {
		t.Error("the answer does not name its request")
	}
	file := filepath.Join("testdata", "answers", name+".http")
	if *update {
		if err := os.WriteFile(file, []byte(written), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if written != string(want) {
		t.Errorf("answered\n%s\nwant\n%s", written, want)
	}
}

func TestPaths(t *testing.T) {
	load(t, "storage badger DIR")
	rows := []struct {
		path string
		ours bool
	}{
		{"/v1alpha1/comments:suggestscore", true},
		{"/v1alpha1/comments%3Asuggestscore", true},
		{"/v1alpha1/comments%3asuggestscore", true},
		{"/api/perspective/v1alpha1/comments:suggestscore", true},
		{"/v1alpha1/comments:suggestscore/", false},
		{"/v1alpha1/comments:suggestScore", false},
		{"/v1alpha1/comments:rate", false},
		{"/v1/comments:suggestscore", false},
		{"/", false},
	}
	for _, row := range rows {
		t.Run(row.path, func(t *testing.T) {
			got := send(t, http.MethodPost, site+row.path+"?key="+acmeKey, fine)
			if ours := got.body == "{}"; ours != row.ours {
				t.Errorf("answered %d %q", got.status, got.body)
			}
			if !row.ours && got.body != "the next handler" {
				t.Errorf("the next handler is not asked: %d %q", got.status, got.body)
			}
		})
	}
}

func TestBodiesOfOldClients(t *testing.T) {
	services := load(t, "storage badger DIR")
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	if _, err := io.WriteString(w, fine); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got := send(t, http.MethodPost, target+"?key="+acmeKey, zipped.String(), "Content-Encoding", "gzip"); got.status != http.StatusOK {
		t.Errorf("gzip is answered %d %s", got.status, got.body)
	}
	if got := send(t, http.MethodPost, target+"?key="+acmeKey, fine, "Content-Type", ""); got.status != http.StatusOK {
		t.Errorf("no type is answered %d %s", got.status, got.body)
	}
	if got := send(t, http.MethodHead, target+"?key="+acmeKey, ""); got.status != http.StatusMethodNotAllowed || got.body != "" {
		t.Errorf("HEAD is answered %d %q", got.status, got.body)
	}
	if got := len(records(t, services.Store, "")); got != 2 {
		t.Errorf("%d records are kept, want 2", got)
	}
}

// TestStoreDown: what could not be kept is not acknowledged.
func TestStoreDown(t *testing.T) {
	load(t, "storage down DIR")
	checkGolden(t, "store_down", send(t, http.MethodPost, target+"?key="+acmeKey, fine))
}

// TestClassifierDown: a record without the model's scores would be worth little, and the caller can try again.
func TestClassifierDown(t *testing.T) {
	services := load(t, "storage badger DIR\nclassifier down")
	checkGolden(t, "classifier_down", send(t, http.MethodPost, target+"?key="+acmeKey, fine))
	if got := len(records(t, services.Store, "")); got != 0 {
		t.Errorf("%d records are kept, want none", got)
	}
}

func TestDirectiveTakesNothing(t *testing.T) {
	t.Parallel()
	rows := []struct{ name, directive, want string }{
		{"an argument", "moderation_suggestscore off",
			"parsing caddyfile tokens for 'moderation_suggestscore': moderation_suggestscore: unexpected argument 'off', at Caddyfile:2"},
		{"an option", "moderation_suggestscore {\n\tkeys\n}",
			"parsing caddyfile tokens for 'moderation_suggestscore': moderation_suggestscore: unknown option 'keys'; the options are cors_origins, at Caddyfile:3"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			_, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(":80 {\n"+row.directive+"\n}"), map[string]any{"filename": "Caddyfile"})
			if err == nil || err.Error() != row.want {
				t.Errorf("error %v, want %s", err, row.want)
			}
		})
	}
}

func TestAdapt(t *testing.T) {
	t.Parallel()
	adapted, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(":80 {\nmoderation_suggestscore\n}"), nil)
	if err != nil {
		t.Fatal(err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, adapted); err != nil {
		t.Fatal(err)
	}
	if want := `"handle":[{"handler":"moderation_suggestscore"}]`; !strings.Contains(compact.String(), want) {
		t.Errorf("adapted to %s, want %s in it", compact.String(), want)
	}
}

func init() {
	caddy.RegisterModule(new(downStorage))
	caddy.RegisterModule(new(downClassifier))
	caddy.RegisterModule(new(fixedClassifier))
}

// downStorage is a store that cannot keep feedback.
type downStorage struct{ app.Badger }

func (*downStorage) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "moderation.storage.down", New: func() caddy.Module { return new(downStorage) }}
}

func (d *downStorage) Open(ctx context.Context, logger *zap.Logger) (storage.Store, error) {
	store, err := d.Badger.Open(ctx, logger)
	return downStore{store}, err
}

type downStore struct{ storage.Store }

func (downStore) AppendFeedback(context.Context, feedback.Record, feedback.Bound) error {
	return storage.ErrUnavailable
}

// downClassifier is a classifier that cannot answer.
type downClassifier struct{}

func (*downClassifier) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "moderation.classifiers.down", New: func() caddy.Module { return new(downClassifier) }}
}

func (*downClassifier) Classify(context.Context, string) (engine.Scores, error) {
	return engine.Scores{}, errors.New("the remote classifier is down")
}

func (*downClassifier) Version() string { return "down" }

func (*downClassifier) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	return nil
}

// fixedClassifier gives the same scores to every text, so that answers can be written down.
type fixedClassifier struct{ downClassifier }

func (*fixedClassifier) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "moderation.classifiers.fixed", New: func() caddy.Module { return new(fixedClassifier) }}
}

func (*fixedClassifier) Classify(context.Context, string) (scores engine.Scores, err error) {
	for i := range scores.Attributes {
		scores.Attributes[i] = float64(i+1) / 10
	}
	return scores, nil
}

func (*fixedClassifier) Version() string { return "fixed-1" }
