// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"os"

	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/placeholder"
)

// RedisTLS says how a server is reached with TLS.
type RedisTLS struct {
	// A file with the certificates (PEM) of the authorities that the server's certificate may be signed by. Default:
	// those that the system trusts.
	CA string `json:"ca,omitempty"`

	// The name that the server's certificate must be for. Default: the host of the address.
	ServerName string `json:"server_name,omitempty"`

	// A file with the certificate (PEM) that is shown to the server. It needs a key. Default: none.
	Certificate string `json:"certificate,omitempty"`

	// A file with the key (PEM) of the certificate.
	Key string `json:"key,omitempty"`

	// Whether any certificate of the server is accepted. Whoever is between can then read and change everything. Only
	// for tests. Default: false.
	InsecureSkipVerify bool `json:"insecure_skip_verify,omitempty"`
}

// check returns an error when the options contradict each other.
func (t *RedisTLS) check() error {
	switch {
	case (t.Certificate == "") != (t.Key == ""):
		return errors.New("tls: a certificate for the client needs a key, and a key a certificate")
	case t.InsecureSkipVerify && t.CA != "":
		return errors.New("tls: with insecure_skip_verify the ca is not looked at; give one of the two")
	}
	return nil
}

// load returns the configuration for connections and digests of the files that it came from. Without options it is that
// for the authorities of the system.
func (t *RedisTLS) load() (*tls.Config, []string, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if t == nil {
		return config, nil, nil
	}
	var err error
	if config.ServerName, err = placeholder.Expand(t.ServerName); err != nil {
		return nil, nil, fmt.Errorf("server_name: %w", err)
	}
	config.InsecureSkipVerify = t.InsecureSkipVerify
	var digests []string
	if t.CA != "" {
		_, authorities, err := readFile(t.CA, &digests)
		if err != nil {
			return nil, nil, fmt.Errorf("ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(authorities) {
			return nil, nil, fmt.Errorf("ca: %s holds no certificate (PEM)%s", t.CA, placeholder.At(t.CA))
		}
	}
	if t.Certificate == "" {
		return config, digests, nil
	}
	certificateFile, certificate, err := readFile(t.Certificate, &digests)
	if err != nil {
		return nil, nil, fmt.Errorf("client: %w", err)
	}
	keyFile, key, err := readFile(t.Key, &digests)
	if err != nil {
		return nil, nil, fmt.Errorf("client: %w", err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, nil, fmt.Errorf("client: %s and %s: %w%s", t.Certificate, t.Key, err, placeholder.At(t.Certificate))
	}
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		// A certificate that was renewed since is shown to the server from its next connection on.
		if renewed, err := tls.LoadX509KeyPair(certificateFile, keyFile); err == nil {
			return &renewed, nil
		}
		return &pair, nil
	}
	return config, digests, nil
}

// readFile reads a file whose name may have placeholders, and adds the digest of its content.
func readFile(text string, digests *[]string) (name string, content []byte, err error) {
	if name, err = placeholder.Expand(text); err != nil {
		return "", nil, err
	}
	if content, err = os.ReadFile(name); err != nil {
		return "", nil, fmt.Errorf("%w%s", err, placeholder.At(text))
	}
	digest := sha256.Sum256(content)
	*digests = append(*digests, hex.EncodeToString(digest[:]))
	return name, content, nil
}
