// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/caddy-moderation/caddy-moderation/internal/freeport"
	"github.com/caddy-moderation/caddy-moderation/scripts/internal/server"
)

// subject is a server under test: a configuration, a database and a key for an account with limits that no load
// reaches, in a temporary folder.
type subject struct {
	Address string // of the site
	Admin   string // of the admin endpoint
	Key     string

	folder  string
	caddy   []string
	process *server.Process
}

// newSubject prepares a server of the service's endpoints. It runs the binary caddy, or this program if caddy is empty.
func newSubject(caddy string) (*subject, error) {
	site := "moderation_api"
	if caddy == "" {
		site += "\n\tmoderation_bench_baseline /baseline"
	}
	return newSite(caddy, "", site)
}

// newSite prepares a server of one site with the given directives and further global options.
func newSite(caddy, options, site string) (*subject, error) {
	return newSiteOn(caddy, "", options, site)
}

// newSiteOn is newSite with another storage than a database in the server's folder.
func newSiteOn(caddy, storage, options, site string) (*subject, error) {
	s := &subject{Key: "mod_sk_" + letters(32)}
	if caddy != "" {
		path, err := filepath.Abs(caddy)
		if err != nil {
			return nil, err
		}
		s.caddy = []string{path}
	} else {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		s.caddy = []string{self, "caddy"}
	}
	addresses, err := freeport.Addresses(2)
	if err != nil {
		return nil, err
	}
	s.Address, s.Admin = addresses[0], addresses[1]
	if s.folder, err = os.MkdirTemp("", "caddy-moderation-load-"); err != nil {
		return nil, err
	}
	if storage == "" {
		storage = fmt.Sprintf("badger %q", filepath.Join(s.folder, "data"))
	}
	config := fmt.Sprintf(`{
	admin %s
	persist_config off
	log {
		level WARN
	}
	%s
	moderation {
		storage %s
		demo off
		tier load 1000000000000 1000000000000
		feedback {
			max_records_per_day 0
			max_bytes_per_day 0
		}
		account load {
			tier load
			key {env.LOAD_KEY}
		}
	}
}

http://%s {
	%s
}
`, s.Admin, options, storage, s.Address, site)
	if err := os.WriteFile(filepath.Join(s.folder, "Caddyfile"), []byte(config), 0o600); err != nil {
		return nil, err
	}
	return s, nil
}

// newPlain prepares a Caddy without the service, which answers everything with 200.
func newPlain(caddy string) (*subject, error) {
	s, err := newSite(caddy, "", "respond 200")
	if err != nil {
		return nil, err
	}
	config := fmt.Sprintf("{\n\tadmin %s\n\tpersist_config off\n\tlog {\n\t\tlevel WARN\n\t}\n}\n\nhttp://%s {\n\trespond `{}` 200\n}\n", s.Admin, s.Address)
	return s, os.WriteFile(filepath.Join(s.folder, "Caddyfile"), []byte(config), 0o600)
}

// start starts the server and returns when it has answered a request.
func (s *subject) start(ctx context.Context, env ...string) error {
	command := append(s.caddy, "run", "--config", filepath.Join(s.folder, "Caddyfile"), "--adapter", "caddyfile")
	process, err := server.Start(ctx, server.Options{
		Command: command,
		Env:     append(env, "LOAD_KEY="+s.Key, "XDG_DATA_HOME="+s.folder, "XDG_CONFIG_HOME="+s.folder),
		Listen:  s.Address,
	})
	if err != nil {
		return err
	}
	s.process = process
	return nil
}

// storedKey makes an account and a key in the store, and uses the key from now on. A server looks up stored keys for
// each request, and declared ones in its configuration.
func (s *subject) storedKey(ctx context.Context) error {
	// The address answers before the store is open.
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		answer, err := get(ctx, "http://"+s.Admin+"/moderation/health/ready")
		if err == nil {
			answer.Body.Close()
			break
		}
		if time.Now().After(deadline) {
			return err
		}
	}
	if _, err := s.command(ctx, "account", "create", "stored", "--tier", "load"); err != nil {
		return err
	}
	key, err := s.command(ctx, "key", "create", "--account", "stored")
	s.Key = strings.TrimSpace(key)
	return err
}

// command runs a command on the running server and returns what it prints.
func (s *subject) command(ctx context.Context, args ...string) (string, error) {
	command := append(append(s.caddy[:len(s.caddy):len(s.caddy)], "moderation"), args...)
	command = append(command, "--address", s.Admin)
	out, err := exec.CommandContext(ctx, command[0], command[1:]...).Output()
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		return "", fmt.Errorf("%s %s: %w: %s", args[0], args[1], err, failed.Stderr)
	}
	return string(out), err
}

// close ends the server, if it runs, and removes its data.
func (s *subject) close() {
	if s.process != nil {
		s.process.Kill()
	}
	_ = os.RemoveAll(s.folder)
}

// requestsMade is the number of requests of the current period as /v1/usage reports it. The call counts itself.
func (s *subject) requestsMade(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Address+"/v1/usage", nil)
	if err != nil {
		return 0, err
	}
	request.Header.Set("Authorization", "Bearer "+s.Key)
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("GET /v1/usage: %s", response.Status)
	}
	var usage struct {
		CurrentPeriod struct {
			RequestsMade int64 `json:"requests_made"`
		} `json:"current_period"`
	}
	err = json.NewDecoder(response.Body).Decode(&usage)
	return usage.CurrentPeriod.RequestsMade, err
}

// stopCounted stops the server. It returns an error unless the server has counted as many requests as it acknowledged.
func (s *subject) stopCounted(ctx context.Context, acknowledged int64) error {
	made, err := s.requestsMade(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("acknowledged %d requests, counted %d\n", acknowledged, made-1)
	if made-1 != acknowledged {
		return fmt.Errorf("acknowledged and counted requests differ")
	}
	return s.process.Stop()
}

// get sends a GET request. It returns an error unless the status is 200.
func get(ctx context.Context, url string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		response.Body.Close()
		return nil, fmt.Errorf("GET %s: %s", url, response.Status)
	}
	return response, nil
}

// feedbackStored is the number of stored feedback records, as the operator's command exports them.
func (s *subject) feedbackStored(ctx context.Context) (int64, error) {
	out, err := s.command(ctx, "feedback", "export")
	return int64(strings.Count(out, "\n")), err
}

// letters returns n random letters.
func letters(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	for i := range b {
		b[i] = 'a' + b[i]%26
	}
	return string(b)
}
