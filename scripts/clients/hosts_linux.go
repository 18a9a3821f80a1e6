// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"

	"github.com/caddy-moderation/caddy-moderation/scripts/internal/server"
)

// Addresses in the namespace: the server is at the first, the stand-ins of OpenAI and of a resolver at the others.
const (
	hereAddress     = "127.0.0.1"
	openaiAddress   = "127.0.0.2"
	resolverAddress = "127.0.0.3"
)

// hostsPage says how it is done.
const hostsPage = "docs/fixed-hosts.md"

// hostsInNamespace does what the page says, as root of a namespace, and runs the programs. It prints its checks.
func hostsInNamespace(ctx context.Context, args []string) error {
	if len(args) == 4 && args[0] == "ask" {
		return ask(ctx, args[1], args[2], args[3])
	}
	if len(args) != 3 {
		return fmt.Errorf("got %d arguments, want the server, a folder and node", len(args))
	}
	caddy, folder, nodeBinary := args[0], args[1], args[2]
	r := &report{out: os.Stdout}
	if err := loopbackUp(); err != nil {
		return fmt.Errorf("switching the network on: %w", err)
	}
	page, err := os.ReadFile(hostsPage)
	if err != nil {
		return err
	}
	real, err := startReal(ctx, folder)
	if err != nil {
		return err
	}

	// Step 1 of the page.
	commands, err := fence(string(page), "sh")
	if err != nil {
		return err
	}
	openssl := exec.CommandContext(ctx, "bash", "-euc", commands)
	openssl.Dir = folder
	if out, err := openssl.CombinedOutput(); err != nil {
		return fmt.Errorf("making the root: %w: %s", err, out)
	}
	root := filepath.Join(folder, "root.crt")
	// The page tells nobody to let the server trust its own root. Here it does, so that a loop is one.
	trusted := filepath.Join(folder, "trusted.crt")
	if err := concatenate(trusted, root, real.root); err != nil {
		return err
	}
	// Step 2.
	keys := map[string]string{"openai_key": "sk-" + newKey(), "perspective_key": "AIza" + newKey()}
	for name, key := range keys {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(key+"\n"), 0o600); err != nil {
			return err
		}
	}
	config, err := fence(string(page), "caddyfile")
	if err != nil {
		return err
	}
	config, err = replace(config, "/etc/caddy/fixed-hosts", folder, "/var/lib/caddy", folder,
		"resolvers 1.1.1.1 9.9.9.9", "resolvers "+resolverAddress)
	if err != nil {
		return err
	}
	// A name for which the root must not do.
	config += "\nother.example {\n\ttls internal\n\trespond \"other\"\n}\n"
	caddyfile := filepath.Join(folder, "Caddyfile")
	if err := os.WriteFile(caddyfile, []byte(config), 0o600); err != nil {
		return err
	}
	process, err := server.Start(ctx, server.Options{
		// The server has mounts of its own: it does not see the local names.
		Command: []string{"unshare", "--mount", caddy, "run", "--config", caddyfile, "--adapter", "caddyfile"},
		Dir:     folder,
		Env:     []string{"XDG_DATA_HOME=" + folder, "XDG_CONFIG_HOME=" + folder, "SSL_CERT_FILE=" + trusted},
		Listen:  hereAddress + ":443",
	})
	if err != nil {
		return err
	}
	defer process.Kill()

	// Step 3.
	hosts := filepath.Join(folder, "hosts")
	names := hereAddress + " localhost\n" + hereAddress + " commentanalyzer.googleapis.com api.openai.com other.example\n"
	if err := os.WriteFile(hosts, []byte(names), 0o600); err != nil {
		return err
	}
	if err := unix.Mount(hosts, "/etc/hosts", "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mounting /etc/hosts: %w", err)
	}

	// Step 4, for each language.
	env := []string{"OPENAI_API_KEY=" + keys["openai_key"], "PERSPECTIVE_KEY=" + keys["perspective_key"],
		"FINE=" + fine, "VILE=" + vile, "ROOT=" + root}
	if nodeBinary != "" {
		script := filepath.Join(nodeFolder, "fixed-hosts.mjs")
		r.language(ctx, "Node", append(env, "NODE_EXTRA_CA_CERTS="+root), nodeBinary, script)
		r.language(ctx, "Node without the root", env, nodeBinary, script, "untrusted")
	}
	const python = "scripts/clients/testdata/fixed_hosts.py"
	r.language(ctx, "Python", append(env, "SSL_CERT_FILE="+root, "REQUESTS_CA_BUNDLE="+root), "python3", python)
	r.language(ctx, "Python without the root", env, "python3", python, "untrusted")
	r.java(ctx, folder, root, env)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for name, command := range map[string][]string{
		"curl": {"curl", "--silent", "--show-error", "--fail", "--oauth2-bearer", keys["openai_key"],
			"--header", "Content-Type: application/json", "--data"},
		"Go": {self, inNamespace, "ask", keys["openai_key"]},
	} {
		if _, err := exec.LookPath(command[0]); err != nil {
			r.skip(name, "it is not installed")
			continue
		}
		post := func(url, body string) ([]byte, error) {
			cmd := exec.CommandContext(ctx, command[0], append(command[1:], body, url)...)
			cmd.Env = append(os.Environ(), "SSL_CERT_FILE="+root, "CURL_CA_BUNDLE="+root)
			return cmd.CombinedOutput()
		}
		r.check(name+" moderates texts", func() error {
			return asks(func(body string) ([]byte, error) { return post(moderations, body) })
		})
		r.check(name+" refuses a name that the root is not for", func() error {
			out, err := post("https://other.example/", "{}")
			if err == nil || !strings.Contains(string(out), "permitted") {
				return fmt.Errorf("got %q (%w), want an error about the name", out, err)
			}
			return nil
		})
	}
	r.check("what is not moderation reaches the real host, with the program's key", func() error {
		return real.saw(keys["openai_key"])
	})
	r.check("a server that finds itself under the name says so", func() error { return loops(ctx, real, root) })
	return nil
}

// moderations is the endpoint that programs have in their code.
const moderations = "https://api.openai.com/v1/moderations"

// asks requests a verdict on a vile and a fine text, with a body in OpenAI's form, and checks the answers.
func asks(ask func(body string) ([]byte, error)) error {
	for text, want := range map[string]string{vile: `"flagged":true`, fine: `"flagged":false`} {
		body, err := json.Marshal(map[string]string{"input": text})
		if err != nil {
			return err
		}
		answer, err := ask(string(body))
		if err != nil || !strings.Contains(string(answer), want) {
			return fmt.Errorf("got %q (%w), want %s in it", answer, err, want)
		}
	}
	return nil
}

// ask posts a body with a Go program's default client, and prints the answer.
func ask(ctx context.Context, key, body, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+key)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	_, err = io.Copy(os.Stdout, response.Body)
	return errors.Join(err, response.Body.Close())
}

// java runs a program with a trust store that has the root, and with Java's own.
func (r *report) java(ctx context.Context, folder, root string, env []string) {
	for _, needed := range []string{"keytool", "javac"} {
		if _, err := exec.LookPath(needed); err != nil {
			r.skip("Java", needed+" is not installed")
			return
		}
	}
	const program = "scripts/clients/testdata/FixedHosts.java"
	store := filepath.Join(folder, "trust.p12")
	out, err := exec.CommandContext(ctx, "keytool", "-importcert", "-noprompt", "-alias", "moderation", "-file", root,
		"-keystore", store, "-storetype", "PKCS12", "-storepass", "changeit").CombinedOutput()
	if err != nil {
		r.fail("Java", fmt.Errorf("keytool: %w: %s", err, out))
		return
	}
	r.language(ctx, "Java", env, "java", "-Djavax.net.ssl.trustStore="+store, "-Djavax.net.ssl.trustStorePassword=changeit",
		program)
	r.language(ctx, "Java without the root", env, "java", program, "untrusted")
}

// concatenate writes files one after the other into another one.
func concatenate(to string, files ...string) error {
	var all []byte
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		all = append(all, text...)
	}
	return os.WriteFile(to, all, 0o600)
}

// realHost stands in for the real api.openai.com, and for the resolver that knows its address.
type realHost struct {
	root string // a file with the certificate that it is trusted by

	mu      sync.Mutex
	address [4]byte // that the resolver tells
	seen    []*http.Request
}

// startReal starts both.
func startReal(ctx context.Context, folder string) (*realHost, error) {
	h := &realHost{root: filepath.Join(folder, "real.crt")}
	if err := h.mislead(openaiAddress); err != nil {
		return nil, err
	}
	certificate, err := selfSigned("api.openai.com", h.root)
	if err != nil {
		return nil, err
	}
	// The server listens on the port, too, at all addresses; both agree to share it, and the more exact address wins.
	share := net.ListenConfig{Control: func(_, _ string, connection syscall.RawConn) error {
		var err error
		return errors.Join(connection.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
		}), err)
	}}
	listener, err := share.Listen(ctx, "tcp", openaiAddress+":443")
	if err != nil {
		return nil, err
	}
	web := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: patience,
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
	}
	web.SetKeepAlivesEnabled(false) // each request looks the address up
	go func() { _ = web.ServeTLS(listener, "", "") }()
	resolver, err := new(net.ListenConfig).ListenPacket(ctx, "udp", resolverAddress+":53")
	if err != nil {
		return nil, err
	}
	go h.resolve(resolver)
	return h, nil
}

// ServeHTTP answers every request as a language model that says "real".
func (h *realHost) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	h.seen = append(h.seen, r.Clone(context.Background()))
	h.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[`+
		`{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"real"}}]}`)
}

// saw checks the requests that came: chats only, as the programs sent them.
func (h *realHost) saw(key string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.seen) == 0 {
		return errors.New("nothing came")
	}
	for _, r := range h.seen {
		if r.Host != "api.openai.com" || r.URL.Path != "/v1/chat/completions" || r.Header.Get("Authorization") != "Bearer "+key {
			return fmt.Errorf("got a request for %s%s, want a chat, with the program's key", r.Host, r.URL)
		}
		if inside := r.Header.Get("X-Forwarded-For"); inside != "" {
			return fmt.Errorf("the request tells the address %s of the program", inside)
		}
	}
	return nil
}

// mislead changes the address that the resolver tells.
func (h *realHost) mislead(address string) error {
	ip := net.ParseIP(address).To4()
	if ip == nil {
		return fmt.Errorf("%s is no address", address)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.address = [4]byte(ip)
	return nil
}

// resolve answers questions for the address of any name.
func (h *realHost) resolve(connection net.PacketConn) {
	buffer := make([]byte, 1500)
	for {
		n, from, err := connection.ReadFrom(buffer)
		if err != nil {
			return
		}
		var message dnsmessage.Message
		if message.Unpack(buffer[:n]) != nil || len(message.Questions) != 1 {
			continue
		}
		message.Response, message.RecursionAvailable, message.Additionals = true, true, nil
		question := message.Questions[0]
		if question.Type == dnsmessage.TypeA {
			h.mu.Lock()
			message.Answers = []dnsmessage.Resource{{
				Header: dnsmessage.ResourceHeader{Name: question.Name, Type: question.Type, Class: question.Class},
				Body:   &dnsmessage.AResource{A: h.address},
			}}
			h.mu.Unlock()
		}
		if answer, err := message.Pack(); err == nil {
			_, _ = connection.WriteTo(answer, from)
		}
	}
}

// selfSigned makes a certificate for a name, and writes it into a file for those that shall trust it.
func selfSigned(name, file string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, about, about, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, os.WriteFile(file, text, 0o600)
}

// loops lets the server find itself under the name, and asks it for something that is not moderation.
func loops(ctx context.Context, real *realHost, root string) error {
	if err := real.mislead(hereAddress); err != nil {
		return err
	}
	pem, err := os.ReadFile(root)
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://api.openai.com/v1/models", http.NoBody)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusLoopDetected || !strings.Contains(string(body), "back to itself") {
		return fmt.Errorf("got %s %q, want 508 and why", response.Status, body)
	}
	return nil
}

// loopbackUp switches the loopback interface on, which a new namespace has switched off.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCSIFFLAGS, uintptr(unsafe.Pointer(request)))
	if errno != 0 {
		return errno
	}
	return nil
}
