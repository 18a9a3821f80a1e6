// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// The clients of the service are programs that were written for the Perspective API or for OpenAI's moderation
// endpoint. They get the address of the service and are otherwise unchanged. Each has an account of its own with one
// request a minute, and its exchanges are compared with a golden file.

// serviceClients are the names of the clients of the service.
var serviceClients = []string{
	"googleapis", "perspective-api-client", "openai-npm", "commentanalyzer-go", "openai-go", "go-openai",
	"coral", "discourse", "openai-npm-retry", "openai-go-retry",
}

// The accounts that all clients share. Each client has another one of its own name, with one request a minute.
const (
	open  = "open"  // without limits
	spent = "spent" // its month is used up
)

// account is an account of the site's configuration.
type account struct {
	ID, Tier string
	Key      string
	Variable string // of the environment that holds the key
}

// newAccounts returns the accounts with new keys.
func newAccounts() map[string]account {
	all := map[string]account{}
	add := func(id, tier string) {
		all[id] = account{ID: id, Tier: tier, Key: newKey(), Variable: fmt.Sprintf("KEY_%d", len(all))}
	}
	add(open, "open")
	add(spent, "once")
	for _, name := range serviceClients {
		add(name, "slow")
	}
	return all
}

// newKey returns a random key of the right shape.
func newKey() string {
	return "mod_sk_" + strings.ToLower(rand.Text() + rand.Text())[:32]
}

// environment returns the variables with the keys of the accounts.
func (s *site) environment() (lines []string) {
	for _, a := range s.accounts {
		lines = append(lines, a.Variable+"="+a.Key)
	}
	return lines
}

// session is one client's use of the service.
type session struct {
	*relay
	name    string
	site    *site
	unknown string // a key that is none
}

// forService returns a client that uses the service.
func forService(name string, update bool, run func(context.Context, *report, *session) error) client {
	return client{name, func(ctx context.Context, r *report, s *site) error {
		session, err := s.session(ctx, name)
		if err != nil {
			return err
		}
		defer session.close()
		if err := run(ctx, r, session); err != nil {
			return err
		}
		session.compare(r, update)
		return nil
	}}
}

// session begins a client's use of the service.
func (s *site) session(ctx context.Context, name string) (*session, error) {
	if err := s.useUp(ctx); err != nil {
		return nil, err
	}
	relay, err := startRelay(ctx, s.Service)
	if err != nil {
		return nil, err
	}
	return &session{relay: relay, name: name, site: s, unknown: newKey()}, nil
}

// compare compares what went over the wire with the client's golden file.
func (s *session) compare(r *report, update bool) {
	exchanges := s.kept()
	if len(exchanges) == 0 {
		return // skipped
	}
	names := []string{
		strings.TrimPrefix(s.URL, "http://"), "SERVICE", s.unknown, "KEY_UNKNOWN",
		s.key(open), "KEY_OPEN", s.key(spent), "KEY_SPENT", s.key(s.name), "KEY_SMALL",
	}
	r.check("what went over the wire is as in "+goldenFolder, func() error {
		return golden(s.name, exchanges, strings.NewReplacer(names...), update)
	})
}

// key returns the key of an account.
func (s *session) key(id string) string { return s.site.accounts[id].Key }

// environment returns the variables that tell a client's program where the service is and which keys it may use.
func (s *session) environment() []string {
	return append(os.Environ(), "SERVICE="+s.URL, "CONTROL="+s.Control, "FINE="+fine, "VILE="+vile,
		"KEY_OPEN="+s.key(open), "KEY_SPENT="+s.key(spent), "KEY_SMALL="+s.key(s.name), "KEY_UNKNOWN="+s.unknown)
}

// useUp uses up the monthly quota of the account "once", the first time that it is called.
func (s *site) useUp(ctx context.Context) error {
	s.usedUp.Do(func() {
		body := bytes.NewReader([]byte(`{"content":"hello"}`))
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.Service+"/v1/moderate/text", body)
		if err != nil {
			s.useUpErr = err
			return
		}
		request.Header.Set("Authorization", "Bearer "+s.accounts[spent].Key)
		request.Header.Set("Content-Type", "application/json")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			s.useUpErr = err
			return
		}
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			s.useUpErr = fmt.Errorf("the first request of the month was answered %s", response.Status)
		}
	})
	return s.useUpErr
}

// sameMinute waits until two requests can be made within a minute of the clock, whose limit one of them uses up.
func sameMinute() {
	const slack = 5 * time.Second
	if left := untilMinute(time.Now()); left < slack {
		time.Sleep(left + 100*time.Millisecond)
	}
}

// untilMinute returns how long the clock's minute still lasts.
func untilMinute(now time.Time) time.Duration {
	return now.Truncate(time.Minute).Add(time.Minute).Sub(now)
}

// retries checks that clients repeat a request that the minute's limit refused, and do so when the minute is over, as
// the answer tells them. All of them wait at the same time.
func retries(update bool) client {
	return client{"retries", func(ctx context.Context, r *report, s *site) error {
		programs := []struct {
			name    string
			prepare func(context.Context, *session) (*program, error)
		}{
			{"openai-npm-retry", nodeProgram("moderations.mjs", "retry")},
			{"openai-go-retry", goProgram("openai", "retry")},
		}
		type run struct {
			*session
			*program
			printed []string
			err     error
		}
		var runs []*run
		for _, p := range programs {
			session, err := s.session(ctx, p.name)
			if err != nil {
				return err
			}
			defer session.close()
			program, err := p.prepare(ctx, session)
			if err != nil {
				return err
			}
			if program.lacks != "" {
				r.skip(p.name, program.lacks)
				continue
			}
			runs = append(runs, &run{session: session, program: program})
		}
		if len(runs) == 0 {
			return nil
		}
		// Near the end of a minute, so that the wait is short, but not so near that it ends between two requests.
		const latest, earliest = 12 * time.Second, 25 * time.Second
		switch left := untilMinute(time.Now()); {
		case left < latest:
			time.Sleep(left + time.Minute - earliest)
		case left > earliest:
			time.Sleep(left - earliest)
		}
		var wg sync.WaitGroup
		for _, run := range runs {
			wg.Go(func() {
				run.err = run.run(ctx, func(line string) { run.printed = append(run.printed, line) })
			})
		}
		wg.Wait()
		for _, run := range runs {
			r.client = run.name
			before := r.failed
			for _, line := range run.printed {
				r.relay(line)
			}
			if run.err != nil && r.failed == before {
				r.fail("could not be run", run.err)
			}
			run.compare(r, update)
		}
		return nil
	}}
}
