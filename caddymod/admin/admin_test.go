// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/feedback"
	"github.com/caddy-moderation/caddy-moderation/internal/freeport"
	"github.com/caddy-moderation/caddy-moderation/storage"
)

var update = flag.Bool("update", false, "write the golden files anew")

// declaredHash is the hash of a key that nobody has.
const declaredHash = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

// address is that of the admin endpoint of the configuration that runs. Each has another one: Caddy closes the one of
// the configuration before in the background, and connections that still reach it are reset.
var address string

// freeAddress returns an address that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	addresses, err := freeport.Addresses(1)
	if err != nil {
		t.Fatal(err)
	}
	return addresses[0]
}

// load runs the service until the test ends; moderation are options of the app, without which there is no app. Caddy
// is one per process, so tests that load do not run in parallel.
func load(t *testing.T, moderation string) {
	t.Helper()
	loadAt(t, freeAddress(t), moderation)
}

// loadAt is load with an admin endpoint of the test's own: its address, and a block of options.
func loadAt(t *testing.T, admin, moderation string) {
	t.Helper()
	address = admin
	option := ""
	if moderation != "" {
		option = `moderation {
		demo off
		tier free 1000 10
		tier starter 25000 60
		account fixed {
			tier starter
			key ` + declaredHash + ` {
				name "in the file"
			}
		}
		` + strings.ReplaceAll(moderation, "DIR", t.TempDir()) + `
	}`
	}
	adapted, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(`{
	admin `+admin+`
	persist_config off
	log {
		output discard
	}
	`+option+`
}`), map[string]any{"filename": "Caddyfile"})
	if err != nil {
		t.Fatalf("adapting: %v", err)
	}
	if err := caddy.Load(adapted, true); err != nil {
		t.Fatalf("loading: %v", err)
	}
	t.Cleanup(func() {
		// A connection that the next test would use again may be closed by then.
		http.DefaultClient.CloseIdleConnections()
		if err := caddy.Stop(); err != nil {
			t.Errorf("stopping Caddy: %v", err)
		}
	})
}

// services returns the services of the configuration that runs.
func services(t *testing.T) *app.Services {
	t.Helper()
	running, err := activeApp()
	if err != nil {
		t.Fatal(err)
	}
	services, err := running.Services(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return services
}

// reply is an answer with its whole body.
type reply struct {
	status int
	header http.Header
	body   string
}

// want fails the test unless the reply has this status and this body.
func (r reply) want(t *testing.T, status int, body string) {
	t.Helper()
	if r.status != status || r.body != body {
		t.Errorf("got %d %s, want %d %s", r.status, r.body, status, body)
	}
}

// send asks the admin endpoint; headers are pairs of names and values.
func send(t *testing.T, method, path, body string, headers ...string) reply {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, "http://"+address+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
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
	return reply{answer.StatusCode, answer.Header, strings.TrimSpace(string(received))}
}

// run runs the command as a terminal would.
func run(t *testing.T, arguments ...string) (stdout, stderr string, err error) {
	t.Helper()
	return runLine(t, newCLI(), arguments...)
}

// runLine is run for a command line of a test's own.
func runLine(t *testing.T, line *cli, arguments ...string) (stdout, stderr string, err error) {
	t.Helper()
	return runAt(t, address, line, arguments...)
}

// runAt is runLine for another admin endpoint; "" leaves it to the environment.
func runAt(t *testing.T, admin string, line *cli, arguments ...string) (stdout, stderr string, err error) {
	t.Helper()
	if admin != "" {
		arguments = append(arguments, "--address", admin)
	}
	root := &cobra.Command{Use: "moderation", SilenceUsage: true}
	line.addTo(root)
	var out, notes bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&notes)
	root.SetIn(strings.NewReader(""))
	root.SetArgs(arguments)
	err = root.ExecuteContext(t.Context())
	return out.String(), notes.String(), err
}

// must runs a command that succeeds and returns what it prints.
func must(t *testing.T, arguments ...string) string {
	t.Helper()
	stdout, stderr, err := run(t, arguments...)
	if err != nil {
		t.Fatalf("running %q: %s", strings.Join(arguments, " "), stderr)
	}
	return strings.TrimSpace(stdout)
}

// What differs from run to run.
var (
	secrets  = regexp.MustCompile(`mod_sk_[0-9A-Za-z]{32}`)
	keyIDs   = regexp.MustCompile(`key_[0-9A-Za-z]{16}`)
	instants = regexp.MustCompile(`20[0-9]{2}-[0-9]{2}-[0-9]{2}([T ][0-9:.]+( UTC|Z)?)?`)
)

// normalized returns a text without what differs from run to run.
func normalized(text string) string {
	text = secrets.ReplaceAllString(text, "mod_sk_SECRETSECRETSECRETSECRETSECRETSE")
	text = keyIDs.ReplaceAllString(text, "key_IDIDIDIDIDIDIDID")
	// Instants keep their length, so that tables keep their columns.
	return instants.ReplaceAllStringFunc(text, func(instant string) string {
		if strings.Contains(instant, "T") {
			return "INSTANT" // fractions of seconds have no constant length
		}
		return strings.Repeat("#", len(instant))
	})
}

// golden compares a text with the one that is written down.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", file, got, want)
	}
}

// keep stores feedback of an account.
func keep(t *testing.T, account string, texts ...string) {
	t.Helper()
	at := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	for i, text := range texts {
		err := services(t).Store.AppendFeedback(t.Context(), feedback.Record{
			ID: "fb_" + account + text, Time: at.Add(time.Duration(i) * time.Second), Account: account, Key: "key_1", Text: text,
			Scores:       map[string]feedback.AttributeScore{"TOXICITY": {Summary: &feedback.Score{Value: 1, Type: "PROBABILITY"}}},
			ModelVersion: "m", ModelScores: map[string]float64{"TOXICITY": 0.5},
		}, feedback.Bound{})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func init() { caddy.RegisterModule(new(brokenStorage)) }

// brokenStorage is a store whose feedback and backup break off in the middle, and which is not ready.
type brokenStorage struct{ app.Badger }

func (*brokenStorage) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "moderation.storage.broken", New: func() caddy.Module { return new(brokenStorage) }}
}

func (b *brokenStorage) Open(ctx context.Context, logger *zap.Logger) (storage.Store, error) {
	store, err := b.Badger.Open(ctx, logger)
	return &brokenStore{Store: store}, err
}

func init() { caddy.RegisterModule(new(awayStorage)) }

// awayStorage is a store that several nodes share, and whose server cannot be reached.
type awayStorage struct{ app.Badger }

func (*awayStorage) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "moderation.storage.away", New: func() caddy.Module { return new(awayStorage) }}
}

func (b *awayStorage) Open(ctx context.Context, logger *zap.Logger) (storage.Store, error) {
	store, err := b.Badger.Open(ctx, logger)
	return &awayStore{Store: store}, err
}

type awayStore struct{ storage.Store }

func (*awayStore) Mode() string { return string(app.Local) }

func (*awayStore) Health() error { return fmt.Errorf("%w: nobody answers", storage.ErrUnavailable) }

type brokenStore struct {
	storage.Store
	asked int
}

var errBroken = errors.New("a secret of the disk")

func (*brokenStore) Feedback(_ context.Context, account string) iter.Seq2[feedback.Record, error] {
	return func(yield func(feedback.Record, error) bool) {
		for range 3 * flushEvery {
			if account != "early" && !yield(feedback.Record{ID: "fb_1", Account: account}, nil) {
				return
			}
		}
		yield(feedback.Record{}, errBroken)
	}
}

func (*brokenStore) Backup(_ context.Context, w io.Writer) error {
	if _, err := w.Write(bytes.Repeat([]byte("x"), 100_000)); err != nil {
		return err
	}
	return errBroken
}

// Seeded answers the app when it starts and nobody after that.
func (b *brokenStore) Seeded(ctx context.Context) (bool, error) {
	if b.asked++; b.asked > 1 {
		return false, storage.ErrUnavailable
	}
	return b.Store.Seeded(ctx)
}
