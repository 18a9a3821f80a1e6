// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/storage"
)

//go:embed scripts/permissions.lua
var permissionsLua string

// permissionsScript is not kept by the server: it runs once.
var permissionsScript = rueidis.NewLuaScriptNoSha(permissionsLua)

// oldest is the oldest version of Redis that does. Each version of Valkey does.
const oldest = 7

// connectPause is for how long the store waits before it tries to reach the database for the first time again.
const connectPause = time.Second

func mistake(format string, args ...any) error { return &MistakeError{fmt.Sprintf(format, args...)} }

// clientOptions are those of the client.
func (s *Store) clientOptions() rueidis.ClientOption {
	o := rueidis.ClientOption{
		InitAddress: s.options.Addresses, Username: s.options.Username, Password: s.options.Password,
		TLSConfig: s.options.TLS, SelectDB: s.options.Database, ForceSingleClient: s.options.Topology == Standalone,
		ClientName: "caddy-moderation", ClientSetInfo: rueidis.DisableClientSetInfo,
		// A command whose time is over must not take its connection with it.
		AlwaysPipelining:  true,
		PipelineMultiplex: bits.Len(uint(s.options.Connections)) - 1,
		RingScaleEachConn: ringScale, ReadBufferEachConn: readBuffer, WriteBufferEachConn: readBuffer,
		CacheSizeEachConn: max(cacheBytes/s.options.Connections, 1<<20),
		ConnWriteTimeout:  s.options.writeTimeout(),
		DisableCache:      s.options.DisableCache,
		OnInvalidations:   s.invalidated,
		DialCtxFn:         s.link.dial,
	}
	if o.PipelineMultiplex == 0 {
		o.PipelineMultiplex = -1 // 0 would be the default
	}
	o.Dialer.Timeout, o.Dialer.KeepAlive = s.options.DialTimeout, time.Second
	o.ClusterOption.ShardsRefreshInterval = refreshInterval
	if s.options.Topology == Sentinel {
		o.Sentinel = rueidis.SentinelOption{
			MasterSet: s.options.Master, TLSConfig: s.options.TLS, Dialer: o.Dialer,
			Username: s.options.SentinelUsername, Password: s.options.SentinelPassword,
			TopologyRefreshInterval: refreshInterval,
		}
	}
	return o
}

const (
	// cacheBytes is how much memory the client's cache may take for each server.
	cacheBytes = 32 << 20
	// refreshInterval is how often the client looks up the masters, beside what it learns from errors and sentinels.
	refreshInterval = 2 * time.Second
)

// dial makes a connection, and tells that it does; see [bounded].
func (l *link) dial(ctx context.Context, address string, d *net.Dialer, config *tls.Config) (net.Conn, error) {
	l.dialing.Add(1)
	defer l.dialing.Add(-1)
	return dial(ctx, address, d, config)
}

// dial makes a connection to "host:port" or to the socket at a path.
func dial(ctx context.Context, address string, d *net.Dialer, config *tls.Config) (net.Conn, error) {
	if strings.HasPrefix(address, "/") {
		return d.DialContext(ctx, "unix", address)
	}
	if config == nil {
		return d.DialContext(ctx, "tcp", address)
	}
	return (&tls.Dialer{NetDialer: d, Config: config}).DialContext(ctx, "tcp", address)
}

// connect reaches the database for the first time.
func (s *Store) connect() error {
	if err := s.inspect(); err != nil {
		return err
	}
	o := s.clientOptions()
	made, err := rueidis.NewClient(o)
	if errors.Is(err, rueidis.ErrNoCache) && !o.DisableCache {
		if made != nil {
			made.Close()
		}
		if strings.Contains(err.Error(), "NOPERM") {
			return mistake("the user may not run \"client tracking\", with which the server tells of changed keys: " +
				"give it the permissions +client|tracking and +client|caching, or configure \"tracking off\"")
		}
		s.logger.Warn("the server does not tell of changed keys and accounts: a node sees a change of another node " +
			"after a second at most")
		o.DisableCache = true
		made, err = rueidis.NewClient(o)
	}
	if err != nil {
		if made != nil {
			made.Close()
		}
		return s.diagnose(strings.Join(s.options.Addresses, ", "), err)
	}
	s.link.client.Store(&client{made, !o.DisableCache})
	// The breaker is open if the database could not be reached when the store was opened.
	ctx, cancel := s.link.begin(context.WithValue(context.Background(), unbroken{}, true))
	defer cancel()
	err = s.begin(ctx)
	if err != nil {
		s.link.client.Store(nil)
		made.Close()
	}
	return err
}

// begin does what is done once the database is reached.
func (s *Store) begin(ctx context.Context) error {
	if err := s.checkPermissions(ctx); err != nil {
		return err
	}
	s.checkEviction(ctx)
	return s.identify(ctx)
}

// keepConnecting tries to reach the database for the first time until it is reached or the store is closed.
func (s *Store) keepConnecting() {
	for {
		select {
		case <-s.closing:
			return
		case <-time.After(connectPause):
		}
		err := s.connect()
		if err == nil {
			s.mistake.Store(nil)
			s.logger.Info("the database is reached")
			return
		}
		if refusesOpen(err) {
			if s.mistake.Swap(&err) == nil {
				s.logger.Error("the database is reached but cannot be used", zap.Error(err))
			}
		}
	}
}

// server is what a server says of itself.
type server struct{ name, version, mode, role string }

// inspect asks the servers at the addresses what they are. It returns a mistake if one of them cannot be used, and an
// error that wraps storage.ErrUnavailable if none answers.
func (s *Store) inspect() error {
	var err error
	reached := false
	for _, address := range s.options.Addresses {
		one := s.inspectOne(address)
		if mistaken(one) != nil {
			return one
		}
		reached = reached || one == nil
		err = errors.Join(err, one)
	}
	if reached {
		return nil
	}
	return err
}

func (s *Store) inspectOne(address string) error {
	user, password := s.options.Username, s.options.Password
	if s.options.Topology == Sentinel {
		user, password = s.options.SentinelUsername, s.options.SentinelPassword
	}
	return s.with(address, user, password, func(ctx context.Context, c rueidis.Client) error {
		is, err := s.hello(ctx, c)
		if err != nil {
			return err
		}
		if s.options.Topology != Sentinel {
			return s.checkServer(address, is)
		}
		if is.mode != "sentinel" {
			return mistake("%s is no sentinel but a server: give the addresses of the sentinels", address)
		}
		master, err := c.Do(ctx, c.B().SentinelGetMasterAddrByName().Master(s.options.Master).Build()).AsStrSlice()
		if rueidis.IsRedisNil(err) {
			return mistake("the sentinel at %s knows no master %q", address, s.options.Master)
		}
		if err != nil || len(master) != 2 {
			return err
		}
		return s.inspectMaster(net.JoinHostPort(master[0], master[1]))
	})
}

// inspectMaster asks the master that a sentinel names. That it cannot be reached is no error: another one may be.
func (s *Store) inspectMaster(address string) error {
	err := s.with(address, s.options.Username, s.options.Password,
		func(ctx context.Context, c rueidis.Client) error {
			is, err := s.hello(ctx, c)
			if err != nil {
				return err
			}
			is.role = "master" // it may be about to change
			return s.checkServer(address, is)
		})
	if mistaken(err) != nil {
		return err
	}
	return nil
}

// with connects to one server and maps errors.
func (s *Store) with(
	address, user, password string, do func(ctx context.Context, c rueidis.Client) error,
) error {
	o := rueidis.ClientOption{
		InitAddress: []string{address}, Username: user, Password: password, TLSConfig: s.options.TLS,
		ForceSingleClient: true, DisableCache: true, DisableRetry: true, PipelineMultiplex: -1,
		ClientSetInfo: rueidis.DisableClientSetInfo, ConnWriteTimeout: s.options.DialTimeout,
		DialCtxFn: dial,
	}
	o.Dialer.Timeout = s.options.DialTimeout
	c, err := rueidis.NewClient(o)
	if c != nil {
		defer c.Close()
	}
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), s.options.DialTimeout)
		defer cancel()
		err = do(ctx, c)
	}
	return s.diagnose(address, err)
}

// hello asks a server what it is.
func (s *Store) hello(ctx context.Context, c rueidis.Client) (server, error) {
	answer, err := c.Do(ctx, c.B().Arbitrary("HELLO").Build()).AsStrMap()
	refused, ok := rueidis.IsRedisErr(err)
	if ok && strings.Contains(strings.ToLower(refused.Error()), "unknown command") {
		return server{}, mistake("the server is too old: Redis %d or Valkey is needed", oldest)
	}
	if err != nil {
		return server{}, err
	}
	return server{answer["server"], answer["version"], answer["mode"], answer["role"]}, nil
}

// checkServer returns a mistake if a server cannot be used as it is configured.
func (s *Store) checkServer(address string, is server) error {
	major, _, _ := strings.Cut(is.version, ".")
	if n, err := strconv.Atoi(major); is.name == "redis" && (err != nil || n < oldest) {
		return mistake("the server at %s is Redis %s: Redis %d or Valkey is needed", address, is.version, oldest)
	}
	cluster := s.options.Topology == Cluster
	switch {
	case is.mode == "sentinel":
		return mistake("%s is a sentinel: configure \"sentinel\" with the name of its master", address)
	case is.mode == "cluster" && !cluster:
		return mistake("the server at %s belongs to a cluster: configure \"cluster\"", address)
	case is.mode == "standalone" && cluster:
		return mistake("the server at %s belongs to no cluster: do not configure \"cluster\"", address)
	case is.role == "replica" && !cluster:
		return mistake("the server at %s is a replica, which cannot be written to: give the address of its master, "+
			"or configure \"sentinel\"", address)
	}
	return nil
}

// diagnose says what an error in reaching a server is: a mistake of the configuration or one that may pass.
func (s *Store) diagnose(address string, err error) error {
	var name x509.HostnameError
	var authority x509.UnknownAuthorityError
	var certificate x509.CertificateInvalidError
	var header tls.RecordHeaderError
	refused, isAnswer := rueidis.IsRedisErr(err)
	switch {
	case err == nil || mistaken(err) != nil || errors.Is(err, storage.ErrUnavailable):
		return err
	case isAnswer:
		if m := s.refusal(address, refused.Error()); m != nil {
			return m
		}
		return mapError(err)
	case errors.As(err, &header):
		return mistake("the server at %s does not speak TLS", address)
	case errors.As(err, &name), errors.As(err, &authority), errors.As(err, &certificate):
		return mistake("the certificate of the server at %s is not accepted: %s", address, firstLine(err))
	case strings.Contains(err.Error(), "remote error: tls"):
		return mistake("the server at %s refused the TLS connection: %s", address, firstLine(err))
	case strings.Contains(err.Error(), "unknown message type"):
		return mistake("the server at %s does not speak the protocol of Redis", address)
	case s.options.TLS == nil && closedAtOnce(err) && speaksTLS(address, s.options.DialTimeout):
		return mistake("the server at %s speaks TLS: configure \"tls\"", address)
	case s.options.TLS != nil && closedAtOnce(err):
		if alert := alertOf(address, s.options.TLS, s.options.DialTimeout); alert != nil {
			return mistake("the server at %s refused the TLS connection: %s", address, firstLine(alert))
		}
	case s.options.TLS != nil && speaksPlainly(address, min(s.options.DialTimeout, time.Second)):
		return mistake("the server at %s does not speak TLS", address)
	}
	return mapError(err)
}

// refusal returns the mistake because of which a server gave an answer, nil if the answer may be another one later.
func (s *Store) refusal(address, answer string) error {
	word, _, _ := strings.Cut(strings.TrimPrefix(answer, "ERR "), " ")
	switch {
	case word == "WRONGPASS":
		return mistake("the server at %s does not accept the user name or the password", address)
	case word == "NOAUTH":
		return mistake("the server at %s asks for a password: configure \"password\", and \"username\" for a user "+
			"other than the default one", address)
	case word == "NOPERM", strings.Contains(answer, "The user executing the script"):
		return mistake("the server at %s: %s", address, explanations["NOPERM"])
	case strings.Contains(answer, "DB index is out of range"), strings.Contains(answer, "SELECT is not allowed"):
		return mistake("the server at %s has no database %d", address, s.options.Database)
	}
	return nil
}

// closedAtOnce reports whether an error says that the server has closed the connection.
func closedAtOnce(err error) bool {
	return errors.Is(err, io.EOF) || strings.Contains(err.Error(), "connection reset") ||
		strings.Contains(err.Error(), "broken pipe")
}

// speaksTLS reports whether a server answers a TLS handshake. Nothing is sent over the connection.
func speaksTLS(address string, timeout time.Duration) bool {
	c, err := handshake(address, &tls.Config{InsecureSkipVerify: true}, timeout)
	if err == nil {
		_ = c.Close()
		return true
	}
	return strings.Contains(err.Error(), "remote error: tls")
}

// handshake makes a TLS connection.
func handshake(address string, config *tls.Config, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", address)
}

// alertOf returns why a server ends TLS connections, nil if it does not say. It may do so after the handshake, and what
// was written meanwhile may hide it. Nothing is sent over the connection.
func alertOf(address string, config *tls.Config, timeout time.Duration) error {
	c, err := handshake(address, config, timeout)
	if err == nil {
		defer func() { _ = c.Close() }()
		_ = c.SetDeadline(time.Now().Add(timeout))
		_, err = c.Read(make([]byte, 1))
	}
	if err != nil && strings.Contains(err.Error(), "remote error: tls") {
		return err
	}
	return nil
}

// speaksPlainly reports whether a server answers without TLS. One that does so waits for more of what begins a
// connection with TLS, and does not answer that at all.
func speaksPlainly(address string, timeout time.Duration) bool {
	c, err := (&net.Dialer{Timeout: timeout}).DialContext(context.Background(), "tcp", address)
	if err != nil {
		return false
	}
	defer c.Close()
	first := make([]byte, 1)
	if err := c.SetDeadline(time.Now().Add(timeout)); err != nil {
		return false
	}
	if _, err := c.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	_, err = io.ReadFull(c, first)
	return err == nil && (first[0] == '+' || first[0] == '-')
}

// checkPermissions returns a mistake if the user may not run what the scripts run.
func (s *Store) checkPermissions(ctx context.Context) error {
	c, err := s.link.connected()
	if err != nil {
		return err
	}
	answer := permissionsScript.Exec(ctx, c, []string{s.names.probe()}, nil)
	refused, err := answer.AsStrSlice()
	if err != nil {
		return s.diagnose(strings.Join(s.options.Addresses, ", "), err)
	}
	if s.options.Replicas > 0 {
		// It answers at once: it waits for none.
		err := c.Do(ctx, c.B().Wait().Numreplicas(0).Timeout(1).Build()).Error()
		if err != nil && strings.HasPrefix(err.Error(), "NOPERM") {
			refused = append(refused, "wait")
		}
	}
	if len(refused) > 0 {
		return mistake("the user may not run these commands on names that begin with %q: %s", s.names.prefix,
			strings.Join(refused, ", "))
	}
	return nil
}

// checkEviction warns if the server may forget what must be kept.
func (s *Store) checkEviction(ctx context.Context) {
	c, err := s.link.connected()
	if err != nil {
		return
	}
	answer, err := c.Do(ctx, c.B().Info().Section("memory").Build()).ToString()
	if err != nil {
		return // the user need not have the permission
	}
	for line := range strings.Lines(answer) {
		policy, ok := strings.CutPrefix(strings.TrimSpace(line), "maxmemory_policy:")
		if ok && policy != "noeviction" {
			s.logger.Warn("the server may evict accounts, keys and counts: set its maxmemory-policy to noeviction",
				zap.String("maxmemory-policy", policy))
		}
	}
}
