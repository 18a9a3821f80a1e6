// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/caddy-moderation/caddy-moderation/scripts/internal/server"
)

// shorter are the durations of rules.yml, and what they are for a Prometheus that scrapes every second and a scenario
// that lasts seconds. Thresholds stay as they are, but for one: next to other scenarios the server does not get nine
// tenths of a core.
var shorter = map[string]string{
	"[5m]": "[6s]", "[15m]": "[12s]", "[1h]": "[30s]", "[1d]": "[8s]", "[2d]": "[10s]",
	"offset 1h": "offset 10s", "offset 1d": "offset 10s", "2 * 86400": "8",
	"gomaxprocs_threads > 0.9": "gomaxprocs_threads > 0.1",
}

var (
	duration = regexp.MustCompile(`\[\d+[smhd]\]|offset \d+[smhd]|\d+ \* 86400|` +
		`gomaxprocs_threads > 0\.9`)
	holding = regexp.MustCompile(`(?m)^( +for:) \d+[smhd]$`)
)

// shorten shortens the durations of rules.
func shorten(rules string) (string, error) {
	var unknown []string
	rules = duration.ReplaceAllStringFunc(rules, func(found string) string {
		if shorter[found] == "" {
			unknown = append(unknown, found)
		}
		return shorter[found]
	})
	if len(unknown) > 0 {
		return "", fmt.Errorf("%s has durations that the scenarios cannot shorten: %s", rulesFile,
			strings.Join(unknown, ", "))
	}
	return holding.ReplaceAllString(rules, "$1 1s"), nil
}

// monitor starts Prometheus with the rules. It scrapes the server and other targets.
func (s *stage) monitor(others ...string) {
	if s.failed() || s.tools == "" {
		return
	}
	text, err := os.ReadFile(rulesFile)
	if err != nil {
		s.fail("%w", err)
		return
	}
	rules, err := shorten(string(text))
	s.must(err)
	s.must(os.WriteFile(filepath.Join(s.folder, "rules.yml"), []byte(rules), 0o600))
	config := fmt.Sprintf(`global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}
rule_files: [rules.yml]
scrape_configs:
  - job_name: caddy-moderation
    static_configs: [{targets: [%s]}]
`, strings.Join(append([]string{"'localhost:2019'"}, others...), ", "))
	file := filepath.Join(s.folder, "prometheus.yml")
	s.must(os.WriteFile(file, []byte(config), 0o600))
	process, err := server.Start(context.WithoutCancel(s.context), server.Options{
		Command: []string{filepath.Join(s.tools, "prometheus"), "--config.file=" + file,
			"--storage.tsdb.path=" + filepath.Join(s.folder, "tsdb"), "--web.listen-address=localhost:9090",
			"--query.lookback-delta=5s", "--log.level=error"},
		Listen: "localhost:9090", Timeout: patience,
	})
	if err != nil {
		s.fail("%w", err)
		return
	}
	s.undo = append(s.undo, process.Kill)
}

// alerts returns the alerts that fire.
func (s *stage) alerts() map[string]bool {
	_, body := s.get(prometheus + "/api/v1/alerts")
	var answer struct {
		Data struct {
			Alerts []struct {
				Labels map[string]string
				State  string
			}
		}
	}
	if json.Unmarshal([]byte(body), &answer) != nil {
		return nil
	}
	firing := map[string]bool{}
	for _, a := range answer.Data.Alerts {
		if a.State == "firing" {
			firing[a.Labels["alertname"]] = true
		}
	}
	return firing
}

// fires waits until alerts fire.
func (s *stage) fires(names ...string) {
	if s.tools == "" {
		return
	}
	for _, name := range names {
		began := time.Now()
		s.until("the alert "+name+" fires", func() bool { return s.alerts()[name] })
		if !s.failed() {
			s.note("the alert %s fires after %s", name, time.Since(began).Round(time.Second))
		}
	}
}

// ends waits until alerts no longer fire.
func (s *stage) ends(names ...string) {
	if s.tools == "" {
		return
	}
	for _, name := range names {
		s.until("the alert "+name+" has ended", func() bool {
			firing := s.alerts()
			return firing != nil && !firing[name]
		})
		if !s.failed() {
			s.note("the alert %s has ended", name)
		}
	}
}

// query returns the number of series that an expression has, and an error if it cannot be parsed.
func (s *stage) query(expression string) (series int, err error) {
	_, body := s.get(prometheus + "/api/v1/query?query=" + url.QueryEscape(expression))
	var answer struct {
		Status, Error string
		Data          struct{ Result []json.RawMessage }
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		return 0, err
	}
	if answer.Status != "success" {
		return 0, fmt.Errorf("%s: %s", expression, answer.Error)
	}
	return len(answer.Data.Result), nil
}
