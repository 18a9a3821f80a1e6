// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/caddy-moderation/caddy-moderation/internal/freeport"
	"github.com/caddy-moderation/caddy-moderation/scripts/internal/server"
)

// The addresses that the pages and Caddyfile.example name, and that are replaced by free ones.
const (
	siteAddress  = "localhost:8080"
	adminAddress = "localhost:2019"
)

var keyPattern = regexp.MustCompile(`mod_sk_[0-9A-Za-z]{32}`)

// place is a folder like a fresh checkout after the build: it has the binary and Caddyfile.example, and no data.
type place struct {
	folder      string
	site, admin string // localhost:<port>
	process     *server.Process
	key         string // of the account demo
	firstNotice string // what the first start printed
	path        string // PATH of the shells
}

// newPlace makes a place. With own, its commands run with [curl].
func newPlace(caddy string, own bool) (*place, error) {
	binary, err := filepath.Abs(caddy)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(binary); err != nil {
		return nil, fmt.Errorf("build the server first with ./xcaddy.sh: %w", err)
	}
	addresses, err := freeport.Addresses(2)
	if err != nil {
		return nil, err
	}
	p := &place{site: onLocalhost(addresses[0]), admin: onLocalhost(addresses[1])}
	if p.folder, err = os.MkdirTemp("", "caddy-moderation-smoke-"); err != nil {
		return nil, err
	}
	config, err := os.ReadFile("Caddyfile.example")
	if err != nil {
		return nil, err
	}
	// The pages run ./caddy, as after a build, or caddy, as after an installation.
	bin := filepath.Join(p.folder, "bin")
	p.path = bin + string(os.PathListSeparator) + os.Getenv("PATH")
	err = errors.Join(
		os.Symlink(binary, filepath.Join(p.folder, "caddy")),
		os.Mkdir(bin, 0o700),
		os.Symlink(binary, filepath.Join(bin, "caddy")),
		os.WriteFile(filepath.Join(p.folder, "Caddyfile.example"), []byte(p.here(string(config))), 0o600),
		os.WriteFile(filepath.Join(p.folder, "Caddyfile.real"), []byte(realDeployment(string(config))), 0o600),
	)
	if err != nil || !own {
		return p, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return p, os.Symlink(self, filepath.Join(bin, "curl"))
}

func onLocalhost(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return net.JoinHostPort("localhost", port)
}

func (p *place) close() {
	if p.process != nil {
		p.process.Kill()
	}
	_ = os.RemoveAll(p.folder)
}

// here replaces the pages' addresses by those of this place; there reverses it.
func (p *place) here(text string) string {
	return strings.NewReplacer(siteAddress, p.site, adminAddress, p.admin).Replace(text)
}

func (p *place) there(text string) string {
	return strings.NewReplacer(p.site, siteAddress, p.admin, adminAddress).Replace(text)
}

// realDeployment uncomments the lines of the example that are commented out, and leaves out the others.
func realDeployment(example string) string {
	_, rest, _ := strings.Cut(example, "\n# A real deployment\n")
	var b strings.Builder
	for line := range strings.Lines(rest) {
		if off, ok := strings.CutPrefix(line, "#"); ok && !strings.HasPrefix(off, " ") && off != "\n" {
			b.WriteString(off)
		}
	}
	return b.String()
}

// environ is added to the environment of the server and of the commands.
func (p *place) environ() []string {
	return []string{
		"CADDY_ADMIN=" + p.admin, "PATH=" + p.path,
		"XDG_DATA_HOME=" + filepath.Join(p.folder, "home"), "XDG_CONFIG_HOME=" + filepath.Join(p.folder, "home"),
		"LC_ALL=C", "NO_PROXY=localhost", "no_proxy=localhost", "CURL_HOME=" + p.folder,
	}
}

// command runs ./caddy with the arguments and returns what it writes to standard output.
func (p *place) command(ctx context.Context, env []string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "./caddy", args...)
	cmd.Dir = p.folder
	cmd.Env = append(append(os.Environ(), p.environ()...), env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("./caddy %s: %w\n%s%s", strings.Join(args, " "), err, out.String(), errs.String())
	}
	return out.String(), nil
}

// validate checks the example as it is and the deployment in its comments.
func (p *place) validate(ctx context.Context) error {
	if _, err := p.command(ctx, nil, "fmt", "--diff", "Caddyfile.example"); err != nil {
		return err
	}
	if _, err := p.command(ctx, nil, "validate", "--config", "Caddyfile.example", "--adapter",
		"caddyfile"); err != nil {
		return err
	}
	// Validation opens the access logs; they go into this folder.
	deployment := filepath.Join(p.folder, "Caddyfile.real")
	text, err := os.ReadFile(deployment)
	if err != nil {
		return err
	}
	moved := strings.ReplaceAll(string(text), "/var/log/caddy/", p.folder+"/")
	if err := os.WriteFile(deployment, []byte(moved), 0o600); err != nil {
		return err
	}
	env := []string{"ACME_MODERATION_KEY=mod_sk_" + strings.Repeat("a", 32)}
	_, err = p.command(ctx, env, "validate", "--config", "Caddyfile.real", "--adapter", "caddyfile")
	return err
}

// start starts the server as "./xcaddy.sh run" does.
func (p *place) start(ctx context.Context) error {
	process, err := server.Start(ctx, server.Options{
		Command: []string{"./caddy", "run", "--config", "Caddyfile.example", "--adapter", "caddyfile"},
		Dir:     p.folder,
		Env:     p.environ(),
		Listen:  p.site,
	})
	p.process = process
	return err
}

// firstStart starts the server on an empty directory and takes the key that it prints.
func (p *place) firstStart(ctx context.Context) error {
	if err := p.start(ctx); err != nil {
		return err
	}
	out, err := p.process.WaitOutput(noticeEnd, 10*time.Second)
	if err != nil {
		return err
	}
	p.key = keyPattern.FindString(out)
	if p.key == "" {
		return fmt.Errorf("no key in the output:\n%s", out)
	}
	p.firstNotice = notice(out)
	return p.ready(ctx)
}

// tryNotice compares what the first start printed with what the documentation shows, and runs the request in it.
func (p *place) tryNotice(ctx context.Context, update bool) error {
	notice := p.firstNotice
	// Here the commands need an address, because the admin endpoint has a port of its own.
	shown := strings.ReplaceAll(p.there(notice), " --address "+adminAddress, "")
	if err := compareNotice(shown, update); err != nil {
		return err
	}
	_, printed, _ := strings.Cut(notice, "curl ")
	printed, _, _ = strings.Cut(printed, "\n\n")
	answer, err := p.runOnce(ctx, "curl -sS "+printed)
	if err != nil {
		return err
	}
	if !strings.Contains(answer, `"status":"completed"`) || !strings.Contains(answer, `"recommendation":"approve"`) {
		return fmt.Errorf("the printed request was answered with: %s", answer)
	}
	return nil
}

// runNextCommands runs the commands that the first start names: they replace the key and lift the limits. The key that
// they end is refused from then on.
func (p *place) runNextCommands(ctx context.Context) error {
	_, next, _ := strings.Cut(p.firstNotice, "\n    ./caddy moderation ")
	next = "./caddy moderation " + next
	out, err := p.runOnce(ctx, next)
	if err != nil {
		return err
	}
	replaced := keyPattern.FindString(out)
	if replaced == "" || replaced == p.key {
		return fmt.Errorf("got no other key from:\n%s\nwhich printed:\n%s", next, out)
	}
	if err := p.moderate(ctx, p.key); err == nil {
		return errors.New("the key that was replaced is still valid")
	}
	for range 12 { // more than the account demo may make in a minute
		if err := p.moderate(ctx, replaced); err != nil {
			return err
		}
	}
	return nil
}

// noticeEnd stands in the last line of the notice.
const noticeEnd = "account update demo"

// notice returns the part of the first start's output that is not a log: from the line that says what was made to the
// last command.
func notice(out string) string {
	var kept []string
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "The moderation service made") || len(kept) > 0 {
			kept = append(kept, line)
		}
		if len(kept) > 0 && strings.Contains(line, noticeEnd) {
			break
		}
	}
	return strings.Join(kept, "")
}

// requestsMade is the count of the current period, as the operator sees it. Asking does not count.
func (p *place) requestsMade(ctx context.Context, account string) (int64, error) {
	if err := p.ready(ctx); err != nil {
		return 0, err
	}
	out, err := p.command(ctx, nil, "moderation", "usage", "--account", account, "--json")
	if err != nil {
		return 0, err
	}
	var usage struct {
		Period struct {
			Requests *int64 `json:"requests"`
		} `json:"period"`
	}
	if err := json.Unmarshal([]byte(out), &usage); err != nil {
		return 0, fmt.Errorf("usage of %s: %w: %s", account, err, out)
	}
	if usage.Period.Requests == nil {
		return 0, fmt.Errorf("usage of %s has no period.requests: %s", account, out)
	}
	return *usage.Period.Requests, nil
}

// restart stops the server as an operator does and starts it again.
func (p *place) restart(ctx context.Context) error {
	before, err := p.requestsMade(ctx, "demo")
	if err != nil {
		return err
	}
	if before == 0 {
		return errors.New("the account demo has made no request")
	}
	if err := p.process.Stop(); err != nil {
		return err
	}
	if out := p.process.Output(); strings.Count(out, p.key) != strings.Count(strings.SplitN(out, noticeEnd, 2)[0],
		p.key) {
		return errors.New("the key is in the output beside the notice of the first start")
	}
	if err := p.start(ctx); err != nil {
		return err
	}
	after, err := p.requestsMade(ctx, "demo")
	if err != nil {
		return err
	}
	if after != before {
		return fmt.Errorf("%d requests before the restart, %d after it", before, after)
	}
	if keyPattern.MatchString(p.process.Output()) {
		return errors.New("the second start shows a key")
	}
	return nil
}

// kill counts requests, kills the server right after the last answer and checks the stored count.
func (p *place) kill(ctx context.Context) error {
	if _, err := p.command(ctx, nil, "moderation", "account", "create", "smoke", "--tier", "business"); err != nil {
		return err
	}
	out, err := p.command(ctx, nil, "moderation", "key", "create", "--account", "smoke")
	if err != nil {
		return err
	}
	key := strings.TrimSpace(out)
	if keyPattern.FindString(key) != key {
		return errors.New("key create printed something else than a key on standard output")
	}
	const requests = 100
	for range requests {
		if err := p.moderate(ctx, key); err != nil {
			return err
		}
	}
	p.process.Kill()
	if err := p.start(ctx); err != nil {
		return err
	}
	made, err := p.requestsMade(ctx, "smoke")
	if err != nil {
		return err
	}
	if made != requests {
		return fmt.Errorf("%d requests were acknowledged, %d are stored", requests, made)
	}
	return p.process.Stop()
}

// ready waits until the server says that it is ready: a site may answer before the whole configuration has started.
func (p *place) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.admin+"/moderation/health/ready",
			nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return errors.New("the server does not become ready")
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// moderate sends one text and returns an error unless the status is 200.
func (p *place) moderate(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	body := strings.NewReader(`{"content": "See you at the market on Saturday."}`)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+p.site+"/v1/moderate/text", body)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+key)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var answer bytes.Buffer
	if _, err := answer.ReadFrom(response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", response.Status, answer.String())
	}
	return nil
}
