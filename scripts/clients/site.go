// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"text/template"
	"time"

	"github.com/caddy-moderation/caddy-moderation/internal/freeport"
	"github.com/caddy-moderation/caddy-moderation/scripts/internal/server"
)

// Texts whose verdict is beyond doubt.
const (
	fine = "Thank you for the recipe, the cake was wonderful."
	vile = "I will find you and kill you, you worthless piece of shit."
)

// site is an app and a guarded server in front of it.
type site struct {
	URL, TLS string // of the server, http://127.0.0.1:<port> and https://127.0.0.1:<port>
	Service  string // host and port at which the same server offers the service itself
	Admin    string // of the server's admin endpoint
	Pin      string // base64 of the SHA-256 of the TLS key's SubjectPublicKeyInfo, as browsers take it

	app     *app
	binary  string // the server's absolute path
	folder  string
	process *server.Process

	accounts map[string]account // of the service, by id
	usedUp   sync.Once
	useUpErr error
}

// config is the server's Caddyfile.
var config = template.Must(template.New("Caddyfile").Parse(`{
	admin {{.Admin}}
	persist_config off
	auto_https off
	default_bind 127.0.0.1
	servers {
		protocols h1 h2 h2c h3
	}
	moderation {
		storage badger {{.Folder}}/data
		demo off
		tier open 0 0
		tier once 1 0
		tier slow 0 1
		{{range .Accounts}}
		account {{.ID}} {
			tier {{.Tier}}
			key {env.{{.Variable}}}
		}
		{{end}}
	}
}

(site) {
	# As most sites have it. Flushing must work through it.
	encode zstd gzip

	# What people post.
	{{if .Guarded}}moderate{{end}}

	# What a language model is asked and says, and pages that others wrote.
	@judged path /v1/* /judged/*
	{{if .Guarded}}moderate_response @judged{{end}}

	reverse_proxy {{.App}}
}

http://{{.HTTP}} {
	import site
}

http://{{.Service}} {
	encode gzip
	moderation_api {
		scoring_path perspective
	}
}

https://{{.HTTPS}} {
	tls {{.Folder}}/cert.pem {{.Folder}}/key.pem
	import site
}
`))

// newSite starts the app, and the server with a configuration and data of its own.
func newSite(ctx context.Context, caddy string, unguarded bool) (*site, error) {
	binary, err := filepath.Abs(caddy)
	if err != nil {
		return nil, err
	}
	s := &site{binary: binary}
	if err := s.start(ctx, binary, unguarded); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *site) start(ctx context.Context, binary string, unguarded bool) (err error) {
	if s.folder, err = os.MkdirTemp("", "caddy-moderation-clients-"); err != nil {
		return err
	}
	if s.app, err = startApp(); err != nil {
		return err
	}
	addresses, err := freeport.Addresses(4)
	if err != nil {
		return err
	}
	s.URL, s.TLS, s.Admin = "http://"+addresses[0], "https://"+addresses[1], "http://"+addresses[2]
	s.Service, s.accounts = addresses[3], newAccounts()
	if s.Pin, err = certificate(s.folder); err != nil {
		return err
	}
	var text bytes.Buffer
	err = config.Execute(&text, map[string]any{
		"HTTP": addresses[0], "HTTPS": addresses[1], "Admin": addresses[2],
		"Service": s.Service, "Accounts": s.accounts, "App": strings.TrimPrefix(s.app.URL,
			"http://"), "Folder": s.folder, "Guarded": !unguarded,
	})
	if err != nil {
		return err
	}
	caddyfile := filepath.Join(s.folder, "Caddyfile")
	if err := os.WriteFile(caddyfile, text.Bytes(), 0o600); err != nil {
		return err
	}
	s.process, err = server.Start(ctx, server.Options{
		Command: []string{binary, "run", "--config", caddyfile, "--adapter", "caddyfile"},
		Dir:     s.folder,
		Env:     append(s.environment(), "XDG_DATA_HOME="+s.folder, "XDG_CONFIG_HOME="+s.folder),
		Listen:  addresses[0],
	})
	if err != nil {
		return err
	}
	// The addresses are opened one after the other.
	return errors.Join(listening(ctx, addresses[1]), listening(ctx, addresses[3]))
}

// listening waits until an address accepts connections.
func listening(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("nothing listens on %s: %w", address, err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (s *site) close() {
	if s.process != nil {
		s.process.Kill()
	}
	if s.app != nil {
		s.app.close()
	}
	_ = os.RemoveAll(s.folder)
}

// sane is an error when the output of the server has signs of a bug.
func (s *site) sane() error {
	out := s.process.Output()
	for _, sign := range []string{"panic", "DATA RACE", "fatal error"} {
		if i := strings.Index(out, sign); i >= 0 {
			return errors.New(out[max(0, i-200):min(len(out), i+2000)])
		}
	}
	return nil
}

// state holds what a leak would make grow.
type state struct {
	goroutines int
	heap       int64 // bytes that are in use after a collection of garbage
}

// state returns the state of the server.
func (s *site) state() (now state, err error) {
	for _, ask := range []struct {
		path, before string
		to           any
	}{
		{"/debug/pprof/goroutine?debug=1", "goroutine profile: total ", &now.goroutines},
		{"/debug/pprof/heap?debug=1&gc=1", "# HeapAlloc = ", &now.heap},
	} {
		response, err := http.Get(s.Admin + ask.path)
		if err != nil {
			return now, err
		}
		profile, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil {
			return now, err
		}
		_, value, _ := strings.Cut(string(profile), ask.before)
		if _, err := fmt.Sscan(value, ask.to); err != nil {
			return now, fmt.Errorf("%s holds no %q: %w", ask.path, ask.before, err)
		}
	}
	return now, nil
}

// certificate writes cert.pem and key.pem for 127.0.0.1 and returns the hash by which a browser can be told to trust
// it.
func certificate(folder string) (pin string, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "127.0.0.1"},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, about, about, key.Public(), key)
	if err != nil {
		return "", err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return "", err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return "", err
	}
	hash := sha256.Sum256(public)
	return base64.StdEncoding.EncodeToString(hash[:]), errors.Join(
		os.WriteFile(filepath.Join(folder, "cert.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
			0o600),
		os.WriteFile(filepath.Join(folder, "key.pem"),
			pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600),
	)
}
