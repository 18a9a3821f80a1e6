// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// dashboard is what is read of the dashboard.
type dashboard struct {
	Panels []panel `json:"panels"`
}

type panel struct {
	ID      int    `json:"id"`
	Title   string `json:"title"`
	Type    string `json:"type"`
	GridPos struct {
		H, W, X, Y int
	} `json:"gridPos"`
	Description string `json:"description"`
	Targets     []struct {
		Expr  string `json:"expr"`
		RefID string `json:"refId"`
	} `json:"targets"`
}

func readDashboard(file string) (d dashboard, err error) {
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	return d, err
}

// substituted returns the expression of a panel as Grafana would send it.
func substituted(expression string) string {
	return strings.NewReplacer("$__rate_interval", "6s", "$job", ".*", "$instance", ".*").Replace(expression)
}

// silent are panels that have no data in a sound server under light traffic.
var silent = []string{
	"Backup", "Mode of a shared store", "Admitted without the server of the store", "Commands to the server of the store",
}

// otherVersion serves the metrics of the server as one of another version would.
func (s *stage) otherVersion() {
	other := &http.Server{Addr: "localhost:2021", ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) {
			_, body := s.get(admin + "/metrics")
			w.Header().Set("Content-Type", "text/plain; version=0.0.4")
			_, _ = w.Write([]byte(regexp.MustCompile(`(caddy_moderation_build_info\{.*version=")[^"]*`).
				ReplaceAllString(body, "${1}v0.0.1-older")))
		})}
	go func() { _ = other.ListenAndServe() }()
	s.undo = append(s.undo, func() { _ = other.Close() })
}

// names sends light traffic of all kinds, and asks Prometheus for each expression of the dashboard.
func names(s *stage) {
	theirs := &http.Server{Addr: "localhost:8098", ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"attributeScores":{"TOXICITY":{"summaryScore":{"value":0.5,"type":"PROBABILITY"}}},` +
				`"languages":["en"]}`))
		})}
	go func() { _ = theirs.ListenAndServe() }()
	s.undo = append(s.undo, func() { _ = theirs.Close() })
	s.config("", "review {\nof review reject\n}", `http://localhost:8082 {
	handle /v1alpha1/comments:analyze {
		moderation_compare http://localhost:8098
	}
	handle /llm {
		moderate
		moderate_response
		respond "What a day"
	}
	handle /shadow {
		moderate {
			shadow
		}
		respond "thanks"
	}
	handle {
		moderation_key_auth
		moderation_rate_limit
		respond "ok"
	}
}
`)
	s.start()
	s.otherVersion()
	s.monitor("'localhost:2021'")
	s.load(100*time.Millisecond, func() {
		s.moderate(acmeKey, harmless)
		s.moderate(acmeKey, harmful)
		s.moderate("", harmless)
		s.comment("/guarded", harmless)
		s.comment("/guarded", harmful)
		s.suggest(acmeKey)
		if response, err := client.Post("http://localhost:8082/shadow", "application/x-www-form-urlencoded",
			strings.NewReader("comment="+strings.ReplaceAll(harmful, " ", "+"))); err == nil {
			_ = response.Body.Close()
		}
		s.post("/guarded", "", "text/plain; charset=x-nosuch", "What a day")
		s.post("/v1/moderations", acmeKey, "application/json", `{"input":"What a day"}`)
		s.post("/api/perspective/v1alpha1/comments:analyze", acmeKey, "application/json",
			`{"comment":{"text":"What a day"},"requestedAttributes":{"TOXICITY":{}}}`)
		for _, path := range []string{"/v1alpha1/comments:analyze", "/llm", "/other"} {
			request, err := http.NewRequestWithContext(s.context, http.MethodPost, "http://localhost:8082"+path,
				strings.NewReader(`{"comment":{"text":"What a day"},"requestedAttributes":{"TOXICITY":{}}}`))
			if err != nil {
				return
			}
			request.Header.Set("Content-Type", "application/json")
			request.Header.Set("Authorization", "Bearer "+acmeKey)
			if response, err := client.Do(request); err == nil {
				_ = response.Body.Close()
			}
		}
		request, _ := http.NewRequestWithContext(s.context, http.MethodGet, site+"/v1/usage", nil)
		request.Header.Set("Authorization", "Bearer "+acmeKey)
		if response, err := client.Do(request); err == nil {
			_ = response.Body.Close()
		}
	})
	s.run("caddy moderation backup " + library + "/names.backup")
	s.fires("ModerationVersionSkew")
	s.look("ModerationVersionSkew", "ModerationClockWrong")
	s.pause(6 * time.Second)
	s.scrape()
	if s.tools == "" {
		return
	}
	d, err := readDashboard(dashboardFile)
	s.must(err)
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			n, err := s.query(substituted(target.Expr))
			if err != nil || n == 0 && !slices.Contains(silent, p.Title) {
				s.fail("the panel %q, %s: got %d series, error %v, want data", p.Title, target.Expr, n, err)
			}
		}
	}
	// The rules, as they are, are expressions that Prometheus takes.
	s.run(filepath.Join(s.tools, "promtool") + " check rules " + rulesFile)
}

var (
	metricName = regexp.MustCompile(`\b(?:caddy|go|process|promhttp)_[a-z0-9_]+`)
	selector   = regexp.MustCompile(`((?:caddy|go|process|promhttp)_[a-z0-9_]+)\{([^}]*)\}`)
	matcher    = regexp.MustCompile(`([a-zA-Z_]+)\s*(=~|=|!=|!~)\s*"([^"]*)"`)
	grouping   = regexp.MustCompile(`\b(?:by|on) \(([^)]*)\)`)
	ofProject  = regexp.MustCompile(`(?m)^# TYPE (caddy_moderation_[a-z0-9_]+) `)
)

// notOnDashboard are metrics of this project that the dashboard lacks, with the reason.
var notOnDashboard = map[string]string{
	"caddy_moderation_time_seconds":            "only the distance from the clock of Prometheus says anything",
	"caddy_moderation_compare_exchanges_total": "for the weeks of a migration: see docs/migrate-perspective.md",
	"caddy_moderation_compare_total":           "for the weeks of a migration: see docs/migrate-perspective.md",
	"caddy_moderation_compare_difference":      "for the weeks of a migration: see docs/migrate-perspective.md",
}

// ofSharedStores are the metrics that only the scenario shared-store shows, which is skipped without a Redis server.
var ofSharedStores = regexp.MustCompile(`^caddy_moderation_(store_mode|store_command_seconds|outage_requests_total)`)

// ofPrometheus are labels that Prometheus and recording rules add.
var ofPrometheus = []string{"job", "instance", "source", "le"}

// checkNames checks that each metric, label and value of a label that the rules and the dashboard use was in the
// metrics of the server, and that the dashboard has each metric of this project.
func checkNames(evidence map[string]string) (wrong []string) {
	var all strings.Builder
	for _, text := range evidence {
		all.WriteString(text)
	}
	shown := all.String()
	d, err := readDashboard(dashboardFile)
	if err != nil {
		return []string{err.Error()}
	}
	rules, err := os.ReadFile(rulesFile)
	if err != nil {
		return []string{err.Error()}
	}
	var onDashboard strings.Builder
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			onDashboard.WriteString(target.Expr + "\n")
		}
	}
	// Recording rules are named after metrics, with a colon before and behind.
	recorded := regexp.MustCompile(`[a-z_]+:[a-z_]+:[a-z0-9_]+`)
	used := recorded.ReplaceAllString(onDashboard.String()+string(rules), "")
	_, shared := evidence["shared-store"]
	for _, name := range metricName.FindAllString(used, -1) {
		if !shared && ofSharedStores.MatchString(name) {
			continue
		}
		if !regexp.MustCompile(`(?m)^` + name + `[{ ]`).MatchString(shown) {
			wrong = append(wrong, "no scrape has the metric "+name)
		}
	}
	for _, found := range selector.FindAllStringSubmatch(used, -1) {
		if !shared && ofSharedStores.MatchString(found[1]) {
			continue
		}
		for _, m := range matcher.FindAllStringSubmatch(found[2], -1) {
			if slices.Contains(ofPrometheus, m[1]) {
				continue
			}
			for value := range strings.SplitSeq(m[3], "|") {
				if !regexp.MustCompile(`(?m)^` + found[1] + `\{[^}\n]*\b` + m[1] + `="` + value + `"`).MatchString(shown) {
					wrong = append(wrong, fmt.Sprintf("no scrape has %s{%s=%q}", found[1], m[1], value))
				}
			}
		}
	}
	for _, found := range grouping.FindAllStringSubmatch(used, -1) {
		for name := range strings.SplitSeq(found[1], ",") {
			name = strings.TrimSpace(name)
			if !shared && (name == "mode" || name == "basis") {
				continue // labels of ofSharedStores
			}
			if !slices.Contains(ofPrometheus, name) && !strings.Contains(shown, name+`="`) {
				wrong = append(wrong, "no scrape has the label "+name)
			}
		}
	}
	for _, found := range ofProject.FindAllStringSubmatch(shown, -1) {
		if notOnDashboard[found[1]] == "" && !strings.Contains(onDashboard.String(), found[1]) {
			wrong = append(wrong, "the dashboard lacks "+found[1])
		}
	}
	slices.Sort(wrong)
	return slices.Compact(wrong)
}
