// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// guardBench holds the options that the parts of the mode guard share.
type guardBench struct {
	rounds, connections     int
	length                  time.Duration
	pattern                 string
	request, response       string // directives under test
	profiles                string
	idle, aborted, uploadMB int
	upstream                *upstream
}

// guardReport holds the figures of the mode guard. Parts that did not run are nil.
type guardReport struct {
	Go     string        `json:"go"`
	CPUs   int           `json:"cpus"`
	Load   string        `json:"load_before"` // of the machine: the other work on it
	Proxy  []proxyCost   `json:"proxy,omitempty"`
	Upload *uploadCost   `json:"upload,omitempty"`
	Idle   *idleCost     `json:"idle,omitempty"`
	Stream *streamCost   `json:"stream,omitempty"`
	Abort  *abortOutcome `json:"abort,omitempty"`
	Missed []string      `json:"missed_aims"`
}

var guardParts = []string{"proxy", "upload", "idle", "stream", "abort"}

func guard(ctx context.Context, args []string) error {
	var g guardBench
	var only, output string
	err := flags("guard", args, func(f *flag.FlagSet) {
		f.StringVar(&only, "only", strings.Join(guardParts, ","), "parts to run")
		f.IntVar(&g.rounds, "rounds", 9, "rounds with and without the guard")
		f.DurationVar(&g.length, "time", time.Second, "length of a round of proxy")
		f.IntVar(&g.connections, "connections", 32, "connections that send at the same time")
		f.StringVar(&g.pattern, "texts", "engine/train/corpus/everyday.jsonl",
			"files of the texts; those that the guard rejects are left out")
		f.StringVar(&g.request, "moderate", "moderate", "the directive in front of requests")
		f.StringVar(&g.response, "moderate_response", "moderate_response", "the directive in front of answers")
		f.IntVar(&g.idle, "idle", 2_000, "idle connections")
		f.IntVar(&g.aborted, "aborted", 10_000, "aborted requests")
		f.IntVar(&g.uploadMB, "upload", 100, "megabytes of the uploaded file")
		f.StringVar(&g.profiles, "profile", "",
			"folder for CPU profiles of the server in front of posts, taken after the rounds")
		f.StringVar(&output, "json", "", "file for the figures in JSON, - for standard output")
	})
	if err != nil {
		return err
	}
	g.upstream, err = newUpstream()
	if err != nil {
		return err
	}
	defer g.upstream.Close()

	report := guardReport{Go: runtime.Version(), CPUs: runtime.NumCPU(), Load: loadAverage(), Missed: []string{}}
	fmt.Printf("%s, %d CPUs, load %s, server GOMAXPROCS=1; without and with the guard in alternating rounds\n",
		report.Go, report.CPUs, report.Load)
	for part := range strings.SplitSeq(only, ",") {
		switch part {
		case "proxy":
			report.Proxy, err = g.proxy(ctx)
		case "upload":
			report.Upload, err = g.upload(ctx)
		case "idle":
			report.Idle, err = g.idleConnections(ctx)
		case "stream":
			report.Stream, err = g.stream(ctx)
		case "abort":
			report.Abort, err = g.abort(ctx)
		default:
			err = fmt.Errorf("there is no such part, only %s", strings.Join(guardParts, ", "))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", part, err)
		}
	}
	report.Missed = append(report.Missed, report.missed()...)
	if output != "" {
		if err := writeReport(output, report); err != nil {
			return err
		}
	}
	if len(report.Missed) > 0 {
		return errors.New("missed: " + strings.Join(report.Missed, "; "))
	}
	return nil
}

func writeReport(name string, report guardReport) error {
	content, err := json.MarshalIndent(report, "", "\t")
	if err != nil {
		return err
	}
	content = append(content, '\n')
	if name == "-" {
		_, err = os.Stdout.Write(content)
		return err
	}
	return os.WriteFile(name, content, 0o600)
}

// missed lists the aims that are missed.
func (r guardReport) missed() (all []string) {
	for _, p := range r.Proxy {
		if p.Ratio < p.Aim {
			all = append(all, fmt.Sprintf("requests/s with posts of %d bytes: ratio %.3f, aim %.2f", p.Bytes, p.Ratio,
				p.Aim))
		}
	}
	if u := r.Upload; u != nil && u.GrowthGuarded > u.GrowthPlain+uploadAim {
		all = append(all, "bounded memory of an upload")
	}
	if i := r.Idle; i != nil && i.Guarded > i.Plain+i.Plain/10 {
		all = append(all, "memory of idle connections")
	}
	if s := r.Stream; s != nil && s.LagP99MS > lagAim {
		all = append(all, "delay of streamed answers beyond what is held back")
	}
	if a := r.Abort; a != nil {
		all = append(all, a.leaks()...)
	}
	return all
}

// The paths of the site under test: the same reverse_proxy behind each.
const (
	plainPath   = "/plain"
	guardedPath = "/guarded" // behind moderate
	answersPath = "/answers" // behind moderate_response
	bothPath    = "/both"
)

// server starts a server with the directives under test.
func (g *guardBench) server(ctx context.Context) (*subject, error) {
	var site strings.Builder
	for _, path := range []struct{ prefix, directives string }{
		{plainPath, ""}, {guardedPath, g.request}, {answersPath, g.response}, {bothPath, g.request + "\n" + g.response},
	} {
		// Unused connections to the upstream close soon, so that they do not look like leaks.
		fmt.Fprintf(&site, "handle_path %s/* {\n%s\nreverse_proxy %s {\ntransport http {\nkeepalive 3s\n}\n}\n}\n",
			path.prefix, path.directives, g.upstream.Address)
	}
	s, err := newSite("", "servers {\nprotocols h1 h2c\n}", site.String())
	if err != nil {
		return nil, err
	}
	if err := s.start(ctx, "GOMAXPROCS=1"); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// alternate runs rounds of several kinds in turn. The first round of each only warms up. The order is reversed each
// time, so that no kind always follows another.
func alternate[M any](rounds int, kinds []string, one func(kind string) (M, error)) (map[string][]M, error) {
	results := map[string][]M{}
	order := slices.Clone(kinds)
	for round := range rounds + 1 {
		for _, kind := range order {
			m, err := one(kind)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", kind, err)
			}
			if round > 0 {
				results[kind] = append(results[kind], m)
			}
		}
		slices.Reverse(order)
	}
	return results, nil
}

// ratio is the median of the ratios of a figure in neighbouring rounds, so that other work on the machine affects both.
// It is 0 where the figure is not available.
func ratio[M any](above, below []M, figure func(M) float64) float64 {
	ratios := make([]float64, len(above))
	for i := range above {
		if figure(below[i]) == 0 {
			return 0
		}
		ratios[i] = figure(above[i]) / figure(below[i])
	}
	return middle(ratios, func(r float64) float64 { return r })
}

// loadAverage returns the load averages of the machine, as uptime prints them. It is empty on systems without /proc.
func loadAverage() string {
	content, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	fields := strings.Fields(string(content))
	return strings.Join(fields[:min(3, len(fields))], " ")
}
