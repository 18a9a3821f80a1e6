// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/caddytls" // issues the certificate of the remote endpoint

	"github.com/caddy-moderation/caddy-moderation/quota"
)

func TestNoServer(t *testing.T) {
	t.Parallel()
	free := freeAddress(t)
	const hint = "; start it with \"caddy run\", or name its admin endpoint with --address"
	const example = " is not the address of an admin endpoint, such as localhost:2019 or unix//run/caddy.sock: "
	rows := []struct{ address, want string }{
		{free, "no server answers at " + free + " (connect: connection refused)" + hint},
		{"http://" + free + "/", "no server answers at http://" + free + "/ (connect: connection refused)" + hint},
		{"unix//nowhere/caddy.sock", "no server answers at unix//nowhere/caddy.sock (connect: no such file or directory)" + hint},
		{"localhost:1-5", "--address localhost:1-5" + example + "it has more than one port"},
		{"/run/caddy.sock", "--address /run/caddy.sock" + example + "the socket is written unix//run/caddy.sock"},
		{"fd/3", "--address fd/3" + example + "a client cannot use the network fd"},
		{"udp/localhost:2019", "--address udp/localhost:2019" + example + "a client cannot use the network udp"},
		{"localhost:seven", "--address localhost:seven" + example + `invalid start port: strconv.ParseUint: parsing "seven": invalid syntax`},
		{"http://localhost:2019/moderation", "--address http://localhost:2019/moderation" + example + "it must end after the port"},
		{"http://", "--address http://" + example + "it has no host"},
		{"http://me:secret@localhost", "--address http://me:xxxxx@localhost" + example + "it has a user name, which an admin endpoint does not ask for"},
	}
	for _, row := range rows {
		t.Run(row.address, func(t *testing.T) {
			t.Parallel()
			err := newClient(row.address).call(t.Context(), http.MethodGet, "/moderation/accounts", nil, nil)
			if err == nil || err.Error() != row.want {
				t.Errorf("got the error %v, want %s", err, row.want)
			}
		})
	}
}

// TestAsCaddysOwnClient compares what is sent with what Caddy's own client sends to the same address. An admin endpoint
// checks Host and Origin, and a socket must not get an Origin: every command was refused there.
func TestAsCaddysOwnClient(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "admin") // the name of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	type request struct{ Method, URI, Host, Origin, ContentType, Body string }
	for _, network := range []string{"tcp", "unix"} {
		listenOn := "127.0.0.1:0"
		if network == "unix" {
			if runtime.GOOS == "windows" {
				continue
			}
			listenOn = filepath.Join(dir, "caddy.sock")
		}
		listener, err := net.Listen(network, listenOn)
		if err != nil {
			t.Fatal(err)
		}
		seen := make(chan request, 1)
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			seen <- request{r.Method, r.RequestURI, r.Host, r.Header.Get("Origin"), r.Header.Get("Content-Type"), string(body)}
			w.Header().Set("Cache-Control", "no-store")
			w.WriteHeader(http.StatusNoContent)
		})}
		go func() { _ = server.Serve(listener) }()
		t.Cleanup(func() { _ = server.Close() })
		_, port, _ := net.SplitHostPort(listener.Addr().String())
		addresses := map[string][]string{
			"tcp":  {"127.0.0.1:" + port, "localhost:" + port, "tcp/localhost:" + port, "LOCALHOST:" + port},
			"unix": {"unix/" + listenOn, "unix/" + listenOn + "|0660"},
		}
		for _, address := range addresses[network] {
			for _, in := range []any{nil, map[string]string{"id": "<a>"}} {
				method, body := http.MethodGet, io.Reader(nil)
				if in != nil {
					content, _ := json.Marshal(in)
					method, body = http.MethodPost, bytes.NewReader(content)
				}
				response, err := caddycmd.AdminAPIRequest(address, method, "/moderation/x?y=z", nil, body)
				if err != nil {
					t.Fatalf("%s: Caddy's client: %v", address, err)
				}
				_ = response.Body.Close()
				want := <-seen
				if err := newClient(address).call(t.Context(), method, "/moderation/x?y=z", in, nil); err != nil {
					t.Fatalf("%s: %v", address, err)
				}
				if got := <-seen; got != want {
					t.Errorf("%s: got the request %+v, want that of Caddy's client, %+v", address, got, want)
				}
			}
		}
	}
}

// TestServerWithoutTheModules: a plain Caddy answers these paths with its own 404.
func TestServerWithoutTheModules(t *testing.T) {
	load(t, "")
	err := newClient(address).call(t.Context(), http.MethodGet, "/elsewhere", nil, nil)
	if want := "the server at " + address + " runs without the moderation modules"; err == nil || err.Error() != want {
		t.Errorf("got the error %v, want %s", err, want)
	}
	err = newClient(address).call(t.Context(), http.MethodGet, "/moderation/of-tomorrow", nil, nil)
	if want := "the server at " + address + " runs another version of the moderation modules, which cannot do this; " +
		"restart it with this one"; err == nil || err.Error() != want {
		t.Errorf("got the error %v, want %s", err, want)
	}
}

// TestUnhappyServers sends requests to servers that answer with what this module does not send, or not at all: a wrong
// port says who is there, and never more of the content than a few words.
func TestUnhappyServers(t *testing.T) {
	t.Parallel()
	const wrong = "what answers at ADDRESS is not the admin endpoint of the moderation service: it answered "
	const name = "; name that endpoint with --address"
	answer := func(status int, body string, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	ours := []string{"Cache-Control", "no-store", "Content-Type", "application/json"}
	for _, test := range []struct {
		name, want string
		answer     http.HandlerFunc
	}{
		{"a proxy", wrong + `502 Bad Gateway, Server: nginx, "502 Bad Gateway"` + name,
			answer(502, "<html><head><title>502 Bad Gateway</title></head> sorry", "Server", "nginx", "Content-Type", "text/html")},
		{"a site of Caddy", wrong + "200 OK, Server: Caddy, no content type" + name, answer(200, "", "Server", "Caddy", "Content-Type", "")},
		{"an app", wrong + `200 OK, "hello from the app"` + name, answer(200, "hello from the app", "Content-Type", "text/plain; charset=utf-8")},
		{"an app with secrets", wrong + `200 OK, "token ... for a b"` + name,
			answer(200, "token "+strings.Repeat("s3cr3t", 6)+" for\n\x1b a b", "Content-Type", "text/plain")},
		{"an app with JSON", wrong + "200 OK, application/json" + name, answer(200, `{"token": "s3cr3t"}`, "Content-Type", "application/json")},
		{"a redirect", wrong + "308 Permanent Redirect, Server: Caddy, Location: https://localhost/x, no content type" + name,
			answer(308, "", "Server", "Caddy", "Location", "https://localhost/x?key=s3cr3t", "Content-Type", "")},
		{"a 404 of another server", wrong + `404 Not Found, Server: Apache, "not here"` + name,
			answer(404, "not here", "Server", "Apache", "Content-Type", "text/plain")},
		{"a status without a name", wrong + "299, no content type" + name, answer(299, "", "Content-Type", "")},
		{"an endpoint with TLS", "the server at ADDRESS speaks TLS; write https:// before the address",
			answer(400, "Client sent an HTTP request to an HTTPS server.\n")},
		{"a message", "account x: not found", answer(404, `{"error":"account x: not found"}`, ours...)},
		{"a message of Caddy", "the server at ADDRESS answered 403: host not allowed: x; use a name that its option \"admin\" listens on, " +
			"or add this one to its origins", answer(403, `{"error":"host not allowed: x"}`, "Content-Type", "application/json")},
		{"a message of an app", "the server at ADDRESS answered 401: who are you?", answer(401, `{"error":"who are you?"}`, "Content-Type", "application/json")},
		{"a newer version", "the server at ADDRESS answered what this version does not understand: " +
			"json: cannot unmarshal number into Go struct field Account.id of type string", answer(200, `{"id":7}`, ours...)},
		{"a connection that ends", "asking the server at ADDRESS: EOF", func(http.ResponseWriter, *http.Request) {
			panic(http.ErrAbortHandler)
		}},
		{"a part", "the answer of the server at ADDRESS broke off: unexpected EOF", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Cache-Control", "no-store")
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"id":`)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewUnstartedServer(test.answer)
			server.Config.ErrorLog = nil
			server.Start()
			defer server.Close()
			address := server.Listener.Addr().String()
			var account quota.Account
			err := newClient(address).call(t.Context(), http.MethodGet, "/moderation/accounts/x", nil, &account)
			if want := strings.ReplaceAll(test.want, "ADDRESS", address); err == nil || err.Error() != want {
				t.Errorf("got the error %v, want %s", err, want)
			}
		})
	}
}

// TestNoHTTP asks something that speaks first and otherwise, such as a mail server: no word of it is repeated.
func TestNoHTTP(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(connection, "SSH-2.0-Secret\r\n")
			_ = connection.Close()
		}
	}()
	at := listener.Addr().String()
	err = newClient(at).call(t.Context(), http.MethodGet, "/moderation/accounts", nil, nil)
	// When the connection is closed first, the system may say so instead.
	if err == nil || !strings.Contains(err.Error(), at) || strings.Contains(err.Error(), "Secret") {
		t.Errorf("got the error %v, want one that names %s and repeats nothing", err, at)
	}
}

// TestResetConnections: while a server reloads, it may reset a connection that waits. What only reads is sent again.
func TestResetConnections(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		method           string
		resets, requests int
		fails            bool
	}{
		{http.MethodGet, 0, 1, false},
		{http.MethodGet, 1, 2, false},
		{http.MethodGet, 2, 2, true},
		{http.MethodPost, 1, 1, true}, // the server may have done what was asked
	} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		requests := 0
		var served sync.WaitGroup
		served.Go(func() {
			for {
				connection, err := listener.Accept()
				if err != nil {
					return
				}
				requests++
				if _, err := http.ReadRequest(bufio.NewReader(connection)); err != nil {
					t.Errorf("reading a request: %v", err)
				}
				if requests <= test.resets {
					_ = connection.(*net.TCPConn).SetLinger(0) // close by a reset
				} else {
					_, _ = io.WriteString(connection, "HTTP/1.1 204 No Content\r\nCache-Control: no-store\r\n\r\n")
				}
				_ = connection.Close()
			}
		})
		err = newClient(listener.Addr().String()).call(t.Context(), test.method, "/x", nil, nil)
		_ = listener.Close()
		served.Wait()
		if requests != test.requests || (err != nil) != test.fails {
			t.Errorf("%s with %d resets: got %d requests and the error %v, want %d and an error: %v",
				test.method, test.resets, requests, err, test.requests, test.fails)
		}
	}
}

// TestInterrupted cancels a request before its answer begins, and in the middle of the answer.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	for _, begun := range []bool{false, true} {
		arrived := make(chan struct{})
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if begun {
				w.Header().Set("Cache-Control", "no-store")
				w.Header().Set("Content-Type", "application/octet-stream")
				_, _ = io.WriteString(w, "a part")
				_ = http.NewResponseController(w).Flush()
			}
			close(arrived)
			<-r.Context().Done()
		}))
		ctx, cancel := context.WithCancel(t.Context())
		if !begun {
			go func() { <-arrived; cancel() }()
		}
		answer, err := newClient(server.Listener.Addr().String()).open(ctx, http.MethodGet, "/x", nil)
		if begun {
			if err != nil {
				t.Fatalf("asking: %v", err)
			}
			<-arrived
			cancel()
			_, err = io.ReadAll(answer)
			_ = answer.Close()
		}
		if !errors.Is(err, context.Canceled) {
			t.Errorf("begun %v: got the error %v, want %v", begun, err, context.Canceled)
		}
		server.CloseClientConnections()
		server.Close()
		cancel()
	}
}

// TestSocket runs commands against an admin endpoint that is a unix socket: named by the flag, with and without the
// permissions that a server may name, and by the environment. They were refused because of their Origin header.
func TestSocket(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Caddy's unix sockets have no permissions on Windows")
	}
	// The name of a socket must be short, which that of a test's own folder is not everywhere.
	dir, err := os.MkdirTemp("", "admin")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := "unix/" + filepath.Join(dir, "caddy.sock")
	loadAt(t, socket+"|0200", "storage badger DIR")
	must(t, "account", "create", "acme")
	file := filepath.Join(dir, "backup")
	must(t, "backup", file)
	for _, at := range []string{socket, socket + "|0200"} {
		if _, stderr, err := runAt(t, at, newCLI(), "account", "show", "acme"); err != nil {
			t.Errorf("%s: got the error %v (%s), want none", at, err, stderr)
		}
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChildOfSocket$", "-test.v")
	child.Env = append(os.Environ(), "CADDY_ADMIN="+socket, "MODERATION_TEST_CHILD=1")
	if out, err := child.CombinedOutput(); err != nil || !strings.Contains(string(out), "Account   acme") {
		t.Errorf("with CADDY_ADMIN: got %v and the output %s, want the account", err, out)
	}
}

// TestChildOfSocket is run by TestSocket in a process of its own: Caddy looks at CADDY_ADMIN when the process starts.
func TestChildOfSocket(t *testing.T) {
	if os.Getenv("MODERATION_TEST_CHILD") == "" {
		t.Skip("a part of TestSocket")
	}
	stdout, stderr, err := runAt(t, "", newCLI(), "account", "show", "acme")
	t.Log(stdout, stderr)
	if err != nil {
		t.Fatal(err)
	}
}

// TestRemoteOrigin runs a command against a server that checks the Origin header of every request.
func TestRemoteOrigin(t *testing.T) {
	free := freeAddress(t)
	loadAt(t, free+" {\n enforce_origin\n}", "storage badger DIR")
	address = free
	must(t, "account", "create", "acme")
}

// TestRemoteEndpoint runs commands, short and streaming, against Caddy's remote admin endpoint, which asks for a client
// certificate and refuses requests with an Origin header.
func TestRemoteEndpoint(t *testing.T) {
	dir := t.TempDir()
	own, stranger := clientCertificate(t, dir, "own"), clientCertificate(t, dir, "stranger")
	before := caddy.DefaultStorage.Path
	caddy.DefaultStorage.Path = dir
	t.Cleanup(func() { caddy.DefaultStorage.Path = before })
	local, remote := freeAddress(t), freeAddress(t)
	config := fmt.Sprintf(`{
		"logging": {"logs": {"default": {"writer": {"output": "discard"}}}},
		"admin": {
			"listen": %q, "config": {"persist": false},
			"identity": {"identifiers": ["localhost"], "issuers": [{"module": "internal"}]},
			"remote": {"listen": %q, "access_control": [{"public_keys": [%q], "permissions": [{"paths": ["/moderation"]}]}]}
		},
		"apps": {
			"pki": {"certificate_authorities": {"local": {"install_trust": false}}},
			"moderation": {"demo": false, "storage": {"module": "badger", "dir": %q}}
		}
	}`, local, remote, base64.StdEncoding.EncodeToString(own.der), filepath.Join(dir, "data"))
	if err := caddy.Load([]byte(config), true); err != nil {
		t.Fatalf("loading: %v", err)
	}
	t.Cleanup(func() {
		if err := caddy.Stop(); err != nil {
			t.Errorf("stopping Caddy: %v", err)
		}
	})
	_, port, _ := net.SplitHostPort(remote)
	at := "https://localhost:" + port
	ca := filepath.Join(dir, "pki", "authorities", "local", "root.crt")
	// Caddy issues the certificate after it has started.
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		_, stderr, _ := runAt(t, at, newCLI(), "account", "list", "--tls-ca", ca)
		issued := !strings.Contains(stderr, "has no certificate") && !strings.Contains(stderr, "no such file")
		if issued || time.Now().After(deadline) {
			break
		}
	}
	for _, line := range []string{
		"account create acme", "account list", "key create --account acme", "feedback export", "backup " + filepath.Join(dir, "backup"),
	} {
		line += " --tls-cert " + own.cert + " --tls-key " + own.key + " --tls-ca " + ca
		if stdout, stderr, err := runAt(t, at, newCLI(), strings.Fields(line)...); err != nil {
			t.Errorf("%s: got %s%s (%v), want no error", line, stdout, stderr, err)
		}
	}
	for _, test := range []struct{ name, at, flags, want string }{
		{"no certificate", at, "--tls-ca " + ca, "does not accept this client (tls: certificate required)"},
		{"another certificate", at, "--tls-cert " + stranger.cert + " --tls-key " + stranger.key + " --tls-ca " + ca, "does not accept this client (tls: "},
		{"an unknown authority", at, "--tls-cert " + own.cert + " --tls-key " + own.key, "is signed by an unknown authority; name the authority's certificate with --tls-ca"},
		{"no key", at, "--tls-cert " + own.cert, "--tls-cert and --tls-key belong together"},
		{"the key of another", at, "--tls-cert " + own.cert + " --tls-key " + stranger.key, "private key does not match public key"},
		{"no certificates", at, "--tls-ca " + own.key, "holds no certificate in the PEM format"},
		{"without TLS", "localhost:" + port, "", "speaks TLS; write https:// before the address"},
		{"TLS where there is none", "https://" + local, "", "does not speak TLS; write http:// instead of https://"},
		{"files without TLS", local, "--tls-ca " + ca, "are for an address that begins with https://"},
	} {
		_, stderr, err := runAt(t, test.at, newCLI(), strings.Fields("account list "+test.flags)...)
		if err == nil || !strings.Contains(stderr, test.want) || strings.Contains(stderr, "PRIVATE KEY") {
			t.Errorf("%s: got %q (%v), want %q", test.name, stderr, err, test.want)
		}
	}
}

// certificate is a client certificate, in files and in the form of Caddy's configuration.
type certificate struct {
	cert, key string
	der       []byte
}

// clientCertificate makes a client certificate that signs itself.
func clientCertificate(t *testing.T, dir, name string) certificate {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	made := certificate{cert: filepath.Join(dir, name+".crt"), key: filepath.Join(dir, name+".key"), der: der}
	for file, block := range map[string]*pem.Block{
		made.cert: {Type: "CERTIFICATE", Bytes: der}, made.key: {Type: "PRIVATE KEY", Bytes: encoded},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return made
}

// TestKeysInTheClear: a key that is about to cross a network without encryption is announced before it does.
func TestKeysInTheClear(t *testing.T) {
	t.Parallel()
	to := func(network, local, remote string) net.Conn {
		if network == "unix" {
			return fakeConn{local: &net.UnixAddr{Name: local}, remote: &net.UnixAddr{Name: remote}}
		}
		return fakeConn{
			local:  net.TCPAddrFromAddrPort(netip.MustParseAddrPort(local)),
			remote: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(remote)),
		}
	}
	for _, test := range []struct {
		name       string
		connection net.Conn
		want       bool
	}{
		{"loopback", to("tcp", "127.0.0.1:5", "127.0.0.1:2019"), false},
		{"loopback of IPv6", to("tcp", "[::1]:5", "[::1]:2019"), false},
		{"an address of this machine", to("tcp", "10.0.0.5:5", "10.0.0.5:2019"), false},
		{"a socket", to("unix", "", "/run/caddy.sock"), false},
		{"another machine", to("tcp", "10.0.0.5:5", "10.0.0.6:2019"), true},
	} {
		if got := leavesTheMachine(test.connection); got != test.want {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
	}
}

// fakeConn is a connection between two addresses.
type fakeConn struct {
	net.Conn
	local, remote net.Addr
}

func (c fakeConn) LocalAddr() net.Addr  { return c.local }
func (c fakeConn) RemoteAddr() net.Addr { return c.remote }
