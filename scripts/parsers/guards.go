// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"text/template"
	"time"

	"github.com/caddy-moderation/caddy-moderation/internal/freeport"
	"github.com/caddy-moderation/caddy-moderation/scripts/internal/server"
)

// guard is one of the sites: a configuration in front of all parsers.
type guard struct {
	name string
	// directive is the directive in its Caddyfile.
	directive string
	// closed says that nothing unjudged may reach the app.
	closed bool
	// minBody is the size, in bytes, that a body must exceed for the guard to be asked.
	minBody int
	peer    *peer
}

// guards returns the configurations that are asked.
func guards() []*guard {
	return []*guard{
		{name: "default", directive: "moderate"},
		{name: "on_error reject", directive: "moderate {\n\t\ton_error reject\n\t}", closed: true},
		// Here a form with a file of a few kilobytes is a large upload.
		{name: "streamed", directive: "moderate {\n\t\ton_error reject\n\t\tmax_body 4096\n\t}", closed: true,
			minBody: 4096},
	}
}

// Fields in which the sink tells what it received.
const (
	sawStatus         = "Rig-Status"
	sawRecommendation = "Rig-Recommendation"
)

var config = template.Must(template.New("Caddyfile").Parse(`{
	admin off
	persist_config off
	auto_https off
	default_bind 127.0.0.1
	moderation {
		storage badger {{.Folder}}/data
		demo off
	}
	log {
		level ERROR
	}
}
{{range .Guards}}
http://{{.Address}} {
	{{if $.Guarded}}{{.Directive}}{{end}}
	{{range $.Parsers}}
	handle /{{.Name}} {
		reverse_proxy {{.Address}}
	}
	{{end}}
	handle {
		reverse_proxy {{$.Sink}}
	}
}
{{end}}`))

// rig is everything that runs: the parsers, and the server in front of them.
type rig struct {
	guarded bool
	guards  []*guard
	parsers []*runningParser
	folder  string
	caddy   *server.Process
	stops   []func()
}

// runningParser is a parser that runs.
type runningParser struct {
	parser
	*peer
	process *server.Process

	mu                               sync.Mutex
	asked, understood, failed, alone int
	late                             int
	took                             time.Duration
}

// start starts everything. What the machine lacks is skipped with a line.
func (r *rig) start(ctx context.Context, o options, wanted []parser, t *tools) (err error) {
	if r.folder, err = os.MkdirTemp("", "caddy-moderation-parsers-"); err != nil {
		return err
	}
	if err := r.startParsers(ctx, wanted, t); err != nil {
		return err
	}
	return r.startSite(ctx, o)
}

func (r *rig) startParsers(ctx context.Context, wanted []parser, t *tools) error {
	addresses, err := freeport.Addresses(len(wanted))
	if err != nil {
		return err
	}
	var wait sync.WaitGroup
	errs := make([]error, len(wanted))
	for i, p := range wanted {
		if why := t.missing(p); why != "" {
			fmt.Printf("skip: %s: %s\n", p.name, why)
			continue
		}
		a := &runningParser{parser: p, peer: newPeer(addresses[i])}
		r.parsers = append(r.parsers, a)
		if p.kind == "go" {
			stop, err := startGo(a.address)
			if err != nil {
				return err
			}
			r.stops = append(r.stops, stop)
			continue
		}
		wait.Go(func() {
			dir, err := filepath.Abs(filepath.Join(folder, p.kind))
			if err != nil {
				errs[i] = err
				return
			}
			a.process, err = server.Start(ctx, server.Options{
				Command: t.command(p, a.address),
				Dir:     dir,
				Env:     []string{"NODE_ENV=production", "NO_DEPRECATION=*", "TMPDIR=" + r.folder},
				Listen:  a.address,
				Timeout: time.Minute,
			})
			if err != nil {
				errs[i] = fmt.Errorf("%s: %w", p.name, err)
			}
		})
	}
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *rig) startSite(ctx context.Context, o options) error {
	binary, err := filepath.Abs(o.caddy)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	sink := &http.Server{Handler: http.HandlerFunc(serveSink)}
	go func() { _ = sink.Serve(listener) }()
	r.stops = append(r.stops, func() { sink.Close() })

	type named struct{ Name, Address, Directive string }
	var sites, apps []named
	r.guards = guards()
	addresses, err := freeport.Addresses(len(r.guards))
	if err != nil {
		return err
	}
	for i, g := range r.guards {
		g.peer = newPeer(addresses[i])
		sites = append(sites, named{Address: addresses[i], Directive: g.directive})
	}
	for _, p := range r.parsers {
		apps = append(apps, named{Name: p.name, Address: p.address})
	}
	var text bytes.Buffer
	err = config.Execute(&text, map[string]any{
		"Folder": r.folder, "Guards": sites, "Parsers": apps, "Sink": listener.Addr().String(), "Guarded": !o.unguarded,
	})
	if err != nil {
		return err
	}
	caddyfile := filepath.Join(r.folder, "Caddyfile")
	if err := os.WriteFile(caddyfile, text.Bytes(), 0o600); err != nil {
		return err
	}
	r.caddy, err = server.Start(ctx, server.Options{
		Command: []string{binary, "run", "--config", caddyfile, "--adapter", "caddyfile"},
		Dir:     r.folder,
		Env:     []string{"XDG_DATA_HOME=" + r.folder, "XDG_CONFIG_HOME=" + r.folder},
		Listen:  addresses[len(addresses)-1],
	})
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(answerTimeout); ; time.Sleep(5 * time.Millisecond) {
		ready := 0
		for _, address := range addresses {
			if conn, err := net.Dial("tcp", address); err == nil {
				conn.Close()
				ready++
			}
		}
		if ready == len(addresses) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the server listens on %d of %d addresses:\n%s", ready, len(addresses), r.caddy.Output())
		}
	}
}

// serveSink is an app that reads everything and answers what the guard told it.
func serveSink(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		http.Error(w, "broken off", http.StatusBadRequest)
		return
	}
	w.Header().Set(sawStatus, r.Header.Get("X-Moderation-Status"))
	w.Header().Set(sawRecommendation, r.Header.Get("X-Moderation-Recommendation"))
}

func (r *rig) close() {
	var wait sync.WaitGroup
	if r.caddy != nil {
		wait.Go(r.caddy.Kill)
	}
	for _, p := range r.parsers {
		if p.process != nil {
			// gunicorn ends its workers when it is asked to, and not when it is killed.
			wait.Go(func() { _ = p.process.Stop() })
		}
	}
	for _, stop := range r.stops {
		stop()
	}
	wait.Wait()
	_ = os.RemoveAll(r.folder)
}

// verdict is what a guard made of a request.
type verdict struct {
	code   int // 0 when there was no answer
	status string
	review bool
	body   string
}

// check asks a guard about a request, with the sink behind it.
func (g *guard) check(r *request) verdict {
	a, err := g.peer.ask(r, "/")
	if err != nil {
		return verdict{}
	}
	return verdict{code: a.status, status: a.header.Get(sawStatus),
		review: a.header.Get(sawRecommendation) == "review", body: string(a.body)}
}

// passed reports whether a text that had to be refused passed silently.
func (g *guard) passed(v verdict) bool {
	if v.code < 200 || v.code >= 300 || v.review {
		return false
	}
	switch v.status {
	case "error", "skipped", "partial":
		return g.closed
	}
	return true
}
