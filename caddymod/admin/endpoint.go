// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/caddyserver/caddy/v2"
)

const (
	// defaultPort is that of Caddy's admin endpoint.
	defaultPort = 2019
	// dialAttempts is how often a connection is tried. A reload replaces the listener of the admin endpoint and resets
	// the connections that wait on the old one.
	dialAttempts = 3
	// answerTimeout is how long an answer may take to begin by default. Something that is no admin endpoint may never
	// answer.
	answerTimeout = 2 * time.Minute
)

// endpoint is an admin endpoint and how it is reached.
type endpoint struct {
	// network and address are those of [net.Dial].
	network, address string
	// base is the beginning of the URLs of requests. For sockets its host is one that every admin endpoint accepts.
	base string
	// origin is the Origin header that Caddy may ask for, empty for sockets and for its remote endpoint, where any is
	// refused.
	origin string
	// secure is set for https.
	secure bool
}

// parseEndpoint parses the address of an admin endpoint: that of Caddy's option "admin", or a URL with http or https.
// What it makes of the former is what Caddy's own client does.
func parseEndpoint(address string) (endpoint, error) {
	for _, scheme := range []string{"http", "https"} {
		if strings.HasPrefix(address, scheme+"://") {
			return parseURL(address)
		}
	}
	if strings.HasPrefix(address, "/") {
		return endpoint{}, fmt.Errorf("the socket is written unix/%s", address)
	}
	parsed, err := caddy.ParseNetworkAddressWithDefaults(address, "tcp", defaultPort)
	switch {
	case err != nil:
		return endpoint{}, err
	case parsed.PortRangeSize() > 1:
		return endpoint{}, errors.New("it has more than one port")
	case parsed.IsUnixNetwork():
		// The permissions that may follow the path are for the server.
		path, _, _ := strings.Cut(parsed.Host, "|")
		return endpoint{network: "unix", address: path, base: "http://127.0.0.1"}, nil
	case parsed.Network != "tcp" && parsed.Network != "tcp4" && parsed.Network != "tcp6":
		return endpoint{}, fmt.Errorf("a client cannot use the network %s", parsed.Network)
	}
	// A listener without a host is on all addresses of its machine.
	host := net.JoinHostPort(cmp.Or(parsed.Host, "localhost"), strconv.FormatUint(uint64(parsed.StartPort), 10))
	return endpoint{network: parsed.Network, address: host, base: "http://" + host, origin: "http://" + host}, nil
}

// parseURL parses an address that is a URL.
func parseURL(address string) (endpoint, error) {
	parsed, err := url.Parse(address)
	if err != nil {
		return endpoint{}, errors.New("it is not a URL")
	}
	switch {
	case parsed.Hostname() == "":
		return endpoint{}, errors.New("it has no host")
	case parsed.User != nil:
		return endpoint{}, errors.New("it has a user name, which an admin endpoint does not ask for")
	case strings.Trim(parsed.Path, "/") != "" || parsed.RawQuery != "" || parsed.Fragment != "":
		return endpoint{}, errors.New("it must end after the port")
	}
	base := parsed.Scheme + "://" + parsed.Host
	if parsed.Scheme == "https" {
		address := net.JoinHostPort(parsed.Hostname(), cmp.Or(parsed.Port(), "443"))
		return endpoint{network: "tcp", address: address, base: base, secure: true}, nil
	}
	address = net.JoinHostPort(parsed.Hostname(), cmp.Or(parsed.Port(), "80"))
	return endpoint{network: "tcp", address: address, base: base, origin: base}, nil
}

// tlsFiles are the files of the flags for an admin endpoint with TLS, such as Caddy's remote one.
type tlsFiles struct {
	// cert and key are the client certificate with which the command proves who it is.
	cert, key string
	// ca are the certificates of the authorities that may have signed that of the server. Default: the system's.
	ca string
}

// config returns the TLS configuration of a client.
func (f tlsFiles) config() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if (f.cert == "") != (f.key == "") {
		return nil, errors.New("--tls-cert and --tls-key belong together: the certificate and its key")
	}
	if f.cert != "" {
		// The error names the file and never holds the key.
		certificate, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return nil, fmt.Errorf("--tls-cert %s, --tls-key %s: %w", f.cert, f.key, err)
		}
		config.Certificates = []tls.Certificate{certificate}
	}
	if f.ca != "" {
		text, err := os.ReadFile(f.ca)
		if err != nil {
			return nil, fmt.Errorf("--tls-ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--tls-ca: %s holds no certificate in the PEM format", f.ca)
		}
	}
	return config, nil
}

// transport returns what sends requests to the endpoint and waits for the beginning of an answer for as long as the
// timeout; 0 is no limit. Before anything is sent, connected is told each connection.
func (e endpoint) transport(files tlsFiles, timeout time.Duration, connected func(net.Conn)) (*http.Transport, error) {
	// There is no proxy between a command and an admin endpoint, whatever the environment says. A connection is used
	// once: a reload closes idle ones.
	transport := &http.Transport{DisableKeepAlives: true, ResponseHeaderTimeout: timeout}
	transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		connection, err := e.dial(ctx)
		if err == nil {
			connected(connection)
		}
		return connection, err
	}
	if !e.secure {
		if files != (tlsFiles{}) {
			return nil, errors.New("--tls-cert, --tls-key and --tls-ca are for an address that begins with https://")
		}
		return transport, nil
	}
	var err error
	transport.TLSClientConfig, err = files.config()
	return transport, err
}

// dial connects, again when the connection is reset.
func (e endpoint) dial(ctx context.Context) (connection net.Conn, err error) {
	for range dialAttempts {
		connection, err = new(net.Dialer).DialContext(ctx, e.network, e.address)
		if !errors.Is(err, syscall.ECONNRESET) {
			break
		}
	}
	return connection, err
}

// leavesTheMachine reports whether a connection goes to another machine.
func leavesTheMachine(connection net.Conn) bool {
	remote, ok := connection.RemoteAddr().(*net.TCPAddr)
	if !ok || remote.IP.IsLoopback() {
		return false
	}
	local, ok := connection.LocalAddr().(*net.TCPAddr)
	return !ok || !local.IP.Equal(remote.IP)
}
