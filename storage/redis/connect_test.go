// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage"
	"github.com/caddy-moderation/caddy-moderation/storage/redis/redistest"
)

// user returns the line of an ACL file for a user who may run some commands on the names that begin with "mod:", and
// nothing else.
func user(commands string) string {
	return "user app on >secret ~mod:* resetchannels -@all " + commands
}

// without returns the commands that must be permitted without one of them.
func without(command string) string { return strings.Replace(LeastRights, command+" ", "", 1) }

// TestMistakes guards against a configuration that cannot work and is found out only by the first request, or never.
func TestMistakes(t *testing.T) {
	t.Parallel()
	run := func(o redistest.Options) string { return redistest.Run(t, o).Addr() }
	plain := run(redistest.Options{})
	guarded := run(redistest.Options{Password: "right", Users: []string{user(LeastRights)}})
	lesser := run(redistest.Options{Users: []string{user(without("+hincrby"))}})
	untracked := run(redistest.Options{Users: []string{user(without("+client|tracking"))}})
	cluster := redistest.RunCluster(t, redistest.ClusterOptions{Replicas: -1}).Addrs()
	sentinel := redistest.RunSentinel(t, redistest.SentinelOptions{Replicas: 1})
	sentinels := sentinel.Addrs()
	ca := redistest.RunCA(t)
	encrypted := run(redistest.Options{TLS: ca, ClientCertificates: true})
	trusted, err := ca.Client(true)
	must(t, err)
	nameless, err := ca.Client(false)
	must(t, err)
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)

	at := func(address string) Options { return Options{Addresses: []string{address}, Prefix: "mod"} }
	app := func(address, prefix string) Options {
		o := at(address)
		o.Username, o.Password, o.Prefix = "app", "secret", prefix
		return o
	}
	waiting := func(o Options) Options {
		o.Replicas = 1
		return o
	}
	for name, test := range map[string]struct {
		options Options
		want    string
	}{
		"no address":              {Options{}, "no address is given"},
		"bad prefix":              {Options{Addresses: []string{plain}, Prefix: "a{b"}, "the prefix must be"},
		"two addresses":           {Options{Addresses: []string{plain, plain}}, "say which"},
		"database of a cluster":   {Options{Addresses: cluster, Topology: Cluster, Database: 1}, "only the database 0"},
		"no master":               {Options{Addresses: sentinels, Topology: Sentinel}, "name of the master is missing"},
		"wrong master":            {Options{Addresses: sentinels, Topology: Sentinel, Master: "x"}, `no master "x"`},
		"no password":             {at(guarded), "asks for a password"},
		"wrong password":          {app(guarded, "mod"), "does not accept the user name or the password"},
		"missing permission":      {app(lesser, "mod"), `names that begin with "mod:": hincrby`},
		"no right to wait":        {waiting(app(lesser, "mod")), "hincrby, wait"},
		"another prefix":          {app(lesser, "other"), "has not the permissions that are needed"},
		"no tracking":             {app(untracked, "mod"), "client|tracking"},
		"cluster is missing":      {at(cluster[0]), `configure "cluster"`},
		"cluster is wrong":        {Options{Addresses: []string{plain}, Topology: Cluster}, "belongs to no cluster"},
		"sentinel is missing":     {at(sentinels[0]), "is a sentinel"},
		"sentinel is wrong":       {Options{Addresses: []string{plain}, Topology: Sentinel, Master: "x"}, "no sentinel"},
		"replica":                 {at(sentinel.Servers[1].Addr()), "is a replica"},
		"database does not exist": {Options{Addresses: []string{plain}, Database: 99}, "has no database 99"},
		"TLS is missing":          {at(encrypted), "speaks TLS"},
		"TLS is wrong":            {Options{Addresses: []string{plain}, TLS: trusted}, "does not speak TLS"},
		"no certificate":          {Options{Addresses: []string{encrypted}, TLS: nameless}, "refused the TLS connection"},
		"wrong authority":         {Options{Addresses: []string{encrypted}, TLS: &tls.Config{}}, "is not accepted"},
		"no Redis":                {at(strings.TrimPrefix(web.URL, "http://")), "does not speak the protocol of Redis"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := test.options
			if name == "wrong password" {
				o.Password = "wrong"
			}
			o.Timeout, o.DialTimeout = 30*time.Second, 30*time.Second
			if name == "TLS is wrong" {
				o.DialTimeout = time.Second // that the server says nothing is how this is known
			}
			s, err := Open(o)
			if err == nil {
				_ = s.Close()
				t.Fatalf("Open: got no error, want one with %q", test.want)
			}
			if !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("Open: got the error %q, want one with %q in one line", err, test.want)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("Open: the error tells the password: %v", err)
			}
		})
	}
}

// TestVersions opens stores on servers that say that they are of other versions.
func TestVersions(t *testing.T) {
	t.Parallel()
	const hello = "%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n$5\r\nproto\r\n:3\r\n" +
		"$2\r\nid\r\n:3\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n"
	for name, test := range map[string]struct {
		hello string
		want  string
	}{
		"6.2.15": {strings.Replace(hello, "7.0.15", "6.2.15", 1), "is Redis 6.2.15: Redis 7 or Valkey is needed"},
		"5":      {"-ERR unknown command `HELLO`, with args beginning with: \r\n", "too old"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Open(Options{Addresses: []string{fakeServer(t, test.hello)}})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Open: got the error %v, want one with %q", err, test.want)
			}
		})
	}
}

// fakeServer answers each command with the same.
func fakeServer(t *testing.T, answer string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				b := make([]byte, 4096)
				for {
					n, err := c.Read(b)
					if err != nil {
						return
					}
					// Each command is an array.
					for range strings.Count(string(b[:n]), "*") {
						_, _ = c.Write([]byte(answer))
					}
				}
			}()
		}
	}()
	return listener.Addr().String()
}

// TestLeastRights guards against a user with the documented permissions who cannot do everything, and against
// permissions that nobody needs.
func TestLeastRights(t *testing.T) {
	t.Parallel()
	server := redistest.Run(t, redistest.Options{Users: []string{user(LeastRights)}})
	runMost(t, Options{Addresses: []string{server.Addr()}, Username: "app", Password: "secret", Prefix: "mod"})
	nothingDenied(t, server)
}

// TestLeastRightsOnCluster is [TestLeastRights] on a cluster.
func TestLeastRightsOnCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.RunCluster(t, redistest.ClusterOptions{Replicas: -1, Options: redistest.Options{
		Users: []string{user(LeastRights + ClusterRights)},
	}})
	runMost(t, Options{Addresses: cluster.Addrs(), Topology: Cluster, Username: "app", Password: "secret",
		Prefix: "mod"})
	for _, server := range cluster.Nodes {
		nothingDenied(t, server)
	}
}

func nothingDenied(t *testing.T, server *redistest.Server) {
	t.Helper()
	denied, err := server.Do("ACL", "LOG")
	must(t, err)
	for _, entry := range denied.([]any) {
		if slices.Contains(entry.([]any), any("info")) {
			continue // this permission is of use but not needed
		}
		t.Errorf("the server denied something: %v", entry)
	}
}

// TestTopologies opens a store in each topology, with TLS, and with names and passwords.
func TestTopologies(t *testing.T) {
	t.Parallel()
	ca := redistest.RunCA(t)
	config, err := ca.Client(true)
	must(t, err)
	secure := redistest.Options{TLS: ca, ClientCertificates: true, Password: "secret"}
	for name, open := range map[string]func(t *testing.T) Options{
		"TLS": func(t *testing.T) Options {
			return Options{Addresses: []string{redistest.Run(t, secure).Addr()}, TLS: config, Password: "secret"}
		},
		"another database": func(t *testing.T) Options {
			return Options{Addresses: []string{redistest.Run(t, redistest.Options{}).Addr()}, Database: 3}
		},
		"one connection": func(t *testing.T) Options {
			return Options{Addresses: []string{redistest.Run(t, redistest.Options{}).Addr()}, Connections: 1}
		},
		"cluster with TLS": func(t *testing.T) Options {
			cluster := redistest.RunCluster(t, redistest.ClusterOptions{Replicas: -1, Options: secure})
			return Options{Addresses: cluster.Addrs()[:1], Topology: Cluster, TLS: config, Password: "secret"}
		},
		"sentinel": func(t *testing.T) Options {
			sentinel := redistest.RunSentinel(t, redistest.SentinelOptions{
				Replicas: 1, SentinelPassword: "other", Options: redistest.Options{Password: "secret"},
			})
			return Options{Addresses: sentinel.Addrs(), Topology: Sentinel, Master: redistest.MasterName,
				Password: "secret", SentinelPassword: "other"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runMost(t, open(t))
		})
	}
}

// TestUnreachable opens a store whose server does not run yet.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	server := redistest.Run(t, redistest.Options{})
	proxy := redistest.RunProxy(t, server.Addr())
	proxy.Refuse()
	core, logs := observer.New(zap.WarnLevel)
	s := openTest(t, Options{Addresses: []string{proxy.Addr()}, Timeout: time.Second, Logger: zap.New(core)})
	if logs.FilterMessageSnippet("cannot be reached").Len() != 1 {
		t.Errorf("log: got %v, want one line that says that the database cannot be reached", logs.All())
	}
	_, err := s.Account(background, "a")
	for what, err := range map[string]error{
		"Account": err, "CreateAccount": s.CreateAccount(background, quota.Account{ID: "a"}), "Health": s.Health(),
	} {
		if !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("%s before the server runs: got the error %v, want %v", what, err, storage.ErrUnavailable)
		}
	}
	must(t, proxy.Heal())
	well(t, s)
	must(t, s.CreateAccount(background, quota.Account{ID: "a"}))
}

// TestUnreachableMistake opens a store whose server does not run yet and then turns out not to do.
func TestUnreachableMistake(t *testing.T) {
	t.Parallel()
	server := redistest.Run(t, redistest.Options{Password: "right"})
	proxy := redistest.RunProxy(t, server.Addr())
	proxy.Refuse()
	s := openTest(t, Options{Addresses: []string{proxy.Addr()}, Timeout: time.Second, Password: "wrong"})
	must(t, proxy.Heal())
	eventually(t, "Health tells the mistake", func() bool {
		err := s.Health()
		return errors.Is(err, storage.ErrUnavailable) && mistaken(err) != nil
	})
	if _, err := s.Account(background, "a"); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("Account: got the error %v, want %v", err, storage.ErrUnavailable)
	}
}

// TestSilentServer opens a store whose server accepts connections and says nothing.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	s := openTest(t, Options{Addresses: []string{fakeServer(t, "")}, DialTimeout: 100 * time.Millisecond})
	if err := s.Health(); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("Health: got the error %v, want %v", err, storage.ErrUnavailable)
	}
}
