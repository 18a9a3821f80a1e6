// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/modules/metrics"

	_ "github.com/caddy-moderation/caddy-moderation/caddymod/api"
	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	_ "github.com/caddy-moderation/caddy-moderation/caddymod/health"
	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage/badger"
	"github.com/caddy-moderation/caddy-moderation/storage/contents"
	"github.com/caddy-moderation/caddy-moderation/storage/redis/redistest"
)

// site is a server whose store is moved.
type site struct {
	t *testing.T
	// site is the address of its site.
	site string
	// dir holds the files of configurations.
	dir string
}

// newSite runs a server with a storage until the test ends.
func newSite(t *testing.T, storage string) *site {
	t.Helper()
	address = freeAddress(t)
	s := &site{t: t, site: freeAddress(t), dir: t.TempDir()}
	file := s.file(storage)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	adapted, _, err := caddyconfig.GetAdapter("caddyfile").Adapt(text, map[string]any{"filename": file})
	if err != nil {
		t.Fatal(err)
	}
	if err := caddy.Load(adapted, true); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		if err := caddy.Stop(); err != nil {
			t.Errorf("stopping Caddy: %v", err)
		}
	})
	return s
}

// file writes a configuration with a storage.
func (s *site) file(storage string) string {
	s.t.Helper()
	file := filepath.Join(s.dir, fmt.Sprintf("Caddyfile.%d", time.Now().UnixNano()))
	err := os.WriteFile(file, []byte(`{
	admin `+address+`
	persist_config off
	log {
		output discard
	}
	moderation {
		demo off
		tier endless 0 0
		storage `+storage+`
	}
}

http://`+s.site+` {
	moderation_health /health
	moderation_api
}
`), 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	return file
}

// post asks the site.
func (s *site) post(key string) (status int, header http.Header, body string, err error) {
	request, err := http.NewRequest(http.MethodPost, "http://"+s.site+"/v1/moderate/text",
		strings.NewReader(`{"content":"a text"}`))
	if err != nil {
		return 0, nil, "", err
	}
	request.Header.Set("Authorization", "Bearer "+key)
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		return 0, nil, "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return answer.StatusCode, answer.Header, string(text), err
}

// ledger is what clients know of their calls.
type ledger struct {
	served, refused, unknown atomic.Int64

	mu       sync.Mutex
	accounts []string
}

// work lets clients ask until stop is called.
func (s *site) work(key string) (book *ledger, stop func()) {
	s.t.Helper()
	book = new(ledger)
	ended := make(chan struct{})
	var group sync.WaitGroup
	loop := func(do func(i int)) {
		group.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-ended:
					return
				default:
					do(i)
				}
			}
		})
	}
	for range 4 {
		loop(func(int) {
			status, header, body, err := s.post(key)
			switch {
			case err != nil:
				book.unknown.Add(1) // a reload closes connections
			case status == http.StatusOK:
				book.served.Add(1)
			case status == http.StatusServiceUnavailable && header.Get("Retry-After") == "5" &&
				strings.Contains(body, "storage_unavailable") && strings.Contains(body, "moved to another store"):
				book.refused.Add(1)
				time.Sleep(time.Millisecond)
			default:
				s.t.Errorf("under load: got %d %s (Retry-After %q)", status, body, header.Get("Retry-After"))
			}
		})
	}
	loop(func(i int) {
		id := fmt.Sprintf("made-%06d", i)
		request, err := http.NewRequest(http.MethodPost, "http://"+address+"/moderation/accounts",
			strings.NewReader(`{"id":"`+id+`","tier":"endless"}`))
		if err != nil {
			return
		}
		answer, err := http.DefaultTransport.RoundTrip(request)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
		if answer.StatusCode == http.StatusCreated {
			book.mu.Lock()
			book.accounts = append(book.accounts, id)
			book.mu.Unlock()
		} else {
			time.Sleep(10 * time.Millisecond)
		}
	})
	return book, func() {
		close(ended)
		group.Wait()
	}
}

// check compares the ledger with what the running server has counted.
func (b *ledger) check(t *testing.T, account string) {
	t.Helper()
	usage, err := services(t).Gate.Usage(t.Context(), account)
	if err != nil {
		t.Fatal(err)
	}
	served, most := b.served.Load(), b.served.Load()+b.unknown.Load()
	if n := usage.Counts.Period; n < served || n > most {
		t.Errorf("got %d requests counted, want %d that were answered, and up to %d", n, served, most)
	}
	for _, id := range b.accounts {
		if _, err := services(t).Gate.Account(t.Context(), id); err != nil {
			t.Errorf("an account that was acknowledged: got the error %v, want none", err)
		}
	}
	if served == 0 || len(b.accounts) == 0 {
		t.Errorf("got %d served and %d accounts, want some of both", served, len(b.accounts))
	}
	t.Logf("%d served, %d refused while read-only, %d unknown, %d accounts", served, b.refused.Load(), b.unknown.Load(),
		len(b.accounts))
}

// keyOf makes an account and a key of it.
func keyOf(t *testing.T, account string) string {
	t.Helper()
	must(t, "account", "create", account, "--tier", "endless")
	return must(t, "key", "create", "--account", account)
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("in 30 s it did not happen that %s", what)
		}
	}
}

// moves are the storages that are moved to and fro.
func moves(t *testing.T, do func(t *testing.T, from, to func(t *testing.T) (words []string, storage string))) {
	t.Helper()
	directory := func(t *testing.T) ([]string, string) {
		dir := t.TempDir()
		return []string{"badger", dir}, "badger " + dir
	}
	server := func(t *testing.T) ([]string, string) {
		address := redistest.Run(t, redistest.Options{}).Addr()
		return []string{"redis", address}, "redis " + address + " {\n\t\t\ttimeout 1s\n\t\t}"
	}
	for name, pair := range map[string][2]func(*testing.T) ([]string, string){
		"badger to badger": {directory, directory},
		"badger to redis":  {directory, server},
		"redis to badger":  {server, directory},
		"redis to redis":   {server, server},
	} {
		t.Run(name, func(t *testing.T) { do(t, pair[0], pair[1]) })
	}
}

// TestMigrateUnderLoad moves the store of a server that clients use, and loads the new configuration: nothing that was
// acknowledged is lost, and nothing is counted twice.
func TestMigrateUnderLoad(t *testing.T) {
	moves(t, func(t *testing.T, from, to func(*testing.T) ([]string, string)) {
		fromWords, fromStorage := from(t)
		toWords, toStorage := to(t)
		s := newSite(t, fromStorage)
		key := keyOf(t, "acme")
		book, stop := s.work(key)
		eventually(t, "clients are served", func() bool { return book.served.Load() > 50 })
		arguments := append(append([]string{"migrate"}, fromWords...), toWords...)
		stdout, stderr, err := run(t, append(arguments, "--config", s.file(toStorage))...)
		if err != nil {
			stop()
			t.Fatalf("migrate: %v\n%s%s", err, stdout, stderr)
		}
		before := book.served.Load()
		eventually(t, "clients are served by the new store", func() bool { return book.served.Load() > before+50 })
		stop()
		book.check(t, "acme")
		for _, part := range []string{"Accounts", "then", "Read-only", "Digest"} {
			if !strings.Contains(stdout, part) {
				t.Errorf("the report lacks %q:\n%s", part, stdout)
			}
		}
		t.Log(stdout, stderr)
	})
}

// TestMigrateIsReadOnlyUntilUndone looks at the phase between the migration and the new configuration, and goes back.
func TestMigrateIsReadOnlyUntilUndone(t *testing.T) {
	moves(t, func(t *testing.T, from, to func(*testing.T) ([]string, string)) {
		fromWords, fromStorage := from(t)
		toWords, _ := to(t)
		s := newSite(t, fromStorage)
		key := keyOf(t, "acme")
		if status, _, body, err := s.post(key); status != http.StatusOK {
			t.Fatalf("before: got %d %s (%v)", status, body, err)
		}
		if stdout, _, err := run(t, "migrate", "--status"); err == nil {
			t.Errorf("the state without a migration: got %s, want an error", stdout)
		}
		arguments := append(append([]string{"migrate"}, fromWords...), toWords...)
		must(t, arguments...)
		if status, header, body, _ := s.post(key); status != http.StatusServiceUnavailable ||
			header.Get("Retry-After") != "5" || !strings.Contains(body, "moved to another store") {
			t.Errorf("while read-only: got %d %s, want 503 and why", status, body)
		}
		send(t, http.MethodPost, "/moderation/accounts", `{"id":"new","tier":"endless"}`).want(t, http.StatusServiceUnavailable,
			`{"error":"the store is read-only: everything is moved to `+place4(toWords)+`"}`)
		if got := send(t, http.MethodGet, "/moderation/accounts/acme", ""); got.status != http.StatusOK {
			t.Errorf("reading while read-only: got %d, want 200", got.status)
		}
		if got := send(t, http.MethodGet, "/moderation/health/ready", ""); got.status != http.StatusServiceUnavailable ||
			!strings.Contains(got.body, "read-only") {
			t.Errorf("readiness while read-only: got %d %s, want 503 and why", got.status, got.body)
		}
		if got := send(t, http.MethodGet, "/metrics", ""); !strings.Contains(got.body, "caddy_moderation_store_read_only 1") {
			t.Errorf("the metrics do not say that the store is read-only: %s", got.body)
		}
		if _, _, err := run(t, arguments...); err == nil {
			t.Error("a second migration: got no error, want one: the first can be undone")
		}
		if status := must(t, "migrate", "--status"); !strings.Contains(status, "finished") {
			t.Errorf("the state: got %s, want finished", status)
		}
		must(t, "migrate", "--undo")
		if status, _, body, err := s.post(key); status != http.StatusOK {
			t.Errorf("after undoing: got %d %s (%v), want 200", status, body, err)
		}
		usage, err := services(t).Gate.Usage(t.Context(), "acme")
		if err != nil || usage.Counts.Period != 2 {
			t.Errorf("after undoing: got %+v (%v), want 2 requests", usage.Counts, err)
		}
		if _, _, err := run(t, "migrate", "--undo"); err == nil {
			t.Error("undoing twice: got no error")
		}
		// The copy is not the truth any more, and can be replaced by one.
		must(t, append(arguments, "--json")...)
		must(t, "migrate", "--undo")
	})
}

// place4 is how the service names a place.
func place4(words []string) string {
	if words[0] == "redis" {
		return "redis " + words[1] + ", prefix mod"
	}
	return strings.Join(words, " ")
}

// TestMigrateFails: whatever goes wrong, the service goes on with the store that it has.
func TestMigrateFails(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	s := newSite(t, "badger "+dir)
	key := keyOf(t, "acme")
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "letter"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	broken := s.file("badger " + other)
	text, err := os.ReadFile(broken)
	if err != nil {
		t.Fatal(err)
	}
	text = []byte(strings.Replace(string(text), "http://"+s.site, "http://203.0.113.7:1", 1))
	text = []byte(strings.Replace(string(text), "moderation_api", "moderation_api\n\tbind 203.0.113.7", 1))
	if err := os.WriteFile(broken, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		arguments []string
		says      string
	}{
		"too few words":            {[]string{"badger", dir}, "four arguments"},
		"an unknown storage":       {[]string{"badger", dir, "mysql", "x"}, "no storage \"mysql\""},
		"a full directory":         {[]string{"badger", dir, "badger", full}, "not empty"},
		"the same directory":       {[]string{"badger", dir, "badger", dir}, "the server runs with"},
		"a directory that is none": {[]string{"badger", filepath.Join(dir, "none"), "badger", other}, "no directory"},
		"another configuration":    {[]string{"badger", dir, "badger", other, "--config", s.file("badger " + full)}, "the storage in"},
		"a configuration that is refused": {
			[]string{"badger", dir, "badger", other, "--config", broken}, "was refused",
		},
		"nothing to undo": {[]string{"--undo"}, "no finished migration"},
	} {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, err := run(t, append([]string{"migrate"}, test.arguments...)...)
			if err == nil || !strings.Contains(stderr, test.says) {
				t.Errorf("got the error %v (%s%s), want one that says %q", err, stdout, stderr, test.says)
			}
			if status, _, body, err := s.post(key); status != http.StatusOK {
				t.Errorf("afterwards: got %d %s (%v), want 200", status, body, err)
			}
			if got := send(t, http.MethodGet, "/moderation/health/ready", ""); got.status != http.StatusOK {
				t.Errorf("afterwards: got %d %s, want ready", got.status, got.body)
			}
		})
	}
	if _, err := badger.Open(badger.Options{Dir: other}); !errors.Is(err, contents.ErrUnfinished) {
		t.Errorf("the copy of an undone migration: got the error %v, want %v", err, contents.ErrUnfinished)
	}
}

// TestMigrateStopped moves the store of a server that is stopped, and says so when somebody opens the old one.
func TestMigrateStopped(t *testing.T) {
	dir, other := t.TempDir(), filepath.Join(t.TempDir(), "new")
	store, err := badger.Open(badger.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(store.CreateAccount(t.Context(), quota.Account{ID: "acme"}), store.Close())
	if err != nil {
		t.Fatal(err)
	}
	address = "localhost:1" // nobody is there
	var state app.Migration
	if err := json.Unmarshal([]byte(must(t, "migrate", "badger", dir, "badger", other, "--json")), &state); err != nil {
		t.Fatal(err)
	}
	if state.Report == nil || state.Report.Target.Accounts != 1 || state.Phase != contents.Finished {
		t.Errorf("got %+v, want one account, finished", state)
	}
	if _, err := badger.Open(badger.Options{Dir: dir}); !errors.Is(err, contents.ErrMoved) {
		t.Errorf("opening the old store: got the error %v, want %v", err, contents.ErrMoved)
	}
	if accounts, _ := accountsIn(t, other); accounts != 1 {
		t.Errorf("the new store: got %d accounts, want 1", accounts)
	}
}
