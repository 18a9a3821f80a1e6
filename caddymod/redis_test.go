// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage/redis/redistest"
)

// onRedis is a configuration over a Redis server, with the options of a block.
func onRedis(address, block, moderation, site string) string {
	config := siteConfig("DIR", moderation, site)
	return strings.Replace(config, "storage badger DIR", "storage redis "+address+" {\n"+block+"\n}", 1)
}

// patience is how long a test waits for what must happen soon. A busy machine needs more than a second.
const redisPatience = 30 * time.Second

// comesAbout waits until something holds.
func comesAbout(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(redisPatience); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: it does not come about", what)
		}
	}
}

// clients returns the ids of the connections that a server has from stores.
func clients(t *testing.T, server *redistest.Server) (ids []string) {
	t.Helper()
	list, err := server.Text("CLIENT", "LIST")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(list) {
		// That of the test itself is not one of theirs.
		if strings.Contains(line, "cmd=client|list") {
			continue
		}
		ids = append(ids, regexp.MustCompile(`id=([0-9]+)`).FindString(line))
	}
	slices.Sort(ids)
	return ids
}

// allClients returns the connections of the store once its pool has made all of them, which a call does not wait for.
func allClients(t *testing.T, server *redistest.Server, pool int) (ids []string) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if ids = clients(t, server); len(ids) >= pool {
			return ids
		}
		if time.Now().After(deadline) {
			t.Fatalf("got the connections %v, want %d", ids, pool)
		}
	}
}

// readyMode returns the status and the mode of the probe.
func readyMode(t *testing.T) (int, string) {
	t.Helper()
	replaced = true
	got := call(t, http.MethodGet, base+"/health/ready", "", nil)
	var body struct{ Mode string }
	got.decodeJSON(t, &body)
	return got.status, body.Mode
}

// counted returns the requests of an account in its period.
func counted(t *testing.T, account string) int64 {
	t.Helper()
	usage, err := services(t).Gate.Usage(t.Context(), account)
	if err != nil {
		t.Fatal(err)
	}
	return usage.Counts.Period
}

// TestRedisReload: a reload that changes nothing of the store keeps its connections, one that changes an option makes
// new ones, and the old ones end; no count is lost on the way.
func TestRedisReload(t *testing.T) {
	server := redistest.Run(t, redistest.Options{Password: "s3cr3t"})
	t.Setenv("MODERATION_TEST_REDIS", "s3cr3t")
	config := func(block, moderation string) string {
		return onRedis(server.Addr(), "password {env.MODERATION_TEST_REDIS}\n"+block, moderation, "moderation_api")
	}
	load(t, config("", ""))
	key := newKey(t, quota.Account{ID: "moving", Tier: "unlimited"})
	made := 0
	ask := func() {
		t.Helper()
		if got := moderate(t, key, `{"content":"text"}`); got.status != http.StatusOK {
			t.Errorf("got %d %s, want %d", got.status, got.body, http.StatusOK)
		}
		made++
	}
	ask()
	before := allClients(t, server, 4)
	for _, same := range []string{config("", ""), config("timeout 250ms\nprefix mod\npool 4", "threshold hate 0.6")} {
		reload(t, same)
		ask()
		if after := clients(t, server); !slices.Equal(after, before) {
			t.Errorf("a reload that changes nothing of the store: got the connections %v after %v", after, before)
		}
	}
	reload(t, config("timeout 300ms", ""))
	ask()
	changed := clients(t, server)
	if !slices.ContainsFunc(changed, func(id string) bool { return !slices.Contains(before, id) }) {
		t.Errorf("a reload that changes the store: got the connections %v after %v, want new ones", changed, before)
	}
	// A password that was changed in the place that the configuration names.
	if _, err := server.Do("ACL", "SETUSER", "default", ">0ther"); err != nil {
		t.Fatal(err)
	}
	t.Setenv("MODERATION_TEST_REDIS", "0ther")
	reload(t, config("timeout 300ms", ""))
	ask()
	if got := counted(t, "moving"); got != int64(made) {
		t.Errorf("got %d counted, want %d", got, made)
	}
	// A wrong one refuses the reload, and the running configuration goes on.
	t.Setenv("MODERATION_TEST_REDIS", "wr0ng")
	err := caddy.Load(adapt(t, config("timeout 300ms", "")), true)
	if err == nil || strings.Contains(err.Error(), "wr0ng") || !strings.Contains(err.Error(), "password") {
		t.Errorf("a wrong password: got the error %v, want one that says so and does not repeat it", err)
	}
	client.CloseIdleConnections()
	ask()
	page := call(t, http.MethodGet, "http://"+adminAddr+"/config/", "", nil)
	if strings.Contains(string(page.body), "0ther") || !strings.Contains(string(page.body), "{env.MODERATION_TEST_REDIS}") {
		t.Errorf("the configuration at the admin endpoint: got %s, want the placeholder", page.body)
	}
}

// TestRedisRequestsInFlightKeepTheirStore changes the server while requests are being sent: each is answered, and
// counted where it was let in.
func TestRedisRequestsInFlightKeepTheirStore(t *testing.T) {
	first, second := redistest.Run(t, redistest.Options{}), redistest.Run(t, redistest.Options{})
	load(t, onRedis(first.Addr(), "", "", "moderation_api"))
	const slow = 6
	bodies, answers := make([]*io.PipeWriter, slow), make([]chan reply, slow)
	for i := range bodies {
		var body *io.PipeReader
		body, bodies[i] = io.Pipe()
		answers[i] = make(chan reply, 1)
		go func() {
			got, err := try(t, http.MethodPost, base+"/v1/moderate/text", acmeKey, body, "Content-Type", "application/json")
			if err != nil {
				t.Error(err)
			}
			answers[i] <- got
		}()
		_, _ = io.WriteString(bodies[i], `{"content":`)
	}
	comesAbout(t, "the requests are let in", func() bool { return counted(t, "acme") == slow })
	reload(t, onRedis(second.Addr(), "", "", "moderation_api"))
	for i := range bodies {
		_, _ = io.WriteString(bodies[i], `"a text"}`)
		_ = bodies[i].Close()
		if got := <-answers[i]; got.status != http.StatusOK {
			t.Errorf("a request in flight: got %d %s, want %d", got.status, got.body, http.StatusOK)
		}
	}
	if got := moderate(t, acmeKey, `{"content":"a text"}`); got.status != http.StatusOK {
		t.Errorf("a new request: got %d %s, want %d", got.status, got.body, http.StatusOK)
	}
	if got := counted(t, "acme"); got != 1 {
		t.Errorf("the new server: got %d counted, want 1", got)
	}
	reload(t, onRedis(first.Addr(), "", "", "moderation_api"))
	if got := counted(t, "acme"); got != slow {
		t.Errorf("the old server: got %d counted, want %d", got, slow)
	}
}

// TestRedisOutage takes the server away and brings it back, under each policy: what clients, probes and metrics see,
// and that what was admitted meanwhile is counted once.
func TestRedisOutage(t *testing.T) {
	for _, test := range []struct {
		policy string
		status int    // of requests
		mark   string // X-RateLimit-Status
		ready  int
	}{
		{"local", http.StatusOK, "local", http.StatusOK},
		{"allow", http.StatusOK, "unknown", http.StatusOK},
		{"deny", http.StatusServiceUnavailable, "", http.StatusServiceUnavailable},
	} {
		t.Run(test.policy, func(t *testing.T) {
			server := redistest.Run(t, redistest.Options{AppendOnly: true, Config: []string{"appendfsync always"}})
			site := "moderation_health\nhandle /guarded {\nmoderate\nrespond ok\n}\nmoderation_api"
			load(t, onRedis(server.Addr(), "outage "+test.policy, "", site))
			key := newKey(t, quota.Account{ID: "lasting", Tier: "unlimited"})
			var made int64
			ask := func(want int, mark string) {
				t.Helper()
				got := moderate(t, key, `{"content":"text"}`)
				if got.status != want || got.header.Get("X-RateLimit-Status") != mark {
					t.Errorf("got %d %v %s, want %d and the status %q", got.status, got.header, got.body, want, mark)
				}
				if got.status == http.StatusOK {
					made++
				}
			}
			ask(http.StatusOK, "")
			comesAbout(t, "the mode is normal", func() bool {
				status, mode := readyMode(t)
				return status == http.StatusOK && mode == "normal"
			})
			server.Kill()
			comesAbout(t, "the outage is noticed", func() bool {
				up := series(t, "caddy_moderation_store_up")
				return len(up) == 1 && strings.HasSuffix(up[0], " 0")
			})
			comesAbout(t, "what was changed a moment ago is known", func() bool {
				got := moderate(t, key, `{"content":"text"}`)
				if got.status == http.StatusOK {
					made++
				}
				return got.status == test.status
			})
			for range 5 {
				ask(test.status, test.mark)
			}
			want := test.policy
			if test.policy == "deny" {
				want = "" // strangers are not told more
			}
			comesAbout(t, "the probe says the mode", func() bool {
				status, mode := readyMode(t)
				return status == test.ready && mode == want
			})
			if got := strings.Join(series(t, "caddy_moderation_store_mode"), "\n"); !strings.Contains(got, fmt.Sprintf("{mode=%q} 1", test.policy)) {
				t.Errorf("got the modes %s, want %s", got, test.policy)
			}
			if got := series(t, "caddy_moderation_outage_requests_total"); (len(got) > 0) != (test.mark != "") {
				t.Errorf("got the counts %q, want some: %v", got, test.mark != "")
			}
			// An unknown key is neither valid nor refused, and a guard without account notices nothing.
			if got := moderate(t, "mod_sk_"+strings.Repeat("u", 32), `{"content":"text"}`); got.status != http.StatusServiceUnavailable {
				t.Errorf("an unknown key: got %d %s, want %d", got.status, got.body, http.StatusServiceUnavailable)
			}
			if got := call(t, http.MethodPost, base+"/guarded", "", strings.NewReader("a text"), "Content-Type", "text/plain"); got.status != http.StatusOK {
				t.Errorf("a guard without account: got %d %s, want %d", got.status, got.body, http.StatusOK)
			}
			if _, err := services(t).Gate.CreateAccount(t.Context(), quota.Account{ID: "new", Tier: "free"}); err == nil {
				t.Error("an account was made without the server")
			}
			if err := server.Restart(); err != nil {
				t.Fatal(err)
			}
			comesAbout(t, "the mode is normal again", func() bool {
				status, mode := readyMode(t)
				return status == http.StatusOK && mode == "normal"
			})
			ask(http.StatusOK, "")
			comesAbout(t, "the counts are put together", func() bool { return counted(t, "lasting") == made })
			if got := series(t, "caddy_moderation_store_command_seconds_count"); len(got) != 1 || strings.HasSuffix(got[0], " 0") {
				t.Errorf("got %q, want the commands that were answered", got)
			}
		})
	}
}

// TestRedisUnreachableAtStart: Caddy starts, and does what the policy says until the server is there.
func TestRedisUnreachableAtStart(t *testing.T) {
	for policy, status := range map[string]int{"local": 200, "allow": 200, "deny": 503} {
		t.Run(policy, func(t *testing.T) {
			server := redistest.Run(t, redistest.Options{AppendOnly: true, Config: []string{"appendfsync always"}})
			server.Kill()
			load(t, onRedis(server.Addr(), "outage "+policy, "", "moderation_health\nmoderation_api"))
			// A declared key is known without the server.
			if got := moderate(t, acmeKey, `{"content":"text"}`); got.status != status {
				t.Errorf("got %d %s, want %d", got.status, got.body, status)
			}
			if err := server.Restart(); err != nil {
				t.Fatal(err)
			}
			comesAbout(t, "the server is used", func() bool {
				ready, mode := readyMode(t)
				return ready == http.StatusOK && mode == "normal"
			})
			if got := moderate(t, acmeKey, `{"content":"text"}`); got.status != http.StatusOK || got.header.Get("X-RateLimit-Status") != "" {
				t.Errorf("got %d %v %s, want %d and exact counts", got.status, got.header, got.body, http.StatusOK)
			}
		})
	}
}

// TestRedisMistakesRefuseTheStart: what an operator has written wrongly is said when the server starts, not when the
// first customer asks, and the password is not.
func TestRedisMistakesRefuseTheStart(t *testing.T) {
	server := redistest.Run(t, redistest.Options{Password: "s3cr3t"})
	cluster := redistest.RunCluster(t, redistest.ClusterOptions{})
	authority := redistest.RunCA(t)
	secured := redistest.Run(t, redistest.Options{TLS: authority})
	t.Setenv("MODERATION_TEST_REDIS", "s3cr3t")
	t.Setenv("MODERATION_TEST_WRONG", "wr0ng")
	for name, test := range map[string]struct{ address, block, want string }{
		"a wrong password":             {server.Addr(), "password {env.MODERATION_TEST_WRONG}", "password"},
		"a wrong password in a URL":    {"redis://:{env.MODERATION_TEST_WRONG}@" + server.Addr(), "", "password"},
		"no password":                  {server.Addr(), "", "password"},
		"a user who does not exist":    {server.Addr(), "username nobody\npassword {env.MODERATION_TEST_REDIS}", "password"},
		"a cluster without cluster":    {cluster.Addrs()[0], "", "cluster"},
		"no cluster with cluster":      {server.Addr(), "cluster\npassword {env.MODERATION_TEST_REDIS}", "cluster"},
		"no sentinel with sentinel":    {cluster.Addrs()[0], "sentinel mymaster", "sentinel"},
		"TLS against a plain server":   {server.Addr(), "password {env.MODERATION_TEST_REDIS}\ntls", "TLS"},
		"plain against a TLS server":   {secured.Addr(), "", "TLS"},
		"an authority that is not his": {secured.Addr(), "tls", "certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			err := caddy.Load(adapt(t, onRedis(test.address, test.block, "", "moderation_api")), true)
			if err == nil {
				t.Cleanup(func() { _ = caddy.Stop() })
			}
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "s3cr3t") || strings.Contains(err.Error(), "wr0ng") {
				t.Errorf("got the error %v, want one with %q and no password", err, test.want)
			}
			t.Log(err)
		})
	}
}

// TestRedisWithTLS connects with a certificate of its own, and takes a renewed one without a reload.
func TestRedisWithTLS(t *testing.T) {
	authority := redistest.RunCA(t)
	server := redistest.Run(t, redistest.Options{TLS: authority, ClientCertificates: true})
	certificate, key := authority.ClientFiles()
	block := "tls {\nserver_name " + redistest.ServerName + "\nca " + authority.File() + "\nclient " + certificate + " " + key + "\n}"
	load(t, onRedis("rediss://"+server.Addr(), block, "", "moderation_api"))
	if got := moderate(t, acmeKey, `{"content":"text"}`); got.status != http.StatusOK || got.header.Get("X-RateLimit-Status") != "" {
		t.Errorf("got %d %v %s, want %d", got.status, got.header, got.body, http.StatusOK)
	}
}

// TestRedisOnASocket connects over a Unix socket.
func TestRedisOnASocket(t *testing.T) {
	folder, err := os.MkdirTemp("", "redis") // the path of a socket has at most some 100 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	socket := filepath.Join(folder, "redis.sock")
	server := redistest.Run(t, redistest.Options{Config: []string{"unixsocket " + socket}})
	load(t, onRedis("unix/"+socket, "", "", "moderation_api"))
	if got := moderate(t, acmeKey, `{"content":"text"}`); got.status != http.StatusOK || got.header.Get("X-RateLimit-Status") != "" {
		t.Errorf("got %d %v %s, want %d", got.status, got.header, got.body, http.StatusOK)
	}
	if n, err := server.Int("DBSIZE"); err != nil || n == 0 {
		t.Errorf("got %d records (%v), want some", n, err)
	}
}

// TestRedisMakesNoDemo: servers that start together on an empty database make no account that nobody has asked for.
func TestRedisMakesNoDemo(t *testing.T) {
	server := redistest.Run(t, redistest.Options{})
	config := regexp.MustCompile(`(?s)account acme \{.*?\n\t\t\}\n\t\taccount small \{.*?\n\t\t\}`).ReplaceAllString(
		onRedis(server.Addr(), "", "demo on", "moderation_api"), "")
	if strings.Contains(config, "account acme") {
		t.Fatalf("got declared accounts in %s", config)
	}
	load(t, config)
	for account, err := range services(t).Store.Accounts(t.Context()) {
		t.Errorf("got the account %s (%v), want none", account.ID, err)
	}
}
