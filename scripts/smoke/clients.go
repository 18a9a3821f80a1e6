// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddy-moderation/caddy-moderation/caddymod/problem"
)

// The client examples, which docs/clients.md shows.
const clientFolder = "examples/clients"

// language is a client example.
type language struct {
	file string
	// command runs it; "" stands for the example, or for what was built from it.
	command []string
	// needs are the programs without which it is skipped.
	needs []string
	// build makes the program that is run, if the example itself is not.
	build []string
	// repeatsAll says that it repeats 500 and every 503. curl cannot tell them apart.
	repeatsAll bool
}

var languages = []language{
	{file: "curl.sh", command: []string{"bash", ""}, needs: []string{"bash", "curl", "jq"}, repeatsAll: true},
	{file: "moderate.py", command: []string{"python3", ""}, needs: []string{"python3"}},
	{file: "moderate.mjs", command: []string{"node", ""}, needs: []string{"node"}},
	{file: "moderate.go", command: []string{""}, needs: []string{"go"}, build: []string{"go", "build", "-o"}},
}

// What the examples print for the keys of these accounts.
const (
	roomy  = "roomy"  // has room for all requests
	monthy = "monthy" // may make one request a month, and has made it
	minute = "minute" // may make one request a minute, and has made it
	nobody = "nobody" // does not exist
)

// fault answers a request in place of the service.
type fault func(w http.ResponseWriter, r *http.Request)

// clientCase is one run of an example.
type clientCase struct {
	what    string
	account string // default: roomy
	args    []string
	faults  []fault // answer the first requests
	// timeout is how many seconds the example waits for an answer, and patience how long it may go on. Default: 30.
	timeout, patience string
	out, err          string // regular expressions of the whole standard output and of a part of the error output
	attempts          int    // that reach the service; 0 if their number depends on pauses
}

// awkward is a text that a client must not change on its way.
const awkward = "Say \"hi\", 'ho' & $(echo no) `no` \\n \u00e9 e\u0301 \U0001f600\n{\"a\": 1}\tend"

const idPattern = `mod_[0-9A-Za-z]{24}`

var clientCases = []clientCase{
	{what: "a friendly text", args: []string{"moderate", "You are a wonderful person."}, attempts: 1,
		out: `publish it: nothing flagged \(` + idPattern + `\)`},
	{what: "a text for review", args: []string{"moderate", "Your jokes are stupid and so are you."}, attempts: 1,
		out: `hold it for a person: harassment \(` + idPattern + `\)`},
	{what: "an abusive text", args: []string{"moderate", "Shut up, you pathetic idiot."}, attempts: 1,
		out: `refuse it: harassment \(` + idPattern + `\)`},
	{what: "an awkward text", args: []string{"moderate", awkward}, attempts: 1, out: `publish it: .*`},
	{what: "a correction", args: []string{"correct", "Nice try.", "TOXICITY", "0.1"}, attempts: 1,
		out: `the correction is stored`},
	{what: "usage", args: []string{"usage"}, attempts: 1,
		out: `\d+ requests made of \d+ until \d{4}-\d\d-01T00:00:00\.000Z`},
	{what: "a text that breaks a rule", args: []string{"moderate", " "}, attempts: 1,
		err: `400 invalid_request: /content: content must not be blank\. \(id for support: ` + idPattern + `\)`},
	{what: "a wrong key", account: nobody, args: []string{"moderate", "Hello."}, attempts: 1,
		err: `401 invalid_key: .* \(id for support: ` + idPattern + `\)`},
	{what: "a wrong key, in Google's format", account: nobody, args: []string{"correct", "Hello.", "TOXICITY", "0.1"},
		attempts: 1, err: `401 UNAUTHENTICATED: .* \(id for support: ` + idPattern + `\)`},
	{what: "a month that is used up", account: monthy, args: []string{"moderate", "Hello."}, attempts: 1,
		err: `402 monthly_quota_exhausted: .* The next one starts at .* \(id for support: ` + idPattern + `\)`},
	{what: "a minute that is used up, and no patience", account: minute, args: []string{"moderate", "Hello."},
		patience: "1", attempts: 1,
		err: `429 rate_limit_exceeded: .* Try again in \d+ s\. \(id for support: ` + idPattern + `\)`},
	{what: "a minute that ends", args: []string{"moderate", "Hello."}, attempts: 2,
		faults: []fault{fails(problem.RateLimitExceeded, "1")}, out: `publish it: .*`},
	{what: "a service that starts", args: []string{"usage"}, attempts: 3,
		faults: []fault{fails(problem.Starting, "1"), fails(problem.StorageUnavailable, "")}, out: `\d+ requests made of .*`},
	{what: "a tier that the operator removed", args: []string{"moderate", "Hello."}, attempts: 1, patience: "1",
		faults: slices.Repeat([]fault{fails(problem.TierNotConfigured, "")}, 20),
		err:    `503 tier_not_configured: .* \(id for support: mod_fault\)`},
	{what: "a failure", args: []string{"usage"}, attempts: 1, patience: "1",
		faults: slices.Repeat([]fault{fails(problem.InternalError, "")}, 20),
		err:    `500 internal_error: .* \(id for support: mod_fault\)`},
	{what: "a proxy's error", args: []string{"usage"}, attempts: 2, faults: []fault{proxyError},
		out: `\d+ requests made of .*`},
	{what: "a proxy's lasting error", args: []string{"usage"}, patience: "3",
		faults: slices.Repeat([]fault{proxyError}, 20), err: `502 unknown: the answer is not one of the service`},
	{what: "a page of something else", args: []string{"moderate", "Hello."}, attempts: 1, faults: []fault{otherPage},
		err: `200 unknown: the answer is not one of the service`},
	{what: "a page of something else for a correction", args: []string{"correct", "Hello.", "TOXICITY", "0.1"},
		attempts: 1, faults: []fault{otherPage}, err: `200 unknown: the answer is not one of the service`},
	{what: "an empty answer of something else", args: []string{"correct", "Hello.", "TOXICITY", "0.1"}, attempts: 1,
		faults: []fault{empty}, err: `200 unknown: the answer is not one of the service`},
	{what: "an answer that is too late", args: []string{"moderate", "Hello."}, timeout: "3", attempts: 2,
		faults: []fault{hangs}, out: `publish it: .*`},
	{what: "no answer at all", args: []string{"usage"}, timeout: "1", patience: "3",
		faults: slices.Repeat([]fault{hangs}, 20), err: `no answer unreachable: `},
}

// fails answers with a problem of the service, and with Retry-After unless that is empty.
func fails(code problem.Code, retryAfter string) fault {
	return func(w http.ResponseWriter, r *http.Request) {
		if retryAfter != "" {
			w.Header().Set("Retry-After", retryAfter)
		}
		problem.Write(w, r, "mod_fault", problem.New(code, ""))
	}
}

// proxyError answers as a proxy does that does not reach the service.
func proxyError(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html")
	w.WriteHeader(http.StatusBadGateway)
	_, _ = io.WriteString(w, "<html><h1>502 Bad Gateway</h1></html>")
}

// otherPage and empty answer as a site does at whose address there is no service.
func otherPage(w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, "<html>Welcome!</html>")
}

func empty(http.ResponseWriter, *http.Request) {}

// hangs does not answer until the client is gone.
func hangs(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// faulty passes requests on to the service, after it has answered the first ones by itself.
type faulty struct {
	service http.Handler
	mu      sync.Mutex
	next    []fault
	seen    int
	last    string // the body of the last request
}

func (f *faulty) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	f.mu.Lock()
	f.seen++
	f.last = string(body)
	answer := f.service.ServeHTTP
	if len(f.next) > 0 {
		answer, f.next = f.next[0], f.next[1:]
	}
	f.mu.Unlock()
	answer(w, r)
}

// expect prepares the faults of a case.
func (f *faulty) expect(faults []fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next, f.seen, f.last = slices.Clone(faults), 0, ""
}

// counted returns the number of requests since [faulty.expect], and the body of the last one.
func (f *faulty) counted() (int, string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen, f.last
}

// checkClients runs the examples, all languages at the same time.
func checkClients(ctx context.Context, caddy string) error {
	place, err := newPlace(caddy, false)
	if err != nil {
		return err
	}
	defer place.close()
	if err := place.firstStart(ctx); err != nil {
		return err
	}
	keys, err := place.clientKeys(ctx)
	if err != nil {
		return err
	}
	errs := make([]error, len(languages))
	var all sync.WaitGroup
	for i := range languages {
		all.Go(func() { errs[i] = languages[i].check(ctx, place, keys) })
	}
	all.Wait()
	for i, l := range languages {
		var lacks skipped
		switch {
		case errors.As(errs[i], &lacks):
			fmt.Printf("skip: %s/%s: %v\n", clientFolder, l.file, lacks)
			errs[i] = nil
		case errs[i] == nil:
			fmt.Printf("ok: %s/%s: %d runs\n", clientFolder, l.file, len(clientCases))
		}
	}
	return errors.Join(errs...)
}

// skipped says what the machine lacks.
type skipped string

func (s skipped) Error() string { return string(s) }

// clientKeys makes the accounts and returns their keys. The minute of the account minute has begun to be used up when
// this returns, and has enough seconds left.
func (p *place) clientKeys(ctx context.Context) (map[string]string, error) {
	keys := map[string]string{nobody: "mod_sk_" + strings.Repeat("a", 32)}
	for account, overrides := range map[string]string{
		roomy: "{}", monthy: `{"requests_per_month": 1}`, minute: `{"requests_per_minute": 1}`,
	} {
		body := fmt.Sprintf(`{"id": %q, "tier": "business", "overrides": %s}`, account, overrides)
		if _, err := p.postAdmin(ctx, "/moderation/accounts", body); err != nil {
			return nil, err
		}
		answer, err := p.postAdmin(ctx, "/moderation/keys", fmt.Sprintf(`{"account": %q}`, account))
		if err != nil {
			return nil, err
		}
		var made struct{ Secret string }
		if err := json.Unmarshal(answer, &made); err != nil || made.Secret == "" {
			return nil, fmt.Errorf("making a key of %s: got %s (%w)", account, answer, err)
		}
		keys[account] = made.Secret
	}
	return keys, p.moderate(ctx, keys[monthy])
}

// postAdmin posts a body to a route of the admin endpoint.
func (p *place) postAdmin(ctx context.Context, route, body string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+p.admin+route, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusCreated {
		err = fmt.Errorf("POST %s: %s: %s", route, response.Status, answer)
	}
	return answer, err
}

// useUp uses up the minute of an account with one request a minute, unless little of it is left: then it waits for the
// next one first, so that what follows is still in the same minute.
func (p *place) useUp(ctx context.Context, key string) error {
	const enough = 8 * time.Second
	if now := time.Now(); now.Truncate(time.Minute).Add(time.Minute).Sub(now) < enough {
		time.Sleep(time.Until(now.Truncate(time.Minute).Add(time.Minute + 100*time.Millisecond)))
	}
	err := p.moderate(ctx, key)
	if err != nil && strings.Contains(err.Error(), string(problem.RateLimitExceeded)) {
		return nil // another language has
	}
	return err
}

// check runs all cases of a language.
func (l language) check(ctx context.Context, p *place, keys map[string]string) error {
	for _, program := range l.needs {
		if _, err := exec.LookPath(program); err != nil {
			return skipped(program + " is not installed")
		}
	}
	file, err := filepath.Abs(filepath.Join(clientFolder, l.file))
	if err != nil {
		return err
	}
	if len(l.build) > 0 {
		built := filepath.Join(p.folder, l.file+".exe")
		build := exec.CommandContext(ctx, l.build[0], append(l.build[1:], built, file)...)
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", l.file, err, out)
		}
		file = built
	}
	service := &faulty{service: &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: p.site}) },
	}}
	server := httptest.NewServer(service)
	defer server.Close()
	command := slices.Clone(l.command)
	command[slices.Index(command, "")] = file
	var wrong []error
	for _, c := range clientCases {
		if c.account == minute {
			if err := p.useUp(ctx, keys[minute]); err != nil {
				return err
			}
		}
		service.expect(c.faults)
		if err := l.run(ctx, c, command, server.URL, keys, service); err != nil {
			wrong = append(wrong, fmt.Errorf("%s/%s: %s: %w", clientFolder, l.file, c.what, err))
		}
	}
	return errors.Join(wrong...)
}

// run runs one case.
func (l language) run(ctx context.Context, c clientCase, command []string, address string, keys map[string]string,
	service *faulty) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], append(command[1:], c.args...)...)
	key := keys[cmp.Or(c.account, roomy)]
	cmd.Env = append(os.Environ(), "MODERATION_URL="+address, "MODERATION_KEY="+key, "MODERATION_TIMEOUT="+cmp.Or(c.timeout, "30"),
		"MODERATION_PATIENCE="+cmp.Or(c.patience, "30"), "NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1", "PYTHONUTF8=1")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	seen, last := service.counted()
	described := fmt.Errorf("got %v, the output %q and the errors %q after %d requests", err, out.String(), errs.String(),
		seen)
	switch exits := (*exec.ExitError)(nil); {
	case strings.Contains(out.String()+errs.String(), key):
		return fmt.Errorf("%w; the key is among them", described)
	case c.out != "" && (err != nil || !regexp.MustCompile(`^`+c.out+`\n$`).MatchString(out.String())):
		return fmt.Errorf("%w; want the output %s", described, c.out)
	case c.err != "" && (!errors.As(err, &exits) || exits.ExitCode() != 1 || out.Len() > 0 ||
		!regexp.MustCompile(c.err).MatchString(errs.String())):
		return fmt.Errorf("%w; want status 1, no output and the errors %s", described, c.err)
	case c.attempts != 0 && seen != c.attempts && !(l.repeatsAll && len(c.faults) > c.attempts):
		return fmt.Errorf("%w; want %d requests", described, c.attempts)
	case c.attempts == 0 && seen < 2:
		return fmt.Errorf("%w; want some requests", described)
	}
	if c.args[0] != "moderate" {
		return nil
	}
	var sent struct{ Content string }
	if err := json.Unmarshal([]byte(last), &sent); err != nil || sent.Content != c.args[1] {
		return fmt.Errorf("the text arrived as %q (%w), want %q", sent.Content, err, c.args[1])
	}
	return nil
}
