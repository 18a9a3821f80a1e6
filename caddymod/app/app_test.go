// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage/badger"
)

// provisioning is held while Caddy makes a context: it then writes a variable of its own that all contexts share.
var provisioning sync.Mutex

// newContext returns the context of an empty configuration.
func newContext(t *testing.T) caddy.Context {
	t.Helper()
	provisioning.Lock()
	defer provisioning.Unlock()
	ctx, err := caddy.ProvisionContext(new(caddy.Config))
	if err != nil {
		t.Fatal(err)
	}
	return ctx
}

// provisioned returns an app that is configured as JSON says and not started; what it shows goes to notice.
func provisioned(t *testing.T, config string, notice io.Writer) *App {
	t.Helper()
	a := &App{notice: notice}
	if err := json.Unmarshal([]byte(config), a); err != nil {
		t.Fatal(err)
	}
	if err := a.Provision(newContext(t)); err != nil {
		t.Fatalf("provisioning: %v", err)
	}
	if err := a.Validate(); err != nil {
		t.Fatalf("validating: %v", err)
	}
	return a
}

// run starts an app and gives it up again, and returns its services in between.
func run(t *testing.T, a *App, use func(*Services)) {
	t.Helper()
	if err := a.Start(); err != nil {
		t.Fatalf("starting: %v", err)
	}
	services, err := a.Services(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if use != nil {
		use(services)
	}
	if err := a.Stop(); err != nil {
		t.Errorf("stopping: %v", err)
	}
	if err := a.Cleanup(); err != nil {
		t.Errorf("cleaning up: %v", err)
	}
}

// inDir is a configuration with its store in a directory.
func inDir(t *testing.T, dir, rest string) string {
	t.Helper()
	quoted, err := json.Marshal(dir)
	if err != nil {
		t.Fatal(err)
	}
	return `{"storage":{"module":"badger","dir":` + string(quoted) + `}` + rest + `}`
}

var shownKey = regexp.MustCompile(`[a-z]+_sk_[0-9A-Za-z]{32}`)

// TestLevels checks the ranges of thresholds and reject levels, and that an error names the right one.
func TestLevels(t *testing.T) {
	t.Parallel()
	const threshold, rejectLevel = "greater than 0 and less than 1", "greater than 0 and at most 1"
	for _, test := range []struct {
		name                    string
		threshold, rejectLevels map[string]float64
		want                    string
	}{
		{"none", nil, nil, ""},
		{"the largest reject level", nil, map[string]float64{"hate": 1}, ""},
		{"a reject level above 1", nil, map[string]float64{"hate": 1.5}, "reject_level hate: 1.5 is out of range; it must be " + rejectLevel},
		{"a reject level of 0", nil, map[string]float64{"hate": 0}, "reject_level hate: 0 is out of range; it must be " + rejectLevel},
		{"no number", nil, map[string]float64{"hate": math.NaN()}, "reject_level hate: NaN is out of range; it must be " + rejectLevel},
		{"a threshold of 1", map[string]float64{"hate": 1}, nil, "threshold hate: 1 is out of range; it must be " + threshold},
		{"a negative threshold", map[string]float64{"hate": -1}, nil, "threshold hate: -1 is out of range; it must be " + threshold},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := Levels(test.threshold, test.rejectLevels)
			if got := fmt.Sprint(err); err != nil && got != test.want || err == nil && test.want != "" {
				t.Errorf("got the error %q, want %q", got, test.want)
			}
		})
	}
}

// TestHarmSharesAreChecked has what JSON may say that a Caddyfile would have refused.
func TestHarmSharesAreChecked(t *testing.T) {
	t.Parallel()
	const must = "a share of harm must be from 0.01% to 99%, such as 2% or 0.02"
	for config, want := range map[string]string{
		`{"harm_share":0.02,"accounts":[{"id":"acme","harm_share":0.99}]}`: "",
		`{"harm_share":0}`:                            "harm_share is 0; " + must,
		`{"harm_share":25}`:                           "harm_share is 25; " + must,
		`{"harm_share":-0.1}`:                         "harm_share is -0.1; " + must,
		`{"harm_share":"2%"}`:                         "cannot unmarshal",
		`{"accounts":[{"id":"acme","harm_share":1}]}`: "account acme: harm_share is 1; " + must,
	} {
		a := new(App)
		err := json.Unmarshal([]byte(config), a)
		if err == nil {
			if err = a.Provision(newContext(t)); err == nil {
				err = a.Validate()
			}
			if cleanup := a.Cleanup(); cleanup != nil {
				t.Error(cleanup)
			}
		}
		if got := fmt.Sprint(err); want == "" && err != nil || !strings.Contains(got, want) {
			t.Errorf("%s: got the error %q, want %q", config, got, want)
		}
	}
}

// TestFirstStartShowsAKeyOnce starts on the same directory three times.
func TestFirstStartShowsAKeyOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var notice bytes.Buffer
	run(t, provisioned(t, inDir(t, dir, `,"key_prefix":"acme"`), &notice), func(s *Services) {
		keys := shownKey.FindAllString(notice.String(), -1)
		if len(keys) != 2 || keys[0] != keys[1] || !strings.HasPrefix(keys[0], "acme_sk_") {
			t.Fatalf("got the keys %q in the notice %q, want one key twice", keys, notice.String())
		}
		who, err := s.Gate.Authenticate(t.Context(), keys[0])
		if err != nil || who.Account.ID != "demo" || who.Account.Tier != "free" || who.Limits.RequestsPerMonth != 1000 {
			t.Errorf("the shown key: got %+v (%v), want the account demo on the tier free", who, err)
		}
	})
	for range 2 {
		notice.Reset()
		run(t, provisioned(t, inDir(t, dir, ""), &notice), nil)
		if notice.Len() != 0 {
			t.Errorf("a later start: got the notice %q, want none", notice.String())
		}
	}
}

// TestFirstStartIsQuiet when it is switched off, and when accounts are declared.
func TestFirstStartIsQuiet(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]string{
		"off":      `,"demo":false`,
		"declared": `,"accounts":[{"id":"acme"}]`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var notice bytes.Buffer
			run(t, provisioned(t, inDir(t, t.TempDir(), config), &notice), func(s *Services) {
				if _, err := s.Store.Account(t.Context(), "demo"); !errors.Is(err, quota.ErrNotFound) {
					t.Errorf("the account demo: got the error %v, want %v", err, quota.ErrNotFound)
				}
			})
			if notice.Len() != 0 {
				t.Errorf("got the notice %q, want none", notice.String())
			}
		})
	}
}

// TestFirstStartWithoutTheFreeTier takes the first tier by name.
func TestFirstStartWithoutTheFreeTier(t *testing.T) {
	t.Parallel()
	var notice bytes.Buffer
	config := inDir(t, t.TempDir(), `,"tiers":{"small":{"requests_per_month":5,"requests_per_minute":0},"large":{"requests_per_month":0,"requests_per_minute":7}}`)
	run(t, provisioned(t, config, &notice), func(s *Services) {
		if account, err := s.Gate.Account(t.Context(), "demo"); err != nil || account.Tier != "large" {
			t.Errorf("the account demo: got %+v (%v), want the tier large", account, err)
		}
	})
	if want := "tier large: unlimited requests a month, 7 requests a minute"; !strings.Contains(notice.String(), want) {
		t.Errorf("got the notice %q, want one with %q", notice.String(), want)
	}
}

// closed is a terminal that nobody sees.
type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// TestFirstStartThatNobodySeesIsRepeated leaves no valid key behind, and does not keep the service from starting.
func TestFirstStartThatNobodySeesIsRepeated(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run(t, provisioned(t, inDir(t, dir, ""), closed{}), func(s *Services) {
		for key, err := range s.Gate.Keys(t.Context(), "demo") {
			if err != nil || key.Revoked == nil {
				t.Errorf("a key that nobody saw: got %+v (%v), want it revoked", key, err)
			}
		}
	})
	var notice bytes.Buffer
	run(t, provisioned(t, inDir(t, dir, ""), &notice), nil)
	if shownKey.FindString(notice.String()) == "" {
		t.Errorf("the next start: got the notice %q, want one with a key", notice.String())
	}
}

// TestRequestsWaitForTheStart checks the gate that early requests stand at.
func TestRequestsWaitForTheStart(t *testing.T) {
	t.Parallel()
	config := inDir(t, t.TempDir(), `,"demo":false,"start_timeout":30000000`) // 30 ms
	a := provisioned(t, config, io.Discard)
	if _, err := a.Services(t.Context()); !errors.Is(err, ErrStarting) {
		t.Errorf("after the timeout: got the error %v, want %v", err, ErrStarting)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.Services(canceled); !errors.Is(err, ErrStarting) || !errors.Is(err, context.Canceled) {
		t.Errorf("for a client that left: got the error %v, want %v and %v", err, ErrStarting, context.Canceled)
	}
	a.StartTimeout = caddy.Duration(time.Minute)
	waiting := make(chan error)
	go func() {
		_, err := a.Services(t.Context())
		waiting <- err
	}()
	if err := a.Start(); err != nil {
		t.Fatalf("starting: %v", err)
	}
	if err := <-waiting; err != nil {
		t.Errorf("after the start: got the error %v, want none", err)
	}
	if err := a.Cleanup(); err != nil {
		t.Errorf("cleaning up: %v", err)
	}
}

// TestRequestsDoNotWaitForAFailedStart wakes them with an error.
func TestRequestsDoNotWaitForAFailedStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := provisioned(t, inDir(t, dir, `,"demo":false`), io.Discard)
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = first.Cleanup() })
	// A file stands where the directory should be.
	second := provisioned(t, inDir(t, filepath.Join(dir, "KEYREGISTRY", "x"), `,"demo":false,"start_timeout":60000000000`), io.Discard)
	waiting := make(chan error)
	go func() {
		_, err := second.Services(t.Context())
		waiting <- err
	}()
	if err := second.Start(); err == nil {
		t.Fatal("the app started with a file where its directory should be")
	}
	if err := <-waiting; !errors.Is(err, ErrStarting) {
		t.Errorf("a request that waited for the failed start: got the error %v, want %v", err, ErrStarting)
	}
	if err := second.Cleanup(); err != nil {
		t.Errorf("cleaning up: %v", err)
	}
}

// TestStoreOfAnotherHolderIsLocked opens a store that somebody else has open: it is tried again for a while, and the
// error names the directory once.
func TestStoreOfAnotherHolderIsLocked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	other, err := badger.Open(badger.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	a := provisioned(t, inDir(t, dir, `,"demo":false`), io.Discard)
	err = a.Start()
	if !errors.Is(err, ErrLocked) || strings.Count(err.Error(), dir) != 1 || strings.Count(err.Error(), "in use") != 1 {
		t.Errorf("got the error %v, want %v with the directory once", err, ErrLocked)
	}
	go func() {
		time.Sleep(2 * lockPause)
		_ = other.Close()
	}()
	if err := a.Start(); err != nil {
		t.Errorf("the lock was given up: %v", err)
	}
	if err := a.Cleanup(); err != nil {
		t.Errorf("cleaning up: %v", err)
	}
}

// TestCleanupTakesNothingFromOthers cleans up apps in every state while another one holds the store.
func TestCleanupTakesNothingFromOthers(t *testing.T) {
	t.Parallel()
	config := inDir(t, t.TempDir(), `,"demo":false`)
	holder := provisioned(t, config, io.Discard)
	run(t, holder, func(s *Services) {
		if err := new(App).Cleanup(); err != nil {
			t.Errorf("cleaning up: %v", err)
		}
		broken := new(App)
		broken.Thresholds = map[string]float64{"hate": 2}
		if err := broken.Provision(newContext(t)); err == nil {
			t.Error("a threshold of 2 was accepted")
		}
		if err := broken.Cleanup(); err != nil {
			t.Errorf("cleaning up: %v", err)
		}
		never := provisioned(t, config, io.Discard)
		for range 2 {
			if err := never.Cleanup(); err != nil {
				t.Errorf("cleaning up: %v", err)
			}
		}
		guest := provisioned(t, config, io.Discard)
		run(t, guest, nil)
		if err := guest.Cleanup(); err != nil { // a second time
			t.Errorf("cleaning up again: %v", err)
		}
		if _, err := s.Gate.CreateAccount(t.Context(), quota.Account{ID: "after"}); err != nil {
			t.Errorf("the store was closed under its holder: %v", err)
		}
	})
}

// TestDeclaredKeys come from the environment or as hashes, and have ids that tell nothing and stay.
func TestDeclaredKeys(t *testing.T) {
	const secret = "mod_sk_0123456789abcdefghijklmnopqrstuv"
	t.Setenv("MODERATION_TEST_KEY", " "+secret+"\n")
	hash := quota.HashKey(secret)
	var ids []string
	for _, key := range []string{"{env.MODERATION_TEST_KEY}", "sha256:" + hexOf(hash)} {
		a := provisioned(t, inDir(t, t.TempDir(), `,"accounts":[{"id":"acme","keys":[{"key":"`+key+`","name":"web"}]}]`), io.Discard)
		run(t, a, func(s *Services) {
			who, err := s.Gate.Authenticate(t.Context(), secret)
			if err != nil || who.Account.ID != "acme" || who.Key.Name != "web" || !who.Key.Declared {
				t.Errorf("key %s: got %+v (%v), want the declared key web of acme", key, who, err)
			}
			ids = append(ids, who.Key.ID)
		})
		if a.Accounts[0].Keys[0].Key != key {
			t.Error("the configuration was changed")
		}
	}
	if len(ids) != 2 || ids[0] != ids[1] || strings.Contains(hexOf(hash), strings.TrimPrefix(ids[0], "key_")) {
		t.Errorf("got the ids %q, want the same id twice, with nothing of the key's hash in it", ids)
	}
}

func hexOf(hash quota.Hash) string {
	const digits = "0123456789abcdef"
	var text strings.Builder
	for _, b := range hash {
		text.WriteByte(digits[b>>4])
		text.WriteByte(digits[b&15])
	}
	return text.String()
}
