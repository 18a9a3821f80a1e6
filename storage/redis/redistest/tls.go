// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// ServerName is the name in the certificates of servers, which are valid for all loopback addresses that servers have,
// too, as long as they are connected to by this name.
const ServerName = "redis.test"

// CA is an authority for certificates of servers and clients, in a directory.
type CA struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

// RunCA makes an authority for a test.
func RunCA(tb testing.TB) *CA {
	tb.Helper()
	ca, err := NewCA(tb.TempDir())
	if err != nil {
		tb.Fatal(err)
	}
	return ca
}

// NewCA makes an authority and certificates for servers and clients, and writes them to a directory.
func NewCA(dir string) (*CA, error) {
	ca := &CA{dir: dir, pool: x509.NewCertPool()}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	ca.key = key
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "redistest"}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	if ca.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	ca.pool.AddCert(ca.cert)
	if err := writePEM(ca.File(), "CERTIFICATE", der); err != nil {
		return nil, err
	}
	return ca, errors.Join(ca.issue(2, "server"), ca.issue(3, "client"))
}

// issue makes a certificate that servers and clients can use. Servers are clients of each other.
func (ca *CA) issue(serial int64, name string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name}, KeyUsage: x509.KeyUsageDigitalSignature,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    []string{ServerName, "localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, key.Public(), ca.key)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return errors.Join(writePEM(ca.file(name+".crt"), "CERTIFICATE", der),
		writePEM(ca.file(name+".key"), "PRIVATE KEY", private))
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

func (ca *CA) file(name string) string { return filepath.Join(ca.dir, name) }

// File returns the path of the authority's certificate.
func (ca *CA) File() string { return ca.file("ca.crt") }

// ClientFiles returns the paths of the certificate and the key of a client.
func (ca *CA) ClientFiles() (cert, key string) { return ca.file("client.crt"), ca.file("client.key") }

// Client returns what a client needs to connect, with or without its certificate.
func (ca *CA) Client(certificate bool) (*tls.Config, error) {
	config := &tls.Config{RootCAs: ca.pool, ServerName: ServerName, MinVersion: tls.VersionTLS12}
	if !certificate {
		return config, nil
	}
	pair, err := tls.LoadX509KeyPair(ca.ClientFiles())
	config.Certificates = []tls.Certificate{pair}
	return config, err
}
